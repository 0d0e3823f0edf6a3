/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Text whose width is to be known before anybody draws it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "trace/svg-private.h"

/* Hundredths of the font's size, U+0020 to U+007E: of each character the wider of DejaVu Sans 2.37 and
 * Arial's metrics (Liberation Sans 2.1). DejaVu Sans is the widest of the fonts that viewers fall back to. */
static const uint8_t widths[] = {
        32, 41, 46, 84, 64, 96, 78, 28, 40,  40, 50, 84, 32, 37, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64,
        64, 64, 34, 34, 84, 84, 84, 56, 102, 69, 69, 73, 78, 67, 62, 78, 76, 30, 50, 67, 56, 87, 75, 79,
        67, 79, 73, 67, 62, 74, 69, 99, 69,  67, 69, 40, 34, 40, 84, 56, 50, 62, 64, 55, 64, 62, 36, 64,
        64, 28, 28, 58, 28, 98, 64, 62, 64,  64, 42, 53, 40, 64, 60, 82, 60, 60, 53, 64, 34, 64, 84,
};
_Static_assert(sizeof(widths) == 0x7f - 0x20, "one a printable character");

/* Of the same fonts: a bold letter is at most this much wider than the plain one ('I' is). */
#define BOLD 1.27

#define DOTS "\xe2\x80\xa6" /* U+2026 */

/* Of what is beyond Latin a font may have anything, or take another font's. */
static bool is_unknown(uint32_t c)
{
        return c >= 0x250 && c != 0x2026 && c != 0xfffd && c != 0x2192 && c != 0x2013;
}

static double width_of(uint32_t c)
{
        if (c >= 0x20 && c < 0x7f)
                return widths[c - 0x20] / 100.0;
        return is_unknown(c) ? 1.0 : 1.05;
}

static bool is_harmless(uint32_t c)
{
        /* XML 1.0, "Char"; and no control characters, no marks that turn the direction of what follows. */
        return c >= 0x20 && (c < 0x7f || c > 0x9f) && c != 0xfffe && c != 0xffff && c != 0x61c &&
               !(c >= 0x200b && c <= 0x200f) && !(c >= 0x2028 && c <= 0x202e) &&
               !(c >= 0x2060 && c <= 0x206f) && c != 0xfeff && (c & 0xfffe) != 0xfffe;
}

size_t blkup_svg_clean(const char *s, char *out, size_t cap)
{
        size_t n = strlen(s), used = 0;

        /* Ends: each turn takes at least a byte of s. */
        for (size_t i = 0; i < n;) {
                const char *c = s + i;
                uint32_t code = 0;
                size_t seq = blkup_utf8_decode(c, n - i, &code), len = seq;

                i += seq ? seq : 1;
                if (seq == 1 && blkup_is_space(*c)) {
                        c = " ";
                } else if (seq == 0 || !is_harmless(code)) {
                        c = "\xef\xbf\xbd"; /* U+FFFD */
                        len = 3;
                }
                if (used + len >= cap)
                        break;
                memcpy(out + used, c, len);
                used += len;
        }
        out[used] = '\0';
        return used;
}

static size_t decode(const char *s, size_t n, uint32_t *ret)
{
        size_t seq = blkup_utf8_decode(s, n, ret);

        if (seq == 0) { /* not clean, then */
                *ret = 0xfffd;
                return 1;
        }
        return seq;
}

double blkup_svg_width(const char *s, double font_px, bool is_bold)
{
        size_t n = strlen(s);
        double sum = 0;

        for (size_t i = 0; i < n;) {
                uint32_t c;

                i += decode(s + i, n - i, &c);
                sum += width_of(c);
        }
        return sum * font_px * (is_bold ? BOLD : 1);
}

bool blkup_svg_has_unknown_width(const char *s)
{
        size_t n = strlen(s);

        for (size_t i = 0; i < n;) {
                uint32_t c;

                i += decode(s + i, n - i, &c);
                if (is_unknown(c))
                        return true;
        }
        return false;
}

void blkup_svg_shorten(const char *s, double max_px, double font_px, bool is_bold, char *out, size_t cap)
{
        double scale = font_px * (is_bold ? BOLD : 1), left, head = 0, tail = 0;
        size_t n = strlen(s), from = 0, to = n;

        if (cap == 0)
                return;
        if (n < cap && blkup_svg_width(s, font_px, is_bold) <= max_px) {
                memcpy(out, s, n + 1);
                return;
        }
        left = max_px / scale - width_of(0x2026);
        /* A character from the front, one from the back, while both fit. Ends: they meet. */
        while (from < to) {
                uint32_t c;
                size_t seq = decode(s + from, to - from, &c), back = 1;

                if (head + tail + width_of(c) > left || from + seq > to || from + seq + sizeof(DOTS) >= cap)
                        break;
                head += width_of(c);
                from += seq;
                while (back < 4 && back < to - from && ((unsigned char) s[to - back] & 0xc0) == 0x80)
                        back++;
                if (back > to - from)
                        break;
                (void) decode(s + to - back, back, &c);
                if (head + tail + width_of(c) > left || from + (n - to) + back + sizeof(DOTS) >= cap)
                        break;
                tail += width_of(c);
                to -= back;
        }
        memcpy(out, s, from);
        memcpy(out + from, DOTS, sizeof(DOTS) - 1);
        memcpy(out + from + sizeof(DOTS) - 1, s + to, n - to);
        out[from + sizeof(DOTS) - 1 + n - to] = '\0';
}

void blkup_svg_duration(uint64_t ns, char *out, size_t cap)
{
        static const struct {
                uint64_t from_ns, tenth;
                const char *name;
        } units[] = {
                { 999500000, 100000000, "s" },
                { 999500, 100000, "ms" },
                { 0, 100, "\xc2\xb5s" },
        };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(units); i++) {
                uint64_t unit = units[i].tenth * 10, rounded;

                if (ns < units[i].from_ns)
                        continue;
                rounded = ns / units[i].tenth + (ns % units[i].tenth >= units[i].tenth / 2);
                /* Three digits; of microseconds whole ones do. */
                if (rounded < 1000 && i < 2)
                        (void) snprintf(out, cap, "%" PRIu64 ".%" PRIu64 " %s", rounded / 10, rounded % 10,
                                        units[i].name);
                else
                        (void) snprintf(out, cap, "%" PRIu64 " %s", ns / unit + (ns % unit >= unit / 2),
                                        units[i].name);
                return;
        }
}
