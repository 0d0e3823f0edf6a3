/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A reader-writer semaphore whose readers pay nothing: a read lock is one plain store into a slot that only
 * this thread writes, and one load; no locked instruction, no fence. The writer pays, with one membarrier(2)
 * that puts a fence into every running thread of the process, and only when readers may have passed without a
 * fence since the last one. docs/decisions/rwsem.md has the ordering argument and the figures, tests/models
 * the proof by exhaustion.
 *
 * Rules
 *   - Call blkup_rwsem_setup() once before the first thread is created (2 µs then, 6 to 10 ms later).
 *   - A lock is taken and released by the same thread. A thread may nest read locks, also while a writer
 *     waits.
 *   - Not for signal handlers: one that interrupts a read lock half-way would think it nested.
 *   - Not for memory shared between processes: the barrier reaches the threads of this process only.
 *   - Writers go first and in the order they came; readers that wait are let in after at most one batch of
 *     writers.
 *   - A thread that ends while it holds a lock is reported: the lock answers -EOWNERDEAD from then on.
 *   - In a forked child only the calling thread is left: the locks of the others are gone with them, and a
 *     lock whose writer is gone answers -EOWNERDEAD. A child that goes on to use the data should be forked
 *     under a read lock: only then is it certain that no writer began while the memory was being copied.
 *
 * Every function may be called from any thread, unless it says otherwise. Times are ns of CLOCK_MONOTONIC.
 * Since version 0.1.
 */
#ifndef BLKUP_RWSEM_H
#define BLKUP_RWSEM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct blkup_error;

/* How the writer makes sure that no reader misses it. Constant for the life of a lock. */
enum blkup_rwsem_policy {
        BLKUP_RWSEM_AUTO,      /* expedited where the kernel has it and lets us, else fence */
        BLKUP_RWSEM_EXPEDITED, /* membarrier PRIVATE_EXPEDITED (Linux 4.14): interrupts our other CPUs */
        BLKUP_RWSEM_GLOBAL,    /* membarrier GLOBAL (4.3): a grace period, milliseconds; never automatic */
        BLKUP_RWSEM_FENCE,     /* no barrier: every reader runs a full fence; always so under TSan */
};

/* All zero means: the defaults. */
struct blkup_rwsem_options {
        enum blkup_rwsem_policy policy;
        uint32_t batch_writers; /* writers that may follow each other while readers wait; 0 = 16 */
        uint32_t batch_us;      /* and for how long, from the first hand-over; 0 = 1000 */
        /*
         * After a writer, readers run a fence until one thread has done this many read locks; then they pass
         * without again, and the next writer needs a barrier. While they still fence, a writer needs none.
         * 0: until that has cost what 16 barriers cost of late, at least 64.
         * BLKUP_RWSEM_OPEN_AT_ONCE: readers never fence, every writer (or batch of them) issues its barrier.
         */
        uint32_t fenced_reads;
        /* For measurements: barriers beyond the one that is needed, on entry and before the exit; -EINVAL
         * with fence. */
        uint32_t extra_entry_barriers, extra_exit_barriers;
};

#define BLKUP_RWSEM_OPEN_AT_ONCE UINT32_MAX

/* Counters since the lock was made. Each is exact when nobody uses the lock meanwhile. */
struct blkup_rwsem_stats {
        uint64_t barriers, barrier_ns; /* membarrier calls, and the time in them */
        uint64_t writes, handed_over;  /* write locks granted; of these inside a batch, without barrier */
        /* Write locks that had to wait or to issue a barrier. */
        uint64_t write_waits, write_wait_ns, write_wait_max_ns;
        /* Read locks that found a writer. */
        uint64_t read_waits, read_wait_ns, read_wait_max_ns;
        uint64_t reopened;                   /* times that readers went back to passing without a fence */
        uint64_t lost_readers, lost_writers; /* threads that ended holding the lock */
};

/* Private to the inline functions: one cache line per thread and lock, written only by its thread. */
struct blkup_rwsem_slot {
        uint32_t count; /* read locks held, nested ones included */
        uint32_t fenced_reads;
        uint32_t lost; /* the thread ended with count > 0 */
} __attribute__((aligned(64)));

/* Threads whose slot the inline path finds; the others take one call more. */
#define BLKUP_RWSEM_FIRST_SLOTS 32u

/* Private too; the rest of the lock follows it. Made by blkup_rwsem_new() only. */
struct blkup_rwsem {
        uint32_t state; /* 0: readers pass */
        uint32_t pad;
        struct blkup_rwsem_slot *slots;
} __attribute__((aligned(64)));

/* This thread's slot number, or UINT32_MAX before its first lock. */
extern __thread uint32_t blkup_rwsem_self __attribute__((tls_model("initial-exec")));

/*
 * Prepares the process: asks the kernel which barriers it has, registers for the expedited one, and arranges
 * that threads that end and children that are forked are cleaned up after. Idempotent. What it keeps is a
 * picture of what the kernel keeps per process anyway (registration, threads), so there is one per process.
 * 0; -ENOMEM or -EAGAIN when the C library refuses. A kernel without membarrier is no error.
 */
int blkup_rwsem_setup(struct blkup_error *err);

/* A new lock, not held, in *ret; opt may be NULL. Calls blkup_rwsem_setup() if nobody has.
 * 0; -EOPNOTSUPP: the kernel (or the sanitizer) does not do this policy; -EINVAL; -ENOMEM. */
int blkup_rwsem_new(struct blkup_rwsem **ret, const struct blkup_rwsem_options *opt, struct blkup_error *err);

/* Frees a lock that nobody holds or waits for. NULL-safe; always returns NULL. */
struct blkup_rwsem *blkup_rwsem_unref(struct blkup_rwsem *sem);

/* The policy in force: what AUTO became. */
enum blkup_rwsem_policy blkup_rwsem_get_policy(const struct blkup_rwsem *sem);
/* "auto", "expedited", "global", "fence". */
const char *blkup_rwsem_policy_name(enum blkup_rwsem_policy policy);

void blkup_rwsem_get_stats(struct blkup_rwsem *sem, struct blkup_rwsem_stats *ret);

/* Out of line halves of the two inline functions below. */
int blkup_rwsem_read_lock_far(struct blkup_rwsem *sem);
int blkup_rwsem_read_lock_closed(struct blkup_rwsem *sem, struct blkup_rwsem_slot *slot);
void blkup_rwsem_read_unlock_far(struct blkup_rwsem *sem);
void blkup_rwsem_read_unlock_closed(struct blkup_rwsem *sem, struct blkup_rwsem_slot *slot);

/*
 * Takes a read lock; waits while a writer is in or waits, unless this thread holds a read lock already.
 * 0; -EDEADLK: this thread holds the write lock; -EOWNERDEAD: a writer ended, or was lost in a fork, half-way
 * through its change; -ENOMEM: no memory for the slot, only on a thread's first use of this lock and beyond
 * 32 threads; -EAGAIN: as -ENOMEM, but the C library's thread-specific data ran out.
 */
__attribute__((unused)) static inline int blkup_rwsem_read_lock(struct blkup_rwsem *sem)
{
        uint32_t self = blkup_rwsem_self;
        struct blkup_rwsem_slot *slot;

        if (__builtin_expect(self >= BLKUP_RWSEM_FIRST_SLOTS, 0))
                return blkup_rwsem_read_lock_far(sem);
        slot = &sem->slots[self];
        __atomic_store_n(&slot->count, slot->count + 1, __ATOMIC_RELAXED);
        /* The store must stay before the load in the code; in memory the writer's barrier sees to it. */
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        if (__builtin_expect(__atomic_load_n(&sem->state, __ATOMIC_ACQUIRE) != 0, 0))
                return blkup_rwsem_read_lock_closed(sem, slot);
        return 0;
}

/* Gives back one read lock of this thread. */
__attribute__((unused)) static inline void blkup_rwsem_read_unlock(struct blkup_rwsem *sem)
{
        uint32_t self = blkup_rwsem_self;
        struct blkup_rwsem_slot *slot;

        if (__builtin_expect(self >= BLKUP_RWSEM_FIRST_SLOTS, 0)) {
                blkup_rwsem_read_unlock_far(sem);
                return;
        }
        slot = &sem->slots[self];
        __atomic_store_n(&slot->count, slot->count - 1, __ATOMIC_RELEASE);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        if (__builtin_expect(__atomic_load_n(&sem->state, __ATOMIC_RELAXED) != 0, 0))
                blkup_rwsem_read_unlock_closed(sem, slot);
}

/* As blkup_rwsem_read_lock(), but -EBUSY instead of waiting. */
int blkup_rwsem_try_read_lock(struct blkup_rwsem *sem);
/* As blkup_rwsem_read_lock(), but -ETIMEDOUT at the absolute time at_ns. */
int blkup_rwsem_read_lock_until(struct blkup_rwsem *sem, uint64_t at_ns);

/*
 * Takes the write lock; waits for the writers before and for all readers that are in.
 * 0; -EDEADLK: this thread holds a read lock or the write lock; -EOWNERDEAD: a thread ended while it held the
 * lock, which can then not be had any more; -ENOMEM or -EAGAIN as above; or the errno of a barrier that the
 * kernel refused after all (a seccomp filter installed later): the lock is then not held.
 */
int blkup_rwsem_write_lock(struct blkup_rwsem *sem);
int blkup_rwsem_try_write_lock(struct blkup_rwsem *sem);                     /* -EBUSY instead of waiting */
int blkup_rwsem_write_lock_until(struct blkup_rwsem *sem, uint64_t at_ns);   /* -ETIMEDOUT at that time */
void blkup_rwsem_write_unlock(struct blkup_rwsem *sem);

/* Write lock to read lock, with no writer between. Cannot fail. */
void blkup_rwsem_downgrade(struct blkup_rwsem *sem);

/* Read lock (one, not nested) to write lock, without waiting. 0: now a write lock; -EBUSY: another writer or
 * reader is there, the read lock is still held; -EINVAL: nested or not held; -EOWNERDEAD and barrier errors
 * as for write lock. */
int blkup_rwsem_try_upgrade(struct blkup_rwsem *sem);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
