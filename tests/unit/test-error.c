/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/error.h"

static void no_error_struct_is_fine(void **state)
{
        (void) state;
        assert_int_equal(blkup_fail(NULL, -EIO, "read %d", 1), -EIO);
        assert_int_equal(blkup_fail_errno(NULL, -EIO, "read"), -EIO);
        assert_int_equal(blkup_wrap(NULL, -EIO, "read"), -EIO);
}

static void fail_sets_code_and_message(void **state)
{
        struct blkup_error e = { .code = 0 };

        (void) state;
        assert_int_equal(blkup_fail(&e, -EINVAL, "size %d, not %s", 5, "seven"), -EINVAL);
        assert_int_equal(e.code, -EINVAL);
        assert_string_equal(e.message, "size 5, not seven");
        /* A later failure replaces all of it. */
        assert_int_equal(blkup_fail(&e, -EIO, "x"), -EIO);
        assert_int_equal(e.code, -EIO);
        assert_string_equal(e.message, "x");
}

static void fail_errno_adds_the_system_s_text(void **state)
{
        struct blkup_error e = { .code = 0 };
        char expected[128];

        (void) state;
        assert_int_equal(blkup_fail_errno(&e, -ENOSPC, "write %s", "/x"), -ENOSPC);
        (void) snprintf(expected, sizeof(expected), "write /x: %s", strerror(ENOSPC));
        assert_string_equal(e.message, expected);
        /* A positive errno is the same one, but the code is handed back as it came. */
        assert_int_equal(blkup_fail_errno(&e, ENOSPC, "write %s", "/x"), ENOSPC);
        assert_string_equal(e.message, expected);
}

static void wrap_puts_the_object_before(void **state)
{
        struct blkup_error e = { .code = 0 };
        char expected[128];

        (void) state;
        (void) blkup_fail(&e, -EBADMSG, "superblock at %d: checksum mismatch", 1024);
        assert_int_equal(blkup_wrap(&e, e.code, "%s", "vda2"), -EBADMSG);
        assert_int_equal(blkup_wrap(&e, e.code, "mount %s", "/srv"), -EBADMSG);
        assert_string_equal(e.message, "mount /srv: vda2: superblock at 1024: checksum mismatch");
        assert_int_equal(e.code, -EBADMSG);

        /* Nothing there to wrap: the errno's text is better than nothing. */
        e = (struct blkup_error){ .code = 0 };
        assert_int_equal(blkup_wrap(&e, -ENOENT, "open"), -ENOENT);
        (void) snprintf(expected, sizeof(expected), "open: %s", strerror(ENOENT));
        assert_string_equal(e.message, expected);
        assert_int_equal(e.code, -ENOENT);
}

static void own_message_may_be_an_argument(void **state)
{
        struct blkup_error e = { .code = 0 };

        (void) state;
        (void) blkup_fail(&e, -EIO, "first");
        (void) blkup_fail(&e, -EIO, "again: %s", e.message);
        assert_string_equal(e.message, "again: first");
        (void) blkup_wrap(&e, -EIO, "<%s>", e.message);
        assert_string_equal(e.message, "<again: first>: again: first");
}

static void errno_stays(void **state)
{
        struct blkup_error e = { .code = 0 };

        (void) state;
        errno = EXDEV;
        (void) blkup_fail(&e, -EIO, "a");
        (void) blkup_fail_errno(&e, -EIO, "a");
        (void) blkup_wrap(&e, -EIO, "a");
        assert_int_equal(errno, EXDEV);
}

static void long_messages_end_in_dots(void **state)
{
        struct blkup_error e;
        char text[2000];
        size_t max = sizeof(e.message) - 1;

        (void) state;
        for (size_t n = max - 6; n <= max + 6; n++) {
                memset(text, 'a', n);
                text[n] = '\0';
                memset(&e, 'Z', sizeof(e));
                (void) blkup_fail(&e, -EIO, "%s", text);
                if (n <= max) {
                        assert_string_equal(e.message, text);
                        continue;
                }
                assert_int_equal(strlen(e.message), max);
                assert_int_equal(strncmp(e.message, text, max - 3), 0);
                assert_string_equal(e.message + max - 3, "...");
        }

        /* What comes after the cut is not looked at, and wrapping keeps the prefix and cuts the end. */
        memset(text, 'b', 1500);
        text[1500] = '\0';
        (void) blkup_fail_errno(&e, -EIO, "%s", text);
        (void) blkup_wrap(&e, -EIO, "vda");
        assert_int_equal(strlen(e.message), max);
        assert_int_equal(strncmp(e.message, "vda: bbb", 8), 0);
        assert_string_equal(e.message + max - 4, "b...");
}

static void cut_is_not_inside_a_character(void **state)
{
        static const char *const chars[] = { "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80" };
        struct blkup_error e;
        char text[2000];

        (void) state;
        for (size_t k = 0; k < 3; k++)
                for (size_t shift = 0; shift < 4; shift++) {
                        size_t n = 0, step = strlen(chars[k]), len;

                        memset(text, 'a', shift);
                        for (n = shift; n < 600; n += step)
                                memcpy(text + n, chars[k], step);
                        text[n] = '\0';
                        (void) blkup_fail(&e, -EIO, "%s", text);
                        len = strlen(e.message);
                        assert_true(len <= sizeof(e.message) - 1 && len > sizeof(e.message) - 1 - step);
                        assert_string_equal(e.message + len - 3, "...");
                        assert_int_equal((len - 3 - shift) % step, 0);
                        assert_int_equal(strncmp(e.message, text, len - 3), 0);
                }
}

static void one_line_without_control_characters(void **state)
{
        struct blkup_error e;

        (void) state;
        (void) blkup_fail(&e, -EIO, "label \"a\nb\tc\rd\x1b[2Je\x7f\"\n");
        assert_string_equal(e.message, "label \"a b c d?[2Je?\" ");
        (void) blkup_wrap(&e, -EIO, "x\ny");
        assert_string_equal(e.message, "x y: label \"a b c d?[2Je?\" ");
        /* Text outside ASCII stays. */
        (void) blkup_fail(&e, -EIO, "caf\xc3\xa9");
        assert_string_equal(e.message, "caf\xc3\xa9");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(no_error_struct_is_fine),
                cmocka_unit_test(fail_sets_code_and_message),
                cmocka_unit_test(fail_errno_adds_the_system_s_text),
                cmocka_unit_test(wrap_puts_the_object_before),
                cmocka_unit_test(own_message_may_be_an_argument),
                cmocka_unit_test(errno_stays),
                cmocka_unit_test(long_messages_end_in_dots),
                cmocka_unit_test(cut_is_not_inside_a_character),
                cmocka_unit_test(one_line_without_control_characters),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
