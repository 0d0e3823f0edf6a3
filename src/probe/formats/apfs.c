/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The container of APFS. Source: "Apple File System Reference" (obj_phys_t, nx_superblock_t). */
#include "base/hash.h"
#include "probe/formats/fields.h"

#define SB_LEN 4096

/* Offsets in the container's superblock, little-endian. */
enum {
        SB_CHECKSUM = 0,    /* 64 bits, over all behind it */
        SB_SUMMED = 8,
        SB_TYPE = 24,       /* 16 bits */
        SB_SUBTYPE = 28,    /* 16 bits */
        SB_PAD = 30,        /* 16 bits */
        SB_MAGIC = 32,
        SB_BLOCK_BYTES = 36,
        SB_UUID = 72,
};

#define TYPE_CONTAINER 1
#define BLOCK_BYTES 4096

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes sb;

        (void) hit;
        BLKUP_FETCH(v, 0, SB_LEN, &sb);
        if (blkup_fletcher64(sb.data + SB_SUMMED, SB_LEN - SB_SUMMED) != blkup_le64_at(sb, SB_CHECKSUM))
                return blkup_damaged(v, "checksum mismatch");
        if (blkup_le16_at(sb, SB_TYPE) != TYPE_CONTAINER || blkup_le16_at(sb, SB_SUBTYPE) != 0 ||
            blkup_le16_at(sb, SB_PAD) != 0)
                return blkup_refuse(v, "no superblock of a container");
        if (blkup_le32_at(sb, SB_BLOCK_BYTES) != BLOCK_BYTES)
                return blkup_refuse(v, "block size is not 4096");
        blkup_found_evidence(ret, 32 + 64 + 48 + 32);
        blkup_found_uuid(ret, "UUID", blkup_slice_at(sb, SB_UUID, 16));
        blkup_found_block_size(ret, BLOCK_BYTES);
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = { { .within = SB_MAGIC, .len = 4, .bytes = "NXSB" } };

extern const struct blkup_format blkup_format_apfs;
const struct blkup_format blkup_format_apfs = {
        .name = "apfs",
        .usage = BLKUP_USAGE_FILESYSTEM,
        .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics),
        .check = check,
};
