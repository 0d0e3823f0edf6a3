/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * dasd: the volume label of ECKD disks of IBM's mainframes, big-endian and in EBCDIC. Source: IBM "z/OS
 * DFSMSdfp Advanced Services" (volume table of contents) and kernel block/partitions/ibm.c. A disk in the
 * compatible layout has a table of contents with up to three partitions, counted in cylinders and heads; one
 * in the linux layout, or one of CMS, is a single partition.
 */
#include "probe/formats/fields.h"

/* Volume label, in block 2. */
enum { CDL_VOLSER = 8, CDL_LEN = 14 };
enum { LDL_VOLSER = 4, LDL_VERSION = 79, LDL_BLOCKS = 80, LDL_LEN = 88 };
#define VOLSER_LEN 6u
#define LDL_WITH_BLOCKS 0xf2u /* the version (a digit in EBCDIC) from which the number of blocks is there */
#define LABEL_BLOCKS 3u       /* boot records and label stand before the partition */

/* Format 4: the contents of the table itself. */
enum { F4_ID = 44, F4_CYLINDERS = 62, F4_HEADS = 64, F4_LONG_CYLINDERS = 136, F4_LEN = 140 };
/* Formats 1 and 8: a data set, which is a partition; its first extent from cylinder and head to cylinder and
 * head. */
enum { F1_NAME = 0, F1_ID = 44, F1_FROM = 107, F1_TO = 111, F1_LEN = 115 };
#define NAME_LEN 44u
#define ID_F1 0xf1u
#define ID_F4 0xf4u
#define ID_F8 0xf8u
#define LONG_VOLUME 0xfffeu /* cylinders: look at F4_LONG_CYLINDERS */

#define FIRST_F4_BLOCK \
        3u /* format 4 begins the second track; how many blocks the first one has shows where it is */
#define LAST_F4_BLOCK 20u
#define SCANNED_BLOCKS 20u
#define MAX_PARTITIONS 3u

#define VOL1 "\xe5\xd6\xd3\xf1"
#define LNX1 "\xd3\xd5\xe7\xf1"
#define CMS1 "\xc3\xd4\xe2\xf1"
#define ROWS(block) \
        { .at = 2u * (block), .within = 4, .len = 4, .bytes = VOL1 }, \
        { .at = 2u * (block), .len = 4, .bytes = LNX1 }, \
        { .at = 2u * (block), .len = 4, .bytes = CMS1 }
static const struct blkup_magic magics[] = {
        { .at = 2, .anchor = BLKUP_FROM_SECTOR, .within = 4, .len = 4, .bytes = VOL1 },
        { .at = 2, .anchor = BLKUP_FROM_SECTOR, .len = 4, .bytes = LNX1 },
        { .at = 2, .anchor = BLKUP_FROM_SECTOR, .len = 4, .bytes = CMS1 },
        ROWS(4096), ROWS(2048), ROWS(1024), ROWS(512),
};

/* The characters of a name: capitals, digits, and the few signs that data sets may have. Others become '?'.
 */
static char from_ebcdic(uint8_t c)
{
        if (c >= 0xc1 && c <= 0xc9)
                return (char) ('A' + (c - 0xc1));
        if (c >= 0xd1 && c <= 0xd9)
                return (char) ('J' + (c - 0xd1));
        if (c >= 0xe2 && c <= 0xe9)
                return (char) ('S' + (c - 0xe2));
        if (c >= 0x81 && c <= 0x89)
                return (char) ('a' + (c - 0x81));
        if (c >= 0x91 && c <= 0x99)
                return (char) ('j' + (c - 0x91));
        if (c >= 0xa2 && c <= 0xa9)
                return (char) ('s' + (c - 0xa2));
        if (c >= 0xf0 && c <= 0xf9)
                return (char) ('0' + (c - 0xf0));
        switch (c) {
        case 0x00:
                return '\0';
        case 0x40:
                return ' ';
        case 0x4b:
                return '.';
        case 0x5b:
                return '$';
        case 0x60:
                return '-';
        case 0x6d:
                return '_';
        case 0x7b:
                return '#';
        case 0x7c:
                return '@';
        default:
                return '?';
        }
}

static size_t decode(struct blkup_bytes s, char *out)
{
        for (size_t i = 0; i < s.len; i++)
                out[i] = from_ebcdic(s.data[i]);
        return blkup_rtrim(out, strnlen(out, s.len));
}

struct volume {
        struct blkup_view *v;
        uint64_t block, track_blocks, heads;
        bool is_long;
};

static enum blkup_outcome find_f4(struct volume *vol)
{
        enum blkup_outcome answer = BLKUP_NOT_THIS;

        for (uint64_t b = FIRST_F4_BLOCK; b <= LAST_F4_BLOCK; b++) {
                struct blkup_bytes f4;
                enum blkup_outcome o;

                /* As many of those ahead as one round takes: 3390 disks have it in block 12. */
                for (uint64_t k = b; k <= LAST_F4_BLOCK && k < b + BLKUP_VIEW_NEEDS; k++)
                        blkup_view_want(vol->v, k * vol->block, F4_LEN);
                o = blkup_view_get(vol->v, b * vol->block, F4_LEN, &f4);
                if (o == BLKUP_NEED)
                        return o;
                if (o == BLKUP_UNREADABLE)
                        answer = o;
                if (o != BLKUP_FOUND || blkup_u8_at(f4, F4_ID) != ID_F4 ||
                    !blkup_is_filled(f4, 0, F4_ID, 0x04))
                        continue;
                vol->track_blocks = b;
                vol->heads = blkup_be16_at(f4, F4_HEADS);
                vol->is_long = blkup_be16_at(f4, F4_CYLINDERS) == LONG_VOLUME &&
                               blkup_be32_at(f4, F4_LONG_CYLINDERS) > LONG_VOLUME;
                return vol->heads == 0 ? blkup_refuse(vol->v, "table of contents without heads")
                                       : BLKUP_FOUND;
        }
        return answer;
}

/* A cylinder and a head as a track. Long volumes keep the cylinder's upper 12 bits above the head's 4. */
static uint64_t track_of(const struct volume *vol, struct blkup_bytes f1, size_t at)
{
        uint32_t cylinder = blkup_be16_at(f1, at), head = blkup_be16_at(f1, at + 2);

        if (vol->is_long) {
                cylinder |= (head & 0xfff0) << 12;
                head &= 0xf;
        }
        return cylinder * vol->heads + head;
}

/* false: nothing that could be a partition stands there, or the listener has heard enough. */
static bool tell(const struct volume *vol, struct blkup_bytes f1, unsigned number, struct blkup_entries *e)
{
        uint64_t from = track_of(vol, f1, F1_FROM), to = track_of(vol, f1, F1_TO);
        uint64_t track_sectors = vol->track_blocks * vol->block / 512;
        struct blkup_entry entry = { .number = number };
        struct blkup_bytes name;
        char text[NAME_LEN];
        size_t len, dot;

        if (to <= from)
                return false;
        name = blkup_slice_at(f1, F1_NAME, NAME_LEN);
        entry.start_sectors = from * track_sectors;
        entry.size_sectors = (to - from + 1) * track_sectors;
        /* Its last part is the type: LINUX.V0X3726.PART0001.NATIVE */
        len = dot = decode(name, text);
        while (dot > 0 && text[dot - 1] != '.')
                dot--;
        if (dot > 0)
                entry.name = (struct blkup_bytes){ .data = (const uint8_t *) text, .len = dot - 1 };
        entry.type_text = (struct blkup_bytes){ .data = (const uint8_t *) text + dot, .len = len - dot };
        return e->entry(e, &entry);
}

static enum blkup_outcome list_cdl(struct blkup_view *v, uint64_t block, struct blkup_entries *e)
{
        struct volume vol = { .v = v, .block = block };
        enum blkup_outcome o = find_f4(&vol);
        unsigned number = 1;

        if (o != BLKUP_FOUND)
                return o == BLKUP_NOT_THIS ? BLKUP_FOUND
                                           : o; /* a label without a table of contents: no partition */
        for (uint64_t i = 1; i < SCANNED_BLOCKS && number <= MAX_PARTITIONS; i++) {
                struct blkup_bytes f1;
                uint8_t id;

                for (uint64_t k = i; k < SCANNED_BLOCKS && k < i + BLKUP_VIEW_NEEDS; k++)
                        blkup_view_want(v, (vol.track_blocks + k) * block, F1_LEN);
                o = blkup_view_get(v, (vol.track_blocks + i) * block, F1_LEN, &f1);
                if (o == BLKUP_NOT_THIS)
                        break;
                if (o != BLKUP_FOUND)
                        return o;
                id = blkup_u8_at(f1, F1_ID);
                if (id != ID_F1 && id != ID_F8)
                        continue;
                if (!tell(&vol, f1, number++, e))
                        break;
        }
        return BLKUP_FOUND;
}

static enum blkup_outcome list_ldl(struct blkup_view *v, struct blkup_bytes label, uint64_t block,
                                   struct blkup_entries *e)
{
        uint64_t sectors = block / 512, blocks = v->size / block;
        struct blkup_entry entry = { .number = 1, .start_sectors = LABEL_BLOCKS * sectors };

        if (blkup_u8_at(label, LDL_VERSION) >= LDL_WITH_BLOCKS)
                blocks = blkup_be64_at(label, LDL_BLOCKS);
        if (blocks > LABEL_BLOCKS && blkup_mul(blocks - LABEL_BLOCKS, sectors, &entry.size_sectors))
                (void) e->entry(e, &entry);
        return BLKUP_FOUND;
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret,
                                struct blkup_entries *e)
{
        bool is_cdl = magics[hit->row].within != 0;
        struct blkup_bytes label;
        char text[VOLSER_LEN];
        size_t n;

        BLKUP_FETCH(v, hit->base, is_cdl ? CDL_LEN : LDL_LEN, &label);
        blkup_found_evidence(ret, 32);
        n = decode(blkup_slice_at(label, is_cdl ? CDL_VOLSER : LDL_VOLSER, VOLSER_LEN), text);
        blkup_found_text(ret, "PTUUID", (struct blkup_bytes){ .data = (const uint8_t *) text, .len = n });
        if (!v->wants_partitions)
                return BLKUP_FOUND;
        return is_cdl ? list_cdl(v, hit->base / 2, e) : list_ldl(v, label, hit->base / 2, e);
}

extern const struct blkup_table blkup_table_dasd;
const struct blkup_table blkup_table_dasd = {
        .name = "dasd", .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
