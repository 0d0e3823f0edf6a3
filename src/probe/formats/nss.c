/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The pool of Novell Storage Services, NetWare's file system. Fields: ../shared/probe/tags.tsv. */
#include "probe/formats/fields.h"

#define SB_AT 4096

/* Offsets in the superblock, little-endian. */
enum {
        SB_MAJOR = 8,  /* 16 bits */
        SB_MINOR = 10, /* 16 bits */
        SB_UUID = 348,
        SB_USED = 364,
};

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes sb;

        (void) hit;
        BLKUP_FETCH(v, SB_AT, SB_USED, &sb);
        blkup_found_evidence(ret, 32);
        blkup_found_uuid(ret, "UUID", blkup_slice_at(sb, SB_UUID, 16));
        blkup_found_printf(ret, "VERSION", "%u.%02u", blkup_le16_at(sb, SB_MAJOR),
                           blkup_le16_at(sb, SB_MINOR));
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = { { .at = SB_AT, .len = 4, .bytes = "SPB5" } };

extern const struct blkup_format blkup_format_nss;
const struct blkup_format blkup_format_nss = {
        .name = "nss",
        .usage = BLKUP_USAGE_FILESYSTEM,
        .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics),
        .check = check,
};
