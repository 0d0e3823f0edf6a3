/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Inside the room: what a descriptor stands for, by fstat, a few ioctls and sysfs. */
#ifndef BLKUP_BLOCK_FACTS_H
#define BLKUP_BLOCK_FACTS_H

#include <sys/stat.h>

#include "block/block.h"

/* Tiny: up to a 1440 KiB floppy, inclusive (libblkid's limit). */
#define BLKUP_BLOCK_TINY_BYTES UINT64_C(1474560)

/*
 * Fills *ret from fd. A floppy's descriptor is exchanged for one without O_NONBLOCK (that is when its
 * driver looks for a medium), so *fd may change. Errors as blkup_block_open().
 *
 * fixed_diskseq: of struct blkup_block_open. *ret_suits_ring: block devices, and files of a file system that
 * has a block device. The others (tmpfs, overlayfs, network; their device numbers have major 0) mostly cannot
 * start a read without waiting for it, and the kernel gives each to a thread of its own.
 */
BLKUP_MUST_CHECK int blkup_block_facts(int *fd, const char *name, const char *sysfs, uint64_t fixed_diskseq,
                                       struct blkup_block_info *ret, bool *ret_suits_ring,
                                       struct blkup_error *err);

/* Is this something that may be opened to be read: 0, or the errors of blkup_block_open(). */
BLKUP_MUST_CHECK int blkup_block_check_kind(const struct stat *st, const char *name, const char *sysfs,
                                            struct blkup_error *err);

/* Is this dm uuid that of an internal layer of LVM, stratis or cryptsetup? */
bool blkup_block_is_private_dm(const char *uuid);

#endif
