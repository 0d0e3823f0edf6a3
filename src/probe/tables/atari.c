/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * atari: the root sector of AHDI disks, big-endian. Source: Atari "AHDI 3.00 Release Notes" (1990), kernel
 * block/partitions/atari.c for ICD's eight more entries. There is no magic, so the whole sector has to make
 * sense: boot code and text have been taken for tables by looser rules.
 */
#include "probe/formats/fields.h"

enum { ROOT_ICD = 342, ROOT_SECTORS = 450, ROOT_ENTRIES = 454, ROOT_BAD_START = 502, ROOT_BAD_COUNT = 506 };
enum { ENT_FLAGS = 0, ENT_ID = 1, ENT_START = 4, ENT_SIZE = 8, ENT_LEN = 12 };

#define FLAG_ACTIVE 0x01u
#define MAX_ENTRIES 4u
#define MAX_ICD_ENTRIES 8u
#define MAX_LINKS 128u
#define MAX_SECTORS 0x7fffffffu

static const struct blkup_needed needs[] = { { .at = 0, .len = 512 } };

struct part {
        uint8_t flags;
        struct blkup_bytes id;
        uint32_t start, size;
};

static struct part part_at(struct blkup_bytes s, size_t at)
{
        return (struct part){
                .flags = blkup_u8_at(s, at + ENT_FLAGS),
                .id = blkup_slice_at(s, at + ENT_ID, 3),
                .start = blkup_be32_at(s, at + ENT_START),
                .size = blkup_be32_at(s, at + ENT_SIZE),
        };
}

/* As the kernel's isalnum has it: letters above ASCII are letters of Latin-1. */
static bool is_alphanumeric(uint8_t c)
{
        return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
               (c >= 0xc0 && c != 0xd7 && c != 0xf7);
}

static bool lies_inside(uint32_t start, uint32_t size, uint32_t end)
{
        return start > 0 && size > 0 && (uint64_t) start + size <= end;
}

static bool is_active(const struct part *p)
{
        return (p->flags & FLAG_ACTIVE) != 0;
}

static bool is_valid(const struct part *p, uint32_t sectors)
{
        return is_active(p) && is_alphanumeric(p->id.data[0]) &&
               is_alphanumeric(p->id.data[1]) && is_alphanumeric(p->id.data[2]) &&
               lies_inside(p->start, p->size, sectors);
}

static bool is_extended(const struct part *p)
{
        return blkup_equal_at(p->id, 0, "XGM", 3);
}

static bool is_of_icd(const struct part *p)
{
        static const char ids[][4] = { "GEM", "BGM", "LNX", "SWP", "RAW" };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(ids); i++)
                if (blkup_equal_at(p->id, 0, ids[i], 3))
                        return true;
        return false;
}

#define MAX_LISTED (MAX_ENTRIES + MAX_ICD_ENTRIES + MAX_LINKS)

struct listing {
        struct blkup_view *v;
        struct blkup_entries *e;
        unsigned number;
        uint64_t starts[MAX_LISTED]; /* of those listed: none is listed twice */
        unsigned n;
        bool ended;
};

/* false: not listed, one with that start is already there (or the listener has heard enough). */
static bool tell(struct listing *l, const struct part *p, uint64_t from)
{
        struct blkup_entry entry = {
                .number = l->number,
                .start_sectors = from + p->start,
                .size_sectors = p->size,
                .type_text = p->id,
        };

        for (unsigned i = 0; i < l->n; i++)
                if (l->starts[i] == entry.start_sectors)
                        return false;
        if (l->ended || l->n == MAX_LISTED)
                return false;
        l->starts[l->n++] = entry.start_sectors;
        l->number++;
        l->ended = !l->e->entry(l->e, &entry);
        return !l->ended;
}

/* A chain of root sectors with one partition each, and a link to the next that counts from the first. */
static enum blkup_outcome list_extended(struct listing *l, uint32_t first)
{
        uint64_t at = first;

        for (unsigned link = 0; link < MAX_LINKS; link++) {
                struct part data, next;
                struct blkup_bytes s;
                enum blkup_outcome o = blkup_view_get(l->v, at * 512, 512, &s);
                unsigned i = 0;

                if (o == BLKUP_NOT_THIS)
                        return BLKUP_FOUND;
                if (o != BLKUP_FOUND)
                        return o;
                while (i < MAX_ENTRIES - 1 &&
                       !(blkup_u8_at(s, ROOT_ENTRIES + (size_t) i * ENT_LEN) & FLAG_ACTIVE))
                        i++;
                if (i == MAX_ENTRIES - 1)
                        return BLKUP_FOUND;
                data = part_at(s, ROOT_ENTRIES + (size_t) i * ENT_LEN);
                next = part_at(s, ROOT_ENTRIES + (size_t) (i + 1) * ENT_LEN);
                /* A link that leads back ends here: its partition was listed before. */
                if (is_extended(&data) || !tell(l, &data, at) || !is_active(&next) || !is_extended(&next))
                        return BLKUP_FOUND;
                at = (uint64_t) first + next.start;
        }
        return BLKUP_FOUND;
}

static enum blkup_outcome list(struct blkup_view *v, struct blkup_bytes root, struct blkup_entries *e)
{
        struct listing l = { .v = v, .e = e, .number = 1 };
        bool extended = false;
        struct part p;

        for (unsigned i = 0; i < MAX_ENTRIES; i++) {
                enum blkup_outcome o;

                p = part_at(root, ROOT_ENTRIES + (size_t) i * ENT_LEN);
                if (!is_active(&p)) {
                        l.number++;
                } else if (is_extended(&p)) {
                        extended = true;
                        o = list_extended(&l, p.start);
                        if (o != BLKUP_FOUND)
                                return o;
                } else if (!tell(&l, &p, 0)) {
                        l.number++;
                }
        }
        p = part_at(root, ROOT_ICD);
        if (extended || !is_of_icd(&p))
                return BLKUP_FOUND;
        for (unsigned i = 0; i < MAX_ICD_ENTRIES; i++) {
                p = part_at(root, ROOT_ICD + (size_t) i * ENT_LEN);
                if (!is_active(&p) || !is_of_icd(&p) || !tell(&l, &p, 0))
                        l.number++;
        }
        return BLKUP_FOUND;
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret,
                                struct blkup_entries *e)
{
        uint64_t device = v->size / 512;
        struct blkup_bytes root;
        uint32_t sectors, bad_start, bad_count;

        (void) hit;
        if (v->sector_bytes != 512 || device > MAX_SECTORS)
                return BLKUP_NOT_THIS;
        BLKUP_FETCH(v, 0, 512, &root);
        sectors = blkup_be32_at(root, ROOT_SECTORS);
        if (sectors < 2 || sectors > device)
                return BLKUP_NOT_THIS;
        bad_start = blkup_be32_at(root, ROOT_BAD_START);
        bad_count = blkup_be32_at(root, ROOT_BAD_COUNT);
        if ((bad_start != 0 || bad_count != 0) && !lies_inside(bad_start, bad_count, sectors))
                return BLKUP_NOT_THIS;
        for (unsigned i = 0; i < MAX_ENTRIES; i++) {
                struct part p = part_at(root, ROOT_ENTRIES + (size_t) i * ENT_LEN);

                if (!is_valid(&p, sectors))
                        continue;
                /* An active entry with a name and a place, on a disk that is as long as it says. */
                blkup_found_evidence(ret, 1 + 3 * 2 + 2 * 16);
                ret->magic_at = ROOT_ENTRIES + (uint64_t) i * ENT_LEN;
                ret->magic_len = 4;
                return v->wants_partitions ? list(v, root, e) : BLKUP_FOUND;
        }
        return BLKUP_NOT_THIS;
}

extern const struct blkup_table blkup_table_atari;
const struct blkup_table blkup_table_atari = {
        .name = "atari", .needs = needs, .n_needs = BLKUP_ARRAY_SIZE(needs), .check = check,
};
