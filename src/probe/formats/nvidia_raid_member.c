/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* NVIDIA MediaShield: the last but one sector, thirty words that sum to 0 (../shared/probe/tags.tsv). */
#include "probe/format.h"

enum { NV_WORDS = 8, NV_VERSION = 16, NV_LEN = 120 };

static const struct blkup_magic magics[] = {
        { .at = 1024, .anchor = BLKUP_FROM_END_512, .len = 8, .bytes = "NVIDIA  " },
};

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes m;
        uint32_t sum = 0;

        BLKUP_FETCH(v, hit->base, NV_LEN, &m);
        if (blkup_le32_at(m, NV_WORDS) != NV_LEN / 4)
                return blkup_refuse(v, "not thirty words long");
        for (size_t i = 0; i < NV_LEN; i += 4)
                sum += blkup_le32_at(m, i);
        if (sum != 0)
                return blkup_damaged(v, "checksum mismatch");
        blkup_found_evidence(ret, 64 + 32 + 32);
        blkup_found_u64(ret, "VERSION", blkup_le16_at(m, NV_VERSION));
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_nvidia_raid_member;
const struct blkup_format blkup_format_nvidia_raid_member = {
        .name = "nvidia_raid_member", .usage = BLKUP_USAGE_RAID, .min_bytes = 65536,
        .flags = BLKUP_WHOLE_ONLY,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
