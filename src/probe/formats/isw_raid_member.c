/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Intel Matrix / Rapid Storage: metadata in the last but one sector. Source: mdadm's documented imsm layout.
 */
#include "probe/format.h"

#define SIGNATURE "Intel Raid ISM Cfg Sig. "
#define SIGNATURE_LEN 24u
#define VERSION_LEN 8u

static const struct blkup_magic magics[] = {
        { .at = 2, .anchor = BLKUP_FROM_END_SECTOR, .len = SIGNATURE_LEN, .bytes = SIGNATURE },
};

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes text;
        char version[VERSION_LEN + 1];

        BLKUP_FETCH(v, hit->base + SIGNATURE_LEN, VERSION_LEN, &text);
        memcpy(version, text.data, VERSION_LEN);
        version[VERSION_LEN] = '\0';
        blkup_found_evidence(ret, SIGNATURE_LEN * 8);
        blkup_found_printf(ret, "VERSION", "%6s", version);
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_isw_raid_member;
const struct blkup_format blkup_format_isw_raid_member = {
        .name = "isw_raid_member", .usage = BLKUP_USAGE_RAID, .min_bytes = 65536, .flags = BLKUP_WHOLE_ONLY,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
