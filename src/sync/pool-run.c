/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The run: threads that take nodes, and the time limits. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "sync/pool-internal.h"

#define STACK_BYTES (512u << 10) /* measured: mounts, coldplug and the load check stay below 40 KiB */

/* ---- time limits: a list of the nodes that run or are pending with one ---- */

static uint64_t limit_of(const struct blkup_pool_item *n)
{
        uint64_t at;

        return __builtin_add_overflow(n->start_ns, n->timeout_ns, &at) ? UINT64_MAX : at;
}

static void watch(struct blkup_pool *p, uint32_t node)
{
        struct blkup_pool_item *n = &p->items[node];

        n->limit_prev = BLKUP_POOL_NONE;
        n->limit_next = p->first_limit;
        if (p->first_limit != BLKUP_POOL_NONE)
                p->items[p->first_limit].limit_prev = node;
        p->first_limit = node;
        if (limit_of(n) < p->watched_ns)
                (void) pthread_cond_signal(&p->ended);
}

static void unwatch(struct blkup_pool *p, uint32_t node)
{
        struct blkup_pool_item *n = &p->items[node];

        if (n->limit_prev == BLKUP_POOL_NONE)
                p->first_limit = n->limit_next;
        else
                p->items[n->limit_prev].limit_next = n->limit_next;
        if (n->limit_next != BLKUP_POOL_NONE)
                p->items[n->limit_next].limit_prev = n->limit_prev;
}

/* ---- ends ---- */

void blkup_pool_after_end(struct blkup_pool *p)
{
        if (p->n_left > 0 || p->phase != BLKUP_POOL_GOING)
                return;
        p->phase = BLKUP_POOL_ENDED;
        (void) pthread_cond_broadcast(&p->work);
        (void) pthread_cond_signal(&p->ended);
}

/* A node that was running or pending has ended. */
static void finish(struct blkup_pool *p, uint32_t node, enum blkup_pool_state state, int code,
                   const char *message)
{
        struct blkup_pool_item *n = &p->items[node];

        if (n->timeout_ns > 0)
                unwatch(p, node);
        if (code < 0)
                blkup_pool_set_message(n, message);
        blkup_pool_end_node(p, node, state, code, blkup_now_ns());
        blkup_pool_after_end(p);
}

/* ---- workers ---- */

static void *worker_main(void *arg);

struct start {
        struct blkup_pool *p;
        struct blkup_pool_worker *w;
};

/* Small stacks: thirty-two of the usual size are more than glibc keeps for later, so each end would unmap
 * one. */
static int create_thread(pthread_t *ret, struct start *s)
{
        pthread_attr_t attr;
        int r = pthread_attr_init(&attr);

        if (r == 0) {
                r = pthread_attr_setstacksize(&attr, STACK_BYTES);
                if (r == 0)
                        r = pthread_create(ret, &attr, worker_main, s);
                (void) pthread_attr_destroy(&attr);
        }
        return -r;
}

/* With the lock, which is let go meanwhile when only the caller makes workers: making a thread takes as long
 * as some of the work. */
static int make_worker(struct blkup_pool *p)
{
        struct blkup_pool_worker *w = NULL;
        struct start *s = NULL;
        sigset_t all, before;
        int r;

        if (p->n_workers == p->cap_workers) {
                unsigned cap = p->cap_workers == 0 ? 4 : 2 * p->cap_workers;
                void *grown = realloc(p->workers, cap * sizeof(struct blkup_pool_worker *));

                if (!grown)
                        return -ENOMEM;
                p->workers = grown;
                p->cap_workers = cap;
        }
        w = calloc(1, sizeof(*w));
        s = calloc(1, sizeof(*s));
        if (!w || !s) {
                r = -ENOMEM;
                goto fail;
        }
        *s = (struct start){ .p = p, .w = w };
        w->number = p->n_made + 1;
        w->node = BLKUP_POOL_NONE;
        /* The program's signals are for its own threads. */
        (void) sigfillset(&all);
        p->n_working++;
        p->n_starting++;
        if (p->is_watched)
                (void) pthread_mutex_unlock(&p->lock);
        (void) pthread_sigmask(SIG_SETMASK, &all, &before);
        r = create_thread(&w->thread, s);
        (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (p->is_watched)
                (void) pthread_mutex_lock(&p->lock);
        if (r < 0) {
                p->n_working--;
                p->n_starting--;
                goto fail;
        }
        p->workers[p->n_workers++] = w;
        p->n_made++;
        return 0;
fail:
        free(w);
        free(s);
        return r;
}

/* One worker for one of the nodes: when it has taken that, it calls the next for those that are left. So
 * threads are made no faster than there is work for them. Where blkup_pool_run() watches, it is called to
 * make them. */
void blkup_pool_call_workers(struct blkup_pool *p)
{
        if (p->n_ready == 0 || p->phase != BLKUP_POOL_GOING)
                return;
        if (p->n_idle > p->n_signalled) {
                p->n_signalled++;
                (void) pthread_cond_signal(&p->work);
        } else if (p->is_watched) {
                if (p->n_ready > p->n_starting &&
                    (p->n_working < p->max_working ||
                     (p->max_working < p->most_working && !p->is_growth_watched)))
                        (void) pthread_cond_signal(&p->ended);
        } else if (p->n_working < p->max_working) {
                /* A thread that cannot be made is no error: there is the caller's, and the work takes longer.
                 */
                (void) !make_worker(p);
        }
}

/* By the watch: idle ones are called, and as many are made as work is left. 1: the lock was let go, look at
 * everything again. */
static int make_workers(struct blkup_pool *p)
{
        int r = 0;
        bool any = false;

        blkup_pool_call_workers(p);
        /* Ends: one more works each turn. */
        while (p->phase == BLKUP_POOL_GOING && p->n_ready > p->n_starting + p->n_idle &&
               p->n_working < p->max_working) {
                r = make_worker(p);
                if (r < 0)
                        break;
                any = true;
        }
        /* As above, while there are enough. */
        if (r < 0 && p->n_working < p->at_least)
                return r;
        return any;
}

/* Takes a node and does it. false: was abandoned meanwhile, the pool has gone on without this thread. */
static bool do_one(struct blkup_pool *p, struct blkup_pool_worker *w)
{
        uint32_t node = blkup_pool_take_ready(p);
        struct blkup_pool_item *n = &p->items[node];
        struct blkup_error err = { .code = 0 };
        blkup_pool_fn *run = n->run;
        void *arg = n->arg;
        unsigned number = w ? w->number : 0;
        int r = 0;

        n->state = BLKUP_POOL_RUNNING;
        n->start_ns = blkup_now_ns();
        n->worker = number;
        if (n->timeout_ns > 0)
                watch(p, node);
        if (w)
                w->node = node;
        n->is_called = run != NULL;
        blkup_pool_call_workers(p);
        if (run) {
                (void) pthread_mutex_unlock(&p->lock);
                r = run(p, node, number, arg, &err);
                (void) pthread_mutex_lock(&p->lock);
                p->items[node].is_called = false;
                if (w ? w->is_abandoned : p->is_caller_left) {
                        blkup_pool_note_over(p, node);
                        blkup_pool_sweep(p);
                        if (w)
                                return false;
                        p->is_caller_left = false;
                        p->n_working++;
                        return true;
                }
        }
        if (w)
                w->node = BLKUP_POOL_NONE;
        n = &p->items[node]; /* nodes may have been added meanwhile */
        if (r == BLKUP_POOL_PENDING && n->is_completed_early) {
                /* Its message is in place. */
                r = n->early_code;
                finish(p, node, r < 0 ? BLKUP_POOL_FAILED : BLKUP_POOL_DONE, r, n->message);
        } else if (r == BLKUP_POOL_PENDING && p->is_cancelled) {
                finish(p, node, BLKUP_POOL_CANCELLED, -ECANCELED, NULL);
        } else if (r == BLKUP_POOL_PENDING) {
                n->state = BLKUP_POOL_IS_PENDING;
        } else {
                if (r > 0)
                        r = -EINVAL; /* no answer that a callback may give */
                finish(p, node, r < 0 ? BLKUP_POOL_FAILED : BLKUP_POOL_DONE, r, err.message);
        }
        blkup_pool_sweep(p);
        return true;
}

/* Works until the end. false: abandoned. With the lock. */
static bool work(struct blkup_pool *p, struct blkup_pool_worker *w)
{
        for (;;) { /* ends: with the run, or abandoned */
                while (p->n_ready == 0 && p->phase == BLKUP_POOL_GOING) {
                        p->n_idle++;
                        (void) pthread_cond_wait(&p->work, &p->lock);
                        p->n_idle--;
                        if (p->n_signalled > 0)
                                p->n_signalled--;
                }
                if (p->phase != BLKUP_POOL_GOING)
                        return true;
                if (!do_one(p, w))
                        return false;
        }
}

static void *worker_main(void *arg)
{
        struct start *s = arg;
        struct blkup_pool *p = s->p;
        struct blkup_pool_worker *w = s->w;
        bool is_mine;

        free(s);
        (void) pthread_mutex_lock(&p->lock);
        p->n_starting--;
        is_mine = work(p, w);
        (void) pthread_mutex_unlock(&p->lock);
        if (!is_mine) {
                /* It, and the reference, are this thread's since it was abandoned. */
                free(w);
                (void) blkup_pool_unref(p);
        }
        return NULL;
}

/* ---- the thread of blkup_pool_run() when nodes have time limits, or workers are to be added: it watches,
 * and works nothing itself ---- */

#define LOOK_NS UINT64_C(500000)
#define PATIENCE_NS UINT64_C(2000000)
/* Others may give threads back: a limit is one for all that a user, or a service, has. */
#define SHORT_NS UINT64_C(1000000000)
#define TRY_AGAIN_NS UINT64_C(20000000)

struct growth {
        uint32_t n_left;    /* as it was at since_ns: nothing has ended from then on */
        uint64_t since_ns;  /* 0: not looked yet */
        uint64_t looked_ns, cpu_ns; /* the last look, and what the process had used by then */
};

/* The thread that runs the node is on its own from here on. false: it is the caller's. */
static bool abandon_worker(struct blkup_pool *p, uint32_t node)
{
        for (unsigned i = 0; i < p->n_workers; i++) {
                struct blkup_pool_worker *w = p->workers[i];

                if (w->node != node)
                        continue;
                w->is_abandoned = true;
                p->workers[i] = p->workers[--p->n_workers];
                (void) blkup_pool_ref(p);
                (void) pthread_detach(w->thread);
                p->n_working--;
                return true;
        }
        return false;
}

static void expire(struct blkup_pool *p, uint32_t node)
{
        struct blkup_pool_item *n = &p->items[node];
        char text[128];

        if (n->state == BLKUP_POOL_RUNNING)
                (void) abandon_worker(p, node);
        (void) snprintf(text, sizeof(text), "not done within %.3f s", (double) n->timeout_ns / 1e9);
        finish(p, node, BLKUP_POOL_TIMED_OUT, -ETIMEDOUT, text);
}

static void cancel(struct blkup_pool *p)
{
        uint64_t now = blkup_now_ns();

        p->is_cancelled = true;
        p->n_ready = 0;
        for (uint32_t i = 0; i < p->n_items; i++) {
                struct blkup_pool_item *n = &p->items[i];

                n->heap_at = BLKUP_POOL_NOT_READY;
                if (n->state == BLKUP_POOL_IS_PENDING && n->timeout_ns > 0)
                        unwatch(p, i);
                /* All of them first, so that none counts as skipped for another's sake. */
                if (n->state == BLKUP_POOL_WAITING || n->state == BLKUP_POOL_READY ||
                    n->state == BLKUP_POOL_IS_PENDING) {
                        n->state = BLKUP_POOL_CANCELLED;
                        n->code = -ECANCELED;
                        n->end_ns = n->start_ns ? now : 0;
                        p->n_left--;
                        blkup_pool_note_over(p, i);
                }
        }
        blkup_pool_after_end(p);
}

/* Work waits for a worker, and those there are sleep: nothing has ended since the last look, and the process
 * has used less than a quarter of a CPU; or nothing has ended for some looks. Returns when to look again. */
static uint64_t watch_growth(struct blkup_pool *p, struct growth *g, uint64_t now)
{
        uint64_t cpu, used;
        bool has_ended = !g->since_ns || g->n_left != p->n_left;

        p->is_growth_watched = false;
        if (p->max_working == p->most_working || p->n_ready == 0 || p->n_idle > 0)
                return UINT64_MAX;
        p->is_growth_watched = true;
        if (!has_ended && now - g->looked_ns < LOOK_NS)
                return g->looked_ns + LOOK_NS; /* called for something else */
        cpu = blkup_cpu_ns();
        used = cpu - g->cpu_ns;
        if (has_ended) {
                g->since_ns = now;
        } else if (used * 4 < now - g->looked_ns || now - g->since_ns >= PATIENCE_NS) {
                p->max_working = p->doubles && 2 * p->max_working < p->most_working ? 2 * p->max_working
                                                                                    : p->most_working;
                p->is_growth_watched = p->max_working < p->most_working;
                if (!p->is_growth_watched)
                        return UINT64_MAX;
                g->since_ns = now;
        }
        g->n_left = p->n_left;
        g->looked_ns = now;
        g->cpu_ns = cpu;
        return now + LOOK_NS;
}

static int watch_run(struct blkup_pool *p)
{
        struct growth g = { .since_ns = 0 };
        uint64_t short_since_ns = 0; /* 0: there are enough threads */
        int r, failed = 0;

        while (p->phase == BLKUP_POOL_GOING) { /* ends: with the run */
                uint64_t now = blkup_now_ns(), next = UINT64_MAX, grow_at;
                uint32_t node = p->first_limit;

                while (node != BLKUP_POOL_NONE) {
                        uint32_t after = p->items[node].limit_next;
                        uint64_t at = limit_of(&p->items[node]);

                        if (at <= now)
                                expire(p, node); /* takes only this one out of the list */
                        else if (at < next)
                                next = at;
                        node = after;
                }
                grow_at = watch_growth(p, &g, now);
                if (grow_at < next)
                        next = grow_at;
                r = make_workers(p); /* also in place of those abandoned */
                if (r >= 0)
                        short_since_ns = 0;
                if (r > 0)
                        continue;
                if (r < 0 && short_since_ns == 0)
                        short_since_ns = now;
                if (r < 0 && now - short_since_ns >= SHORT_NS && p->phase == BLKUP_POOL_GOING) {
                        failed = r;
                        cancel(p);
                        break;
                }
                if (r < 0 && now + TRY_AGAIN_NS < next)
                        next = now + TRY_AGAIN_NS;
                if (p->phase != BLKUP_POOL_GOING)
                        break;
                p->watched_ns = next;
                if (next == UINT64_MAX) {
                        (void) pthread_cond_wait(&p->ended, &p->lock);
                } else {
                        struct timespec at = blkup_to_timespec(next);

                        (void) pthread_cond_timedwait(&p->ended, &p->lock, &at);
                }
        }
        return failed;
}

/* ---- from outside ---- */

static unsigned count_cpus(void)
{
        cpu_set_t set;
        int n = 1;

        CPU_ZERO(&set);
        if (sched_getaffinity(0, sizeof(set), &set) == 0)
                n = CPU_COUNT(&set);
        return n < 1 ? 1 : (unsigned) n > BLKUP_POOL_MAX_WORKERS ? BLKUP_POOL_MAX_WORKERS : (unsigned) n;
}

int blkup_pool_run(struct blkup_pool *p, const struct blkup_pool_options *opt, struct blkup_pool_summary *ret,
                   struct blkup_error *err)
{
        unsigned workers = opt && opt->workers > 0 ? opt->workers : count_cpus();
        uint64_t start, critical = 0;
        int r;

        if (workers > BLKUP_POOL_MAX_WORKERS)
                return blkup_fail(err, -EINVAL, "workers: 1 to %u, not %u", BLKUP_POOL_MAX_WORKERS, workers);
        (void) pthread_mutex_lock(&p->lock);
        if (p->phase != BLKUP_POOL_BUILDING) {
                (void) pthread_mutex_unlock(&p->lock);
                return blkup_fail(err, -EALREADY, "the graph has run");
        }
        p->has_timeouts = opt && opt->has_timeouts;
        for (uint32_t i = 0; i < p->n_items && !p->has_timeouts; i++)
                p->has_timeouts = p->items[i].timeout_ns > 0;
        p->most_working = workers;
        p->at_least = !opt || opt->at_least < 1 ? 1 : opt->at_least < workers ? opt->at_least : workers;
        p->doubles = opt && opt->doubles;
        p->max_working = opt && opt->at_first > 0 && opt->at_first < workers ? opt->at_first : workers;
        r = blkup_pool_prepare(p, NULL, &critical, err);
        if (r < 0) {
                (void) pthread_mutex_unlock(&p->lock);
                return r;
        }
        start = blkup_now_ns();
        p->phase = BLKUP_POOL_GOING;
        if (p->is_cancelled)
                cancel(p); /* before the run */
        blkup_pool_after_end(p); /* nothing to do at all */
        if (p->phase == BLKUP_POOL_GOING && (p->has_timeouts || p->max_working < p->most_working)) {
                /* A callback that this thread ran itself could not be abandoned. */
                p->is_watched = true;
                r = watch_run(p);
                if (r < 0 && opt && opt->is_short) {
                        (void) pthread_mutex_unlock(&p->lock);
                        opt->is_short(opt->arg);
                        (void) pthread_mutex_lock(&p->lock);
                }
        } else if (p->phase == BLKUP_POOL_GOING) {
                p->n_working = 1;
                (void) work(p, NULL);
        }
        if (p->is_cancelled && r == 0)
                r = -ECANCELED;
        (void) pthread_mutex_unlock(&p->lock);
        /* No new workers after the end, and none is abandoned any more. */
        for (unsigned i = 0; i < p->n_workers; i++)
                (void) pthread_join(p->workers[i]->thread, NULL);
        if (ret) {
                (void) pthread_mutex_lock(&p->lock);
                blkup_pool_sum_up(p, start, ret);
                (void) pthread_mutex_unlock(&p->lock);
        }
        if (r == -ECANCELED)
                return blkup_fail(err, r, "cancelled");
        return r < 0 ? blkup_fail_errno(err, r, "no thread for the work") : 0;
}

int blkup_pool_complete(struct blkup_pool *p, uint32_t node, int code, const char *message)
{
        int r = -EINVAL;

        (void) pthread_mutex_lock(&p->lock);
        if (node < p->n_items && !p->items[node].is_free && code <= 0) {
                struct blkup_pool_item *n = &p->items[node];

                switch (n->state) {
                case BLKUP_POOL_IS_PENDING:
                        finish(p, node, code < 0 ? BLKUP_POOL_FAILED : BLKUP_POOL_DONE, code, message);
                        blkup_pool_call_workers(p);
                        r = 0;
                        break;
                case BLKUP_POOL_RUNNING:
                        if (n->is_completed_early) {
                                r = -EALREADY;
                                break;
                        }
                        n->is_completed_early = true;
                        n->early_code = code;
                        if (code < 0)
                                blkup_pool_set_message(n, message);
                        r = 0;
                        break;
                case BLKUP_POOL_WAITING:
                case BLKUP_POOL_READY:
                        break;
                case BLKUP_POOL_DONE:
                case BLKUP_POOL_FAILED:
                case BLKUP_POOL_SKIPPED:
                case BLKUP_POOL_TIMED_OUT:
                case BLKUP_POOL_CANCELLED:
                        r = -EALREADY;
                        break;
                }
        }
        (void) pthread_mutex_unlock(&p->lock);
        return r;
}

/* With the lock. -EAGAIN: the worker that has it is not in the list yet, as who made it waits for the lock.
 */
static int leave(struct blkup_pool *p, uint32_t node, int code, const char *message)
{
        struct blkup_pool_item *n = node < p->n_items ? &p->items[node] : NULL;

        if (!n || n->is_free || code > 0)
                return -EINVAL;
        if (n->state >= BLKUP_POOL_DONE)
                return -EALREADY;
        if (n->state != BLKUP_POOL_RUNNING || !n->is_called)
                return -EINVAL;
        if (n->worker == 0) { /* the caller's thread: those that were made begin with 1 */
                p->is_caller_left = true;
                p->n_working--;
        } else if (!abandon_worker(p, node)) {
                return -EAGAIN;
        }
        finish(p, node, code < 0 ? BLKUP_POOL_FAILED : BLKUP_POOL_DONE, code, message);
        blkup_pool_call_workers(p);
        return 0;
}

int blkup_pool_leave(struct blkup_pool *p, uint32_t node, int code, const char *message)
{
        int r;

        (void) pthread_mutex_lock(&p->lock);
        /* Ends: who has made the worker does nothing else before it is in the list. */
        while ((r = leave(p, node, code, message)) == -EAGAIN) {
                (void) pthread_mutex_unlock(&p->lock);
                (void) nanosleep(&(const struct timespec){ .tv_nsec = 100000 }, NULL);
                (void) pthread_mutex_lock(&p->lock);
        }
        (void) pthread_mutex_unlock(&p->lock);
        return r;
}

void blkup_pool_cancel(struct blkup_pool *p)
{
        (void) pthread_mutex_lock(&p->lock);
        if (p->phase == BLKUP_POOL_GOING && !p->is_cancelled)
                cancel(p);
        else if (p->phase == BLKUP_POOL_BUILDING)
                p->is_cancelled = true;
        (void) pthread_mutex_unlock(&p->lock);
}

bool blkup_pool_is_cancelled(struct blkup_pool *p)
{
        bool is;

        (void) pthread_mutex_lock(&p->lock);
        is = p->is_cancelled;
        (void) pthread_mutex_unlock(&p->lock);
        return is;
}
