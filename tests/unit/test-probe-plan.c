/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What it costs to find nothing: on a blank device every window of every format is read, each sector once.
 * The bounds are the fewest sectors in which the signatures of all types can be looked at; a format that asks
 * for more than its magic shows up here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <blkup/probe.h>

#include "block/memory.h"

/* The search for an xfs log reads 256 KiB, last and only where nothing else was found: counted apart. */
static const char *const without_search = "xfs_external_log";

static struct blkup_probe *prober;

/* A blank device holds nothing, whatever it costs to say so. */
static struct blkup_io_stats cost(uint64_t size, bool with_search, uint32_t sector)
{
        struct blkup_block_memory m;
        struct blkup_io_stats stats;
        enum blkup_verdict verdict;

        blkup_block_memory_init(&m, size, sector);
        assert_int_equal(blkup_probe_set_types(prober, with_search ? NULL : without_search, true, NULL), 0);
        assert_int_equal(blkup_probe_block(prober, &m.block, &verdict, NULL), 0);
        assert_int_equal(verdict, BLKUP_VERDICT_NOTHING);
        blkup_probe_stats(prober, &stats);
        (void) blkup_block_close(&m.block);
        return stats;
}

struct bound {
        const char *words;
        uint64_t size, sectors, bytes, rounds;
        bool with_search;
};

static void blank_devices_cost_the_minimum(void **state)
{
        static const struct bound bounds[] = {
                { "505 KiB", 517120, 18, 9216, 2, false },
                { "1440 KiB", 1474560, 20, 10240, 2, false },
                { "4 MiB", 4194304, 43, 22016, 1, false },
                { "64 MiB", 67108864, 47, 24064, 1, false },
                { "1 GiB", 1073741824, 47, 24064, 1, false },
                { "1 GiB, xfs log search", 1073741824, 538, 275456, 2, true },
                { "8 TiB, xfs log search", UINT64_C(8) << 40, 538, 275456, 2, true },
        };

        (void) state;
        print_message("%-24s %8s %8s %8s %8s %8s\n", "blank device", "sectors", "bytes", "pages", "reads",
                      "rounds");
        for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
                const struct bound *b = &bounds[i];
                struct blkup_io_stats s = cost(b->size, b->with_search, 512);

                print_message("%-24s %8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64 "\n",
                              b->words, s.sectors, s.bytes, s.pages, s.reads, s.rounds);
                assert_in_range(s.sectors, 1, b->sectors);
                assert_in_range(s.bytes, 1, b->bytes);
                assert_in_range(s.rounds, 1, b->rounds);
                /* No sector twice. */
                assert_int_equal(s.bytes, s.sectors * 512);
                assert_int_equal(s.submissions, s.rounds);
        }
}

static void each_size_is_read_once(void **state)
{
        (void) state;
        for (uint64_t size = 1; size < 200000; size += size < 2100 ? 1 : 509) {
                struct blkup_io_stats s = cost(size, true, 512);

                assert_in_range(s.bytes, 0, size);
                assert_in_range(s.bytes + 511, s.sectors * 512, s.sectors * 512 + 511);
        }
}

static void large_sectors_are_read_whole(void **state)
{
        struct blkup_io_stats s = cost(1 << 30, false, 4096);

        (void) state;
        assert_int_equal(s.bytes % 4096, 0);
        assert_int_equal(s.bytes, s.pages * 4096);
        print_message("%-24s %8" PRIu64 " %8" PRIu64 " %8" PRIu64 "\n", "1 GiB, 4096-byte sectors", s.sectors,
                      s.bytes, s.pages);
}

static struct blkup_io_stats cost_of_batch(uint64_t size, unsigned flags)
{
        struct blkup_block_memory m;
        struct blkup_io_stats stats;
        enum blkup_verdict verdict;

        blkup_block_memory_init(&m, size, 512);
        m.block.one_submission = true;
        blkup_probe_set_flags(prober, flags);
        assert_int_equal(blkup_probe_set_types(prober, without_search, true, NULL), 0);
        assert_int_equal(blkup_probe_block(prober, &m.block, &verdict, NULL), 0);
        assert_int_equal(verdict, BLKUP_VERDICT_NOTHING);
        blkup_probe_set_flags(prober, 0);
        blkup_probe_stats(prober, &stats);
        (void) blkup_block_close(&m.block);
        return stats;
}

/* Where requests are what costs: fewer of them, and no gap above 4 KiB for that; on a tiny device as ever. */
static void few_reads_where_asked_for(void **state)
{
        struct blkup_io_stats many = cost_of_batch(64 << 20, 0),
                              few = cost_of_batch(64 << 20, BLKUP_PROBE_FEW_READS),
                              tiny = cost_of_batch(505 << 10, BLKUP_PROBE_FEW_READS);

        (void) state;
        print_message("64 MiB: %" PRIu64 " reads of %" PRIu64 " bytes, or %" PRIu64 " of %" PRIu64 "\n",
                      many.reads, many.bytes, few.reads, few.bytes);
        assert_int_equal(many.bytes, 24064);
        assert_true(few.reads * 4 < many.reads * 3);
        assert_true(few.bytes > many.bytes);
        assert_true(few.bytes <= many.bytes + 4096 * (many.reads - few.reads));
        assert_int_equal(tiny.bytes, 9216);
}

static void size_0_costs_nothing(void **state)
{
        struct blkup_io_stats s = cost(0, true, 512);

        (void) state;
        assert_int_equal(s.reads, 0);
        assert_int_equal(s.bytes, 0);
}

/* The area decides, not the device it is on. */
static void an_area_is_planned_like_a_device(void **state)
{
        struct blkup_io_stats whole = cost(4194304, true, 512), part;
        struct blkup_block_memory m;
        enum blkup_verdict verdict;

        (void) state;
        blkup_block_memory_init(&m, 1 << 30, 512);
        blkup_probe_set_area(prober, 1048576, 4194304);
        assert_int_equal(blkup_probe_block(prober, &m.block, &verdict, NULL), 0);
        assert_int_equal(verdict, BLKUP_VERDICT_NOTHING);
        blkup_probe_stats(prober, &part);
        blkup_probe_set_area(prober, 0, 0);
        assert_int_equal(part.sectors, whole.sectors);
        assert_int_equal(part.bytes, whole.bytes);
}

static int make_prober(void **state)
{
        (void) state;
        prober = blkup_probe_new();
        return prober ? 0 : -1;
}

static int free_prober(void **state)
{
        (void) state;
        prober = blkup_probe_unref(prober);
        return 0;
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(blank_devices_cost_the_minimum), cmocka_unit_test(each_size_is_read_once),
                cmocka_unit_test(large_sectors_are_read_whole),   cmocka_unit_test(size_0_costs_nothing),
                cmocka_unit_test(an_area_is_planned_like_a_device),
                cmocka_unit_test(few_reads_where_asked_for),
        };

        return cmocka_run_group_tests(tests, make_prober, free_prober);
}
