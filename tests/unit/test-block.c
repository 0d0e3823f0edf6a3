/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "block/block.h"

/* A backend that only notes what reaches it. */
struct seen {
        struct blkup_block block;
        size_t n_batches, n_requests, n_closed;
        struct blkup_block_request last[256];
        int answer;
};

static int seen_read(struct blkup_block *b, struct blkup_block_request *r, size_t n)
{
        struct seen *s = (struct seen *) b;

        s->n_batches++;
        if (s->answer < 0)
                return s->answer;
        for (size_t i = 0; i < n; i++) {
                s->last[s->n_requests++] = r[i];
                r[i].done_bytes = (int64_t) r[i].len;
                r[i].ns = 7;
        }
        return 1;
}

static void seen_close(struct blkup_block *b)
{
        ((struct seen *) b)->n_closed++;
}

static const struct blkup_block_ops seen_ops = { .name = "seen", .read = seen_read, .close = seen_close };

static struct seen make_seen(uint64_t size, uint32_t align)
{
        return (struct seen){
                .block = { .ops = &seen_ops, .align_bytes = align, .info = { .size_bytes = size } }
        };
}

static void inside_reaches_the_backend_as_it_is(void **state)
{
        struct seen s = make_seen(1000, 1);
        struct blkup_block_request r[] = { { .at = 0, .len = 1000 }, { .at = 999, .len = 1 } };

        (void) state;
        assert_int_equal(blkup_block_read(&s.block, r, 2), 1);
        assert_int_equal(s.n_requests, 2);
        assert_int_equal(r[0].done_bytes, 1000);
        assert_int_equal(r[1].done_bytes, 1);
        assert_int_equal(blkup_block_read(&s.block, r, 0), 0);
        assert_int_equal(s.n_batches, 1);
}

static void outside_never_reaches_the_backend(void **state)
{
        struct seen s = make_seen(1000, 1);
        struct blkup_block_request r[] = {
                { .at = 1000, .len = 1, .done_bytes = -1 },
                { .at = UINT64_MAX, .len = SIZE_MAX, .done_bytes = -1 },
                { .at = 5, .len = 0, .done_bytes = -1 },
        };

        (void) state;
        assert_int_equal(blkup_block_read(&s.block, r, 3), 0);
        assert_int_equal(s.n_batches, 0);
        for (size_t i = 0; i < 3; i++)
                assert_int_equal(r[i].done_bytes, 0);
}

static void partly_outside_is_short_and_the_rest_unharmed(void **state)
{
        struct seen s = make_seen(1000, 1);
        struct blkup_block_request r[] = {
                { .at = 2000, .len = 10 },
                { .at = 10, .len = 20 },
                { .at = 990, .len = SIZE_MAX },
                { .at = 0, .len = 4 },
        };

        (void) state;
        assert_int_equal(blkup_block_read(&s.block, r, 4), 1);
        assert_int_equal(s.n_requests, 3);
        assert_int_equal(s.last[1].len, 10);
        assert_int_equal(r[0].done_bytes, 0);
        assert_int_equal(r[1].done_bytes, 20);
        assert_int_equal(r[2].done_bytes, 10);
        assert_true(r[2].len == SIZE_MAX);
        assert_int_equal(r[3].done_bytes, 4);
        assert_int_equal(r[3].ns, 7);
}

static void cut_keeps_the_alignment(void **state)
{
        struct seen s = make_seen(1000, 512);
        struct blkup_block_request r[] = { { .at = 512, .len = 4096 } };

        (void) state;
        assert_int_equal(blkup_block_read(&s.block, r, 1), 1);
        assert_int_equal(s.last[0].len, 512);
        assert_int_equal(r[0].done_bytes, 488);
}

static void long_batches_with_a_cut_are_all_answered(void **state)
{
        struct seen s = make_seen(100, 1);
        struct blkup_block_request r[200];

        (void) state;
        for (size_t i = 0; i < 200; i++)
                r[i] = (struct blkup_block_request) { .at = i, .len = 2, .done_bytes = -99 };
        assert_int_equal(blkup_block_read(&s.block, r, 200), 2);
        assert_int_equal(s.n_requests, 100);
        for (size_t i = 0; i < 200; i++)
                assert_int_equal(r[i].done_bytes, i < 99 ? 2 : i == 99 ? 1 : 0);
}

static void refusal_is_answered_in_each_request(void **state)
{
        struct seen s = make_seen(100, 1);
        struct blkup_block_request r[] = { { .at = 0, .len = 5 }, { .at = 99, .len = 5 } };

        (void) state;
        s.answer = -ENODEV;
        assert_int_equal(blkup_block_read(&s.block, r, 1), -ENODEV);
        assert_int_equal(r[0].done_bytes, -ENODEV);
        assert_int_equal(blkup_block_read(&s.block, r, 2), -ENODEV);
        assert_int_equal(r[1].done_bytes, -ENODEV);
}

static void a_char_device_has_no_end_of_ours(void **state)
{
        struct seen s = make_seen(1, 1);
        struct blkup_block_request r = { .at = 4096, .len = 64 };

        (void) state;
        s.block.info.kind = BLKUP_BLOCK_CHAR;
        assert_int_equal(blkup_block_read(&s.block, &r, 1), 1);
        assert_int_equal(r.done_bytes, 64);
}

static void close_and_direct_take_what_there_is(void **state)
{
        struct seen s = make_seen(1, 1);

        (void) state;
        assert_null(blkup_block_close(NULL));
        assert_null(blkup_block_close(&s.block));
        assert_int_equal(s.n_closed, 1);
        assert_int_equal(blkup_block_set_direct(&s.block, false), 0);
        assert_int_equal(blkup_block_set_direct(&s.block, true), -EOPNOTSUPP);
        assert_false(s.block.info.direct);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(inside_reaches_the_backend_as_it_is),
                cmocka_unit_test(outside_never_reaches_the_backend),
                cmocka_unit_test(partly_outside_is_short_and_the_rest_unharmed),
                cmocka_unit_test(cut_keeps_the_alignment),
                cmocka_unit_test(long_batches_with_a_cut_are_all_answered),
                cmocka_unit_test(refusal_is_answered_in_each_request),
                cmocka_unit_test(a_char_device_has_no_end_of_ours),
                cmocka_unit_test(close_and_direct_take_what_there_is),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
