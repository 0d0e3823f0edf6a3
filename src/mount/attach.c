/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The calls of fsopen(2) and its kin: everything about a mount is said before anybody can see it.
 *
 * A key that is refused does not spoil the context (creating would succeed without the option): each answer
 * is looked at. What the context says is read after every failure, until it has nothing more.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "mount/mounter.h"
#include "mount/names.h"

#define MAX_STRING 255 /* fsconfig(2) takes no longer value */

bool blkup_mount_is_refused_call(int error)
{
        return error == -EPERM || error == -ENOSYS || error == -EOPNOTSUPP;
}

/* Appends what the context has to say to the result; drops it when the result is full. */
static void read_log(struct blkup_mount_result *r, int context)
{
        char line[512];
        size_t used = strlen(r->log);

        /* Ends: the context keeps a handful of messages; 64 are more than it has. */
        for (unsigned i = 0; i < 64; i++) {
                ssize_t n = read(context, line, sizeof(line) - 1);

                if (n < 0 && errno == EMSGSIZE)
                        continue;
                if (n <= 0)
                        return;
                while (n > 0 && line[n - 1] == '\n')
                        n--;
                if (used + (size_t) n + 2 > sizeof(r->log))
                        continue;
                if (used > 0)
                        r->log[used++] = '\n';
                memcpy(r->log + used, line, (size_t) n);
                used += (size_t) n;
                r->log[used] = '\0';
        }
}

static int set_key(struct blkup_mount_attempt *a, int context, const char *key, const char *value)
{
        const struct blkup_mount_ops *ops = a->m->ops;
        int r = ops->fsconfig(ops->to, context, value ? BLKUP_FSCONFIG_SET_STRING : BLKUP_FSCONFIG_SET_FLAG,
                              key, value, 0);

        if (r >= 0)
                return 0;
        read_log(a->r, context);
        blkup_mount_copy(a->r->key, sizeof(a->r->key), key);
        blkup_mount_copy(a->r->value, sizeof(a->r->value), value);
        return blkup_mount_fail(a, BLKUP_MOUNT_CALL_KEY, r);
}

/* All that the super block is to know. */
static int set_keys(struct blkup_mount_attempt *a, int context)
{
        int r = set_key(a, context, "source", a->source.path);

        if (r == 0 && a->read_only)
                r = set_key(a, context, "ro", NULL);
        for (size_t i = 0; r == 0 && i < a->o.n_fs; i++)
                r = set_key(a, context, a->o.fs[i].key, a->o.fs[i].value);
        return r;
}

static bool has_long_value(const struct blkup_mount_attempt *a)
{
        if (strlen(a->source.path) > MAX_STRING)
                return true;
        for (size_t i = 0; i < a->o.n_fs; i++)
                if (strlen(a->o.fs[i].key) > MAX_STRING ||
                    (a->o.fs[i].value && strlen(a->o.fs[i].value) > MAX_STRING))
                        return true;
        return false;
}

/* A context with its keys. */
static int open_context(struct blkup_mount_attempt *a, int *ret)
{
        const struct blkup_mount_ops *ops = a->m->ops;
        int fd, r;

        blkup_mount_step_begin(a->r, "fsopen");
        fd = ops->fsopen(ops->to, a->r->type, BLKUP_FSOPEN_CLOEXEC);
        blkup_mount_step_end(a->r);
        if (fd < 0)
                return blkup_mount_fail(a, BLKUP_MOUNT_CALL_FSOPEN, fd);
        blkup_mount_step_begin(a->r, "options");
        r = set_keys(a, fd);
        blkup_mount_step_end(a->r);
        if (r < 0) {
                (void) blkup_close(fd);
                return r;
        }
        *ret = fd;
        return 0;
}

static int create_once(struct blkup_mount_attempt *a, unsigned command, int *ret)
{
        const struct blkup_mount_ops *ops = a->m->ops;
        BLKUP_CLEANUP_CLOSE int fd = -1;
        int r = open_context(a, &fd);

        if (r < 0)
                return r;
        blkup_mount_step_begin(a->r, "CREATE");
        r = ops->fsconfig(ops->to, fd, command, NULL, NULL, 0);
        blkup_mount_step_end(a->r);
        if (r < 0) {
                read_log(a->r, fd);
                return blkup_mount_fail(a, BLKUP_MOUNT_CALL_CREATE, r);
        }
        *ret = blkup_take_fd(&fd);
        return 0;
}

static void forget_failure(struct blkup_mount_attempt *a)
{
        a->r->log[0] = '\0';
        a->r->call = BLKUP_MOUNT_CALL_NONE;
        a->r->error = 0;
}

/* The super block: its own where options are to be applied to it, else shared with who has it already. */
static int create(struct blkup_mount_attempt *a, int *ret)
{
        bool own = a->o.n_fs > 0 && a->source.kind == BLKUP_SOURCE_BLOCK;
        int r;

        a->r->log[0] = '\0';
        r = create_once(a, own ? BLKUP_FSCONFIG_CREATE_EXCL : BLKUP_FSCONFIG_CREATE, ret);
        if (r < 0 && own && a->r->call == BLKUP_MOUNT_CALL_CREATE &&
            (r == -EOPNOTSUPP || (r == -EBUSY && strstr(a->r->log, "reusing existing")))) {
                /* before 6.6 nobody can ask for an own one */
                bool live = r == -EBUSY;

                forget_failure(a);
                r = create_once(a, BLKUP_FSCONFIG_CREATE, ret);
                if (r == 0 && live)
                        a->r->notes |= BLKUP_MOUNT_NOTE_LIVE_SUPER;
        }
        if ((r == -EACCES || r == -EROFS) && a->r->call == BLKUP_MOUNT_CALL_CREATE && !a->read_only &&
            !a->o.is_read_write && a->source.kind == BLKUP_SOURCE_BLOCK) {
                struct blkup_mount_result before = *a->r;

                forget_failure(a);
                a->read_only = true;
                r = create_once(a, BLKUP_FSCONFIG_CREATE, ret);
                if (r == 0) {
                        a->r->notes |= BLKUP_MOUNT_NOTE_READ_ONLY;
                } else if (r == -EBUSY) {
                        /* a conflict of our own making would hide the true one */
                        r = before.error;
                        *a->r = before;
                        a->read_only = false;
                }
        }
        return r;
}

/* The path of the device was looked up by the kernel again: is it the device that was looked at? */
static int check_device(struct blkup_mount_attempt *a, int mount_fd)
{
        struct stat st, target;

        if (a->source.kind != BLKUP_SOURCE_BLOCK)
                return 0;
        if (fstat(mount_fd, &st) < 0 || fstat(a->target_fd, &target) < 0)
                return blkup_mount_fail(a, BLKUP_MOUNT_CALL_FSMOUNT, -errno);
        /* mount(2) refuses a file system on top of itself; the new calls would stack it. */
        if (st.st_dev == target.st_dev && st.st_ino == target.st_ino)
                return blkup_mount_refuse(a, BLKUP_MOUNT_CALL_ATTACH, BLKUP_MOUNT_REASON_SAME_PLACE, -EBUSY);
        /* btrfs and its like show an anonymous number. */
        if (major(st.st_dev) == 0 || st.st_dev == a->source.rdev)
                return 0;
        return blkup_mount_refuse(a, BLKUP_MOUNT_CALL_FSMOUNT, BLKUP_MOUNT_REASON_WRONG_DEVICE, -ESTALE);
}

static int attach(struct blkup_mount_attempt *a, int mount_fd)
{
        const struct blkup_mount_ops *ops = a->m->ops;
        int r;

        blkup_mount_step_begin(a->r, "attach");
        r = ops->move_mount(ops->to, mount_fd, "", a->target_fd, "",
                            BLKUP_MOVE_MOUNT_F_EMPTY_PATH | BLKUP_MOVE_MOUNT_T_EMPTY_PATH);
        blkup_mount_step_end(a->r);
        return r < 0 ? blkup_mount_fail(a, BLKUP_MOUNT_CALL_ATTACH, r) : 0;
}

static int propagate(struct blkup_mount_attempt *a, int mount_fd)
{
        return a->o.propagation ? blkup_mount_set_propagation(a, mount_fd) : 0;
}

int blkup_mount_by_context(struct blkup_mount_attempt *a, bool *ret_classic)
{
        const struct blkup_mount_ops *ops = a->m->ops;
        BLKUP_CLEANUP_CLOSE int context = -1;
        BLKUP_CLEANUP_CLOSE int mount_fd = -1;
        uint64_t attrs = a->o.attr_set;
        int r;

        *ret_classic = has_long_value(a);
        if (*ret_classic)
                return 0;
        r = create(a, &context);
        if (r == 0) {
                if (a->read_only)
                        attrs |= BLKUP_MOUNT_ATTR_RDONLY;
                blkup_mount_step_begin(a->r, "fsmount");
                mount_fd = ops->fsmount(ops->to, context, BLKUP_FSMOUNT_CLOEXEC, (unsigned) attrs);
                blkup_mount_step_end(a->r);
                if (mount_fd < 0)
                        r = blkup_mount_fail(a, BLKUP_MOUNT_CALL_FSMOUNT, mount_fd);
        }
        if (r == 0)
                r = check_device(a, mount_fd);
        if (r == 0)
                r = attach(a, mount_fd);
        if (r == 0)
                return propagate(a, mount_fd);
        if (blkup_mount_is_refused_call(r) && a->r->reason == BLKUP_MOUNT_REASON_NONE &&
            !(a->r->call == BLKUP_MOUNT_CALL_CREATE && a->r->log[0]))
                *ret_classic = true;
        return r;
}

/* ---- changes of mounts that are there ---- */

int blkup_mount_set_propagation(struct blkup_mount_attempt *a, int fd)
{
        const struct blkup_mount_ops *ops = a->m->ops;
        struct blkup_mount_attr attr = { .propagation = a->o.propagation };
        unsigned flags = BLKUP_AT_EMPTY_PATH | (a->o.propagation_is_recursive ? BLKUP_AT_RECURSIVE : 0u);
        int r;

        blkup_mount_step_begin(a->r, "propagation");
        r = ops->mount_setattr(ops->to, fd, "", flags, &attr);
        if (r < 0 && blkup_mount_is_refused_call(r)) {
                a->r->notes |= BLKUP_MOUNT_NOTE_CLASSIC;
                r = ops->mount(ops->to, NULL, a->target, NULL,
                               (unsigned long) a->o.propagation |
                                       (a->o.propagation_is_recursive ? MS_REC : 0),
                               NULL);
        }
        blkup_mount_step_end(a->r);
        return r < 0 ? blkup_mount_fail(a, BLKUP_MOUNT_CALL_SETATTR, r) : 0;
}

static int open_source_path(struct blkup_mount_attempt *a, int *ret)
{
        int fd;

        if (!a->q->source)
                return blkup_mount_fail(a, BLKUP_MOUNT_CALL_SOURCE, -EINVAL);
        fd = open(a->q->source, O_PATH | O_CLOEXEC);
        if (fd < 0) {
                int e = -errno;

                if (a->o.is_nofail && e == -ENOENT) {
                        a->r->outcome = BLKUP_MOUNT_SKIPPED;
                        a->r->call = BLKUP_MOUNT_CALL_SOURCE;
                        a->r->error = e;
                        return e;
                }
                return blkup_mount_fail(a, BLKUP_MOUNT_CALL_SOURCE, e);
        }
        blkup_mount_copy(a->source.path, sizeof(a->source.path), a->q->source);
        *ret = fd;
        return 0;
}

/* A bind in mount(2)'s two steps, where the new calls are refused. */
static int bind_classic(struct blkup_mount_attempt *a)
{
        const struct blkup_mount_ops *ops = a->m->ops;
        unsigned long rec = a->o.is_recursive ? MS_REC : 0;
        int r;

        a->r->notes |= BLKUP_MOUNT_NOTE_CLASSIC;
        blkup_mount_step_begin(a->r, "mount");
        r = ops->mount(ops->to, a->q->source, a->target, NULL, MS_BIND | rec, NULL);
        if (r == 0 && a->o.attr_set & ~(uint64_t) BLKUP_MOUNT_ATTR_ATIME)
                r = ops->mount(ops->to, NULL, a->target, NULL,
                               MS_BIND | MS_REMOUNT | blkup_mount_classic_flags(a->o.attr_set), NULL);
        blkup_mount_step_end(a->r);
        if (r < 0)
                return blkup_mount_fail(a, BLKUP_MOUNT_CALL_CLASSIC, r);
        return a->o.propagation ? blkup_mount_set_propagation(a, a->target_fd) : 0;
}

int blkup_mount_bind(struct blkup_mount_attempt *a)
{
        const struct blkup_mount_ops *ops = a->m->ops;
        BLKUP_CLEANUP_CLOSE int from = -1;
        BLKUP_CLEANUP_CLOSE int tree = -1;
        struct blkup_mount_attr attr = { .attr_set = a->o.attr_set, .attr_clr = a->o.attr_clr };
        unsigned rec = a->o.is_recursive ? BLKUP_AT_RECURSIVE : 0u;
        int r = open_source_path(a, &from);

        a->read_only = a->o.is_read_only;
        if (r == 0)
                r = blkup_mount_open_target(a);
        if (r < 0 || a->m->settings.dry_run)
                return r;
        blkup_mount_step_begin(a->r, "clone");
        tree = ops->open_tree(ops->to, from, "",
                              BLKUP_OPEN_TREE_CLONE | BLKUP_OPEN_TREE_CLOEXEC | BLKUP_AT_EMPTY_PATH | rec);
        blkup_mount_step_end(a->r);
        if (tree < 0) {
                if (blkup_mount_is_refused_call(tree))
                        return bind_classic(a);
                return blkup_mount_fail(a, BLKUP_MOUNT_CALL_CLONE, tree);
        }
        if (attr.attr_set || attr.attr_clr) {
                blkup_mount_step_begin(a->r, "attributes");
                r = ops->mount_setattr(ops->to, tree, "", BLKUP_AT_EMPTY_PATH | rec, &attr);
                blkup_mount_step_end(a->r);
                if (r < 0 && blkup_mount_is_refused_call(r))
                        return bind_classic(a);
                if (r < 0)
                        return blkup_mount_fail(a, BLKUP_MOUNT_CALL_SETATTR, r);
        }
        r = attach(a, tree);
        if (r < 0 && blkup_mount_is_refused_call(r))
                return bind_classic(a);
        return r < 0 ? r : propagate(a, tree);
}

int blkup_mount_move(struct blkup_mount_attempt *a)
{
        const struct blkup_mount_ops *ops = a->m->ops;
        BLKUP_CLEANUP_CLOSE int from = -1;
        int r = open_source_path(a, &from);

        if (r == 0)
                r = blkup_mount_open_target(a);
        if (r < 0 || a->m->settings.dry_run)
                return r;
        r = attach(a, from);
        if (r < 0 && blkup_mount_is_refused_call(r)) {
                a->r->notes |= BLKUP_MOUNT_NOTE_CLASSIC;
                r = ops->mount(ops->to, a->q->source, a->target, NULL, MS_MOVE, NULL);
                if (r < 0)
                        r = blkup_mount_fail(a, BLKUP_MOUNT_CALL_CLASSIC, r);
        }
        return r;
}

/* Is fd the root of a mount? statx(2) says so since 5.8; an older kernel's answer is "perhaps". */
static bool is_mount_root(int fd)
{
        struct statx stx = { 0 };

        if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, 0, &stx) < 0)
                return true;
        return !(stx.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) ||
               (stx.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

/* The flags that a mount has: mount(2) takes those that are not repeated away. */
static unsigned long flags_of(const struct blkup_mount *m)
{
        static const struct {
                const char *name;
                unsigned long flag;
        } table[] = {
                { "ro", MS_RDONLY }, { "nosuid", MS_NOSUID }, { "nodev", MS_NODEV }, { "noexec", MS_NOEXEC },
                { "noatime", MS_NOATIME }, { "nodiratime", MS_NODIRATIME }, { "relatime", MS_RELATIME },
        };
        unsigned long flags = 0;

        for (size_t i = 0; m && i < BLKUP_ARRAY_SIZE(table); i++)
                if (blkup_mount_option(m->options, table[i].name, NULL, 0) == 0)
                        flags |= table[i].flag;
        return flags;
}

static int remount_classic(struct blkup_mount_attempt *a)
{
        const struct blkup_mount_ops *ops = a->m->ops;
        char canonical[PATH_MAX], data[4096];
        unsigned long flags = 0;
        size_t used = 0;
        int r;

        a->r->notes |= BLKUP_MOUNT_NOTE_CLASSIC;
        if (blkup_mount_canonical_path(a->target, canonical) == 0)
                flags = flags_of(blkup_mountinfo_by_target(blkup_mounter_mounts(a->m), canonical));
        if (a->o.has_atime)
                flags &= ~(unsigned long) (MS_NOATIME | MS_RELATIME | MS_STRICTATIME);
        flags &= ~blkup_mount_classic_flags(a->o.attr_clr & ~(uint64_t) BLKUP_MOUNT_ATTR_ATIME);
        flags |= blkup_mount_classic_flags(a->o.attr_set) | MS_REMOUNT | (a->o.is_bind ? MS_BIND : 0);
        data[0] = '\0';
        for (size_t i = 0; i < a->o.n_fs && !a->o.is_bind; i++) {
                const char *value = a->o.fs[i].value;
                size_t n = strlen(a->o.fs[i].key) + (value ? strlen(value) + 1 : 0) + 1;

                if (used + n + 1 > sizeof(data))
                        return blkup_mount_fail(a, BLKUP_MOUNT_CALL_CLASSIC, -E2BIG);
                used += (size_t) snprintf(data + used, sizeof(data) - used, "%s%s%s%s", used ? "," : "",
                                          a->o.fs[i].key, value ? "=" : "", value ? value : "");
        }
        r = ops->mount(ops->to, NULL, a->target, NULL, flags, data);
        return r < 0 ? blkup_mount_fail(a, BLKUP_MOUNT_CALL_CLASSIC, r) : 0;
}

static int reconfigure(struct blkup_mount_attempt *a)
{
        const struct blkup_mount_ops *ops = a->m->ops;
        BLKUP_CLEANUP_CLOSE int context = -1;
        int r = 0;

        context = ops->fspick(ops->to, a->target_fd, "", BLKUP_FSPICK_CLOEXEC | BLKUP_FSPICK_EMPTY_PATH);
        if (context < 0)
                return blkup_mount_fail(a, BLKUP_MOUNT_CALL_PICK, context);
        if (a->o.is_read_only || a->o.is_read_write)
                r = set_key(a, context, a->o.is_read_only ? "ro" : "rw", NULL);
        for (size_t i = 0; r == 0 && i < a->o.n_fs; i++)
                r = set_key(a, context, a->o.fs[i].key, a->o.fs[i].value);
        if (r < 0)
                return r;
        blkup_mount_step_begin(a->r, "RECONFIGURE");
        r = ops->fsconfig(ops->to, context, BLKUP_FSCONFIG_RECONFIGURE, NULL, NULL, 0);
        blkup_mount_step_end(a->r);
        if (r < 0) {
                read_log(a->r, context);
                return blkup_mount_fail(a, BLKUP_MOUNT_CALL_RECONFIGURE, r);
        }
        return 0;
}

static int remount_new(struct blkup_mount_attempt *a)
{
        const struct blkup_mount_ops *ops = a->m->ops;
        struct blkup_mount_attr attr = { .attr_set = a->o.attr_set, .attr_clr = a->o.attr_clr };
        bool super = !a->o.is_bind && (a->o.n_fs > 0 || a->o.is_read_only || a->o.is_read_write);
        int r = super ? reconfigure(a) : 0;

        if (r < 0)
                return r;
        if (attr.attr_set || attr.attr_clr) {
                blkup_mount_step_begin(a->r, "attributes");
                r = ops->mount_setattr(ops->to, a->target_fd, "",
                                       BLKUP_AT_EMPTY_PATH | (a->o.is_recursive ? BLKUP_AT_RECURSIVE : 0u),
                                       &attr);
                blkup_mount_step_end(a->r);
                if (r < 0)
                        return blkup_mount_fail(a, BLKUP_MOUNT_CALL_SETATTR, r);
        }
        return propagate(a, a->target_fd);
}

/* A device that is made writable must not belong to a hibernated system either. */
static int check_remount_hibernation(struct blkup_mount_attempt *a)
{
        char path[256];
        struct stat st;

        if (a->m->settings.ignore_hibernation || !a->o.is_read_write || a->o.is_bind ||
            fstat(a->target_fd, &st) < 0 || major(st.st_dev) == 0)
                return 0;
        if (blkup_mount_look_for_hibernation(a->m, st.st_dev, path, sizeof(path)) != BLKUP_HIBERNATION_FOUND)
                return 0;
        blkup_mount_copy(a->r->other, sizeof(a->r->other), path);
        return blkup_mount_refuse(a, BLKUP_MOUNT_CALL_SOURCE, BLKUP_MOUNT_REASON_HIBERNATED, -EBUSY);
}

int blkup_mount_remount(struct blkup_mount_attempt *a)
{
        int r = blkup_mount_open_target(a);

        if (r < 0)
                return r;
        if (!is_mount_root(a->target_fd))
                return blkup_mount_refuse(a, BLKUP_MOUNT_CALL_TARGET, BLKUP_MOUNT_REASON_NOT_MOUNTED,
                                          -EINVAL);
        r = check_remount_hibernation(a);
        if (r < 0 || a->m->settings.dry_run)
                return r;
        a->read_only = a->o.is_read_only;
        r = remount_new(a);
        if (r < 0 && blkup_mount_is_refused_call(r) && !a->r->log[0]) {
                forget_failure(a);
                r = remount_classic(a);
        }
        return r;
}
