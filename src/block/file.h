/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Regular files, block devices and UBI character devices, read-only, by pread.
 *
 * What an open costs in system calls: a regular file open and fstat; a block device besides these its size, its sector
 * size, posix_fadvise and one or two small looks into sysfs. A device is never opened for writing: closing such a
 * descriptor makes udev look at it again.
 */
#ifndef BLKUP_BLOCK_FILE_H
#define BLKUP_BLOCK_FILE_H

#include "block/block.h"

struct blkup_block_open {
        const char *sysfs; /* where sysfs is; NULL: /sys. For tests. */
};

/*
 * Opens PATH; o may be NULL (all defaults).
 * -ENOENT, -EACCES ...: as open(2); -EISDIR: a directory; -ENOTBLK: something else that is neither regular file, block
 * device nor UBI character device; -ENOMEDIUM: no disc, or the tray is open; -ENOMEM.
 * The options and what they point to must outlive the handle.
 */
BLKUP_MUST_CHECK int blkup_block_open(const char *path, const struct blkup_block_open *o, struct blkup_block **ret,
                                      struct blkup_error *err);

/* The same on a descriptor opened for reading; on success, and only then, it belongs to the handle. `name` is for
 * messages. The descriptor's file status flags (O_DIRECT) may be changed. */
BLKUP_MUST_CHECK int blkup_block_open_fd(int fd, const char *name, const struct blkup_block_open *o,
                                         struct blkup_block **ret, struct blkup_error *err);

#endif
