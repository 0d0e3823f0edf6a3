/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What this process may use. */
#ifndef BLKUP_HOST_WORKERS_H
#define BLKUP_HOST_WORKERS_H

/* How many of `wanted` workers RLIMIT_NOFILE leaves room for, when each has up to `fds_each` descriptors open
 * and the process `fds_besides`; at least 1. */
unsigned blkup_host_limit_workers(unsigned wanted, unsigned fds_each, unsigned fds_besides);

#endif
