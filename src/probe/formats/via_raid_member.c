/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* VIA Tech V-RAID: the last sector, with an 8-bit sum (../shared/probe/tags.tsv). */
#include "probe/format.h"

enum { VIA_VERSION = 2, VIA_CHECKSUM = 50, VIA_LEN = 51 };

static const struct blkup_magic magics[] = {
        { .at = 512, .anchor = BLKUP_FROM_END_512, .len = 2, .bytes = "\x55\xaa" },
};

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes m;
        uint8_t sum = 0;

        BLKUP_FETCH(v, hit->base, VIA_LEN, &m);
        if (blkup_u8_at(m, VIA_VERSION) > 2)
                return blkup_refuse(v, "version above 2");
        for (size_t i = 0; i < VIA_CHECKSUM; i++)
                sum = (uint8_t) (sum + m.data[i]);
        if (sum != blkup_u8_at(m, VIA_CHECKSUM))
                return blkup_damaged(v, "checksum mismatch");
        blkup_found_evidence(ret, 16 + 6 + 8);
        blkup_found_u64(ret, "VERSION", blkup_u8_at(m, VIA_VERSION));
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_via_raid_member;
const struct blkup_format blkup_format_via_raid_member = {
        .name = "via_raid_member", .usage = BLKUP_USAGE_RAID, .min_bytes = 65536, .flags = BLKUP_WHOLE_ONLY,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
