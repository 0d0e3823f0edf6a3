/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* cramfs in either byte order. Source: kernel include/uapi/linux/cramfs_fs.h (struct cramfs_super). */
#include "probe/formats/fields.h"

/* Offsets in the superblock. */
enum {
        SB_BYTES = 4,
        SB_FLAGS = 8,
        SB_SIGNATURE = 16, /* 16 bytes */
        SB_CHECKSUM = 32,  /* over the whole image */
        SB_LABEL = 48,     /* 16 bytes */
        SB_ROOT_MODE = 64, /* 16 bits, of the inode behind */
        SB_LEN = 76,
};

#define FLAG_VERSION_2 0x1u
#define MODE_TYPE 0xf000u
#define MODE_DIRECTORY 0x4000u

/* An image of that size is read to verify its checksum, as util-linux does (which does not know larger ones).
 */
#define MAX_SUMMED_BYTES 65536u

/* Returns how sure we are, or an outcome that ends the check. */
static enum blkup_outcome check_version_2(struct blkup_view *v, struct blkup_bytes sb, enum blkup_order order,
                                          unsigned *ret_bits)
{
        static const uint8_t hole[4];
        uint32_t bytes = blkup_u32_at(sb, SB_BYTES, order), crc;
        struct blkup_bytes all;

        if (bytes < 64)
                return blkup_refuse(v, "smaller than its superblock");
        if (bytes > MAX_SUMMED_BYTES) {
                if (!blkup_equal_at(sb, SB_SIGNATURE, "Compressed ROMFS", 16) ||
                    (blkup_u16_at(sb, SB_ROOT_MODE, order) & MODE_TYPE) != MODE_DIRECTORY)
                        return blkup_refuse(v, "no signature, or no root directory");
                *ret_bits = 128 + 4;
                return BLKUP_FOUND;
        }
        BLKUP_FETCH(v, 0, bytes, &all);
        crc = blkup_crc32(~0U, all.data, SB_CHECKSUM);
        crc = blkup_crc32(crc, hole, sizeof(hole));
        crc = ~blkup_crc32(crc, all.data + SB_CHECKSUM + 4, bytes - SB_CHECKSUM - 4);
        if (crc != blkup_u32_at(sb, SB_CHECKSUM, order))
                return blkup_damaged(v, "checksum mismatch");
        *ret_bits = 32;
        return BLKUP_FOUND;
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        enum blkup_order order = hit->row == 0 ? BLKUP_LITTLE_ENDIAN : BLKUP_BIG_ENDIAN;
        unsigned bits = 0;
        struct blkup_bytes sb;
        bool is_version_2;

        BLKUP_FETCH(v, 0, SB_LEN, &sb);
        is_version_2 = (blkup_u32_at(sb, SB_FLAGS, order) & FLAG_VERSION_2) != 0;
        if (is_version_2) {
                enum blkup_outcome o = check_version_2(v, sb, order, &bits);

                if (o != BLKUP_FOUND)
                        return o;
        }
        blkup_found_evidence(ret, 32 + bits);
        blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(sb, SB_LABEL, 16));
        blkup_found_u64(ret, "FSSIZE", blkup_u32_at(sb, SB_BYTES, order));
        blkup_found_string(ret, "VERSION", is_version_2 ? "2" : "1");
        blkup_found_endianness(ret, order);
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = {
        { .len = 4, .bytes = "\x45\x3d\xcd\x28" },
        { .len = 4, .bytes = "\x28\xcd\x3d\x45" },
};

extern const struct blkup_format blkup_format_cramfs;
const struct blkup_format blkup_format_cramfs = {
        .name = "cramfs",
        .usage = BLKUP_USAGE_FILESYSTEM,
        .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics),
        .check = check,
};
