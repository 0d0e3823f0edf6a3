/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The file system of Minix, versions 1 to 3, in either byte order. Source: kernel
 * include/uapi/linux/minix_fs.h and fs/minix/inode.c (what a sane superblock is).
 */
#include "probe/formats/fields.h"

#define SB_AT 1024
#define BLOCK_BYTES 1024 /* versions 1 and 2 */

/* Offsets in the superblock of versions 1 and 2; 16 bits but for the last. */
enum {
        SB_INODES = 0,
        SB_ZONES_16 = 2, /* version 1 */
        SB_IMAP_BLOCKS = 4,
        SB_ZMAP_BLOCKS = 6,
        SB_FIRST_ZONE = 8,
        SB_LOG_ZONE_SIZE = 10,
        SB_MAGIC = 16,
        SB_STATE = 18,
        SB_ZONES_32 = 20, /* version 2 */
};

/* And in that of version 3; 16 bits but for the first and the zones. */
enum {
        SB3_INODES = 0,
        SB3_IMAP_BLOCKS = 6,
        SB3_ZMAP_BLOCKS = 8,
        SB3_FIRST_ZONE = 10,
        SB3_LOG_ZONE_SIZE = 12,
        SB3_ZONES = 20,
        SB3_MAGIC = 24,
        SB3_BLOCK_BYTES = 28,
};

#define STATE_BITS 0x3u /* checked, errors */

/* Others that have, or may have, the same bytes there. */
enum { EXT_MAGIC = 56, EROFS_MAGIC = 0 };

static unsigned version_of(struct blkup_bytes sb, enum blkup_order order)
{
        switch (blkup_u16_at(sb, SB_MAGIC, order)) {
        case 0x137f: /* names of 14 */
        case 0x138f: /* of 30 */
                return 1;
        case 0x2468:
        case 0x2478:
                return 2;
        default:
                return blkup_u16_at(sb, SB3_MAGIC, order) == 0x4d5a ? 3 : 0;
        }
}

struct minix {
        uint64_t inodes, zones, imap_blocks, zmap_blocks, first_zone, log_zone, block;
};

static struct minix read_fields(struct blkup_bytes sb, unsigned version, enum blkup_order order)
{
        if (version == 3)
                return (struct minix){
                        .inodes = blkup_u32_at(sb, SB3_INODES, order),
                        .zones = blkup_u32_at(sb, SB3_ZONES, order),
                        .imap_blocks = blkup_u16_at(sb, SB3_IMAP_BLOCKS, order),
                        .zmap_blocks = blkup_u16_at(sb, SB3_ZMAP_BLOCKS, order),
                        .first_zone = blkup_u16_at(sb, SB3_FIRST_ZONE, order),
                        .log_zone = blkup_u16_at(sb, SB3_LOG_ZONE_SIZE, order),
                        .block = blkup_u16_at(sb, SB3_BLOCK_BYTES, order),
                };
        return (struct minix){
                .inodes = blkup_u16_at(sb, SB_INODES, order),
                .zones = version == 2 ? blkup_u32_at(sb, SB_ZONES_32, order)
                                      : blkup_u16_at(sb, SB_ZONES_16, order),
                .imap_blocks = blkup_u16_at(sb, SB_IMAP_BLOCKS, order),
                .zmap_blocks = blkup_u16_at(sb, SB_ZMAP_BLOCKS, order),
                .first_zone = blkup_u16_at(sb, SB_FIRST_ZONE, order),
                .log_zone = blkup_u16_at(sb, SB_LOG_ZONE_SIZE, order),
                .block = BLOCK_BYTES,
        };
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        enum blkup_order order = BLKUP_LITTLE_ENDIAN;
        struct blkup_bytes sb;
        unsigned version;
        uint64_t bits;
        struct minix m;

        (void) hit;
        BLKUP_FETCH(v, SB_AT, EXT_MAGIC + 2, &sb);
        version = version_of(sb, order);
        if (version == 0) {
                order = BLKUP_BIG_ENDIAN;
                version = version_of(sb, order);
        }
        if (version == 0)
                return blkup_refuse(v, "magic of no version");
        if (version < 3 && (blkup_u16_at(sb, SB_STATE, order) & ~STATE_BITS))
                return blkup_refuse(v, "unknown state");
        m = read_fields(sb, version, order);
        /* A bitmap's block numbers 8192 things: mkfs.minix makes version 3 with blocks of 1 KiB only, but
         * Minix 3 itself makes larger ones, whose maps hold more. */
        if (!blkup_is_power_of_two(m.block) || m.block < BLOCK_BYTES)
                return blkup_refuse(v, "block size is no power of two");
        bits = m.block * 8;
        if (m.log_zone != 0)
                return blkup_refuse(v, "zones of several blocks");
        if (m.inodes == 0 || m.inodes == UINT32_MAX || m.imap_blocks * bits < m.inodes + 1)
                return blkup_refuse(v, "inodes do not fit their bitmap");
        if (m.first_zone > m.zones || m.zmap_blocks * bits < m.zones - m.first_zone + 1)
                return blkup_refuse(v, "zones do not fit their bitmap");
        if (blkup_equal_at(sb, EXT_MAGIC, "\x53\xef", 2))
                return blkup_refuse(v, "superblock of ext");
        if (blkup_equal_at(sb, EROFS_MAGIC, "\xe2\xe1\xf5\xe0", 4))
                return blkup_refuse(v, "superblock of erofs");
        blkup_found_evidence(ret, 16 + 16 + 14);
        blkup_found_u64(ret, "VERSION", version);
        blkup_found_block_size(ret, m.block);
        blkup_found_endianness(ret, order);
        return BLKUP_FOUND;
}

#define ROW(offset, magic) { .at = SB_AT, .within = (offset), .len = 2, .bytes = (magic) }
static const struct blkup_magic magics[] = {
        ROW(SB_MAGIC, "\x7f\x13"),  ROW(SB_MAGIC, "\x8f\x13"), ROW(SB_MAGIC, "\x13\x7f"),
        ROW(SB_MAGIC, "\x13\x8f"),  ROW(SB_MAGIC, "\x68\x24"), ROW(SB_MAGIC, "\x78\x24"),
        ROW(SB_MAGIC, "\x24\x68"),  ROW(SB_MAGIC, "\x24\x78"), ROW(SB3_MAGIC, "\x5a\x4d"),
        ROW(SB3_MAGIC, "\x4d\x5a"),
};

extern const struct blkup_format blkup_format_minix;
const struct blkup_format blkup_format_minix = {
        .name = "minix",
        .usage = BLKUP_USAGE_FILESYSTEM,
        .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics),
        .check = check,
};
