/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Refuses one of the kernel's new mount calls with a given errno, and mounts for real:
 *   inject CALL ERRNO KIND SOURCE DIR [OPTIONS]
 * CALL: fsopen, fsconfig, create, fsmount, move_mount, open_tree, mount_setattr, fspick, none. KIND: the
 * type. Prints "context" or "classic" (how it was mounted), or the call that failed.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <blkup/mount.h>

#include "mount/syscalls.h"

static const char *refused;
static int refused_with;

static bool is_refused(const char *call)
{
        return strcmp(refused, call) == 0 || strcmp(refused, "all") == 0;
}

static int my_fsopen(void *to, const char *type, unsigned flags)
{
        return is_refused("fsopen") ? -refused_with : blkup_mount_kernel.fsopen(to, type, flags);
}

static int my_fsconfig(void *to, int fd, unsigned command, const char *key, const char *value, int aux)
{
        bool is_create = command == BLKUP_FSCONFIG_CREATE || command == BLKUP_FSCONFIG_CREATE_EXCL ||
                         command == BLKUP_FSCONFIG_RECONFIGURE;

        return is_refused(is_create ? "create" : "fsconfig")
                       ? -refused_with
                       : blkup_mount_kernel.fsconfig(to, fd, command, key, value, aux);
}

static int my_fsmount(void *to, int fd, unsigned flags, unsigned attrs)
{
        return is_refused("fsmount") ? -refused_with : blkup_mount_kernel.fsmount(to, fd, flags, attrs);
}

static int my_move_mount(void *to, int from_fd, const char *from, int to_fd, const char *path, unsigned flags)
{
        return is_refused("move_mount")
                       ? -refused_with
                       : blkup_mount_kernel.move_mount(to, from_fd, from, to_fd, path, flags);
}

static int my_open_tree(void *to, int dir_fd, const char *path, unsigned flags)
{
        return is_refused("open_tree") ? -refused_with
                                       : blkup_mount_kernel.open_tree(to, dir_fd, path, flags);
}

static int my_mount_setattr(void *to, int dir_fd, const char *path, unsigned flags,
                            const struct blkup_mount_attr *attr)
{
        return is_refused("mount_setattr") ? -refused_with
                                           : blkup_mount_kernel.mount_setattr(to, dir_fd, path, flags, attr);
}

static int my_fspick(void *to, int dir_fd, const char *path, unsigned flags)
{
        return is_refused("fspick") ? -refused_with : blkup_mount_kernel.fspick(to, dir_fd, path, flags);
}

int main(int argc, char **argv)
{
        struct blkup_mount_ops ops = blkup_mount_kernel;
        struct blkup_mount_settings settings = { .ignore_hibernation = true, .ops = &ops };
        struct blkup_mount_request q = { .source = NULL };
        struct blkup_mount_result r;
        struct blkup_mounter *m;
        int e;

        if (argc < 6)
                return 2;
        refused = argv[1];
        refused_with = strcmp(argv[2], "EPERM") == 0 ? EPERM : ENOSYS;
        ops.fsopen = my_fsopen;
        ops.fsconfig = my_fsconfig;
        ops.fsmount = my_fsmount;
        ops.move_mount = my_move_mount;
        ops.open_tree = my_open_tree;
        ops.mount_setattr = my_mount_setattr;
        ops.fspick = my_fspick;
        q.types = strcmp(argv[3], "none") == 0 ? NULL : argv[3];
        q.source = strcmp(argv[4], "none") == 0 ? NULL : argv[4];
        q.target = argv[5];
        q.options = argc > 6 ? argv[6] : NULL;
        if (blkup_mounter_new(&settings, &m) < 0)
                return 2;
        e = blkup_mount_one(m, &q, &r);
        if (e == 0)
                printf("%s\n", r.notes & BLKUP_MOUNT_NOTE_CLASSIC ? "classic" : "context");
        else
                printf("call %d: %s\n", (int) r.call, strerror(-e));
        blkup_mount_result_free(&r);
        blkup_mounter_unref(m);
        return e == 0 ? 0 : 1;
}
