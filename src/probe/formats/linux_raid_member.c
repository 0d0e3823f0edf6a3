/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * linux_raid_member: md, superblock formats 0.90 and 1.0, 1.1, 1.2. Source: kernel
 * include/uapi/linux/raid/md_p.h.
 */
#include "probe/formats/fields.h"

#define MD_MAGIC_LE "\xfc\x4e\x2b\xa9"
#define MD_MAGIC_BE "\xa9\x2b\x4e\xfc"
#define MD_RESERVED 65536u

/* 0.90: words of the byte order that the magic shows. */
enum { SB0_MAJOR = 4, SB0_MINOR = 8, SB0_PATCH = 12, SB0_UUID0 = 20, SB0_SIZE_KIB = 32, SB0_UUID1 = 52 };
enum { SB0_LEN = 64 };

/* 1.x: little-endian. */
enum {
        SB1_MAJOR = 4, SB1_SET_UUID = 16, SB1_SET_NAME = 32, SB1_SUPER_OFFSET = 144, /* sectors */
        SB1_DEVICE_UUID = 168, SB1_CHECKSUM = 216, SB1_MAX_DEV = 220, SB1_LEN = 256,
};
#define MAX_DEVICES 1920u /* of 1.x: superblock and roles fill 4096 bytes */

static const struct blkup_magic magics[] = {
        { .at = 65536, .anchor = BLKUP_FROM_END_64K, .len = 4, .bytes = MD_MAGIC_LE },
        { .at = 65536, .anchor = BLKUP_FROM_END_64K, .len = 4, .bytes = MD_MAGIC_BE },
        { .at = 8192, .anchor = BLKUP_FROM_END_4K, .len = 4, .bytes = MD_MAGIC_LE },
        { .at = 0, .len = 4, .bytes = MD_MAGIC_LE },
        { .at = 4096, .len = 4, .bytes = MD_MAGIC_LE },
};
static const char *const versions[] = { "", "", "1.0", "1.1", "1.2" };

static enum blkup_outcome check0(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        bool big = hit->row == 1;
        struct blkup_bytes sb;
        uint32_t word[SB0_LEN / 4];
        uint8_t uuid[16] = { 0 };
        uint64_t bytes;

        BLKUP_FETCH(v, hit->base, SB0_LEN, &sb);
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(word); i++)
                word[i] = big ? blkup_be32_at(sb, i * 4) : blkup_le32_at(sb, i * 4);
        bytes = (uint64_t) word[SB0_SIZE_KIB / 4] * 1024;
        if (v->size < bytes + MD_RESERVED || hit->base < bytes)
                return blkup_refuse(v, "member is larger than the device");
        if (v->is_whole) {
                bool covered = false;
                enum blkup_outcome o =
                        blkup_tables_cover(v, hit->base - bytes, bytes + MD_RESERVED, &covered);

                if (o != BLKUP_FOUND)
                        return o;
                if (covered)
                        return blkup_refuse(v, "belongs to a partition at the end of the disk");
        }
        blkup_found_evidence(ret, 32 + 16);
        blkup_found_printf(ret, "VERSION", "%u.%u.%u", word[SB0_MAJOR / 4], word[SB0_MINOR / 4],
                           word[SB0_PATCH / 4]);
        for (unsigned i = 0; i < 4; i++) {
                uint32_t w = i == 0 ? word[SB0_UUID0 / 4] : word[SB0_UUID1 / 4 + i - 1];

                if (i > 0 && word[SB0_MINOR / 4] < 90)
                        break;
                for (unsigned k = 0; k < 4; k++)
                        uuid[i * 4 + k] = (uint8_t) (w >> (24 - 8 * k));
        }
        blkup_found_uuid(ret, "UUID", (struct blkup_bytes){ .data = uuid, .len = sizeof(uuid) });
        return BLKUP_FOUND;
}

static uint32_t checksum1(struct blkup_bytes sb)
{
        uint64_t sum = 0;
        size_t i = 0;

        for (; i + 4 <= sb.len; i += 4)
                sum += i == SB1_CHECKSUM ? 0 : blkup_le32_at(sb, i);
        if (i + 2 <= sb.len)
                sum += blkup_le16_at(sb, i);
        return (uint32_t) ((sum & 0xffffffff) + (sum >> 32));
}

static enum blkup_outcome check1(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes sb;
        uint32_t max_dev;

        BLKUP_FETCH(v, hit->base, SB1_LEN, &sb);
        if (blkup_le32_at(sb, SB1_MAJOR) != 1)
                return blkup_refuse(v, "major version is not 1");
        if (blkup_le64_at(sb, SB1_SUPER_OFFSET) != hit->base / 512)
                return blkup_damaged(v, "superblock says it stands elsewhere");
        max_dev = blkup_le32_at(sb, SB1_MAX_DEV);
        if (max_dev > MAX_DEVICES)
                return blkup_damaged(v, "more roles than a superblock holds");
        BLKUP_FETCH(v, hit->base, SB1_LEN + 2 * (uint64_t) max_dev, &sb);
        if (checksum1(sb) != blkup_le32_at(sb, SB1_CHECKSUM))
                return blkup_damaged(v, "superblock checksum mismatch");
        blkup_found_evidence(ret, 32 + 32 + 64 + 32);
        blkup_found_uuid(ret, "UUID", blkup_slice_at(sb, SB1_SET_UUID, 16));
        blkup_found_uuid(ret, "UUID_SUB", blkup_slice_at(sb, SB1_DEVICE_UUID, 16));
        blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(sb, SB1_SET_NAME, 32));
        blkup_found_string(ret, "VERSION", versions[hit->row]);
        return BLKUP_FOUND;
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        if (v->size <= MD_RESERVED)
                return blkup_refuse(v, "device is too small");
        return hit->row < 2 ? check0(v, hit, ret) : check1(v, hit, ret);
}

extern const struct blkup_format blkup_format_linux_raid_member;
const struct blkup_format blkup_format_linux_raid_member = {
        .name = "linux_raid_member", .usage = BLKUP_USAGE_RAID, .flags = BLKUP_EVERY_MAGIC,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
