/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The geometry of one device, shared by threads: size, logical sector, soft block size, the blocks of that
 * size that are cached, and how many mappings hold the size in place. The block size may change while others
 * read.
 *
 * Who reads takes a read lock of blkup_rwsem, which costs nothing, and sees size and data of one moment: no
 * read ever mixes two sizes. Who changes the size takes the write lock, and only when the size really
 * changes: in 2012 each mount set the size that was set already, and paid 0.15 to 0.5 s of grace periods for
 * it.
 */
#ifndef BLKUP_BLOCK_GEOMETRY_H
#define BLKUP_BLOCK_GEOMETRY_H

#include <blkup/rwsem.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"

struct blkup_geometry; /* opaque */

#define BLKUP_BLOCK_BYTES_MIN 512u
#define BLKUP_BLOCK_BYTES_MAX 65536u      /* what Linux 6.18 takes; older kernels: the page size */
#define BLKUP_BLOCK_BYTES_USUAL_MAX 4096u /* the default is never larger */

/* The device below, whole and aligned blocks only (the last one of the device may be cut by its end). Called
 * by several threads at a time, never twice at a time for the same bytes. 0 or negative errno. */
struct blkup_geometry_device {
        int (*read)(void *to_device, uint64_t at, void *to, size_t len);
        int (*write)(void *to_device, uint64_t at, const void *from, size_t len); /* NULL: read-only */
        void *to_device;
        uint64_t size_bytes;
        uint32_t logical_sector_bytes; /* power of two, 512 to 65536 */
};

/* All of one moment. */
struct blkup_geometry_facts {
        uint64_t size_bytes;
        uint32_t logical_sector_bytes, block_bytes;
        uint32_t mappings;
        uint32_t cached, dirty; /* blocks */
        uint64_t changes;       /* of the block size, so far */
        uint64_t unchanged;     /* calls that found the size set already: without lock, */
        uint64_t unchanged_late; /* and under the lock, because another thread was faster */
};

/* The largest power of two up to 4096 that divides the device, at least the logical sector. */
uint32_t blkup_geometry_default_block_bytes(uint64_t size_bytes, uint32_t logical_sector_bytes);

/*
 * The geometry of a device, block size as above, nothing cached. d is copied. cache_bytes bounds what is
 * cached (0 = 1 MiB; there is always room for 64 blocks). lock: options of the lock, NULL for the usual ones.
 * -EINVAL: no such sector size; -ENOMEM; and what blkup_rwsem_new() says.
 */
BLKUP_MUST_CHECK int blkup_geometry_new(struct blkup_geometry **ret, const struct blkup_geometry_device *d,
                                        size_t cache_bytes, const struct blkup_rwsem_options *lock,
                                        struct blkup_error *err);

/* Drops what is cached, written out or not (blkup_geometry_flush() first). NULL-safe; returns NULL. */
struct blkup_geometry *blkup_geometry_unref(struct blkup_geometry *g);

/* Each function from here on may also answer with the errors of a read or write lock: see <blkup/rwsem.h>. */
BLKUP_MUST_CHECK int blkup_geometry_get(struct blkup_geometry *g, struct blkup_geometry_facts *ret);

/*
 * Sets the block size. The same size: 0, without a lock. Else: under the write lock it is looked at again,
 * dirty blocks are written out, all blocks of the old size dropped, and then the new size becomes visible.
 * -EINVAL: no power of two, not within 512 to 65536, or below the logical sector; -EBUSY: mappings exist; an
 * error of the device's write: the size stays as it was, and what could not be written stays cached and
 * dirty.
 */
BLKUP_MUST_CHECK int blkup_geometry_set_block_bytes(struct blkup_geometry *g, uint32_t block_bytes);

/*
 * Reads block `number`, as the blocks are numbered at that moment: data and the size that belongs to it under
 * one read lock. to: cap bytes. *ret_len: bytes read, less than a block only in the last one.
 * *ret_block_bytes may be read instead of asking before, where another answer could be out of date. -ENXIO:
 * behind the device; -ENOBUFS: cap is smaller than a block; errors of the device; -ENOMEM.
 */
BLKUP_MUST_CHECK int blkup_geometry_read(struct blkup_geometry *g, uint64_t number, void *to, size_t cap,
                                         size_t *ret_len, uint32_t *ret_block_bytes);

/*
 * Changes block `number` of size block_bytes in the cache; it is written out when it has to make room, by
 * blkup_geometry_flush(), or by a change of size. len: a whole block, or what the device has of the last one.
 * -ESTALE: the block size is another one by now; -EROFS; -ENXIO; -EINVAL: len; errors of the device; -ENOMEM.
 */
BLKUP_MUST_CHECK int blkup_geometry_write(struct blkup_geometry *g, uint64_t number, uint32_t block_bytes,
                                          const void *from, size_t len);

/* Writes out what is dirty. The first error; the others are tried all the same. */
BLKUP_MUST_CHECK int blkup_geometry_flush(struct blkup_geometry *g);

/* Holds the block size in place until blkup_geometry_unmap(); *ret_block_bytes: which one. -EOVERFLOW. */
BLKUP_MUST_CHECK int blkup_geometry_map(struct blkup_geometry *g, uint32_t *ret_block_bytes);
void blkup_geometry_unmap(struct blkup_geometry *g);

/* The lock's counters and policy, for measurements. */
struct blkup_rwsem *blkup_geometry_lock(struct blkup_geometry *g);

#endif
