/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Adaptec HostRAID: two magics in the last sector, big-endian (../shared/probe/tags.tsv). */
#include "probe/format.h"

enum { AD_VERSION = 63, AD_MAGIC_2 = 256 };

static const struct blkup_magic magics[] = {
        { .at = 512, .anchor = BLKUP_FROM_END_512, .len = 4, .bytes = "\x37\xfc\x4d\x1e" },
};

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes m;

        BLKUP_FETCH(v, hit->base, AD_MAGIC_2 + 4, &m);
        if (!blkup_equal_at(m, AD_MAGIC_2, "\x44\x50\x54\x4d", 4))
                return blkup_refuse(v, "no second magic");
        blkup_found_evidence(ret, 64);
        blkup_found_u64(ret, "VERSION", blkup_u8_at(m, AD_VERSION));
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_adaptec_raid_member;
const struct blkup_format blkup_format_adaptec_raid_member = {
        .name = "adaptec_raid_member", .usage = BLKUP_USAGE_RAID, .min_bytes = 65536,
        .flags = BLKUP_WHOLE_ONLY,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
