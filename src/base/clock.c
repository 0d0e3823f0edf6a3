/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stddef.h>
#include <time.h>

#include "base/clock.h"

#define NS_PER_S UINT64_C(1000000000)

static uint64_t read_clock(clockid_t clock)
{
        struct timespec t = { .tv_sec = 0 };

        /* Cannot fail: both clocks exist on every Linux, and the pointer is ours. */
        (void) clock_gettime(clock, &t);
        return (uint64_t) t.tv_sec * NS_PER_S + (uint64_t) t.tv_nsec;
}

uint64_t blkup_now_ns(void)
{
        return read_clock(CLOCK_MONOTONIC);
}

uint64_t blkup_cpu_ns(void)
{
        return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

void blkup_sleep_until_ns(uint64_t at_ns, const volatile int *stop)
{
        struct timespec until = blkup_to_timespec(at_ns);

        /* Ends: the time is absolute, so signals do not push it away; any answer but EINTR ends it too. */
        while (!stop || *stop == 0)
                if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != EINTR)
                        return;
}
