/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * swsuspend: a hibernation image on a swap area, whose magic the kernel replaced when it wrote the image.
 * Source: kernel kernel/power/swap.c (S1SUSPEND), the magics of its relatives:
 * ../shared/probe/signatures.tsv.
 */
#include "probe/formats/swap.h"

#define ROWS(page)                                                  \
        { .within = (page) - 10, .len = 9, .bytes = "S1SUSPEND" },   \
        { .within = (page) - 10, .len = 9, .bytes = "S2SUSPEND" },   \
        { .within = (page) - 10, .len = 9, .bytes = "ULSUSPEND" },   \
        { .within = (page) - 10, .len = 10, .bytes = "LINHIB0001" },
static const struct blkup_magic magics[] = {
        { .within = 0, .len = 8, .bytes = BLKUP_TUXONICE_MAGIC },
        BLKUP_SWAP_PAGES(ROWS)
};
static const char *const versions[] = { "s1suspend", "s2suspend", "ulsuspend", "linhib0001" };

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes header;

        BLKUP_FETCH(v, BLKUP_SWAP_HEADER_AT, BLKUP_SWAP_HEADER_LEN, &header);
        blkup_found_evidence(ret, 64);
        blkup_swap_label_uuid(header, ret);
        blkup_found_string(ret, "VERSION", hit->row == 0 ? "tuxonice" : versions[(hit->row - 1) % 4]);
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_swsuspend;
const struct blkup_format blkup_format_swsuspend = {
        .name = "swsuspend", .usage = BLKUP_USAGE_OTHER, .min_bytes = BLKUP_SWAP_MIN_BYTES,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
