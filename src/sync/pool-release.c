/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Places of nodes and edges that nobody asks of any more, for those that are added later. */
#include <errno.h>
#include <stdlib.h>

#include "sync/pool-internal.h"

uint32_t blkup_pool_next_mark(struct blkup_pool *p)
{
        if (++p->mark == 0) {
                /* All numbers have been used: what the first searches left behind must not count again. */
                for (uint32_t i = 0; i < p->n_items; i++)
                        p->items[i].mark = 0;
                p->mark = 1;
        }
        return p->mark;
}

void blkup_pool_free_arc(struct blkup_pool *p, uint32_t arc)
{
        p->arcs[arc].next_out = p->first_free_arc;
        p->first_free_arc = arc;
        p->n_free_arcs++;
}

/* Both lists end: an edge is in each of them once. */
static void leave_out_list(struct blkup_pool *p, uint32_t arc)
{
        uint32_t *at = &p->items[p->arcs[arc].from].first_out;

        while (*at != arc)
                at = &p->arcs[*at].next_out;
        *at = p->arcs[arc].next_out;
}

static void leave_in_list(struct blkup_pool *p, uint32_t arc)
{
        uint32_t *at = &p->items[p->arcs[arc].to].first_in;

        while (*at != arc)
                at = &p->arcs[*at].next_in;
        *at = p->arcs[arc].next_in;
}

static void free_arcs(struct blkup_pool *p, struct blkup_pool_item *n)
{
        /* Both end: the list gets shorter each turn. */
        while (n->first_out != BLKUP_POOL_NO_EDGE) {
                uint32_t arc = n->first_out;

                n->first_out = p->arcs[arc].next_out;
                leave_in_list(p, arc);
                blkup_pool_free_arc(p, arc);
        }
        while (n->first_in != BLKUP_POOL_NO_EDGE) {
                uint32_t arc = n->first_in;

                n->first_in = p->arcs[arc].next_in;
                leave_out_list(p, arc);
                blkup_pool_free_arc(p, arc);
        }
}

static void count(struct blkup_pool *p, const struct blkup_pool_item *n)
{
        struct blkup_pool_summary *s = &p->freed;

        s->done += n->state == BLKUP_POOL_DONE;
        s->failed += n->state == BLKUP_POOL_FAILED;
        s->skipped += n->state == BLKUP_POOL_SKIPPED;
        s->timed_out += n->state == BLKUP_POOL_TIMED_OUT;
        s->cancelled += n->state == BLKUP_POOL_CANCELLED;
        if (n->path_ns > s->critical_ns)
                s->critical_ns = n->path_ns;
        if (__builtin_add_overflow(s->work_ns, n->cost_ns, &s->work_ns))
                s->work_ns = UINT64_MAX;
        if (n->end_ns > p->freed_end_ns)
                p->freed_end_ns = n->end_ns;
}

static void free_node(struct blkup_pool *p, uint32_t node)
{
        struct blkup_pool_item *n = &p->items[node];

        count(p, n);
        free_arcs(p, n);
        /* Nobody shall take the next one with this number for what failed. */
        for (uint32_t i = 0; n->state != BLKUP_POOL_DONE && i < p->n_items; i++)
                if (p->items[i].culprit == node)
                        p->items[i].culprit = BLKUP_POOL_NONE;
        *n = (struct blkup_pool_item){
                .is_free = true,
                .state = BLKUP_POOL_DONE,
                .first_out = BLKUP_POOL_NO_EDGE,
                .first_in = BLKUP_POOL_NO_EDGE,
                .heap_at = BLKUP_POOL_NOT_READY,
                .culprit = BLKUP_POOL_NONE,
                .limit_next = p->first_free,
        };
        p->first_free = node;
}

void blkup_pool_note_over(struct blkup_pool *p, uint32_t node)
{
        struct blkup_pool_item *n = &p->items[node];

        if (!n->is_released || n->is_called || n->state < BLKUP_POOL_DONE ||
            (p->phase != BLKUP_POOL_GOING && p->phase != BLKUP_POOL_ENDED))
                return;
        n->limit_next = p->first_over;
        p->first_over = node;
}

void blkup_pool_sweep(struct blkup_pool *p)
{
        /* Ends: each turn takes one away, and what comes meanwhile ends as often as it was begun. */
        while (p->first_over != BLKUP_POOL_NONE) {
                uint32_t node = p->first_over;
                struct blkup_pool_item n = p->items[node];

                p->first_over = n.limit_next;
                free_node(p, node);
                (void) pthread_mutex_unlock(&p->lock);
                free(n.name);
                free(n.message);
                if (n.drop)
                        n.drop(n.arg);
                (void) pthread_mutex_lock(&p->lock);
        }
}

int blkup_pool_release(struct blkup_pool *p, uint32_t node)
{
        int r = -EINVAL;

        (void) pthread_mutex_lock(&p->lock);
        if (node < p->n_items && !p->items[node].is_free && !p->items[node].is_released) {
                p->items[node].is_released = true;
                blkup_pool_note_over(p, node);
                blkup_pool_sweep(p);
                r = 0;
        }
        (void) pthread_mutex_unlock(&p->lock);
        return r;
}
