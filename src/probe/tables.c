/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the engine and a format (mdraid 0.90, zfs) share about partition tables: trying one, and what it
 * covers. */
#include <string.h>

#include "probe/tables.h"

enum blkup_outcome blkup_table_try(struct blkup_view *v, const struct blkup_table *t, struct blkup_found *ret,
                                   struct blkup_entries *e)
{
        struct blkup_hit hit = { 0 };
        enum blkup_outcome o;

        if (t->min_bytes > v->size)
                return BLKUP_NOT_THIS;
        if (t->n_magics > 0) {
                o = blkup_match_magics(v, t->magics, t->n_magics, 0, &hit);
                if (o != BLKUP_FOUND)
                        return o;
        }
        blkup_found_reset(ret);
        if (e && e->begin)
                e->begin(e);
        o = t->check(v, &hit, ret, e);
        if (o == BLKUP_FOUND && ret->magic_len == 0 && t->n_magics > 0) {
                ret->magic_at = hit.at;
                ret->magic_len = t->magics[hit.row].len;
        }
        return o;
}

struct cover {
        struct blkup_entries entries;
        uint64_t first, end; /* sectors asked about */
        uint64_t device_sectors;
        bool covered, misfit;
};

static void cover_begin(struct blkup_entries *e)
{
        struct cover *c = (struct cover *) (void *) e;

        c->covered = c->misfit = false;
}

static bool cover_entry(struct blkup_entries *e, const struct blkup_entry *p)
{
        struct cover *c = (struct cover *) (void *) e;
        uint64_t end;

        if (!blkup_add(p->start_sectors, p->size_sectors, &end) || end > c->device_sectors) {
                c->misfit = true;
                return false;
        }
        if (p->start_sectors <= c->first && c->end <= end)
                c->covered = true;
        return true;
}

enum blkup_outcome blkup_tables_cover(struct blkup_view *v, uint64_t at, uint64_t len, bool *ret)
{
        struct cover c = {
                .entries = { .begin = cover_begin, .entry = cover_entry },
                .first = at / 512,
                .end = (at + len + 511) / 512,
                .device_sectors = v->size / 512,
        };
        const char *found_type = v->found_type;
        bool wanted = v->wants_partitions;
        struct blkup_found found;
        enum blkup_outcome o = BLKUP_NOT_THIS;
        bool is_open = false;

        v->found_type = NULL;
        v->wants_partitions = true;
        for (unsigned i = 0; i < blkup_n_tables && o != BLKUP_FOUND && o != BLKUP_NEED; i++) {
                o = blkup_table_try(v, blkup_tables[i], &found, &c.entries);
                is_open |= o == BLKUP_UNREADABLE;
        }
        v->wants_partitions = wanted;
        v->found_type = found_type;
        if (o == BLKUP_NEED)
                return o;
        /* A table that could not be looked at might cover it, whatever the others say. */
        if (o != BLKUP_FOUND && is_open)
                return BLKUP_UNREADABLE;
        *ret = o == BLKUP_FOUND && c.covered && !c.misfit;
        return BLKUP_FOUND;
}
