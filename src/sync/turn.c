/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sync/turn.h"

#include "base/clock.h"
#include "sync/cond.h"

void blkup_turn_init(struct blkup_turn *t)
{
        *t = (struct blkup_turn){ .n_users = 1 };
        (void) pthread_mutex_init(&t->lock, NULL);
        (void) blkup_cond_init(&t->free);
}

void blkup_turn_destroy(struct blkup_turn *t)
{
        (void) pthread_cond_destroy(&t->free);
        (void) pthread_mutex_destroy(&t->lock);
}

void blkup_turn_join(struct blkup_turn *t)
{
        (void) pthread_mutex_lock(&t->lock);
        t->n_users++;
        (void) pthread_mutex_unlock(&t->lock);
}

bool blkup_turn_leave(struct blkup_turn *t)
{
        bool is_last;

        (void) pthread_mutex_lock(&t->lock);
        is_last = --t->n_users == 0;
        (void) pthread_mutex_unlock(&t->lock);
        return is_last;
}

bool blkup_turn_is_shared(struct blkup_turn *t)
{
        bool is_shared;

        (void) pthread_mutex_lock(&t->lock);
        is_shared = t->n_users > 1;
        (void) pthread_mutex_unlock(&t->lock);
        return is_shared;
}

bool blkup_turn_take(struct blkup_turn *t, uint64_t max_ns)
{
        uint64_t until = blkup_now_ns() + max_ns;
        const struct timespec at = blkup_to_timespec(until);
        bool is_mine;
        int r = 0;

        (void) pthread_mutex_lock(&t->lock);
        while (t->is_taken && r == 0) /* ends: at that time at the latest */
                r = pthread_cond_timedwait(&t->free, &t->lock, &at);
        is_mine = !t->is_taken;
        t->is_taken = true;
        (void) pthread_mutex_unlock(&t->lock);
        return is_mine;
}

void blkup_turn_give(struct blkup_turn *t)
{
        (void) pthread_mutex_lock(&t->lock);
        t->is_taken = false;
        (void) pthread_cond_signal(&t->free);
        (void) pthread_mutex_unlock(&t->lock);
}
