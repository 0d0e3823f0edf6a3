/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Making ranges read as zeroes, in the way that was asked for: what is already zero is left alone, offload
 * where it was asked for and works, direct writes elsewhere.
 */
#ifndef BLKUP_LAZYINIT_ZERO_H
#define BLKUP_LAZYINIT_ZERO_H

#include <blkup/lazyinit.h>

#include "block/writer.h"

#define BLKUP_LAZY_IN_FLIGHT_DEFAULT 8u
#define BLKUP_LAZY_IN_FLIGHT_MAX 32u

struct blkup_lazy_zero {
        struct blkup_writer *writer;
        enum blkup_lazyinit_strategy strategy;
        enum blkup_lazyinit_allocation allocation;
        unsigned in_flight;
        const volatile int *stop; /* looked at between requests; NULL: never */
        bool one_at_a_time;       /* background: one request in flight */
        bool may_be_thin;         /* a device where zeroes written to what was never written take space */

        uint64_t already_zero, written, offloaded, punched, requests, refusals; /* bytes; requests: writes and
                                                                                 * offloads */
        bool is_dirty; /* something was written since the last flush */

        /* Own. */
        uint8_t *zeroes, *reads;
        /* Reading before writing on a device: how much of it paid, and how much is written unseen before it
         * is tried again. */
        uint64_t compare_skip, compare_penalty;
        unsigned refused_in_a_row;
};

/* The first block of fields is set, but for in_flight perhaps; fills the rest. -ENOMEM. */
BLKUP_MUST_CHECK int blkup_lazy_zero_init(struct blkup_lazy_zero *z);
void blkup_lazy_zero_done(struct blkup_lazy_zero *z);

/*
 * Makes [at, at + len) zero. *ret_done: how much of it is (all, or less when stopped or after an error; what
 * is behind it may be partly zeroed). 0 or a negative errno.
 */
BLKUP_MUST_CHECK int blkup_lazy_zero_range(struct blkup_lazy_zero *z, uint64_t at, uint64_t len,
                                           uint64_t *ret_done);

/* Reads [at, at + len): *ret_zero false as soon as something else than a zero is there. */
BLKUP_MUST_CHECK int blkup_lazy_is_zero(struct blkup_lazy_zero *z, uint64_t at, uint64_t len, bool *ret_zero);

/* How many bytes of [at, at + len) are allocated in a file (of a device: all). */
BLKUP_MUST_CHECK int blkup_lazy_allocated(struct blkup_writer *w, uint64_t at, uint64_t len, uint64_t *ret);

#endif
