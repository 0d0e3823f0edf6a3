/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ubi: the header of an erase block under UBI. Source: kernel drivers/mtd/ubi/ubi-media.h (struct ubi_ec_hdr,
 * big-endian). */
#include "probe/format.h"

enum { EC_VERSION = 4, EC_IMAGE_SEQUENCE = 24, EC_CRC = 60, EC_LEN = 64 };

static const struct blkup_magic magics[] = { { .len = 4, .bytes = "UBI#" } };

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes ec;

        (void) hit;
        BLKUP_FETCH(v, 0, EC_LEN, &ec);
        if (blkup_crc32(~0U, ec.data, EC_CRC) != blkup_be32_at(ec, EC_CRC))
                return blkup_damaged(v, "header checksum mismatch");
        blkup_found_evidence(ret, 32 + 32);
        blkup_found_u64(ret, "VERSION", blkup_u8_at(ec, EC_VERSION));
        if (blkup_be32_at(ec, EC_IMAGE_SEQUENCE) != 0)
                blkup_found_u64(ret, "UUID", blkup_be32_at(ec, EC_IMAGE_SEQUENCE));
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_ubi;
const struct blkup_format blkup_format_ubi = {
        .name = "ubi", .usage = BLKUP_USAGE_RAID,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
