/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Every window of every format, from the saved samples: what a check looks at is cut and changed everywhere.
 *
 * usage: probe-windows cuts|flips SAMPLES
 *
 * cuts    the device ends at each byte of each window, once for the format alone and every 8th time for all
 * formats flips   each bit of each window is changed, for the format alone; each byte is inverted, for all
 * formats Windows of more than WINDOW_MAX bytes are done at their ends, but for BLKUP_SOAK. A crash, a read
 * outside the device, a byte too far in memory, or an answer that is not consistent with itself ends the
 * program; two ways to look that differ do as well. The last line is `N passed, N failed, N skipped`, counted
 * in samples.
 */
#include "kit/kit.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

#define WINDOWS_MAX 4096
#define WINDOW_MAX 4096
/* Samples of a format that are done without BLKUP_SOAK: so many that name something, so many that do not. */
#define FOUND_MAX 1
#define REFUSED_MAX 1

static struct kit_bench own, all;
static struct kit_range windows[WINDOWS_MAX];
static unsigned n_windows;
static bool is_soak;
static uint64_t runs;

static void aim(const char *name)
{
        if (!kit_bench_only(&own, name))
                kit_die("no format or table is called %s", name);
}

/* What the format looks at on the sample, and where its magics are looked for. */
static enum blkup_verdict find_windows(const struct kit_sample *s)
{
        enum blkup_verdict verdict;

        n_windows = 0;
        own.again_every = 1;
        kit_view_record(windows, &n_windows, WINDOWS_MAX);
        if (!kit_bench_run(&own, s->bytes, s->len, &verdict))
                kit_die("%s: too short", s->path);
        kit_view_record(NULL, NULL, 0);
        kit_magic_ranges(own.p, windows, &n_windows, WINDOWS_MAX);
        n_windows = kit_ranges_merge(windows, n_windows);
        own.again_every = all.again_every = 16;
        return verdict;
}

/* The next byte to do behind `i` of a window of `len`: the middle of a long one is left out. */
static uint64_t next(uint64_t i, uint64_t len)
{
        if (!is_soak && len > WINDOW_MAX && i + 1 == WINDOW_MAX / 2)
                return len - WINDOW_MAX / 2;
        return i + 1;
}

static void cut(struct kit_bench *b, const struct kit_sample *s, uint64_t size)
{
        (void) kit_sample_lay(s->bytes, s->len, &b->memory, b->p);
        b->memory.block.info.size_bytes = size;
        (void) kit_bench_look(b);
        runs++;
}

static void cuts(const struct kit_sample *s)
{
        for (unsigned w = 0; w < n_windows; w++)
                for (uint64_t i = 0; i <= windows[w].len; i = next(i, windows[w].len)) {
                        cut(&own, s, windows[w].at + i);
                        if (i % 8 == 0)
                                cut(&all, s, windows[w].at + i);
                }
}

static void change(struct kit_bench *b, const struct kit_sample *s, uint64_t at, uint8_t mask)
{
        struct blkup_block_request r = { .at = at, .len = 1 };
        uint8_t byte;

        (void) kit_sample_lay(s->bytes, s->len, &b->memory, b->p);
        r.to = &byte;
        if (blkup_block_read(&b->memory.block, &r, 1) < 0 || r.done_bytes != 1)
                return; /* windows of another device's size */
        byte ^= mask;
        if (blkup_block_memory_add(&b->memory.block, at, &byte, 1) < 0)
                kit_die("memory exhausted");
        (void) kit_bench_look(b);
        runs++;
}

static void flips(const struct kit_sample *s)
{
        for (unsigned w = 0; w < n_windows; w++)
                for (uint64_t i = 0; i < windows[w].len; i = next(i, windows[w].len)) {
                        for (unsigned bit = 0; bit < 8; bit++)
                                change(&own, s, windows[w].at + i, (uint8_t) (1u << bit));
                        change(&all, s, windows[w].at + i, 0xff);
                }
}

int main(int argc, char **argv)
{
        unsigned passed = 0, skipped = 0;
        void (*mutate)(const struct kit_sample *s);

        if (argc != 3 || (strcmp(argv[1], "cuts") != 0 && strcmp(argv[1], "flips") != 0)) {
                (void) fputs("usage: probe-windows cuts|flips SAMPLES\n", stderr);
                return 2;
        }
        mutate = strcmp(argv[1], "cuts") == 0 ? cuts : flips;
        is_soak = getenv("BLKUP_SOAK") != NULL;
        kit_bench_init(&own);
        kit_bench_init(&all);
        for (unsigned k = 0; kit_target(k); k++) {
                struct kit_samples samples = { 0 };
                unsigned found = 0, refused = 0;

                kit_samples_add(&samples, argv[2], kit_target(k), UINT_MAX);
                skipped += samples.n == 0;
                if (samples.n == 0)
                        (void) printf("SKIP: no sample of %s\n", kit_target(k));
                aim(kit_target(k));
                for (unsigned i = 0; i < samples.n; i++) {
                        uint64_t before = runs, bytes = 0;

                        /* Before the runs: what ends them leaves a name. */
                        (void) fprintf(stderr, "%s\n", samples.list[i].path);
                        if (find_windows(&samples.list[i]) == BLKUP_VERDICT_FOUND
                                    ? found++ >= FOUND_MAX && !is_soak
                                    : refused++ >= REFUSED_MAX && !is_soak)
                                continue;
                        mutate(&samples.list[i]);
                        for (unsigned w = 0; w < n_windows; w++)
                                bytes += windows[w].len;
                        (void) printf("%-28s %6" PRIu64 " bytes in %3u windows, %8" PRIu64 " runs\n",
                                      kit_target(k), bytes, n_windows, runs - before);
                        passed++;
                }
                kit_samples_free(&samples);
        }
        kit_bench_free(&own);
        kit_bench_free(&all);
        (void) printf("%u passed, 0 failed, %u skipped\n", passed, skipped);
        return passed == 0;
}
