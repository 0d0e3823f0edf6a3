/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The GUID partition table and, where neither of its headers is valid, the protective MBR alone. Source: UEFI
 * Specification 2.10, chapter 5. A header is read only under a protective MBR, the backup only when the
 * primary is bad.
 */
#include "probe/formats/fields.h"
#include "probe/tables/dos.h"

/* Offsets in the header, little-endian. */
enum {
        HDR_LEN = 12,       /* 32 bits, 92 to a sector */
        HDR_CRC = 16,       /* CRC-32 of HDR_LEN bytes with this field as zero */
        HDR_MY_LBA = 24, HDR_FIRST_USABLE = 40, HDR_LAST_USABLE = 48,
        HDR_GUID = 56, HDR_ARRAY_LBA = 72,
        HDR_ENTRIES = 80, HDR_ENTRY_LEN = 84, HDR_ARRAY_CRC = 88,
};

/* Offsets in an entry. */
enum { ENT_TYPE = 0, ENT_UUID = 16, ENT_FIRST = 32, ENT_LAST = 40, ENT_FLAGS = 48, ENT_NAME = 56 };
enum { ENT_NAME_LEN = 72 };

#define ENTRY_LEN 128u /* the only length that util-linux and the kernel's own check accept */
#define MAX_ARRAY (8u << 20)

static uint32_t header_crc(struct blkup_bytes h, uint32_t len)
{
        static const uint8_t zero[4];
        uint32_t crc = blkup_crc32(~0U, h.data, HDR_CRC);

        crc = blkup_crc32(crc, zero, sizeof(zero));
        return ~blkup_crc32(crc, h.data + HDR_CRC + 4, len - HDR_CRC - 4);
}

struct gpt {
        struct blkup_bytes header, array;
        uint64_t first_usable, last_usable;
};

/* One copy: BLKUP_FOUND when header and array are valid. */
static enum blkup_outcome fetch(struct blkup_view *v, uint64_t lba, struct gpt *ret)
{
        uint64_t sector = v->sector_bytes, last_lba = v->size / sector - 1, at, array_len;
        struct gpt g;
        uint32_t len, entries;

        if (!blkup_mul(lba, sector, &at))
                return BLKUP_NOT_THIS;
        BLKUP_FETCH(v, at, sector, &g.header);
        if (!blkup_equal_at(g.header, 0, "EFI PART", 8))
                return blkup_refuse(v, "no EFI PART");
        len = blkup_le32_at(g.header, HDR_LEN);
        if (len < 92 || len > sector)
                return blkup_damaged(v, "header size is not 92 to a sector");
        if (header_crc(g.header, len) != blkup_le32_at(g.header, HDR_CRC))
                return blkup_damaged(v, "header checksum mismatch");
        if (blkup_le64_at(g.header, HDR_MY_LBA) != lba)
                return blkup_damaged(v, "header says it stands elsewhere");
        g.first_usable = blkup_le64_at(g.header, HDR_FIRST_USABLE);
        g.last_usable = blkup_le64_at(g.header, HDR_LAST_USABLE);
        if (g.last_usable < g.first_usable || g.first_usable > last_lba || g.last_usable > last_lba)
                return blkup_damaged(v, "usable range is not on the device");
        if (g.first_usable < lba && lba < g.last_usable)
                return blkup_damaged(v, "header stands in the usable range");
        entries = blkup_le32_at(g.header, HDR_ENTRIES);
        if (entries == 0 || blkup_le32_at(g.header, HDR_ENTRY_LEN) != ENTRY_LEN)
                return blkup_damaged(v, "entries are not of 128 bytes");
        array_len = (uint64_t) entries * ENTRY_LEN;
        if (array_len >= MAX_ARRAY)
                return blkup_damaged(v, "array of 8 MiB or more");
        if (!blkup_mul(blkup_le64_at(g.header, HDR_ARRAY_LBA), sector, &at))
                return blkup_damaged(v, "array is not on the device");
        BLKUP_FETCH(v, at, array_len, &g.array);
        if (~blkup_crc32(~0U, g.array.data, g.array.len) != blkup_le32_at(g.header, HDR_ARRAY_CRC))
                return blkup_damaged(v, "array checksum mismatch");
        *ret = g;
        return BLKUP_FOUND;
}

/* The primary, else the backup. *ret_lba: where the valid header stands. */
static enum blkup_outcome fetch_either(struct blkup_view *v, struct gpt *ret, uint64_t *ret_lba)
{
        uint64_t lbas[2] = { 1, v->size / v->sector_bytes - 1 };
        enum blkup_outcome answer = BLKUP_NOT_THIS;

        if (v->size / v->sector_bytes < 2)
                return BLKUP_NOT_THIS;
        for (unsigned i = 0; i < 2; i++) {
                enum blkup_outcome o = fetch(v, lbas[i], ret);

                if (o == BLKUP_FOUND)
                        *ret_lba = lbas[i];
                if (o == BLKUP_FOUND || o == BLKUP_NEED)
                        return o;
                if (o == BLKUP_UNREADABLE)
                        answer = o;
        }
        return answer;
}

static void list(const struct gpt *g, uint64_t scale, struct blkup_entries *e)
{
        uint32_t n = (uint32_t) (g->array.len / ENTRY_LEN);

        for (uint32_t i = 0; i < n; i++) { /* ends: the array is at most 8 MiB */
                size_t at = (size_t) i * ENTRY_LEN;
                uint64_t first = blkup_le64_at(g->array, at + ENT_FIRST);
                uint64_t last = blkup_le64_at(g->array, at + ENT_LAST);
                struct blkup_entry entry = {
                        .number = i + 1,
                        .start_sectors = first * scale,
                        .size_sectors = (last - first + 1) * scale,
                        .flags = blkup_le64_at(g->array, at + ENT_FLAGS),
                        .type_guid = g->array.data + at + ENT_TYPE,
                        .uuid_guid = g->array.data + at + ENT_UUID,
                        .name_is_utf16 = true,
                };

                if (blkup_is_filled(g->array, at + ENT_TYPE, 16, 0) || first > last ||
                    first < g->first_usable || last > g->last_usable)
                        continue; /* an empty entry keeps its number */
                entry.name = blkup_slice_at(g->array, at + ENT_NAME, ENT_NAME_LEN);
                if (!e->entry(e, &entry))
                        return;
        }
}

static enum blkup_outcome check_gpt(struct blkup_view *v, const struct blkup_hit *hit,
                                    struct blkup_found *ret, struct blkup_entries *e)
{
        enum blkup_outcome o = blkup_mbr_is_protective(v);
        uint64_t lba;
        struct gpt g;

        (void) hit;
        if (o == BLKUP_FOUND)
                o = fetch_either(v, &g, &lba);
        if (o != BLKUP_FOUND)
                return o;
        blkup_found_evidence(ret, 16 + 8 + 64 + 32 + 32);
        ret->magic_at = lba * v->sector_bytes;
        ret->magic_len = 8;
        blkup_found_guid(ret, "PTUUID", blkup_slice_at(g.header, HDR_GUID, 16));
        if (v->wants_partitions)
                list(&g, v->sector_bytes / 512, e);
        return BLKUP_FOUND;
}

static enum blkup_outcome check_pmbr(struct blkup_view *v, const struct blkup_hit *hit,
                                     struct blkup_found *ret, struct blkup_entries *e)
{
        enum blkup_outcome o = blkup_mbr_is_protective(v);
        uint64_t lba;
        struct gpt g;

        (void) hit;
        (void) e;
        if (o != BLKUP_FOUND)
                return o;
        o = fetch_either(v, &g, &lba);
        if (o == BLKUP_FOUND)
                return blkup_refuse(v, "a valid GPT stands behind it");
        if (o == BLKUP_NEED || o == BLKUP_UNREADABLE)
                return o;
        blkup_found_evidence(ret, 16 + 8);
        return BLKUP_FOUND;
}

extern const struct blkup_table blkup_table_gpt, blkup_table_pmbr;
const struct blkup_table blkup_table_gpt = {
        .name = "gpt", .magics = blkup_mbr_magics, .n_magics = 1, .check = check_gpt,
};
const struct blkup_table blkup_table_pmbr = {
        .name = "PMBR", .magics = blkup_mbr_magics, .n_magics = 1, .check = check_pmbr,
};
