/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ReiserFS. Source: kernel fs/reiserfs/reiserfs.h (struct reiserfs_super_block, removed in 6.13): the
 * superblock is at 64 KiB, before version 3.5.11 it was at 8 KiB, and its magic moved as well.
 */
#include "probe/formats/fields.h"

/* Offsets in the superblock, little-endian. */
enum {
        SB_JOURNAL_BLOCK = 12,
        SB_OLD_MAGIC = 20,
        SB_BLOCK_BYTES = 44, /* 16 bits */
        SB_MAGIC = 52,
        SB_UUID = 84,        /* version 3.6 from here */
        SB_LABEL = 100,      /* 16 bytes */
};

#define SB_AT 65536
#define OLD_SB_AT 8192

static const struct blkup_magic magics[] = {
        { .at = OLD_SB_AT, .within = SB_MAGIC, .len = 8, .bytes = "ReIsErFs" },
        { .at = SB_AT, .within = SB_MAGIC, .len = 9, .bytes = "ReIsEr2Fs" },
        { .at = SB_AT, .within = SB_MAGIC, .len = 9, .bytes = "ReIsEr3Fs" },
        { .at = SB_AT, .within = SB_MAGIC, .len = 8, .bytes = "ReIsErFs" },
        { .at = OLD_SB_AT, .within = SB_OLD_MAGIC, .len = 8, .bytes = "ReIsErFs" },
};
enum { ROW_36 = 1, ROW_JOURNAL_ELSEWHERE = 2 };

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        bool is_36 = hit->row == ROW_36 || hit->row == ROW_JOURNAL_ELSEWHERE;
        struct blkup_bytes sb;
        uint64_t block;

        BLKUP_FETCH(v, hit->base, 116, &sb);
        block = blkup_le16_at(sb, SB_BLOCK_BYTES);
        if (block < 512)
                return blkup_refuse(v, "block size below 512");
        /* A superblock behind the start of the journal is a copy that the journal holds. */
        if (hit->base / 1024 / (block / 512) > blkup_le32_at(sb, SB_JOURNAL_BLOCK) / 2)
                return blkup_refuse(v, "inside its own journal");
        blkup_found_evidence(ret, 64 + 8);
        if (is_36) {
                blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(sb, SB_LABEL, 16));
                blkup_found_uuid(ret, "UUID", blkup_slice_at(sb, SB_UUID, 16));
        }
        blkup_found_string(ret, "VERSION",
                           hit->row == ROW_JOURNAL_ELSEWHERE ? "JR" : hit->row == ROW_36 ? "3.6" : "3.5");
        blkup_found_block_size(ret, block);
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_reiserfs;
const struct blkup_format blkup_format_reiserfs = {
        .name = "reiserfs", .usage = BLKUP_USAGE_FILESYSTEM, .min_bytes = 131072, .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
