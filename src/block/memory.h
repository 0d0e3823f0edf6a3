/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A device in memory: a list of pieces (offset, bytes) in a device of a given size, with zeroes between them.
 * A superblock at the end of 8 TiB costs its own bytes, so a fuzz input or a test image is as small as what
 * it says.
 *
 * Pieces refer to the caller's bytes, which must stay until the handle is closed. Where pieces overlap, the
 * later one is seen. Reading allocates nothing; the first BLKUP_BLOCK_MEMORY_PIECES pieces need no allocation
 * either.
 */
#ifndef BLKUP_BLOCK_MEMORY_H
#define BLKUP_BLOCK_MEMORY_H

#include "block/block.h"

#define BLKUP_BLOCK_MEMORY_PIECES 8

struct blkup_block_piece {
        uint64_t at;
        size_t len;
        const uint8_t *bytes;
};

/* Public so that it can stand in another struct or on the stack; the fields are this module's own. */
struct blkup_block_memory {
        struct blkup_block block;
        struct blkup_block_piece *pieces; /* sorted by at, without overlap */
        size_t n, room;
        struct blkup_block_piece inline_pieces[BLKUP_BLOCK_MEMORY_PIECES];
};

/* Fills *m, an empty device; sector_bytes is a power of two. blkup_block_close(&m->block) frees only what
 * _add() needed. */
void blkup_block_memory_init(struct blkup_block_memory *m, uint64_t size_bytes, uint32_t sector_bytes);

/* The same, allocated; NULL when memory is exhausted. */
struct blkup_block *blkup_block_memory_new(uint64_t size_bytes, uint32_t sector_bytes);

/*
 * Lays len bytes over the device at `at`; b comes from one of the two above. -ERANGE: reaches past the end;
 * -ENOMEM: the list could not grow (nothing is changed).
 */
BLKUP_MUST_CHECK int blkup_block_memory_add(struct blkup_block *b, uint64_t at, const void *bytes,
                                            size_t len);

/* Forgets all pieces and gives the device another size: for the next input, without freeing what the list
 * has. */
void blkup_block_memory_reset(struct blkup_block *b, uint64_t size_bytes);

#endif
