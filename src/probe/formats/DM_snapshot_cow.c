/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* DM_snapshot_cow: where a device-mapper snapshot keeps what it copied. Source: kernel
 * drivers/md/dm-snap-persistent.c. */
#include "probe/format.h"

static const struct blkup_magic magics[] = { { .len = 4, .bytes = "SnAp" } };

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        (void) v;
        (void) hit;
        blkup_found_evidence(ret, 32);
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_DM_snapshot_cow;
const struct blkup_format blkup_format_DM_snapshot_cow = {
        .name = "DM_snapshot_cow", .usage = BLKUP_USAGE_OTHER,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
