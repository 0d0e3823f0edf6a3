/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Spans and counters: where the time went. Every capability takes an optional trace (NULL = none, costs one
 * compare). Thread-safe: any thread may add spans to one trace; writing it out is for one thread when the
 * work is done. Times are ns of CLOCK_MONOTONIC. Labels and details are copied, cut at 255 bytes (never
 * inside a UTF-8 character), and encoded by the writers.
 */
#ifndef BLKUP_TRACE_H
#define BLKUP_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include <blkup/error.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct blkup_trace; /* opaque */

/* What a span was doing; the writers colour and group by it. */
enum blkup_span_kind {
        BLKUP_SPAN_PROBE, BLKUP_SPAN_READ, BLKUP_SPAN_MODULE, BLKUP_SPAN_ASSEMBLE, BLKUP_SPAN_LAZYINIT,
        BLKUP_SPAN_FSCK, BLKUP_SPAN_MOUNT, BLKUP_SPAN_WAIT, BLKUP_SPAN_OTHER,
};

struct blkup_span {
        enum blkup_span_kind kind;
        const char *lane;   /* the object: device, module, mount point; lanes keep the order of first use */
        const char *name;   /* the step: "read", "CREATE" ... */
        const char *detail; /* may be NULL: reason of a wait, error text */
        uint64_t start_ns, end_ns;
        uint64_t bytes, reads; /* 0 = not told */
        unsigned worker;       /* 0 = main thread */
        int error;             /* negative errno or 0 */
        /* What it waited for, where that is known. id 0: not known, and then the span before it in its lane
         * counts. An id of an unknown span is no harm. */
        uint64_t id;           /* from blkup_trace_ids() */
        const uint64_t *after; /* ids of the spans that had to end before it could begin; copied */
        uint32_t n_after;
};

/* A trace owned by the caller; NULL: out of memory. max_spans bounds its memory (0 = 1,000,000); further
 * spans are counted as dropped. */
struct blkup_trace *blkup_trace_new(uint64_t max_spans);
struct blkup_trace *blkup_trace_unref(struct blkup_trace *t); /* NULL-safe, returns NULL */

/* What the run is called, "blkup coldplug" say; kept as a label is. Title of no trace, or never set: "". */
void blkup_trace_set_title(struct blkup_trace *t, const char *title);
const char *blkup_trace_title(struct blkup_trace *t);

/* n numbers for spans, not given to anybody else: the first of them, at least 1. t NULL: 0. */
uint64_t blkup_trace_ids(struct blkup_trace *t, uint64_t n);

/* Copies *s into t; t NULL: nothing. Never fails towards its caller and keeps errno: without memory, or
 * beyond max_spans, the span is counted as dropped. An end before the start becomes the start; a lane or
 * name that is NULL becomes "". */
void blkup_trace_add(struct blkup_trace *t, const struct blkup_span *s);

/* Spans kept and spans dropped so far; both may be called while others add. t NULL: 0. */
uint64_t blkup_trace_count(const struct blkup_trace *t);
uint64_t blkup_trace_dropped(const struct blkup_trace *t);

/* The i-th span in order of start (equal starts: in order of adding); strings belong to the trace and live
 * as long as it does. -ENOENT beyond the last, -ENOMEM. Indices shift when another thread adds meanwhile. */
BLKUP_MUST_CHECK int blkup_trace_get(struct blkup_trace *t, uint64_t i, struct blkup_span *ret);

/* Chrome trace-event JSON (object form, "X" events in µs with ns fraction, metadata events that name
 * process and threads = lanes); opens in Perfetto and chrome://tracing. "ts" 0 is the first span's start,
 * which otherData.start_ns tells. Each span: cat = kind, args = worker, and detail, bytes, reads, error
 * where told; and id and after where they are known. The critical path is otherData.critical_path, and its
 * spans are tied together by flow events, which Perfetto draws as arrows. Spans of one lane that overlap
 * without nesting stand on further threads "LANE (2)" ...; every thread_name event has the plain name in
 * args.lane. 0, -EINVAL (t NULL), -ENOMEM, or the error of write. */
BLKUP_MUST_CHECK int blkup_trace_write_json(struct blkup_trace *t,
                                            int (*write)(void *to, const char *s, size_t n), void *to);

/* The picture: an SVG file with all that it needs and no script; lanes by device and by worker, the critical
 * path on top. Whatever the labels are, it is well-formed and does nothing. At most 100,000 spans and 1,500
 * lanes are drawn, the longest and the first. Errors as in blkup_trace_write_json(). */
BLKUP_MUST_CHECK int blkup_trace_write_svg(struct blkup_trace *t,
                                           int (*write)(void *to, const char *s, size_t n), void *to);

/* The table "where the time went": one line per lane: total, by kind, bytes, reads, errors (columns that
 * hold nothing are left out), then all lanes together; plain text, ms. Times are unions: what ran at once,
 * or inside another span, counts once. Lanes are encoded for a terminal. Errors as in
 * blkup_trace_write_json(). */
BLKUP_MUST_CHECK int blkup_trace_write_table(struct blkup_trace *t,
                                             int (*write)(void *to, const char *s, size_t n), void *to);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
