/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* HPFS. Source: kernel fs/hpfs/hpfs.h (boot block, superblock in sector 16, spare block in sector 17). */
#include "probe/formats/fields.h"

#define SB_AT 8192
#define SPARE_AT 8704
#define BLOCK_BYTES 512

enum { SB_VERSION = 8 };

/* Offsets in the boot block. */
enum {
        BB_EXT_BOOT_SIGN = 38,
        BB_SERIAL = 39,
        BB_LABEL = 43, /* 11 bytes */
        BB_NAME = 54,
        BB_SIGN = 510,
};

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes sb, spare, bb;

        (void) hit;
        blkup_view_want(v, 0, 512);
        BLKUP_FETCH(v, SPARE_AT, 4, &spare);
        if (!blkup_equal_at(spare, 0, "\x49\x18\x91\xf9", 4))
                return blkup_refuse(v, "no spare block");
        BLKUP_FETCH(v, SB_AT, 9, &sb);
        BLKUP_FETCH(v, 0, 512, &bb);
        blkup_found_evidence(ret, 64);
        if (blkup_equal_at(bb, BB_SIGN, "\x55\xaa", 2) && blkup_equal_at(bb, BB_NAME, "HPFS", 4) &&
            blkup_u8_at(bb, BB_EXT_BOOT_SIGN) == 0x28) {
                blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(bb, BB_LABEL, 11));
                blkup_found_serial(ret, "UUID", blkup_slice_at(bb, BB_SERIAL, 4));
        }
        blkup_found_u64(ret, "VERSION", blkup_u8_at(sb, SB_VERSION));
        blkup_found_block_size(ret, BLOCK_BYTES);
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = { { .at = SB_AT, .len = 4, .bytes = "\x49\xe8\x95\xf9" } };

extern const struct blkup_format blkup_format_hpfs;
const struct blkup_format blkup_format_hpfs = {
        .name = "hpfs",
        .usage = BLKUP_USAGE_FILESYSTEM,
        .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics),
        .check = check,
};
