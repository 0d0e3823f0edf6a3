/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* DDF: the anchor header of a RAID set. Source: SNIA "Common RAID Disk Data Format" 2.0, 5.5 (big-endian). */
#include "probe/formats/fields.h"

enum { DDF_CRC = 4, DDF_GUID = 8, DDF_REVISION = 32, DDF_PRIMARY_LBA = 96, DDF_LEN = 512 };

static const struct blkup_magic magics[] = {
        { .at = 512, .anchor = BLKUP_FROM_END_512, .len = 4, .bytes = "\xde\x11\xde\x11" },
        { .at = 257 * 512, .anchor = BLKUP_FROM_END_512, .len = 4, .bytes = "\xde\x11\xde\x11" },
};

static uint32_t header_crc(struct blkup_bytes h)
{
        static const uint8_t hole[4] = { 0xff, 0xff, 0xff, 0xff };
        uint32_t crc = blkup_crc32(0, h.data, DDF_CRC);

        crc = blkup_crc32(crc, hole, sizeof(hole));
        return blkup_crc32(crc, h.data + DDF_CRC + 4, DDF_LEN - DDF_CRC - 4);
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes h;
        uint64_t primary;

        BLKUP_FETCH(v, hit->base, DDF_LEN, &h);
        if (header_crc(h) != blkup_be32_at(h, DDF_CRC))
                return blkup_damaged(v, "header checksum mismatch");
        primary = blkup_be64_at(h, DDF_PRIMARY_LBA);
        if (primary > 0) {
                struct blkup_bytes magic;

                if (!blkup_mul(primary, 512, &primary))
                        return blkup_damaged(v, "primary header is not on the device");
                BLKUP_FETCH(v, primary, 4, &magic);
                if (!blkup_equal_at(magic, 0, magics[0].bytes, 4))
                        return blkup_damaged(v, "no primary header where the anchor says");
        }
        blkup_found_evidence(ret, 32 + 32 + (primary > 0 ? 32 : 0));
        blkup_found_rtrimmed(ret, "UUID", blkup_slice_at(h, DDF_GUID, 24));
        blkup_found_text(ret, "VERSION", blkup_slice_at(h, DDF_REVISION, 8));
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_ddf_raid_member;
const struct blkup_format blkup_format_ddf_raid_member = {
        .name = "ddf_raid_member", .usage = BLKUP_USAGE_RAID, .min_bytes = 196608, .flags = BLKUP_EVERY_MAGIC,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
