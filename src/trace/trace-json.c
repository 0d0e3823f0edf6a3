/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Chrome trace-event JSON, object form. Source: "Trace Event Format" (the catapult project's document):
 * complete events ("ph":"X", ts and dur in microseconds), metadata events ("ph":"M": process_name,
 * thread_name, thread_sort_index), flow events ("s" and "f") along the critical path, "otherData" for what
 * belongs to the whole trace.
 *
 * A viewer draws one thread as one stack of nested slices: two events of a thread that overlap without one
 * holding the other are drawn wrong. A lane whose spans overlap that way (one device, two workers) is
 * therefore spread over tracks "sda", "sda (2)" ..., and the plain name stays in the metadata's args.lane.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace/path.h"
#include "trace/trace-private.h"

/* More tracks than this in one lane are unreadable; the rest shares the last one. Also bounds the search. */
#define MAX_TRACKS  64u
/* Slices nest as calls do: a few levels. A deeper one opens the next track. */
#define MAX_NESTING 16u

struct track {
        struct track *next;    /* same lane */
        uint32_t lane, number; /* number: 1 = first of its lane */
        uint32_t tid;
        unsigned depth;
        uint64_t ends_ns[MAX_NESTING];
};

struct tracks {
        struct track **first; /* by lane */
        struct track **all;   /* by tid - 1 */
        uint32_t n, cap, n_lanes;
};

static void free_tracks(struct tracks *ts)
{
        for (uint32_t i = 0; i < ts->n; i++)
                free(ts->all[i]);
        free(ts->all);
        free(ts->first);
}

static struct track *new_track(struct tracks *ts, uint32_t lane, uint32_t number)
{
        struct track *track;

        if (ts->n == ts->cap) {
                uint32_t cap = ts->cap ? ts->cap * 2 : 16;
                struct track **grown;

                if (cap <= ts->cap)
                        return NULL;
                grown = realloc(ts->all, cap * sizeof(*grown));
                if (!grown)
                        return NULL;
                ts->all = grown;
                ts->cap = cap;
        }
        track = calloc(1, sizeof(*track));
        if (!track)
                return NULL;
        track->lane = lane;
        track->number = number;
        track->tid = ts->n + 1;
        ts->all[ts->n++] = track;
        return track;
}

/* Puts a span on the first track of its lane where it nests. NULL: out of memory. */
static struct track *place(struct tracks *ts, uint32_t lane, uint64_t start_ns, uint64_t end_ns)
{
        struct track **at = &ts->first[lane], *track = NULL;

        for (uint32_t number = 1; number <= MAX_TRACKS; number++) {
                if (!*at)
                        *at = new_track(ts, lane, number);
                track = *at;
                if (!track)
                        return NULL;
                while (track->depth > 0 && track->ends_ns[track->depth - 1] <= start_ns)
                        track->depth--;
                if (track->depth < MAX_NESTING &&
                    (track->depth == 0 || track->ends_ns[track->depth - 1] >= end_ns)) {
                        track->ends_ns[track->depth++] = end_ns;
                        return track;
                }
                at = &track->next;
        }
        return track;
}

/* Whole nanoseconds as microseconds with three decimals; exact below 4.5e15 ns (52 days), far above a run. */
static double us(uint64_t ns)
{
        return (double) ns / 1000.0;
}

static void write_metadata(struct blkup_json *j, const char *what, uint32_t tid, const char *key)
{
        blkup_json_begin_object(j);
        blkup_json_key(j, "ph");
        blkup_json_string(j, "M");
        blkup_json_key(j, "pid");
        blkup_json_u64(j, 1);
        blkup_json_key(j, "tid");
        blkup_json_u64(j, tid);
        blkup_json_key(j, "name");
        blkup_json_string(j, what);
        blkup_json_key(j, "args");
        blkup_json_begin_object(j);
        blkup_json_key(j, key);
}

static void end_metadata(struct blkup_json *j)
{
        blkup_json_end_object(j);
        blkup_json_end_object(j);
}

static void write_track_names(struct blkup_json *j, struct blkup_trace *t, const struct tracks *ts)
{
        uint32_t sort_index = 0;

        /* By lane and then by track, so that the tracks of a lane stand together in the viewer. */
        for (uint32_t lane = 0; lane < ts->n_lanes; lane++) {
                const char *name = blkup_trace_lane_name(t, lane);

                for (const struct track *track = ts->first[lane]; track; track = track->next) {
                        char shown[255 + 16];

                        if (track->number == 1)
                                (void) snprintf(shown, sizeof(shown), "%s", name);
                        else
                                (void) snprintf(shown, sizeof(shown), "%s (%" PRIu32 ")", name,
                                                track->number);
                        write_metadata(j, "thread_name", track->tid, "name");
                        blkup_json_string(j, shown);
                        blkup_json_key(j, "lane");
                        blkup_json_string(j, name);
                        end_metadata(j);

                        write_metadata(j, "thread_sort_index", track->tid, "sort_index");
                        blkup_json_u64(j, sort_index++);
                        end_metadata(j);
                }
        }
}

static void write_span(struct blkup_json *j, const struct blkup_span *s, uint32_t tid, uint64_t zero_ns)
{
        blkup_json_begin_object(j);
        blkup_json_key(j, "ph");
        blkup_json_string(j, "X");
        blkup_json_key(j, "pid");
        blkup_json_u64(j, 1);
        blkup_json_key(j, "tid");
        blkup_json_u64(j, tid);
        blkup_json_key(j, "ts");
        blkup_json_double(j, us(s->start_ns - zero_ns), 3);
        blkup_json_key(j, "dur");
        blkup_json_double(j, us(s->end_ns - s->start_ns), 3);
        blkup_json_key(j, "cat");
        blkup_json_string(j, blkup_span_kind_name(s->kind));
        blkup_json_key(j, "name");
        blkup_json_string(j, s->name);
        blkup_json_key(j, "args");
        blkup_json_begin_object(j);
        blkup_json_key(j, "worker");
        blkup_json_u64(j, s->worker);
        if (s->detail) {
                blkup_json_key(j, "detail");
                blkup_json_string(j, s->detail);
        }
        if (s->bytes) {
                blkup_json_key(j, "bytes");
                blkup_json_u64(j, s->bytes);
        }
        if (s->reads) {
                blkup_json_key(j, "reads");
                blkup_json_u64(j, s->reads);
        }
        if (s->error) {
                blkup_json_key(j, "error");
                blkup_json_i64(j, s->error);
        }
        if (s->id) {
                blkup_json_key(j, "id");
                blkup_json_u64(j, s->id);
        }
        if (s->n_after) {
                blkup_json_key(j, "after");
                blkup_json_begin_array(j);
                for (uint32_t i = 0; i < s->n_after; i++)
                        blkup_json_u64(j, s->after[i]);
                blkup_json_end_array(j);
        }
        blkup_json_end_object(j);
        blkup_json_end_object(j);
}

/* ---- the critical path ---- */

struct path {
        struct blkup_path_step *steps;
        size_t n;
        uint64_t *spans; /* sorted: indexes of its spans in order of start, for a search by halves */
        uint32_t *tids;  /* of each of those */
};

static int compare_u64(const void *pa, const void *pb)
{
        const uint64_t *a = pa, *b = pb;

        return *a < *b ? -1 : *a > *b;
}

static int find_path(struct blkup_trace *t, struct path *p)
{
        int r = blkup_trace_path(t, &p->steps, &p->n);

        if (r < 0)
                return r;
        p->spans = calloc(p->n + 1, sizeof(*p->spans));
        p->tids = calloc(p->n + 1, sizeof(*p->tids));
        if (!p->spans || !p->tids)
                return -ENOMEM;
        for (size_t i = 0; i < p->n; i++)
                p->spans[i] = p->steps[i].node;
        qsort(p->spans, p->n, sizeof(*p->spans), compare_u64);
        return 0;
}

static void free_path(struct path *p)
{
        free(p->steps);
        free(p->spans);
        free(p->tids);
}

static uint32_t *tid_in_path(const struct path *p, uint64_t span)
{
        const uint64_t *at = p->n ? bsearch(&span, p->spans, p->n, sizeof(span), compare_u64) : NULL;

        return at ? &p->tids[at - p->spans] : NULL;
}

/* otherData.critical_path: a wait is an item of its own, as in the other tables. */
static void write_path(struct blkup_json *j, struct blkup_trace *t, const struct path *p)
{
        blkup_json_key(j, "critical_path");
        blkup_json_begin_array(j);
        for (size_t i = 0; i < p->n; i++) {
                struct blkup_span s;
                uint32_t lane;

                blkup_trace_sorted(t, p->steps[i].node, &s, &lane);
                for (unsigned is_step = 0; is_step < 2; is_step++) {
                        if (is_step ? !blkup_path_is_told(s.kind, s.end_ns - s.start_ns)
                                    : p->steps[i].wait_ns <= BLKUP_PATH_GAP_NS)
                                continue;
                        blkup_json_begin_object(j);
                        blkup_json_key(j, "lane");
                        blkup_json_string(j, s.lane);
                        blkup_json_key(j, "name");
                        blkup_json_string(j, is_step ? s.name : i > 0 ? "wait" : "start");
                        blkup_json_key(j, "us");
                        blkup_json_double(j, us(is_step ? s.end_ns - s.start_ns : p->steps[i].wait_ns), 3);
                        blkup_json_end_object(j);
                }
        }
        blkup_json_end_array(j);
}

static void write_flow_event(struct blkup_json *j, const char *phase, uint64_t id, uint32_t tid, double ts)
{
        blkup_json_begin_object(j);
        blkup_json_key(j, "ph");
        blkup_json_string(j, phase);
        if (*phase == 'f') {
                /* Without it the end of an arrow binds to the next slice, not to the one it stands in. */
                blkup_json_key(j, "bp");
                blkup_json_string(j, "e");
        }
        blkup_json_key(j, "pid");
        blkup_json_u64(j, 1);
        blkup_json_key(j, "tid");
        blkup_json_u64(j, tid);
        blkup_json_key(j, "ts");
        blkup_json_double(j, ts, 3);
        blkup_json_key(j, "cat");
        blkup_json_string(j, "path");
        blkup_json_key(j, "name");
        blkup_json_string(j, "critical path");
        blkup_json_key(j, "id");
        blkup_json_u64(j, id);
        blkup_json_end_object(j);
}

/* An arrow a pair of steps: from the start of one slice to the start of the next, as an arrow binds to a
 * slice that is open at its time, and at its end a slice is not. */
static void write_flow(struct blkup_json *j, struct blkup_trace *t, const struct path *p, uint64_t zero_ns)
{
        for (size_t i = 1; i < p->n; i++) {
                size_t a = p->steps[i - 1].node, b = p->steps[i].node;
                struct blkup_span from, to;
                uint32_t lane;

                blkup_trace_sorted(t, a, &from, &lane);
                blkup_trace_sorted(t, b, &to, &lane);
                write_flow_event(j, "s", i, *tid_in_path(p, a), us(from.start_ns - zero_ns));
                write_flow_event(j, "f", i, *tid_in_path(p, b), us(to.start_ns - zero_ns));
        }
}

/* Nesting needs the longer of two spans that start together to come first; the store's order does not say so.
 * One run of equal starts is a handful of spans, so an insertion sort by end does. */
struct pending {
        struct blkup_span span;
        uint64_t index; /* in order of start */
        uint32_t lane;
};

#define MAX_PENDING 64u

static int flush_pending(struct blkup_json *j, struct tracks *ts, struct pending *p, unsigned n,
                         const struct path *path, uint64_t zero_ns)
{
        for (unsigned i = 1; i < n; i++) {
                struct pending moved = p[i];
                unsigned at = i;

                while (at > 0 && p[at - 1].span.end_ns < moved.span.end_ns) {
                        p[at] = p[at - 1];
                        at--;
                }
                p[at] = moved;
        }
        for (unsigned i = 0; i < n; i++) {
                struct track *track = place(ts, p[i].lane, p[i].span.start_ns, p[i].span.end_ns);
                uint32_t *tid = tid_in_path(path, p[i].index);

                if (!track)
                        return -ENOMEM;
                if (tid)
                        *tid = track->tid;
                write_span(j, &p[i].span, track->tid, zero_ns);
        }
        return 0;
}

static int write_spans(struct blkup_json *j, struct blkup_trace *t, struct tracks *ts,
                       const struct path *path, uint64_t zero_ns)
{
        struct pending *pending;
        unsigned n_pending = 0;
        uint64_t n = blkup_trace_sorted_count(t);
        int r = 0;

        pending = calloc(MAX_PENDING, sizeof(*pending));
        if (!pending)
                return -ENOMEM;
        for (uint64_t i = 0; i < n && r == 0; i++) {
                struct pending next = { .index = i };

                blkup_trace_sorted(t, i, &next.span, &next.lane);
                if (n_pending == MAX_PENDING ||
                    (n_pending > 0 && pending[0].span.start_ns != next.span.start_ns)) {
                        r = flush_pending(j, ts, pending, n_pending, path, zero_ns);
                        n_pending = 0;
                }
                pending[n_pending++] = next;
        }
        if (r == 0)
                r = flush_pending(j, ts, pending, n_pending, path, zero_ns);
        free(pending);
        return r;
}

int blkup_trace_write_json(struct blkup_trace *t, int (*write)(void *to, const char *s, size_t n), void *to)
{
        struct tracks ts = { 0 };
        struct path path = { 0 };
        struct blkup_span first = { 0 };
        struct blkup_json j;
        int r, finish;

        if (!t)
                return -EINVAL;
        r = blkup_trace_sort(t);
        if (r < 0)
                return r;
        ts.n_lanes = blkup_trace_lanes(t);
        ts.first = calloc(ts.n_lanes ? ts.n_lanes : 1, sizeof(*ts.first));
        r = ts.first ? find_path(t, &path) : -ENOMEM;
        if (r < 0) {
                free_path(&path);
                free_tracks(&ts);
                return r;
        }
        if (blkup_trace_sorted_count(t) > 0)
                blkup_trace_sorted(t, 0, &first, NULL);

        blkup_json_init(&j, write, to, false);
        blkup_json_begin_object(&j);
        blkup_json_key(&j, "displayTimeUnit");
        blkup_json_string(&j, "ns");
        blkup_json_key(&j, "otherData");
        blkup_json_begin_object(&j);
        blkup_json_key(&j, "clock");
        blkup_json_string(&j, "CLOCK_MONOTONIC");
        blkup_json_key(&j, "start_ns"); /* what "ts":0 is on that clock */
        blkup_json_u64(&j, first.start_ns);
        blkup_json_key(&j, "spans");
        blkup_json_u64(&j, blkup_trace_sorted_count(t));
        blkup_json_key(&j, "dropped");
        blkup_json_u64(&j, blkup_trace_dropped(t));
        if (*blkup_trace_title(t)) {
                blkup_json_key(&j, "title");
                blkup_json_string(&j, blkup_trace_title(t));
        }
        if (path.n > 0)
                write_path(&j, t, &path);
        blkup_json_end_object(&j);
        blkup_json_key(&j, "traceEvents");
        blkup_json_begin_array(&j);
        write_metadata(&j, "process_name", 0, "name");
        blkup_json_string(&j, "blkup");
        end_metadata(&j);
        r = write_spans(&j, t, &ts, &path, first.start_ns);
        if (r == 0) {
                write_flow(&j, t, &path, first.start_ns);
                write_track_names(&j, t, &ts); /* metadata may follow what it names */
        }
        blkup_json_end_array(&j);
        blkup_json_end_object(&j);
        finish = blkup_json_finish(&j);
        free_tracks(&ts);
        free_path(&path);
        return r < 0 ? r : finish;
}
