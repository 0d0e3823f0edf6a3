/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Unmounting many at once: what is mounted below first, siblings together. Who is busy because of another
 * that goes away in the same run (a loop device's file, an overlay's layer) is tried again after it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/clock.h"
#include "mount/mounter.h"
#include "mount/names.h"
#include "sync/pool.h"
#include "trace/trace.h"

#ifndef UMOUNT_NOFOLLOW
#define UMOUNT_NOFOLLOW 8
#endif

#define MAX_ROUNDS 16

struct goal {
        const struct blkup_mount *mount; /* NULL: the name fits none */
        struct blkup_mount_result *r;
        struct blkup_mounter *m;
        unsigned flags;
        uint32_t node;
        bool is_done;
};

struct list {
        struct goal *goals;
        size_t n, cap;
        const struct blkup_mountinfo *t;
};

static bool is_of_system(const struct blkup_mount *m)
{
        static const char *const types[] = {
                "proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "securityfs", "mqueue", "debugfs",
                "tracefs", "configfs", "bpf", "pstore", "efivarfs", "hugetlbfs", "binfmt_misc", "fusectl",
                "rpc_pipefs", "autofs", "nsfs",
        };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(types); i++)
                if (strcmp(types[i], m->fs_type) == 0)
                        return true;
        return strcmp(m->target, "/") == 0 || blkup_mount_is_below(m->target, "/dev", true) ||
               blkup_mount_is_below(m->target, "/proc", true) ||
               blkup_mount_is_below(m->target, "/sys", true) || strcmp(m->target, "/run") == 0;
}

static int add_goal(struct list *l, const struct blkup_mount *mount)
{
        for (size_t i = 0; mount && i < l->n; i++)
                if (l->goals[i].mount == mount)
                        return 0;
        if (l->n == l->cap) {
                size_t cap = l->cap ? 2 * l->cap : 64;
                struct goal *grown = realloc(l->goals, cap * sizeof(*grown));

                if (!grown)
                        return -ENOMEM;
                l->goals = grown;
                l->cap = cap;
        }
        l->goals[l->n++] = (struct goal){ .mount = mount };
        return 0;
}

/* The mount and, where asked, all below it. Ends: parents of a mount are finitely many (the table's ids). */
static int add_mount(struct list *l, const struct blkup_mount *mount, unsigned flags)
{
        int r = add_goal(l, mount);

        for (size_t i = 0; r == 0 && (flags & BLKUP_UMOUNT_RECURSIVE) && i < l->t->n; i++) {
                const struct blkup_mount *m = &l->t->mounts[i];

                if (m != mount && blkup_mount_is_below(m->target, mount->target, false))
                        r = add_goal(l, m);
        }
        return r;
}

static bool is_of_device(const struct blkup_mount *m, const struct stat *st, const char *path)
{
        return (m->dev_major && makedev(m->dev_major, m->dev_minor) == st->st_rdev) ||
               strcmp(m->source, path) == 0;
}

/* A name that is a device: its mounts. */
static int add_device(struct blkup_mounter *m, struct list *l, const char *name, const char *path,
                      unsigned flags, size_t *ret_n)
{
        const struct blkup_mount *found = NULL;
        struct stat st;
        size_t n = 0;
        int r = 0;

        (void) m;
        (void) name;
        if (stat(path, &st) < 0 || !S_ISBLK(st.st_mode)) {
                *ret_n = 0;
                return 0;
        }
        for (size_t i = 0; r == 0 && i < l->t->n; i++) {
                if (!is_of_device(&l->t->mounts[i], &st, path))
                        continue;
                n++;
                found = &l->t->mounts[i];
                if (flags & BLKUP_UMOUNT_ALL_OF)
                        r = add_mount(l, found, flags);
        }
        if (r == 0 && n == 1 && !(flags & BLKUP_UMOUNT_ALL_OF))
                r = add_mount(l, found, flags);
        *ret_n = n;
        return r;
}

/* The file system that is mounted at target, wherever else it is. */
static int add_all_of(struct list *l, const struct blkup_mount *of, unsigned flags)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < l->t->n; i++) {
                const struct blkup_mount *m = &l->t->mounts[i];

                if (m->dev_major == of->dev_major && m->dev_minor == of->dev_minor)
                        r = add_mount(l, m, flags);
        }
        return r;
}

/* An image file: the loop devices that show it. */
static int add_image(struct blkup_mounter *m, struct list *l, const struct stat *st, unsigned flags,
                     size_t *ret_n)
{
        const struct blkup_loop *loop = NULL;
        int r = 0;

        *ret_n = 0;
        if (!m->loops && blkup_loops_load(m->settings.root, &m->loops, NULL) < 0)
                m->loops = NULL;
        while (r == 0 && (loop = blkup_loops_by_file(m->loops, st->st_dev, st->st_ino, loop)))
                for (size_t i = 0; r == 0 && i < l->t->n; i++)
                        if (l->t->mounts[i].dev_major == loop->dev_major &&
                            l->t->mounts[i].dev_minor == loop->dev_minor) {
                                r = add_mount(l, &l->t->mounts[i], flags);
                                ++*ret_n;
                        }
        return r;
}

/* One name: a mount point, a device, a tag, an image. What fits nothing becomes a goal without a mount. */
static int add_name(struct blkup_mounter *m, struct list *l, const char *name, unsigned flags,
                    struct blkup_mount_result *miss)
{
        char canonical[PATH_MAX];
        const char *tag, *value;
        const struct blkup_mount *mount;
        struct stat st;
        size_t n = 0;
        int r;

        if (blkup_mount_split_tag(name, &tag, &value)) {
                struct blkup_mount_source s;

                r = blkup_mount_look_up_source(m, name, NULL, false, &s, miss);
                if (r < 0) {
                        miss->call = BLKUP_MOUNT_CALL_SOURCE;
                        miss->error = r;
                        if (r == -ENOTUNIQ)
                                miss->reason = BLKUP_MOUNT_REASON_TWO_DEVICES;
                        else if (r == -ENOENT)
                                miss->reason = BLKUP_MOUNT_REASON_NO_TAG;
                        return r == -ENOMEM ? r : 1;
                }
                blkup_mount_copy(canonical, sizeof(canonical), s.path);
        } else if (blkup_mount_canonical_path(name, canonical) < 0) {
                blkup_mount_copy(canonical, sizeof(canonical), name);
        }
        mount = blkup_mountinfo_by_target(l->t, canonical);
        if (mount)
                return flags & BLKUP_UMOUNT_ALL_OF ? add_all_of(l, mount, flags) : add_mount(l, mount, flags);
        r = add_device(m, l, name, canonical, flags, &n);
        if (r < 0)
                return r;
        if (n == 0 && stat(canonical, &st) == 0 && S_ISREG(st.st_mode))
                r = add_image(m, l, &st, flags, &n);
        if (r < 0)
                return r;
        if (n > 1 && !(flags & BLKUP_UMOUNT_ALL_OF)) {
                miss->reason = BLKUP_MOUNT_REASON_SEVERAL;
                miss->code = (int) n;
                return 1;
        }
        if (n == 0) {
                miss->reason = BLKUP_MOUNT_REASON_NOT_MOUNTED;
                /* a name that is not there at all is another mistake */
                miss->error = stat(canonical, &st) < 0 && errno == ENOENT ? -ENOENT : -EINVAL;
        }
        return n == 0 ? 1 : 0;
}

/* How many goals are in the way of g right now? They are unmounted first. */
static bool is_before(const struct list *l, const struct goal *first, const struct goal *then)
{
        const struct blkup_mount *a = first->mount, *b = then->mount;

        if (!a || !b)
                return false;
        if (a->parent_id == b->id)
                return true;
        /* through mounts in between that are not of this run; ends: at most as many as the table has */
        for (size_t depth = 0; a && depth < 64; depth++) {
                if (a->parent_id == b->id)
                        return true;
                a = blkup_mountinfo_by_id(l->t, a->parent_id);
        }
        return false;
}

static int umount_flags(unsigned flags)
{
        return UMOUNT_NOFOLLOW | (flags & BLKUP_UMOUNT_LAZY ? MNT_DETACH : 0) |
               (flags & BLKUP_UMOUNT_FORCE ? MNT_FORCE : 0);
}

static int run_goal(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg, struct blkup_error *err)
{
        struct goal *g = arg;
        const struct blkup_mount_ops *ops = g->m->ops;
        int r = 0;

        (void) p;
        (void) node;
        (void) err;
        if (g->is_done)
                return 0;
        g->r->worker = worker;
        if (g->r->n_steps == 0)
                g->r->start_ns = blkup_now_ns();
        blkup_mount_step_begin(g->r, "umount");
        if (!(g->flags & BLKUP_UMOUNT_DRY_RUN))
                r = ops->umount(ops->to, g->mount->target, umount_flags(g->flags));
        blkup_mount_step_end(g->r);
        g->r->end_ns = blkup_now_ns();
        g->r->error = r;
        g->r->call = r < 0 ? BLKUP_MOUNT_CALL_UMOUNT : BLKUP_MOUNT_CALL_NONE;
        g->r->outcome = r < 0 ? BLKUP_MOUNT_FAILED : BLKUP_MOUNT_DONE;
        g->is_done = r == 0;
        return 0;
}

static int run_round(struct blkup_mounter *m, struct list *l, struct blkup_error *err)
{
        struct blkup_pool *p = NULL;
        size_t workers = m->settings.workers ? m->settings.workers : 64;
        int r = blkup_pool_new(&p, 0);

        for (size_t i = 0; r == 0 && i < l->n; i++)
                r = blkup_pool_add(p, &(struct blkup_pool_node){
                        .name = l->goals[i].mount->target, .cost_ns = 1, .run = run_goal, .arg = &l->goals[i],
                }, NULL, 0, &l->goals[i].node);
        for (size_t i = 0; i < l->n; i++)
                for (size_t j = 0; r == 0 && j < l->n; j++)
                        if (i != j && is_before(l, &l->goals[j], &l->goals[i]))
                                r = blkup_pool_depend(p, l->goals[i].node, l->goals[j].node,
                                                      BLKUP_POOL_AFTER);
        if (workers > l->n)
                workers = l->n;
        if (r == 0)
                r = blkup_pool_run(p, &(struct blkup_pool_options){ .workers = (unsigned) workers,
                                                                  .at_first = BLKUP_MOUNT_FIRST_WORKERS },
                                   NULL, err);
        blkup_pool_unref(p);
        return r;
}

/* Spans, each with what it came after. */
static void add_spans(struct blkup_mounter *m, const struct list *l)
{
        BLKUP_CLEANUP_FREE uint64_t *after = m->settings.trace ? calloc(l->n + 1, sizeof(*after)) : NULL;
        uint64_t first_id = after ? blkup_trace_ids(m->settings.trace, l->n) : 0;

        for (size_t i = 0; first_id && i < l->n; i++) {
                uint32_t n = 0;

                for (size_t j = 0; j < l->n; j++)
                        if (i != j && is_before(l, &l->goals[j], &l->goals[i]))
                                after[n++] = first_id + j;
                blkup_mount_trace_result(m, l->goals[i].r, first_id + i, after, n);
        }
}

static size_t count_busy(const struct list *l)
{
        size_t n = 0;

        for (size_t i = 0; i < l->n; i++)
                n += !l->goals[i].is_done && l->goals[i].r->error == -EBUSY;
        return n;
}

static int run_all(struct blkup_mounter *m, struct list *l, struct blkup_error *err)
{
        size_t busy = 0;
        int r = 0;

        /* Ends: a further round only when the last one freed something. */
        for (unsigned round = 0; r == 0 && l->n > 0 && round < MAX_ROUNDS; round++) {
                size_t before = busy;

                r = run_round(m, l, err);
                busy = count_busy(l);
                if (busy == 0 || busy == l->n || (round > 0 && busy == before))
                        break;
        }
        return r;
}

static void fill_result(struct blkup_mount_result *r, const struct blkup_mount *m)
{
        *r = (struct blkup_mount_result){
                .outcome = BLKUP_MOUNT_FAILED, .error = -ECANCELED, .dev_major = m->dev_major,
                .dev_minor = m->dev_minor, .is_read_only = m->is_read_only,
        };
        blkup_mount_copy(r->source, sizeof(r->source), m->source);
        blkup_mount_copy(r->device, sizeof(r->device), m->source);
        blkup_mount_copy(r->type, sizeof(r->type), m->fs_type);
        r->target = strdup(m->target);
}

int blkup_umount(struct blkup_mounter *m, const char *const *names, size_t n, const char *types,
                 unsigned flags, struct blkup_mount_result **ret, size_t *n_ret, struct blkup_error *err)
{
        struct list l = { .t = blkup_mounter_mounts(m) };
        struct blkup_mount_result *results, *misses = calloc(n + 1, sizeof(*misses));
        size_t n_misses = 0, total;
        int r = misses ? 0 : -ENOMEM;

        if (!l.t)
                r = m->mounts_error == -ENOENT
                            ? blkup_fail(err, -ENOENT, "there is no /proc/self/mountinfo: is /proc mounted?")
                            : blkup_fail_errno(err, m->mounts_error, "/proc/self/mountinfo");
        for (size_t i = 0; r == 0 && (flags & BLKUP_UMOUNT_ALL) && i < l.t->n; i++)
                if (!is_of_system(&l.t->mounts[i]) && blkup_mount_is_in_types(types, l.t->mounts[i].fs_type))
                        r = add_goal(&l, &l.t->mounts[i]);
        for (size_t i = 0; r == 0 && !(flags & BLKUP_UMOUNT_ALL) && i < n; i++) {
                struct blkup_mount_result *miss = &misses[n_misses];

                *miss = (struct blkup_mount_result){
                        .outcome = BLKUP_MOUNT_FAILED, .call = BLKUP_MOUNT_CALL_UMOUNT, .error = -EINVAL,
                };
                blkup_mount_copy(miss->source, sizeof(miss->source), names[i]);
                r = add_name(m, &l, names[i], flags, miss);
                if (r == 1) {
                        miss->target = strdup(names[i]);
                        n_misses++;
                        r = 0;
                }
        }
        total = l.n + n_misses;
        results = r == 0 ? calloc(total + 1, sizeof(*results)) : NULL;
        if (r == 0 && !results)
                r = -ENOMEM;
        for (size_t i = 0; r == 0 && i < l.n; i++) {
                fill_result(&results[i], l.goals[i].mount);
                l.goals[i].r = &results[i];
                l.goals[i].m = m;
                l.goals[i].flags = flags;
        }
        if (r == 0) {
                if (n_misses > 0)
                        memcpy(results + l.n, misses, n_misses * sizeof(*misses));
                r = run_all(m, &l, err);
                add_spans(m, &l);
                *ret = results;
                *n_ret = total;
        } else {
                for (size_t i = 0; misses && i < n_misses; i++)
                        blkup_mount_result_free(&misses[i]);
        }
        free(misses);
        free(l.goals);
        return r;
}

void blkup_umount_results_free(struct blkup_mount_result *r, size_t n)
{
        for (size_t i = 0; r && i < n; i++)
                blkup_mount_result_free(&r[i]);
        free(r);
}
