/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Time: nanoseconds of CLOCK_MONOTONIC everywhere; wall-clock time is nowhere used for intervals. */
#ifndef BLKUP_BASE_CLOCK_H
#define BLKUP_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

uint64_t blkup_now_ns(void);

/* For the calls that wait until a time of that clock. */
static inline struct timespec blkup_to_timespec(uint64_t ns)
{
        return (struct timespec){ .tv_sec = (time_t) (ns / 1000000000u),
                                  .tv_nsec = (long) (ns % 1000000000u) };
}

/* CPU time of this process, all threads; of those that run just now up to the last tick. */
uint64_t blkup_cpu_ns(void);

/* Sleeps until the absolute CLOCK_MONOTONIC time; restarts after a signal unless *stop (may be NULL) is
 * non-zero. A signal that sets *stop just before the sleep begins is seen only after the next one. */
void blkup_sleep_until_ns(uint64_t at_ns, const volatile int *stop);

#endif
