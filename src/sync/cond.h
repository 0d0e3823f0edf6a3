/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A condition variable whose timed waits are on the monotonic clock, as base/clock.h has it. */
#ifndef BLKUP_SYNC_COND_H
#define BLKUP_SYNC_COND_H

#include <pthread.h>

/* 0, or a negative errno (-ENOMEM; glibc and musl need no memory for one). */
int blkup_cond_init(pthread_cond_t *c);

#endif
