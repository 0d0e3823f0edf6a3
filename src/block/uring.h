/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * io_uring for one purpose: submit a batch of reads, or of writes, and wait for all of it, in one system
 * call.
 *
 * By the raw calls (io_uring_setup, io_uring_enter and two mappings), in every build. liburing was weighed:
 * what is used here is a page of code, it costs the static binary nothing, and a library that programs link
 * does not bring them another one; liburing's own parts (buffer rings, multishot, registered descriptors)
 * have no use in a batch that is waited for.
 *
 * A ring is the caller's. It is set up once, at its first use (8 to 50 us measured), and serves any number
 * of handles one after another. It belongs to one thread at a time.
 */
#ifndef BLKUP_BLOCK_URING_H
#define BLKUP_BLOCK_URING_H

#include "block/block.h"

struct blkup_uring;

/* A ring for batches of `entries` (0: 64; a longer batch is split). Makes no system call yet. NULL: no
 * memory. */
struct blkup_uring *blkup_uring_new(unsigned entries);

/* NULL-safe; returns NULL. No handle that was opened with it may be used any more. */
struct blkup_uring *blkup_uring_unref(struct blkup_uring *u);

static inline void blkup_uring_unrefp(struct blkup_uring **u)
{
        *u = blkup_uring_unref(*u);
}
#define BLKUP_CLEANUP_URING BLKUP_CLEANUP(blkup_uring_unrefp)

/* Sets it up when that has not been tried. False: the kernel has none, or does not let us (ENOSYS, EPERM
 * ...). */
bool blkup_uring_is_usable(struct blkup_uring *u);

/* No further batch goes to it: for a kernel that sets a ring up and then knows no plain reads (before 5.6).
 */
void blkup_uring_refuse(struct blkup_uring *u);

/*
 * Reads the batch from fd. done_bytes becomes what the kernel answered, once: short, -EAGAIN or -EINTR too,
 * and the caller goes on from there; a request that could not be submitted has -EAGAIN. Nothing is in flight
 * on return. Returns the number of io_uring_enter calls that submitted something; -EOPNOTSUPP when the ring
 * cannot be used.
 */
BLKUP_MUST_CHECK int blkup_uring_read(struct blkup_uring *u, int fd, struct blkup_block_request *r, size_t n);

/* The same, writing: `to` is where the bytes are taken from. */
BLKUP_MUST_CHECK int blkup_uring_write(struct blkup_uring *u, int fd, struct blkup_block_request *r,
                                       size_t n);

#endif
