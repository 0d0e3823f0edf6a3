/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "block/writer-model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

#define SECTOR_BYTES 512u

/* ---- memory ---- */

struct memory {
        struct blkup_writer writer;
        uint8_t *bytes;
};

static int memory_read(struct blkup_block *b, struct blkup_block_request *r, size_t n)
{
        const struct memory *m = (const struct memory *) b;

        for (size_t i = 0; i < n; i++) {
                uint64_t len =
                        r[i].at < b->info.size_bytes ? blkup_min(r[i].len, b->info.size_bytes - r[i].at) : 0;

                memcpy(r[i].to, m->bytes + r[i].at, len);
                r[i].done_bytes = (int64_t) len;
                r[i].ns = 0;
        }
        return 1;
}

static int memory_write(struct blkup_writer *w, struct blkup_block_request *r, size_t n)
{
        struct memory *m = (struct memory *) w;

        for (size_t i = 0; i < n; i++) {
                memcpy(m->bytes + r[i].at, r[i].to, r[i].len);
                r[i].done_bytes = (int64_t) r[i].len;
                r[i].ns = 0;
        }
        return 1;
}

static int memory_zero(struct blkup_writer *w, uint64_t at, uint64_t len, enum blkup_zero_how how)
{
        (void) how;
        memset(((struct memory *) w)->bytes + at, 0, len);
        return 0;
}

static int memory_flush(struct blkup_writer *w)
{
        (void) w;
        return 0;
}

static void memory_close(struct blkup_block *b)
{
        free(b);
}

static const struct blkup_block_ops memory_block_ops = {
        .name = "writer-memory", .read = memory_read, .close = memory_close,
};
static const struct blkup_writer_ops memory_ops = {
        .name = "memory", .write = memory_write, .zero = memory_zero, .flush = memory_flush,
};

struct blkup_writer *blkup_writer_memory_new(uint8_t *bytes, uint64_t size_bytes, uint32_t sector_bytes)
{
        struct memory *m = calloc(1, sizeof(*m));

        if (!m)
                return NULL;
        m->bytes = bytes;
        m->writer.ops = &memory_ops;
        m->writer.block.ops = &memory_block_ops;
        m->writer.block.info.kind = BLKUP_BLOCK_FILE;
        m->writer.block.info.size_bytes = size_bytes;
        m->writer.block.info.logical_sector_bytes = sector_bytes;
        m->writer.block.align_bytes = 1;
        return &m->writer;
}

/* ---- what recorder and faults have in common: the handle that stands before another ---- */

struct before {
        struct blkup_writer writer;
        struct blkup_writer *inner;
};

static int before_read(struct blkup_block *b, struct blkup_block_request *r, size_t n)
{
        return blkup_block_read(&((struct before *) b)->inner->block, r, n);
}

static int before_next_data(struct blkup_writer *w, uint64_t at, uint64_t *ret_at, uint64_t *ret_len)
{
        struct blkup_writer *inner = ((struct before *) w)->inner;

        return blkup_writer_next_data(inner, at, inner->block.info.size_bytes, ret_at, ret_len);
}

static void before_init(struct before *b, struct blkup_writer *inner, const struct blkup_block_ops *block_ops,
                        const struct blkup_writer_ops *ops)
{
        b->inner = inner;
        b->writer.block = inner->block;
        b->writer.block.ops = block_ops;
        b->writer.ops = ops;
}

/* ---- recorder ---- */

struct recorder {
        struct before before;
        struct blkup_write_event *events;
        size_t n, room;
};

static int record(struct recorder *rec, enum blkup_write_event_kind kind, uint64_t at, uint64_t len,
                  const void *bytes)
{
        uint8_t *copy = NULL;

        if (rec->n == rec->room) {
                size_t room = rec->room ? 2 * rec->room : 64;
                void *more = realloc(rec->events, room * sizeof(*rec->events));

                if (!more)
                        return -ENOMEM;
                rec->events = more;
                rec->room = room;
        }
        if (bytes) {
                copy = malloc(len);
                if (!copy)
                        return -ENOMEM;
                memcpy(copy, bytes, len);
        }
        rec->events[rec->n++] =
                (struct blkup_write_event){ .kind = kind, .at = at, .len = len, .bytes = copy };
        return 0;
}

static int recorder_write(struct blkup_writer *w, struct blkup_block_request *r, size_t n)
{
        struct recorder *rec = (struct recorder *) w;

        for (size_t i = 0; i < n; i++) {
                int k = blkup_writer_write(rec->before.inner, &r[i], 1, NULL);

                if (k == 0)
                        k = record(rec, BLKUP_EVENT_WRITE, r[i].at, r[i].len, r[i].to);
                r[i].done_bytes = k < 0 ? k : (int64_t) r[i].len;
        }
        return 1;
}

static int recorder_zero(struct blkup_writer *w, uint64_t at, uint64_t len, enum blkup_zero_how how)
{
        struct recorder *rec = (struct recorder *) w;
        int k = blkup_writer_zero(rec->before.inner, at, len, how);

        return k < 0 ? k : record(rec, BLKUP_EVENT_ZERO, at, len, NULL);
}

static int recorder_flush(struct blkup_writer *w)
{
        struct recorder *rec = (struct recorder *) w;
        int k = blkup_writer_flush(rec->before.inner);

        return k < 0 ? k : record(rec, BLKUP_EVENT_FLUSH, 0, 0, NULL);
}

static void recorder_close(struct blkup_block *b)
{
        struct recorder *rec = (struct recorder *) b;

        for (size_t i = 0; i < rec->n; i++)
                free((void *) (uintptr_t) rec->events[i].bytes);
        free(rec->events);
        (void) blkup_writer_close(rec->before.inner);
        free(rec);
}

static const struct blkup_block_ops recorder_block_ops = {
        .name = "writer-recorder", .read = before_read, .close = recorder_close,
};
static const struct blkup_writer_ops recorder_ops = {
        .name = "recorder", .write = recorder_write, .zero = recorder_zero, .flush = recorder_flush,
        .next_data = before_next_data,
};

struct blkup_writer *blkup_writer_recorder_new(struct blkup_writer *inner)
{
        struct recorder *rec = calloc(1, sizeof(*rec));

        if (!rec)
                return NULL;
        before_init(&rec->before, inner, &recorder_block_ops, &recorder_ops);
        return &rec->before.writer;
}

const struct blkup_write_event *blkup_writer_recorder_events(const struct blkup_writer *w, size_t *ret_n)
{
        const struct recorder *rec = (const struct recorder *) w;

        *ret_n = rec->n;
        return rec->events;
}

uint64_t blkup_write_event_sectors(const struct blkup_write_event *e)
{
        if (e->len == 0)
                return 0;
        return (e->at + e->len - 1) / SECTOR_BYTES - e->at / SECTOR_BYTES + 1;
}

void blkup_write_event_apply(const struct blkup_write_event *e, uint8_t *image, uint64_t first, uint64_t n)
{
        uint64_t base = e->at / SECTOR_BYTES * SECTOR_BYTES;
        uint64_t from = blkup_max(e->at, base + first * SECTOR_BYTES);
        uint64_t to = blkup_min(e->at + e->len, base + (first + n) * SECTOR_BYTES);

        if (e->kind == BLKUP_EVENT_FLUSH || to <= from)
                return;
        if (e->kind == BLKUP_EVENT_ZERO)
                memset(image + from, 0, to - from);
        else
                memcpy(image + from, e->bytes + (from - e->at), to - from);
}

/* ---- faults ---- */

struct fault {
        struct before before;
        struct blkup_write_fault_rule rule;
        uint64_t seen[3], hits; /* seen: by kind of event */
};

static bool is_hit(struct fault *f, enum blkup_write_event_kind kind)
{
        uint64_t nth = f->rule.nth ? f->rule.nth : 1;
        uint64_t i = ++f->seen[kind];

        if (kind != f->rule.on || (f->rule.is_for_good ? i < nth : i != nth))
                return false;
        f->hits++;
        return true;
}

static int fault_error(const struct fault *f)
{
        return f->rule.error ? -f->rule.error : -EIO;
}

static int fault_write(struct blkup_writer *w, struct blkup_block_request *r, size_t n)
{
        struct fault *f = (struct fault *) w;

        for (size_t i = 0; i < n; i++) {
                bool hit = is_hit(f, BLKUP_EVENT_WRITE);
                struct blkup_block_request part = r[i];
                int k = 0;

                if (hit)
                        part.len = f->rule.what == BLKUP_WRITE_FAULT_TORN ||
                                                   f->rule.what == BLKUP_WRITE_FAULT_SHORT
                                           ? r[i].len / 2 / SECTOR_BYTES * SECTOR_BYTES
                                           : 0;
                if (part.len > 0)
                        k = blkup_writer_write(f->before.inner, &part, 1, NULL);
                if (k < 0)
                        r[i].done_bytes = k;
                else if (!hit || f->rule.what == BLKUP_WRITE_FAULT_LOST)
                        r[i].done_bytes = (int64_t) r[i].len;
                else if (f->rule.what == BLKUP_WRITE_FAULT_SHORT)
                        r[i].done_bytes = (int64_t) part.len;
                else
                        r[i].done_bytes = fault_error(f);
        }
        return 1;
}

static int fault_zero(struct blkup_writer *w, uint64_t at, uint64_t len, enum blkup_zero_how how)
{
        struct fault *f = (struct fault *) w;
        uint64_t half = len / 2 / SECTOR_BYTES * SECTOR_BYTES;
        int k = 0;

        if (!is_hit(f, BLKUP_EVENT_ZERO))
                return blkup_writer_zero(f->before.inner, at, len, how);
        if (f->rule.what == BLKUP_WRITE_FAULT_LOST)
                return 0;
        /* An offload cannot be answered short. */
        if (f->rule.what != BLKUP_WRITE_FAULT_ERROR && half > 0)
                k = blkup_writer_zero(f->before.inner, at, half, how);
        return k < 0 ? k : fault_error(f);
}

static int fault_flush(struct blkup_writer *w)
{
        struct fault *f = (struct fault *) w;

        if (!is_hit(f, BLKUP_EVENT_FLUSH))
                return blkup_writer_flush(f->before.inner);
        return f->rule.what == BLKUP_WRITE_FAULT_LOST ? 0 : fault_error(f);
}

static void fault_close(struct blkup_block *b)
{
        struct fault *f = (struct fault *) b;

        (void) blkup_writer_close(f->before.inner);
        free(f);
}

static const struct blkup_block_ops fault_block_ops = {
        .name = "writer-fault", .read = before_read, .close = fault_close,
};
static const struct blkup_writer_ops fault_ops = {
        .name = "fault", .write = fault_write, .zero = fault_zero, .flush = fault_flush,
        .next_data = before_next_data,
};

struct blkup_writer *blkup_writer_fault_new(struct blkup_writer *inner,
                                            const struct blkup_write_fault_rule *rule)
{
        struct fault *f = calloc(1, sizeof(*f));

        if (!f)
                return NULL;
        before_init(&f->before, inner, &fault_block_ops, &fault_ops);
        f->rule = *rule;
        return &f->before.writer;
}

uint64_t blkup_writer_fault_hits(const struct blkup_writer *w)
{
        return ((const struct fault *) w)->hits;
}
