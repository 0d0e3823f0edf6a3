/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * solaris: the table of contents that Solaris for x86 keeps in sector 1 of its DOS partition, little-endian.
 * Source: kernel block/partitions/msdos.c (struct solaris_x86_vtoc). Slices count from the partition's start.
 *
 * All slices that the table counts are listed; util-linux 2.43-devel leaves out the last of them.
 */
#include "probe/tables/nested.h"

enum {
        VTOC_AT = 512,
        VTOC_SANITY = 12,
        VTOC_VERSION = 16,
        VTOC_COUNT = 30,
        VTOC_SLICES = 72,
        VTOC_LEN = 264
};
enum { ENT_TAG = 0, ENT_FLAGS = 2, ENT_START = 4, ENT_SIZE = 8, ENT_LEN = 12 };

#define MAX_SLICES 16u
#define TAG_WHOLE_DISK 5u

static const struct blkup_magic magics[] = {
        { .at = VTOC_AT, .within = VTOC_SANITY, .len = 4, .bytes = "\xee\xde\x0d\x60" },
};

static enum blkup_outcome look(struct blkup_view *v, struct blkup_nest *n, struct blkup_entries *e)
{
        struct blkup_bytes l;
        unsigned count;

        BLKUP_FETCH(v, n->start_sectors * 512 + VTOC_AT, VTOC_LEN, &l);
        if (!blkup_equal_at(l, VTOC_SANITY, magics[0].bytes, 4))
                return blkup_refuse(v, "no table of contents");
        if (blkup_le32_at(l, VTOC_VERSION) != 1)
                return blkup_refuse(v, "version is not 1");
        count = (unsigned) blkup_min(blkup_le16_at(l, VTOC_COUNT), MAX_SLICES);
        for (unsigned i = 0; v->wants_partitions && i < count; i++) {
                size_t p = VTOC_SLICES + (size_t) i * ENT_LEN;
                uint16_t tag = blkup_le16_at(l, p + ENT_TAG);
                struct blkup_entry entry = {
                        .number = n->next_number,
                        .start_sectors = n->start_sectors + blkup_le32_at(l, p + ENT_START),
                        .size_sectors = blkup_le32_at(l, p + ENT_SIZE),
                        .type = tag,
                        .flags = blkup_le16_at(l, p + ENT_FLAGS),
                        .scheme = "solaris",
                };

                if (tag == TAG_WHOLE_DISK || entry.size_sectors == 0 ||
                    !blkup_nest_holds(n, entry.start_sectors, entry.size_sectors))
                        continue;
                n->next_number++;
                if (!e->entry(e, &entry))
                        break;
        }
        return BLKUP_FOUND;
}

enum blkup_outcome blkup_solaris_list(struct blkup_view *v, struct blkup_nest *n, struct blkup_entries *e)
{
        return look(v, n, e);
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret,
                                struct blkup_entries *e)
{
        struct blkup_nest top = { .next_number = 1 };

        (void) hit;
        blkup_found_evidence(ret, 32 + 32);
        return look(v, &top, e);
}

extern const struct blkup_table blkup_table_solaris;
const struct blkup_table blkup_table_solaris = {
        .name = "solaris", .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
