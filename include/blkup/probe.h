/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * blkup/probe.h - what is on a device, with the least I/O.
 *
 * A prober is made once and used for any number of devices, one after another; it owns its memory (about
 * 20 MiB of address space, of which a usual probe touches some ten KiB) and allocates nothing while it
 * probes. One prober belongs to one thread at a time; different probers are independent.
 *
 * Nothing is ever written to a device. All strings that come from a device are untrusted bytes: encode them
 * for the reader they are meant for (shell, udev, JSON, terminal).
 *
 * Functions return 0 or a negative errno unless they say otherwise; on failure outputs are left alone.
 */
#ifndef BLKUP_PROBE_H
#define BLKUP_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct blkup_probe;
struct blkup_trace;
struct blkup_block;
struct blkup_error;

/* What a type is for; the words of util-linux's USAGE tag. A bit set, so that filters can combine them. */
enum blkup_usage {
        BLKUP_USAGE_FILESYSTEM = 1 << 0,
        BLKUP_USAGE_RAID = 1 << 1,
        BLKUP_USAGE_CRYPTO = 1 << 2,
        BLKUP_USAGE_OTHER = 1 << 3,
};

/* The verdict on one device. */
enum blkup_verdict {
        BLKUP_VERDICT_NOTHING = 0, /* every place that could hold something was read, and nothing is there */
        BLKUP_VERDICT_FOUND,       /* values are there: a type, a partition table, a partition's entry */
        BLKUP_VERDICT_AMBIVALENT, /* more than one type that do not tolerate each other; hits can be listed */
        BLKUP_VERDICT_UNKNOWN,    /* no result, and something could not be read (or a budget ran out): say
                                     nothing */
};

/* One NAME=value. name is a constant; value has len bytes and a NUL behind them; both valid until the next
 * run. */
struct blkup_value {
        const char *name;
        const char *value;
        size_t len;
};

/* One superblock hit of the last run, in registry order. version may be "" */
struct blkup_hit_info {
        const char *type;
        enum blkup_usage usage;
        const char *version;
};

/* One partition of the table that was found. Numbers and sectors as util-linux counts them. */
struct blkup_partition {
        unsigned number;
        uint64_t start_sectors; /* 512-byte sectors from the start of the area */
        uint64_t size_sectors;
        uint64_t flags;         /* of the entry; 0 = none */
        uint8_t type_byte;      /* dos and its kind; 0 where type is a text */
        char type[40];          /* "0x83", a GUID, a text */
        char uuid[40];          /* "" when the scheme has none */
        char name[224];         /* "" when the scheme has none; UTF-8, untrusted */
        char scheme[16];        /* table this entry stands in: dos, gpt, bsd ... */
};

/* What a run cost. Exact counts, but for ns. */
struct blkup_io_stats {
        uint64_t submissions; /* one io_uring_enter, or one pread/preadv */
        uint64_t reads;       /* requests */
        uint64_t bytes;       /* asked for */
        uint64_t sectors;     /* different 512-byte sectors */
        uint64_t pages;       /* different 4096-byte pages those lie in */
        uint64_t rounds;      /* times something was waited for */
        uint64_t ns;
};

/* A prober, or NULL when memory is exhausted. */
struct blkup_probe *blkup_probe_new(void);
/* Frees it. NULL-safe; returns NULL. */
struct blkup_probe *blkup_probe_unref(struct blkup_probe *p);

/*
 * Settings; they stay for all later runs.
 */

/* Look only for (or, with invert, never for) these types: a comma list as blkid's -n, "" or NULL for all.
 * -EINVAL: a type that is not known. Partition tables are not touched by it. */
int blkup_probe_set_types(struct blkup_probe *p, const char *list, bool invert, struct blkup_error *err);

/* Look only for formats of these usages (bits of enum blkup_usage; 0 = all). */
void blkup_probe_set_usages(struct blkup_probe *p, unsigned usages);

/* The area of the device to look at, in bytes. size 0: up to the end. */
void blkup_probe_set_area(struct blkup_probe *p, uint64_t offset_bytes, uint64_t size_bytes);

/* Offset in bytes of the last session of an optical disc (blkid's hint session_offset). */
void blkup_probe_set_session(struct blkup_probe *p, uint64_t offset_bytes);

enum blkup_probe_flag {
        BLKUP_PROBE_STRICT =
                1 << 0, /* also read what can only turn a find into an ambivalence (xfs log scan) */
        BLKUP_PROBE_PARTITIONS = 1 << 1, /* list the partitions of a table (costs the reads of its entries) */
        BLKUP_PROBE_NO_TABLES = 1 << 2,  /* superblocks only */
        BLKUP_PROBE_NO_PART_ENTRY = 1 << 3, /* no PART_ENTRY_* of a partition (blkid's -D) */
        BLKUP_PROBE_EXPLAIN = 1 << 4,       /* list all candidates, and what decided about each; reads more */
        BLKUP_PROBE_FEW_READS =
                1 << 5, /* what is at most 4 KiB apart is one request, also past the page
                         * cache:     for disks, where a request costs more than these bytes */
};
void blkup_probe_set_flags(struct blkup_probe *p, unsigned flags);

/* Spans of each read and each probe go here; NULL: none. The trace must outlive the runs. */
void blkup_probe_set_trace(struct blkup_probe *p, struct blkup_trace *t);

/* Called for each read and each refusal while a run goes on (the --debug output); text is one line. NULL:
 * off. */
void blkup_probe_set_debug(struct blkup_probe *p, void (*line)(void *to, const char *text), void *to);

/* Bytes that one run may read at most (0 = the built-in 16 MiB). A run that would need more and has found
 * nothing ends as BLKUP_VERDICT_UNKNOWN. */
void blkup_probe_set_budget(struct blkup_probe *p, uint64_t bytes);

/*
 * The cage: from now on a child of this process looks at what is read, under seccomp's strict mode: it can
 * read from and write to its parent, and end. One child serves all runs; one that dies over a device makes
 * that run's verdict BLKUP_VERDICT_UNKNOWN and is replaced. Call it before other threads are started where
 * that is possible: the fork is cheaper then. The child ends with this process. 0; -ENOSYS: this kernel has
 * no seccomp (the prober works on without a cage); -ENOMEM, -EAGAIN: no child.
 */
int blkup_probe_set_cage(struct blkup_probe *p, bool on);

/*
 * Shares the cage of `with`, if that has one: its child then serves both, one at a time, and a fork is saved
 * for each further prober. What is read first of a device is read before the child is waited for; when that
 * is busy for 5 ms, with a device that does not answer, who waits gets a child of its own. Each of the two
 * may be used by a thread of its own from then on, and ended before the other. 0, or -ENOMEM.
 */
int blkup_probe_share_cage(struct blkup_probe *p, struct blkup_probe *with);

/*
 * Runs.
 */

/* How a device is opened. */
struct blkup_open_options {
        int direct; /* 0: auto; 1: always (fails over only where O_DIRECT is refused); -1: never */
        bool no_uring;
        /* The sequence number (BLKGETDISKSEQ) of what the caller knows for a fixed disk: no partition, not
         * removable, not of device-mapper. While the device has it, /sys is not asked again. 0: it is asked.
         */
        uint64_t fixed_diskseq;
};

/*
 * Opens PATH read-only (close-on-exec, non-blocking until it is known to be a device or file), probes it and
 * closes it. -ENOENT, -EACCES ...: as open(2); -ENOTBLK: neither block device, regular file nor UBI character
 * device. A read error is no failure of the run: see BLKUP_VERDICT_UNKNOWN and blkup_probe_trouble().
 */
int blkup_probe_path(struct blkup_probe *p, const char *path, const struct blkup_open_options *o,
                     enum blkup_verdict *ret, struct blkup_error *err);

/* The same on an open block handle (blkup/block.h), which stays the caller's. */
int blkup_probe_block(struct blkup_probe *p, struct blkup_block *b, enum blkup_verdict *ret,
                      struct blkup_error *err);

/*
 * Results of the last run; valid until the next one.
 */

/* Values in the order util-linux prints them: the type's own, TYPE, USAGE, then PTUUID, PTTYPE, then
 * PART_ENTRY_*. After BLKUP_VERDICT_AMBIVALENT only PART_ENTRY_* may be there. */
size_t blkup_probe_n_values(const struct blkup_probe *p);
struct blkup_value blkup_probe_value(const struct blkup_probe *p, size_t i); /* i < n_values */
/* The value of NAME, or NULL. */
const char *blkup_probe_lookup(const struct blkup_probe *p, const char *name);

size_t blkup_probe_n_hits(const struct blkup_probe *p);
struct blkup_hit_info blkup_probe_hit(const struct blkup_probe *p, size_t i); /* i < n_hits */

/* Partitions in table order; 0 without BLKUP_PROBE_PARTITIONS. */
size_t blkup_probe_n_partitions(const struct blkup_probe *p);
const struct blkup_partition *blkup_probe_partition(const struct blkup_probe *p, size_t i); /* NULL beyond */
/* Does the table have more of them: than are listed (1024, and of a dos table 260), or than could be read?
 * blkup_probe_trouble() says which. */
bool blkup_probe_partitions_are_cut(const struct blkup_probe *p);

/*
 * Why: all that could be on the device, and the rule that decided about each. Only after a run with
 * BLKUP_PROBE_EXPLAIN, which looks for every format to the end and so reads more than others.
 */

/* What its own rules say of it. */
enum blkup_candidate_state {
        BLKUP_CANDIDATE_FOUND = 0,  /* they all hold */
        BLKUP_CANDIDATE_REFUSED,    /* the magic is there, another rule fails: reason says which */
        BLKUP_CANDIDATE_DAMAGED,    /* a checksum, or fields that contradict each other */
        BLKUP_CANDIDATE_UNREADABLE, /* something could not be read, or a budget ran out */
};

/* What became of it. blkup_rule_text() has the sentences. */
enum blkup_rule {
        BLKUP_RULE_OWN = 0,       /* its own rules: state and reason */
        BLKUP_RULE_REPORTED,
        BLKUP_RULE_AMBIVALENT,    /* another one is there too, and neither tolerates it */
        BLKUP_RULE_TOLERATED,     /* beside the first one, which is reported */
        BLKUP_RULE_AFTER_RAID,    /* a RAID member or an encrypted volume before it ended the search */
        BLKUP_RULE_TINY,          /* the first find on a device of a floppy's size is final */
        BLKUP_RULE_TINY_TABLE,    /* the same, a partition table */
        BLKUP_RULE_TOO_SMALL,     /* 1024 bytes and less hold nothing but a table */
        BLKUP_RULE_WIPED,         /* its mkfs would have wiped the table that stands there */
        BLKUP_RULE_EARLIER_MAGIC, /* the type was refused at an earlier magic */
        BLKUP_RULE_LATE,          /* only looked for where nothing else is found */
        BLKUP_RULE_LEFT_OUT,      /* by a filter, or not looked for on such a device */
        BLKUP_RULE_SEALED,        /* a table of a device that is ambivalent or a RAID member */
        BLKUP_RULE_OTHER_TABLE,   /* another table comes before it */
};

enum blkup_candidate_note {
        BLKUP_NOTE_LARGER = 1 << 0,         /* the file system is larger than its device */
        BLKUP_NOTE_TABLE_INSIDE = 1 << 1,   /* a table in the bytes of the file system that is reported */
        BLKUP_NOTE_STALE = 1 << 2,          /* left over from something before, or hidden by what is */
        BLKUP_NOTE_NO_MOUNT = 1 << 3,       /* features that the running kernel does not know: see features */
        BLKUP_NOTE_READ_ONLY = 1 << 4,      /* the same, only for writing */
};

struct blkup_candidate {
        char type[32];          /* TYPE or PTTYPE */
        enum blkup_usage usage; /* 0: a partition table */
        enum blkup_candidate_state state;
        enum blkup_rule rule;
        unsigned notes;         /* bits of enum blkup_candidate_note */
        uint64_t at;            /* first byte of its magic on the device: what wipefs(8) would erase ... */
        uint32_t magic_len;     /* ... this many of; 0: known by more than a magic */
        uint32_t magic_bits;    /* evidence: bits of the magic ... */
        uint32_t evidence_bits; /* ... and of all that was verified: magic, checksum, cross-field rules */
        uint64_t fs_bytes;      /* size that it tells of itself; 0: none */
        uint64_t incompat, ro_compat; /* feature words of ext, xfs and btrfs */
        char reason[96];        /* of a refusal; "" */
        char features[192];     /* names of those that this kernel does not know; "" */
};

size_t blkup_probe_n_candidates(const struct blkup_probe *p);
const struct blkup_candidate *blkup_probe_candidate(const struct blkup_probe *p, size_t i); /* NULL beyond */

/* One sentence without a full stop; never NULL. */
const char *blkup_rule_text(enum blkup_rule rule);

void blkup_probe_stats(const struct blkup_probe *p, struct blkup_io_stats *ret);

/* One line that says what could not be read ("read error at 65536: Input/output error"), or "" when all was
 * well; never "" after BLKUP_VERDICT_UNKNOWN. */
const char *blkup_probe_trouble(const struct blkup_probe *p);
/* BLKUP_VERDICT_UNKNOWN for want of a process that could look: it was killed or stopped from outside, or
 * could not be made. No word about the device: another run may know. */
bool blkup_probe_try_again(const struct blkup_probe *p);

/* Size in bytes of the area that was looked at in the last run. */
uint64_t blkup_probe_size(const struct blkup_probe *p);

/* Names of the known types, in registry order (a type that stands twice is listed twice); NULL beyond the
 * last. */
const char *blkup_probe_type_name(size_t i);

/* The word for one usage bit ("filesystem", "raid", "crypto", "other"); NULL for anything else. */
const char *blkup_usage_name(enum blkup_usage usage);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
