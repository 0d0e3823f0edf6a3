/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * XFS and its relative EXFS. Source: "XFS Algorithms & Data Structures", 3rd edition (superblocks), and the
 * kernel's fs/xfs/libxfs/xfs_format.h for the limits; which fields are compared: ../shared/probe/tags.tsv.
 */
#include "probe/formats/fields.h"
#include "probe/formats/xfs.h"

/* Offsets in the superblock that only the rules look at. */
enum {
        SB_LOG_START = 48,         /* block, 64 bits; 0 = the log is on another device */
        SB_RT_EXTENT_BLOCKS = 80,
        SB_AG_BLOCKS = 84,
        SB_AG_COUNT = 88,
        SB_LOG_BLOCKS = 96,
        SB_VERSION = 100,          /* 16 bits */
        SB_INODE_BYTES = 104,      /* 16 bits */
        SB_BLOCK_LOG = 120,        /* 8 bits each from here */
        SB_SECTOR_LOG = 121,
        SB_INODE_LOG = 122,
        SB_INODES_PER_BLOCK_LOG = 123,
        SB_INODE_MAX_PERCENT = 127,
        SB_FEATURES2 = 200,
        SB_CHECKSUM = 224,         /* little-endian, version 5 only */
};

#define VERSION_NUMBER 0x000fu
#define VERSION_MORE_BITS 0x8000u /* features2 is valid */
#define FEATURES2_CRC 0x0100u

#define MIN_AG_BLOCKS 64u
#define MIN_RT_EXTENT_BYTES (UINT64_C(4) << 10)
#define MAX_RT_EXTENT_BYTES (UINT64_C(1) << 30)

static bool is_size(uint64_t bytes, unsigned log, uint64_t min, uint64_t max)
{
        return bytes >= min && bytes <= max && log < 32 && bytes == UINT64_C(1) << log;
}

enum blkup_outcome blkup_xfs_check_geometry(struct blkup_view *v, struct blkup_bytes sb)
{
        uint64_t block = blkup_be32_at(sb, BLKUP_XFS_BLOCK_BYTES),
                 blocks = blkup_be64_at(sb, BLKUP_XFS_BLOCKS);
        uint64_t ags = blkup_be32_at(sb, SB_AG_COUNT), ag_blocks = blkup_be32_at(sb, SB_AG_BLOCKS);
        uint64_t rt_bytes = blkup_be32_at(sb, SB_RT_EXTENT_BLOCKS) * block;
        unsigned block_log = blkup_u8_at(sb, SB_BLOCK_LOG), inode_log = blkup_u8_at(sb, SB_INODE_LOG);

        if (!is_size(blkup_be16_at(sb, BLKUP_XFS_SECTOR_BYTES), blkup_u8_at(sb, SB_SECTOR_LOG), 512, 32768))
                return blkup_refuse(v, "sector size is not 512 to 32768");
        if (!is_size(block, block_log, 512, 65536))
                return blkup_refuse(v, "block size is not 512 to 65536");
        if (!is_size(blkup_be16_at(sb, SB_INODE_BYTES), inode_log, 256, 2048))
                return blkup_refuse(v, "inode size is not 256 to 2048");
        if (block_log < inode_log || block_log - inode_log != blkup_u8_at(sb, SB_INODES_PER_BLOCK_LOG))
                return blkup_refuse(v, "inodes do not fit blocks");
        if (rt_bytes < MIN_RT_EXTENT_BYTES || rt_bytes > MAX_RT_EXTENT_BYTES)
                return blkup_refuse(v, "real-time extent is not 4 KiB to 1 GiB");
        if (blkup_u8_at(sb, SB_INODE_MAX_PERCENT) > 100)
                return blkup_refuse(v, "more than all space for inodes");
        /* Two factors of 32 bits and 64 blocks: no overflow. */
        if (ags == 0 || blocks < (ags - 1) * ag_blocks + MIN_AG_BLOCKS || blocks > ags * ag_blocks)
                return blkup_refuse(v, "blocks do not fit allocation groups");
        return BLKUP_FOUND;
}

static enum blkup_outcome check_checksum(struct blkup_view *v, struct blkup_bytes head)
{
        static const uint8_t hole[4];
        size_t len = blkup_be16_at(head, BLKUP_XFS_SECTOR_BYTES);
        struct blkup_bytes sb;
        uint32_t crc;

        if (!(blkup_be16_at(head, SB_VERSION) & VERSION_MORE_BITS) ||
            !(blkup_be32_at(head, SB_FEATURES2) & FEATURES2_CRC))
                return blkup_refuse(v, "version 5 without checksums");
        BLKUP_FETCH(v, 0, len, &sb);
        crc = blkup_crc32c(~0U, sb.data, SB_CHECKSUM);
        crc = blkup_crc32c(crc, hole, sizeof(hole));
        crc = ~blkup_crc32c(crc, sb.data + SB_CHECKSUM + 4, len - SB_CHECKSUM - 4);
        if (crc != blkup_le32_at(sb, SB_CHECKSUM))
                return blkup_damaged(v, "superblock checksum mismatch");
        return BLKUP_FOUND;
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        uint64_t block, blocks, log_blocks, bytes;
        bool has_checksum;
        struct blkup_bytes sb;
        enum blkup_outcome o;

        (void) hit;
        BLKUP_FETCH(v, 0, 512, &sb);
        o = blkup_xfs_check_geometry(v, sb);
        if (o != BLKUP_FOUND)
                return o;
        has_checksum = (blkup_be16_at(sb, SB_VERSION) & VERSION_NUMBER) == 5;
        if (has_checksum) {
                o = check_checksum(v, sb);
                if (o != BLKUP_FOUND)
                        return o;
        }

        block = blkup_be32_at(sb, BLKUP_XFS_BLOCK_BYTES);
        blocks = blkup_be64_at(sb, BLKUP_XFS_BLOCKS);
        log_blocks = blkup_be64_at(sb, SB_LOG_START) ? blkup_be32_at(sb, SB_LOG_BLOCKS) : 0;
        blkup_found_evidence(ret, 32 + 3 * 20 + (has_checksum ? 32 : 0));
        blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(sb, BLKUP_XFS_LABEL, 12));
        blkup_found_uuid(ret, "UUID", blkup_slice_at(sb, BLKUP_XFS_UUID, 16));
        if (blkup_sub(blocks, log_blocks, &bytes) && blkup_mul(bytes, block, &bytes))
                blkup_found_u64(ret, "FSSIZE", bytes);
        blkup_found_u64(ret, "FSLASTBLOCK", blocks);
        blkup_found_u64(ret, "FSBLOCKSIZE", block);
        blkup_found_u64(ret, "BLOCK_SIZE", blkup_be16_at(sb, BLKUP_XFS_SECTOR_BYTES));
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = { { .len = 4, .bytes = "XFSB" } };

extern const struct blkup_format blkup_format_xfs;
const struct blkup_format blkup_format_xfs = {
        .name = "xfs",
        .usage = BLKUP_USAGE_FILESYSTEM,
        .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics),
        .check = check,
};
