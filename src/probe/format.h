/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a file in formats/ or tables/ is made of: data that says where to look, and one pure function that
 * looks. The function sees only bytes that were already read. It does no I/O, allocates nothing, prints
 * nothing and keeps nothing, so it can be fuzzed in memory, run in a sandboxed child and replayed; what it
 * costs to look for a format stands in its table row.
 *
 * A check runs from its start again after each BLKUP_NEED, when the range it asked for is there.
 */
#ifndef BLKUP_PROBE_FORMAT_H
#define BLKUP_PROBE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <blkup/probe.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/crc.h"
#include "base/text.h"

enum blkup_outcome {
        BLKUP_NOT_THIS = 0, /* another thing, or nothing */
        BLKUP_FOUND,
        BLKUP_NEED,         /* a range that was not read yet; the view has noted which */
        BLKUP_DAMAGED,      /* magic, but a checksum or a cross-field rule fails: as if nothing was found */
        BLKUP_UNREADABLE,   /* a range could not be read, or a budget ran out: nothing can be said */
};

/* Where an offset counts from. size is that of the area that is looked at. */
enum blkup_anchor {
        BLKUP_FROM_START = 0,
        BLKUP_FROM_END,         /* size - at */
        BLKUP_FROM_END_512,     /* size rounded down to 512, - at */
        BLKUP_FROM_END_SECTOR,  /* (size / logical sector - at) * logical sector: at counts sectors */
        BLKUP_FROM_END_4K,      /* size rounded down to 4096, - at */
        BLKUP_FROM_END_64K,     /* size rounded down to 65536, - at */
        BLKUP_FROM_END_256K,    /* size rounded down to 262144, - at */
        BLKUP_FROM_SESSION,     /* start of the last session of a disc, + at */
        BLKUP_FROM_SECTOR,      /* at * logical sector */
};

/* Bytes that mark a format. They lie `within` bytes behind the superblock's start, and that start is `at`
 * from its anchor (so a tail magic is at = 4096, within = 60 behind size - 4096). */
struct blkup_magic {
        uint64_t at;
        uint16_t within;
        uint8_t len;
        uint8_t anchor; /* enum blkup_anchor */
        const char *bytes;
};

/* A range that a check looks at whatever a magic says: read in the first round. */
struct blkup_needed {
        uint64_t at;
        uint32_t len;
        uint8_t anchor;
};

struct blkup_range {
        uint64_t at;
        uint64_t len;
};

/* A piece of the device that is in memory: data[0..len) is what stands at `at`. */
struct blkup_piece {
        uint64_t at;
        uint64_t len;
        const uint8_t *data;
};

#define BLKUP_VIEW_PIECES 160
#define BLKUP_VIEW_NEEDS 16
#define BLKUP_VIEW_BAD 64
#define BLKUP_VIEW_LOW 136 /* units whose data is found without a search: 68 KiB of 512-byte sectors */

/* The device as a check sees it. A check calls the functions below; the fields from `pieces` on are the
 * engine's. */
struct blkup_view {
        uint64_t size;          /* bytes of the area */
        uint64_t base; /* where the area begins on the device, for formats that count from its start */
        uint32_t sector_bytes;  /* logical sector */
        uint64_t session;       /* offset of the last session in bytes, 0 = none */
        bool is_whole;          /* a regular file or a whole disk, not a partition */
        bool is_disk;           /* a whole disk, no file */
        bool is_tiny;           /* at most 1,474,560 bytes: a floppy's size */
        bool wants_partitions;  /* tables list their partitions (they need not otherwise) */
        const char *found_type; /* TYPE of the first superblock hit when tables are looked at; NULL = none */
        uint32_t work_left;     /* steps that all loops together may still take */
        const char *reason;     /* of the last refusal: a constant, for --debug and --explain */

        const uint8_t *low[BLKUP_VIEW_LOW]; /* unit i of the area, or NULL */
        unsigned unit_shift;
        struct blkup_piece pieces[BLKUP_VIEW_PIECES];
        unsigned n_pieces;
        struct blkup_range needs[BLKUP_VIEW_NEEDS];
        unsigned n_needs;
        struct blkup_range bad[BLKUP_VIEW_BAD]; /* could not be read */
        unsigned n_bad;

        const uint8_t *ext_sb; /* that ext_crc is of, as five types look at it; NULL: none */
        uint32_t ext_crc;
};

/*
 * The bytes [at, at + len). BLKUP_FOUND: *ret holds them. BLKUP_NOT_THIS: not all inside the area.
 * BLKUP_NEED: not read yet (noted). BLKUP_UNREADABLE: a read error in there. Anything but BLKUP_FOUND is what
 * a check returns at once: see BLKUP_FETCH.
 */
BLKUP_MUST_CHECK enum blkup_outcome blkup_view_get(struct blkup_view *v, uint64_t at, uint64_t len,
                                                   struct blkup_bytes *ret);

#define BLKUP_FETCH(v, at, len, ret)                                                \
        do {                                                                        \
                enum blkup_outcome o_ = blkup_view_get((v), (at), (len), (ret));    \
                if (o_ != BLKUP_FOUND)                                              \
                        return o_;                                                  \
        } while (0)

/* Notes that [at, at + len) will be looked at, so that it comes in the same round as the next BLKUP_NEED.
 * What is outside the area, in memory already or one too many is left out. */
void blkup_view_want(struct blkup_view *v, uint64_t at, uint64_t len);

/* Takes n steps off the work budget. false: used up; then return blkup_gave_up(). Every loop over on-disk
 * links uses it. */
bool blkup_view_work(struct blkup_view *v, uint32_t n);

/* Absolute offset of an anchored one; false when it lies before the start of the area. */
BLKUP_MUST_CHECK bool blkup_view_anchor(const struct blkup_view *v, enum blkup_anchor anchor, uint64_t at,
                                        uint64_t *ret);

/* Three ways to end a check, each with a constant reason of a few words. */
static inline enum blkup_outcome blkup_refuse(struct blkup_view *v, const char *reason)
{
        v->reason = reason;
        return BLKUP_NOT_THIS;
}

static inline enum blkup_outcome blkup_damaged(struct blkup_view *v, const char *reason)
{
        v->reason = reason;
        return BLKUP_DAMAGED;
}

static inline enum blkup_outcome blkup_gave_up(struct blkup_view *v, const char *reason)
{
        v->reason = reason;
        return BLKUP_UNREADABLE;
}

/*
 * What was found: NAME=value pairs of fixed capacity. The adders leave out what util-linux leaves out (empty
 * labels, all-zero UUIDs) and quietly stop when full, which no format comes near.
 */
#define BLKUP_FOUND_TAGS 32
#define BLKUP_FOUND_TEXT 6144

struct blkup_found {
        unsigned n_tags;
        unsigned used;
        unsigned evidence_bits; /* how many bits were verified: magic, checksum, cross-field rules */
        uint64_t magic_at;      /* filled by the engine where a magic matched */
        unsigned magic_len;
        uint64_t wiped_from;    /* [from, to): what this format's mkfs wipes; to 0 = it says nothing */
        uint64_t wiped_to;
        struct {
                const char *name;
                uint16_t at, len;
        } tags[BLKUP_FOUND_TAGS];
        char text[BLKUP_FOUND_TEXT];
};

static inline void blkup_found_reset(struct blkup_found *f)
{
        f->n_tags = 0;
        f->used = 0;
        f->evidence_bits = 0;
        f->magic_at = 0;
        f->magic_len = 0;
        f->wiped_from = f->wiped_to = 0;
}

/* Text up to a NUL or the end, as it is; absent when empty. */
void blkup_found_text(struct blkup_found *f, const char *name, struct blkup_bytes s);
void blkup_found_string(struct blkup_found *f, const char *name, const char *s);
/* The same, white space cut off at the end: how LABEL is printed. Absent when nothing is left. */
void blkup_found_rtrimmed(struct blkup_found *f, const char *name, struct blkup_bytes s);
/* The same, cut on both sides: how *_ID tags are printed. */
void blkup_found_trimmed(struct blkup_found *f, const char *name, struct blkup_bytes s);
/* UTF-16 up to U+0000 or the end, right-trimmed. */
void blkup_found_utf16(struct blkup_found *f, const char *name, struct blkup_bytes s, enum blkup_order order);
/* 16 bytes as 8-4-4-4-12, lower case; absent when all zero (or when s is shorter). */
void blkup_found_uuid(struct blkup_found *f, const char *name, struct blkup_bytes s);
/* 16 bytes whose first three groups are little-endian (Microsoft's and EFI's order). */
void blkup_found_guid(struct blkup_found *f, const char *name, struct blkup_bytes s);
/* Four bytes as B3B2-B1B0, upper case (FAT, exFAT, HPFS); absent when zero. */
void blkup_found_serial(struct blkup_found *f, const char *name, struct blkup_bytes s);
void blkup_found_u64(struct blkup_found *f, const char *name, uint64_t v); /* decimal */
/* VERSION=major.minor */
void blkup_found_version(struct blkup_found *f, uint64_t major_part, uint64_t minor_part);
void blkup_found_printf(struct blkup_found *f, const char *name, const char *fmt, ...) BLKUP_PRINTF(3, 4);

/* Adds how many bits a rule verified. */
static inline void blkup_found_evidence(struct blkup_found *f, unsigned bits)
{
        f->evidence_bits += bits;
}

/* 16 bytes to 36 characters and NUL. */
void blkup_format_uuid(const uint8_t *b, char out[37]);
void blkup_format_guid(const uint8_t *b, char out[37]);

/* The magic that matched. */
struct blkup_hit {
        unsigned row;  /* index into the magics of the format; 0 for one without */
        uint64_t at;   /* of the magic, bytes from the start of the area */
        uint64_t base; /* of the superblock */
};

enum blkup_format_flag {
        BLKUP_TOLERANT = 1 << 0,    /* may stand beside another type without making the result ambivalent */
        BLKUP_WHOLE_ONLY = 1 << 1,  /* looked for on regular files and whole disks, not on partitions */
        BLKUP_EVERY_MAGIC = 1 << 2, /* refused at one magic, the next row is tried (else the type is over) */
        BLKUP_LATE = 1 << 3,        /* looked for last, and only when nothing was found (--strict: always) */
        BLKUP_PRECIOUS =
                1 << 4, /* damaged, it is still not "nothing": that can be said of no device with its magic */
};

struct blkup_format {
        const char *name; /* TYPE */
        enum blkup_usage usage;
        uint64_t min_bytes;
        unsigned flags;
        const struct blkup_magic *magics; /* none: check() is called straight away */
        unsigned n_magics;
        const struct blkup_needed *needs;
        unsigned n_needs;
        enum blkup_outcome (*check)(struct blkup_view *v, const struct blkup_hit *hit,
                                    struct blkup_found *ret);
};

/*
 * Partition tables.
 */

/* One entry as it is on disk, not yet text. */
struct blkup_entry {
        unsigned number;
        uint64_t start_sectors, size_sectors; /* 512 bytes each, from the start of the area */
        uint64_t flags;
        uint32_t type;            /* a number, where it is neither of the next two */
        const uint8_t *type_guid; /* 16 bytes or NULL */
        struct blkup_bytes type_text;
        const uint8_t *uuid_guid; /* 16 bytes or NULL */
        uint32_t disk_id;         /* dos: the uuid is disk_id-number; 0 = none */
        struct blkup_bytes name;  /* as name_is_utf16 says; len 0 = none */
        bool name_is_utf16;
        const char *scheme;       /* NULL: the table's own name */
};

/* Where a table puts what it finds. entry() returns false to end the listing early. It is called only when
 * view->wants_partitions; a run that ends in BLKUP_NEED is repeated from the start after begin(). */
struct blkup_entries {
        void (*begin)(struct blkup_entries *e);
        bool (*entry)(struct blkup_entries *e, const struct blkup_entry *p);
        bool is_cut; /* set by a table that has more of them than it follows */
};

struct blkup_table {
        const char *name; /* PTTYPE */
        uint64_t min_bytes;
        const struct blkup_magic *magics;
        unsigned n_magics;
        const struct blkup_needed *needs;
        unsigned n_needs;
        /* Adds PTUUID to ret; the engine adds PTTYPE. */
        enum blkup_outcome (*check)(struct blkup_view *v, const struct blkup_hit *hit,
                                    struct blkup_found *ret, struct blkup_entries *e);
};

/* Does [at, at + len) lie inside one partition of a table that fits the device? Looks at the tables like the
 * engine (BLKUP_NEED and BLKUP_UNREADABLE go up); a table with a partition beyond the end covers nothing. */
BLKUP_MUST_CHECK enum blkup_outcome blkup_tables_cover(struct blkup_view *v, uint64_t at, uint64_t len,
                                                       bool *ret);

/* First matching row of magics[from..n): BLKUP_FOUND with *ret filled, BLKUP_NOT_THIS when none does. */
BLKUP_MUST_CHECK enum blkup_outcome blkup_match_magics(struct blkup_view *v, const struct blkup_magic *magics,
                                                       unsigned n, unsigned from, struct blkup_hit *ret);

/* The ordered lists (registry.c). */
extern const struct blkup_format *const blkup_formats[];
extern const unsigned blkup_n_formats;
extern const struct blkup_table *const blkup_tables[];
extern const unsigned blkup_n_tables;

#endif
