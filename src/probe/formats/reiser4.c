/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reiser4. Source: reiser4progs 1.2.2, include/reiser4/types.h (struct reiser4_master_sb). */
#include "probe/formats/fields.h"

#define SB_AT 65536

/* Offsets in the master superblock, little-endian. */
enum {
        SB_BLOCK_256 = 19, /* high byte of the 16-bit block size: the low one is zero */
        SB_UUID = 20,
        SB_LABEL = 36,     /* 16 bytes */
};

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes sb;
        unsigned block;

        (void) hit;
        BLKUP_FETCH(v, SB_AT, 52, &sb);
        block = blkup_u8_at(sb, SB_BLOCK_256) * 256U;
        if (block < 512)
                return blkup_refuse(v, "block size below 512");
        blkup_found_evidence(ret, 56 + 7);
        blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(sb, SB_LABEL, 16));
        blkup_found_uuid(ret, "UUID", blkup_slice_at(sb, SB_UUID, 16));
        blkup_found_string(ret, "VERSION", "4");
        blkup_found_block_size(ret, block);
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = { { .at = SB_AT, .len = 7, .bytes = "ReIsEr4" } };

extern const struct blkup_format blkup_format_reiser4;
const struct blkup_format blkup_format_reiser4 = {
        .name = "reiser4", .usage = BLKUP_USAGE_FILESYSTEM, .min_bytes = 131072, .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
