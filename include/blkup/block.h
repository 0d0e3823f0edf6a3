/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * blkup/block.h - one device or image, to read, behind a table of functions.
 *
 * The library has its own backends for files and devices. Who has the bytes elsewhere (an image in a format
 * of its own, a remote disk) makes a struct that begins with a struct blkup_block, fills ops, info and
 * align_bytes, and hands it to blkup_probe_block(). Nothing here writes.
 *
 * A block handle belongs to one thread at a time; different handles are independent.
 */
#ifndef BLKUP_BLOCK_H
#define BLKUP_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <blkup/error.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* What stands behind a handle: some formats are looked for on whole disks and plain files only. */
enum blkup_block_kind {
        BLKUP_BLOCK_FILE,       /* regular file (or memory) */
        BLKUP_BLOCK_DISK,       /* whole-disk block device */
        BLKUP_BLOCK_PARTITION,  /* partition of a whole disk */
        BLKUP_BLOCK_CHAR,       /* UBI character device; its size may be unknown: then size_bytes is 1 */
};

/* Facts of a device, filled at open and constant after it (but for `direct`). */
struct blkup_block_info {
        enum blkup_block_kind kind;
        uint64_t size_bytes;
        uint32_t logical_sector_bytes; /* 512 for files */
        bool is_cdrom, is_floppy, is_dm;
        bool is_removable;             /* a medium that can be taken out: sticks, cards, discs */
        bool is_private_dm; /* internal device of LVM, stratis or cryptsetup: not to be looked at */
        bool direct;                   /* reads go past the page cache at the moment */
        uint32_t major, minor;         /* block devices */
        uint64_t session_offset_bytes; /* CD-ROM: where the last session begins; 0: one session, or not known
                                        */
};

/* One request of a batch. done_bytes: bytes read (short at the end of the device or when the device says so),
 * or a negative errno; every request is answered even when another fails. */
struct blkup_block_request {
        uint64_t at;
        size_t len;
        void *to;
        int64_t done_bytes;
        uint64_t ns; /* time this request took (for a batch: until its completion was seen); 0 in memory */
};

struct blkup_block;

struct blkup_block_ops {
        const char *name;
        /* Answers all n requests (n > 0; each is inside the device, or ends in its last, partial alignment
         * unit). Returns the number of submissions (one io_uring_enter, or one pread/preadv, is one) or a
         * negative errno when nothing could be submitted at all. */
        int (*read)(struct blkup_block *b, struct blkup_block_request *r, size_t n);
        void (*close)(struct blkup_block *b);
        /* Optional: see blkup_block_set_direct(). */
        int (*set_direct)(struct blkup_block *b, bool direct);
};

/* The first member of every backend's own struct. */
struct blkup_block {
        const struct blkup_block_ops *ops;
        struct blkup_block_info info;
        /* Reads that start and end at multiples of this, into memory aligned to it, cost no copy: 1 =
         * anything, 512 or more for direct I/O. Other reads are answered as well. Changes with info.direct.
         */
        uint32_t align_bytes;
        /* A batch costs one submission whatever its length: joining near requests over their gap saves
         * nothing. */
        bool one_submission;
};

/*
 * Reads a batch, checked: a request outside the device is answered with 0 bytes without reaching the backend,
 * one that is partly outside is answered short. Returns the number of submissions, or a negative errno when
 * nothing could be submitted; each request's done_bytes is set in either case.
 */
BLKUP_MUST_CHECK int blkup_block_read(struct blkup_block *b, struct blkup_block_request *r, size_t n);

/*
 * Switches between direct and buffered reads on an open handle; info.direct and align_bytes follow. 0;
 * -EOPNOTSUPP: the backend or the device has no direct reads (the handle stays usable as it was).
 */
int blkup_block_set_direct(struct blkup_block *b, bool direct);

/* NULL-safe; always returns NULL. */
struct blkup_block *blkup_block_close(struct blkup_block *b);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
