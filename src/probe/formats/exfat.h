/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The exFAT boot sector, which also vetoes a DOS partition table. */
#ifndef BLKUP_FORMATS_EXFAT_H
#define BLKUP_FORMATS_EXFAT_H

#include "probe/format.h"

/* Is sector 0 the boot sector of an exFAT file system, its checksum right? BLKUP_FOUND: yes. */
BLKUP_MUST_CHECK enum blkup_outcome blkup_exfat_is_boot_sector(struct blkup_view *v);

#endif
