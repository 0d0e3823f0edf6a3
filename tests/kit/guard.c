/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kit/kit.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"

void kit_die(const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        (void) vfprintf(stderr, fmt, ap);
        va_end(ap);
        (void) fputc('\n', stderr);
        abort();
}

static void check_request(struct kit_guard *g, const struct blkup_block_request *r)
{
        uint64_t end = blkup_align_up(g->block.info.size_bytes, g->block.align_bytes);

        if (r->len == 0 || !r->to)
                kit_die("a request for nothing at %" PRIu64, r->at);
        if (g->block.info.size_bytes > INT64_MAX - 65536)
                end = UINT64_MAX;
        if (r->at >= g->block.info.size_bytes || r->len > end - r->at)
                kit_die("a request for %zu bytes at %" PRIu64 " on a device of %" PRIu64, r->len, r->at,
                        g->block.info.size_bytes);
        g->requests++;
        if (g->keeps_log && g->n_log < KIT_GUARD_LOG)
                g->log[g->n_log++] = (struct kit_range){ .at = r->at, .len = r->len };
}

static int guard_read(struct blkup_block *b, struct blkup_block_request *r, size_t n)
{
        struct kit_guard *g = (struct kit_guard *) b;
        uint64_t state = g->shuffle;
        size_t first;

        g->batches++;
        for (size_t i = 0; i < n; i++)
                check_request(g, &r[i]);
        if (!g->shuffle)
                return blkup_block_read(g->inner, r, n);
        /* From a random one on, upwards or downwards: each once. */
        first = kit_random(&state) % n;
        for (size_t i = 0; i < n; i++) {
                size_t k = g->shuffle & 1 ? (first + i) % n : (first + n - i) % n;
                int rc = blkup_block_read(g->inner, &r[k], 1);

                if (rc < 0)
                        return rc;
        }
        return (int) n;
}

static const struct blkup_block_ops ops = { .name = "guard", .read = guard_read };

void kit_guard_init(struct kit_guard *g, struct blkup_block *inner)
{
        g->inner = inner;
        g->shuffle = 0;
        g->keeps_log = false;
        kit_guard_reset(g);
}

void kit_guard_reset(struct kit_guard *g)
{
        g->block = *g->inner;
        g->block.ops = &ops;
        g->batches = g->requests = 0;
        g->n_log = 0;
}
