/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/hostfile.h"

/* As sysfs and uname(2) have them; what is no number, or too large for one, ends the list. */
static void numbers_of_a_line(void **state)
{
        uint64_t v[5] = { 9, 9, 9, 9, 9 };

        (void) state;
        assert_int_equal(blkup_host_numbers("       1        0\n", " ", v, 2), 2);
        assert_true(v[0] == 1 && v[1] == 0 && v[2] == 9);
        assert_int_equal(blkup_host_numbers(" 7 0 56 3 18446744073709551615 4", " ", v, 5), 5);
        assert_true(v[0] == 7 && v[2] == 56 && v[4] == UINT64_MAX);
        assert_int_equal(blkup_host_numbers("1 18446744073709551616", " ", v, 5), 1);
        assert_int_equal(blkup_host_numbers("6.1.0-57-amd64", ".", v, 5), 3);
        assert_true(v[0] == 6 && v[1] == 1 && v[2] == 0);
        assert_int_equal(blkup_host_numbers("", ".", v, 5), 0);
        assert_int_equal(blkup_host_numbers("-1", " ", v, 5), 0);
        assert_int_equal(blkup_host_numbers("1", " ", v, 0), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(numbers_of_a_line) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
