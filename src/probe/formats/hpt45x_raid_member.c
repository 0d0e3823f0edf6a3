/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* HighPoint HPT45x: four bytes eleven sectors before the end (../shared/probe/signatures.tsv). */
#include "probe/format.h"

static const struct blkup_magic magics[] = {
        { .at = 11 * 512, .anchor = BLKUP_FROM_END_512, .len = 4, .bytes = "\xf3\x16\x78\x5a" },
        { .at = 11 * 512, .anchor = BLKUP_FROM_END_512, .len = 4, .bytes = "\xfd\x16\x78\x5a" },
};

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        (void) v;
        (void) hit;
        blkup_found_evidence(ret, 32);
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_hpt45x_raid_member;
const struct blkup_format blkup_format_hpt45x_raid_member = {
        .name = "hpt45x_raid_member", .usage = BLKUP_USAGE_RAID, .min_bytes = 65536,
        .flags = BLKUP_WHOLE_ONLY,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
