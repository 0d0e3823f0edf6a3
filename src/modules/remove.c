/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Removing modules: post-softdeps first, the module, its pre-softdeps and what it needed and nobody uses. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/hostfile.h"
#include "modules/name.h"
#include "modules/tree.h"

struct removal {
        const struct blkup_modules *m;
        bool dry_run;
        void (*each)(void *arg, const char *name);
        void *arg;
};

static bool is_gone(const struct removal *r, const char *name)
{
        return !blkup_modules_is_live(r->m, name);
}

/* How many use it now; -1: not told. */
static int64_t refcount(const struct removal *r, const char *name)
{
        const struct blkup_modstate *s = blkup_modstates_by_name(r->m->loaded, name);
        BLKUP_CLEANUP_CLOSE int fd = -1;
        char path[2 * BLKUP_MODULE_NAME_CAP + 32];
        int64_t n = -1;

        if (strlen(name) >= BLKUP_MODULE_NAME_CAP || !blkup_module_is_name(name))
                return -1;
        (void) snprintf(path, sizeof(path), "sys/module/%s", name);
        fd = blkup_host_open(r->m->root, path, O_RDONLY | O_DIRECTORY);
        if (fd >= 0 && blkup_host_attribute_i64(fd, "refcnt", &n) == 0)
                return n;
        return s ? s->refcount : -1;
}

static int remove_one(const struct removal *r, const char *name, struct blkup_error *err)
{
        const struct blkup_modstate *s = blkup_modstates_by_name(r->m->loaded, name);

        if (!r->dry_run && syscall(SYS_delete_module, name, O_NONBLOCK) < 0) {
                int e = -errno;

                if ((e == -EWOULDBLOCK || e == -EBUSY) && s && s->n_users > 0)
                        return blkup_fail(err, e, "%s: in use by %s%s", name, s->users[0],
                                          s->n_users > 1 ? " and others" : "");
                if (e == -EBUSY && s && s->is_permanent)
                        return blkup_fail(err, e, "%s: it has no exit function and cannot be removed", name);
                return blkup_fail_errno(err, e, "%s", name);
        }
        if (r->each)
                r->each(r->arg, name);
        return 0;
}

/* Softdeps of one side, without failing: they may be in use, or not loaded. */
static void remove_softdeps(const struct removal *r, const char *name, bool post)
{
        const struct blkup_modconf *c = &r->m->config;

        for (size_t i = 0; i < c->n; i++) {
                const struct blkup_modconf_line *l = &c->lines[i];
                const char *const *names = post ? l->post : l->pre;

                if (l->kind != BLKUP_MODCONF_SOFTDEP || !blkup_module_matches(l->name, name))
                        continue;
                for (size_t k = 0; k < (post ? l->n_post : l->n_pre); k++) {
                        char normal[BLKUP_MODULE_ALIAS_CAP];

                        if (blkup_module_alias(names[k], strlen(names[k]), normal, sizeof(normal)) == 0 &&
                            blkup_modules_is_live(r->m, normal) && refcount(r, normal) == 0)
                                (void) remove_one(r, normal, NULL);
                }
        }
}

int blkup_module_remove(const struct blkup_modules *m, const char *name, bool with_unused, bool dry_run,
                        void (*each)(void *arg, const char *name), void *arg, struct blkup_error *err)
{
        struct removal removal = { m, dry_run, each, arg };
        char normal[BLKUP_MODULE_ALIAS_CAP], dep[BLKUP_MODULE_ALIAS_CAP];
        const char *line = NULL, *at;
        bool is_builtin = false;
        int r = blkup_module_alias(name, strlen(name), normal, sizeof(normal));

        if (r < 0)
                return blkup_fail(err, r, "'%s' is no name of a module", name);
        r = blkup_modules_is_builtin(m, normal, &is_builtin);
        if (r == 0 && is_builtin)
                return blkup_fail(err, -EBUSY, "%s: it is built in", normal);
        if (r == 0 && is_gone(&removal, normal))
                return blkup_fail(err, -ENOENT, "%s: it is not loaded", normal);
        if (r == 0)
                r = blkup_modules_dep_line(m, normal, &line);
        if (r < 0)
                return blkup_fail_errno(err, r, "%s", normal);
        if (with_unused)
                remove_softdeps(&removal, normal, true);
        r = remove_one(&removal, normal, err);
        if (r < 0 || !with_unused)
                return r;
        /* Nearest first, as modules.dep has them: a dependency goes before what it needs itself. */
        at = line ? strchr(line, ':') : NULL;
        for (at = at ? at + 1 : ""; *at;) {
                size_t len;

                at += strspn(at, " ");
                len = strcspn(at, " ");
                if (len && blkup_module_name_of_path(at, len, dep) == 0 && blkup_modules_is_live(m, dep) &&
                    (dry_run ? refcount(&removal, dep) <= 1 : refcount(&removal, dep) == 0))
                        (void) remove_one(&removal, dep, NULL);
                at += len;
        }
        remove_softdeps(&removal, normal, false);
        return 0;
}
