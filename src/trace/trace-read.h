/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A trace from the JSON that blkup_trace_write_json() wrote, on this machine or another. */
#ifndef BLKUP_TRACE_TRACE_READ_H
#define BLKUP_TRACE_TRACE_READ_H

#include "base/error.h"
#include "trace/trace.h"

/*
 * The text is not trusted: whatever is in it, the cost is its length and at most max_spans spans (0:
 * 1,000,000; further ones are counted as dropped). Events of a kind that we do not write are passed over; a
 * lane without a name is called by its number. Writing what was read gives the same text again, where it was
 * ours.
 *
 * 0 and *ret (blkup_trace_unref() it); -EINVAL: no JSON, or JSON that is no trace, err says where; -ENOMEM.
 */
BLKUP_MUST_CHECK int blkup_trace_read_json(const char *s, size_t n, uint64_t max_spans,
                                           struct blkup_trace **ret, struct blkup_error *err);

#endif
