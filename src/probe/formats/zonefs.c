/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* zonefs. Source: kernel fs/zonefs/zonefs.h (struct zonefs_super), fs/zonefs/super.c (checksum). */
#include "probe/formats/fields.h"

#define SB_LEN 4096

/* Offsets in the superblock, little-endian. */
enum {
        SB_CHECKSUM = 4,
        SB_LABEL = 8, /* 32 bytes */
        SB_UUID = 40,
};

#define BLOCK_BYTES 4096

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        static const uint8_t hole[4];
        struct blkup_bytes sb;
        uint32_t crc;

        (void) hit;
        BLKUP_FETCH(v, 0, SB_LEN, &sb);
        /* Not inverted at the end. */
        crc = blkup_crc32(~0U, sb.data, SB_CHECKSUM);
        crc = blkup_crc32(crc, hole, sizeof(hole));
        crc = blkup_crc32(crc, sb.data + SB_CHECKSUM + 4, SB_LEN - SB_CHECKSUM - 4);
        if (crc != blkup_le32_at(sb, SB_CHECKSUM))
                return blkup_damaged(v, "checksum mismatch");
        blkup_found_evidence(ret, 32 + 32);
        blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(sb, SB_LABEL, 32));
        blkup_found_uuid(ret, "UUID", blkup_slice_at(sb, SB_UUID, 16));
        blkup_found_block_size(ret, BLOCK_BYTES);
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = { { .len = 4, .bytes = "SFOZ" } };

extern const struct blkup_format blkup_format_zonefs;
const struct blkup_format blkup_format_zonefs = {
        .name = "zonefs",
        .usage = BLKUP_USAGE_FILESYSTEM,
        .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics),
        .check = check,
};
