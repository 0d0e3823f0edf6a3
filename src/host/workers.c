/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <sys/resource.h>

#include "host/workers.h"

unsigned blkup_host_limit_workers(unsigned wanted, unsigned fds_each, unsigned fds_besides)
{
        struct rlimit limit;
        rlim_t room;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY || fds_each == 0)
                return wanted;
        room = limit.rlim_cur > fds_besides ? (limit.rlim_cur - fds_besides) / fds_each : 0;
        if (room < 1)
                return 1;
        return room < wanted ? (unsigned) room : wanted;
}
