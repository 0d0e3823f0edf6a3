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
#include "block/recorder.h"
#include "fail-alloc.h"

static uint8_t sink[1 << 17];

static struct blkup_block *record(uint64_t size, const struct blkup_block_model *model)
{
        struct blkup_block *inner = blkup_block_memory_new(size, 512), *b;

        assert_non_null(inner);
        b = blkup_block_recorder_new(inner, model);
        assert_non_null(b);
        return b;
}

static struct blkup_block_counts counts_of(const struct blkup_block *b)
{
        struct blkup_block_counts c;

        assert_int_equal(blkup_block_recorder_counts(b, &c), 0);
        return c;
}

static void read_at(struct blkup_block *b, uint64_t at, size_t len)
{
        struct blkup_block_request r = { .at = at, .len = len, .to = sink };

        assert_true(blkup_block_read(b, &r, 1) >= 0);
}

static void requests_are_logged_and_counted(void **state)
{
        struct blkup_block *b = record(10000, NULL);
        struct blkup_block_request r[] = {
                { .at = 0, .len = 512, .to = sink },
                { .at = 9990, .len = 512, .to = sink },
                { .at = 20000, .len = 1, .to = sink },
        };
        const struct blkup_block_record *log;
        struct blkup_block_counts c;
        size_t n;

        (void) state;
        assert_int_equal(blkup_block_read(b, r, 3), 1);
        read_at(b, 100, 1000); /* sectors 0..2: one of them seen before */
        log = blkup_block_recorder_log(b, &n);
        assert_int_equal(n, 3);
        assert_int_equal(log[0].submission, 1);
        assert_int_equal(log[1].submission, 1);
        assert_int_equal(log[1].at, 9990);
        assert_int_equal(log[1].done_bytes, 10);
        assert_int_equal(log[2].submission, 2);
        c = counts_of(b);
        assert_int_equal(c.submissions, 2);
        assert_int_equal(c.rounds, 2);
        assert_int_equal(c.reads, 3);
        assert_int_equal(c.bytes, 512 + 10 + 1000);
        assert_int_equal(c.sectors, 3 + 1);
        assert_int_equal(c.pages, 2);
        assert_int_equal(c.model_ns, 0);

        blkup_block_recorder_reset(b);
        c = counts_of(b);
        assert_int_equal(c.reads + c.sectors + c.pages + c.transfers, 0);
        b = blkup_block_close(b);
}

/* Against a plain table of flags. */
static void different_sectors_are_counted_once(void **state)
{
        enum { SECTORS = 400 };
        struct blkup_block *b = record(SECTORS * 512, NULL);
        bool seen[SECTORS] = {};

        (void) state;
        srand(7);
        for (int i = 0; i < 500; i++) {
                uint64_t at = (uint64_t) rand() % (SECTORS * 512);
                uint64_t len = 1 + (uint64_t) rand() % 3000, n_sectors = 0, n_pages = 0;

                if (len > SECTORS * 512 - at)
                        len = SECTORS * 512 - at;
                read_at(b, at, (size_t) len);
                for (uint64_t s = at / 512; s <= (at + len - 1) / 512; s++)
                        seen[s] = true;
                for (size_t s = 0; s < SECTORS; s++)
                        n_sectors += seen[s];
                for (size_t s = 0; s < SECTORS; s += 8) {
                        bool any = false;

                        for (size_t k = s; k < s + 8; k++)
                                any |= seen[k];
                        n_pages += any;
                }
                assert_int_equal(counts_of(b).sectors, n_sectors);
                assert_int_equal(counts_of(b).pages, n_pages);
        }
        b = blkup_block_close(b);
}

static void direct_reads_cost_their_sectors(void **state)
{
        const struct blkup_block_model model = { .bytes_per_second = 15000, .transfer_ns = 1000000 };
        struct blkup_block *b = record(505 * 1024, &model);
        const struct blkup_block_record *log;
        size_t n;

        (void) state;
        /* 18 sectors of a blank stick, 9,216 bytes at 15 kB/s: 0.6144 s, and 1 ms each. */
        for (uint64_t i = 0; i < 18; i++)
                read_at(b, i * 8192 + 3, 32);
        assert_int_equal(counts_of(b).transferred_bytes, 9216);
        assert_int_equal(counts_of(b).transfers, 18);
        assert_in_range(counts_of(b).model_ns, 632399000, 632401000);
        log = blkup_block_recorder_log(b, &n);
        assert_int_equal(log[n - 1].model_ns, counts_of(b).model_ns);
        read_at(b, 3, 32); /* nothing remembers it */
        assert_int_equal(counts_of(b).transfers, 19);
        b = blkup_block_close(b);
}

static void the_page_cache_brings_pages_once(void **state)
{
        const struct blkup_block_model model = { .bytes_per_second = 4096, .page_bytes = 4096 };
        struct blkup_block *b = record(505 * 1024, &model);
        const struct blkup_block_record *log;
        size_t n;

        (void) state;
        read_at(b, 1024, 32);
        assert_int_equal(counts_of(b).model_ns, 1000000000);
        read_at(b, 0, 4096); /* cached */
        assert_int_equal(counts_of(b).transfers, 1);
        read_at(b, 2 * 4096, 1);
        read_at(b, 0, 5 * 4096); /* pages 1 and 3..4 are missing: two transfers */
        assert_int_equal(counts_of(b).transfers, 4);
        assert_int_equal(counts_of(b).transferred_bytes, 5 * 4096);
        log = blkup_block_recorder_log(b, &n);
        assert_int_equal(log[1].transferred_bytes, 0);
        assert_int_equal(log[3].transferred_bytes, 3 * 4096);
        /* The last page of 505 KiB is a quarter of one. */
        read_at(b, 505 * 1024 - 10, 10);
        assert_int_equal(counts_of(b).transferred_bytes, 5 * 4096 + 1024);
        b = blkup_block_close(b);
}

static void readahead_follows_sequences(void **state)
{
        const struct blkup_block_model model = { .page_bytes = 4096, .readahead_bytes = 131072 };
        struct blkup_block *b = record(1 << 20, &model);

        (void) state;
        read_at(b, 0, 1); /* start: four pages for one, the second is marked */
        assert_int_equal(counts_of(b).transferred_bytes, 4 * 4096);
        read_at(b, 600000, 1); /* anywhere else: what was asked for */
        assert_int_equal(counts_of(b).transferred_bytes, 5 * 4096);
        read_at(b, 100, 1); /* cached, not marked */
        assert_int_equal(counts_of(b).transferred_bytes, 5 * 4096);
        read_at(b, 5000, 1); /* the mark: four pages, then twice as many */
        assert_int_equal(counts_of(b).transferred_bytes, (5 + 8) * 4096);
        read_at(b, 4 * 4096, 1); /* the next window is marked at its start: 16 more, pages 12 to 27 */
        assert_int_equal(counts_of(b).transferred_bytes, (5 + 8 + 16) * 4096);
        blkup_block_recorder_reset(b);
        read_at(b, 0, 69632); /* 17 pages round to 32, above a quarter of the limit: the limit */
        assert_int_equal(counts_of(b).transferred_bytes, 32 * 4096);
        read_at(b, 69632, 1); /* the mark: at its limit the window stays */
        assert_int_equal(counts_of(b).transferred_bytes, 64 * 4096);
        blkup_block_recorder_reset(b);
        read_at(b, 900000, 1000);
        read_at(b, 901000,
                5000); /* goes on from the last read: pages 220 and 221, the second of which is new */
        assert_int_equal(counts_of(b).transferred_bytes, (1 + 4) * 4096);
        blkup_block_recorder_reset(b);
        read_at(b, (1 << 20) - 8192, 4096);
        read_at(b, (1 << 20) - 4096, 4096); /* a window ends with the device */
        assert_int_equal(counts_of(b).transferred_bytes, 2 * 4096);
        b = blkup_block_close(b);
}

/* Reads go on without memory for the log, and the counts say that they are not to be had. */
static void no_memory_is_told_by_the_counts(void **state)
{
        const struct blkup_block_model model = { .page_bytes = 4096 };

        (void) state;
        for (long n = 0;; n++) {
                struct blkup_block *inner = blkup_block_memory_new(1 << 20, 512), *b;
                struct blkup_block_counts c = { .reads = 77 };
                long failed;

                assert_non_null(inner);
                fail_alloc_arm(n, false);
                b = blkup_block_recorder_new(inner, &model);
                if (!b) {
                        assert_int_equal(fail_alloc_disarm(), 1);
                        inner = blkup_block_close(inner);
                        continue;
                }
                for (uint64_t i = 0; i < 100; i++) {
                        struct blkup_block_request r = { .at = i * 10000, .len = 10, .to = sink };

                        assert_int_equal(blkup_block_read(b, &r, 1), 1);
                        assert_int_equal(r.done_bytes, 10);
                }
                failed = fail_alloc_disarm();
                assert_int_equal(blkup_block_recorder_counts(b, &c), failed ? -ENOMEM : 0);
                assert_int_equal(c.reads, failed ? 77 : 100);
                b = blkup_block_close(b);
                if (!failed) {
                        assert_true(n >= 5);
                        break;
                }
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(requests_are_logged_and_counted),
                cmocka_unit_test(different_sectors_are_counted_once),
                cmocka_unit_test(direct_reads_cost_their_sectors),
                cmocka_unit_test(the_page_cache_brings_pages_once),
                cmocka_unit_test(readahead_follows_sequences),
                cmocka_unit_test(no_memory_is_told_by_the_counts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
