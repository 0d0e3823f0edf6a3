/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The semaphore: making one, and the side of the readers. R1 to R4 and U1 to U3 are the steps of
 * docs/decisions/rwsem.md. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sync/rwsem-internal.h"

#define DEFAULT_BATCH_WRITERS 16
#define DEFAULT_BATCH_US 1000
/* More than any of the algorithms of 2012 waited for; keeps a measurement with GLOBAL from taking minutes. */
#define MAX_EXTRA_BARRIERS 8

#if defined(__SANITIZE_THREAD__)
#define IS_TSAN true
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define IS_TSAN true
#endif
#endif
#ifndef IS_TSAN
#define IS_TSAN false
#endif

const char *blkup_rwsem_policy_name(enum blkup_rwsem_policy policy)
{
        switch (policy) {
        case BLKUP_RWSEM_AUTO:
                return "auto";
        case BLKUP_RWSEM_EXPEDITED:
                return "expedited";
        case BLKUP_RWSEM_GLOBAL:
                return "global";
        case BLKUP_RWSEM_FENCE:
                return "fence";
        }
        return "?";
}

/* What the wished policy becomes on this machine; readers and writers of a lock have to agree, so it is fixed
 * here. */
static int choose_policy(enum blkup_rwsem_policy wished, enum blkup_rwsem_policy *ret,
                         struct blkup_error *err)
{
        bool has_expedited = blkup_rwsem_is_expedited_ready(), has_global = blkup_rwsem_is_global_ready();

        switch (wished) {
        case BLKUP_RWSEM_AUTO:
                /* ThreadSanitizer knows atomics, not membarrier: it would report races that are none. */
                *ret = has_expedited && !IS_TSAN ? BLKUP_RWSEM_EXPEDITED : BLKUP_RWSEM_FENCE;
                return 0;
        case BLKUP_RWSEM_FENCE:
                *ret = wished;
                return 0;
        case BLKUP_RWSEM_EXPEDITED:
        case BLKUP_RWSEM_GLOBAL:
                if (IS_TSAN)
                        return blkup_fail(err, -EOPNOTSUPP,
                                          "policy %s: ThreadSanitizer does not understand membarrier",
                                          blkup_rwsem_policy_name(wished));
                if (wished == BLKUP_RWSEM_EXPEDITED ? !has_expedited : !has_global)
                        return blkup_fail(err, -EOPNOTSUPP, "policy %s: membarrier does not offer it here",
                                          blkup_rwsem_policy_name(wished));
                *ret = wished;
                return 0;
        }
        return blkup_fail(err, -EINVAL, "unknown policy %d", (int) wished);
}

int blkup_rwsem_new(struct blkup_rwsem **ret, const struct blkup_rwsem_options *opt, struct blkup_error *err)
{
        static const struct blkup_rwsem_options defaults = { .policy = BLKUP_RWSEM_AUTO };
        enum blkup_rwsem_policy policy = BLKUP_RWSEM_AUTO;
        struct blkup_rwsem_lock *l;
        int r;

        if (!opt)
                opt = &defaults;
        r = blkup_rwsem_setup(err);
        if (r < 0)
                return r;
        r = choose_policy(opt->policy, &policy, err);
        if (r < 0)
                return r;
        if (opt->extra_entry_barriers > MAX_EXTRA_BARRIERS || opt->extra_exit_barriers > MAX_EXTRA_BARRIERS ||
            (policy == BLKUP_RWSEM_FENCE && (opt->extra_entry_barriers > 0 || opt->extra_exit_barriers > 0)))
                return blkup_fail(err, -EINVAL, "extra barriers: at most %d, and none with policy fence",
                                  MAX_EXTRA_BARRIERS);

        l = aligned_alloc(64, (sizeof(*l) + 63) / 64 * 64);
        if (!l)
                return blkup_fail(err, -ENOMEM, "no memory for a semaphore");
        memset(l, 0, sizeof(*l));
        l->pub.slots = aligned_alloc(64, BLKUP_RWSEM_FIRST_SLOTS * sizeof(*l->pub.slots));
        if (!l->pub.slots) {
                free(l);
                return blkup_fail(err, -ENOMEM, "no memory for a semaphore");
        }
        memset(l->pub.slots, 0, BLKUP_RWSEM_FIRST_SLOTS * sizeof(*l->pub.slots));
        r = -pthread_mutex_init(&l->queue_lock, NULL);
        if (r < 0) {
                free(l->pub.slots);
                free(l);
                return blkup_fail_errno(err, r, "no mutex for a semaphore");
        }
        l->chunks[0] = l->pub.slots;
        l->last = &l->first;
        l->policy = policy;
        l->barrier = policy == BLKUP_RWSEM_EXPEDITED ? BLKUP_BARRIER_EXPEDITED :
                     policy == BLKUP_RWSEM_GLOBAL    ? BLKUP_BARRIER_GLOBAL :
                                                       BLKUP_BARRIER_NONE;
        l->is_learning = policy != BLKUP_RWSEM_FENCE && opt->fenced_reads == 0;
        if (l->is_learning)
                l->fenced_reads = BLKUP_RWSEM_MIN_FENCED_READS;
        else if (policy != BLKUP_RWSEM_FENCE && opt->fenced_reads != BLKUP_RWSEM_OPEN_AT_ONCE)
                l->fenced_reads = opt->fenced_reads;
        l->open_state = policy != BLKUP_RWSEM_FENCE && opt->fenced_reads == BLKUP_RWSEM_OPEN_AT_ONCE ?
                                0 :
                                BLKUP_RWSEM_FENCED;
        l->pub.state = l->open_state;
        l->batch_writers = opt->batch_writers ? opt->batch_writers : DEFAULT_BATCH_WRITERS;
        l->batch_ns = UINT64_C(1000) * (opt->batch_us ? opt->batch_us : DEFAULT_BATCH_US);
        l->extra_entry = opt->extra_entry_barriers;
        l->extra_exit = opt->extra_exit_barriers;
        blkup_rwsem_enlist(l);
        *ret = &l->pub;
        return 0;
}

struct blkup_rwsem *blkup_rwsem_unref(struct blkup_rwsem *sem)
{
        struct blkup_rwsem_lock *l = blkup_rwsem_lock_of(sem);

        if (!l)
                return NULL;
        blkup_rwsem_delist(l);
        for (size_t i = 0; i < BLKUP_RWSEM_CHUNKS; i++)
                free(l->chunks[i]);
        (void) pthread_mutex_destroy(&l->queue_lock);
        free(l);
        return NULL;
}

enum blkup_rwsem_policy blkup_rwsem_get_policy(const struct blkup_rwsem *sem)
{
        return ((const struct blkup_rwsem_lock *) sem)->policy;
}

void blkup_rwsem_get_stats(struct blkup_rwsem *sem, struct blkup_rwsem_stats *ret)
{
        struct blkup_rwsem_lock *l = blkup_rwsem_lock_of(sem);

#define GET(name) .name = __atomic_load_n(&l->name, __ATOMIC_RELAXED)
        *ret = (struct blkup_rwsem_stats){
                GET(barriers), GET(barrier_ns), GET(writes), GET(handed_over),
                GET(write_waits), GET(write_wait_ns), GET(write_wait_max_ns),
                GET(read_waits), GET(read_wait_ns), GET(read_wait_max_ns),
                GET(reopened), GET(lost_readers), GET(lost_writers),
        };
#undef GET
}

/* ---- readers ---- */

/* R1 to R3 with a fence between: an exchange and a load, both sequentially consistent, and so is the writer's
 * exchange of the state before its loads of the slots: one of the two sees the other. */
static bool enter_fenced(struct blkup_rwsem_lock *l, struct blkup_rwsem_slot *slot)
{
        (void) __atomic_exchange_n(&slot->count, 1, __ATOMIC_SEQ_CST);
        return !(__atomic_load_n(&l->pub.state, __ATOMIC_SEQ_CST) & BLKUP_RWSEM_WRITER);
}

/* R4: takes the count back. A writer may have seen it and sleep because of it. */
static void step_back(struct blkup_rwsem_lock *l, struct blkup_rwsem_slot *slot)
{
        __atomic_store_n(&slot->count, 0, __ATOMIC_RELEASE);
        blkup_rwsem_kick(l);
}

/* In, after a fence. When this thread has fenced often enough, readers pass freely again: now a writer has to
 * issue a barrier, which costs more than those fences did. */
static void entered_fenced(struct blkup_rwsem_lock *l, struct blkup_rwsem_slot *slot)
{
        uint32_t was = BLKUP_RWSEM_FENCED, reads = __atomic_load_n(&l->fenced_reads, __ATOMIC_RELAXED);

        if (reads == 0 || ++slot->fenced_reads < reads)
                return;
        slot->fenced_reads = 0;
        /* Fails when a writer has come: then it is for that writer to leave a state behind. Release keeps
         * what the last writer released together with FENCED visible to those who will see open. */
        if (__atomic_compare_exchange_n(&l->pub.state, &was, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
                (void) __atomic_fetch_add(&l->reopened, 1, __ATOMIC_RELAXED);
}

/* A reader that waited is in or gives up: opens the gate for the next writer when it was the last. */
static void leave_gate(struct blkup_rwsem_lock *l, uint64_t since_ns)
{
        uint64_t took = blkup_now_ns() - since_ns,
                 max = __atomic_load_n(&l->read_wait_max_ns, __ATOMIC_RELAXED);

        (void) __atomic_fetch_add(&l->read_waits, 1, __ATOMIC_RELAXED);
        (void) __atomic_fetch_add(&l->read_wait_ns, took, __ATOMIC_RELAXED);
        /* Ends: each failure means that another thread raised the maximum, at most to the longest of the
         * waits. */
        while (took > max && !__atomic_compare_exchange_n(&l->read_wait_max_ns, &max, took, false,
                                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED))
                ;
        if (__atomic_sub_fetch(&l->waiting, 1, __ATOMIC_SEQ_CST) == BLKUP_RWSEM_GATE_SLEEPS)
                blkup_futex_wake(&l->waiting, 1);
}

/* A writer is in or waits, and this reader has stepped back. Its count in `waiting` is the promise that no
 * writer outside the present batch starts before this reader was in: so it waits for one batch at most. */
static int wait_for_writer(struct blkup_rwsem_lock *l, struct blkup_rwsem_slot *slot, uint64_t at_ns)
{
        uint64_t since = blkup_now_ns();
        unsigned spins = BLKUP_RWSEM_SPINS;
        bool is_late = false;
        int r;

        (void) __atomic_fetch_add(&l->waiting, 1, __ATOMIC_SEQ_CST);
        /* Ends: with the batch of writers, whose length is capped; with the lock's death; or with the time.
         */
        for (;;) {
                uint32_t s = __atomic_load_n(&l->pub.state, __ATOMIC_ACQUIRE);

                if (s & BLKUP_RWSEM_DEAD) {
                        r = -EOWNERDEAD;
                        break;
                }
                if (!(s & BLKUP_RWSEM_WRITER)) {
                        if (enter_fenced(l, slot)) {
                                r = 0;
                                break;
                        }
                        step_back(l, slot);
                        continue;
                }
                if (is_late) {
                        r = -ETIMEDOUT;
                        break;
                }
                if (spins > 0) {
                        spins--;
                        blkup_cpu_relax();
                        continue;
                }
                if (!(s & BLKUP_RWSEM_SLEEPERS) &&
                    !__atomic_compare_exchange_n(&l->pub.state, &s, s | BLKUP_RWSEM_SLEEPERS, false,
                                                 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
                        continue;
                /* A time-out is looked at once more above: the writer may have gone meanwhile. */
                is_late = blkup_futex_wait(&l->pub.state, s | BLKUP_RWSEM_SLEEPERS, at_ns) == -ETIMEDOUT;
        }
        leave_gate(l, since);
        return r;
}

/* The slot's count was raised with a plain store, and the state was not open. at_ns 0: do not wait. */
static int read_lock_closed(struct blkup_rwsem_lock *l, struct blkup_rwsem_slot *slot, uint64_t at_ns)
{
        uint32_t s;

        /* Nested: the outer lock keeps every writer out, and waiting for one that waits for us would never
         * end. */
        if (slot->count > 1)
                return 0;
        if (enter_fenced(l, slot)) {
                entered_fenced(l, slot);
                return 0;
        }
        step_back(l, slot);
        if (__atomic_load_n(&l->owner, __ATOMIC_RELAXED) == blkup_rwsem_self + 1)
                return -EDEADLK;
        s = __atomic_load_n(&l->pub.state, __ATOMIC_RELAXED);
        if (s & BLKUP_RWSEM_DEAD)
                return -EOWNERDEAD;
        if (at_ns == 0)
                return -EBUSY;
        return wait_for_writer(l, slot, at_ns);
}

static int read_lock(struct blkup_rwsem *sem, uint64_t at_ns)
{
        struct blkup_rwsem_lock *l = blkup_rwsem_lock_of(sem);
        struct blkup_rwsem_slot *slot = NULL;
        int r = blkup_rwsem_own_slot(l, &slot);

        if (r < 0)
                return r;
        __atomic_store_n(&slot->count, slot->count + 1, __ATOMIC_RELAXED);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        if (__atomic_load_n(&sem->state, __ATOMIC_ACQUIRE) == 0)
                return 0;
        return read_lock_closed(l, slot, at_ns);
}

int blkup_rwsem_read_lock_closed(struct blkup_rwsem *sem, struct blkup_rwsem_slot *slot)
{
        return read_lock_closed(blkup_rwsem_lock_of(sem), slot, BLKUP_FOREVER);
}

int blkup_rwsem_read_lock_far(struct blkup_rwsem *sem)
{
        return read_lock(sem, BLKUP_FOREVER);
}

int blkup_rwsem_try_read_lock(struct blkup_rwsem *sem)
{
        return read_lock(sem, 0);
}

int blkup_rwsem_read_lock_until(struct blkup_rwsem *sem, uint64_t at_ns)
{
        /* 0 is "do not wait" inside; 1 ns after boot has passed as well. */
        return read_lock(sem, at_ns == 0 ? 1 : at_ns);
}

void blkup_rwsem_read_unlock_closed(struct blkup_rwsem *sem, struct blkup_rwsem_slot *slot)
{
        struct blkup_rwsem_lock *l = blkup_rwsem_lock_of(sem);

        /* A count below zero: unlock without lock, or by another thread. */
        assert(slot->count != UINT32_MAX);
        if (slot->count > 0)
                return;
        if (!(__atomic_load_n(&sem->state, __ATOMIC_RELAXED) & BLKUP_RWSEM_WRITER)) {
                /* U2 as a fence: the writer that comes now issues no barrier. An exchange of the same value,
                 * as ThreadSanitizer knows no fences. */
                (void) __atomic_exchange_n(&slot->count, 0, __ATOMIC_SEQ_CST);
                if (!(__atomic_load_n(&sem->state, __ATOMIC_SEQ_CST) & BLKUP_RWSEM_WRITER))
                        return;
        }
        blkup_rwsem_kick(l);
}

void blkup_rwsem_read_unlock_far(struct blkup_rwsem *sem)
{
        struct blkup_rwsem_lock *l = blkup_rwsem_lock_of(sem);
        struct blkup_rwsem_slot *slot =
                blkup_rwsem_self == UINT32_MAX ? NULL : blkup_rwsem_peek_slot(l, blkup_rwsem_self);

        /* A thread without a slot holds nothing. */
        assert(slot);
        if (!slot)
                return;
        __atomic_store_n(&slot->count, slot->count - 1, __ATOMIC_RELEASE);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        if (__atomic_load_n(&sem->state, __ATOMIC_RELAXED) != 0)
                blkup_rwsem_read_unlock_closed(sem, slot);
}
