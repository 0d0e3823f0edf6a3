/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* VxFS of UnixWare (little-endian) and of HP-UX (big-endian). Source: kernel fs/freevxfs/vxfs.h (struct
 * vxfs_sb). */
#include "probe/formats/fields.h"

/* Offsets in the superblock. */
enum {
        SB_VERSION = 4,
        SB_BLOCK_BYTES = 32,
        SB_LEN = 36,
};

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        enum blkup_order order = hit->row == 0 ? BLKUP_LITTLE_ENDIAN : BLKUP_BIG_ENDIAN;
        struct blkup_bytes sb;

        BLKUP_FETCH(v, hit->base, SB_LEN, &sb);
        blkup_found_evidence(ret, 32);
        blkup_found_u64(ret, "VERSION", blkup_u32_at(sb, SB_VERSION, order));
        blkup_found_block_size(ret, blkup_u32_at(sb, SB_BLOCK_BYTES, order));
        blkup_found_endianness(ret, order);
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = {
        { .at = 1024, .len = 4, .bytes = "\xf5\xfc\x01\xa5" },
        { .at = 8192, .len = 4, .bytes = "\xa5\x01\xfc\xf5" },
};

extern const struct blkup_format blkup_format_vxfs;
const struct blkup_format blkup_format_vxfs = {
        .name = "vxfs",
        .usage = BLKUP_USAGE_FILESYSTEM,
        .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics),
        .check = check,
};
