/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/bytes.h"

static const uint8_t sample[] = { 0x01, 0x82, 0x03, 0x84, 0x05, 0x86, 0x07, 0x88, 0x09 };

static struct blkup_bytes view(const void *p, size_t n)
{
        return (struct blkup_bytes){ .data = p, .at = 1000, .len = n };
}

static void has_knows_the_end(void **state)
{
        struct blkup_bytes s = view(sample, sizeof(sample));

        (void) state;
        assert_true(blkup_has(s, 0, 9));
        assert_true(blkup_has(s, 8, 1));
        assert_true(blkup_has(s, 9, 0));
        assert_true(blkup_has(s, 0, 0));
        assert_false(blkup_has(s, 0, 10));
        assert_false(blkup_has(s, 9, 1));
        assert_false(blkup_has(s, 10, 0));
        /* Sums that wrap around must not look small. */
        assert_false(blkup_has(s, SIZE_MAX, 1));
        assert_false(blkup_has(s, 1, SIZE_MAX));
        assert_false(blkup_has(s, SIZE_MAX, SIZE_MAX));
        assert_false(blkup_has(s, SIZE_MAX - 3, 8));
        assert_true(blkup_has(view(NULL, 0), 0, 0));
        assert_false(blkup_has(view(NULL, 0), 0, 1));
}

static void sub_bytes_keeps_the_place(void **state)
{
        struct blkup_bytes s = view(sample, sizeof(sample)), part = view(NULL, 77);

        (void) state;
        assert_false(blkup_sub_bytes(s, 8, 2, &part));
        assert_int_equal(part.len, 77);
        assert_true(blkup_sub_bytes(s, 3, 4, &part));
        assert_ptr_equal(part.data, sample + 3);
        assert_int_equal(part.at, 1003);
        assert_int_equal(part.len, 4);
        /* A part of a part is bounded by the part, not by the whole. */
        assert_false(blkup_sub_bytes(part, 0, 5, &part));
        assert_true(blkup_sub_bytes(part, 4, 0, &part));
        assert_int_equal(part.at, 1007);
        assert_int_equal(part.len, 0);
}

static void equal_at_and_filled_are_bounded(void **state)
{
        static const uint8_t zeros[16] = { 0 };
        struct blkup_bytes s = view(sample, sizeof(sample)), z = view(zeros, 15);

        (void) state;
        assert_true(blkup_equal_at(s, 2, "\x03\x84\x05", 3));
        assert_false(blkup_equal_at(s, 2, "\x03\x84\x06", 3));
        assert_false(blkup_equal_at(s, 8, "\x09\x00", 2));
        assert_false(blkup_equal_at(s, SIZE_MAX, "\x09", 1));
        assert_true(blkup_is_filled(z, 0, 15, 0));
        assert_false(blkup_is_filled(z, 0, 16, 0));
        assert_false(blkup_is_filled(z, 0, 15, 1));
        assert_true(blkup_is_filled(z, 15, 0, 1));
        assert_true(blkup_is_filled(s, 2, 1, 3));
        assert_false(blkup_is_filled(s, 2, 2, 3));
}

static void loads_have_the_right_order(void **state)
{
        (void) state;
        /* All from an odd place: the address needs no alignment. */
        assert_int_equal(blkup_load_u8(sample + 1), 0x82);
        assert_int_equal(blkup_load_le16(sample + 1), 0x0382);
        assert_int_equal(blkup_load_be16(sample + 1), 0x8203);
        assert_int_equal(blkup_load_le32(sample + 1), 0x05840382);
        assert_int_equal(blkup_load_be32(sample + 1), 0x82038405);
        assert_true(blkup_load_le64(sample + 1) == UINT64_C(0x0988078605840382));
        assert_true(blkup_load_be64(sample + 1) == UINT64_C(0x8203840586078809));
        /* The top bit must not be smeared upwards. */
        assert_true(blkup_load_le64((const uint8_t *) "\0\0\0\x80\0\0\0\0") == UINT64_C(0x80000000));
        assert_true(blkup_load_be64((const uint8_t *) "\0\0\0\0\x80\0\0\0") == UINT64_C(0x80000000));
        assert_int_equal(blkup_load_be16((const uint8_t *) "\xff\xff"), 0xffff);
}

/* Each accessor on a view of every length up to 16, at every offset up to 20: inside it reads what the load
 * reads, outside it says no, leaves the result alone, and the _at form gives 0. The view ends where its
 * memory ends, so that a read beyond it is seen by the address sanitizer. */
#define CHECK_ACCESSOR(name, type)                                                              \
        static void name##_is_bounded(void **state)                                             \
        {                                                                                       \
                (void) state;                                                                   \
                for (size_t len = 0; len <= 16; len++) {                                        \
                        uint8_t *p = malloc(len > 0 ? len : 1);                                 \
                        struct blkup_bytes s = view(p, len);                                    \
                                                                                                \
                        assert_non_null(p);                                                     \
                        for (size_t i = 0; i < len; i++)                                        \
                                p[i] = (uint8_t) (0xa1 + 7 * i);                                \
                        for (size_t off = 0; off <= 20; off++) {                                \
                                type v = 0x5a;                                                  \
                                bool inside = off + sizeof(type) <= len;                        \
                                                                                                \
                                assert_int_equal(blkup_get_##name(s, off, &v), inside);         \
                                if (inside) {                                                   \
                                        assert_true(v == blkup_load_##name(p + off));           \
                                        assert_true(blkup_##name##_at(s, off) == v);            \
                                        assert_true(v != 0);                                    \
                                } else {                                                        \
                                        assert_true(v == 0x5a);                                 \
                                        assert_true(blkup_##name##_at(s, off) == 0);            \
                                }                                                               \
                        }                                                                       \
                        for (size_t back = 0; back < 9; back++) {                               \
                                /* Volatile, or gcc 12 warns of the loads that never happen. */ \
                                volatile size_t far = SIZE_MAX - back;                          \
                                                                                                \
                                assert_true(blkup_##name##_at(s, far) == 0);                    \
                        }                                                                       \
                        free(p);                                                                \
                }                                                                               \
        }
CHECK_ACCESSOR(u8, uint8_t)
CHECK_ACCESSOR(le16, uint16_t)
CHECK_ACCESSOR(le32, uint32_t)
CHECK_ACCESSOR(le64, uint64_t)
CHECK_ACCESSOR(be16, uint16_t)
CHECK_ACCESSOR(be32, uint32_t)
CHECK_ACCESSOR(be64, uint64_t)

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(has_knows_the_end),
                cmocka_unit_test(sub_bytes_keeps_the_place),
                cmocka_unit_test(equal_at_and_filled_are_bounded),
                cmocka_unit_test(loads_have_the_right_order),
                cmocka_unit_test(u8_is_bounded),
                cmocka_unit_test(le16_is_bounded),
                cmocka_unit_test(le32_is_bounded),
                cmocka_unit_test(le64_is_bounded),
                cmocka_unit_test(be16_is_bounded),
                cmocka_unit_test(be32_is_bounded),
                cmocka_unit_test(be64_is_bounded),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
