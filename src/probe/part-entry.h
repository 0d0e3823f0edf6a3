/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* PART_ENTRY_*: which entry of the whole disk's table a partition is. Private to src/probe. */
#ifndef BLKUP_PROBE_PART_ENTRY_H
#define BLKUP_PROBE_PART_ENTRY_H

#include "probe/engine.h"

/* Fills p->entry when p->block is a partition whose entry is found on its disk. */
void blkup_part_entry_find(struct blkup_probe *p);

#endif
