/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "block/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

static uint64_t end_of_piece(const struct blkup_block_piece *p)
{
        return p->at + p->len;
}

/* Index of the first piece that ends behind `at`. The range halves, so it ends. */
static size_t first_behind(const struct blkup_block_memory *m, uint64_t at)
{
        size_t low = 0, high = m->n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (end_of_piece(&m->pieces[middle]) > at)
                        high = middle;
                else
                        low = middle + 1;
        }
        return low;
}

static void copy_out(const struct blkup_block_memory *m, uint64_t at, size_t len, uint8_t *to)
{
        /* Each turn is one piece, in order: at most m->n turns. */
        for (size_t i = first_behind(m, at); len > 0 && i < m->n; i++) {
                const struct blkup_block_piece *p = &m->pieces[i];
                size_t skip, take;

                if (p->at >= at + len)
                        break;
                if (p->at > at) {
                        size_t gap = (size_t) (p->at - at);

                        memset(to, 0, gap);
                        at += gap, to += gap, len -= gap;
                }
                skip = (size_t) (at - p->at);
                take = p->len - skip < len ? p->len - skip : len;
                memcpy(to, p->bytes + skip, take);
                at += take, to += take, len -= take;
        }
        if (len > 0)
                memset(to, 0, len);
}

static int memory_read(struct blkup_block *b, struct blkup_block_request *r, size_t n)
{
        const struct blkup_block_memory *m = (const struct blkup_block_memory *) b;

        for (size_t i = 0; i < n; i++) {
                if (m->n == 0)
                        memset(r[i].to, 0, r[i].len);
                else
                        copy_out(m, r[i].at, r[i].len, r[i].to);
                r[i].done_bytes = (int64_t) r[i].len;
                r[i].ns = 0;
        }
        return 1;
}

static void memory_close(struct blkup_block *b)
{
        struct blkup_block_memory *m = (struct blkup_block_memory *) b;

        if (m->pieces != m->inline_pieces)
                free(m->pieces);
        m->pieces = m->inline_pieces;
        m->n = 0;
        m->room = BLKUP_BLOCK_MEMORY_PIECES;
}

static void allocated_close(struct blkup_block *b)
{
        memory_close(b);
        free(b);
}

static const struct blkup_block_ops memory_ops = { .name = "memory",
                                                   .read = memory_read,
                                                   .close = memory_close };
static const struct blkup_block_ops allocated_ops = { .name = "memory",
                                                      .read = memory_read,
                                                      .close = allocated_close };

void blkup_block_memory_init(struct blkup_block_memory *m, uint64_t size_bytes, uint32_t sector_bytes)
{
        *m = (struct blkup_block_memory) {
                .block = {
                        .ops = &memory_ops,
                        .info = {
                                .kind = BLKUP_BLOCK_FILE,
                                .size_bytes = size_bytes,
                                .logical_sector_bytes = sector_bytes,
                        },
                        .align_bytes = 1,
                        .one_submission = true,
                },
                .room = BLKUP_BLOCK_MEMORY_PIECES,
        };
        m->pieces = m->inline_pieces;
}

struct blkup_block *blkup_block_memory_new(uint64_t size_bytes, uint32_t sector_bytes)
{
        struct blkup_block_memory *m;

        m = malloc(sizeof(*m));
        if (!m)
                return NULL;
        blkup_block_memory_init(m, size_bytes, sector_bytes);
        m->block.ops = &allocated_ops;
        return &m->block;
}

static int make_room(struct blkup_block_memory *m, size_t more)
{
        struct blkup_block_piece *grown;
        size_t room;

        if (m->room - m->n >= more)
                return 0;
        room = m->room * 2;
        grown = malloc(room * sizeof(*grown));
        if (!grown)
                return -ENOMEM;
        memcpy(grown, m->pieces, m->n * sizeof(*grown));
        if (m->pieces != m->inline_pieces)
                free(m->pieces);
        m->pieces = grown;
        m->room = room;
        return 0;
}

int blkup_block_memory_add(struct blkup_block *b, uint64_t at, const void *bytes, size_t len)
{
        struct blkup_block_memory *m = (struct blkup_block_memory *) b;
        struct blkup_block_piece left, right;
        size_t first, last, n_new;
        uint64_t end;
        int r;

        if (!blkup_inside(at, len, b->info.size_bytes))
                return -ERANGE;
        if (len == 0)
                return 0;
        /* At worst one piece is split in two around the new one. */
        r = make_room(m, 2);
        if (r < 0)
                return r;

        /* Pieces [first, last) are touched by the new one; what they have outside it stays. */
        end = at + len;
        first = first_behind(m, at);
        for (last = first; last < m->n && m->pieces[last].at < end; last++)
                ;
        left = right = (struct blkup_block_piece) {};
        if (last > first) {
                const struct blkup_block_piece *p = &m->pieces[first], *q = &m->pieces[last - 1];

                if (p->at < at)
                        left = (struct blkup_block_piece){ .at = p->at,
                                                           .len = (size_t) (at - p->at),
                                                           .bytes = p->bytes };
                if (end_of_piece(q) > end)
                        right = (struct blkup_block_piece){ .at = end,
                                                            .len = (size_t) (end_of_piece(q) - end),
                                                            .bytes = q->bytes + (end - q->at) };
        }
        n_new = 1u + (left.len > 0) + (right.len > 0);
        memmove(&m->pieces[first + n_new], &m->pieces[last], (m->n - last) * sizeof(*m->pieces));
        m->n = m->n - (last - first) + n_new;
        if (left.len > 0)
                m->pieces[first++] = left;
        m->pieces[first++] = (struct blkup_block_piece) { .at = at, .len = len, .bytes = bytes };
        if (right.len > 0)
                m->pieces[first] = right;
        return 0;
}

void blkup_block_memory_reset(struct blkup_block *b, uint64_t size_bytes)
{
        struct blkup_block_memory *m = (struct blkup_block_memory *) b;

        m->n = 0;
        b->info.size_bytes = size_bytes;
}
