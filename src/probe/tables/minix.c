/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * minix: four more entries, as in a master boot record, in the first sector of a DOS partition of type 0x81.
 * Source: Minix part(8). At the top level nothing tells them from a DOS table, so this one has no line in the
 * registry.
 */
#include "probe/tables/dos.h"
#include "probe/tables/nested.h"

#define TYPE_MINIX 0x81

enum blkup_outcome blkup_minix_list(struct blkup_view *v, struct blkup_nest *n, struct blkup_entries *e)
{
        struct blkup_bytes s;

        BLKUP_FETCH(v, n->start_sectors * 512, 512, &s);
        if (!blkup_equal_at(s, 510, "\x55\xaa", 2))
                return blkup_refuse(v, "no boot signature");
        for (unsigned i = 0; i < BLKUP_MBR_ENTRIES; i++) {
                struct blkup_mbr_entry m = blkup_mbr_entry(s, i);
                struct blkup_entry entry = {
                        .number = n->next_number,
                        .start_sectors = m.start,
                        .size_sectors = m.size,
                        .type = m.type,
                        .flags = m.boot,
                        .scheme = "minix",
                };

                if (m.type != TYPE_MINIX || !blkup_nest_holds(n, m.start, m.size))
                        continue;
                n->next_number++;
                if (!e->entry(e, &entry))
                        break;
        }
        return BLKUP_FOUND;
}
