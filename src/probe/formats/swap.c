/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* swap: areas of version 0 and 1. Source: kernel include/linux/swap.h, union swap_header. */
#include "probe/formats/fields.h"
#include "probe/formats/swap.h"

enum { HDR_VERSION = 0, HDR_LAST_PAGE = 4, HDR_UUID = 12, HDR_LABEL = 28 };
enum { HDR_PADDING_32 = 172, HDR_PADDING_33 = 176 };

#define ROWS(page)                                                  \
        { .within = (page) - 10, .len = 10, .bytes = "SWAP-SPACE" },  \
        { .within = (page) - 10, .len = 10, .bytes = "SWAPSPACE2" },
static const struct blkup_magic magics[] = { BLKUP_SWAP_PAGES(ROWS) };

void blkup_swap_label_uuid(struct blkup_bytes header, struct blkup_found *ret)
{
        /* Words 32 and 33 of the padding are not zero when an old mkswap left random memory there. */
        if (blkup_le32_at(header, HDR_PADDING_32) != 0 || blkup_le32_at(header, HDR_PADDING_33) != 0)
                return;
        blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(header, HDR_LABEL, 16));
        blkup_found_uuid(ret, "UUID", blkup_slice_at(header, HDR_UUID, 16));
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes head, header;
        uint64_t page = hit->at + 10, last;
        bool little;

        blkup_view_want(v, BLKUP_SWAP_HEADER_AT, BLKUP_SWAP_HEADER_LEN);
        BLKUP_FETCH(v, 0, 8, &head);
        if (blkup_equal_at(head, 0, BLKUP_TUXONICE_MAGIC, 8))
                return blkup_refuse(v, "holds a TuxOnIce image");
        blkup_found_evidence(ret, 80);
        if (hit->row % 2 == 0) {
                blkup_found_string(ret, "VERSION", "0");
                return BLKUP_FOUND;
        }
        BLKUP_FETCH(v, BLKUP_SWAP_HEADER_AT, BLKUP_SWAP_HEADER_LEN, &header);
        little = blkup_le32_at(header, HDR_VERSION) == 1;
        if (!little && blkup_be32_at(header, HDR_VERSION) != 1)
                return blkup_refuse(v, "version is not 1");
        last = little ? blkup_le32_at(header, HDR_LAST_PAGE) : blkup_be32_at(header, HDR_LAST_PAGE);
        if (last == 0)
                return blkup_refuse(v, "no page to swap to");
        blkup_found_string(ret, "ENDIANNESS", little ? "LITTLE" : "BIG");
        blkup_found_u64(ret, "FSBLOCKSIZE", page);
        blkup_found_u64(ret, "FSSIZE", page * last);
        blkup_found_u64(ret, "FSLASTBLOCK", last + 1);
        blkup_swap_label_uuid(header, ret);
        blkup_found_string(ret, "VERSION", "1");
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_swap;
const struct blkup_format blkup_format_swap = {
        .name = "swap", .usage = BLKUP_USAGE_OTHER, .min_bytes = BLKUP_SWAP_MIN_BYTES,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
