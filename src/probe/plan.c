/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The plan: which units of a device its formats may look at. Everything is data in the formats' rows, cut by
 * the device's size; the result is exact (no unit that nobody looks at), sorted and free of doubles.
 */
#include <string.h>

#include "probe/engine.h"

void blkup_units_clear(struct blkup_units *u)
{
        memset(u->low, 0, sizeof(u->low));
        u->n_high = 0;
}

void blkup_units_add(struct blkup_units *u, uint64_t first, uint64_t last)
{
        for (uint64_t i = first; i <= last; i++) { /* ends: the windows in the rows are a few units long */
                unsigned k;

                if (i < BLKUP_VIEW_LOW) {
                        u->low[i / 64] |= (uint64_t) 1 << (i % 64);
                        continue;
                }
                k = u->n_high;
                while (k > 0 && u->high[k - 1] > i)
                        k--;
                if ((k > 0 && u->high[k - 1] == i) || u->n_high == BLKUP_PLAN_HIGH)
                        continue; /* full: what is missing is asked for when a format looks there */
                memmove(u->high + k + 1, u->high + k, (u->n_high - k) * sizeof(u->high[0]));
                u->high[k] = i;
                u->n_high++;
        }
}

void blkup_units_join(struct blkup_units *a, const struct blkup_units *b)
{
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(a->low); i++)
                a->low[i] |= b->low[i];
        for (unsigned i = 0; i < b->n_high; i++)
                blkup_units_add(a, b->high[i], b->high[i]);
}

static void add_window(const struct blkup_view *v, struct blkup_units *u, uint64_t at, uint64_t len)
{
        uint64_t first = at >> v->unit_shift, last = (at + len - 1) >> v->unit_shift;

        if (len == 0 || !blkup_inside(at, len, v->size))
                return;
        if (first == last && first < BLKUP_VIEW_LOW)
                u->low[first / 64] |= (uint64_t) 1 << (first % 64);
        else
                blkup_units_add(u, first, last);
}

static void add_rows(const struct blkup_view *v, struct blkup_units *u, const struct blkup_magic *magics,
                     unsigned n_magics, const struct blkup_needed *needs, unsigned n_needs)
{
        uint64_t base, at;

        for (unsigned i = 0; i < n_magics; i++)
                if (magics[i].anchor == BLKUP_FROM_START)
                        add_window(v, u, magics[i].at + magics[i].within, magics[i].len);
                else if (blkup_view_anchor(v, magics[i].anchor, magics[i].at, &base) &&
                         blkup_add(base, magics[i].within, &at))
                        add_window(v, u, at, magics[i].len);
        for (unsigned i = 0; i < n_needs; i++)
                if (blkup_view_anchor(v, needs[i].anchor, needs[i].at, &base))
                        add_window(v, u, base, needs[i].len);
}

/* Working out the rows costs what two or three looks at them save: few devices of a geometry do without. */
#define ROWS_FROM_USE 4

extern const struct blkup_format blkup_format_vfat; /* the last of a tiny device's first stage */

static bool is_active(const struct blkup_probe *p, unsigned i)
{
        const struct blkup_format *f = blkup_formats[i];
        const struct blkup_view *v = &p->view;

        if (p->excluded[i] || (p->usages && !(p->usages & f->usage)) || f->min_bytes > v->size)
                return false;
        if (f->usage == BLKUP_USAGE_RAID && (v->is_tiny || p->is_cdrom))
                return false;
        if (f->usage == BLKUP_USAGE_OTHER && p->is_cdrom)
                return false;
        return v->is_whole || !(f->flags & BLKUP_WHOLE_ONLY);
}

static void make(struct blkup_probe *p)
{
        struct blkup_plan *plan = &p->plan;
        const struct blkup_view *v = &p->view;
        bool after_vfat = false;

        blkup_units_clear(&plan->first);
        blkup_units_clear(&plan->tables);
        blkup_units_clear(&plan->rest);
        plan->n_active = plan->n_first = plan->n_active_tables = 0;

        for (unsigned i = 0; i < blkup_n_formats && !p->no_superblocks; i++) {
                const struct blkup_format *f = blkup_formats[i];

                if (is_active(p, i)) {
                        plan->active[plan->n_active++] = (uint16_t) i;
                        if (!(f->flags & BLKUP_LATE))
                                add_rows(v, after_vfat ? &plan->rest : &plan->first, f->magics, f->n_magics,
                                         f->needs, f->n_needs);
                }
                if (f == &blkup_format_vfat) {
                        after_vfat = true;
                        plan->n_first = plan->n_active;
                }
        }
        for (unsigned i = 0; i < blkup_n_tables && !(p->flags & BLKUP_PROBE_NO_TABLES); i++) {
                const struct blkup_table *t = blkup_tables[i];

                if (p->excluded_tables[i] || t->min_bytes > v->size)
                        continue;
                plan->active_tables[plan->n_active_tables++] = (uint16_t) i;
                add_rows(v, &plan->tables, t->magics, t->n_magics, t->needs, t->n_needs);
        }
}

void blkup_plan_forget(struct blkup_probe *p)
{
        p->plan.key.is_valid = 0;
}

void blkup_plan_make(struct blkup_probe *p)
{
        const struct blkup_view *v = &p->view;
        const struct blkup_plan_key key = {
                .size = v->size,
                .session = v->session,
                .merge_gap = p->merge_gap,
                .sector_bytes = v->sector_bytes,
                .align_bytes = p->block->align_bytes,
                .unit_shift = v->unit_shift,
                .usages = p->usages,
                .no_tables = (p->flags & BLKUP_PROBE_NO_TABLES) != 0,
                .no_superblocks = p->no_superblocks,
                .is_whole = v->is_whole,
                .is_tiny = v->is_tiny,
                .is_cdrom = p->is_cdrom,
                .is_valid = 1,
        };

        if (memcmp(&key, &p->plan.key, sizeof(key)) == 0) {
                if (p->plan.uses < ROWS_FROM_USE)
                        p->plan.uses++;
                return;
        }
        make(p);
        p->plan.uses = 1;
        p->plan.key = key;
        p->plan.n_with_rows = 0;
        p->plan.first_row[0] = 0;
}

/* The bytes of a row are where the search would find them. */
static struct blkup_row make_row(struct blkup_probe *p, const struct blkup_magic *m)
{
        static const struct blkup_row never = { .mask = 0, .value = 1 }, perhaps = { .mask = 0, .value = 0 };
        struct blkup_row row = { .at = 0 };
        struct blkup_bytes b;
        uint64_t base, at;
        unsigned n_needs = p->view.n_needs;
        enum blkup_outcome o;

        if (!blkup_view_anchor(&p->view, m->anchor, m->at, &base) || !blkup_add(base, m->within, &at))
                return never;
        o = blkup_view_get(&p->view, at, m->len, &b);
        p->view.n_needs = n_needs;
        if (o == BLKUP_NOT_THIS)
                return never;
        if (o != BLKUP_FOUND || b.data < p->arena || (uint64_t) (b.data - p->arena) > p->arena_used)
                return perhaps;
        row.at = (uint32_t) (b.data - p->arena);
        memcpy(&row.value, m->bytes, m->len < 4 ? m->len : 4);
        memset(&row.mask, 0xff, m->len < 4 ? m->len : 4);
        return row;
}

/* Works out the rows of the active formats up to and including k; false: no room for them. */
static bool make_rows(struct blkup_probe *p, unsigned k)
{
        struct blkup_plan *plan = &p->plan;

        for (; plan->n_with_rows <= k; plan->n_with_rows++) {
                const struct blkup_format *f = blkup_formats[plan->active[plan->n_with_rows]];
                unsigned n = plan->first_row[plan->n_with_rows];

                if (n + f->n_magics > BLKUP_MAX_ROWS)
                        return false;
                for (unsigned i = 0; i < f->n_magics; i++)
                        plan->rows[n++] = make_row(p, &f->magics[i]);
                plan->first_row[plan->n_with_rows + 1] = (uint16_t) n;
        }
        return true;
}

void blkup_plan_prepare_rows(struct blkup_probe *p, unsigned n)
{
        if (p->plan.uses >= ROWS_FROM_USE && p->plan.n_with_rows < n)
                (void) make_rows(p, n - 1);
}
