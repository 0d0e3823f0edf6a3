/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "block/recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

#define SECTOR_BYTES 512u
#define PAGE_BYTES 4096u

/* Units [first, end) of some size: sectors or pages. */
struct span {
        uint64_t first, end;
};

/* Sorted, and never touching each other. */
struct span_set {
        struct span *spans;
        size_t n, room;
};

struct blkup_block_recorder {
        struct blkup_block block;
        struct blkup_block *inner;
        struct blkup_block_model model;
        struct blkup_block_record *log;
        size_t n, room;
        struct blkup_block_counts counts; /* all but sectors and pages, which are taken from the sets */
        struct span_set sectors, pages, cache;
        uint64_t n_pages;      /* of the model's page size */
        uint64_t model_end;    /* where the model's last read ended: readahead looks for sequences */
        struct span window;    /* the last readahead window */
        uint64_t marked;       /* the page whose reading brings the next one; UINT64_MAX: none */
        int error;
};

/* Grows *array for one more element; doubles, so the copying stays linear. */
static void *grow(void *array, size_t n, size_t *room, size_t element)
{
        size_t more = *room ? *room * 2 : 64;
        void *grown;

        if (n < *room)
                return array;
        if (more > SIZE_MAX / element)
                return NULL;
        grown = realloc(array, more * element);
        if (grown)
                *room = more;
        return grown;
}

/* Index of the first span that ends at or behind `at`. The range halves, so it ends. */
static size_t first_span(const struct span_set *s, uint64_t at)
{
        size_t low = 0, high = s->n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (s->spans[middle].end >= at)
                        high = middle;
                else
                        low = middle + 1;
        }
        return low;
}

static int span_add(struct span_set *s, struct span span)
{
        size_t first, last;
        void *grown;

        grown = grow(s->spans, s->n, &s->room, sizeof(*s->spans));
        if (!grown)
                return -ENOMEM;
        s->spans = grown;
        first = first_span(s, span.first);
        for (last = first; last < s->n && s->spans[last].first <= span.end; last++) {
                span.first = blkup_min(span.first, s->spans[last].first);
                span.end = blkup_max(span.end, s->spans[last].end);
        }
        memmove(&s->spans[first + 1], &s->spans[last], (s->n - last) * sizeof(*s->spans));
        s->spans[first] = span;
        s->n = s->n - (last - first) + 1;
        return 0;
}

static uint64_t span_total(const struct span_set *s)
{
        uint64_t total = 0;

        for (size_t i = 0; i < s->n; i++)
                total += s->spans[i].end - s->spans[i].first;
        return total;
}

static struct span units_of(uint64_t at, uint64_t len, uint32_t unit)
{
        return (struct span) { .first = at / unit, .end = (at + len - 1) / unit + 1 };
}

/* One transfer of the imagined device; its last sector or page ends with the device. */
static uint64_t transfer(struct blkup_block_recorder *c, struct span units, uint32_t unit)
{
        uint64_t size = blkup_align_up(c->block.info.size_bytes, SECTOR_BYTES);
        uint64_t bytes = blkup_min(units.end * unit, size) - blkup_min(units.first * unit, size);

        c->counts.transfers++;
        c->counts.transferred_bytes += bytes;
        c->counts.model_ns += c->model.transfer_ns;
        if (c->model.bytes_per_second)
                c->counts.model_ns += (uint64_t) ((double) bytes * 1e9 / (double) c->model.bytes_per_second);
        return bytes;
}

/*
 * The kernel's readahead (mm/readahead.c), as far as a prober's reads see it. A miss at the start of the
 * device, or right behind the last read, opens a window: four times what was asked for when that is small,
 * twice up to a quarter of the limit, else the limit. The first page that was not asked for is marked, and
 * a read that comes to it brings the next window. Any other miss brings what it asked for. Left out: the look
 * at cached pages in front of a miss (context readahead), which takes longer runs than these.
 */
static uint64_t first_window(const struct blkup_block_recorder *c, uint64_t first, uint64_t asked)
{
        uint64_t max = c->model.readahead_bytes / c->model.page_bytes, window = 1;

        if (asked >= max || (first != 0 && first - c->model_end / c->model.page_bytes > 1))
                return asked;
        while (window < asked)
                window *= 2;
        if (window <= max / 32)
                return window * 4;
        return window <= max / 4 ? window * 2 : max;
}

static uint64_t next_window(const struct blkup_block_recorder *c)
{
        uint64_t max = c->model.readahead_bytes / c->model.page_bytes;
        uint64_t now = c->window.end - c->window.first;

        if (now < max / 16)
                return now * 4;
        return now <= max / 2 ? now * 2 : max;
}

/*
 * Brings the pages of the span that are not cached, in one transfer a gap, inside the device. Each turn steps
 * over one cached span or fetches up to the next one: at most twice their number.
 */
static uint64_t bring(struct blkup_block_recorder *c, struct span want)
{
        uint64_t bytes = 0;

        want.end = blkup_min(want.end, c->n_pages);
        while (want.first < want.end) {
                size_t i = first_span(&c->cache, want.first + 1);
                struct span miss = want;

                if (i < c->cache.n && c->cache.spans[i].first <= want.first) {
                        want.first = c->cache.spans[i].end;
                        continue;
                }
                if (i < c->cache.n)
                        miss.end = blkup_min(miss.end, c->cache.spans[i].first);
                bytes += transfer(c, miss, c->model.page_bytes);
                if (span_add(&c->cache, miss) < 0) {
                        c->error = -ENOMEM;
                        break;
                }
                want.first = miss.end;
        }
        return bytes;
}

static bool is_cached(const struct blkup_block_recorder *c, uint64_t page)
{
        size_t i = first_span(&c->cache, page + 1);

        return i < c->cache.n && c->cache.spans[i].first <= page;
}

/* Moves the clock for one answered request; returns what the device moved. */
static uint64_t replay(struct blkup_block_recorder *c, uint64_t at, uint64_t len)
{
        struct span want, window;
        uint64_t bytes = 0, miss;

        if (c->model.page_bytes == 0)
                return transfer(c, units_of(at, len, SECTOR_BYTES), SECTOR_BYTES);

        want = units_of(at, len, c->model.page_bytes);
        for (miss = want.first; miss < want.end && is_cached(c, miss);
             miss++) /* ends: pages of one request */
                ;
        if (c->marked >= want.first && c->marked < want.end && is_cached(c, c->marked)) {
                window.first = c->window.end;
                window.end = window.first + next_window(c);
                c->window = window;
                c->marked = window.first;
                bytes += bring(c, window);
        }
        if (miss < want.end) {
                window = (struct span){ .first = miss, .end = miss + first_window(c, miss, want.end - miss) };
                if (window.end > want.end) {
                        c->window = window;
                        c->marked = want.end;
                }
                bytes += bring(c, window);
        }
        c->model_end = at + len;
        return bytes;
}

static void note(struct blkup_block_recorder *c, const struct blkup_block_request *r)
{
        struct blkup_block_record *record;
        void *grown;

        c->counts.reads++;
        c->counts.bytes += r->len;
        grown = grow(c->log, c->n, &c->room, sizeof(*c->log));
        if (!grown) {
                c->error = -ENOMEM;
                return;
        }
        c->log = grown;
        record = &c->log[c->n++];
        *record = (struct blkup_block_record) { .submission = c->counts.rounds, .at = r->at, .len = r->len,
                                                .done_bytes = r->done_bytes };
        if (span_add(&c->sectors, units_of(r->at, r->len, SECTOR_BYTES)) < 0 ||
            span_add(&c->pages, units_of(r->at, r->len, PAGE_BYTES)) < 0)
                c->error = -ENOMEM;
        record->transferred_bytes = replay(c, r->at, r->len);
        record->model_ns = c->counts.model_ns;
}

static int recorder_read(struct blkup_block *b, struct blkup_block_request *r, size_t n)
{
        struct blkup_block_recorder *c = (struct blkup_block_recorder *) b;
        int submissions;

        submissions = blkup_block_read(c->inner, r, n);
        c->counts.rounds++;
        if (submissions > 0)
                c->counts.submissions += (uint64_t) submissions;
        for (size_t i = 0; i < n; i++)
                note(c, &r[i]);
        return submissions;
}

static void span_free(struct span_set *s)
{
        free(s->spans);
        *s = (struct span_set) {};
}

static void recorder_close(struct blkup_block *b)
{
        struct blkup_block_recorder *c = (struct blkup_block_recorder *) b;

        c->inner = blkup_block_close(c->inner);
        free(c->log);
        span_free(&c->sectors);
        span_free(&c->pages);
        span_free(&c->cache);
        free(c);
}

static int recorder_set_direct(struct blkup_block *b, bool direct)
{
        struct blkup_block_recorder *c = (struct blkup_block_recorder *) b;
        int r;

        r = blkup_block_set_direct(c->inner, direct);
        b->info = c->inner->info;
        b->align_bytes = c->inner->align_bytes;
        return r;
}

static const struct blkup_block_ops recorder_ops = {
        .name = "recorder", .read = recorder_read, .close = recorder_close, .set_direct = recorder_set_direct
};

struct blkup_block *blkup_block_recorder_new(struct blkup_block *inner, const struct blkup_block_model *model)
{
        struct blkup_block_recorder *c;

        c = calloc(1, sizeof(*c));
        if (!c)
                return NULL;
        c->block = *inner;
        c->block.ops = &recorder_ops;
        c->inner = inner;
        c->marked = UINT64_MAX;
        if (model)
                c->model = *model;
        if (c->model.page_bytes)
                c->n_pages =
                        blkup_align_up(c->block.info.size_bytes, c->model.page_bytes) / c->model.page_bytes;
        return &c->block;
}

const struct blkup_block_record *blkup_block_recorder_log(const struct blkup_block *b, size_t *ret_n)
{
        const struct blkup_block_recorder *c = (const struct blkup_block_recorder *) b;

        *ret_n = c->n;
        return c->log;
}

int blkup_block_recorder_counts(const struct blkup_block *b, struct blkup_block_counts *ret)
{
        const struct blkup_block_recorder *c = (const struct blkup_block_recorder *) b;

        if (c->error < 0)
                return c->error;
        *ret = c->counts;
        ret->sectors = span_total(&c->sectors);
        ret->pages = span_total(&c->pages);
        return 0;
}

void blkup_block_recorder_reset(struct blkup_block *b)
{
        struct blkup_block_recorder *c = (struct blkup_block_recorder *) b;

        c->n = 0;
        c->counts = (struct blkup_block_counts) {};
        c->sectors.n = c->pages.n = c->cache.n = 0;
        c->model_end = 0;
        c->window = (struct span) {};
        c->marked = UINT64_MAX;
        c->error = 0;
}
