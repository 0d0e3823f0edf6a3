/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The reader: units and ranges that were planned or asked for become pieces in memory, each unit read once.
 * What cannot be read is noted by the unit, so that one bad sector is no answer about its neighbours.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "probe/reader.h"

#define MAX_REQUESTS BLKUP_MAX_REQUESTS
/* A run that fails is read again unit by unit when it is at most this long; a longer one (the array of a GPT,
 * a log to search) is bad as a whole: hundreds of time-outs in a row on a dying disk help nobody. */
#define MAX_RETRY_UNITS 64

static uint64_t unit_of(const struct blkup_probe *p)
{
        return (uint64_t) 1 << p->view.unit_shift;
}

static uint8_t *take_arena(struct blkup_probe *p, uint64_t len)
{
        uint64_t at = blkup_align_up(p->arena_used, 4096 < unit_of(p) ? unit_of(p) : 512);

        if (p->block->align_bytes > 512)
                at = blkup_align_up(p->arena_used, p->block->align_bytes);
        if (!blkup_inside(at, len, p->arena_size))
                return NULL;
        p->arena_used = at + len;
        return p->arena + at;
}

/* Not strerror(): translations would be looked for, and opened, by a child that may only read and write. */
static const char *error_text(int error)
{
#ifdef __GLIBC__
        const char *text = strerrordesc_np(error);

        return text ? text : "unknown error";
#else
        return strerror(error);
#endif
}

static void note_trouble(struct blkup_probe *p, uint64_t at, int code)
{
        if (p->trouble[0] != '\0')
                return;
        if (code == 0)
                (void) snprintf(p->trouble, sizeof(p->trouble), "short read at %" PRIu64, p->base + at);
        else
                (void) snprintf(p->trouble, sizeof(p->trouble), "read error at %" PRIu64 ": %s", p->base + at,
                                error_text(-code));
}

void blkup_reader_note_bad(struct blkup_probe *p, uint64_t at, uint64_t len)
{
        struct blkup_view *v = &p->view;

        p->is_as_planned = false;
        /* Full: the last entry grows over what lies between, which errs on the side of "nothing can be said".
         */
        if (v->n_bad == BLKUP_VIEW_BAD) {
                struct blkup_range *last = &v->bad[BLKUP_VIEW_BAD - 1];
                uint64_t end = blkup_max(last->at + last->len, at + len);

                last->at = blkup_min(last->at, at);
                last->len = end - last->at;
                return;
        }
        v->bad[v->n_bad++] = (struct blkup_range){ .at = at, .len = len };
}

/* How many bytes of a request at `at` lie on the device. */
static uint64_t expected(const struct blkup_probe *p, uint64_t at, uint64_t len)
{
        return blkup_min(len, p->view.size - blkup_min(at, p->view.size));
}

static void log_read(struct blkup_probe *p, const struct blkup_block_request *r)
{
        uint64_t at = r->at - p->base;

        p->stats.reads++;
        p->stats.bytes += expected(p, at, r->len);
        if (p->n_log < BLKUP_MAX_READS)
                p->log[p->n_log++] = (struct blkup_read_log){ .at = r->at + p->log_device, .len = r->len };
        if (p->debug && !p->is_caged)
                blkup_engine_debug(p, "read at %" PRIu64 ", %zu bytes: %" PRId64 " in %" PRIu64 " ns", r->at,
                                   r->len, r->done_bytes, r->ns);
}

void blkup_reader_submit(struct blkup_probe *p, struct blkup_block_request *r, size_t n)
{
        uint64_t start = p->trace ? blkup_now_ns() : 0, bytes = 0, waited = 0;
        int rc = blkup_block_read(p->block, r, n);

        if (rc > 0)
                p->stats.submissions += (uint64_t) rc;
        p->stats.rounds++;
        for (size_t i = 0; i < n; i++) {
                if (rc < 0)
                        r[i].done_bytes = rc;
                log_read(p, &r[i]);
                bytes += r[i].len;
                waited = blkup_max(waited, r[i].ns);
        }
        p->read_ns += waited;
        if (p->trace) {
                struct blkup_span s = {
                        .kind = BLKUP_SPAN_READ, .lane = p->lane, .name = "read", .start_ns = start,
                        .end_ns = blkup_now_ns(), .bytes = bytes, .reads = n, .error = rc < 0 ? rc : 0,
                };
                blkup_trace_add(p->trace, &s);
        }
}

static bool is_whole_read(const struct blkup_probe *p, const struct blkup_block_request *r)
{
        return r->done_bytes >= 0 && (uint64_t) r->done_bytes >= expected(p, r->at - p->base, r->len);
}

/* Reads the failed request again, unit by unit, and notes the units that stay bad. */
static void retry(struct blkup_probe *p, const struct blkup_block_request *failed)
{
        uint64_t unit = unit_of(p), at = failed->at - p->base, n = (failed->len + unit - 1) / unit;
        int code = failed->done_bytes < 0 ? (int) failed->done_bytes : 0;

        if (n == 1 || n > MAX_RETRY_UNITS) {
                blkup_reader_note_bad(p, at, failed->len);
                note_trouble(p, at, code);
                return;
        }
        for (uint64_t i = 0; i < n; i++) {
                struct blkup_block_request r = {
                        .at = failed->at + i * unit,
                        .len = (size_t) blkup_min(unit, failed->len - i * unit),
                        .to = (uint8_t *) failed->to + i * unit,
                };

                blkup_reader_submit(p, &r, 1);
                if (!is_whole_read(p, &r)) {
                        blkup_reader_note_bad(p, at + i * unit, r.len);
                        note_trouble(p, at + i * unit, r.done_bytes < 0 ? (int) r.done_bytes : 0);
                }
        }
}

static void add_piece(struct blkup_probe *p, uint64_t at, uint64_t len, const uint8_t *data)
{
        struct blkup_view *v = &p->view;
        uint64_t unit = unit_of(p);

        for (uint64_t u = at / unit; u < BLKUP_VIEW_LOW && u * unit < at + len; u++)
                if (!v->low[u])
                        v->low[u] = data + (u * unit - at);
        if (v->n_pieces < BLKUP_VIEW_PIECES)
                v->pieces[v->n_pieces++] =
                        (struct blkup_piece){ .at = at, .len = blkup_min(len, v->size - at), .data = data };
}

static bool is_loaded(const struct blkup_probe *p, uint64_t unit_no, const uint8_t **ret)
{
        const struct blkup_view *v = &p->view;
        uint64_t at = unit_no << v->unit_shift, len = expected(p, at, unit_of(p));

        if (unit_no < BLKUP_VIEW_LOW) {
                if (v->low[unit_no])
                        *ret = v->low[unit_no];
                return v->low[unit_no] != NULL;
        }
        for (unsigned i = 0; i < v->n_pieces; i++) {
                const struct blkup_piece *piece = &v->pieces[i];

                if (at >= piece->at && at - piece->at <= piece->len && len <= piece->len - (at - piece->at)) {
                        *ret = piece->data + (at - piece->at);
                        return true;
                }
        }
        return false;
}

/* A batch under construction. */
struct batch {
        struct blkup_block_request *r; /* room for MAX_REQUESTS */
        size_t n;
};

static bool may_read(struct blkup_probe *p, uint64_t at, uint64_t len)
{
        if (p->stats.bytes + p->planned_bytes + len <= p->budget)
                return true;
        if (p->trouble[0] == '\0')
                (void) snprintf(p->trouble, sizeof(p->trouble),
                                "gave up at %" PRIu64 ": the budget of %" PRIu64 " bytes is used up",
                                p->base + at, p->budget);
        blkup_reader_note_bad(p, at, len);
        return false;
}

static void add_request(struct blkup_probe *p, struct batch *b, uint64_t at, uint64_t len, uint8_t *to)
{
        if (b->n == MAX_REQUESTS) {
                blkup_reader_note_bad(p, at, len);
                return;
        }
        b->r[b->n++] = (struct blkup_block_request){ .at = p->base + at, .len = (size_t) len, .to = to };
        p->planned_bytes += len;
}

/* A run of units that nobody read yet becomes one request and one piece. */
static void add_run(struct blkup_probe *p, struct batch *b, uint64_t first, uint64_t last)
{
        uint64_t at = first << p->view.unit_shift, len = (last - first + 1) << p->view.unit_shift;
        uint8_t *to;

        if (!may_read(p, at, len))
                return;
        to = take_arena(p, len);
        if (!to) {
                blkup_reader_note_bad(p, at, len);
                return;
        }
        add_request(p, b, at, len, to);
        add_piece(p, at, len, to);
}

static void add_units(struct blkup_probe *p, struct batch *b, const struct blkup_units *u)
{
        uint64_t gap = p->merge_gap >> p->view.unit_shift, first = 0, last = 0;
        /* A set names each unit once: only what was there before it can be there already. */
        const bool is_first = p->view.n_pieces == 0;
        const uint8_t *unused;
        bool open = false;

        for (size_t w = 0; w < BLKUP_ARRAY_SIZE(u->low); w++)
                /* Ends: a bit less each time. */
                for (uint64_t bits = u->low[w]; bits != 0; bits &= bits - 1) {
                        uint64_t i = w * 64 + (uint64_t) __builtin_ctzll(bits);

                        if (p->view.low[i])
                                continue;
                        if (open && i - last <= gap + 1) {
                                last = i;
                                continue;
                        }
                        if (open)
                                add_run(p, b, first, last);
                        first = last = i;
                        open = true;
                }
        for (unsigned k = 0; k < u->n_high; k++) {
                uint64_t i = u->high[k];

                if (!is_first && is_loaded(p, i, &unused))
                        continue;
                if (open && i - last <= gap + 1) {
                        last = i;
                        continue;
                }
                if (open)
                        add_run(p, b, first, last);
                first = last = i;
                open = true;
        }
        if (open)
                add_run(p, b, first, last);
}

/* The first unit of [first, last] that is in memory; last + 1 when none is. */
static uint64_t next_loaded(const struct blkup_probe *p, uint64_t first, uint64_t last)
{
        const struct blkup_view *v = &p->view;
        uint64_t next = last + 1;

        for (uint64_t i = first; i < BLKUP_VIEW_LOW && i <= last; i++)
                if (v->low[i])
                        return i;
        for (unsigned i = 0; i < v->n_pieces; i++) {
                uint64_t from = v->pieces[i].at >> v->unit_shift;
                uint64_t end = (v->pieces[i].at + v->pieces[i].len + unit_of(p) - 1) >> v->unit_shift;

                if (from < next && end > first)
                        next = blkup_max(from, first);
        }
        return next;
}

/* A range that a check asked for, in one piece: what is in memory is copied, the rest is read. */
static void add_range(struct blkup_probe *p, struct batch *b, uint64_t first, uint64_t last)
{
        uint64_t unit = unit_of(p), at = first * unit, len = (last - first + 1) * unit, missing = 0, next;
        const uint8_t *have = NULL;
        uint8_t *to;

        for (uint64_t i = first; i <= last; i = next + 1) { /* ends: next >= i */
                next = next_loaded(p, i, last);
                missing += next - i;
        }
        if (missing > 0 && !may_read(p, at, missing * unit))
                return;
        to = take_arena(p, len);
        if (!to || p->view.n_pieces == BLKUP_VIEW_PIECES) {
                if (p->trouble[0] == '\0')
                        (void) snprintf(p->trouble, sizeof(p->trouble),
                                        "gave up at %" PRIu64 ": too much to look at", p->base + at);
                blkup_reader_note_bad(p, at, len);
                return;
        }
        for (uint64_t i = first; i <= last; i = next + 1) {
                next = next_loaded(p, i, last);
                if (next > i)
                        add_request(p, b, i * unit, (next - i) * unit, to + (i - first) * unit);
                if (next <= last && is_loaded(p, next, &have))
                        memcpy(to + (next - first) * unit, have, (size_t) expected(p, next * unit, unit));
        }
        add_piece(p, at, len, to);
}

static void sort_ranges(struct blkup_range *r, unsigned n)
{
        for (unsigned i = 1; i < n; i++)
                for (unsigned k = i; k > 0 && r[k - 1].at > r[k].at; k--) {
                        struct blkup_range t = r[k];

                        r[k] = r[k - 1];
                        r[k - 1] = t;
                }
}

static void add_needs(struct blkup_probe *p, struct batch *b)
{
        struct blkup_view *v = &p->view;
        unsigned n = v->n_needs;

        if (n > 0)
                p->is_as_planned = false;
        sort_ranges(v->needs, n);
        for (unsigned i = 0; i < n;) {
                uint64_t first = v->needs[i].at >> v->unit_shift;
                uint64_t last = (v->needs[i].at + v->needs[i].len - 1) >> v->unit_shift;

                /* Ranges that share a unit become one piece, so that the unit is read once. */
                for (i++; i < n && v->needs[i].at >> v->unit_shift <= last; i++)
                        last = blkup_max(last, (v->needs[i].at + v->needs[i].len - 1) >> v->unit_shift);
                add_range(p, b, first, last);
        }
        v->n_needs = 0;
}

size_t blkup_reader_batch(struct blkup_probe *p, const struct blkup_units *u, struct blkup_block_request *ret)
{
        struct batch b = { .r = ret };

        p->planned_bytes = 0;
        add_units(p, &b, u);
        p->planned_bytes = 0;
        return b.n;
}

void blkup_reader_load(struct blkup_probe *p, const struct blkup_units *u)
{
        struct blkup_block_request requests[MAX_REQUESTS];
        struct batch b = { .r = requests };

        p->planned_bytes = 0;
        if (u)
                add_units(p, &b, u);
        add_needs(p, &b);
        p->planned_bytes = 0;
        if (b.n == 0)
                return;
        blkup_reader_submit(p, b.r, b.n);
        for (size_t i = 0; i < b.n; i++)
                if (!is_whole_read(p, &b.r[i]))
                        retry(p, &b.r[i]);
}
