/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of the pool share: pool.c (the graph, its order, the replay) and pool-run.c (threads, time).
 */
#ifndef BLKUP_SYNC_POOL_INTERNAL_H
#define BLKUP_SYNC_POOL_INTERNAL_H

#include <pthread.h>

#include "sync/pool.h"

#define BLKUP_POOL_NO_EDGE UINT32_MAX
#define BLKUP_POOL_NOT_READY UINT32_MAX

/* Edges sit in two lists: those out of `from` (to its dependants), those into `to` (from what it waits for).
 */
struct blkup_pool_arc {
        uint32_t from, to, next_out, next_in;
        enum blkup_pool_edge kind;
};

struct blkup_pool_item {
        char *name, *message;
        uint64_t cost_ns, timeout_ns;
        blkup_pool_fn *run;
        void *arg;
        void (*drop)(void *arg);

        uint32_t first_out, first_in; /* arcs */
        uint64_t path_ns;             /* this node and the longest path behind it */
        uint32_t missing;             /* nodes it still waits for */
        uint32_t heap_at;             /* place in the heap of ready nodes */
        uint32_t mark;                /* of the search that saw it last */

        enum blkup_pool_state state;
        int code;
        uint32_t culprit;
        uint64_t start_ns, end_ns;
        unsigned worker;

        uint64_t born;                /* how many were added before it */
        bool is_released, is_free;    /* nobody asks of it; its place waits for another */
        bool is_called;               /* a thread is in its callback, maybe one that was abandoned */
        bool is_completed_early;      /* blkup_pool_complete() before the callback has answered PENDING */
        int early_code;
        uint32_t limit_next, limit_prev; /* list of what runs or is pending with a time limit; limit_next
                                          * also of those that are over, and of free places */
};

struct blkup_pool_worker {
        pthread_t thread;
        unsigned number;
        uint32_t node;      /* what it runs, or BLKUP_POOL_NONE */
        bool is_abandoned;
};

enum blkup_pool_phase { BLKUP_POOL_BUILDING, BLKUP_POOL_REPLAYING, BLKUP_POOL_GOING, BLKUP_POOL_ENDED };

struct blkup_pool {
        unsigned refs; /* atomic */
        pthread_mutex_t lock;
        uint32_t max_nodes;

        struct blkup_pool_item *items;
        uint32_t n_items, cap_items;
        struct blkup_pool_arc *arcs;
        uint32_t n_arcs, cap_arcs; /* n_arcs: places that were ever used */
        uint32_t n_free_arcs, first_free_arc; /* list by next_out */
        uint32_t first_free; /* place of a node */
        uint32_t first_over; /* released and ended: to be freed by blkup_pool_sweep() */
        uint64_t n_born;
        struct blkup_pool_summary freed; /* what became of those that are not there any more */
        uint64_t freed_end_ns;           /* the last end of theirs */
        uint32_t *heap; /* ready nodes; as long as items */
        uint32_t n_ready;
        uint32_t *stack; /* of searches; as long as items */
        uint32_t mark;

        enum blkup_pool_phase phase;
        bool is_cancelled, has_timeouts;
        uint32_t n_left; /* nodes that have not ended */

        /* pool-run.c */
        pthread_cond_t work, ended; /* workers wait for work; blkup_pool_run() waits for limits and the end */
        struct blkup_pool_worker **workers;
        unsigned n_workers, cap_workers; /* without the abandoned, which are their thread's */
        unsigned n_made;                 /* ever, in this run */
        unsigned n_working, max_working; /* live ones, without the abandoned; with the caller when it works */
        unsigned most_working;           /* what max_working may grow to */
        unsigned at_least;               /* with fewer the run cannot go on */
        unsigned n_starting;             /* made, and have not had the lock yet */
        bool is_watched; /* blkup_pool_run() watches: it makes the workers, not they each other */
        bool doubles;
        bool is_growth_watched;          /* it looks whether max_working is to grow */
        unsigned n_idle, n_signalled;
        bool is_caller_left; /* blkup_pool_run()'s own thread is in the callback of a node that was left */
        uint32_t first_limit;
        uint64_t watched_ns; /* when blkup_pool_run() will look at the limits next */
};

/* pool.c, all with the lock. */
void blkup_pool_make_ready(struct blkup_pool *p, uint32_t node);
uint32_t blkup_pool_take_ready(struct blkup_pool *p); /* the one with the longest path; there is one */
/* The node has ended so; makes dependants ready or skipped. at_ns: now. */
void blkup_pool_end_node(struct blkup_pool *p, uint32_t node, enum blkup_pool_state state, int code,
                         uint64_t at_ns);
/* Checks for circles and puts every node in its first state, the ready ones into the heap. The longest path
 * by durations (NULL: costs) goes to *ret_critical_ns. */
BLKUP_MUST_CHECK int blkup_pool_prepare(struct blkup_pool *p, const uint64_t *durations_ns,
                                        uint64_t *ret_critical_ns, struct blkup_error *err);
void blkup_pool_sum_up(struct blkup_pool *p, uint64_t start_ns, struct blkup_pool_summary *ret);
void blkup_pool_set_message(struct blkup_pool_item *n, const char *message);

/* pool-release.c, all with the lock. */
uint32_t blkup_pool_next_mark(struct blkup_pool *p);
void blkup_pool_free_arc(struct blkup_pool *p, uint32_t arc); /* it is in no list any more */
/* The node has ended, or its call has returned: is it to be freed? */
void blkup_pool_note_over(struct blkup_pool *p, uint32_t node);
/* Frees what is over; lets the lock go meanwhile. */
void blkup_pool_sweep(struct blkup_pool *p);

/* pool-run.c, with the lock. */
void blkup_pool_call_workers(struct blkup_pool *p); /* nodes are ready, and the caller takes none of them */
void blkup_pool_after_end(struct blkup_pool *p); /* wakes everybody when nothing is left */

#endif
