/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Probes a second, in one process: libblkup beside the machine's libblkid, in turns, over the files that are
 * named and over a blank stick. A program of its own, because blkup itself never links libblkid.
 *
 * usage: in-process ROUNDS BLANK FILE...
 *        in-process cage          from the fork of a cage's child to its first answer
 */
#include <blkid/blkid.h>
#include <blkup/probe.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "block/memory.h"

struct subject {
        const char *name;
        double best; /* probes a second, of the rounds */
};

static struct blkup_probe *prober;

static int by_blkup(const char *path)
{
        /* The images are in the page cache, where a ring's batch costs more than the reads in it. */
        static const struct blkup_open_options options = { .direct = -1, .no_uring = true };
        enum blkup_verdict verdict;

        if (blkup_probe_path(prober, path, &options, &verdict, NULL) < 0)
                return -1;
        return verdict == BLKUP_VERDICT_FOUND;
}

/* As blkid -p asks: the tags that it prints and the checks that it makes. */
static int by_blkid(const char *path)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), found;
        blkid_probe pr = blkid_new_probe();

        if (fd < 0 || !pr || blkid_probe_set_device(pr, fd, 0, 0) != 0) {
                blkid_free_probe(pr);
                if (fd >= 0)
                        (void) close(fd);
                return -1;
        }
        (void) blkid_probe_enable_superblocks(pr, 1);
        (void) blkid_probe_set_superblocks_flags(pr, BLKID_SUBLKS_LABEL | BLKID_SUBLKS_UUID |
                                                             BLKID_SUBLKS_TYPE | BLKID_SUBLKS_SECTYPE |
                                                             BLKID_SUBLKS_USAGE | BLKID_SUBLKS_VERSION);
        (void) blkid_probe_enable_partitions(pr, 1);
        (void) blkid_probe_set_partitions_flags(pr, BLKID_PARTS_ENTRY_DETAILS);
        found = blkid_do_safeprobe(pr) == 0;
        blkid_free_probe(pr);
        (void) close(fd);
        return found;
}

static uint8_t blank_bytes[505 * 1024];

static int memory_blkup(const char *path)
{
        struct blkup_block_memory m;
        enum blkup_verdict verdict;

        (void) path;
        blkup_block_memory_init(&m, sizeof(blank_bytes), 512);
        if (blkup_block_memory_add(&m.block, 0, blank_bytes, sizeof(blank_bytes)) < 0 ||
            blkup_probe_block(prober, &m.block, &verdict, NULL) < 0)
                return -1;
        (void) blkup_block_close(&m.block);
        return verdict == BLKUP_VERDICT_FOUND;
}

/* Probes a second: the list over and over, for about a fifth of a second. */
static double rate(int (*probe)(const char *path), char **paths, int n, int *ret_found)
{
        uint64_t start = blkup_now_ns(), now = start, done = 0;

        do {
                *ret_found = 0;
                for (int i = 0; i < n; i++)
                        *ret_found += probe(paths[i]) > 0;
                done += (uint64_t) n;
                now = blkup_now_ns();
        } while (now - start < 200000000);
        return (double) done * 1e9 / (double) (now - start);
}

static void compare(const char *what, const char *name_a, int (*a)(const char *), const char *name_b,
                    int (*b)(const char *), char **paths, int n, int rounds)
{
        double best_a = 0, best_b = 0;
        int found_a = 0, found_b = 0;

        for (int i = 0; i < rounds; i++) {
                double ra = rate(a, paths, n, &found_a), rb = rate(b, paths, n, &found_b);

                best_a = ra > best_a ? ra : best_a;
                best_b = rb > best_b ? rb : best_b;
        }
        printf("%-28s %s %10.0f/s (%d of %d found)   %s %10.0f/s (%d found)   %.1f x\n", what, name_a, best_a,
               found_a, n, name_b, best_b, found_b, best_a / best_b);
}

static int compare_times(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

        return (x > y) - (x < y);
}

/* A child each time, as a device has one whose parser died, or the first of a run; the device is in memory.
 */
static int time_cages(void)
{
        static uint64_t ns[501];

        for (size_t i = 0; i < sizeof(ns) / sizeof(ns[0]); i++) {
                struct blkup_block_memory m;
                enum blkup_verdict verdict;
                uint64_t start;

                prober = blkup_probe_new();
                if (!prober)
                        return 1;
                blkup_block_memory_init(&m, sizeof(blank_bytes), 512);
                if (blkup_block_memory_add(&m.block, 0, blank_bytes, sizeof(blank_bytes)) < 0)
                        return 1;
                start = blkup_now_ns();
                if (blkup_probe_set_cage(prober, true) < 0 ||
                    blkup_probe_block(prober, &m.block, &verdict, NULL) < 0)
                        return 1;
                ns[i] = blkup_now_ns() - start;
                (void) blkup_block_close(&m.block);
                (void) blkup_probe_unref(prober);
        }
        qsort(ns, sizeof(ns) / sizeof(ns[0]), sizeof(ns[0]), compare_times);
        printf("cage: fork to first answer, of %zu: median %.0f us, least %.0f us\n",
               sizeof(ns) / sizeof(ns[0]), (double) ns[sizeof(ns) / sizeof(ns[0]) / 2] / 1e3,
               (double) ns[0] / 1e3);
        return 0;
}

int main(int argc, char **argv)
{
        int rounds;

        if (argc == 2 && strcmp(argv[1], "cage") == 0)
                return time_cages();
        if (argc < 4) {
                fprintf(stderr, "usage: in-process ROUNDS BLANK FILE...\n");
                return 2;
        }
        rounds = atoi(argv[1]);
        prober = blkup_probe_new();
        if (!prober)
                return 1;
        compare("mixed images", "blkup", by_blkup, "libblkid", by_blkid, argv + 3, argc - 3, rounds);
        compare("blank stick, a file", "blkup", by_blkup, "libblkid", by_blkid, argv + 2, 1, rounds);
        compare("blank stick, in memory", "blkup", memory_blkup, "libblkid (file)", by_blkid, argv + 2, 1,
                rounds);
        (void) blkup_probe_unref(prober);
        return 0;
}
