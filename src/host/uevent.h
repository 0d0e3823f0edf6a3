/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the kernel tells of devices that come, change and go: uevents, by netlink.
 *
 * Source: the kernel's lib/kobject_uevent.c: "ACTION@DEVPATH" and a NUL, then KEY=VALUE, each with a NUL; one
 * message a datagram, multicast to group 1. Anybody may send to our socket's own port, and root to the group
 * (that is how udev tells its own): so a message counts only when it comes from port 0, went to group 1, and
 * carries the credentials of the kernel itself.
 *
 * A queue that runs over is told once, as -ENOBUFS: what was lost is found by walking /sys again.
 */
#ifndef BLKUP_HOST_UEVENT_H
#define BLKUP_HOST_UEVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/error.h"

/* UEVENT_BUFFER_SIZE is 2048 for the variables (include/linux/kobject.h), and the first line holds a path
 * that is also one of them. */
#define BLKUP_UEVENT_MAX_BYTES 8192u
#define BLKUP_UEVENT_MAX_KEYS  64u /* UEVENT_NUM_ENVP, the same header */

enum blkup_uevent_action {
        BLKUP_UEVENT_OTHER, /* bind, unbind, move, online, offline, and what is still to be invented */
        BLKUP_UEVENT_ADD,
        BLKUP_UEVENT_CHANGE,
        BLKUP_UEVENT_REMOVE,
};

/* Texts point into `bytes` of the same struct; "" where the message has none. */
struct blkup_uevent {
        enum blkup_uevent_action action;
        const char *devpath;   /* begins with "/", has no ".." part */
        const char *subsystem; /* "block" */
        const char *devname;   /* below /dev: "sda1", "cciss/c0d0"; neither absolute nor with ".." */
        const char *devtype;   /* "disk", "partition" */
        const char *modalias;
        bool has_devno, is_media_change;
        uint32_t dev_major, dev_minor;
        uint64_t seqnum;  /* 0: none */
        uint64_t diskseq; /* 0: none */
        size_t n;
        char bytes[BLKUP_UEVENT_MAX_BYTES + 1];
};

/* Cuts up e->bytes[0..e->n). -EBADMSG: no uevent of a kernel; e->devpath and the others are then not to be
 * looked at. Bounded by n; writes NULs at most. */
BLKUP_MUST_CHECK int blkup_uevent_parse(struct blkup_uevent *e);

/* Who sent it: the address and the control messages of recvmsg(2). */
bool blkup_uevent_is_from_kernel(const struct msghdr *m);

/* A socket in group 1 that answers at once; *ret is the caller's. receive_bytes: how much may wait in it, 0:
 * 16 MiB with the right to it, what the machine allows without. -EPROTONOSUPPORT, -EPERM and so on: none to
 * be had here; err may be NULL. */
BLKUP_MUST_CHECK int blkup_uevent_open(int receive_bytes, int *ret, struct blkup_error *err);

/* The next message. 1: one for us, in *e; 0: one that was dropped (not the kernel's, or no uevent); -EAGAIN:
 * none now; -ENOBUFS: some were lost; else what recvmsg(2) returns. fd may also be one end of a pair of
 * AF_UNIX sockets, for tests: who can write to the other end is then the caller's concern. */
BLKUP_MUST_CHECK int blkup_uevent_receive(int fd, struct blkup_uevent *e);

#endif
