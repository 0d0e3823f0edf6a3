/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sync/late.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "sync/cond.h"

#define FACTOR 4u

struct state {
        uint64_t began_ns; /* 0: not asked yet */
        bool is_done;
};

struct blkup_late {
        const struct blkup_late_ops *ops;
        void *to;
        pthread_mutex_t lock; /* of all that follows */
        pthread_cond_t changed;
        unsigned refs;
        bool is_closed;
        struct state *states;
        size_t n, next, n_left;
        uint64_t slowest_ns;
};

static void unref(struct blkup_late *l)
{
        bool is_last;

        (void) pthread_mutex_lock(&l->lock);
        is_last = --l->refs == 0;
        if (!is_last)
                (void) pthread_cond_broadcast(&l->changed); /* perhaps nobody is left who looks */
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
        struct blkup_late *l = arg;
        void *own = l->ops->begin ? l->ops->begin(l->to) : NULL;
        const bool is_ready = own || !l->ops->begin;

        (void) pthread_mutex_lock(&l->lock);
        /* Ends: each is taken once. */
        while (is_ready && l->next < l->n && !l->is_closed) {
                size_t i = l->next++;
                uint64_t start = blkup_now_ns(), took;
                void *answer;

                l->states[i].began_ns = start;
                (void) pthread_mutex_unlock(&l->lock);
                answer = l->ops->look(l->to, own, i);
                (void) pthread_mutex_lock(&l->lock);
                took = blkup_now_ns() - start;
                if (l->slowest_ns < took)
                        l->slowest_ns = took;
                if (answer && l->is_closed && l->ops->drop)
                        l->ops->drop(answer);
                else if (answer && !l->is_closed)
                        l->ops->take(l->to, i, answer);
                l->states[i].is_done = true;
                l->n_left--;
                (void) pthread_cond_broadcast(&l->changed);
        }
        (void) pthread_mutex_unlock(&l->lock);
        if (own && l->ops->end)
                l->ops->end(own);
        unref(l);
        return NULL;
}

/* How many there are now. With the lock. */
static size_t start_threads(struct blkup_late *l, unsigned max)
{
        pthread_attr_t attr;
        sigset_t all, before;
        size_t n = 0;

        (void) pthread_attr_init(&attr);
        (void) pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        /* The program's signals are for its own threads. */
        (void) sigfillset(&all);
        (void) pthread_sigmask(SIG_SETMASK, &all, &before);
        while (n < l->n && n < max) {
                pthread_t thread;

                l->refs++;
                if (pthread_create(&thread, &attr, look_at_some, l) != 0) {
                        l->refs--;
                        break;
                }
                n++;
        }
        (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
        (void) pthread_attr_destroy(&attr);
        return n;
}

struct blkup_late *blkup_late_start(size_t n, unsigned max_threads, const struct blkup_late_ops *ops,
                                    void *to)
{
        struct blkup_late *l = calloc(1, sizeof(*l));
        size_t threads;

        if (!l)
                return NULL;
        *l = (struct blkup_late){ .ops = ops, .refs = 1, .n = n, .n_left = n };
        (void) pthread_mutex_init(&l->lock, NULL);
        (void) blkup_cond_init(&l->changed);
        l->states = calloc(n ? n : 1, sizeof(*l->states));
        if (!l->states) {
                unref(l);
                return NULL;
        }
        l->to = to;
        (void) pthread_mutex_lock(&l->lock);
        threads = start_threads(l, max_threads);
        if (threads == 0)
                l->refs++; /* of the one that this thread is then */
        (void) pthread_mutex_unlock(&l->lock);
        if (threads == 0)
                (void) look_at_some(l);
        return l;
}

struct blkup_late *blkup_late_free(struct blkup_late *l)
{
        if (!l)
                return NULL;
        (void) pthread_mutex_lock(&l->lock);
        l->is_closed = true;
        (void) pthread_mutex_unlock(&l->lock);
        unref(l);
        return NULL;
}

void blkup_late_lock(struct blkup_late *l)
{
        (void) pthread_mutex_lock(&l->lock);
}

void blkup_late_unlock(struct blkup_late *l)
{
        (void) pthread_mutex_unlock(&l->lock);
}

bool blkup_late_is_begun(const struct blkup_late *l, size_t i)
{
        return l->states[i].began_ns != 0;
}

bool blkup_late_is_done(const struct blkup_late *l, size_t i)
{
        return l->states[i].is_done;
}

/* When nobody who has not answered is waited for any more. */
static uint64_t wait_until(const struct blkup_late *l, uint64_t late_ns, uint64_t max_ns)
{
        uint64_t until = 0;
        bool is_any_asked = false;

        if (late_ns < l->slowest_ns * FACTOR)
                late_ns = l->slowest_ns * FACTOR < max_ns ? l->slowest_ns * FACTOR : max_ns;
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

bool blkup_late_wait(struct blkup_late *l, uint64_t late_ns, uint64_t max_ns)
{
        struct timespec at;
        uint64_t until;

        /* The threads have gone without a look at all of them: there was no memory. */
        if (l->n_left == 0 || l->refs == 1)
                return false;
        until = wait_until(l, late_ns, max_ns < late_ns ? late_ns : max_ns);
        if (until <= blkup_now_ns())
                return false;
        at = blkup_to_timespec(until);
        (void) pthread_cond_timedwait(&l->changed, &l->lock, &at);
        return true;
}
