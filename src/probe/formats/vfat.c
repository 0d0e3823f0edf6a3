/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * vfat: FAT12, FAT16 and FAT32. Source: Microsoft's "FAT: General Overview of On-Disk Format" 1.03 and
 * ECMA-107; which boot sectors are taken for FAT and where the label comes from: ../shared/probe/tags.tsv.
 */
#include <string.h>

#include "probe/formats/BitLocker.h"
#include "probe/formats/vfat.h"

/* Offsets in the boot sector, little-endian. */
enum {
        BS_SECTOR_BYTES = 11,    /* 16 bits */
        BS_CLUSTER_SECTORS = 13, /* 8 bits */
        BS_RESERVED = 14,        /* sectors, 16 bits */
        BS_FATS = 16,            /* 8 bits */
        BS_ROOT_ENTRIES = 17,    /* 16 bits; FAT12 and FAT16 */
        BS_SECTORS_16 = 19,
        BS_MEDIA = 21,           /* 8 bits */
        BS_FAT_SECTORS_16 = 22,  /* 0 on FAT32 */
        BS_SECTORS_32 = 32,
        BS_FAT_SECTORS_32 = 36,  /* FAT32 */
        BS_ROOT_CLUSTER = 44,    /* FAT32 */
        BS_FSINFO = 48,          /* FAT32: sector, 16 bits */
        BS16_EXT_BOOT_SIGN = 38, BS16_SERIAL = 39, BS16_LABEL = 43, BS16_TEXT = 54,
        BS32_EXT_BOOT_SIGN = 66, BS32_SERIAL = 67, BS32_LABEL = 71,
        BS_BOOT_SIGN = 510,
};

/* Offsets in a directory entry of 32 bytes. */
enum { DE_ATTR = 11, DE_CLUSTER_HI = 20, DE_CLUSTER_LO = 26, DE_SIZE = 32 };

#define ATTR_VOLUME 0x08
#define ATTR_DIRECTORY 0x10
#define ATTR_LONG_NAME 0x0f
#define ATTR_MASK 0x3f

/* Where the cluster count changes the type (as util-linux draws the line). */
#define FAT12_MAX 0xff4u
#define FAT16_MAX 0xfff4u
#define FAT32_MAX 0x0ffffff6u

/* Chains of FAT32's root directory are followed that far; two clusters hold a label on every real disk. */
#define MAX_ROOT_CLUSTERS 99

static const struct blkup_magic magics[] = {
        { .within = 82, .len = 5, .bytes = "MSWIN" },
        { .within = 82, .len = 8, .bytes = "FAT32   " },
        { .within = 54, .len = 5, .bytes = "MSDOS" },
        { .within = 54, .len = 8, .bytes = "FAT16   " },
        { .within = 54, .len = 8, .bytes = "FAT12   " },
        { .within = 54, .len = 8, .bytes = "FAT     " },
        { .within = 0, .len = 1, .bytes = "\xeb" },
        { .within = 0, .len = 1, .bytes = "\xe9" },
        { .within = 510, .len = 2, .bytes = "\x55\xaa" },
};

struct fat {
        struct blkup_bytes bs;   /* sector 0, 512 bytes */
        uint32_t sector_bytes, cluster_sectors, reserved, fats, fat_sectors, sectors, clusters, root_entries;
        bool is_fat32;           /* by the fields, not by the count */
};

static enum blkup_outcome fetch(struct blkup_view *v, unsigned magic_len, struct fat *ret)
{
        struct blkup_bytes bs;
        struct fat f;
        uint32_t dir_sectors, max, media, fat16;
        enum blkup_outcome o;

        BLKUP_FETCH(v, 0, 512, &bs);
        f.bs = bs;
        if (magic_len <= 2) {
                /* Any boot loader starts with a jump and ends with 55 AA: look closer. */
                if (!blkup_equal_at(bs, BS_BOOT_SIGN, "\x55\xaa", 2))
                        return blkup_refuse(v, "no boot signature");
                if (blkup_equal_at(bs, BS16_TEXT, "JFS     ", 8) ||
                    blkup_equal_at(bs, BS16_TEXT, "HPFS    ", 8))
                        return blkup_refuse(v, "boot sector of JFS or HPFS");
        }
        f.fats = blkup_u8_at(bs, BS_FATS);
        f.reserved = blkup_le16_at(bs, BS_RESERVED);
        media = blkup_u8_at(bs, BS_MEDIA);
        f.cluster_sectors = blkup_u8_at(bs, BS_CLUSTER_SECTORS);
        f.sector_bytes = blkup_le16_at(bs, BS_SECTOR_BYTES);
        if (f.fats == 0)
                return blkup_refuse(v, "no FAT");
        if (f.reserved == 0)
                return blkup_refuse(v, "no reserved sector");
        if (media < 0xf8 && media != 0xf0)
                return blkup_refuse(v, "no such media byte");
        if (!blkup_is_power_of_two(f.cluster_sectors))
                return blkup_refuse(v, "cluster size is no power of two");
        if (!blkup_is_power_of_two(f.sector_bytes) || f.sector_bytes < 512 || f.sector_bytes > 4096)
                return blkup_refuse(v, "sector size is not 512 to 4096");
        f.root_entries = blkup_le16_at(bs, BS_ROOT_ENTRIES);
        f.sectors = blkup_le16_at(bs, BS_SECTORS_16);
        if (f.sectors == 0)
                f.sectors = blkup_le32_at(bs, BS_SECTORS_32);
        fat16 = blkup_le16_at(bs, BS_FAT_SECTORS_16);
        f.is_fat32 = fat16 == 0 && blkup_le32_at(bs, BS_FAT_SECTORS_32) != 0;
        f.fat_sectors = fat16 ? fat16 : blkup_le32_at(bs, BS_FAT_SECTORS_32);
        dir_sectors = (f.root_entries * DE_SIZE + f.sector_bytes - 1) / f.sector_bytes;
        /* In 32 bits with wrap, as the field's tools compute it: what does not fit ends above the maximum. */
        f.clusters = (f.sectors - (f.reserved + f.fats * f.fat_sectors + dir_sectors)) / f.cluster_sectors;
        if (f.is_fat32)
                max = FAT32_MAX;
        else
                max = f.clusters > FAT12_MAX ? FAT16_MAX : FAT12_MAX;
        if (f.clusters > max)
                return blkup_refuse(v, "more clusters than its FAT can number");
        o = blkup_bitlocker_is_boot_sector(v);
        if (o == BLKUP_FOUND)
                return blkup_refuse(v, "boot sector of BitLocker");
        if (o == BLKUP_NEED || o == BLKUP_UNREADABLE)
                return o;
        *ret = f;
        return BLKUP_FOUND;
}

enum blkup_outcome blkup_vfat_is_boot_sector(struct blkup_view *v)
{
        struct blkup_hit hit;
        struct fat f;
        enum blkup_outcome o = blkup_match_magics(v, magics, BLKUP_ARRAY_SIZE(magics), 0, &hit);

        return o == BLKUP_FOUND ? fetch(v, magics[hit.row].len, &f) : o;
}

struct label {
        uint8_t name[11];
        bool found, ended;
};

/* The volume's entry among those of a piece of the root directory. */
static void search(struct blkup_bytes dir, struct label *l)
{
        for (size_t off = 0; off + DE_SIZE <= dir.len; off += DE_SIZE) {
                const uint8_t *e = dir.data + off;

                if (e[0] == 0) {
                        l->ended = true;
                        return;
                }
                if (e[0] == 0xe5 || blkup_le16_at(dir, off + DE_CLUSTER_HI) ||
                    blkup_le16_at(dir, off + DE_CLUSTER_LO) || (e[DE_ATTR] & ATTR_MASK) == ATTR_LONG_NAME)
                        continue;
                if ((e[DE_ATTR] & (ATTR_VOLUME | ATTR_DIRECTORY)) == ATTR_VOLUME) {
                        memcpy(l->name, e, sizeof(l->name));
                        if (l->name[0] == 0x05)
                                l->name[0] = 0xe5;
                        l->found = true;
                        return;
                }
        }
}

/* Searches `len` bytes from `at` on, a sector first and then twice as much each time: most labels stand
 * first. */
static enum blkup_outcome search_range(struct blkup_view *v, uint64_t at, uint64_t len, struct label *l)
{
        for (uint64_t done = 0, step = 512; done < len; done += step, step *= 2) { /* ends: done grows */
                struct blkup_bytes dir;
                enum blkup_outcome o;

                step = blkup_min(step, len - done);
                if (!blkup_view_work(v, (uint32_t) (step / DE_SIZE) + 1))
                        return blkup_gave_up(v, "root directory too long");
                o = blkup_view_get(v, at + done, step, &dir);
                if (o == BLKUP_NOT_THIS)
                        return BLKUP_NOT_THIS; /* a directory beyond the end has no label */
                if (o != BLKUP_FOUND)
                        return o;
                search(dir, l);
                if (l->found || l->ended)
                        break;
        }
        return BLKUP_FOUND;
}

static enum blkup_outcome search_fat32(struct blkup_view *v, const struct fat *f, struct label *l)
{
        uint64_t cluster_bytes = (uint64_t) f->cluster_sectors * f->sector_bytes;
        uint64_t data = (uint64_t) f->reserved + (uint64_t) f->fats * f->fat_sectors;
        uint64_t entries = (uint64_t) f->fat_sectors * f->sector_bytes / 4;
        uint32_t next = blkup_le32_at(f->bs, BS_ROOT_CLUSTER);

        for (unsigned i = 0; i < MAX_ROOT_CLUSTERS && next >= 2 && next < entries; i++) {
                uint64_t at = (data + (uint64_t) (next - 2) * f->cluster_sectors) * f->sector_bytes;
                struct blkup_bytes fat;
                enum blkup_outcome o = search_range(v, at, cluster_bytes, l);

                if (o != BLKUP_FOUND || l->found || l->ended)
                        return o;
                o = blkup_view_get(v, (uint64_t) f->reserved * f->sector_bytes + (uint64_t) next * 4, 4,
                                   &fat);
                if (o != BLKUP_FOUND)
                        return o;
                next = blkup_le32_at(fat, 0) & 0x0fffffff;
        }
        return BLKUP_FOUND;
}

/* FAT32's information sector must look like one, or be blank. */
static enum blkup_outcome check_fsinfo(struct blkup_view *v, const struct fat *f)
{
        uint64_t at = (uint64_t) blkup_le16_at(f->bs, BS_FSINFO) * f->sector_bytes;
        struct blkup_bytes s;

        if (at == 0)
                return BLKUP_FOUND;
        BLKUP_FETCH(v, at, 512, &s);
        if (!blkup_equal_at(s, 0, "RRaA", 4) && !blkup_equal_at(s, 0, "RRdA", 4) &&
            !blkup_is_filled(s, 0, 4, 0))
                return blkup_refuse(v, "no FSInfo signature");
        if (!blkup_equal_at(s, 484, "rrAa", 4) && !blkup_is_filled(s, 484, 4, 0))
                return blkup_refuse(v, "no second FSInfo signature");
        return BLKUP_FOUND;
}

static void add_boot_label(struct blkup_found *ret, struct blkup_bytes bs, size_t sign_at, size_t label_at)
{
        struct blkup_bytes s;

        if (blkup_u8_at(bs, sign_at) == 0x29 && blkup_sub_bytes(bs, label_at, 11, &s) &&
            memcmp(s.data, "NO NAME    ", 11) != 0)
                blkup_found_trimmed(ret, "LABEL_FATBOOT", s);
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct label label = { .found = false };
        struct blkup_bytes serial;
        struct fat f;
        enum blkup_outcome o = fetch(v, magics[hit->row].len, &f), fsinfo = BLKUP_FOUND;
        bool has_fat16;
        uint8_t sign;

        if (o != BLKUP_FOUND)
                return o;
        has_fat16 = blkup_le16_at(f.bs, BS_FAT_SECTORS_16) != 0;
        if (has_fat16) {
                o = search_range(v,
                                 ((uint64_t) f.reserved + (uint64_t) f.fats * f.fat_sectors) * f.sector_bytes,
                                 (uint64_t) f.root_entries * DE_SIZE, &label);
        } else if (f.is_fat32) {
                /* Both are asked for before either answer is acted on, so that they come in one round. */
                fsinfo = check_fsinfo(v, &f);
                if (fsinfo != BLKUP_FOUND && fsinfo != BLKUP_NEED)
                        return fsinfo;
                o = search_fat32(v, &f, &label);
        }
        if (fsinfo == BLKUP_NEED || o == BLKUP_NEED)
                return BLKUP_NEED;
        if (o == BLKUP_UNREADABLE)
                return o;

        blkup_found_evidence(ret, 8 + 16 + 8 + 5 + 12 + (f.is_fat32 ? 64 : 0));
        if (has_fat16) {
                blkup_found_string(ret, "SEC_TYPE", "msdos");
                add_boot_label(ret, f.bs, BS16_EXT_BOOT_SIGN, BS16_LABEL);
        } else if (f.is_fat32) {
                add_boot_label(ret, f.bs, BS32_EXT_BOOT_SIGN, BS32_LABEL);
        }
        if (label.found)
                blkup_found_rtrimmed(ret, "LABEL",
                                     (struct blkup_bytes){ .data = label.name, .len = sizeof(label.name) });
        sign = blkup_u8_at(f.bs, BS16_EXT_BOOT_SIGN);
        if ((has_fat16 ? sign == 0x28 || sign == 0x29 : f.is_fat32) &&
            blkup_sub_bytes(f.bs, has_fat16 ? BS16_SERIAL : BS32_SERIAL, 4, &serial))
                blkup_found_serial(ret, "UUID", serial);
        /* FAT32 is told by its fields: mkfs tools make it with as few clusters as a FAT12. */
        if (f.is_fat32)
                blkup_found_string(ret, "VERSION", "FAT32");
        else if (has_fat16 && f.clusters < FAT16_MAX)
                blkup_found_string(ret, "VERSION", f.clusters < FAT12_MAX ? "FAT12" : "FAT16");
        blkup_found_u64(ret, "FSBLOCKSIZE", (uint64_t) f.cluster_sectors * f.sector_bytes);
        blkup_found_u64(ret, "BLOCK_SIZE", f.sector_bytes);
        blkup_found_u64(ret, "FSSIZE", (uint64_t) f.sector_bytes * f.sectors);
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_vfat;
const struct blkup_format blkup_format_vfat = {
        .name = "vfat", .usage = BLKUP_USAGE_FILESYSTEM,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
