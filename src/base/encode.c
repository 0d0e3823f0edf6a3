/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/encode.h"
#include "base/text.h"

static const char hex_digits[] = "0123456789abcdef";

/* All or nothing: a piece is one encoded character, which must not be cut. One byte is kept for the NUL. */
static bool put(char *out, size_t cap, size_t *len, const char *piece, size_t n)
{
        if (cap - *len <= n)
                return false;
        memcpy(out + *len, piece, n);
        *len += n;
        return true;
}

static bool put_hex(char *out, size_t cap, size_t *len, uint8_t c)
{
        char piece[4] = { '\\', 'x', hex_digits[c >> 4], hex_digits[c & 15] };

        return put(out, cap, len, piece, sizeof(piece));
}

/* Length of a character of more than one byte that libblkid keeps as it is, else 0. Unlike Unicode it refuses
 * U+FDD0..U+FDEF and U+xxFFFF but takes U+xxFFFE (measured: util-linux 2.38.1, every code point). */
static size_t kept_sequence(const char *s, size_t n)
{
        uint32_t c;
        size_t len = blkup_utf8_decode(s, n, &c);

        if (len < 2 || (c >= 0xfdd0 && c <= 0xfdef) || (c & 0xffff) == 0xffff)
                return 0;
        return len;
}

static bool is_kept_by_udev(char c)
{
        return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
               (c != '\0' && strchr("#+-.:=@_", c));
}

size_t blkup_encode_udev(const char *in, size_t n, char *out, size_t cap)
{
        size_t len = 0;

        n = strnlen(in, n);
        for (size_t i = 0; i < n;) {
                size_t seq = kept_sequence(in + i, n - i);

                if (seq == 0 && is_kept_by_udev(in[i]))
                        seq = 1;
                if (seq > 0 ? !put(out, cap, &len, in + i, seq) : !put_hex(out, cap, &len, (uint8_t) in[i]))
                        break;
                i += seq > 0 ? seq : 1;
                /* libblkid starts no character in the last bytes of its buffer, even one that would fit. */
                if (len + 4 >= cap)
                        break;
        }
        out[len] = '\0';
        return len;
}

size_t blkup_encode_udev_safe(const char *in, size_t n, char *out, size_t cap)
{
        size_t len = 0;
        bool blank = false;

        /* libblkid looks at no more input than its buffer is long, and cuts bytes before it
         * looks at characters. */
        n = strnlen(in, n < cap ? n : cap);
        n = blkup_rtrim(in, n);
        for (size_t i = blkup_ltrim(in, n); i < n; i++) {
                char piece[2] = { '_', in[i] };

                if (blkup_is_space(in[i])) {
                        blank = true;
                        continue;
                }
                /* A run of blanks and the byte after it stay together: no result ends in a cut blank. */
                if (!put(out, cap, &len, blank ? piece : piece + 1, blank ? 2 : 1))
                        break;
                blank = false;
        }
        out[len] = '\0';

        for (size_t i = 0; i < len;) {
                size_t seq = out[i] > ' ' && out[i] <= '~' ? 1 : kept_sequence(out + i, len - i);

                if (seq == 0)
                        out[i++] = '_';
                else
                        i += seq;
        }
        return len;
}

/* The form of cat -v, with a backslash before each character of `escape` (also after "M-"). */
static size_t encode_visible(const char *in, size_t n, const char *escape, char *out, size_t cap)
{
        size_t len = 0;

        for (size_t i = 0; i < n && in[i] != '\0'; i++) {
                uint8_t c = (uint8_t) in[i];
                char piece[4];
                size_t k = 0;

                if (c >= 0x80) {
                        piece[k++] = 'M';
                        piece[k++] = '-';
                        c &= 0x7f;
                }
                if (c < 0x20 || c == 0x7f) {
                        piece[k++] = '^';
                        c ^= 0x40;
                } else if (strchr(escape, c))
                        piece[k++] = '\\';
                piece[k++] = (char) c;
                if (!put(out, cap, &len, piece, k))
                        break;
        }
        out[len] = '\0';
        return len;
}

size_t blkup_encode_full(const char *in, size_t n, char *out, size_t cap)
{
        return encode_visible(in, n, "\"\\", out, cap);
}

size_t blkup_encode_export(const char *in, size_t n, char *out, size_t cap)
{
        return encode_visible(in, n, " \\\"'$`<>", out, cap);
}

/* What would move the cursor, start an escape sequence, break the line or reorder it. */
static bool is_steering(uint32_t c)
{
        return c < 0x20 || (c >= 0x7f && c <= 0x9f) ||      /* C0, DEL, C1 */
               c == 0x061c || c == 0x200e || c == 0x200f || /* bidi marks */
               (c >= 0x2028 && c <= 0x202e) || /* line and paragraph separator, bidi embeddings */
               (c >= 0x2066 && c <= 0x2069);   /* bidi isolates */
}

size_t blkup_encode_terminal(const char *in, size_t n, char *out, size_t cap)
{
        size_t len = 0;

        for (size_t i = 0; i < n;) {
                uint32_t c = 0;
                size_t seq = blkup_utf8_decode(in + i, n - i, &c);

                if (seq > 0 && is_steering(c))
                        seq = 0;
                if (seq > 0 ? !put(out, cap, &len, in + i, seq) : !put_hex(out, cap, &len, (uint8_t) in[i]))
                        break;
                i += seq > 0 ? seq : 1;
        }
        out[len] = '\0';
        return len;
}
