/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"

static void fail(struct blkup_json *j, int error)
{
        if (j->error == 0)
                j->error = error;
}

static void emit(struct blkup_json *j, const char *s, size_t n)
{
        if (j->error == 0 && n > 0) {
                int r = j->write(j->to, s, n);

                if (r < 0)
                        fail(j, r);
        }
}

static void break_line(struct blkup_json *j)
{
        char line[1 + 2 * BLKUP_JSON_DEPTH];

        if (!j->pretty)
                return;
        line[0] = '\n';
        memset(line + 1, ' ', 2 * j->depth);
        emit(j, line, 1 + 2 * j->depth);
}

/* Comma and line before an item of the open container. */
static void separate(struct blkup_json *j)
{
        if (j->has_item[j->depth])
                emit(j, ",", 1);
        if (j->depth > 0)
                break_line(j);
        j->has_item[j->depth] = true;
}

/* Is a value allowed here? Writes what has to stand before it. */
static bool before_value(struct blkup_json *j)
{
        if (j->error)
                return false;
        if (j->after_key) {
                j->after_key = false;
                return true;
        }
        /* In an object a value needs its key; two values at the top need a newline between them. */
        if (j->depth > 0 ? j->is_object[j->depth] : j->has_item[0]) {
                fail(j, -EINVAL);
                return false;
        }
        separate(j);
        return j->error == 0;
}

static void begin(struct blkup_json *j, bool object)
{
        if (!before_value(j))
                return;
        if (j->depth >= BLKUP_JSON_DEPTH) {
                fail(j, -EINVAL);
                return;
        }
        j->depth++;
        j->has_item[j->depth] = false;
        j->is_object[j->depth] = object;
        emit(j, object ? "{" : "[", 1);
}

static void end(struct blkup_json *j, bool object)
{
        if (j->error)
                return;
        if (j->depth == 0 || j->is_object[j->depth] != object || j->after_key) {
                fail(j, -EINVAL);
                return;
        }
        j->depth--;
        if (j->has_item[j->depth + 1])
                break_line(j);
        emit(j, object ? "}" : "]", 1);
}

/* Characters that may not stand for themselves: JSON's own (RFC 8259 section 7), control characters that a
 * terminal would obey, and what ends a script or string when the text is put into an HTML page. */
static bool needs_escape(uint32_t c)
{
        return c < 0x20 || c == '"' || c == '\\' || (c >= 0x7f && c <= 0x9f) || c == '<' || c == '>' ||
               c == '&' || c == 0x2028 || c == 0x2029;
}

static void emit_escape(struct blkup_json *j, uint32_t c)
{
        static const char digits[] = "0123456789abcdef";

        if (c == '"')
                emit(j, "\\\"", 2);
        else if (c == '\\')
                emit(j, "\\\\", 2);
        else {
                char e[6] = { '\\', 'u' };

                for (unsigned i = 0; i < 4; i++)
                        e[2 + i] = digits[c >> (12 - 4 * i) & 15];
                emit(j, e, sizeof(e));
        }
}

/* With its quotes in one piece, as nearly all are: short, and all of it plain. false: another one. */
static bool emit_short(struct blkup_json *j, const char *s, size_t n)
{
        char quoted[66];

        if (n > sizeof(quoted) - 2)
                return false;
        for (size_t i = 0; i < n; i++) {
                if ((unsigned char) s[i] >= 0x7f || needs_escape((unsigned char) s[i]))
                        return false;
                quoted[1 + i] = s[i];
        }
        quoted[0] = quoted[1 + n] = '"';
        emit(j, quoted, n + 2);
        return true;
}

static void emit_string(struct blkup_json *j, const char *s, size_t n)
{
        size_t done = 0, i = 0;

        if (emit_short(j, s, n))
                return;
        emit(j, "\"", 1);
        /* Runs of plain text go out in one piece. */
        while (i < n) {
                uint32_t c = 0;
                size_t seq = blkup_utf8_decode(s + i, n - i, &c);

                if (seq > 0 && !needs_escape(c)) {
                        i += seq;
                        continue;
                }
                emit(j, s + done, i - done);
                if (seq > 0)
                        emit_escape(j, c);
                else
                        emit(j, "\xef\xbf\xbd", 3); /* U+FFFD */
                i += seq > 0 ? seq : 1;
                done = i;
        }
        emit(j, s + done, i - done);
        emit(j, "\"", 1);
}

void blkup_json_init(struct blkup_json *j, int (*write)(void *to, const char *s, size_t n), void *to,
                     bool pretty)
{
        *j = (struct blkup_json){ .write = write, .to = to, .pretty = pretty };
}

void blkup_json_begin_object(struct blkup_json *j)
{
        begin(j, true);
}

void blkup_json_end_object(struct blkup_json *j)
{
        end(j, true);
}

void blkup_json_begin_array(struct blkup_json *j)
{
        begin(j, false);
}

void blkup_json_end_array(struct blkup_json *j)
{
        end(j, false);
}

void blkup_json_key(struct blkup_json *j, const char *key)
{
        if (j->error)
                return;
        if (j->depth == 0 || !j->is_object[j->depth] || j->after_key) {
                fail(j, -EINVAL);
                return;
        }
        separate(j);
        emit_string(j, key, strlen(key));
        emit(j, ": ", j->pretty ? 2 : 1);
        j->after_key = true;
}

void blkup_json_string(struct blkup_json *j, const char *s)
{
        blkup_json_string_n(j, s, strlen(s));
}

void blkup_json_string_n(struct blkup_json *j, const char *s, size_t n)
{
        if (before_value(j))
                emit_string(j, s, n);
}

static void emit_number(struct blkup_json *j, bool negative, uint64_t v)
{
        char b[21]; /* 20 digits of 2^64 - 1, or 19 and a sign */
        size_t at = sizeof(b);

        do {
                b[--at] = (char) ('0' + v % 10);
                v /= 10;
        } while (v > 0);
        if (negative)
                b[--at] = '-';
        if (before_value(j))
                emit(j, b + at, sizeof(b) - at);
}

void blkup_json_u64(struct blkup_json *j, uint64_t v)
{
        emit_number(j, false, v);
}

void blkup_json_i64(struct blkup_json *j, int64_t v)
{
        /* Negated as unsigned: -INT64_MIN does not fit its own type. */
        emit_number(j, v < 0, v < 0 ? -(uint64_t) v : (uint64_t) v);
}

void blkup_json_double(struct blkup_json *j, double v, unsigned decimals)
{
        char b[352]; /* sign, 309 digits of DBL_MAX, a decimal point of some locale, 17 decimals */
        size_t whole = 0;
        int n;

        if (!__builtin_isfinite(v)) {
                blkup_json_null(j);
                return;
        }
        if (decimals > 17)
                decimals = 17; /* a double holds no more */
        n = snprintf(b, sizeof(b), "%.*f", (int) decimals, v);
        if (!before_value(j))
                return;
        if (n < 0 || (size_t) n >= sizeof(b)) {
                fail(j, -EINVAL);
                return;
        }
        /* The decimal point is the locale's and may be several bytes long: take the digits around it. */
        while (b[whole] == '-' || (b[whole] >= '0' && b[whole] <= '9'))
                whole++;
        emit(j, b, whole);
        if (decimals > 0) {
                emit(j, ".", 1);
                emit(j, b + (size_t) n - decimals, decimals);
        }
}

void blkup_json_bool(struct blkup_json *j, bool v)
{
        if (before_value(j))
                emit(j, v ? "true" : "false", v ? 4 : 5);
}

void blkup_json_null(struct blkup_json *j)
{
        if (before_value(j))
                emit(j, "null", 4);
}

void blkup_json_newline(struct blkup_json *j)
{
        if (j->error)
                return;
        if (j->depth > 0) {
                fail(j, -EINVAL);
                return;
        }
        emit(j, "\n", 1);
        j->has_item[0] = false;
}

int blkup_json_finish(struct blkup_json *j)
{
        if (j->depth > 0)
                fail(j, -EINVAL);
        return j->error;
}
