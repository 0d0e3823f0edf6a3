/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * iso9660, with Joliet, and its forerunner High Sierra. Source: ECMA-119 (3rd edition), chapter 8; the Joliet
 * specification (1995); which texts win and how they are joined: ../shared/probe/NOTES.md §4.
 */
#include "probe/formats/fields.h"

#define DESCRIPTORS_AT 32768u
#define DESCRIPTOR_LEN 2048u
#define USED_LEN 1024u /* of a descriptor: no field that is looked at lies behind */
#define MAX_DESCRIPTORS 16u
enum { TYPE_BOOT = 0, TYPE_PRIMARY = 1, TYPE_SUPPLEMENTARY = 2, TYPE_END = 255 };

/* Offsets in a primary or supplementary descriptor; High Sierra's header is 8 bytes longer and its later
 * fields differ. */
enum {
        VD_SYSTEM_ID = 8,     /* 32 bytes */
        VD_VOLUME_ID = 40,    /* 32 bytes */
        VD_SPACE = 80,        /* blocks, 32 bits */
        VD_ESCAPES = 88,      /* supplementary: character set */
        VD_BLOCK_BYTES = 128, /* 16 bits */
        VD_ROOT = 156,        /* directory record of 34 bytes */
        VD_VOLUME_SET_ID = 190,
        VD_PUBLISHER_ID = 318,
        VD_PREPARER_ID = 446,
        VD_APPLICATION_ID = 574, /* 128 bytes each */
        VD_CREATED = 813,
        VD_MODIFIED = 830, /* 16 digits and a time zone */
        HS_HEADER = 8,
        HS_ROOT = 172,
        HS_VOLUME_SET_ID = 206,
        HS_CREATED = 782,
        HS_MODIFIED = 798,  /* 16 digits */
        BOOT_SYSTEM_ID = 7, /* of a boot record, 32 bytes */
};

/* Offsets in a directory record. */
enum { DR_EXTENT = 2, DR_LENGTH = 10, DR_NAME_LEN = 32, DR_NAME = 33, DR_MIN = 34 };

static const struct blkup_magic magics[] = {
        { .at = DESCRIPTORS_AT, .within = 1, .anchor = BLKUP_FROM_SESSION, .len = 5, .bytes = "CD001" },
        { .at = DESCRIPTORS_AT, .within = 9, .anchor = BLKUP_FROM_SESSION, .len = 5, .bytes = "CDROM" },
};

struct disc {
        struct blkup_bytes boot, primary, joliet; /* len 0: none */
        bool high_sierra;
};

static bool is_joliet(struct blkup_bytes d)
{
        return blkup_equal_at(d, VD_ESCAPES, "%/@", 3) || blkup_equal_at(d, VD_ESCAPES, "%/C", 3) ||
               blkup_equal_at(d, VD_ESCAPES, "%/E", 3);
}

static enum blkup_outcome fetch(struct blkup_view *v, const struct blkup_hit *hit, struct disc *ret)
{
        struct disc d = { .high_sierra = hit->row == 1 };
        size_t header = d.high_sierra ? HS_HEADER : 0;

        /* A set usually ends with its third or fourth: they come together. */
        for (unsigned i = 1; i < 3; i++)
                blkup_view_want(v, hit->base + (uint64_t) i * DESCRIPTOR_LEN, USED_LEN);
        for (unsigned i = 0; i < MAX_DESCRIPTORS; i++) {
                struct blkup_bytes s;
                enum blkup_outcome o =
                        blkup_view_get(v, hit->base + (uint64_t) i * DESCRIPTOR_LEN, USED_LEN, &s);
                uint8_t type;

                if (o == BLKUP_NOT_THIS)
                        break;
                if (o != BLKUP_FOUND)
                        return o;
                type = blkup_u8_at(s, header);
                if (type == TYPE_END || !blkup_equal_at(s, header + 1, magics[hit->row].bytes, 5))
                        break;
                if (type == TYPE_BOOT && d.boot.len == 0)
                        d.boot = s;
                else if (type == TYPE_PRIMARY && d.primary.len == 0)
                        d.primary = s;
                else if (type == TYPE_SUPPLEMENTARY && d.joliet.len == 0 && !d.high_sierra && is_joliet(s))
                        d.joliet = s;
                if (d.boot.len && d.primary.len && d.joliet.len)
                        break;
        }
        if (d.primary.len == 0)
                return blkup_refuse(v, "no primary volume descriptor");
        *ret = d;
        return BLKUP_FOUND;
}

/* Does the directory at `at` begin with a record of itself, as a root does? */
static enum blkup_outcome look_root(struct blkup_view *v, uint64_t at, uint32_t extent)
{
        struct blkup_bytes r;

        BLKUP_FETCH(v, at, DR_MIN, &r);
        if (blkup_u8_at(r, 0) < DR_MIN || blkup_u8_at(r, DR_NAME_LEN) != 1 || blkup_u8_at(r, DR_NAME) != 0 ||
            blkup_le32_at(r, DR_EXTENT) != extent)
                return blkup_refuse(v, "no root directory where the descriptor says");
        return BLKUP_FOUND;
}

static enum blkup_outcome check_root(struct blkup_view *v, const struct disc *d, uint32_t block)
{
        size_t root = d->high_sierra ? HS_ROOT : VD_ROOT;
        uint32_t extent = blkup_le32_at(d->primary, root + DR_EXTENT);
        uint64_t at = (uint64_t) extent * block;
        enum blkup_outcome o;

        if (blkup_le32_at(d->primary, root + DR_LENGTH) < DR_MIN)
                return blkup_refuse(v, "root directory is shorter than a record");
        o = look_root(v, at, extent);
        /* Blocks count from the disc's first one, also when only its last session is looked at. */
        if (o == BLKUP_NOT_THIS && v->base > 0 && at >= v->base)
                o = look_root(v, at - v->base, extent);
        return o;
}

/* The two forms of one text as UTF-16BE: a primary '_' stands for what only Joliet can say, a Joliet '_' the
 * other way round, and letters keep their lower case. Returns the bytes written, 0 when the two say different
 * things. */
static size_t join(struct blkup_bytes primary, struct blkup_bytes joliet, uint8_t *out)
{
        size_t n = primary.len, to = 0, u = 0, a = 0;

        for (; a < n && u + 2 <= joliet.len; a++, u += 2) {
                uint16_t wide = blkup_be16_at(joliet, u);
                uint8_t c = primary.data[a], low = (uint8_t) wide;

                if (wide >= 0xd800 && wide < 0xdc00 && u + 4 <= joliet.len &&
                    (blkup_be16_at(joliet, u + 2) & 0xfc00) == 0xdc00) {
                        memcpy(out + to, joliet.data + u, 2);
                        to += 2;
                        u += 2;
                        wide = blkup_be16_at(joliet, u);
                        low = (uint8_t) wide;
                }
                if (c == '_') {
                        memcpy(out + to, joliet.data + u, 2);
                } else if (wide == '_') {
                        out[to] = 0;
                        out[to + 1] = c;
                } else if (wide < 0x80 && (c == low || ((c | 0x20) == (low | 0x20) && (c | 0x20) >= 'a' &&
                                                        (c | 0x20) <= 'z'))) {
                        out[to] = 0;
                        out[to + 1] = c > low ? c : low; /* of two cases of a letter the lower one has the
                                                            higher code */
                } else {
                        return 0;
                }
                to += 2;
        }
        for (; a < n; a++) {
                out[to++] = 0;
                out[to++] = primary.data[a];
        }
        return to;
}

#define MAX_TEXT 128u

static void add_text(struct blkup_found *ret, const char *name, const struct disc *d, size_t at, size_t len,
                     bool is_id)
{
        size_t header = d->high_sierra && at < VD_SPACE ? HS_HEADER : 0;
        struct blkup_bytes primary = blkup_slice_at(d->primary, at + header, len), joliet, wide;
        uint8_t joined[4 * MAX_TEXT];
        char text[6 * MAX_TEXT];
        size_t n;

        if (d->joliet.len == 0) {
                if (is_id)
                        blkup_found_trimmed(ret, name, primary);
                else
                        blkup_found_rtrimmed(ret, name, primary);
                return;
        }
        joliet = blkup_slice_at(d->joliet, at, len);
        n = join(primary, joliet, joined);
        wide = n ? (struct blkup_bytes){ .data = joined, .len = n } : joliet;
        n = blkup_utf16_to_utf8(wide, BLKUP_BIG_ENDIAN, text, sizeof(text));
        wide = (struct blkup_bytes){ .data = (const uint8_t *) text, .len = n };
        if (is_id)
                blkup_found_trimmed(ret, name, wide);
        else
                blkup_found_rtrimmed(ret, name, wide);
}

/* Publisher, preparer and application: left out when blank, or the name of a file ("_FILE") that holds the
 * text. */
static void add_note(struct blkup_found *ret, const char *name, const struct disc *d, size_t at)
{
        size_t set = d->high_sierra ? HS_VOLUME_SET_ID - VD_VOLUME_SET_ID : 0;
        struct blkup_bytes primary = blkup_slice_at(d->primary, at + set, MAX_TEXT);

        if (blkup_u8_at(primary, 0) == '_' ||
            blkup_rtrim((const char *) primary.data, primary.len) == 0)
                return;
        add_text(ret, name, d, at + set, MAX_TEXT, true);
}

static bool add_date(struct blkup_found *ret, struct blkup_bytes d, size_t at, bool has_zone)
{
        const char *t;
        char text[16 + 7];
        size_t to = 0;

        if (!blkup_has(d, at, 17))
                return false;
        t = (const char *) d.data + at;
        if (blkup_is_filled(d, at, 16, '0') && (!has_zone || t[16] == 0))
                return false; /* "not specified" */
        for (size_t i = 0; i < 16; i++) {
                if (i >= 4 && i % 2 == 0)
                        text[to++] = '-';
                text[to++] = t[i];
        }
        blkup_found_text(ret, "UUID", (struct blkup_bytes){ .data = (const uint8_t *) text, .len = to });
        return true;
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct disc d;
        uint32_t block;
        size_t header;
        enum blkup_outcome o;

        if (v->session % DESCRIPTOR_LEN != 0)
                return blkup_refuse(v, "session does not begin with a block");
        o = fetch(v, hit, &d);
        if (o != BLKUP_FOUND)
                return o;
        header = d.high_sierra ? HS_HEADER : 0;
        block = blkup_le16_at(d.primary, VD_BLOCK_BYTES + header);
        if (block == 0)
                return blkup_refuse(v, "block size is 0");
        o = check_root(v, &d, block);
        if (o != BLKUP_FOUND)
                return o;

        blkup_found_evidence(ret, 40 + 8 + 32 + 16);
        blkup_found_u64(ret, "FSBLOCKSIZE", block);
        blkup_found_u64(ret, "BLOCK_SIZE", block);
        blkup_found_u64(ret, "FSSIZE", (uint64_t) blkup_le32_at(d.primary, VD_SPACE + header) * block);
        add_text(ret, "SYSTEM_ID", &d, VD_SYSTEM_ID, 32, true);
        add_text(ret, "VOLUME_SET_ID", &d, d.high_sierra ? HS_VOLUME_SET_ID : VD_VOLUME_SET_ID, MAX_TEXT,
                 true);
        add_note(ret, "PUBLISHER_ID", &d, VD_PUBLISHER_ID);
        add_note(ret, "DATA_PREPARER_ID", &d, VD_PREPARER_ID);
        add_note(ret, "APPLICATION_ID", &d, VD_APPLICATION_ID);
        if (!add_date(ret, d.primary, d.high_sierra ? HS_MODIFIED : VD_MODIFIED, !d.high_sierra))
                (void) add_date(ret, d.primary, d.high_sierra ? HS_CREATED : VD_CREATED, !d.high_sierra);
        if (d.boot.len > 0)
                blkup_found_trimmed(ret, "BOOT_SYSTEM_ID",
                                    blkup_slice_at(d.boot, BOOT_SYSTEM_ID + header, 32));
        if (d.joliet.len > 0)
                blkup_found_string(ret, "VERSION", "Joliet Extension");
        else if (d.high_sierra)
                blkup_found_string(ret, "VERSION", "High Sierra");
        add_text(ret, "LABEL", &d, VD_VOLUME_ID, 32, false);
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_iso9660;
const struct blkup_format blkup_format_iso9660 = {
        .name = "iso9660", .usage = BLKUP_USAGE_FILESYSTEM, .flags = BLKUP_TOLERANT,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
