/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "modules/held.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "host/hostfile.h"
#include "modules/name.h"
#include "sync/cond.h"

/* A load that is not held takes some ms; the first look comes after the longest that were measured but for
 * those that probe devices. */
#define FIRST_LOOK_NS UINT64_C(50000000)
#define MAX_STEP_NS   UINT64_C(250000000)
/* A module that nobody needs: its place among the workers is wanted by others. */
#define LEAF_NS       UINT64_C(200000000)
/* Of one that has not started: it may only be slow. */
#define LATE_NS       UINT64_C(1000000000)
#define ASK_NS        UINT64_C(50000000)
#define STACK_BYTES   ((size_t) 128 << 10)

struct load {
        struct blkup_held_load is;
        uint64_t start_ns, next_ns, live_ns;
        bool is_running, is_left, is_told;
};

struct blkup_held {
        const char *root;
        struct blkup_held_calls calls;
        pthread_mutex_t lock;
        pthread_cond_t changed;
        pthread_mutex_t telling; /* whoever calls holds(), so that the last word is the last; before `lock` */
        uint64_t told_ns;        /* with `telling`: the last word */
        bool is_stopped, has_thread, is_given_up;
        uint64_t holds_since_ns; /* as it is to be told */
        uint64_t wakes_ns;       /* when the thread looks next */
        pthread_t thread;
        size_t n;
        struct load loads[];
};

static bool is_live(const struct blkup_held *h, const char *name)
{
        char path[BLKUP_MODULE_NAME_CAP + 16], state[16];
        BLKUP_CLEANUP_CLOSE int fd = -1;

        if (strlen(name) >= BLKUP_MODULE_NAME_CAP || !blkup_module_is_name(name))
                return false;
        (void) snprintf(path, sizeof(path), "sys/module/%s", name);
        fd = blkup_host_open(h->root, path, O_RDONLY | O_DIRECTORY);
        return fd >= 0 && blkup_host_attribute(fd, "initstate", state, sizeof(state)) >= 0 &&
               strcmp(state, "live") == 0;
}

/* May who waits for it go on? */
static bool may_leave(const struct blkup_held *h, const struct load *l, uint64_t age)
{
        if (l->is.has_after && (h->calls.after_ns == 0 || age < h->calls.after_ns))
                return false;
        if (l->live_ns)
                return l->is.is_needed || age >= LEAF_NS;
        /* What needs it would only wait in the kernel. */
        return age >= LATE_NS && !l->is.is_needed;
}

/* Looks at one load; with the lock, which is let go meanwhile. */
static void look(struct blkup_held *h, size_t i, uint64_t now)
{
        struct load *l = &h->loads[i];
        uint64_t age = now - l->start_ns;
        bool leaves, tells, live = l->live_ns != 0;

        if (!live) {
                (void) pthread_mutex_unlock(&h->lock);
                live = is_live(h, l->is.name);
                (void) pthread_mutex_lock(&h->lock);
        }
        if (!l->is_running)
                return;
        if (live && !l->live_ns)
                l->live_ns = blkup_now_ns();
        leaves = !l->is_left && (h->is_given_up || may_leave(h, l, age));
        tells = !l->is_told && age >= LATE_NS;
        l->is_left = l->is_left || leaves;
        l->is_told = l->is_told || tells;
        /* It is looked at again when it is twice as old. */
        l->next_ns = l->is_left && l->is_told ? UINT64_MAX : now + (age < MAX_STEP_NS ? age : MAX_STEP_NS);
        if (!leaves && !tells)
                return;
        now = l->live_ns;
        (void) pthread_mutex_unlock(&h->lock);
        if (leaves)
                h->calls.leave(h->calls.arg, i, now);
        if (tells && h->calls.tell)
                h->calls.tell(h->calls.arg, i, now);
        (void) pthread_mutex_lock(&h->lock);
}

/* The last that began of those that run, while all of them have been told of; 0: not so. With the lock. */
static uint64_t held_since(const struct blkup_held *h)
{
        uint64_t since = 0;

        for (size_t i = 0; i < h->n; i++) {
                const struct load *l = &h->loads[i];

                if (l->is_running && !l->is_told)
                        return 0;
                if (l->is_running && l->start_ns > since)
                        since = l->start_ns;
        }
        return since;
}

/* Without the lock: tells what is so now. Two may come here at once. */
static void pass_on(struct blkup_held *h)
{
        uint64_t since;
        bool is_stopped;

        (void) pthread_mutex_lock(&h->telling);
        (void) pthread_mutex_lock(&h->lock);
        since = h->holds_since_ns;
        is_stopped = h->is_stopped;
        (void) pthread_mutex_unlock(&h->lock);
        if (since != h->told_ns && !is_stopped)
                h->calls.holder->holds(h->calls.holder->arg, since);
        h->told_ns = since;
        (void) pthread_mutex_unlock(&h->telling);
}

/* With the lock, which is let go meanwhile. */
static void tell_holds(struct blkup_held *h)
{
        uint64_t since = held_since(h);

        if (since == h->holds_since_ns || !h->calls.holder->holds)
                return;
        h->holds_since_ns = since;
        (void) pthread_mutex_unlock(&h->lock);
        pass_on(h);
        (void) pthread_mutex_lock(&h->lock);
}

/* With the lock, which is let go meanwhile. */
static void give_up(struct blkup_held *h)
{
        h->is_given_up = true;
        (void) pthread_mutex_unlock(&h->lock);
        h->calls.give_up(h->calls.arg);
        (void) pthread_mutex_lock(&h->lock);
        for (size_t i = 0; i < h->n; i++) {
                struct load *l = &h->loads[i];

                if (!l->is_running || l->is_left)
                        continue;
                l->is_left = true;
                (void) pthread_mutex_unlock(&h->lock);
                h->calls.leave(h->calls.arg, i, l->live_ns);
                (void) pthread_mutex_lock(&h->lock);
        }
}

/* Is anybody to be asked whether to go on? Then he is; without the lock. */
static bool ask(struct blkup_held *h)
{
        bool goes_on = true, is_told = false;

        for (size_t i = 0; i < h->n && !is_told; i++)
                is_told = h->loads[i].is_running && h->loads[i].is_told;
        if (!is_told || h->is_given_up || !h->calls.holder->goes_on)
                return false;
        (void) pthread_mutex_unlock(&h->lock);
        goes_on = h->calls.holder->goes_on(h->calls.holder->arg);
        (void) pthread_mutex_lock(&h->lock);
        if (!goes_on)
                give_up(h);
        return goes_on;
}

static void *watch(void *arg)
{
        struct blkup_held *h = arg;

        (void) pthread_mutex_lock(&h->lock);
        while (!h->is_stopped) { /* ends: with blkup_held_stop() */
                uint64_t now = blkup_now_ns(), next = UINT64_MAX;

                for (size_t i = 0; i < h->n && !h->is_stopped; i++)
                        if (h->loads[i].is_running && h->loads[i].next_ns <= now)
                                look(h, i, now);
                tell_holds(h);
                if (ask(h))
                        next = now + ASK_NS;
                for (size_t i = 0; i < h->n; i++)
                        if (h->loads[i].is_running && h->loads[i].next_ns < next)
                                next = h->loads[i].next_ns;
                h->wakes_ns = next;
                if (h->is_stopped)
                        break;
                if (next == UINT64_MAX) {
                        (void) pthread_cond_wait(&h->changed, &h->lock);
                } else {
                        struct timespec at = blkup_to_timespec(next);

                        (void) pthread_cond_timedwait(&h->changed, &h->lock, &at);
                }
        }
        (void) pthread_mutex_unlock(&h->lock);
        return NULL;
}

int blkup_held_new(const char *root, const struct blkup_held_load *loads, size_t n,
                   const struct blkup_held_calls *calls, struct blkup_held **ret)
{
        struct blkup_held *h = calloc(1, sizeof(*h) + n * sizeof(h->loads[0]));

        if (!h)
                return -ENOMEM;
        h->root = root;
        h->calls = *calls;
        h->n = n;
        for (size_t i = 0; i < n; i++)
                h->loads[i].is = loads[i];
        (void) pthread_mutex_init(&h->lock, NULL);
        (void) pthread_mutex_init(&h->telling, NULL);
        (void) blkup_cond_init(&h->changed);
        *ret = h;
        return 0;
}

void blkup_held_start(struct blkup_held *h)
{
        pthread_attr_t attr;
        sigset_t all, before;

        if (pthread_attr_init(&attr) != 0)
                return;
        (void) pthread_attr_setstacksize(&attr, STACK_BYTES);
        /* The program's signals are for its own threads. */
        (void) sigfillset(&all);
        (void) pthread_sigmask(SIG_SETMASK, &all, &before);
        h->has_thread = pthread_create(&h->thread, &attr, watch, h) == 0;
        (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
        (void) pthread_attr_destroy(&attr);
}

void blkup_held_begin(struct blkup_held *h, size_t load)
{
        struct load *l = &h->loads[load];
        bool was_held;

        (void) pthread_mutex_lock(&h->lock);
        was_held = h->holds_since_ns != 0;
        h->holds_since_ns = 0;
        l->is_running = true;
        l->start_ns = blkup_now_ns();
        l->next_ns = l->start_ns + FIRST_LOOK_NS;
        if (l->next_ns < h->wakes_ns) {
                h->wakes_ns = l->next_ns;
                (void) pthread_cond_signal(&h->changed);
        }
        (void) pthread_mutex_unlock(&h->lock);
        if (was_held)
                pass_on(h);
}

void blkup_held_end(struct blkup_held *h, size_t load)
{
        (void) pthread_mutex_lock(&h->lock);
        h->loads[load].is_running = false;
        /* What it held may begin now, or nothing does. */
        if (h->holds_since_ns) {
                h->wakes_ns = 0;
                (void) pthread_cond_signal(&h->changed);
        }
        (void) pthread_mutex_unlock(&h->lock);
}

void blkup_held_stop(struct blkup_held *h)
{
        (void) pthread_mutex_lock(&h->lock);
        h->is_stopped = true;
        (void) pthread_cond_signal(&h->changed);
        (void) pthread_mutex_unlock(&h->lock);
        if (h->has_thread)
                (void) pthread_join(h->thread, NULL);
        h->has_thread = false;
        /* Of a thread that was left the last word may be under way. */
        (void) pthread_mutex_lock(&h->telling);
        (void) pthread_mutex_unlock(&h->telling);
}

struct blkup_held *blkup_held_free(struct blkup_held *h)
{
        if (h) {
                (void) pthread_cond_destroy(&h->changed);
                (void) pthread_mutex_destroy(&h->telling);
                (void) pthread_mutex_destroy(&h->lock);
                free(h);
        }
        return NULL;
}
