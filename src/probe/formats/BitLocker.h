/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* BitLocker's boot sectors look like FAT's on purpose, so vfat asks first. */
#ifndef BLKUP_FORMATS_BITLOCKER_H
#define BLKUP_FORMATS_BITLOCKER_H

#include "probe/format.h"

/* BLKUP_FOUND when sector 0 is that of an encrypted volume whose metadata stand where it says. */
BLKUP_MUST_CHECK enum blkup_outcome blkup_bitlocker_is_boot_sector(struct blkup_view *v);

#endif
