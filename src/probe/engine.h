/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The prober's inside: plan, read, match, describe. Private to src/probe.
 *
 * plan.c    which units of the device any format may look at, sorted and merged
 * reader.c  units and ranges become pieces in memory, each unit read once
 * engine.c  the rounds: read what is planned or asked for, let the formats look, decide
 * probe.c   the public face: settings, opening, results
 */
#ifndef BLKUP_PROBE_ENGINE_H
#define BLKUP_PROBE_ENGINE_H

#include "base/error.h"
#include "block/block.h"
#include "block/uring.h"
#include "probe/format.h"
#include "trace/trace.h"

#define BLKUP_TINY_BYTES 1474560
#define BLKUP_MAX_FORMATS 96
#define BLKUP_MAX_TABLES 16
#define BLKUP_MAX_HITS 16
#define BLKUP_MAX_PARTITIONS 1024
#define BLKUP_MAX_CANDIDATES 64
#define BLKUP_MAX_READS 1024
#define BLKUP_MAX_REQUESTS 384 /* of one submission */
#define BLKUP_DEFAULT_BUDGET (16U << 20)
#define BLKUP_MAX_ROUNDS 256
#define BLKUP_WORK_BUDGET 4000000

/* A set of units (sectors) of the area: a bit each for the low ones, a sorted list for the others. */
#define BLKUP_PLAN_HIGH 160
struct blkup_units {
        uint64_t low[(BLKUP_VIEW_LOW + 63) / 64];
        uint64_t high[BLKUP_PLAN_HIGH];
        unsigned n_high;
};

/*
 * A magic reduced to what a fast look needs: up to four of its bytes, and where they are in the arena.
 * Devices of one geometry are read into the same places, so this is worked out once and serves all of them.
 */
struct blkup_row {
        uint32_t at; /* in the arena */
        uint32_t mask, value;
};
#define BLKUP_MAX_ROWS 256

/* Of an active format. */
enum blkup_state {
        BLKUP_STATE_UNDECIDED = 0,
        BLKUP_STATE_REFUSED,
        BLKUP_STATE_HIT,
        BLKUP_STATE_OPEN,
};

/* What the plan of a device follows from. Compared byte by byte: no padding. */
struct blkup_plan_key {
        uint64_t size, session, merge_gap;
        uint32_t sector_bytes, align_bytes;
        uint32_t unit_shift, usages;
        uint32_t no_tables, no_superblocks;
        uint32_t is_whole, is_tiny;
        uint32_t is_cdrom, is_valid;
};

/* What one device calls for. Groups of windows: the formats up to and including vfat, the tables, the other
 * formats. */
struct blkup_plan {
        struct blkup_units first, tables, rest;
        uint16_t active[BLKUP_MAX_FORMATS]; /* indexes into blkup_formats, in order */
        unsigned n_active;
        unsigned n_first; /* how many of them are up to and including vfat */
        uint16_t active_tables[BLKUP_MAX_TABLES];
        unsigned n_active_tables;
        struct blkup_plan_key key;
        unsigned uses; /* devices of this geometry, one after another; counted only as far as it matters */

        struct blkup_row rows[BLKUP_MAX_ROWS];
        uint16_t first_row[BLKUP_MAX_FORMATS +
                           1]; /* of an active format; its rows end where the next one's begin */
        unsigned n_with_rows;                      /* active formats whose rows are worked out */
};

struct blkup_read_log {
        uint64_t at;
        uint64_t len;
};

struct blkup_probe {
        /* settings */
        bool excluded[BLKUP_MAX_FORMATS];       /* by set_types */
        bool excluded_tables[BLKUP_MAX_TABLES]; /* by tests that look at one table */
        unsigned usages;
        uint64_t area_at, area_size, session;
        unsigned flags;
        uint64_t budget;
        struct blkup_trace *trace;
        void (*debug)(void *to, const char *text);
        void *debug_to;

        /* one run */
        struct blkup_block *block;
        uint64_t base;           /* of the area on the device */
        uint64_t merge_gap;      /* runs that are at most so far apart are read as one */
        bool no_superblocks;     /* nothing but tables */
        bool is_cdrom;
        struct blkup_plan plan;
        struct blkup_view view;
        uint8_t state[BLKUP_MAX_FORMATS]; /* enum blkup_state of each active format */
        uint8_t hit_of[BLKUP_MAX_FORMATS];
        struct blkup_found *finds; /* BLKUP_MAX_HITS, in the order they were made */
        unsigned n_finds;
        uint8_t *arena;
        uint64_t arena_used, arena_size;
        struct blkup_read_log *log;
        unsigned n_log;
        uint64_t log_device; /* added to the offsets: 0, or something apart for the disk behind a partition */
        struct blkup_io_stats stats;
        uint64_t read_ns;        /* waited for all submissions */
        bool is_as_planned;      /* nothing but the plan's own units was read so far, and all of it */
        bool may_switch;         /* to direct reads, when the device turns out to be slow */
        struct blkup_uring *ring;
        struct blkup_cage *cage; /* NULL: this process looks itself */
        bool is_caged;           /* this is the prober of a cage's child */
        uint64_t planned_bytes;  /* of the batch under construction */
        const char *lane;        /* name of the device, for the trace */

        /* result */
        enum blkup_verdict verdict;
        struct blkup_found *table; /* PTUUID, PTTYPE */
        struct blkup_found *entry; /* PART_ENTRY_* */
        const struct blkup_found *values;  /* of the first hit, or NULL */
        struct blkup_hit_info hits[BLKUP_MAX_HITS];
        unsigned n_hits;
        struct blkup_partition *partitions;
        unsigned n_partitions;
        bool partitions_cut;
        const struct blkup_table *chosen_table; /* NULL: none */
        const char *dropped;                    /* TYPE that a newer table has overwritten; NULL: none */

        /* with BLKUP_PROBE_EXPLAIN */
        struct blkup_candidate *candidates;
        unsigned n_candidates;
        struct blkup_found *scratch;
        bool try_again; /* nobody could look */
        char trouble[256];
};

/* plan.c */
/* Makes p->plan for the view, or keeps the last one where that fits. */
void blkup_plan_make(struct blkup_probe *p);
/* Forgets the plan: a setting that it follows from has changed. */
void blkup_plan_forget(struct blkup_probe *p);
/* Works out the rows of the first n active formats, where that pays. Only while p->is_as_planned. */
void blkup_plan_prepare_rows(struct blkup_probe *p, unsigned n);

/* Can active format k not be here, as far as a fast look at its magics tells? Only while p->is_as_planned. */
static inline bool blkup_plan_rules_out(const struct blkup_probe *p, unsigned k)
{
        unsigned i, end;

        if (k >= p->plan.n_with_rows)
                return false;
        i = p->plan.first_row[k];
        end = p->plan.first_row[k + 1];
        if (i == end)
                return false; /* no magic: its check looks itself */
        for (; i < end; i++) {
                uint32_t word;

                memcpy(&word, p->arena + p->plan.rows[i].at, sizeof(word));
                if ((word & p->plan.rows[i].mask) == p->plan.rows[i].value)
                        return false;
        }
        return true;
}
void blkup_units_clear(struct blkup_units *u);
void blkup_units_add(struct blkup_units *u, uint64_t first, uint64_t last);
void blkup_units_join(struct blkup_units *a, const struct blkup_units *b);

/* probe.c: a prober in memory of the caller's, blkup_probe_bytes() long and aligned to a page; for the cage's
 * child. */
size_t blkup_probe_bytes(void);
struct blkup_probe *blkup_probe_build(void *memory);
/* Where in that memory the prober itself is, the table's and the first format's results behind it. */
void *blkup_probe_usual_part(void *memory);
#define BLKUP_PROBE_USUAL_BYTES (sizeof(struct blkup_probe) + 4 * sizeof(struct blkup_found))

/* engine.c: an empty result, and the area of p->block that is looked at. */
void blkup_engine_reset(struct blkup_probe *p);
uint64_t blkup_engine_area(const struct blkup_probe *p, uint64_t *ret_base);

/* engine.c: what blkup_engine_run() will read first, into the places of p's arena where it will want it; ret
 * has room for BLKUP_MAX_REQUESTS. 0: that depends on something that has to be read before. */
size_t blkup_engine_first_batch(struct blkup_probe *p, struct blkup_block_request *ret);

/* engine.c: the area of p->block is looked at; fills the result. */
void blkup_engine_run(struct blkup_probe *p);
/* Lists the partitions of the table on p->block through e, and leaves the result of the last run alone; *ret
 * is the table that is being tried (entries of one that refuses itself are followed by another begin()).
 * scratch: for the table's tags. */
BLKUP_MUST_CHECK enum blkup_outcome blkup_engine_entries(struct blkup_probe *p, struct blkup_found *scratch,
                                                         struct blkup_entries *e,
                                                         const struct blkup_table **ret);
void blkup_engine_debug(struct blkup_probe *p, const char *fmt, ...) BLKUP_PRINTF(2, 3);

#endif
