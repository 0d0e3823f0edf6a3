/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the two generations of LVM share. */
#ifndef BLKUP_FORMATS_LVM_H
#define BLKUP_FORMATS_LVM_H

#include "probe/format.h"

#define BLKUP_LVM_ID_LEN 32u

/* UUID of a physical volume: 32 characters, printed in groups of 6-4-4-4-4-4-6. */
void blkup_lvm_uuid(struct blkup_found *ret, struct blkup_bytes id);

#endif
