/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Trying one partition table; private to src/probe. */
#ifndef BLKUP_PROBE_TABLES_H
#define BLKUP_PROBE_TABLES_H

#include "probe/format.h"

/* Matches the magics of t and lets it look. e may be NULL when the view wants no partitions. */
BLKUP_MUST_CHECK enum blkup_outcome blkup_table_try(struct blkup_view *v, const struct blkup_table *t,
                                                    struct blkup_found *ret, struct blkup_entries *e);

/* Texts of an entry; table is the scheme of one that names none. */
void blkup_entry_to_partition(const struct blkup_entry *e, const char *table, struct blkup_partition *ret);

#endif
