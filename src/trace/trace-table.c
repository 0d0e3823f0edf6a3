/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The table "where the time went". Times first and the lane last, as systemd-analyze blame has it: the lane
 * is the one column of unknown width.
 *
 * A time is the length of the union of spans: a read inside a probe, or two workers on one device at once,
 * are not counted twice. So TOTAL of a lane is at most the sum of its kinds, and the last line is at most
 * the sum of the lines above.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/encode.h"
#include "trace/trace-private.h"

/* A lane is at most 255 bytes, and a byte becomes at most the four of \xNN. */
#define LANE_CAP (255u * 4 + 1)

/* Spans come in order of start, so a union needs no more than the end of what is covered so far. */
struct covered {
        uint64_t until_ns, sum_ns;
};

struct line {
        struct covered total, by_kind[BLKUP_SPAN_KINDS];
        uint64_t bytes, reads, errors;
};

struct out {
        int (*write)(void *to, const char *s, size_t n);
        void *to;
        int error;
};

static void put(struct out *o, const char *s, size_t n)
{
        if (o->error == 0 && n > 0)
                o->error = o->write(o->to, s, n);
}

static void BLKUP_PRINTF(2, 3) putf(struct out *o, const char *fmt, ...)
{
        char text[160]; /* numbers and our own words only; lanes go through put() */
        va_list ap;
        int n;

        va_start(ap, fmt);
        n = vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        if (n > 0)
                put(o, text, (size_t) n < sizeof(text) ? (size_t) n : sizeof(text) - 1);
}

static void cover(struct covered *c, uint64_t start_ns, uint64_t end_ns)
{
        uint64_t from = start_ns < c->until_ns ? c->until_ns : start_ns;

        if (end_ns <= from)
                return;
        c->sum_ns += end_ns - from; /* cannot wrap: parts of one 64-bit axis, none twice */
        c->until_ns = end_ns;
}

static uint64_t add_capped(uint64_t a, uint64_t b)
{
        return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void add(struct line *l, const struct blkup_span *s)
{
        cover(&l->total, s->start_ns, s->end_ns);
        cover(&l->by_kind[s->kind], s->start_ns, s->end_ns);
        l->bytes = add_capped(l->bytes, s->bytes);
        l->reads = add_capped(l->reads, s->reads);
        l->errors += s->error != 0;
}

static void put_ms(struct out *o, uint64_t ns)
{
        /* Rounded to the microsecond; without floating point, so that a large time keeps its digits. */
        uint64_t us = ns / 1000 + (ns % 1000 >= 500);

        putf(o, "%8" PRIu64 ".%03" PRIu64, us / 1000, us % 1000);
}

static void put_line(struct out *o, const struct line *l, const struct line *all, const char *lane)
{
        put_ms(o, l->total.sum_ns);
        for (unsigned k = 0; k < BLKUP_SPAN_KINDS; k++) {
                if (all->by_kind[k].sum_ns == 0)
                        continue;
                if (l->by_kind[k].sum_ns)
                        put_ms(o, l->by_kind[k].sum_ns);
                else
                        putf(o, "%12s", "-");
        }
        if (all->bytes)
                putf(o, "  %12" PRIu64, l->bytes);
        if (all->reads)
                putf(o, "  %8" PRIu64, l->reads);
        if (all->errors)
                putf(o, "  %6" PRIu64, l->errors);
        put(o, "  ", 2);
        put(o, lane, strlen(lane));
        put(o, "\n", 1);
}

static void put_heading(struct out *o, const struct line *all)
{
        putf(o, "%12s", "TOTAL ms");
        for (unsigned k = 0; k < BLKUP_SPAN_KINDS; k++) {
                char word[16] = { 0 };
                const char *name = blkup_span_kind_name((enum blkup_span_kind) k);

                if (all->by_kind[k].sum_ns == 0)
                        continue;
                for (size_t i = 0; name[i] && i < sizeof(word) - 1; i++)
                        word[i] = (char) (name[i] - 'a' + 'A'); /* the names are our own: a-z */
                putf(o, "%12s", word);
        }
        if (all->bytes)
                putf(o, "  %12s", "BYTES");
        if (all->reads)
                putf(o, "  %8s", "READS");
        if (all->errors)
                putf(o, "  %6s", "ERRORS");
        putf(o, "  LANE\n");
}

int blkup_trace_write_table(struct blkup_trace *t, int (*write)(void *to, const char *s, size_t n), void *to)
{
        struct out o = { .write = write, .to = to };
        struct line all = { 0 };
        BLKUP_CLEANUP_FREE struct line *lines = NULL;
        uint32_t n_lanes;
        uint64_t n;
        int r;

        if (!t)
                return -EINVAL;
        r = blkup_trace_sort(t);
        if (r < 0)
                return r;
        n = blkup_trace_sorted_count(t);
        n_lanes = blkup_trace_lanes(t);
        lines = calloc(n_lanes ? n_lanes : 1, sizeof(*lines));
        if (!lines)
                return -ENOMEM;
        for (uint64_t i = 0; i < n; i++) {
                struct blkup_span s;
                uint32_t lane;

                blkup_trace_sorted(t, i, &s, &lane);
                add(&lines[lane], &s);
                add(&all, &s);
        }
        put_heading(&o, &all);
        for (uint32_t lane = 0; lane < n_lanes; lane++) {
                char shown[LANE_CAP];
                const char *name = blkup_trace_lane_name(t, lane);

                (void) blkup_encode_terminal(name, strlen(name), shown, sizeof(shown));
                put_line(&o, &lines[lane], &all, shown);
        }
        put_line(&o, &all, &all, "(all lanes together)");
        if (blkup_trace_dropped(t) > 0)
                putf(&o, "%" PRIu64 " spans were dropped (limit of the trace, or no memory)\n",
                     blkup_trace_dropped(t));
        return o.error;
}
