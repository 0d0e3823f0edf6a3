/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* OCFS2. Source: kernel fs/ocfs2/ocfs2_fs.h (struct ocfs2_dinode, ocfs2_super_block): inode 2, by the block
 * size. */
#include "probe/formats/fields.h"

/* Offsets in the superblock's inode, little-endian. */
enum {
        SB_MAJOR = 192, /* 16 bits */
        SB_MINOR = 194, /* 16 bits */
        SB_LOG_BLOCK_SIZE = 248,
        SB_LABEL = 272, /* 64 bytes */
        SB_UUID = 336,
        SB_USED = 352,
};

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes sb;
        uint32_t log;

        BLKUP_FETCH(v, hit->base, SB_USED, &sb);
        blkup_found_evidence(ret, 48);
        blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(sb, SB_LABEL, 64));
        blkup_found_uuid(ret, "UUID", blkup_slice_at(sb, SB_UUID, 16));
        blkup_found_version(ret, blkup_le16_at(sb, SB_MAJOR), blkup_le16_at(sb, SB_MINOR));
        log = blkup_le32_at(sb, SB_LOG_BLOCK_SIZE);
        if (log < 32)
                blkup_found_block_size(ret, UINT64_C(1) << log);
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = {
        { .at = 1024, .len = 6, .bytes = "OCFSV2" },
        { .at = 2048, .len = 6, .bytes = "OCFSV2" },
        { .at = 4096, .len = 6, .bytes = "OCFSV2" },
        { .at = 8192, .len = 6, .bytes = "OCFSV2" },
};

extern const struct blkup_format blkup_format_ocfs2;
const struct blkup_format blkup_format_ocfs2 = {
        .name = "ocfs2", .usage = BLKUP_USAGE_FILESYSTEM, .min_bytes = 14336000, .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
