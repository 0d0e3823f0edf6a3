/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A handle around another one whose reads go wrong as told. A test lets the n-th read fail, be short, late
 * or changed, each n in turn, until a run sees no fault at all:
 *
 *      for (uint64_t n = 1; hits > 0; n++) { rule.nth = n; ... run ...; hits = blkup_block_fault_hits(b); }
 */
#ifndef BLKUP_BLOCK_FAULT_H
#define BLKUP_BLOCK_FAULT_H

#include "block/block.h"

enum blkup_fault {
        BLKUP_FAULT_ERROR,   /* the request is answered with -error, its buffer filled with rubbish */
        BLKUP_FAULT_SHORT,   /* at most short_bytes are answered, rubbish behind them */
        BLKUP_FAULT_LATE,    /* late_ns are added to its time; is_real: and slept */
        BLKUP_FAULT_CHANGED, /* the bytes that lie in the rule's range are inverted */
        BLKUP_FAULT_REFUSED, /* the batch is answered with -error as a whole; nth counts batches, no range */
};

/* Hits the nth request that touches the range, or all from it on. Zero fields have sensible meanings. */
struct blkup_fault_rule {
        enum blkup_fault what;
        uint64_t nth;        /* 1 (or 0) is the first. For "changed on the second read": the range that is
                              * read twice, nth 2 and is_for_good. */
        bool is_for_good;
        uint64_t at, len;    /* requests that touch these bytes are counted; len 0: all. An unreadable sector:
                              * ERROR, nth 1, is_for_good and its 512 bytes. */
        int error;           /* positive errno; 0: EIO */
        size_t short_bytes;
        uint64_t late_ns;
        bool is_real;
};

/*
 * Takes `inner` over: closing this closes it. The rules are copied, and each is looked at for each request.
 * NULL when memory is exhausted (inner stays the caller's).
 */
struct blkup_block *blkup_block_fault_new(struct blkup_block *inner, const struct blkup_fault_rule *rules,
                                          size_t n_rules);

/* How often a rule hit something so far. */
uint64_t blkup_block_fault_hits(const struct blkup_block *b);

#endif
