/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Regular files, block devices and UBI character devices, read-only: by pread, or batches by io_uring;
 * through the page cache or past it.
 *
 * What a probe costs in system calls: a regular file stat, open, fstat, its reads and close, of which a
 * sparse one has fewer (what lies in a hole is not read, see holes.h); a block device besides these its size,
 * its sector size, posix_fadvise or fcntl, and one or two small looks into sysfs; a disk that is not tiny
 * also the question whether it is a CD-ROM. A device is never opened for writing: closing such a descriptor
 * makes udev look at it again.
 *
 * Direct reads and the page cache. Before a direct read the kernel writes the dirty pages of the range to
 * the device (filemap_write_and_wait_range, called in block/fops.c), so what was written through the device
 * node, or by a file system that keeps its metadata in the device's page cache (ext4), is seen: a test
 * writes sectors without a sync and reads them directly. A file system that has its metadata elsewhere
 * (xfs, btrfs) shows, to buffered and direct reads alike, what it has written out.
 */
#ifndef BLKUP_BLOCK_FILE_H
#define BLKUP_BLOCK_FILE_H

#include "block/block.h"
#include "block/uring.h"

enum blkup_direct {
        BLKUP_DIRECT_AUTO,   /* a block device of at most 1,474,560 bytes: direct; anything else: buffered,
                              * until blkup_block_set_direct() says otherwise (after a slow first read) */
        BLKUP_DIRECT_ALWAYS, /* direct wherever it is not refused; block.info.direct tells */
        BLKUP_DIRECT_NEVER,
};

struct blkup_block_open {
        enum blkup_direct direct;
        /* Of the thread that reads; NULL: pread alone. Used on block devices, and on files of a file system
         * that has one, from the first read on that is not cached: what is costs less by a call each. On
         * tmpfs a ring takes three times as long (16.9 and 4.4 us for 18 reads), so not there. */
        struct blkup_uring *uring;
        /* Of a fixed disk, as struct blkup_open_options has it; 0: /sys tells what it is. */
        uint64_t fixed_diskseq;
        const char *sysfs; /* where sysfs is; NULL: /sys. For tests. */
};

/*
 * Opens PATH; o may be NULL (all defaults); what it points to must outlive the handle.
 * -ENOENT, -EACCES ...: as open(2); -EISDIR: a directory; -ENOTBLK: something else that is neither regular
 * file, block device nor UBI character device; -ENOMEDIUM: no disc, or the tray is open; -ENOMEM.
 *
 * Direct reads are aligned to the logical sector (of a file: what statx says, else 512, and 4096 once that
 * was refused). A request or buffer that is not aligned goes through a buffer of the handle's own. Where a
 * read is refused for its alignment (EINVAL) it is answered through the page cache; a handle that even 4096
 * is refused to is a buffered one from then on.
 */
BLKUP_MUST_CHECK int blkup_block_open(const char *path, const struct blkup_block_open *o,
                                      struct blkup_block **ret, struct blkup_error *err);

/* The same on a descriptor opened for reading; on success, and only then, it belongs to the handle. `name`
 * is for messages. Its file status flags (O_DIRECT, O_NONBLOCK) are changed. */
BLKUP_MUST_CHECK int blkup_block_open_fd(int fd, const char *name, const struct blkup_block_open *o,
                                         struct blkup_block **ret, struct blkup_error *err);

#endif
