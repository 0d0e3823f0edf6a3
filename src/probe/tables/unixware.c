/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * unixware: the label of SCO's UnixWare in sector 29 of its DOS partition, little-endian. Source: SCO
 * vtoc(7). Slices count from the start of the disk; the first one is the whole.
 *
 * util-linux 2.43-devel looks for the label's magic at byte 29174 by a slip of arithmetic and so finds none;
 * sector 29 is what the format says.
 */
#include "probe/tables/nested.h"

enum { LABEL_AT = 29 * 512, LABEL_MAGIC = 4, LABEL_VTOC_MAGIC = 156, LABEL_SLICES = 216, LABEL_LEN = 408 };
enum { ENT_TAG = 0, ENT_FLAGS = 2, ENT_START = 4, ENT_SIZE = 8, ENT_LEN = 12 };

#define MAX_SLICES 16u
#define VTOC_MAGIC 0x600ddeeeu
#define FLAG_VALID 0x0200u
#define TAG_UNUSED 0u
#define TAG_WHOLE_DISK 5u

static const struct blkup_magic magics[] = {
        { .at = LABEL_AT, .within = LABEL_MAGIC, .len = 4, .bytes = "\x0d\x60\xe5\xca" },
};

static enum blkup_outcome look(struct blkup_view *v, struct blkup_nest *n, struct blkup_entries *e)
{
        struct blkup_bytes l;

        BLKUP_FETCH(v, n->start_sectors * 512 + LABEL_AT, LABEL_LEN, &l);
        if (!blkup_equal_at(l, LABEL_MAGIC, magics[0].bytes, 4))
                return blkup_refuse(v, "no label");
        if (blkup_le32_at(l, LABEL_VTOC_MAGIC) != VTOC_MAGIC)
                return blkup_refuse(v, "no table of contents in the label");
        for (unsigned i = 1; v->wants_partitions && i < MAX_SLICES; i++) {
                size_t p = LABEL_SLICES + (size_t) i * ENT_LEN;
                uint16_t tag = blkup_le16_at(l, p + ENT_TAG), flags = blkup_le16_at(l, p + ENT_FLAGS);
                struct blkup_entry entry = {
                        .number = n->next_number,
                        .start_sectors = blkup_le32_at(l, p + ENT_START),
                        .size_sectors = blkup_le32_at(l, p + ENT_SIZE),
                        .type = tag,
                        .flags = flags,
                        .scheme = "unixware",
                };

                if (tag == TAG_UNUSED || tag == TAG_WHOLE_DISK || flags != FLAG_VALID ||
                    !blkup_nest_holds(n, entry.start_sectors, entry.size_sectors))
                        continue;
                n->next_number++;
                if (!e->entry(e, &entry))
                        break;
        }
        return BLKUP_FOUND;
}

enum blkup_outcome blkup_unixware_list(struct blkup_view *v, struct blkup_nest *n, struct blkup_entries *e)
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

extern const struct blkup_table blkup_table_unixware;
const struct blkup_table blkup_table_unixware = {
        .name = "unixware", .min_bytes = 1474561,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
