/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A pool where threads are slow to come, or do not. The linker hands its calls of pthread_create() to us. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "sync/pool.h"

#define MS UINT64_C(1000000)

static uint64_t slow_ns;      /* so long it takes to return, when the thread runs already */
static atomic_uint n_threads; /* so many may be made */

int __real_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
        int r;

        if (atomic_load(&n_threads) == 0)
                return EAGAIN;
        atomic_fetch_sub(&n_threads, 1);
        r = __real_pthread_create(t, attr, run, arg);
        if (slow_ns)
                blkup_sleep_until_ns(blkup_now_ns() + slow_ns, NULL);
        return r;
}

struct world {
        sem_t left, woken, dropped;
        struct blkup_pool *p;
        uint32_t stuck;
        int answer;
        atomic_uint n_ran, n_told;
};

static int gets_stuck(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                      struct blkup_error *err)
{
        struct world *w = arg;

        (void) p, (void) node, (void) worker, (void) err;
        while (sem_wait(&w->left) != 0) /* ends: when it is posted */
                ;
        return 0;
}

static void drops(void *arg)
{
        sem_post(&((struct world *) arg)->dropped);
}

static int works(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg, struct blkup_error *err)
{
        (void) p, (void) node, (void) worker, (void) err;
        atomic_fetch_add(&((struct world *) arg)->n_ran, 1);
        return 0;
}

static void *leaves(void *arg)
{
        struct world *w = arg;

        /* Ends: the node starts at once. */
        while ((w->answer = blkup_pool_leave(w->p, w->stuck, 0, NULL)) == -EINVAL)
                blkup_sleep_until_ns(blkup_now_ns() + MS, NULL);
        sem_post(&w->left);
        return NULL;
}

static uint32_t add(struct world *w, const char *name, blkup_pool_fn *run, void (*drop)(void *arg))
{
        const struct blkup_pool_node n = { .name = name, .timeout_ns = 60000 * MS, .run = run, .arg = w,
                                           .drop = drop };
        uint32_t node = BLKUP_POOL_NONE;

        assert_int_equal(blkup_pool_add(w->p, &n, NULL, 0, &node), 0);
        return node;
}

static void begin(struct world *w)
{
        *w = (struct world){ .p = NULL };
        assert_int_equal(sem_init(&w->left, 0, 0), 0);
        assert_int_equal(sem_init(&w->woken, 0, 0), 0);
        assert_int_equal(sem_init(&w->dropped, 0, 0), 0);
        assert_int_equal(blkup_pool_new(&w->p, 0), 0);
}

/* A node is left while who made its thread has not come to note that it is there. */
static void test_leave_of_a_new_thread(void **state)
{
        struct world w;
        struct blkup_pool_result r = { 0 };
        struct blkup_pool_summary sum = { 0 };
        uint32_t behind;
        pthread_t thread;

        (void) state;
        begin(&w);
        w.stuck = add(&w, "stuck", gets_stuck, drops);
        behind = add(&w, "behind", works, NULL);
        assert_int_equal(blkup_pool_depend(w.p, behind, w.stuck, BLKUP_POOL_NEEDS), 0);
        atomic_store(&n_threads, 100);
        slow_ns = 0;
        assert_int_equal(pthread_create(&thread, NULL, leaves, &w), 0);
        slow_ns = 100 * MS;
        assert_int_equal(blkup_pool_run(w.p, &(struct blkup_pool_options){ .workers = 4 }, &sum, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(w.answer, 0);
        assert_int_equal(w.n_ran, 1);
        assert_int_equal(sum.done, 2);
        assert_int_equal(blkup_pool_get(w.p, behind, &r), 0);
        assert_int_equal(r.state, BLKUP_POOL_DONE);
        w.p = blkup_pool_unref(w.p);
        while (sem_wait(&w.dropped) != 0) /* ends: with the last reference */
                ;
        blkup_sleep_until_ns(blkup_now_ns() + 50 * MS, NULL); /* nobody can join who was left */
}

static int waits(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg, struct blkup_error *err)
{
        struct world *w = arg;

        (void) node, (void) worker, (void) err;
        while (sem_wait(&w->woken) != 0) /* ends: when it is posted */
                ;
        return blkup_pool_is_cancelled(p) ? -ECANCELED : 0;
}

static int wakes(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg, struct blkup_error *err)
{
        sem_post(&((struct world *) arg)->woken);
        return works(p, node, worker, arg, err);
}

static void is_short(void *arg)
{
        struct world *w = arg;

        atomic_fetch_add(&w->n_told, 1);
        sem_post(&w->woken);
}

static void *gives_back(void *arg)
{
        (void) arg;
        blkup_sleep_until_ns(blkup_now_ns() + 300 * MS, NULL);
        atomic_store(&n_threads, 1);
        return NULL;
}

/* One waits for what another does, and there is one thread: no run without an end. */
static void test_too_few(void **state)
{
        (void) state;
        for (unsigned k = 0; k < 3; k++) {
                const bool is_enough = k == 1, comes_late = k == 2;
                struct world w;
                struct blkup_pool_options o = {
                        .workers = 4, .at_least = 2, .is_short = is_short, .arg = &w,
                };
                uint64_t start = blkup_now_ns();
                pthread_t thread;
                int r;

                begin(&w);
                slow_ns = 0;
                (void) add(&w, "waits", waits, NULL);
                (void) add(&w, "wakes", wakes, NULL);
                atomic_store(&n_threads, 2);
                if (comes_late)
                        assert_int_equal(pthread_create(&thread, NULL, gives_back, NULL), 0);
                atomic_store(&n_threads, is_enough ? 2 : 1);
                r = blkup_pool_run(w.p, &o, NULL, NULL);
                if (comes_late)
                        assert_int_equal(pthread_join(thread, NULL), 0);
                assert_int_equal(r, is_enough || comes_late ? 0 : -EAGAIN);
                assert_int_equal(w.n_told, is_enough || comes_late ? 0 : 1);
                assert_int_equal(w.n_ran, is_enough || comes_late ? 1 : 0);
                assert_true(blkup_now_ns() - start < 20000 * MS);
                w.p = blkup_pool_unref(w.p);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_leave_of_a_new_thread),
                                            cmocka_unit_test(test_too_few) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
