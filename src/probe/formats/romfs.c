/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* romfs. Source: kernel Documentation/filesystems/romfs.rst: the words of the first 512 bytes add up to zero.
 */
#include "probe/formats/fields.h"

/* Offsets in the superblock, big-endian. */
enum {
        SB_BYTES = 8,
        SB_LABEL = 16, /* 16 bytes are looked at; it may be longer */
        SB_LEN = 32,
};

#define SUMMED_BYTES 512
#define BLOCK_BYTES 1024

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes sb, summed;
        uint32_t sum = 0;
        uint64_t len;

        (void) hit;
        BLKUP_FETCH(v, 0, SB_LEN, &sb);
        len = blkup_min(blkup_be32_at(sb, SB_BYTES), SUMMED_BYTES);
        if (len == 0 || len % 4 != 0)
                return blkup_refuse(v, "no such size");
        BLKUP_FETCH(v, 0, len, &summed);
        for (size_t off = 0; off < summed.len; off += 4)
                sum += blkup_be32_at(summed, off);
        if (sum != 0)
                return blkup_damaged(v, "checksum mismatch");
        blkup_found_evidence(ret, 64 + 32);
        blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(sb, SB_LABEL, 16));
        blkup_found_u64(ret, "FSBLOCKSIZE", BLOCK_BYTES);
        blkup_found_u64(ret, "FSSIZE", blkup_be32_at(sb, SB_BYTES));
        blkup_found_u64(ret, "BLOCK_SIZE", BLOCK_BYTES);
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = { { .len = 8, .bytes = "-rom1fs-" } };

extern const struct blkup_format blkup_format_romfs;
const struct blkup_format blkup_format_romfs = {
        .name = "romfs",
        .usage = BLKUP_USAGE_FILESYSTEM,
        .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics),
        .check = check,
};
