/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host/hostfile.h"
#include "mount/graph.h"
#include "mount/names.h"

#define MAX_EDGES (1u << 24)

static const char why_below[] = "its mount point lies there";
static const char why_source[] = "its source lies there";
static const char why_same_target[] = "the same mount point: file order";
static const char why_same_device[] = "the same device: file order";
static const char why_bind[] = "a bind and a mount below its source: file order";
static const char why_asked[] = "x-systemd.requires";
static const char why_asked_order[] = "x-systemd.after or .before: order only";

static int add_place(struct blkup_mount_vertex *v, const char *path)
{
        char canonical[PATH_MAX];
        size_t n = 0;

        if (path[0] != '/' || blkup_mount_canonical_path(path, canonical) < 0)
                return 0;
        if (strcmp(path, canonical) != 0)
                v->has_resolved_links = true;
        /* Ends: the array is NULL-terminated. */
        while (v->places[n])
                n++;
        if (n + 1 == BLKUP_ARRAY_SIZE(v->places))
                return 0;
        v->places[n] = strdup(canonical);
        return v->places[n] ? 0 : -ENOMEM;
}

/* lowerdir=/a:/b */
static int add_list(struct blkup_mount_vertex *v, const char *value)
{
        BLKUP_CLEANUP_FREE char *copy = strdup(value);
        int r = copy ? 0 : -ENOMEM;

        /* Ends: each turn goes past one path. */
        for (char *at = copy; r == 0 && at && *at;) {
                size_t n = strcspn(at, ":");
                bool last = !at[n];

                at[n] = '\0';
                r = add_place(v, at);
                at += n + !last;
        }
        return r;
}

static int add_options(struct blkup_mount_vertex *v, const struct blkup_mount_options *o)
{
        const char *value;
        int r = 0;

        for (size_t i = 0; r == 0 && i < o->n_fs; i++) {
                const char *key = o->fs[i].key;

                if (o->fs[i].value && (strncmp(key, "lowerdir", 8) == 0 || strcmp(key, "upperdir") == 0 ||
                                       strcmp(key, "workdir") == 0 || strcmp(key, "datadir+") == 0))
                        r = add_list(v, o->fs[i].value);
        }
        for (size_t i = 0;
             r == 0 && (value = blkup_mount_options_user(o, "x-systemd.requires-mounts-for", i)); i++)
                r = add_place(v, value);
        return r;
}

void blkup_mount_vertex_forget_places(struct blkup_mount_vertex *v)
{
        free(v->target);
        free(v->device);
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(v->places); i++) {
                free(v->places[i]);
                v->places[i] = NULL;
        }
        v->target = v->device = NULL;
}

int blkup_mount_vertex_places(struct blkup_mounter *m, const struct blkup_mount_request *q,
                              bool look_up_device, struct blkup_mount_vertex *v)
{
        struct blkup_mount_options o = { 0 };
        struct blkup_mount_source source;
        char canonical[PATH_MAX];
        int r;

        v->has_resolved_links = false;
        /* Swap has none. */
        r = q->target ? blkup_mount_canonical_path(q->target, canonical) : -ENOENT;
        if (r == 0) {
                v->has_resolved_links = strcmp(canonical, q->target) != 0;
                v->target = strdup(canonical);
                if (!v->target)
                        return -ENOMEM;
        }
        r = blkup_mount_options_parse(q->options, &o, NULL, 0);
        if (r < 0)
                return r == -ENOMEM ? r : 0; /* its own attempt will say what is wrong */
        v->is_bind = o.is_bind;
        r = add_options(v, &o);
        if (r == 0 && q->source && o.is_bind) {
                r = add_place(v, q->source);
        } else if (r == 0 && q->source && look_up_device &&
                   blkup_mount_look_up_source(m, q->source, q->types, false, &source, NULL) == 0) {
                if (source.kind == BLKUP_SOURCE_FILE)
                        r = add_place(v, source.path);
                if (source.kind == BLKUP_SOURCE_BLOCK)
                        v->rdev = source.rdev;
                if (source.kind == BLKUP_SOURCE_FILE || source.kind == BLKUP_SOURCE_BLOCK)
                        v->device = strdup(source.path);
        } else if (r == 0 && q->source && q->source[0] == '/' && strncmp(q->source, "/dev/", 5) != 0) {
                /* a file that is not there yet */
                r = add_place(v, q->source);
        }
        blkup_mount_options_free(&o);
        return r;
}

const char *blkup_mount_why_after(const struct blkup_mount_vertex *i, const struct blkup_mount_vertex *j)
{
        if (!j->target)
                return NULL;
        if (i->target && blkup_mount_is_below(i->target, j->target, false))
                return why_below;
        for (size_t k = 0; i->places[k]; k++)
                if (blkup_mount_is_below(i->places[k], j->target, true))
                        return why_source;
        return NULL;
}

/* Does from wait for to, directly or through others? Ends: each vertex is visited once. */
static int waits_for(const struct blkup_mount_graph *g, size_t from, size_t to, bool *ret)
{
        BLKUP_CLEANUP_FREE bool *seen = calloc(g->n, sizeof(*seen));
        BLKUP_CLEANUP_FREE size_t *stack = calloc(g->n + 1, sizeof(*stack));
        size_t n = 0;

        if (!seen || !stack)
                return -ENOMEM;
        *ret = false;
        stack[n++] = from;
        seen[from] = true;
        while (n > 0) {
                const struct blkup_mount_vertex *v = &g->v[stack[--n]];

                for (size_t k = 0; k < v->n_edges; k++) {
                        size_t on = v->edges[k].on;

                        if (on == to) {
                                *ret = true;
                                return 0;
                        }
                        if (!seen[on]) {
                                seen[on] = true;
                                stack[n++] = on;
                        }
                }
        }
        return 0;
}

static bool is_need(const char *why)
{
        return why == why_below || why == why_source || why == why_asked;
}

static int push_edge(struct blkup_mount_graph *g, size_t i, size_t on, const char *why)
{
        struct blkup_mount_vertex *v = &g->v[i];
        int r;

        for (size_t k = 0; k < v->n_edges; k++)
                if (v->edges[k].on == on) {
                        if (!is_need(v->edges[k].why) && is_need(why))
                                v->edges[k].why = why;
                        return 0;
                }
        r = blkup_host_reserve((void **) &v->edges, &v->edge_cap, v->n_edges, sizeof(*v->edges), MAX_EDGES);
        if (r == 0)
                v->edges[v->n_edges++] = (struct blkup_mount_edge){ on, why };
        return r;
}

int blkup_mount_graph_add(struct blkup_mount_graph *g, size_t i, size_t on, const char *why)
{
        bool circle = i == on;
        int r = circle ? 0 : waits_for(g, on, i, &circle);

        if (r < 0)
                return r;
        if (circle) {
                g->n_dropped++;
                return -ELOOP;
        }
        return push_edge(g, i, on, why);
}

/* Adds, and takes a circle for an answer. */
static int add_soft(struct blkup_mount_graph *g, size_t i, size_t on, const char *why)
{
        int r = blkup_mount_graph_add(g, i, on, why);

        return r == -ELOOP ? 0 : r;
}

/* Mount points alone: by depth and file order, so these edges can close no circle. */
static int add_target_edges(struct blkup_mount_graph *g)
{
        int r = 0;

        for (size_t i = 0; i < g->n; i++)
                for (size_t j = 0; r == 0 && g->v[i].target && j < g->n; j++) {
                        if (i == j || !g->v[j].target)
                                continue;
                        if (blkup_mount_is_below(g->v[i].target, g->v[j].target, false))
                                r = push_edge(g, i, j, why_below);
                        else if (j < i && strcmp(g->v[i].target, g->v[j].target) == 0)
                                r = push_edge(g, i, j, why_same_target);
                }
        return r;
}

static bool is_same_device(const struct blkup_mount_vertex *a, const struct blkup_mount_vertex *b)
{
        if (a->rdev && b->rdev)
                return a->rdev == b->rdev;
        return a->device && b->device && strcmp(a->device, b->device) == 0;
}

static int add_pair(struct blkup_mount_graph *g, size_t i, size_t j)
{
        const struct blkup_mount_vertex *a = &g->v[i], *b = &g->v[j];
        const char *why;

        /* Most pairs: what lies below what is known already. */
        if (!a->places[0] && !is_same_device(a, b))
                return 0;
        why = blkup_mount_why_after(a, b);
        if (why == why_source)
                return add_soft(g, i, j, why_source);
        if (!b->target || !a->target)
                return 0;
        if (a->is_bind && a->places[0] && blkup_mount_is_below(b->target, a->places[0], false))
                return i < j ? add_soft(g, j, i, why_bind) : add_soft(g, i, j, why_bind);
        if (j < i && is_same_device(a, b))
                return add_soft(g, i, j, why_same_device);
        return 0;
}

/* "srv-data.mount" to "/srv/data", a path as it is. */
static void unit_to_path(const char *unit, char *ret, size_t cap)
{
        size_t n = strlen(unit), used = 0;

        ret[0] = '\0';
        if (unit[0] == '/') {
                blkup_mount_copy(ret, cap, unit);
                return;
        }
        if (n < 7 || strcmp(unit + n - 6, ".mount") != 0 || n >= cap)
                return;
        ret[used++] = '/';
        for (size_t i = 0; i < n - 6 && used + 1 < cap; i++) {
                unsigned v = 0;

                if (unit[i] == '-') {
                        ret[used++] = '/';
                } else if (unit[i] == '\\' && unit[i + 1] == 'x' && i + 3 < n - 6) {
                        char hex[3] = { unit[i + 2], unit[i + 3], '\0' };
                        char *end;

                        v = (unsigned) strtoul(hex, &end, 16);
                        if (*end || v == 0)
                                return;
                        ret[used++] = (char) v;
                        i += 3;
                } else {
                        ret[used++] = unit[i];
                }
        }
        ret[used] = '\0';
}

static int add_asked(struct blkup_mount_graph *g, const struct blkup_mount_request *q, size_t i)
{
        static const char *const names[] = { "x-systemd.after", "x-systemd.requires", "x-systemd.before" };
        struct blkup_mount_options o = { 0 };
        const char *value;
        int r;

        if (!q->options || !strstr(q->options, "x-systemd."))
                return 0;
        r = blkup_mount_options_parse(q->options, &o, NULL, 0);
        if (r < 0)
                return r == -ENOMEM ? r : 0;
        for (size_t k = 0; k < BLKUP_ARRAY_SIZE(names); k++)
                for (size_t nth = 0; r == 0 && (value = blkup_mount_options_user(&o, names[k], nth)); nth++) {
                        char path[PATH_MAX];

                        unit_to_path(value, path, sizeof(path));
                        for (size_t j = 0; r == 0 && path[0] && j < g->n; j++)
                                if (j != i && g->v[j].target && strcmp(g->v[j].target, path) == 0)
                                        r = k == 2 ? add_soft(g, j, i, why_asked_order)
                                                   : add_soft(g, i, j, k == 1 ? why_asked : why_asked_order);
                }
        blkup_mount_options_free(&o);
        return r;
}

int blkup_mount_graph_new(struct blkup_mounter *m, const struct blkup_mount_request *q, size_t n,
                          struct blkup_mount_graph **ret)
{
        struct blkup_mount_graph *g = calloc(1, sizeof(*g));
        int r = 0;

        if (!g)
                return -ENOMEM;
        g->v = calloc(n + 1, sizeof(*g->v));
        if (!g->v) {
                free(g);
                return -ENOMEM;
        }
        g->n = n;
        for (size_t i = 0; r == 0 && i < n; i++)
                r = blkup_mount_vertex_places(m, &q[i], true, &g->v[i]);
        if (r == 0)
                r = add_target_edges(g);
        for (size_t i = 0; i < n; i++)
                for (size_t j = 0; r == 0 && j < n; j++)
                        if (i != j)
                                r = add_pair(g, i, j);
        for (size_t i = 0; r == 0 && i < n; i++)
                r = add_asked(g, &q[i], i);
        if (r < 0) {
                blkup_mount_graph_free(g);
                return r;
        }
        *ret = g;
        return 0;
}

struct blkup_mount_graph *blkup_mount_graph_free(struct blkup_mount_graph *g)
{
        if (!g)
                return NULL;
        for (size_t i = 0; i < g->n; i++) {
                blkup_mount_vertex_forget_places(&g->v[i]);
                free(g->v[i].edges);
        }
        free(g->v);
        free(g);
        return NULL;
}

size_t blkup_mount_graph_needs(const struct blkup_mount_graph *g, size_t i, size_t *ret, size_t cap)
{
        for (size_t k = 0; k < g->v[i].n_edges && k < cap; k++)
                ret[k] = g->v[i].edges[k].on;
        return g->v[i].n_edges;
}

bool blkup_mount_graph_is_need(const struct blkup_mount_graph *g, size_t i, size_t j)
{
        const char *why = blkup_mount_graph_why(g, i, j);

        return why && is_need(why);
}

bool blkup_mount_graph_is_same_place(const struct blkup_mount_graph *g, size_t i, size_t j)
{
        return g->v[i].target && g->v[j].target && strcmp(g->v[i].target, g->v[j].target) == 0;
}

const char *blkup_mount_graph_why(const struct blkup_mount_graph *g, size_t i, size_t j)
{
        for (size_t k = 0; k < g->v[i].n_edges; k++)
                if (g->v[i].edges[k].on == j)
                        return g->v[i].edges[k].why;
        return NULL;
}
