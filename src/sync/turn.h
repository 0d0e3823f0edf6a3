/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Something that several use, one at a time, and that nobody waits for longer than he says: a lock with a
 * bound on the monotonic clock. It also counts its users, so that the last one takes it down.
 *
 * Thread-safe, but for init and destroy. Not for a fork's child: another thread may have had the lock.
 */
#ifndef BLKUP_SYNC_TURN_H
#define BLKUP_SYNC_TURN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

struct blkup_turn {
        pthread_mutex_t lock;
        pthread_cond_t free;
        unsigned n_users;
        bool is_taken;
};

/* With one user, and free. */
void blkup_turn_init(struct blkup_turn *t);
void blkup_turn_destroy(struct blkup_turn *t);

void blkup_turn_join(struct blkup_turn *t);
/* true: that was the last user, who now destroys it. Only who is not having his turn may leave. */
BLKUP_MUST_CHECK bool blkup_turn_leave(struct blkup_turn *t);
bool blkup_turn_is_shared(struct blkup_turn *t);

/* true: it is the caller's until blkup_turn_give(). false: others had it for max_ns. */
BLKUP_MUST_CHECK bool blkup_turn_take(struct blkup_turn *t, uint64_t max_ns);
void blkup_turn_give(struct blkup_turn *t);

#endif
