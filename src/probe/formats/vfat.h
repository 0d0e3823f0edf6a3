/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The FAT boot sector, which also vetoes a DOS partition table. */
#ifndef BLKUP_FORMATS_VFAT_H
#define BLKUP_FORMATS_VFAT_H

#include "probe/format.h"

/* Is sector 0 the boot sector of a FAT file system? BLKUP_FOUND: yes. */
BLKUP_MUST_CHECK enum blkup_outcome blkup_vfat_is_boot_sector(struct blkup_view *v);

#endif
