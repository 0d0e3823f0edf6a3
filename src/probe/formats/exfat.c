/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * exFAT. Source: Microsoft's "exFAT file system specification" 1.00, sections 3.1 (main boot region), 4.1
 * (FAT) and 7.3 (volume label directory entry).
 */
#include "probe/formats/exfat.h"
#include "probe/formats/fields.h"

/* Offsets in the boot sector, little-endian. */
enum {
        BS_JUMP = 0,             /* 3 bytes */
        BS_NAME = 3,             /* 8 bytes, the magic */
        BS_MUST_BE_ZERO = 11,    /* 53 bytes, where FAT has its fields */
        BS_VOLUME_SECTORS = 72,  /* 64 bits */
        BS_FAT_AT = 80,          /* sector */
        BS_FAT_SECTORS = 84,
        BS_HEAP_AT = 88,         /* sector of cluster 2 */
        BS_CLUSTERS = 92,
        BS_ROOT_CLUSTER = 96,
        BS_SERIAL = 100,
        BS_MINOR_REV = 104,      /* 8 bits each from here */
        BS_MAJOR_REV = 105,
        BS_FLAGS = 106,          /* 16 bits; may change without a new checksum, like the next but one */
        BS_SECTOR_SHIFT = 108,
        BS_CLUSTER_SHIFT = 109,  /* sectors of a cluster */
        BS_FATS = 110,
        BS_PERCENT_IN_USE = 112,
        BS_SIGN = 510,
};

#define BOOT_SECTORS 11        /* that the checksum covers; the twelfth is filled with it */
#define FIRST_CLUSTER 2u
#define MIN_FAT_AT 24u
#define MAX_HEAP_AT UINT64_C(0x80000000)
#define MAX_CLUSTER_LOG 25u    /* 32 MiB */

/* mkfs writes the label's entry first. Where so many entries stand before it, the label is left out, not the
 * type; a chain that loops ends here too. The specification allows a directory 256 MiB. */
#define MAX_ROOT_CLUSTERS 99
#define MAX_ROOT_BYTES (UINT64_C(4) << 20)
#define MAX_STEP (UINT64_C(1) << 20)

/* Directory entries. */
enum { DE_LEN = 32, DE_LABEL_CHARS = 1, DE_LABEL = 2, DE_LABEL_BYTES = 22 };
#define DE_TYPE_END 0x00u
#define DE_TYPE_LABEL 0x83u

struct exfat {
        struct blkup_bytes bs;
        unsigned sector_shift, cluster_shift; /* both of bytes */
        uint64_t fat_at, heap_at;             /* bytes */
        uint64_t clusters;
};

static const struct blkup_magic magics[] = { { .within = BS_NAME, .len = 8, .bytes = "EXFAT   " } };

static uint64_t cluster_at(const struct exfat *x, uint64_t cluster)
{
        return x->heap_at + ((cluster - FIRST_CLUSTER) << x->cluster_shift);
}

static bool is_cluster(const struct exfat *x, uint64_t cluster)
{
        return cluster >= FIRST_CLUSTER && cluster - FIRST_CLUSTER < x->clusters;
}

static enum blkup_outcome check_fields(struct blkup_view *v, struct blkup_bytes bs, struct exfat *ret)
{
        uint64_t fat_at = blkup_le32_at(bs, BS_FAT_AT), heap_at = blkup_le32_at(bs, BS_HEAP_AT);
        uint64_t fats = blkup_u8_at(bs, BS_FATS), fats_end;
        struct exfat x = { .bs = bs, .clusters = blkup_le32_at(bs, BS_CLUSTERS) };

        if (!blkup_equal_at(bs, BS_SIGN, "\x55\xaa", 2))
                return blkup_refuse(v, "no boot signature");
        if (!blkup_equal_at(bs, BS_JUMP, "\xeb\x76\x90", 3))
                return blkup_refuse(v, "no jump instruction");
        if (!blkup_is_filled(bs, BS_MUST_BE_ZERO, 53, 0))
                return blkup_refuse(v, "fields of FAT are not zero");
        if (fats < 1 || fats > 2)
                return blkup_refuse(v, "neither one FAT nor two");
        x.sector_shift = blkup_u8_at(bs, BS_SECTOR_SHIFT);
        if (x.sector_shift < 9 || x.sector_shift > 12)
                return blkup_refuse(v, "sector size is not 512 to 4096");
        x.cluster_shift = x.sector_shift + blkup_u8_at(bs, BS_CLUSTER_SHIFT);
        if (x.cluster_shift > MAX_CLUSTER_LOG)
                return blkup_refuse(v, "cluster size above 32 MiB");
        fats_end = fat_at + blkup_le32_at(bs, BS_FAT_SECTORS) * fats;
        if (fat_at < MIN_FAT_AT || fats_end > heap_at || heap_at > MAX_HEAP_AT)
                return blkup_refuse(v, "FAT and cluster heap overlap");
        x.fat_at = fat_at << x.sector_shift;
        x.heap_at = heap_at << x.sector_shift;
        if (!is_cluster(&x, blkup_le32_at(bs, BS_ROOT_CLUSTER)))
                return blkup_refuse(v, "no such root directory");
        *ret = x;
        return BLKUP_FOUND;
}

static enum blkup_outcome check_checksum(struct blkup_view *v, const struct exfat *x)
{
        size_t len = (size_t) BOOT_SECTORS << x->sector_shift;
        struct blkup_bytes boot, stored;
        uint32_t sum = 0;

        BLKUP_FETCH(v, 0, (uint64_t) (BOOT_SECTORS + 1) << x->sector_shift, &boot);
        for (size_t i = 0; i < len; i++) {
                if (i == BS_FLAGS || i == BS_FLAGS + 1 || i == BS_PERCENT_IN_USE)
                        continue;
                sum = (sum << 31 | sum >> 1) + boot.data[i];
        }
        stored = blkup_slice_at(boot, len, (size_t) 1 << x->sector_shift);
        for (size_t i = 0; i < stored.len; i += 4)
                if (blkup_le32_at(stored, i) != sum)
                        return blkup_damaged(v, "boot region checksum mismatch");
        return BLKUP_FOUND;
}

static enum blkup_outcome fetch(struct blkup_view *v, struct exfat *ret)
{
        struct blkup_bytes bs;
        struct exfat x;
        enum blkup_outcome o;

        BLKUP_FETCH(v, 0, 512, &bs);
        o = check_fields(v, bs, &x);
        if (o == BLKUP_FOUND)
                o = check_checksum(v, &x);
        if (o == BLKUP_FOUND || o == BLKUP_NEED)
                *ret = x;
        return o;
}

enum blkup_outcome blkup_exfat_is_boot_sector(struct blkup_view *v)
{
        struct blkup_hit hit;
        struct exfat x = { 0 };
        enum blkup_outcome o = blkup_match_magics(v, magics, BLKUP_ARRAY_SIZE(magics), 0, &hit);

        return o == BLKUP_FOUND ? fetch(v, &x) : o;
}

struct search {
        struct blkup_bytes label; /* the entry; empty: none so far */
        uint64_t step;            /* bytes to read at once: a sector first, then twice as much each time */
        bool ended;
};

/* Looks for the label among [at, at + len) of the root directory. */
static enum blkup_outcome search(struct blkup_view *v, uint64_t at, uint64_t len, struct search *s)
{
        for (uint64_t done = 0, step; done < len && !s->ended; done += step) { /* ends: done grows */
                struct blkup_bytes dir;

                step = blkup_min(s->step, len - done);
                if (!blkup_view_work(v, (uint32_t) (step / DE_LEN)))
                        return blkup_gave_up(v, "root directory too long");
                BLKUP_FETCH(v, at + done, step, &dir);
                s->step = blkup_min(s->step * 2, MAX_STEP);
                for (size_t off = 0; off < dir.len && !s->ended; off += DE_LEN) {
                        unsigned type = blkup_u8_at(dir, off);

                        if (type == DE_TYPE_LABEL)
                                s->label = blkup_slice_at(dir, off, DE_LEN);
                        s->ended = type == DE_TYPE_LABEL || type == DE_TYPE_END;
                }
        }
        return BLKUP_FOUND;
}

/* BLKUP_NOT_THIS: the directory leaves the device. */
static enum blkup_outcome find_label(struct blkup_view *v, const struct exfat *x, struct search *s)
{
        uint64_t cluster = blkup_le32_at(x->bs, BS_ROOT_CLUSTER);
        uint64_t left = MAX_ROOT_BYTES;

        for (unsigned i = 0; i < MAX_ROOT_CLUSTERS && left > 0 && is_cluster(x, cluster); i++) {
                uint64_t len = blkup_min(left, UINT64_C(1) << x->cluster_shift);
                enum blkup_outcome o = search(v, cluster_at(x, cluster), len, s);
                struct blkup_bytes next;

                if (o != BLKUP_FOUND || s->ended)
                        return o;
                left -= len;
                BLKUP_FETCH(v, x->fat_at + cluster * 4, 4, &next);
                cluster = blkup_le32_at(next, 0);
        }
        return BLKUP_FOUND;
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct search s = { .step = 512 };
        struct exfat x = { 0 };
        enum blkup_outcome o = fetch(v, &x);
        uint64_t sector, bytes, chars;

        (void) hit;
        if (o == BLKUP_NEED && x.bs.len > 0)
                blkup_view_want(v, cluster_at(&x, blkup_le32_at(x.bs, BS_ROOT_CLUSTER)), 512);
        if (o != BLKUP_FOUND)
                return o;
        o = find_label(v, &x, &s);
        if (o == BLKUP_NEED || o == BLKUP_UNREADABLE)
                return o;

        sector = UINT64_C(1) << x.sector_shift;
        blkup_found_evidence(ret, 64 + 16 + 24 + 53 * 8 + 32);
        chars = blkup_u8_at(s.label, DE_LABEL_CHARS);
        blkup_found_utf16(ret, "LABEL",
                          blkup_slice_at(s.label, DE_LABEL, blkup_min(chars * 2, DE_LABEL_BYTES)),
                          BLKUP_LITTLE_ENDIAN);
        blkup_found_serial(ret, "UUID", blkup_slice_at(x.bs, BS_SERIAL, 4));
        blkup_found_version(ret, blkup_u8_at(x.bs, BS_MAJOR_REV), blkup_u8_at(x.bs, BS_MINOR_REV));
        blkup_found_block_size(ret, sector);
        if (blkup_mul(blkup_le64_at(x.bs, BS_VOLUME_SECTORS), sector, &bytes))
                blkup_found_u64(ret, "FSSIZE", bytes);
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_exfat;
const struct blkup_format blkup_format_exfat = {
        .name = "exfat",
        .usage = BLKUP_USAGE_FILESYSTEM,
        .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics),
        .check = check,
};
