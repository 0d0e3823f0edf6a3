/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of this room share: the mounter, one attempt at a mount, and the steps between them. */
#ifndef BLKUP_MOUNT_MOUNTER_H
#define BLKUP_MOUNT_MOUNTER_H

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <blkup/mount.h>

#include "base/error.h"
#include "host/loopstate.h"
#include "host/mountinfo.h"
#include "mount/kmsg.h"
#include "mount/options.h"
#include "mount/syscalls.h"

/* A part of a file that this run has put on a loop device. */
struct blkup_loop_claim {
        uint64_t file_dev, file_inode, offset_bytes, sizelimit_bytes;
        char path[64]; /* "" while it is being set up */
        bool is_read_only;
        struct blkup_loop_claim *next;
};

enum blkup_hibernation { BLKUP_HIBERNATION_UNKNOWN, BLKUP_HIBERNATION_NONE, BLKUP_HIBERNATION_FOUND };

struct blkup_mounter {
        struct blkup_mount_settings settings;
        const struct blkup_mount_ops *ops;
        struct blkup_kmsg kmsg;
        unsigned in_flight; /* attempts under way; atomic */

        pthread_mutex_t lock; /* of what follows */
        pthread_cond_t changed;
        struct blkup_mountinfo *mounts; /* read once, when first asked for */
        int mounts_error;
        bool mounts_are_read;
        struct blkup_loops *loops;
        bool loops_are_read;
        int loop_control_fd;
        struct blkup_loop_claim *claims;
        enum blkup_hibernation hibernation;
        char hibernation_path[256]; /* NONE: a device that did not answer when it was asked, or "" */
        bool hibernation_is_running;
        const dev_t *scan_skips; /* devices that need no look: file systems of this run */
        size_t n_scan_skips;
        uint64_t deadline_ns; /* of all waits together; 0: not set yet */
};

/* Where the file system comes from. */
struct blkup_mount_source {
        enum blkup_mount_source_kind {
                BLKUP_SOURCE_NODEV, /* a text of its own */
                BLKUP_SOURCE_BLOCK,
                BLKUP_SOURCE_FILE,
                BLKUP_SOURCE_OTHER, /* a directory, a character device */
        } kind;
        char path[PATH_MAX];
        char type[32]; /* as the resolver knew it */
        dev_t rdev;    /* BLOCK */
};

struct blkup_mount_attempt {
        struct blkup_mounter *m;
        const struct blkup_mount_request *q;
        struct blkup_mount_result *r;
        struct blkup_mount_options o;
        struct blkup_mount_source source;
        const char *target; /* path */
        int target_fd;      /* O_PATH */
        int file_fd, loop_fd;
        uint64_t file_bytes; /* of file_fd, when a part of it was asked for; else 0 */
        bool read_only;     /* of the super block, as decided */
        bool is_direct_file; /* erofs from the file itself */
        size_t kmsg_mark;
};

static inline void blkup_mount_copy(char *to, size_t cap, const char *from)
{
        size_t n = from ? strlen(from) : 0;

        if (n >= cap)
                n = cap - 1;
        if (n > 0)
                memcpy(to, from, n);
        to[n] = '\0';
}

/* open(2) as one system call: musl's makes two of each (it sets close-on-exec once more by fcntl). */
static inline int blkup_mount_open(const char *path, int flags)
{
        return (int) syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC | O_LARGEFILE, 0);
}

/* Notes the failure, returns error. */
int blkup_mount_fail(struct blkup_mount_attempt *a, enum blkup_mount_call call, int error);
int blkup_mount_refuse(struct blkup_mount_attempt *a, enum blkup_mount_call call,
                       enum blkup_mount_reason reason, int error);

/* What devices in memory keep busy; the other workers when these sleep. */
#define BLKUP_MOUNT_FIRST_WORKERS 8u

/* Steps: begun and ended in order; beyond BLKUP_MOUNT_MAX_STEPS the last takes the time. */
void blkup_mount_step_begin(struct blkup_mount_result *r, const char *name);
void blkup_mount_step_end(struct blkup_mount_result *r);
/* Spans of a result into the trace of the settings. id, after: of struct blkup_span. */
void blkup_mount_trace_result(struct blkup_mounter *m, const struct blkup_mount_result *r, uint64_t id,
                              const uint64_t *after, uint32_t n_after);
void blkup_mount_result_init(struct blkup_mount_result *r, const struct blkup_mount_request *q);

/* The table of mounts, read at most once; NULL when it cannot be read. */
const struct blkup_mountinfo *blkup_mounter_mounts(struct blkup_mounter *m);

/* source.c: fills a->source; waits for it where the settings say so. */
int blkup_mount_find_source(struct blkup_mount_attempt *a);
/* One try at a source, without waiting: 0, -ENOENT ... */
int blkup_mount_look_up_source(struct blkup_mounter *m, const char *source, const char *types, bool fresh,
                               struct blkup_mount_source *ret, struct blkup_mount_result *r);

/* loop.c: puts a->source (a file, or a device with an offset) on a loop device, which a->source then is.
 * a->file_fd: open for reading or writing. */
int blkup_mount_open_file(struct blkup_mount_attempt *a);
/* Does the part that offset= and sizelimit= name begin within the file? */
int blkup_mount_check_area(struct blkup_mount_attempt *a);
int blkup_mount_set_up_loop(struct blkup_mount_attempt *a);

/* hibernation.c: is there an image? Looks once a run. ret: where; without one, a device that did not answer
 * within a second, or "". own: the device that is to be mounted, which the file system itself will look at;
 * 0: none. */
enum blkup_hibernation blkup_mount_look_for_hibernation(struct blkup_mounter *m, dev_t own, char *ret,
                                                        size_t cap);
/* The option that keeps a type from writing when it is mounted read-only; "" = it never does; NULL = none. */
const char *blkup_mount_no_replay_option(const char *type);

/* attach.c and classic.c: the last part, when all is known. *ret_classic: the new calls cannot do it. */
int blkup_mount_by_context(struct blkup_mount_attempt *a, bool *ret_classic);
int blkup_mount_by_classic(struct blkup_mount_attempt *a);
int blkup_mount_bind(struct blkup_mount_attempt *a);
int blkup_mount_move(struct blkup_mount_attempt *a);
int blkup_mount_remount(struct blkup_mount_attempt *a);
int blkup_mount_set_propagation(struct blkup_mount_attempt *a, int fd);
unsigned long blkup_mount_classic_flags(uint64_t attr);
/* -EPERM, -ENOSYS and their kin: the call is not to be had here, mount(2) may be. */
bool blkup_mount_is_refused_call(int error);

/* helper.c */
int blkup_mount_find_helper(const char *type, char *ret, size_t cap); /* -ENOENT: none */
int blkup_mount_by_helper(struct blkup_mount_attempt *a, const char *helper);

/* tree.c */
int blkup_mount_open_target(struct blkup_mount_attempt *a);
/* The path with links resolved as far as it exists; the rest is appended, with "." and ".." taken out. */
int blkup_mount_canonical_path(const char *path, char ret[PATH_MAX]);
/* Is path below folder (or the folder itself, with or_same)? Both are canonical. */
bool blkup_mount_is_below(const char *path, const char *folder, bool or_same);

/* engine.c: one mount, nothing of the graph. */
int blkup_mount_attempt_run(struct blkup_mounter *m, const struct blkup_mount_request *q,
                            struct blkup_mount_result *r);

#endif
