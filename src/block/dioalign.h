/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Inside the room: what direct reads of a regular file must be aligned to. */
#ifndef BLKUP_BLOCK_DIOALIGN_H
#define BLKUP_BLOCK_DIOALIGN_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Asks statx for STATX_DIOALIGN (Linux 6.1, and then by file system). True: the kernel answered; both are 0
 * when the file has no direct reads, else powers of two. False: no answer, try.
 */
bool blkup_block_dioalign(int fd, uint32_t *ret_offset_bytes, uint32_t *ret_memory_bytes);

#endif
