/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Promise FastTrak: a text at one of thirteen places near the end (../shared/probe/signatures.tsv). */
#include "probe/format.h"

#define ROW(n) \
        { .at = (n) * 512u, .anchor = BLKUP_FROM_END_512, .len = 24, .bytes = "Promise Technology, Inc." }
/* Places in sectors from the end, in the order they are tried. */
static const struct blkup_magic magics[] = {
        ROW(63),  ROW(255), ROW(256), ROW(16),  ROW(399), ROW(591),  ROW(675),
        ROW(735), ROW(911), ROW(974), ROW(991), ROW(951), ROW(3087),
};

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        (void) v;
        (void) hit;
        blkup_found_evidence(ret, 192);
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_promise_fasttrack_raid_member;
const struct blkup_format blkup_format_promise_fasttrack_raid_member = {
        .name = "promise_fasttrack_raid_member", .usage = BLKUP_USAGE_RAID, .min_bytes = 262144,
        .flags = BLKUP_WHOLE_ONLY,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
