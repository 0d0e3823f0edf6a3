/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* JFS. Source: kernel fs/jfs/jfs_superblock.h (struct jfs_superblock). */
#include "probe/formats/fields.h"

#define SB_AT 32768

/* Offsets in the superblock, little-endian. */
enum {
        SB_BLOCK_BYTES = 16,
        SB_BLOCK_LOG = 20,        /* 16 bits */
        SB_BLOCK_SECTOR_LOG = 22, /* 16 bits; the difference of the two other logarithms */
        SB_SECTOR_BYTES = 24,
        SB_SECTOR_LOG = 28,       /* 16 bits */
        SB_UUID = 136,
        SB_LABEL = 152,           /* 16 bytes */
};

static bool is_size(uint32_t bytes, unsigned log)
{
        return log <= 31 && bytes == UINT32_C(1) << log;
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        unsigned block_log, sector_log;
        struct blkup_bytes sb;

        (void) hit;
        BLKUP_FETCH(v, SB_AT, 184, &sb);
        block_log = blkup_le16_at(sb, SB_BLOCK_LOG);
        sector_log = blkup_le16_at(sb, SB_SECTOR_LOG);
        if (!is_size(blkup_le32_at(sb, SB_BLOCK_BYTES), block_log) ||
            !is_size(blkup_le32_at(sb, SB_SECTOR_BYTES), sector_log))
                return blkup_refuse(v, "a size and its logarithm differ");
        if (block_log < sector_log || block_log - sector_log != blkup_le16_at(sb, SB_BLOCK_SECTOR_LOG))
                return blkup_refuse(v, "block and sector size do not fit");
        blkup_found_evidence(ret, 32 + 2 * 40 + 16);
        blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(sb, SB_LABEL, 16));
        blkup_found_uuid(ret, "UUID", blkup_slice_at(sb, SB_UUID, 16));
        blkup_found_block_size(ret, blkup_le32_at(sb, SB_BLOCK_BYTES));
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = { { .at = SB_AT, .len = 4, .bytes = "JFS1" } };

extern const struct blkup_format blkup_format_jfs;
const struct blkup_format blkup_format_jfs = {
        .name = "jfs", .usage = BLKUP_USAGE_FILESYSTEM, .min_bytes = UINT64_C(16) << 20, .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
