/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/text.h"

static struct blkup_bytes view(const void *p, size_t n)
{
        return (struct blkup_bytes){ .data = p, .len = n };
}

/* The encoder of the test: written from the definition, one branch a length, so that two mistakes must agree.
 */
static size_t encode(uint32_t c, char *to)
{
        static const uint8_t lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
        size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

        for (size_t i = n; i-- > 1; c >>= 6)
                to[i] = (char) (0x80 + c % 64);
        to[0] = (char) (lead[n] + c);
        to[n] = '\0';
        return n;
}

static void put16(uint8_t *p, uint32_t unit, enum blkup_order order)
{
        p[order == BLKUP_LITTLE_ENDIAN ? 0 : 1] = (uint8_t) unit;
        p[order == BLKUP_LITTLE_ENDIAN ? 1 : 0] = (uint8_t) (unit >> 8);
}

static void utf16_every_code_point(void **state)
{
        (void) state;
        for (unsigned order = BLKUP_LITTLE_ENDIAN; order <= BLKUP_BIG_ENDIAN; order++)
                for (uint32_t c = 1; c <= 0x10ffff; c++) {
                        uint8_t raw[5] = { 0 }; /* from an odd address */
                        char expected[5], out[8];
                        size_t units = c < 0x10000 ? 1 : 2, n = encode(c, expected);

                        if (units == 1)
                                put16(raw + 1, c, order); /* lone surrogates too: three bytes, as util-linux
                                                             prints them */
                        else {
                                put16(raw + 1, 0xd800 + ((c - 0x10000) >> 10), order);
                                put16(raw + 3, 0xdc00 + ((c - 0x10000) & 0x3ff), order);
                        }
                        if (blkup_utf16_to_utf8(view(raw + 1, units * 2), order, out, sizeof(out)) != n ||
                            strcmp(out, expected) != 0)
                                fail_msg("U+%04x order %u", (unsigned) c, order);
                }
}

static void check_utf16(const char *in, size_t n, enum blkup_order order, const char *expected)
{
        char out[32];

        memset(out, 'Z', sizeof(out));
        assert_int_equal(blkup_utf16_to_utf8(view(in, n), order, out, sizeof(out)), strlen(expected));
        assert_string_equal(out, expected);
}

static void utf16_surrogates_alone(void **state)
{
        (void) state;
        /* high, then a letter; low alone; high at the end; low before high; high, then a pair */
        check_utf16("\x3d\xd8\x41\0", 4, BLKUP_LITTLE_ENDIAN, "\xed\xa0\xbd\x41");
        check_utf16("\x00\xde\x41\0", 4, BLKUP_LITTLE_ENDIAN, "\xed\xb8\x80\x41");
        check_utf16("A\0\x3d\xd8", 4, BLKUP_LITTLE_ENDIAN, "A\xed\xa0\xbd");
        check_utf16("\xde\x00\xd8\x3d", 4, BLKUP_BIG_ENDIAN, "\xed\xb8\x80\xed\xa0\xbd");
        check_utf16("\xd8\x3d\xd8\x3d\xde\x00", 6, BLKUP_BIG_ENDIAN, "\xed\xa0\xbd\xf0\x9f\x98\x80");
}

static void utf16_ends(void **state)
{
        char out[2] = "ZZ";

        (void) state;
        check_utf16("a\0b\0\0\0c\0", 8, BLKUP_LITTLE_ENDIAN, "ab");
        /* A unit is never put together from one byte. */
        check_utf16("a\0b", 3, BLKUP_LITTLE_ENDIAN, "a");
        check_utf16("a", 1, BLKUP_LITTLE_ENDIAN, "");
        check_utf16(NULL, 0, BLKUP_LITTLE_ENDIAN, "");
        /* Half of a pair at the end of an odd length. */
        check_utf16("\x3d\xd8\x00", 3, BLKUP_LITTLE_ENDIAN, "\xed\xa0\xbd");
        assert_int_equal(blkup_utf16_to_utf8(view("a\0", 2), BLKUP_LITTLE_ENDIAN, out, 0), 0);
        assert_int_equal(out[0], 'Z');
}

/* Every capacity: what is written is the longest whole-character prefix that fits with its NUL, and nothing
 * behind it. */
static void check_caps(size_t (*decode)(struct blkup_bytes, char *, size_t), struct blkup_bytes in,
                       const char *whole)
{
        size_t all = strlen(whole);

        for (size_t cap = 1; cap <= all + 2; cap++) {
                char out[64], *tight = malloc(cap);
                size_t n, fit = cap - 1 < all ? cap - 1 : all;

                while (fit < all && ((uint8_t) whole[fit] & 0xc0) == 0x80)
                        fit--;
                memset(out, 'Z', sizeof(out));
                n = decode(in, out, cap);
                assert_int_equal(n, fit);
                assert_memory_equal(out, whole, fit);
                assert_int_equal(out[fit], '\0');
                for (size_t i = cap; i < sizeof(out); i++)
                        assert_int_equal(out[i], 'Z');
                assert_non_null(tight); /* once more where the sanitizer sees the first byte too much */
                assert_int_equal(decode(in, tight, cap), fit);
                free(tight);
        }
}

static size_t from_le(struct blkup_bytes in, char *out, size_t cap)
{
        return blkup_utf16_to_utf8(in, BLKUP_LITTLE_ENDIAN, out, cap);
}

static void decoders_cut_between_characters(void **state)
{
        (void) state;
        /* a, e acute, euro sign, a face, z: one to four bytes */
        check_caps(from_le, view("a\0\xe9\0\xac\x20\x3d\xd8\0\xdez\0", 12),
                   "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z");
        check_caps(blkup_latin1_to_utf8, view("a\xe9" "b\xff\x80", 5), "a\xc3\xa9" "b\xc3\xbf\xc2\x80");
}

static void latin1_every_byte(void **state)
{
        char out[8], expected[5];

        (void) state;
        for (unsigned c = 1; c < 256; c++) {
                uint8_t b = (uint8_t) c;

                assert_int_equal(blkup_latin1_to_utf8(view(&b, 1), out, sizeof(out)), encode(c, expected));
                assert_string_equal(out, expected);
        }
        assert_int_equal(blkup_latin1_to_utf8(view("ab\0c", 4), out, sizeof(out)), 2);
        assert_string_equal(out, "ab");
        assert_int_equal(blkup_latin1_to_utf8(view(NULL, 0), out, sizeof(out)), 0);
        assert_string_equal(out, "");
        memset(out, 'Z', sizeof(out));
        assert_int_equal(blkup_latin1_to_utf8(view("ab", 2), out, 0), 0);
        assert_int_equal(out[0], 'Z');
}

static void utf8_every_code_point(void **state)
{
        (void) state;
        for (uint32_t c = 0; c <= 0x1fffff; c++) {
                bool good = c <= 0x10ffff && !(c >= 0xd800 && c <= 0xdfff);
                uint32_t got = 0xabcdef;
                char s[6];
                size_t n = encode(c, s);

                if (blkup_utf8_sequence(s, n) != (good ? n : 0) ||
                    blkup_utf8_decode(s, n, &got) != (good ? n : 0) || got != (good ? c : 0xabcdef))
                        fail_msg("U+%04x", (unsigned) c);
                /* One byte too few is not read beyond; more bytes change nothing. */
                if (blkup_utf8_sequence(s, n - 1) != 0 || blkup_utf8_sequence(s, n + 1) != (good ? n : 0))
                        fail_msg("U+%04x with another length", (unsigned) c);
        }
}

static void utf8_refuses_the_malformed(void **state)
{
        static const char *const bad[] = {
                /* no lead byte */
                "\x80", "\xbf", "\xfe", "\xff",
                /* overlong */
                "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xe0\x9f\xbf",
                "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf",
                /* surrogates */
                "\xed\xa0\x80", "\xed\xbf\xbf",
                /* beyond the last plane, then five and six bytes */
                "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf7\xbf\xbf\xbf",
                "\xf8\x88\x80\x80\x80", "\xfc\x84\x80\x80\x80\x80",
                /* a tail byte is missing */
                "\xc3\x61", "\xe2\x82\x61", "\xe2\x61\xac", "\xf0\x9f\x98\x61",
                "\xf0\x9f\x61\x80", "\xc3\xc3",
        };

        (void) state;
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(bad); i++)
                assert_int_equal(blkup_utf8_sequence(bad[i], strlen(bad[i])), 0);
        assert_int_equal(blkup_utf8_sequence("", 0), 0);
        assert_int_equal(blkup_utf8_sequence("\0", 1), 1);
}

/* All three-byte strings with a lead byte: valid exactly when encoding the decoded value gives the bytes
 * back. */
static void utf8_agrees_with_the_encoder(void **state)
{
        (void) state;
        for (uint32_t v = 0x800000; v <= 0xffffff; v++) {
                char s[4] = { (char) (v >> 16), (char) (v >> 8), (char) v, '\0' }, again[5];
                uint32_t c;
                size_t n = blkup_utf8_decode(s, 3, &c);

                if (n > 0 && (encode(c, again) != n || memcmp(s, again, n) != 0))
                        fail_msg("%06x", (unsigned) v);
        }
}

static void spaces_and_trimming(void **state)
{
        (void) state;
        for (int c = 0; c < 256; c++)
                assert_int_equal(blkup_is_space((char) c),
                                 c != 0 && c < 128 && strchr(" \t\n\v\f\r", c) != NULL);
        assert_int_equal(blkup_rtrim("ab \t\n", 5), 2);
        assert_int_equal(blkup_rtrim("  ", 2), 0);
        assert_int_equal(blkup_rtrim("", 0), 0);
        assert_int_equal(blkup_rtrim(" a b", 4), 4);
        assert_int_equal(blkup_rtrim("a\xa0", 2), 2); /* not a blank in the C locale */
        assert_int_equal(blkup_rtrim("a\0 ", 3), 2);  /* NUL is not a blank either */
        assert_int_equal(blkup_ltrim(" \r\v\fab ", 7), 4);
        assert_int_equal(blkup_ltrim("   ", 3), 3);
        assert_int_equal(blkup_ltrim("   ", 2), 2);
        assert_int_equal(blkup_ltrim("", 0), 0);
        assert_int_equal(blkup_ltrim("a ", 2), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(utf16_every_code_point),
                cmocka_unit_test(utf16_surrogates_alone),
                cmocka_unit_test(utf16_ends),
                cmocka_unit_test(decoders_cut_between_characters),
                cmocka_unit_test(latin1_every_byte),
                cmocka_unit_test(utf8_every_code_point),
                cmocka_unit_test(utf8_refuses_the_malformed),
                cmocka_unit_test(utf8_agrees_with_the_encoder),
                cmocka_unit_test(spaces_and_trimming),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
