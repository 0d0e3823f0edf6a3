/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Regular files and block devices, to write. Requests that are aligned go past the page cache, a batch of
 * them in one io_uring submission where there is one, by pwrite elsewhere; all others go through the page
 * cache. The kernel keeps the two in step: a direct write throws the cached pages of its range away, a direct
 * read writes dirty ones out first.
 */
#ifndef BLKUP_BLOCK_WRITER_FILE_H
#define BLKUP_BLOCK_WRITER_FILE_H

#include "block/uring.h"
#include "block/writer.h"

struct blkup_writer_open {
        bool no_direct, no_uring;
        bool is_read_only; /* the descriptor only reads: every write is refused with -EBADF by the kernel */
        const char *sysfs; /* where sysfs is; NULL: /sys. For tests. */
};

/*
 * Takes over a descriptor opened for reading and writing (on success, and only then). `name` is for messages.
 * block.align_bytes tells what direct writes have to be aligned to (1: there are none); memory aligned to
 * 4096 always is.
 * -ENOTBLK: neither regular file nor block device; -ENOMEM; what fstat and the size return.
 */
BLKUP_MUST_CHECK int blkup_writer_open_fd(int fd, const char *name, const struct blkup_writer_open *o,
                                          struct blkup_writer **ret, struct blkup_error *err);

/* The descriptor of such a writer: for locks. */
int blkup_writer_fd(const struct blkup_writer *w);

#endif
