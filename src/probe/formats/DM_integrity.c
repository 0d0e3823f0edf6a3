/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* DM_integrity: a device-mapper integrity target. Source: kernel drivers/md/dm-integrity.c (struct
 * superblock). */
#include "probe/format.h"

enum { SB_VERSION = 8 };

static const struct blkup_magic magics[] = { { .len = 8, .bytes = "integrt\0" } };

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes sb;

        (void) hit;
        BLKUP_FETCH(v, 0, SB_VERSION + 1, &sb);
        if (blkup_u8_at(sb, SB_VERSION) == 0)
                return blkup_refuse(v, "version is 0");
        blkup_found_evidence(ret, 64);
        blkup_found_u64(ret, "VERSION", blkup_u8_at(sb, SB_VERSION));
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_DM_integrity;
const struct blkup_format blkup_format_DM_integrity = {
        .name = "DM_integrity", .usage = BLKUP_USAGE_CRYPTO,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
