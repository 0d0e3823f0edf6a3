/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The public header, and what lives in here beside it. Backends: memory.h, file.h with pread or io_uring,
 * recorder.h, fault.h.
 */
#ifndef BLKUP_BLOCK_BLOCK_H
#define BLKUP_BLOCK_BLOCK_H

#include <blkup/block.h>

#include "base/cleanup.h"
#include "base/error.h"

static inline void blkup_block_closep(struct blkup_block **b)
{
        *b = blkup_block_close(*b);
}
#define BLKUP_CLEANUP_BLOCK BLKUP_CLEANUP(blkup_block_closep)

#endif
