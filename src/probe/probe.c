/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The prober's public face: settings, opening a path, results. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/error.h"
#include "block/file.h"
#include "probe/cage.h"
#include "probe/engine.h"
#include "probe/explain.h"
#include "probe/part-entry.h"

/* Address space for what a run reads: the budget, and the copies that joining of ranges makes. */
#define ARENA_BYTES (20U << 20)

static void *carve(uint8_t **at, size_t n)
{
        void *p = *at;

        *at += (n + 63) & ~(size_t) 63;
        return p;
}

#define FINDS_BYTES (sizeof(struct blkup_found) * (BLKUP_MAX_HITS + 3))
#define CANDIDATES_BYTES (sizeof(struct blkup_candidate) * BLKUP_MAX_CANDIDATES)
#define PARTS_BYTES (sizeof(struct blkup_partition) * BLKUP_MAX_PARTITIONS)
#define LOG_BYTES (sizeof(struct blkup_read_log) * BLKUP_MAX_READS)

#define REST_BYTES                                                                                          \
        (sizeof(struct blkup_probe) + FINDS_BYTES + PARTS_BYTES + LOG_BYTES + CANDIDATES_BYTES + 5 * 64)

size_t blkup_probe_bytes(void)
{
        return ARENA_BYTES + REST_BYTES;
}

/* The prober itself is the first in `rest`. */
static struct blkup_probe *build(uint8_t *arena, void *rest)
{
        uint8_t *at = rest;
        struct blkup_probe *p = carve(&at, sizeof(*p));

        memset(p, 0, sizeof(*p));
        p->table = carve(&at, FINDS_BYTES);
        p->entry = p->table + 1;
        p->scratch = p->entry + 1;
        p->finds = p->scratch + 1;
        p->partitions = carve(&at, PARTS_BYTES);
        p->log = carve(&at, LOG_BYTES);
        p->candidates = carve(&at, CANDIDATES_BYTES);
        p->arena = arena;
        p->arena_size = ARENA_BYTES;
        p->budget = BLKUP_DEFAULT_BUDGET;
        blkup_found_reset(p->table);
        blkup_found_reset(p->entry);
        return p;
}

void *blkup_probe_usual_part(void *memory)
{
        return (uint8_t *) memory + ARENA_BYTES;
}

/* The arena comes first: it wants a page's alignment. */
struct blkup_probe *blkup_probe_build(void *memory)
{
        return build(memory, blkup_probe_usual_part(memory));
}

struct blkup_probe *blkup_probe_new(void)
{
        struct blkup_probe *p;
        uint8_t *arena;
        void *rest;

        /* The kernel backs it only where it is touched. Not of malloc(), which would map it as well: a
         * checker of memory (valgrind) does not see what a ring reads, and would take it for never written.
         */
        arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                     -1, 0);
        if (arena == MAP_FAILED)
                return NULL;
        /* Some pages of it are used: the kernel would clear 2 MiB for the first. */
        (void) madvise(arena, ARENA_BYTES, MADV_NOHUGEPAGE);
        rest = malloc(REST_BYTES);
        if (!rest) {
                (void) munmap(arena, ARENA_BYTES);
                return NULL;
        }
        p = build(arena, rest);
        /* Without a ring (no memory) reads go by pread. It makes no system call before its first use. */
        p->ring = blkup_uring_new(0);
        return p;
}

struct blkup_probe *blkup_probe_unref(struct blkup_probe *p)
{
        if (p) {
                (void) blkup_cage_unref(p->cage);
                (void) blkup_uring_unref(p->ring);
                (void) munmap(p->arena, ARENA_BYTES);
                free(p);
        }
        return NULL;
}

int blkup_probe_set_cage(struct blkup_probe *p, bool on)
{
        if (on && !p->cage)
                return blkup_cage_new(&p->cage);
        if (!on)
                p->cage = blkup_cage_unref(p->cage);
        return 0;
}

int blkup_probe_share_cage(struct blkup_probe *p, struct blkup_probe *with)
{
        struct blkup_cage *cage = NULL;
        int r = with->cage ? blkup_cage_share(with->cage, &cage) : 0;

        if (r < 0)
                return r;
        (void) blkup_cage_unref(p->cage);
        p->cage = cage;
        return 0;
}

int blkup_probe_set_types(struct blkup_probe *p, const char *list, bool invert, struct blkup_error *err)
{
        bool named[BLKUP_MAX_FORMATS] = { false };

        blkup_plan_forget(p);
        if (!list || *list == '\0') {
                memset(p->excluded, 0, sizeof(p->excluded));
                return 0;
        }
        for (const char *s = list; s;) { /* ends: a comma less each time */
                const char *comma = strchr(s, ',');
                size_t n = comma ? (size_t) (comma - s) : strlen(s);
                bool known = false;

                for (unsigned i = 0; i < blkup_n_formats; i++)
                        if (strlen(blkup_formats[i]->name) == n && strncmp(blkup_formats[i]->name, s, n) == 0)
                                named[i] = known = true;
                if (!known)
                        return blkup_fail(err, -EINVAL, "unknown type '%.*s'", (int) blkup_min(n, 64), s);
                s = comma ? comma + 1 : NULL;
        }
        for (unsigned i = 0; i < blkup_n_formats; i++)
                p->excluded[i] = named[i] == invert;
        return 0;
}

void blkup_probe_set_usages(struct blkup_probe *p, unsigned usages)
{
        p->usages = usages;
}

void blkup_probe_set_area(struct blkup_probe *p, uint64_t offset_bytes, uint64_t size_bytes)
{
        p->area_at = offset_bytes;
        p->area_size = size_bytes;
}

void blkup_probe_set_session(struct blkup_probe *p, uint64_t offset_bytes)
{
        p->session = offset_bytes;
}

void blkup_probe_set_flags(struct blkup_probe *p, unsigned flags)
{
        p->flags = flags;
}

void blkup_probe_set_trace(struct blkup_probe *p, struct blkup_trace *t)
{
        p->trace = t;
}

void blkup_probe_set_debug(struct blkup_probe *p, void (*line)(void *to, const char *text), void *to)
{
        p->debug = line;
        p->debug_to = to;
}

void blkup_probe_set_budget(struct blkup_probe *p, uint64_t bytes)
{
        p->budget = bytes ? bytes : BLKUP_DEFAULT_BUDGET;
}

/* Here, or in the cage. A parser that dies over a device says something of the device, and nothing of the
 * next one. */
static void look(struct blkup_probe *p)
{
        int r;

        if (!p->cage) {
                blkup_engine_run(p);
                return;
        }
        r = blkup_cage_run(p->cage, p);
        if (r == 0)
                return;
        p->verdict = BLKUP_VERDICT_UNKNOWN;
        p->try_again = r != -EPIPE && r != -ENOSYS;
        if (r == -EPIPE)
                (void) snprintf(p->trouble, sizeof(p->trouble),
                                "damaged: the process that looked at it died or did not answer");
        else if (r == -ECANCELED)
                (void) snprintf(p->trouble, sizeof(p->trouble),
                                "not looked at to the end, and no fault of it is known: the process that did "
                                "was killed from outside (out of memory?) or held up");
        else
                (void) snprintf(p->trouble, sizeof(p->trouble), "not looked at: no cage for the parser: %s",
                                blkup_error_text(-r));
}

static void judge_features(struct blkup_probe *p)
{
        struct blkup_kernel k;

        if (BLKUP_IS_SMALL || p->n_candidates == 0)
                return;
        blkup_kernel_here(&k);
        for (unsigned i = 0; i < p->n_candidates; i++)
                blkup_features_judge(&p->candidates[i], &k);
}

/* Runs on an open block; `lane` names the device in the trace. */
static void run(struct blkup_probe *p, struct blkup_block *b, const char *lane)
{
        uint64_t start = blkup_now_ns(), end;

        p->block = b;
        p->lane = lane;
        look(p);
        /* The engine always says why; a child that was taken over need not. */
        if (p->verdict == BLKUP_VERDICT_UNKNOWN && p->trouble[0] == '\0')
                (void) snprintf(p->trouble, sizeof(p->trouble), "damaged: no answer, and no reason for that");
        judge_features(p);
        if (p->area_at == 0 && p->area_size == 0 && !(p->flags & BLKUP_PROBE_NO_PART_ENTRY))
                blkup_part_entry_find(p);
        if (p->verdict == BLKUP_VERDICT_NOTHING && p->entry->n_tags > 0)
                p->verdict = BLKUP_VERDICT_FOUND;
        end = blkup_now_ns();
        p->stats.ns = end - start;
        if (p->trace) {
                struct blkup_span s = {
                        .kind = BLKUP_SPAN_PROBE, .lane = lane, .name = "probe",
                        .detail = p->values ? p->hits[0].type : p->trouble[0] ? p->trouble : NULL,
                        .start_ns = start, .end_ns = end, .bytes = p->stats.bytes, .reads = p->stats.reads,
                };
                blkup_trace_add(p->trace, &s);
        }
        p->block = NULL;
        p->may_switch = false;
}

static int check_area(const struct blkup_probe *p, const struct blkup_block *b, const char *name,
                      struct blkup_error *err)
{
        if (blkup_inside(p->area_at, p->area_size, b->info.size_bytes))
                return 0;
        return blkup_fail(err, -ERANGE,
                          "%s: %" PRIu64 " bytes from %" PRIu64 " on reach beyond the end at %" PRIu64, name,
                          p->area_size, p->area_at, b->info.size_bytes);
}

int blkup_probe_block(struct blkup_probe *p, struct blkup_block *b, enum blkup_verdict *ret,
                      struct blkup_error *err)
{
        int r = check_area(p, b, "the area", err);

        if (r < 0)
                return r;
        p->may_switch = false;
        run(p, b, "device");
        *ret = p->verdict;
        return 0;
}

int blkup_probe_path(struct blkup_probe *p, const char *path, const struct blkup_open_options *o,
                     enum blkup_verdict *ret, struct blkup_error *err)
{
        const int direct = o ? o->direct : 0;
        const struct blkup_block_open how = {
                .direct = direct > 0   ? BLKUP_DIRECT_ALWAYS
                          : direct < 0 ? BLKUP_DIRECT_NEVER
                                       : BLKUP_DIRECT_AUTO,
                .uring = o && o->no_uring ? NULL : p->ring,
                .fixed_diskseq = o ? o->fixed_diskseq : 0,
        };
        struct blkup_block *b = NULL;
        int r = blkup_block_open(path, &how, &b, err);

        if (r < 0)
                return r;
        p->may_switch = direct == 0 && b->info.kind != BLKUP_BLOCK_FILE;
        r = check_area(p, b, path, err);
        if (r == 0) {
                run(p, b, path);
                *ret = p->verdict;
        }
        (void) blkup_block_close(b);
        return r;
}

static size_t n_of(const struct blkup_found *f)
{
        return f ? f->n_tags : 0;
}

size_t blkup_probe_n_values(const struct blkup_probe *p)
{
        return n_of(p->values) + n_of(p->table) + n_of(p->entry);
}

struct blkup_value blkup_probe_value(const struct blkup_probe *p, size_t i)
{
        const struct blkup_found *parts[] = { p->values, p->table, p->entry };

        for (size_t k = 0; k < BLKUP_ARRAY_SIZE(parts); k++) {
                if (i < n_of(parts[k]))
                        return (struct blkup_value){
                                .name = parts[k]->tags[i].name,
                                .value = parts[k]->text + parts[k]->tags[i].at,
                                .len = parts[k]->tags[i].len,
                        };
                i -= n_of(parts[k]);
        }
        return (struct blkup_value){ .name = "", .value = "" };
}

const char *blkup_probe_lookup(const struct blkup_probe *p, const char *name)
{
        for (size_t i = 0; i < blkup_probe_n_values(p); i++) {
                struct blkup_value v = blkup_probe_value(p, i);

                if (strcmp(v.name, name) == 0)
                        return v.value;
        }
        return NULL;
}

size_t blkup_probe_n_hits(const struct blkup_probe *p)
{
        return p->n_hits;
}

struct blkup_hit_info blkup_probe_hit(const struct blkup_probe *p, size_t i)
{
        return i < p->n_hits ? p->hits[i] : (struct blkup_hit_info){ .type = "", .version = "" };
}

size_t blkup_probe_n_partitions(const struct blkup_probe *p)
{
        return p->n_partitions;
}

const struct blkup_partition *blkup_probe_partition(const struct blkup_probe *p, size_t i)
{
        return i < p->n_partitions ? &p->partitions[i] : NULL;
}

bool blkup_probe_partitions_are_cut(const struct blkup_probe *p)
{
        return p->partitions_cut;
}

/* Different units of `unit` bytes among the reads. */
static uint64_t count_units(const struct blkup_read_log *by_place, unsigned n_reads, uint64_t unit)
{
        uint64_t n = 0, next = 0; /* units below `next` are counted */

        for (unsigned i = 0; i < n_reads; i++) {
                uint64_t first = blkup_max(by_place[i].at / unit, next),
                         end = (by_place[i].at + by_place[i].len - 1) / unit + 1;

                if (end > first) {
                        n += end - first;
                        next = end;
                }
        }
        return n;
}

size_t blkup_probe_n_candidates(const struct blkup_probe *p)
{
        return p->n_candidates;
}

const struct blkup_candidate *blkup_probe_candidate(const struct blkup_probe *p, size_t i)
{
        return i < p->n_candidates ? &p->candidates[i] : NULL;
}

void blkup_probe_stats(const struct blkup_probe *p, struct blkup_io_stats *ret)
{
        struct blkup_read_log by_place[BLKUP_MAX_READS];

        /* A round of reads comes in order, and most runs have one: little is to be moved. */
        for (unsigned i = 0; i < p->n_log; i++) {
                unsigned k = i;

                for (; k > 0 && by_place[k - 1].at > p->log[i].at; k--)
                        by_place[k] = by_place[k - 1];
                by_place[k] = p->log[i];
        }
        *ret = p->stats;
        ret->sectors = count_units(by_place, p->n_log, 512);
        ret->pages = count_units(by_place, p->n_log, 4096);
}

const char *blkup_probe_trouble(const struct blkup_probe *p)
{
        return p->trouble;
}

bool blkup_probe_try_again(const struct blkup_probe *p)
{
        return p->try_again;
}

uint64_t blkup_probe_size(const struct blkup_probe *p)
{
        return p->view.size;
}

const char *blkup_probe_type_name(size_t i)
{
        return i < blkup_n_formats ? blkup_formats[i]->name : NULL;
}

const char *blkup_usage_name(enum blkup_usage usage)
{
        switch (usage) {
        case BLKUP_USAGE_FILESYSTEM:
                return "filesystem";
        case BLKUP_USAGE_RAID:
                return "raid";
        case BLKUP_USAGE_CRYPTO:
                return "crypto";
        case BLKUP_USAGE_OTHER:
                return "other";
        }
        return NULL;
}
