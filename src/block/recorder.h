/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A handle around another one that writes down what is read, and reckons what it would cost on a slow device:
 * a clock that only the requests move. What a policy reads is so compared without the device, exactly and in
 * no time.
 */
#ifndef BLKUP_BLOCK_RECORDER_H
#define BLKUP_BLOCK_RECORDER_H

#include "block/block.h"

/* The device that is imagined behind the handle. All zero: reads take no time. */
struct blkup_block_model {
        uint64_t bytes_per_second;   /* 0: bytes take no time */
        uint64_t transfer_ns;        /* added for each transfer from the device */
        uint32_t page_bytes; /* 0: direct, a read transfers its 512-byte sectors; a power of two (4096): the
                              * page cache, a read transfers the pages of it that no earlier read brought */
        uint32_t readahead_bytes; /* with pages: largest readahead window (0: none, as after
                                     POSIX_FADV_RANDOM) */
};

struct blkup_block_record {
        uint64_t submission;   /* 1 for the first batch; requests of one batch share it */
        uint64_t at;
        uint64_t len;
        int64_t done_bytes;
        uint64_t model_ns;     /* the model's clock when it was answered, from 0 at the start */
        uint64_t transferred_bytes; /* what the model's device moved for it */
};

struct blkup_block_counts {
        uint64_t submissions;       /* what the backend counted */
        uint64_t rounds;            /* batches */
        uint64_t reads;             /* requests */
        uint64_t bytes;             /* asked for */
        uint64_t sectors;           /* different 512-byte sectors touched */
        uint64_t pages;             /* different 4096-byte pages those lie in */
        uint64_t transfers;         /* of the model's device */
        uint64_t transferred_bytes;
        uint64_t model_ns;
};

/* Takes `inner` over: closing the recorder closes it. NULL when memory is exhausted (inner stays the
 * caller's). model may be NULL. */
struct blkup_block *blkup_block_recorder_new(struct blkup_block *inner,
                                             const struct blkup_block_model *model);

/* The log so far, in the order of the requests; valid until the next read. */
const struct blkup_block_record *blkup_block_recorder_log(const struct blkup_block *b, size_t *ret_n);

/* -ENOMEM when the log lost something (it is then cut, and no count is right). */
BLKUP_MUST_CHECK int blkup_block_recorder_counts(const struct blkup_block *b, struct blkup_block_counts *ret);

/* Back to an empty log, an empty page cache and 0 ns. */
void blkup_block_recorder_reset(struct blkup_block *b);

#endif
