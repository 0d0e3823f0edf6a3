/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traces that somebody else made: read, written again, drawn, compared with themselves. What was read has to
 * come back as it was. As a libFuzzer target, and with BLKUP_FUZZ_REPLAY as a regression test over the saved
 * files and some thousands of changes to each: fuzz-trace-replay FOLDER.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/compare.h"
#include "trace/trace-read.h"

#define MAX_SPANS 20000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

struct text {
        char *s;
        size_t n, cap;
};

static int keep(void *to, const char *s, size_t n)
{
        struct text *t = to;

        if (t->n + n > t->cap) {
                t->cap = (t->n + n) * 2;
                t->s = realloc(t->s, t->cap);
                if (!t->s)
                        abort();
        }
        memcpy(t->s + t->n, s, n);
        t->n += n;
        return 0;
}

/* Cheap enough for every input: no byte that XML does not have, and as many ends as beginnings of groups. */
static void check_svg(const struct text *svg)
{
        size_t open = 0;

        for (size_t i = 0; i < svg->n; i++) {
                if ((unsigned char) svg->s[i] < 0x20 && svg->s[i] != '\n')
                        abort();
                if (svg->n - i > 3 && memcmp(svg->s + i, "<g>", 3) == 0)
                        open++;
                if (svg->n - i > 4 && memcmp(svg->s + i, "</g>", 4) == 0 && open-- == 0)
                        abort();
                if (svg->n - i > 7 && memcmp(svg->s + i, "<script", 7) == 0)
                        abort();
        }
        if (open != 0 || svg->n < 8 || memcmp(svg->s + svg->n - 7, "</svg>\n", 7) != 0)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
        struct text first = { 0 }, second = { 0 }, svg = { 0 };
        struct blkup_trace *t = NULL, *back = NULL, *again = NULL;
        struct blkup_comparison c = { 0 };
        struct blkup_error err = { 0 };

        if (blkup_trace_read_json((const char *) data, len, MAX_SPANS, &t, &err) < 0)
                return 0;
        if (blkup_trace_write_json(t, keep, &first) < 0 ||
            blkup_trace_read_json(first.s, first.n, MAX_SPANS, &back, &err) < 0)
                abort();
        /* Writing brings spans that start together into an order: from then on nothing changes. */
        first.n = 0;
        if (blkup_trace_write_json(back, keep, &first) < 0 ||
            blkup_trace_read_json(first.s, first.n, MAX_SPANS, &again, &err) < 0 ||
            blkup_trace_write_json(again, keep, &second) < 0)
                abort();
        if (first.n != second.n || memcmp(first.s, second.s, first.n) != 0)
                abort();
        if (blkup_trace_write_svg(t, keep, &svg) < 0)
                abort();
        check_svg(&svg);
        if (blkup_compare(&t, 1, &back, 1, NULL, &c) < 0 || c.counts[BLKUP_COMPARE_SLOWER] > 0)
                abort();
        blkup_comparison_free(&c);
        (void) blkup_trace_unref(t);
        (void) blkup_trace_unref(back);
        (void) blkup_trace_unref(again);
        free(first.s);
        free(second.s);
        free(svg.s);
        return 0;
}

#ifdef BLKUP_FUZZ_REPLAY
#define CHANGES 3000u

static uint64_t next_random(uint64_t *seed)
{
        /* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators" */
        *seed ^= *seed >> 12;
        *seed ^= *seed << 25;
        *seed ^= *seed >> 27;
        return *seed * UINT64_C(2685821657736338717);
}

/* Cut, a byte changed, a piece taken twice or left out: in a buffer of its own size, which a sanitizer
 * watches. */
static void change(const uint8_t *data, size_t len, uint64_t seed)
{
        static const char bytes[] = "\"{}[],:0-9.eE\\unull<&\x00\xff\x80";
        size_t from = next_random(&seed) % (len + 1), n = next_random(&seed) % 40, used = 0;
        unsigned what = (unsigned) (next_random(&seed) % 4);
        uint8_t *copy = malloc(len + 41);

        if (!copy)
                abort();
        n = n < len - from ? n : len - from;
        memcpy(copy, data, from);
        used = from;
        if (what == 1 && from < len) {
                copy[used++] = (uint8_t) bytes[next_random(&seed) % (sizeof(bytes) - 1)];
                from++;
        } else if (what == 2) {
                memcpy(copy + used, data + from, n);
                used += n;
        } else if (what == 3) {
                from += n;
        }
        if (what > 0) {
                memcpy(copy + used, data + from, len - from);
                used += len - from;
        }
        copy = realloc(copy, used + !used);
        if (!copy)
                abort();
        (void) LLVMFuzzerTestOneInput(copy, used);
        free(copy);
}

static int replay(const char *folder, const char *name)
{
        static uint8_t data[1u << 20];
        char path[4096];
        size_t n;
        FILE *f;

        (void) snprintf(path, sizeof(path), "%s/%s", folder, name);
        f = fopen(path, "rb");
        if (!f)
                return -errno;
        n = fread(data, 1, sizeof(data), f);
        (void) fclose(f);
        (void) LLVMFuzzerTestOneInput(data, n);
        for (unsigned i = 1; i <= CHANGES; i++)
                change(data, n, i * 0x9e3779b97f4a7c15u);
        return 0;
}

int main(int argc, char **argv)
{
        DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
        const struct dirent *e;
        unsigned n = 0;

        if (!folder)
                return 2;
        while ((e = readdir(folder))) { /* ends: with the folder */
                if (e->d_name[0] == '.')
                        continue;
                if (replay(argv[1], e->d_name) < 0)
                        return 1;
                n++;
        }
        (void) closedir(folder);
        printf("%u passed, %u failed, 0 skipped\n", n, n == 0);
        return n == 0;
}
#endif
