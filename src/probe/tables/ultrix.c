/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ultrix: the label of DEC's disks, 72 bytes at the end of the boot area of 16 KiB. Source: kernel
 * block/partitions/ultrix.c. The machines that wrote it were little-endian.
 */
#include "probe/format.h"

enum { LABEL_AT = 16384 - 72, LABEL_PARTITIONS = 8, LABEL_LEN = 72 };
enum { ENT_BLOCKS = 0, ENT_START = 4, ENT_LEN = 8 };

#define MAX_PARTITIONS 8u

static const struct blkup_magic magics[] = {
        { .at = LABEL_AT,
          .len = 8,
          .bytes = "\x57\x29\x03\x00\x01\x00\x00\x00" }, /* the magic, then "valid" */
};

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret,
                                struct blkup_entries *e)
{
        struct blkup_bytes l;

        BLKUP_FETCH(v, hit->base, LABEL_LEN, &l);
        blkup_found_evidence(ret, 64);
        for (unsigned i = 0; v->wants_partitions && i < MAX_PARTITIONS; i++) {
                size_t at = LABEL_PARTITIONS + (size_t) i * ENT_LEN;
                struct blkup_entry entry = {
                        .number = i + 1,
                        .start_sectors = blkup_le32_at(l, at + ENT_START),
                        .size_sectors = blkup_le32_at(l, at + ENT_BLOCKS),
                };

                if (entry.size_sectors != 0 && !e->entry(e, &entry))
                        break; /* an empty entry keeps its number */
        }
        return BLKUP_FOUND;
}

extern const struct blkup_table blkup_table_ultrix;
const struct blkup_table blkup_table_ultrix = {
        .name = "ultrix", .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
