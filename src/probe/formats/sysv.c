/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The file system of System V and that of Xenix. Source: kernel include/linux/sysv_fs.h (struct
 * sysv4_super_block, struct xenix_super_block), fs/sysv/super.c (places). util-linux looks for the magic of
 * Xenix eight bytes behind its field.
 */
#include "probe/formats/fields.h"

/* Offsets in the superblock of System V, 512 bytes long. */
enum { SYSV_LABEL = 440 /* 6 bytes */, SYSV_MAGIC = 504 };

/* And in that of Xenix. */
enum { XENIX_FIRST_ZONE = 0 /* 16 bits */, XENIX_LABEL = 632 /* 6 bytes */, XENIX_MAGIC = 1016 };
#define XENIX_SB_AT 1024

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes label;

        BLKUP_FETCH(v, hit->base + SYSV_LABEL, 6, &label);
        blkup_found_evidence(ret, 32);
        blkup_found_rtrimmed(ret, "LABEL", label);
        return BLKUP_FOUND;
}

/*
 * The magic has a sector that no other format of a small device needs. So the start of the superblock is
 * asked first, which is in memory anyway: where the data zones begin is never 0, and a blank device
 * costs nothing.
 */
static enum blkup_outcome check_xenix(struct blkup_view *v, const struct blkup_hit *hit,
                                      struct blkup_found *ret)
{
        struct blkup_bytes first_zone, magic, label;

        (void) hit;
        BLKUP_FETCH(v, XENIX_SB_AT + XENIX_FIRST_ZONE, 2, &first_zone);
        if (blkup_is_filled(first_zone, 0, 2, 0))
                return blkup_refuse(v, "no data zone");
        BLKUP_FETCH(v, XENIX_SB_AT + XENIX_MAGIC, 4, &magic);
        if (!blkup_equal_at(magic, 0, "\x44\x55\x2b\0", 4) && !blkup_equal_at(magic, 0, "\0\x2b\x55\x44", 4))
                return BLKUP_NOT_THIS;
        BLKUP_FETCH(v, XENIX_SB_AT + XENIX_LABEL, 6, &label);
        ret->magic_at = XENIX_SB_AT + XENIX_MAGIC;
        ret->magic_len = 4;
        blkup_found_evidence(ret, 32);
        blkup_found_rtrimmed(ret, "LABEL", label);
        return BLKUP_FOUND;
}

/* Blocks 0, 9, 15 and 18 of a file system that may begin behind a boot program. */
#define PLACE(block)                                                                                        \
        { .at = (block) * 1024 + 512, .within = SYSV_MAGIC, .len = 4, .bytes = "\x20\x7e\x18\xfd" },        \
        { .at = (block) * 1024 + 512, .within = SYSV_MAGIC, .len = 4, .bytes = "\xfd\x18\x7e\x20" }
static const struct blkup_magic magics[] = { PLACE(0), PLACE(9), PLACE(15), PLACE(18) };

static const struct blkup_needed xenix_needs[] = { { .at = XENIX_SB_AT + XENIX_FIRST_ZONE, .len = 2 } };

extern const struct blkup_format blkup_format_sysv, blkup_format_xenix;
const struct blkup_format blkup_format_sysv = {
        .name = "sysv",
        .usage = BLKUP_USAGE_FILESYSTEM,
        .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics),
        .check = check,
};
const struct blkup_format blkup_format_xenix = {
        .name = "xenix", .usage = BLKUP_USAGE_FILESYSTEM, .needs = xenix_needs,
        .n_needs = BLKUP_ARRAY_SIZE(xenix_needs), .check = check_xenix,
};
