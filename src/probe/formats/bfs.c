/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The Boot File System of UnixWare. Source: kernel include/uapi/linux/bfs_fs.h (BFS_MAGIC). */
#include "probe/formats/fields.h"

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        (void) v;
        (void) hit;
        blkup_found_evidence(ret, 32);
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = { { .len = 4, .bytes = "\xce\xfa\xad\x1b" } };

extern const struct blkup_format blkup_format_bfs;
const struct blkup_format blkup_format_bfs = {
        .name = "bfs",
        .usage = BLKUP_USAGE_FILESYSTEM,
        .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics),
        .check = check,
};
