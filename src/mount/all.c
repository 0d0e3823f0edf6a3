/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Many mounts at once. More workers than CPUs, because mounting is sleeping.
 *
 * Each mount is two nodes of the pool: the mount, and its end, which comes however the mount ended. A mount
 * whose paths lead elsewhere once its parents are there (a link that lay on one of them) is put off: a second
 * node waits for the new parents' ends and answers for the first.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "host/workers.h"
#include "mount/graph.h"
#include "mount/names.h"
#include "sync/pool.h"
#include "trace/trace.h"

#define USUAL_WORKERS 64u

/* Counted with strace: five of each mount at most (mount point, file, loop device, context, a look at the
 * device), six besides; and one more each. */
#define FDS_OF_A_MOUNT 6u
#define FDS_BESIDES    7u

struct run;

struct entry {
        struct run *run;
        size_t index;
        uint32_t node, end_node;
        bool has_ended;
        unsigned put_off;
};

struct run {
        struct blkup_mounter *m;
        const struct blkup_mount_request *q;
        struct blkup_mount_result *r;
        struct blkup_mount_graph *graph;
        struct entry *entries;
        size_t n;
        uint64_t first_id;         /* of the trace's spans: that of entry i is first_id + i; 0: no trace */
        struct blkup_loops *loops; /* as they were at the start; NULL: no request names a file */
        pthread_mutex_t lock; /* of has_ended and of the graph's edges while it runs */
};

/* What one mount takes, roughly: the floors of docs/decisions/mount.md, for the order alone. */
static uint64_t cost_of(const char *types)
{
        static const struct {
                const char *type;
                uint64_t us;
        } table[] = {
                { "xfs", 6500 }, { "btrfs", 1500 }, { "ext4", 180 }, { "ext3", 180 }, { "ext2", 85 },
                { "squashfs", 89 }, { "erofs", 24 }, { "tmpfs", 20 },
        };

        for (size_t i = 0; types && i < BLKUP_ARRAY_SIZE(table); i++)
                if (strcmp(table[i].type, types) == 0)
                        return table[i].us * 1000;
        return 200000;
}

/* The part of its file system that a path shows, as the table would have it if that were mounted. */
static const struct blkup_mount *part_of(const struct blkup_mountinfo *t, const char *path,
                                         char ret[2 * PATH_MAX])
{
        const struct blkup_mount *m = NULL;
        size_t longest = 0;

        for (size_t i = 0; t && i < t->n; i++) {
                size_t n = strlen(t->mounts[i].target);

                if (n >= longest && blkup_mount_is_below(path, t->mounts[i].target, true)) {
                        m = &t->mounts[i];
                        longest = n;
                }
        }
        if (!m)
                return NULL;
        m = blkup_mountinfo_by_target(t, m->target);
        (void) snprintf(ret, 2 * PATH_MAX, "%s%s%s", strcmp(m->root, "/") == 0 ? "" : m->root,
                        longest > 1 || path[longest] == '\0' || path[1] == '\0' ? "" : "/", path + longest);
        if (!*ret)
                memcpy(ret, "/", 2);
        return m;
}

bool blkup_mount_is_bound(const struct blkup_mountinfo *t, const char *source, const char *target)
{
        const struct blkup_mount *m = blkup_mountinfo_by_target(t, target), *of, *below;
        char root[2 * PATH_MAX];

        /* To itself: what is mounted there is its own place, unless that lies on one more of the same. Ends:
         * as below. */
        for (size_t i = 0; strcmp(source, target) == 0 && m && i < t->n && strcmp(m->target, target) == 0;
             i++) {
                below = blkup_mountinfo_by_id(t, m->parent_id);
                if (below && below->dev_major == m->dev_major && below->dev_minor == m->dev_minor)
                        return true;
                m = below;
        }
        if (strcmp(source, target) == 0)
                return false;
        of = m ? part_of(t, source, root) : NULL;
        /* Ends: each turn goes to a mount further down, and there are so many. */
        for (size_t i = 0; of && m && i < t->n && strcmp(m->target, target) == 0; i++) {
                if (m->dev_major == of->dev_major && m->dev_minor == of->dev_minor &&
                    strcmp(m->root, root) == 0)
                        return true;
                m = blkup_mountinfo_by_id(t, m->parent_id);
        }
        return false;
}

/* Is what the request asks for there already? */
static bool is_mounted(const struct run *run, size_t i)
{
        const struct blkup_mountinfo *t = run->m->mounts;
        const struct blkup_mount_vertex *v = &run->graph->v[i];
        const struct blkup_mount_request *q = &run->q[i];
        const struct blkup_mount *m;
        struct stat a;

        if (!v->target)
                return false;
        m = blkup_mountinfo_by_target(t, v->target);
        if (!m)
                return false;
        if (v->is_bind)
                return v->places[0] && blkup_mount_is_bound(t, v->places[0], v->target);
        if (v->rdev && m->dev_major)
                return makedev(m->dev_major, m->dev_minor) == v->rdev;
        if (v->rdev)
                return v->device && strcmp(m->source, v->device) == 0;
        if (v->device) {
                /* an image: on the loop device that is mounted there? */
                for (const struct blkup_loop *l = NULL; stat(v->device, &a) == 0 &&
                     (l = blkup_loops_by_file(run->loops, a.st_dev, a.st_ino, l));)
                        if (l->dev_major == m->dev_major && l->dev_minor == m->dev_minor)
                                return true;
                return strcmp(m->source, v->device) == 0;
        }
        return q->types && strcmp(m->fs_type, q->types) == 0 && q->source &&
               strcmp(m->source, q->source) == 0;
}

/* A parent that is not there: mounting the child would hide it below, or write to the wrong file system. */
static const struct blkup_mount_request *failed_parent(struct run *run, size_t i)
{
        const struct blkup_mount_vertex *v = &run->graph->v[i];
        const struct blkup_mount_request *found = NULL;

        (void) pthread_mutex_lock(&run->lock);
        for (size_t k = 0; k < v->n_edges && !found; k++) {
                size_t on = v->edges[k].on;
                enum blkup_mount_outcome outcome = run->r[on].outcome;

                if ((outcome == BLKUP_MOUNT_FAILED || outcome == BLKUP_MOUNT_SKIPPED) &&
                    blkup_mount_why_after(v, &run->graph->v[on]))
                        found = &run->q[on];
        }
        (void) pthread_mutex_unlock(&run->lock);
        return found;
}

static bool has_nofail(const struct blkup_mount_request *q)
{
        struct blkup_fstab_entry e = { .options = q->options ? q->options : "" };

        return blkup_fstab_has_option(&e, "nofail");
}

/* The span of a mount, and what it came after. */
static void add_span(struct run *run, const struct entry *e)
{
        const struct blkup_mount_vertex *v = &run->graph->v[e->index];
        BLKUP_CLEANUP_FREE uint64_t *after = NULL;
        size_t n;

        if (!run->m->settings.trace)
                return;
        (void) pthread_mutex_lock(&run->lock);
        n = v->n_edges < UINT32_MAX ? v->n_edges : UINT32_MAX;
        after = calloc(n + 1, sizeof(*after));
        for (size_t k = 0; after && k < n; k++)
                after[k] = run->first_id + v->edges[k].on;
        (void) pthread_mutex_unlock(&run->lock);
        blkup_mount_trace_result(run->m, &run->r[e->index], run->first_id ? run->first_id + e->index : 0,
                                 after, after ? (uint32_t) n : 0);
}

static void do_mount(struct entry *e, unsigned worker)
{
        struct run *run = e->run;
        struct blkup_mount_result *r = &run->r[e->index];
        const struct blkup_mount_request *q = &run->q[e->index], *parent;

        r->worker = worker;
        if (is_mounted(run, e->index)) {
                r->outcome = BLKUP_MOUNT_ALREADY;
                return;
        }
        parent = failed_parent(run, e->index);
        if (parent && !run->m->settings.dry_run) {
                r->outcome = has_nofail(q) ? BLKUP_MOUNT_SKIPPED : BLKUP_MOUNT_FAILED;
                r->call = BLKUP_MOUNT_CALL_TARGET;
                r->reason = BLKUP_MOUNT_REASON_PARENT;
                r->error = -ECANCELED;
                blkup_mount_copy(r->other, sizeof(r->other), parent->target);
                return;
        }
        (void) blkup_mount_attempt_run(run->m, q, r);
        add_span(run, e);
}

static void set_ended(struct entry *e)
{
        (void) pthread_mutex_lock(&e->run->lock);
        e->has_ended = true;
        (void) pthread_mutex_unlock(&e->run->lock);
}

static int run_put_off(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                       struct blkup_error *err);

/* The places again, now that the parents are there; *ret: the ends that are to be waited for as well. */
static int find_new_parents(struct entry *e, uint32_t *ret, uint32_t cap, uint32_t *ret_n)
{
        struct run *run = e->run;
        struct blkup_mount_vertex now = { 0 };
        struct blkup_mount_vertex *v = &run->graph->v[e->index];
        uint32_t n = 0;
        int r = blkup_mount_vertex_places(run->m, &run->q[e->index], false, &now);

        if (r < 0) {
                blkup_mount_vertex_forget_places(&now);
                return r;
        }
        (void) pthread_mutex_lock(&run->lock);
        free(v->target);
        v->target = BLKUP_TAKE(now.target);
        for (size_t k = 0; k < BLKUP_ARRAY_SIZE(v->places) && now.places[0]; k++) {
                free(v->places[k]);
                v->places[k] = k < BLKUP_ARRAY_SIZE(now.places) ? BLKUP_TAKE(now.places[k]) : NULL;
        }
        for (size_t j = 0; j < run->n && n < cap; j++) {
                const char *why;

                if (j == e->index || run->entries[j].has_ended)
                        continue;
                why = blkup_mount_why_after(v, &run->graph->v[j]);
                /* One that waits for us cannot be waited for: file order decides. */
                if (why && blkup_mount_graph_add(run->graph, e->index, j, why) == 0)
                        ret[n++] = run->entries[j].end_node;
        }
        (void) pthread_mutex_unlock(&run->lock);
        blkup_mount_vertex_forget_places(&now);
        *ret_n = n;
        return 0;
}

/* 0: mounted or failed; BLKUP_POOL_PENDING: put off. */
static int step(struct blkup_pool *p, struct entry *e, unsigned worker)
{
        struct run *run = e->run;
        uint32_t wait_for[64], n = 0, later;

        /* Ends: each time it is put off it waits for others that had not ended; after 8 times it goes ahead.
         */
        if (run->graph->v[e->index].n_edges > 0 && e->put_off < 8 &&
            find_new_parents(e, wait_for, BLKUP_ARRAY_SIZE(wait_for), &n) == 0 && n > 0) {
                e->put_off++;
                if (blkup_pool_add(p, &(struct blkup_pool_node){
                            .name = run->q[e->index].target, .cost_ns = cost_of(run->q[e->index].types),
                            .run = run_put_off, .arg = e,
                    }, wait_for, n, &later) == 0)
                        return BLKUP_POOL_PENDING;
        }
        do_mount(e, worker);
        set_ended(e);
        return 0;
}

static int run_put_off(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                       struct blkup_error *err)
{
        struct entry *e = arg;

        (void) node;
        (void) err;
        if (step(p, e, worker) == 0)
                return blkup_pool_complete(p, e->node, 0, NULL);
        return 0; /* put off once more */
}

static int run_entry(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg, struct blkup_error *err)
{
        (void) node;
        (void) err;
        return step(p, arg, worker);
}

static int add_nodes(struct run *run, struct blkup_pool *p)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < run->n; i++) {
                struct entry *e = &run->entries[i];

                *e = (struct entry){ .run = run, .index = i };
                r = blkup_pool_add(p,
                                   &(struct blkup_pool_node){
                                           .name = run->q[i].target,
                                           .cost_ns = cost_of(run->q[i].types),
                                           .run = run_entry,
                                           .arg = e,
                                   },
                                   NULL, 0, &e->node);
                if (r == 0)
                        r = blkup_pool_add(p, &(struct blkup_pool_node){ .name = run->q[i].target }, NULL, 0,
                                           &e->end_node);
                if (r == 0)
                        r = blkup_pool_depend(p, e->end_node, e->node, BLKUP_POOL_AFTER);
        }
        for (size_t i = 0; i < run->n; i++) {
                const struct blkup_mount_vertex *v = &run->graph->v[i];

                for (size_t k = 0; r == 0 && k < v->n_edges; k++)
                        r = blkup_pool_depend(p, run->entries[i].node, run->entries[v->edges[k].on].end_node,
                                              BLKUP_POOL_AFTER);
        }
        return r;
}

static unsigned count_workers(const struct blkup_mounter *m, size_t n)
{
        size_t workers = m->settings.workers ? m->settings.workers : USUAL_WORKERS;

        /* Who waits for a device holds a worker. */
        if (m->settings.wait_ns > 0 && !m->settings.workers)
                workers = BLKUP_POOL_MAX_WORKERS;
        if (workers > n)
                workers = n;
        if (workers > BLKUP_POOL_MAX_WORKERS)
                workers = BLKUP_POOL_MAX_WORKERS;
        return blkup_host_limit_workers((unsigned) workers, FDS_OF_A_MOUNT, FDS_BESIDES);
}

static bool names_a_file(const struct blkup_mount_graph *g)
{
        for (size_t i = 0; i < g->n; i++)
                if (g->v[i].device && !g->v[i].rdev)
                        return true;
        return false;
}

static int run_graph(struct run *run, struct blkup_error *err)
{
        struct blkup_mounter *m = run->m;
        struct blkup_pool *p = NULL;
        BLKUP_CLEANUP_FREE dev_t *skips = calloc(run->n, sizeof(*skips));
        int r = skips ? 0 : -ENOMEM;

        (void) blkup_mounter_mounts(m);
        /* Without the table an image that is mounted already is found when its loop device is taken. */
        if (names_a_file(run->graph) && blkup_loops_load(m->settings.root, &run->loops, NULL) < 0)
                run->loops = NULL;
        for (size_t i = 0; r == 0 && i < run->n; i++)
                skips[i] = run->graph->v[i].rdev;
        m->scan_skips = skips;
        m->n_scan_skips = r == 0 ? run->n : 0;
        if (r == 0)
                r = blkup_pool_new(&p, 0);
        if (r == 0)
                r = add_nodes(run, p);
        if (r == 0)
                r = blkup_pool_run(p, &(struct blkup_pool_options){ .workers = count_workers(m, run->n),
                                                                  .at_first = BLKUP_MOUNT_FIRST_WORKERS },
                                   NULL, err);
        blkup_pool_unref(p);
        m->scan_skips = NULL;
        m->n_scan_skips = 0;
        return r;
}

int blkup_mount_all(struct blkup_mounter *m, const struct blkup_mount_request *q, size_t n,
                    struct blkup_mount_result *ret, struct blkup_error *err)
{
        struct run run = {
                .m = m, .q = q, .r = ret, .n = n, .first_id = blkup_trace_ids(m->settings.trace, n)
        };
        int r;

        for (size_t i = 0; i < n; i++) {
                blkup_mount_result_init(&ret[i], &q[i]);
                ret[i].error = -ECANCELED; /* until it is its turn */
        }
        if (n == 0)
                return 0;
        run.entries = calloc(n, sizeof(*run.entries));
        (void) pthread_mutex_init(&run.lock, NULL);
        r = run.entries ? blkup_mount_graph_new(m, q, n, &run.graph) : -ENOMEM;
        if (r == 0)
                r = run_graph(&run, err);
        blkup_mount_graph_free(run.graph);
        blkup_loops_free(run.loops);
        (void) pthread_mutex_destroy(&run.lock);
        free(run.entries);
        return r;
}
