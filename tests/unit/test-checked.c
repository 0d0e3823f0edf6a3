/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/checked.h"

#define MAX UINT64_MAX
#define HALF (UINT64_C(1) << 63)

static void add_fits_or_leaves_alone(void **state)
{
        uint64_t v = 7;

        (void) state;
        assert_false(blkup_add(MAX, 1, &v));
        assert_false(blkup_add(HALF, HALF, &v));
        assert_int_equal(v, 7);
        assert_true(blkup_add(MAX - 1, 1, &v));
        assert_true(v == MAX);
        assert_true(blkup_add(0, 0, &v));
        assert_int_equal(v, 0);
}

static void sub_never_goes_below_zero(void **state)
{
        uint64_t v = 7;

        (void) state;
        assert_false(blkup_sub(0, 1, &v));
        assert_false(blkup_sub(MAX - 1, MAX, &v));
        assert_int_equal(v, 7);
        assert_true(blkup_sub(5, 5, &v));
        assert_int_equal(v, 0);
        assert_true(blkup_sub(MAX, 1, &v));
        assert_true(v == MAX - 1);
}

static void mul_fits_or_leaves_alone(void **state)
{
        uint64_t v = 7;

        (void) state;
        assert_false(blkup_mul(UINT64_C(1) << 32, UINT64_C(1) << 32, &v));
        assert_false(blkup_mul(MAX, 2, &v));
        assert_int_equal(v, 7);
        assert_true(blkup_mul(MAX, 1, &v));
        assert_true(v == MAX);
        assert_true(blkup_mul(MAX, 0, &v));
        assert_int_equal(v, 0);
        assert_true(blkup_mul(UINT64_C(0xffffffff), UINT64_C(0x100000001), &v));
        assert_true(v == MAX);
}

static void shl_checks_count_and_lost_bits(void **state)
{
        uint64_t v = 7;

        (void) state;
        assert_false(blkup_shl(1, 64, &v));
        assert_false(blkup_shl(0, 64, &v)); /* undefined in C whatever is shifted */
        assert_false(blkup_shl(1, MAX, &v));
        assert_false(blkup_shl(2, 63, &v));
        assert_false(blkup_shl(HALF, 1, &v));
        assert_int_equal(v, 7);
        assert_true(blkup_shl(1, 63, &v));
        assert_true(v == HALF);
        assert_true(blkup_shl(MAX, 0, &v));
        assert_true(v == MAX);
        assert_true(blkup_shl(0, 63, &v));
        assert_int_equal(v, 0);
}

/* Every pair of small and of large operands against 128-bit arithmetic. */
static void agrees_with_wide_arithmetic(void **state)
{
        static const uint64_t edge[] = { 0,
                                         1,
                                         2,
                                         3,
                                         511,
                                         512,
                                         513,
                                         0xffff,
                                         0x10000,
                                         0xffffffff,
                                         UINT64_C(0x100000000),
                                         UINT64_C(0x100000001),
                                         HALF - 1,
                                         HALF,
                                         HALF + 1,
                                         MAX - 512,
                                         MAX - 1,
                                         MAX };
        size_t n = BLKUP_ARRAY_SIZE(edge);

        (void) state;
        for (size_t i = 0; i < n; i++)
                for (size_t j = 0; j < n; j++) {
                        __extension__ typedef unsigned __int128 wide;
                        wide a = edge[i], b = edge[j];
                        uint64_t v = 1;

                        assert_int_equal(blkup_add(edge[i], edge[j], &v), a + b <= MAX);
                        if (a + b <= MAX)
                                assert_true(v == (uint64_t) (a + b));
                        assert_int_equal(blkup_mul(edge[i], edge[j], &v), a * b <= MAX);
                        if (a * b <= MAX)
                                assert_true(v == (uint64_t) (a * b));
                        assert_int_equal(blkup_sub(edge[i], edge[j], &v), a >= b);
                        if (b < 64) {
                                assert_int_equal(blkup_shl(edge[i], edge[j], &v), (a << edge[j]) <= MAX);
                                if ((a << edge[j]) <= MAX)
                                        assert_true(v == (uint64_t) (a << edge[j]));
                        }
                        for (size_t k = 0; k < n; k++)
                                assert_int_equal(blkup_inside(edge[i], edge[j], edge[k]), a + b <= edge[k]);
                }
}

static void inside_allows_the_empty_end(void **state)
{
        (void) state;
        assert_true(blkup_inside(0, 0, 0));
        assert_true(blkup_inside(10, 0, 10));
        assert_false(blkup_inside(11, 0, 10));
        assert_true(blkup_inside(0, 10, 10));
        assert_false(blkup_inside(1, 10, 10));
        assert_false(blkup_inside(MAX, MAX, 10));
        assert_true(blkup_inside(0, MAX, MAX));
}

static void powers_and_alignment(void **state)
{
        (void) state;
        assert_false(blkup_is_power_of_two(0));
        assert_false(blkup_is_power_of_two(3));
        assert_false(blkup_is_power_of_two(MAX));
        for (unsigned i = 0; i < 64; i++)
                assert_true(blkup_is_power_of_two(UINT64_C(1) << i));

        assert_int_equal(blkup_align_down(511, 512), 0);
        assert_int_equal(blkup_align_down(512, 512), 512);
        assert_int_equal(blkup_align_down(1023, 512), 512);
        assert_true(blkup_align_down(MAX, 4096) == MAX - 4095);
        assert_int_equal(blkup_align_up(0, 512), 0);
        assert_int_equal(blkup_align_up(1, 512), 512);
        assert_int_equal(blkup_align_up(512, 512), 512);
        assert_int_equal(blkup_align_up(7, 1), 7);
        /* Saturates: a wrap would turn "beyond the end" into "at the start". */
        assert_true(blkup_align_up(MAX, 4096) == MAX - 4095);
        assert_true(blkup_align_up(MAX - 4095, 4096) == MAX - 4095);
        assert_true(blkup_align_up(MAX - 4094, 4096) == MAX - 4095);
        assert_true(blkup_align_up(MAX, 1) == MAX);
        assert_true(blkup_align_up(MAX, HALF) == HALF);
}

static void min_and_max(void **state)
{
        (void) state;
        assert_int_equal(blkup_min(1, 2), 1);
        assert_int_equal(blkup_min(2, 1), 1);
        assert_true(blkup_min(MAX, HALF) == HALF);
        assert_int_equal(blkup_max(1, 2), 2);
        assert_int_equal(blkup_max(2, 1), 2);
        assert_true(blkup_max(MAX, HALF) == MAX);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(add_fits_or_leaves_alone),
                cmocka_unit_test(sub_never_goes_below_zero),
                cmocka_unit_test(mul_fits_or_leaves_alone),
                cmocka_unit_test(shl_checks_count_and_lost_bits),
                cmocka_unit_test(agrees_with_wide_arithmetic),
                cmocka_unit_test(inside_allows_the_empty_end),
                cmocka_unit_test(powers_and_alignment),
                cmocka_unit_test(min_and_max),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
