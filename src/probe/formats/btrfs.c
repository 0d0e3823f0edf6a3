/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Btrfs. Source: kernel include/uapi/linux/btrfs_tree.h (struct btrfs_super_block) and fs/btrfs/disk-io.c for
 * what the checksum covers. On a zoned device the superblock is a log in the first two zones; only the place
 * of a device without zones is looked at here.
 */
#include <string.h>

#include "base/hash.h"
#include "probe/formats/fields.h"

#define SB_AT UINT64_C(65536)
#define SB_LEN 4096

/* Offsets in the superblock, little-endian. */
enum {
        SB_CHECKSUM = 0,        /* up to 32 bytes, over all that is behind them */
        SB_FSID = 32,
        SB_MAGIC = 64,
        SB_TOTAL_BYTES = 112,
        SB_SECTOR_BYTES = 144,
        SB_CHECKSUM_TYPE = 196, /* 16 bits */
        SB_DEVICE_UUID = 267,   /* of the item that describes this device */
        SB_LABEL = 299,         /* 256 bytes */
};
enum checksum_type { CHECKSUM_CRC32C = 0, CHECKSUM_XXHASH = 1, CHECKSUM_SHA256 = 2 };

/* Bits that were verified, 0 when the checksum is wrong. A type we cannot compute (BLAKE2) verifies none but
 * the magic. */
static unsigned verified_bits(struct blkup_bytes sb)
{
        const uint8_t *data = sb.data + SB_FSID;
        size_t n = SB_LEN - SB_FSID;
        uint8_t digest[32];

        switch (blkup_le16_at(sb, SB_CHECKSUM_TYPE)) {
        case CHECKSUM_CRC32C:
                return ~blkup_crc32c(~0U, data, n) == blkup_le32_at(sb, SB_CHECKSUM) ? 64 + 32 : 0;
        case CHECKSUM_XXHASH:
                return blkup_xxh64(0, data, n) == blkup_le64_at(sb, SB_CHECKSUM) ? 64 + 64 : 0;
        case CHECKSUM_SHA256:
                blkup_sha256(data, n, digest);
                return blkup_equal_at(sb, SB_CHECKSUM, digest, sizeof(digest)) ? 64 + 256 : 0;
        default:
                return 64;
        }
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes sb;
        uint32_t sector;
        uint64_t bytes;
        unsigned bits;

        (void) hit;
        BLKUP_FETCH(v, SB_AT, SB_LEN, &sb);
        bits = verified_bits(sb);
        if (bits == 0)
                return blkup_damaged(v, "superblock checksum mismatch");
        sector = blkup_le32_at(sb, SB_SECTOR_BYTES);
        if (sector == 0)
                return blkup_refuse(v, "no sector size");
        bytes = blkup_le64_at(sb, SB_TOTAL_BYTES);
        blkup_found_evidence(ret, bits);
        blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(sb, SB_LABEL, 256));
        blkup_found_uuid(ret, "UUID", blkup_slice_at(sb, SB_FSID, 16));
        blkup_found_uuid(ret, "UUID_SUB", blkup_slice_at(sb, SB_DEVICE_UUID, 16));
        blkup_found_block_size(ret, sector);
        blkup_found_u64(ret, "FSLASTBLOCK", bytes >> (31 - __builtin_clz(sector)));
        blkup_found_u64(ret, "FSSIZE", bytes);
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = {
        { .at = SB_AT, .within = SB_MAGIC, .len = 8, .bytes = "_BHRfS_M" }
};

extern const struct blkup_format blkup_format_btrfs;
const struct blkup_format blkup_format_btrfs = {
        .name = "btrfs", .usage = BLKUP_USAGE_FILESYSTEM, .min_bytes = UINT64_C(1) << 20, .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
