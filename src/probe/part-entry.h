/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* PART_ENTRY_*: which entry of the whole disk's table a partition is. Private to src/probe. */
#ifndef BLKUP_PROBE_PART_ENTRY_H
#define BLKUP_PROBE_PART_ENTRY_H

#include "probe/engine.h"

/* The partition that is looked for in a table. */
struct blkup_part_wanted {
        bool by_number; /* device-mapper: the start is not known, the number is */
        unsigned number;
        uint64_t start_sectors, size_sectors;
};

/* Fills p->entry when p->block is a partition whose entry is found on its disk. */
void blkup_part_entry_find(struct blkup_probe *p);

/* Looks for the entry in the table on p->block; the view is that device's afterwards, the result stays. */
BLKUP_MUST_CHECK bool blkup_part_entry_search(struct blkup_probe *p, const struct blkup_part_wanted *w,
                                              struct blkup_partition *ret);

#endif
