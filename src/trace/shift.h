/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Are the times of B shorter or longer than those of A, and by how much? For a handful of runs each, of which
 * nobody knows how they are distributed: so by ranks alone.
 *
 * Sources: Mann and Whitney, "On a test of whether one of two random variables is stochastically larger than
 * the other" (1947); Hodges and Lehmann, "Estimates of location based on rank tests" (1963); the interval as
 * in Hollander and Wolfe, "Nonparametric statistical methods", 4.3; Benjamini and Hochberg, "Controlling the
 * false discovery rate" (1995).
 */
#ifndef BLKUP_TRACE_SHIFT_H
#define BLKUP_TRACE_SHIFT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

/* Values a side. All pairs of them are looked at. */
#define BLKUP_SHIFT_MAX_RUNS 500u

struct blkup_shift {
        /* That chance alone would pull A and B at least this far apart: two-sided, from all ways to deal the
         * values that there are (equal ones share their rank) where they are at most 40, else from the normal
         * approximation. */
        double p;
        bool is_exact;
        double least_p; /* the smallest that p could have been, with these numbers of values and these ties */
        double shift;   /* the median of all differences b - a */
        double low, high;   /* where the shift is, with confidence 1 - alpha */
        bool has_interval;  /* false: too few values for one */
        double superiority; /* of a b over an a: how often it is larger, equal ones half; 0.5: no difference
                             */
};

/* n values a, m values b, at least one each, finite. alpha: above 0, below 1. 0; -EINVAL: other numbers than
 * that; -ENOMEM. */
BLKUP_MUST_CHECK int blkup_shift_find(const double *a, size_t n, const double *b, size_t m, double alpha,
                                      struct blkup_shift *ret);

/* How many values a side are needed at least before p can be alpha or less. */
unsigned blkup_shift_runs_needed(double alpha);

/* p of n tests, each into what it is when one looks at all of them (the share of false alarms among alarms):
 * in place. -ENOMEM. */
BLKUP_MUST_CHECK int blkup_shift_adjust(double *p, size_t n);

double blkup_median(double *values, size_t n); /* sorts them; of none: 0 */

#endif
