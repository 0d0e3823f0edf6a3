/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "lazyinit/finish.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "lazyinit/pacing.h"
#include "trace/trace.h"

/* Two flushes each; as few as keep what a cut-off run has to do again small. */
#define BATCHES_MAX 7u
#define BATCH_BYTES_MIN (UINT64_C(64) << 20)
/* Sectors that are written together. */
#define DESC_BATCH 32u
/* Zeroing stops at these distances to tell progress and to ask whether the device is still ours. */
#define STEP_BYTES (UINT64_C(64) << 20)
/* Somebody else's requests are waited for this long at most before one unit of ours, doubling from the first.
 */
#define YIELD_FIRST_NS UINT64_C(5000000)
#define YIELD_MAX_NS UINT64_C(1000000000)

static int compare_todo(const void *a, const void *b)
{
        const struct blkup_lazy_todo *x = a, *y = b;

        return x->at != y->at ? (x->at < y->at ? -1 : 1) : (x->group < y->group ? -1 : x->group > y->group);
}

int blkup_lazy_todo(const struct blkup_lazy_layout *l, const bool *is_stale, struct blkup_lazy_todo **ret,
                    size_t *ret_n)
{
        struct blkup_lazy_todo *t;
        size_t n = 0, i = 0;

        for (uint32_t g = 0; g < l->groups; g++)
                n += !(l->group[g].flags & BLKUP_EXT4_BG_INODE_ZEROED) || (is_stale && is_stale[g]);
        t = n > 0 ? malloc(n * sizeof(*t)) : NULL;
        if (n > 0 && !t)
                return -ENOMEM;
        for (uint32_t g = 0; g < l->groups; g++) {
                bool is_flagged = l->group[g].flags & BLKUP_EXT4_BG_INODE_ZEROED;

                if (!is_flagged || (is_stale && is_stale[g]))
                        t[i++] = (struct blkup_lazy_todo){
                                .at = blkup_lazy_zero_at(l, g), .len = blkup_lazy_zero_len(l, g), .group = g,
                                .needs_flag = !is_flagged,
                        };
        }
        if (n > 1)
                qsort(t, n, sizeof(*t), compare_todo);
        *ret = t;
        *ret_n = n;
        return 0;
}

/* ---- flags and checksums ---- */

struct sector {
        uint64_t at;
        uint32_t group;
};

static int compare_sectors(const void *a, const void *b)
{
        const struct sector *x = a, *y = b;

        return x->at != y->at ? (x->at < y->at ? -1 : 1) : (x->group < y->group ? -1 : x->group > y->group);
}

/* What lies in the sectors of a batch is written as a whole; a descriptor's flags and checksum are in its
 * first 32 bytes, and those are in one sector, so each descriptor is old or new whatever happens. */
static int change_descriptor(const struct blkup_lazy_finish *f, uint32_t g, uint64_t sector_at,
                             uint8_t *sector, uint32_t sector_bytes, struct blkup_error *err)
{
        const struct blkup_lazy_layout *l = f->layout;
        uint64_t at = blkup_lazy_desc_at(l, g);
        uint8_t desc[BLKUP_EXT4_DESC_MAX];
        uint16_t flags, checksum;
        size_t in_sector = (size_t) (at - sector_at);
        size_t n = (size_t) blkup_min(l->desc_bytes, sector_bytes - in_sector);
        int k = 0;

        memcpy(desc, sector + in_sector, n);
        /* A descriptor longer than a sector: the rest takes part in the checksum and stays as it is. */
        if (n < l->desc_bytes) {
                uint8_t whole[BLKUP_EXT4_DESC_MAX] __attribute__((aligned(4096)));

                k = blkup_block_read_exact(&f->writer->block, at, whole, l->desc_bytes);
                if (k < 0)
                        return blkup_fail_errno(err, k, "group %" PRIu32 ": descriptor", g);
                memcpy(desc + n, whole + n, l->desc_bytes - n);
        }
        flags = blkup_load_le16(desc + BLKUP_EXT4_BG_FLAGS);
        checksum = blkup_load_le16(desc + BLKUP_EXT4_BG_CHECKSUM);
        if (flags != l->group[g].flags || checksum != l->group[g].checksum ||
            checksum != blkup_lazy_desc_checksum(l, g, desc))
                return blkup_fail(err, -ESTALE,
                                  "group %" PRIu32 ": descriptor changed while we worked: somebody "
                                  "else writes to this device",
                                  g);
        flags |= BLKUP_EXT4_BG_INODE_ZEROED;
        desc[BLKUP_EXT4_BG_FLAGS] = (uint8_t) flags;
        desc[BLKUP_EXT4_BG_FLAGS + 1] = (uint8_t) (flags >> 8);
        checksum = blkup_lazy_desc_checksum(l, g, desc);
        desc[BLKUP_EXT4_BG_CHECKSUM] = (uint8_t) checksum;
        desc[BLKUP_EXT4_BG_CHECKSUM + 1] = (uint8_t) (checksum >> 8);
        memcpy(sector + in_sector, desc, 32);
        return 0;
}

/* How much is written as one: the device's sector; at least what every disk writes as one. */
static uint32_t sector_bytes_of(const struct blkup_writer *w)
{
        return (uint32_t) blkup_max(512, w->block.info.logical_sector_bytes);
}

/* Runs of neighbouring sectors as one request each, up to a whole DESC_BATCH. */
static int write_sectors(struct blkup_lazy_finish *f, const struct sector *s, size_t n, uint8_t *buffer,
                         struct blkup_error *err)
{
        uint32_t bytes = sector_bytes_of(f->writer);
        struct blkup_block_request r[DESC_BATCH];
        size_t n_sectors = 0, n_requests = 0, failed = 0;
        int k;

        for (size_t i = 0; i < n; i++) {
                uint8_t *sector = buffer + (n_sectors - (n_sectors > 0)) * bytes;

                if (i == 0 || s[i].at != s[i - 1].at) {
                        sector = buffer + n_sectors++ * bytes;
                        k = blkup_block_read_exact(&f->writer->block, s[i].at, sector, bytes);
                        if (k < 0)
                                return blkup_fail_errno(err, k, "group %" PRIu32 ": descriptor", s[i].group);
                        if (n_requests > 0 && r[n_requests - 1].at + r[n_requests - 1].len == s[i].at)
                                r[n_requests - 1].len += bytes;
                        else
                                r[n_requests++] = (struct blkup_block_request){ .at = s[i].at, .len = bytes,
                                                                               .to = sector };
                }
                k = change_descriptor(f, s[i].group, s[i].at, sector, bytes, err);
                if (k < 0)
                        return k;
        }
        k = blkup_writer_write(f->writer, r, n_requests, &failed);
        if (k < 0)
                return blkup_fail_errno(err, k, "group descriptors at byte %" PRIu64, r[failed].at);
        f->result->requests += n_requests;
        return 0;
}

static int write_descriptors(struct blkup_lazy_finish *f, const struct blkup_lazy_todo *t, size_t n,
                             struct blkup_error *err)
{
        uint32_t bytes = sector_bytes_of(f->writer);
        BLKUP_CLEANUP_FREE struct sector *s = malloc((n > 0 ? n : 1) * sizeof(*s));
        BLKUP_CLEANUP_FREE uint8_t *buffer = NULL;
        size_t n_flags = 0;

        if (!s || posix_memalign((void **) &buffer, 4096, (size_t) DESC_BATCH * bytes) != 0)
                return blkup_fail_errno(err, -ENOMEM, "group descriptors");
        for (size_t i = 0; i < n; i++)
                if (t[i].needs_flag)
                        s[n_flags++] = (struct sector){
                                .at = blkup_lazy_desc_at(f->layout, t[i].group) / bytes * bytes,
                                .group = t[i].group,
                        };
        if (n_flags > 1)
                qsort(s, n_flags, sizeof(*s), compare_sectors);
        /* Ends: each turn takes at least one. */
        for (size_t from = 0, to; from < n_flags; from = to) {
                size_t n_sectors = 0;
                int k;

                for (to = from; to < n_flags; to++) {
                        n_sectors += to == from || s[to].at != s[to - 1].at;
                        if (n_sectors > DESC_BATCH)
                                break;
                }
                k = write_sectors(f, s + from, to - from, buffer, err);
                if (k < 0)
                        return k;
        }
        return 0;
}

/* ---- batches ---- */

struct run {
        struct blkup_lazy_finish *f;
        uint64_t start_ns, last_progress_ns, bytes_todo, bytes_done;
        uint32_t groups_done;
};

static bool is_stopped(const struct run *run)
{
        return run->f->options->stop && *run->f->options->stop != 0;
}

static void add_span(const struct run *run, enum blkup_span_kind kind, const char *name, uint64_t start,
                     uint64_t bytes, int error)
{
        blkup_trace_add(run->f->options->trace, &(struct blkup_span){
                                                        .kind = kind,
                                                        .lane = run->f->device,
                                                        .name = name,
                                                        .start_ns = start,
                                                        .end_ns = blkup_now_ns(),
                                                        .bytes = bytes,
                                                        .error = error,
                                                });
}

static void tell_progress(struct run *run, bool always)
{
        const struct blkup_lazyinit_options *o = run->f->options;
        uint64_t now;
        struct blkup_lazyinit_progress p;

        if (!o->progress)
                return;
        now = blkup_now_ns();
        /* A tenth of a second: faster than anyone reads. */
        if (!always && now - run->last_progress_ns < 100000000)
                return;
        run->last_progress_ns = now;
        p = (struct blkup_lazyinit_progress){
                .device = run->f->device, .groups = run->f->layout->groups,
                .groups_todo = (uint32_t) run->f->n_todo, .groups_done = run->groups_done,
                .bytes_todo = run->bytes_todo, .bytes_done = run->bytes_done, .ns = now - run->start_ns,
                .eta_ns = UINT64_MAX,
        };
        if (p.bytes_done > 0)
                p.eta_ns = (uint64_t) ((double) p.ns * (double) (p.bytes_todo - p.bytes_done) /
                                       (double) p.bytes_done);
        o->progress(o->progress_to, &p);
}

static int flush(struct run *run, struct blkup_error *err)
{
        uint64_t start = blkup_now_ns();
        int k = blkup_writer_flush(run->f->writer);

        run->f->result->flushes++;
        add_span(run, BLKUP_SPAN_LAZYINIT, "flush", start, 0, k);
        return k < 0 ? blkup_fail_errno(err, k, "flush") : 0;
}

/* Zeroes [at, at + len), in steps. *ret_done: how much; less than len when stopped. */
static int zero_bytes(struct run *run, uint64_t at, uint64_t len, uint64_t *ret_done, struct blkup_error *err)
{
        struct blkup_lazy_finish *f = run->f;
        uint64_t done = 0;

        *ret_done = 0;
        while (done < len && !is_stopped(run)) {
                uint64_t n = blkup_min(len - done, STEP_BYTES), part = 0, start = blkup_now_ns();
                int k = f->still_ours ? f->still_ours(f->still_ours_to, err) : 0;

                if (k < 0)
                        return k;
                k = blkup_lazy_zero_range(&f->zero, at + done, n, &part);
                add_span(run, BLKUP_SPAN_LAZYINIT, "zero", start, part, k);
                done += part;
                run->bytes_done += part;
                *ret_done = done;
                if (k < 0)
                        return blkup_fail_errno(err, k, "zeroes at byte %" PRIu64, at + done);
                tell_progress(run, false);
                if (part < n)
                        break;
        }
        return 0;
}

/* Bytes that had to be made zero so far. */
static uint64_t bytes_made(const struct run *run)
{
        return run->f->zero.written + run->f->zero.offloaded + run->f->zero.punched;
}

/* The zeroes of todo[from, to), touching ranges as one, until `most` bytes had to be made zero. *ret_to: the
 * groups before it are all zero. */
static int zero_groups(struct run *run, size_t from, size_t to, uint64_t most, size_t *ret_to,
                       struct blkup_error *err)
{
        const struct blkup_lazy_todo *t = run->f->todo;
        uint64_t made_before = bytes_made(run);

        *ret_to = from;
        /* Ends: i grows, as j starts behind it. */
        for (size_t i = from, j; i < to && bytes_made(run) - made_before < most; i = j) {
                uint64_t len = t[i].len, done = 0, left;
                int k;

                for (j = i + 1; j < to && t[j].at == t[i].at + len && len < most; j++)
                        len += t[j].len;
                k = zero_bytes(run, t[i].at, len, &done, err);
                /* Whole groups only. */
                for (left = done; *ret_to < j && left >= t[*ret_to].len; (*ret_to)++)
                        left -= t[*ret_to].len;
                if (k < 0)
                        return blkup_wrap(err, k, "group %" PRIu32, t[blkup_min(*ret_to, j - 1)].group);
                if (done < len)
                        return 0;
        }
        return 0;
}

static int verify_groups(struct run *run, size_t from, size_t to, struct blkup_error *err)
{
        const struct blkup_lazy_todo *t = run->f->todo;

        for (size_t i = from; i < to; i++) {
                bool is_zero = true;
                int k = blkup_lazy_is_zero(&run->f->zero, t[i].at, t[i].len, &is_zero);

                if (k < 0)
                        return blkup_fail_errno(err, k, "group %" PRIu32 ": reading back", t[i].group);
                if (!is_zero)
                        return blkup_fail(err, -EIO,
                                          "group %" PRIu32 ": the zeroes that were written are not there",
                                          t[i].group);
        }
        return 0;
}

/* One batch, all four steps. *ret_to: how far it came. */
static int do_batch(struct run *run, size_t from, size_t to, uint64_t most, size_t *ret_to,
                    struct blkup_error *err)
{
        struct blkup_lazy_finish *f = run->f;
        uint64_t start;
        int k;

        k = zero_groups(run, from, to, most, ret_to, err);
        if (k < 0)
                return k;
        to = *ret_to;
        if (to == from)
                return 0;
        /* Nothing was written, and what was there was made durable when the file was opened. */
        if (f->zero.is_dirty) {
                k = flush(run, err);
                if (k < 0)
                        return k;
                f->zero.is_dirty = false;
        }
        if (f->options->verify) {
                start = blkup_now_ns();
                k = verify_groups(run, from, to, err);
                add_span(run, BLKUP_SPAN_READ, "verify", start, 0, k);
                if (k < 0)
                        return k;
        }
        k = f->still_ours ? f->still_ours(f->still_ours_to, err) : 0;
        if (k < 0)
                return k;
        start = blkup_now_ns();
        k = write_descriptors(f, f->todo + from, to - from, err);
        add_span(run, BLKUP_SPAN_LAZYINIT, "descriptors", start, 0, k);
        if (k < 0)
                return k;
        k = flush(run, err);
        if (k < 0)
                return k;
        for (size_t i = from; i < to; i++) {
                run->groups_done++;
                if (f->todo[i].needs_flag)
                        f->result->groups_left--;
        }
        f->result->batches++;
        tell_progress(run, false);
        return 0;
}

/* ---- the two ways through the list ---- */

static int at_full_speed(struct run *run, struct blkup_error *err)
{
        struct blkup_lazy_finish *f = run->f;
        uint64_t batch_bytes = blkup_max((run->bytes_todo + BATCHES_MAX - 1) / BATCHES_MAX, BATCH_BYTES_MIN);

        /* What already was zero costs nothing to do again, so a sparse image is one batch. Ends: done grows,
         * or it is stopped. */
        for (size_t done = 0, from = 0; done < f->n_todo; from = done) {
                int k = do_batch(run, from, f->n_todo, batch_bytes, &done, err);

                if (k < 0)
                        return k;
                if (done == from || is_stopped(run))
                        break;
        }
        return 0;
}

/* Others first: as long as the device has requests of theirs, up to a second. */
static void yield_to_others(struct run *run)
{
        struct blkup_lazy_finish *f = run->f;
        uint64_t start = blkup_now_ns(), step = YIELD_FIRST_NS;

        while (f->is_busy && f->is_busy(f->is_busy_to) && !is_stopped(run) &&
               blkup_now_ns() - start < YIELD_MAX_NS) {
                blkup_sleep_until_ns(blkup_now_ns() + step, f->options->stop);
                step *= 2;
        }
        f->result->yield_ns += blkup_now_ns() - start;
}

static int in_background(struct run *run, struct blkup_error *err)
{
        struct blkup_lazy_finish *f = run->f;
        struct blkup_pacing pacing;
        uint64_t deadline = 0;

        blkup_pacing_init(&pacing, f->options->wait_mult, f->layout->groups_per_flex);
        for (size_t from = 0, to, done; from < f->n_todo && !is_stopped(run); from = done) {
                uint64_t start, took, wait;
                int k;

                yield_to_others(run);
                to = from + (size_t) blkup_min(pacing.unit, f->n_todo - from);
                start = blkup_now_ns();
                k = do_batch(run, from, to, UINT64_MAX, &done, err);
                if (k < 0)
                        return k;
                if (done < to)
                        break;
                took = blkup_now_ns() - start;
                f->result->busy_ns += took;
                f->result->last_unit_ns = took;
                f->result->units++;
                f->result->largest_unit_groups =
                        (uint32_t) blkup_max(f->result->largest_unit_groups, to - from);
                wait = blkup_pacing_after(&pacing, (uint32_t) (to - from), took);
                if (done == f->n_todo || wait == 0)
                        continue;
                start = blkup_now_ns();
                deadline = start + wait;
                blkup_sleep_until_ns(deadline, f->options->stop);
                took = blkup_now_ns();
                f->result->wait_ns += took - start;
                if (took > deadline)
                        blkup_pacing_overslept(&pacing, took - deadline);
        }
        return 0;
}

static int do_body(struct run *run, struct blkup_error *err)
{
        struct blkup_lazy_finish *f = run->f;

        for (size_t i = 0; i < f->n_body; i++) {
                uint64_t done = 0;
                int k = zero_bytes(run, f->body[i].at, f->body[i].len, &done, err);

                f->result->bytes_journal += done;
                if (k < 0)
                        return blkup_wrap(err, k, "journal");
                if (done < f->body[i].len)
                        break;
        }
        return f->n_body > 0 && f->zero.is_dirty ? flush(run, err) : 0;
}

int blkup_lazy_finish(struct blkup_lazy_finish *f, struct blkup_error *err)
{
        struct run run = { .f = f, .start_ns = blkup_now_ns() };
        int k;

        for (size_t i = 0; i < f->n_todo; i++)
                run.bytes_todo += f->todo[i].len;
        for (size_t i = 0; i < f->n_body; i++)
                run.bytes_todo += f->body[i].len;
        tell_progress(&run, true);
        k = do_body(&run, err);
        if (k == 0 && f->n_body > 0)
                f->zero.is_dirty = false;
        if (k == 0)
                k = f->options->background ? in_background(&run, err) : at_full_speed(&run, err);
        f->result->was_stopped = is_stopped(&run) && run.groups_done < f->n_todo;
        f->result->bytes_already_zero += f->zero.already_zero;
        f->result->bytes_written += f->zero.written;
        f->result->bytes_offloaded += f->zero.offloaded;
        f->result->bytes_punched += f->zero.punched;
        f->result->requests += f->zero.requests;
        f->result->offload_refusals += f->zero.refusals;
        f->result->is_offloaded = f->zero.offloaded + f->zero.punched > 0;
        f->result->ns += blkup_now_ns() - run.start_ns;
        tell_progress(&run, true);
        return k;
}
