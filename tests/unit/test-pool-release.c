/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Nodes that nobody asks of any more: a graph that grows for months does so in the places of a few. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/clock.h"
#include "sync/pool.h"

#define MS UINT64_C(1000000)

static struct blkup_pool *make(void)
{
        struct blkup_pool *p = NULL;

        assert_int_equal(blkup_pool_new(&p, 0), 0);
        return p;
}

static uint32_t add_node(struct blkup_pool *p, const char *name, uint64_t cost_ns, blkup_pool_fn *run,
                         void *arg)
{
        struct blkup_pool_node n = { .name = name, .cost_ns = cost_ns, .run = run, .arg = arg };
        uint32_t node = BLKUP_POOL_NONE;

        assert_int_equal(blkup_pool_add(p, &n, NULL, 0, &node), 0);
        return node;
}

static enum blkup_pool_state state_of(struct blkup_pool *p, uint32_t node)
{
        struct blkup_pool_result r;

        assert_int_equal(blkup_pool_get(p, node, &r), 0);
        return r.state;
}

static int fails_at_once(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                         struct blkup_error *err)
{
        (void) p, (void) node, (void) worker, (void) arg;
        return blkup_fail(err, -EIO, "no");
}

struct rounds {
        unsigned n, at; /* rounds, and which one it is */
        unsigned dropped, called;
        uint32_t most; /* numbers at a time */
        uint64_t sleep_ns;
};

static void drop_one(void *arg)
{
        (void) __atomic_add_fetch(&((struct rounds *) arg)->dropped, 1, __ATOMIC_RELAXED);
}

static int one_of_them(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                       struct blkup_error *err)
{
        struct rounds *x = arg;

        (void) p, (void) worker;
        (void) __atomic_add_fetch(&x->called, 1, __ATOMIC_RELAXED);
        return node % 7 == 3 ? blkup_fail(err, -EIO, "no") : 0;
}

/* Three nodes, the second waits for the first; one that nobody has asked for; then the next round. */
static int next_round(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                      struct blkup_error *err)
{
        struct rounds *x = arg;
        struct blkup_pool_node one = { .name = "one", .run = one_of_them, .arg = x, .drop = drop_one };
        struct blkup_pool_node next = { .name = "next", .run = next_round, .arg = x };
        uint32_t a = 0, b = 0, count;

        (void) node, (void) worker, (void) err;
        if (blkup_pool_add(p, &one, NULL, 0, &a) < 0 || blkup_pool_add(p, &one, &a, 1, &b) < 0 ||
            blkup_pool_add(p, &one, NULL, 0, NULL) < 0 || blkup_pool_release(p, b) < 0 ||
            blkup_pool_release(p, a) < 0)
                return -EINVAL;
        count = blkup_pool_count(p);
        if (count > x->most)
                x->most = count;
        return ++x->at < x->n ? blkup_pool_add(p, &next, NULL, 0, NULL) : 0;
}

static void test_released(void **state)
{
        (void) state;
        for (unsigned workers = 1; workers <= 4; workers += 3)
                for (unsigned limits = 0; limits < 2; limits++) {
                        struct blkup_pool_options o = { .workers = workers, .has_timeouts = limits > 0 };
                        struct rounds x = { .n = 20000 };
                        struct blkup_pool_summary sum;
                        struct blkup_pool *p = make();

                        (void) add_node(p, "first", 1, next_round, &x);
                        assert_int_equal(blkup_pool_run(p, &o, &sum, NULL), 0);
                        assert_int_equal(x.at, x.n);
                        /* Nothing is forgotten in the sum. */
                        assert_int_equal(sum.done + sum.failed + sum.skipped, 4 * x.n);
                        assert_true(sum.failed > 0);
                        assert_int_equal(x.called + sum.skipped, 3 * x.n);
                        /* 80,000 nodes in the places of a few: as many as wait for a worker at a time. */
                        print_message("%u workers: %u places for %u nodes\n", workers, x.most, 4 * x.n);
                        assert_true(x.most < 2000);
                        p = blkup_pool_unref(p);
                        assert_int_equal(x.dropped, 3 * x.n);
                }
}

static int lingers(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg, struct blkup_error *err)
{
        struct rounds *x = arg;

        (void) p, (void) node, (void) worker, (void) err;
        blkup_sleep_until_ns(blkup_now_ns() + x->sleep_ns, NULL);
        (void) __atomic_add_fetch(&x->called, 1, __ATOMIC_RELEASE);
        return 0;
}

static int waits_for_drops(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                           struct blkup_error *err)
{
        struct rounds *x = arg;
        uint64_t until = blkup_now_ns() + 10000 * MS;

        (void) p, (void) node, (void) worker, (void) err;
        while (__atomic_load_n(&x->dropped, __ATOMIC_RELAXED) < x->n) {
                /* Its arg is in use as long as the call has not returned. */
                if (__atomic_load_n(&x->dropped, __ATOMIC_RELAXED) >
                            __atomic_load_n(&x->called, __ATOMIC_ACQUIRE) ||
                    blkup_now_ns() > until)
                        return -EIO;
                blkup_sleep_until_ns(blkup_now_ns() + MS, NULL);
        }
        return 0;
}

/* What was given up keeps its place until the call has returned, and then lets it go. */
static void test_released_and_given_up(void **state)
{
        struct blkup_pool_options o = { .workers = 4, .has_timeouts = true };
        struct rounds x = { .n = 8, .sleep_ns = 60 * MS };
        struct blkup_pool_node slow = {
                .name = "slow", .run = lingers, .arg = &x, .drop = drop_one, .timeout_ns = 5 * MS
        };
        struct blkup_pool_summary sum;
        struct blkup_pool *p = make();
        uint32_t last;

        (void) state;
        for (unsigned i = 0; i < x.n; i++)
                assert_int_equal(blkup_pool_add(p, &slow, NULL, 0, NULL), 0);
        last = add_node(p, "last", 1, waits_for_drops, &x);
        assert_int_equal(blkup_pool_run(p, &o, &sum, NULL), 0);
        assert_int_equal(sum.timed_out, x.n);
        assert_int_equal(sum.done, 1);
        assert_int_equal(state_of(p, last), BLKUP_POOL_DONE);
        p = blkup_pool_unref(p);
        assert_int_equal(x.dropped, x.n);
}

static int asks_of_released(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                            struct blkup_error *err)
{
        struct blkup_pool_node bad = { .name = "bad", .run = fails_at_once }, point = { .name = "point" };
        struct blkup_pool_result r;
        uint32_t gone = 0, again = 0, skipped = 0, n = 0;

        (void) node, (void) worker, (void) arg, (void) err;
        if (blkup_pool_add(p, &bad, NULL, 0, &gone) < 0)
                return -ENOMEM;
        while (blkup_pool_get(p, gone, &r) == 0 && r.state != BLKUP_POOL_FAILED)
                blkup_sleep_until_ns(blkup_now_ns() + MS, NULL);
        if (blkup_pool_add(p, &point, &gone, 1, &skipped) < 0 || blkup_pool_get(p, skipped, &r) < 0 ||
            r.state != BLKUP_POOL_SKIPPED || r.culprit != gone)
                return -EINVAL;
        if (blkup_pool_release(p, gone) < 0 || blkup_pool_release(p, gone) != -EINVAL ||
            blkup_pool_get(p, gone, &r) != -ENOENT || blkup_pool_depend(p, skipped, gone, 0) != -EINVAL ||
            blkup_pool_add(p, &point, &gone, 1, &again) != -EINVAL ||
            blkup_pool_complete(p, gone, 0, NULL) != -EINVAL ||
            blkup_pool_before(p, gone, NULL, NULL, 0, &n) != -ENOENT)
                return -EBADMSG;
        /* Nobody takes the next one with this number for what failed. */
        if (blkup_pool_add(p, &point, NULL, 0, &again) < 0 || again != gone ||
            blkup_pool_get(p, skipped, &r) < 0 || r.culprit != BLKUP_POOL_NONE)
                return -EALREADY;
        return 0;
}

static void test_released_is_unknown(void **state)
{
        struct blkup_pool_options o = { .workers = 2, .has_timeouts = true };
        struct blkup_pool *p = make();
        uint32_t node = add_node(p, "asks", 1, asks_of_released, NULL);

        (void) state;
        assert_int_equal(blkup_pool_run(p, &o, NULL, NULL), 0);
        assert_int_equal(state_of(p, node), BLKUP_POOL_DONE);
        p = blkup_pool_unref(p);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_released),
                cmocka_unit_test(test_released_and_given_up),
                cmocka_unit_test(test_released_is_unknown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
