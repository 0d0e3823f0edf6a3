/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Looks at many things at once, each a wait for a device most of the time, and does not wait for one that
 * does not answer: a read of a dead disk cannot be taken back, so its thread is left behind, with all that
 * it needs, and ends when the device answers after all. A process ends although such a thread waits, as long
 * as it reads through the page cache.
 *
 * How to use it: put what the looks need, and room for what they find, into memory of your own (`to`);
 * blkup_late_start(); then with the lock ask for what was found and blkup_late_wait(), until that says no;
 * blkup_late_free(). From the start on `to` is freed by ops->free, perhaps long after blkup_late_free().
 *
 * Thread-safe. What `take` has stored is read between blkup_late_lock() and blkup_late_unlock().
 */
#ifndef BLKUP_SYNC_LATE_H
#define BLKUP_SYNC_LATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct blkup_late; /* opaque */

struct blkup_late_ops {
        /* What a thread needs for its looks, a prober perhaps; NULL: no memory, it looks at nothing. Without
         * begin a look gets NULL. */
        void *(*begin)(void *to);
        void (*end)(void *own);
        /* Looks at the i-th thing, without a lock; NULL: nothing to tell, or no memory. */
        void *(*look)(void *to, void *own, size_t i);
        /* With the lock: the answer, which is the callee's now. */
        void (*take)(void *to, size_t i, void *answer);
        void (*drop)(void *answer); /* one that came too late; may be NULL */
        void (*free)(void *to);     /* nobody uses `to` any more */
};

/* Begins with n things, in order, in at most max_threads threads of its own, or does them all in this one
 * where none can be made. NULL: no memory; `to` is then still the caller's. */
BLKUP_MUST_CHECK struct blkup_late *blkup_late_start(size_t n, unsigned max_threads,
                                                     const struct blkup_late_ops *ops, void *to);
/* What comes from now on is dropped. NULL-safe, returns NULL. */
struct blkup_late *blkup_late_free(struct blkup_late *l);

void blkup_late_lock(struct blkup_late *l);
void blkup_late_unlock(struct blkup_late *l);
/* With the lock. Waits for an answer; false: there is nothing more to wait for. All have answered, or each
 * that was begun has been silent for late_ns, and for four times what the slowest answer took unless that is
 * more than max_ns. */
BLKUP_MUST_CHECK bool blkup_late_wait(struct blkup_late *l, uint64_t late_ns, uint64_t max_ns);
/* With the lock. What was not begun when there is nothing more to wait for was looked at by nobody: all
 * threads are held by others, or had no memory. */
bool blkup_late_is_begun(const struct blkup_late *l, size_t i);
bool blkup_late_is_done(const struct blkup_late *l, size_t i);

#endif
