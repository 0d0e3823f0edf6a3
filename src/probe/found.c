/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The adders: values of a find, kept in the find's own fixed memory. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "probe/format.h"

static char *room(struct blkup_found *f, size_t *ret_cap)
{
        if (f->n_tags >= BLKUP_FOUND_TAGS || f->used >= BLKUP_FOUND_TEXT)
                return NULL;
        *ret_cap = BLKUP_FOUND_TEXT - f->used;
        return f->text + f->used;
}

/* The n bytes at the place that room() gave become the value of name; a NUL goes behind them. */
static void keep(struct blkup_found *f, const char *name, size_t n)
{
        if (n == 0 || n >= BLKUP_FOUND_TEXT - f->used)
                return;
        f->text[f->used + n] = '\0';
        f->tags[f->n_tags].name = name;
        f->tags[f->n_tags].at = (uint16_t) f->used;
        f->tags[f->n_tags].len = (uint16_t) n;
        f->n_tags++;
        f->used += (unsigned) n + 1;
}

static void add(struct blkup_found *f, const char *name, const char *s, size_t n)
{
        size_t cap = 0;
        char *to = room(f, &cap);

        if (!to || n >= cap)
                return;
        if (n > 0)
                memcpy(to, s, n);
        keep(f, name, n);
}

void blkup_found_string(struct blkup_found *f, const char *name, const char *s)
{
        add(f, name, s, strlen(s));
}

void blkup_found_text(struct blkup_found *f, const char *name, struct blkup_bytes s)
{
        add(f, name, (const char *) s.data, strnlen((const char *) s.data, s.len));
}

void blkup_found_rtrimmed(struct blkup_found *f, const char *name, struct blkup_bytes s)
{
        size_t n = strnlen((const char *) s.data, s.len);

        add(f, name, (const char *) s.data, blkup_rtrim((const char *) s.data, n));
}

void blkup_found_trimmed(struct blkup_found *f, const char *name, struct blkup_bytes s)
{
        const char *text = (const char *) s.data;
        size_t n = blkup_rtrim(text, strnlen(text, s.len)), skip = blkup_ltrim(text, n);

        add(f, name, text + skip, n - skip);
}

void blkup_found_utf16(struct blkup_found *f, const char *name, struct blkup_bytes s, enum blkup_order order)
{
        size_t cap = 0;
        char *to = room(f, &cap);

        if (to)
                keep(f, name, blkup_rtrim(to, blkup_utf16_to_utf8(s, order, to, cap)));
}

static char *put_hex(char *to, const uint8_t *b, size_t n)
{
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < n; i++) {
                *to++ = digits[b[i] >> 4];
                *to++ = digits[b[i] & 15];
        }
        return to;
}

void blkup_format_uuid(const uint8_t *b, char out[37])
{
        static const uint8_t groups[] = { 4, 2, 2, 2, 6 };
        char *to = out;

        for (size_t i = 0; i < sizeof(groups); i++) {
                if (i > 0)
                        *to++ = '-';
                to = put_hex(to, b, groups[i]);
                b += groups[i];
        }
        *to = '\0';
}

void blkup_format_guid(const uint8_t *b, char out[37])
{
        const uint8_t turned[16] = { b[3], b[2], b[1], b[0], b[5],  b[4],  b[7],  b[6],
                                     b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15] };

        blkup_format_uuid(turned, out);
}

void blkup_found_uuid(struct blkup_found *f, const char *name, struct blkup_bytes s)
{
        char text[37];

        if (s.len < 16 || blkup_is_filled(s, 0, 16, 0))
                return;
        blkup_format_uuid(s.data, text);
        add(f, name, text, 36);
}

void blkup_found_guid(struct blkup_found *f, const char *name, struct blkup_bytes s)
{
        char text[37];

        if (s.len < 16 || blkup_is_filled(s, 0, 16, 0))
                return;
        blkup_format_guid(s.data, text);
        add(f, name, text, 36);
}

void blkup_found_serial(struct blkup_found *f, const char *name, struct blkup_bytes s)
{
        uint32_t v = blkup_le32_at(s, 0);

        if (v != 0)
                blkup_found_printf(f, name, "%04" PRIX32 "-%04" PRIX32, v >> 16, v & 0xffff);
}

void blkup_found_u64(struct blkup_found *f, const char *name, uint64_t v)
{
        char text[20], *at = text + sizeof(text);

        do
                *--at = (char) ('0' + v % 10);
        while ((v /= 10) != 0); /* ends: at most 20 digits */
        add(f, name, at, (size_t) (text + sizeof(text) - at));
}

void blkup_found_version(struct blkup_found *f, uint64_t major_part, uint64_t minor_part)
{
        blkup_found_printf(f, "VERSION", "%" PRIu64 ".%" PRIu64, major_part, minor_part);
}

void blkup_found_printf(struct blkup_found *f, const char *name, const char *fmt, ...)
{
        size_t cap = 0;
        char *to = room(f, &cap);
        va_list ap;
        int n;

        if (!to)
                return;
        va_start(ap, fmt);
        n = vsnprintf(to, cap, fmt, ap);
        va_end(ap);
        if (n > 0 && (size_t) n < cap)
                keep(f, name, (size_t) n);
}
