/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* F2FS. Source: kernel include/linux/f2fs_fs.h (struct f2fs_super_block), fs/f2fs/super.c (checksum). */
#include "probe/formats/fields.h"

#define SB_AT 1024

/* Offsets in the superblock, little-endian. */
enum {
        SB_MAJOR = 4,          /* 16 bits */
        SB_MINOR = 6,          /* 16 bits */
        SB_LOG_BLOCK_SIZE = 16,
        SB_CHECKSUM_AT = 32,   /* offset of the checksum in the superblock; 0 = none */
        SB_BLOCKS = 36,        /* 64 bits */
        SB_UUID = 108,
        SB_LABEL = 124,        /* 512 characters of UTF-16 */
        SB_LABEL_LEN = 1024,
};

/* The driver's seed is its magic; no inversion at the end. */
#define CHECKSUM_SEED 0xf2f52010u
#define MAX_CHECKSUM_AT (4096u - 4)
#define MAX_LOG_BLOCK_SIZE 16u

/* The label, but only the sectors that it lies in: it is 1024 bytes long and mostly empty. */
static enum blkup_outcome fetch_label(struct blkup_view *v, struct blkup_bytes sb, struct blkup_bytes *ret)
{
        for (size_t off = SB_LABEL; off + 2 <= sb.len; off += 2)
                if (blkup_le16_at(sb, off) == 0) {
                        *ret = blkup_slice_at(sb, SB_LABEL, off - SB_LABEL);
                        return BLKUP_FOUND;
                }
        return blkup_view_get(v, SB_AT + SB_LABEL, SB_LABEL_LEN, ret);
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes sb, all, label;
        uint32_t checksum_at, log, blocks_of;
        unsigned major, minor;
        enum blkup_outcome o;
        uint64_t bytes;

        (void) hit;
        BLKUP_FETCH(v, SB_AT, 512, &sb);
        major = blkup_le16_at(sb, SB_MAJOR);
        minor = blkup_le16_at(sb, SB_MINOR);
        blkup_found_evidence(ret, 32);
        /* The first release had other fields behind the version: nothing more can be said. */
        if (major == 1 && minor == 0)
                return BLKUP_FOUND;
        checksum_at = blkup_le32_at(sb, SB_CHECKSUM_AT);
        if (checksum_at != 0) {
                if (checksum_at % 4 != 0 || checksum_at > MAX_CHECKSUM_AT)
                        return blkup_damaged(v, "checksum outside the superblock");
                BLKUP_FETCH(v, SB_AT, checksum_at + 4, &all);
                if (blkup_crc32(CHECKSUM_SEED, all.data, checksum_at) != blkup_le32_at(all, checksum_at))
                        return blkup_damaged(v, "superblock checksum mismatch");
                blkup_found_evidence(ret, 32);
        }
        o = fetch_label(v, sb, &label);
        if (o != BLKUP_FOUND)
                return o;
        blkup_found_utf16(ret, "LABEL", label, BLKUP_LITTLE_ENDIAN);
        blkup_found_uuid(ret, "UUID", blkup_slice_at(sb, SB_UUID, 16));
        blkup_found_version(ret, major, minor);
        log = blkup_le32_at(sb, SB_LOG_BLOCK_SIZE);
        if (log > MAX_LOG_BLOCK_SIZE)
                return BLKUP_FOUND;
        blocks_of = 1U << log;
        blkup_found_block_size(ret, blocks_of);
        if (blkup_mul(blkup_le64_at(sb, SB_BLOCKS), blocks_of, &bytes))
                blkup_found_u64(ret, "FSSIZE", bytes);
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = { { .at = SB_AT, .len = 4, .bytes = "\x10\x20\xf5\xf2" } };

extern const struct blkup_format blkup_format_f2fs;
const struct blkup_format blkup_format_f2fs = {
        .name = "f2fs",
        .usage = BLKUP_USAGE_FILESYSTEM,
        .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics),
        .check = check,
};
