/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The kernel's log from now on: half of what it says of a failed mount stands only there.
 *
 * Thread-safe. Source of the format: the kernel's Documentation/ABI/testing/dev-kmsg.
 */
#ifndef BLKUP_MOUNT_KMSG_H
#define BLKUP_MOUNT_KMSG_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BLKUP_KMSG_MAX_LINES 4096u /* that are kept: the last ones */

struct blkup_kmsg {
        pthread_mutex_t lock;
        int fd; /* -1: may not be read */
        uint64_t opened_ns;
        bool is_marked;
        char **lines; /* n - first of them */
        size_t n, first, cap;
};

/* Opens the log (path NULL: /dev/kmsg) at its end. A log that may not be read is no error. */
void blkup_kmsg_init(struct blkup_kmsg *k, const char *path);
void blkup_kmsg_close(struct blkup_kmsg *k);
/* Where an attempt begins: what the kernel has said before is not about it. The first one right after init
 * costs no call. */
size_t blkup_kmsg_mark(struct blkup_kmsg *k);
/* Lines since mark that name the device ("loop3") or, naming no device, the type; parted by newlines, the
 * last ones when they do not all fit. Returns how many. */
size_t blkup_kmsg_collect(struct blkup_kmsg *k, size_t mark, const char *device, const char *type, char *ret,
                          size_t cap);
/* Does a line tell of that device or type? */
bool blkup_kmsg_is_about(const char *line, const char *device, const char *type);

#endif
