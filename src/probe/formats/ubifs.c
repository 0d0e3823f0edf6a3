/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* UBIFS. Source: kernel fs/ubifs/ubifs-media.h (struct ubifs_ch, struct ubifs_sb_node). */
#include <inttypes.h>

#include "probe/formats/fields.h"

#define SB_LEN 4096

/* Offsets in the superblock's node, little-endian. */
enum {
        SB_CHECKSUM = 4, /* of all behind the next field's begin */
        SB_SUMMED = 8,
        SB_LEB_BYTES = 36, /* logical erase block */
        SB_LEBS = 40,
        SB_FORMAT = 80,
        SB_UUID = 108,
        SB_READ_ONLY_FORMAT = 124,
};

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes sb;

        (void) hit;
        BLKUP_FETCH(v, 0, SB_LEN, &sb);
        /* Not inverted at the end. */
        if (blkup_crc32(~0U, sb.data + SB_SUMMED, SB_LEN - SB_SUMMED) != blkup_le32_at(sb, SB_CHECKSUM))
                return blkup_damaged(v, "checksum mismatch");
        blkup_found_evidence(ret, 32 + 32);
        blkup_found_uuid(ret, "UUID", blkup_slice_at(sb, SB_UUID, 16));
        blkup_found_printf(ret, "VERSION", "w%" PRIu32 "r%" PRIu32, blkup_le32_at(sb, SB_FORMAT),
                           blkup_le32_at(sb, SB_READ_ONLY_FORMAT));
        blkup_found_u64(ret, "FSSIZE",
                        (uint64_t) blkup_le32_at(sb, SB_LEB_BYTES) * blkup_le32_at(sb, SB_LEBS));
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = { { .len = 4, .bytes = "\x31\x18\x10\x06" } };

extern const struct blkup_format blkup_format_ubifs;
const struct blkup_format blkup_format_ubifs = {
        .name = "ubifs",
        .usage = BLKUP_USAGE_FILESYSTEM,
        .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics),
        .check = check,
};
