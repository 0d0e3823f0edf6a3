/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * --explain: after the verdict, every format and table is looked for once more, to the end and at each of its
 * magics, and what the engine did with each find is told. Runs only when it was asked for, so that the usual
 * way pays nothing for it. In the cage this runs in the child; what needs the machine (which features its
 * kernel knows) is features.c's, afterwards.
 */
#include <stdio.h>
#include <string.h>

#include "probe/engine.h"
#include "probe/explain.h"
#include "probe/reader.h"
#include "probe/tables.h"

/* A look that asks for more goes on when that is read. The engine's own limit is for all formats together. */
#define MAX_LOOKS 64

/* A tag's value in the find of this run. */
static const char *lookup(const struct blkup_found *f, const char *name)
{
        for (unsigned i = 0; i < f->n_tags; i++)
                if (strcmp(f->tags[i].name, name) == 0)
                        return f->text + f->tags[i].at;
        return NULL;
}

static uint64_t number(const char *s)
{
        uint64_t v = 0;

        for (; s && *s >= '0' && *s <= '9'; s++)
                if (!blkup_mul(v, 10, &v) || !blkup_add(v, (uint64_t) (*s - '0'), &v))
                        return 0;
        return v;
}

static struct blkup_candidate *add(struct blkup_probe *p, const char *type, enum blkup_usage usage,
                                   enum blkup_outcome o)
{
        static const enum blkup_candidate_state states[] = {
                [BLKUP_NOT_THIS] = BLKUP_CANDIDATE_REFUSED,      [BLKUP_FOUND] = BLKUP_CANDIDATE_FOUND,
                [BLKUP_NEED] = BLKUP_CANDIDATE_UNREADABLE,       [BLKUP_DAMAGED] = BLKUP_CANDIDATE_DAMAGED,
                [BLKUP_UNREADABLE] = BLKUP_CANDIDATE_UNREADABLE,
        };
        struct blkup_candidate *c;

        if (p->n_candidates == BLKUP_MAX_CANDIDATES)
                return NULL;
        c = &p->candidates[p->n_candidates++];
        memset(c, 0, sizeof(*c));
        (void) snprintf(c->type, sizeof(c->type), "%s", type);
        c->usage = usage;
        c->state = states[o];
        if (o != BLKUP_FOUND && p->view.reason)
                (void) snprintf(c->reason, sizeof(c->reason), "%s", p->view.reason);
        return c;
}

static void set_place(struct blkup_candidate *c, uint64_t at, unsigned magic_len, const struct blkup_found *f)
{
        c->at = at;
        c->magic_len = magic_len;
        c->magic_bits = 8 * magic_len;
        c->evidence_bits = f->evidence_bits > c->magic_bits ? f->evidence_bits : c->magic_bits;
}

/* The next magic of f from row on, read where it must be. */
static enum blkup_outcome match(struct blkup_probe *p, const struct blkup_magic *magics, unsigned n,
                                unsigned from, struct blkup_hit *hit)
{
        enum blkup_outcome o = BLKUP_NEED;

        for (unsigned i = 0; i < MAX_LOOKS && o == BLKUP_NEED; i++) {
                if (i > 0)
                        blkup_reader_load(p, NULL);
                p->view.reason = NULL;
                o = blkup_match_magics(&p->view, magics, n, from, hit);
        }
        return o;
}

static enum blkup_outcome check(struct blkup_probe *p, const struct blkup_format *f,
                                const struct blkup_hit *hit)
{
        enum blkup_outcome o = BLKUP_NEED;

        p->view.work_left = BLKUP_WORK_BUDGET;
        for (unsigned i = 0; i < MAX_LOOKS && o == BLKUP_NEED; i++) {
                if (i > 0)
                        blkup_reader_load(p, NULL);
                blkup_found_reset(p->scratch);
                p->view.reason = NULL;
                o = f->check(&p->view, hit, p->scratch);
        }
        return o;
}

/* Place of format i among the active ones; -1: it is none of them. */
static int active_index(const struct blkup_probe *p, unsigned i)
{
        for (unsigned k = 0; k < p->plan.n_active; k++)
                if (p->plan.active[k] == i)
                        return (int) k;
        return -1;
}

/* Place of a format's find among the hits; -1: it is none of them. */
static int hit_index(const struct blkup_probe *p, const struct blkup_format *f)
{
        for (unsigned i = 0; i < p->n_hits; i++)
                if (strcmp(p->hits[i].type, f->name) == 0)
                        return (int) i;
        return -1;
}

static enum blkup_rule rule_of(const struct blkup_probe *p, unsigned i, uint64_t at)
{
        const struct blkup_format *f = blkup_formats[i];
        int k = active_index(p, i), h = hit_index(p, f);

        if (p->no_superblocks)
                return p->view.size <= 1024 ? BLKUP_RULE_TOO_SMALL : BLKUP_RULE_TINY_TABLE;
        if (k < 0)
                return BLKUP_RULE_LEFT_OUT;
        if (p->state[k] == BLKUP_STATE_HIT && (f->n_magics == 0 || p->finds[p->hit_of[k]].magic_at == at)) {
                if (p->dropped && strcmp(p->dropped, f->name) == 0)
                        return BLKUP_RULE_WIPED;
                if (h >= 0 && p->verdict == BLKUP_VERDICT_AMBIVALENT)
                        return BLKUP_RULE_AMBIVALENT;
                if (h >= 0)
                        return h == 0 ? BLKUP_RULE_REPORTED : BLKUP_RULE_TOLERATED;
        } else if (p->state[k] != BLKUP_STATE_UNDECIDED) {
                return BLKUP_RULE_EARLIER_MAGIC;
        }
        if (p->n_hits > 0 && (p->hits[p->n_hits - 1].usage & (BLKUP_USAGE_RAID | BLKUP_USAGE_CRYPTO)))
                return BLKUP_RULE_AFTER_RAID;
        if (p->view.is_tiny && p->n_finds > 0)
                return BLKUP_RULE_TINY;
        if (f->flags & BLKUP_LATE)
                return BLKUP_RULE_LATE;
        return BLKUP_RULE_AFTER_RAID;
}

static unsigned notes_of(const struct blkup_probe *p, const struct blkup_candidate *c)
{
        unsigned notes = 0;

        if (c->fs_bytes > p->view.size)
                notes |= BLKUP_NOTE_LARGER;
        switch (c->rule) {
        case BLKUP_RULE_AMBIVALENT:
        case BLKUP_RULE_AFTER_RAID:
        case BLKUP_RULE_TINY:
        case BLKUP_RULE_TINY_TABLE:
        case BLKUP_RULE_WIPED:
        case BLKUP_RULE_EARLIER_MAGIC:
                notes |= BLKUP_NOTE_STALE;
                break;
        default:
                break;
        }
        return notes;
}

static void read_features(struct blkup_probe *p, struct blkup_candidate *c, uint64_t base)
{
        enum blkup_outcome o = BLKUP_NEED;

        for (unsigned i = 0; i < MAX_LOOKS && o == BLKUP_NEED; i++) {
                if (i > 0)
                        blkup_reader_load(p, NULL);
                o = blkup_features_read(&p->view, c->type, base, &c->incompat, &c->ro_compat);
        }
}

/* Did an earlier magic of this type, of the same superblock, say the same? first: its first candidate. */
static bool is_told(const struct blkup_probe *p, unsigned first, const uint64_t *bases,
                    const struct blkup_candidate *c)
{
        for (unsigned i = first; &p->candidates[i] != c; i++)
                if (bases[i] == bases[c - p->candidates] && p->candidates[i].state == c->state &&
                    strcmp(p->candidates[i].reason, c->reason) == 0)
                        return true;
        return false;
}

static void look_for_format(struct blkup_probe *p, unsigned i)
{
        const struct blkup_format *f = blkup_formats[i];
        uint64_t bases[BLKUP_MAX_CANDIDATES]; /* superblock of each candidate of this format */
        unsigned first = p->n_candidates;
        struct blkup_hit hit = { 0 };

        if (f->min_bytes > p->view.size)
                return;
        for (unsigned from = 0; from == 0 || from < f->n_magics; from = hit.row + 1) { /* ends: row >= from */
                struct blkup_candidate *c;
                enum blkup_outcome o = BLKUP_FOUND;

                if (f->n_magics > 0) {
                        hit.row = f->n_magics;
                        o = match(p, f->magics, f->n_magics, from, &hit);
                        if (o != BLKUP_FOUND)
                                return; /* a place that could not be read is the verdict's matter */
                }
                o = check(p, f, &hit);
                /* Without a magic everything is a candidate until its rules say no. */
                if (f->n_magics == 0 && o == BLKUP_NOT_THIS)
                        return;
                c = add(p, f->name, f->usage, o);
                if (!c)
                        return;
                bases[c - p->candidates] = hit.base;
                if (is_told(p, first, bases, c)) {
                        p->n_candidates--;
                        continue;
                }
                set_place(c, p->base + hit.at, f->n_magics > 0 ? f->magics[hit.row].len : 0, p->scratch);
                if (o != BLKUP_FOUND)
                        continue;
                c->fs_bytes = number(lookup(p->scratch, "FSSIZE"));
                c->rule = rule_of(p, i, f->n_magics > 0 ? hit.at : 0);
                c->notes = notes_of(p, c);
                read_features(p, c, hit.base);
                if (f->n_magics == 0)
                        return;
        }
}

static enum blkup_rule table_rule(const struct blkup_probe *p, const struct blkup_table *t)
{
        if (t == p->chosen_table && p->verdict == BLKUP_VERDICT_FOUND)
                return BLKUP_RULE_REPORTED;
        if (p->flags & BLKUP_PROBE_NO_TABLES)
                return BLKUP_RULE_LEFT_OUT;
        if (p->chosen_table && p->chosen_table != t)
                return BLKUP_RULE_OTHER_TABLE;
        return BLKUP_RULE_SEALED;
}

static void look_for_table(struct blkup_probe *p, unsigned i)
{
        const struct blkup_table *t = blkup_tables[i];
        struct blkup_hit hit = { 0 };
        struct blkup_candidate *c;
        enum blkup_outcome o = BLKUP_NEED;

        if (t->min_bytes > p->view.size)
                return;
        if (t->n_magics > 0 && match(p, t->magics, t->n_magics, 0, &hit) != BLKUP_FOUND)
                return;
        p->view.work_left = BLKUP_WORK_BUDGET;
        for (unsigned k = 0; k < MAX_LOOKS && o == BLKUP_NEED; k++) {
                if (k > 0)
                        blkup_reader_load(p, NULL);
                p->view.reason = NULL;
                o = blkup_table_try(&p->view, t, p->scratch, NULL);
        }
        if (t->n_magics == 0 && o == BLKUP_NOT_THIS)
                return;
        c = add(p, t->name, 0, o);
        if (!c)
                return;
        if (o != BLKUP_FOUND) {
                blkup_found_reset(p->scratch);
                set_place(c, p->base + hit.at, t->n_magics > 0 ? t->magics[hit.row].len : 0, p->scratch);
                return;
        }
        set_place(c, p->base + p->scratch->magic_at, p->scratch->magic_len, p->scratch);
        c->rule = table_rule(p, t);
        if (c->rule == BLKUP_RULE_SEALED)
                c->notes |= BLKUP_NOTE_STALE;
}

/* A table in the bytes of the file system that is reported: the one or the other is left over, unless the
 * format leaves room for it. */
static void note_tables_inside(struct blkup_probe *p)
{
        const struct blkup_candidate *fs = NULL;

        for (unsigned i = 0; i < p->n_candidates; i++)
                if (p->candidates[i].rule == BLKUP_RULE_REPORTED &&
                    p->candidates[i].usage == BLKUP_USAGE_FILESYSTEM)
                        fs = &p->candidates[i];
        for (unsigned i = 0; i < p->n_candidates && fs; i++) {
                struct blkup_candidate *c = &p->candidates[i];
                uint64_t end = fs->fs_bytes ? fs->fs_bytes : p->view.size;

                if (c->usage == 0 && c->state == BLKUP_CANDIDATE_FOUND && c->at - p->base < end)
                        c->notes |= BLKUP_NOTE_TABLE_INSIDE;
        }
}

void blkup_explain(struct blkup_probe *p)
{
        struct blkup_view *v = &p->view;
        bool wanted = v->wants_partitions;
        char trouble[sizeof(p->trouble)];

        /* What cannot be read from here on is a candidate's trouble: the verdict stands. */
        memcpy(trouble, p->trouble, sizeof(trouble));
        p->is_as_planned = false;
        v->wants_partitions = false;
        for (unsigned i = 0; i < blkup_n_formats; i++)
                look_for_format(p, i);
        for (unsigned i = 0; i < blkup_n_tables; i++)
                look_for_table(p, i);
        note_tables_inside(p);
        v->wants_partitions = wanted;
        memcpy(p->trouble, trouble, sizeof(trouble));
}

const char *blkup_rule_text(enum blkup_rule rule)
{
        static const char *const texts[] = {
                [BLKUP_RULE_OWN] = "its own rules do not hold",
                [BLKUP_RULE_REPORTED] = "reported: the first of its kind in the order of the search",
                [BLKUP_RULE_AMBIVALENT] = "ambivalent: others are there too, and nothing says which is meant",
                [BLKUP_RULE_TOLERATED] = "not reported: tolerated beside the first",
                [BLKUP_RULE_AFTER_RAID] =
                        "not reported: a RAID member or an encrypted volume ends the search; this "
                        "is left over, or what the member holds",
                [BLKUP_RULE_TINY] = "not reported: on a device of a floppy's size the first find is final",
                [BLKUP_RULE_TINY_TABLE] =
                        "not reported: on a disk of a floppy's size a partition table is final",
                [BLKUP_RULE_TOO_SMALL] = "not reported: 1024 bytes and less hold nothing but a table",
                [BLKUP_RULE_WIPED] =
                        "dropped: its tool wipes the place where a partition table stands, so the "
                        "table is newer",
                [BLKUP_RULE_EARLIER_MAGIC] = "not reported: the same type was decided at an earlier magic",
                [BLKUP_RULE_LATE] = "not reported: only looked for where nothing else is found",
                [BLKUP_RULE_LEFT_OUT] = "not looked for: left out by an option, or not on such a device",
                [BLKUP_RULE_SEALED] =
                        "not reported: the device is ambivalent or a RAID member, its table not its "
                        "own",
                [BLKUP_RULE_OTHER_TABLE] = "not reported: another table comes before it",
        };

        return (size_t) rule < BLKUP_ARRAY_SIZE(texts) ? texts[rule] : "";
}
