/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sleeping on a word, private to this process. futex(2) has no wrapper in the C library. */
#ifndef BLKUP_SYNC_FUTEX_H
#define BLKUP_SYNC_FUTEX_H

#include <errno.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BLKUP_FOREVER UINT64_MAX

/* Sleeps while *word == value, until a wake, a signal, or the absolute CLOCK_MONOTONIC time. Spurious returns
 * happen: the caller looks again. -ETIMEDOUT only when the time has passed. */
static inline int blkup_futex_wait(uint32_t *word, uint32_t value, uint64_t at_ns)
{
        struct timespec at = { .tv_sec = (time_t) (at_ns / 1000000000u),
                               .tv_nsec = (long) (at_ns % 1000000000u) };
        int saved = errno, r = 0;

        /* WAIT_BITSET takes an absolute time, plain WAIT a relative one. */
        if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, value,
                    at_ns == BLKUP_FOREVER ? NULL : &at, NULL, FUTEX_BITSET_MATCH_ANY) < 0 &&
            errno == ETIMEDOUT)
                r = -ETIMEDOUT;
        errno = saved;
        return r;
}

static inline void blkup_futex_wake(uint32_t *word, int n)
{
        int saved = errno;

        (void) syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, n, NULL, NULL, 0);
        errno = saved;
}

static inline void blkup_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
        __asm__ __volatile__("yield" ::: "memory");
#else
        __asm__ __volatile__("" ::: "memory");
#endif
}

#endif
