/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <string.h>

#include "base/text.h"

struct writer {
        char *out;
        size_t cap, len;
};

/* One code point up to U+10FFFF, surrogates included: three bytes, as util-linux prints. False: no room. */
static bool put_code_point(struct writer *w, uint32_t c)
{
        char b[4];
        size_t n;

        if (c < 0x80) {
                b[0] = (char) c;
                n = 1;
        } else if (c < 0x800) {
                b[0] = (char) (0xc0 | c >> 6);
                b[1] = (char) (0x80 | (c & 0x3f));
                n = 2;
        } else if (c < 0x10000) {
                b[0] = (char) (0xe0 | c >> 12);
                b[1] = (char) (0x80 | (c >> 6 & 0x3f));
                b[2] = (char) (0x80 | (c & 0x3f));
                n = 3;
        } else {
                b[0] = (char) (0xf0 | c >> 18);
                b[1] = (char) (0x80 | (c >> 12 & 0x3f));
                b[2] = (char) (0x80 | (c >> 6 & 0x3f));
                b[3] = (char) (0x80 | (c & 0x3f));
                n = 4;
        }
        /* len < cap always holds here, so cap - len does not wrap; the last byte is the NUL's. */
        if (w->cap - w->len <= n)
                return false;
        memcpy(w->out + w->len, b, n);
        w->len += n;
        return true;
}

static uint32_t load_unit(const uint8_t *p, enum blkup_order order)
{
        return order == BLKUP_LITTLE_ENDIAN ? blkup_load_le16(p) : blkup_load_be16(p);
}

size_t blkup_utf16_to_utf8(struct blkup_bytes in, enum blkup_order order, char *out, size_t cap)
{
        struct writer w = { .out = out, .cap = cap };
        size_t units = in.len / 2;

        if (cap == 0)
                return 0;
        for (size_t i = 0; i < units; i++) {
                uint32_t c = load_unit(in.data + 2 * i, order);

                if (c == 0)
                        break;
                if (c >= 0xd800 && c <= 0xdbff && i + 1 < units) {
                        uint32_t low = load_unit(in.data + 2 * (i + 1), order);

                        if (low >= 0xdc00 && low <= 0xdfff) {
                                c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
                                i++;
                        }
                }
                if (!put_code_point(&w, c))
                        break;
        }
        out[w.len] = '\0';
        return w.len;
}

size_t blkup_latin1_to_utf8(struct blkup_bytes in, char *out, size_t cap)
{
        struct writer w = { .out = out, .cap = cap };

        if (cap == 0)
                return 0;
        for (size_t i = 0; i < in.len && in.data[i] != 0; i++)
                if (!put_code_point(&w, in.data[i]))
                        break;
        out[w.len] = '\0';
        return w.len;
}

size_t blkup_utf8_decode(const char *s, size_t n, uint32_t *ret)
{
        /* Smallest code point that needs as many bytes: anything below it is an overlong form. */
        static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
        uint32_t c;
        size_t len;

        if (n == 0)
                return 0;
        c = (uint8_t) s[0];
        if (c < 0x80) {
                *ret = c;
                return 1;
        }
        if (c >= 0xc0 && c < 0xe0) {
                len = 2;
                c &= 0x1f;
        } else if (c >= 0xe0 && c < 0xf0) {
                len = 3;
                c &= 0x0f;
        } else if (c >= 0xf0 && c < 0xf8) {
                len = 4;
                c &= 0x07;
        } else
                return 0;
        if (n < len)
                return 0;
        for (size_t i = 1; i < len; i++) {
                uint8_t b = (uint8_t) s[i];

                if ((b & 0xc0) != 0x80)
                        return 0;
                c = c << 6 | (b & 0x3f);
        }
        if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
                return 0;
        *ret = c;
        return len;
}

size_t blkup_utf8_sequence(const char *s, size_t n)
{
        uint32_t c;

        return blkup_utf8_decode(s, n, &c);
}

/* Not isspace(): what a label means must not depend on the caller's locale. */
bool blkup_is_space(char c)
{
        return c == ' ' || (c >= '\t' && c <= '\r');
}

size_t blkup_rtrim(const char *s, size_t n)
{
        while (n > 0 && blkup_is_space(s[n - 1]))
                n--;
        return n;
}

size_t blkup_ltrim(const char *s, size_t n)
{
        size_t i = 0;

        while (i < n && blkup_is_space(s[i]))
                i++;
        return i;
}
