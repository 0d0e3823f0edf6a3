/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One device or image, to write: a block handle (block.h) that also writes, zeroes and flushes, behind a
 * table of functions with several backends: files and devices (writer-file.h), memory, a recorder of what
 * would reach the medium, and one whose writes go wrong as told (writer-model.h).
 *
 * Nothing is durable before blkup_writer_flush() returned 0; until then any part of what was written may be
 * on the medium, in any order, and each 512-byte sector is old or new.
 *
 * A writer belongs to one thread at a time; different writers are independent.
 */
#ifndef BLKUP_BLOCK_WRITER_H
#define BLKUP_BLOCK_WRITER_H

#include "block/block.h"

enum blkup_zero_how {
        BLKUP_ZERO_KEEP, /* reads as zeroes afterwards, and its space stays its own: FALLOC_FL_ZERO_RANGE on a
                          * file, BLKZEROOUT on a device. Where nothing was allocated, it allocates. */
        BLKUP_ZERO_PUNCH, /* reads as zeroes afterwards, and the space is given back */
};

struct blkup_writer_counts {
        uint64_t writes, written_bytes;      /* write requests that were answered, and their bytes */
        uint64_t zeroes, zeroed_bytes;       /* blkup_writer_zero() calls that did it */
        uint64_t zero_refusals;              /* those that were refused as not supported */
        uint64_t flushes;
};

struct blkup_writer;

struct blkup_writer_ops {
        const char *name;
        /* Answers all n requests in done_bytes (`to` is the source), perhaps short. Negative errno: nothing
         * was submitted. */
        int (*write)(struct blkup_writer *w, struct blkup_block_request *r, size_t n);
        /* -EOPNOTSUPP: not here, nothing was changed. */
        int (*zero)(struct blkup_writer *w, uint64_t at, uint64_t len, enum blkup_zero_how how);
        int (*flush)(struct blkup_writer *w);
        /* The first range at or after `at` that may hold anything but zeroes; *ret_len 0: none. Optional. */
        int (*next_data)(struct blkup_writer *w, uint64_t at, uint64_t *ret_at, uint64_t *ret_len);
};

/* The first member of every backend's own struct. Reads see what was written. */
struct blkup_writer {
        struct blkup_block block;
        const struct blkup_writer_ops *ops;
        struct blkup_writer_counts counts;
};

/*
 * Writes all of a batch; the requests are in flight together and in no order. Short answers are gone on with.
 * 0, or the first error (-ERANGE: outside the device, and then nothing is written); *ret_failed (may be NULL)
 * is the index of the request that it belongs to.
 */
BLKUP_MUST_CHECK int blkup_writer_write(struct blkup_writer *w, struct blkup_block_request *r, size_t n,
                                        size_t *ret_failed);

/* Makes [at, at + len) read as zeroes without sending zeroes. -EOPNOTSUPP: this range has to be written. */
BLKUP_MUST_CHECK int blkup_writer_zero(struct blkup_writer *w, uint64_t at, uint64_t len,
                                       enum blkup_zero_how how);

/* All that was written before is durable when this returns 0. After an error nothing is known of it. */
BLKUP_MUST_CHECK int blkup_writer_flush(struct blkup_writer *w);

/*
 * The first range inside [at, end) that may hold anything but zeroes, cut at end; *ret_len 0: there is none.
 * Where nobody can tell, all of it. Of a file this is only right after a flush: a dirty page cache can hide
 * data from the answer.
 */
BLKUP_MUST_CHECK int blkup_writer_next_data(struct blkup_writer *w, uint64_t at, uint64_t end,
                                            uint64_t *ret_at, uint64_t *ret_len);

/* Reads exactly len bytes: -EIO when there are fewer. */
BLKUP_MUST_CHECK int blkup_block_read_exact(struct blkup_block *b, uint64_t at, void *to, size_t len);

/* NULL-safe; always returns NULL. Flushes nothing. */
struct blkup_writer *blkup_writer_close(struct blkup_writer *w);

static inline void blkup_writer_closep(struct blkup_writer **w)
{
        *w = blkup_writer_close(*w);
}
#define BLKUP_CLEANUP_WRITER BLKUP_CLEANUP(blkup_writer_closep)

#endif
