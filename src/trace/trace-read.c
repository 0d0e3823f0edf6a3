/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names of lanes may stand behind the events that lie in them, so the text is gone through twice: what
 * belongs to the whole and the names, then the spans.
 */
#include "trace/trace-read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json-reader.h"
#include "trace/trace-private.h"

#define TEXT_CAP  256u
/* As many as the trace keeps of one span. */
#define MAX_AFTER 1000u

struct thread {
        uint64_t tid, sort_index;
        size_t number; /* in the text: of two that claim one tid the first counts */
        bool has_name;
        char *lane;
};

/* One event, of any kind. */
struct event {
        bool is_span, is_meta, is_name, is_order;
        uint64_t tid, start_ns, for_ns, bytes, reads, worker, id, sort_index;
        int64_t error;
        enum blkup_span_kind kind;
        char name[TEXT_CAP], detail[TEXT_CAP], lane[TEXT_CAP], shown[TEXT_CAP];
        bool has_detail, has_lane, has_shown;
        uint64_t after[MAX_AFTER];
        uint32_t n_after;
};

struct reading {
        struct blkup_json_reader r;
        struct blkup_trace *t; /* NULL: the first time through */
        struct event *e;
        struct thread *threads;
        size_t n_threads, cap_threads;
        uint64_t zero_ns, dropped;
        bool has_events;
        char title[TEXT_CAP];
};

static int bad(struct reading *g)
{
        if (g->r.error == 0)
                g->r.error = -EINVAL;
        return g->r.error;
}

static int read_u64(struct reading *g, uint64_t *ret)
{
        int token = blkup_json_next(&g->r);

        if (token < 0)
                return token;
        return token == BLKUP_JSON_NUMBER && blkup_json_get_u64(&g->r, ret) ? 0 : bad(g);
}

static int read_text(struct reading *g, char out[TEXT_CAP], bool *ret_is_there)
{
        int token = blkup_json_next(&g->r);

        if (token < 0)
                return token;
        if (token != BLKUP_JSON_STRING)
                return bad(g);
        (void) blkup_json_text(&g->r, out, TEXT_CAP);
        if (ret_is_there)
                *ret_is_there = true;
        return 0;
}

static int read_after(struct reading *g)
{
        struct event *e = g->e;
        int token = blkup_json_next(&g->r);

        if (token != BLKUP_JSON_ARRAY)
                return token < 0 ? token : bad(g);
        /* Ends: each token takes bytes of the text. */
        for (;;) {
                uint64_t id;

                token = blkup_json_next(&g->r);
                if (token == BLKUP_JSON_ARRAY_END)
                        return 0;
                if (token < 0)
                        return token;
                if (token != BLKUP_JSON_NUMBER || !blkup_json_get_u64(&g->r, &id))
                        return bad(g);
                if (e->n_after < MAX_AFTER)
                        e->after[e->n_after++] = id;
        }
}

static int read_error(struct reading *g)
{
        int token = blkup_json_next(&g->r);

        if (token < 0)
                return token;
        if (token != BLKUP_JSON_NUMBER || !blkup_json_get_i64(&g->r, &g->e->error) ||
            g->e->error < INT32_MIN || g->e->error > INT32_MAX)
                return bad(g);
        return 0;
}

static int read_args(struct reading *g)
{
        struct event *e = g->e;
        int token = blkup_json_next(&g->r), k;

        if (token != BLKUP_JSON_OBJECT)
                return token < 0 ? token : blkup_json_skip(&g->r, token);
        /* Ends: each token takes bytes of the text. */
        for (;;) {
                token = blkup_json_next(&g->r);
                if (token == BLKUP_JSON_OBJECT_END)
                        return 0;
                if (token < 0)
                        return token;
                if (blkup_json_is(&g->r, "worker"))
                        k = read_u64(g, &e->worker);
                else if (blkup_json_is(&g->r, "detail"))
                        k = read_text(g, e->detail, &e->has_detail);
                else if (blkup_json_is(&g->r, "bytes"))
                        k = read_u64(g, &e->bytes);
                else if (blkup_json_is(&g->r, "reads"))
                        k = read_u64(g, &e->reads);
                else if (blkup_json_is(&g->r, "error"))
                        k = read_error(g);
                else if (blkup_json_is(&g->r, "id"))
                        k = read_u64(g, &e->id);
                else if (blkup_json_is(&g->r, "after"))
                        k = read_after(g);
                else if (blkup_json_is(&g->r, "lane"))
                        k = read_text(g, e->lane, &e->has_lane);
                else if (blkup_json_is(&g->r, "name"))
                        k = read_text(g, e->shown, &e->has_shown);
                else if (blkup_json_is(&g->r, "sort_index"))
                        k = read_u64(g, &e->sort_index);
                else
                        k = blkup_json_skip(&g->r, token);
                if (k < 0)
                        return k;
        }
}

static enum blkup_span_kind kind_of(const char *name)
{
        for (unsigned k = 0; k < BLKUP_SPAN_KINDS; k++)
                if (strcmp(name, blkup_span_kind_name((enum blkup_span_kind) k)) == 0)
                        return (enum blkup_span_kind) k;
        return BLKUP_SPAN_OTHER;
}

/* Of an event that is no span of ours, members may hold anything: what has another type is passed over. */
static int read_member(struct reading *g)
{
        struct event *e = g->e;
        bool is_number = blkup_json_is(&g->r, "tid"), is_ts = blkup_json_is(&g->r, "ts");
        bool is_dur = blkup_json_is(&g->r, "dur"), is_ph = blkup_json_is(&g->r, "ph");
        bool is_cat = blkup_json_is(&g->r, "cat"), is_name = blkup_json_is(&g->r, "name");
        char word[16];
        int token;

        if (blkup_json_is(&g->r, "args"))
                return read_args(g);
        token = blkup_json_next(&g->r);
        if (token < 0)
                return token;
        if (token == BLKUP_JSON_NUMBER) {
                if (is_number)
                        return blkup_json_get_u64(&g->r, &e->tid) ? 0 : bad(g);
                if (is_ts)
                        return blkup_json_get_thousandths(&g->r, &e->start_ns) ? 0 : bad(g);
                if (is_dur)
                        return blkup_json_get_thousandths(&g->r, &e->for_ns) ? 0 : bad(g);
        }
        if (token == BLKUP_JSON_STRING && is_name)
                (void) blkup_json_text(&g->r, e->name, sizeof(e->name));
        if (token == BLKUP_JSON_STRING && (is_ph || is_cat)) {
                (void) blkup_json_text(&g->r, word, sizeof(word));
                if (is_cat)
                        e->kind = kind_of(word);
                e->is_span = is_ph ? strcmp(word, "X") == 0 : e->is_span;
                e->is_meta = is_ph ? strcmp(word, "M") == 0 : e->is_meta;
        }
        return blkup_json_skip(&g->r, token);
}

static int compare_threads(const void *pa, const void *pb)
{
        const struct thread *a = pa, *b = pb;

        if (a->tid != b->tid)
                return a->tid < b->tid ? -1 : 1;
        return a->number < b->number ? -1 : a->number > b->number;
}

static int compare_order(const void *pa, const void *pb)
{
        const struct thread *const *a = pa, *const *b = pb;

        if ((*a)->sort_index != (*b)->sort_index)
                return (*a)->sort_index < (*b)->sort_index ? -1 : 1;
        return (*a)->number < (*b)->number ? -1 : (*a)->number > (*b)->number;
}

static int note_thread(struct reading *g)
{
        const struct event *e = g->e;
        bool is_name = strcmp(e->name, "thread_name") == 0;
        struct thread *grown;

        if (!is_name && strcmp(e->name, "thread_sort_index") != 0)
                return 0;
        if (g->n_threads == g->cap_threads) {
                size_t cap = g->cap_threads ? g->cap_threads * 2 : 64;

                grown = realloc(g->threads, cap * sizeof(*grown));
                if (!grown)
                        return -ENOMEM;
                g->threads = grown;
                g->cap_threads = cap;
        }
        g->threads[g->n_threads] = (struct thread){
                .tid = e->tid,
                .sort_index = is_name ? UINT64_MAX : e->sort_index,
                .number = g->n_threads,
                .has_name = is_name,
        };
        if (is_name) {
                g->threads[g->n_threads].lane = strdup(e->has_lane ? e->lane : e->shown);
                if (!g->threads[g->n_threads].lane)
                        return -ENOMEM;
        }
        g->n_threads++;
        return 0;
}

static const struct thread *find_thread(const struct reading *g, uint64_t tid)
{
        struct thread key = { .tid = tid };
        size_t low = 0, high = g->n_threads;

        /* The first of that tid. Ends: the range halves. */
        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (compare_threads(&g->threads[middle], &key) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low < g->n_threads && g->threads[low].tid == tid && g->threads[low].lane ? &g->threads[low]
                                                                                        : NULL;
}

static int add_span(struct reading *g)
{
        const struct event *e = g->e;
        const struct thread *thread = find_thread(g, e->tid);
        char number[32];
        uint64_t start_ns, end_ns;

        if (__builtin_add_overflow(g->zero_ns, e->start_ns, &start_ns) ||
            __builtin_add_overflow(start_ns, e->for_ns, &end_ns) || e->worker > UINT32_MAX)
                return bad(g);
        (void) snprintf(number, sizeof(number), "%" PRIu64, e->tid);
        blkup_trace_add(g->t, &(struct blkup_span){
                                      .kind = e->kind,
                                      .lane = thread ? thread->lane : number,
                                      .name = e->name,
                                      .detail = e->has_detail ? e->detail : NULL,
                                      .start_ns = start_ns,
                                      .end_ns = end_ns,
                                      .bytes = e->bytes,
                                      .reads = e->reads,
                                      .worker = (unsigned) e->worker,
                                      .error = (int) e->error,
                                      .id = e->id,
                                      .after = e->after,
                                      .n_after = e->n_after,
                              });
        return 0;
}

static void forget_event(struct event *e)
{
        /* Not the list: it is long, and as long as n_after says. */
        memset(e, 0, offsetof(struct event, after));
        e->n_after = 0;
        e->kind = BLKUP_SPAN_OTHER;
}

static int read_event(struct reading *g)
{
        int token = blkup_json_next(&g->r), k;

        if (token == BLKUP_JSON_ARRAY_END)
                return 1;
        if (token != BLKUP_JSON_OBJECT)
                return token < 0 ? token : bad(g);
        forget_event(g->e);
        /* Ends: each token takes bytes of the text. */
        for (;;) {
                token = blkup_json_next(&g->r);
                if (token == BLKUP_JSON_OBJECT_END)
                        break;
                k = token < 0 ? token : read_member(g);
                if (k < 0)
                        return k;
        }
        if (g->t)
                return g->e->is_span ? add_span(g) : 0;
        return g->e->is_meta ? note_thread(g) : 0;
}

static int read_events(struct reading *g)
{
        int token = blkup_json_next(&g->r), k = 0;

        if (token != BLKUP_JSON_ARRAY)
                return token < 0 ? token : bad(g);
        g->has_events = true;
        /* Ends: each event takes bytes of the text. */
        while (k == 0)
                k = read_event(g);
        return k < 0 ? k : 0;
}

static int read_other(struct reading *g)
{
        int token = blkup_json_next(&g->r), k;

        if (token != BLKUP_JSON_OBJECT)
                return token < 0 ? token : blkup_json_skip(&g->r, token);
        /* Ends: each token takes bytes of the text. */
        for (;;) {
                token = blkup_json_next(&g->r);
                if (token == BLKUP_JSON_OBJECT_END)
                        return 0;
                if (token < 0)
                        return token;
                if (blkup_json_is(&g->r, "start_ns"))
                        k = read_u64(g, &g->zero_ns);
                else if (blkup_json_is(&g->r, "dropped"))
                        k = read_u64(g, &g->dropped);
                else if (blkup_json_is(&g->r, "title"))
                        k = read_text(g, g->title, NULL);
                else
                        k = blkup_json_skip(&g->r, token);
                if (k < 0)
                        return k;
        }
}

static int read_all(struct reading *g)
{
        int token = blkup_json_next(&g->r), k;

        if (token != BLKUP_JSON_OBJECT)
                return token < 0 ? token : bad(g);
        /* Ends: each token takes bytes of the text. */
        for (;;) {
                token = blkup_json_next(&g->r);
                if (token == BLKUP_JSON_OBJECT_END)
                        break;
                if (token < 0)
                        return token;
                if (blkup_json_is(&g->r, "otherData"))
                        k = read_other(g);
                else if (blkup_json_is(&g->r, "traceEvents"))
                        k = read_events(g);
                else
                        k = blkup_json_skip(&g->r, token);
                if (k < 0)
                        return k;
        }
        token = blkup_json_next(&g->r);
        if (token != BLKUP_JSON_END)
                return token < 0 ? token : bad(g);
        return g->has_events ? 0 : bad(g);
}

/* One entry a tid, sorted; and the lanes in the order that they had. */
static int make_lanes(struct reading *g)
{
        const struct thread **order;
        size_t n = 0;
        int k = 0;

        if (g->n_threads > 1)
                qsort(g->threads, g->n_threads, sizeof(*g->threads), compare_threads);
        for (size_t i = 0; i < g->n_threads; i++) {
                struct thread *at = &g->threads[i], *kept = n > 0 ? &g->threads[n - 1] : NULL;

                if (!kept || kept->tid != at->tid) {
                        g->threads[n++] = *at;
                        if (n - 1 != i)
                                at->lane = NULL;
                        continue;
                }
                if (!kept->lane)
                        kept->lane = BLKUP_TAKE(at->lane);
                if (kept->sort_index == UINT64_MAX)
                        kept->sort_index = at->sort_index;
                free(at->lane);
                at->lane = NULL;
        }
        g->n_threads = n;
        order = calloc(n + 1, sizeof(struct thread *));
        if (!order)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                order[i] = &g->threads[i];
        qsort(order, n, sizeof(struct thread *), compare_order);
        for (size_t i = 0; k == 0 && i < n; i++)
                if (order[i]->lane)
                        k = blkup_trace_add_lane(g->t, order[i]->lane);
        free(order);
        return k;
}

int blkup_trace_read_json(const char *s, size_t n, uint64_t max_spans, struct blkup_trace **ret,
                          struct blkup_error *err)
{
        struct reading g = { .e = calloc(1, sizeof(*g.e)) };
        int k = g.e ? 0 : -ENOMEM;

        blkup_json_reader_init(&g.r, s, n);
        if (k == 0)
                k = read_all(&g);
        if (k == 0) {
                g.t = blkup_trace_new(max_spans);
                k = g.t ? make_lanes(&g) : -ENOMEM;
        }
        if (k == 0) {
                if (*g.title)
                        blkup_trace_set_title(g.t, g.title);
                blkup_json_reader_init(&g.r, s, n);
                k = read_all(&g);
                blkup_trace_add_dropped(g.t, g.dropped);
        }
        for (size_t i = 0; i < g.n_threads; i++)
                free(g.threads[i].lane);
        free(g.threads);
        free(g.e);
        if (k < 0) {
                (void) blkup_trace_unref(g.t);
                if (k == -ENOMEM)
                        return blkup_fail(err, k, "out of memory");
                return blkup_fail(err, -EINVAL,
                                  k == -E2BIG ? "byte %zu: too deep for a trace"
                                              : "byte %zu: this is no trace of blkup",
                                  g.r.at);
        }
        *ret = g.t;
        return 0;
}
