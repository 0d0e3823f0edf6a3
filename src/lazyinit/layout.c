/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "lazyinit/layout.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/crc.h"
#include "block/writer.h"

/* Offsets in the superblock; units as in the kernel's struct ext4_super_block. */
#define SB_INODES_COUNT 0x00
#define SB_BLOCKS_LO 0x04
#define SB_FIRST_DATA_BLOCK 0x14
#define SB_LOG_BLOCK_SIZE 0x18
#define SB_LOG_CLUSTER_SIZE 0x1C
#define SB_BLOCKS_PER_GROUP 0x20
#define SB_CLUSTERS_PER_GROUP 0x24
#define SB_INODES_PER_GROUP 0x28
#define SB_MAGIC 0x38
#define SB_STATE 0x3A
#define SB_REV_LEVEL 0x4C
#define SB_FIRST_INO 0x54
#define SB_INODE_SIZE 0x58
#define SB_COMPAT 0x5C
#define SB_INCOMPAT 0x60
#define SB_RO_COMPAT 0x64
#define SB_UUID 0x68
#define SB_LAST_ORPHAN 0xE8
#define SB_DESC_SIZE 0xFE
#define SB_FIRST_META_BG 0x104
#define SB_BLOCKS_HI 0x150
#define SB_LOG_GROUPS_PER_FLEX 0x174
#define SB_CHECKSUM_TYPE 0x175
#define SB_BACKUP_BGS 0x24C
#define SB_CHECKSUM_SEED 0x270
#define SB_CHECKSUM 0x3FC

#define MAGIC 0xEF53u
#define STATE_CLEAN 1u
#define STATE_ERRORS 2u
#define STATE_ORPHANS 4u
#define CHECKSUM_TYPE_CRC32C 1u

#define COMPAT_SPARSE_SUPER2 0x200u

#define INCOMPAT_RECOVER 0x4u
#define INCOMPAT_JOURNAL_DEV 0x8u
#define INCOMPAT_META_BG 0x10u
#define INCOMPAT_FLEX_BG 0x200u
#define INCOMPAT_CSUM_SEED 0x2000u
/* filetype, recover, meta_bg, extents, 64bit, mmp, flex_bg, ea_inode, csum_seed, largedir, inline_data,
 * encrypt, casefold: none of these moves a table or changes a descriptor. */
#define INCOMPAT_KNOWN                                                                     \
        (0x2u | INCOMPAT_RECOVER | INCOMPAT_META_BG | BLKUP_EXT4_INCOMPAT_EXTENTS |        \
         BLKUP_EXT4_INCOMPAT_64BIT | BLKUP_EXT4_INCOMPAT_MMP | INCOMPAT_FLEX_BG | 0x400u | \
         INCOMPAT_CSUM_SEED | 0x4000u | 0x8000u | 0x10000u | 0x20000u)

#define RO_SPARSE_SUPER 0x1u
#define RO_GDT_CSUM 0x10u
#define RO_BIGALLOC 0x200u
#define RO_METADATA_CSUM 0x400u
#define RO_ORPHAN_PRESENT 0x10000u
/* sparse_super, large_file, huge_file, gdt_csum, dir_nlink, extra_isize, quota, bigalloc, metadata_csum,
 * project, verity, orphan_present. Left out on purpose: readonly (0x1000) and shared_blocks (0x4000). */
#define RO_KNOWN                                                                                      \
        (0x1u | 0x2u | 0x8u | RO_GDT_CSUM | 0x20u | 0x40u | 0x100u | RO_BIGALLOC | RO_METADATA_CSUM | \
         0x2000u | 0x8000u | RO_ORPHAN_PRESENT)

/* The largest file system with 128 MiB groups that this many groups make has 2 PiB: nobody has one, and a
 * table of them is what a hostile superblock may ask us to hold. */
#define GROUPS_MAX (1u << 24)
/* Descriptors are read in pieces of this; the most that one read brings. */
#define DESC_READ_BYTES 262144u

int blkup_lazy_refuse(struct blkup_lazy_refusal *r, enum blkup_lazyinit_refusal what, const char *fmt, ...)
{
        va_list ap;

        r->what = what;
        va_start(ap, fmt);
        (void) vsnprintf(r->reason, sizeof(r->reason), fmt, ap);
        va_end(ap);
        return 1;
}

bool blkup_lazy_has_super(const struct blkup_lazy_layout *l, uint32_t g)
{
        struct blkup_bytes sb = { .data = l->super, .at = BLKUP_EXT4_SUPER_AT, .len = sizeof(l->super) };

        if (g == 0)
                return true;
        if (l->compat & COMPAT_SPARSE_SUPER2)
                return g == blkup_le32_at(sb, SB_BACKUP_BGS) || g == blkup_le32_at(sb, SB_BACKUP_BGS + 4);
        if (g == 1 || !(l->ro_compat & RO_SPARSE_SUPER))
                return true;
        if (g % 2 == 0)
                return false;
        for (uint32_t p = 3; p <= 7; p += 2) {
                uint64_t power = p;

                /* Ends: power grows at least threefold a turn. */
                while (power < g)
                        power *= p;
                if (power == g)
                        return true;
        }
        return false;
}

static uint64_t desc_block(const struct blkup_lazy_layout *l, uint32_t i)
{
        uint64_t g, at;

        /* One block behind the superblock's own: not first_data_block + 1, which is 1 for bigalloc with 1 KiB
         * blocks, where the descriptors are in block 2. */
        if (i < l->first_meta_bg)
                return BLKUP_EXT4_SUPER_AT / l->block_bytes + 1 + i;
        g = (uint64_t) i * l->desc_per_block;
        at = l->first_block + g * l->blocks_per_group + (blkup_lazy_has_super(l, (uint32_t) g) ? 1 : 0);
        if (i == 0 && l->block_bytes == 1024 && l->first_block == 0)
                at++;
        return at;
}

uint64_t blkup_lazy_desc_at(const struct blkup_lazy_layout *l, uint32_t g)
{
        return desc_block(l, g / l->desc_per_block) * l->block_bytes +
               (uint64_t) (g % l->desc_per_block) * l->desc_bytes;
}

uint16_t blkup_lazy_desc_checksum(const struct blkup_lazy_layout *l, uint32_t g, const uint8_t *desc)
{
        const uint8_t group[4] = { (uint8_t) g, (uint8_t) (g >> 8), (uint8_t) (g >> 16),
                                   (uint8_t) (g >> 24) };
        const uint8_t *rest = desc + BLKUP_EXT4_BG_CHECKSUM + 2;
        size_t n_rest = l->desc_bytes - BLKUP_EXT4_BG_CHECKSUM - 2;

        if (l->checksum == BLKUP_LAZY_CRC32C) {
                static const uint8_t zero[2];
                uint32_t c = blkup_crc32c(l->seed, group, sizeof(group));

                c = blkup_crc32c(c, desc, BLKUP_EXT4_BG_CHECKSUM);
                c = blkup_crc32c(c, zero, sizeof(zero));
                return (uint16_t) blkup_crc32c(c, rest, n_rest);
        } else {
                uint16_t c = blkup_crc16(0xFFFF, l->uuid, sizeof(l->uuid));

                c = blkup_crc16(c, group, sizeof(group));
                c = blkup_crc16(c, desc, BLKUP_EXT4_BG_CHECKSUM);
                return n_rest > 0 ? blkup_crc16(c, rest, n_rest) : c;
        }
}

/* ---- superblock ---- */

static int bad(struct blkup_lazy_refusal *r, const char *what, uint64_t v)
{
        return blkup_lazy_refuse(r, BLKUP_LAZYINIT_BAD_SUPERBLOCK,
                                 "superblock: %s %" PRIu64 " makes no sense", what, v);
}

static int check_features(struct blkup_lazy_layout *l, struct blkup_bytes sb, struct blkup_lazy_refusal *r)
{
        l->compat = blkup_le32_at(sb, SB_COMPAT);
        l->incompat = blkup_le32_at(sb, SB_INCOMPAT);
        l->ro_compat = blkup_le32_at(sb, SB_RO_COMPAT);
        /* Revision 0 has no such fields. */
        if (blkup_le32_at(sb, SB_REV_LEVEL) == 0)
                l->compat = l->incompat = l->ro_compat = 0;
        if (l->incompat & INCOMPAT_JOURNAL_DEV)
                return blkup_lazy_refuse(r, BLKUP_LAZYINIT_JOURNAL_DEVICE, "an external journal");
        if (blkup_le32_at(sb, SB_LOG_BLOCK_SIZE) > 6)
                return bad(r, "block size", blkup_le32_at(sb, SB_LOG_BLOCK_SIZE));
        l->block_bytes = 1024u << blkup_le32_at(sb, SB_LOG_BLOCK_SIZE);
        if (l->ro_compat & RO_METADATA_CSUM) {
                uint32_t want = blkup_le32_at(sb, SB_CHECKSUM);
                uint32_t have = blkup_crc32c(~0u, l->super, SB_CHECKSUM);

                l->checksum = BLKUP_LAZY_CRC32C;
                if (blkup_u8_at(sb, SB_CHECKSUM_TYPE) != CHECKSUM_TYPE_CRC32C || want != have)
                        return blkup_lazy_refuse(r, BLKUP_LAZYINIT_SUPERBLOCK_CHECKSUM,
                                                 "superblock at 1024: checksum is 0x%08" PRIx32
                                                 ", should be 0x%08" PRIx32, want, have);
        } else if (l->ro_compat & RO_GDT_CSUM) {
                l->checksum = BLKUP_LAZY_CRC16;
        }
        if (l->incompat & ~INCOMPAT_KNOWN)
                return blkup_lazy_refuse(r, BLKUP_LAZYINIT_UNKNOWN_INCOMPAT,
                                         "incompatible features 0x%" PRIx32 " are not known",
                                         l->incompat & ~INCOMPAT_KNOWN);
        if (l->ro_compat & ~RO_KNOWN)
                return blkup_lazy_refuse(r, BLKUP_LAZYINIT_UNKNOWN_RO_COMPAT,
                                         "features 0x%" PRIx32 " forbid writing, or are not known",
                                         l->ro_compat & ~RO_KNOWN);
        if ((l->ro_compat & RO_GDT_CSUM) && (l->ro_compat & RO_METADATA_CSUM))
                return blkup_lazy_refuse(r, BLKUP_LAZYINIT_BOTH_CHECKSUMS,
                                         "both gdt_csum and metadata_csum are set");
        return 0;
}

/* How large is what, and where. All of it is checked before a single division or shift uses it. */
static int check_geometry(struct blkup_lazy_layout *l, struct blkup_bytes sb, uint64_t size_bytes,
                          struct blkup_lazy_refusal *r)
{
        bool is_revision_0 = blkup_le32_at(sb, SB_REV_LEVEL) == 0;
        bool is_bigalloc = l->ro_compat & RO_BIGALLOC;
        uint64_t groups, bytes, cluster_shift = 0;
        uint32_t inodes_per_block;

        l->blocks = blkup_le32_at(sb, SB_BLOCKS_LO);
        if (l->incompat & BLKUP_EXT4_INCOMPAT_64BIT)
                l->blocks |= (uint64_t) blkup_le32_at(sb, SB_BLOCKS_HI) << 32;
        l->first_block = blkup_le32_at(sb, SB_FIRST_DATA_BLOCK);
        l->blocks_per_group = blkup_le32_at(sb, SB_BLOCKS_PER_GROUP);
        l->inodes_per_group = blkup_le32_at(sb, SB_INODES_PER_GROUP);
        l->inode_bytes = is_revision_0 ? 128 : blkup_le16_at(sb, SB_INODE_SIZE);
        l->first_inode = is_revision_0 ? 11 : blkup_le32_at(sb, SB_FIRST_INO);

        if (l->inode_bytes < 128 || l->inode_bytes > l->block_bytes || !blkup_is_power_of_two(l->inode_bytes))
                return bad(r, "inode size", l->inode_bytes);
        /* A group's bitmaps are one block each. */
        if (l->inodes_per_group == 0 || l->inodes_per_group > 8 * l->block_bytes)
                return bad(r, "inodes per group", l->inodes_per_group);
        if (is_bigalloc) {
                cluster_shift = (uint64_t) blkup_le32_at(sb, SB_LOG_CLUSTER_SIZE) -
                                blkup_le32_at(sb, SB_LOG_BLOCK_SIZE);
                /* The subtraction wraps when the cluster is smaller than a block: a large number, too. */
                if (cluster_shift > 20)
                        return bad(r, "cluster size", blkup_le32_at(sb, SB_LOG_CLUSTER_SIZE));
        }
        if (l->blocks_per_group == 0 || (uint64_t) l->blocks_per_group > (8ull * l->block_bytes)
                                                                                 << cluster_shift)
                return bad(r, "blocks per group", l->blocks_per_group);
        if (l->first_block != (l->block_bytes == 1024 && !is_bigalloc ? 1 : 0) &&
            !(l->block_bytes == 1024 && l->first_block == 1))
                return bad(r, "first data block", l->first_block);
        if (l->blocks <= l->first_block || !blkup_mul(l->blocks, l->block_bytes, &bytes))
                return bad(r, "number of blocks", l->blocks);
        if (bytes > size_bytes)
                return blkup_lazy_refuse(r, BLKUP_LAZYINIT_TRUNCATED,
                                         "the file system has %" PRIu64 " bytes, the device %" PRIu64, bytes,
                                         size_bytes);
        groups = (l->blocks - l->first_block - 1) / l->blocks_per_group + 1;
        if (groups > GROUPS_MAX || groups * l->inodes_per_group != blkup_le32_at(sb, SB_INODES_COUNT))
                return bad(r, "number of inodes", blkup_le32_at(sb, SB_INODES_COUNT));
        l->groups = (uint32_t) groups;

        l->desc_bytes = 32;
        if (l->incompat & BLKUP_EXT4_INCOMPAT_64BIT) {
                l->desc_bytes = blkup_le16_at(sb, SB_DESC_SIZE);
                if (l->desc_bytes < 64 || l->desc_bytes > BLKUP_EXT4_DESC_MAX ||
                    l->desc_bytes > l->block_bytes || !blkup_is_power_of_two(l->desc_bytes))
                        return bad(r, "descriptor size", l->desc_bytes);
        }
        inodes_per_block = l->block_bytes / l->inode_bytes;
        l->inodes_per_block = inodes_per_block;
        l->table_blocks = (l->inodes_per_group + inodes_per_block - 1) / inodes_per_block;
        l->desc_per_block = l->block_bytes / l->desc_bytes;
        l->desc_blocks = (l->groups + l->desc_per_block - 1) / l->desc_per_block;
        l->first_meta_bg = UINT64_MAX;
        if (l->incompat & INCOMPAT_META_BG) {
                l->first_meta_bg = blkup_le32_at(sb, SB_FIRST_META_BG);
                if (l->first_meta_bg > l->desc_blocks)
                        return bad(r, "first meta group", l->first_meta_bg);
        }
        l->groups_per_flex = 1;
        if ((l->incompat & INCOMPAT_FLEX_BG) && blkup_u8_at(sb, SB_LOG_GROUPS_PER_FLEX) < 31)
                l->groups_per_flex = 1u << blkup_u8_at(sb, SB_LOG_GROUPS_PER_FLEX);
        memcpy(l->uuid, l->super + SB_UUID, sizeof(l->uuid));
        l->seed = l->incompat & INCOMPAT_CSUM_SEED ? blkup_le32_at(sb, SB_CHECKSUM_SEED)
                                                   : blkup_crc32c(~0u, l->uuid, sizeof(l->uuid));
        return 0;
}

/* Somebody has to look at this file system first. */
static int check_state(const struct blkup_lazy_layout *l, struct blkup_bytes sb, struct blkup_lazy_refusal *r)
{
        uint16_t state = blkup_le16_at(sb, SB_STATE);

        if (l->incompat & INCOMPAT_RECOVER)
                return blkup_lazy_refuse(r, BLKUP_LAZYINIT_NEEDS_RECOVERY,
                                         "the journal has to be replayed first");
        if (state & STATE_ERRORS)
                return blkup_lazy_refuse(r, BLKUP_LAZYINIT_ERRORS_RECORDED,
                                         "errors are recorded in the superblock");
        if (!(state & STATE_CLEAN))
                return blkup_lazy_refuse(r, BLKUP_LAZYINIT_NOT_CLEAN, "it was not cleanly unmounted");
        if ((state & STATE_ORPHANS) || blkup_le32_at(sb, SB_LAST_ORPHAN) != 0 ||
            (l->ro_compat & RO_ORPHAN_PRESENT))
                return blkup_lazy_refuse(r, BLKUP_LAZYINIT_ORPHANS,
                                         "orphan inodes have to be cleaned up first");
        return 0;
}

/* ---- descriptors ---- */

static uint64_t join(struct blkup_bytes d, bool has_hi, size_t lo, size_t hi)
{
        return blkup_le32_at(d, lo) | (has_hi ? (uint64_t) blkup_le32_at(d, hi) << 32 : 0);
}

static uint32_t join16(struct blkup_bytes d, bool has_hi, size_t lo, size_t hi)
{
        return blkup_le16_at(d, lo) | (has_hi ? (uint32_t) blkup_le16_at(d, hi) << 16 : 0);
}

/* Offsets: the kernel's struct ext4_group_desc. */
static int take_descriptor(struct blkup_lazy_layout *l, uint32_t g, struct blkup_bytes d, bool is_live,
                           struct blkup_lazy_refusal *r)
{
        struct blkup_lazy_group *to = &l->group[g];
        bool has_hi = l->desc_bytes >= 64;
        uint32_t unused = join16(d, has_hi, 0x1C, 0x32);
        uint32_t free_inodes = join16(d, has_hi, 0x0E, 0x2E), dirs = join16(d, has_hi, 0x10, 0x30);
        uint64_t lo = l->first_block, hi = l->blocks;
        const uint64_t *bitmap;

        *to = (struct blkup_lazy_group){
                .block_bitmap = join(d, has_hi, 0x00, 0x20),
                .inode_bitmap = join(d, has_hi, 0x04, 0x24),
                .table = join(d, has_hi, 0x08, 0x28),
                .flags = blkup_le16_at(d, BLKUP_EXT4_BG_FLAGS),
                .checksum = blkup_le16_at(d, BLKUP_EXT4_BG_CHECKSUM),
        };
        if (is_live) {
                unused = (uint32_t) blkup_min(unused, l->inodes_per_group);
        } else {
                uint16_t should = blkup_lazy_desc_checksum(l, g, d.data);

                if (to->checksum != should)
                        return blkup_lazy_refuse(r, BLKUP_LAZYINIT_DESCRIPTOR_CHECKSUM,
                                                 "group %" PRIu32
                                                 ": descriptor checksum is 0x%04x, should be 0x%04x",
                                                 g, to->checksum, should);
                if (!(l->incompat & INCOMPAT_FLEX_BG)) {
                        lo = l->first_block + (uint64_t) g * l->blocks_per_group;
                        hi = blkup_min(lo + l->blocks_per_group, l->blocks);
                }
                lo = blkup_max(lo, 1);
                if (to->table < lo || to->table > hi || l->table_blocks > hi - to->table)
                        return blkup_lazy_refuse(r, BLKUP_LAZYINIT_TABLE_OUT_OF_RANGE,
                                                 "group %" PRIu32 ": inode table at block %" PRIu64
                                                 " is not inside %" PRIu64 "..%" PRIu64,
                                                 g, to->table, lo, hi);
                bitmap = to->inode_bitmap < lo || to->inode_bitmap >= hi ? &to->inode_bitmap
                         : to->block_bitmap < lo || to->block_bitmap >= hi ? &to->block_bitmap : NULL;
                if (bitmap)
                        return blkup_lazy_refuse(r, BLKUP_LAZYINIT_TABLE_OUT_OF_RANGE,
                                                 "group %" PRIu32 ": bitmap at block %" PRIu64
                                                 " is not inside %" PRIu64 "..%" PRIu64, g, *bitmap, lo, hi);
                if (unused > l->inodes_per_group)
                        return blkup_lazy_refuse(r, BLKUP_LAZYINIT_UNUSED_COUNT,
                                                 "group %" PRIu32 ": %" PRIu32 " of %" PRIu32
                                                 " inodes unused",
                                                 g, unused, l->inodes_per_group);
                if (g == 0 && (to->flags & BLKUP_EXT4_BG_INODE_UNINIT))
                        return blkup_lazy_refuse(
                                r, BLKUP_LAZYINIT_GROUP0_UNINIT,
                                "group 0, with the root folder, is marked as without inodes");
                if ((to->flags & BLKUP_EXT4_BG_INODE_UNINIT) &&
                    (free_inodes != l->inodes_per_group || dirs > 0))
                        return blkup_lazy_refuse(r, BLKUP_LAZYINIT_UNINIT_IN_USE,
                                                 "group %" PRIu32
                                                 ": marked as without inodes, but some are in use",
                                                 g);
        }
        if (!(to->flags & BLKUP_EXT4_BG_INODE_UNINIT)) {
                uint32_t used = l->inodes_per_group - unused;

                to->used_blocks = (used + l->inodes_per_block - 1) / l->inodes_per_block;
                /* ext4_init_inode_table() calls it an error of the file system. */
                if (!is_live && g == 0 && !(to->flags & BLKUP_EXT4_BG_INODE_ZEROED) &&
                    (uint64_t) used + 1 < l->first_inode && to->used_blocks != l->table_blocks)
                        return blkup_lazy_refuse(r, BLKUP_LAZYINIT_UNUSED_COUNT,
                                                 "group 0: only %" PRIu32 " inodes in use, %" PRIu32
                                                 " are reserved",
                                                 used, l->first_inode - 1);
        }
        return 0;
}

/* Room for groups in [0, n), by doubling: a hostile superblock gets as much memory as it has valid
 * descriptors. */
static int reserve_groups(struct blkup_lazy_layout *l, uint32_t *room, uint32_t n)
{
        uint64_t want = blkup_min(blkup_max(n, 2ull * *room), l->groups);
        void *more;

        if (n <= *room)
                return 0;
        more = realloc(l->group, want * sizeof(*l->group));
        if (!more)
                return -ENOMEM;
        l->group = more;
        *room = (uint32_t) want;
        return 0;
}

static int read_descriptors(struct blkup_lazy_layout *l, struct blkup_block *b, bool is_live,
                            struct blkup_lazy_refusal *r, struct blkup_error *err)
{
        BLKUP_CLEANUP_FREE uint8_t *buffer = NULL;
        uint32_t room = 0, g = 0, at_once = DESC_READ_BYTES / l->block_bytes;

        if (posix_memalign((void **) &buffer, 4096, DESC_READ_BYTES) != 0) {
                buffer = NULL;
                return blkup_fail_errno(err, -ENOMEM, "group descriptors");
        }
        /* Ends: i grows by n >= 1. */
        for (uint32_t i = 0, n; i < l->desc_blocks; i += n) {
                uint64_t block = desc_block(l, i);
                int k;

                for (n = 1; n < at_once && i + n < l->desc_blocks && desc_block(l, i + n) == block + n;)
                        n++;
                if (block + n > l->blocks)
                        return bad(r, "place of the descriptors", block);
                k = blkup_block_read_exact(b, block * l->block_bytes, buffer, (size_t) n * l->block_bytes);
                if (k < 0)
                        return blkup_fail_errno(err, k, "group descriptors at block %" PRIu64, block);
                k = reserve_groups(l, &room, (uint32_t) blkup_min((uint64_t) (i + n) * l->desc_per_block,
                                                                 l->groups));
                if (k < 0)
                        return blkup_fail_errno(err, k, "group descriptors");
                /* Whole blocks: desc_per_block descriptors fill one, as both sizes are powers of two. */
                for (uint32_t j = 0; j < n * l->desc_per_block && g < l->groups; j++, g++) {
                        struct blkup_bytes d = { .data = buffer + (size_t) j * l->desc_bytes,
                                                 .len = l->desc_bytes };

                        k = take_descriptor(l, g, d, is_live, r);
                        if (k != 0)
                                return k;
                }
        }
        return 0;
}

/* ---- who owns which block ---- */

static int compare_spans(const void *a, const void *b)
{
        const struct blkup_lazy_span *x = a, *y = b;

        return x->at < y->at ? -1 : x->at > y->at;
}

static int check_overlap(struct blkup_lazy_layout *l, struct blkup_lazy_refusal *r, struct blkup_error *err)
{
        /* Three a group, and a superblock's copy. */
        size_t n = 0, room = 4 * (size_t) l->groups + l->desc_blocks + 1;
        struct blkup_lazy_span *s = malloc(room * sizeof(*s));

        if (!s)
                return blkup_fail_errno(err, -ENOMEM, "%" PRIu32 " groups", l->groups);
        l->spans = s;
        s[n++] = (struct blkup_lazy_span){ BLKUP_EXT4_SUPER_AT / l->block_bytes, 1 };
        for (uint32_t i = 0; i < l->desc_blocks; i++)
                s[n++] = (struct blkup_lazy_span){ desc_block(l, i), 1 };
        for (uint32_t g = 0; g < l->groups; g++) {
                s[n++] = (struct blkup_lazy_span){ l->group[g].table, l->table_blocks };
                s[n++] = (struct blkup_lazy_span){ l->group[g].block_bitmap, 1 };
                s[n++] = (struct blkup_lazy_span){ l->group[g].inode_bitmap, 1 };
                if (g > 0 && blkup_lazy_has_super(l, g))
                        s[n++] =
                                (struct blkup_lazy_span){ l->first_block + (uint64_t) g * l->blocks_per_group,
                                                          1 };
        }
        qsort(s, n, sizeof(*s), compare_spans);
        l->n_spans = n;
        for (size_t i = 1; i < n; i++)
                if (s[i - 1].at + s[i - 1].len > s[i].at)
                        return blkup_lazy_refuse(r, BLKUP_LAZYINIT_OVERLAP,
                                                 "metadata at block %" PRIu64 " overlaps other metadata",
                                                 s[i].at);
        return 0;
}

bool blkup_lazy_is_metadata(const struct blkup_lazy_layout *l, uint64_t block, uint64_t n)
{
        size_t lo = 0, hi = l->n_spans;

        /* The first span that ends behind `block`. Ends: the distance halves. */
        while (lo < hi) {
                size_t mid = lo + (hi - lo) / 2;

                if (l->spans[mid].at + l->spans[mid].len <= block)
                        lo = mid + 1;
                else
                        hi = mid;
        }
        return lo < l->n_spans && l->spans[lo].at < block + n;
}

/* ---- all of it ---- */

static int read_layout(struct blkup_block *b, bool is_live, struct blkup_lazy_layout *l,
                       struct blkup_lazy_refusal *r, struct blkup_error *err)
{
        struct blkup_bytes sb = { .data = l->super, .at = BLKUP_EXT4_SUPER_AT, .len = sizeof(l->super) };
        /* Read with what is before it: whole sectors, whatever size those have. */
        uint8_t head[4096] __attribute__((aligned(4096)));
        uint64_t size = b->info.size_bytes;
        int k;

        if (size < BLKUP_EXT4_SUPER_AT + BLKUP_EXT4_SUPER_LEN)
                return blkup_lazy_refuse(r, BLKUP_LAZYINIT_NOT_EXT4, "%" PRIu64 " bytes are too few", size);
        k = blkup_block_read_exact(b, 0, head, (size_t) blkup_min(sizeof(head), size));
        if (k < 0)
                return blkup_fail_errno(err, k, "superblock at 1024");
        memcpy(l->super, head + BLKUP_EXT4_SUPER_AT, sizeof(l->super));
        if (blkup_le16_at(sb, SB_MAGIC) != MAGIC)
                return blkup_lazy_refuse(r, BLKUP_LAZYINIT_NOT_EXT4,
                                         "no ext2, ext3 or ext4 file system is on it");
        k = check_features(l, sb, r);
        if (k != 0)
                return k;
        if (l->checksum == BLKUP_LAZY_CHECKSUM_NONE)
                return 0;
        k = check_geometry(l, sb, size, r);
        if (k != 0)
                return k;
        if (!is_live) {
                k = check_state(l, sb, r);
                if (k != 0)
                        return k;
        }
        k = read_descriptors(l, b, is_live, r, err);
        return k == 0 && !is_live ? check_overlap(l, r, err) : k;
}

int blkup_lazy_layout_read(struct blkup_block *b, bool is_live, struct blkup_lazy_layout *ret,
                           struct blkup_lazy_refusal *r, struct blkup_error *err)
{
        int k;

        memset(ret, 0, sizeof(*ret));
        k = read_layout(b, is_live, ret, r, err);
        if (k != 0)
                blkup_lazy_layout_done(ret);
        return k;
}

void blkup_lazy_layout_done(struct blkup_lazy_layout *l)
{
        free(l->group);
        free(l->spans);
        l->group = NULL;
        l->spans = NULL;
}

int blkup_lazy_check_bitmaps(const struct blkup_lazy_layout *l, struct blkup_block *b, bool with_flagged,
                             struct blkup_lazy_refusal *r, struct blkup_error *err)
{
        BLKUP_CLEANUP_FREE uint8_t *bitmap = NULL;
        uint16_t skip = BLKUP_EXT4_BG_INODE_UNINIT | (with_flagged ? 0 : BLKUP_EXT4_BG_INODE_ZEROED);

        if (posix_memalign((void **) &bitmap, 4096, l->block_bytes) != 0) {
                bitmap = NULL;
                return blkup_fail_errno(err, -ENOMEM, "inode bitmap");
        }
        for (uint32_t g = 0; g < l->groups; g++) {
                uint64_t from = (uint64_t) l->group[g].used_blocks * l->inodes_per_block;
                int k;

                if ((l->group[g].flags & skip) || from >= l->inodes_per_group)
                        continue;
                k = blkup_block_read_exact(b, l->group[g].inode_bitmap * l->block_bytes, bitmap,
                                           l->block_bytes);
                if (k < 0)
                        return blkup_fail_errno(err, k, "group %" PRIu32 ": inode bitmap", g);
                /* inodes_per_group is at most 8 * block_bytes. */
                for (uint64_t i = from; i < l->inodes_per_group; i++)
                        if (bitmap[i / 8] >> (i % 8) & 1)
                                return blkup_lazy_refuse(r, BLKUP_LAZYINIT_INODE_IN_USE,
                                                         "group %" PRIu32 ": inode %" PRIu64
                                                         " is in use, behind those that may be", g,
                                                         (uint64_t) g * l->inodes_per_group + i + 1);
        }
        return 0;
}
