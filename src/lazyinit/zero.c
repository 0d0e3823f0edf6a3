/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "lazyinit/zero.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"

/* One write. In one run with 1, 2 and 4 MiB and 8 in flight, 1 MiB was as fast as the others; docs/decisions.
 */
#define WRITE_BYTES (1u << 20)
/* One read of what is compared. */
#define READ_BYTES (256u << 10)
/* One offload: long enough that the call costs nothing beside it, short enough for a signal to be heard. */
#define OFFLOAD_BYTES (256u << 20)
/* After this many refusals of offload in a row the whole run writes; a single one is that range's alone. */
#define REFUSALS_MAX 8u
/* Reading first does not pay on a device that is full of old data: after a stretch without a zero chunk this
 * much is written unseen, and twice as much the next time. */
#define COMPARE_SKIP_BYTES (64u << 20)
#define LOOK_BYTES UINT64_C(16384)

int blkup_lazy_zero_init(struct blkup_lazy_zero *z)
{
        void *zeroes;

        if (z->in_flight == 0)
                z->in_flight = BLKUP_LAZY_IN_FLIGHT_DEFAULT;
        z->in_flight = (unsigned) blkup_min(z->in_flight, BLKUP_LAZY_IN_FLIGHT_MAX);
        if (z->one_at_a_time)
                z->in_flight = 1;
        z->compare_penalty = COMPARE_SKIP_BYTES;
        /* Never written: every page of it is the kernel's one page of zeroes, and takes no memory. */
        zeroes = mmap(NULL, WRITE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (zeroes == MAP_FAILED)
                return -ENOMEM;
        z->zeroes = zeroes;
        return 0;
}

void blkup_lazy_zero_done(struct blkup_lazy_zero *z)
{
        if (z->zeroes)
                (void) munmap(z->zeroes, WRITE_BYTES);
        free(z->reads);
        z->zeroes = z->reads = NULL;
}

static bool is_stopped(const struct blkup_lazy_zero *z)
{
        return z->stop && *z->stop != 0;
}

static bool all_zero(const uint8_t *p, size_t n)
{
        return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* ---- writes ---- */

/* Cuts [at, end) into requests of most bytes that end where direct I/O can go on; returns how many there are.
 */
static size_t cut(const struct blkup_lazy_zero *z, uint64_t at, uint64_t end, uint64_t most, uint8_t *to,
                  size_t step, struct blkup_block_request *r, size_t max)
{
        size_t n = 0;

        for (; n < max && at < end; n++) {
                uint64_t next =
                        blkup_min(blkup_align_down(at + most, z->writer->block.align_bytes), end);
                uint64_t whole = blkup_align_down(next, z->writer->block.align_bytes);
                uint64_t up = blkup_align_up(at, z->writer->block.align_bytes);

                /* An odd start or end goes alone, through the page cache, and all between goes direct. */
                if (up > at && up < next)
                        next = up;
                else if (whole > at && whole < next)
                        next = whole;
                r[n] = (struct blkup_block_request){ .at = at, .len = next - at, .to = to + n * step };
                at = next;
        }
        return n;
}

static int write_zeroes(struct blkup_lazy_zero *z, uint64_t at, uint64_t len, uint64_t *ret_done)
{
        uint64_t end = at + len, start = at;

        /* Ends: each turn writes something. */
        while (at < end && !is_stopped(z)) {
                struct blkup_block_request r[BLKUP_LAZY_IN_FLIGHT_MAX];
                size_t n = cut(z, at, end, WRITE_BYTES, z->zeroes, 0, r, z->in_flight), failed = 0;
                int k = blkup_writer_write(z->writer, r, n, &failed);

                z->is_dirty = true;
                if (k < 0) {
                        *ret_done = r[failed].at - start;
                        return k;
                }
                z->requests += n;
                at = r[n - 1].at + r[n - 1].len;
                z->written += at - r[0].at;
        }
        *ret_done = at - start;
        return 0;
}

/* ---- offload ---- */

static int offload(struct blkup_lazy_zero *z, uint64_t at, uint64_t len, enum blkup_zero_how how,
                   uint64_t *ret_done)
{
        uint64_t end = at + len, start = at;

        while (at < end && !is_stopped(z)) {
                uint64_t n = blkup_min(end - at, z->one_at_a_time ? OFFLOAD_BYTES / 8 : OFFLOAD_BYTES),
                         done = 0;
                int k = -EOPNOTSUPP;

                if (z->refused_in_a_row < REFUSALS_MAX)
                        k = blkup_writer_zero(z->writer, at, n, how);
                if (k == -EOPNOTSUPP) {
                        /* It may have begun: whatever it did, zeroes are zeroes. */
                        z->refusals += z->refused_in_a_row < REFUSALS_MAX;
                        z->refused_in_a_row += z->refused_in_a_row < REFUSALS_MAX;
                        k = write_zeroes(z, at, n, &done);
                        if (k < 0 || done < n) {
                                *ret_done = at + done - start;
                                return k;
                        }
                } else if (k < 0) {
                        *ret_done = at - start;
                        return k;
                } else {
                        z->refused_in_a_row = 0;
                        z->is_dirty = true;
                        z->requests++;
                        if (how == BLKUP_ZERO_PUNCH)
                                z->punched += n;
                        else
                                z->offloaded += n;
                }
                at += n;
        }
        *ret_done = at - start;
        return 0;
}

/* What holds something, or has to be treated as if it did. */
static int make_zero(struct blkup_lazy_zero *z, uint64_t at, uint64_t len, uint64_t *ret_done)
{
        bool is_thin = z->allocation == BLKUP_LAZYINIT_THIN;

        if (z->strategy == BLKUP_LAZYINIT_WRITE)
                return write_zeroes(z, at, len, ret_done);
        if (z->strategy == BLKUP_LAZYINIT_PUNCH || (z->strategy == BLKUP_LAZYINIT_AUTO && is_thin))
                return offload(z, at, len, BLKUP_ZERO_PUNCH, ret_done);
        return offload(z, at, len, BLKUP_ZERO_KEEP, ret_done);
}

/* ---- what is already zero ---- */

static int allocate_reads(struct blkup_lazy_zero *z)
{
        if (!z->reads &&
            posix_memalign((void **) &z->reads, 4096, (size_t) z->in_flight * READ_BYTES) != 0) {
                z->reads = NULL;
                return -ENOMEM;
        }
        return 0;
}

/*
 * Reads one batch of [at, end) and makes zero only the chunks that hold something. A chunk that cannot be
 * read is written: on dm-integrity that is what makes it readable.
 */
static int compare_batch(struct blkup_lazy_zero *z, uint64_t at, uint64_t end, uint64_t *ret_done)
{
        struct blkup_block_request r[BLKUP_LAZY_IN_FLIGHT_MAX];
        size_t n, n_zero = 0;
        uint64_t start = at, bytes_zero = 0;
        int k;

        k = allocate_reads(z);
        if (k < 0)
                return k;
        n = cut(z, at, end, READ_BYTES, z->reads, READ_BYTES, r, z->in_flight);
        if (blkup_block_read(&z->writer->block, r, n) < 0)
                for (size_t i = 0; i < n; i++)
                        r[i].done_bytes = -EIO;
        for (size_t i = 0; i < n;) {
                uint64_t done = 0, len = 0;
                size_t j = i;
                bool is_zero = r[i].done_bytes == (int64_t) r[i].len && all_zero(r[i].to, r[i].len);

                /* Neighbours of one kind together. */
                for (; j < n &&
                       is_zero == (r[j].done_bytes == (int64_t) r[j].len && all_zero(r[j].to, r[j].len));
                     j++)
                        len += r[j].len;
                if (is_zero) {
                        n_zero += j - i;
                        bytes_zero += len;
                } else {
                        k = make_zero(z, r[i].at, len, &done);
                        if (k < 0 || done < len) {
                                z->already_zero += bytes_zero;
                                *ret_done = r[i].at + done - start;
                                return k;
                        }
                }
                i = j;
        }
        z->already_zero += bytes_zero;
        if (n_zero > 0)
                z->compare_penalty = COMPARE_SKIP_BYTES;
        *ret_done = r[n - 1].at + r[n - 1].len - start;
        return 0;
}

/*
 * A small read first, where a device is full of old data: that shows at once, and what follows is written
 * unseen, for ever longer stretches. Says nothing of a device that may be thin.
 */
static int look_first(struct blkup_lazy_zero *z, uint64_t at, uint64_t end)
{
        struct blkup_block_request r = { .at = at, .len = (size_t) blkup_min(LOOK_BYTES, end - at) };
        int k = allocate_reads(z);

        if (k < 0 || z->may_be_thin)
                return k;
        r.to = z->reads;
        if (blkup_block_read(&z->writer->block, &r, 1) >= 0 && r.done_bytes == (int64_t) r.len &&
            all_zero(r.to, r.len))
                return 0;
        z->compare_skip = z->compare_penalty;
        z->compare_penalty = blkup_min(2 * z->compare_penalty, UINT64_C(1) << 40);
        return 0;
}

/* On a block device all is data: read and compare where that is cheaper than writing. */
static int device_range(struct blkup_lazy_zero *z, uint64_t at, uint64_t len, uint64_t *ret_done)
{
        uint64_t end = at + len, start = at;
        bool compares = z->allocation == BLKUP_LAZYINIT_KEEP &&
                        (z->may_be_thin || z->strategy != BLKUP_LAZYINIT_WRITE);

        while (at < end && !is_stopped(z)) {
                uint64_t done = 0;
                int k = compares && z->compare_skip == 0 ? look_first(z, at, end) : 0;

                if (k < 0) {
                        *ret_done = at - start;
                        return k;
                }
                if (!compares || z->compare_skip > 0) {
                        uint64_t n = compares ? blkup_min(end - at, z->compare_skip) : end - at;

                        k = make_zero(z, at, n, &done);
                        z->compare_skip -= blkup_min(z->compare_skip, done);
                } else {
                        k = compare_batch(z, at, end, &done);
                }
                at += done;
                if (k < 0 || done == 0) {
                        *ret_done = at - start;
                        return k;
                }
        }
        *ret_done = at - start;
        return 0;
}

static int file_range(struct blkup_lazy_zero *z, uint64_t at, uint64_t len, uint64_t *ret_done)
{
        uint64_t end = at + len, start = at;

        while (at < end && !is_stopped(z)) {
                uint64_t from = end, n = 0, done = 0;
                int k = blkup_writer_next_data(z->writer, at, end, &from, &n);

                if (k < 0) {
                        *ret_done = at - start;
                        return k;
                }
                z->already_zero += from - at;
                at = from;
                if (n == 0)
                        continue;
                k = make_zero(z, at, n, &done);
                at += done;
                if (k < 0 || done < n) {
                        *ret_done = at - start;
                        return k;
                }
        }
        *ret_done = at - start;
        return 0;
}

int blkup_lazy_zero_range(struct blkup_lazy_zero *z, uint64_t at, uint64_t len, uint64_t *ret_done)
{
        *ret_done = 0;
        if (len == 0)
                return 0;
        if (z->writer->block.info.kind != BLKUP_BLOCK_FILE)
                return device_range(z, at, len, ret_done);
        /* Holes become zeroes of their own, so nobody need look for them. */
        if (z->allocation == BLKUP_LAZYINIT_THICK)
                return make_zero(z, at, len, ret_done);
        return file_range(z, at, len, ret_done);
}

int blkup_lazy_is_zero(struct blkup_lazy_zero *z, uint64_t at, uint64_t len, bool *ret_zero)
{
        uint64_t end = at + len;
        int k = allocate_reads(z);

        if (k < 0)
                return k;
        *ret_zero = true;
        while (at < end && *ret_zero) {
                struct blkup_block_request r[BLKUP_LAZY_IN_FLIGHT_MAX];
                uint64_t from = end, n_data = 0;
                size_t n;

                k = blkup_writer_next_data(z->writer, at, end, &from, &n_data);
                if (k < 0)
                        return k;
                at = from;
                if (n_data == 0)
                        break;
                n = cut(z, at, at + n_data, READ_BYTES, z->reads, READ_BYTES, r, z->in_flight);
                k = blkup_block_read(&z->writer->block, r, n);
                if (k < 0)
                        return k;
                for (size_t i = 0; i < n && *ret_zero; i++) {
                        if (r[i].done_bytes < 0)
                                return (int) r[i].done_bytes;
                        if (r[i].done_bytes != (int64_t) r[i].len)
                                return -EIO;
                        *ret_zero = all_zero(r[i].to, r[i].len);
                }
                at = r[n - 1].at + r[n - 1].len;
        }
        return 0;
}

int blkup_lazy_allocated(struct blkup_writer *w, uint64_t at, uint64_t len, uint64_t *ret)
{
        uint64_t end = at + len, sum = 0;

        /* Ends: at grows. */
        while (at < end) {
                uint64_t from = end, n = 0;
                int k = blkup_writer_next_data(w, at, end, &from, &n);

                if (k < 0)
                        return k;
                if (n == 0)
                        break;
                sum += n;
                at = from + n;
        }
        *ret = sum;
        return 0;
}
