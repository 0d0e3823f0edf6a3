/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include <stdlib.h>

#include "rwsem-other.h"

/* ---- what one thread sees ---- */

static void test_policies(void **state)
{
        struct blkup_barrier_support s = blkup_barrier_query();
        struct blkup_rwsem_options opt = { .policy = BLKUP_RWSEM_FENCE, .extra_entry_barriers = 1 };
        struct blkup_rwsem *sem = NULL;
        struct blkup_error err = { .code = 0 };

        (void) state;
        assert_int_equal(blkup_rwsem_setup(NULL), 0);
        assert_int_equal(blkup_rwsem_setup(&err), 0);

        sem = make(BLKUP_RWSEM_AUTO, 0);
        assert_int_equal(blkup_rwsem_get_policy(sem),
                         s.has_expedited && !IS_TSAN ? BLKUP_RWSEM_EXPEDITED : BLKUP_RWSEM_FENCE);
        assert_null(blkup_rwsem_unref(sem));
        assert_null(blkup_rwsem_unref(NULL));
        assert_int_equal(blkup_rwsem_new(&sem, NULL, NULL), 0);
        sem = blkup_rwsem_unref(sem);

        assert_int_equal(blkup_rwsem_new(&sem, &opt, &err), -EINVAL);
        assert_non_null(strstr(err.message, "extra barriers"));
        opt = (struct blkup_rwsem_options){ .policy = BLKUP_RWSEM_AUTO, .extra_exit_barriers = 1000 };
        assert_int_equal(blkup_rwsem_new(&sem, &opt, NULL), -EINVAL);
        opt = (struct blkup_rwsem_options){ .policy = (enum blkup_rwsem_policy) 77 };
        assert_int_equal(blkup_rwsem_new(&sem, &opt, &err), -EINVAL);
        if (IS_TSAN || !s.has_expedited) {
                opt = (struct blkup_rwsem_options){ .policy = BLKUP_RWSEM_EXPEDITED };
                assert_int_equal(blkup_rwsem_new(&sem, &opt, &err), -EOPNOTSUPP);
                assert_non_null(strstr(err.message, "policy expedited"));
        }
        assert_null(sem); /* untouched by failures */
        assert_string_equal(blkup_rwsem_policy_name(BLKUP_RWSEM_GLOBAL), "global");
}

static void test_one_thread(void **state)
{
        (void) state;
        for (size_t i = 0; i < N_KINDS; i++) {
                struct blkup_rwsem *sem = make_kind(&kinds[i]);

                if (!sem)
                        continue;
                /* nested reads, and what does not go together with them */
                for (int n = 0; n < 3; n++)
                        assert_int_equal(blkup_rwsem_read_lock(sem), 0);
                assert_int_equal(blkup_rwsem_write_lock(sem), -EDEADLK);
                assert_int_equal(blkup_rwsem_try_write_lock(sem), -EDEADLK);
                assert_int_equal(blkup_rwsem_try_upgrade(sem), -EINVAL);
                assert_int_equal(blkup_rwsem_try_read_lock(sem), 0);
                for (int n = 0; n < 4; n++)
                        blkup_rwsem_read_unlock(sem);
                assert_int_equal(blkup_rwsem_try_upgrade(sem), -EINVAL);

                assert_int_equal(blkup_rwsem_write_lock(sem), 0);
                assert_int_equal(blkup_rwsem_read_lock(sem), -EDEADLK);
                assert_int_equal(blkup_rwsem_try_read_lock(sem), -EDEADLK);
                assert_int_equal(blkup_rwsem_write_lock(sem), -EDEADLK);
                assert_int_equal(blkup_rwsem_write_lock_until(sem, 1), -EDEADLK);
                assert_int_equal(blkup_rwsem_try_write_lock(sem), -EDEADLK);
                blkup_rwsem_write_unlock(sem);

                /* down and up and down */
                assert_int_equal(blkup_rwsem_try_write_lock(sem), 0);
                blkup_rwsem_downgrade(sem);
                assert_int_equal(blkup_rwsem_write_lock(sem), -EDEADLK);
                assert_int_equal(blkup_rwsem_try_upgrade(sem), 0);
                assert_int_equal(blkup_rwsem_read_lock(sem), -EDEADLK);
                blkup_rwsem_downgrade(sem);
                blkup_rwsem_read_unlock(sem);

                /* timed forms that need not wait, though their time has passed */
                assert_int_equal(blkup_rwsem_write_lock_until(sem, 0), 0);
                blkup_rwsem_write_unlock(sem);
                assert_int_equal(blkup_rwsem_read_lock_until(sem, 0), 0);
                blkup_rwsem_read_unlock(sem);
                sem = blkup_rwsem_unref(sem);
        }
}

/* ---- two threads ---- */

static void test_try_and_timed(void **state)
{
        (void) state;
        for (size_t i = 0; i < N_KINDS; i++) {
                struct blkup_rwsem *sem = make_kind(&kinds[i]);
                struct blkup_rwsem_stats before, after;
                struct other o;
                uint64_t t;

                if (!sem)
                        continue;
                other_start(&o, sem);
                assert_int_equal(other_do(&o, READ), 0);
                blkup_rwsem_get_stats(sem, &before);
                assert_int_equal(blkup_rwsem_try_write_lock(sem), -EBUSY);
                blkup_rwsem_get_stats(sem, &after);
                /* the refusal was cheap */
                assert_int_equal(after.barriers, before.barriers);
                t = blkup_now_ns();
                assert_int_equal(blkup_rwsem_write_lock_until(sem, t + 20 * MS), -ETIMEDOUT);
                assert_true(blkup_now_ns() >= t + 20 * MS);
                /* who gave up left nothing behind: readers and writers go on */
                assert_int_equal(blkup_rwsem_read_lock(sem), 0);
                assert_int_equal(blkup_rwsem_try_upgrade(sem), -EBUSY);
                blkup_rwsem_read_unlock(sem);
                assert_int_equal(other_do(&o, READ_UNLOCK), 0);
                assert_int_equal(blkup_rwsem_write_lock_until(sem, blkup_now_ns() + 10000 * MS), 0);

                assert_int_equal(other_do(&o, TRY_READ), -EBUSY);
                assert_int_equal(other_do(&o, TRY_WRITE), -EBUSY);
                t = blkup_now_ns();
                other_begin(&o, READ_UNTIL, t + 20 * MS);
                assert_int_equal(other_end(&o), -ETIMEDOUT);
                assert_true(blkup_now_ns() >= t + 20 * MS);
                other_begin(&o, READ_UNTIL, 0);
                assert_int_equal(other_end(&o), -ETIMEDOUT);
                t = blkup_now_ns();
                other_begin(&o, WRITE_UNTIL, t + 20 * MS);
                assert_int_equal(other_end(&o), -ETIMEDOUT);
                assert_true(blkup_now_ns() >= t + 20 * MS);
                blkup_rwsem_write_unlock(sem);

                /* a refused try-read is taken back: a writer does not see it */
                assert_int_equal(other_do(&o, TRY_WRITE), 0);
                assert_int_equal(other_do(&o, WRITE_UNLOCK), 0);
                other_quit(&o);
                sem = blkup_rwsem_unref(sem);
        }
}

static void test_waiting(void **state)
{
        (void) state;
        for (size_t i = 0; i < N_KINDS; i++) {
                struct blkup_rwsem *sem = make_kind(&kinds[i]);
                struct blkup_rwsem_stats st;
                struct other o;

                if (!sem)
                        continue;
                other_start(&o, sem);

                /* a reader sleeps until the writer leaves */
                assert_int_equal(blkup_rwsem_write_lock(sem), 0);
                other_begin(&o, READ, 0);
                other_wait_until_asleep(&o);
                blkup_rwsem_write_unlock(sem);
                assert_int_equal(other_end(&o), 0);
                blkup_rwsem_get_stats(sem, &st);
                assert_int_equal(st.read_waits, 1);
                assert_true(st.read_wait_ns > 0 && st.read_wait_max_ns == st.read_wait_ns);
                assert_int_equal(other_do(&o, READ_UNLOCK), 0);

                /* a writer sleeps until the reader leaves; meanwhile the reader may nest, others may not
                 * enter */
                assert_int_equal(blkup_rwsem_read_lock(sem), 0);
                other_begin(&o, WRITE, 0);
                other_wait_until_asleep(&o);
                assert_int_equal(blkup_rwsem_read_lock(sem), 0);
                assert_int_equal(blkup_rwsem_try_read_lock(sem), 0);
                blkup_rwsem_read_unlock(sem);
                blkup_rwsem_read_unlock(sem);
                other_wait_until_asleep(&o);
                blkup_rwsem_read_unlock(sem);
                assert_int_equal(other_end(&o), 0);
                assert_int_equal(blkup_rwsem_try_read_lock(sem), -EBUSY);

                /* a writer sleeps until the writer leaves */
                assert_int_equal(other_do(&o, WRITE_UNLOCK), 0);
                assert_int_equal(blkup_rwsem_write_lock(sem), 0);
                other_begin(&o, WRITE, 0);
                other_wait_until_asleep(&o);
                blkup_rwsem_write_unlock(sem);
                assert_int_equal(other_end(&o), 0);

                /* downgrade lets readers in, and keeps writers out */
                assert_int_equal(other_do(&o, DOWNGRADE), 0);
                assert_int_equal(blkup_rwsem_read_lock(sem), 0);
                assert_int_equal(other_do(&o, UPGRADE), -EBUSY);
                blkup_rwsem_read_unlock(sem);
                assert_int_equal(blkup_rwsem_try_write_lock(sem), -EBUSY);
                assert_int_equal(other_do(&o, UPGRADE), 0);
                assert_int_equal(blkup_rwsem_try_read_lock(sem), -EBUSY);
                assert_int_equal(other_do(&o, WRITE_UNLOCK), 0);
                other_quit(&o);
                sem = blkup_rwsem_unref(sem);
        }
}

/* Two that read: the one that upgrades while a writer queues is refused, not caught in a circle. */
static void test_upgrade_beside_writer(void **state)
{
        struct blkup_rwsem *sem = make(BLKUP_RWSEM_AUTO, 0);
        struct other o;

        (void) state;
        other_start(&o, sem);
        assert_int_equal(blkup_rwsem_read_lock(sem), 0);
        other_begin(&o, WRITE, 0);
        other_wait_until_asleep(&o);
        assert_int_equal(blkup_rwsem_try_upgrade(sem), -EBUSY);
        blkup_rwsem_read_unlock(sem);
        assert_int_equal(other_end(&o), 0);
        assert_int_equal(other_do(&o, WRITE_UNLOCK), 0);
        other_quit(&o);
        sem = blkup_rwsem_unref(sem);
}

/* Writers in the order they came; those of one batch share a barrier; a reader that waited goes before the
 * next batch. */
static void test_queue_and_batch(void **state)
{
        enum { N = 6 };
        struct blkup_rwsem_options opt = { .batch_writers = 3, .batch_us = 60000000,
                                           .fenced_reads = BLKUP_RWSEM_OPEN_AT_ONCE };
        struct blkup_rwsem *sem = NULL;
        struct blkup_rwsem_stats before, after;
        struct other w[N], r;
        bool is_expedited;

        (void) state;
        assert_int_equal(blkup_rwsem_new(&sem, &opt, NULL), 0);
        is_expedited = blkup_rwsem_get_policy(sem) == BLKUP_RWSEM_EXPEDITED;
        other_start(&r, sem);
        assert_int_equal(blkup_rwsem_write_lock(sem), 0);
        blkup_rwsem_get_stats(sem, &before);
        for (int i = 0; i < N; i++) {
                other_start(&w[i], sem);
                other_begin(&w[i], WRITE, 0);
                other_wait_until_asleep(&w[i]);
        }
        other_begin(&r, READ, 0);
        other_wait_until_asleep(&r);

        /* this thread was the first of three */
        blkup_rwsem_write_unlock(sem);
        assert_int_equal(other_end(&w[0]), 0);
        other_wait_until_asleep(&r);
        assert_int_equal(other_do(&w[0], WRITE_UNLOCK), 0);
        assert_int_equal(other_end(&w[1]), 0);
        other_wait_until_asleep(&r);
        blkup_rwsem_get_stats(sem, &after);
        assert_int_equal(after.handed_over - before.handed_over, 2);
        assert_int_equal(after.barriers - before.barriers, 0);

        /* the batch is full: the reader, although four writers came before it */
        assert_int_equal(other_do(&w[1], WRITE_UNLOCK), 0);
        assert_int_equal(other_end(&r), 0);
        other_wait_until_asleep(&w[2]);
        assert_int_equal(other_do(&r, READ_UNLOCK), 0);
        assert_int_equal(other_end(&w[2]), 0);
        for (int i = 2; i < N; i++) {
                if (i + 1 < N)
                        other_wait_until_asleep(&w[i + 1]);
                assert_int_equal(other_do(&w[i], WRITE_UNLOCK), 0);
                if (i + 1 < N)
                        assert_int_equal(other_end(&w[i + 1]), 0);
        }
        blkup_rwsem_get_stats(sem, &after);
        assert_int_equal(after.writes - before.writes, N);
        assert_int_equal(after.handed_over - before.handed_over,
                         4); /* 0 1 | 2 3 4 | 5, first of each apart */
        assert_int_equal(after.barriers - before.barriers, is_expedited ? 2 : 0);
        for (int i = 0; i < N; i++)
                other_quit(&w[i]);
        other_quit(&r);
        sem = blkup_rwsem_unref(sem);
}

/* A queued writer whose time is over leaves the queue from the front, the middle and the end. */
static void test_queue_times_out(void **state)
{
        struct blkup_rwsem *sem = make(BLKUP_RWSEM_AUTO, 0);
        struct other w[4];

        (void) state;
        for (int leaver = 0; leaver < 4; leaver++) {
                assert_int_equal(blkup_rwsem_write_lock(sem), 0);
                for (int i = 0; i < 4; i++) {
                        other_start(&w[i], sem);
                        other_begin(&w[i], i == leaver ? WRITE_UNTIL : WRITE, blkup_now_ns() + 30 * MS);
                        if (i != leaver)
                                other_wait_until_asleep(&w[i]);
                }
                assert_int_equal(other_end(&w[leaver]), -ETIMEDOUT);
                blkup_rwsem_write_unlock(sem);
                for (int i = 0; i < 4; i++)
                        if (i != leaver) {
                                assert_int_equal(other_end(&w[i]), 0);
                                assert_int_equal(other_do(&w[i], WRITE_UNLOCK), 0);
                        }
                for (int i = 0; i < 4; i++)
                        other_quit(&w[i]);
        }
        assert_int_equal(blkup_rwsem_try_write_lock(sem), 0);
        blkup_rwsem_write_unlock(sem);
        sem = blkup_rwsem_unref(sem);
}

/* ---- barriers are counted, and saved where they can be ---- */

static void test_barriers(void **state)
{
        struct blkup_rwsem_options opt = { .policy = BLKUP_RWSEM_EXPEDITED,
                                           .extra_entry_barriers = 1,
                                           .extra_exit_barriers = 1,
                                           .fenced_reads = BLKUP_RWSEM_OPEN_AT_ONCE };
        struct blkup_rwsem_stats st;
        struct blkup_rwsem *sem;

        (void) state;
        if (IS_TSAN || !blkup_barrier_query().has_expedited) {
                printf("SKIP: no expedited membarrier here\n");
                skip();
        }
        /* every writer its barrier */
        sem = make(BLKUP_RWSEM_EXPEDITED, BLKUP_RWSEM_OPEN_AT_ONCE);
        for (int i = 0; i < 10; i++) {
                assert_int_equal(blkup_rwsem_write_lock(sem), 0);
                blkup_rwsem_write_unlock(sem);
        }
        blkup_rwsem_get_stats(sem, &st);
        assert_int_equal(st.barriers, 10);
        assert_int_equal(st.writes, 10);
        assert_true(st.barrier_ns > 0 && st.write_wait_ns >= st.barrier_ns);
        sem = blkup_rwsem_unref(sem);

        /* readers fence 5 times, then open: one barrier, and none for the writers that follow each other */
        sem = make(BLKUP_RWSEM_EXPEDITED, 5);
        for (int round = 0; round < 3; round++) {
                for (int i = 0; i < 5; i++) {
                        blkup_rwsem_get_stats(sem, &st);
                        assert_int_equal(st.reopened, round);
                        assert_int_equal(blkup_rwsem_read_lock(sem), 0);
                        blkup_rwsem_read_unlock(sem);
                }
                blkup_rwsem_get_stats(sem, &st);
                assert_int_equal(st.reopened, round + 1);
                for (int i = 0; i < 4; i++) {
                        assert_int_equal(blkup_rwsem_write_lock(sem), 0);
                        blkup_rwsem_write_unlock(sem);
                }
                blkup_rwsem_get_stats(sem, &st);
                assert_int_equal(st.barriers, round + 1);
        }
        sem = blkup_rwsem_unref(sem);

        /* the algorithms of 2012: two on entry, one on exit */
        assert_int_equal(blkup_rwsem_new(&sem, &opt, NULL), 0);
        for (int i = 0; i < 5; i++) {
                assert_int_equal(blkup_rwsem_write_lock(sem), 0);
                blkup_rwsem_write_unlock(sem);
        }
        blkup_rwsem_get_stats(sem, &st);
        assert_int_equal(st.barriers, 15);
        sem = blkup_rwsem_unref(sem);
}

/* ---- exclusion, with more threads than the first chunk has slots ---- */

struct shared {
        struct blkup_rwsem *sem;
        uint64_t a, pad[16], b; /* changed together by writers, plain accesses: what TSan watches */
        uint64_t reads, writes;
        int stop;
        bool is_wild; /* also try, timed, downgrade, upgrade */
};

static void *reader_main(void *arg)
{
        struct shared *s = arg;
        uint64_t n = 0;
        int r;

        while (!__atomic_load_n(&s->stop, __ATOMIC_RELAXED)) {
                if (s->is_wild && n % 7 == 3)
                        r = blkup_rwsem_try_read_lock(s->sem);
                else if (s->is_wild && n % 7 == 5)
                        r = blkup_rwsem_read_lock_until(s->sem, blkup_now_ns() + 20000);
                else
                        r = blkup_rwsem_read_lock(s->sem);
                n++;
                if (r == -EBUSY || r == -ETIMEDOUT)
                        continue;
                if (r != 0 || s->a != s->b)
                        abort();
                if (s->is_wild && n % 5 == 0) {
                        if (blkup_rwsem_read_lock(s->sem) != 0)
                                abort();
                        blkup_rwsem_read_unlock(s->sem);
                }
                if (s->is_wild && n % 11 == 0 && blkup_rwsem_try_upgrade(s->sem) == 0) {
                        s->a++;
                        s->b++;
                        blkup_rwsem_downgrade(s->sem);
                }
                if (s->a != s->b)
                        abort();
                blkup_rwsem_read_unlock(s->sem);
        }
        (void) __atomic_fetch_add(&s->reads, n, __ATOMIC_RELAXED);
        return NULL;
}

static void *writer_main(void *arg)
{
        struct shared *s = arg;
        uint64_t n = 0;

        while (!__atomic_load_n(&s->stop, __ATOMIC_RELAXED)) {
                int r = 0;

                if (s->is_wild && n % 3 == 1)
                        r = blkup_rwsem_try_write_lock(s->sem);
                else if (s->is_wild && n % 3 == 2)
                        r = blkup_rwsem_write_lock_until(s->sem, blkup_now_ns() + 50000);
                else
                        r = blkup_rwsem_write_lock(s->sem);
                n++;
                if (r == -EBUSY || r == -ETIMEDOUT)
                        continue;
                if (r != 0 || s->a != s->b)
                        abort();
                s->a++;
                s->b++;
                blkup_rwsem_write_unlock(s->sem);
                (void) __atomic_fetch_add(&s->writes, 1, __ATOMIC_RELAXED);
        }
        return NULL;
}

static void race(const struct kind *k, int n_readers, int n_writers, bool is_wild, uint64_t ms)
{
        struct shared s = { .is_wild = is_wild };
        pthread_t *t = calloc((size_t) (n_readers + n_writers), sizeof(*t));
        uint64_t start = blkup_now_ns(), until;
        struct blkup_rwsem_stats st;

        assert_non_null(t);
        s.sem = make_kind(k);
        if (s.sem) {
                for (int i = 0; i < n_readers + n_writers; i++)
                        assert_int_equal(pthread_create(&t[i], NULL,
                                                        i < n_readers ? reader_main : writer_main, &s),
                                         0);
                until = blkup_now_ns() + ms * MS;
                /* With many more threads than CPUs a writer may not even have begun by then. Ends: 20 s at
                 * most. */
                do
                        blkup_sleep_until_ns(until, NULL);
                while (__atomic_load_n(&s.writes, __ATOMIC_RELAXED) < 10 &&
                       (until = blkup_now_ns() + 10 * MS) < start + 20000 * MS);
                __atomic_store_n(&s.stop, 1, __ATOMIC_RELAXED);
                for (int i = 0; i < n_readers + n_writers; i++)
                        assert_int_equal(pthread_join(t[i], NULL), 0);
                if (s.reads == 0 || s.writes == 0 || s.a != s.b)
                        fail_msg("%s: %" PRIu64 " reads, %" PRIu64 " writes, %" PRIu64 " and %" PRIu64,
                                 k->name, s.reads, s.writes, s.a, s.b);
                blkup_rwsem_get_stats(s.sem, &st);
                printf("  %-22s %2d+%d%s: %" PRIu64 " reads, %" PRIu64 " writes, %" PRIu64
                       " handed over, %" PRIu64 " barriers, reopened %" PRIu64
                       ", longest waits %.1f and %.1f ms\n",
                       k->name, n_readers, n_writers, is_wild ? " wild" : "", s.reads, st.writes,
                       st.handed_over, st.barriers, st.reopened, (double) st.read_wait_max_ns / 1e6,
                       (double) st.write_wait_max_ns / 1e6);
                s.sem = blkup_rwsem_unref(s.sem);
        }
        free(t);
}

static void test_races(void **state)
{
        uint64_t ms = getenv("BLKUP_SOAK") ? 20000 : 250;

        (void) state;
        for (size_t i = 0; i < N_KINDS; i++) {
                race(&kinds[i], 2, 1, false, ms);
                race(&kinds[i], 3, 3, true, ms);
        }
        race(&kinds[0], 40, 2, true, 2 * ms);
        race(&kinds[2], 40, 2, true, 2 * ms);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_policies),
                cmocka_unit_test(test_one_thread),
                cmocka_unit_test(test_try_and_timed),
                cmocka_unit_test(test_waiting),
                cmocka_unit_test(test_upgrade_beside_writer),
                cmocka_unit_test(test_queue_and_batch),
                cmocka_unit_test(test_queue_times_out),
                cmocka_unit_test(test_barriers),
                cmocka_unit_test(test_races),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
