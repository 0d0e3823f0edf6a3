/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* EXFS: XFS of another name and without checksums. Fields and rules: ../shared/probe/tags.tsv. */
#include "probe/formats/fields.h"
#include "probe/formats/xfs.h"

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes sb;
        enum blkup_outcome o;

        (void) hit;
        BLKUP_FETCH(v, 0, 512, &sb);
        o = blkup_xfs_check_geometry(v, sb);
        if (o != BLKUP_FOUND)
                return o;
        blkup_found_evidence(ret, 32 + 3 * 20);
        blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(sb, BLKUP_XFS_LABEL, 12));
        blkup_found_uuid(ret, "UUID", blkup_slice_at(sb, BLKUP_XFS_UUID, 16));
        blkup_found_block_size(ret, blkup_be32_at(sb, BLKUP_XFS_BLOCK_BYTES));
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = { { .len = 4, .bytes = "EXFS" } };

extern const struct blkup_format blkup_format_exfs;
const struct blkup_format blkup_format_exfs = {
        .name = "exfs",
        .usage = BLKUP_USAGE_FILESYSTEM,
        .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics),
        .check = check,
};
