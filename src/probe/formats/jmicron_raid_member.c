/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* JMicron RAID: the last sector, sixty-four words whose 16-bit sum is 0 or 1 (../shared/probe/tags.tsv). */
#include "probe/format.h"

enum { JM_VERSION = 2, JM_MODE = 48, JM_LEN = 128 };

static const struct blkup_magic magics[] = {
        { .at = 512, .anchor = BLKUP_FROM_END_512, .len = 2, .bytes = "JM" },
};

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes m;
        uint16_t sum = 0;

        BLKUP_FETCH(v, hit->base, JM_LEN, &m);
        for (size_t i = 0; i < JM_LEN; i += 2)
                sum = (uint16_t) (sum + blkup_le16_at(m, i));
        if (sum > 1)
                return blkup_damaged(v, "checksum mismatch");
        if (blkup_u8_at(m, JM_MODE) > 5)
                return blkup_refuse(v, "mode above 5");
        blkup_found_evidence(ret, 16 + 15 + 5);
        blkup_found_version(ret, blkup_u8_at(m, JM_VERSION + 1), blkup_u8_at(m, JM_VERSION));
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_jmicron_raid_member;
const struct blkup_format blkup_format_jmicron_raid_member = {
        .name = "jmicron_raid_member", .usage = BLKUP_USAGE_RAID, .min_bytes = 65536,
        .flags = BLKUP_WHOLE_ONLY,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
