/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How long to wait between units of work, and how large the next unit is. Pure: the same code paces a real
 * run and one in virtual time.
 *
 * Wait = multiplier x the median of the last eight units of this size, and what medians and late wake-ups
 * left out so far is made good bit by bit, so that the share of time at work is 1/(1 + n) over the run.
 * Clamped to one second.
 */
#ifndef BLKUP_LAZYINIT_PACING_H
#define BLKUP_LAZYINIT_PACING_H

#include <stdint.h>

#define BLKUP_PACING_SAMPLES 8u
#define BLKUP_PACING_WAIT_MAX_NS UINT64_C(1000000000)
/* A unit that takes longer than this is long enough: foreign I/O would wait behind it. */
#define BLKUP_PACING_TARGET_NS UINT64_C(20000000)

struct blkup_pacing {
        unsigned mult;
        uint32_t unit, unit_max;  /* groups */
        uint64_t samples[BLKUP_PACING_SAMPLES]; /* ns of the last units */
        unsigned n_samples, next;
        int64_t owed_ns;          /* mult x work done, less the waits so far */
};

/* unit_max: the largest unit, 0 counts as 1. */
void blkup_pacing_init(struct blkup_pacing *p, unsigned mult, uint32_t unit_max);

/* A unit of `groups` took ns. Returns how long to wait before the next, and sets p->unit to its size. */
uint64_t blkup_pacing_after(struct blkup_pacing *p, uint32_t groups, uint64_t ns);

/* That wait took so much longer. */
void blkup_pacing_overslept(struct blkup_pacing *p, uint64_t ns);

#endif
