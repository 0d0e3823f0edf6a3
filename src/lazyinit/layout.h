/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What an ext4 superblock and its group descriptors say, read through bounded views and believed only after
 * every check. Only reads; every loop is bounded by a number that was checked against the device's size.
 *
 * Source: the kernel's Documentation/filesystems/ext4/ (super.rst, group_descr.rst, special_inodes.rst) and
 * fs/ext4/super.c (ext4_check_descriptors, descriptor_loc).
 */
#ifndef BLKUP_LAZYINIT_LAYOUT_H
#define BLKUP_LAZYINIT_LAYOUT_H

#include <blkup/lazyinit.h>

#include "base/bytes.h"
#include "base/error.h"
#include "block/block.h"

#define BLKUP_EXT4_SUPER_AT 1024u
#define BLKUP_EXT4_SUPER_LEN 1024u
/* A descriptor: up to 1024 bytes, 32 without 64bit. */
#define BLKUP_EXT4_DESC_MAX 1024u
#define BLKUP_EXT4_BG_FLAGS 0x12u
#define BLKUP_EXT4_BG_CHECKSUM 0x1Eu
#define BLKUP_EXT4_BG_INODE_UNINIT 1u
#define BLKUP_EXT4_BG_INODE_ZEROED 4u

/* Incompatible and read-only compatible features that matter here. */
#define BLKUP_EXT4_INCOMPAT_EXTENTS 0x40u
#define BLKUP_EXT4_INCOMPAT_64BIT 0x80u
#define BLKUP_EXT4_INCOMPAT_MMP 0x100u
#define BLKUP_EXT4_COMPAT_JOURNAL 0x4u

enum blkup_lazy_checksum { BLKUP_LAZY_CHECKSUM_NONE, BLKUP_LAZY_CRC16, BLKUP_LAZY_CRC32C };

struct blkup_lazy_group {
        uint64_t table;        /* first block of the inode table */
        uint64_t inode_bitmap; /* its block */
        uint64_t block_bitmap;
        uint32_t used_blocks;  /* of the table: not to be touched */
        uint16_t flags;
        uint16_t checksum;
};

/* A range of blocks that belongs to somebody. */
struct blkup_lazy_span {
        uint64_t at, len;
};

struct blkup_lazy_layout {
        uint8_t super[BLKUP_EXT4_SUPER_LEN];
        uint32_t compat, incompat, ro_compat;
        uint32_t block_bytes;
        uint64_t blocks, first_block;
        uint32_t blocks_per_group, inodes_per_group, inode_bytes, first_inode;
        uint32_t groups;
        uint32_t desc_bytes, desc_per_block, desc_blocks;
        uint64_t first_meta_bg;           /* index of a descriptor block; UINT64_MAX: no meta_bg */
        uint32_t inodes_per_block, table_blocks;
        uint32_t groups_per_flex;         /* 1: no flex_bg */
        enum blkup_lazy_checksum checksum;
        uint32_t seed;                    /* of crc32c */
        uint8_t uuid[16];
        struct blkup_lazy_group *group;   /* groups of them */
        struct blkup_lazy_span *spans;    /* all metadata, sorted, without overlap */
        size_t n_spans;
};

/* What was found wrong. */
struct blkup_lazy_refusal {
        enum blkup_lazyinit_refusal what; /* BLKUP_LAZYINIT_NOT_REFUSED: nothing */
        char reason[256];
};

/* Fills *r and returns 1. */
int blkup_lazy_refuse(struct blkup_lazy_refusal *r, enum blkup_lazyinit_refusal what, const char *fmt, ...)
        BLKUP_PRINTF(3, 4);

/*
 * Reads and checks superblock and descriptors. 0: *ret is valid (blkup_lazy_layout_done() frees it). 1:
 * refused, and *r says why. Negative errno: a read failed, or memory.
 *
 * ret->checksum BLKUP_LAZY_CHECKSUM_NONE: the flags mean nothing, there is nothing to do, and no descriptor
 * was read. is_live: of a mounted file system: flags only, no checksum and no state is looked at.
 */
BLKUP_MUST_CHECK int blkup_lazy_layout_read(struct blkup_block *b, bool is_live,
                                            struct blkup_lazy_layout *ret, struct blkup_lazy_refusal *r,
                                            struct blkup_error *err);
void blkup_lazy_layout_done(struct blkup_lazy_layout *l);

/*
 * No inode in use may lie in what would be zeroed: reads the inode bitmaps of the groups that are to do (with
 * with_flagged: of all). 0, 1 (refused) or a negative errno.
 */
BLKUP_MUST_CHECK int blkup_lazy_check_bitmaps(const struct blkup_lazy_layout *l, struct blkup_block *b,
                                              bool with_flagged, struct blkup_lazy_refusal *r,
                                              struct blkup_error *err);

/* First byte of group g's descriptor on the device; g < l->groups. */
uint64_t blkup_lazy_desc_at(const struct blkup_lazy_layout *l, uint32_t g);
/* The checksum that these desc_bytes of group g should carry (the field itself is not looked at). */
uint16_t blkup_lazy_desc_checksum(const struct blkup_lazy_layout *l, uint32_t g, const uint8_t *desc);
/* Has group g a copy of the superblock? */
bool blkup_lazy_has_super(const struct blkup_lazy_layout *l, uint32_t g);

/* The bytes of group g's table that were never used. */
static inline uint64_t blkup_lazy_zero_at(const struct blkup_lazy_layout *l, uint32_t g)
{
        return (l->group[g].table + l->group[g].used_blocks) * l->block_bytes;
}
static inline uint64_t blkup_lazy_zero_len(const struct blkup_lazy_layout *l, uint32_t g)
{
        return (uint64_t) (l->table_blocks - l->group[g].used_blocks) * l->block_bytes;
}

/* Does a range of blocks touch any metadata that was found? */
bool blkup_lazy_is_metadata(const struct blkup_lazy_layout *l, uint64_t block, uint64_t n);

#endif
