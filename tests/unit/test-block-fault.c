/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "block/fault.h"
#include "block/memory.h"

enum { SIZE = 8192 };

static uint8_t bytes[SIZE], got[4][2048];

static struct blkup_block *make(const struct blkup_fault_rule *rules, size_t n)
{
        struct blkup_block *inner = blkup_block_memory_new(SIZE, 512), *b;

        assert_non_null(inner);
        for (size_t i = 0; i < SIZE; i++)
                bytes[i] = (uint8_t) (i * 13 + i / 256);
        assert_int_equal(blkup_block_memory_add(inner, 0, bytes, SIZE), 0);
        b = blkup_block_fault_new(inner, rules, n);
        assert_non_null(b);
        return b;
}

/* Two batches, of three requests and of one. Returns how many had the bytes that are there, all of them. */
static int run(struct blkup_block *b, struct blkup_block_request *r)
{
        int right = 0;

        for (size_t i = 0; i < 4; i++)
                r[i] = (struct blkup_block_request) { .at = i * 2048, .len = 512 + i * 512, .to = got[i] };
        (void) !blkup_block_read(b, r, 3);
        (void) !blkup_block_read(b, r + 3, 1);
        for (size_t i = 0; i < 4; i++)
                right += r[i].done_bytes == (int64_t) r[i].len &&
                         memcmp(got[i], bytes + r[i].at, r[i].len) == 0;
        return right;
}

/* The use this is made for: each n in turn until nothing is hit; just that request is wrong. */
static void each_read_in_turn(void **state)
{
        static const enum blkup_fault what[] = { BLKUP_FAULT_ERROR, BLKUP_FAULT_SHORT, BLKUP_FAULT_CHANGED };

        (void) state;
        for (size_t k = 0; k < 3; k++) {
                uint64_t n = 0, hits;

                do {
                        struct blkup_fault_rule rule = {
                                .what = what[k], .nth = ++n, .short_bytes = 100, .error = ENOMEDIUM
                        };
                        struct blkup_block *b = make(&rule, 1);
                        struct blkup_block_request r[4];

                        assert_int_equal(run(b, r), n <= 4 ? 3 : 4);
                        hits = blkup_block_fault_hits(b);
                        assert_int_equal(hits, n <= 4);
                        if (hits) {
                                const struct blkup_block_request *bad = &r[n - 1];

                                switch (what[k]) {
                                case BLKUP_FAULT_ERROR:
                                        assert_int_equal(bad->done_bytes, -ENOMEDIUM);
                                        break;
                                case BLKUP_FAULT_SHORT:
                                        assert_int_equal(bad->done_bytes, 100);
                                        assert_memory_equal(bad->to, bytes + bad->at, 100);
                                        break;
                                default:
                                        assert_int_equal(bad->done_bytes, bad->len);
                                }
                        }
                        b = blkup_block_close(b);
                } while (hits > 0);
                assert_int_equal(n, 5);
        }
}

static void from_the_nth_on(void **state)
{
        struct blkup_fault_rule rule = { .what = BLKUP_FAULT_ERROR, .nth = 2, .is_for_good = true };
        struct blkup_block *b = make(&rule, 1);
        struct blkup_block_request r[4];

        (void) state;
        assert_int_equal(run(b, r), 1);
        assert_int_equal(r[1].done_bytes, -EIO);
        assert_int_equal(r[3].done_bytes, -EIO);
        assert_int_equal(blkup_block_fault_hits(b), 3);
        b = blkup_block_close(b);
}

static void unreadable_sectors_fail_whoever_touches_them(void **state)
{
        struct blkup_fault_rule rule = {
                .what = BLKUP_FAULT_ERROR, .nth = 1, .is_for_good = true, .at = 2560, .len = 512
        };
        struct blkup_block *b = make(&rule, 1);
        struct blkup_block_request r[] = {
                { .at = 2048, .len = 512, .to = got[0] },
                { .at = 2559, .len = 2, .to = got[1] },
                { .at = 3071, .len = 10, .to = got[2] },
                { .at = 3072, .len = 10, .to = got[3] },
        };

        (void) state;
        assert_int_equal(blkup_block_read(b, r, 4), 1);
        assert_int_equal(r[0].done_bytes, 512);
        assert_int_equal(r[1].done_bytes, -EIO);
        assert_int_equal(r[2].done_bytes, -EIO);
        assert_int_equal(r[3].done_bytes, 10);
        b = blkup_block_close(b);
}

static void changed_on_the_second_read(void **state)
{
        struct blkup_fault_rule rule = {
                .what = BLKUP_FAULT_CHANGED, .nth = 2, .is_for_good = true, .at = 10, .len = 2
        };
        struct blkup_block *b = make(&rule, 1);
        struct blkup_block_request r = { .at = 8, .len = 8, .to = got[0] };

        (void) state;
        assert_int_equal(blkup_block_read(b, &r, 1), 1);
        assert_memory_equal(got[0], bytes + 8, 8);
        for (int again = 0; again < 2; again++) {
                assert_int_equal(blkup_block_read(b, &r, 1), 1);
                for (size_t i = 0; i < 8; i++)
                        assert_int_equal(got[0][i],
                                         i == 2 || i == 3 ? (uint8_t) ~bytes[8 + i] : bytes[8 + i]);
        }
        b = blkup_block_close(b);
}

static void late_is_told_and_slept(void **state)
{
        struct blkup_fault_rule rules[] = {
                { .what = BLKUP_FAULT_LATE, .nth = 1, .late_ns = UINT64_C(3600) * 1000000000 },
                { .what = BLKUP_FAULT_LATE, .nth = 2, .late_ns = 2000000, .is_real = true },
        };
        struct blkup_block *b = make(rules, 2);
        struct blkup_block_request r[4];
        uint64_t before = blkup_now_ns(), ns;

        (void) state;
        assert_int_equal(run(b, r), 4);
        ns = blkup_now_ns() - before;
        assert_true(ns >= 2000000 && ns < UINT64_C(60) * 1000000000);
        assert_true(r[0].ns >= UINT64_C(3600) * 1000000000);
        assert_true(r[1].ns >= 2000000);
        assert_int_equal(r[2].ns, 0);
        b = blkup_block_close(b);
}

/* A device that is pulled: the batch is refused, and every request of it says so. */
static void refused_batches(void **state)
{
        struct blkup_fault_rule rule = { .what = BLKUP_FAULT_REFUSED, .nth = 2, .error = ENODEV };
        struct blkup_block *b = make(&rule, 1);
        struct blkup_block_request r[4];

        (void) state;
        assert_int_equal(run(b, r), 3);
        assert_int_equal(r[3].done_bytes, -ENODEV);
        assert_int_equal(blkup_block_fault_hits(b), 1);
        b = blkup_block_close(b);
}

static void a_failed_read_leaves_no_old_bytes(void **state)
{
        struct blkup_fault_rule rule = { .what = BLKUP_FAULT_ERROR, .nth = 2 };
        struct blkup_block *b = make(&rule, 1);
        struct blkup_block_request r = { .at = 0, .len = 64, .to = got[0] };

        (void) state;
        assert_int_equal(blkup_block_read(b, &r, 1), 1);
        assert_memory_equal(got[0], bytes, 64);
        assert_int_equal(blkup_block_read(b, &r, 1), 1);
        assert_int_equal(r.done_bytes, -EIO);
        for (size_t i = 0; i < 64; i++)
                assert_int_equal(got[0][i], 0xa5);
        b = blkup_block_close(b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_read_in_turn),
                cmocka_unit_test(from_the_nth_on),
                cmocka_unit_test(unreadable_sectors_fail_whoever_touches_them),
                cmocka_unit_test(changed_on_the_second_read),
                cmocka_unit_test(late_is_told_and_slept),
                cmocka_unit_test(refused_batches),
                cmocka_unit_test(a_failed_read_leaves_no_old_bytes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
