/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sgi: the volume header of IRIX disks, big-endian. Source: IRIX dvh(5). All words of the sector add up to 0.
 */
#include "probe/format.h"

enum { DVH_PARTITIONS = 312, DVH_LEN = 512 };
enum { ENT_BLOCKS = 0, ENT_FIRST = 4, ENT_TYPE = 8, ENT_LEN = 12 };

#define MAX_PARTITIONS 16u

static const struct blkup_magic magics[] = { { .len = 4, .bytes = "\x0b\xe5\xa9\x41" } };

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret,
                                struct blkup_entries *e)
{
        struct blkup_bytes h;
        uint32_t sum = 0;

        (void) hit;
        BLKUP_FETCH(v, 0, DVH_LEN, &h);
        for (size_t i = 0; i < DVH_LEN; i += 4)
                sum += blkup_be32_at(h, i);
        if (sum != 0)
                return blkup_damaged(v, "volume header checksum mismatch");
        blkup_found_evidence(ret, 32 + 32);
        for (unsigned i = 0; v->wants_partitions && i < MAX_PARTITIONS; i++) {
                size_t at = DVH_PARTITIONS + (size_t) i * ENT_LEN;
                struct blkup_entry entry = {
                        .number = i + 1,
                        .start_sectors = blkup_be32_at(h, at + ENT_FIRST),
                        .size_sectors = blkup_be32_at(h, at + ENT_BLOCKS),
                        .type = blkup_be32_at(h, at + ENT_TYPE),
                };

                if (entry.size_sectors != 0 && !e->entry(e, &entry))
                        break; /* an empty entry keeps its number */
        }
        return BLKUP_FOUND;
}

extern const struct blkup_table blkup_table_sgi;
const struct blkup_table blkup_table_sgi = {
        .name = "sgi", .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
