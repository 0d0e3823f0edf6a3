/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Writers without a device: bytes in memory, a handle that writes down what is written and when it was made
 * durable, and one whose writes go wrong as told. What a power cut may leave behind is reckoned from the
 * record, without root, exactly, as often as wanted.
 */
#ifndef BLKUP_BLOCK_WRITER_MODEL_H
#define BLKUP_BLOCK_WRITER_MODEL_H

#include "block/writer.h"

/* A device that is the caller's size_bytes bytes, which must outlive it. sector_bytes: a power of two. NULL:
 * no memory. */
struct blkup_writer *blkup_writer_memory_new(uint8_t *bytes, uint64_t size_bytes, uint32_t sector_bytes);

enum blkup_write_event_kind { BLKUP_EVENT_WRITE, BLKUP_EVENT_ZERO, BLKUP_EVENT_FLUSH };

struct blkup_write_event {
        enum blkup_write_event_kind kind;
        uint64_t at, len;
        const uint8_t *bytes; /* of a write; the record's own */
};

/* Takes `inner` over and writes down what reaches it and was answered well. NULL: no memory (inner stays the
 * caller's). Without memory for an event the request itself fails with -ENOMEM. */
struct blkup_writer *blkup_writer_recorder_new(struct blkup_writer *inner);
const struct blkup_write_event *blkup_writer_recorder_events(const struct blkup_writer *w, size_t *ret_n);

/* Does an event to an image; of a write or zero only the 512-byte sectors [first, first + n). */
void blkup_write_event_apply(const struct blkup_write_event *e, uint8_t *image, uint64_t first, uint64_t n);
/* How many sectors an event touches. */
uint64_t blkup_write_event_sectors(const struct blkup_write_event *e);

enum blkup_write_fault {
        BLKUP_WRITE_FAULT_ERROR, /* answered with -error, nothing done */
        BLKUP_WRITE_FAULT_TORN,  /* the first half (rounded down to a sector) is done, then -error */
        BLKUP_WRITE_FAULT_SHORT, /* the first half is done, and that is the answer */
        BLKUP_WRITE_FAULT_LOST,  /* answered as done, nothing done */
};

struct blkup_write_fault_rule {
        enum blkup_write_fault what;
        enum blkup_write_event_kind on;
        uint64_t nth;     /* 1 (or 0): the first of its kind */
        bool is_for_good; /* all from it on */
        int error;        /* positive errno; 0: EIO */
};

/* Takes `inner` over. NULL: no memory (inner stays the caller's). */
struct blkup_writer *blkup_writer_fault_new(struct blkup_writer *inner,
                                            const struct blkup_write_fault_rule *rule);
uint64_t blkup_writer_fault_hits(const struct blkup_writer *w);

#endif
