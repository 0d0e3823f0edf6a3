/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Power cuts. A run is recorded; at each of its events the power fails: what was flushed is there, of the
 * rest all, nothing, or any subset of sectors. What is left must be valid (e2fsck -fn says what it said
 * before), must have no group that is flagged and not zero, must have every file as it was, and a second run
 * must finish it to the same bytes. BLKUP_SOAK: ten times as many points.
 *
 * usage: test-lazyinit-cuts [SEED]
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lazy-check.h"
#include "lazy-image.h"

static uint64_t random_state;

static uint64_t next_random(void)
{
        random_state ^= random_state >> 12;
        random_state ^= random_state << 25;
        random_state ^= random_state >> 27;
        return random_state * UINT64_C(0x2545F4914F6CDD1D);
}

struct cuts {
        const struct lazy_geometry *g;
        uint8_t *before, *final, *image, *scratch;
        size_t size;
        int fsck_before;
        unsigned long points, failed, fsck_runs;
};

enum pending { PENDING_NONE, PENDING_ALL, PENDING_SOME };

/* The medium when the power fails after event `k`. */
static void cut(struct cuts *c, const struct blkup_write_event *e, size_t k, enum pending how)
{
        size_t durable = 0;

        memcpy(c->image, c->before, c->size);
        for (size_t i = 0; i < k; i++)
                if (e[i].kind == BLKUP_EVENT_FLUSH)
                        durable = i + 1;
        for (size_t i = 0; i < durable; i++)
                blkup_write_event_apply(&e[i], c->image, 0, blkup_write_event_sectors(&e[i]));
        for (size_t i = durable; i < k && how != PENDING_NONE; i++) {
                uint64_t n = blkup_write_event_sectors(&e[i]);
                /* Whole events come and go; of some, only a part of the sectors is there. */
                unsigned fate = how == PENDING_ALL ? 0 : (unsigned) (next_random() % 4);

                if (fate == 0)
                        blkup_write_event_apply(&e[i], c->image, 0, n);
                for (uint64_t s = 0; fate == 1 && s < n; s++)
                        if (next_random() % 2)
                                blkup_write_event_apply(&e[i], c->image, s, 1);
                if (fate == 2)
                        blkup_write_event_apply(&e[i], c->image, 0, next_random() % (n + 1));
        }
}

static void judge(struct cuts *c, const char *run, size_t k, bool with_fsck)
{
        const char *wrong = lazy_check(c->before, c->image, c->size);
        struct lazy_work again = { .options = { .strategy = BLKUP_LAZYINIT_WRITE } };
        struct blkup_error err = { 0 };
        struct blkup_writer *w;
        char what[640] = "";

        c->points++;
        if (wrong)
                (void) snprintf(what, sizeof(what), "%s", wrong);
        if (!wrong && with_fsck) {
                int code = lazy_image_fsck(c->image, c->size);

                c->fsck_runs++;
                if (code != c->fsck_before)
                        (void) snprintf(what, sizeof(what), "e2fsck -fn: %d, was %d", code, c->fsck_before);
        }
        if (!*what) {
                w = blkup_writer_memory_new(c->image, c->size, 512);
                if (lazy_work_finish(&again, w, &err) < 0)
                        (void) snprintf(what, sizeof(what), "a second run: %s", err.message);
                else if (memcmp(c->image, c->final, c->size) != 0)
                        (void) snprintf(what, sizeof(what), "a second run ends otherwise");
                (void) blkup_writer_close(w);
        }
        if (*what) {
                c->failed++;
                printf("FAIL: %s, %s, cut after event %zu: %s\n", c->g->name, run, k, what);
        }
}

static void one_run(struct cuts *c, const char *name, const struct blkup_lazyinit_options *o, unsigned some,
                    unsigned fsck_every)
{
        struct lazy_work work = { .options = *o };
        struct blkup_error err = { 0 };
        const struct blkup_write_event *e;
        struct blkup_writer *w;
        size_t n;

        memcpy(c->scratch, c->before, c->size);
        w = blkup_writer_recorder_new(blkup_writer_memory_new(c->scratch, c->size, 512));
        if (lazy_work_finish(&work, w, &err) < 0) {
                printf("FAIL: %s, %s: %s\n", c->g->name, name, err.message);
                c->failed++;
        } else {
                memcpy(c->final, c->scratch, c->size);
                e = blkup_writer_recorder_events(w, &n);
                for (size_t k = 0; k <= n; k++) {
                        cut(c, e, k, PENDING_NONE);
                        judge(c, name, k, c->points % fsck_every == 0);
                        cut(c, e, k, PENDING_ALL);
                        judge(c, name, k, c->points % fsck_every == 0);
                        for (unsigned i = 0; i < some && k > 0; i++) {
                                cut(c, e, k, PENDING_SOME);
                                judge(c, name, k, c->points % fsck_every == 0);
                        }
                }
        }
        (void) blkup_writer_close(w);
}

int main(int argc, char **argv)
{
        /* Units of a group, each flushed: many durable states. Whole batches: many pending writes. */
        const struct blkup_lazyinit_options units = { .background = true, .wait_mult = 0 };
        const struct blkup_lazyinit_options writes = { .strategy = BLKUP_LAZYINIT_WRITE, .in_flight = 4 };
        bool is_soak = getenv("BLKUP_SOAK") != NULL;
        unsigned long points = 0, failed = 0, fsck_runs = 0, geometries = 0;
        uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;

        if (!lazy_image_has_tools() || !*lazy_image_folder()) {
                printf("SKIP: no e2fsprogs here\n");
                return 77;
        }
        printf("seed %" PRIu64 "\n", seed);
        for (size_t i = 0; i < LAZY_GEOMETRIES; i++) {
                struct cuts c = { .g = &lazy_geometries[i] };

                random_state = seed * 0x9E3779B97F4A7C15u + i + 1;
                c.before = lazy_image_make(c.g, &c.size);
                if (!c.before) {
                        printf("SKIP: %s: this mke2fs cannot make it\n", c.g->name);
                        continue;
                }
                c.final = malloc(c.size);
                c.image = malloc(c.size);
                c.scratch = malloc(c.size);
                if (!c.final || !c.image || !c.scratch)
                        return 1;
                c.fsck_before = lazy_image_fsck(c.before, c.size);
                one_run(&c, "units", &units, is_soak ? 6 : 1, 1);
                one_run(&c, "writes", &writes, is_soak ? 60 : 4, 1);
                printf("%s: %lu points, e2fsck of %lu, exit code %d\n", c.g->name, c.points, c.fsck_runs,
                       c.fsck_before);
                points += c.points;
                failed += c.failed;
                fsck_runs += c.fsck_runs;
                geometries++;
                free(c.before);
                free(c.final);
                free(c.image);
                free(c.scratch);
        }
        lazy_image_forget_folder();
        printf("%lu power cuts over %lu geometries, %lu of them with e2fsck -fn\n", points, geometries,
               fsck_runs);
        /* The promise of this test, and it is its own case. */
        if (points < (is_soak ? 10000 : 1000) || geometries < 20) {
                printf("FAIL: too few\n");
                failed++;
        }
        printf("%lu passed, %lu failed, 0 skipped\n", points - (failed < points ? failed : points), failed);
        return failed > 0;
}
