/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Fields of a superblock that was fetched: what many formats write the same way. */
#ifndef BLKUP_FORMATS_FIELDS_H
#define BLKUP_FORMATS_FIELDS_H

#include "probe/format.h"

/* The part [off, off + n) of s; an empty one when it is not all inside. Made for the adders of blkup_found.
 */
static inline struct blkup_bytes blkup_slice_at(struct blkup_bytes s, size_t off, size_t n)
{
        struct blkup_bytes part;

        if (blkup_sub_bytes(s, off, n, &part))
                return part;
        return (struct blkup_bytes){ .data = (const uint8_t *) "", .at = s.at, .len = 0 };
}

/* Integers of a format that exists in both byte orders. */
static inline uint16_t blkup_u16_at(struct blkup_bytes s, size_t off, enum blkup_order order)
{
        return order == BLKUP_LITTLE_ENDIAN ? blkup_le16_at(s, off) : blkup_be16_at(s, off);
}

static inline uint32_t blkup_u32_at(struct blkup_bytes s, size_t off, enum blkup_order order)
{
        return order == BLKUP_LITTLE_ENDIAN ? blkup_le32_at(s, off) : blkup_be32_at(s, off);
}

static inline uint64_t blkup_u64_at(struct blkup_bytes s, size_t off, enum blkup_order order)
{
        return order == BLKUP_LITTLE_ENDIAN ? blkup_le64_at(s, off) : blkup_be64_at(s, off);
}

/* FSBLOCKSIZE and BLOCK_SIZE of a format whose blocks are what its driver reads. */
static inline void blkup_found_block_size(struct blkup_found *f, uint64_t bytes)
{
        blkup_found_u64(f, "FSBLOCKSIZE", bytes);
        blkup_found_u64(f, "BLOCK_SIZE", bytes);
}

static inline void blkup_found_endianness(struct blkup_found *f, enum blkup_order order)
{
        blkup_found_string(f, "ENDIANNESS", order == BLKUP_LITTLE_ENDIAN ? "LITTLE" : "BIG");
}

#endif
