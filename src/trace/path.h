/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The critical path: the chain of spans that decided how long a run took. It begins with the span that ended
 * last; before a span comes what it waited for last: the one of those it had to wait for that ended last, or,
 * when that was long over, the one before it on its worker, which was not free earlier. What lies between two
 * of the chain is a wait.
 *
 * One implementation for the line below a table, the JSON and the picture.
 */
#ifndef BLKUP_TRACE_PATH_H
#define BLKUP_TRACE_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "trace/trace.h"

/* Between two steps that follow each other there are some tens of microseconds of the queue. */
#define BLKUP_PATH_GAP_NS UINT64_C(200000)

struct blkup_path_node {
        uint64_t start_ns, end_ns; /* both 0: did not run; never part of a path */
        const uint32_t *after;     /* indexes of the nodes that had to end before; others are passed over */
        uint32_t n_after;
        bool is_known; /* after is all that it waited for; else the one before in its lane counts */
        uint32_t lane;
        unsigned worker;
};

enum blkup_path_why {
        BLKUP_PATH_FIRST,  /* nothing came before */
        BLKUP_PATH_AFTER,  /* it needed the one before */
        BLKUP_PATH_LANE,   /* the one before it on the same object */
        BLKUP_PATH_WORKER, /* its worker was busy with the one before */
};

struct blkup_path_step {
        size_t node;
        uint64_t wait_ns; /* between the one before, or the beginning of the run, and its start */
        enum blkup_path_why why;
};

/* The path, first step first, into *ret (free it) and *ret_n; 0 steps of no nodes. run_start_ns: when the run
 * began; 0: with the first node. -ENOMEM. O(n log n) and the edges. */
BLKUP_MUST_CHECK int blkup_path_find(const struct blkup_path_node *nodes, size_t n, uint64_t run_start_ns,
                                     struct blkup_path_step **ret, size_t *ret_n);

/* Is a step worth a word? A wait that was none is left out of texts. */
bool blkup_path_is_told(enum blkup_span_kind kind, uint64_t ns);

/* The path of a trace. Its spans are those that lie in no other span of their lane and do not only wait (a
 * wait that has an id was a step of its own). node: the index in order of start, as blkup_trace_get() takes
 * it. */
BLKUP_MUST_CHECK int blkup_trace_path(struct blkup_trace *t, struct blkup_path_step **ret, size_t *ret_n);

#endif
