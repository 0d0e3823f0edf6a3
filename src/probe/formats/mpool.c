/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A device of an mpool. Source: the makers' own reader, util-linux libblkid/src/superblocks/mpool.c (Micron,
 * 2016; struct omf_sb_descriptor, packed); magic and field names also in mpool-kmod, src/omf_if.h. A later
 * descriptor has a checksum type behind the name; its checksum does not stand here, so it is damaged to this
 * reader as to theirs.
 */
#include "probe/formats/fields.h"

/* Offsets in the descriptor, little-endian. */
enum {
        SB_LABEL = 8, /* 32 bytes, the name of the pool */
        SB_UUID = 40, /* of the pool */
        SB_CHECKSUM = 62,
        SB_LEN = 66,
};

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes sb;

        (void) hit;
        BLKUP_FETCH(v, 0, SB_LEN, &sb);
        if (~blkup_crc32c(~0U, sb.data, SB_CHECKSUM) != blkup_le32_at(sb, SB_CHECKSUM))
                return blkup_damaged(v, "checksum mismatch");
        blkup_found_evidence(ret, 64 + 32);
        blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(sb, SB_LABEL, 32));
        blkup_found_uuid(ret, "UUID", blkup_slice_at(sb, SB_UUID, 16));
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = { { .len = 8, .bytes = "mpoolDev" } };

extern const struct blkup_format blkup_format_mpool;
const struct blkup_format blkup_format_mpool = {
        .name = "mpool",
        .usage = BLKUP_USAGE_FILESYSTEM,
        .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics),
        .check = check,
};
