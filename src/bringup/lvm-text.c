/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bringup/lvm-text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/crc.h"
#include "block/block.h"

/* ---- the text ---- */

enum token { END, WORD, TEXT, MARK, BAD };

struct lexer {
        const char *at, *end;
        const char *word; /* WORD, TEXT: its bytes; MARK: the character */
        size_t n;
};

static bool is_word_byte(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               (c != '\0' && strchr("_.+-/@", c));
}

static enum token next(struct lexer *l)
{
        /* Ends, as all loops here: each turn goes forward in the text. */
        while (l->at < l->end) {
                char c = *l->at;

                if (c == '#') {
                        while (l->at < l->end && *l->at != '\n')
                                l->at++;
                } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\0') {
                        l->at++;
                } else {
                        break;
                }
        }
        if (l->at >= l->end)
                return END;
        l->word = l->at;
        if (*l->at == '"') {
                l->word = ++l->at;
                while (l->at < l->end && *l->at != '"')
                        l->at += *l->at == '\\' && l->end - l->at > 1 ? 2 : 1;
                if (l->at >= l->end)
                        return BAD;
                l->n = (size_t) (l->at - l->word);
                l->at++;
                return TEXT;
        }
        if (strchr("{}=[],", *l->at)) {
                l->n = 1;
                l->at++;
                return MARK;
        }
        while (l->at < l->end && is_word_byte(*l->at))
                l->at++;
        l->n = (size_t) (l->at - l->word);
        return l->n > 0 ? WORD : BAD;
}

static bool copy(const struct lexer *l, char *ret, size_t cap)
{
        if (l->n == 0 || l->n >= cap)
                return false;
        memcpy(ret, l->word, l->n);
        ret[l->n] = '\0';
        return true;
}

/* A UUID of LVM: letters, digits, !, # and dashes (lvm2's lib/uuid/uuid.c). */
static bool copy_uuid(const struct lexer *l, char *ret)
{
        if (l->n != BLKUP_LVM_UUID - 1 || !copy(l, ret, BLKUP_LVM_UUID))
                return false;
        for (size_t i = 0; i < l->n; i++)
                if (!is_word_byte(ret[i]) && ret[i] != '!' && ret[i] != '#')
                        return false;
        return true;
}

static bool is_vg_name(const char *s)
{
        if (*s == '-' || strcmp(s, ".") == 0 || strcmp(s, "..") == 0)
                return false;
        for (; *s; s++)
                if (!is_word_byte(*s) || *s == '/' || *s == '@')
                        return false;
        return true;
}

static int add_pv(struct blkup_lvm_text *t, size_t *cap, const struct lexer *l)
{
        if (t->n_pvs == BLKUP_LVM_MAX_PVS)
                return -E2BIG;
        if (t->n_pvs == *cap) {
                size_t more = *cap ? *cap * 2 : 4;
                char(*grown)[BLKUP_LVM_UUID] = realloc(t->pv_uuids, more * sizeof(*grown));

                if (!grown)
                        return -ENOMEM;
                t->pv_uuids = grown;
                *cap = more;
        }
        return copy_uuid(l, t->pv_uuids[t->n_pvs]) ? (int) (t->n_pvs++, 0) : -EBADMSG;
}

static int take_value(struct blkup_lvm_text *t, size_t *cap, unsigned depth, bool in_pvs, const char *key,
                      enum token kind, const struct lexer *l)
{
        if (depth == 1 && strcmp(key, "id") == 0)
                return kind == TEXT && copy_uuid(l, t->vg_uuid) ? 0 : -EBADMSG;
        if (depth == 3 && in_pvs && strcmp(key, "id") == 0)
                return kind == TEXT ? add_pv(t, cap, l) : -EBADMSG;
        if (depth == 1 && strcmp(key, "seqno") == 0) {
                char number[24];

                if (kind != WORD || !copy(l, number, sizeof(number)) || strspn(number, "0123456789") != l->n)
                        return -EBADMSG;
                t->seqno = strtoull(number, NULL, 10);
        }
        return 0;
}

/* A key is a word; then "{" opens a section, or "=" gives a value or a list. */
static int parse(struct blkup_lvm_text *t, struct lexer *l)
{
        unsigned depth = 0;
        bool in_pvs = false, has_vg = false;
        size_t cap = 0;
        char key[BLKUP_LVM_NAME];

        /* Ends: each turn takes a token, and the text is finite. */
        for (;;) {
                enum token k = next(l);
                int r;

                if (k == END)
                        return depth == 0 && has_vg && *t->vg_uuid ? 0 : -EBADMSG;
                if (k == MARK && *l->word == '}') {
                        if (depth == 0)
                                return -EBADMSG;
                        depth--;
                        in_pvs = in_pvs && depth >= 2;
                        continue;
                }
                if (k != WORD || !copy(l, key, sizeof(key)) || next(l) != MARK)
                        return -EBADMSG;
                if (*l->word == '{') {
                        if (depth == 0 && (has_vg || !is_vg_name(key)))
                                return -EBADMSG; /* one group a text */
                        if (depth == 0) {
                                memcpy(t->vg_name, key, sizeof(key));
                                has_vg = true;
                        }
                        in_pvs = in_pvs || (depth == 1 && strcmp(key, "physical_volumes") == 0);
                        if (++depth > 16)
                                return -EBADMSG;
                        continue;
                }
                if (*l->word != '=')
                        return -EBADMSG;
                k = next(l);
                if (k == MARK && *l->word == '[') {
                        while ((k = next(l)) != MARK || *l->word != ']')
                                if (k == END || k == BAD || (k == MARK && *l->word != ','))
                                        return -EBADMSG;
                        continue;
                }
                if (k != WORD && k != TEXT)
                        return -EBADMSG;
                r = take_value(t, &cap, depth, in_pvs, key, k, l);
                if (r < 0)
                        return r;
        }
}

int blkup_lvm_text_parse(const char *text, size_t n, struct blkup_lvm_text **ret)
{
        struct lexer l = { .at = text, .end = text + n };
        struct blkup_lvm_text *t;
        int r;

        if (n > BLKUP_LVM_MAX_TEXT)
                return -E2BIG;
        t = calloc(1, sizeof(*t));
        if (!t)
                return -ENOMEM;
        r = parse(t, &l);
        if (r < 0) {
                (void) blkup_lvm_text_free(t);
                return r;
        }
        *ret = t;
        return 0;
}

struct blkup_lvm_text *blkup_lvm_text_free(struct blkup_lvm_text *t)
{
        if (t) {
                free(t->pv_uuids);
                free(t);
        }
        return NULL;
}

/* ---- where it stands ---- */

enum {
        LABEL_SECTORS = 4,
        LABEL_CRC = 16,    /* over 20..511 */
        LABEL_OFFSET = 20, /* of pv_header, in the sector */
        LABEL_TYPE = 24,
        PV_AREAS = 40, /* pv_header: UUID, 64 bits of size, then pairs of 64 bits */
        MDA_BYTES = 512,
        MDA_MAGIC = 4,
        MDA_VERSION = 20,
        MDA_START = 24,
        MDA_SIZE = 32,
        MDA_TEXT_AT = 40, /* raw_locn: 64 bits each */
        MDA_TEXT_LEN = 48,
        MDA_TEXT_CRC = 56,
        MDA_FLAGS = 60, /* 1: ignore this area */
};
#define CRC_SEED  0xf597a6cfU
#define MAX_AREAS 32u /* a sector holds no more pairs */

static int read_at(struct blkup_block *b, uint64_t at, void *to, size_t n)
{
        struct blkup_block_request q = { .at = at, .len = n, .to = to };
        int r = blkup_block_read(b, &q, 1);

        if (r < 0)
                return r;
        return q.done_bytes == (int64_t) n ? 0 : q.done_bytes < 0 ? (int) q.done_bytes : -EIO;
}

/* 0, or 1 when the area holds no text. */
static int read_area(struct blkup_block *b, uint64_t at, struct blkup_lvm_text **ret)
{
        uint8_t bytes[MDA_BYTES];
        struct blkup_bytes m = { .data = bytes, .at = at, .len = sizeof(bytes) };
        uint64_t start = 0, size = 0, text_at = 0, len = 0, first, from;
        uint32_t crc = 0, version = 0, text_crc = 0, flags = 0;
        BLKUP_CLEANUP_FREE char *text = NULL;
        int r = read_at(b, at, bytes, sizeof(bytes));

        if (r < 0)
                return r;
        if (!blkup_get_le32(m, 0, &crc) || !blkup_equal_at(m, MDA_MAGIC, " LVM2 x[5A%r0N*>", 16) ||
            !blkup_get_le32(m, MDA_VERSION, &version) || version != 1 ||
            blkup_crc32(CRC_SEED, bytes + 4, sizeof(bytes) - 4) != crc ||
            !blkup_get_le64(m, MDA_START, &start) || start != at || !blkup_get_le64(m, MDA_SIZE, &size) ||
            !blkup_get_le64(m, MDA_TEXT_AT, &text_at) || !blkup_get_le64(m, MDA_TEXT_LEN, &len) ||
            !blkup_get_le32(m, MDA_TEXT_CRC, &text_crc) || !blkup_get_le32(m, MDA_FLAGS, &flags))
                return -EBADMSG;
        if (text_at == 0 || (flags & 1))
                return 1;
        /* A ring behind the header: the text may go on at its beginning. */
        if (size <= MDA_BYTES || text_at < MDA_BYTES || text_at >= size || len == 0 ||
            len > size - MDA_BYTES || len > BLKUP_LVM_MAX_TEXT)
                return -EBADMSG;
        text = malloc((size_t) len);
        if (!text)
                return -ENOMEM;
        first = len < size - text_at ? len : size - text_at;
        if (__builtin_add_overflow(start, text_at, &from))
                return -EBADMSG;
        r = read_at(b, from, text, (size_t) first);
        if (r == 0 && first < len)
                r = read_at(b, start + MDA_BYTES, text + first, (size_t) (len - first));
        if (r < 0)
                return r;
        if (blkup_crc32(CRC_SEED, text, (size_t) len) != text_crc)
                return -EBADMSG;
        return blkup_lvm_text_parse(text, (size_t) len, ret);
}

int blkup_lvm_text_read(struct blkup_block *b, struct blkup_lvm_text **ret)
{
        uint8_t bytes[LABEL_SECTORS * 512];
        struct blkup_bytes all = { .data = bytes, .len = sizeof(bytes) }, label;
        uint32_t crc = 0, offset = 0;
        bool in_metadata = false;
        int r = read_at(b, 0, bytes, sizeof(bytes)), worst = 0;
        size_t i;

        if (r < 0)
                return r;
        for (i = 0; i < LABEL_SECTORS; i++)
                if (blkup_sub_bytes(all, i * 512, 512, &label) && blkup_equal_at(label, 0, "LABELONE", 8) &&
                    blkup_equal_at(label, LABEL_TYPE, "LVM2 001", 8))
                        break;
        if (i == LABEL_SECTORS || !blkup_get_le32(label, LABEL_CRC, &crc) ||
            blkup_crc32(CRC_SEED, label.data + 20, 512 - 20) != crc ||
            !blkup_get_le32(label, LABEL_OFFSET, &offset) || offset > 512 - PV_AREAS)
                return -EBADMSG;
        /* Two lists, each with a pair of zeroes at its end: of data, of metadata. */
        for (i = 0; i < MAX_AREAS; i++) {
                uint64_t at, size;

                if (!blkup_get_le64(label, offset + PV_AREAS + 16 * i, &at) ||
                    !blkup_get_le64(label, offset + PV_AREAS + 16 * i + 8, &size))
                        return -EBADMSG;
                if (at == 0) {
                        if (in_metadata)
                                break;
                        in_metadata = true;
                        continue;
                }
                if (!in_metadata)
                        continue;
                r = read_area(b, at, ret);
                if (r == 0)
                        return 0;
                if (r < 0)
                        worst = r;
        }
        if (worst == 0)
                *ret = NULL;
        return worst;
}
