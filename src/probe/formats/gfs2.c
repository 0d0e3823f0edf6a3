/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* GFS and GFS2. Source: kernel include/uapi/linux/gfs2_ondisk.h (struct gfs2_sb); GFS differs in the format
 * numbers. */
#include "probe/formats/fields.h"

#define SB_AT 65536
#define MIN_BYTES (UINT64_C(32) << 20)

/* Offsets in the superblock, big-endian. */
enum {
        SB_FS_FORMAT = 24,
        SB_MULTIHOST_FORMAT = 28,
        SB_BLOCK_BYTES = 36,
        SB_LABEL = 160, /* 64 bytes, the name of the lock table */
        SB_UUID = 256,
        SB_LEN = 272,
};

/* GFS2 counts each kind of change up within a hundred. */
enum {
        GFS_FS_FORMAT = 1309,
        GFS_MULTIHOST_FORMAT = 1401,
        GFS2_FS_FORMATS = 1800,
        GFS2_MULTIHOST_FORMATS = 1900
};

static const struct blkup_magic magics[] = { { .at = SB_AT, .len = 4, .bytes = "\x01\x16\x19\x70" } };

static void add_names(struct blkup_found *ret, struct blkup_bytes sb)
{
        blkup_found_evidence(ret, 32 + 2 * 26);
        blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(sb, SB_LABEL, 64));
        blkup_found_uuid(ret, "UUID", blkup_slice_at(sb, SB_UUID, 16));
}

static enum blkup_outcome check_gfs(struct blkup_view *v, const struct blkup_hit *hit,
                                    struct blkup_found *ret)
{
        struct blkup_bytes sb;

        (void) hit;
        BLKUP_FETCH(v, SB_AT, SB_LEN, &sb);
        if (blkup_be32_at(sb, SB_FS_FORMAT) != GFS_FS_FORMAT ||
            blkup_be32_at(sb, SB_MULTIHOST_FORMAT) != GFS_MULTIHOST_FORMAT)
                return blkup_refuse(v, "not the formats of gfs");
        add_names(ret, sb);
        return BLKUP_FOUND;
}

static enum blkup_outcome check_gfs2(struct blkup_view *v, const struct blkup_hit *hit,
                                     struct blkup_found *ret)
{
        struct blkup_bytes sb;

        (void) hit;
        BLKUP_FETCH(v, SB_AT, SB_LEN, &sb);
        if (blkup_be32_at(sb, SB_FS_FORMAT) / 100 != GFS2_FS_FORMATS / 100 ||
            blkup_be32_at(sb, SB_MULTIHOST_FORMAT) / 100 != GFS2_MULTIHOST_FORMATS / 100)
                return blkup_refuse(v, "not the formats of gfs2");
        add_names(ret, sb);
        blkup_found_string(ret, "VERSION", "1");
        blkup_found_block_size(ret, blkup_be32_at(sb, SB_BLOCK_BYTES));
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_gfs, blkup_format_gfs2;
const struct blkup_format blkup_format_gfs = {
        .name = "gfs", .usage = BLKUP_USAGE_FILESYSTEM, .min_bytes = MIN_BYTES, .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check_gfs,
};
const struct blkup_format blkup_format_gfs2 = {
        .name = "gfs2", .usage = BLKUP_USAGE_FILESYSTEM, .min_bytes = MIN_BYTES, .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check_gfs2,
};
