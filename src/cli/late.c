/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "cli/late.h"

#define MAX_THREADS 16 /* a prober waits for its device most of the time */
#define FOUND_NS    UINT64_C(1000000000)
#define FACTOR      4u
#define SILENT_NS   UINT64_C(10000000000)

struct state {
        uint64_t began_ns; /* 0: not asked yet */
        bool is_done;
};

struct blkup_cli_late {
        const struct blkup_cli_late_ops *ops;
        void *to;
        pthread_mutex_t lock; /* of all that follows */
        pthread_cond_t changed;
        unsigned refs;
        bool is_closed;
        struct state *states;
        size_t n, next, n_left;
        uint64_t slowest_ns;
};

static void unref(struct blkup_cli_late *l)
{
        bool is_last;

        (void) pthread_mutex_lock(&l->lock);
        is_last = --l->refs == 0;
        (void) pthread_mutex_unlock(&l->lock);
        if (!is_last)
                return;
        (void) pthread_cond_destroy(&l->changed);
        (void) pthread_mutex_destroy(&l->lock);
        if (l->to)
                l->ops->free(l->to);
        free(l->states);
        free(l);
}

/* Takes one after another, until none is left. */
static void *look_at_some(void *arg)
{
        struct blkup_cli_late *l = arg;
        struct blkup_probe *p = blkup_probe_new();

        if (p && l->ops->prepare)
                l->ops->prepare(p);
        (void) pthread_mutex_lock(&l->lock);
        /* Ends: each is taken once. */
        while (p && l->next < l->n && !l->is_closed) {
                size_t i = l->next++;
                uint64_t start = blkup_now_ns(), took;
                void *answer;

                l->states[i].began_ns = start;
                (void) pthread_mutex_unlock(&l->lock);
                answer = l->ops->look(l->to, p, i);
                (void) pthread_mutex_lock(&l->lock);
                took = blkup_now_ns() - start;
                if (l->slowest_ns < took)
                        l->slowest_ns = took;
                if (answer && l->is_closed)
                        l->ops->drop(answer);
                else if (answer)
                        l->ops->take(l->to, i, answer);
                l->states[i].is_done = true;
                l->n_left--;
                (void) pthread_cond_broadcast(&l->changed);
        }
        (void) pthread_mutex_unlock(&l->lock);
        blkup_probe_unref(p);
        unref(l);
        return NULL;
}

/* How many there are now. With the lock. */
static size_t start_threads(struct blkup_cli_late *l)
{
        pthread_attr_t attr;
        size_t n = 0;

        (void) pthread_attr_init(&attr);
        (void) pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        while (n < l->n && n < MAX_THREADS) {
                pthread_t thread;

                l->refs++;
                if (pthread_create(&thread, &attr, look_at_some, l) != 0) {
                        l->refs--;
                        break;
                }
                n++;
        }
        (void) pthread_attr_destroy(&attr);
        return n;
}

struct blkup_cli_late *blkup_cli_late_start(size_t n, const struct blkup_cli_late_ops *ops, void *to)
{
        struct blkup_cli_late *l = calloc(1, sizeof(*l));
        pthread_condattr_t attr;
        size_t threads;

        if (!l)
                return NULL;
        *l = (struct blkup_cli_late){ .ops = ops, .refs = 1, .n = n, .n_left = n };
        (void) pthread_mutex_init(&l->lock, NULL);
        (void) pthread_condattr_init(&attr);
        (void) pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        (void) pthread_cond_init(&l->changed, &attr);
        (void) pthread_condattr_destroy(&attr);
        l->states = calloc(n ? n : 1, sizeof(*l->states));
        if (!l->states) {
                unref(l);
                return NULL;
        }
        l->to = to;
        (void) pthread_mutex_lock(&l->lock);
        threads = start_threads(l);
        if (threads == 0)
                l->refs++; /* of the one that this thread is then */
        (void) pthread_mutex_unlock(&l->lock);
        if (threads == 0)
                (void) look_at_some(l);
        return l;
}

struct blkup_cli_late *blkup_cli_late_free(struct blkup_cli_late *l)
{
        if (!l)
                return NULL;
        (void) pthread_mutex_lock(&l->lock);
        l->is_closed = true;
        (void) pthread_mutex_unlock(&l->lock);
        unref(l);
        return NULL;
}

void blkup_cli_late_lock(struct blkup_cli_late *l)
{
        (void) pthread_mutex_lock(&l->lock);
}

void blkup_cli_late_unlock(struct blkup_cli_late *l)
{
        (void) pthread_mutex_unlock(&l->lock);
}

bool blkup_cli_late_is_done(const struct blkup_cli_late *l, size_t i)
{
        return l->states[i].is_done;
}

/* When nobody who has not answered is waited for any more. */
static uint64_t wait_until(const struct blkup_cli_late *l, bool is_found)
{
        uint64_t late_ns = is_found ? FOUND_NS : SILENT_NS, until = 0;
        bool is_any_asked = false;

        if (late_ns < l->slowest_ns * FACTOR)
                late_ns = l->slowest_ns * FACTOR;
        if (late_ns > SILENT_NS)
                late_ns = SILENT_NS;
        for (size_t i = 0; i < l->n; i++) {
                const struct state *s = &l->states[i];

                if (s->is_done || s->began_ns == 0)
                        continue;
                is_any_asked = true;
                if (s->began_ns + late_ns > until)
                        until = s->began_ns + late_ns;
        }
        /* Those that are left: their turn comes when one of the others has answered. */
        if (!is_any_asked)
                until = blkup_now_ns() + late_ns;
        return until;
}

bool blkup_cli_late_wait(struct blkup_cli_late *l, bool is_found)
{
        struct timespec at;
        uint64_t until;

        /* Without memory for a prober the threads have gone. */
        if (l->n_left == 0 || l->refs == 1)
                return false;
        until = wait_until(l, is_found);
        if (until <= blkup_now_ns())
                return false;
        at = blkup_to_timespec(until);
        (void) pthread_cond_timedwait(&l->changed, &l->lock, &at);
        return true;
}
