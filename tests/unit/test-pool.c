/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "fail-alloc.h"
#include "sync/pool.h"

#define MS UINT64_C(1000000)

/* ---- callbacks that write down what they did ---- */

struct log {
        pthread_mutex_t lock;
        uint32_t order[4096];
        uint32_t n;
};

static struct log journal = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void note(uint32_t node)
{
        pthread_mutex_lock(&journal.lock);
        if (journal.n < 4096)
                journal.order[journal.n++] = node;
        pthread_mutex_unlock(&journal.lock);
}

static int works(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg, struct blkup_error *err)
{
        (void) p, (void) worker, (void) arg, (void) err;
        note(node);
        return 0;
}

static int fails(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg, struct blkup_error *err)
{
        (void) p, (void) worker, (void) arg;
        note(node);
        return blkup_fail(err, -EIO, "disk %u is gone", node);
}

static int pends(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg, struct blkup_error *err)
{
        (void) p, (void) worker, (void) arg, (void) err;
        note(node);
        return BLKUP_POOL_PENDING;
}

static struct blkup_pool *make(void)
{
        struct blkup_pool *p = NULL;

        journal.n = 0;
        assert_int_equal(blkup_pool_new(&p, 0), 0);
        return p;
}

static uint32_t add(struct blkup_pool *p, const char *name, uint64_t cost_ns, blkup_pool_fn *run, void *arg)
{
        struct blkup_pool_node n = { .name = name, .cost_ns = cost_ns, .run = run, .arg = arg };
        uint32_t node = BLKUP_POOL_NONE;

        assert_int_equal(blkup_pool_add(p, &n, NULL, 0, &node), 0);
        return node;
}

static void needs(struct blkup_pool *p, uint32_t node, uint32_t on)
{
        assert_int_equal(blkup_pool_depend(p, node, on, BLKUP_POOL_NEEDS), 0);
}

static struct blkup_pool_summary run(struct blkup_pool *p, unsigned workers, int expected)
{
        struct blkup_pool_options opt = { .workers = workers };
        struct blkup_pool_summary sum = { .done = 0 };
        struct blkup_error err = { .code = 0 };
        int r = blkup_pool_run(p, &opt, &sum, &err);

        if (r != expected)
                fail_msg("run: %d, not %d: %s", r, expected, err.message);
        return sum;
}

static struct blkup_pool_result result(struct blkup_pool *p, uint32_t node)
{
        struct blkup_pool_result res;

        assert_int_equal(blkup_pool_get(p, node, &res), 0);
        return res;
}

/* ---- order, and no threads where none are needed ---- */

static void test_longest_path_first(void **state)
{
        struct blkup_pool *p = make();
        struct blkup_pool_summary sum;
        uint32_t small = add(p, "small", 5, works, NULL), a = add(p, "a", 1, works, NULL);
        uint32_t b = add(p, "b", 1, works, NULL), c = add(p, "c", 30, works, NULL);
        uint32_t big = add(p, "big", 20, works, NULL), tie = add(p, "tie", 20, works, NULL);

        (void) state;
        needs(p, b, a); /* a - b - c: 32 */
        needs(p, c, b);
        sum = run(p, 1, 0);
        assert_int_equal(journal.n, 6);
        assert_int_equal(journal.order[0], a);
        assert_int_equal(journal.order[1], b);
        assert_int_equal(journal.order[2], c);
        assert_int_equal(journal.order[3], big);
        assert_int_equal(journal.order[4], tie); /* equal: who was added first */
        assert_int_equal(journal.order[5], small);
        assert_int_equal(sum.done, 6);
        assert_int_equal(sum.threads, 0);
        assert_int_equal(sum.critical_ns, 32);
        assert_int_equal(sum.work_ns, 77);
        assert_int_equal(result(p, c).state, BLKUP_POOL_DONE);
        assert_string_equal(result(p, c).name, "c");
        assert_true(result(p, c).start_ns >= result(p, b).end_ns);
        assert_int_equal(run(p, 1, -EALREADY).done, 0);
        assert_null(blkup_pool_unref(p));
        assert_null(blkup_pool_unref(NULL));
}

static void test_no_thread_for_a_chain(void **state)
{
        struct blkup_pool *p = make();
        struct blkup_pool_summary sum;
        uint32_t last = add(p, "first", 1, works, NULL);

        (void) state;
        for (int i = 0; i < 100; i++) {
                uint32_t next = add(p, "link", 1, works, NULL);

                needs(p, next, last);
                last = next;
        }
        sum = run(p, 8, 0);
        assert_int_equal(sum.threads, 0);
        assert_int_equal(sum.done, 101);
        for (uint32_t i = 0; i < 101; i++)
                assert_int_equal(journal.order[i], i);
        p = blkup_pool_unref(p);

        /* an empty graph, and points that only wait */
        p = make();
        sum = run(p, 4, 0);
        assert_int_equal(sum.done + sum.threads, 0);
        p = blkup_pool_unref(p);
        p = make();
        last = add(p, "point", 0, NULL, NULL);
        needs(p, add(p, "after", 0, works, NULL), last);
        assert_int_equal(run(p, 0, 0).done, 2);
        p = blkup_pool_unref(p);
}

static int sleeps(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg, struct blkup_error *err)
{
        (void) p, (void) node, (void) worker, (void) err;
        blkup_sleep_until_ns(blkup_now_ns() + *(uint64_t *) arg, NULL);
        return 0;
}

static void test_workers_at_a_time(void **state)
{
        struct blkup_pool *p = make();
        struct blkup_pool_summary sum;
        uint64_t ns = 20 * MS;

        (void) state;
        for (int i = 0; i < 12; i++)
                add(p, "sleep", ns, sleeps, &ns);
        sum = run(p, 4, 0);
        assert_int_equal(sum.done, 12);
        assert_int_equal(sum.threads, 3); /* and the caller */
        assert_true(sum.span_ns >= 3 * ns);
        /* at most four at any time: where one starts, at most three others run */
        for (uint32_t i = 0; i < 12; i++) {
                int n = 0;

                for (uint32_t j = 0; j < 12; j++)
                        n += result(p, j).start_ns <= result(p, i).start_ns &&
                             result(p, j).end_ns > result(p, i).start_ns;
                assert_in_range(n, 1, 4);
        }
        p = blkup_pool_unref(p);
}

/* ---- failures ---- */

struct meeting {
        pthread_mutex_t lock;
        pthread_cond_t all;
        unsigned n, of;
};

static int meets(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg, struct blkup_error *err)
{
        struct meeting *m = arg;

        (void) p, (void) node, (void) worker, (void) err;
        (void) pthread_mutex_lock(&m->lock);
        m->n++;
        (void) pthread_cond_broadcast(&m->all);
        while (m->n < m->of)
                (void) pthread_cond_wait(&m->all, &m->lock);
        (void) pthread_mutex_unlock(&m->lock);
        return 0;
}

/* Each waits until all are there: without the further workers this would never end. */
static void test_workers_are_added(void **state)
{
        struct meeting m = { .lock = PTHREAD_MUTEX_INITIALIZER, .all = PTHREAD_COND_INITIALIZER, .of = 20 };
        struct blkup_pool_summary sum = { 0 };
        struct blkup_pool *p = make();
        uint64_t start;

        (void) state;
        for (unsigned i = 0; i < m.of; i++)
                (void) add(p, "meets", 1, meets, &m);
        assert_int_equal(blkup_pool_run(p, &(struct blkup_pool_options){ .workers = 20, .at_first = 2 }, &sum,
                                        NULL),
                         0);
        assert_int_equal(sum.done, 20);
        assert_int_equal(sum.threads, 20); /* the caller only watches */
        p = blkup_pool_unref(p);

        /* By doubling, half a ms each time: none of the later is there too early, and all are in the end. */
        p = make();
        m.n = 0;
        for (unsigned i = 0; i < m.of; i++)
                (void) add(p, "meets", 1, meets, &m);
        start = blkup_now_ns();
        assert_int_equal(blkup_pool_run(p,
                                        &(struct blkup_pool_options){
                                                .workers = 64, .at_first = 2, .doubles = true },
                                        &sum, NULL),
                         0);
        assert_int_equal(sum.done, 20);
        assert_int_equal(sum.threads, 20);
        for (unsigned i = 0; i < m.of; i++)
                for (unsigned k = 2, turn = 1; k <= 16; k *= 2, turn++)
                        if (result(p, i).worker > k)
                                assert_true(result(p, i).start_ns - start >= turn * UINT64_C(500000));
        p = blkup_pool_unref(p);

        /* Work that turns up later finds the watch asleep, and wakes it. */
        p = make();
        m.n = 0;
        m.of = 5;
        for (unsigned i = 0; i < m.of; i++) {
                uint32_t first = add(p, "first", 1, works, NULL);

                needs(p, add(p, "meets", 1, meets, &m), first);
        }
        assert_int_equal(blkup_pool_run(p, &(struct blkup_pool_options){ .workers = 5, .at_first = 1 }, &sum,
                                        NULL),
                         0);
        assert_int_equal(sum.done, 10);
        p = blkup_pool_unref(p);
}

static void test_failure(void **state)
{
        (void) state;
        for (unsigned workers = 1; workers <= 3; workers++) {
                struct blkup_pool *p = make();
                struct blkup_pool_summary sum;
                uint32_t bad = add(p, "bad", 1, fails, NULL), child = add(p, "child", 1, works, NULL);
                uint32_t grandchild = add(p, "grandchild", 1, works, NULL),
                         good = add(p, "good", 1, works, NULL);
                uint32_t both = add(p, "both", 1, works, NULL), weak = add(p, "weak", 1, works, NULL);
                uint32_t weaker = add(p, "weaker", 1, works, NULL);

                needs(p, child, bad);
                needs(p, grandchild, child);
                needs(p, both, good);
                needs(p, both, grandchild);
                assert_int_equal(blkup_pool_depend(p, weak, bad, BLKUP_POOL_AFTER), 0);
                assert_int_equal(blkup_pool_depend(p, weaker, grandchild, BLKUP_POOL_AFTER), 0);
                sum = run(p, workers, 0);
                assert_int_equal(sum.done, 3);
                assert_int_equal(sum.failed, 1);
                assert_int_equal(sum.skipped, 3);
                assert_int_equal(result(p, bad).state, BLKUP_POOL_FAILED);
                assert_int_equal(result(p, bad).code, -EIO);
                assert_string_equal(result(p, bad).message, "disk 0 is gone");
                assert_int_equal(result(p, bad).culprit, BLKUP_POOL_NONE);
                for (uint32_t skipped = child; skipped <= both; skipped++) {
                        if (skipped == good)
                                continue;
                        assert_int_equal(result(p, skipped).state, BLKUP_POOL_SKIPPED);
                        assert_int_equal(result(p, skipped).code, -EIO);
                        assert_int_equal(result(p, skipped).culprit,
                                         bad); /* the first cause, not the neighbour */
                        assert_int_equal(result(p, skipped).start_ns, 0);
                }
                assert_int_equal(result(p, weak).state, BLKUP_POOL_DONE);
                assert_int_equal(result(p, weaker).state, BLKUP_POOL_DONE);
                p = blkup_pool_unref(p);
        }
}

static int answers_nonsense(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                            struct blkup_error *err)
{
        (void) p, (void) node, (void) worker, (void) arg, (void) err;
        return 17;
}

static void test_misuse(void **state)
{
        struct blkup_pool_node n = { .name = "n", .run = works };
        struct blkup_pool_summary sum;
        struct blkup_pool *p = NULL;
        struct blkup_error err = { .code = 0 };
        uint32_t a, b, c, node = 77, unknown[] = { 0, 9 };
        struct blkup_pool_result res;
        int r = 0;

        (void) state;
        p = make();
        a = add(p, "alpha", 1, works, NULL);
        b = add(p, "beta", 1, works, NULL);
        c = add(p, "gamma", 1, works, NULL);
        add(p, "outside", 1, works, NULL);
        assert_int_equal(blkup_pool_depend(p, a, a, BLKUP_POOL_NEEDS), -EINVAL);
        assert_int_equal(blkup_pool_depend(p, a, 99, BLKUP_POOL_NEEDS), -EINVAL);
        assert_int_equal(blkup_pool_depend(p, 99, a, BLKUP_POOL_NEEDS), -EINVAL);
        assert_int_equal(blkup_pool_add(p, &n, unknown, 2, &node), -EINVAL);
        assert_int_equal(node, 77);
        assert_int_equal(blkup_pool_get(p, 4, &res), -ENOENT);
        assert_int_equal(blkup_pool_complete(p, a, 0, NULL), -EINVAL);
        assert_int_equal(blkup_pool_complete(p, 99, 0, NULL), -EINVAL);
        needs(p, b, a);
        needs(p, c, b);
        needs(p, a, c);
        needs(p, add(p, "behind the circle", 1, works, NULL), c);
        assert_int_equal(blkup_pool_run(p, NULL, &sum, &err), -ELOOP);
        assert_non_null(strstr(err.message, "alpha waits for gamma waits for beta waits for alpha"));
        assert_int_equal(blkup_pool_replay(p, 2, NULL, &sum, &err), -ELOOP);
        assert_int_equal(journal.n, 0);
        assert_int_equal(blkup_pool_replay(p, 0, NULL, &sum, &err), -EINVAL);
        assert_int_equal(blkup_pool_replay(p, 257, NULL, &sum, &err), -EINVAL);
        assert_int_equal(blkup_pool_run(p, &(struct blkup_pool_options){ .workers = 257 }, NULL, NULL),
                         -EINVAL);
        p = blkup_pool_unref(p);

        p = make();
        a = add(p, "nonsense", 1, answers_nonsense, NULL);
        assert_int_equal(run(p, 1, 0).failed, 1);
        assert_int_equal(result(p, a).code, -EINVAL);
        assert_int_equal(blkup_pool_add(p, &n, NULL, 0, &node), -ECANCELED);
        assert_int_equal(blkup_pool_depend(p, a, a + 1, BLKUP_POOL_NEEDS), -EINVAL);
        assert_int_equal(blkup_pool_complete(p, a, 0, NULL), -EALREADY);
        p = blkup_pool_unref(p);

        /* bounds */
        assert_int_equal(blkup_pool_new(&p, 3), 0);
        for (int i = 0; i < 3; i++)
                add(p, "n", 1, works, NULL);
        assert_int_equal(blkup_pool_add(p, &n, NULL, 0, &node), -ENOSPC);
        for (int i = 0; i < 3 * 16 + 16 && r == 0; i++)
                r = blkup_pool_depend(p, 1, 0, BLKUP_POOL_NEEDS);
        assert_int_equal(r, -ENOSPC);
        assert_int_equal(run(p, 2, 0).done, 3); /* the same edge many times is one wait */
        p = blkup_pool_unref(p);
        assert_string_equal(blkup_pool_state_name(BLKUP_POOL_TIMED_OUT), "timed out");
}

/* ---- pending ---- */

struct completer {
        struct blkup_pool *p;
        uint32_t node;
        int code, answer;
};

static void *complete_soon(void *arg)
{
        struct completer *c = arg;
        struct blkup_pool_result res;

        do { /* ends: the node is started, then answers PENDING */
                blkup_sleep_until_ns(blkup_now_ns() + MS, NULL);
                assert_int_equal(blkup_pool_get(c->p, c->node, &res), 0);
        } while (res.state != BLKUP_POOL_IS_PENDING);
        blkup_sleep_until_ns(blkup_now_ns() + 5 * MS, NULL);
        c->answer = blkup_pool_complete(c->p, c->node, c->code, "told from outside");
        return NULL;
}

static int completes_itself(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                            struct blkup_error *err)
{
        (void) worker, (void) err;
        /* The event may be faster than the callback's return. */
        if (blkup_pool_complete(p, node, *(int *) arg, "early") != 0 ||
            blkup_pool_complete(p, node, 0, NULL) != -EALREADY)
                abort();
        return BLKUP_POOL_PENDING;
}

static void test_pending(void **state)
{
        int ok = 0, bad = -ENODEV;

        (void) state;
        for (int i = 0; i < 4; i++) {
                struct blkup_pool *p = make();
                struct completer c = { .p = p, .code = i % 2 ? -ENOMEDIUM : 0 };
                uint32_t after, early = add(p, "early", 1, completes_itself, i % 2 ? &bad : &ok), last;
                struct blkup_pool_summary sum;
                pthread_t t;

                c.node = add(p, "event", 1, pends, NULL);
                after = add(p, "after", 1, works, NULL);
                last = add(p, "last", 1, works, NULL);
                needs(p, after, c.node);
                needs(p, last, early);
                assert_int_equal(pthread_create(&t, NULL, complete_soon, &c), 0);
                sum = run(p, i < 2 ? 1 : 3, 0);
                assert_int_equal(pthread_join(t, NULL), 0);
                assert_int_equal(c.answer, 0);
                assert_int_equal(sum.done, i % 2 ? 0 : 4);
                assert_int_equal(result(p, after).state, i % 2 ? BLKUP_POOL_SKIPPED : BLKUP_POOL_DONE);
                if (i % 2) {
                        assert_string_equal(result(p, c.node).message, "told from outside");
                        assert_string_equal(result(p, early).message, "early");
                        assert_int_equal(result(p, early).code, -ENODEV);
                        assert_int_equal(result(p, last).culprit, early);
                        assert_int_equal(result(p, after).code, -ENOMEDIUM);
                } else {
                        assert_true(result(p, c.node).end_ns - result(p, c.node).start_ns >= 5 * MS);
                }
                assert_int_equal(blkup_pool_complete(p, c.node, 0, NULL), -EALREADY);
                p = blkup_pool_unref(p);
        }
}

/* ---- time limits ---- */

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

static void test_time_limit(void **state)
{
        (void) state;
        for (unsigned workers = 1; workers <= 2; workers++) {
                struct blkup_pool *p = make();
                struct stuck s;
                struct blkup_pool_node n = { .name = "stuck",
                                             .cost_ns = 10,
                                             .timeout_ns = 30 * MS,
                                             .run = gets_stuck,
                                             .arg = &s,
                                             .drop = drops };
                struct blkup_pool_summary sum;
                uint32_t stuck, behind, event, behind_event, quick;
                uint64_t start;

                assert_int_equal(sem_init(&s.go_on, 0, 0), 0);
                assert_int_equal(sem_init(&s.dropped, 0, 0), 0);
                assert_int_equal(blkup_pool_add(p, &n, NULL, 0, &stuck), 0);
                behind = add(p, "behind", 1, works, NULL);
                needs(p, behind, stuck);
                n = (struct blkup_pool_node){ .name = "event", .timeout_ns = 60 * MS, .run = pends };
                assert_int_equal(blkup_pool_add(p, &n, NULL, 0, &event), 0);
                behind_event = add(p, "behind event", 1, works, NULL);
                needs(p, behind_event, event);
                n = (struct blkup_pool_node){ .name = "quick", .timeout_ns = 10000 * MS, .run = works };
                assert_int_equal(blkup_pool_add(p, &n, NULL, 0, &quick), 0);
                for (int i = 0; i < 5; i++)
                        add(p, "other", 1, works, NULL);

                start = blkup_now_ns();
                sum = run(p, workers, 0);
                assert_true(blkup_now_ns() - start >= 30 * MS);
                assert_true(blkup_now_ns() - start < 5000 * MS);
                assert_int_equal(sum.done, 6);
                assert_int_equal(sum.timed_out, 2);
                assert_int_equal(sum.skipped, 2);
                assert_int_equal(result(p, stuck).state, BLKUP_POOL_TIMED_OUT);
                assert_int_equal(result(p, stuck).code, -ETIMEDOUT);
                assert_string_equal(result(p, stuck).message, "not done within 0.030 s");
                assert_int_equal(result(p, behind).culprit, stuck);
                assert_int_equal(result(p, behind).code, -ETIMEDOUT);
                assert_int_equal(result(p, behind_event).culprit, event);
                assert_int_equal(result(p, quick).state, BLKUP_POOL_DONE);
                assert_int_equal(blkup_pool_complete(p, event, 0, NULL), -EALREADY);

                /* the abandoned thread keeps what it uses; its late answer changes nothing */
                (void) blkup_pool_ref(p);
                p = (blkup_pool_unref(p), p);
                assert_int_equal(sem_trywait(&s.dropped), -1);
                sem_post(&s.go_on);
                assert_int_equal(result(p, stuck).state, BLKUP_POOL_TIMED_OUT);
                p = blkup_pool_unref(p);
                while (sem_wait(&s.dropped) != 0) /* ends: the thread drops the last reference */
                        ;
                assert_int_equal(sem_trywait(&s.dropped), -1); /* once */
                sem_destroy(&s.go_on);
                sem_destroy(&s.dropped);
        }
        /* Lets the abandoned threads, which nobody can join, end before the program does. */
        blkup_sleep_until_ns(blkup_now_ns() + 50 * MS, NULL);
}

/* ---- cancel ---- */

static int cancels(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg, struct blkup_error *err)
{
        (void) worker, (void) arg, (void) err;
        note(node);
        if (blkup_pool_is_cancelled(p))
                abort();
        blkup_pool_cancel(p);
        blkup_pool_cancel(p);
        return blkup_pool_is_cancelled(p) ? 0 : -EINVAL;
}

static void test_cancel(void **state)
{
        (void) state;
        for (unsigned workers = 1; workers <= 3; workers++) {
                struct blkup_pool *p = make();
                struct blkup_pool_node limited = { .name = "limited", .cost_ns = 300, .run = pends };
                struct blkup_pool_summary sum;
                uint32_t event, killer, child;

                limited.timeout_ns = workers == 3 ? 10000 * MS : 0;
                assert_int_equal(blkup_pool_add(p, &limited, NULL, 0, &event), 0);
                killer = add(p, "killer", 200, cancels, NULL);
                child = add(p, "child", 1, works, NULL);
                needs(p, killer, add(p, "first", 1, works, NULL));
                needs(p, child, killer);
                for (int i = 0; i < 50; i++)
                        needs(p, add(p, "late", 1, works, NULL), killer);
                sum = run(p, workers, -ECANCELED);
                assert_int_equal(sum.done + sum.cancelled, 54);
                assert_int_equal(sum.done, 2);
                assert_int_equal(result(p, event).state, BLKUP_POOL_CANCELLED);
                assert_int_equal(result(p, child).state, BLKUP_POOL_CANCELLED);
                assert_int_equal(result(p, child).code, -ECANCELED);
                p = blkup_pool_unref(p);
        }
        /* before the run */
        struct blkup_pool *p = make();

        add(p, "never", 1, works, NULL);
        blkup_pool_cancel(p);
        assert_int_equal(run(p, 2, -ECANCELED).cancelled, 1);
        assert_int_equal(journal.n, 0);
        p = blkup_pool_unref(p);
}

/* ---- graphs that grow ---- */

static int grows(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg, struct blkup_error *err)
{
        int left = (int) (intptr_t) arg;
        struct blkup_pool_node n = { .name = "grown", .cost_ns = 1, .run = left > 1 ? grows : works,
                                     .arg = (void *) (intptr_t) (left - 1) };
        uint32_t x = BLKUP_POOL_NONE, y = BLKUP_POOL_NONE;

        (void) worker, (void) err;
        note(node);
        /* x waits for this node, which is running; y for x; and no circle can be closed */
        if (blkup_pool_add(p, &n, &node, 1, &x) != 0)
                return -1;
        n.run = works;
        if (blkup_pool_add(p, &n, &x, 1, &y) != 0 || blkup_pool_depend(p, x, y, BLKUP_POOL_NEEDS) != -ELOOP ||
            blkup_pool_depend(p, node, x, BLKUP_POOL_NEEDS) != -EBUSY)
                return -1;
        n.timeout_ns = 1;
        return blkup_pool_add(p, &n, NULL, 0, &x) == -EINVAL ? 0 : -1;
}

static int adds_behind_failed(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                              struct blkup_error *err)
{
        struct blkup_pool_node n = { .name = "too late", .run = works };
        uint32_t on[] = { *(uint32_t *) arg, node }, x = BLKUP_POOL_NONE, after = BLKUP_POOL_NONE;

        (void) worker, (void) err;
        if (blkup_pool_add(p, &n, on, 2, &x) != 0 || result(p, x).state != BLKUP_POOL_SKIPPED)
                return -1;
        n.name = "after a failure";
        if (blkup_pool_add(p, &n, &node, 1, &after) != 0)
                return -1;
        return blkup_pool_depend(p, after, *(uint32_t *) arg, BLKUP_POOL_AFTER);
}

static void test_growing(void **state)
{
        (void) state;
        for (unsigned workers = 1; workers <= 4; workers++) {
                struct blkup_pool *p = make();
                struct blkup_pool_summary sum;
                uint32_t bad, late;

                add(p, "root", 1, grows, (void *) (intptr_t) 10);
                sum = run(p, workers, 0);
                assert_int_equal(sum.failed, 0);
                assert_int_equal(sum.done, 1 + 2 * 10);
                assert_int_equal(journal.n, 21);
                p = blkup_pool_unref(p);

                p = make();
                bad = add(p, "bad", 1, fails, NULL);
                late = add(p, "late", 1, adds_behind_failed, &bad);
                assert_int_equal(blkup_pool_depend(p, late, bad, BLKUP_POOL_AFTER), 0);
                sum = run(p, workers, 0);
                assert_int_equal(sum.failed, 1);
                assert_int_equal(sum.skipped, 1);
                assert_int_equal(sum.done, 2);
                assert_int_equal(result(p, 2).culprit, bad);
                p = blkup_pool_unref(p);
        }
}

/* A node that was added with a long path behind it overtakes: the order follows what is known now. */
static int extends_path(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                        struct blkup_error *err)
{
        struct blkup_pool_node n = { .name = "long", .cost_ns = 1000, .run = works };
        uint32_t x = BLKUP_POOL_NONE;

        (void) worker, (void) err;
        note(node);
        return blkup_pool_add(p, &n, arg, 1, &x);
}

static void test_path_grows(void **state)
{
        struct blkup_pool *p = make();
        static uint32_t humble = 2;
        uint32_t first = add(p, "first", 50, extends_path, &humble);
        uint32_t plain = add(p, "plain", 20, works, NULL);

        (void) state;
        assert_int_equal(add(p, "humble", 10, works, NULL), humble);
        assert_int_equal(run(p, 1, 0).done, 4);
        assert_int_equal(journal.order[0], first);
        assert_int_equal(journal.order[1], humble);
        assert_int_equal(journal.order[2], 3);
        assert_int_equal(journal.order[3], plain);
        p = blkup_pool_unref(p);
}

/* ---- random graphs ---- */

static uint64_t seed;

static uint32_t rnd(uint32_t below)
{
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (uint32_t) (seed >> 33) % below;
}

/* Like modules and mounts: most nodes wait for one to three that came before, costs differ by a factor of
 * 100. */
static void random_graph(struct blkup_pool *p, uint32_t n, blkup_pool_fn *fn, void *arg)
{
        for (uint32_t i = 0; i < n; i++) {
                uint32_t node = add(p, "r", 1000 * (1 + rnd(100)), fn, arg);

                for (uint32_t e = rnd(4); i > 0 && e > 0; e--)
                        assert_int_equal(blkup_pool_depend(p, node, rnd(i),
                                                           rnd(5) ? BLKUP_POOL_NEEDS : BLKUP_POOL_AFTER),
                                         0);
        }
}

struct tally {
        uint32_t times[3000];
};

static int counts(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg, struct blkup_error *err)
{
        struct tally *t = arg;

        (void) worker;
        __atomic_fetch_add(&t->times[node], 1, __ATOMIC_RELAXED);
        if (node % 97 == 13)
                return blkup_fail(err, -EIO, "node %u", node);
        if (node % 31 == 7)
                return blkup_pool_complete(p, node, 0, NULL) == 0 ? BLKUP_POOL_PENDING : -EINVAL;
        return 0;
}

static void test_each_once(void **state)
{
        int rounds = getenv("BLKUP_SOAK") ? 2000 : 20;
        static struct tally t;

        (void) state;
        seed = 4;
        for (int round = 0; round < rounds; round++) {
                struct blkup_pool *p = make();
                uint32_t n = 100 + rnd(400), ended = 0;
                struct blkup_pool_summary sum;

                memset(&t, 0, sizeof(t));
                random_graph(p, n, counts, &t);
                sum = run(p, 1 + rnd(8), 0);
                ended = sum.done + sum.failed + sum.skipped;
                assert_int_equal(ended, n);
                for (uint32_t i = 0; i < n; i++) {
                        struct blkup_pool_result res = result(p, i);

                        assert_int_equal(t.times[i], res.state == BLKUP_POOL_SKIPPED ? 0 : 1);
                        assert_int_equal(res.state == BLKUP_POOL_FAILED, t.times[i] == 1 && i % 97 == 13);
                        if (res.state == BLKUP_POOL_SKIPPED)
                                assert_int_equal(result(p, res.culprit).state, BLKUP_POOL_FAILED);
                }
                p = blkup_pool_unref(p);
        }
}

static void test_replay(void **state)
{
        static const unsigned cpus[] = { 1, 2, 4, 8, 16, 64 };
        double worst = 0, worst_noisy = 0;

        (void) state;
        seed = 1;
        for (int round = 0; round < 30; round++) {
                struct blkup_pool *p = make();
                uint32_t n = 20 + rnd(1500);
                static uint64_t took[2000];

                random_graph(p, n, works, NULL);
                for (uint32_t i = 0; i < n; i++)
                        took[i] = 500 + rnd(200000);
                for (size_t c = 0; c < sizeof(cpus) / sizeof(cpus[0]); c++) {
                        struct blkup_pool_summary a = { .done = 0 }, b = { .done = 0 };
                        struct blkup_pool_result res;
                        uint64_t bound;
                        static uint64_t starts[2000];

                        assert_int_equal(blkup_pool_replay(p, cpus[c], NULL, &a, NULL), 0);
                        for (uint32_t i = 0; i < n; i++)
                                starts[i] = result(p, i).start_ns;
                        assert_int_equal(a.done, n);
                        bound = a.critical_ns > a.work_ns / cpus[c] ? a.critical_ns : a.work_ns / cpus[c];
                        assert_true(a.span_ns >= bound);
                        if ((double) a.span_ns / (double) bound > worst)
                                worst = (double) a.span_ns / (double) bound;
                        /* again: the same to the nanosecond */
                        assert_int_equal(blkup_pool_replay(p, cpus[c], NULL, &b, NULL), 0);
                        assert_memory_equal(&a, &b, sizeof(a));
                        for (uint32_t i = 0; i < n; i++)
                                assert_int_equal(starts[i], result(p, i).start_ns);
                        if (cpus[c] == 1)
                                assert_int_equal(a.span_ns, a.work_ns);

                        /* what nodes took in truth, when the costs were no better than a guess */
                        assert_int_equal(blkup_pool_replay(p, cpus[c], took, &b, NULL), 0);
                        bound = b.critical_ns > b.work_ns / cpus[c] ? b.critical_ns : b.work_ns / cpus[c];
                        assert_true(b.span_ns >= bound);
                        if ((double) b.span_ns / (double) bound > worst_noisy)
                                worst_noisy = (double) b.span_ns / (double) bound;
                        res = result(p, n - 1);
                        assert_int_equal(res.end_ns - res.start_ns, took[n - 1]);
                }
                /* and then in truth */
                needs(p, 1, 0);
                assert_int_equal(run(p, 2, 0).done, n);
                assert_int_equal(blkup_pool_replay(p, 2, NULL, NULL, NULL), -EALREADY);
                p = blkup_pool_unref(p);
        }
        printf("  longest replay against max(critical path, work / CPUs): %.3f; with wrong costs %.3f\n",
               worst, worst_noisy);
        assert_true(worst <= 1.1);
}

/* ---- memory ---- */

static void test_no_memory(void **state)
{
        long n = 0;
        bool whole = false;

        (void) state;
        for (; !whole; n++) { /* ends: when a whole round needs fewer allocations than n */
                struct blkup_pool_node node = { .name = "node", .run = fails, .timeout_ns = 1000 * MS };
                struct blkup_pool *p = NULL;
                uint32_t id = 0;
                int r;

                assert_true(n < 1000);
                fail_alloc_arm(n, false);
                r = blkup_pool_new(&p, 0);
                for (uint32_t i = 0; r == 0 && i < 40; i++) {
                        r = blkup_pool_add(p, &node, NULL, 0, &id);
                        if (r == 0 && i > 0)
                                r = blkup_pool_depend(p, id, i / 2, BLKUP_POOL_AFTER);
                }
                if (r == 0)
                        r = blkup_pool_run(p, &(struct blkup_pool_options){ .workers = 1 }, NULL, NULL);
                whole = fail_alloc_disarm() == 0;
                /* A message that finds no memory is no reason to fail. */
                if (r != 0)
                        assert_true(r == -ENOMEM && !whole);
                p = blkup_pool_unref(p);
        }
        assert_true(n > 40);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_longest_path_first),
                cmocka_unit_test(test_no_thread_for_a_chain),
                cmocka_unit_test(test_workers_at_a_time),
                cmocka_unit_test(test_workers_are_added),
                cmocka_unit_test(test_failure),
                cmocka_unit_test(test_misuse),
                cmocka_unit_test(test_pending),
                cmocka_unit_test(test_time_limit),
                cmocka_unit_test(test_cancel),
                cmocka_unit_test(test_growing),
                cmocka_unit_test(test_path_grows),
                cmocka_unit_test(test_each_once),
                cmocka_unit_test(test_replay),
                cmocka_unit_test(test_no_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
