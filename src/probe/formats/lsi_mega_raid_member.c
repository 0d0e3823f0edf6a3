/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* LSI MegaRAID: six bytes in the last sector; nothing more is known of it (../shared/probe/tags.tsv). */
#include "probe/format.h"

static const struct blkup_magic magics[] = {
        { .at = 512, .anchor = BLKUP_FROM_END_512, .len = 6, .bytes = "$XIDE$" },
};

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        (void) v;
        (void) hit;
        blkup_found_evidence(ret, 48);
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_lsi_mega_raid_member;
const struct blkup_format blkup_format_lsi_mega_raid_member = {
        .name = "lsi_mega_raid_member", .usage = BLKUP_USAGE_RAID, .min_bytes = 65536,
        .flags = BLKUP_WHOLE_ONLY,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
