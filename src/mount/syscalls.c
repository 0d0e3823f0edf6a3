/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mount/syscalls.h"

#ifdef __alpha__
#define NR_BASE 110
#else
#define NR_BASE 0
#endif

enum {
        NR_open_tree = NR_BASE + 428,
        NR_move_mount = NR_BASE + 429,
        NR_fsopen = NR_BASE + 430,
        NR_fsconfig = NR_BASE + 431,
        NR_fsmount = NR_BASE + 432,
        NR_fspick = NR_BASE + 433,
        NR_mount_setattr = NR_BASE + 442,
};

static int answer(long r)
{
        return r < 0 ? -errno : (int) r;
}

static int kernel_fsopen(void *to, const char *type, unsigned flags)
{
        (void) to;
        return answer(syscall(NR_fsopen, type, flags));
}

static int kernel_fsconfig(void *to, int fd, unsigned command, const char *key, const char *value, int aux)
{
        (void) to;
        return answer(syscall(NR_fsconfig, fd, command, key, value, aux));
}

static int kernel_fsmount(void *to, int fd, unsigned flags, unsigned attrs)
{
        (void) to;
        return answer(syscall(NR_fsmount, fd, flags, attrs));
}

static int kernel_move_mount(void *to, int from_fd, const char *from, int to_fd, const char *path,
                             unsigned flags)
{
        (void) to;
        return answer(syscall(NR_move_mount, from_fd, from, to_fd, path, flags));
}

static int kernel_open_tree(void *to, int dir_fd, const char *path, unsigned flags)
{
        (void) to;
        return answer(syscall(NR_open_tree, dir_fd, path, flags));
}

static int kernel_mount_setattr(void *to, int dir_fd, const char *path, unsigned flags,
                                const struct blkup_mount_attr *attr)
{
        (void) to;
        return answer(syscall(NR_mount_setattr, dir_fd, path, flags, attr, sizeof(*attr)));
}

static int kernel_fspick(void *to, int dir_fd, const char *path, unsigned flags)
{
        (void) to;
        return answer(syscall(NR_fspick, dir_fd, path, flags));
}

static int kernel_mount(void *to, const char *source, const char *target, const char *type,
                        unsigned long flags, const char *data)
{
        (void) to;
        return answer(mount(source, target, type, flags, data));
}

static int kernel_umount(void *to, const char *target, int flags)
{
        (void) to;
        return answer(umount2(target, flags));
}

const struct blkup_mount_ops blkup_mount_kernel = {
        .fsopen = kernel_fsopen,
        .fsconfig = kernel_fsconfig,
        .fsmount = kernel_fsmount,
        .move_mount = kernel_move_mount,
        .open_tree = kernel_open_tree,
        .mount_setattr = kernel_mount_setattr,
        .fspick = kernel_fspick,
        .mount = kernel_mount,
        .umount = kernel_umount,
};
