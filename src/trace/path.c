/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trace/path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/trace-private.h"

/* Nodes grouped by something (lane, worker) and within a group by their end: what came before on it is then a
 * search by halves. */
struct by_end {
        uint64_t group, end_ns, start_ns;
        size_t node;
};

static int compare_by_end(const void *pa, const void *pb)
{
        const struct by_end *a = pa, *b = pb;

        if (a->group != b->group)
                return a->group < b->group ? -1 : 1;
        if (a->end_ns != b->end_ns)
                return a->end_ns < b->end_ns ? -1 : 1;
        if (a->start_ns != b->start_ns)
                return a->start_ns < b->start_ns ? -1 : 1;
        return a->node < b->node ? -1 : a->node > b->node;
}

static bool has_run(const struct blkup_path_node *n)
{
        return n->start_ns || n->end_ns;
}

/* May a come before b? Each step back begins earlier, or, for spans of no length, comes earlier in the list:
 * so a path ends. */
static bool is_earlier(const struct blkup_path_node *nodes, size_t a, size_t b)
{
        if (!has_run(&nodes[a]) || nodes[a].end_ns > nodes[b].start_ns)
                return false;
        return nodes[a].start_ns < nodes[b].start_ns || (nodes[a].start_ns == nodes[b].start_ns && a < b);
}

/* The last of the group that ended before node began; SIZE_MAX: none. */
static size_t find_before(const struct by_end *list, size_t n, uint64_t group,
                          const struct blkup_path_node *nodes, size_t node)
{
        size_t low = 0, high = n;

        /* The first that is of a later group or no earlier than node: in the order of the list all behind it
         * are neither. Ends: the range halves. */
        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (list[middle].group < group ||
                    (list[middle].group == group && is_earlier(nodes, list[middle].node, node)))
                        low = middle + 1;
                else
                        high = middle;
        }
        return low > 0 && list[low - 1].group == group ? list[low - 1].node : SIZE_MAX;
}

static struct by_end *make_list(const struct blkup_path_node *nodes, size_t n, bool by_lane, size_t *ret_n)
{
        struct by_end *list = calloc(n + 1, sizeof(*list));
        size_t used = 0;

        for (size_t i = 0; list && i < n; i++)
                if (has_run(&nodes[i]))
                        list[used++] = (struct by_end){
                                .group = by_lane ? nodes[i].lane : nodes[i].worker,
                                .end_ns = nodes[i].end_ns,
                                .start_ns = nodes[i].start_ns,
                                .node = i,
                        };
        if (list)
                qsort(list, used, sizeof(*list), compare_by_end);
        *ret_n = used;
        return list;
}

struct search {
        const struct blkup_path_node *nodes;
        size_t n, n_lanes, n_workers;
        struct by_end *lanes, *workers;
};

/* What node waited for last; SIZE_MAX: nothing. */
static size_t before(const struct search *s, size_t node, enum blkup_path_why *ret_why)
{
        const struct blkup_path_node *nodes = s->nodes, *at = &nodes[node];
        size_t best = SIZE_MAX, other;

        *ret_why = BLKUP_PATH_AFTER;
        for (uint32_t i = 0; i < at->n_after; i++) {
                other = at->after[i];
                if (other < s->n && other != node && is_earlier(nodes, other, node) &&
                    (best == SIZE_MAX || nodes[other].end_ns > nodes[best].end_ns))
                        best = other;
        }
        if (!at->is_known) {
                other = find_before(s->lanes, s->n_lanes, at->lane, nodes, node);
                if (other != SIZE_MAX && (best == SIZE_MAX || nodes[other].end_ns > nodes[best].end_ns)) {
                        best = other;
                        *ret_why = BLKUP_PATH_LANE;
                }
        }
        /* Nothing it waited for ended just now: its worker may have been busy. */
        if (best == SIZE_MAX || at->start_ns - nodes[best].end_ns > BLKUP_PATH_GAP_NS) {
                other = find_before(s->workers, s->n_workers, at->worker, nodes, node);
                if (other != SIZE_MAX && (best == SIZE_MAX || nodes[other].end_ns > nodes[best].end_ns)) {
                        best = other;
                        *ret_why = BLKUP_PATH_WORKER;
                }
        }
        if (best == SIZE_MAX)
                *ret_why = BLKUP_PATH_FIRST;
        return best;
}

static size_t find_last(const struct blkup_path_node *nodes, size_t n)
{
        size_t last = SIZE_MAX;

        for (size_t i = 0; i < n; i++)
                if (has_run(&nodes[i]) &&
                    (last == SIZE_MAX || nodes[i].end_ns > nodes[last].end_ns ||
                     /* of spans that end together the one that is not a mere point */
                     (nodes[i].end_ns == nodes[last].end_ns && nodes[i].start_ns < nodes[last].start_ns)))
                        last = i;
        return last;
}

static int walk(const struct search *s, uint64_t run_start_ns, struct blkup_path_step **ret, size_t *ret_n)
{
        size_t at = find_last(s->nodes, s->n), n = 0, cap = 0;
        struct blkup_path_step *path = NULL;

        /* Ends: is_earlier() orders what is gone through, so no node comes twice. */
        while (at != SIZE_MAX) {
                uint64_t start_ns = s->nodes[at].start_ns, from;
                enum blkup_path_why why;
                size_t next = before(s, at, &why);

                if (n == cap) {
                        struct blkup_path_step *grown;

                        cap = cap ? cap * 2 : 16;
                        grown = realloc(path, cap * sizeof(*path));
                        if (!grown) {
                                free(path);
                                return -ENOMEM;
                        }
                        path = grown;
                }
                from = next != SIZE_MAX ? s->nodes[next].end_ns : run_start_ns;
                path[n++] = (struct blkup_path_step){
                        .node = at,
                        .wait_ns = from && from < start_ns ? start_ns - from : 0,
                        .why = why,
                };
                at = next;
        }
        for (size_t i = 0; i < n / 2; i++) {
                struct blkup_path_step first = path[i];

                path[i] = path[n - 1 - i];
                path[n - 1 - i] = first;
        }
        *ret = path;
        *ret_n = n;
        return 0;
}

int blkup_path_find(const struct blkup_path_node *nodes, size_t n, uint64_t run_start_ns,
                    struct blkup_path_step **ret, size_t *ret_n)
{
        struct search s = { .nodes = nodes, .n = n };
        int r = -ENOMEM;

        s.lanes = make_list(nodes, n, true, &s.n_lanes);
        s.workers = make_list(nodes, n, false, &s.n_workers);
        if (s.lanes && s.workers)
                r = walk(&s, run_start_ns, ret, ret_n);
        free(s.lanes);
        free(s.workers);
        return r;
}

bool blkup_path_is_told(enum blkup_span_kind kind, uint64_t ns)
{
        return ns > BLKUP_PATH_GAP_NS || (kind != BLKUP_SPAN_WAIT && kind != BLKUP_SPAN_OTHER);
}

/* ---- of a trace ---- */

struct known_id {
        uint64_t id;
        uint32_t node;
};

static int compare_ids(const void *pa, const void *pb)
{
        const struct known_id *a = pa, *b = pb;

        if (a->id != b->id)
                return a->id < b->id ? -1 : 1;
        return a->node < b->node ? -1 : a->node > b->node;
}

struct of_trace {
        struct blkup_trace *t;
        uint64_t n_spans;
        struct blkup_path_node *nodes;
        uint64_t *spans;      /* of each node: its index in order of start */
        uint64_t *until_ns;   /* by lane: the latest end of what is not nested */
        struct known_id *ids; /* sorted */
        uint32_t *edges;
        size_t n_nodes, n_ids;
};

/* Spans of a lane that lie in another are its details. Spans come in order of start: of those that start
 * together the longer one holds the other, whichever was added first. */
static bool is_nested(const struct of_trace *o, uint64_t i, const struct blkup_span *s, uint32_t lane)
{
        if (s->id)
                return false;
        if (s->end_ns <= o->until_ns[lane] && s->start_ns < o->until_ns[lane])
                return true;
        /* Ends: with the first that starts later; bounded, for a trace in which all start together. */
        for (uint64_t k = i + 1; k < o->n_spans && k < i + 64; k++) {
                struct blkup_span next;
                uint32_t next_lane;

                blkup_trace_sorted(o->t, k, &next, &next_lane);
                if (next.start_ns != s->start_ns)
                        break;
                if (next_lane == lane && next.end_ns > s->end_ns && next.kind != BLKUP_SPAN_WAIT)
                        return true;
        }
        return false;
}

static int collect(struct of_trace *o, uint64_t *ret_n_edges)
{
        uint64_t n_edges = 0;

        for (uint64_t i = 0; i < o->n_spans; i++) {
                struct blkup_span s;
                uint32_t lane;

                blkup_trace_sorted(o->t, i, &s, &lane);
                if ((s.kind == BLKUP_SPAN_WAIT && !s.id) || is_nested(o, i, &s, lane))
                        continue;
                if (s.end_ns > o->until_ns[lane])
                        o->until_ns[lane] = s.end_ns;
                o->spans[o->n_nodes] = i;
                o->nodes[o->n_nodes] = (struct blkup_path_node){
                        .start_ns = s.start_ns,
                        .end_ns = s.end_ns,
                        .lane = lane,
                        .worker = s.worker,
                        .is_known = s.id != 0,
                        .n_after = s.n_after,
                };
                if (s.id)
                        o->ids[o->n_ids++] = (struct known_id){ s.id, (uint32_t) o->n_nodes };
                o->n_nodes++;
                n_edges += s.n_after;
        }
        qsort(o->ids, o->n_ids, sizeof(*o->ids), compare_ids);
        *ret_n_edges = n_edges;
        return n_edges < SIZE_MAX / sizeof(*o->edges) ? 0 : -ENOMEM;
}

static uint32_t find_id(const struct of_trace *o, uint64_t id)
{
        size_t low = 0, high = o->n_ids;

        /* Ends: the range halves. */
        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (o->ids[middle].id < id)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low < o->n_ids && o->ids[low].id == id ? o->ids[low].node : UINT32_MAX;
}

static void link_nodes(struct of_trace *o)
{
        size_t used = 0;

        for (size_t i = 0; i < o->n_nodes; i++) {
                struct blkup_span s;

                blkup_trace_sorted(o->t, o->spans[i], &s, NULL);
                o->nodes[i].after = &o->edges[used];
                for (uint32_t k = 0; k < s.n_after; k++)
                        o->edges[used++] = find_id(o, s.after[k]);
        }
}

int blkup_trace_path(struct blkup_trace *t, struct blkup_path_step **ret, size_t *ret_n)
{
        struct of_trace o = { .t = t };
        struct blkup_span first = { 0 };
        uint64_t n_edges = 0;
        size_t cap;
        int r = blkup_trace_sort(t);

        if (r < 0)
                return r;
        o.n_spans = blkup_trace_sorted_count(t);
        if (o.n_spans >= UINT32_MAX)
                return -ENOMEM;
        cap = (size_t) o.n_spans + 1;
        o.nodes = calloc(cap, sizeof(*o.nodes));
        o.spans = calloc(cap, sizeof(*o.spans));
        o.ids = calloc(cap, sizeof(*o.ids));
        o.until_ns = calloc((size_t) blkup_trace_lanes(t) + 1, sizeof(*o.until_ns));
        r = o.nodes && o.spans && o.ids && o.until_ns ? collect(&o, &n_edges) : -ENOMEM;
        if (r == 0) {
                o.edges = calloc((size_t) n_edges + 1, sizeof(*o.edges));
                r = o.edges ? 0 : -ENOMEM;
        }
        if (r == 0) {
                link_nodes(&o);
                if (o.n_spans > 0)
                        blkup_trace_sorted(t, 0, &first, NULL);
                r = blkup_path_find(o.nodes, o.n_nodes, first.start_ns, ret, ret_n);
        }
        for (size_t i = 0; r == 0 && i < *ret_n; i++)
                (*ret)[i].node = (size_t) o.spans[(*ret)[i].node];
        free(o.nodes);
        free(o.spans);
        free(o.ids);
        free(o.until_ns);
        free(o.edges);
        return r;
}
