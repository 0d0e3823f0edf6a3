/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Mirrors src/lazyinit/pacing.h, and the simulator of blkup/lazyinit.h. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <blkup/lazyinit.h>

#include "lazyinit/pacing.h"

#define MS UINT64_C(1000000)

/* Share of time at work, of units that take `base` and now and then much longer. */
static double duty(unsigned mult, uint64_t base, uint64_t slow, unsigned slow_every)
{
        struct blkup_pacing p;
        uint64_t busy = 0, waited = 0;

        blkup_pacing_init(&p, mult, 1);
        for (unsigned i = 0; i < 2000; i++) {
                uint64_t took = slow_every && i % slow_every == 0 ? slow : base;

                busy += took;
                waited += blkup_pacing_after(&p, 1, took);
        }
        return (double) busy / (double) (busy + waited);
}

static void is_near(double got, double want)
{
        if (got < want * 0.95 || got > want * 1.05)
                fail_msg("%f is not within 5 %% of %f", got, want);
}

static void test_duty_cycle(void **state)
{
        (void) state;
        is_near(duty(0, 3 * MS, 0, 0), 1);
        is_near(duty(1, 3 * MS, 0, 0), 1.0 / 2);
        is_near(duty(10, 3 * MS, 0, 0), 1.0 / 11);
        /* Every seventh unit ten times as long: a median alone would be off by half. */
        is_near(duty(1, 3 * MS, 30 * MS, 7), 1.0 / 2);
        is_near(duty(10, 3 * MS, 30 * MS, 7), 1.0 / 11);
}

static void test_one_slow_unit_changes_little(void **state)
{
        struct blkup_pacing p;
        uint64_t wait = 0;

        (void) state;
        blkup_pacing_init(&p, 10, 1);
        for (unsigned i = 0; i < 20; i++)
                wait = blkup_pacing_after(&p, 1, 3 * MS);
        assert_true(wait > 29 * MS && wait < 31 * MS);
        /* 300 ms at once: the kernel would freeze 3 s, if it came first. */
        wait = blkup_pacing_after(&p, 1, 300 * MS);
        assert_true(wait <= BLKUP_PACING_WAIT_MAX_NS);
        /* It is paid for, and then forgotten. */
        for (unsigned i = 0; i < 20; i++)
                wait = blkup_pacing_after(&p, 1, 3 * MS);
        assert_true(wait > 29 * MS && wait < 32 * MS);
        /* A late wake-up makes the next wait shorter. */
        blkup_pacing_overslept(&p, 15 * MS);
        assert_true(blkup_pacing_after(&p, 1, 3 * MS) < 26 * MS);
}

static void test_wait_is_clamped(void **state)
{
        struct blkup_pacing p;

        (void) state;
        blkup_pacing_init(&p, 1000, 1);
        assert_true(blkup_pacing_after(&p, 1, 5000 * MS) == BLKUP_PACING_WAIT_MAX_NS);
        assert_true(blkup_pacing_after(&p, 1, UINT64_MAX) == BLKUP_PACING_WAIT_MAX_NS);
        blkup_pacing_init(&p, 0, 1);
        assert_true(blkup_pacing_after(&p, 1, 5000 * MS) == 0);
}

static void test_unit_grows_while_it_is_fast(void **state)
{
        struct blkup_pacing p;

        (void) state;
        blkup_pacing_init(&p, 10, 16);
        assert_int_equal(p.unit, 1);
        (void) blkup_pacing_after(&p, 1, 1 * MS);
        assert_int_equal(p.unit, 2);
        (void) blkup_pacing_after(&p, 2, 2 * MS);
        (void) blkup_pacing_after(&p, 4, 4 * MS);
        assert_int_equal(p.unit, 8);
        /* Twice as many would take 24 ms. */
        (void) blkup_pacing_after(&p, 8, 12 * MS);
        assert_int_equal(p.unit, 8);
        (void) blkup_pacing_after(&p, 8, 25 * MS);
        assert_int_equal(p.unit, 4);
        blkup_pacing_init(&p, 10, 3);
        for (unsigned i = 0; i < 5; i++)
                (void) blkup_pacing_after(&p, p.unit, MS);
        assert_int_equal(p.unit, 3);
}

/* Lines of ../shared/lazyinit/vectors.tsv; tests/lazyinit/oracle.sh has them all. */
static void test_kernel_policies(void **state)
{
        static const struct {
                enum blkup_lazyinit_policy policy;
                unsigned hz, mult;
                uint64_t group_ns, wait_jiffies, total_ms;
        } cases[] = {
                { BLKUP_LAZYINIT_JIFFIES, 100, 10, 300000, 10, 106270 },
                { BLKUP_LAZYINIT_JIFFIES, 250, 0, 8000000, 0, 8000 },
                { BLKUP_LAZYINIT_JIFFIES, 300, 10, 25000000, 70, 266425 },
                { BLKUP_LAZYINIT_JIFFIES, 1000, 1, 120000000, 120, 247872 },
                { BLKUP_LAZYINIT_NS, 100, 1, 8000000, 0, 8000 },
                { BLKUP_LAZYINIT_NS, 100, 10, 120000000, 120, 1358760 },
                { BLKUP_LAZYINIT_NS, 250, 10, 900000, 2, 11989 },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                struct blkup_lazyinit_sim s = { .policy = cases[i].policy, .hz = cases[i].hz, .groups = 1000,
                                                .group_ns = cases[i].group_ns, .wait_mult = cases[i].mult };
                struct blkup_lazyinit_sim_result r;

                assert_int_equal(blkup_lazyinit_simulate(&s, &r), 0);
                assert_int_equal(r.wait_jiffies, cases[i].wait_jiffies);
                assert_true(r.total_ns / MS + 1 >= cases[i].total_ms &&
                            r.total_ns / MS <= cases[i].total_ms + 1);
        }
}

static void test_our_policy_is_no_lottery(void **state)
{
        uint64_t lowest = UINT64_MAX, highest = 0;

        (void) state;
        for (uint64_t seed = 0; seed < 300; seed++) {
                struct blkup_lazyinit_sim s = { .policy = BLKUP_LAZYINIT_BLKUP, .hz = 250, .groups = 2048,
                                                .wait_mult = 10, .base_ns = 2900000, .exp_mean_ns = 950000,
                                                .seed = seed };
                struct blkup_lazyinit_sim_result r;

                assert_int_equal(blkup_lazyinit_simulate(&s, &r), 0);
                lowest = r.total_ns < lowest ? r.total_ns : lowest;
                highest = r.total_ns > highest ? r.total_ns : highest;
                /* 2048 groups of 3.85 ms: the mean of the distribution is right. */
                assert_true(r.busy_ns > 7400 * MS && r.busy_ns < 8400 * MS);
        }
        assert_true((double) (highest - lowest) / (double) lowest < 0.05);
}

static void test_nonsense_is_refused(void **state)
{
        struct blkup_lazyinit_sim s = { .hz = 0, .groups = 1, .group_ns = 1 };
        struct blkup_lazyinit_sim_result r;

        (void) state;
        assert_int_equal(blkup_lazyinit_simulate(&s, &r), -EINVAL);
        s = (struct blkup_lazyinit_sim){ .hz = 100, .groups = 0, .group_ns = 1 };
        assert_int_equal(blkup_lazyinit_simulate(&s, &r), -EINVAL);
        s = (struct blkup_lazyinit_sim){
                .hz = 100, .groups = 1u << 24, .group_ns = UINT64_MAX, .wait_mult = 1000
        };
        assert_int_equal(blkup_lazyinit_simulate(&s, &r), -EINVAL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_duty_cycle),
                cmocka_unit_test(test_one_slow_unit_changes_little),
                cmocka_unit_test(test_wait_is_clamped),
                cmocka_unit_test(test_unit_grows_while_it_is_fast),
                cmocka_unit_test(test_kernel_policies),
                cmocka_unit_test(test_our_policy_is_no_lottery),
                cmocka_unit_test(test_nonsense_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
