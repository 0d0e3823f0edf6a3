/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* vdo: a device under the virtual data optimizer. Source: kernel drivers/md/dm-vdo/encodings.c (geometry
 * block). */
#include "probe/format.h"

enum { GEOMETRY_UUID = 40 };

static const struct blkup_magic magics[] = { { .len = 8, .bytes = "dmvdo001" } };

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes uuid;

        (void) hit;
        BLKUP_FETCH(v, GEOMETRY_UUID, 16, &uuid);
        blkup_found_evidence(ret, 64);
        blkup_found_uuid(ret, "UUID", uuid);
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_vdo;
const struct blkup_format blkup_format_vdo = {
        .name = "vdo", .usage = BLKUP_USAGE_OTHER,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
