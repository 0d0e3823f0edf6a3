/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tables that also, or only, stand inside a partition of a DOS table: its type byte says which. Their
 * partitions are listed behind the logical ones.
 */
#ifndef BLKUP_TABLES_NESTED_H
#define BLKUP_TABLES_NESTED_H

#include "probe/format.h"

/* Where the table stands, and what it counts from. At the top level start and size are 0. */
struct blkup_nest {
        uint64_t start_sectors, size_sectors; /* of the partition it is in, 512 bytes each */
        uint8_t type;                         /* of that partition */
        unsigned next_number;                 /* of the next partition to be listed */
};

/* Lists the partitions; each is left out that does not lie inside its parent. BLKUP_NOT_THIS and
 * BLKUP_DAMAGED: there is no such table. */
BLKUP_MUST_CHECK enum blkup_outcome blkup_bsd_list(struct blkup_view *v, struct blkup_nest *n,
                                                   struct blkup_entries *e);
BLKUP_MUST_CHECK enum blkup_outcome blkup_unixware_list(struct blkup_view *v, struct blkup_nest *n,
                                                        struct blkup_entries *e);
BLKUP_MUST_CHECK enum blkup_outcome blkup_solaris_list(struct blkup_view *v, struct blkup_nest *n,
                                                       struct blkup_entries *e);
BLKUP_MUST_CHECK enum blkup_outcome blkup_minix_list(struct blkup_view *v, struct blkup_nest *n,
                                                     struct blkup_entries *e);

/* Inside the parent, or anywhere when there is none. */
static inline bool blkup_nest_holds(const struct blkup_nest *n, uint64_t start, uint64_t size)
{
        return n->size_sectors == 0 ||
               (start >= n->start_sectors && start + size <= n->start_sectors + n->size_sectors);
}

#endif
