/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Looks at many devices at once, and does not wait for one that does not answer: its thread is left behind,
 * with what it needs. A process ends although such a thread waits, as long as it reads through the page
 * cache.
 *
 * Thread-safe. Between blkup_cli_late_lock() and blkup_cli_late_unlock() what `take` has stored may be read.
 */
#ifndef BLKUP_CLI_LATE_H
#define BLKUP_CLI_LATE_H

#include <stdbool.h>
#include <stddef.h>

#include <blkup/probe.h>

struct blkup_cli_late; /* opaque */

struct blkup_cli_late_ops {
        /* Looks at the i-th thing, without a lock; NULL: no memory, told as an empty answer. */
        void *(*look)(void *to, struct blkup_probe *p, size_t i);
        /* With the lock: the answer, which is the callee's now. */
        void (*take)(void *to, size_t i, void *answer);
        /* An answer that came too late. */
        void (*drop)(void *answer);
        /* Makes a prober ready, or NULL. */
        void (*prepare)(struct blkup_probe *p);
        /* Nobody uses `to` any more. */
        void (*free)(void *to);
};

/* Begins with n things in threads of its own, or does them all in this one where none can be made. NULL: no
 * memory, or not one prober; `to` is then still the caller's. */
struct blkup_cli_late *blkup_cli_late_start(size_t n, const struct blkup_cli_late_ops *ops, void *to);
/* What comes from now on is dropped. NULL-safe, returns NULL. */
struct blkup_cli_late *blkup_cli_late_free(struct blkup_cli_late *l);

void blkup_cli_late_lock(struct blkup_cli_late *l);
void blkup_cli_late_unlock(struct blkup_cli_late *l);
/* With the lock. Waits for an answer; false: there is nothing more to wait for. is_found: the caller has what
 * it looked for, and only wants to know whether others have it too: who has not answered after a second, and
 * four times what the slowest answer took, is not waited for. Otherwise: ten seconds. */
bool blkup_cli_late_wait(struct blkup_cli_late *l, bool is_found);
/* With the lock. */
bool blkup_cli_late_is_done(const struct blkup_cli_late *l, size_t i);

#endif
