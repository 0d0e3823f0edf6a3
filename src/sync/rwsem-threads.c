/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads and slots: numbers for threads, chunks of slots for locks, what happens when a thread ends or a
 * process forks. The one place of the library with state of the whole process; the reason stands in
 * docs/decisions/rwsem.md: thread numbers, fork handlers and the kernel's registration exist once per process
 * whatever we do.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sync/rwsem-internal.h"

__thread uint32_t blkup_rwsem_self __attribute__((tls_model("initial-exec"))) = UINT32_MAX;

static struct {
        pthread_mutex_t lock;
        bool is_ready;
        struct blkup_barrier_support support;
        pthread_key_t key;                /* value: 1 + number; its destructor runs when a thread ends */
        struct blkup_rwsem_lock *locks;
        uint8_t *used;                    /* one byte a number */
        uint32_t n_used;                  /* length of used */
        uint32_t high_water;              /* atomic: read by writers without the lock */
} process = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Chunk of number i: 0 for 0-31, then one per power of two. */
static uint32_t chunk_of(uint32_t i, uint32_t *ret_at)
{
        uint32_t chunk;

        if (i < BLKUP_RWSEM_FIRST_SLOTS) {
                *ret_at = i;
                return 0;
        }
        chunk = (uint32_t) (__builtin_clz(BLKUP_RWSEM_FIRST_SLOTS) - __builtin_clz(i)) + 1;
        *ret_at = i - (BLKUP_RWSEM_FIRST_SLOTS << (chunk - 1));
        return chunk;
}

static size_t chunk_length(uint32_t chunk)
{
        return chunk == 0 ? BLKUP_RWSEM_FIRST_SLOTS : (size_t) BLKUP_RWSEM_FIRST_SLOTS << (chunk - 1);
}

struct blkup_rwsem_slot *blkup_rwsem_peek_slot(struct blkup_rwsem_lock *l, uint32_t i)
{
        uint32_t at, chunk = chunk_of(i, &at);
        struct blkup_rwsem_slot *slots = __atomic_load_n(&l->chunks[chunk], __ATOMIC_SEQ_CST);

        return slots ? &slots[at] : NULL;
}

uint32_t blkup_rwsem_high_water(void)
{
        return __atomic_load_n(&process.high_water, __ATOMIC_SEQ_CST);
}

bool blkup_rwsem_is_expedited_ready(void)
{
        return process.support.has_expedited;
}

bool blkup_rwsem_is_global_ready(void)
{
        return process.support.has_global;
}

/* A thread ends. Its slots are clean unless it left while holding a lock; then its number is never given out
 * again. */
static void thread_ends(void *value)
{
        uint32_t i = (uint32_t) (uintptr_t) value - 1;
        bool is_clean = true;

        (void) pthread_mutex_lock(&process.lock);
        for (struct blkup_rwsem_lock *l = process.locks; l;
             l = l->next) { /* ends: a list, changed under the lock */
                struct blkup_rwsem_slot *slot = blkup_rwsem_peek_slot(l, i);

                if (slot && slot->count > 0) {
                        is_clean = false;
                        __atomic_store_n(&slot->lost, 1, __ATOMIC_SEQ_CST);
                        (void) __atomic_fetch_add(&l->lost_readers, 1, __ATOMIC_RELAXED);
                        /* A writer that waits for this slot would wait for ever. */
                        blkup_rwsem_kick(l);
                }
                if (__atomic_load_n(&l->owner, __ATOMIC_RELAXED) == i + 1) {
                        is_clean = false;
                        (void) __atomic_fetch_add(&l->lost_writers, 1, __ATOMIC_RELAXED);
                        (void) __atomic_fetch_or(&l->pub.state, BLKUP_RWSEM_WRITER | BLKUP_RWSEM_DEAD,
                                                 __ATOMIC_SEQ_CST);
                        blkup_futex_wake(&l->pub.state, INT32_MAX);
                        /* The writers in the queue come here one after the other and find DEAD. */
                        blkup_rwsem_release_wlock(l);
                }
        }
        if (is_clean)
                process.used[i] = 0;
        blkup_rwsem_self = UINT32_MAX;
        (void) pthread_mutex_unlock(&process.lock);
}

/* ---- fork: only the calling thread lives on in the child ---- */

static void before_fork(void)
{
        (void) pthread_mutex_lock(&process.lock);
        for (struct blkup_rwsem_lock *l = process.locks; l; l = l->next)
                (void) pthread_mutex_lock(&l->queue_lock);
}

static void after_fork_in_parent(void)
{
        for (struct blkup_rwsem_lock *l = process.locks; l; l = l->next)
                (void) pthread_mutex_unlock(&l->queue_lock);
        (void) pthread_mutex_unlock(&process.lock);
}

static void after_fork_in_child(void)
{
        uint32_t self = blkup_rwsem_self, top = blkup_rwsem_high_water();

        for (struct blkup_rwsem_lock *l = process.locks; l; l = l->next) {
                uint32_t owner = l->owner, state = l->pub.state;

                for (uint32_t i = 0; i < top; i++) {
                        struct blkup_rwsem_slot *slot = blkup_rwsem_peek_slot(l, i);

                        if (slot && i != self)
                                *slot = (struct blkup_rwsem_slot){ .count = 0 };
                }
                l->wseq = 0;
                l->waiting = 0;
                l->first = NULL;
                l->last = &l->first;
                if (owner != 0 && owner == self + 1) {
                        /* This thread's own: held on, but all who slept or queued for it are gone. */
                        l->wlock = BLKUP_RWSEM_WLOCK_HELD;
                        l->pub.state = state & ~BLKUP_RWSEM_SLEEPERS;
                } else if (owner != 0 && l->is_in) {
                        /* Copied in the middle of a change: the data is half old, half new. */
                        l->wlock = 0;
                        l->owner = 0;
                        l->lost_writers++;
                        l->pub.state = BLKUP_RWSEM_WRITER | BLKUP_RWSEM_DEAD;
                } else if (!(state & BLKUP_RWSEM_DEAD)) {
                        l->wlock = 0;
                        l->owner = 0;
                        l->pub.state = l->open_state;
                }
                (void) pthread_mutex_unlock(&l->queue_lock);
        }
        for (uint32_t i = 0; i < process.n_used; i++)
                if (i != self)
                        process.used[i] = 0;
        (void) pthread_mutex_unlock(&process.lock);
}

int blkup_rwsem_setup(struct blkup_error *err)
{
        int r = 0;

        (void) pthread_mutex_lock(&process.lock);
        if (!process.is_ready) {
                r = -pthread_key_create(&process.key, thread_ends);
                if (r == 0) {
                        r = -pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
                        if (r < 0)
                                (void) pthread_key_delete(process.key);
                }
                if (r == 0) {
                        process.support = blkup_barrier_query();
                        if (process.support.has_expedited && blkup_barrier_register() < 0)
                                process.support.has_expedited = false;
                        process.is_ready = true;
                }
        }
        (void) pthread_mutex_unlock(&process.lock);
        return r < 0 ? blkup_fail_errno(err, r, "cannot prepare threads for the semaphore") : 0;
}

void blkup_rwsem_enlist(struct blkup_rwsem_lock *l)
{
        (void) pthread_mutex_lock(&process.lock);
        l->next = process.locks;
        process.locks = l;
        (void) pthread_mutex_unlock(&process.lock);
}

void blkup_rwsem_delist(struct blkup_rwsem_lock *l)
{
        (void) pthread_mutex_lock(&process.lock);
        for (struct blkup_rwsem_lock **at = &process.locks; *at; at = &(*at)->next)
                if (*at == l) {
                        *at = l->next;
                        break;
                }
        (void) pthread_mutex_unlock(&process.lock);
}

/* A number for this thread: the lowest that is free. Called with the lock of the process. */
static int join(void)
{
        uint32_t i = 0;
        int r;

        while (i < process.n_used && process.used[i])
                i++;
        if (i == process.n_used) {
                uint32_t n = process.n_used == 0 ? BLKUP_RWSEM_FIRST_SLOTS : 2 * process.n_used;
                uint8_t *grown;

                if (i >= BLKUP_RWSEM_MAX_THREADS)
                        return -ENOMEM;
                grown = realloc(process.used, n);
                if (!grown)
                        return -ENOMEM;
                memset(grown + process.n_used, 0, n - process.n_used);
                process.used = grown;
                process.n_used = n;
        }
        r = -pthread_setspecific(process.key, (void *) (uintptr_t) (i + 1));
        if (r < 0)
                return r;
        process.used[i] = 1;
        if (i >= process.high_water)
                /* Before this thread's first slot store: what orders that for the writer orders this as well.
                 */
                __atomic_store_n(&process.high_water, i + 1, __ATOMIC_SEQ_CST);
        blkup_rwsem_self = i;
        return 0;
}

int blkup_rwsem_own_slot(struct blkup_rwsem_lock *l, struct blkup_rwsem_slot **ret)
{
        struct blkup_rwsem_slot *slot;
        int r = 0;

        if (blkup_rwsem_self != UINT32_MAX) {
                slot = blkup_rwsem_peek_slot(l, blkup_rwsem_self);
                if (slot) {
                        *ret = slot;
                        return 0;
                }
        }
        (void) pthread_mutex_lock(&process.lock);
        if (blkup_rwsem_self == UINT32_MAX)
                r = join();
        if (r == 0) {
                uint32_t at, chunk = chunk_of(blkup_rwsem_self, &at);
                struct blkup_rwsem_slot *slots = l->chunks[chunk];

                if (!slots) {
                        size_t bytes = chunk_length(chunk) * sizeof(*slots);

                        slots = aligned_alloc(sizeof(*slots), bytes);
                        if (slots) {
                                memset(slots, 0, bytes);
                                /* Sequentially consistent for the same reason as high_water. */
                                __atomic_store_n(&l->chunks[chunk], slots, __ATOMIC_SEQ_CST);
                        }
                }
                if (slots)
                        *ret = &slots[at];
                else
                        r = -ENOMEM;
        }
        (void) pthread_mutex_unlock(&process.lock);
        return r;
}
