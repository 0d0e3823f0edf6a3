/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The kernel's mount calls as a table, so that a test can refuse any of them. Not every C library has
 * wrappers (glibc since 2.36, musl none): these are system calls by number.
 *
 * Each returns 0, a descriptor, or a negative errno.
 *
 * Source of the numbers and constants: the kernel's include/uapi/linux/mount.h and
 * include/uapi/asm-generic/unistd.h (the new calls have one number on all architectures but alpha).
 */
#ifndef BLKUP_MOUNT_SYSCALLS_H
#define BLKUP_MOUNT_SYSCALLS_H

#include <stddef.h>
#include <stdint.h>

enum {
        BLKUP_FSOPEN_CLOEXEC = 1,
        BLKUP_FSPICK_CLOEXEC = 1,
        BLKUP_FSPICK_NO_AUTOMOUNT = 4,
        BLKUP_FSPICK_EMPTY_PATH = 8,
        BLKUP_FSMOUNT_CLOEXEC = 1,
        BLKUP_MOVE_MOUNT_F_EMPTY_PATH = 4,
        BLKUP_MOVE_MOUNT_T_EMPTY_PATH = 0x40,
        BLKUP_OPEN_TREE_CLONE = 1,
        BLKUP_OPEN_TREE_CLOEXEC = 02000000, /* O_CLOEXEC */
        BLKUP_AT_EMPTY_PATH = 0x1000,
        BLKUP_AT_RECURSIVE = 0x8000,
};

enum blkup_fsconfig_command {
        BLKUP_FSCONFIG_SET_FLAG = 0,
        BLKUP_FSCONFIG_SET_STRING = 1,
        BLKUP_FSCONFIG_CREATE = 6,
        BLKUP_FSCONFIG_RECONFIGURE = 7,
        BLKUP_FSCONFIG_CREATE_EXCL = 8, /* since 6.6 */
};

#define BLKUP_MOUNT_ATTR_RDONLY 0x1u
#define BLKUP_MOUNT_ATTR_NOSUID 0x2u
#define BLKUP_MOUNT_ATTR_NODEV 0x4u
#define BLKUP_MOUNT_ATTR_NOEXEC 0x8u
#define BLKUP_MOUNT_ATTR_ATIME 0x70u
#define BLKUP_MOUNT_ATTR_RELATIME 0x0u
#define BLKUP_MOUNT_ATTR_NOATIME 0x10u
#define BLKUP_MOUNT_ATTR_STRICTATIME 0x20u
#define BLKUP_MOUNT_ATTR_NODIRATIME 0x80u
#define BLKUP_MOUNT_ATTR_NOSYMFOLLOW 0x200000u

/* struct mount_attr of the kernel; its four fields are the first version, which every kernel with the call
 * takes. */
struct blkup_mount_attr {
        uint64_t attr_set, attr_clr, propagation, userns_fd;
};

struct blkup_mount_ops {
        int (*fsopen)(void *to, const char *type, unsigned flags);
        int (*fsconfig)(void *to, int fd, unsigned command, const char *key, const char *value, int aux);
        int (*fsmount)(void *to, int fd, unsigned flags, unsigned attrs);
        int (*move_mount)(void *to, int from_fd, const char *from, int to_fd, const char *path,
                          unsigned flags);
        int (*open_tree)(void *to, int dir_fd, const char *path, unsigned flags);
        int (*mount_setattr)(void *to, int dir_fd, const char *path, unsigned flags,
                             const struct blkup_mount_attr *attr);
        int (*fspick)(void *to, int dir_fd, const char *path, unsigned flags);
        int (*mount)(void *to, const char *source, const char *target, const char *type, unsigned long flags,
                     const char *data);
        int (*umount)(void *to, const char *target, int flags);
        void *to;
};

/* The running kernel. */
extern const struct blkup_mount_ops blkup_mount_kernel;

#endif
