/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "block/writer.h"

#include <errno.h>

#include "base/checked.h"
#include "base/clock.h"

/* A request that is answered EAGAIN or EINTR is tried this often, a millisecond apart: two seconds. */
#define TRIES_MAX 2000

/* Goes on with a request of which `done` bytes are written. Each turn writes something, or counts down. */
static int write_rest(struct blkup_writer *w, const struct blkup_block_request *r, int64_t done)
{
        uint64_t written = done > 0 ? (uint64_t) done : 0;
        int64_t last = done;
        int tries = TRIES_MAX;

        while (written < r->len) {
                struct blkup_block_request rest = {
                        .at = r->at + written, .len = r->len - written, .to = (uint8_t *) r->to + written,
                };
                int k;

                if (last < 0 && last != -EAGAIN && last != -EINTR)
                        return (int) last;
                /* Nothing written and no reason told: a device that is full or gone. */
                if (last <= 0 && --tries == 0)
                        return last < 0 ? (int) last : -EIO;
                if (last == -EAGAIN)
                        blkup_sleep_until_ns(blkup_now_ns() + 1000000, NULL);
                k = w->ops->write(w, &rest, 1);
                last = k < 0 ? k : rest.done_bytes;
                if (last > 0)
                        written += blkup_min((uint64_t) last, rest.len);
        }
        return 0;
}

int blkup_writer_write(struct blkup_writer *w, struct blkup_block_request *r, size_t n, size_t *ret_failed)
{
        int k, result = 0;

        for (size_t i = 0; i < n; i++) {
                if (!blkup_inside(r[i].at, r[i].len, w->block.info.size_bytes)) {
                        if (ret_failed)
                                *ret_failed = i;
                        return -ERANGE;
                }
        }
        if (n == 0)
                return 0;
        k = w->ops->write(w, r, n);
        for (size_t i = 0; i < n; i++) {
                int e = write_rest(w, &r[i], k < 0 ? k : r[i].done_bytes);

                r[i].done_bytes = e < 0 ? e : (int64_t) r[i].len;
                if (e < 0 && result == 0) {
                        result = e;
                        if (ret_failed)
                                *ret_failed = i;
                }
                if (e == 0) {
                        w->counts.writes++;
                        w->counts.written_bytes += r[i].len;
                }
        }
        return result;
}

int blkup_writer_zero(struct blkup_writer *w, uint64_t at, uint64_t len, enum blkup_zero_how how)
{
        int r, tries = TRIES_MAX;

        if (!blkup_inside(at, len, w->block.info.size_bytes))
                return -ERANGE;
        if (len == 0)
                return 0;
        do
                r = w->ops->zero(w, at, len, how);
        while (r == -EINTR && --tries > 0);
        if (r == 0) {
                w->counts.zeroes++;
                w->counts.zeroed_bytes += len;
        } else if (r == -EOPNOTSUPP) {
                w->counts.zero_refusals++;
        }
        return r;
}

int blkup_writer_flush(struct blkup_writer *w)
{
        w->counts.flushes++;
        return w->ops->flush(w);
}

int blkup_writer_next_data(struct blkup_writer *w, uint64_t at, uint64_t end, uint64_t *ret_at,
                           uint64_t *ret_len)
{
        uint64_t from = at, len = end > at ? end - at : 0;

        if (len > 0 && w->ops->next_data) {
                int r = w->ops->next_data(w, at, &from, &len);

                if (r < 0)
                        return r;
                if (len > 0 && from < at) {
                        len -= blkup_min(len, at - from);
                        from = at;
                }
                if (from >= end)
                        len = 0;
                len = len > 0 ? blkup_min(len, end - from) : 0;
        }
        *ret_at = len > 0 ? from : end;
        *ret_len = len;
        return 0;
}

int blkup_block_read_exact(struct blkup_block *b, uint64_t at, void *to, size_t len)
{
        uint64_t done = 0;

        /* Ends: each turn reads something, or returns. */
        while (done < len) {
                struct blkup_block_request r = { .at = at + done, .len = len - done,
                                                 .to = (uint8_t *) to + done };
                int k = blkup_block_read(b, &r, 1);

                if (k < 0)
                        return k;
                if (r.done_bytes < 0)
                        return (int) r.done_bytes;
                if (r.done_bytes == 0)
                        return -EIO;
                done += (uint64_t) r.done_bytes;
        }
        return 0;
}

struct blkup_writer *blkup_writer_close(struct blkup_writer *w)
{
        if (w)
                (void) blkup_block_close(&w->block);
        return NULL;
}
