/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Silicon Image Medley: the last sector, with a 16-bit sum (../shared/probe/tags.tsv). */
#include "probe/format.h"

enum { SIL_MINOR = 264, SIL_MAJOR = 266, SIL_DISK = 278, SIL_CHECKSUM = 318, SIL_LEN = 320 };

static const struct blkup_magic magics[] = {
        { .at = 512, .within = 96, .anchor = BLKUP_FROM_END_512, .len = 4, .bytes = "\x00\x00\x00\x2f" },
};

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes m;
        uint16_t sum = 0;

        BLKUP_FETCH(v, hit->base, SIL_LEN, &m);
        if (blkup_u8_at(m, SIL_DISK) >= 8)
                return blkup_refuse(v, "disk number above 7");
        for (size_t i = 0; i < SIL_CHECKSUM; i += 2)
                sum = (uint16_t) (sum + blkup_le16_at(m, i));
        if ((uint16_t) -sum != blkup_le16_at(m, SIL_CHECKSUM))
                return blkup_damaged(v, "checksum mismatch");
        blkup_found_evidence(ret, 32 + 5 + 16);
        blkup_found_version(ret, blkup_le16_at(m, SIL_MAJOR), blkup_le16_at(m, SIL_MINOR));
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_silicon_medley_raid_member;
const struct blkup_format blkup_format_silicon_medley_raid_member = {
        .name = "silicon_medley_raid_member", .usage = BLKUP_USAGE_RAID, .min_bytes = 65536,
        .flags = BLKUP_WHOLE_ONLY,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
