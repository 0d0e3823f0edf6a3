/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A graph of work and the threads that do it. Nodes have costs and wait for other nodes; workers take what is
 * ready, the node with the longest remaining path first; each node runs once. Modules, mounts and the whole
 * bring-up are such graphs.
 *
 *   - A node that fails makes those that need it skipped, and each of them names the node that failed first.
 *   - A node may answer BLKUP_POOL_PENDING and be completed later by blkup_pool_complete(), from any thread.
 *   - A node with a time limit that is over is abandoned: its dependants are skipped, its thread is replaced,
 *     all others go on. The abandoned call keeps its thread and the pool's memory until it returns.
 *   - Nodes and edges may be added while the graph runs, by the callbacks or by others. A run without an end
 *     releases them, so that their places are used again.
 *   - Threads are made when there is work for them; a graph that one worker can do makes none.
 *   - blkup_pool_replay() schedules the same graph in virtual time: the same answer on every machine.
 *
 * Thread-safe, except blkup_pool_run() and blkup_pool_replay(): one of them at a time, on one pool.
 */
#ifndef BLKUP_SYNC_POOL_H
#define BLKUP_SYNC_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"

struct blkup_pool; /* opaque, counted */

#define BLKUP_POOL_PENDING 1 /* a callback's answer: done later */
#define BLKUP_POOL_NONE UINT32_MAX
#define BLKUP_POOL_MAX_WORKERS 256u

/* Does the work of a node; called without any lock of the pool. worker: 0 the thread of blkup_pool_run(),
 * else 1 and up. err: message of a failure, kept with the node. 0, negative errno, or BLKUP_POOL_PENDING. */
typedef int blkup_pool_fn(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                          struct blkup_error *err);

struct blkup_pool_node {
        const char *name;      /* for messages; copied */
        uint64_t cost_ns;      /* estimate, for the order; 0 counts as 1 */
        uint64_t timeout_ns;   /* from its start; 0: none */
        blkup_pool_fn *run;    /* NULL: a point to wait for, done at once */
        void *arg;
        void (*drop)(void *arg); /* called once when nobody will use arg any more; may be NULL. By whoever
                                  * calls the pool then, without a lock of the pool's own: it takes none */
};

enum blkup_pool_edge {
        BLKUP_POOL_NEEDS, /* starts after the other is done; skipped when that fails */
        BLKUP_POOL_AFTER, /* starts after the other has ended, however */
};

enum blkup_pool_state {
        BLKUP_POOL_WAITING, BLKUP_POOL_READY, BLKUP_POOL_RUNNING, BLKUP_POOL_IS_PENDING,
        /* the ends: */
        BLKUP_POOL_DONE, BLKUP_POOL_FAILED, BLKUP_POOL_SKIPPED, BLKUP_POOL_TIMED_OUT, BLKUP_POOL_CANCELLED,
};

struct blkup_pool_options {
        unsigned workers;  /* threads that work at a time, 1 to 256; 0: one a CPU that we may run on */
        unsigned at_first; /* so many for a start, the others when work is left and these sleep (nothing has
                            * ended for half a ms while the CPUs were idle, or for 2 ms): work that keeps the
                            * CPUs busy only loses by them. 0, or not below workers: all from the start */
        bool doubles;      /* twice as many at a time then, not all: each costs something of its own */
        bool has_timeouts; /* nodes with a time limit may be added during the run */
        /* Callbacks that wait for others take all of these threads but one. Where fewer can be had for a
         * second the run, when it is one with time limits, is cancelled and fails with what
         * pthread_create(3) says; is_short (may be NULL) is told then, without a lock, to wake those that
         * wait. 0: one is enough. */
        unsigned at_least;
        void (*is_short)(void *arg);
        void *arg;
};

/* What became of a node. Strings belong to the pool and stay until it is freed, or the node is released. */
struct blkup_pool_result {
        const char *name;
        enum blkup_pool_state state;
        int code; /* DONE: 0; FAILED: the callback's; SKIPPED: of the one that failed; -ETIMEDOUT; -ECANCELED
                   */
        uint32_t culprit;      /* SKIPPED: the node that failed; else BLKUP_POOL_NONE */
        const char *message;   /* of the failure, or "" */
        uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC, or virtual from 0 in a replay; 0: did not start */
        unsigned worker;
};

struct blkup_pool_summary {
        uint32_t done, failed, skipped, timed_out, cancelled;
        uint32_t threads;      /* made during the run */
        uint64_t span_ns;      /* from the start to the last end */
        uint64_t critical_ns;  /* the longest path, by cost (replay: by duration) */
        uint64_t work_ns;      /* all costs (replay: durations) together */
};

/* max_nodes bounds memory: 0 = 65,536. -ENOMEM. */
BLKUP_MUST_CHECK int blkup_pool_new(struct blkup_pool **ret, uint32_t max_nodes);
struct blkup_pool *blkup_pool_ref(struct blkup_pool *p);
struct blkup_pool *blkup_pool_unref(struct blkup_pool *p); /* NULL-safe, returns NULL */

/* A new node, numbered from 0 on; ret NULL: released from the start, see below. While the graph runs and
 * to_wait_for is not NULL, the node waits for those (n_wait of them, BLKUP_POOL_NEEDS) from the start: it
 * cannot be taken before its edges are there. -ENOMEM;
 * -ENOSPC: max_nodes; -EINVAL: unknown node in to_wait_for, or a time limit in a run without has_timeouts;
 * -ECANCELED: the run is over or cancelled. On failure arg is still the caller's. */
BLKUP_MUST_CHECK int blkup_pool_add(struct blkup_pool *p, const struct blkup_pool_node *n,
                                    const uint32_t *to_wait_for, uint32_t n_wait, uint32_t *ret);

/* node waits for on. An edge to a node that has ended counts as that end at once. -EINVAL: unknown node, or
 * itself; -EBUSY: node has started or ended already; -ELOOP: the graph runs and this would close a circle
 * (before the run, blkup_pool_run() finds it); -ENOMEM; -ENOSPC: 16 edges a node on average. */
BLKUP_MUST_CHECK int blkup_pool_depend(struct blkup_pool *p, uint32_t node, uint32_t on,
                                       enum blkup_pool_edge kind);

/* Runs the graph to its end, once. ret may be NULL.
 * 0, also when nodes failed; -ECANCELED; -ELOOP: err names the circle, nothing ran; -EALREADY: it ran before;
 * -ENOMEM, -EAGAIN: no thread could be made where one is needed (a node has a time limit): nothing ran. */
BLKUP_MUST_CHECK int blkup_pool_run(struct blkup_pool *p, const struct blkup_pool_options *opt,
                                    struct blkup_pool_summary *ret, struct blkup_error *err);

/* Ends a node that answered, or is about to answer, BLKUP_POOL_PENDING: 0 or negative errno, and a message
 * (may be NULL). -EALREADY: it has ended (timed out, cancelled); -EINVAL: it has not started. */
BLKUP_MUST_CHECK int blkup_pool_complete(struct blkup_pool *p, uint32_t node, int code, const char *message);

/* Ends a node whose callback runs, as if it had answered so (0 or negative errno), and puts another thread in
 * the place of its own: the call goes on, and what it answers is dropped. For a call whose end is known
 * before it returns. The run does not wait for it, except where it is blkup_pool_run()'s own thread that has
 * it (no node has a time limit). -EALREADY: it has ended; -EINVAL: no callback of it runs. */
BLKUP_MUST_CHECK int blkup_pool_leave(struct blkup_pool *p, uint32_t node, int code, const char *message);

/* Nothing more is started, and what is pending ends now; the run waits for the calls that are running. */
void blkup_pool_cancel(struct blkup_pool *p);
bool blkup_pool_is_cancelled(struct blkup_pool *p); /* for long callbacks */

/* Nobody asks of the node any more: when it has ended, and the call of its callback has returned, its number
 * goes to another one that is added, its edges are taken away, and its arg is dropped. From then on
 * blkup_pool_before() does not look through it. -EINVAL: no such node, or released before. */
BLKUP_MUST_CHECK int blkup_pool_release(struct blkup_pool *p, uint32_t node);

/* One more than the highest number so far. */
uint32_t blkup_pool_count(struct blkup_pool *p);
/* -ENOENT: no such node. */
BLKUP_MUST_CHECK int blkup_pool_get(struct blkup_pool *p, uint32_t node, struct blkup_pool_result *ret);
/*
 * The nodes that node waits or waited for, through those that is_left_out names (an array by node, NULL:
 * none): points and nodes that only look are no step of a picture. Each once; at most cap into ret, all of
 * them counted in *ret_n. -ENOENT: no such node.
 */
BLKUP_MUST_CHECK int blkup_pool_before(struct blkup_pool *p, uint32_t node, const bool *is_left_out,
                                       uint32_t *ret, uint32_t cap, uint32_t *ret_n);
const char *blkup_pool_state_name(enum blkup_pool_state s);

/*
 * Schedules the graph on workers virtual CPUs in virtual time, without running a callback; durations_ns[i] is
 * what node i takes (NULL: its cost). Results as after a run, times from 0. May be repeated, and be followed
 * by a run. 0, -ELOOP, -EINVAL (workers), -EALREADY (it ran), -ENOMEM.
 */
BLKUP_MUST_CHECK int blkup_pool_replay(struct blkup_pool *p, unsigned workers, const uint64_t *durations_ns,
                                       struct blkup_pool_summary *ret, struct blkup_error *err);

#endif
