/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Expected values marked (blkid) were printed by util-linux 2.38.1: blkid_encode_string(),
 * blkid_safe_string(), blkid -p -o. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/encode.h"
#include "base/text.h"

typedef size_t encoder(const char *in, size_t n, char *out, size_t cap);

static void check_n(encoder *encode, const char *in, size_t n, const char *expected)
{
        char out[2048];

        memset(out, 'Z', sizeof(out));
        assert_int_equal(encode(in, n, out, sizeof(out)), strlen(expected));
        assert_string_equal(out, expected);
}

static void check(encoder *encode, const char *in, const char *expected)
{
        check_n(encode, in, strlen(in), expected);
}

static void udev_enc(void **state)
{
        (void) state;
        check(blkup_encode_udev, "", "");
        check(blkup_encode_udev, "  DISK  TB", "\\x20\\x20DISK\\x20\\x20TB"); /* (blkid) */
        check(blkup_encode_udev, "AZaz09#+-.:=@_", "AZaz09#+-.:=@_");
        check(blkup_encode_udev, "/ $%?,;\"'", "\\x2f\\x20\\x24\\x25\\x3f\\x2c\\x3b\\x22\\x27"); /* (blkid) */
        check(blkup_encode_udev, "a\\b\\x20c", "a\\x5cb\\x5cx20c");                             /* (blkid) */
        check(blkup_encode_udev, "\x01\x1f\x7f\n", "\\x01\\x1f\\x7f\\x0a");                     /* (blkid) */
        /* Valid UTF-8 stays, also C1 control characters (blkid). */
        check(blkup_encode_udev, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xc2\x85",
              "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xc2\x85");
        /* Broken, surrogate, overlong (blkid). */
        check(blkup_encode_udev, "\xc3 \xe2\x82\xff", "\\xc3\\x20\\xe2\\x82\\xff");
        check(blkup_encode_udev, "\xed\xa0\x80\xc0\x80", "\\xed\\xa0\\x80\\xc0\\x80");
        /* libblkid's own exceptions: U+FDD0 and U+FFFF are not text to it, U+FFFE is (blkid). */
        check(blkup_encode_udev, "\xef\xb7\x90\xef\xbf\xbf\xef\xbf\xbe",
              "\\xef\\xb7\\x90\\xef\\xbf\\xbf\xef\xbf\xbe");
        check(blkup_encode_udev, "\xef\xb7\x8f\xef\xb7\xaf\xef\xb7\xb0",
              "\xef\xb7\x8f\\xef\\xb7\\xaf\xef\xb7\xb0"); /* U+FDCF, U+FDEF, U+FDF0 (blkid) */
        check_n(blkup_encode_udev, "ab\0cd", 5, "ab");
        check_n(blkup_encode_udev, "ab\xc3\xa9", 3, "ab\\xc3"); /* the second byte is not ours to read */
}

static void udev_safe(void **state)
{
        (void) state;
        check(blkup_encode_udev_safe, "", "");
        check(blkup_encode_udev_safe, "   ", "");
        check(blkup_encode_udev_safe, "  DISK  TB ", "DISK_TB"); /* (blkid) */
        check(blkup_encode_udev_safe, "\t a \n\v\f\r b\t", "a_b"); /* (blkid) */
        check(blkup_encode_udev_safe, "/ $%?,;!\"'()*&<>[]^`{|}~", "/_$%?,;!\"'()*&<>[]^`{|}~"); /* (blkid) */
        check(blkup_encode_udev_safe, "a\\b\\x20\\xzz c", "a\\b\\x20\\xzz_c");                 /* (blkid) */
        check(blkup_encode_udev_safe, "\xc3\xa9\xf0\x9f\x98\x80", "\xc3\xa9\xf0\x9f\x98\x80");   /* (blkid) */
        check(blkup_encode_udev_safe, "\xc3 \xe2\x82\xff", "_____");                            /* (blkid) */
        check(blkup_encode_udev_safe, "\xef\xb7\x90\xef\xbf\xbf\xef\xbf\xbe",
              "______\xef\xbf\xbe"); /* (blkid) */
        /* On purpose not as libblkid, which lets these reach the terminal. */
        check(blkup_encode_udev_safe, "a\x1b[2Jb\x7f\x01", "a_[2Jb__");
        check_n(blkup_encode_udev_safe, "a b \0cd", 7, "a_b");
}

static void full_and_export(void **state)
{
        (void) state;
        check(blkup_encode_full, "", "");
        check(blkup_encode_full, "a\"\\'$`<> b", "a\\\"\\\\'$`<> b");                       /* (blkid) */
        check(blkup_encode_export, "a\"\\'$`<> b", "a\\\"\\\\\\'\\$\\`\\<\\>\\ b");         /* (blkid) */
        check(blkup_encode_full, "\x01\x1f\x7f\n\t\x80\x81", "^A^_^?^J^IM-^@M-^A");         /* (blkid) */
        check(blkup_encode_export, "\x01\x1f\x7f\n\t\x80\x81", "^A^_^?^J^IM-^@M-^A");       /* (blkid) */
        check(blkup_encode_full, "\xc3\xa9\xe2\x82\xac", "M-CM-)M-bM-^BM-,");               /* (blkid) */
        /* Low seven bits that need a backslash get it behind the M- (blkid). */
        check(blkup_encode_full, "\xa0\xff\xdc\xa2\xe0", "M- M-^?M-\\\\M-\\\"M-`");
        check(blkup_encode_export, "\xa0\xff\xdc\xa2\xe0", "M-\\ M-^?M-\\\\M-\\\"M-\\`");
        check_n(blkup_encode_full, "ab\0cd", 5, "ab");
        check_n(blkup_encode_export, "ab\0cd", 5, "ab");
        check_n(blkup_encode_full, "abcd", 2, "ab");
}

static void terminal(void **state)
{
        (void) state;
        check(blkup_encode_terminal, "plain text \\ \"'", "plain text \\ \"'");
        check(blkup_encode_terminal, "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
              "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
        check(blkup_encode_terminal, "a\x1b[2J\n\x7f", "a\\x1b[2J\\x0a\\x7f");
        check_n(blkup_encode_terminal, "a\0b", 3, "a\\x00b");
        /* U+009B is a one-character "ESC [". */
        check(blkup_encode_terminal, "\xc2\x9b[J", "\\xc2\\x9b[J");
        check(blkup_encode_terminal, "\xc2\x80\xc2\x9f\xc2\xa0", "\\xc2\\x80\\xc2\\x9f\xc2\xa0");
        check(blkup_encode_terminal, "\x9b" "2J\xff\xc3", "\\x9b2J\\xff\\xc3");
        /* Line separator, right-to-left override and isolate. */
        check(blkup_encode_terminal, "\xe2\x80\xa8\xe2\x80\xae\xe2\x81\xa6",
              "\\xe2\\x80\\xa8\\xe2\\x80\\xae\\xe2\\x81\\xa6");
        check(blkup_encode_terminal, "\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xaa",
              "\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xaa");
        /* Direction marks: U+061C, U+200E, U+200F, U+2069. */
        check(blkup_encode_terminal, "\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f\xe2\x81\xa9",
              "\\xd8\\x9c\\xe2\\x80\\x8e\\xe2\\x80\\x8f\\xe2\\x81\\xa9");
}

/* What no result may hold, whatever the input. */
static bool is_harmless(const char *s)
{
        for (; *s; s++)
                if ((unsigned char) *s < 0x20 || *s == 0x7f)
                        return false;
        return true;
}

/* All capacities, in memory of exactly that size: terminated, counted, and a prefix of the whole result. */
static void every_capacity(void **state)
{
        static const struct {
                encoder *encode;
                bool is_prefix; /* a shorter buffer gives a prefix of what a longer one gives */
        } all[] = { { blkup_encode_udev, true },
                    { blkup_encode_udev_safe, false },
                    { blkup_encode_full, true },
                    { blkup_encode_export, true },
                    { blkup_encode_terminal, true } };
        static const char *const in[] = { "abcdefghij",
                                          "a b  c\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x01\xff\\\"d", "    ",
                                          "\xff\xff\xff" };

        (void) state;
        for (size_t e = 0; e < BLKUP_ARRAY_SIZE(all); e++)
                for (size_t k = 0; k < BLKUP_ARRAY_SIZE(in); k++) {
                        char whole[256];

                        (void) all[e].encode(in[k], strlen(in[k]), whole, sizeof(whole));
                        for (size_t cap = 1; cap < 100; cap++) {
                                char *out = malloc(cap);
                                size_t n;

                                assert_non_null(out);
                                n = all[e].encode(in[k], strlen(in[k]), out, cap);
                                assert_true(n < cap);
                                assert_int_equal(strlen(out), n);
                                assert_true(is_harmless(out));
                                if (all[e].is_prefix)
                                        assert_int_equal(strncmp(out, whole, n), 0);
                                free(out);
                        }
                }
}

static void repeat(char *to, const char *what, size_t n)
{
        size_t k = strlen(what);

        for (size_t i = 0; i < n; i++)
                memcpy(to + i * k, what, k);
        to[n * k] = '\0';
}

/* Where blkid cuts a long label: f2fs images with labels of up to 450 letters, blkid -p -o udev (blkid). */
static void udev_cuts_where_blkid_does(void **state)
{
        char in[700], out[BLKUP_UDEV_ENC_CAP], safe[BLKUP_UDEV_SAFE_CAP];

        (void) state;
        repeat(in, "a", 300);
        assert_int_equal(blkup_encode_udev(in, 300, out, sizeof(out)), 262);
        assert_int_equal(blkup_encode_udev_safe(in, 300, safe, sizeof(safe)), 255);
        repeat(in, "b c", 150);
        assert_int_equal(blkup_encode_udev(in, 450, out, sizeof(out)), 263);
        assert_string_equal(out + 252, "b\\x20cb\\x20");
        assert_int_equal(blkup_encode_udev_safe(in, 450, safe, sizeof(safe)), 255);
        assert_string_equal(safe + 250, "_cb_c");

        repeat(in, "a", 261);
        strcpy(in + 261, " x");
        assert_int_equal(blkup_encode_udev(in, 263, out, sizeof(out)), 265);
        assert_string_equal(out + 260, "a\\x20");
        strcpy(in + 260, " x");
        assert_int_equal(blkup_encode_udev(in, 262, out, sizeof(out)), 264);
        strcpy(in + 262, " x");
        in[260] = in[261] = 'a';
        assert_int_equal(blkup_encode_udev(in, 264, out, sizeof(out)), 262);
        /* A character is not cut. */
        strcpy(in + 261, "\xf0\x9f\x98\x80x");
        assert_int_equal(blkup_encode_udev(in, 266, out, sizeof(out)), 265);
        assert_string_equal(out + 261, "\xf0\x9f\x98\x80");

        /* The safe form sees 256 bytes of input, then has room for 255; cut characters become '_' (libblkid).
         */
        repeat(in, "a", 254);
        strcpy(in + 254, "\xc3\xa9z");
        assert_int_equal(blkup_encode_udev_safe(in, 257, safe, sizeof(safe)), 255);
        assert_string_equal(safe + 253, "a_");
        repeat(in, " ", 250);
        strcpy(in + 250, "abcdefghij");
        assert_int_equal(blkup_encode_udev_safe(in, 260, safe, sizeof(safe)), 6);
        assert_string_equal(safe, "abcdef");
        /* No blank is left at the end when the byte after it does not fit. */
        repeat(in, "a", 254);
        strcpy(in + 254, " z");
        assert_int_equal(blkup_encode_udev_safe(in, 256, safe, sizeof(safe)), 254);
}

static uint64_t next(uint64_t *seed)
{
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        return *seed >> 16;
}

/* The _ENC form of random bytes can be decoded again: nothing is lost and nothing is ambiguous. So can the
 * export form. */
static void encoded_forms_can_be_undone(void **state)
{
        uint64_t seed = 4711;

        (void) state;
        for (unsigned round = 0; round < 20000; round++) {
                char in[40], out[200], back[200];
                size_t n = next(&seed) % sizeof(in), k = 0;

                for (size_t i = 0; i < n; i++)
                        in[i] = next(&seed) % 3 == 0 ? "\\x \xc3\xa9\""[next(&seed) % 6]
                                                     : (char) (1 + next(&seed) % 255);
                (void) blkup_encode_udev(in, n, out, sizeof(out));
                assert_true(is_harmless(out));
                for (const char *p = out; *p;)
                        if (*p == '\\') {
                                unsigned v;

                                assert_int_equal(sscanf(p, "\\x%2x", &v), 1);
                                back[k++] = (char) v;
                                p += 4;
                        } else
                                back[k++] = *p++;
                assert_int_equal(k, n);
                assert_memory_equal(in, back, n);

                assert_true(blkup_encode_udev_safe(in, n, out, sizeof(out)) <= n);
                assert_true(is_harmless(out));
                for (const char *p = out; *p;) {
                        size_t seq = blkup_utf8_sequence(p, strlen(p));

                        assert_true(seq > 0 && *p != ' ');
                        p += seq;
                }
                (void) blkup_encode_full(in, n, out, sizeof(out));
                assert_true(is_harmless(out));
                (void) blkup_encode_export(in, n, out, sizeof(out));
                assert_true(is_harmless(out));
                (void) blkup_encode_terminal(in, n, out, sizeof(out));
                assert_true(is_harmless(out));
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(udev_enc),
                cmocka_unit_test(udev_safe),
                cmocka_unit_test(full_and_export),
                cmocka_unit_test(terminal),
                cmocka_unit_test(every_capacity),
                cmocka_unit_test(udev_cuts_where_blkid_does),
                cmocka_unit_test(encoded_forms_can_be_undone),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
