/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * stratis: a block device of a Stratis pool, with two copies of its static header, at 512 and 4608. Source:
 * "Stratis Software Design" (BDA), little-endian.
 */
#include "probe/format.h"

enum {
        SB_CRC = 0, /* of what follows */
        SB_MAGIC = 4,
        SB_SECTORS = 20,
        SB_POOL_UUID = 32,
        SB_DEVICE_UUID = 64,
        SB_INIT_TIME = 120,
        SB_LEN = 512,
};
#define UUID_LEN 32u

#define MAGIC "!Stra0tis\x86\xff\x02^\x41rh"
static const struct blkup_magic magics[] = {
        { .at = 512, .within = SB_MAGIC, .len = 16, .bytes = MAGIC },
        { .at = 4608, .within = SB_MAGIC, .len = 16, .bytes = MAGIC },
};

/* 32 hexadecimal digits, as they are, with the hyphens of a UUID. */
static void add_uuid(struct blkup_found *ret, const char *name, struct blkup_bytes sb, size_t at)
{
        static const uint8_t groups[] = { 8, 4, 4, 4, 12 };
        char text[UUID_LEN + 4];
        size_t from = at, to = 0;

        for (size_t i = 0; i < sizeof(groups); i++) {
                if (i > 0)
                        text[to++] = '-';
                memcpy(text + to, sb.data + from, groups[i]);
                from += groups[i];
                to += groups[i];
        }
        blkup_found_text(ret, name, (struct blkup_bytes){ .data = (const uint8_t *) text, .len = to });
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes sb;
        bool valid = false;

        (void) hit;
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(magics) && !valid; i++) {
                BLKUP_FETCH(v, magics[i].at, SB_LEN, &sb);
                valid = blkup_equal_at(sb, SB_MAGIC, MAGIC, 16) &&
                        ~blkup_crc32c(~0U, sb.data + SB_MAGIC, SB_LEN - SB_MAGIC) ==
                                blkup_le32_at(sb, SB_CRC);
        }
        if (!valid)
                return blkup_damaged(v, "checksum mismatch in both copies");
        blkup_found_evidence(ret, 128 + 32);
        add_uuid(ret, "UUID", sb, SB_DEVICE_UUID);
        add_uuid(ret, "POOL_UUID", sb, SB_POOL_UUID);
        blkup_found_u64(ret, "BLOCKDEV_SECTORS", blkup_le64_at(sb, SB_SECTORS));
        blkup_found_u64(ret, "BLOCKDEV_INITTIME", blkup_le64_at(sb, SB_INIT_TIME));
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_stratis;
const struct blkup_format blkup_format_stratis = {
        .name = "stratis", .usage = BLKUP_USAGE_RAID, .min_bytes = 8192,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
