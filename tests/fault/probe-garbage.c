/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Devices full of noise, of many sizes, without and with the magic of each format planted where it belongs.
 *
 * Noise alone must be nothing. Noise behind a magic may be anything that is consistent with itself; how many
 * types are named by their magic alone is printed. Each run is done in two ways (tests/kit/bench.c), with and
 * without --strict and the list of partitions. The last line is `N passed, N failed, N skipped`, counted in
 * types and tables.
 */
#include "kit/kit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

struct noise {
        struct blkup_block block;
        uint64_t seed;
        uint64_t planted_at;
        unsigned planted_len;
        const char *planted;
};

static const uint64_t sizes[] = {
        1,
        2,
        511,
        512,
        513,
        1023,
        1024,
        1025,
        1535,
        2048,
        4095,
        4096,
        4097,
        8191,
        32768,
        65535,
        65536,
        65537,
        131072,
        517120,
        1048576,
        1474559,
        1474560,
        1474561,
        2097152 + 511,
        16777216,
        67108864 + 3584,
        (UINT64_C(1) << 31) - 512,
        (UINT64_C(1) << 32) + 512,
        UINT64_C(1) << 41,
        (UINT64_C(1) << 44) + 1,
        INT64_MAX - 511,
        INT64_MAX,
        UINT64_C(1) << 63,
        UINT64_MAX - 4096,
        UINT64_MAX - 511,
        UINT64_MAX,
};

static uint64_t mix(uint64_t x)
{
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
        x = (x ^ x >> 27) * 0x94d049bb133111eb;
        return x ^ x >> 31;
}

static int noise_read(struct blkup_block *b, struct blkup_block_request *r, size_t n)
{
        const struct noise *s = (const struct noise *) b;

        for (size_t i = 0; i < n; i++) {
                uint8_t *to = r[i].to;

                for (size_t k = 0; k < r[i].len; k++) {
                        uint64_t at = r[i].at + k, word = mix(at / 8 ^ s->seed);

                        /* Eight bytes at once where a word begins. */
                        if (at % 8 == 0 && r[i].len - k >= 8) {
                                memcpy(to + k, &word, 8);
                                k += 7;
                        } else {
                                to[k] = (uint8_t) (word >> (at % 8 * 8));
                        }
                }
                for (unsigned k = 0; k < s->planted_len; k++) {
                        uint64_t at = s->planted_at + k;

                        if (at >= r[i].at && at - r[i].at < r[i].len)
                                to[at - r[i].at] = (uint8_t) s->planted[k];
                }
                r[i].done_bytes = (int64_t) r[i].len;
                r[i].ns = 0;
        }
        return 1;
}

static const struct blkup_block_ops ops = { .name = "noise", .read = noise_read };

static struct kit_bench b;
static struct noise noise;
static uint64_t runs;

static void aim(uint64_t size, uint64_t seed)
{
        noise = (struct noise){
                .block = {
                        .ops = &ops,
                        .info = { .kind = BLKUP_BLOCK_FILE, .size_bytes = size, .logical_sector_bytes = 512 },
                        .align_bytes = 1,
                        .one_submission = true,
                },
                .seed = seed,
        };
        kit_guard_init(&b.guard, &noise.block);
        blkup_probe_set_flags(b.p, seed % 2 ? BLKUP_PROBE_STRICT | BLKUP_PROBE_PARTITIONS : 0);
}

static enum blkup_verdict look(void)
{
        runs++;
        return kit_bench_look(&b);
}

/* true: named by its magic alone, on some size. */
static bool plant(const char *name, const struct blkup_magic *magics, unsigned n)
{
        bool is_named = false;

        for (unsigned row = 0; row < n; row++)
                for (size_t i = 0; i < BLKUP_ARRAY_SIZE(sizes); i++)
                        for (uint64_t seed = 0; seed < 2; seed++) {
                                const struct blkup_magic *m = &magics[row];
                                uint64_t base, at;
                                const char *type;

                                aim(sizes[i], seed);
                                /* The view of a first look says where the anchor is on this device. */
                                if (look() != BLKUP_VERDICT_NOTHING)
                                        continue;
                                if (!blkup_view_anchor(&b.p->view, m->anchor, m->at, &base) ||
                                    !blkup_add(base, m->within, &at) ||
                                    !blkup_inside(at, m->len, b.p->view.size))
                                        continue;
                                noise.planted = m->bytes;
                                noise.planted_at = at;
                                noise.planted_len = m->len;
                                (void) look();
                                type = blkup_probe_lookup(b.p, "TYPE");
                                if (!type)
                                        type = blkup_probe_lookup(b.p, "PTTYPE");
                                is_named |= type && strcmp(type, name) == 0;
                        }
        if (is_named)
                (void) printf("%s: its magic is enough\n", name);
        return is_named;
}

int main(void)
{
        unsigned passed = 0, failed = 0, named = 0;

        kit_bench_init(&b);
        b.again_every = 1;
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(sizes); i++)
                for (uint64_t seed = 0; seed < 20; seed++) {
                        aim(sizes[i], seed);
                        if (look() == BLKUP_VERDICT_NOTHING)
                                continue;
                        (void) printf("%" PRIu64 " bytes of noise, seed %" PRIu64
                                      ": taken for something (%s)\n",
                                      sizes[i], seed,
                                      blkup_probe_lookup(b.p, "TYPE") ? blkup_probe_lookup(b.p, "TYPE")
                                                                      : blkup_probe_trouble(b.p));
                        failed++;
                }
        for (unsigned i = 0; i < blkup_n_formats; i++, passed++)
                named += plant(blkup_formats[i]->name, blkup_formats[i]->magics, blkup_formats[i]->n_magics);
        for (unsigned i = 0; i < blkup_n_tables; i++, passed++)
                named += plant(blkup_tables[i]->name, blkup_tables[i]->magics, blkup_tables[i]->n_magics);
        kit_bench_free(&b);
        (void) printf(
                "%" PRIu64
                " runs, %u types and tables named by their magic alone\n%u passed, %u failed, 0 skipped\n",
                runs, named, passed, failed);
        return failed > 0;
}
