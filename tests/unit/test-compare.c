/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fail-alloc.h"
#include "trace/compare.h"

#define RUNS 8u

static void add(struct blkup_trace *t, const char *lane, const char *name, uint64_t from_us, uint64_t for_us)
{
        blkup_trace_add(t, &(struct blkup_span){
                                   .lane = lane,
                                   .name = name,
                                   .start_ns = from_us * 1000,
                                   .end_ns = (from_us + for_us) * 1000,
                           });
}

/* Run i of a set: probing takes probe_us and a bit, mounting mount_us and a bit. */
static struct blkup_trace *run(unsigned i, uint64_t probe_us, uint64_t mount_us)
{
        struct blkup_trace *t = blkup_trace_new(0);

        assert_non_null(t);
        add(t, "sda", "probe", 1000, probe_us + i * 7);
        add(t, "sda", "mount", 20000, mount_us + i * 13);
        /* Reads that lie over each other count once; and these take the same time in every run. */
        add(t, "sda", "read", 1000, 50);
        add(t, "sda", "read", 1020, 80);
        add(t, "sdb", "probe", 1000, 500 + i * 31 % 5);
        return t;
}

static void free_runs(struct blkup_trace **t, size_t n)
{
        for (size_t i = 0; i < n; i++)
                (void) blkup_trace_unref(t[i]);
}

static const struct blkup_compare_item *find(const struct blkup_comparison *c, const char *lane,
                                             const char *name)
{
        for (size_t i = 0; i < c->n_items; i++)
                if (strcmp(c->items[i].lane, lane) == 0 && strcmp(c->items[i].name, name) == 0)
                        return &c->items[i];
        fail_msg("no %s %s", lane, name);
        return NULL;
}

static void tells_what_became_slower_and_what_faster(void **state)
{
        struct blkup_trace *a[RUNS], *b[RUNS];
        const struct blkup_compare_item *i;
        struct blkup_comparison c;

        (void) state;
        for (unsigned k = 0; k < RUNS; k++) {
                a[k] = run(k, 3000, 5000);
                b[k] = run((k + 3) % RUNS, 2000, 9000);
        }
        add(a[2], "sdc", "probe", 1000, 10);
        add(b[1], "sdd", "probe", 1000, 20);
        add(b[2], "sdd", "probe", 1000, 30);
        assert_int_equal(blkup_compare(a, RUNS, b, RUNS, NULL, &c), 0);
        assert_int_equal(c.n_items, 7);
        assert_ptr_equal(&c.items[0], find(&c, "", "in all"));
        assert_int_equal(c.items[0].verdict, BLKUP_COMPARE_SLOWER);
        assert_int_equal(c.items[0].shift.shift, 4000000);
        i = find(&c, "sda", "mount");
        assert_ptr_equal(i, &c.items[1]); /* the largest first */
        assert_int_equal(i->verdict, BLKUP_COMPARE_SLOWER);
        assert_int_equal(i->shift.shift, 4000000);
        assert_true(i->shift.has_interval && i->shift.low > 3900000 && i->shift.high < 4100000);
        i = find(&c, "sda", "probe");
        assert_int_equal(i->verdict, BLKUP_COMPARE_FASTER);
        assert_int_equal(i->shift.shift, -1000000);
        i = find(&c, "sda", "read");
        assert_int_equal(i->median_a, 100000);
        assert_int_equal(i->verdict, BLKUP_COMPARE_TOO_FEW); /* all the same: nothing could be told */
        assert_int_equal(find(&c, "sdb", "probe")->verdict, BLKUP_COMPARE_NONE);
        i = find(&c, "sdc", "probe");
        assert_int_equal(i->verdict, BLKUP_COMPARE_ONLY_A);
        assert_int_equal(i->n_a, 1);
        i = find(&c, "sdd", "probe");
        assert_int_equal(i->verdict, BLKUP_COMPARE_ONLY_B);
        assert_int_equal(i->n_b, 2);
        assert_int_equal(i->median_b, 25000);
        assert_int_equal(c.counts[BLKUP_COMPARE_SLOWER], 1);
        assert_int_equal(c.counts[BLKUP_COMPARE_FASTER], 1);
        assert_int_equal(c.counts[BLKUP_COMPARE_ONLY_A], 1);
        blkup_comparison_free(&c);

        /* A change that is too small to matter to the caller. */
        assert_int_equal(blkup_compare(a, RUNS, b, RUNS, &(struct blkup_compare_options){ .at_least = 0.5 },
                                       &c),
                         0);
        assert_int_equal(find(&c, "sda", "mount")->verdict, BLKUP_COMPARE_SLOWER);
        assert_int_equal(find(&c, "sda", "probe")->verdict, BLKUP_COMPARE_NONE);
        blkup_comparison_free(&c);
        free_runs(a, RUNS);
        free_runs(b, RUNS);
}

static void says_when_runs_are_too_few(void **state)
{
        struct blkup_trace *t[6];
        struct blkup_comparison c;

        (void) state;
        for (unsigned k = 0; k < 6; k++)
                t[k] = run(k % 3, k < 3 ? 3000 : 300000, 5000);
        assert_int_equal(blkup_compare(t, 3, t + 3, 3, NULL, &c), 0);
        assert_int_equal(find(&c, "sda", "probe")->verdict, BLKUP_COMPARE_TOO_FEW);
        assert_int_equal(c.items[0].verdict, BLKUP_COMPARE_TOO_FEW);
        assert_int_equal(c.runs_needed, 4);
        assert_int_equal(c.counts[BLKUP_COMPARE_SLOWER], 0);
        blkup_comparison_free(&c);
        assert_int_equal(blkup_compare(t, 3, t + 3, 3, &(struct blkup_compare_options){ .alpha = 0.1 }, &c),
                         0);
        assert_int_equal(find(&c, "sda", "probe")->verdict, BLKUP_COMPARE_SLOWER);
        blkup_comparison_free(&c);
        assert_int_equal(blkup_compare(t, 1, t + 3, 1, NULL, &c), 0);
        assert_int_equal(find(&c, "sda", "probe")->verdict, BLKUP_COMPARE_TOO_FEW);
        blkup_comparison_free(&c);
        assert_int_equal(blkup_compare(t, 0, t, 1, NULL, &c), -EINVAL);
        assert_int_equal(blkup_compare(t, 1, t, 0, NULL, &c), -EINVAL);
        assert_int_equal(blkup_compare(t, 1, t, 1, &(struct blkup_compare_options){ .alpha = 1 }, &c),
                         -EINVAL);
        free_runs(t, 6);
}

/* Among a hundred spans of pure chance five would differ at 5 % each; nothing may be called slower for that.
 */
static void many_spans_are_no_alarm(void **state)
{
        struct blkup_trace *t[2 * RUNS];
        struct blkup_comparison c;
        uint64_t seed = 12345;
        unsigned by_itself = 0;

        (void) state;
        for (unsigned k = 0; k < 2 * RUNS; k++) {
                t[k] = blkup_trace_new(0);
                for (unsigned i = 0; i < 400; i++) {
                        char lane[16];

                        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u; /* Knuth, MMIX */
                        (void) snprintf(lane, sizeof(lane), "sd%u", i);
                        add(t[k], lane, "probe", 0, 1000 + (seed >> 40) % 1000);
                }
        }
        assert_int_equal(blkup_compare(t, RUNS, t + RUNS, RUNS, NULL, &c), 0);
        for (size_t i = 1; i < c.n_items; i++)
                by_itself += c.items[i].shift.p <= 0.05;
        assert_in_range(by_itself, 5, 40);
        assert_int_equal(c.counts[BLKUP_COMPARE_SLOWER] + c.counts[BLKUP_COMPARE_FASTER], 0);
        assert_int_equal(c.counts[BLKUP_COMPARE_UNCLEAR], by_itself);
        blkup_comparison_free(&c);
        free_runs(t, 2 * RUNS);
}

static void traces_may_be_empty(void **state)
{
        struct blkup_trace *t[] = { blkup_trace_new(0), blkup_trace_new(0) };
        struct blkup_comparison c;

        (void) state;
        assert_int_equal(blkup_compare(t, 1, t + 1, 1, NULL, &c), 0);
        assert_int_equal(c.n_items, 1);
        blkup_comparison_free(&c);
        free_runs(t, 2);
}

static void each_allocation_may_fail(void **state)
{
        struct blkup_trace *t[] = { run(0, 1, 2), run(1, 1, 2), run(2, 1, 2), run(3, 1, 2) };
        bool is_done = false;

        (void) state;
        for (long after = 0; !is_done; after++) {
                struct blkup_comparison c = { 0 };
                int r;

                fail_alloc_arm(after, false);
                r = blkup_compare(t, 2, t + 2, 2, NULL, &c);
                is_done = fail_alloc_disarm() == 0;
                assert_true(r == -ENOMEM || (is_done && r == 0));
                blkup_comparison_free(&c);
        }
        free_runs(t, 4);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(tells_what_became_slower_and_what_faster),
                cmocka_unit_test(says_when_runs_are_too_few),
                cmocka_unit_test(many_spans_are_no_alarm),
                cmocka_unit_test(traces_may_be_empty),
                cmocka_unit_test(each_allocation_may_fail),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
