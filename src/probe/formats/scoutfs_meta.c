/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The two devices of a ScoutFS. Source: github.com/versity/scoutfs, kmod/src/format.h (struct
 * scoutfs_block_header, struct scoutfs_super_block, format version 1 and later). */
#include <inttypes.h>

#include "probe/formats/fields.h"

#define SB_AT 65536
#define SB_LEN 4096
#define MIN_BYTES 131072

/* Offsets in the superblock, little-endian. */
enum {
        SB_CHECKSUM = 0,
        SB_MAGIC = 4,
        SB_FSID = 8,     /* 64 bits */
        SB_VERSION = 40, /* 64 bits */
        SB_FLAGS = 48,   /* 64 bits */
        SB_UUID = 56,
};

#define FLAG_META UINT64_C(1)
#define META_BLOCK_BYTES 65536
#define DATA_BLOCK_BYTES 4096

/* mkfs clears what is before the superblock. */
#define WIPED_BYTES 65536

static enum blkup_outcome check(struct blkup_view *v, bool is_meta, struct blkup_found *ret)
{
        struct blkup_bytes sb;

        BLKUP_FETCH(v, SB_AT, SB_LEN, &sb);
        /* Not inverted at the end. */
        if (blkup_crc32c(~0U, sb.data + SB_MAGIC, SB_LEN - SB_MAGIC) != blkup_le32_at(sb, SB_CHECKSUM))
                return blkup_damaged(v, "superblock checksum mismatch");
        if (is_meta != ((blkup_le64_at(sb, SB_FLAGS) & FLAG_META) != 0))
                return blkup_refuse(v, "the other device of a scoutfs");
        ret->wiped_to = WIPED_BYTES;
        blkup_found_evidence(ret, 32 + 32);
        blkup_found_u64(ret, "VERSION", blkup_le64_at(sb, SB_VERSION));
        blkup_found_uuid(ret, "UUID", blkup_slice_at(sb, SB_UUID, 16));
        blkup_found_printf(ret, "FSID", "%016" PRIx64, blkup_le64_at(sb, SB_FSID));
        blkup_found_block_size(ret, is_meta ? META_BLOCK_BYTES : DATA_BLOCK_BYTES);
        return BLKUP_FOUND;
}

static enum blkup_outcome check_meta(struct blkup_view *v, const struct blkup_hit *hit,
                                     struct blkup_found *ret)
{
        (void) hit;
        return check(v, true, ret);
}

static enum blkup_outcome check_data(struct blkup_view *v, const struct blkup_hit *hit,
                                     struct blkup_found *ret)
{
        (void) hit;
        return check(v, false, ret);
}

static const struct blkup_magic magics[] = {
        { .at = SB_AT, .within = SB_MAGIC, .len = 4, .bytes = "\x8b\x42\x3c\x10" },
};

extern const struct blkup_format blkup_format_scoutfs_meta, blkup_format_scoutfs_data;
const struct blkup_format blkup_format_scoutfs_meta = {
        .name = "scoutfs_meta", .usage = BLKUP_USAGE_FILESYSTEM, .min_bytes = MIN_BYTES, .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check_meta,
};
const struct blkup_format blkup_format_scoutfs_data = {
        .name = "scoutfs_data", .usage = BLKUP_USAGE_FILESYSTEM, .min_bytes = MIN_BYTES, .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check_data,
};
