/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"

static bool is_open(int fd)
{
        return fcntl(fd, F_GETFD) >= 0;
}

static int open_null(void)
{
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        assert_true(fd >= 0);
        return fd;
}

static void close_keeps_errno(void **state)
{
        int fd = open_null(), closed = fd;

        (void) state;
        errno = EXDEV;
        fd = blkup_close(fd);
        assert_int_equal(fd, -1);
        assert_int_equal(errno, EXDEV);
        assert_false(is_open(closed));
        /* Also when close(2) itself fails, and when there is nothing to close. */
        errno = EXDEV;
        assert_int_equal(blkup_close(closed), -1);
        assert_int_equal(errno, EXDEV);
        assert_int_equal(blkup_close(-1), -1);
        assert_int_equal(errno, EXDEV);
}

static void scope_closes_unless_taken(void **state)
{
        int closed, kept = -1;

        (void) state;
        {
                BLKUP_CLEANUP_CLOSE int fd = open_null();
                BLKUP_CLEANUP_CLOSE int nothing = -1;

                (void) nothing;
                closed = fd;
        }
        assert_false(is_open(closed));
        {
                BLKUP_CLEANUP_CLOSE int fd = open_null();

                kept = blkup_take_fd(&fd);
                assert_int_equal(fd, -1);
        }
        assert_true(is_open(kept));
        kept = blkup_close(kept);
}

static unsigned freed;

static void count(void *p)
{
        freed += *(char **) p != NULL;
}

static char *make(bool keep)
{
        BLKUP_CLEANUP(count) char *counted = NULL;
        BLKUP_CLEANUP_FREE char *p = strdup("text");

        assert_non_null(p);
        counted = p;
        if (!keep)
                return NULL; /* p is freed here: a leak is seen by the address sanitizer */
        counted = NULL;
        return BLKUP_TAKE(p);
}

static void scope_frees_unless_taken(void **state)
{
        char *p;

        (void) state;
        freed = 0;
        assert_null(make(false));
        assert_int_equal(freed, 1);
        p = make(true);
        assert_int_equal(freed, 1);
        assert_string_equal(p, "text");
        free(p);
}

static void take_leaves_nothing(void **state)
{
        char *p = strdup("x"), *had;

        (void) state;
        had = BLKUP_TAKE(p);
        assert_null(p);
        assert_non_null(had);
        free(had);
}

static void files_are_closed(void **state)
{
        int fd;

        (void) state;
        {
                BLKUP_CLEANUP_FCLOSE FILE *f = fopen("/dev/null", "re");
                BLKUP_CLEANUP_FCLOSE FILE *none = NULL;

                assert_non_null(f);
                (void) none;
                fd = fileno(f);
                errno = EXDEV;
        }
        assert_int_equal(errno, EXDEV);
        assert_false(is_open(fd));
}

static void array_size(void **state)
{
        static const uint64_t a[7];

        (void) state;
        assert_int_equal(BLKUP_ARRAY_SIZE(a), 7);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(close_keeps_errno),
                cmocka_unit_test(scope_closes_unless_taken),
                cmocka_unit_test(scope_frees_unless_taken),
                cmocka_unit_test(take_leaves_nothing),
                cmocka_unit_test(files_are_closed),
                cmocka_unit_test(array_size),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
