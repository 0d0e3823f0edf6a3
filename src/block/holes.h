/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Inside the room: the holes of a sparse file. An image is mostly hole, and most of what a probe looks at is
 * in one; what is known to be zero is not read. Asking where the next data is takes 0.3 us, a read of a page
 * that no cache of the CPU holds more than a microsecond.
 */
#ifndef BLKUP_BLOCK_HOLES_H
#define BLKUP_BLOCK_HOLES_H

#include <stdbool.h>
#include <stdint.h>

struct blkup_holes {
        bool is_on;
        int questions; /* calls so far */
        /* What the last answers said; empty when from == to. */
        uint64_t hole_from, hole_to, data_from, data_to;
};

/* Are holes of this file worth looking for, and is its file system's word on them good? Costs one call.
 * size_bytes, blocks: as stat has them. */
void blkup_holes_init(struct blkup_holes *h, int fd, uint64_t size_bytes, uint64_t blocks);

/* Does all of [at, at + len) lie in a hole of the file as it is now? Moves the descriptor's offset. false:
 * no, or not known. */
bool blkup_holes_have(struct blkup_holes *h, int fd, uint64_t at, uint64_t len);

#endif
