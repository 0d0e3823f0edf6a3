/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "sync/cond.h"
#include "sync/late.h"

#define N  40u
#define MS UINT64_C(1000000)

/* Its things answer at once, but those that hang until `go`. */
struct world {
        pthread_mutex_t lock;
        pthread_cond_t go;
        bool is_open, has_no_memory;
        bool hangs[N];
        uint64_t slow_ns; /* the first thing's answer takes that long */
        unsigned took[N];
        atomic_uint n_begun, n_ended, n_looks, n_dropped, n_freed;
        int answers[N], own;
};

static void *begin(void *to)
{
        struct world *w = to;

        atomic_fetch_add(&w->n_begun, 1);
        return w->has_no_memory ? NULL : &w->own;
}

static struct world *the_world; /* of end() and drop(), which are told none */

static void end(void *own)
{
        assert_ptr_equal(own, &the_world->own);
        atomic_fetch_add(&the_world->n_ended, 1);
}

static void *look(void *to, void *own, size_t i)
{
        struct world *w = to;

        if (own != &w->own)
                return NULL; /* seen by the test: nothing is taken */
        (void) pthread_mutex_lock(&w->lock);
        while (w->hangs[i] && !w->is_open)
                (void) pthread_cond_wait(&w->go, &w->lock);
        (void) pthread_mutex_unlock(&w->lock);
        if (i == 0 && w->slow_ns)
                blkup_sleep_until_ns(blkup_now_ns() + w->slow_ns, NULL);
        atomic_fetch_add(&w->n_looks, 1);
        return i % 7 == 6 ? NULL : &w->answers[i];
}

static void take(void *to, size_t i, void *answer)
{
        struct world *w = to;

        w->took[i] += answer == &w->answers[i] ? 1 : 100;
}

static void drop(void *answer)
{
        (void) answer;
        atomic_fetch_add(&the_world->n_dropped, 1);
}

static void free_world(void *to)
{
        atomic_fetch_add(&((struct world *) to)->n_freed, 1);
}

static const struct blkup_late_ops ops = { .begin = begin, .end = end, .look = look,
                                           .take = take,   .drop = drop, .free = free_world };

static void start_world(struct world *w)
{
        memset(w, 0, sizeof(*w));
        (void) pthread_mutex_init(&w->lock, NULL);
        assert_int_equal(blkup_cond_init(&w->go), 0);
        the_world = w;
}

/* The threads are detached: they have gone when `to` was freed. */
static void end_world(struct world *w)
{
        (void) pthread_mutex_lock(&w->lock);
        w->is_open = true;
        (void) pthread_cond_broadcast(&w->go);
        (void) pthread_mutex_unlock(&w->lock);
        for (unsigned i = 0; i < 5000 && atomic_load(&w->n_freed) == 0; i++)
                blkup_sleep_until_ns(blkup_now_ns() + MS, NULL);
        assert_int_equal(atomic_load(&w->n_freed), 1);
        assert_int_equal(atomic_load(&w->n_ended), w->has_no_memory ? 0 : atomic_load(&w->n_begun));
        (void) pthread_cond_destroy(&w->go);
        (void) pthread_mutex_destroy(&w->lock);
}

static void all_answer(void **state)
{
        struct world w;

        (void) state;
        for (unsigned threads = 1; threads <= 64; threads *= 4) {
                struct blkup_late *l;

                start_world(&w);
                l = blkup_late_start(N, threads, &ops, &w);
                assert_non_null(l);
                blkup_late_lock(l);
                while (blkup_late_wait(l, 60000 * MS, 60000 * MS))
                        ;
                for (size_t i = 0; i < N; i++) {
                        assert_true(blkup_late_is_done(l, i));
                        assert_int_equal(w.took[i], i % 7 != 6);
                }
                blkup_late_unlock(l);
                assert_null(blkup_late_free(l));
                end_world(&w);
                assert_int_equal(atomic_load(&w.n_looks), N);
                assert_true(atomic_load(&w.n_begun) <= (threads < N ? threads : N));
                assert_int_equal(atomic_load(&w.n_dropped), 0);
        }
}

static void who_is_silent_is_left(void **state)
{
        struct world w;
        struct blkup_late *l;
        uint64_t start;

        (void) state;
        start_world(&w);
        w.hangs[3] = w.hangs[20] = true;
        start = blkup_now_ns();
        l = blkup_late_start(N, 4, &ops, &w);
        assert_non_null(l);
        blkup_late_lock(l);
        while (blkup_late_wait(l, 200 * MS, 200 * MS))
                ;
        for (size_t i = 0; i < N; i++) {
                assert_int_equal(blkup_late_is_done(l, i), !w.hangs[i]);
                assert_int_equal(w.took[i], i % 7 != 6 && !w.hangs[i]);
        }
        assert_true(blkup_now_ns() - start >= 200 * MS);
        blkup_late_unlock(l);
        (void) blkup_late_free(l);
        /* Their threads are in the call, and what they use stays. */
        assert_int_equal(atomic_load(&w.n_freed), 0);
        end_world(&w);
        assert_int_equal(w.took[3] + w.took[20], 0);
        assert_int_equal(atomic_load(&w.n_dropped), 1); /* of 3; 20 has nothing to tell */
}

/* All threads are held: what is left is not looked at, not even when one of them comes back. */
static void too_many_are_silent(void **state)
{
        struct world w;
        struct blkup_late *l;

        (void) state;
        start_world(&w);
        w.hangs[0] = w.hangs[1] = true;
        l = blkup_late_start(N, 2, &ops, &w);
        assert_non_null(l);
        blkup_late_lock(l);
        while (blkup_late_wait(l, 100 * MS, 100 * MS))
                ;
        assert_true(blkup_late_is_begun(l, 1) && !blkup_late_is_begun(l, 2));
        assert_false(blkup_late_is_done(l, 2));
        blkup_late_unlock(l);
        (void) blkup_late_free(l);
        end_world(&w);
        assert_int_equal(atomic_load(&w.n_looks), 2);
        assert_int_equal(atomic_load(&w.n_dropped), 2);
}

/* A machine on which answers are slow is given more time. */
static void as_slow_as_the_others(void **state)
{
        struct world w;
        struct blkup_late *l;
        uint64_t start;

        (void) state;
        start_world(&w);
        w.slow_ns = 50 * MS;
        w.hangs[1] = true;
        start = blkup_now_ns();
        l = blkup_late_start(2, 2, &ops, &w);
        assert_non_null(l);
        blkup_late_lock(l);
        while (blkup_late_wait(l, 60 * MS, 60000 * MS))
                ;
        assert_true(blkup_now_ns() - start >= 4 * 50 * MS);
        blkup_late_unlock(l);
        (void) blkup_late_free(l);
        end_world(&w);
}

static void nothing_to_look_at_or_with(void **state)
{
        struct world w;
        struct blkup_late *l;

        (void) state;
        start_world(&w);
        l = blkup_late_start(0, 4, &ops, &w);
        assert_non_null(l);
        blkup_late_lock(l);
        assert_false(blkup_late_wait(l, 60000 * MS, 60000 * MS));
        blkup_late_unlock(l);
        (void) blkup_late_free(l);
        end_world(&w);

        start_world(&w);
        w.has_no_memory = true;
        l = blkup_late_start(N, 4, &ops, &w);
        assert_non_null(l);
        blkup_late_lock(l);
        while (blkup_late_wait(l, 60000 * MS, 60000 * MS))
                ; /* ends: at once, not after a minute */
        assert_false(blkup_late_is_begun(l, 0) || blkup_late_is_done(l, 0));
        blkup_late_unlock(l);
        (void) blkup_late_free(l);
        end_world(&w);
        assert_null(blkup_late_free(NULL));
}

static atomic_uint n_open; /* looks whose thread takes a signal */

static void *look_at_mask(void *to, void *own, size_t i)
{
        sigset_t mask;

        (void) pthread_sigmask(SIG_SETMASK, NULL, &mask);
        if (sigismember(&mask, SIGTERM) != 1 || sigismember(&mask, SIGINT) != 1)
                atomic_fetch_add(&n_open, 1);
        return look(to, own, i);
}

/* A program that waits for a signal in one of its threads gets it there. */
static void signals_are_the_programs(void **state)
{
        struct blkup_late_ops o = ops;
        struct blkup_late *l;
        struct world w;
        sigset_t mask;

        (void) state;
        start_world(&w);
        o.look = look_at_mask;
        l = blkup_late_start(N, 4, &o, &w);
        assert_non_null(l);
        blkup_late_lock(l);
        while (blkup_late_wait(l, 60000 * MS, 60000 * MS))
                ; /* ends: all answer */
        blkup_late_unlock(l);
        (void) blkup_late_free(l);
        assert_int_equal(n_open, 0);
        (void) pthread_sigmask(SIG_SETMASK, NULL, &mask);
        assert_int_equal(sigismember(&mask, SIGTERM), 0);
        end_world(&w);
}

/* What blkup_cond_init() is for. */
static void waits_are_on_the_monotonic_clock(void **state)
{
        pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        pthread_cond_t c;
        uint64_t start = blkup_now_ns();
        const struct timespec at = blkup_to_timespec(start + 30 * MS);
        int r = 0;

        (void) state;
        assert_int_equal(blkup_cond_init(&c), 0);
        (void) pthread_mutex_lock(&lock);
        while (r == 0)
                r = pthread_cond_timedwait(&c, &lock, &at);
        (void) pthread_mutex_unlock(&lock);
        assert_true(blkup_now_ns() - start >= 30 * MS);
        (void) pthread_cond_destroy(&c);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(all_answer),
                cmocka_unit_test(who_is_silent_is_left),
                cmocka_unit_test(too_many_are_silent),
                cmocka_unit_test(as_slow_as_the_others),
                cmocka_unit_test(nothing_to_look_at_or_with),
                cmocka_unit_test(signals_are_the_programs),
                cmocka_unit_test(waits_are_on_the_monotonic_clock),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
