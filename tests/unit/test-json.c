/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

/* A sink that can fail: the budget is the number of writes that still succeed (negative: all). */
struct sink {
        char text[4096];
        size_t len;
        int budget, calls_after_failure;
        bool has_failed;
};

static int to_sink(void *to, const char *s, size_t n)
{
        struct sink *k = to;

        if (k->has_failed)
                k->calls_after_failure++;
        if (k->budget == 0) {
                k->has_failed = true;
                return -ENOSPC;
        }
        if (k->budget > 0)
                k->budget--;
        assert_true(n > 0 && k->len + n < sizeof(k->text));
        memcpy(k->text + k->len, s, n);
        k->len += n;
        k->text[k->len] = '\0';
        return 0;
}

static void start(struct blkup_json *j, struct sink *k, bool pretty)
{
        *k = (struct sink){ .budget = -1 };
        blkup_json_init(j, to_sink, k, pretty);
}

static void write_sample(struct blkup_json *j)
{
        blkup_json_begin_object(j);
        blkup_json_key(j, "blkid");
        blkup_json_begin_array(j);
        blkup_json_begin_object(j);
        blkup_json_key(j, "device");
        blkup_json_string(j, "/dev/x");
        blkup_json_key(j, "size");
        blkup_json_u64(j, 5);
        blkup_json_end_object(j);
        blkup_json_null(j);
        blkup_json_bool(j, true);
        blkup_json_bool(j, false);
        blkup_json_begin_array(j);
        blkup_json_end_array(j);
        blkup_json_begin_object(j);
        blkup_json_end_object(j);
        blkup_json_end_array(j);
        blkup_json_key(j, "last");
        blkup_json_i64(j, -1);
        blkup_json_end_object(j);
}

static void compact_is_one_line(void **state)
{
        struct blkup_json j;
        struct sink k;

        (void) state;
        start(&j, &k, false);
        write_sample(&j);
        assert_int_equal(blkup_json_finish(&j), 0);
        assert_string_equal(
                k.text, "{\"blkid\":[{\"device\":\"/dev/x\",\"size\":5},null,true,false,[],{}],\"last\":-1}");
}

static void pretty_is_indented(void **state)
{
        struct blkup_json j;
        struct sink k;

        (void) state;
        start(&j, &k, true);
        write_sample(&j);
        blkup_json_newline(&j);
        assert_int_equal(blkup_json_finish(&j), 0);
        assert_string_equal(k.text, "{\n"
                                    "  \"blkid\": [\n"
                                    "    {\n"
                                    "      \"device\": \"/dev/x\",\n"
                                    "      \"size\": 5\n"
                                    "    },\n"
                                    "    null,\n"
                                    "    true,\n"
                                    "    false,\n"
                                    "    [],\n"
                                    "    {}\n"
                                    "  ],\n"
                                    "  \"last\": -1\n"
                                    "}\n");
}

static void lines_of_records(void **state)
{
        struct blkup_json j;
        struct sink k;

        (void) state;
        start(&j, &k, false);
        assert_int_equal(blkup_json_finish(&j), 0); /* no record at all is no error */
        for (unsigned i = 0; i < 3; i++) {
                blkup_json_begin_object(&j);
                blkup_json_key(&j, "n");
                blkup_json_u64(&j, i);
                blkup_json_end_object(&j);
                blkup_json_newline(&j);
        }
        assert_int_equal(blkup_json_finish(&j), 0);
        assert_string_equal(k.text, "{\"n\":0}\n{\"n\":1}\n{\"n\":2}\n");
}

static void check_string_n(const char *s, size_t n, const char *expected)
{
        struct blkup_json j;
        struct sink k;

        start(&j, &k, false);
        blkup_json_string_n(&j, s, n);
        assert_int_equal(blkup_json_finish(&j), 0);
        assert_string_equal(k.text, expected);
}

static void check_string(const char *s, const char *expected)
{
        check_string_n(s, strlen(s), expected);
}

static void strings_are_escaped(void **state)
{
        struct blkup_json j;
        struct sink k;

        (void) state;
        check_string("", "\"\"");
        check_string("plain /text/", "\"plain /text/\"");
        check_string("a\"b\\c", "\"a\\\"b\\\\c\"");
        check_string("\x01\n\t\x1f\x7f", "\"\\u0001\\u000a\\u0009\\u001f\\u007f\"");
        check_string_n("a\0b", 3, "\"a\\u0000b\"");
        check_string("</script>&", "\"\\u003c/script\\u003e\\u0026\"");
        /* C1 control characters and the two line ends of JavaScript; their neighbours stay. */
        check_string("\xc2\x80\xc2\x9f\xc2\xa0", "\"\\u0080\\u009f\xc2\xa0\"");
        check_string("\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa",
                     "\"\xe2\x80\xa7\\u2028\\u2029\xe2\x80\xaa\"");
        check_string("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
                     "\"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
        /* Keys as well. */
        start(&j, &k, false);
        blkup_json_begin_object(&j);
        blkup_json_key(&j, "a\"\n\xff");
        blkup_json_null(&j);
        blkup_json_end_object(&j);
        assert_int_equal(blkup_json_finish(&j), 0);
        assert_string_equal(k.text, "{\"a\\\"\\u000a\xef\xbf\xbd\":null}");
}

#define FFFD "\xef\xbf\xbd"

static void invalid_utf8_is_replaced(void **state)
{
        (void) state;
        check_string("a\xff" "b", "\"a" FFFD "b\"");
        check_string("\xc3", "\"" FFFD "\"");
        check_string("\xe2\x82", "\"" FFFD FFFD "\"");
        check_string("\xc0\x80", "\"" FFFD FFFD "\"");
        check_string("\xed\xa0\x80", "\"" FFFD FFFD FFFD "\"");
        check_string("\xf4\x90\x80\x80z", "\"" FFFD FFFD FFFD FFFD "z\"");
        check_string("\xc3\"", "\"" FFFD "\\\"\""); /* a lead byte does not swallow the quote behind it */
        check_string_n("\xc3\xa9", 1, "\"" FFFD "\"");
}

static void check_number(const char *expected, void (*put)(struct blkup_json *j))
{
        struct blkup_json j;
        struct sink k;

        start(&j, &k, false);
        put(&j);
        assert_int_equal(blkup_json_finish(&j), 0);
        assert_string_equal(k.text, expected);
}

#define NUMBER(name, call)                      \
        static void name(struct blkup_json *j)  \
        {                                       \
                call;                           \
        }
NUMBER(u64_zero, blkup_json_u64(j, 0))
NUMBER(u64_max, blkup_json_u64(j, UINT64_MAX))
NUMBER(i64_max, blkup_json_i64(j, INT64_MAX))
NUMBER(i64_min, blkup_json_i64(j, INT64_MIN))
NUMBER(i64_zero, blkup_json_i64(j, 0))
NUMBER(half, blkup_json_double(j, 0.5, 3))
NUMBER(rounded, blkup_json_double(j, 2.6, 0))
NUMBER(negative, blkup_json_double(j, -1234.5678, 2))
NUMBER(not_a_number, blkup_json_double(j, NAN, 2))
NUMBER(infinite, blkup_json_double(j, INFINITY, 2))
NUMBER(minus_infinite, blkup_json_double(j, -INFINITY, 2))
NUMBER(many_decimals, blkup_json_double(j, 0.25, 1000000))
NUMBER(one_decimal_too_many, blkup_json_double(j, 0.25, 18))

static void numbers(void **state)
{
        struct blkup_json j;
        struct sink k;

        (void) state;
        check_number("0", u64_zero);
        check_number("18446744073709551615", u64_max);
        check_number("9223372036854775807", i64_max);
        check_number("-9223372036854775808", i64_min);
        check_number("0", i64_zero);
        check_number("0.500", half);
        check_number("3", rounded);
        check_number("-1234.57", negative);
        check_number("null", not_a_number);
        check_number("null", infinite);
        check_number("null", minus_infinite);
        check_number("0.25000000000000000", many_decimals);
        check_number("0.25000000000000000", one_decimal_too_many);
        start(&j, &k, false);
        blkup_json_double(&j, -DBL_MAX, 17);
        assert_int_equal(blkup_json_finish(&j), 0);
        assert_int_equal(k.len, 1 + 309 + 1 + 17);
}

/* A locale whose decimal point is two bytes long must not reach the output. It is made here, since machines
 * seldom have one. */
static void numbers_do_not_know_the_locale(void **state)
{
        static const char source[] = "LC_NUMERIC\ndecimal_point \"<U066B>\"\nthousands_sep \"<U066C>\"\n"
                                     "grouping 3;3\nEND LC_NUMERIC\n";
        char dir[] = "/tmp/blkup-test-json-XXXXXX", command[256], seen[32];
        bool has_locale;
        FILE *f;

        (void) state;
        assert_non_null(mkdtemp(dir));
        (void) snprintf(command, sizeof(command), "%s/source", dir);
        f = fopen(command, "we");
        assert_non_null(f);
        assert_true(fputs(source, f) >= 0);
        assert_int_equal(fclose(f), 0);
        /* Its exit status tells of the categories that the source leaves out. */
        (void) snprintf(command, sizeof(command), "localedef -c -i %s/source -f UTF-8 %s/odd >%s/log 2>&1",
                        dir, dir, dir);
        (void) !system(command);
        assert_int_equal(setenv("LOCPATH", dir, 1), 0);
        has_locale = setlocale(LC_NUMERIC, "odd") != NULL;
        (void) snprintf(command, sizeof(command), "rm -r %s", dir);
        assert_int_equal(system(command), 0);
        assert_int_equal(unsetenv("LOCPATH"), 0);
        if (!has_locale) {
                print_message(
                        "SKIP: localedef made no locale (no localedef, no charmap, or another libc)\n");
                skip();
        }
        (void) snprintf(seen, sizeof(seen), "%.1f", 0.5);
        assert_string_equal(seen, "0\xd9\xab" "5");
        check_number("0.500", half);
        check_number("-1234.57", negative);
        check_number("3", rounded);
        check_number("0.25000000000000000", many_decimals);
        assert_non_null(setlocale(LC_NUMERIC, "C"));
}

static void deepest_nesting(void **state)
{
        struct blkup_json j;
        struct sink k;

        (void) state;
        for (unsigned deep = 1; deep <= BLKUP_JSON_DEPTH + 1; deep++) {
                start(&j, &k, false);
                for (unsigned i = 0; i < deep; i++)
                        blkup_json_begin_array(&j);
                for (unsigned i = 0; i < deep; i++)
                        blkup_json_end_array(&j);
                assert_int_equal(blkup_json_finish(&j), deep <= BLKUP_JSON_DEPTH ? 0 : -EINVAL);
                if (deep <= BLKUP_JSON_DEPTH)
                        assert_int_equal(k.len, 2 * deep);
        }
        /* Far too deep, and then more ends than beginnings: an error, not a wild index. */
        start(&j, &k, true);
        for (unsigned i = 0; i < 1000; i++)
                blkup_json_begin_object(&j);
        for (unsigned i = 0; i < 3000; i++)
                blkup_json_end_object(&j);
        assert_int_equal(blkup_json_finish(&j), -EINVAL);
}

#define MISUSE(what, calls)                                             \
        do {                                                            \
                struct blkup_json j;                                    \
                struct sink k;                                          \
                                                                        \
                start(&j, &k, false);                                   \
                calls;                                                  \
                if (blkup_json_finish(&j) != -EINVAL)                   \
                        fail_msg("no error: %s: %s", what, k.text);     \
                blkup_json_u64(&j, 1);                                  \
                assert_int_equal(blkup_json_finish(&j), -EINVAL);       \
        } while (0)

static void misuse_is_an_error(void **state)
{
        (void) state;
        MISUSE("object still open", blkup_json_begin_object(&j));
        MISUSE("array still open", blkup_json_begin_array(&j));
        MISUSE("end without begin", blkup_json_end_object(&j));
        MISUSE("end without begin", blkup_json_end_array(&j));
        MISUSE("wrong end", (blkup_json_begin_array(&j), blkup_json_end_object(&j)));
        MISUSE("wrong end", (blkup_json_begin_object(&j), blkup_json_end_array(&j)));
        MISUSE("value without key",
               (blkup_json_begin_object(&j), blkup_json_u64(&j, 1), blkup_json_end_object(&j)));
        MISUSE("object without key",
               (blkup_json_begin_object(&j), blkup_json_begin_object(&j), blkup_json_end_object(&j),
                blkup_json_end_object(&j)));
        MISUSE("key without value",
               (blkup_json_begin_object(&j), blkup_json_key(&j, "a"), blkup_json_end_object(&j)));
        MISUSE("two keys", (blkup_json_begin_object(&j), blkup_json_key(&j, "a"), blkup_json_key(&j, "b"),
                            blkup_json_null(&j), blkup_json_end_object(&j)));
        MISUSE("key in an array",
               (blkup_json_begin_array(&j), blkup_json_key(&j, "a"), blkup_json_end_array(&j)));
        MISUSE("key at the top", blkup_json_key(&j, "a"));
        MISUSE("two values at the top", (blkup_json_null(&j), blkup_json_null(&j)));
        MISUSE("newline inside",
               (blkup_json_begin_array(&j), blkup_json_newline(&j), blkup_json_end_array(&j)));
}

/* The n-th write fails, each n in turn, until a run completes: the first error sticks and the sink is left in
 * peace. */
static void errors_of_the_sink_stick(void **state)
{
        struct blkup_json j;
        struct sink k, whole;
        int n = 0;

        (void) state;
        start(&j, &whole, true);
        write_sample(&j);
        assert_int_equal(blkup_json_finish(&j), 0);
        for (;; n++) {
                start(&j, &k, true);
                k.budget = n;
                write_sample(&j);
                blkup_json_string(&j, "more");
                blkup_json_newline(&j);
                assert_true(n < 1000);
                if (!k.has_failed)
                        break;
                assert_int_equal(blkup_json_finish(&j), -ENOSPC);
                assert_int_equal(k.calls_after_failure, 0);
                assert_int_equal(strncmp(k.text, whole.text, k.len), 0);
        }
        assert_true(n > 20);
        /* That last run had enough writes and ended in its own mistake. */
        assert_int_equal(blkup_json_finish(&j), -EINVAL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(compact_is_one_line),
                cmocka_unit_test(pretty_is_indented),
                cmocka_unit_test(lines_of_records),
                cmocka_unit_test(strings_are_escaped),
                cmocka_unit_test(invalid_utf8_is_replaced),
                cmocka_unit_test(numbers),
                cmocka_unit_test(numbers_do_not_know_the_locale),
                cmocka_unit_test(deepest_nesting),
                cmocka_unit_test(misuse_is_an_error),
                cmocka_unit_test(errors_of_the_sink_stick),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
