/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trace/shift.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Up to here all ways to deal are counted: at most C(40, 20), 1.4e11, of which a double holds each exactly.
 */
#define EXACT_VALUES 40u
/* Twice the sum of all ranks. */
#define EXACT_SUMS   (EXACT_VALUES * (EXACT_VALUES + 1) + 1)

static int compare_doubles(const void *pa, const void *pb)
{
        const double *a = pa, *b = pb;

        return *a < *b ? -1 : *a > *b;
}

double blkup_median(double *values, size_t n)
{
        if (n == 0)
                return 0;
        qsort(values, n, sizeof(*values), compare_doubles);
        return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

struct ranked {
        double value;
        bool is_b;
        uint64_t rank2; /* twice the rank, so that shared ones are whole */
};

static int compare_ranked(const void *pa, const void *pb)
{
        const struct ranked *a = pa, *b = pb;

        return compare_doubles(&a->value, &b->value);
}

/* Twice the sum of A's ranks; *ret_ties: the sum of t^3 - t over ties of t values. */
static uint64_t rank(struct ranked *all, size_t n, double *ret_ties)
{
        uint64_t sum = 0;

        *ret_ties = 0;
        qsort(all, n, sizeof(*all), compare_ranked);
        for (size_t i = 0; i < n;) {
                size_t end = i + 1;
                double t;

                while (end < n && all[end].value <= all[i].value)
                        end++;
                t = (double) (end - i);
                *ret_ties += t * t * t - t;
                for (size_t k = i; k < end; k++) {
                        all[k].rank2 = i + 1 + end; /* the mean of i + 1 .. end, twice */
                        if (!all[k].is_b)
                                sum += all[k].rank2;
                }
                i = end;
        }
        return sum;
}

/* ways[s]: of how many choices of k of the ranks the sum is s. */
static double *count_ways(const struct ranked *all, size_t n, size_t k)
{
        double *ways = calloc((k + 1) * EXACT_SUMS, sizeof(*ways));
        size_t largest = n * (n + 1); /* twice the sum of all ranks */

        if (!ways)
                return NULL;
        ways[0] = 1;
        for (size_t i = 0; i < n; i++)
                for (size_t c = k < i + 1 ? k : i + 1; c > 0; c--)
                        for (size_t s = largest; s >= all[i].rank2; s--)
                                ways[c * EXACT_SUMS + s] += ways[(c - 1) * EXACT_SUMS + s - all[i].rank2];
        memmove(ways, ways + k * EXACT_SUMS, EXACT_SUMS * sizeof(*ways));
        return ways;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
        return a > b ? a - b : b - a;
}

static int test_exactly(const struct ranked *all, size_t n_a, size_t n, uint64_t sum2,
                        struct blkup_shift *ret)
{
        uint64_t middle2 = (uint64_t) n_a * (n + 1), far = distance(sum2, middle2), farthest = 0;
        double *ways = count_ways(all, n, n_a);
        double total = 0, beyond = 0, least = 0;

        if (!ways)
                return -ENOMEM;
        for (size_t s = 0; s < EXACT_SUMS; s++) {
                uint64_t d = distance(s, middle2);

                if (ways[s] <= 0)
                        continue;
                total += ways[s];
                beyond += d >= far ? ways[s] : 0;
                if (d > farthest) {
                        farthest = d;
                        least = 0;
                }
                least += d == farthest ? ways[s] : 0;
        }
        free(ways);
        ret->p = beyond / total;
        ret->least_p = least / total;
        ret->is_exact = true;
        return 0;
}

/* The three functions of libm that are needed here: the command should not load that library at each start.
 */

/* Ends: from above Newton's steps only fall, and a double has no hundred of them. */
static double square_root(double x)
{
        double r = x > 1 ? x : 1;

        for (unsigned i = 0; i < 1100 && x > 0; i++) {
                double next = (r + x / r) / 2;

                if (next >= r)
                        return r;
                r = next;
        }
        return x > 0 ? r : 0;
}

/* e^-x for x in [0, 700]: the series of x / 1024, squared ten times. */
static double exp_minus(double x)
{
        double y = x / 1024, term = 1, sum = 1;

        for (unsigned i = 1; i < 20; i++) {
                term *= y / i;
                sum += term;
        }
        for (unsigned i = 0; i < 10; i++)
                sum *= sum;
        return 1 / sum;
}

/* P(|Z| >= z). Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.11 (the series)
 * and 26.2.14 (the continued fraction). */
static double both_tails(double z)
{
        double bell, f = 0, term = z, sum = z;

        if (z <= 0)
                return 1;
        if (z > 37) /* below the smallest normal double */
                return 0;
        bell = 0.79788456080286536 * exp_minus(z * z / 2); /* twice the density */
        if (z < 3) {
                for (unsigned i = 3; i < 121; i += 2) {
                        term *= z * z / i;
                        sum += term;
                }
                return 1 - bell * sum;
        }
        for (unsigned i = 120; i > 0; i--)
                f = i / (z + f);
        return bell / (z + f);
}

static void test_by_normal(size_t n_a, size_t n_b, uint64_t sum2, double ties, struct blkup_shift *ret)
{
        double n = (double) (n_a + n_b), a = (double) n_a, b = (double) n_b;
        double far = fabs((double) sum2 / 2 - a * (n + 1) / 2);
        double sigma = square_root(a * b / 12 * (n + 1 - ties / (n * (n - 1))));

        ret->is_exact = false;
        /* Half a step towards the middle, as the sum has steps and the curve has none. */
        ret->p = sigma > 0 ? both_tails(far > 0.5 ? (far - 0.5) / sigma : 0) : 1;
        ret->least_p = sigma > 0 ? both_tails((a * b / 2 - 0.5) / sigma) : 1;
}

/* How many of the smallest differences may be left out on each side; 0: none, so there is no interval. */
static int find_cut(size_t n_a, size_t n_b, double alpha, size_t *ret)
{
        size_t n = n_a + n_b, k = 0;

        if (n <= EXACT_VALUES) {
                struct ranked plain[EXACT_VALUES] = { 0 };
                double total = 0, below = 0, *ways;
                size_t least = n_a * (n_a + 1); /* twice the smallest sum */

                for (size_t i = 0; i < n; i++)
                        plain[i].rank2 = 2 * (i + 1);
                ways = count_ways(plain, n, n_a);
                if (!ways)
                        return -ENOMEM;
                for (size_t s = 0; s < EXACT_SUMS; s++)
                        total += ways[s];
                for (k = 0; k <= n_a * n_b; k++) {
                        below += ways[least + 2 * k];
                        if (below / total > alpha / 2)
                                break;
                }
                free(ways);
        } else {
                double pairs = (double) n_a * (double) n_b, low = 0, high = 40, cut;

                /* z of alpha. Ends: sixty halvings are below any double's last bit. */
                for (unsigned i = 0; i < 60; i++) {
                        double z = (low + high) / 2;

                        if (both_tails(z) > alpha)
                                low = z;
                        else
                                high = z;
                }
                cut = pairs / 2 - low * square_root(pairs * (double) (n + 1) / 12);
                k = cut > 0 ? (size_t) cut : 0;
        }
        *ret = k;
        return 0;
}

static int estimate(const double *a, size_t n_a, const double *b, size_t n_b, double alpha,
                    struct blkup_shift *ret)
{
        double *differences = calloc(n_a * n_b, sizeof(*differences)), above = 0;
        size_t n = n_a * n_b, cut = 0;
        int r = differences ? find_cut(n_a, n_b, alpha, &cut) : -ENOMEM;

        if (r < 0) {
                free(differences);
                return r;
        }
        for (size_t i = 0; i < n_a; i++)
                for (size_t k = 0; k < n_b; k++) {
                        differences[i * n_b + k] = b[k] - a[i];
                        above += b[k] > a[i] ? 1 : b[k] < a[i] ? 0 : 0.5;
                }
        ret->superiority = above / (double) n;
        ret->shift = blkup_median(differences, n);
        ret->has_interval = cut > 0 && 2 * cut <= n;
        if (ret->has_interval) {
                ret->low = differences[cut - 1];
                ret->high = differences[n - cut];
        }
        free(differences);
        return 0;
}

int blkup_shift_find(const double *a, size_t n, const double *b, size_t m, double alpha,
                     struct blkup_shift *ret)
{
        struct blkup_shift found = { 0 };
        struct ranked *all;
        uint64_t sum2;
        double ties;
        int r;

        if (n == 0 || m == 0 || n > BLKUP_SHIFT_MAX_RUNS || m > BLKUP_SHIFT_MAX_RUNS || !(alpha > 0) ||
            !(alpha < 1))
                return -EINVAL;
        all = calloc(n + m, sizeof(*all));
        if (!all)
                return -ENOMEM;
        for (size_t i = 0; i < n + m; i++)
                all[i] = (struct ranked){ .value = i < n ? a[i] : b[i - n], .is_b = i >= n };
        sum2 = rank(all, n + m, &ties);
        if (n + m <= EXACT_VALUES)
                r = test_exactly(all, n, n + m, sum2, &found);
        else
                r = 0, test_by_normal(n, m, sum2, ties, &found);
        free(all);
        if (r == 0)
                r = estimate(a, n, b, m, alpha, &found);
        if (r == 0)
                *ret = found;
        return r;
}

unsigned blkup_shift_runs_needed(double alpha)
{
        double ways = 1; /* C(2k, k) */

        /* Ends: the ways at least double each turn, and alpha is no less than a double can say. */
        for (unsigned k = 1; k < BLKUP_SHIFT_MAX_RUNS; k++) {
                ways = ways * (4 * k - 2) / k;
                if (2 / ways <= alpha)
                        return k;
        }
        return BLKUP_SHIFT_MAX_RUNS;
}

struct numbered {
        double p;
        size_t at;
};

static int compare_numbered(const void *pa, const void *pb)
{
        const struct numbered *a = pa, *b = pb;

        return compare_doubles(&a->p, &b->p);
}

int blkup_shift_adjust(double *p, size_t n)
{
        struct numbered *sorted = calloc(n + 1, sizeof(*sorted));
        double least = 1;

        if (!sorted)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                sorted[i] = (struct numbered){ p[i], i };
        qsort(sorted, n, sizeof(*sorted), compare_numbered);
        for (size_t i = n; i > 0; i--) {
                double q = sorted[i - 1].p * (double) n / (double) i;

                least = q < least ? q : least;
                p[sorted[i - 1].at] = least;
        }
        free(sorted);
        return 0;
}
