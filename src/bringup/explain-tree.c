/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Why the tree of mounts was not changed: bind, move, propagation, umount.
 *
 * Source: the refusals (-EINVAL) of do_loopback(), do_move_mount(), do_change_type() and do_umount() in the
 * kernel's fs/namespace.c; mount_namespaces(7).
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bringup/explain-internal.h"

/* path, or what it leads to */
static const char *resolved(const char *path, char buf[PATH_MAX])
{
        return realpath(path, buf) ? buf : path;
}

static bool is_at_or_below(const char *path, const char *dir)
{
        size_t n = strlen(dir);

        if (strcmp(dir, "/") == 0)
                return true;
        return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* The mount that a path lies on. */
static const struct blkup_mount *mount_with(const struct blkup_mountinfo *t, const char *path)
{
        const struct blkup_mount *best = NULL;

        for (size_t i = 0; t && i < t->n; i++)
                if (is_at_or_below(path, t->mounts[i].target) &&
                    (!best || strlen(t->mounts[i].target) >= strlen(best->target)))
                        best = &t->mounts[i];
        return best;
}

bool blkup_explain_bind(struct blkup_explainer *e, const char *source, struct blkup_saying *s)
{
        char buf[PATH_MAX];
        const struct blkup_mount *m = mount_with(blkup_explainer_mounts(e), resolved(source, buf));

        if (!m || !m->is_unbindable)
                return false;
        blkup_say(s, "%s lies on %s, which is unbindable: blkup mount --make-private %s permits it", source,
                  m->target, m->target);
        return true;
}

bool blkup_explain_move(struct blkup_explainer *e, const char *source, const char *target,
                        struct blkup_saying *s)
{
        const struct blkup_mountinfo *t = blkup_explainer_mounts(e);
        char from[PATH_MAX], to[PATH_MAX];
        const struct blkup_mount *m = blkup_mountinfo_by_target(t, resolved(source, from)), *parent, *on;
        struct stat a, b;

        if (!t)
                return false;
        if (!m) {
                blkup_say(s, "%s cannot be moved: it is no mount point", source);
                return true;
        }
        parent = blkup_mountinfo_by_id(t, m->parent_id);
        if (parent && parent->shared) {
                blkup_say(s,
                          "%s cannot be moved: the mount that it lies on (%s) is shared: blkup mount "
                          "--make-private %s permits it",
                          source, parent->target, parent->target);
                return true;
        }
        on = mount_with(t, resolved(target, to));
        /* Ends: at the end of the table. */
        for (size_t i = 0; on && on->shared && i < t->n; i++)
                if (t->mounts[i].is_unbindable && is_at_or_below(t->mounts[i].target, m->target)) {
                        blkup_say(s, "%s cannot be moved: %s is unbindable, and %s is shared", source,
                                  t->mounts[i].target, on->target);
                        return true;
                }
        if (stat(source, &a) == 0 && stat(target, &b) == 0 && S_ISDIR(a.st_mode) != S_ISDIR(b.st_mode)) {
                blkup_say(s, "%s cannot be moved: one of it and %s is a file, the other a directory", source,
                          target);
                return true;
        }
        if (!parent) {
                blkup_say(s, "%s cannot be moved: it is the root of all that is seen here", source);
                return true;
        }
        return false;
}

bool blkup_explain_no_mount_point(struct blkup_explainer *e, const char *target, struct blkup_saying *s)
{
        char buf[PATH_MAX];
        const struct blkup_mountinfo *t = blkup_explainer_mounts(e);

        if (!t || blkup_mountinfo_by_target(t, resolved(target, buf)))
                return false;
        blkup_say(s, "%s is no mount point (blkup mount --bind %s %s makes it one)", target, target, target);
        return true;
}

bool blkup_explain_is_mounted(struct blkup_explainer *e, const char *target)
{
        char buf[PATH_MAX];

        return blkup_mountinfo_by_target(blkup_explainer_mounts(e), resolved(target, buf)) != NULL;
}
