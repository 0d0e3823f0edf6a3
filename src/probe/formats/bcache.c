/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * bcache: the superblock of a cache or of the device behind one, at 4 KiB. Source: kernel
 * drivers/md/bcache/bcache_ondisk.h (struct cache_sb_disk, little-endian).
 */
#include "probe/formats/bcache.h"
#include "probe/formats/fields.h"

enum {
        SB_CHECKSUM = 0,   /* CRC-64 of what follows, up to the last journal bucket */
        SB_OFFSET = 8,     /* sectors: where it stands */
        SB_VERSION = 16, SB_UUID = 40, SB_LABEL = 72,
        SB_BLOCK = 192,    /* sectors, 16 bits */
        SB_KEYS = 206,     /* journal buckets, 16 bits */
        SB_BUCKETS = 208,  /* 64 bits each */
};
#define MAX_KEYS 256u

static const struct blkup_magic magics[] = {
        { .at = BLKUP_BCACHE_AT,
          .within = BLKUP_BCACHE_MAGIC_WITHIN,
          .len = 16,
          .bytes = BLKUP_BCACHE_MAGIC },
};

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes sb;
        uint32_t keys;

        BLKUP_FETCH(v, hit->base, SB_BUCKETS, &sb);
        keys = blkup_le16_at(sb, SB_KEYS);
        if (keys > MAX_KEYS)
                return blkup_refuse(v, "more journal buckets than there is room for");
        BLKUP_FETCH(v, hit->base, SB_BUCKETS + 8 * (uint64_t) keys, &sb);
        if (~blkup_crc64(~(uint64_t) 0, sb.data + SB_OFFSET, sb.len - SB_OFFSET) !=
            blkup_le64_at(sb, SB_CHECKSUM))
                return blkup_damaged(v, "superblock checksum mismatch");
        if (blkup_le64_at(sb, SB_OFFSET) != BLKUP_BCACHE_AT / 512)
                return blkup_damaged(v, "superblock says it stands elsewhere");
        blkup_found_evidence(ret, 128 + 64 + 64);
        blkup_found_u64(ret, "VERSION", blkup_le64_at(sb, SB_VERSION));
        blkup_found_uuid(ret, "UUID", blkup_slice_at(sb, SB_UUID, 16));
        blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(sb, SB_LABEL, 32));
        blkup_found_u64(ret, "BLOCK_SIZE", blkup_le16_at(sb, SB_BLOCK) * UINT64_C(512));
        ret->wiped_to = BLKUP_BCACHE_AT;
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_bcache;
const struct blkup_format blkup_format_bcache = {
        .name = "bcache", .usage = BLKUP_USAGE_OTHER, .min_bytes = 8192,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
