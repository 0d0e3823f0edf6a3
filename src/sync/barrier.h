/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* membarrier(2): a full fence on every running thread, paid by the caller. */
#ifndef BLKUP_SYNC_BARRIER_H
#define BLKUP_SYNC_BARRIER_H

#include <stdbool.h>

#include "base/cleanup.h"

enum blkup_barrier {
        BLKUP_BARRIER_NONE,
        BLKUP_BARRIER_EXPEDITED, /* this process; needs blkup_barrier_register() */
        BLKUP_BARRIER_GLOBAL,    /* every process; waits for a grace period */
};

/* What the kernel offers; an empty answer where it has no membarrier or a filter refuses it. */
struct blkup_barrier_support {
        bool has_expedited, has_global;
};

struct blkup_barrier_support blkup_barrier_query(void);

/* Registers this process for the expedited barrier. The kernel remembers it, also over a fork, so calling it
 * again is cheap. 0 or negative errno. */
BLKUP_MUST_CHECK int blkup_barrier_register(void);

/* 0 or negative errno: then no fence can be relied upon. */
BLKUP_MUST_CHECK int blkup_barrier_issue(enum blkup_barrier kind);

#endif
