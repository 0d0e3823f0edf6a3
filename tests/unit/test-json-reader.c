/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json-reader.h"

/* From a buffer of its own size, so that a sanitizer sees a byte read behind it. */
static int read_all(const char *text, size_t n, unsigned *ret_tokens)
{
        struct blkup_json_reader r;
        char *copy = malloc(n + !n);
        int token;

        assert_non_null(copy);
        memcpy(copy, text, n);
        blkup_json_reader_init(&r, copy, n);
        *ret_tokens = 0;
        while ((token = blkup_json_next(&r)) > 0) {
                char out[16];

                (*ret_tokens)++;
                assert_true(*ret_tokens <= n);
                assert_true(blkup_json_text(&r, out, sizeof(out)) < sizeof(out));
        }
        if (token < 0)
                assert_int_equal(blkup_json_next(&r), token); /* it sticks */
        free(copy);
        return token;
}

static int outcome(const char *text)
{
        unsigned n;

        return read_all(text, strlen(text), &n);
}

static void takes_json_and_nothing_else(void **state)
{
        static const char *const good[] = {
                "{}",
                "[]",
                " [ ] ",
                "null",
                "true",
                "false",
                "0",
                "-0",
                "1.5e+10",
                "\"\"",
                "\"\\u00e9\\n\"",
                "{\"a\":[1,2,{\"b\":null}],\"c\":\"\"}",
                "\t\r\n[1 , 2]\n",
        };
        static const char *const wrong[] = {
                "",          " ",           "{",
                "[",         "}",           "]",
                "[1,]",      "[,1]",        "{,}",
                "{\"a\"}",   "{\"a\":}",    "{\"a\":1,}",
                "{a:1}",     "{1:2}",       "[1 2]",
                "[1}",       "{\"a\":1]",   "1 2",
                "[] []",     "nul",         "tru",
                "nullx",     "01",          "-",
                "+1",        ".5",          "1.",
                "1e",        "1e+",         "0x10",
                "\"",        "\"\\",        "\"\\x\"",
                "\"\\u12\"", "\"\\u12g4\"", "\"a\nb\"",
                "'a'",       "[1,\"",       "{\"a\":1 \"b\":2}",
                "{\"a\" 1}", "NaN",         "Infinity",
                "//",        "[1,,2]",      "{\"a\":1,,\"b\":2}",
        };

        (void) state;
        for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
                if (outcome(good[i]) != 0)
                        fail_msg("refused: %s", good[i]);
        for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
                if (outcome(wrong[i]) != -EINVAL)
                        fail_msg("taken: %s", wrong[i]);
}

static void depth_is_bounded(void **state)
{
        char text[2 * BLKUP_JSON_DEPTH + 8];
        unsigned n;

        (void) state;
        memset(text, '[', BLKUP_JSON_DEPTH);
        memset(text + BLKUP_JSON_DEPTH, ']', BLKUP_JSON_DEPTH);
        assert_int_equal(read_all(text, 2 * BLKUP_JSON_DEPTH, &n), 0);
        assert_int_equal(n, 2 * BLKUP_JSON_DEPTH);
        memset(text, '[', sizeof(text));
        assert_int_equal(read_all(text, sizeof(text), &n), -E2BIG);
        assert_int_equal(n, BLKUP_JSON_DEPTH);
}

static void every_cut_is_an_error(void **state)
{
        static const char text[] = "{\"a\":[1.5e3,\"x\\u00e9\\n\",{\"b\":true}],\"c\":null}";
        unsigned n;

        (void) state;
        assert_int_equal(read_all(text, sizeof(text) - 1, &n), 0);
        for (size_t i = 0; i < sizeof(text) - 1; i++)
                assert_int_equal(read_all(text, i, &n), -EINVAL);
}

static void expect_text(const char *json, const char *want, size_t cap)
{
        struct blkup_json_reader r;
        char out[64];

        blkup_json_reader_init(&r, json, strlen(json));
        assert_int_equal(blkup_json_next(&r), BLKUP_JSON_STRING);
        assert_int_equal(blkup_json_text(&r, out, cap), strlen(want));
        assert_string_equal(out, want);
}

static void text_is_decoded(void **state)
{
        (void) state;
        expect_text("\"a\\\"\\\\\\/\\b\\f\\n\\r\\tz\"", "a\"\\/\b\f\n\r\tz", 64);
        expect_text("\"\\u0041\\u00e9\\u20ac\"", "A\xc3\xa9\xe2\x82\xac", 64);
        expect_text("\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80", 64);
        expect_text("\"\\ud83d\"", "\xef\xbf\xbd", 64);
        expect_text("\"\\ude00x\"", "\xef\xbf\xbdx", 64);
        expect_text("\"\\ud83d\\u0041\"",
                    "\xef\xbf\xbd"
                    "A",
                    64);
        expect_text("\"\\u0000\"", "\xef\xbf\xbd", 64);
        expect_text("\"\xff\"", "\xef\xbf\xbd", 64);
        /* never inside a character */
        expect_text("\"abc\\u20ac\"", "abc", 6);
        expect_text("\"abc\\u20ac\"", "abc\xe2\x82\xac", 7);
        expect_text("\"abc\"", "", 1);
}

static void numbers_are_exact(void **state)
{
        static const struct {
                const char *text;
                bool is_u64, is_i64, is_time;
                uint64_t u64, time;
                int64_t i64;
        } cases[] = {
                { "0", true, true, true, 0, 0, 0 },
                { "18446744073709551615", true, false, false, UINT64_MAX, 0, 0 },
                { "18446744073709551616", false, false, false, 0, 0, 0 },
                { "-5", false, true, false, 0, 0, -5 },
                { "1.5", false, false, true, 0, 1500, 0 },
                { "12.345", false, false, true, 0, 12345, 0 },
                { "12.3456789", false, false, true, 0, 12345, 0 },
                { "18446744073709551.615", false, false, true, 0, UINT64_MAX, 0 },
                { "18446744073709551.616", false, false, false, 0, 0, 0 },
                { "1e3", false, false, false, 0, 0, 0 },
                { "1.5e3", false, false, false, 0, 0, 0 },
                { "42", true, true, true, 42, 42000, 42 },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                struct blkup_json_reader r;
                uint64_t u = 1;
                int64_t s = 1;

                blkup_json_reader_init(&r, cases[i].text, strlen(cases[i].text));
                assert_int_equal(blkup_json_next(&r), BLKUP_JSON_NUMBER);
                assert_int_equal(blkup_json_get_u64(&r, &u), cases[i].is_u64);
                assert_true(!cases[i].is_u64 || u == cases[i].u64);
                assert_int_equal(blkup_json_get_i64(&r, &s), cases[i].is_i64);
                assert_true(!cases[i].is_i64 || s == cases[i].i64);
                assert_int_equal(blkup_json_get_thousandths(&r, &u), cases[i].is_time);
                assert_true(!cases[i].is_time || u == cases[i].time);
        }
}

static void values_can_be_passed_over(void **state)
{
        static const char text[] = "{\"a\":{\"b\":[1,{\"c\":2}],\"d\":[]},\"e\":\"f\",\"g\":7}";
        struct blkup_json_reader r;
        uint64_t v;

        (void) state;
        blkup_json_reader_init(&r, text, sizeof(text) - 1);
        assert_int_equal(blkup_json_next(&r), BLKUP_JSON_OBJECT);
        for (unsigned i = 0; i < 2; i++) {
                assert_int_equal(blkup_json_next(&r), BLKUP_JSON_KEY);
                assert_true(blkup_json_is(&r, i ? "e" : "a"));
                assert_false(blkup_json_is(&r, "ab"));
                assert_int_equal(blkup_json_skip(&r, BLKUP_JSON_KEY), 0);
        }
        assert_int_equal(blkup_json_next(&r), BLKUP_JSON_KEY);
        assert_int_equal(blkup_json_next(&r), BLKUP_JSON_NUMBER);
        assert_true(blkup_json_get_u64(&r, &v) && v == 7);
        assert_int_equal(blkup_json_next(&r), BLKUP_JSON_OBJECT_END);
        assert_int_equal(blkup_json_next(&r), BLKUP_JSON_END);
        assert_int_equal(blkup_json_next(&r), BLKUP_JSON_END);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(takes_json_and_nothing_else), cmocka_unit_test(depth_is_bounded),
                cmocka_unit_test(every_cut_is_an_error),       cmocka_unit_test(text_is_decoded),
                cmocka_unit_test(numbers_are_exact),           cmocka_unit_test(values_can_be_passed_over),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
