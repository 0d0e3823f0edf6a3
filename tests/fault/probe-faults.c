/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads that go wrong, on the saved samples and on blank devices, all formats enabled.
 *
 * usage: probe-faults sectors|requests|orders SAMPLES
 *
 * sectors   each 512-byte sector that a run looks at is unreadable for good, each in turn. No result must
 * come out as UNKNOWN; what stands elsewhere keeps its answer. requests  the n-th request (then the n-th
 * batch) fails, is short, late, or says something else the second time, for each n until a run sees no fault
 * at all; once, and from then on orders    batches answered in another order, devices of other alignments,
 * one request at a time: same answer The last line is `N passed, N failed, N skipped`, counted in samples.
 */
#include "kit/kit.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "block/fault.h"

#define SECTOR 512u

static struct kit_bench b;
static char plain[KIT_ANSWER_MAX], answer[KIT_ANSWER_MAX];
static uint64_t runs;
static unsigned failures; /* of the sample at hand */
static const char *subject;

static void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void fail(const char *fmt, ...)
{
        va_list ap;

        (void) printf("%s: ", subject);
        va_start(ap, fmt);
        (void) vprintf(fmt, ap);
        va_end(ap);
        (void) printf("\n");
        failures++;
}

static bool is_in(const struct kit_range *r, unsigned n, uint64_t at, uint64_t len)
{
        for (unsigned i = 0; i < n; i++)
                if (at < r[i].at + r[i].len && r[i].at < at + len)
                        return true;
        return false;
}

/* A run through a faulty device; *ret_hits: how often a fault struck. The text of the answer is in `answer`.
 */
static enum blkup_verdict look(const struct blkup_fault_rule *rule, uint64_t *ret_hits)
{
        struct blkup_block *faulty;
        enum blkup_verdict verdict;
        const char *fault;

        kit_guard_reset(&b.guard);
        faulty = blkup_block_fault_new(&b.guard.block, rule, 1);
        if (!faulty)
                kit_die("memory exhausted");
        if (blkup_probe_block(b.p, faulty, &verdict, NULL) < 0)
                kit_die("a run in memory cannot fail");
        kit_view_release();
        *ret_hits = blkup_block_fault_hits(faulty);
        (void) blkup_block_close(faulty);
        fault = kit_answer_fault(b.p, verdict);
        if (fault)
                fail("%s", fault);
        kit_answer_text(b.p, verdict, answer, sizeof(answer));
        runs++;
        return verdict;
}

static bool has_line(const char *text, const char *name, char *ret, size_t cap)
{
        const char *at = strstr(text, name);

        if (!at || (at != text && at[-1] != '\n'))
                return false;
        (void) snprintf(ret, cap, "%.*s", (int) strcspn(at, "\n"), at);
        return true;
}

/* What is read for one type alone, in whole sectors: with it come the tables that it may ask. */
static unsigned ranges_of(const char *name, const struct kit_sample *s, struct kit_range *r)
{
        enum blkup_verdict verdict;

        if (!kit_bench_only(&b, name))
                return 0;
        b.guard.keeps_log = true;
        (void) kit_bench_run(&b, s->bytes, s->len, &verdict);
        b.guard.keeps_log = false;
        (void) kit_bench_only(&b, NULL);
        memcpy(r, b.guard.log, b.guard.n_log * sizeof(r[0]));
        return kit_ranges_merge(r, b.guard.n_log);
}

/* The first line of `text` that `whole` does not have, or NULL. */
static const char *new_line(const char *text, const char *whole)
{
        static char line[1024];

        for (const char *at = text; *at; at += strcspn(at, "\n") + 1) { /* ends: each line has its newline */
                const char *found = whole;

                (void) snprintf(line, sizeof(line), "%.*s\n", (int) strcspn(at, "\n"), at);
                while ((found = strstr(found, line)) && found != whole && found[-1] != '\n')
                        found++;
                if (!found)
                        return line;
        }
        return NULL;
}

/* Types that keep a second superblock which may lag behind: its values are right when the first cannot be
 * read. */
static bool has_older_copy(const char *type)
{
        return strcmp(type, "TYPE=nilfs2") == 0;
}

static void sectors(const struct kit_sample *s)
{
        static struct kit_range looked[KIT_GUARD_LOG], own[KIT_GUARD_LOG];
        char type[128], uuid[256], now[256];
        unsigned n_looked, n_own = 0;
        enum blkup_verdict verdict, unharmed;

        b.guard.keeps_log = true;
        (void) kit_bench_run(&b, s->bytes, s->len, &unharmed);
        b.guard.keeps_log = false;
        n_looked = b.guard.n_log;
        memcpy(looked, b.guard.log, n_looked * sizeof(looked[0]));
        n_looked = kit_ranges_merge(looked, n_looked);
        kit_answer_text(b.p, unharmed, plain, sizeof(plain));
        if (!has_line(plain, "TYPE=", type, sizeof(type)))
                type[0] = '\0';
        if (!has_line(plain, "UUID=", uuid, sizeof(uuid)))
                uuid[0] = '\0';
        if (type[0])
                n_own = ranges_of(type + 5, s, own);

        for (unsigned i = 0; i < n_looked; i++)
                for (uint64_t at = blkup_align_down(looked[i].at, SECTOR); at < looked[i].at + looked[i].len;
                     at += SECTOR) {
                        const struct blkup_fault_rule bad = {
                                .what = BLKUP_FAULT_ERROR, .is_for_good = true, .at = at, .len = SECTOR
                        };
                        uint64_t hits;

                        (void) kit_sample_lay(s->bytes, s->len, &b.memory, b.p);
                        verdict = look(&bad, &hits);
                        if (hits > 0 && verdict == BLKUP_VERDICT_NOTHING)
                                fail("nothing found with an unreadable sector at %" PRIu64, at);
                        /* Another TYPE, or a table where a RAID member had hidden it, is an answer; a value
                         * that comes from bytes that were not read is none, nor is a TYPE where there was
                         * none. */
                        if (verdict == BLKUP_VERDICT_FOUND && unharmed == BLKUP_VERDICT_FOUND &&
                            new_line(answer, plain) &&
                            (!type[0] || has_line(answer, type, now, sizeof(now))) && !has_older_copy(type))
                                fail("with an unreadable sector at %" PRIu64 " there is something else: %s",
                                     at, new_line(answer, plain));
                        if (unharmed != BLKUP_VERDICT_FOUND || !type[0] || is_in(own, n_own, at, SECTOR))
                                continue;
                        if (!has_line(answer, type, now, sizeof(now)))
                                fail("%s is lost with an unreadable sector at %" PRIu64 ":\n%s", type, at,
                                     answer);
                        else if (uuid[0] && !has_line(answer, uuid, now, sizeof(now)))
                                fail("%s is lost with an unreadable sector at %" PRIu64 ":\n%s", uuid, at,
                                     answer);
                }
}

static void requests(const struct kit_sample *s)
{
        const struct blkup_fault_rule rules[] = {
                { .what = BLKUP_FAULT_ERROR },
                { .what = BLKUP_FAULT_ERROR, .is_for_good = true, .error = ETIMEDOUT },
                { .what = BLKUP_FAULT_SHORT, .short_bytes = 0 },
                { .what = BLKUP_FAULT_SHORT, .short_bytes = 511 },
                { .what = BLKUP_FAULT_SHORT, .short_bytes = 1, .is_for_good = true },
                { .what = BLKUP_FAULT_LATE, .late_ns = 30000000000, .is_for_good = true },
                { .what = BLKUP_FAULT_CHANGED, .is_for_good = true },
                { .what = BLKUP_FAULT_REFUSED, .error = EAGAIN },
                { .what = BLKUP_FAULT_REFUSED, .error = ENXIO, .is_for_good = true },
        };
        enum blkup_verdict unharmed;

        (void) kit_bench_run(&b, s->bytes, s->len, &unharmed);
        kit_answer_text(b.p, unharmed, plain, sizeof(plain));
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(rules); i++) {
                uint64_t hits = 1;

                for (uint64_t n = 1; hits > 0; n++) { /* ends: a run has an end, so no fault comes after it */
                        struct blkup_fault_rule rule = rules[i];
                        enum blkup_verdict verdict;

                        rule.nth = n;
                        (void) kit_sample_lay(s->bytes, s->len, &b.memory, b.p);
                        verdict = look(&rule, &hits);
                        if (hits == 0 || rule.what == BLKUP_FAULT_LATE) {
                                if (strcmp(answer, plain) != 0)
                                        fail("another answer without an error:\n%s--- and\n%s", plain,
                                             answer);
                                continue;
                        }
                        /* What failed once may be read again: then, and only then, is nothing an answer. */
                        if (rule.what != BLKUP_FAULT_CHANGED && verdict == BLKUP_VERDICT_NOTHING &&
                            (rule.is_for_good || unharmed != BLKUP_VERDICT_NOTHING))
                                fail("nothing found with fault %zu at the %" PRIu64 "th", i, n);
                }
        }
}

static void orders(const struct kit_sample *s)
{
        static const struct {
                uint64_t shuffle;
                uint32_t align_bytes;
                bool many_submissions;
        } ways[] = {
                { .shuffle = 2, .align_bytes = 1 },
                { .shuffle = 7, .align_bytes = 1 },
                { .align_bytes = 512 },
                { .align_bytes = 4096 },
                { .align_bytes = 65536 },
                { .align_bytes = 1, .many_submissions = true },
                { .shuffle = 12, .align_bytes = 4096, .many_submissions = true },
        };
        enum blkup_verdict verdict;

        (void) kit_bench_run(&b, s->bytes, s->len, &verdict);
        kit_answer_text(b.p, verdict, plain, sizeof(plain));
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(ways); i++) {
                (void) kit_sample_lay(s->bytes, s->len, &b.memory, b.p);
                b.guard.shuffle = ways[i].shuffle;
                b.memory.block.align_bytes = ways[i].align_bytes;
                b.memory.block.one_submission = !ways[i].many_submissions;
                verdict = kit_bench_look(&b);
                runs++;
                kit_answer_text(b.p, verdict, answer, sizeof(answer));
                if (strcmp(plain, answer) != 0)
                        fail("way %zu:\n%s--- and\n%s", i, plain, answer);
        }
        b.guard.shuffle = 0;
        b.memory.block.align_bytes = 1;
        b.memory.block.one_submission = true;
}

/* Nothing on it: the size is all that a sample says. */
static void blank(struct kit_sample *s, uint64_t size)
{
        static uint8_t bytes[KIT_SAMPLE_HEADER];

        memset(bytes, 0, sizeof(bytes));
        for (unsigned i = 0; i < 8; i++)
                bytes[1 + i] = (uint8_t) (size >> (8 * i));
        *s = (struct kit_sample){ .bytes = bytes, .len = sizeof(bytes) };
        (void) snprintf(s->path, sizeof(s->path), "blank, %" PRIu64 " bytes", size);
}

int main(int argc, char **argv)
{
        static const uint64_t sizes[] = { 1,
                                          511,
                                          512,
                                          1024,
                                          1025,
                                          4096,
                                          65535,
                                          65536,
                                          517120,
                                          1474560,
                                          1474561,
                                          4 << 20,
                                          (64 << 20) + 777,
                                          UINT64_C(1) << 43 };
        static const struct {
                const char *name;
                void (*run)(const struct kit_sample *s);
        } modes[] = { { "sectors", sectors }, { "requests", requests }, { "orders", orders } };
        unsigned passed = 0, failed = 0;
        size_t mode = 0;

        while (argc == 3 && mode < BLKUP_ARRAY_SIZE(modes) && strcmp(argv[1], modes[mode].name) != 0)
                mode++;
        if (argc != 3 || mode == BLKUP_ARRAY_SIZE(modes)) {
                (void) fputs("usage: probe-faults sectors|requests|orders SAMPLES\n", stderr);
                return 2;
        }
        kit_bench_init(&b);
        b.again_every = 1;
        for (unsigned k = 0; k == 0 || kit_target(k - 1); k++) {
                struct kit_samples samples = { 0 };
                struct kit_sample empty;

                if (k > 0)
                        kit_samples_add(&samples, argv[2], kit_target(k - 1), UINT_MAX);
                for (unsigned i = 0; i < (k > 0 ? samples.n : BLKUP_ARRAY_SIZE(sizes)); i++) {
                        const struct kit_sample *s = &empty;

                        if (k > 0)
                                s = &samples.list[i];
                        else
                                blank(&empty, sizes[i]);
                        (void) fprintf(stderr, "%s\n", s->path);
                        subject = s->path;
                        failures = 0;
                        modes[mode].run(s);
                        if (failures > 0)
                                failed++;
                        else
                                passed++;
                }
                kit_samples_free(&samples);
        }
        kit_bench_free(&b);
        (void) printf("%" PRIu64 " runs\n%u passed, %u failed, 0 skipped\n", runs, passed, failed);
        return failed > 0 || passed == 0;
}
