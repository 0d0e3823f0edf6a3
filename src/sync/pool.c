/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The graph: nodes, edges, the order of the ready ones, what an end means to the others, and the replay. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sync/cond.h"
#include "sync/pool-internal.h"

#define DEFAULT_MAX_NODES 65536u
#define MAX_NODES (1u << 24)
#define EDGES_A_NODE 16u
#define FIRST_CAP 16u

const char *blkup_pool_state_name(enum blkup_pool_state s)
{
        static const char *const names[] = {
                [BLKUP_POOL_WAITING] = "waiting",     [BLKUP_POOL_READY] = "ready",
                [BLKUP_POOL_RUNNING] = "running",     [BLKUP_POOL_IS_PENDING] = "pending",
                [BLKUP_POOL_DONE] = "done",           [BLKUP_POOL_FAILED] = "failed",
                [BLKUP_POOL_SKIPPED] = "skipped",     [BLKUP_POOL_TIMED_OUT] = "timed out",
                [BLKUP_POOL_CANCELLED] = "cancelled",
        };

        return (size_t) s < BLKUP_ARRAY_SIZE(names) ? names[s] : "?";
}

static bool has_ended(const struct blkup_pool_item *n)
{
        return n->state >= BLKUP_POOL_DONE;
}

/* ---- making and freeing ---- */

int blkup_pool_new(struct blkup_pool **ret, uint32_t max_nodes)
{
        struct blkup_pool *p = calloc(1, sizeof(*p));

        if (!p)
                return -ENOMEM;
        p->refs = 1;
        p->max_nodes = max_nodes == 0 ? DEFAULT_MAX_NODES : max_nodes < MAX_NODES ? max_nodes : MAX_NODES;
        p->first_limit = p->first_free = p->first_over = BLKUP_POOL_NONE;
        p->first_free_arc = BLKUP_POOL_NO_EDGE;
        p->watched_ns = UINT64_MAX;
        if (pthread_mutex_init(&p->lock, NULL) != 0)
                goto no_mutex;
        if (blkup_cond_init(&p->work) < 0)
                goto no_work;
        if (blkup_cond_init(&p->ended) < 0)
                goto no_ended;
        *ret = p;
        return 0;
no_ended:
        (void) pthread_cond_destroy(&p->work);
no_work:
        (void) pthread_mutex_destroy(&p->lock);
no_mutex:
        free(p);
        return -ENOMEM;
}

struct blkup_pool *blkup_pool_ref(struct blkup_pool *p)
{
        (void) __atomic_fetch_add(&p->refs, 1, __ATOMIC_RELAXED);
        return p;
}

struct blkup_pool *blkup_pool_unref(struct blkup_pool *p)
{
        if (!p || __atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL) > 0)
                return NULL;
        for (uint32_t i = 0; i < p->n_items; i++) {
                struct blkup_pool_item *n = &p->items[i];

                if (n->drop)
                        n->drop(n->arg);
                free(n->name);
                free(n->message);
        }
        for (unsigned i = 0; i < p->n_workers; i++)
                free(p->workers[i]);
        free(p->workers);
        free(p->items);
        free(p->arcs);
        free(p->heap);
        free(p->stack);
        (void) pthread_cond_destroy(&p->work);
        (void) pthread_cond_destroy(&p->ended);
        (void) pthread_mutex_destroy(&p->lock);
        free(p);
        return NULL;
}

static char *copy_text(const char *text)
{
        size_t n = strlen(text) + 1;
        char *copy = malloc(n);

        if (copy)
                memcpy(copy, text, n);
        return copy;
}

void blkup_pool_set_message(struct blkup_pool_item *n, const char *message)
{
        /* Without memory the code alone has to do. message may be the one that is there. */
        char *copy = message && *message ? copy_text(message) : NULL;

        free(n->message);
        n->message = copy;
}

/* ---- the ready nodes: a heap, longest path on top; among equals the node that was added first, which the
 * numbers do not tell: places are used again ---- */

static bool is_before(const struct blkup_pool *p, uint32_t a, uint32_t b)
{
        uint64_t pa = p->items[a].path_ns, pb = p->items[b].path_ns;

        return pa != pb ? pa > pb : p->items[a].born < p->items[b].born;
}

static void put(struct blkup_pool *p, uint32_t at, uint32_t node)
{
        p->heap[at] = node;
        p->items[node].heap_at = at;
}

static void sift_up(struct blkup_pool *p, uint32_t at)
{
        uint32_t node = p->heap[at];

        for (; at > 0 && is_before(p, node, p->heap[(at - 1) / 2]); at = (at - 1) / 2)
                put(p, at, p->heap[(at - 1) / 2]);
        put(p, at, node);
}

static void sift_down(struct blkup_pool *p, uint32_t at)
{
        uint32_t node = p->heap[at], child;

        for (; (child = 2 * at + 1) < p->n_ready; at = child) {
                if (child + 1 < p->n_ready && is_before(p, p->heap[child + 1], p->heap[child]))
                        child++;
                if (!is_before(p, p->heap[child], node))
                        break;
                put(p, at, p->heap[child]);
        }
        put(p, at, node);
}

void blkup_pool_make_ready(struct blkup_pool *p, uint32_t node)
{
        p->items[node].state = BLKUP_POOL_READY;
        put(p, p->n_ready, node);
        sift_up(p, p->n_ready++);
}

uint32_t blkup_pool_take_ready(struct blkup_pool *p)
{
        uint32_t top = p->heap[0];

        p->n_ready--;
        if (p->n_ready > 0) {
                put(p, 0, p->heap[p->n_ready]);
                sift_down(p, 0);
        }
        p->items[top].heap_at = BLKUP_POOL_NOT_READY;
        return top;
}

/* Takes a ready node out of the middle: it gained something to wait for. */
static void remove_ready(struct blkup_pool *p, uint32_t node)
{
        uint32_t at = p->items[node].heap_at;

        p->n_ready--;
        if (at != p->n_ready) {
                put(p, at, p->heap[p->n_ready]);
                sift_down(p, at);
                sift_up(p, at);
        }
        p->items[node].heap_at = BLKUP_POOL_NOT_READY;
}

/* ---- paths ---- */

static uint64_t add_capped(uint64_t a, uint64_t b)
{
        uint64_t r;

        return __builtin_add_overflow(a, b, &r) ? UINT64_MAX : r;
}

/* The path behind `node` may have become longer: raises those that lead to it. */
static void raise_paths(struct blkup_pool *p, uint32_t node)
{
        uint32_t n = 0, mark = blkup_pool_next_mark(p);

        p->stack[n++] = node;
        p->items[node].mark = mark;
        /* Ends: paths only grow, each is bounded by the sum of all costs, and the graph has no circles
         * (depend() checked while running; before the run prepare() works the paths out in another way). The
         * mark keeps a node from being in the stack twice. */
        while (n > 0) {
                uint32_t at = p->stack[--n];

                p->items[at].mark = 0;
                for (uint32_t e = p->items[at].first_in; e != BLKUP_POOL_NO_EDGE; e = p->arcs[e].next_in) {
                        uint32_t from = p->arcs[e].from;
                        uint64_t path = add_capped(p->items[from].cost_ns, p->items[at].path_ns);

                        if (path <= p->items[from].path_ns || has_ended(&p->items[from]))
                                continue;
                        p->items[from].path_ns = path;
                        if (p->items[from].heap_at != BLKUP_POOL_NOT_READY)
                                sift_up(p, p->items[from].heap_at);
                        if (p->items[from].mark != mark) {
                                p->items[from].mark = mark;
                                p->stack[n++] = from;
                        }
                }
        }
}

/* Does `to` wait, over whatever steps, for `from`? */
static bool is_reachable(struct blkup_pool *p, uint32_t from, uint32_t to)
{
        uint32_t n = 0, mark = blkup_pool_next_mark(p);

        p->stack[n++] = from;
        p->items[from].mark = mark;
        while (n > 0) { /* ends: each node is pushed once, guarded by its mark */
                uint32_t at = p->stack[--n];

                if (at == to)
                        return true;
                for (uint32_t e = p->items[at].first_out; e != BLKUP_POOL_NO_EDGE; e = p->arcs[e].next_out) {
                        uint32_t next = p->arcs[e].to;

                        if (p->items[next].mark != mark) {
                                p->items[next].mark = mark;
                                p->stack[n++] = next;
                        }
                }
        }
        return false;
}

/* ---- building ---- */

static int grow_items(struct blkup_pool *p)
{
        uint32_t cap = p->cap_items == 0 ? FIRST_CAP : 2 * p->cap_items;
        void *grown;

        if (p->first_free != BLKUP_POOL_NONE || p->n_items < p->cap_items)
                return 0;
        /* One after the other: what has grown already stays valid when the next fails. */
        grown = realloc(p->items, cap * sizeof(*p->items));
        if (!grown)
                return -ENOMEM;
        p->items = grown;
        grown = realloc(p->heap, cap * sizeof(*p->heap));
        if (!grown)
                return -ENOMEM;
        p->heap = grown;
        grown = realloc(p->stack, cap * sizeof(*p->stack));
        if (!grown)
                return -ENOMEM;
        p->stack = grown;
        p->cap_items = cap;
        return 0;
}

static int grow_arcs(struct blkup_pool *p)
{
        uint32_t cap = p->cap_arcs == 0 ? FIRST_CAP : 2 * p->cap_arcs;
        void *grown;

        if ((p->n_arcs - p->n_free_arcs) / EDGES_A_NODE >= p->max_nodes)
                return -ENOSPC;
        if (p->n_free_arcs > 0 || p->n_arcs < p->cap_arcs)
                return 0;
        grown = realloc(p->arcs, cap * sizeof(*p->arcs));
        if (!grown)
                return -ENOMEM;
        p->arcs = grown;
        p->cap_arcs = cap;
        return 0;
}

/* There is one: grow_arcs() has seen to that. */
static uint32_t take_arc(struct blkup_pool *p)
{
        uint32_t arc = p->first_free_arc;

        if (arc == BLKUP_POOL_NO_EDGE)
                return p->n_arcs++;
        p->first_free_arc = p->arcs[arc].next_out;
        p->n_free_arcs--;
        return arc;
}

static bool is_node(const struct blkup_pool *p, uint32_t node)
{
        return node < p->n_items && !p->items[node].is_free;
}

static void skip_from(struct blkup_pool *p, uint32_t node, uint32_t culprit, int code, uint64_t at_ns);

static int depend(struct blkup_pool *p, uint32_t node, uint32_t on, enum blkup_pool_edge kind)
{
        struct blkup_pool_item *n, *o;
        uint32_t arc;
        int r;

        if (!is_node(p, node) || !is_node(p, on) || node == on)
                return -EINVAL;
        n = &p->items[node];
        o = &p->items[on];
        if (p->phase == BLKUP_POOL_ENDED ||
            (p->phase == BLKUP_POOL_GOING && n->state != BLKUP_POOL_WAITING && n->state != BLKUP_POOL_READY))
                return -EBUSY;
        if (p->phase == BLKUP_POOL_GOING && has_ended(o)) {
                if (kind == BLKUP_POOL_NEEDS && o->state != BLKUP_POOL_DONE) {
                        if (n->state == BLKUP_POOL_READY)
                                remove_ready(p, node);
                        skip_from(p, node, o->culprit == BLKUP_POOL_NONE ? on : o->culprit, o->code,
                                  blkup_now_ns());
                        blkup_pool_call_workers(p);
                        blkup_pool_after_end(p);
                }
                return 0;
        }
        if (p->phase == BLKUP_POOL_GOING && is_reachable(p, node, on))
                return -ELOOP;
        r = grow_arcs(p);
        if (r < 0)
                return r;
        arc = take_arc(p);
        p->arcs[arc] = (struct blkup_pool_arc){
                .from = on, .to = node, .next_out = o->first_out, .next_in = n->first_in, .kind = kind,
        };
        o->first_out = n->first_in = arc;
        if (p->phase == BLKUP_POOL_GOING) {
                if (n->state == BLKUP_POOL_READY) {
                        remove_ready(p, node);
                        n->state = BLKUP_POOL_WAITING;
                }
                n->missing++;
                raise_paths(p, node);
        }
        return 0;
}

int blkup_pool_depend(struct blkup_pool *p, uint32_t node, uint32_t on, enum blkup_pool_edge kind)
{
        int r;

        (void) pthread_mutex_lock(&p->lock);
        r = depend(p, node, on, kind);
        (void) pthread_mutex_unlock(&p->lock);
        return r;
}

static int add(struct blkup_pool *p, const struct blkup_pool_node *n, const uint32_t *to_wait_for,
               uint32_t n_wait, uint32_t *ret)
{
        bool is_used_again = p->first_free != BLKUP_POOL_NONE;
        uint32_t node = is_used_again ? p->first_free : p->n_items;
        char *name;
        int r;

        if (p->phase == BLKUP_POOL_ENDED || p->is_cancelled)
                return -ECANCELED;
        if (p->phase == BLKUP_POOL_GOING && n->timeout_ns > 0 && !p->has_timeouts)
                return -EINVAL;
        for (uint32_t i = 0; i < n_wait; i++)
                if (!is_node(p, to_wait_for[i]))
                        return -EINVAL;
        if (!is_used_again && p->n_items >= p->max_nodes)
                return -ENOSPC;
        r = grow_items(p);
        if (r < 0)
                return r;
        name = copy_text(n->name ? n->name : "");
        if (!name)
                return -ENOMEM;
        if (is_used_again)
                p->first_free = p->items[node].limit_next;
        else
                p->n_items++;
        p->items[node] = (struct blkup_pool_item){
                .name = name,
                .born = p->n_born++,
                .is_released = ret == NULL,
                .cost_ns = n->cost_ns > 0 ? n->cost_ns : 1,
                .path_ns = n->cost_ns > 0 ? n->cost_ns : 1,
                .timeout_ns = n->timeout_ns,
                .run = n->run,
                .arg = n->arg,
                .drop = n->drop,
                .first_out = BLKUP_POOL_NO_EDGE,
                .first_in = BLKUP_POOL_NO_EDGE,
                .heap_at = BLKUP_POOL_NOT_READY,
                .culprit = BLKUP_POOL_NONE,
                .state = BLKUP_POOL_WAITING,
        };
        p->n_left++;
        for (uint32_t i = 0; i < n_wait; i++) {
                r = depend(p, node, to_wait_for[i], BLKUP_POOL_NEEDS);
                if (r == -EBUSY)
                        break; /* skipped by the one before: its end is known */
                if (r < 0) {
                        /* Takes the edges back, newest first, so that each is the first of its lists. */
                        for (uint32_t e = p->items[node].first_in, next; e != BLKUP_POOL_NO_EDGE; e = next) {
                                next = p->arcs[e].next_in;
                                p->items[p->arcs[e].from].first_out = p->arcs[e].next_out;
                                blkup_pool_free_arc(p, e);
                        }
                        p->items[node] = (struct blkup_pool_item){
                                .is_free = true,
                                .state = BLKUP_POOL_DONE,
                                .first_out = BLKUP_POOL_NO_EDGE,
                                .first_in = BLKUP_POOL_NO_EDGE,
                                .limit_next = p->first_free,
                        };
                        if (is_used_again)
                                p->first_free = node;
                        else
                                p->n_items--;
                        p->n_left--;
                        free(name);
                        return r;
                }
        }
        if (p->phase == BLKUP_POOL_GOING && p->items[node].state == BLKUP_POOL_WAITING &&
            p->items[node].missing == 0) {
                blkup_pool_make_ready(p, node);
                blkup_pool_call_workers(p);
        }
        if (ret)
                *ret = node;
        return 0;
}

int blkup_pool_add(struct blkup_pool *p, const struct blkup_pool_node *n, const uint32_t *to_wait_for,
                   uint32_t n_wait, uint32_t *ret)
{
        int r;

        (void) pthread_mutex_lock(&p->lock);
        blkup_pool_sweep(p);
        r = add(p, n, to_wait_for, n_wait, ret);
        (void) pthread_mutex_unlock(&p->lock);
        return r;
}

/* ---- ends ---- */

static void set_end(struct blkup_pool *p, uint32_t node, enum blkup_pool_state state, int code,
                    uint64_t at_ns)
{
        struct blkup_pool_item *n = &p->items[node];

        n->state = state;
        n->code = code;
        n->end_ns = n->start_ns || p->phase == BLKUP_POOL_REPLAYING ? at_ns : 0;
        p->n_left--;
        blkup_pool_note_over(p, node);
}

/* Tells those that wait for `at` how it ended; those that are skipped for it are appended to the stack. */
static uint32_t tell_dependants(struct blkup_pool *p, uint32_t at, uint32_t culprit, uint32_t n,
                                uint64_t at_ns)
{
        const struct blkup_pool_item *ended = &p->items[at];

        for (uint32_t e = ended->first_out; e != BLKUP_POOL_NO_EDGE; e = p->arcs[e].next_out) {
                struct blkup_pool_item *to = &p->items[p->arcs[e].to];

                if (to->state != BLKUP_POOL_WAITING)
                        continue;
                to->missing--;
                if (p->arcs[e].kind == BLKUP_POOL_NEEDS && ended->state != BLKUP_POOL_DONE) {
                        set_end(p, p->arcs[e].to, BLKUP_POOL_SKIPPED, ended->code, at_ns);
                        to->culprit = culprit;
                        p->stack[n++] = p->arcs[e].to;
                } else if (to->missing == 0) {
                        blkup_pool_make_ready(p, p->arcs[e].to);
                }
        }
        return n;
}

static void tell(struct blkup_pool *p, uint32_t node, uint32_t culprit, uint64_t at_ns)
{
        uint32_t n = tell_dependants(p, node, culprit, 0, at_ns);

        while (n > 0) { /* ends: a node is pushed only when it turns from waiting to skipped */
                uint32_t at = p->stack[--n];

                n = tell_dependants(p, at, culprit, n, at_ns);
        }
}

static void skip_from(struct blkup_pool *p, uint32_t node, uint32_t culprit, int code, uint64_t at_ns)
{
        set_end(p, node, BLKUP_POOL_SKIPPED, code, at_ns);
        p->items[node].culprit = culprit;
        tell(p, node, culprit, at_ns);
}

void blkup_pool_end_node(struct blkup_pool *p, uint32_t node, enum blkup_pool_state state, int code,
                         uint64_t at_ns)
{
        set_end(p, node, state, code, at_ns);
        tell(p, node, node, at_ns);
}

/* ---- before a run ---- */

/* Names the nodes of one circle: from a node that still waits, always on to one that it waits for. */
static int name_circle(struct blkup_pool *p, struct blkup_error *err)
{
        char text[400] = "";
        size_t used = 0;
        uint32_t at = 0, first, mark = blkup_pool_next_mark(p);

        while (at < p->n_items && p->items[at].missing == 0)
                at++;
        /* Ends: each step marks a node, and stops at a marked one. Every node here waits for another such
         * node: those that wait for none have been taken away. */
        while (at < p->n_items && p->items[at].mark != mark) {
                uint32_t e = p->items[at].first_in;

                p->items[at].mark = mark;
                while (e != BLKUP_POOL_NO_EDGE && p->items[p->arcs[e].from].missing == 0)
                        e = p->arcs[e].next_in;
                if (e == BLKUP_POOL_NO_EDGE)
                        break;
                at = p->arcs[e].from;
        }
        first = at;
        for (uint32_t steps = 0; at < p->n_items && steps <= p->n_items; steps++) {
                uint32_t e = p->items[at].first_in;
                int n = snprintf(text + used, sizeof(text) - used, "%s%s", used ? " waits for " : "",
                                 p->items[at].name);

                if (n < 0 || (size_t) n >= sizeof(text) - used)
                        break;
                used += (size_t) n;
                if (steps > 0 && at == first)
                        break;
                while (e != BLKUP_POOL_NO_EDGE && p->items[p->arcs[e].from].missing == 0)
                        e = p->arcs[e].next_in;
                if (e == BLKUP_POOL_NO_EDGE)
                        break;
                at = p->arcs[e].from;
        }
        return blkup_fail(err, -ELOOP, "circle: %s", text);
}

int blkup_pool_prepare(struct blkup_pool *p, const uint64_t *durations_ns, uint64_t *ret_critical_ns,
                       struct blkup_error *err)
{
        uint32_t n = 0, seen = 0;
        uint64_t critical = 0;

        p->n_ready = 0;
        p->n_left = p->n_items;
        for (uint32_t i = 0; i < p->n_items; i++) {
                struct blkup_pool_item *it = &p->items[i];

                it->missing = 0;
                it->path_ns = it->cost_ns;
                it->state = BLKUP_POOL_WAITING;
                it->heap_at = BLKUP_POOL_NOT_READY;
                it->culprit = BLKUP_POOL_NONE;
                it->code = 0;
                it->start_ns = it->end_ns = 0;
                it->worker = 0;
                for (uint32_t e = it->first_in; e != BLKUP_POOL_NO_EDGE; e = p->arcs[e].next_in)
                        it->missing++;
        }
        /* In topological order into the stack, used as a list here; what is left over waits in a circle. */
        for (uint32_t i = 0; i < p->n_items; i++)
                if (p->items[i].missing == 0)
                        p->stack[n++] = i;
        for (; seen < n; seen++)
                for (uint32_t e = p->items[p->stack[seen]].first_out; e != BLKUP_POOL_NO_EDGE;
                     e = p->arcs[e].next_out)
                        if (--p->items[p->arcs[e].to].missing == 0)
                                p->stack[n++] = p->arcs[e].to;
        if (n < p->n_items)
                return name_circle(p, err);
        /* Backwards: the paths behind a node are known before its own. By cost, which is what the order goes
         * by; and by what the nodes really take, in end_ns, which is free until the start. */
        while (n > 0) {
                uint32_t i = p->stack[--n];
                struct blkup_pool_item *it = &p->items[i];
                uint64_t behind = 0, really_behind = 0;

                for (uint32_t e = it->first_out; e != BLKUP_POOL_NO_EDGE; e = p->arcs[e].next_out) {
                        const struct blkup_pool_item *to = &p->items[p->arcs[e].to];

                        if (to->path_ns > behind)
                                behind = to->path_ns;
                        if (to->end_ns > really_behind)
                                really_behind = to->end_ns;
                }
                it->path_ns = add_capped(it->cost_ns, behind);
                it->end_ns = add_capped(durations_ns ? durations_ns[i] : it->cost_ns, really_behind);
                if (it->end_ns > critical)
                        critical = it->end_ns;
        }
        for (uint32_t i = 0; i < p->n_items; i++) {
                p->items[i].end_ns = 0;
                for (uint32_t e = p->items[i].first_in; e != BLKUP_POOL_NO_EDGE; e = p->arcs[e].next_in)
                        p->items[i].missing++;
                if (p->items[i].missing == 0)
                        blkup_pool_make_ready(p, i);
        }
        *ret_critical_ns = critical;
        return 0;
}

void blkup_pool_sum_up(struct blkup_pool *p, uint64_t start_ns, struct blkup_pool_summary *ret)
{
        *ret = p->freed;
        ret->threads = p->n_made;
        if (p->freed_end_ns > start_ns)
                ret->span_ns = p->freed_end_ns - start_ns;
        for (uint32_t i = 0; i < p->n_items; i++) {
                const struct blkup_pool_item *n = &p->items[i];

                if (n->is_free)
                        continue;
                ret->done += n->state == BLKUP_POOL_DONE;
                ret->failed += n->state == BLKUP_POOL_FAILED;
                ret->skipped += n->state == BLKUP_POOL_SKIPPED;
                ret->timed_out += n->state == BLKUP_POOL_TIMED_OUT;
                ret->cancelled += n->state == BLKUP_POOL_CANCELLED;
                if (n->end_ns > start_ns && n->end_ns - start_ns > ret->span_ns)
                        ret->span_ns = n->end_ns - start_ns;
                if (n->path_ns > ret->critical_ns)
                        ret->critical_ns = n->path_ns;
                ret->work_ns = add_capped(ret->work_ns, n->cost_ns);
        }
}

/* ---- asking ---- */

uint32_t blkup_pool_count(struct blkup_pool *p)
{
        uint32_t n;

        (void) pthread_mutex_lock(&p->lock);
        n = p->n_items;
        (void) pthread_mutex_unlock(&p->lock);
        return n;
}

int blkup_pool_get(struct blkup_pool *p, uint32_t node, struct blkup_pool_result *ret)
{
        int r = -ENOENT;

        (void) pthread_mutex_lock(&p->lock);
        if (is_node(p, node)) {
                const struct blkup_pool_item *n = &p->items[node];

                *ret = (struct blkup_pool_result){
                        .name = n->name,
                        .state = n->state,
                        .code = n->code,
                        .culprit = n->culprit,
                        .message = n->message ? n->message : "",
                        .start_ns = n->start_ns,
                        .end_ns = n->end_ns,
                        .worker = n->worker,
                };
                r = 0;
        }
        (void) pthread_mutex_unlock(&p->lock);
        return r;
}

/* ---- replay ---- */

/* The run in virtual time: the same heap and the same ends, and a list of who is busy until when instead of
 * threads. */
static int replay(struct blkup_pool *p, unsigned workers, const uint64_t *durations_ns,
                  struct blkup_pool_summary *ret, struct blkup_error *err)
{
        uint32_t busy[BLKUP_POOL_MAX_WORKERS]; /* node of each worker */
        uint64_t now = 0, work = 0, critical = 0;
        unsigned n_busy = 0;
        int r = blkup_pool_prepare(p, durations_ns, &critical, err);

        if (r < 0)
                return r;
        for (unsigned w = 0; w < workers; w++)
                busy[w] = BLKUP_POOL_NONE;
        /* Ends: each round starts or ends a node, and without circles one of both is possible while nodes are
         * left. */
        while (p->n_left > 0) {
                uint64_t next = UINT64_MAX;

                for (unsigned w = 0; w < workers && p->n_ready > 0; w++)
                        if (busy[w] == BLKUP_POOL_NONE) {
                                struct blkup_pool_item *n;

                                busy[w] = blkup_pool_take_ready(p);
                                n = &p->items[busy[w]];
                                n->state = BLKUP_POOL_RUNNING;
                                n->worker = w;
                                n->start_ns = now;
                                n->end_ns =
                                        add_capped(now, durations_ns ? durations_ns[busy[w]] : n->cost_ns);
                                work = add_capped(work, n->end_ns - now);
                                n_busy++;
                        }
                if (n_busy == 0)
                        return blkup_fail(err, -ELOOP, "nodes wait, and nothing runs");
                for (unsigned w = 0; w < workers; w++)
                        if (busy[w] != BLKUP_POOL_NONE && p->items[busy[w]].end_ns < next)
                                next = p->items[busy[w]].end_ns;
                now = next;
                for (unsigned w = 0; w < workers; w++)
                        if (busy[w] != BLKUP_POOL_NONE && p->items[busy[w]].end_ns <= now) {
                                blkup_pool_end_node(p, busy[w], BLKUP_POOL_DONE, 0, now);
                                busy[w] = BLKUP_POOL_NONE;
                                n_busy--;
                        }
        }
        if (ret) {
                blkup_pool_sum_up(p, 0, ret);
                ret->threads = 0;
                ret->critical_ns = critical;
                ret->work_ns = work;
        }
        return 0;
}

int blkup_pool_replay(struct blkup_pool *p, unsigned workers, const uint64_t *durations_ns,
                      struct blkup_pool_summary *ret, struct blkup_error *err)
{
        int r;

        if (workers == 0 || workers > BLKUP_POOL_MAX_WORKERS)
                return blkup_fail(err, -EINVAL, "workers: 1 to %u, not %u", BLKUP_POOL_MAX_WORKERS, workers);
        (void) pthread_mutex_lock(&p->lock);
        if (p->phase != BLKUP_POOL_BUILDING) {
                r = blkup_fail(err, -EALREADY, "the graph has run");
        } else {
                p->phase = BLKUP_POOL_REPLAYING;
                r = replay(p, workers, durations_ns, ret, err);
                p->phase = BLKUP_POOL_BUILDING;
                /* Edges may be added again. */
                for (uint32_t i = 0; r == 0 && i < p->n_items; i++)
                        p->items[i].missing = 0;
        }
        (void) pthread_mutex_unlock(&p->lock);
        return r;
}

int blkup_pool_before(struct blkup_pool *p, uint32_t node, const bool *is_left_out, uint32_t *ret,
                      uint32_t cap, uint32_t *ret_n)
{
        uint32_t depth = 0, n = 0;
        int r = -ENOENT;

        (void) pthread_mutex_lock(&p->lock);
        if (is_node(p, node)) {
                uint32_t mark = blkup_pool_next_mark(p);

                p->items[node].mark = mark;
                p->stack[depth++] = node;
                /* Ends: each node is put on the stack once. */
                while (depth > 0) {
                        uint32_t arc = p->items[p->stack[--depth]].first_in;

                        for (; arc != BLKUP_POOL_NO_EDGE; arc = p->arcs[arc].next_in) {
                                uint32_t from = p->arcs[arc].from;

                                if (p->items[from].mark == mark)
                                        continue;
                                p->items[from].mark = mark;
                                if (is_left_out && is_left_out[from])
                                        p->stack[depth++] = from;
                                else if (n++ < cap)
                                        ret[n - 1] = from;
                        }
                }
                *ret_n = n;
                r = 0;
        }
        (void) pthread_mutex_unlock(&p->lock);
        return r;
}
