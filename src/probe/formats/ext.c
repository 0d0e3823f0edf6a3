/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ext2, ext3, ext4 and ext4dev. Source: kernel Documentation/filesystems/ext4/ (super block, feature bits);
 * which bits make which type: ../shared/probe/tags.tsv, as util-linux tells them apart.
 */
#include <inttypes.h>
#include <string.h>

#include "probe/formats/ext.h"
#include "probe/formats/fields.h"

/* Offsets in the superblock, little-endian. */
enum {
        SB_BLOCKS_LO = 4,       /* blocks */
        SB_LOG_BLOCK_SIZE = 24, /* block = 1024 << n */
        SB_MINOR_REV = 62,      /* 16 bits */
        SB_REV = 76,
        SB_COMPAT = 92,
        SB_INCOMPAT = 96,
        SB_RO_COMPAT = 100,
        SB_LABEL = 120,         /* 16 bytes */
        SB_JOURNAL_UUID = 208,
        SB_BLOCKS_HI = 336,     /* only with INCOMPAT_64BIT */
        SB_FLAGS = 352,
        SB_CHECKSUM = 1020,     /* only with RO_COMPAT_METADATA_CSUM */
};

#define INCOMPAT_FILETYPE 0x0002u
#define INCOMPAT_RECOVER 0x0004u
#define INCOMPAT_META_BG 0x0010u
#define INCOMPAT_64BIT 0x0080u
#define RO_COMPAT_METADATA_CSUM 0x0400u
#define FLAGS_TEST_FILESYS 0x0004u

/* What each driver of the past could mount: a bit outside makes it the next type. */
#define EXT2_INCOMPAT (INCOMPAT_FILETYPE | INCOMPAT_META_BG)
#define EXT3_INCOMPAT (EXT2_INCOMPAT | INCOMPAT_RECOVER)
#define EXT23_RO_COMPAT 0x0007u /* sparse_super, large_file, btree_dir */

const struct blkup_magic blkup_ext_magics[1] = {
        { .at = BLKUP_EXT_SB_AT, .within = 56, .len = 2, .bytes = "\x53\xef" },
};

/* Seeded with ~0 and not inverted at the end. */
static uint32_t sum_of(struct blkup_view *v, const uint8_t *sb)
{
        if (v->ext_sb != sb) {
                v->ext_sb = sb;
                v->ext_crc = blkup_crc32c(~0U, sb, SB_CHECKSUM);
        }
        return v->ext_crc;
}

enum blkup_outcome blkup_ext_fetch(struct blkup_view *v, struct blkup_ext_super *ret)
{
        struct blkup_ext_super s;

        BLKUP_FETCH(v, BLKUP_EXT_SB_AT, BLKUP_EXT_SB_LEN, &s.sb);
        s.compat = blkup_le32_at(s.sb, SB_COMPAT);
        s.incompat = blkup_le32_at(s.sb, SB_INCOMPAT);
        s.ro_compat = blkup_le32_at(s.sb, SB_RO_COMPAT);
        s.flags = blkup_le32_at(s.sb, SB_FLAGS);
        if (s.ro_compat & RO_COMPAT_METADATA_CSUM) {
                if (sum_of(v, s.sb.data) != blkup_le32_at(s.sb, SB_CHECKSUM))
                        return blkup_damaged(v, "superblock checksum mismatch");
        } else if (blkup_le32_at(s.sb, SB_LOG_BLOCK_SIZE) >= 256) {
                return blkup_refuse(v, "absurd block size");
        }
        *ret = s;
        return BLKUP_FOUND;
}

static uint32_t block_size(const struct blkup_ext_super *s)
{
        uint32_t shift = blkup_le32_at(s->sb, SB_LOG_BLOCK_SIZE);

        /* In 32 bits, as util-linux shifts it: a size of 4 GiB and more is printed as 0. */
        return shift < 32 ? 1024U << shift : 0;
}

void blkup_ext_describe(const struct blkup_ext_super *s, const char *type, struct blkup_found *ret)
{
        bool is_jbd = (s->incompat & BLKUP_EXT_INCOMPAT_JOURNAL_DEV) != 0;
        uint64_t blocks_lo = blkup_le32_at(s->sb, SB_BLOCKS_LO), blocks = blocks_lo, bytes;

        blkup_found_evidence(ret, s->ro_compat & RO_COMPAT_METADATA_CSUM ? 16 + 32 : 16 + 24);
        blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(s->sb, SB_LABEL, 16));
        blkup_found_uuid(ret, "UUID", blkup_slice_at(s->sb, BLKUP_EXT_SB_UUID, 16));
        if (s->compat & BLKUP_EXT_COMPAT_HAS_JOURNAL)
                blkup_found_uuid(ret, "EXT_JOURNAL", blkup_slice_at(s->sb, SB_JOURNAL_UUID, 16));
        if (!is_jbd && strcmp(type, "ext2") != 0 && !(s->incompat & ~EXT2_INCOMPAT))
                blkup_found_string(ret, "SEC_TYPE", "ext2");
        blkup_found_version(ret, blkup_le32_at(s->sb, SB_REV), blkup_le16_at(s->sb, SB_MINOR_REV));
        if (blkup_le32_at(s->sb, SB_LOG_BLOCK_SIZE) < 32) {
                blkup_found_u64(ret, "FSBLOCKSIZE", block_size(s));
                blkup_found_u64(ret, "BLOCK_SIZE", block_size(s));
        }
        if (s->incompat & INCOMPAT_64BIT)
                blocks |= (uint64_t) blkup_le32_at(s->sb, SB_BLOCKS_HI) << 32;
        blkup_found_u64(ret, "FSLASTBLOCK", blocks);
        /* util-linux counts the low half only; beyond 2^32 blocks that is wrong, but it is what its users
         * compare. */
        if (blkup_mul(block_size(s), blocks_lo, &bytes))
                blkup_found_u64(ret, "FSSIZE", bytes);
}

static enum blkup_outcome check_ext4dev(struct blkup_view *v, const struct blkup_hit *hit,
                                        struct blkup_found *ret)
{
        struct blkup_ext_super s;
        enum blkup_outcome o = blkup_ext_fetch(v, &s);

        (void) hit;
        if (o != BLKUP_FOUND)
                return o;
        if (s.incompat & BLKUP_EXT_INCOMPAT_JOURNAL_DEV)
                return blkup_refuse(v, "a journal device");
        if (!(s.flags & FLAGS_TEST_FILESYS))
                return blkup_refuse(v, "not marked for development code");
        blkup_ext_describe(&s, "ext4dev", ret);
        return BLKUP_FOUND;
}

static enum blkup_outcome check_ext4(struct blkup_view *v, const struct blkup_hit *hit,
                                     struct blkup_found *ret)
{
        struct blkup_ext_super s;
        enum blkup_outcome o = blkup_ext_fetch(v, &s);

        (void) hit;
        if (o != BLKUP_FOUND)
                return o;
        if (s.incompat & BLKUP_EXT_INCOMPAT_JOURNAL_DEV)
                return blkup_refuse(v, "a journal device");
        if (!(s.ro_compat & ~EXT23_RO_COMPAT) && !(s.incompat & ~EXT3_INCOMPAT))
                return blkup_refuse(v, "no feature of ext4");
        if (s.flags & FLAGS_TEST_FILESYS)
                return blkup_refuse(v, "marked for development code");
        blkup_ext_describe(&s, "ext4", ret);
        return BLKUP_FOUND;
}

static enum blkup_outcome check_ext3(struct blkup_view *v, const struct blkup_hit *hit,
                                     struct blkup_found *ret)
{
        struct blkup_ext_super s;
        enum blkup_outcome o = blkup_ext_fetch(v, &s);

        (void) hit;
        if (o != BLKUP_FOUND)
                return o;
        if (!(s.compat & BLKUP_EXT_COMPAT_HAS_JOURNAL))
                return blkup_refuse(v, "no journal");
        if ((s.ro_compat & ~EXT23_RO_COMPAT) || (s.incompat & ~EXT3_INCOMPAT))
                return blkup_refuse(v, "features beyond ext3");
        blkup_ext_describe(&s, "ext3", ret);
        return BLKUP_FOUND;
}

static enum blkup_outcome check_ext2(struct blkup_view *v, const struct blkup_hit *hit,
                                     struct blkup_found *ret)
{
        struct blkup_ext_super s;
        enum blkup_outcome o = blkup_ext_fetch(v, &s);

        (void) hit;
        if (o != BLKUP_FOUND)
                return o;
        if (s.compat & BLKUP_EXT_COMPAT_HAS_JOURNAL)
                return blkup_refuse(v, "has a journal");
        if ((s.ro_compat & ~EXT23_RO_COMPAT) || (s.incompat & ~EXT2_INCOMPAT))
                return blkup_refuse(v, "features beyond ext2");
        blkup_ext_describe(&s, "ext2", ret);
        return BLKUP_FOUND;
}

#define DEFINE_EXT(type)                                                                             \
        const struct blkup_format blkup_format_##type = {                                            \
                .name = #type, .usage = BLKUP_USAGE_FILESYSTEM, .magics = blkup_ext_magics,          \
                .n_magics = BLKUP_ARRAY_SIZE(blkup_ext_magics), .check = check_##type,               \
        }

extern const struct blkup_format blkup_format_ext4dev, blkup_format_ext4, blkup_format_ext3,
        blkup_format_ext2;
DEFINE_EXT(ext4dev);
DEFINE_EXT(ext4);
DEFINE_EXT(ext3);
DEFINE_EXT(ext2);
