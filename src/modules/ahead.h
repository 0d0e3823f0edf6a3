/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Files are read into the page cache before their turn: by one thread, in the order in which they will be
 * needed, a window at a time, so that what is needed now never waits behind much that is not.
 */
#ifndef BLKUP_MODULES_AHEAD_H
#define BLKUP_MODULES_AHEAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"

struct blkup_ahead; /* opaque */

struct blkup_ahead_file {
        const char *path; /* below the root, absolute */
        uint64_t bytes;   /* 0: is not read */
        uint64_t rank;    /* larger ones first; of equals those with smaller indexes */
};

/* root and paths stay the caller's until drop(arg) is called. files is copied. */
BLKUP_MUST_CHECK int blkup_ahead_new(const char *root, const struct blkup_ahead_file *files, size_t n,
                                     void (*drop)(void *), void *arg, struct blkup_ahead **ret);
/* From here on files are read. Calls drop(arg), once, when nothing more will be: at once where there is one
 * file, or no thread to be had. */
void blkup_ahead_start(struct blkup_ahead *a);
/* Its turn has come: it is asked for whole, in requests as large as the device takes, and not read ahead any
 * more. */
void blkup_ahead_take(struct blkup_ahead *a, size_t file, int fd);
/* The file is not needed any more. */
void blkup_ahead_done(struct blkup_ahead *a, size_t file);
/* Nothing further is read. Waits a moment for the thread, no longer: a device may be silent. */
void blkup_ahead_stop(struct blkup_ahead *a);
/* When blkup_ahead_start() was not called, or drop() was, also from within that. NULL-safe, returns NULL. */
struct blkup_ahead *blkup_ahead_free(struct blkup_ahead *a);

#endif
