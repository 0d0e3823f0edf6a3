/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/json-reader.h"

#include <errno.h>
#include <string.h>

#include "base/text.h"

void blkup_json_reader_init(struct blkup_json_reader *r, const char *s, size_t n)
{
        *r = (struct blkup_json_reader){ .s = s, .n = n };
}

static int fail(struct blkup_json_reader *r, int error)
{
        if (r->error == 0)
                r->error = error;
        return r->error;
}

static bool is_digit(char c)
{
        return c >= '0' && c <= '9';
}

static void skip_blanks(struct blkup_json_reader *r)
{
        while (r->at < r->n &&
               (r->s[r->at] == ' ' || r->s[r->at] == '\t' || r->s[r->at] == '\n' || r->s[r->at] == '\r'))
                r->at++;
}

static int hex_digit(char c)
{
        if (is_digit(c))
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Behind the opening quote; checks each escape, so that blkup_json_text() need not. */
static int read_string(struct blkup_json_reader *r)
{
        r->text = r->s + r->at;
        /* Ends: each turn takes bytes of the text. */
        while (r->at < r->n) {
                char c = r->s[r->at];

                if (c == '"') {
                        r->len = (size_t) (r->s + r->at - r->text);
                        r->at++;
                        return BLKUP_JSON_STRING;
                }
                if ((unsigned char) c < 0x20)
                        return fail(r, -EINVAL);
                r->at++;
                if (c != '\\')
                        continue;
                if (r->at >= r->n)
                        break;
                c = r->s[r->at++];
                if (c == 'u') {
                        for (unsigned i = 0; i < 4; i++, r->at++)
                                if (r->at >= r->n || hex_digit(r->s[r->at]) < 0)
                                        return fail(r, -EINVAL);
                } else if (!strchr("\"\\/bfnrt", c) || c == '\0') {
                        return fail(r, -EINVAL);
                }
        }
        return fail(r, -EINVAL);
}

static size_t digits(struct blkup_json_reader *r)
{
        size_t from = r->at;

        while (r->at < r->n && is_digit(r->s[r->at]))
                r->at++;
        return r->at - from;
}

static int read_number(struct blkup_json_reader *r)
{
        r->text = r->s + r->at;
        if (r->s[r->at] == '-')
                r->at++;
        if (r->at < r->n && r->s[r->at] == '0')
                r->at++;
        else if (digits(r) == 0)
                return fail(r, -EINVAL);
        if (r->at < r->n && r->s[r->at] == '.') {
                r->at++;
                if (digits(r) == 0)
                        return fail(r, -EINVAL);
        }
        if (r->at < r->n && (r->s[r->at] == 'e' || r->s[r->at] == 'E')) {
                r->at++;
                if (r->at < r->n && (r->s[r->at] == '+' || r->s[r->at] == '-'))
                        r->at++;
                if (digits(r) == 0)
                        return fail(r, -EINVAL);
        }
        r->len = (size_t) (r->s + r->at - r->text);
        return BLKUP_JSON_NUMBER;
}

static int read_word(struct blkup_json_reader *r, const char *word, int token)
{
        size_t n = strlen(word);

        if (r->n - r->at < n || memcmp(r->s + r->at, word, n) != 0)
                return fail(r, -EINVAL);
        r->at += n;
        return token;
}

static int begin(struct blkup_json_reader *r, bool is_object)
{
        if (r->depth >= BLKUP_JSON_DEPTH)
                return fail(r, -E2BIG);
        r->at++;
        r->depth++;
        r->is_object[r->depth] = is_object;
        r->has_item[r->depth] = false;
        return is_object ? BLKUP_JSON_OBJECT : BLKUP_JSON_ARRAY;
}

static int read_value(struct blkup_json_reader *r)
{
        switch (r->s[r->at]) {
        case '{':
                return begin(r, true);
        case '[':
                return begin(r, false);
        case '"':
                r->at++;
                return read_string(r);
        case 't':
                return read_word(r, "true", BLKUP_JSON_TRUE);
        case 'f':
                return read_word(r, "false", BLKUP_JSON_FALSE);
        case 'n':
                return read_word(r, "null", BLKUP_JSON_NULL);
        default:
                if (r->s[r->at] == '-' || is_digit(r->s[r->at]))
                        return read_number(r);
                return fail(r, -EINVAL);
        }
}

static int read_key(struct blkup_json_reader *r)
{
        int token;

        if (r->s[r->at] != '"')
                return fail(r, -EINVAL);
        r->at++;
        token = read_string(r);
        if (token < 0)
                return token;
        skip_blanks(r);
        if (r->at >= r->n || r->s[r->at] != ':')
                return fail(r, -EINVAL);
        r->at++;
        r->after_key = true;
        return BLKUP_JSON_KEY;
}

int blkup_json_next(struct blkup_json_reader *r)
{
        bool is_object = r->is_object[r->depth];

        if (r->error)
                return r->error;
        r->text = NULL;
        r->len = 0;
        skip_blanks(r);
        if (r->at >= r->n)
                return r->depth == 0 && r->has_item[0] ? BLKUP_JSON_END : fail(r, -EINVAL);
        if (r->after_key) {
                r->after_key = false;
                return read_value(r);
        }
        if (r->depth > 0 && r->s[r->at] == (is_object ? '}' : ']')) {
                r->at++;
                r->depth--;
                return is_object ? BLKUP_JSON_OBJECT_END : BLKUP_JSON_ARRAY_END;
        }
        if (r->has_item[r->depth]) {
                if (r->depth == 0 || r->s[r->at] != ',')
                        return fail(r, -EINVAL);
                r->at++;
                skip_blanks(r);
                if (r->at >= r->n)
                        return fail(r, -EINVAL);
        }
        r->has_item[r->depth] = true;
        return r->depth > 0 && is_object ? read_key(r) : read_value(r);
}

int blkup_json_skip(struct blkup_json_reader *r, int token)
{
        unsigned until;

        if (token == BLKUP_JSON_KEY)
                token = blkup_json_next(r);
        if (token != BLKUP_JSON_OBJECT && token != BLKUP_JSON_ARRAY)
                return token < 0 ? token : 0;
        until = r->depth - 1;
        /* Ends: each token takes bytes of the text. */
        while (r->depth > until) {
                token = blkup_json_next(r);
                if (token < 0)
                        return token;
        }
        return 0;
}

static size_t encode_utf8(uint32_t c, char *out)
{
        if (c < 0x80) {
                out[0] = (char) c;
                return 1;
        }
        if (c < 0x800) {
                out[0] = (char) (0xc0 | c >> 6);
                out[1] = (char) (0x80 | (c & 0x3f));
                return 2;
        }
        if (c < 0x10000) {
                out[0] = (char) (0xe0 | c >> 12);
                out[1] = (char) (0x80 | (c >> 6 & 0x3f));
                out[2] = (char) (0x80 | (c & 0x3f));
                return 3;
        }
        out[0] = (char) (0xf0 | c >> 18);
        out[1] = (char) (0x80 | (c >> 12 & 0x3f));
        out[2] = (char) (0x80 | (c >> 6 & 0x3f));
        out[3] = (char) (0x80 | (c & 0x3f));
        return 4;
}

static uint32_t four_digits(const char *s)
{
        uint32_t c = 0;

        for (unsigned i = 0; i < 4; i++)
                c = c << 4 | (uint32_t) hex_digit(s[i]);
        return c;
}

/* One character at s, an escape or not: its bytes into out, its length in the source as the answer. */
static size_t one_character(const char *s, size_t n, char out[4], size_t *ret_n)
{
        static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
        const char *known;
        uint32_t c;

        if (*s != '\\') {
                size_t seq = blkup_utf8_sequence(s, n);

                if (seq == 0) {
                        *ret_n = encode_utf8(0xfffd, out);
                        return 1;
                }
                memcpy(out, s, seq);
                *ret_n = seq;
                return seq;
        }
        if (s[1] != 'u') {
                known = strchr(from, s[1]);
                out[0] = known ? to[known - from] : s[1];
                *ret_n = 1;
                return 2;
        }
        c = four_digits(s + 2);
        if (c >= 0xd800 && c <= 0xdbff && n >= 12 && s[6] == '\\' && s[7] == 'u') {
                uint32_t low = four_digits(s + 8);

                if (low >= 0xdc00 && low <= 0xdfff) {
                        *ret_n = encode_utf8(0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00), out);
                        return 12;
                }
        }
        if (c == 0 || (c >= 0xd800 && c <= 0xdfff))
                c = 0xfffd;
        *ret_n = encode_utf8(c, out);
        return 6;
}

size_t blkup_json_text(const struct blkup_json_reader *r, char *out, size_t cap)
{
        size_t at = 0, used = 0;

        if (cap == 0)
                return 0;
        /* Ends: each turn takes at least a byte of the token. */
        while (r->text && at < r->len) {
                char c[4];
                size_t n;

                at += one_character(r->text + at, r->len - at, c, &n);
                if (used + n >= cap)
                        break;
                memcpy(out + used, c, n);
                used += n;
        }
        out[used] = '\0';
        return used;
}

bool blkup_json_is(const struct blkup_json_reader *r, const char *word)
{
        size_t n = strlen(word);

        /* None of our words has a character that would have to be escaped. */
        return r->text && r->len == n && memcmp(r->text, word, n) == 0;
}

bool blkup_json_get_u64(const struct blkup_json_reader *r, uint64_t *ret)
{
        uint64_t v = 0;

        if (!r->text || r->len == 0)
                return false;
        for (size_t i = 0; i < r->len; i++)
                if (!is_digit(r->text[i]) || __builtin_mul_overflow(v, 10u, &v) ||
                    __builtin_add_overflow(v, (uint64_t) (r->text[i] - '0'), &v))
                        return false;
        *ret = v;
        return true;
}

bool blkup_json_get_i64(const struct blkup_json_reader *r, int64_t *ret)
{
        struct blkup_json_reader rest = *r;
        uint64_t v;

        if (!r->text || r->len == 0)
                return false;
        if (r->text[0] == '-') {
                rest.text++;
                rest.len--;
        }
        if (!blkup_json_get_u64(&rest, &v) || v > INT64_MAX)
                return false;
        *ret = r->text[0] == '-' ? -(int64_t) v : (int64_t) v;
        return true;
}

bool blkup_json_get_thousandths(const struct blkup_json_reader *r, uint64_t *ret)
{
        struct blkup_json_reader whole = *r;
        const char *dot = r->text ? memchr(r->text, '.', r->len) : NULL;
        uint64_t v, fraction = 0, unit = 100;

        if (dot)
                whole.len = (size_t) (dot - r->text);
        if (!blkup_json_get_u64(&whole, &v) || __builtin_mul_overflow(v, 1000u, &v))
                return false;
        for (size_t i = whole.len + 1; dot && i < r->len; i++, unit /= 10) {
                if (!is_digit(r->text[i]))
                        return false;
                fraction += unit * (uint64_t) (r->text[i] - '0');
        }
        if (__builtin_add_overflow(v, fraction, &v))
                return false;
        *ret = v;
        return true;
}
