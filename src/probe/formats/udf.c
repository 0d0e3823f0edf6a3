/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * udf. Source: ECMA-167 (3rd edition), parts 2 and 3, and the OSTA UDF specification 2.60 (2.1.2
 * dstrings, 2.2.2 to 2.2.6 descriptors). Which texts become which tags: ../shared/probe/tags.tsv.
 *
 * The block size is nowhere written in the open: the anchor stands at block 256 (or 512) and says its own
 * block number, so the size is right where number and place agree.
 */
#include <ctype.h>

#include "probe/formats/fields.h"

#define RECOGNITION_AT 32768u
#define MAX_RECOGNITION 64u
#define MAX_SEQUENCE 64u
#define DESCRIPTOR_USED 512u
#define MAX_TEXT 512u

/* Descriptor tags. */
enum {
        TAG_PRIMARY = 1,
        TAG_ANCHOR = 2,
        TAG_IMPLEMENTATION = 4,
        TAG_LOGICAL = 6,
        TAG_TERMINATING = 8,
        TAG_INTEGRITY = 9
};
enum { TAG_ID = 0, TAG_LOCATION = 12 };
enum { ANCHOR_LENGTH = 16, ANCHOR_AT = 20 };
enum {
        PVD_VOLUME_ID = 24,      /* dstring of 32 */
        PVD_VOLUME_SET_ID = 72,  /* dstring of 128 */
        PVD_CHARSET = 200,
        PVD_APPLICATION = 345, PVD_IMPLEMENTATION = 389, /* 23 bytes each */
        IUVD_ID = 21, IUVD_CHARSET = 52, IUVD_INFO_1 = 244, /* dstring of 36 */
        LVD_CHARSET = 20, LVD_LABEL = 84, /* dstring of 128 */
        LVD_DOMAIN = 217, LVD_REVISION = 240, LVD_INTEGRITY_LENGTH = 432, LVD_INTEGRITY_AT = 436,
        LVID_PARTITIONS = 72, LVID_USE = 80, LVID_MIN_READ = 40, LVID_MIN_WRITE = 42,
};

static const struct blkup_magic magics[] = {
        { .at = RECOGNITION_AT, .within = 1, .anchor = BLKUP_FROM_SESSION, .len = 5, .bytes = "BEA01" },
        { .at = RECOGNITION_AT, .within = 1, .anchor = BLKUP_FROM_SESSION, .len = 5, .bytes = "BOOT2" },
        { .at = RECOGNITION_AT, .within = 1, .anchor = BLKUP_FROM_SESSION, .len = 5, .bytes = "CD001" },
        { .at = RECOGNITION_AT, .within = 1, .anchor = BLKUP_FROM_SESSION, .len = 5, .bytes = "CDW02" },
        { .at = RECOGNITION_AT, .within = 1, .anchor = BLKUP_FROM_SESSION, .len = 5, .bytes = "NSR02" },
        { .at = RECOGNITION_AT, .within = 1, .anchor = BLKUP_FROM_SESSION, .len = 5, .bytes = "NSR03" },
        { .at = RECOGNITION_AT, .within = 1, .anchor = BLKUP_FROM_SESSION, .len = 5, .bytes = "TEA01" },
};

/* Does the volume recognition sequence, of descriptors `step` bytes apart, name a file system of this
 * standard? */
static enum blkup_outcome look_recognition(struct blkup_view *v, uint64_t step)
{
        static const char others[][6] = { "BEA01", "BOOT2", "CD001", "CDW02", "TEA01" };

        for (unsigned i = 1; i < 4; i++)
                blkup_view_want(v, v->session + RECOGNITION_AT + i * step, 6);
        for (unsigned i = 0; i < MAX_RECOGNITION; i++) {
                struct blkup_bytes d;
                bool known = false;

                BLKUP_FETCH(v, v->session + RECOGNITION_AT + i * step, 6, &d);
                if (blkup_equal_at(d, 1, "NSR02", 5) || blkup_equal_at(d, 1, "NSR03", 5))
                        return BLKUP_FOUND;
                for (size_t k = 0; k < BLKUP_ARRAY_SIZE(others); k++)
                        known |= blkup_equal_at(d, 1, others[k], 5);
                if (!known)
                        break; /* the first block that is none ends the sequence */
        }
        return blkup_refuse(v, "no NSR descriptor");
}

static enum blkup_outcome look_anchor(struct blkup_view *v, uint64_t block, uint64_t number,
                                      struct blkup_bytes *ret)
{
        struct blkup_bytes d;

        BLKUP_FETCH(v, v->session + number * block, DESCRIPTOR_USED, &d);
        if (blkup_le16_at(d, TAG_ID) != TAG_ANCHOR ||
            blkup_le32_at(d, TAG_LOCATION) != v->session / block + number)
                return blkup_refuse(v, "no anchor at block 256 or 512");
        *ret = d;
        return BLKUP_FOUND;
}

/* The block size, and the anchor that shows it. */
static enum blkup_outcome find_anchor(struct blkup_view *v, uint64_t *ret_block, struct blkup_bytes *ret)
{
        const uint32_t sizes[] = { v->sector_bytes, 512, 1024, 2048, 4096 };
        enum blkup_outcome answer = BLKUP_NOT_THIS;

        for (unsigned late = 0; late < 2; late++)
                for (size_t i = 0; i < BLKUP_ARRAY_SIZE(sizes); i++) {
                        uint64_t block = sizes[i];
                        enum blkup_outcome o;

                        if ((i > 0 && block == sizes[0]) || v->session % block != 0)
                                continue;
                        o = look_recognition(v, block > 2048 ? block : 2048);
                        if (o == BLKUP_FOUND)
                                o = look_anchor(v, block, late ? 512 : 256, ret);
                        if (o == BLKUP_FOUND)
                                *ret_block = block;
                        if (o == BLKUP_FOUND || o == BLKUP_NEED)
                                return o;
                        if (o == BLKUP_UNREADABLE)
                                answer = o;
                }
        return answer;
}

static bool is_osta(struct blkup_bytes d, size_t charset)
{
        return blkup_u8_at(d, charset) == 0 && blkup_equal_at(d, charset + 1, "OSTA Compressed Unicode", 23);
}

/* A dstring: the first byte says 8 or 16 bits a character, the last how many bytes are used, that first one
 * included. */
static size_t read_dstring(struct blkup_bytes d, size_t at, size_t field, char *out, size_t cap)
{
        struct blkup_bytes text;
        size_t used;
        uint8_t kind;

        kind = blkup_u8_at(d, at);
        used = blkup_u8_at(d, at + field - 1);
        if (used < 2 || used > field - 1)
                used = used < 2 ? 1 : field - 1;
        text = blkup_slice_at(d, at + 1, used - 1);
        if (kind == 8)
                return blkup_latin1_to_utf8(text, out, cap);
        return kind == 16 ? blkup_utf16_to_utf8(text, BLKUP_BIG_ENDIAN, out, cap) : 0;
}

static void add_dstring(struct blkup_found *ret, const char *name, struct blkup_bytes d, size_t at,
                        size_t field)
{
        char text[MAX_TEXT];
        struct blkup_bytes s = { .data = (const uint8_t *) text };

        s.len = read_dstring(d, at, field, text, sizeof(text));
        if (strcmp(name, "LABEL") == 0)
                blkup_found_rtrimmed(ret, name, s);
        else
                blkup_found_trimmed(ret, name, s);
}

/* The volume set's name should begin with 16 hexadecimal digits that are unique; what begins otherwise is
 * made so. */
static void add_uuid(struct blkup_found *ret, struct blkup_bytes d)
{
        char text[MAX_TEXT], uuid[17];
        size_t n = read_dstring(d, PVD_VOLUME_SET_ID, 128, text, sizeof(text)), hex = 0;

        if (n < 8)
                return;
        if (n < 16)
                memset(text + n, 0, 16 - n);
        while (hex < 16 && isxdigit((unsigned char) text[hex]))
                hex++;
        for (size_t i = 0, to = 0; to < 16; i++)
                if (hex == 16 || (hex >= 8 && i < 8)) {
                        uuid[to++] = (char) tolower((unsigned char) text[i]);
                } else {
                        uint8_t b = (uint8_t) text[i];

                        uuid[to++] = "0123456789abcdef"[b >> 4];
                        uuid[to++] = "0123456789abcdef"[b & 15];
                }
        uuid[16] = '\0';
        blkup_found_string(ret, "UUID", uuid);
}

static void add_application(struct blkup_found *ret, struct blkup_bytes d)
{
        struct blkup_bytes id;

        for (unsigned i = 0; i < 2; i++) {
                unsigned had = ret->n_tags;

                id = blkup_slice_at(d, i == 0 ? PVD_APPLICATION : PVD_IMPLEMENTATION, 23);
                if (blkup_u8_at(id, 0) == '*')
                        id = blkup_slice_at(id, 1, 22);
                blkup_found_trimmed(ret, "APPLICATION_ID", id);
                if (ret->n_tags > had)
                        return;
        }
}

/* What is gathered on the way through the sequence. */
struct volume {
        bool primary, logical, publisher, is_udf;
        uint16_t revision;
        uint32_t integrity_length, integrity_at;
};

static void take_descriptor(struct blkup_bytes d, struct volume *vol, struct blkup_found *ret)
{
        uint16_t tag = blkup_le16_at(d, TAG_ID);

        if (tag == TAG_PRIMARY && !vol->primary) {
                vol->primary = true;
                if (is_osta(d, PVD_CHARSET)) {
                        add_dstring(ret, "VOLUME_ID", d, PVD_VOLUME_ID, 32);
                        add_uuid(ret, d);
                        add_dstring(ret, "VOLUME_SET_ID", d, PVD_VOLUME_SET_ID, 128);
                }
                add_application(ret, d);
        } else if (tag == TAG_IMPLEMENTATION && !vol->publisher &&
                   blkup_equal_at(d, IUVD_ID, "*UDF LV Info", 12)) {
                vol->publisher = true;
                if (is_osta(d, IUVD_CHARSET))
                        add_dstring(ret, "PUBLISHER_ID", d, IUVD_INFO_1, 36);
        } else if (tag == TAG_LOGICAL) {
                if (!vol->integrity_length || !vol->integrity_at) {
                        vol->integrity_length = blkup_le32_at(d, LVD_INTEGRITY_LENGTH);
                        vol->integrity_at = blkup_le32_at(d, LVD_INTEGRITY_AT);
                }
                if (!vol->is_udf && blkup_equal_at(d, LVD_DOMAIN, "*OSTA UDF Compliant", 19)) {
                        vol->is_udf = true;
                        vol->revision = blkup_le16_at(d, LVD_REVISION);
                }
                if (!vol->logical && is_osta(d, LVD_CHARSET)) {
                        vol->logical = true;
                        add_dstring(ret, "LABEL", d, LVD_LABEL, 128);
                        add_dstring(ret, "LOGICAL_VOLUME_ID", d, LVD_LABEL, 128);
                }
        }
}

/* A descriptor that says it stands at `number`. Blocks count from the disc's first one, so where only its
 * last session is looked at they lie so much nearer. */
static enum blkup_outcome fetch_block(struct blkup_view *v, uint64_t block, uint32_t number,
                                      struct blkup_bytes *ret)
{
        uint64_t at = number * block;
        enum blkup_outcome o = blkup_view_get(v, at, DESCRIPTOR_USED, ret);

        if (o == BLKUP_NEED || o == BLKUP_UNREADABLE)
                return o;
        if ((o != BLKUP_FOUND || blkup_le32_at(*ret, TAG_LOCATION) != number) && v->base > 0 && at >= v->base)
                return blkup_view_get(v, at - v->base, DESCRIPTOR_USED, ret);
        return o;
}

/* The integrity descriptor knows the revision that reading and writing need today. */
static enum blkup_outcome look_integrity(struct blkup_view *v, uint64_t block, struct volume *vol)
{
        struct blkup_bytes d, use;
        enum blkup_outcome o;
        uint64_t at;

        if (vol->integrity_length < block)
                return BLKUP_FOUND;
        o = fetch_block(v, block, vol->integrity_at, &d);
        if (o != BLKUP_FOUND)
                return o == BLKUP_NOT_THIS ? BLKUP_FOUND : o;
        if (blkup_le16_at(d, TAG_ID) != TAG_INTEGRITY || blkup_le32_at(d, TAG_LOCATION) != vol->integrity_at)
                return BLKUP_FOUND;
        at = LVID_USE + 8 * (uint64_t) blkup_le32_at(d, LVID_PARTITIONS);
        if (at > block - LVID_MIN_WRITE - 2)
                return BLKUP_FOUND;
        o = blkup_view_get(v, d.at + at, LVID_MIN_WRITE + 2, &use);
        if (o != BLKUP_FOUND)
                return o == BLKUP_NOT_THIS ? BLKUP_FOUND : o;
        for (unsigned i = 0; i < 2; i++) {
                uint16_t revision = blkup_le16_at(use, i == 0 ? LVID_MIN_READ : LVID_MIN_WRITE);

                if (revision > vol->revision)
                        vol->revision = revision;
        }
        return BLKUP_FOUND;
}

#define WANT_AT_ONCE 6u /* primary, implementation, logical, partition, unallocated, terminating */

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct volume vol = { .primary = false };
        struct blkup_bytes anchor = { .len = 0 };
        uint64_t block = 0, n;
        uint32_t first;
        enum blkup_outcome o = find_anchor(v, &block, &anchor);

        (void) hit;
        if (o != BLKUP_FOUND)
                return o;
        first = blkup_le32_at(anchor, ANCHOR_AT);
        n = blkup_min(blkup_le32_at(anchor, ANCHOR_LENGTH) / block, MAX_SEQUENCE);
        for (uint64_t i = 1; i < blkup_min(n, WANT_AT_ONCE); i++)
                blkup_view_want(v, (first + i) * block, DESCRIPTOR_USED);
        for (uint64_t i = 0; i < n; i++) {
                uint32_t number = (uint32_t) (first + i);
                struct blkup_bytes d;
                uint16_t tag;

                o = fetch_block(v, block, number, &d);
                if (o == BLKUP_NOT_THIS)
                        break;
                if (o != BLKUP_FOUND)
                        return o;
                tag = blkup_le16_at(d, TAG_ID);
                if (tag == 0 || tag == TAG_TERMINATING || blkup_le32_at(d, TAG_LOCATION) != number)
                        break;
                take_descriptor(d, &vol, ret);
        }
        if (!vol.is_udf)
                return blkup_refuse(v, "no logical volume of OSTA UDF");
        o = look_integrity(v, block, &vol);
        if (o != BLKUP_FOUND)
                return o;
        blkup_found_evidence(ret, 40 + 40 + 48 + 152);
        blkup_found_printf(ret, "VERSION", "%x.%02x", vol.revision >> 8, vol.revision & 0xff);
        blkup_found_u64(ret, "FSBLOCKSIZE", block);
        blkup_found_u64(ret, "BLOCK_SIZE", block);
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_udf;
const struct blkup_format blkup_format_udf = {
        .name = "udf", .usage = BLKUP_USAGE_FILESYSTEM, .flags = BLKUP_TOLERANT,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
