/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What src/probe/format.h asks of every check, whatever its format is.
 *
 * usage: probe-contract asks|work|stops SAMPLES
 *
 * asks    A device that holds the magic of a row and zeroes, and ends at or behind it; nothing of it is in
 *         memory. A check asks for what it lacks before it answers, for nothing that is not on the device,
 *         and comes to an end.
 *
 * work    The n-th step of the work budget is denied, for each n until a run takes none any more, on the
 *         saved samples: what was there is found all the same, or nothing can be said. It is never gone.
 *
 * stops   Whoever listens to a table's partitions has heard enough at the n-th, for each n: it is told no
 *         more, and the table is there.
 *
 * The last line is `N passed, N failed, N skipped`, counted in rows, samples and tables' samples.
 */
#include "kit/kit.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "probe/tables.h"

/* As the engine has it. */
#define MAX_ROUNDS 256u
/* Steps of a sample that are denied in turn; from there on they double. */
#define EACH_STEP 64u

static unsigned passed, failed, skipped;

/* -- asks -- */

struct device {
        const struct blkup_magic *magic;
        uint64_t magic_at;
        uint8_t *blocks[MAX_ROUNDS * BLKUP_VIEW_NEEDS];
        size_t n_blocks;
};

/* What the check wants comes into memory. false: it wants what is not there. */
static bool load(struct device *d, struct blkup_view *v)
{
        for (unsigned i = 0; i < v->n_needs; i++) {
                const struct blkup_range *need = &v->needs[i];
                uint8_t *bytes;

                if (need->len == 0 || !blkup_inside(need->at, need->len, v->size))
                        return false;
                if (v->n_pieces == BLKUP_VIEW_PIECES || d->n_blocks == BLKUP_ARRAY_SIZE(d->blocks))
                        return false;
                bytes = calloc(1, (size_t) need->len);
                if (!bytes)
                        kit_die("memory exhausted");
                d->blocks[d->n_blocks++] = bytes;
                for (unsigned k = 0; k < d->magic->len; k++) {
                        uint64_t at = d->magic_at + k;

                        if (at >= need->at && at - need->at < need->len)
                                bytes[at - need->at] = (uint8_t) d->magic->bytes[k];
                }
                v->pieces[v->n_pieces++] =
                        (struct blkup_piece){ .at = need->at, .len = need->len, .data = bytes };
        }
        v->n_needs = 0;
        return true;
}

/* NULL, or what is wrong with the check of this row on a device of this size. */
static const char *ask(const struct blkup_format *f, const struct blkup_table *t, unsigned row, uint64_t size)
{
        static struct blkup_view v;
        static struct blkup_found found;
        struct device d = { .magic = f ? &f->magics[row] : &t->magics[row] };
        const char *fault = NULL;
        struct blkup_hit hit = { .row = row };

        memset(&v, 0, sizeof(v));
        v.size = size;
        v.sector_bytes = 512;
        v.unit_shift = 9;
        v.is_whole = true;
        v.work_left = 4000000;
        if (!blkup_view_anchor(&v, d.magic->anchor, d.magic->at, &hit.base) ||
            !blkup_add(hit.base, d.magic->within, &hit.at) || !blkup_inside(hit.at, d.magic->len, size))
                return NULL; /* such a device has no such magic */
        d.magic_at = hit.at;
        for (unsigned round = 0;; round++) {
                enum blkup_outcome o;

                blkup_found_reset(&found);
                o = f ? f->check(&v, &hit, &found) : t->check(&v, &hit, &found, NULL);
                if (o != BLKUP_NEED)
                        break;
                if (v.n_needs == 0)
                        fault = "asks for nothing";
                else if (!load(&d, &v))
                        fault = "asks for what is not on the device, or for too much";
                else if (round == MAX_ROUNDS)
                        fault = "does not come to an end";
                if (fault)
                        break;
        }
        kit_view_release();
        for (size_t i = 0; i < d.n_blocks; i++)
                free(d.blocks[i]);
        return fault;
}

static void asks_row(const char *name, const struct blkup_format *f, const struct blkup_table *t,
                     unsigned row)
{
        const struct blkup_magic *m = f ? &f->magics[row] : &t->magics[row];
        uint64_t end = m->anchor == BLKUP_FROM_START ? m->at + m->within + m->len : 0;
        const uint64_t large = UINT64_C(1) << 32;
        const char *fault = ask(f, t, row, large);

        /* It ends with the magic, or some bytes, sectors, blocks behind it. */
        for (uint64_t more = 0; !fault && more <= 131072; more = more < 512 ? more + 1 : more * 2)
                fault = ask(f, t, row, end + more);
        if (fault)
                (void) printf("%s, row %u: %s\n", name, row, fault);
        passed += !fault;
        failed += fault != NULL;
}

static void asks(void)
{
        for (unsigned i = 0; i < blkup_n_formats; i++)
                for (unsigned row = 0; row < blkup_formats[i]->n_magics; row++)
                        asks_row(blkup_formats[i]->name, blkup_formats[i], NULL, row);
        for (unsigned i = 0; i < blkup_n_tables; i++)
                for (unsigned row = 0; row < blkup_tables[i]->n_magics; row++)
                        asks_row(blkup_tables[i]->name, NULL, blkup_tables[i], row);
}

/* -- work -- */

static struct kit_bench b;
static char plain[KIT_ANSWER_MAX], answer[KIT_ANSWER_MAX];

static bool deny_each(const struct kit_sample *s)
{
        enum blkup_verdict whole, verdict;

        if (!kit_bench_run(&b, s->bytes, s->len, &whole))
                kit_die("%s: too short", s->path);
        kit_answer_text(b.p, whole, plain, sizeof(plain));
        /* Ends: a run takes so many steps. */
        for (unsigned n = 1;; n = n < EACH_STEP ? n + 1 : n * 2) {
                bool was_denied;

                kit_view_deny_work(n);
                (void) kit_bench_run(&b, s->bytes, s->len, &verdict);
                was_denied = kit_view_was_denied();
                kit_view_deny_work(0);
                if (verdict == BLKUP_VERDICT_NOTHING && whole != BLKUP_VERDICT_NOTHING) {
                        (void) printf("%s: nothing, where step %u of the work is denied\n", s->path, n);
                        return false;
                }
                if (was_denied)
                        continue;
                kit_answer_text(b.p, verdict, answer, sizeof(answer));
                if (strcmp(plain, answer) != 0)
                        kit_die("%s: another answer the second time", s->path);
                return true;
        }
}

/* -- stops -- */

struct listener {
        struct blkup_entries entries;
        unsigned told, enough; /* 0: never */
        bool is_told_more;
};

static void begin(struct blkup_entries *e)
{
        ((struct listener *) (void *) e)->told = 0;
}

static bool entry(struct blkup_entries *e, const struct blkup_entry *entry)
{
        struct listener *l = (struct listener *) (void *) e;

        (void) entry;
        l->is_told_more |= l->enough > 0 && l->told >= l->enough;
        l->told++;
        return l->enough == 0 || l->told < l->enough;
}

static enum blkup_outcome listen(const struct kit_sample *s, struct listener *l, unsigned enough)
{
        const struct blkup_table *table;
        enum blkup_outcome o;

        *l = (struct listener){ .entries = { .begin = begin, .entry = entry }, .enough = enough };
        if (!kit_sample_lay(s->bytes, s->len, &b.memory, b.p))
                kit_die("%s: too short", s->path);
        b.p->block = &b.memory.block;
        o = blkup_engine_entries(b.p, b.p->scratch, &l->entries, &table);
        kit_view_release();
        return o;
}

static bool stop_each(const struct kit_sample *s)
{
        struct listener l;
        enum blkup_outcome whole = listen(s, &l, 0);
        unsigned n = l.told;

        for (unsigned k = 1; k <= n; k = k < EACH_STEP ? k + 1 : k * 2)
                if (listen(s, &l, k) != whole || l.is_told_more) {
                        (void) printf("%s: %s, when %u of %u partitions are enough\n", s->path,
                                      l.is_told_more ? "more are told" : "another outcome", k, n);
                        return false;
                }
        return true;
}

static void each_sample(const char *folder, bool (*test)(const struct kit_sample *))
{
        kit_bench_init(&b);
        b.again_every = 0;
        for (unsigned k = 0; kit_target(k); k++) {
                struct kit_samples samples = { 0 };

                kit_samples_add(&samples, folder, kit_target(k), UINT_MAX);
                skipped += samples.n == 0;
                if (samples.n == 0)
                        (void) printf("SKIP: no sample of %s\n", kit_target(k));
                for (unsigned i = 0; i < samples.n; i++) {
                        bool ok = test(&samples.list[i]);

                        passed += ok;
                        failed += !ok;
                }
                kit_samples_free(&samples);
        }
        kit_bench_free(&b);
}

int main(int argc, char **argv)
{
        if (argc == 3 && strcmp(argv[1], "asks") == 0) {
                asks();
        } else if (argc == 3 && strcmp(argv[1], "work") == 0) {
                each_sample(argv[2], deny_each);
        } else if (argc == 3 && strcmp(argv[1], "stops") == 0) {
                each_sample(argv[2], stop_each);
        } else {
                (void) fputs("usage: probe-contract asks|work|stops SAMPLES\n", stderr);
                return 2;
        }
        (void) printf("%u passed, %u failed, %u skipped\n", passed, failed, skipped);
        return failed > 0 || passed == 0;
}
