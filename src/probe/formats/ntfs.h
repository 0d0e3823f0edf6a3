/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The NTFS boot sector, which also vetoes a DOS partition table. */
#ifndef BLKUP_FORMATS_NTFS_H
#define BLKUP_FORMATS_NTFS_H

#include "probe/format.h"

/* Is sector 0 the boot sector of an NTFS that has a master file table? BLKUP_FOUND: yes. */
BLKUP_MUST_CHECK enum blkup_outcome blkup_ntfs_is_boot_sector(struct blkup_view *v);

#endif
