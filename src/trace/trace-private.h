/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the writers and the reader of this folder may see of a trace beyond trace.h. Nobody outside this
 * folder includes it. Call blkup_trace_sort() first; the order then holds until a span is added.
 */
#ifndef BLKUP_TRACE_TRACE_PRIVATE_H
#define BLKUP_TRACE_TRACE_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

#include "trace/trace.h"

#define BLKUP_SPAN_KINDS (BLKUP_SPAN_OTHER + 1)

/* "probe", "read" ...: the word for a kind, in lower case. */
const char *blkup_span_kind_name(enum blkup_span_kind kind);

/* Brings the order of start up to date. 0 or -ENOMEM. */
BLKUP_MUST_CHECK int blkup_trace_sort(struct blkup_trace *t);

/* Lanes by number, in order of first use. */
uint32_t blkup_trace_lanes(struct blkup_trace *t);
const char *blkup_trace_lane_name(struct blkup_trace *t, uint32_t lane);

/* The i-th span in order of start, and the number of its lane. i must be below the count that
 * blkup_trace_sort() saw. */
void blkup_trace_sorted(struct blkup_trace *t, uint64_t i, struct blkup_span *ret, uint32_t *ret_lane);

/* How many spans blkup_trace_sort() put in order. */
uint64_t blkup_trace_sorted_count(struct blkup_trace *t);

/* For the reader: a lane before its first span, so that the order of lanes is what it was; and what was
 * dropped when the trace was made. -ENOMEM. */
BLKUP_MUST_CHECK int blkup_trace_add_lane(struct blkup_trace *t, const char *name);
void blkup_trace_add_dropped(struct blkup_trace *t, uint64_t n);

#endif
