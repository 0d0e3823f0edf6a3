/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ReFS. Only its name in the boot sector is looked at; its format is not published as a whole. */
#include "probe/formats/fields.h"

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        (void) v;
        (void) hit;
        blkup_found_evidence(ret, 64);
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = { { .len = 8, .bytes = "\0\0\0ReFS\0" } };

extern const struct blkup_format blkup_format_ReFS;
const struct blkup_format blkup_format_ReFS = {
        .name = "ReFS",
        .usage = BLKUP_USAGE_FILESYSTEM,
        .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics),
        .check = check,
};
