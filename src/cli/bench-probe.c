/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `blkup bench probe`: the stick of 2010 (505 KiB, 15,000 bytes a second) under the reading policies of that
 * year's reports and under ours. What is looked at is what blkup's formats look at today; only how it is
 * fetched differs. The device is the recorder's, whose clock is moved by the bytes alone, so the figures are
 * exact and take no time.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <blkup/probe.h>

#include "base/checked.h"
#include "base/json.h"
#include "block/memory.h"
#include "block/recorder.h"
#include "cli/bench.h"
#include "cli/output.h"

#define STICK_BYTES (505u * 1024)
#define STICK_RATE 15000u
#define PAGE 4096u
#define READAHEAD (128u * 1024) /* the kernel's default window */
#define BUFFER_2010 (68u * 1024)
#define MAX_LOOKS 256

struct look {
        uint64_t at, len;
};

struct looks {
        struct look look[MAX_LOOKS];
        size_t n;
};

/* How the bytes that are looked at are fetched. */
enum policy {
        POLICY_READAHEAD,
        POLICY_BIG_BUFFER,
        POLICY_SMALL_BUFFER,
        POLICY_PAGES,
        POLICY_BLKUP,
        N_POLICIES
};

static const struct {
        const char *name, *text;
        double reported_s; /* for a blank stick, in 2010; 0: no such report */
        struct blkup_block_model model;
} policies[N_POLICIES] = {
        [POLICY_READAHEAD] = { "readahead",
                               "buffered, the kernel reads ahead",
                               15.0,
                               { .bytes_per_second = STICK_RATE,
                                 .page_bytes = PAGE,
                                 .readahead_bytes = READAHEAD } },
        [POLICY_BIG_BUFFER] = { "buffer-68k",
                                "the first 68 KiB at once, the rest by pages",
                                4.9,
                                { .bytes_per_second = STICK_RATE, .page_bytes = PAGE } },
        [POLICY_SMALL_BUFFER] = { "buffer-4k",
                                  "4 KiB around each look, past the page cache",
                                  0,
                                  { .bytes_per_second = STICK_RATE } },
        [POLICY_PAGES] = { "page-cache",
                           "no reading ahead, caching left to the kernel",
                           2.9,
                           { .bytes_per_second = STICK_RATE, .page_bytes = PAGE } },
        [POLICY_BLKUP] = { "blkup",
                           "the sectors that are looked at, past the page cache",
                           0,
                           { .bytes_per_second = STICK_RATE } },
};

/* The stick's content: nothing, or a FAT12 file system with a label. */
static void make_fat12(uint8_t *b)
{
        memcpy(b, "\xeb\x3c\x90mkfs.fat", 11);
        b[12] = 2;              /* 512 bytes a sector */
        b[13] = 1;              /* a sector a cluster */
        b[14] = 1;              /* reserved */
        b[16] = 2;              /* FATs */
        b[17] = 112;            /* entries of the root directory */
        b[19] = 0xf2, b[20] = 3; /* 1010 sectors */
        b[21] = 0xf8;
        b[22] = 3;              /* sectors a FAT */
        b[38] = 0x29;
        memcpy(b + 39, "\x78\x56\x34\x12STICK      FAT12   ", 23);
        b[510] = 0x55, b[511] = 0xaa;
        memcpy(b + 7 * 512, "STICK      \x08", 12);
}

/* What a probe of this stick looks at: the log of a run that reads nothing else. */
static int gather(struct blkup_probe *p, const uint8_t *stick, struct looks *ret)
{
        struct blkup_block *memory = blkup_block_memory_new(STICK_BYTES, 512), *b;
        const struct blkup_block_record *log;
        enum blkup_verdict verdict;
        size_t n;
        int r;

        b = memory ? blkup_block_recorder_new(memory, NULL) : NULL;
        if (!b) {
                (void) blkup_block_close(memory);
                return -ENOMEM;
        }
        r = blkup_block_memory_add(memory, 0, stick, STICK_BYTES);
        if (r == 0)
                r = blkup_probe_block(p, b, &verdict, NULL);
        ret->n = 0;
        if (r == 0) {
                log = blkup_block_recorder_log(b, &n);
                for (size_t i = 0; i < n && ret->n < MAX_LOOKS; i++)
                        ret->look[ret->n++] = (struct look){ .at = log[i].at, .len = log[i].len };
        }
        (void) blkup_block_close(b);
        return r;
}

static int fetch(struct blkup_block *b, uint64_t at, uint64_t len)
{
        static uint8_t to[BUFFER_2010];
        struct blkup_block_request r = { .at = at, .len = (size_t) len, .to = to };
        int rc = blkup_block_read(b, &r, 1);

        return rc < 0 ? rc : r.done_bytes < 0 ? (int) r.done_bytes : 0;
}

/* The looks, fetched as the policy has it, on a recorder whose clock is the answer. */
static int replay(enum policy policy, const struct looks *looks, struct blkup_block_counts *ret)
{
        struct blkup_block *memory = blkup_block_memory_new(STICK_BYTES, 512), *b;
        uint64_t last_page = UINT64_MAX;
        int r = 0;

        b = memory ? blkup_block_recorder_new(memory, &policies[policy].model) : NULL;
        if (!b) {
                (void) blkup_block_close(memory);
                return -ENOMEM;
        }
        if (policy == POLICY_BIG_BUFFER)
                r = fetch(b, 0, BUFFER_2010);
        for (size_t i = 0; i < looks->n && r == 0; i++) {
                const struct look *l = &looks->look[i];

                if (policy == POLICY_BIG_BUFFER && l->at + l->len <= BUFFER_2010)
                        continue;
                if (policy != POLICY_SMALL_BUFFER) {
                        r = fetch(b, l->at, l->len);
                        continue;
                }
                /* One buffer: the next look finds what it holds, the one after that does not. */
                for (uint64_t page = l->at / PAGE; page <= (l->at + l->len - 1) / PAGE && r == 0; page++) {
                        if (page != last_page)
                                r = fetch(b, page * PAGE, blkup_min(PAGE, STICK_BYTES - page * PAGE));
                        last_page = page;
                }
        }
        if (r == 0)
                r = blkup_block_recorder_counts(b, ret);
        (void) blkup_block_close(b);
        return r;
}

static const char *const sticks[] = { "blank", "fat12" };
#define N_STICKS BLKUP_ARRAY_SIZE(sticks)

static void print_text(struct blkup_block_counts counts[N_STICKS][N_POLICIES])
{
        for (size_t k = 0; k < N_STICKS; k++) {
                printf("%s%s stick of %u KiB at %u bytes a second\n", k ? "\n" : "", k ? "FAT12" : "Blank",
                       STICK_BYTES / 1024, STICK_RATE);
                printf("%-12s %6s %8s %9s %9s  %s\n", "POLICY", "READS", "BYTES", "SECONDS", "IN 2010", "");
                for (unsigned i = 0; i < N_POLICIES; i++) {
                        const struct blkup_block_counts *c = &counts[k][i];
                        char reported[16] = "-";

                        if (k == 0 && policies[i].reported_s > 0)
                                (void) snprintf(reported, sizeof(reported), "%.1f", policies[i].reported_s);
                        printf("%-12s %6" PRIu64 " %8" PRIu64 " %9.2f %9s  %s\n", policies[i].name, c->reads,
                               c->transferred_bytes, (double) c->model_ns / 1e9, reported, policies[i].text);
                }
        }
}

static int print_json(struct blkup_block_counts counts[N_STICKS][N_POLICIES])
{
        struct blkup_json j;

        blkup_json_init(&j, blkup_cli_file_sink, stdout, true);
        blkup_json_begin_object(&j);
        blkup_json_key(&j, "blkup");
        blkup_json_begin_object(&j);
        blkup_json_key(&j, "version");
        blkup_json_string(&j, BLKUP_VERSION);
        blkup_json_key(&j, "schema");
        blkup_json_u64(&j, 1);
        blkup_json_end_object(&j);
        blkup_json_key(&j, "rows");
        blkup_json_begin_array(&j);
        for (size_t k = 0; k < N_STICKS; k++)
                for (unsigned i = 0; i < N_POLICIES; i++) {
                        blkup_json_begin_object(&j);
                        blkup_json_key(&j, "stick");
                        blkup_json_string(&j, sticks[k]);
                        blkup_json_key(&j, "policy");
                        blkup_json_string(&j, policies[i].name);
                        blkup_json_key(&j, "reads");
                        blkup_json_u64(&j, counts[k][i].reads);
                        blkup_json_key(&j, "bytes");
                        blkup_json_u64(&j, counts[k][i].transferred_bytes);
                        blkup_json_key(&j, "ns");
                        blkup_json_u64(&j, counts[k][i].model_ns);
                        blkup_json_end_object(&j);
                }
        blkup_json_end_array(&j);
        blkup_json_end_object(&j);
        blkup_json_newline(&j);
        return blkup_json_finish(&j);
}

int blkup_bench_probe(const struct blkup_bench_options *o)
{
        static uint8_t stick[STICK_BYTES];
        struct blkup_block_counts counts[N_STICKS][N_POLICIES];
        struct blkup_probe *p = blkup_probe_new();
        int r = p ? 0 : -ENOMEM;

        for (size_t k = 0; k < N_STICKS && r == 0; k++) {
                struct looks looks;

                if (k == 1)
                        make_fat12(stick);
                r = gather(p, stick, &looks);
                for (unsigned i = 0; i < N_POLICIES && r == 0; i++)
                        r = replay(i, &looks, &counts[k][i]);
        }
        (void) blkup_probe_unref(p);
        if (r == 0 && o->json)
                r = print_json(counts);
        else if (r == 0)
                print_text(counts);
        if (r < 0) {
                blkup_cli_error("bench", "probe: %s", strerror(-r));
                return 1;
        }
        return 0;
}
