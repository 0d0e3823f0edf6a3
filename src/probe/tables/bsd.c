/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * bsd: the disk label of FreeBSD, NetBSD and OpenBSD, little-endian. Source: disklabel(5). It usually stands
 * in sector 1 of a DOS partition whose type says which system's it is; Alpha and VAX have it at byte 64,
 * SPARC at 128.
 *
 * It is a list of partitions only: util-linux prints no PTTYPE for it, so nothing is found where no list is
 * wanted.
 */
#include "probe/tables/nested.h"

enum { LABEL_CHECKSUM = 136, LABEL_COUNT = 138, LABEL_PARTITIONS = 148, LABEL_LEN = 404 };
enum { ENT_SIZE = 0, ENT_START = 4, ENT_TYPE = 12, ENT_LEN = 16 };
enum { TYPE_FREEBSD = 0xa5, TYPE_OPENBSD = 0xa6, TYPE_NETBSD = 0xa9 };

#define MAX_PARTITIONS 16u
#define RAW_PARTITION 2u /* "c": the whole of it */

static const struct blkup_magic magics[] = {
        { .at = 512, .len = 4, .bytes = "\x57\x45\x56\x82" },
        { .at = 64, .len = 4, .bytes = "\x57\x45\x56\x82" },
        { .at = 128, .len = 4, .bytes = "\x57\x45\x56\x82" },
};

static const char *scheme_of(const struct blkup_nest *n)
{
        if (n->size_sectors == 0)
                return NULL;
        return n->type == TYPE_FREEBSD ? "freebsd" :
               n->type == TYPE_NETBSD  ? "netbsd" :
               n->type == TYPE_OPENBSD ? "openbsd" : "bsd";
}

static enum blkup_outcome list_label(struct blkup_view *v, uint64_t at, struct blkup_nest *n,
                                     struct blkup_entries *e)
{
        uint64_t from = 0;
        struct blkup_bytes l;
        uint16_t sum = 0;
        unsigned count;

        BLKUP_FETCH(v, at, LABEL_LEN, &l);
        for (size_t i = 0; i < LABEL_LEN; i += 2)
                sum = (uint16_t) (sum ^ (i == LABEL_CHECKSUM ? 0 : blkup_le16_at(l, i)));
        if (sum != blkup_le16_at(l, LABEL_CHECKSUM))
                return blkup_damaged(v, "label checksum mismatch");
        count = (unsigned) blkup_min(blkup_le16_at(l, LABEL_COUNT), MAX_PARTITIONS);
        /* FreeBSD counts from its own start since version 10: then the whole starts at 0. */
        if (n->type == TYPE_FREEBSD && count > RAW_PARTITION &&
            blkup_le32_at(l, LABEL_PARTITIONS + RAW_PARTITION * ENT_LEN + ENT_START) == 0)
                from = n->start_sectors;
        for (unsigned i = 0; i < count; i++) {
                size_t p = LABEL_PARTITIONS + (size_t) i * ENT_LEN;
                struct blkup_entry entry = {
                        .number = n->next_number,
                        .start_sectors = from + blkup_le32_at(l, p + ENT_START),
                        .size_sectors = blkup_le32_at(l, p + ENT_SIZE),
                        .type = blkup_u8_at(l, p + ENT_TYPE),
                        .scheme = scheme_of(n),
                };

                if (entry.type == 0 || !blkup_nest_holds(n, entry.start_sectors, entry.size_sectors) ||
                    (n->size_sectors != 0 && entry.start_sectors == n->start_sectors &&
                     entry.size_sectors == n->size_sectors))
                        continue; /* unused, outside, or the parent once more */
                n->next_number++;
                if (!e->entry(e, &entry))
                        break;
        }
        return BLKUP_FOUND;
}

enum blkup_outcome blkup_bsd_list(struct blkup_view *v, struct blkup_nest *n, struct blkup_entries *e)
{
        struct blkup_bytes head;

        /* The label is somewhere in the first two sectors. */
        BLKUP_FETCH(v, n->start_sectors * 512, 1024, &head);
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(magics); i++)
                if (blkup_equal_at(head, magics[i].at, magics[i].bytes, magics[i].len))
                        return list_label(v, head.at + magics[i].at, n, e);
        return blkup_refuse(v, "no label");
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret,
                                struct blkup_entries *e)
{
        struct blkup_nest top = { .next_number = 1 };

        if (!v->wants_partitions)
                return blkup_refuse(v, "a label is no table by itself");
        blkup_found_evidence(ret, 32 + 16);
        return list_label(v, hit->base, &top, e);
}

extern const struct blkup_table blkup_table_bsd;
const struct blkup_table blkup_table_bsd = {
        .name = "bsd", .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
