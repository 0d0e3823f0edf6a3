/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which loop devices are in use, and which of them use a given file.
 *
 * Load once a run: it costs a few opens a loop device, and the answer may be old as soon as it is there
 * (another program can take or free a device at any time).
 *
 * Source: the kernel's drivers/block/loop.c (LOOP_GET_STATUS64 and the attributes in
 * /sys/block/loopN/loop), <linux/loop.h>, loop(4).
 *
 * Texts belong to the table, live as long as it does, and may hold any byte but NUL. A table is read-only
 * after loading, so several threads may ask one. `root` and limits: see host/hostfile.h.
 */
#ifndef BLKUP_HOST_LOOPSTATE_H
#define BLKUP_HOST_LOOPSTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"

#define BLKUP_LOOPS_MAX 65536u

/* How sure file_dev and file_inode are. */
enum blkup_loop_identity {
        BLKUP_LOOP_UNKNOWN,   /* they are 0: the device may not be read, and its path leads nowhere */
        BLKUP_LOOP_BY_PATH,   /* what stands at `file` now; perhaps no longer the file in use */
        BLKUP_LOOP_BY_DRIVER, /* the file in use, as the driver says */
};

struct blkup_loop {
        const char *name; /* "loop7" */
        uint32_t dev_major, dev_minor;
        uint64_t size_sectors; /* 512 bytes each */
        const char *file; /* path as its opener saw it; a removed file ends in " (deleted)"; NULL: not told */
        enum blkup_loop_identity identity;
        uint64_t file_dev, file_inode; /* st_dev and st_ino of the file (for a block device: of its node) */
        uint64_t offset_bytes;
        uint64_t sizelimit_bytes; /* 0: to the end of the file */
        bool is_read_only, is_autoclear, is_partscan, is_direct_io;
};

struct blkup_loops {
        const struct blkup_loop *loops; /* in use only, in natural order of their names */
        size_t n;
        size_t n_skipped; /* freed while they were read */
};

/* The loop devices in use, from ROOT/sys/block; where ROOT/dev/loopN can be read, the driver itself is asked.
 * -ENOENT: /sys is not mounted; -E2BIG: a limit; -ENOMEM; what open returns. err may be NULL. */
BLKUP_MUST_CHECK int blkup_loops_load(const char *root, struct blkup_loops **ret, struct blkup_error *err);
struct blkup_loops *blkup_loops_free(struct blkup_loops *t); /* NULL-safe, returns NULL */

/* The next loop device on this file (its st_dev and st_ino), after `after` (NULL: the first); NULL at the
 * end, or when t is NULL. Devices that are BLKUP_LOOP_UNKNOWN are never among them: ask for them by path
 * too. */
const struct blkup_loop *blkup_loops_by_file(const struct blkup_loops *t, uint64_t file_dev,
                                             uint64_t file_inode, const struct blkup_loop *after);

/* The next loop device whose `file` is exactly this text. */
const struct blkup_loop *blkup_loops_by_path(const struct blkup_loops *t, const char *file,
                                             const struct blkup_loop *after);

/* NULL: not in use. */
const struct blkup_loop *blkup_loops_by_devno(const struct blkup_loops *t, uint32_t dev_major,
                                              uint32_t dev_minor);

/* Does l show a byte of [offset_bytes, offset_bytes + len_bytes) of its file? len_bytes 0: to the end. Two
 * loop devices that do must not both be mounted: nothing in the kernel objects, and the file system is
 * destroyed. */
bool blkup_loop_is_overlapping(const struct blkup_loop *l, uint64_t offset_bytes, uint64_t len_bytes);

#endif
