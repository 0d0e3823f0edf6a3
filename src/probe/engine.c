/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The rounds: read what is planned or asked for, let the formats look, decide. Planning changes what is read
 * and when, never who wins: the verdict is taken in registry order from memory.
 *
 * A tiny device (at most a floppy's 1,474,560 bytes) takes its first hit as final, so its plan has stages:
 * the formats up to vfat first; after a hit the tables' windows; without one all that is left. Others are
 * read in one round.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "probe/engine.h"
#include "probe/explain.h"
#include "probe/reader.h"
#include "probe/tables.h"

/* A NUL-terminated line for the caller of --debug; cut at 500 bytes. */
void blkup_engine_debug(struct blkup_probe *p, const char *fmt, ...)
{
        char line[512];
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(line, sizeof(line), fmt, ap);
        va_end(ap);
        p->debug(p->debug_to, line);
}

static const char *outcome_name(enum blkup_outcome o)
{
        switch (o) {
        case BLKUP_NOT_THIS:
                return "refused";
        case BLKUP_FOUND:
                return "found";
        case BLKUP_NEED:
                return "needs more";
        case BLKUP_DAMAGED:
                return "damaged";
        case BLKUP_UNREADABLE:
                return "unreadable";
        }
        return "?";
}

static void debug_outcome(struct blkup_probe *p, const char *name, enum blkup_outcome o)
{
        if (p->debug && o != BLKUP_NEED)
                blkup_engine_debug(p, "%s: %s%s%s", name, outcome_name(o), p->view.reason ? ": " : "",
                                   p->view.reason ? p->view.reason : "");
}

static void note_open(struct blkup_probe *p, const char *name)
{
        if (p->trouble[0] == '\0')
                (void) snprintf(p->trouble, sizeof(p->trouble), "%s: %s", name,
                                p->view.reason ? p->view.reason : "gave up");
}

/* Lets one format look; *ret is its find when BLKUP_FOUND. */
static enum blkup_outcome try_format(struct blkup_probe *p, const struct blkup_format *f,
                                     struct blkup_found *ret)
{
        struct blkup_view *v = &p->view;
        enum blkup_outcome o, answer = BLKUP_NOT_THIS;
        struct blkup_hit hit = { 0 };

        if (f->n_magics == 0) {
                blkup_found_reset(ret);
                v->reason = NULL;
                return f->check(v, &hit, ret);
        }
        for (unsigned from = 0; from < f->n_magics; from = hit.row + 1) { /* ends: row >= from */
                o = blkup_match_magics(v, f->magics, f->n_magics, from, &hit);
                if (o == BLKUP_NOT_THIS)
                        return answer;
                if (o != BLKUP_FOUND)
                        return o;
                blkup_found_reset(ret);
                v->reason = NULL;
                o = f->check(v, &hit, ret);
                if (o == BLKUP_FOUND) {
                        ret->magic_at = hit.at;
                        ret->magic_len = f->magics[hit.row].len;
                }
                if (o == BLKUP_FOUND || o == BLKUP_NEED)
                        return o;
                debug_outcome(p, f->name, o);
                if (answer != BLKUP_UNREADABLE)
                        answer = o;
                if (!(f->flags & BLKUP_EVERY_MAGIC))
                        return answer;
        }
        return answer;
}

/* Looks for the first n active formats. false: something has to be read first. */
static bool look_superblocks(struct blkup_probe *p, unsigned n, bool late)
{
        const bool fast = p->is_as_planned;
        bool decided = true;

        if (fast)
                blkup_plan_prepare_rows(p, n);
        for (unsigned k = 0; k < n; k++) {
                const struct blkup_format *f;
                struct blkup_found *to;
                enum blkup_outcome o;

                if (p->state[k] == BLKUP_STATE_REFUSED)
                        continue;
                if (p->state[k] == BLKUP_STATE_UNDECIDED && fast && blkup_plan_rules_out(p, k)) {
                        p->state[k] = BLKUP_STATE_REFUSED;
                        continue;
                }
                f = blkup_formats[p->plan.active[k]];
                if ((f->flags & BLKUP_LATE) && !late)
                        continue;
                if (p->state[k] == BLKUP_STATE_UNDECIDED) {
                        /* More hits than there is room for change nothing any more: the first two decide. */
                        to = &p->finds[p->n_finds < BLKUP_MAX_HITS ? p->n_finds : BLKUP_MAX_HITS - 1];
                        o = try_format(p, f, to);
                        if (o == BLKUP_NEED) {
                                decided = false;
                                if (p->view.is_tiny || (f->usage & (BLKUP_USAGE_RAID | BLKUP_USAGE_CRYPTO)))
                                        return false;
                                continue;
                        }
                        if (o == BLKUP_FOUND && p->n_finds < BLKUP_MAX_HITS) {
                                p->state[k] = BLKUP_STATE_HIT;
                                p->hit_of[k] = (uint8_t) p->n_finds++;
                                debug_outcome(p, f->name, o);
                        } else if (o == BLKUP_UNREADABLE) {
                                p->state[k] = BLKUP_STATE_OPEN;
                                note_open(p, f->name);
                        } else {
                                p->state[k] = BLKUP_STATE_REFUSED;
                                if (o == BLKUP_DAMAGED && (f->flags & BLKUP_PRECIOUS))
                                        note_open(p, f->name);
                        }
                }
                if (p->state[k] == BLKUP_STATE_HIT &&
                    (p->view.is_tiny || (f->usage & (BLKUP_USAGE_RAID | BLKUP_USAGE_CRYPTO))))
                        return decided;
        }
        return decided;
}

static const char *found_lookup(const struct blkup_found *f, const char *name)
{
        for (unsigned i = 0; i < f->n_tags; i++)
                if (strcmp(f->tags[i].name, name) == 0)
                        return f->text + f->tags[i].at;
        return NULL;
}

/* The hits in registry order, up to the one that ends the search. Returns how many of them tolerate no other.
 */
static unsigned collect_hits(struct blkup_probe *p)
{
        unsigned intolerant = 0;

        p->n_hits = 0;
        p->values = NULL;
        if (p->n_finds == 0)
                return 0;
        for (unsigned k = 0; k < p->plan.n_active; k++) {
                const struct blkup_format *f = blkup_formats[p->plan.active[k]];
                const struct blkup_found *found;
                const char *version;

                if (p->state[k] != BLKUP_STATE_HIT)
                        continue;
                found = &p->finds[p->hit_of[k]];
                if (!p->values)
                        p->values = found;
                version = found_lookup(found, "VERSION");
                p->hits[p->n_hits++] = (struct blkup_hit_info){
                        .type = f->name,
                        .usage = f->usage,
                        .version = version ? version : "",
                };
                intolerant += !(f->flags & BLKUP_TOLERANT);
                if (p->view.is_tiny || (f->usage & (BLKUP_USAGE_RAID | BLKUP_USAGE_CRYPTO)))
                        break;
        }
        return intolerant;
}

struct part_list {
        struct blkup_entries entries;
        struct blkup_probe *p;
        const struct blkup_table *table;
};

static void part_begin(struct blkup_entries *e)
{
        struct part_list *l = (struct part_list *) (void *) e;

        l->p->n_partitions = 0;
        l->p->partitions_cut = false;
        e->is_cut = false;
}

static bool part_entry(struct blkup_entries *e, const struct blkup_entry *entry)
{
        struct part_list *l = (struct part_list *) (void *) e;

        if (l->p->n_partitions == BLKUP_MAX_PARTITIONS) {
                l->p->partitions_cut = true;
                return false;
        }
        blkup_entry_to_partition(entry, l->table->name, &l->p->partitions[l->p->n_partitions++]);
        return true;
}

/* The list of partitions is what could not be read: the table stands without it, with what was listed so
 * far. */
static enum blkup_outcome try_without_list(struct blkup_probe *p, const struct blkup_table *t)
{
        unsigned n = p->n_partitions;
        enum blkup_outcome o;

        if (!p->view.wants_partitions)
                return BLKUP_UNREADABLE;
        p->view.wants_partitions = false;
        o = blkup_table_try(&p->view, t, p->table, NULL);
        p->view.wants_partitions = true;
        p->n_partitions = n;
        p->partitions_cut = true;
        return o;
}

/* Looks for a table, the first success ends it. false: something has to be read first. */
static bool look_tables(struct blkup_probe *p, const struct blkup_table **ret)
{
        struct part_list list = { .entries = { .begin = part_begin, .entry = part_entry }, .p = p };

        *ret = NULL;
        for (unsigned k = 0; k < p->plan.n_active_tables; k++) {
                const struct blkup_table *t = blkup_tables[p->plan.active_tables[k]];
                enum blkup_outcome o;

                list.table = t;
                p->view.reason = NULL;
                o = blkup_table_try(&p->view, t, p->table, &list.entries);
                if (o == BLKUP_UNREADABLE) {
                        note_open(p, t->name);
                        o = try_without_list(p, t);
                }
                if (o == BLKUP_NEED)
                        return false;
                if (o != BLKUP_NOT_THIS || p->view.reason)
                        debug_outcome(p, t->name, o);
                if (o == BLKUP_FOUND) {
                        p->partitions_cut |= list.entries.is_cut;
                        *ret = t;
                        return true;
                }
                p->n_partitions = 0;
        }
        return true;
}

/* A superblock that says "my mkfs wipes this" and a table whose magic stands there: the table is the newer
 * one. */
static bool is_wiped_by(const struct blkup_found *sb, const struct blkup_table *t,
                        const struct blkup_found *table)
{
        uint64_t at, end;

        if (sb->wiped_to == 0)
                return false;
        if (strcmp(t->name, "dos") == 0)
                at = 446, end = 512;
        else if (strcmp(t->name, "gpt") == 0)
                at = table->magic_at, end = at + table->magic_len;
        else
                return false;
        return at >= sb->wiped_from && end <= sb->wiped_to;
}

static void describe(struct blkup_probe *p, unsigned intolerant, const struct blkup_table *table)
{
        p->verdict = BLKUP_VERDICT_NOTHING;
        p->chosen_table = table;
        if (table) {
                blkup_found_string(p->table, "PTTYPE", table->name);
                if (p->values && is_wiped_by(p->values, table, p->table)) {
                        p->dropped = p->hits[0].type;
                        p->values = NULL;
                        p->n_hits = 0;
                }
                p->verdict = BLKUP_VERDICT_FOUND;
        } else {
                blkup_found_reset(p->table);
        }
        if (p->values) {
                struct blkup_found *f = &p->finds[p->values - p->finds];

                blkup_found_string(f, "TYPE", p->hits[0].type);
                blkup_found_string(f, "USAGE", blkup_usage_name(p->hits[0].usage));
                p->verdict = BLKUP_VERDICT_FOUND;
        }
        if (p->n_hits > 1 && intolerant > 0) {
                p->verdict = BLKUP_VERDICT_AMBIVALENT;
                p->values = NULL;
                blkup_found_reset(p->table);
                p->n_partitions = 0;
        }
        if (p->verdict == BLKUP_VERDICT_NOTHING && p->trouble[0] != '\0')
                p->verdict = BLKUP_VERDICT_UNKNOWN;
        if (p->n_partitions > 0 && p->partitions_cut && p->trouble[0] == '\0')
                (void) snprintf(p->trouble, sizeof(p->trouble),
                                "the table has more than the %u partitions that are listed", p->n_partitions);
}

/* One way through the stages; each call says what is to be read next. */
struct course {
        enum { FIRST_FORMATS, ALL_FORMATS, TABLES, LATE_FORMATS, DONE } stage;
        bool tables_read;
        unsigned intolerant;
        const struct blkup_table *table;
        struct blkup_units next;
        bool has_next;
};

static void read_next(struct course *c, const struct blkup_units *u)
{
        if (!c->has_next)
                blkup_units_clear(&c->next);
        blkup_units_join(&c->next, u);
        c->has_next = true;
}

/* Goes on until something has to be read (false) or all is decided (true). */
static bool advance(struct blkup_probe *p, struct course *c)
{
        bool strict = (p->flags & BLKUP_PROBE_STRICT) != 0, sealed;

        switch (c->stage) {
        case FIRST_FORMATS:
                if (!look_superblocks(p, p->plan.n_first, strict)) {
                        /* What asked for more has passed its own checks so far: as good as a hit. */
                        if (!c->tables_read)
                                read_next(c, &p->plan.tables);
                        c->tables_read = true;
                        return false;
                }
                (void) collect_hits(p);
                if (!p->values) {
                        c->stage = ALL_FORMATS;
                        read_next(c, &p->plan.rest);
                        if (!c->tables_read)
                                read_next(c, &p->plan.tables);
                        c->tables_read = true;
                        return false;
                }
                c->stage = ALL_FORMATS;
                if (!c->tables_read) {
                        read_next(c, &p->plan.tables);
                        c->tables_read = true;
                        return false;
                }
                __attribute__((fallthrough));
        case ALL_FORMATS:
                if (!look_superblocks(p, p->plan.n_active, strict))
                        return false;
                c->intolerant = collect_hits(p);
                p->view.found_type = p->values ? p->hits[0].type : NULL;
                c->stage = TABLES;
                __attribute__((fallthrough));
        case TABLES:
                /* An ambivalent device or a RAID member has no table of its own. */
                sealed = (p->n_hits > 1 && c->intolerant > 0) ||
                         (p->values && p->hits[0].usage == BLKUP_USAGE_RAID && p->values->wiped_to == 0);
                if (!sealed && !look_tables(p, &c->table))
                        return false;
                c->stage = LATE_FORMATS;
                __attribute__((fallthrough));
        case LATE_FORMATS:
                if (!p->values && !c->table && !strict && !p->no_superblocks) {
                        if (!look_superblocks(p, p->plan.n_active, true))
                                return false;
                        c->intolerant = collect_hits(p);
                }
                c->stage = DONE;
                __attribute__((fallthrough));
        case DONE:
                break;
        }
        return true;
}

uint64_t blkup_engine_area(const struct blkup_probe *p, uint64_t *ret_base)
{
        /* No device is larger (loff_t is signed), and the end of no range can wrap then. */
        uint64_t size = blkup_min(p->block->info.size_bytes, (uint64_t) INT64_MAX);
        uint64_t rest = size - blkup_min(p->area_at, size);

        *ret_base = size - rest;
        return p->area_size ? blkup_min(p->area_size, rest) : rest;
}

/* The view of p->block, empty. */
static void prepare_view(struct blkup_probe *p)
{
        const struct blkup_block_info *info = &p->block->info;
        struct blkup_view *v = &p->view;
        uint64_t unit = info->logical_sector_bytes ? info->logical_sector_bytes : 512;

        memset(v->low, 0, sizeof(v->low));
        v->n_pieces = v->n_needs = v->n_bad = 0;
        v->ext_sb = NULL;
        v->size = blkup_engine_area(p, &p->base);
        v->base = p->base;
        v->sector_bytes = (uint32_t) unit;
        /* A disc says itself where its last session begins, unless the caller says what to look at. */
        v->session = p->session || p->area_at ? p->session : info->session_offset_bytes;
        v->is_whole = info->kind == BLKUP_BLOCK_FILE || info->kind == BLKUP_BLOCK_DISK;
        v->is_disk = info->kind == BLKUP_BLOCK_DISK;
        v->is_tiny = v->size <= BLKUP_TINY_BYTES && info->kind != BLKUP_BLOCK_CHAR;
        v->wants_partitions = (p->flags & BLKUP_PROBE_PARTITIONS) != 0;
        v->found_type = NULL;
        v->work_left = BLKUP_WORK_BUDGET;
        v->reason = NULL;
        if (p->block->align_bytes > unit)
                unit = p->block->align_bytes;
        v->unit_shift = (unsigned) __builtin_ctzll(unit);
        /* Past the page cache each byte counts, and with a ring a run more costs nothing. A cached read
         * brings whole pages in any case, and there each system call counts. */
        p->merge_gap = (p->block->one_submission || p->block->info.direct) &&
                                       (v->is_tiny || !(p->flags & BLKUP_PROBE_FEW_READS))
                               ? 0
                               : 4096;

        /* 1024 bytes and less hold no superblock that anybody makes, but may hold a table. */
        p->no_superblocks = v->size <= 1024 && info->kind != BLKUP_BLOCK_CHAR;
        p->is_cdrom = info->is_cdrom;
        p->arena_used = 0;
        p->is_as_planned = true;
        p->read_ns = 0;
}

void blkup_engine_reset(struct blkup_probe *p)
{
        p->n_finds = 0;
        p->n_log = 0;
        p->log_device = 0;
        memset(&p->stats, 0, sizeof(p->stats));
        p->verdict = BLKUP_VERDICT_NOTHING;
        p->values = NULL;
        p->n_hits = p->n_partitions = 0;
        p->partitions_cut = false;
        p->chosen_table = NULL;
        p->dropped = NULL;
        p->n_candidates = 0;
        p->try_again = false;
        p->trouble[0] = '\0';
        blkup_found_reset(p->table);
        blkup_found_reset(p->entry);
}

/* A read that takes so long came from a device whose transfer is what is waited for (a page of 4096 bytes at
 * 15 kB/s: 270 ms), and not from a disk that seeks. */
#define SLOW_NS_A_READ 40000000u

/* The page cache reads 4096 bytes where 512 were wanted: on a slow device all further reads go past it. */
static void leave_cache_if_slow(struct blkup_probe *p)
{
        if (!p->may_switch || p->block->info.direct || p->stats.reads == 0 ||
            p->read_ns / p->stats.reads < SLOW_NS_A_READ)
                return;
        if (blkup_block_set_direct(p->block, true) < 0)
                return;
        if (p->block->align_bytes > (uint64_t) 1 << p->view.unit_shift)
                (void) blkup_block_set_direct(p->block,
                                              false); /* its sectors are larger than the units in use */
        else
                p->merge_gap = 0;
}

/* A removable device shows its speed by its first sector, before anything else is read. */
static bool shows_speed_first(const struct blkup_probe *p)
{
        return p->may_switch && p->block->info.is_removable && !p->block->info.direct && !p->view.is_tiny;
}

static void look_at_speed(struct blkup_probe *p)
{
        struct blkup_units first;

        if (!shows_speed_first(p))
                return;
        p->is_as_planned = false;
        blkup_units_clear(&first);
        blkup_units_add(&first, 0, 0);
        blkup_reader_load(p, &first);
        leave_cache_if_slow(p);
}

/* Makes the plan, and says what is to be read first. */
static void begin_course(struct blkup_probe *p, struct course *c)
{
        c->stage = ALL_FORMATS;
        c->tables_read = c->has_next = false;
        c->intolerant = 0;
        c->table = NULL;
        blkup_plan_make(p);
        read_next(c, &p->plan.first);
        if (p->view.is_tiny && p->plan.n_active > 0) {
                c->stage = FIRST_FORMATS;
        } else {
                read_next(c, &p->plan.tables);
                read_next(c, &p->plan.rest);
                c->tables_read = true;
        }
}

/* A whole disk of a floppy's size: where a table is found, it is not asked for superblocks. */
static bool asks_tables_first(const struct blkup_probe *p)
{
        return p->view.is_tiny && p->block->info.kind == BLKUP_BLOCK_DISK && !p->no_superblocks &&
               !(p->flags & BLKUP_PROBE_NO_TABLES);
}

size_t blkup_engine_first_batch(struct blkup_probe *p, struct blkup_block_request *ret)
{
        struct course c;

        prepare_view(p);
        if (p->view.size == 0 || p->block->info.is_private_dm || shows_speed_first(p))
                return 0;
        if (asks_tables_first(p))
                p->no_superblocks = true;
        begin_course(p, &c);
        return blkup_reader_batch(p, &c.next, ret);
}

static void run_course(struct blkup_probe *p)
{
        struct course c;

        begin_course(p, &c);
        memset(p->state, BLKUP_STATE_UNDECIDED, p->plan.n_active);
        look_at_speed(p);
        for (unsigned round = 0;; round++) {
                /* Each round reads what the one before lacked; a chain that wants more than these is not a
                 * file system's. */
                if (round == BLKUP_MAX_ROUNDS) {
                        (void) snprintf(p->trouble, sizeof(p->trouble), "gave up after %u rounds of reading",
                                        round);
                        (void) collect_hits(p);
                        break;
                }
                blkup_reader_load(p, c.has_next ? &c.next : NULL);
                c.has_next = false;
                if (round == 0)
                        leave_cache_if_slow(p);
                if (advance(p, &c))
                        break;
        }
        describe(p, c.intolerant, c.table);
}

static void decide(struct blkup_probe *p)
{
        prepare_view(p);
        blkup_engine_reset(p);
        if (p->view.size == 0 || p->block->info.is_private_dm)
                return;
        if (asks_tables_first(p)) {
                p->no_superblocks = true;
                run_course(p);
                if (p->verdict == BLKUP_VERDICT_FOUND)
                        return;
                p->no_superblocks = false;
                p->is_as_planned = false;
        }
        run_course(p);
}

void blkup_engine_run(struct blkup_probe *p)
{
        decide(p);
        /* The small build has no sentences. */
        if (!BLKUP_IS_SMALL && (p->flags & BLKUP_PROBE_EXPLAIN) && p->view.size > 0 &&
            !p->block->info.is_private_dm)
                blkup_explain(p);
}

enum blkup_outcome blkup_engine_entries(struct blkup_probe *p, struct blkup_found *scratch,
                                        struct blkup_entries *e, const struct blkup_table **ret)
{
        enum blkup_outcome o = BLKUP_NOT_THIS;

        prepare_view(p);
        p->no_superblocks = true;
        p->view.wants_partitions = true;
        blkup_plan_make(p);
        blkup_reader_load(p, &p->plan.tables);
        for (unsigned k = 0, round = 0; k < p->plan.n_active_tables;) {
                const struct blkup_table *t = blkup_tables[p->plan.active_tables[k]];

                *ret = t;
                o = blkup_table_try(&p->view, t, scratch, e);
                if (o == BLKUP_FOUND)
                        break;
                if (o == BLKUP_NEED && round++ < BLKUP_MAX_ROUNDS)
                        blkup_reader_load(p, NULL);
                else
                        k++;
        }
        return o;
}
