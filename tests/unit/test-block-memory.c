/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "block/memory.h"
#include "fail-alloc.h"

static void read_at(struct blkup_block *b, uint64_t at, size_t len, void *to)
{
        struct blkup_block_request r = { .at = at, .len = len, .to = to };

        assert_int_equal(blkup_block_read(b, &r, 1), 1);
        assert_int_equal(r.done_bytes, len);
}

static void gaps_are_zeroes(void **state)
{
        struct blkup_block_memory m;
        const uint8_t one[4] = "abcd";
        uint8_t got[16], want[16] = { [6] = 'a', 'b', 'c', 'd' };

        (void) state;
        blkup_block_memory_init(&m, UINT64_C(1) << 43, 512);
        memset(got, 0xee, sizeof(got));
        read_at(&m.block, 100, sizeof(got), got);
        for (size_t i = 0; i < sizeof(got); i++)
                assert_int_equal(got[i], 0);
        assert_int_equal(blkup_block_memory_add(&m.block, (UINT64_C(1) << 43) - 10, one, 4), 0);
        memset(got, 0xee, sizeof(got));
        read_at(&m.block, (UINT64_C(1) << 43) - 16, sizeof(got), got);
        assert_memory_equal(got, want, sizeof(got));
        assert_int_equal(m.block.info.logical_sector_bytes, 512);
        assert_null(blkup_block_close(&m.block));
}

static void beyond_the_end_is_refused(void **state)
{
        struct blkup_block_memory m;

        (void) state;
        blkup_block_memory_init(&m, 100, 512);
        assert_int_equal(blkup_block_memory_add(&m.block, 98, "abc", 3), -ERANGE);
        assert_int_equal(blkup_block_memory_add(&m.block, UINT64_MAX, "abc", 3), -ERANGE);
        assert_int_equal(blkup_block_memory_add(&m.block, 97, "abc", 3), 0);
        assert_int_equal(blkup_block_memory_add(&m.block, 0, "", 0), 0);
        assert_int_equal(m.n, 1);
}

/* Against the plain thing: an array of bytes that each piece is copied into. */
static void later_pieces_lie_over_earlier_ones(void **state)
{
        enum { SIZE = 256, ROUNDS = 300, PIECES = 40 };
        uint8_t source[SIZE], plain[SIZE], got[SIZE];
        struct blkup_block *b;

        (void) state;
        srand(20261);
        b = blkup_block_memory_new(SIZE, 512);
        assert_non_null(b);
        for (size_t i = 0; i < SIZE; i++)
                source[i] = (uint8_t) (rand() | 1);
        for (int round = 0; round < ROUNDS; round++) {
                blkup_block_memory_reset(b, SIZE);
                memset(plain, 0, SIZE);
                for (int i = 0; i < PIECES; i++) {
                        size_t at = (size_t) rand() % SIZE, len = (size_t) rand() % (i % 4 ? 9 : 60);
                        size_t from = (size_t) rand() % SIZE;

                        len = len > SIZE - at ? SIZE - at : len;
                        len = len > SIZE - from ? SIZE - from : len;
                        assert_int_equal(blkup_block_memory_add(b, at, source + from, len), 0);
                        memcpy(plain + at, source + from, len);

                        at = (size_t) rand() % SIZE;
                        len = 1 + (size_t) rand() % (SIZE - at);
                        memset(got, 0xee, SIZE);
                        read_at(b, at, len, got);
                        assert_memory_equal(got, plain + at, len);
                }
                read_at(b, 0, SIZE, got);
                assert_memory_equal(got, plain, SIZE);
        }
        b = blkup_block_close(b);
        assert_null(b);
}

static void one_buffer_is_a_device_without_a_copy(void **state)
{
        struct blkup_block_memory m;
        uint8_t image[2000], got[512];

        (void) state;
        memset(image, 'x', sizeof(image));
        blkup_block_memory_init(&m, sizeof(image), 512);
        assert_int_equal(blkup_block_memory_add(&m.block, 0, image, sizeof(image)), 0);
        image[700] = 'y'; /* seen: the bytes are the caller's */
        read_at(&m.block, 512, 512, got);
        assert_int_equal(got[700 - 512], 'y');
        assert_int_equal(got[0], 'x');
}

static void a_batch_is_one_submission(void **state)
{
        struct blkup_block_memory m;
        uint8_t got[3][8];
        struct blkup_block_request r[] = {
                { .at = 0, .len = 8, .to = got[0] },
                { .at = 60, .len = 8, .to = got[1] },
                { .at = 8, .len = 8, .to = got[2] },
        };

        (void) state;
        blkup_block_memory_init(&m, 64, 512);
        assert_true(m.block.one_submission);
        assert_int_equal(blkup_block_memory_add(&m.block, 62, "ab", 2), 0);
        assert_int_equal(blkup_block_read(&m.block, r, 3), 1);
        assert_int_equal(r[1].done_bytes, 4);
        assert_int_equal(got[1][2], 'a');
        assert_int_equal(r[2].done_bytes, 8);
}

/* The device stays as it was when its list cannot grow. */
static void no_memory_changes_nothing(void **state)
{
        (void) state;
        for (long n = 0;; n++) {
                struct blkup_block *b;
                uint8_t got[40] = { 1 };
                size_t added = 0;

                fail_alloc_arm(n, true);
                b = blkup_block_memory_new(40, 512);
                while (b && added < 20 && blkup_block_memory_add(b, added * 2, "x", 1) == 0)
                        added++;
                if (fail_alloc_disarm() == 0) {
                        assert_int_equal(added, 20);
                        b = blkup_block_close(b);
                        assert_true(n >= 2);
                        break;
                }
                assert_true(added < 20);
                if (!b)
                        continue;
                read_at(b, 0, 40, got);
                for (size_t i = 0; i < 40; i++)
                        assert_int_equal(got[i], i % 2 == 0 && i / 2 < added ? 'x' : 0);
                b = blkup_block_close(b);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(gaps_are_zeroes),
                cmocka_unit_test(beyond_the_end_is_refused),
                cmocka_unit_test(later_pieces_lie_over_earlier_ones),
                cmocka_unit_test(one_buffer_is_a_device_without_a_copy),
                cmocka_unit_test(a_batch_is_one_submission),
                cmocka_unit_test(no_memory_changes_nothing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
