/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sync/barrier.h"

static int membarrier(int command)
{
        int saved = errno;
        long r = syscall(SYS_membarrier, command, 0, 0);

        if (r < 0)
                r = -errno;
        errno = saved;
        return (int) r;
}

struct blkup_barrier_support blkup_barrier_query(void)
{
        int mask = membarrier(MEMBARRIER_CMD_QUERY);

        if (mask < 0)
                mask = 0;
        return (struct blkup_barrier_support){
                .has_expedited = (mask & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0,
                /* The kernel leaves this bit out with nohz_full, where the command answers EINVAL. */
                .has_global = (mask & MEMBARRIER_CMD_GLOBAL) != 0,
        };
}

int blkup_barrier_register(void)
{
        return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

int blkup_barrier_issue(enum blkup_barrier kind)
{
        switch (kind) {
        case BLKUP_BARRIER_NONE:
                return 0;
        case BLKUP_BARRIER_EXPEDITED:
                return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
        case BLKUP_BARRIER_GLOBAL:
                return membarrier(MEMBARRIER_CMD_GLOBAL);
        }
        return -EINVAL;
}
