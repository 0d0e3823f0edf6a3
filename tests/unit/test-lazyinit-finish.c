/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Mirrors src/lazyinit/finish.h and zero.h: what is written, in which order, and what errors leave behind. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lazy-check.h"
#include "lazy-image.h"

static uint8_t *before;
static size_t size;

static int make(void **state)
{
        (void) state;
        if (!lazy_image_has_tools()) {
                print_message("SKIP: no e2fsprogs here\n");
                return 0;
        }
        before = lazy_image_make(&lazy_geometries[0], &size);
        return before ? 0 : -1;
}

static int forget(void **state)
{
        (void) state;
        free(before);
        lazy_image_forget_folder();
        return 0;
}

static uint8_t *copy(void)
{
        uint8_t *image;

        if (!before)
                skip();
        image = malloc(size);
        assert_non_null(image);
        memcpy(image, before, size);
        return image;
}

/* Zeroes, one flush, descriptors, one flush; and descriptors in whole sectors. */
static void test_order_and_flushes(void **state)
{
        uint8_t *image = copy();
        struct blkup_writer *w = blkup_writer_recorder_new(blkup_writer_memory_new(image, size, 512));
        struct lazy_work work = { .options = { .strategy = BLKUP_LAZYINIT_AUTO } };
        const struct blkup_write_event *e;
        unsigned flushes = 0;
        size_t n;

        (void) state;
        assert_int_equal(lazy_work_finish(&work, w, NULL), 0);
        assert_null(lazy_check(before, image, size));
        assert_true(work.result.groups_left_before > 4);
        assert_int_equal(work.result.groups_left, 0);
        e = blkup_writer_recorder_events(w, &n);
        for (size_t i = 0; i < n; i++) {
                if (e[i].kind == BLKUP_EVENT_FLUSH) {
                        flushes++;
                } else if (flushes == 0) {
                        assert_int_equal(e[i].kind, BLKUP_EVENT_ZERO);
                } else {
                        assert_int_equal(flushes, 1);
                        assert_int_equal(e[i].kind, BLKUP_EVENT_WRITE);
                        assert_int_equal(e[i].at % 512 | e[i].len % 512, 0);
                }
        }
        assert_int_equal(flushes, 2);
        assert_int_equal(e[n - 1].kind, BLKUP_EVENT_FLUSH);
        assert_int_equal(work.result.flushes, 2);
        (void) blkup_writer_close(w);
        free(image);
}

/* A second run has nothing to do and does nothing. */
static void test_twice_is_once(void **state)
{
        uint8_t *image = copy();
        struct blkup_writer *w = blkup_writer_recorder_new(blkup_writer_memory_new(image, size, 512));
        struct lazy_work work = { .options = { .strategy = BLKUP_LAZYINIT_WRITE } };
        size_t n, again;

        (void) state;
        assert_int_equal(lazy_work_finish(&work, w, NULL), 0);
        (void) blkup_writer_recorder_events(w, &n);
        assert_int_equal(lazy_work_finish(&work, w, NULL), 0);
        (void) blkup_writer_recorder_events(w, &again);
        assert_int_equal(n, again);
        assert_int_equal(work.result.groups_left_before, 0);
        (void) blkup_writer_close(w);
        free(image);
}

/* All ways lead to the same bytes, whatever the sector. */
static void test_strategies_agree(void **state)
{
        static const struct blkup_lazyinit_options ways[] = {
                { .strategy = BLKUP_LAZYINIT_AUTO },
                { .strategy = BLKUP_LAZYINIT_WRITE, .in_flight = 1 },
                { .strategy = BLKUP_LAZYINIT_PUNCH, .allocation = BLKUP_LAZYINIT_THIN },
                { .strategy = BLKUP_LAZYINIT_ZERO_RANGE, .allocation = BLKUP_LAZYINIT_THICK },
                { .strategy = BLKUP_LAZYINIT_AUTO, .background = true, .wait_mult = 0 },
                { .strategy = BLKUP_LAZYINIT_AUTO, .verify = true },
        };
        uint8_t *first = NULL;

        (void) state;
        for (size_t i = 0; i < 2 * sizeof(ways) / sizeof(*ways); i++) {
                uint8_t *image = copy();
                struct lazy_work work = { .options = ways[i / 2] };
                struct blkup_writer *w = blkup_writer_memory_new(image, size, i % 2 ? 4096 : 512);

                assert_int_equal(lazy_work_finish(&work, w, NULL), 0);
                (void) blkup_writer_close(w);
                if (!first) {
                        first = image;
                        continue;
                }
                assert_memory_equal(first, image, size);
                free(image);
        }
        free(first);
}

/* The n-th write, zero or flush goes wrong, each n in turn, once and from then on, until a run sees no fault.
 */
static void test_every_error_is_told_and_leaves_no_lie(void **state)
{
        static const struct {
                enum blkup_write_fault what;
                int error;
        } faults[] = { { BLKUP_WRITE_FAULT_ERROR, EIO }, { BLKUP_WRITE_FAULT_ERROR, ENOSPC },
                       { BLKUP_WRITE_FAULT_TORN, EIO } };
        static const struct blkup_lazyinit_options ways[] = {
                { .strategy = BLKUP_LAZYINIT_AUTO }, { .strategy = BLKUP_LAZYINIT_WRITE },
                { .strategy = BLKUP_LAZYINIT_AUTO, .background = true },
        };
        unsigned runs = 0;

        (void) state;
        for (size_t i = 0; i < 3 * 3 * 3 * 2; i++) {
                struct blkup_write_fault_rule rule = {
                        .what = faults[i % 3].what, .error = faults[i % 3].error,
                        .on = (enum blkup_write_event_kind) (i / 3 % 3), .is_for_good = i / 27 != 0,
                };
                uint64_t hits = 1;

                for (rule.nth = 1; hits > 0; rule.nth++) {
                        uint8_t *image = copy();
                        struct lazy_work work = { .options = ways[i / 9 % 3] };
                        struct blkup_error err = { 0 };
                        struct blkup_writer *w =
                                blkup_writer_fault_new(blkup_writer_memory_new(image, size, 512), &rule);
                        int k = lazy_work_finish(&work, w, &err);

                        hits = blkup_writer_fault_hits(w);
                        assert_int_equal(k, hits > 0 ? -rule.error : 0);
                        if (k < 0)
                                assert_true(strlen(err.message) > 10);
                        if (lazy_check(before, image, size))
                                fail_msg("%s", lazy_check(before, image, size));
                        /* And without the fault it goes on to the end. */
                        rule.on = (enum blkup_write_event_kind) (i / 3 % 3);
                        (void) blkup_writer_close(w);
                        w = blkup_writer_memory_new(image, size, 512);
                        assert_int_equal(lazy_work_finish(&work, w, NULL), 0);
                        (void) blkup_writer_close(w);
                        free(image);
                        runs++;
                        assert_true(runs < 5000);
                }
        }
        print_message("%u runs with a fault\n", runs);
}

/* Offload that is refused, at once or late, falls back for that range only. */
static void test_offload_may_be_refused_late(void **state)
{
        (void) state;
        for (uint64_t nth = 1; nth < 4; nth++) {
                struct blkup_write_fault_rule rule = { .what = BLKUP_WRITE_FAULT_TORN, .on = BLKUP_EVENT_ZERO,
                                                       .nth = nth, .error = EOPNOTSUPP };
                uint8_t *image = copy();
                struct lazy_work work = { .options = { .strategy = BLKUP_LAZYINIT_AUTO } };
                struct blkup_writer *w =
                        blkup_writer_fault_new(blkup_writer_memory_new(image, size, 512), &rule);

                assert_int_equal(lazy_work_finish(&work, w, NULL), 0);
                assert_null(lazy_check(before, image, size));
                assert_int_equal(work.result.groups_left, 0);
                if (blkup_writer_fault_hits(w) > 0) {
                        assert_int_equal(work.result.offload_refusals, 1);
                        assert_true(work.result.bytes_written > 0);
                        assert_true(work.result.bytes_offloaded > 0);
                }
                (void) blkup_writer_close(w);
                free(image);
        }
}

/* A device that answers "done" and did nothing: only --verify can see it, and then no flag is set. */
static void test_verify_sees_lost_writes(void **state)
{
        struct blkup_write_fault_rule rule = { .what = BLKUP_WRITE_FAULT_LOST,
                                               .on = BLKUP_EVENT_ZERO,
                                               .nth = 1 };
        uint8_t *image = copy();
        struct lazy_work work = { .options = { .verify = true } };
        struct blkup_writer *w = blkup_writer_fault_new(blkup_writer_memory_new(image, size, 512), &rule);
        struct blkup_error err = { 0 };

        (void) state;
        assert_int_equal(lazy_work_finish(&work, w, &err), -EIO);
        assert_non_null(strstr(err.message, "are not there"));
        assert_null(lazy_check(before, image, size));
        (void) blkup_writer_close(w);
        free(image);
}

static volatile int stop;

static void stop_after_two(void *to, const struct blkup_lazyinit_progress *p)
{
        (void) to;
        if (p->groups_done >= 2)
                stop = 1;
}

static void test_stop_finishes_what_was_begun(void **state)
{
        uint8_t *image = copy();
        struct lazy_work work = { .options = { .background = true, .wait_mult = 0, .stop = &stop,
                                               .progress = stop_after_two } };
        struct blkup_writer *w = blkup_writer_memory_new(image, size, 512);

        (void) state;
        stop = 1;
        assert_int_equal(lazy_work_finish(&work, w, NULL), 0);
        assert_true(work.result.was_stopped);
        assert_memory_equal(image, before, size);
        stop = 0;
        work.options.progress = NULL;
        assert_int_equal(lazy_work_finish(&work, w, NULL), 0);
        assert_false(work.result.was_stopped);
        assert_int_equal(work.result.groups_left, 0);
        assert_null(lazy_check(before, image, size));
        (void) blkup_writer_close(w);
        free(image);
}

static struct blkup_writer *spoiled;
static uint8_t *spoiled_image;

static void spoil(void *to, const struct blkup_lazyinit_progress *p)
{
        (void) to;
        (void) p;
        /* Somebody else writes to descriptor 0 (block 2 of 1 KiB blocks: used dirs). */
        spoiled_image[2048 + 0x10] ^= 1;
}

static void test_changed_descriptor_stops_it(void **state)
{
        struct lazy_work work = { .options = { .strategy = BLKUP_LAZYINIT_AUTO, .progress = spoil } };
        struct blkup_error err = { 0 };
        uint8_t *image = copy();

        (void) state;
        spoiled_image = image;
        spoiled = blkup_writer_memory_new(image, size, 512);
        assert_int_equal(lazy_work_finish(&work, spoiled, &err), -ESTALE);
        assert_non_null(strstr(err.message, "somebody else"));
        (void) blkup_writer_close(spoiled);
        free(image);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_order_and_flushes),
                cmocka_unit_test(test_twice_is_once),
                cmocka_unit_test(test_strategies_agree),
                cmocka_unit_test(test_every_error_is_told_and_leaves_no_lie),
                cmocka_unit_test(test_offload_may_be_refused_late),
                cmocka_unit_test(test_verify_sees_lost_writes),
                cmocka_unit_test(test_stop_finishes_what_was_begun),
                cmocka_unit_test(test_changed_descriptor_stops_it),
        };

        return cmocka_run_group_tests(tests, make, forget);
}
