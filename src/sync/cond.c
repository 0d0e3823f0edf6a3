/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sync/cond.h"

#include <time.h>

int blkup_cond_init(pthread_cond_t *c)
{
        pthread_condattr_t monotonic;
        int r = pthread_condattr_init(&monotonic);

        if (r != 0)
                return -r;
        r = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        if (r == 0)
                r = pthread_cond_init(c, &monotonic);
        (void) pthread_condattr_destroy(&monotonic);
        return -r;
}
