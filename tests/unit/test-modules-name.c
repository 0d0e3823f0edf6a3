/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Patterns: what fnmatch(3) of the C library says is right. */
#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "modules/name.h"

static void compare(const char *pattern, const char *text)
{
        bool ours = blkup_module_matches(pattern, text), theirs = fnmatch(pattern, text, 0) == 0;

        if (ours != theirs)
                print_message("'%s' against '%s': ours %d, theirs %d\n", pattern, text, ours, theirs);
        assert_true(ours == theirs);
}

static void patterns_mean_what_they_say(void **state)
{
        static const char *const yes[][2] = {
                { "", "" },
                { "*", "" },
                { "a*", "a" },
                { "*a*b*", "xaxbx" },
                { "pci:v*d*sv*", "pci:v1d2sv3" },
                { "[]]", "]" },
                { "[!]a]", "b" },
                { "[a-]", "-" },
                { "[0-9A-F]?", "Fx" },
                { "a[b", "a[b" },
                { "\\*", "*" },
                { "[\\]]", "]" },
                { "[[:digit:]x]", "7" },
                { "[[:digit:]x]", "x" },
                { "*[!a]", "ab" },
                { "*ab", "aab" },
                { "[^a]", "b" },
                { "[[:upper:]]", "A" },
                { "a?c", "abc" },
        };
        static const char *const no[][2] = {
                { "", "a" },         { "a", "" },    { "a*b", "acbc" },      { "[!]a]", "]" },
                { "[0-9A-F]", "g" }, { "\\*", "a" }, { "[[:digit:]]", "x" }, { "?", "" },
                { "a\\", "a\\" },    { "A", "a" },   { "[[:upper:]]", "a" },
        };

        (void) state;
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(yes); i++) {
                assert_true(blkup_module_matches(yes[i][0], yes[i][1]));
                compare(yes[i][0], yes[i][1]);
        }
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(no); i++) {
                assert_false(blkup_module_matches(no[i][0], no[i][1]));
                compare(no[i][0], no[i][1]);
        }
}

/* Without a backslash or a reversed range, about which C libraries differ. */
static void a_million_pairs_as_fnmatch(void **state)
{
        static const char letters[] = "ab0*?[]!*-";
        uint64_t x = 88172645463325252u;
        unsigned matched = 0;

        (void) state;
        for (unsigned i = 0; i < 1000000; i++) {
                char pattern[12], text[8];
                size_t n = 0, m = 0;

                x ^= x << 13, x ^= x >> 7, x ^= x << 17;
                for (uint64_t y = x; n < 3 + x % 8; n++, y = y / 10 + x)
                        pattern[n] = letters[y % 10];
                for (uint64_t y = x >> 20; m < (x >> 8) % 7; m++, y = y / 5 + (x >> 3))
                        text[m] = "ab0]-"[y % 5];
                pattern[n] = text[m] = '\0';
                compare(pattern, text);
                matched += blkup_module_matches(pattern, text);
        }
        print_message("%u of 1000000 match\n", matched);
        assert_true(matched > 5000);
}

/* A star gives way, the ones before it need not: no pattern takes longer than its length times that of the
 * text. */
static void many_stars_take_no_time(void **state)
{
        char pattern[4096], text[4096];

        (void) state;
        for (size_t i = 0; i + 2 < sizeof(pattern); i += 2)
                memcpy(pattern + i, "*a", 3);
        memset(text, 'a', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        assert_true(blkup_module_matches(pattern, text));
        text[sizeof(text) - 2] = 'b';
        assert_false(blkup_module_matches(pattern, text));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(patterns_mean_what_they_say),
                cmocka_unit_test(a_million_pairs_as_fnmatch),
                cmocka_unit_test(many_stars_take_no_time),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
