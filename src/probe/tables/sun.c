/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sun: the label of SPARC disks, big-endian. Source: Solaris dklabel(4) and kernel block/partitions/sun.c.
 * Partitions start at cylinders; all words of the sector are 0 when combined by exclusive or.
 */
#include "probe/format.h"

enum {
        SUN_VTOC_VERSION = 128, SUN_VTOC_PARTS = 140, SUN_VTOC_INFOS = 142, SUN_VTOC_SANITY = 188,
        SUN_HEADS = 436, SUN_SECTORS = 438, SUN_PARTITIONS = 444, SUN_MAGIC = 508, SUN_LEN = 512,
};
enum { INFO_TAG = 0, INFO_FLAGS = 2, INFO_LEN = 4 };
enum { ENT_CYLINDER = 0, ENT_SECTORS = 4, ENT_LEN = 8 };

#define VTOC_SANITY 0x600ddeeeu
#define MAX_PARTITIONS 8u
#define TAG_WHOLE_DISK 5u

static const struct blkup_magic magics[] = { { .within = SUN_MAGIC, .len = 2, .bytes = "\xda\xbe" } };

static void list(struct blkup_bytes l, struct blkup_entries *e)
{
        uint32_t sanity = blkup_be32_at(l, SUN_VTOC_SANITY), version = blkup_be32_at(l, SUN_VTOC_VERSION);
        uint16_t parts = blkup_be16_at(l, SUN_VTOC_PARTS);
        uint64_t cylinder = (uint64_t) blkup_be16_at(l, SUN_HEADS) * blkup_be16_at(l, SUN_SECTORS);
        bool valid = sanity == VTOC_SANITY && version == 1 && parts <= MAX_PARTITIONS;
        unsigned n = valid ? parts : MAX_PARTITIONS;
        /* Linux' own old labels left the table of contents blank, and its tags stand all the same. */
        bool tagged = valid || (sanity == 0 && version == 0 && parts == 0);

        for (unsigned i = 0; i < n; i++) {
                size_t info = SUN_VTOC_INFOS + (size_t) i * INFO_LEN,
                       at = SUN_PARTITIONS + (size_t) i * ENT_LEN;
                struct blkup_entry entry = {
                        .number = i + 1,
                        .start_sectors = blkup_be32_at(l, at + ENT_CYLINDER) * cylinder,
                        .size_sectors = blkup_be32_at(l, at + ENT_SECTORS),
                        .type = tagged ? blkup_be16_at(l, info + INFO_TAG) : 0,
                        .flags = tagged ? blkup_be16_at(l, info + INFO_FLAGS) : 0,
                };

                if (entry.type == TAG_WHOLE_DISK || entry.size_sectors == 0)
                        continue; /* keeps its number */
                if (!e->entry(e, &entry))
                        return;
        }
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret,
                                struct blkup_entries *e)
{
        struct blkup_bytes l;
        uint16_t sum = 0;

        (void) hit;
        BLKUP_FETCH(v, 0, SUN_LEN, &l);
        for (size_t i = 0; i < SUN_LEN; i += 2)
                sum = (uint16_t) (sum ^ blkup_be16_at(l, i));
        if (sum != 0)
                return blkup_damaged(v, "label checksum mismatch");
        blkup_found_evidence(ret, 16 + 16);
        if (v->wants_partitions)
                list(l, e);
        return BLKUP_FOUND;
}

extern const struct blkup_table blkup_table_sun;
const struct blkup_table blkup_table_sun = {
        .name = "sun", .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
