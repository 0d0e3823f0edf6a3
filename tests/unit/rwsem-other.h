/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For the tests of the semaphore: locks of every kind, and a second thread that does one thing at a time. */
#ifndef BLKUP_TESTS_RWSEM_OTHER_H
#define BLKUP_TESTS_RWSEM_OTHER_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include <blkup/rwsem.h>

#include "base/clock.h"
#include "base/error.h"
#include "sync/barrier.h"

#if defined(__SANITIZE_THREAD__)
#define IS_TSAN true
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define IS_TSAN true
#endif
#endif
#ifndef IS_TSAN
#define IS_TSAN false
#endif

#define MS UINT64_C(1000000)

static struct blkup_rwsem *make(enum blkup_rwsem_policy policy, uint32_t fenced_reads)
{
        struct blkup_rwsem_options opt = { .policy = policy, .fenced_reads = fenced_reads };
        struct blkup_rwsem *sem = NULL;
        struct blkup_error err = { .code = 0 };

        if (blkup_rwsem_new(&sem, &opt, &err) < 0)
                fail_msg("%s", err.message);
        return sem;
}

/* Every kind of lock that this machine (and sanitizer) has; the grace periods of GLOBAL take 10 to 20 ms
 * each. */
static const struct kind {
        const char *name;
        enum blkup_rwsem_policy policy;
        uint32_t fenced_reads;
} kinds[] = {
        { "auto", BLKUP_RWSEM_AUTO, 0 },
        { "auto, open at once", BLKUP_RWSEM_AUTO, BLKUP_RWSEM_OPEN_AT_ONCE },
        { "auto, open after 1", BLKUP_RWSEM_AUTO, 1 },
        { "expedited, never open", BLKUP_RWSEM_EXPEDITED, UINT32_MAX - 1 },
        { "global", BLKUP_RWSEM_GLOBAL, 0 },
        { "fence", BLKUP_RWSEM_FENCE, 0 },
};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

static struct blkup_rwsem *make_kind(const struct kind *k)
{
        struct blkup_barrier_support s = blkup_barrier_query();

        if ((k->policy == BLKUP_RWSEM_EXPEDITED && (IS_TSAN || !s.has_expedited)) ||
            (k->policy == BLKUP_RWSEM_GLOBAL && (IS_TSAN || !s.has_global)))
                return NULL;
        return make(k->policy, k->fenced_reads);
}

/* ---- a second thread that does one thing at a time ---- */

enum verb {
        READ,
        TRY_READ,
        READ_UNTIL,
        READ_UNLOCK,
        WRITE,
        TRY_WRITE,
        WRITE_UNTIL,
        WRITE_UNLOCK,
        UPGRADE,
        DOWNGRADE,
        QUIT,
};

struct other {
        pthread_t thread;
        struct blkup_rwsem *sem;
        pthread_mutex_t lock;
        pthread_cond_t changed;
        enum verb verb;
        uint64_t at_ns;
        bool has_work, has_begun;
        int answer;
        pid_t tid;
        uint32_t self;
};

static int act(struct blkup_rwsem *sem, enum verb verb, uint64_t at_ns)
{
        switch (verb) {
        case READ:
                return blkup_rwsem_read_lock(sem);
        case TRY_READ:
                return blkup_rwsem_try_read_lock(sem);
        case READ_UNTIL:
                return blkup_rwsem_read_lock_until(sem, at_ns);
        case READ_UNLOCK:
                blkup_rwsem_read_unlock(sem);
                return 0;
        case WRITE:
                return blkup_rwsem_write_lock(sem);
        case TRY_WRITE:
                return blkup_rwsem_try_write_lock(sem);
        case WRITE_UNTIL:
                return blkup_rwsem_write_lock_until(sem, at_ns);
        case WRITE_UNLOCK:
                blkup_rwsem_write_unlock(sem);
                return 0;
        case UPGRADE:
                return blkup_rwsem_try_upgrade(sem);
        case DOWNGRADE:
                blkup_rwsem_downgrade(sem);
                return 0;
        case QUIT:
                return 0;
        }
        return -EINVAL;
}

static void *other_main(void *arg)
{
        struct other *o = arg;
        bool goes_on = true;

        pthread_mutex_lock(&o->lock);
        o->tid = (pid_t) syscall(SYS_gettid);
        while (goes_on) {
                enum verb verb;
                uint64_t at_ns;
                int r;

                while (!o->has_work)
                        pthread_cond_wait(&o->changed, &o->lock);
                verb = o->verb;
                at_ns = o->at_ns;
                o->has_begun = true;
                pthread_mutex_unlock(&o->lock);
                r = act(o->sem, verb, at_ns);
                pthread_mutex_lock(&o->lock);
                o->answer = r;
                o->has_work = false;
                o->self = blkup_rwsem_self;
                pthread_cond_broadcast(&o->changed);
                goes_on = verb != QUIT;
        }
        pthread_mutex_unlock(&o->lock);
        return NULL;
}

static void other_start(struct other *o, struct blkup_rwsem *sem)
{
        *o = (struct other){ .sem = sem };
        pthread_mutex_init(&o->lock, NULL);
        pthread_cond_init(&o->changed, NULL);
        assert_int_equal(pthread_create(&o->thread, NULL, other_main, o), 0);
}

static void other_begin(struct other *o, enum verb verb, uint64_t at_ns)
{
        pthread_mutex_lock(&o->lock);
        o->verb = verb;
        o->at_ns = at_ns;
        o->has_work = true;
        o->has_begun = false;
        pthread_cond_broadcast(&o->changed);
        pthread_mutex_unlock(&o->lock);
}

static int other_end(struct other *o)
{
        int r;

        pthread_mutex_lock(&o->lock);
        while (o->has_work)
                pthread_cond_wait(&o->changed, &o->lock);
        r = o->answer;
        pthread_mutex_unlock(&o->lock);
        return r;
}

static int other_do(struct other *o, enum verb verb)
{
        other_begin(o, verb, 0);
        return other_end(o);
}

static void other_quit(struct other *o)
{
        assert_int_equal(other_do(o, QUIT), 0);
        assert_int_equal(pthread_join(o->thread, NULL), 0);
        pthread_mutex_destroy(&o->lock);
        pthread_cond_destroy(&o->changed);
}

/* Returns when the thread sleeps in the kernel inside its call: then it waits for the lock. */
static void other_wait_until_asleep(struct other *o)
{
        char path[64] = "", line[256];
        uint64_t give_up = blkup_now_ns() + 10000 * MS;

        for (;;) {
                bool has_begun;
                FILE *f;
                char *state;

                if (blkup_now_ns() > give_up)
                        fail_msg("the other thread does not wait");
                pthread_mutex_lock(&o->lock);
                if (!o->has_work)
                        fail_msg("the other thread is done, with %d", o->answer);
                has_begun = o->has_begun;
                snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int) o->tid);
                pthread_mutex_unlock(&o->lock);
                if (has_begun) {
                        f = fopen(path, "re");
                        assert_non_null(f);
                        assert_non_null(fgets(line, sizeof(line), f));
                        fclose(f);
                        state = strrchr(line, ')');
                        assert_non_null(state);
                        if (state[2] == 'S')
                                return;
                }
                sched_yield();
        }
}

#endif
