/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * SquashFS: version 4 as "squashfs", the versions before it (either byte order) as "squashfs3". Source:
 * kernel fs/squashfs/squashfs_fs.h (struct squashfs_super_block); for version 3 squashfs-tools 3.4.
 */
#include "probe/formats/fields.h"

/* Offsets in the superblock; the version stands where it stood before. */
enum {
        SB_BLOCK_BYTES = 12, /* version 4 */
        SB_MAJOR = 28,       /* 16 bits */
        SB_MINOR = 30,       /* 16 bits */
        SB_BYTES_USED = 40,  /* version 4; 64 bits */
};

#define V3_BLOCK_BYTES 1024 /* what its driver reads */

static const struct blkup_magic magics[] = { { .len = 4, .bytes = "hsqs" } };
static const struct blkup_magic v3_magics[] = { { .len = 4, .bytes = "sqsh" },
                                                { .len = 4, .bytes = "hsqs" } };

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes sb;
        unsigned major;

        (void) hit;
        BLKUP_FETCH(v, 0, 96, &sb);
        major = blkup_le16_at(sb, SB_MAJOR);
        if (major < 4)
                return blkup_refuse(v, "of a version before 4");
        blkup_found_evidence(ret, 32 + 14);
        blkup_found_version(ret, major, blkup_le16_at(sb, SB_MINOR));
        blkup_found_block_size(ret, blkup_le32_at(sb, SB_BLOCK_BYTES));
        blkup_found_u64(ret, "FSSIZE", blkup_le64_at(sb, SB_BYTES_USED));
        return BLKUP_FOUND;
}

static enum blkup_outcome check_v3(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        enum blkup_order order = hit->row == 0 ? BLKUP_BIG_ENDIAN : BLKUP_LITTLE_ENDIAN;
        struct blkup_bytes sb;
        unsigned major;

        BLKUP_FETCH(v, 0, 96, &sb);
        major = blkup_u16_at(sb, SB_MAJOR, order);
        if (major > 3)
                return blkup_refuse(v, "of a version after 3");
        blkup_found_evidence(ret, 32 + 14);
        blkup_found_version(ret, major, blkup_u16_at(sb, SB_MINOR, order));
        blkup_found_block_size(ret, V3_BLOCK_BYTES);
        blkup_found_endianness(ret, order);
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_squashfs, blkup_format_squashfs3;
const struct blkup_format blkup_format_squashfs = {
        .name = "squashfs",
        .usage = BLKUP_USAGE_FILESYSTEM,
        .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics),
        .check = check,
};
const struct blkup_format blkup_format_squashfs3 = {
        .name = "squashfs3", .usage = BLKUP_USAGE_FILESYSTEM, .magics = v3_magics,
        .n_magics = BLKUP_ARRAY_SIZE(v3_magics), .check = check_v3,
};
