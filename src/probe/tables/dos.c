/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The DOS partition table: four entries in the master boot record, logical partitions in a chain of extended
 * boot records. There is no specification; facts from ../shared/probe/tags.tsv and from what util-linux
 * accepts.
 */
#include <string.h>

#include "probe/formats/exfat.h"
#include "probe/formats/ntfs.h"
#include "probe/formats/vfat.h"
#include "probe/tables/dos.h"
#include "probe/tables/nested.h"

enum { MBR_DISK_ID = 440, MBR_SIGN = 510, ENTRY_LEN = 16 };

/* Logical partitions that are listed, and links in a row that bring none: chains beyond are loops or
 * nonsense. */
#define MAX_LOGICALS 256
#define MAX_EMPTY_LINKS 100

const struct blkup_magic blkup_mbr_magics[1] = { { .within = MBR_SIGN, .len = 2, .bytes = "\x55\xaa" } };

struct blkup_mbr_entry blkup_mbr_entry(struct blkup_bytes sector, unsigned i)
{
        size_t at = BLKUP_MBR_ENTRIES_AT + (size_t) i * ENTRY_LEN;

        return (struct blkup_mbr_entry){
                .boot = blkup_u8_at(sector, at),
                .type = blkup_u8_at(sector, at + 4),
                .start = blkup_le32_at(sector, at + 8),
                .size = blkup_le32_at(sector, at + 12),
        };
}

enum blkup_outcome blkup_mbr_is_protective(struct blkup_view *v)
{
        struct blkup_bytes mbr;

        BLKUP_FETCH(v, 0, 512, &mbr);
        if (!blkup_equal_at(mbr, MBR_SIGN, "\x55\xaa", 2))
                return blkup_refuse(v, "no boot signature");
        for (unsigned i = 0; i < BLKUP_MBR_ENTRIES; i++)
                if (blkup_mbr_entry(mbr, i).type == BLKUP_MBR_TYPE_GPT)
                        return BLKUP_FOUND;
        return blkup_refuse(v, "no protective entry");
}

static bool is_extended(uint8_t type)
{
        return type == 0x05 || type == 0x0f || type == 0x85;
}

struct listing {
        struct blkup_view *v;
        struct blkup_entries *e;
        uint64_t scale; /* 512-byte sectors of a logical sector */
        uint32_t disk_id;
        unsigned next_number;
        uint64_t starts[BLKUP_MBR_ENTRIES + MAX_LOGICALS]; /* of what was told */
        unsigned n_starts;
};

static bool was_told(const struct listing *l, uint64_t start)
{
        for (unsigned i = 0; i < l->n_starts; i++)
                if (l->starts[i] == start)
                        return true;
        return false;
}

/* false: the listener has heard enough, or the list is full. */
static bool tell(struct listing *l, unsigned number, const struct blkup_mbr_entry *m, uint64_t start)
{
        struct blkup_entry entry = {
                .number = number,
                .start_sectors = start * l->scale,
                .size_sectors = (uint64_t) m->size * l->scale,
                .flags = m->boot,
                .type = m->type,
                .disk_id = l->disk_id,
        };

        if (l->n_starts == BLKUP_ARRAY_SIZE(l->starts)) {
                l->e->is_cut = true;
                return false;
        }
        l->starts[l->n_starts++] = start;
        return l->e->entry(l->e, &entry);
}

/* One extended partition, [first, first + size) in logical sectors: its links count from `first`, a logical
 * partition from the record it stands in. */
static enum blkup_outcome list_logicals(struct listing *l, uint64_t first, uint64_t size)
{
        uint64_t at = first, at_size = size, seen[MAX_LOGICALS + MAX_EMPTY_LINKS];
        unsigned empty = 0, n_seen = 0;

        /* The table itself would be its first record. */
        if (first == 0)
                return BLKUP_FOUND;

        /* Ends: a record is visited once, and there is room for so many. */
        while (n_seen < BLKUP_ARRAY_SIZE(seen)) {
                struct blkup_bytes ebr;
                enum blkup_outcome o;
                unsigned i;
                uint64_t at_bytes;

                for (i = 0; i < n_seen; i++)
                        if (seen[i] == at)
                                return BLKUP_FOUND;
                seen[n_seen++] = at;
                if (!blkup_view_work(l->v, n_seen))
                        return blkup_gave_up(l->v, "chain of extended partitions too long");
                if (!blkup_mul(at, l->scale * 512, &at_bytes))
                        return BLKUP_FOUND;
                o = blkup_view_get(l->v, at_bytes, 512, &ebr);
                if (o == BLKUP_NOT_THIS)
                        return BLKUP_FOUND; /* the chain leaves the device: what was listed stands */
                if (o != BLKUP_FOUND)
                        return o;
                if (!blkup_equal_at(ebr, MBR_SIGN, "\x55\xaa", 2))
                        return BLKUP_FOUND;

                empty++;
                for (i = 0; i < BLKUP_MBR_ENTRIES; i++) {
                        struct blkup_mbr_entry m = blkup_mbr_entry(ebr, i);
                        uint64_t start = at + m.start;

                        if (m.size == 0 || is_extended(m.type))
                                continue;
                        /* The first two are data and link; what some tools leave in the others must at least
                         * fit. */
                        if (i >= 2 && ((uint64_t) m.start + m.size > at_size || start < first ||
                                       start + m.size > first + size))
                                continue;
                        /* Two chains that meet: a second entry for the same place is none. */
                        if (was_told(l, start))
                                continue;
                        if (!tell(l, l->next_number++, &m, start))
                                return BLKUP_FOUND;
                        empty = 0;
                }
                if (empty > MAX_EMPTY_LINKS)
                        return BLKUP_FOUND;
                for (i = 0; i < BLKUP_MBR_ENTRIES; i++) {
                        struct blkup_mbr_entry m = blkup_mbr_entry(ebr, i);

                        if (m.size != 0 && is_extended(m.type)) {
                                at = first + m.start;
                                at_size = m.size;
                                break;
                        }
                }
                if (i == BLKUP_MBR_ENTRIES)
                        return BLKUP_FOUND;
        }
        l->e->is_cut = true;
        return BLKUP_FOUND;
}

/* The tables inside partitions, by the type of the partition. A tiny device has none. */
static enum blkup_outcome list_nested(struct listing *l, const struct blkup_mbr_entry *m)
{
        static const struct {
                uint8_t type;
                enum blkup_outcome (*list)(struct blkup_view *, struct blkup_nest *, struct blkup_entries *);
        } kinds[] = {
                { 0xa5, blkup_bsd_list },      { 0xa6, blkup_bsd_list },     { 0xa9, blkup_bsd_list },
                { 0x63, blkup_unixware_list }, { 0x82, blkup_solaris_list }, { 0x81, blkup_minix_list },
        };
        struct blkup_nest n = {
                .start_sectors = m->start * l->scale, .size_sectors = m->size * l->scale, .type = m->type,
                .next_number = l->next_number,
        };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(kinds); i++) {
                enum blkup_outcome o;

                if (kinds[i].type != m->type)
                        continue;
                o = kinds[i].list(l->v, &n, l->e);
                l->next_number = n.next_number;
                if (o == BLKUP_NEED || o == BLKUP_UNREADABLE)
                        return o;
        }
        return BLKUP_FOUND;
}

static enum blkup_outcome list(struct blkup_view *v, struct blkup_bytes mbr, struct blkup_entries *e)
{
        struct listing l = {
                .v = v, .e = e, .scale = v->sector_bytes / 512,
                .disk_id = blkup_le32_at(mbr, MBR_DISK_ID), .next_number = 5,
        };

        for (unsigned i = 0; i < BLKUP_MBR_ENTRIES; i++) {
                struct blkup_mbr_entry m = blkup_mbr_entry(mbr, i);

                if (m.size != 0 && !tell(&l, i + 1, &m, m.start))
                        return BLKUP_FOUND;
        }
        for (unsigned i = 0; i < BLKUP_MBR_ENTRIES; i++) {
                struct blkup_mbr_entry m = blkup_mbr_entry(mbr, i);
                enum blkup_outcome o;

                if (m.size == 0 || !is_extended(m.type))
                        continue;
                o = list_logicals(&l, m.start, m.size);
                if (o != BLKUP_FOUND)
                        return o;
        }
        for (unsigned i = 0; !v->is_tiny && i < BLKUP_MBR_ENTRIES; i++) {
                struct blkup_mbr_entry m = blkup_mbr_entry(mbr, i);
                enum blkup_outcome o;

                if (m.size == 0 || is_extended(m.type))
                        continue;
                o = list_nested(&l, &m);
                if (o != BLKUP_FOUND)
                        return o;
        }
        return BLKUP_FOUND;
}

/* The boot sector of a file system ends with 55 AA too. */
static enum blkup_outcome is_boot_sector(struct blkup_view *v)
{
        enum blkup_outcome (*const vetoes[])(struct blkup_view *) = {
                blkup_vfat_is_boot_sector,
                blkup_exfat_is_boot_sector,
                blkup_ntfs_is_boot_sector,
        };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(vetoes); i++) {
                enum blkup_outcome o = vetoes[i](v);

                if (o == BLKUP_FOUND || o == BLKUP_NEED || o == BLKUP_UNREADABLE)
                        return o;
        }
        return BLKUP_NOT_THIS;
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret,
                                struct blkup_entries *e)
{
        struct blkup_bytes mbr;
        unsigned used = 0;
        uint32_t id;
        enum blkup_outcome o;

        (void) hit;
        BLKUP_FETCH(v, 0, 512, &mbr);
        if (blkup_equal_at(mbr, 0, "\xc9\xc2\xd4\xc1", 4))
                return blkup_refuse(v, "a disk of AIX");
        for (unsigned i = 0; i < BLKUP_MBR_ENTRIES; i++) {
                struct blkup_mbr_entry m = blkup_mbr_entry(mbr, i);

                if (m.boot != 0 && m.boot != 0x80)
                        return blkup_refuse(v, "boot indicator is neither 0 nor 0x80");
                if (m.type == BLKUP_MBR_TYPE_GPT)
                        return blkup_refuse(v, "protects a GPT");
                used += m.type != 0 || m.size != 0;
        }
        o = is_boot_sector(v);
        if (o == BLKUP_FOUND)
                return blkup_refuse(v, "boot sector of a file system");
        if (o != BLKUP_NOT_THIS && o != BLKUP_DAMAGED)
                return o;
        if (used == 0 && v->found_type && strcmp(v->found_type, "LVM2_member") == 0)
                return blkup_refuse(v, "an empty table inside an LVM2 physical volume");

        id = blkup_le32_at(mbr, MBR_DISK_ID);
        blkup_found_evidence(ret, 16 + 4 * 7);
        if (id != 0)
                blkup_found_printf(ret, "PTUUID", "%08x", id);
        return v->wants_partitions ? list(v, mbr, e) : BLKUP_FOUND;
}

extern const struct blkup_table blkup_table_dos;
const struct blkup_table blkup_table_dos = {
        .name = "dos",
        .magics = blkup_mbr_magics, .n_magics = BLKUP_ARRAY_SIZE(blkup_mbr_magics), .check = check,
};
