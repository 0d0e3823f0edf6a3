/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trace/shift.h"

static uint64_t seed = 88172645463325252u;

static uint64_t next_random(void)
{
        /* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators" */
        seed ^= seed >> 12;
        seed ^= seed << 25;
        seed ^= seed >> 27;
        return seed * UINT64_C(2685821657736338717);
}

static bool is_near(double a, double b)
{
        return fabs(a - b) < 1e-9;
}

/* p by trying every way to deal: pairs are counted, no ranks. */
static void deal(const double *all, unsigned n, unsigned n_a, double far, double *ret_p, double *ret_least)
{
        double beyond = 0, total = 0, farthest = 0, least = 0;

        for (unsigned set = 0; set < 1u << n; set++) {
                double u = 0, d;

                if ((unsigned) __builtin_popcount(set) != n_a)
                        continue;
                for (unsigned i = 0; i < n; i++)
                        for (unsigned k = 0; k < n; k++)
                                if (set >> i & 1 && !(set >> k & 1))
                                        u += all[i] > all[k] ? 1 : all[i] < all[k] ? 0 : 0.5;
                d = fabs(u - n_a * (n - n_a) / 2.0);
                total++;
                beyond += d >= far - 1e-9;
                if (d > farthest + 1e-9) {
                        farthest = d;
                        least = 0;
                }
                least += d >= farthest - 1e-9;
        }
        *ret_p = beyond / total;
        *ret_least = least / total;
}

static void p_is_that_of_all_ways_to_deal(void **state)
{
        (void) state;
        for (unsigned turn = 0; turn < 300; turn++) {
                unsigned n_a = 1 + (unsigned) (next_random() % 5), n_b = 1 + (unsigned) (next_random() % 6);
                unsigned values = 2 + (unsigned) (next_random() % 12); /* few: ties */
                double all[11], want, least, u = 0;
                struct blkup_shift s;

                for (unsigned i = 0; i < n_a + n_b; i++)
                        all[i] = (double) (next_random() % values);
                for (unsigned i = 0; i < n_a; i++)
                        for (unsigned k = n_a; k < n_a + n_b; k++)
                                u += all[i] > all[k] ? 1 : all[i] < all[k] ? 0 : 0.5;
                assert_int_equal(blkup_shift_find(all, n_a, all + n_a, n_b, 0.05, &s), 0);
                deal(all, n_a + n_b, n_a, fabs(u - n_a * n_b / 2.0), &want, &least);
                assert_true(s.is_exact);
                assert_true(is_near(s.p, want));
                assert_true(is_near(s.least_p, least));
                assert_true(is_near(s.superiority, 1 - u / (n_a * n_b)));
        }
}

static void ramp(double *v, size_t n, double from, double step)
{
        for (size_t i = 0; i < n; i++)
                v[i] = from + (double) i * step;
}

/* Where the interval's ends are is known from the tables of the test's critical values (5 %, two-sided): of
 * the differences in order, the (U + 1)-th from each end. */
static void the_interval_is_that_of_the_tables(void **state)
{
        static const struct {
                size_t n, m;
                int critical; /* U; -1: none */
        } table[] = {
                { 3, 3, -1 },   { 3, 4, -1 },   { 3, 5, 0 },     { 4, 4, 0 },  { 5, 5, 2 },
                { 6, 6, 5 },    { 7, 7, 8 },    { 8, 8, 13 },    { 5, 10, 8 }, { 10, 10, 23 },
                { 12, 12, 37 }, { 15, 15, 64 }, { 20, 20, 127 },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
                double a[20], b[20], differences[400];
                struct blkup_shift s;
                size_t n = 0;

                ramp(a, table[i].n, 0, 1);
                ramp(b, table[i].m, 100, 21); /* no difference twice */
                for (size_t k = 0; k < table[i].n; k++)
                        for (size_t l = 0; l < table[i].m; l++)
                                differences[n++] = b[l] - a[k];
                assert_int_equal(blkup_shift_find(a, table[i].n, b, table[i].m, 0.05, &s), 0);
                assert_int_equal(s.has_interval, table[i].critical >= 0);
                assert_true(is_near(s.shift, blkup_median(differences, n)));
                if (!s.has_interval)
                        continue;
                assert_true(is_near(s.low, differences[table[i].critical]));
                assert_true(is_near(s.high, differences[n - 1 - (size_t) table[i].critical]));
        }
}

static void known_values(void **state)
{
        double a[500], b[500];
        struct blkup_shift s;

        (void) state;
        ramp(a, 500, 0, 1);
        ramp(b, 500, 1000, 1);
        /* Fully apart: 2 of C(8, 4) = 70 and of C(20, 10) = 184,756 ways. */
        assert_int_equal(blkup_shift_find(a, 4, b, 4, 0.05, &s), 0);
        assert_true(is_near(s.p, 2.0 / 70) && is_near(s.least_p, 2.0 / 70));
        assert_true(is_near(s.superiority, 1) && is_near(s.shift, 1000));
        assert_int_equal(blkup_shift_find(b, 10, a, 10, 0.05, &s), 0);
        assert_true(is_near(s.p, 2.0 / 184756) && is_near(s.superiority, 0) && is_near(s.shift, -1000));
        /* All the same. */
        ramp(a, 500, 5, 0);
        assert_int_equal(blkup_shift_find(a, 6, a, 6, 0.05, &s), 0);
        assert_true(is_near(s.p, 1) && is_near(s.least_p, 1) && is_near(s.superiority, 0.5) &&
                    is_near(s.shift, 0));
        assert_int_equal(blkup_shift_find(a, 500, a, 500, 0.05, &s), 0);
        assert_false(s.is_exact);
        assert_true(is_near(s.p, 1));
        /* The normal curve: 25 against 25, moved by half; z = (312.5 + ...) by hand: U = 325, sigma 51.539.
         */
        ramp(a, 25, 0, 1);
        ramp(b, 25, -0.5, 1);
        assert_int_equal(blkup_shift_find(a, 25, b, 25, 0.05, &s), 0);
        assert_true(fabs(s.p - erfc((12.5 - 0.5) / 51.5388 / sqrt(2))) < 1e-5);
        assert_true(is_near(s.shift, -0.5));

        assert_int_equal(blkup_shift_find(a, 0, b, 4, 0.05, &s), -EINVAL);
        assert_int_equal(blkup_shift_find(a, 4, b, 0, 0.05, &s), -EINVAL);
        assert_int_equal(blkup_shift_find(a, 501, b, 4, 0.05, &s), -EINVAL);
        assert_int_equal(blkup_shift_find(a, 4, b, 4, 0, &s), -EINVAL);
        assert_int_equal(blkup_shift_find(a, 4, b, 4, 1, &s), -EINVAL);
        assert_int_equal(blkup_shift_find(a, 4, b, 4, NAN, &s), -EINVAL);
        assert_int_equal(blkup_shift_runs_needed(0.05), 4);
        assert_int_equal(blkup_shift_runs_needed(0.01), 5);
        assert_int_equal(blkup_shift_runs_needed(0.5), 2);
}

/* Where there is no difference, alarms are as rare as was asked for; and the interval holds the truth as
 * often. */
static void alarms_are_as_rare_as_asked(void **state)
{
        static const size_t sizes[][2] = { { 5, 5 }, { 8, 12 }, { 30, 30 } };

        (void) state;
        for (size_t k = 0; k < 3; k++) {
                unsigned alarms = 0, misses = 0;

                for (unsigned turn = 0; turn < 2000; turn++) {
                        double a[30], b[30];
                        struct blkup_shift s;

                        for (size_t i = 0; i < 30; i++) {
                                /* Times of runs: a floor and a long tail. */
                                a[i] = 10 - log(((double) (next_random() >> 11) + 1) / 9007199254740993.0);
                                b[i] = 17 - log(((double) (next_random() >> 11) + 1) / 9007199254740993.0);
                        }
                        assert_int_equal(blkup_shift_find(a, sizes[k][0], b, sizes[k][1], 0.05, &s), 0);
                        misses += s.low > 7 || s.high < 7;
                        for (size_t i = 0; i < 30; i++)
                                b[i] -= 7;
                        assert_int_equal(blkup_shift_find(a, sizes[k][0], b, sizes[k][1], 0.05, &s), 0);
                        alarms += s.p <= 0.05;
                }
                /* 100 of 2,000 expected at most; 130 is three deviations away. */
                assert_in_range(alarms, 20, 130);
                assert_in_range(misses, 20, 130);
        }
}

static void many_tests_are_adjusted(void **state)
{
        /* By hand: p * n / rank, from the largest down the least so far. */
        double p[] = { 0.03, 0.001, 0.8, 0.02 };
        static const double want[] = { 0.04, 0.004, 0.8, 0.04 };

        (void) state;
        assert_int_equal(blkup_shift_adjust(p, 4), 0);
        for (size_t i = 0; i < 4; i++)
                assert_true(is_near(p[i], want[i]));
        assert_int_equal(blkup_shift_adjust(NULL, 0), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(p_is_that_of_all_ways_to_deal),
                cmocka_unit_test(the_interval_is_that_of_the_tables),
                cmocka_unit_test(known_values),
                cmocka_unit_test(alarms_are_as_rare_as_asked),
                cmocka_unit_test(many_tests_are_adjusted),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
