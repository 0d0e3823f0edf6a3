/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * NILFS2. Source: kernel include/uapi/linux/nilfs2_ondisk.h (struct nilfs_super_block,
 * NILFS_SB2_OFFSET_BYTES) and fs/nilfs2/the_nilfs.c (which of the two superblocks counts).
 */
#include "probe/formats/fields.h"

#define PRIMARY_AT 1024
#define BACKUP_FROM_END 4096

/* Offsets in the superblock, little-endian. */
enum {
        SB_REVISION = 0,
        SB_MAGIC = 6,           /* 16 bits */
        SB_BYTES = 8,           /* 16 bits: what the checksum covers */
        SB_CHECKSUM_SEED = 12,
        SB_CHECKSUM = 16,
        SB_LOG_BLOCK_SIZE = 20, /* block = 1024 << n */
        SB_DEVICE_BYTES = 32,   /* 64 bits */
        SB_LAST_CHECKPOINT = 56, /* 64 bits */
        SB_UUID = 152,
        SB_LABEL = 168,         /* 80 bytes */
        SB_USED = 248,          /* up to here this file looks at it */
};

#define MAX_SB_BYTES 1024
#define MAX_LOG_BLOCK_SIZE 6

static const struct blkup_magic magics[] = {
        { .at = PRIMARY_AT, .within = SB_MAGIC, .len = 2, .bytes = "\x34\x34" },
        { .at = BACKUP_FROM_END,
          .within = SB_MAGIC,
          .len = 2,
          .anchor = BLKUP_FROM_END_512,
          .bytes = "\x34\x34" },
};
enum { ROW_PRIMARY, ROW_BACKUP, N_ROWS };

/* BLKUP_FOUND: a whole superblock is at `at`. */
static enum blkup_outcome fetch(struct blkup_view *v, uint64_t at, struct blkup_bytes *ret)
{
        static const uint8_t hole[4];
        struct blkup_bytes sb, all;
        unsigned len;
        uint32_t crc;

        BLKUP_FETCH(v, at, SB_USED, &sb);
        if (!blkup_equal_at(sb, SB_MAGIC, "\x34\x34", 2))
                return BLKUP_NOT_THIS;
        len = blkup_le16_at(sb, SB_BYTES);
        if (len < SB_CHECKSUM + 4 || len > MAX_SB_BYTES)
                return blkup_refuse(v, "no such size of a superblock");
        BLKUP_FETCH(v, at, len, &all);
        crc = blkup_crc32(blkup_le32_at(sb, SB_CHECKSUM_SEED), all.data, SB_CHECKSUM);
        crc = blkup_crc32(crc, hole, sizeof(hole));
        crc = blkup_crc32(crc, all.data + SB_CHECKSUM + 4, len - SB_CHECKSUM - 4);
        if (crc != blkup_le32_at(sb, SB_CHECKSUM))
                return blkup_damaged(v, "superblock checksum mismatch");
        *ret = sb;
        return BLKUP_FOUND;
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        enum blkup_outcome o[N_ROWS] = { BLKUP_NOT_THIS, BLKUP_NOT_THIS };
        struct blkup_bytes sb[N_ROWS];
        uint64_t backup_at;
        unsigned row;
        uint32_t log;

        (void) hit;
        /* Both are asked for before either answer is acted on, so that they come in one round. */
        o[ROW_PRIMARY] = fetch(v, PRIMARY_AT, &sb[ROW_PRIMARY]);
        if (blkup_view_anchor(v, BLKUP_FROM_END_512, BACKUP_FROM_END, &backup_at))
                o[ROW_BACKUP] = fetch(v, backup_at, &sb[ROW_BACKUP]);
        if (o[ROW_PRIMARY] == BLKUP_NEED || o[ROW_BACKUP] == BLKUP_NEED)
                return BLKUP_NEED;
        /* The end of a disk may be the end of its last partition: then the backup is that one's. */
        if (o[ROW_BACKUP] == BLKUP_FOUND && v->is_disk &&
            blkup_le64_at(sb[ROW_BACKUP], SB_DEVICE_BYTES) != v->size)
                o[ROW_BACKUP] = BLKUP_NOT_THIS;
        if (o[ROW_PRIMARY] != BLKUP_FOUND && o[ROW_BACKUP] != BLKUP_FOUND) {
                if (o[ROW_PRIMARY] == BLKUP_UNREADABLE || o[ROW_BACKUP] == BLKUP_UNREADABLE)
                        return BLKUP_UNREADABLE;
                return o[ROW_PRIMARY] == BLKUP_DAMAGED ? BLKUP_DAMAGED : o[ROW_BACKUP];
        }
        row = ROW_PRIMARY;
        if (o[ROW_PRIMARY] != BLKUP_FOUND)
                row = ROW_BACKUP;
        else if (o[ROW_BACKUP] == BLKUP_FOUND && blkup_le64_at(sb[ROW_PRIMARY], SB_LAST_CHECKPOINT) <
                                                         blkup_le64_at(sb[ROW_BACKUP], SB_LAST_CHECKPOINT))
                row = ROW_BACKUP;
        blkup_found_evidence(ret, 16 + 32);
        blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(sb[row], SB_LABEL, 80));
        blkup_found_uuid(ret, "UUID", blkup_slice_at(sb[row], SB_UUID, 16));
        blkup_found_u64(ret, "VERSION", blkup_le32_at(sb[row], SB_REVISION));
        log = blkup_le32_at(sb[row], SB_LOG_BLOCK_SIZE);
        if (log <= MAX_LOG_BLOCK_SIZE)
                blkup_found_block_size(ret, UINT64_C(1024) << log);
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_nilfs2;
const struct blkup_format blkup_format_nilfs2 = {
        .name = "nilfs2", .usage = BLKUP_USAGE_FILESYSTEM, .min_bytes = UINT64_C(1) << 20, .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
