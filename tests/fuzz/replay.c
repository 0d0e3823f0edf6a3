/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fuzz targets without libFuzzer: saved samples as regression tests, and how many executions a second
 * there are.
 *
 * usage: fuzz-replay samples FOLDER      each FOLDER/TARGET/NAME once, on its target and on all formats at
 * once fuzz-replay speed FOLDER        executions per second of each target, on its samples and on changed
 * ones fuzz-replay make FILE IMAGE TARGET [FLAGS]   writes the ranges that TARGET looks at in IMAGE as a
 * sample fuzz-replay targets             the names of the targets, one a line TARGET is the name of a type or
 * table, or `all`.
 */
#include "kit/kit.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What the project promises for each target; see RELIABILITY in the specification. */
#define WANTED_PER_SECOND 20000
#define SPEED_RUNS 2000
/* Others may use the machine meanwhile: the best of some counts, and only the time of this thread. */
#define SPEED_TRIES 12
#define SAMPLE_MAX (1 << 20)

static struct kit_samples samples;

/* The k-th target, or NULL; `all` is the last. */
static const char *target(unsigned k)
{
        const char *name = kit_target(k);

        return name ? name : k > 0 && kit_target(k - 1) ? "all" : NULL;
}

/* The samples of one target; `all` also has the first of each other. */
static void load_samples(const char *folder, const char *name)
{
        kit_samples_free(&samples);
        kit_samples_add(&samples, folder, name, UINT_MAX);
        if (strcmp(name, "all") == 0)
                for (unsigned k = 0; kit_target(k); k++)
                        kit_samples_add(&samples, folder, kit_target(k), 1);
}

static void aim(struct kit_bench *b, const char *name)
{
        if (!kit_bench_only(b, strcmp(name, "all") == 0 ? NULL : name))
                kit_die("no format or table is called %s", name);
}

static int replay(const char *folder)
{
        unsigned passed = 0, skipped = 0;
        struct kit_bench b;

        kit_bench_init(&b);
        b.again_every = 1;
        for (unsigned k = 0; target(k); k++) {
                load_samples(folder, target(k));
                if (samples.n == 0) {
                        (void) printf("SKIP: no sample of %s\n", target(k));
                        skipped++;
                }
                for (unsigned i = 0; i < samples.n; i++) {
                        enum blkup_verdict verdict;

                        /* Before the run: what ends it leaves a name. */
                        (void) fprintf(stderr, "%s\n", samples.list[i].path);
                        aim(&b, target(k));
                        (void) kit_bench_run(&b, samples.list[i].bytes, samples.list[i].len, &verdict);
                        aim(&b, "all");
                        (void) kit_bench_run(&b, samples.list[i].bytes, samples.list[i].len, &verdict);
                        passed++;
                }
        }
        kit_bench_free(&b);
        (void) printf("%u passed, 0 failed, %u skipped\n", passed, skipped);
        return passed == 0;
}

static double cpu_seconds(void)
{
        struct timespec t;

        if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) < 0)
                kit_die("no clock");
        return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

/* Runs on the samples in turn, every other one with a few bytes of its records changed. */
static double seconds_of(struct kit_bench *b, unsigned runs)
{
        static uint8_t changed[SAMPLE_MAX];
        uint64_t state = 1;
        double start = cpu_seconds();

        for (unsigned i = 0; i < runs; i++) {
                const struct kit_sample *s = &samples.list[i / 2 % samples.n];
                const uint8_t *bytes = s->bytes;
                enum blkup_verdict verdict;

                if (i % 2 == 1 && s->len > KIT_SAMPLE_HEADER + KIT_RECORD_HEADER) {
                        memcpy(changed, s->bytes, s->len);
                        for (unsigned k = 0; k < 3; k++) {
                                size_t from = KIT_SAMPLE_HEADER + KIT_RECORD_HEADER;

                                changed[from + kit_random(&state) % (s->len - from)] ^=
                                        (uint8_t) kit_random(&state);
                        }
                        bytes = changed;
                }
                (void) kit_bench_run(b, bytes, s->len, &verdict);
        }
        return cpu_seconds() - start;
}

static int measure(const char *folder)
{
        unsigned passed = 0, failed = 0;
        struct kit_bench b;

        kit_bench_init(&b);
        (void) printf("%-32s %8s %14s\n", "target", "samples", "executions/s");
        for (unsigned k = 0; target(k); k++) {
                bool is_all = strcmp(target(k), "all") == 0;
                double best = 0;

                load_samples(folder, target(k));
                if (samples.n == 0)
                        continue;
                aim(&b, target(k));
                for (unsigned i = 0; i < SPEED_TRIES && (i < 3 || (best < WANTED_PER_SECOND && !is_all));
                     i++) {
                        double rate = SPEED_RUNS / seconds_of(&b, SPEED_RUNS);

                        best = rate > best ? rate : best;
                }
                (void) printf("%-32s %8u %14.0f%s\n", target(k), samples.n, best,
                              !is_all && best < WANTED_PER_SECOND ? "  too slow" : "");
                if (is_all || best >= WANTED_PER_SECOND)
                        passed++;
                else
                        failed++;
        }
        kit_bench_free(&b);
        (void) printf("%u passed, %u failed, 0 skipped\n", passed, failed);
        return failed > 0 || passed == 0;
}

#define RANGES_MAX 4096

static int make(const char *file, const char *image_path, const char *name, unsigned flags)
{
        static char answer[KIT_ANSWER_MAX], again[KIT_ANSWER_MAX];
        static struct kit_range ranges[RANGES_MAX];
        static uint8_t out[SAMPLE_MAX];
        unsigned n_ranges = 0;
        enum blkup_verdict verdict;
        struct kit_image image;
        struct kit_bench b;
        size_t len;
        FILE *f;

        kit_bench_init(&b);
        kit_image_load(&image, image_path);
        kit_image_lay(&image, &b.memory.block, image.size);
        aim(&b, name);
        blkup_probe_set_flags(b.p, flags & KIT_SAMPLE_LIST ? BLKUP_PROBE_PARTITIONS : 0);
        kit_guard_reset(&b.guard);
        kit_view_record(ranges, &n_ranges, RANGES_MAX);
        if (blkup_probe_block(b.p, &b.guard.block, &verdict, NULL) < 0)
                kit_die("a run in memory cannot fail");
        kit_view_record(NULL, NULL, 0);
        kit_view_release();
        kit_answer_text(b.p, verdict, answer, sizeof(answer));
        kit_magic_ranges(b.p, ranges, &n_ranges, RANGES_MAX);
        n_ranges = kit_ranges_merge(ranges, n_ranges);

        len = kit_sample_make(out, sizeof(out), (uint8_t) flags, &image, ranges, n_ranges);
        if (len == 0)
                kit_die("%s: more than 1 MiB", image_path);
        (void) kit_bench_run(&b, out, len, &verdict);
        kit_answer_text(b.p, verdict, again, sizeof(again));
        if (strcmp(answer, again) != 0)
                kit_die("%s: the sample does not say what the image says:\n%s---\n%s", image_path, answer,
                        again);
        f = fopen(file, "wbe");
        if (!f || fwrite(out, 1, len, f) != len || fclose(f) != 0)
                kit_die("%s: cannot be written", file);
        (void) printf("%zu %s", len, answer);
        kit_image_free(&image);
        kit_bench_free(&b);
        return 0;
}

int main(int argc, char **argv)
{
        if (argc == 2 && strcmp(argv[1], "targets") == 0) {
                for (unsigned k = 0; target(k); k++)
                        (void) puts(target(k));
                return 0;
        }
        if (argc == 3 && strcmp(argv[1], "samples") == 0)
                return replay(argv[2]);
        if (argc == 3 && strcmp(argv[1], "speed") == 0)
                return measure(argv[2]);
        if (argc >= 5 && strcmp(argv[1], "make") == 0)
                return make(argv[2], argv[3], argv[4], argc > 5 ? (unsigned) strtoul(argv[5], NULL, 0) : 0);
        (void) fputs("usage: fuzz-replay samples FOLDER | speed FOLDER | make FILE IMAGE TARGET [FLAGS] | "
                     "targets\n",
                     stderr);
        return 2;
}
