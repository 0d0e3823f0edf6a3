/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of the semaphore share: rwsem.c (making, reading), rwsem-write.c, rwsem-threads.c. */
#ifndef BLKUP_SYNC_RWSEM_INTERNAL_H
#define BLKUP_SYNC_RWSEM_INTERNAL_H

#include <blkup/rwsem.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "sync/barrier.h"
#include "sync/futex.h"

/*
 * Bits of blkup_rwsem.state. 0 is "open": readers pass with a plain store and a plain load, and the next
 * writer has to issue its barrier. FENCED: readers pass too, but fence, so that the next writer needs no
 * barrier; a lock of the fence policy stays so for ever. WRITER: a writer waits for the readers, or is in.
 */
#define BLKUP_RWSEM_WRITER 1u
/* Only ever beside WRITER: somebody sleeps on state, the writer has to wake. */
#define BLKUP_RWSEM_SLEEPERS 2u
#define BLKUP_RWSEM_FENCED 4u
#define BLKUP_RWSEM_DEAD 8u     /* beside WRITER, for ever: a writer vanished half-way */

/* Bit 0 of wseq and bit 31 of waiting: the writer sleeps on that word. */
#define BLKUP_RWSEM_WSEQ_SLEEPS 1u
#define BLKUP_RWSEM_WSEQ_STEP 2u
#define BLKUP_RWSEM_GATE_SLEEPS 0x80000000u

/* wlock: who may be the writer. */
#define BLKUP_RWSEM_WLOCK_HELD 1u
#define BLKUP_RWSEM_WLOCK_QUEUE 2u /* the queue is not empty: unlock goes through it, nobody barges in */

/* Looks before it sleeps: about 1 µs, half of what a futex sleep and wake cost. A peer on the same CPU cannot
 * move meanwhile, so longer is worse when threads outnumber CPUs. */
#define BLKUP_RWSEM_SPINS 20u

/*
 * After a writer, readers go on fencing for as many read locks as cost this many barriers together. 1 would
 * be the break-even of the sums; but the barrier falls on one writer at once (20 µs where a busy virtual CPU
 * has to be interrupted), the fences on many reads by 20 ns each, and writers come in groups: with 16,
 * writers that are less than some 0.3 ms apart find the lock still fenced. The kernel's percpu_rwsem is
 * kinder to writers still: a grace period.
 */
#define BLKUP_RWSEM_PATIENCE 16u
/* What a read lock and unlock with fences cost above those without: measured on a Xeon of 2023, 21.9 and 1.0
 * ns. */
#define BLKUP_RWSEM_FENCED_NS 20u
#define BLKUP_RWSEM_MIN_FENCED_READS 64u
#define BLKUP_RWSEM_MAX_FENCED_READS (1u << 20) /* 20 ms of fences: policy global */

/*
 * Slots of threads with numbers 0-31, 32-63, 64-127, ...: a chunk never moves and is never freed before its
 * lock. 16 chunks: 2^20 threads, more than a Linux process can have by default (kernel.threads-max, pid_max
 * 4194304 is the limit of the 64-bit kernel); beyond, the lock answers -ENOMEM.
 */
#define BLKUP_RWSEM_CHUNKS 16u
#define BLKUP_RWSEM_MAX_THREADS (BLKUP_RWSEM_FIRST_SLOTS << (BLKUP_RWSEM_CHUNKS - 1))

enum blkup_rwsem_grant { BLKUP_GRANT_WAIT, BLKUP_GRANT_FRESH, BLKUP_GRANT_HANDED };

/* On the stack of a writer that queues. */
struct blkup_rwsem_queued {
        struct blkup_rwsem_queued *next;
        uint32_t grant; /* futex word, enum blkup_rwsem_grant */
};

struct blkup_rwsem_lock {
        struct blkup_rwsem pub; /* first: the public pointer is this one */
        struct blkup_rwsem_slot *chunks[BLKUP_RWSEM_CHUNKS]; /* [0] is pub.slots */

        /* Constant after blkup_rwsem_new(). */
        enum blkup_rwsem_policy policy;
        enum blkup_barrier barrier;
        uint32_t open_state;     /* what a writer leaves behind: 0 or FENCED */
        bool is_learning;        /* fenced_reads follows the cost of the barriers */
        uint32_t batch_writers, extra_entry, extra_exit;
        uint64_t batch_ns;
        uint32_t fenced_reads;   /* 0: never back to open by a reader; atomic */

        /* Readers that meet a writer write here. */
        uint32_t wseq __attribute__((aligned(64)));
        uint32_t waiting;        /* readers between "met a writer" and "in", and GATE_SLEEPS */
        uint64_t read_waits, read_wait_ns, read_wait_max_ns, reopened, lost_readers, lost_writers;

        /* Writers write here. */
        uint32_t wlock __attribute__((aligned(64)));
        uint32_t owner;          /* 1 + slot number of the thread that has wlock; 0 none */
        uint32_t is_in;          /* the owner may change the data: says after a fork whether it is whole */
        uint32_t batch_n;
        uint64_t batch_end_ns;
        uint64_t barriers, barrier_ns, writes, handed_over, write_waits, write_wait_ns, write_wait_max_ns;

        pthread_mutex_t queue_lock;
        struct blkup_rwsem_queued *first, **last;

        struct blkup_rwsem_lock *next; /* all locks of the process */
};

static inline struct blkup_rwsem_lock *blkup_rwsem_lock_of(struct blkup_rwsem *sem)
{
        return (struct blkup_rwsem_lock *) sem;
}

/* A counter that only the holder of wlock changes, and anyone may read. */
static inline void blkup_rwsem_count(uint64_t *counter, uint64_t n)
{
        __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

/* rwsem-threads.c */
bool blkup_rwsem_is_expedited_ready(void);
bool blkup_rwsem_is_global_ready(void);
uint32_t blkup_rwsem_high_water(void); /* no thread ever had this slot number or a higher one */
void blkup_rwsem_enlist(struct blkup_rwsem_lock *l);
void blkup_rwsem_delist(struct blkup_rwsem_lock *l);
/* This thread's slot in l; gives the thread its number and l the chunk where they are missing. */
BLKUP_MUST_CHECK int blkup_rwsem_own_slot(struct blkup_rwsem_lock *l, struct blkup_rwsem_slot **ret);
/* The slot of number i, or NULL when its chunk was never needed. */
struct blkup_rwsem_slot *blkup_rwsem_peek_slot(struct blkup_rwsem_lock *l, uint32_t i);

/* rwsem-write.c */
/* After a slot went to 0 under a writer: makes it look again. */
void blkup_rwsem_kick(struct blkup_rwsem_lock *l);
void blkup_rwsem_release_wlock(struct blkup_rwsem_lock *l);

#endif
