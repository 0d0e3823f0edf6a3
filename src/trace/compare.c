/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trace/compare.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/trace-private.h"

#define USUAL_ALPHA 0.05

const char *blkup_compare_verdict_name(enum blkup_compare_verdict v)
{
        static const char *const names[BLKUP_COMPARE_VERDICTS] = {
                [BLKUP_COMPARE_SLOWER] = "slower",        [BLKUP_COMPARE_FASTER] = "faster",
                [BLKUP_COMPARE_UNCLEAR] = "unclear",      [BLKUP_COMPARE_NONE] = "no difference seen",
                [BLKUP_COMPARE_TOO_FEW] = "too few runs", [BLKUP_COMPARE_ONLY_A] = "only in A",
                [BLKUP_COMPARE_ONLY_B] = "only in B",
        };

        return (unsigned) v < BLKUP_COMPARE_VERDICTS ? names[v] : "?";
}

/* A span, or the sum of one run's spans of that lane and name. */
struct record {
        const char *lane, *name;
        uint64_t start_ns, end_ns;
        double ns;
        uint32_t run; /* B's after A's */
        enum blkup_span_kind kind;
};

static int compare_records(const void *pa, const void *pb)
{
        const struct record *a = pa, *b = pb;
        int r = strcmp(a->lane, b->lane);

        if (r == 0)
                r = strcmp(a->name, b->name);
        if (r != 0)
                return r;
        if (a->run != b->run)
                return a->run < b->run ? -1 : 1;
        return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

struct records {
        struct record *v;
        size_t n, cap;
};

static int add_record(struct records *l, const struct record *r)
{
        if (l->n == l->cap) {
                size_t cap = l->cap ? l->cap * 2 : 1024;
                struct record *grown = realloc(l->v, cap * sizeof(*grown));

                if (!grown)
                        return -ENOMEM;
                l->v = grown;
                l->cap = cap;
        }
        l->v[l->n++] = *r;
        return 0;
}

/* The spans of one run, those of a lane and name as one: the length of their union. */
static int add_run(struct records *l, struct blkup_trace *t, uint32_t run, double *ret_ns)
{
        uint64_t n, first_ns = UINT64_MAX, last_ns = 0, until_ns = 0;
        size_t from = l->n, used = l->n;
        int r = blkup_trace_sort(t);

        if (r < 0)
                return r;
        n = blkup_trace_sorted_count(t);
        for (uint64_t i = 0; i < n; i++) {
                struct blkup_span s;

                blkup_trace_sorted(t, i, &s, NULL);
                first_ns = s.start_ns < first_ns ? s.start_ns : first_ns;
                last_ns = s.end_ns > last_ns ? s.end_ns : last_ns;
                r = add_record(l, &(struct record){ .lane = s.lane,
                                                    .name = s.name,
                                                    .start_ns = s.start_ns,
                                                    .end_ns = s.end_ns,
                                                    .run = run,
                                                    .kind = s.kind });
                if (r < 0)
                        return r;
        }
        *ret_ns = n > 0 ? (double) (last_ns - first_ns) : 0;
        if (n > 0)
                qsort(l->v + from, l->n - from, sizeof(*l->v), compare_records);
        for (size_t i = from; i < l->n; i++) {
                struct record *at = &l->v[i], *sum = used > from ? &l->v[used - 1] : NULL;
                uint64_t start_ns = at->start_ns;

                if (!sum || strcmp(sum->lane, at->lane) != 0 || strcmp(sum->name, at->name) != 0) {
                        sum = &l->v[used++];
                        *sum = *at;
                        sum->ns = 0;
                        until_ns = 0;
                }
                start_ns = start_ns < until_ns ? until_ns : start_ns;
                if (at->end_ns > start_ns)
                        sum->ns += (double) (at->end_ns - start_ns);
                until_ns = at->end_ns > until_ns ? at->end_ns : until_ns;
        }
        l->n = used;
        return 0;
}

/* values: n_a of A, then n_b of B. */
static int judge(struct blkup_compare_item *item, double *values, double alpha)
{
        int r = 0;

        item->verdict = item->n_b == 0 ? BLKUP_COMPARE_ONLY_A : BLKUP_COMPARE_ONLY_B;
        item->adjusted_p = 1;
        if (item->n_a > 0 && item->n_b > 0) {
                r = blkup_shift_find(values, item->n_a, values + item->n_a, item->n_b, alpha, &item->shift);
                item->adjusted_p = item->shift.p;
                item->verdict = item->shift.least_p > alpha ? BLKUP_COMPARE_TOO_FEW : BLKUP_COMPARE_NONE;
        }
        item->median_a = blkup_median(values, item->n_a);
        item->median_b = blkup_median(values + item->n_a, item->n_b);
        return r;
}

/* What has been tested gets its verdict. */
static void decide(struct blkup_compare_item *item, double alpha, double at_least)
{
        double change = item->shift.shift;

        if (item->verdict != BLKUP_COMPARE_NONE || item->shift.p > alpha ||
            fabs(change) < at_least * item->median_a)
                return;
        /* By ranks they differ, and the median of all differences is none: which way is not to be said. */
        if (item->adjusted_p > alpha || fabs(change) <= 0)
                item->verdict = BLKUP_COMPARE_UNCLEAR;
        else
                item->verdict = change > 0 ? BLKUP_COMPARE_SLOWER : BLKUP_COMPARE_FASTER;
}

static int compare_items(const void *pa, const void *pb)
{
        const struct blkup_compare_item *a = pa, *b = pb;
        double size_a = a->n_a && a->n_b ? fabs(a->shift.shift) : a->median_a + a->median_b;
        double size_b = b->n_a && b->n_b ? fabs(b->shift.shift) : b->median_a + b->median_b;
        int r;

        if (a->verdict != b->verdict)
                return a->verdict < b->verdict ? -1 : 1;
        if (size_a > size_b || size_b > size_a)
                return size_a > size_b ? -1 : 1;
        r = strcmp(a->lane, b->lane);
        return r ? r : strcmp(a->name, b->name);
}

/* Of all that could have shown a difference: the share of false alarms is that of alpha. */
static int adjust(struct blkup_comparison *c)
{
        double *p = calloc(c->n_items + 1, sizeof(*p));
        size_t n = 0;
        int r;

        if (!p)
                return -ENOMEM;
        for (size_t i = 1; i < c->n_items; i++)
                if (c->items[i].verdict == BLKUP_COMPARE_NONE)
                        p[n++] = c->items[i].shift.p;
        r = blkup_shift_adjust(p, n);
        n = 0;
        for (size_t i = 1; r == 0 && i < c->n_items; i++)
                if (c->items[i].verdict == BLKUP_COMPARE_NONE)
                        c->items[i].adjusted_p = p[n++];
        free(p);
        return r;
}

static int group(struct blkup_comparison *c, const struct records *l, double *values, double alpha)
{
        size_t i = 0;

        /* Ends: each turn takes at least a record. */
        while (i < l->n) {
                const struct record *first = &l->v[i];
                struct blkup_compare_item *item = &c->items[c->n_items++];
                int r;

                *item = (struct blkup_compare_item){ .lane = first->lane,
                                                     .name = first->name,
                                                     .kind = first->kind };
                for (; i < l->n && strcmp(l->v[i].lane, first->lane) == 0 &&
                       strcmp(l->v[i].name, first->name) == 0;
                     i++) {
                        values[item->n_a + item->n_b] = l->v[i].ns;
                        item->n_a += l->v[i].run < c->n_a;
                        item->n_b += l->v[i].run >= c->n_a;
                }
                r = judge(item, values, alpha);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int compare_all(struct blkup_comparison *c, struct records *l, double *values, double alpha,
                       double at_least)
{
        int r;

        if (l->n > 0)
                qsort(l->v, l->n, sizeof(*l->v), compare_records);
        c->items = calloc(l->n + 1, sizeof(*c->items));
        if (!c->items)
                return -ENOMEM;
        c->items[0] = (struct blkup_compare_item){
                .lane = "",
                .name = "in all",
                .kind = BLKUP_SPAN_OTHER,
                .n_a = c->n_a,
                .n_b = c->n_b,
        };
        c->n_items = 1;
        r = judge(&c->items[0], values, alpha);
        if (r == 0)
                r = group(c, l, values, alpha);
        if (r == 0)
                r = adjust(c);
        for (size_t i = 0; r == 0 && i < c->n_items; i++) {
                decide(&c->items[i], alpha, at_least);
                c->counts[c->items[i].verdict] += i > 0;
        }
        if (r == 0)
                qsort(c->items + 1, c->n_items - 1, sizeof(*c->items), compare_items);
        return r;
}

int blkup_compare(struct blkup_trace *const *a, size_t n_a, struct blkup_trace *const *b, size_t n_b,
                  const struct blkup_compare_options *o, struct blkup_comparison *ret)
{
        double alpha = o && o->alpha > 0 ? o->alpha : USUAL_ALPHA, *values;
        struct blkup_comparison c = { .n_a = n_a, .n_b = n_b };
        struct records l = { 0 };
        int r = 0;

        if (n_a == 0 || n_b == 0 || n_a > BLKUP_SHIFT_MAX_RUNS || n_b > BLKUP_SHIFT_MAX_RUNS || alpha >= 1)
                return -EINVAL;
        c.runs_needed = blkup_shift_runs_needed(alpha);
        values = calloc(n_a + n_b, sizeof(*values));
        if (!values)
                return -ENOMEM;
        for (size_t i = 0; r == 0 && i < n_a + n_b; i++)
                r = add_run(&l, i < n_a ? a[i] : b[i - n_a], (uint32_t) i, &values[i]);
        if (r == 0)
                r = compare_all(&c, &l, values, alpha, o ? o->at_least : 0);
        free(values);
        free(l.v);
        if (r == 0)
                *ret = c;
        else
                blkup_comparison_free(&c);
        return r;
}

void blkup_comparison_free(struct blkup_comparison *c)
{
        free(c->items);
        c->items = NULL;
        c->n_items = 0;
}
