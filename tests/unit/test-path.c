/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The critical path on random graphs, run by the pool's own scheduler in virtual time and by a small one
 * here, and compared with longest paths that are computed in another way: all pairs, by relaxation until
 * nothing changes, over what waited for what (and, with few workers, what sat behind what on one worker).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sync/pool.h"
#include "trace/path.h"

#define MAX_NODES 40u
#define GRAPHS    200u

struct graph {
        uint32_t n;
        uint64_t takes_ns[MAX_NODES];
        bool waits[MAX_NODES][MAX_NODES]; /* [a][b]: a waits for b */
        uint32_t after[MAX_NODES][MAX_NODES];
        struct blkup_path_node nodes[MAX_NODES];
};

static uint64_t next_random(uint64_t *seed)
{
        /* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators" */
        *seed ^= *seed >> 12;
        *seed ^= *seed << 25;
        *seed ^= *seed >> 27;
        return *seed * UINT64_C(2685821657736338717);
}

static void make_graph(struct graph *g, uint64_t seed)
{
        unsigned density;

        *g = (struct graph){ .n = 2 + (uint32_t) (next_random(&seed) % (MAX_NODES - 2)) };
        density = 1 + (unsigned) (next_random(&seed) % 30);
        for (uint32_t i = 0; i < g->n; i++) {
                /* Few values, so that ends meet; and far above the gap that counts as none. */
                g->takes_ns[i] = (1 + next_random(&seed) % 20) * 10 * BLKUP_PATH_GAP_NS;
                for (uint32_t k = 0; k < i; k++)
                        g->waits[i][k] = next_random(&seed) % 100 < density;
        }
        /* Numbers say nothing of the order. */
        for (uint32_t i = g->n; i-- > 1;) {
                uint32_t k = (uint32_t) (next_random(&seed) % (i + 1));
                uint64_t takes = g->takes_ns[i];

                g->takes_ns[i] = g->takes_ns[k];
                g->takes_ns[k] = takes;
                for (uint32_t c = 0; c < g->n; c++) {
                        bool was = g->waits[i][c];

                        g->waits[i][c] = g->waits[k][c];
                        g->waits[k][c] = was;
                }
                for (uint32_t r = 0; r < g->n; r++) {
                        bool was = g->waits[r][i];

                        g->waits[r][i] = g->waits[r][k];
                        g->waits[r][k] = was;
                }
        }
}

/* When each node runs, and on which worker: the pool says. */
static void schedule(struct graph *g, unsigned workers, uint64_t *ret_critical_ns)
{
        struct blkup_pool_summary sum;
        struct blkup_pool *p = NULL;

        assert_int_equal(blkup_pool_new(&p, 0), 0);
        for (uint32_t i = 0; i < g->n; i++) {
                struct blkup_pool_node n = { .name = "n", .cost_ns = g->takes_ns[i] };
                uint32_t number;

                assert_int_equal(blkup_pool_add(p, &n, NULL, 0, &number), 0);
                assert_int_equal(number, i);
        }
        for (uint32_t i = 0; i < g->n; i++)
                for (uint32_t k = 0; k < g->n; k++)
                        if (g->waits[i][k])
                                assert_int_equal(blkup_pool_depend(p, i, k, BLKUP_POOL_NEEDS), 0);
        assert_int_equal(blkup_pool_replay(p, workers, g->takes_ns, &sum, NULL), 0);
        *ret_critical_ns = sum.critical_ns;
        for (uint32_t i = 0; i < g->n; i++) {
                struct blkup_pool_result r;
                uint32_t found[MAX_NODES], n = 0;

                assert_int_equal(blkup_pool_get(p, i, &r), 0);
                g->nodes[i] = (struct blkup_path_node){
                        .start_ns = r.start_ns,
                        .end_ns = r.end_ns,
                        .worker = r.worker,
                        .is_known = true,
                        .after = g->after[i],
                };
                /* The pool's own word on what was waited for. */
                assert_int_equal(blkup_pool_before(p, i, NULL, found, MAX_NODES, &n), 0);
                for (uint32_t k = 0; k < n; k++) {
                        assert_true(g->waits[i][found[k]]);
                        g->after[i][g->nodes[i].n_after++] = found[k];
                }
                for (uint32_t k = 0; k < g->n; k++)
                        n -= g->waits[i][k];
                assert_int_equal(n, 0);
        }
        blkup_pool_unref(p);
}

/* The longest path, nodes' times added up: relaxed until nothing changes. */
static uint64_t longest_path(const struct graph *g, bool with_workers)
{
        uint64_t until[MAX_NODES], longest = 0;
        bool has_changed = true;

        memcpy(until, g->takes_ns, sizeof(until));
        while (has_changed) {
                has_changed = false;
                for (uint32_t a = 0; a < g->n; a++)
                        for (uint32_t b = 0; b < g->n; b++) {
                                bool waits = g->waits[a][b] ||
                                             (with_workers && g->nodes[a].worker == g->nodes[b].worker &&
                                              g->nodes[b].end_ns <= g->nodes[a].start_ns);

                                if (waits && until[b] + g->takes_ns[a] > until[a]) {
                                        until[a] = until[b] + g->takes_ns[a];
                                        has_changed = true;
                                }
                        }
        }
        for (uint32_t i = 0; i < g->n; i++)
                longest = until[i] > longest ? until[i] : longest;
        return longest;
}

static uint64_t check_path(const struct graph *g, bool may_sit_behind)
{
        struct blkup_path_step *path = NULL;
        uint64_t sum = 0, last_ns = 0;
        size_t n = 0;

        assert_int_equal(blkup_path_find(g->nodes, g->n, 0, &path, &n), 0);
        assert_true(n > 0);
        assert_int_equal(path[0].why, BLKUP_PATH_FIRST);
        for (size_t i = 0; i < n; i++) {
                size_t at = path[i].node;

                sum += g->nodes[at].end_ns - g->nodes[at].start_ns;
                assert_int_equal(path[i].wait_ns, 0);
                if (i == 0)
                        continue;
                if (path[i].why == BLKUP_PATH_AFTER) {
                        assert_true(g->waits[at][path[i - 1].node]);
                } else {
                        assert_int_equal(path[i].why, BLKUP_PATH_WORKER);
                        assert_true(may_sit_behind);
                        assert_int_equal(g->nodes[at].worker, g->nodes[path[i - 1].node].worker);
                }
                assert_int_equal(g->nodes[at].start_ns, g->nodes[path[i - 1].node].end_ns);
        }
        for (uint32_t i = 0; i < g->n; i++)
                last_ns = g->nodes[i].end_ns > last_ns ? g->nodes[i].end_ns : last_ns;
        assert_int_equal(g->nodes[path[n - 1].node].end_ns, last_ns);
        assert_int_equal(sum, last_ns);
        free(path);
        return sum;
}

static void is_the_longest_path_of_random_graphs(void **state)
{
        static struct graph g;

        (void) state;
        for (unsigned i = 0; i < GRAPHS; i++) {
                uint64_t critical_ns, found;

                make_graph(&g, 0x9e3779b97f4a7c15u * (i + 1));
                /* A worker each: only what was waited for counts. */
                schedule(&g, MAX_NODES, &critical_ns);
                found = check_path(&g, false);
                assert_int_equal(found, longest_path(&g, false));
                assert_int_equal(found, critical_ns);
        }
}

static void names_the_worker_where_workers_are_few(void **state)
{
        static struct graph g;
        unsigned behind = 0;

        (void) state;
        for (unsigned i = 0; i < GRAPHS; i++) {
                uint64_t critical_ns, found;

                make_graph(&g, 0xd1b54a32d192ed03u * (i + 1));
                schedule(&g, 1 + i % 4, &critical_ns);
                found = check_path(&g, true);
                assert_int_equal(found, longest_path(&g, true));
                assert_true(found >= critical_ns);
                behind += found > critical_ns;
        }
        assert_true(behind > GRAPHS / 4); /* the case that is meant does occur */
}

/* ---- traces ---- */

static void add(struct blkup_trace *t, enum blkup_span_kind kind, const char *lane, uint64_t from,
                uint64_t to, unsigned worker, uint64_t id, uint64_t after)
{
        blkup_trace_add(t, &(struct blkup_span){
                                   .kind = kind,
                                   .lane = lane,
                                   .name = "step",
                                   .start_ns = from * 1000000,
                                   .end_ns = to * 1000000,
                                   .worker = worker,
                                   .id = id,
                                   .after = &after,
                                   .n_after = after != 0,
                           });
}

static void expect_path(struct blkup_trace *t, const char *want)
{
        struct blkup_path_step *path = NULL;
        char got[512] = "";
        size_t n = 0;

        assert_int_equal(blkup_trace_path(t, &path, &n), 0);
        for (size_t i = 0; i < n; i++) {
                struct blkup_span s;

                assert_int_equal(blkup_trace_get(t, path[i].node, &s), 0);
                (void) snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s %d-%d", i ? ", " : "",
                                s.lane, (int) (s.start_ns / 1000000), (int) (s.end_ns / 1000000));
                if (path[i].wait_ns)
                        (void) snprintf(got + strlen(got), sizeof(got) - strlen(got), " after %d",
                                        (int) (path[i].wait_ns / 1000000));
        }
        assert_string_equal(got, want);
        free(path);
}

static void of_a_trace_without_spans_there_is_none(void **state)
{
        struct blkup_trace *t = blkup_trace_new(0);

        (void) state;
        expect_path(t, "");
        blkup_trace_unref(t);
}

static void details_and_waits_are_no_steps(void **state)
{
        struct blkup_trace *t = blkup_trace_new(0);

        (void) state;
        /* A lane: probe with its reads, a wait, a mount with its calls; told without edges. */
        add(t, BLKUP_SPAN_READ, "sda", 10, 14, 0, 0, 0);
        add(t, BLKUP_SPAN_PROBE, "sda", 10, 20, 0, 0, 0);
        add(t, BLKUP_SPAN_WAIT, "sda", 20, 30, 0, 0, 0);
        add(t, BLKUP_SPAN_MOUNT, "sda", 30, 50, 0, 0, 0);
        add(t, BLKUP_SPAN_MOUNT, "sda", 31, 50, 0, 0, 0);
        add(t, BLKUP_SPAN_PROBE, "sdb", 11, 25, 1, 0, 0);
        expect_path(t, "sda 10-20, sda 30-50 after 10");
        blkup_trace_unref(t);
}

static void edges_are_followed_across_lanes(void **state)
{
        struct blkup_trace *t = blkup_trace_new(0);

        (void) state;
        add(t, BLKUP_SPAN_PROBE, "sda", 5, 20, 1, 1, 0);
        add(t, BLKUP_SPAN_PROBE, "sdb", 5, 30, 2, 2, 0);
        add(t, BLKUP_SPAN_MOUNT, "sda", 30, 40, 1, 3, 2);
        add(t, BLKUP_SPAN_MOUNT, "sdb", 40, 45, 2, 4, 3);
        /* Not known to anybody, and one that waits for itself. */
        add(t, BLKUP_SPAN_MOUNT, "sdc", 6, 7, 3, 5, 77);
        add(t, BLKUP_SPAN_MOUNT, "sdd", 6, 7, 4, 6, 6);
        expect_path(t, "sdb 5-30, sda 30-40, sdb 40-45");
        blkup_trace_unref(t);
}

static void spans_of_no_length_end(void **state)
{
        struct blkup_trace *t = blkup_trace_new(0);
        struct blkup_path_step *path = NULL;
        size_t n = 0;

        (void) state;
        /* All at one moment, each waiting for the next: a path has to end all the same, and soon. */
        for (uint64_t i = 0; i < 20000; i++)
                add(t, BLKUP_SPAN_OTHER, "x", 7, 7, 0, i + 1, (i + 1) % 20000 + 1);
        assert_int_equal(blkup_trace_path(t, &path, &n), 0);
        assert_true(n >= 1 && n <= 20000);
        free(path);
        blkup_trace_unref(t);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(is_the_longest_path_of_random_graphs),
                cmocka_unit_test(names_the_worker_where_workers_are_few),
                cmocka_unit_test(of_a_trace_without_spans_there_is_none),
                cmocka_unit_test(details_and_waits_are_no_steps),
                cmocka_unit_test(edges_are_followed_across_lanes),
                cmocka_unit_test(spans_of_no_length_end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
