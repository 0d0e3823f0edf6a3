/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What became slower or faster between two sets of runs: by span, and as a whole. */
#ifndef BLKUP_TRACE_COMPARE_H
#define BLKUP_TRACE_COMPARE_H

#include "trace/shift.h"
#include "trace/trace.h"

enum blkup_compare_verdict {
        BLKUP_COMPARE_SLOWER,
        BLKUP_COMPARE_FASTER,
        BLKUP_COMPARE_UNCLEAR, /* it would be a difference by itself; among so many it may be chance */
        BLKUP_COMPARE_NONE,    /* no difference was seen */
        BLKUP_COMPARE_TOO_FEW, /* runs: not even the largest difference could be told from chance */
        BLKUP_COMPARE_ONLY_A,
        BLKUP_COMPARE_ONLY_B,
        BLKUP_COMPARE_VERDICTS, /* how many there are */
};
const char *blkup_compare_verdict_name(enum blkup_compare_verdict v);

struct blkup_compare_options {
        double alpha;    /* 0: 0.05 */
        double at_least; /* a change below this share of A's median is none; 0: any change counts */
};

/* One step of one object: all spans of that lane and name in a run, what ran at once counted once. */
struct blkup_compare_item {
        const char *lane, *name; /* the traces'; of the whole run: "" and "in all" */
        enum blkup_span_kind kind;
        size_t n_a, n_b;           /* runs in which it occurs */
        double median_a, median_b; /* ns */
        struct blkup_shift shift;  /* ns; only when it occurs on both sides */
        double adjusted_p; /* of all items together; of the whole run, which is asked for by itself: p */
        enum blkup_compare_verdict verdict;
};

struct blkup_comparison {
        struct blkup_compare_item
                *items; /* [0]: the whole run; then by verdict, and the larger change first */
        size_t n_items, n_a, n_b;
        size_t counts[BLKUP_COMPARE_VERDICTS]; /* of items, without the whole run */
        unsigned runs_needed;                  /* a side, to tell anything at all at this alpha */
};

/* The traces must live as long as the answer. 0; -EINVAL: no trace on a side, or more than
 * BLKUP_SHIFT_MAX_RUNS, or alpha; -ENOMEM. */
BLKUP_MUST_CHECK int blkup_compare(struct blkup_trace *const *a, size_t n_a, struct blkup_trace *const *b,
                                   size_t n_b, const struct blkup_compare_options *o,
                                   struct blkup_comparison *ret);
void blkup_comparison_free(struct blkup_comparison *c);

#endif
