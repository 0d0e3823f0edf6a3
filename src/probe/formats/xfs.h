/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The superblock of XFS, whose fields EXFS has too. */
#ifndef BLKUP_FORMATS_XFS_H
#define BLKUP_FORMATS_XFS_H

#include "probe/format.h"

/* Offsets in the superblock, big-endian but for the checksum. */
enum {
        BLKUP_XFS_BLOCK_BYTES = 4,
        BLKUP_XFS_BLOCKS = 8,        /* of the data section, 64 bits */
        BLKUP_XFS_UUID = 32,
        BLKUP_XFS_LABEL = 108,       /* 12 bytes */
        BLKUP_XFS_SECTOR_BYTES = 102, /* 16 bits */
};

/* Do the sizes in the superblock fit each other? sb holds at least 128 bytes. */
BLKUP_MUST_CHECK enum blkup_outcome blkup_xfs_check_geometry(struct blkup_view *v, struct blkup_bytes sb);

#endif
