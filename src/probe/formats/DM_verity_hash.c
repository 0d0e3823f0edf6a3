/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* DM_verity_hash: the hashes of a device-mapper verity target. Source: cryptsetup, "verity superblock format"
 * (wiki). */
#include "probe/formats/fields.h"

enum { SB_VERSION = 8, SB_UUID = 16, SB_LEN = 32 };

static const struct blkup_magic magics[] = { { .len = 8, .bytes = "verity\0" } };

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes sb;
        uint32_t version;

        (void) hit;
        BLKUP_FETCH(v, 0, SB_LEN, &sb);
        version = blkup_le32_at(sb, SB_VERSION);
        if (version != 1)
                return blkup_refuse(v, "version is not 1");
        blkup_found_evidence(ret, 64 + 32);
        blkup_found_uuid(ret, "UUID", blkup_slice_at(sb, SB_UUID, 16));
        blkup_found_u64(ret, "VERSION", version);
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_DM_verity_hash;
const struct blkup_format blkup_format_DM_verity_hash = {
        .name = "DM_verity_hash", .usage = BLKUP_USAGE_CRYPTO,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
