/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * drbdmanage_control_volume: where drbdmanage keeps its cluster's configuration: a line "$DRBDmgr=q", a hash,
 * and the persistence format at 4 KiB. Source: drbdmanage's persistence module.
 */
#include "probe/formats/fields.h"

enum { CV_HASH = 11, CV_HASH_LEN = 32, CV_LEN = 44 };
enum { FORMAT_AT = 4096, FORMAT_LEN = 8 };

static const struct blkup_magic magics[] = { { .len = 10, .bytes = "$DRBDmgr=q" } };

static bool is_hex(uint8_t c)
{
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes line, format;

        (void) hit;
        blkup_view_want(v, FORMAT_AT, FORMAT_LEN);
        BLKUP_FETCH(v, 0, CV_LEN, &line);
        for (size_t i = 0; i < CV_HASH_LEN; i++)
                if (!is_hex(blkup_u8_at(line, CV_HASH + i)))
                        return blkup_refuse(v, "no hash behind the magic");
        if (blkup_u8_at(line, CV_HASH + CV_HASH_LEN) != '\n')
                return blkup_refuse(v, "no end of line behind the hash");
        BLKUP_FETCH(v, FORMAT_AT, FORMAT_LEN, &format);
        blkup_found_evidence(ret, 80 + 4 * 32 + 8);
        blkup_found_text(ret, "UUID", blkup_slice_at(line, CV_HASH, CV_HASH_LEN));
        if (blkup_equal_at(format, 0, "\x1a\xdb\x98\xa2", 4))
                blkup_found_u64(ret, "VERSION", blkup_be32_at(format, 4));
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_drbdmanage_control_volume;
const struct blkup_format blkup_format_drbdmanage_control_volume = {
        .name = "drbdmanage_control_volume", .usage = BLKUP_USAGE_OTHER, .min_bytes = 65536,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
