/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * NTFS. Source: kernel fs/ntfs3/ntfs.h (struct NTFS_BOOT, MFT_REC, ATTRIB) and the NTFS documentation of the
 * Linux-NTFS project ($Boot, $Volume); which boot sectors are accepted: ../shared/probe/tags.tsv.
 */
#include <inttypes.h>

#include "probe/formats/fields.h"
#include "probe/formats/ntfs.h"

/* Offsets in the boot sector, little-endian. */
enum {
        BS_OEM_ID = 3,             /* 8 bytes, the magic */
        BS_SECTOR_BYTES = 11,      /* 16 bits */
        BS_CLUSTER_SECTORS = 13,   /* 8 bits; above 239 a negative power of two */
        BS_RESERVED = 14,          /* 16 bits; this and the next five are fields of FAT and zero here */
        BS_FATS = 16,              /* 8 bits */
        BS_ROOT_ENTRIES = 17,      /* 16 bits */
        BS_SECTORS_16 = 19,        /* 16 bits */
        BS_FAT_SECTORS = 22,       /* 16 bits */
        BS_SECTORS_32 = 32,
        BS_SECTORS = 40,           /* 64 bits */
        BS_MFT_CLUSTER = 48,       /* 64 bits */
        BS_MIRROR_CLUSTER = 56,    /* 64 bits */
        BS_RECORD_CLUSTERS = 64,   /* 8 bits; above 127 the record has 2^-n bytes */
        BS_SERIAL = 72,            /* 64 bits */
};

#define MAX_CLUSTER_BYTES (UINT64_C(2) << 20)
#define MAX_RECORD_BYTES (UINT64_C(8) << 20) /* util-linux reads no more than that at once */
#define VOLUME_RECORD 3

/* Offsets in a record of the master file table and in an attribute with its value in the record. */
enum { MFT_SIGN = 0, MFT_FIRST_ATTRIBUTE = 20, MFT_HEADER_LEN = 42 };
enum { ATTR_TYPE = 0, ATTR_LEN = 4, ATTR_VALUE_LEN = 16, ATTR_VALUE = 20, ATTR_HEADER_LEN = 24 };
#define ATTR_TYPE_VOLUME_NAME 0x60u
#define ATTR_TYPE_END 0xffffffffu

struct ntfs {
        struct blkup_bytes bs;
        uint64_t sector_bytes, cluster_bytes, record_bytes, volume_record_at;
};

static const struct blkup_magic magics[] = { { .within = BS_OEM_ID, .len = 8, .bytes = "NTFS    " } };

/* 0: no such size. */
static uint64_t record_size(unsigned n, uint64_t cluster_bytes)
{
        if (n >= 0xe1 && n <= 0xf7)
                return UINT64_C(1) << (256 - n);
        return n <= 64 && blkup_is_power_of_two(n) ? n * cluster_bytes : 0;
}

static bool has_fields_of_fat(struct blkup_bytes bs)
{
        return blkup_le16_at(bs, BS_RESERVED) || blkup_u8_at(bs, BS_FATS) ||
               blkup_le16_at(bs, BS_ROOT_ENTRIES) || blkup_le16_at(bs, BS_SECTORS_16) ||
               blkup_le16_at(bs, BS_FAT_SECTORS) || blkup_le32_at(bs, BS_SECTORS_32);
}

static enum blkup_outcome check_records(struct blkup_view *v, uint64_t mft_at, const struct ntfs *n)
{
        struct blkup_bytes first, volume;

        /* The record's first sector, so that what the label needs mostly comes along. */
        blkup_view_want(v, n->volume_record_at, 512);
        BLKUP_FETCH(v, mft_at, 4, &first);
        if (!blkup_equal_at(first, MFT_SIGN, "FILE", 4))
                return blkup_refuse(v, "no master file table");
        BLKUP_FETCH(v, n->volume_record_at, MFT_HEADER_LEN, &volume);
        if (!blkup_equal_at(volume, MFT_SIGN, "FILE", 4))
                return blkup_refuse(v, "no record of the volume");
        return BLKUP_FOUND;
}

static enum blkup_outcome fetch(struct blkup_view *v, struct ntfs *ret)
{
        uint64_t spc, clusters, mft, mft_at;
        struct blkup_bytes bs;
        struct ntfs n;
        enum blkup_outcome o;

        BLKUP_FETCH(v, 0, 512, &bs);
        n.bs = bs;
        n.sector_bytes = blkup_le16_at(bs, BS_SECTOR_BYTES);
        if (!blkup_is_power_of_two(n.sector_bytes) || n.sector_bytes < 256 || n.sector_bytes > 4096)
                return blkup_refuse(v, "sector size is not 256 to 4096");
        spc = blkup_u8_at(bs, BS_CLUSTER_SECTORS);
        if (spc >= 240 && spc <= 249)
                spc = UINT64_C(1) << (256 - spc);
        else if (!blkup_is_power_of_two(spc) || spc > 128)
                return blkup_refuse(v, "cluster size is no power of two");
        n.cluster_bytes = spc * n.sector_bytes;
        if (n.cluster_bytes > MAX_CLUSTER_BYTES)
                return blkup_refuse(v, "cluster size above 2 MiB");
        if (has_fields_of_fat(bs))
                return blkup_refuse(v, "fields of FAT are not zero");
        n.record_bytes = record_size(blkup_u8_at(bs, BS_RECORD_CLUSTERS), n.cluster_bytes);
        if (n.record_bytes == 0 || n.record_bytes > MAX_RECORD_BYTES)
                return blkup_refuse(v, "no such record size");
        clusters = blkup_le64_at(bs, BS_SECTORS) / spc;
        mft = blkup_le64_at(bs, BS_MFT_CLUSTER);
        if (mft > clusters || blkup_le64_at(bs, BS_MIRROR_CLUSTER) > clusters)
                return blkup_refuse(v, "master file table beyond the end");
        if (!blkup_mul(mft, n.cluster_bytes, &mft_at) ||
            !blkup_add(mft_at, VOLUME_RECORD * n.record_bytes, &n.volume_record_at))
                return blkup_refuse(v, "master file table beyond the end");
        o = check_records(v, mft_at, &n);
        if (o == BLKUP_FOUND)
                *ret = n;
        return o;
}

enum blkup_outcome blkup_ntfs_is_boot_sector(struct blkup_view *v)
{
        struct blkup_hit hit;
        struct ntfs n;
        enum blkup_outcome o = blkup_match_magics(v, magics, BLKUP_ARRAY_SIZE(magics), 0, &hit);

        return o == BLKUP_FOUND ? fetch(v, &n) : o;
}

/* The value of the record's $VOLUME_NAME; empty when it has none. */
static enum blkup_outcome find_label(struct blkup_view *v, const struct ntfs *n, struct blkup_bytes *ret)
{
        struct blkup_bytes head, attr;
        uint64_t off, step;

        BLKUP_FETCH(v, n->volume_record_at, MFT_HEADER_LEN, &head);
        off = blkup_le16_at(head, MFT_FIRST_ATTRIBUTE);
        for (; off + ATTR_HEADER_LEN <= n->record_bytes; off += step) { /* ends: each step is at least 1 */
                uint64_t value, value_len;

                if (!blkup_view_work(v, 1))
                        return blkup_gave_up(v, "too many attributes");
                BLKUP_FETCH(v, n->volume_record_at + off, ATTR_HEADER_LEN, &attr);
                step = blkup_le32_at(attr, ATTR_LEN);
                if (step == 0 || blkup_le32_at(attr, ATTR_TYPE) == ATTR_TYPE_END)
                        break;
                if (blkup_le32_at(attr, ATTR_TYPE) != ATTR_TYPE_VOLUME_NAME)
                        continue;
                value = off + blkup_le16_at(attr, ATTR_VALUE);
                value_len = blkup_le32_at(attr, ATTR_VALUE_LEN);
                if (!blkup_inside(value, value_len, n->record_bytes) || value_len == 0)
                        break;
                return blkup_view_get(v, n->volume_record_at + value, value_len, ret);
        }
        return BLKUP_FOUND;
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes label = { 0 };
        struct ntfs n;
        enum blkup_outcome o = fetch(v, &n);
        uint64_t bytes;

        (void) hit;
        if (o != BLKUP_FOUND)
                return o;
        o = find_label(v, &n, &label);
        if (o == BLKUP_NEED || o == BLKUP_UNREADABLE)
                return o;
        blkup_found_evidence(ret, 64 + 12 + 5 + 13 * 8 + 2 * 32);
        blkup_found_utf16(ret, "LABEL", label, BLKUP_LITTLE_ENDIAN);
        blkup_found_u64(ret, "FSBLOCKSIZE", n.cluster_bytes);
        blkup_found_u64(ret, "BLOCK_SIZE", n.sector_bytes);
        if (blkup_mul(blkup_le64_at(n.bs, BS_SECTORS), n.sector_bytes, &bytes))
                blkup_found_u64(ret, "FSSIZE", bytes);
        blkup_found_printf(ret, "UUID", "%016" PRIX64, blkup_le64_at(n.bs, BS_SERIAL));
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_ntfs;
const struct blkup_format blkup_format_ntfs = {
        .name = "ntfs",
        .usage = BLKUP_USAGE_FILESYSTEM,
        .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics),
        .check = check,
};
