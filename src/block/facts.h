/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Inside the room: what a descriptor stands for, by fstat, a few ioctls and sysfs. */
#ifndef BLKUP_BLOCK_FACTS_H
#define BLKUP_BLOCK_FACTS_H

#include "block/block.h"

/* Tiny: up to a 1440 KiB floppy, inclusive. The whole plan for such a device is another one (DESIGN.md idea 2). */
#define BLKUP_BLOCK_TINY_BYTES UINT64_C(1474560)

/*
 * Fills *ret from fd. A floppy's descriptor is exchanged for one without O_NONBLOCK (that is when its driver looks for
 * a medium), so *fd may change. Errors as blkup_block_open().
 */
BLKUP_MUST_CHECK int blkup_block_facts(int *fd, const char *name, const char *sysfs, struct blkup_block_info *ret,
                                       struct blkup_error *err);

/* Is this dm uuid that of an internal layer of LVM, stratis or cryptsetup? */
bool blkup_block_is_private_dm(const char *uuid);

#endif
