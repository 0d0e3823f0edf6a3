/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory of one table: texts and arrays that live and die together. What is taken never moves.
 * Zero-initialise it; blkup_host_pool_free() releases everything at once. One pool belongs to one thread
 * while it is filled.
 */
#ifndef BLKUP_HOST_HOSTPOOL_H
#define BLKUP_HOST_HOSTPOOL_H

#include <stddef.h>

#include "base/cleanup.h"

/* No table of this room comes near it; above it, taking fails as if memory were exhausted. */
#define BLKUP_HOST_POOL_MAX_BYTES ((size_t) 128 << 20)

struct blkup_host_pool {
        struct blkup_host_pool_block *blocks;
        size_t taken_bytes;
};

/* n bytes, aligned for any type, not initialised; NULL: out of memory. */
BLKUP_MUST_CHECK void *blkup_host_pool_take(struct blkup_host_pool *pool, size_t n);

/* A copy of s[0..n) with a NUL behind it; NULL: out of memory. */
BLKUP_MUST_CHECK char *blkup_host_pool_text(struct blkup_host_pool *pool, const char *s, size_t n);

void blkup_host_pool_free(struct blkup_host_pool *pool);

/* The names in a folder but "." and "..", in natural order (sda2 before sda10), in the pool. Takes dir_fd,
 * also on failure. -E2BIG above max names, -ENOMEM, what reading the folder returns. */
BLKUP_MUST_CHECK int blkup_host_list(struct blkup_host_pool *pool, int dir_fd, size_t max,
                                     const char *const **ret, size_t *ret_n);

#endif
