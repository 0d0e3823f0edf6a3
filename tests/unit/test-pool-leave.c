/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Nodes that are left while their calls go on: blkup_pool_leave(). */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "sync/pool.h"

#define MS UINT64_C(1000000)

struct stuck {
        sem_t go_on, dropped;
};

static int gets_stuck(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                      struct blkup_error *err)
{
        struct stuck *s = arg;

        (void) p, (void) node, (void) worker, (void) err;
        while (sem_wait(&s->go_on) != 0) /* ends: when it is posted; again only after a signal */
                ;
        return 0;
}

static void drops(void *arg)
{
        sem_post(&((struct stuck *) arg)->dropped);
}

static int works(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg, struct blkup_error *err)
{
        (void) p, (void) node, (void) worker, (void) arg, (void) err;
        return 0;
}

static uint32_t add(struct blkup_pool *p, const char *name, blkup_pool_fn *run, void *arg)
{
        struct blkup_pool_node n = { .name = name, .run = run, .arg = arg };
        uint32_t node = BLKUP_POOL_NONE;

        assert_int_equal(blkup_pool_add(p, &n, NULL, 0, &node), 0);
        return node;
}

static struct blkup_pool_result result(struct blkup_pool *p, uint32_t node)
{
        struct blkup_pool_result r = { 0 };

        assert_int_equal(blkup_pool_get(p, node, &r), 0);
        return r;
}

struct leaving {
        struct blkup_pool *p;
        uint32_t node;
        int code, answer, again;
};

static void *leaves(void *arg)
{
        struct leaving *l = arg;

        /* Ends: the node starts at once. */
        while ((l->answer = blkup_pool_leave(l->p, l->node, l->code, "left")) == -EINVAL)
                blkup_sleep_until_ns(blkup_now_ns() + MS, NULL);
        l->again = blkup_pool_leave(l->p, l->node, 0, NULL);
        return NULL;
}

static int frees(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg, struct blkup_error *err)
{
        (void) p, (void) node, (void) worker, (void) err;
        sem_post(&((struct stuck *) arg)->go_on);
        return 0;
}

/* What waits for it goes on while its call does, also where there is one worker, and that is the caller. */
static void test_leave(void **state)
{
        (void) state;
        for (unsigned k = 0; k < 8; k++) {
                const bool has_limit = k & 1, is_bad = k & 2;
                struct blkup_pool *p = NULL;
                struct stuck s;
                struct blkup_pool_node n = { .name = "stuck",
                                             .timeout_ns = has_limit ? 10000 * MS : 0,
                                             .cost_ns = 10,
                                             .run = gets_stuck,
                                             .arg = &s,
                                             .drop = drops };
                struct leaving l = { .code = is_bad ? -EBUSY : 0 };
                uint32_t behind, after;
                pthread_t thread;

                assert_int_equal(blkup_pool_new(&p, 0), 0);
                l.p = p;
                assert_int_equal(sem_init(&s.go_on, 0, 0), 0);
                assert_int_equal(sem_init(&s.dropped, 0, 0), 0);
                assert_int_equal(blkup_pool_add(p, &n, NULL, 0, &l.node), 0);
                behind = add(p, "behind", works, NULL);
                assert_int_equal(blkup_pool_depend(p, behind, l.node, BLKUP_POOL_NEEDS), 0);
                after = add(p, "after", frees, &s);
                assert_int_equal(blkup_pool_depend(p, after, l.node, BLKUP_POOL_AFTER), 0);
                assert_int_equal(blkup_pool_leave(p, l.node, 0, NULL), -EINVAL);
                assert_int_equal(blkup_pool_leave(p, 1000, 0, NULL), -EINVAL);
                assert_int_equal(pthread_create(&thread, NULL, leaves, &l), 0);
                assert_int_equal(blkup_pool_run(p, &(struct blkup_pool_options){ .workers = k & 4 ? 2 : 1 },
                                                NULL, NULL),
                                 0);
                assert_int_equal(pthread_join(thread, NULL), 0);
                assert_int_equal(l.answer, 0);
                assert_int_equal(l.again, -EALREADY);
                assert_int_equal(result(p, l.node).state, is_bad ? BLKUP_POOL_FAILED : BLKUP_POOL_DONE);
                assert_string_equal(result(p, l.node).message, is_bad ? "left" : "");
                assert_int_equal(result(p, behind).state, is_bad ? BLKUP_POOL_SKIPPED : BLKUP_POOL_DONE);
                assert_int_equal(result(p, after).state, BLKUP_POOL_DONE);
                p = blkup_pool_unref(p);
                while (sem_wait(&s.dropped) != 0) /* ends: with the last reference */
                        ;
                sem_destroy(&s.go_on);
                sem_destroy(&s.dropped);
        }
        /* Lets the threads that were left, which nobody can join, end before the program does. */
        blkup_sleep_until_ns(blkup_now_ns() + 50 * MS, NULL);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_leave) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
