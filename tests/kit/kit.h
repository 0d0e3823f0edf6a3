/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the tests of the prober share. Nothing here is thread-safe; what cannot be (a read outside the device,
 * memory exhausted) ends the program with a message.
 */
#ifndef BLKUP_TESTS_KIT_H
#define BLKUP_TESTS_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <blkup/probe.h>

#include "block/block.h"
#include "block/memory.h"
#include "probe/engine.h"

struct kit_range {
        uint64_t at, len;
};

/* Prints the message to stderr and aborts. */
void kit_die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* -- guard.c: a device around another one, which it does not own; what reaches it lies inside the device */
#define KIT_GUARD_LOG 4096
struct kit_guard {
        struct blkup_block block;   /* hand out &guard.block */
        struct blkup_block *inner;
        uint64_t shuffle; /* not 0: a batch is answered one by one in an order that follows from it */
        uint64_t batches, requests;
        bool keeps_log;
        struct kit_range log[KIT_GUARD_LOG];
        unsigned n_log;
};
void kit_guard_init(struct kit_guard *g, struct blkup_block *inner);
/* After the inner device got another size or alignment: takes its facts over, empties log and counters. */
void kit_guard_reset(struct kit_guard *g);

/* -- view-guard.c: what the checks asked for */
/* Off: checks get what the engine has, as in the product (and the engine's fast look at magics works). On at
 * the start. */
void kit_view_guard(bool on);
/* Buffers of the exact length that were handed to checks since the last call are freed. Call after each run.
 */
void kit_view_release(void);
/* From now on each range that a check asks for is added to ranges[0..*n), at most cap; NULL: off. Doubles are
 * left out. */
void kit_view_record(struct kit_range *ranges, unsigned *n, unsigned cap);

/* The n-th step of work from now on is denied, and all after it, as when a budget is used up; 0: none is. */
void kit_view_deny_work(unsigned at);
/* Was one denied since? */
bool kit_view_was_denied(void);

/* -- image.c: an image file as pieces of a memory device */
struct kit_image {
        uint8_t *bytes; /* private mapping of the whole file: may be changed, the file stays as it is */
        uint64_t size;
        struct kit_range *data; /* where it is not a hole */
        unsigned n_data;
};
void kit_image_load(struct kit_image *i, const char *path);
void kit_image_free(struct kit_image *i);
/* The device becomes the first `size` bytes of the image (more: zeroes behind it). */
void kit_image_lay(const struct kit_image *i, struct blkup_block *memory, uint64_t size);

/* -- answer.c */
/* NULL when the answer of the last run is consistent with itself, else what is wrong with it. */
const char *kit_answer_fault(const struct blkup_probe *p, enum blkup_verdict verdict);
/* The whole answer (verdict, values, hits, partitions; not the cost) as text, for comparing two of them. */
#define KIT_ANSWER_MAX 65536
void kit_answer_text(const struct blkup_probe *p, enum blkup_verdict verdict, char *out, size_t cap);
/* Lets the prober look for this type or table only; NULL: for everything. false: no such name. Names as TYPE
 * and PTTYPE have them, or as the registry does. */
bool kit_only(struct blkup_probe *p, const char *name);

/* -- sample.c: a device as a few bytes, for fuzzing */
/*
 * byte 0       flags, below
 * 8 bytes      size of the device, little-endian
 * 4 bytes      only with KIT_SAMPLE_SESSION: start of the last session, in 2048 bytes
 * records      byte 0: what the offset counts from, below; 8 bytes offset; 2 bytes length; the bytes (cut
 * where the sample ends). Later records lie over earlier ones; what is not on the device is left out.
 */
enum {
        KIT_SAMPLE_SECTOR_4096 = 1 << 0,
        KIT_SAMPLE_PARTITION = 1 << 1,  /* not a whole disk */
        KIT_SAMPLE_STRICT = 1 << 2,
        KIT_SAMPLE_LIST = 1 << 3,       /* list the partitions of a table */
        KIT_SAMPLE_ALIGN_4096 = 1 << 4, /* a device that is read in 4096 bytes */
        KIT_SAMPLE_CDROM = 1 << 5,
        KIT_SAMPLE_DISK = 1 << 6,       /* a block device, not a file */
        KIT_SAMPLE_SESSION = 1 << 7,
};
enum { KIT_FROM_START, KIT_FROM_END, KIT_FROM_END_4K, KIT_FROM_END_64K, KIT_FROMS };
#define KIT_SAMPLE_HEADER 9
#define KIT_RECORD_HEADER 11

/* Sets up the memory device and the prober's settings; the device refers to the sample. false: too short. */
bool kit_sample_lay(const uint8_t *sample, size_t len, struct blkup_block_memory *m, struct blkup_probe *p);
/* Sorts the ranges and joins those that touch; returns how many are left. */
unsigned kit_ranges_merge(struct kit_range *ranges, unsigned n);
/* Adds where the magics of what the prober looks for stand on the device of its last run. */
void kit_magic_ranges(const struct blkup_probe *p, struct kit_range *ranges, unsigned *n, unsigned cap);
/* Writes the ranges of the image, but for their zeroes, as a sample; returns its length, 0 when cap is too
 * small. */
size_t kit_sample_make(uint8_t *out, size_t cap, uint8_t flags, const struct kit_image *i,
                       const struct kit_range *ranges, unsigned n_ranges);

/*
 * One run on what the memory device holds, all checks included: with exact buffers on p and, every
 * `again_every` runs, once more on q as the product does it; both must answer the same.
 */
struct kit_bench {
        struct blkup_probe *p, *q;
        struct blkup_block_memory memory;
        struct kit_guard guard;
        unsigned runs, again_every; /* 0: never */
};
void kit_bench_init(struct kit_bench *b);
void kit_bench_free(struct kit_bench *b);
/* kit_only() for both. */
bool kit_bench_only(struct kit_bench *b, const char *name);
/* Looks at the memory device; the result is p's. */
enum blkup_verdict kit_bench_look(struct kit_bench *b);
/* Lays the sample and looks; false: it is too short to be one. */
bool kit_bench_run(struct kit_bench *b, const uint8_t *sample, size_t len, enum blkup_verdict *ret_verdict);

/* -- samples.c: the saved samples */
struct kit_sample {
        char path[512];
        uint8_t *bytes; /* allocated with exactly len bytes */
        size_t len;
};
struct kit_samples {
        struct kit_sample *list;
        unsigned n, room;
};
/* Adds the files of FOLDER/TARGET in the order of their names, at most `most`; none is no error. */
void kit_samples_add(struct kit_samples *s, const char *folder, const char *target, unsigned most);
void kit_samples_free(struct kit_samples *s);
/* The k-th target, or NULL: types in the order of the registry (each once), then the tables. */
const char *kit_target(unsigned k);

/* A small generator for tests that repeat: same seed, same numbers. */
static inline uint64_t kit_random(uint64_t *state)
{
        uint64_t x = *state ? *state : 0x9e3779b97f4a7c15;

        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        return *state = x;
}

#endif
