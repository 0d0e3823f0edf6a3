/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The semaphore: the side of the writers. W0 to W3 and X1 to X3 are the steps of docs/decisions/rwsem.md. */
#include <assert.h>
#include <errno.h>

#include "base/clock.h"
#include "sync/rwsem-internal.h"

void blkup_rwsem_kick(struct blkup_rwsem_lock *l)
{
        if (__atomic_fetch_add(&l->wseq, BLKUP_RWSEM_WSEQ_STEP, __ATOMIC_SEQ_CST) & BLKUP_RWSEM_WSEQ_SLEEPS)
                blkup_futex_wake(&l->wseq, 1);
}

/* ---- W0 and X3: writers among themselves, first come first served ---- */

static bool take_wlock_if_free(struct blkup_rwsem_lock *l)
{
        uint32_t was = 0;

        return __atomic_compare_exchange_n(&l->wlock, &was, BLKUP_RWSEM_WLOCK_HELD, false, __ATOMIC_ACQUIRE,
                                           __ATOMIC_RELAXED);
}

/* Takes q out of the queue; false: it is not there any more, so it has been granted. With queue_lock. */
static bool leave_queue(struct blkup_rwsem_lock *l, struct blkup_rwsem_queued *q)
{
        for (struct blkup_rwsem_queued **at = &l->first; *at;
             at = &(*at)->next) /* ends: a list without a loop */
                if (*at == q) {
                        *at = q->next;
                        if (!q->next)
                                l->last = at;
                        if (!l->first)
                                (void) __atomic_fetch_and(&l->wlock, ~BLKUP_RWSEM_WLOCK_QUEUE,
                                                          __ATOMIC_RELAXED);
                        return true;
                }
        return false;
}

/* FRESH: the caller is the writer, state is not its own yet. HANDED: state is WRITER still, no reader has
 * been in since the writer before: the caller is in. WAIT: time is up. */
static enum blkup_rwsem_grant queue_for_wlock(struct blkup_rwsem_lock *l, uint64_t at_ns)
{
        struct blkup_rwsem_queued q = { .grant = BLKUP_GRANT_WAIT };
        uint32_t grant;

        (void) pthread_mutex_lock(&l->queue_lock);
        if (!(__atomic_fetch_or(&l->wlock, BLKUP_RWSEM_WLOCK_HELD | BLKUP_RWSEM_WLOCK_QUEUE,
                                __ATOMIC_ACQUIRE) &
              BLKUP_RWSEM_WLOCK_HELD)) {
                /* Given back meanwhile. Nobody can be queued before us: with a queue it is handed on, not
                 * given back. */
                (void) __atomic_fetch_and(&l->wlock, ~BLKUP_RWSEM_WLOCK_QUEUE, __ATOMIC_RELAXED);
                (void) pthread_mutex_unlock(&l->queue_lock);
                return BLKUP_GRANT_FRESH;
        }
        *l->last = &q;
        l->last = &q.next;
        (void) pthread_mutex_unlock(&l->queue_lock);

        /* Ends: with the grant, or with the time. */
        while ((grant = __atomic_load_n(&q.grant, __ATOMIC_ACQUIRE)) == BLKUP_GRANT_WAIT)
                if (blkup_futex_wait(&q.grant, BLKUP_GRANT_WAIT, at_ns) == -ETIMEDOUT) {
                        bool has_left;

                        (void) pthread_mutex_lock(&l->queue_lock);
                        has_left = leave_queue(l, &q);
                        (void) pthread_mutex_unlock(&l->queue_lock);
                        if (has_left)
                                return BLKUP_GRANT_WAIT;
                }
        return (enum blkup_rwsem_grant) grant;
}

/* Gives wlock to the first of the queue; false: there is none. */
static bool pass_wlock(struct blkup_rwsem_lock *l, enum blkup_rwsem_grant grant)
{
        struct blkup_rwsem_queued *q;

        (void) pthread_mutex_lock(&l->queue_lock);
        q = l->first;
        if (q) {
                l->first = q->next;
                if (!l->first) {
                        l->last = &l->first;
                        (void) __atomic_fetch_and(&l->wlock, ~BLKUP_RWSEM_WLOCK_QUEUE, __ATOMIC_RELAXED);
                }
        }
        (void) pthread_mutex_unlock(&l->queue_lock);
        if (!q)
                return false;
        /* After this store q may be gone with its thread's stack; waking an address where nobody sleeps does
         * nothing. */
        __atomic_store_n(&q->grant, (uint32_t) grant, __ATOMIC_RELEASE);
        blkup_futex_wake(&q->grant, 1);
        return true;
}

/* X3. */
void blkup_rwsem_release_wlock(struct blkup_rwsem_lock *l)
{
        __atomic_store_n(&l->owner, 0, __ATOMIC_RELAXED);
        /* Ends: a failure means that a writer has queued since, or that the queue's last has timed out since.
         */
        for (;;) {
                uint32_t was = BLKUP_RWSEM_WLOCK_HELD;

                if (__atomic_compare_exchange_n(&l->wlock, &was, 0, false, __ATOMIC_RELEASE,
                                                __ATOMIC_RELAXED) ||
                    pass_wlock(l, BLKUP_GRANT_FRESH))
                        return;
        }
}

/* ---- W1 to W3, X1 and X2 ---- */

/* How long readers go on fencing follows what a barrier costs, which depends on what runs where: 0.1 µs
 * alone, 20 µs to interrupt a busy virtual CPU, 20 ms for a grace period. */
static void learn(struct blkup_rwsem_lock *l, uint64_t took_ns)
{
        uint64_t reads = (3 * (uint64_t) __atomic_load_n(&l->fenced_reads, __ATOMIC_RELAXED) +
                          BLKUP_RWSEM_PATIENCE * took_ns / BLKUP_RWSEM_FENCED_NS) /
                         4;

        if (reads < BLKUP_RWSEM_MIN_FENCED_READS)
                reads = BLKUP_RWSEM_MIN_FENCED_READS;
        if (reads > BLKUP_RWSEM_MAX_FENCED_READS)
                reads = BLKUP_RWSEM_MAX_FENCED_READS;
        __atomic_store_n(&l->fenced_reads, (uint32_t) reads, __ATOMIC_RELAXED);
}

static int issue_barriers(struct blkup_rwsem_lock *l, uint32_t n)
{
        for (uint32_t i = 0; i < n; i++) {
                uint64_t took, t = blkup_now_ns();
                int r = blkup_barrier_issue(l->barrier);

                if (r < 0)
                        return r;
                took = blkup_now_ns() - t;
                blkup_rwsem_count(&l->barriers, 1);
                blkup_rwsem_count(&l->barrier_ns, took);
                if (l->is_learning)
                        learn(l, took);
        }
        return 0;
}

/* Are readers in? 0 no, -EBUSY, or -EOWNERDEAD: one that will never leave. except: the caller's own slot, or
 * NULL. */
static int look_at_slots(struct blkup_rwsem_lock *l, const struct blkup_rwsem_slot *except)
{
        uint32_t top = blkup_rwsem_high_water();
        bool is_busy = false;

        for (uint32_t i = 0; i < top; i++) {
                struct blkup_rwsem_slot *slot = i < BLKUP_RWSEM_FIRST_SLOTS ? &l->pub.slots[i] :
                                                                              blkup_rwsem_peek_slot(l, i);

                if (!slot || slot == except || __atomic_load_n(&slot->count, __ATOMIC_SEQ_CST) == 0)
                        continue;
                if (__atomic_load_n(&slot->lost, __ATOMIC_ACQUIRE))
                        return -EOWNERDEAD;
                is_busy = true;
        }
        return is_busy ? -EBUSY : 0;
}

/* W3: until no reader is in. */
static int wait_for_readers(struct blkup_rwsem_lock *l, uint64_t at_ns)
{
        unsigned spins = BLKUP_RWSEM_SPINS;
        bool is_late = false;
        int r;

        /* Ends: state keeps new readers out, so each count can only fall to 0 and stay; or with the time. */
        for (;;) {
                /* Before the slots: a reader that leaves after they were looked at changes it, and sleep ends
                 * at once. */
                uint32_t q = spins > 0
                                     ? __atomic_load_n(&l->wseq, __ATOMIC_SEQ_CST)
                                     : __atomic_or_fetch(&l->wseq, BLKUP_RWSEM_WSEQ_SLEEPS, __ATOMIC_SEQ_CST);

                r = look_at_slots(l, NULL);
                if (r != -EBUSY)
                        break;
                if (is_late) {
                        r = -ETIMEDOUT;
                        break;
                }
                if (spins > 0) {
                        spins--;
                        blkup_cpu_relax();
                        continue;
                }
                is_late = blkup_futex_wait(&l->wseq, q, at_ns) == -ETIMEDOUT;
        }
        if (spins == 0)
                (void) __atomic_fetch_and(&l->wseq, ~BLKUP_RWSEM_WSEQ_SLEEPS, __ATOMIC_RELAXED);
        return r;
}

/* The readers whom the last batch kept waiting go first. */
static int wait_at_gate(struct blkup_rwsem_lock *l, uint64_t at_ns)
{
        unsigned spins = BLKUP_RWSEM_SPINS;
        bool is_late = false;

        /* Ends: state is not WRITER, so nobody joins those who wait; or with the time. */
        for (;;) {
                uint32_t w = __atomic_load_n(&l->waiting, __ATOMIC_SEQ_CST);

                if ((w & ~BLKUP_RWSEM_GATE_SLEEPS) == 0 || is_late) {
                        if (w & BLKUP_RWSEM_GATE_SLEEPS)
                                (void) __atomic_fetch_and(&l->waiting, ~BLKUP_RWSEM_GATE_SLEEPS,
                                                          __ATOMIC_RELAXED);
                        return (w & ~BLKUP_RWSEM_GATE_SLEEPS) == 0 ? 0 : -ETIMEDOUT;
                }
                if (spins > 0) {
                        spins--;
                        blkup_cpu_relax();
                        continue;
                }
                if (!(w & BLKUP_RWSEM_GATE_SLEEPS) &&
                    !__atomic_compare_exchange_n(&l->waiting, &w, w | BLKUP_RWSEM_GATE_SLEEPS, false,
                                                 __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
                        continue;
                is_late = blkup_futex_wait(&l->waiting, w | BLKUP_RWSEM_GATE_SLEEPS, at_ns) == -ETIMEDOUT;
        }
}

/* X1 and X2. The release makes the writer's data visible to who sees the new state. */
static void open_to_readers(struct blkup_rwsem_lock *l, uint32_t state)
{
        if (__atomic_exchange_n(&l->pub.state, state, __ATOMIC_ACQ_REL) & BLKUP_RWSEM_SLEEPERS)
                blkup_futex_wake(&l->pub.state, INT32_MAX);
}

/* W1 and W2. On failure the state is as before. */
static int close_to_readers(struct blkup_rwsem_lock *l)
{
        uint32_t was = __atomic_exchange_n(&l->pub.state, BLKUP_RWSEM_WRITER, __ATOMIC_SEQ_CST);
        /* FENCED: every reader since the last barrier has run a fence itself. */
        int r = issue_barriers(l, (was & BLKUP_RWSEM_FENCED ? 0 : 1) + l->extra_entry);

        if (r < 0)
                open_to_readers(l, was);
        return r;
}

static void note_wait(struct blkup_rwsem_lock *l, uint64_t since_ns)
{
        uint64_t took = blkup_now_ns() - since_ns;

        blkup_rwsem_count(&l->write_waits, 1);
        blkup_rwsem_count(&l->write_wait_ns, took);
        if (took > l->write_wait_max_ns)
                __atomic_store_n(&l->write_wait_max_ns, took, __ATOMIC_RELAXED);
}

static int now_in(struct blkup_rwsem_lock *l)
{
        l->is_in = 1;
        blkup_rwsem_count(&l->writes, 1);
        return 0;
}

/* The caller has wlock. */
static int become_writer(struct blkup_rwsem_lock *l, uint64_t at_ns)
{
        int r;

        if (__atomic_load_n(&l->pub.state, __ATOMIC_RELAXED) & BLKUP_RWSEM_DEAD)
                return -EOWNERDEAD;
        if (__atomic_load_n(&l->waiting, __ATOMIC_SEQ_CST) != 0) {
                r = wait_at_gate(l, at_ns);
                if (r < 0)
                        return r;
        }
        r = close_to_readers(l);
        if (r < 0)
                return r;
        r = wait_for_readers(l, at_ns);
        if (r < 0)
                /* Only now may it go back: readers sleep on the state that was set. */
                open_to_readers(l, l->open_state);
        return r;
}

static int write_lock(struct blkup_rwsem *sem, uint64_t at_ns)
{
        struct blkup_rwsem_lock *l = blkup_rwsem_lock_of(sem);
        struct blkup_rwsem_slot *slot = NULL;
        uint64_t since = 0;
        int r = blkup_rwsem_own_slot(l, &slot);

        if (r < 0)
                return r;
        if (slot->count > 0 || __atomic_load_n(&l->owner, __ATOMIC_RELAXED) == blkup_rwsem_self + 1)
                return -EDEADLK;
        if (!take_wlock_if_free(l)) {
                since = blkup_now_ns();
                switch (queue_for_wlock(l, at_ns)) {
                case BLKUP_GRANT_WAIT:
                        return -ETIMEDOUT;
                case BLKUP_GRANT_HANDED:
                        __atomic_store_n(&l->owner, blkup_rwsem_self + 1, __ATOMIC_RELAXED);
                        blkup_rwsem_count(&l->handed_over, 1);
                        note_wait(l, since);
                        return now_in(l);
                case BLKUP_GRANT_FRESH:
                        break;
                }
        }
        __atomic_store_n(&l->owner, blkup_rwsem_self + 1, __ATOMIC_RELAXED);
        l->batch_n = 0;
        /* An idle lock that needs no barrier is not worth two looks at the clock. */
        if (since == 0 &&
            (__atomic_load_n(&sem->state, __ATOMIC_RELAXED) != BLKUP_RWSEM_FENCED || l->extra_entry > 0 ||
             __atomic_load_n(&l->waiting, __ATOMIC_RELAXED) != 0 || look_at_slots(l, NULL) != 0))
                since = blkup_now_ns();
        r = become_writer(l, at_ns);
        if (r < 0) {
                blkup_rwsem_release_wlock(l);
                return r;
        }
        if (since != 0)
                note_wait(l, since);
        return now_in(l);
}

int blkup_rwsem_write_lock(struct blkup_rwsem *sem)
{
        return write_lock(sem, BLKUP_FOREVER);
}

int blkup_rwsem_write_lock_until(struct blkup_rwsem *sem, uint64_t at_ns)
{
        return write_lock(sem, at_ns);
}

/* The caller has wlock and looks once: no waiting anywhere. own: its slot, when it upgrades. */
static int become_writer_at_once(struct blkup_rwsem_lock *l, const struct blkup_rwsem_slot *own)
{
        int r;

        if (__atomic_load_n(&l->pub.state, __ATOMIC_RELAXED) & BLKUP_RWSEM_DEAD)
                return -EOWNERDEAD;
        if (__atomic_load_n(&l->waiting, __ATOMIC_SEQ_CST) != 0)
                return -EBUSY;
        /* Before the barrier: a refusal should not cost other threads an interrupt. */
        r = look_at_slots(l, own);
        if (r < 0)
                return r;
        r = close_to_readers(l);
        if (r < 0)
                return r;
        r = look_at_slots(l, own);
        if (r < 0)
                open_to_readers(l, l->open_state);
        return r;
}

int blkup_rwsem_try_write_lock(struct blkup_rwsem *sem)
{
        struct blkup_rwsem_lock *l = blkup_rwsem_lock_of(sem);
        struct blkup_rwsem_slot *slot = NULL;
        int r = blkup_rwsem_own_slot(l, &slot);

        if (r < 0)
                return r;
        if (slot->count > 0 || __atomic_load_n(&l->owner, __ATOMIC_RELAXED) == blkup_rwsem_self + 1)
                return -EDEADLK;
        if (!take_wlock_if_free(l))
                return -EBUSY;
        __atomic_store_n(&l->owner, blkup_rwsem_self + 1, __ATOMIC_RELAXED);
        l->batch_n = 0;
        r = become_writer_at_once(l, NULL);
        if (r < 0) {
                blkup_rwsem_release_wlock(l);
                return r;
        }
        return now_in(l);
}

/* May the next writer follow without readers between? Readers that wait bear it for a number of writers and
 * for a time. */
static bool may_hand_over(struct blkup_rwsem_lock *l)
{
        if (!(__atomic_load_n(&l->wlock, __ATOMIC_RELAXED) & BLKUP_RWSEM_WLOCK_QUEUE))
                return false;
        if (l->batch_n == 0)
                l->batch_end_ns = blkup_now_ns() + l->batch_ns;
        return ++l->batch_n < l->batch_writers && blkup_now_ns() < l->batch_end_ns;
}

void blkup_rwsem_write_unlock(struct blkup_rwsem *sem)
{
        struct blkup_rwsem_lock *l = blkup_rwsem_lock_of(sem);

        assert(l->owner == blkup_rwsem_self + 1 && l->is_in);
        l->is_in = 0;
        /* The algorithms of 2012 waited here for their data to be seen; a release store does that for
         * nothing. For the measurement of those; nothing depends on it, so an error is no matter. */
        (void) issue_barriers(l, l->extra_exit);
        if (may_hand_over(l)) {
                __atomic_store_n(&l->owner, 0, __ATOMIC_RELAXED);
                if (pass_wlock(l, BLKUP_GRANT_HANDED))
                        return;
                /* The queue has timed out meanwhile: this is still the writer. */
        }
        open_to_readers(l, l->open_state);
        blkup_rwsem_release_wlock(l);
}

void blkup_rwsem_downgrade(struct blkup_rwsem *sem)
{
        struct blkup_rwsem_lock *l = blkup_rwsem_lock_of(sem);
        struct blkup_rwsem_slot *slot = blkup_rwsem_peek_slot(l, blkup_rwsem_self);

        assert(l->owner == blkup_rwsem_self + 1 && l->is_in);
        l->is_in = 0;
        /* Before the state opens and before the next writer gets wlock: both releases order it. */
        __atomic_store_n(&slot->count, 1, __ATOMIC_RELAXED);
        open_to_readers(l, l->open_state);
        blkup_rwsem_release_wlock(l);
}

int blkup_rwsem_try_upgrade(struct blkup_rwsem *sem)
{
        struct blkup_rwsem_lock *l = blkup_rwsem_lock_of(sem);
        struct blkup_rwsem_slot *slot =
                blkup_rwsem_self == UINT32_MAX ? NULL : blkup_rwsem_peek_slot(l, blkup_rwsem_self);
        int r;

        if (!slot || slot->count != 1)
                return -EINVAL;
        /* Two that upgrade would wait for each other: the second is refused. */
        if (!take_wlock_if_free(l))
                return -EBUSY;
        __atomic_store_n(&l->owner, blkup_rwsem_self + 1, __ATOMIC_RELAXED);
        l->batch_n = 0;
        r = become_writer_at_once(l, slot);
        if (r < 0) {
                blkup_rwsem_release_wlock(l);
                return r;
        }
        __atomic_store_n(&slot->count, 0, __ATOMIC_RELAXED);
        return now_in(l);
}
