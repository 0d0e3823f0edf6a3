/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ceph_bluestore: a block device of a Ceph OSD, which starts with a line of text (Ceph,
 * BlueStore::_write_bdev_label). */
#include "probe/format.h"

static const struct blkup_magic magics[] = { { .len = 22, .bytes = "bluestore block device" } };

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        (void) v;
        (void) hit;
        blkup_found_evidence(ret, 176);
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_ceph_bluestore;
const struct blkup_format blkup_format_ceph_bluestore = {
        .name = "ceph_bluestore", .usage = BLKUP_USAGE_OTHER,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
