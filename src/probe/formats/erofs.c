/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* EROFS. Source: kernel fs/erofs/erofs_fs.h (struct erofs_super_block), fs/erofs/super.c (checksum). */
#include "probe/formats/fields.h"

#define SB_AT 1024

/* Offsets in the superblock, little-endian. */
enum {
        SB_CHECKSUM = 4,
        SB_COMPAT = 8,
        SB_BLOCK_SHIFT = 12, /* 8 bits */
        SB_BLOCKS = 36,
        SB_UUID = 48,
        SB_LABEL = 64,       /* 16 bytes */
};

#define COMPAT_SB_CHECKSUM 0x1u

/* Over what is left of the block that the superblock stands in; seeded with ~0 and not inverted at the end.
 */
static enum blkup_outcome check_checksum(struct blkup_view *v, uint64_t block)
{
        static const uint8_t hole[4];
        struct blkup_bytes sb;
        uint32_t crc;

        if (block <= SB_AT)
                return blkup_damaged(v, "no block to checksum");
        BLKUP_FETCH(v, SB_AT, block - SB_AT, &sb);
        crc = blkup_crc32c(~0U, sb.data, SB_CHECKSUM);
        crc = blkup_crc32c(crc, hole, sizeof(hole));
        crc = blkup_crc32c(crc, sb.data + SB_CHECKSUM + 4, sb.len - SB_CHECKSUM - 4);
        if (crc != blkup_le32_at(sb, SB_CHECKSUM))
                return blkup_damaged(v, "superblock checksum mismatch");
        return BLKUP_FOUND;
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes sb;
        unsigned shift;
        uint64_t block;

        (void) hit;
        BLKUP_FETCH(v, SB_AT, 128, &sb);
        shift = blkup_u8_at(sb, SB_BLOCK_SHIFT);
        if (shift < 9 || shift > 16)
                return blkup_refuse(v, "block size is not 512 to 65536");
        block = UINT64_C(1) << shift;
        blkup_found_evidence(ret, 32 + 5);
        if (blkup_le32_at(sb, SB_COMPAT) & COMPAT_SB_CHECKSUM) {
                enum blkup_outcome o = check_checksum(v, block);

                if (o != BLKUP_FOUND)
                        return o;
                blkup_found_evidence(ret, 32);
        }
        blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(sb, SB_LABEL, 16));
        blkup_found_uuid(ret, "UUID", blkup_slice_at(sb, SB_UUID, 16));
        blkup_found_block_size(ret, block);
        blkup_found_u64(ret, "FSSIZE", block * blkup_le32_at(sb, SB_BLOCKS));
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = { { .at = SB_AT, .len = 4, .bytes = "\xe2\xe1\xf5\xe0" } };

extern const struct blkup_format blkup_format_erofs;
const struct blkup_format blkup_format_erofs = {
        .name = "erofs",
        .usage = BLKUP_USAGE_FILESYSTEM,
        .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics),
        .check = check,
};
