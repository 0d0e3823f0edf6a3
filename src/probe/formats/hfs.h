/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The master directory block of HFS, which may also be the wrapper of an HFS+ volume. */
#ifndef BLKUP_FORMATS_HFS_H
#define BLKUP_FORMATS_HFS_H

#include "probe/format.h"

#define BLKUP_HFS_MDB_AT 1024

/* Offsets in the master directory block, big-endian. */
enum {
        BLKUP_HFS_ALLOC_BYTES = 20,   /* of an allocation block */
        BLKUP_HFS_FIRST_ALLOC = 28,   /* 16 bits, in sectors of 512 bytes */
        BLKUP_HFS_EMBED_SIGN = 124,   /* H+ or HX when an HFS+ volume is inside */
        BLKUP_HFS_EMBED_START = 126,  /* 16 bits, in allocation blocks */
};

bool blkup_hfs_is_wrapper(struct blkup_bytes mdb);

/* UUID of the eight bytes that Finder keeps as the volume's identifier; absent when they are zero. */
void blkup_hfs_add_uuid(struct blkup_found *ret, struct blkup_bytes id);

#endif
