/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The store of spans. Spans lie in chunks that never move, strings in an arena where each distinct text is
 * kept once (a run has few lanes and step names, and many spans). One mutex guards all of it: a span is
 * added a few times per device, not per read, so per-thread buffers would buy nothing.
 */
#include "trace/trace.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "trace/trace-private.h"

#define DEFAULT_MAX_SPANS UINT64_C(1000000)
#define MAX_TEXT          255u
#define CHUNK_SPANS       256u
#define ARENA_BLOCK_BYTES 8192u
/* A graph with more edges into one node has points in between; what comes after is left out. */
#define MAX_AFTER         1000u

struct stored_span {
        const char *name, *detail; /* in the arena; detail may be NULL */
        const uint64_t *after;     /* in the arena */
        uint64_t start_ns, end_ns, bytes, reads, id;
        uint32_t lane, n_after;
        unsigned worker;
        int error;
        enum blkup_span_kind kind;
};

struct arena_block {
        struct arena_block *next;
        size_t used;
        _Alignas(uint64_t) char text[ARENA_BLOCK_BYTES];
};
_Static_assert(MAX_AFTER * sizeof(uint64_t) + sizeof(uint64_t) <= ARENA_BLOCK_BYTES,
               "a block holds any list");

struct interned {
        const char *text; /* NULL: free slot */
        uint32_t hash;
        uint32_t lane; /* number + 1 when the text has been used as a lane, else 0 */
};

struct order {
        uint64_t start_ns, index;
};

struct blkup_trace {
        pthread_mutex_t lock;
        uint64_t max_spans;
        _Atomic uint64_t n_spans, n_dropped; /* written under the lock; read without it by the counters */

        struct stored_span **chunks;
        size_t n_chunks, cap_chunks;

        struct arena_block *arena;
        struct interned *texts; /* open addressing, a power of two slots, at most half full */
        size_t n_texts, cap_texts;

        const char **lanes;
        uint32_t n_lanes, cap_lanes;

        struct order *order;
        uint64_t n_order;

        const char *title;
        uint64_t last_id;
};

const char *blkup_span_kind_name(enum blkup_span_kind kind)
{
        static const char *const names[BLKUP_SPAN_KINDS] = {
                [BLKUP_SPAN_PROBE] = "probe",       [BLKUP_SPAN_READ] = "read",
                [BLKUP_SPAN_MODULE] = "module",     [BLKUP_SPAN_ASSEMBLE] = "assemble",
                [BLKUP_SPAN_LAZYINIT] = "lazyinit", [BLKUP_SPAN_FSCK] = "fsck",
                [BLKUP_SPAN_MOUNT] = "mount",       [BLKUP_SPAN_WAIT] = "wait",
                [BLKUP_SPAN_OTHER] = "other",
        };

        return (unsigned) kind < BLKUP_SPAN_KINDS ? names[kind] : "other";
}

struct blkup_trace *blkup_trace_new(uint64_t max_spans)
{
        struct blkup_trace *t = calloc(1, sizeof(*t));

        if (!t)
                return NULL;
        if (pthread_mutex_init(&t->lock, NULL) != 0) {
                free(t);
                return NULL;
        }
        t->max_spans = max_spans ? max_spans : DEFAULT_MAX_SPANS;
        return t;
}

struct blkup_trace *blkup_trace_unref(struct blkup_trace *t)
{
        if (!t)
                return NULL;
        for (size_t i = 0; i < t->n_chunks; i++)
                free(t->chunks[i]);
        free(t->chunks);
        while (t->arena) { /* a list that only intern() grows: ends at its first block */
                struct arena_block *next = t->arena->next;

                free(t->arena);
                t->arena = next;
        }
        free(t->texts);
        free(t->lanes);
        free(t->order);
        (void) pthread_mutex_destroy(&t->lock);
        free(t);
        return NULL;
}

/* Length of s, at most MAX_TEXT; a longer text is cut before the UTF-8 character that would not fit whole. */
static size_t cut_length(const char *s)
{
        size_t n = strnlen(s, MAX_TEXT + 1);

        if (n <= MAX_TEXT)
                return n;
        n = MAX_TEXT;
        /* A character has at most three continuation bytes; where more follow, the text is not UTF-8. */
        for (size_t back = 0; back < 3 && ((unsigned char) s[n] & 0xc0) == 0x80; back++)
                n--;
        return n;
}

static uint32_t hash_text(const char *s, size_t n)
{
        uint32_t h = UINT32_C(2166136261); /* FNV-1a, 32 bits: RFC 9923 */

        for (size_t i = 0; i < n; i++)
                h = (h ^ (unsigned char) s[i]) * UINT32_C(16777619);
        return h;
}

static bool grow_texts(struct blkup_trace *t)
{
        size_t cap = t->cap_texts ? t->cap_texts * 2 : 64;
        struct interned *grown = calloc(cap, sizeof(*grown));

        if (!grown)
                return false;
        for (size_t i = 0; i < t->cap_texts; i++) {
                size_t slot;

                if (!t->texts[i].text)
                        continue;
                slot = t->texts[i].hash & (cap - 1);
                while (grown[slot].text) /* ends: the table is at most half full */
                        slot = (slot + 1) & (cap - 1);
                grown[slot] = t->texts[i];
        }
        free(t->texts);
        t->texts = grown;
        t->cap_texts = cap;
        return true;
}

/* n bytes, at most a block's. NULL: out of memory. */
static char *arena_take(struct blkup_trace *t, size_t n)
{
        if (!t->arena || ARENA_BLOCK_BYTES - t->arena->used < n) {
                struct arena_block *block = malloc(sizeof(*block));

                if (!block)
                        return NULL;
                block->next = t->arena;
                block->used = 0;
                t->arena = block;
        }
        t->arena->used += n;
        return t->arena->text + t->arena->used - n;
}

static char *arena_copy(struct blkup_trace *t, const char *s, size_t n)
{
        char *at = arena_take(t, n + 1);

        if (at) {
                memcpy(at, s, n);
                at[n] = '\0';
        }
        return at;
}

static const uint64_t *arena_ids(struct blkup_trace *t, const uint64_t *ids, uint32_t n)
{
        size_t bytes = n * sizeof(*ids), pad;
        char *at;

        /* Texts lie in the same blocks: up to the next multiple of a number's size. */
        pad = t->arena ? -t->arena->used & (sizeof(*ids) - 1) : 0;
        at = arena_take(t, bytes + pad);
        if (!at)
                return NULL;
        /* In a new block, which is aligned, the padding may as well lie behind. */
        at += -(uintptr_t) at & (sizeof(*ids) - 1);
        memcpy(at, ids, bytes);
        return (const uint64_t *) (const void *) at;
}

/* The one copy of s. NULL: out of memory. The slot is valid until the next call. */
static struct interned *intern(struct blkup_trace *t, const char *s)
{
        size_t n = cut_length(s), slot;
        uint32_t hash = hash_text(s, n);

        if ((t->n_texts + 1) * 2 > t->cap_texts && !grow_texts(t))
                return NULL;
        slot = hash & (t->cap_texts - 1);
        while (t->texts[slot].text) { /* ends: the table is at most half full */
                if (t->texts[slot].hash == hash && strncmp(t->texts[slot].text, s, n) == 0 &&
                    t->texts[slot].text[n] == '\0')
                        return &t->texts[slot];
                slot = (slot + 1) & (t->cap_texts - 1);
        }
        t->texts[slot].text = arena_copy(t, s, n);
        if (!t->texts[slot].text)
                return NULL;
        t->texts[slot].hash = hash;
        t->texts[slot].lane = 0;
        t->n_texts++;
        return &t->texts[slot];
}

static bool find_lane(struct blkup_trace *t, const char *name, uint32_t *ret)
{
        struct interned *slot = intern(t, name);

        if (!slot)
                return false;
        if (slot->lane == 0) {
                if (t->n_lanes == t->cap_lanes) {
                        uint32_t cap = t->cap_lanes ? t->cap_lanes * 2 : 16;
                        const char **grown;

                        if (cap <= t->cap_lanes)
                                return false;
                        grown = realloc(t->lanes, cap * sizeof(*grown));
                        if (!grown)
                                return false;
                        t->lanes = grown;
                        t->cap_lanes = cap;
                }
                t->lanes[t->n_lanes++] = slot->text;
                slot->lane = t->n_lanes;
        }
        *ret = slot->lane - 1;
        return true;
}

static struct stored_span *span_at(const struct blkup_trace *t, uint64_t i)
{
        return &t->chunks[i / CHUNK_SPANS][i % CHUNK_SPANS];
}

/* Room for one more span at the end; NULL: out of memory. */
static struct stored_span *next_slot(struct blkup_trace *t, uint64_t n_spans)
{
        if (n_spans / CHUNK_SPANS >= t->n_chunks) {
                if (t->n_chunks == t->cap_chunks) {
                        size_t cap = t->cap_chunks ? t->cap_chunks * 2 : 8;
                        struct stored_span **grown = realloc(t->chunks, cap * sizeof(*grown));

                        if (!grown)
                                return NULL;
                        t->chunks = grown;
                        t->cap_chunks = cap;
                }
                t->chunks[t->n_chunks] = malloc(CHUNK_SPANS * sizeof(**t->chunks));
                if (!t->chunks[t->n_chunks])
                        return NULL;
                t->n_chunks++;
        }
        return span_at(t, n_spans);
}

static bool add_locked(struct blkup_trace *t, const struct blkup_span *s)
{
        uint64_t n = atomic_load_explicit(&t->n_spans, memory_order_relaxed);
        struct stored_span *slot, span = {
                .start_ns = s->start_ns,
                .end_ns = s->end_ns < s->start_ns ? s->start_ns : s->end_ns,
                .bytes = s->bytes,
                .reads = s->reads,
                .worker = s->worker,
                .error = s->error,
                .id = s->id,
                .n_after = s->n_after < MAX_AFTER ? s->n_after : MAX_AFTER,
                .kind = (unsigned) s->kind < BLKUP_SPAN_KINDS ? s->kind : BLKUP_SPAN_OTHER,
        };
        struct interned *text;

        if (n >= t->max_spans)
                return false;
        slot = next_slot(t, n);
        if (!slot)
                return false;
        text = intern(t, s->name ? s->name : "");
        if (!text)
                return false;
        span.name = text->text;
        if (s->detail) {
                text = intern(t, s->detail);
                if (!text)
                        return false;
                span.detail = text->text;
        }
        if (span.n_after > 0) {
                span.after = arena_ids(t, s->after, span.n_after);
                if (!span.after)
                        return false;
        }
        /* Last, so that a lane exists only when a span is in it. */
        if (!find_lane(t, s->lane ? s->lane : "", &span.lane))
                return false;
        *slot = span;
        if (span.id > t->last_id)
                t->last_id = span.id;
        atomic_store_explicit(&t->n_spans, n + 1, memory_order_release);
        return true;
}

void blkup_trace_add(struct blkup_trace *t, const struct blkup_span *s)
{
        int saved = errno;

        if (!t)
                return;
        (void) pthread_mutex_lock(&t->lock);
        if (!add_locked(t, s))
                atomic_fetch_add_explicit(&t->n_dropped, 1, memory_order_relaxed);
        (void) pthread_mutex_unlock(&t->lock);
        errno = saved; /* a trace must not change what its caller is about to report */
}

uint64_t blkup_trace_count(const struct blkup_trace *t)
{
        return t ? atomic_load_explicit(&t->n_spans, memory_order_acquire) : 0;
}

uint64_t blkup_trace_dropped(const struct blkup_trace *t)
{
        return t ? atomic_load_explicit(&t->n_dropped, memory_order_relaxed) : 0;
}

void blkup_trace_set_title(struct blkup_trace *t, const char *title)
{
        struct interned *text;

        if (!t)
                return;
        (void) pthread_mutex_lock(&t->lock);
        text = intern(t, title);
        if (text)
                t->title = text->text;
        (void) pthread_mutex_unlock(&t->lock);
}

const char *blkup_trace_title(struct blkup_trace *t)
{
        const char *title = NULL;

        if (t) {
                (void) pthread_mutex_lock(&t->lock);
                title = t->title;
                (void) pthread_mutex_unlock(&t->lock);
        }
        return title ? title : "";
}

uint64_t blkup_trace_ids(struct blkup_trace *t, uint64_t n)
{
        uint64_t first = 0;

        if (!t)
                return 0;
        (void) pthread_mutex_lock(&t->lock);
        if (n <= UINT64_MAX - 1 - t->last_id) { /* else a hostile trace has taken them all: not known */
                first = t->last_id + 1;
                t->last_id += n;
        }
        (void) pthread_mutex_unlock(&t->lock);
        return first;
}

int blkup_trace_add_lane(struct blkup_trace *t, const char *name)
{
        uint32_t lane;
        bool is_there;

        (void) pthread_mutex_lock(&t->lock);
        is_there = find_lane(t, name, &lane);
        (void) pthread_mutex_unlock(&t->lock);
        return is_there ? 0 : -ENOMEM;
}

void blkup_trace_add_dropped(struct blkup_trace *t, uint64_t n)
{
        atomic_fetch_add_explicit(&t->n_dropped, n, memory_order_relaxed);
}

static int compare_order(const void *pa, const void *pb)
{
        const struct order *a = pa, *b = pb;

        if (a->start_ns != b->start_ns)
                return a->start_ns < b->start_ns ? -1 : 1;
        return a->index < b->index ? -1 : a->index > b->index;
}

static int sort_locked(struct blkup_trace *t)
{
        uint64_t n = atomic_load_explicit(&t->n_spans, memory_order_relaxed);
        struct order *order;

        if (n == t->n_order)
                return 0;
        if (n > SIZE_MAX / sizeof(*order))
                return -ENOMEM;
        order = malloc((size_t) n * sizeof(*order));
        if (!order)
                return -ENOMEM;
        for (uint64_t i = 0; i < n; i++)
                order[i] = (struct order){ .start_ns = span_at(t, i)->start_ns, .index = i };
        qsort(order, (size_t) n, sizeof(*order), compare_order);
        free(t->order);
        t->order = order;
        t->n_order = n;
        return 0;
}

int blkup_trace_sort(struct blkup_trace *t)
{
        int r;

        (void) pthread_mutex_lock(&t->lock);
        r = sort_locked(t);
        (void) pthread_mutex_unlock(&t->lock);
        return r;
}

uint32_t blkup_trace_lanes(struct blkup_trace *t)
{
        uint32_t n;

        (void) pthread_mutex_lock(&t->lock);
        n = t->n_lanes;
        (void) pthread_mutex_unlock(&t->lock);
        return n;
}

const char *blkup_trace_lane_name(struct blkup_trace *t, uint32_t lane)
{
        const char *name;

        (void) pthread_mutex_lock(&t->lock);
        name = lane < t->n_lanes ? t->lanes[lane] : "";
        (void) pthread_mutex_unlock(&t->lock);
        return name;
}

uint64_t blkup_trace_sorted_count(struct blkup_trace *t)
{
        uint64_t n;

        (void) pthread_mutex_lock(&t->lock);
        n = t->n_order;
        (void) pthread_mutex_unlock(&t->lock);
        return n;
}

static void copy_out(const struct blkup_trace *t, uint64_t i, struct blkup_span *ret, uint32_t *ret_lane)
{
        const struct stored_span *s = span_at(t, t->order[i].index);

        *ret = (struct blkup_span){
                .kind = s->kind,
                .lane = t->lanes[s->lane],
                .name = s->name,
                .detail = s->detail,
                .start_ns = s->start_ns,
                .end_ns = s->end_ns,
                .bytes = s->bytes,
                .reads = s->reads,
                .worker = s->worker,
                .error = s->error,
                .id = s->id,
                .after = s->after,
                .n_after = s->n_after,
        };
        if (ret_lane)
                *ret_lane = s->lane;
}

void blkup_trace_sorted(struct blkup_trace *t, uint64_t i, struct blkup_span *ret, uint32_t *ret_lane)
{
        (void) pthread_mutex_lock(&t->lock);
        copy_out(t, i, ret, ret_lane);
        (void) pthread_mutex_unlock(&t->lock);
}

int blkup_trace_get(struct blkup_trace *t, uint64_t i, struct blkup_span *ret)
{
        int r;

        if (!t)
                return -ENOENT;
        (void) pthread_mutex_lock(&t->lock);
        r = sort_locked(t);
        if (r == 0 && i >= t->n_order)
                r = -ENOENT;
        if (r == 0)
                copy_out(t, i, ret, NULL);
        (void) pthread_mutex_unlock(&t->lock);
        return r;
}
