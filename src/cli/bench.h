/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the benchmarks share: options, samples, what the machine was like. One benchmark is one function and
 * one line in cmd-bench.c. */
#ifndef BLKUP_CLI_BENCH_H
#define BLKUP_CLI_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/json.h"

#define BLKUP_BENCH_MAX_PEERS 4

struct blkup_bench_options {
        bool json;
        unsigned rounds;
        const char *peers[BLKUP_BENCH_MAX_PEERS]; /* programs that measure another implementation */
        size_t n_peers;
        const char *sysroot; /* modules: where lib/modules is; may be NULL */
};

/* Each prints its answer on stdout and returns an exit code. */
int blkup_bench_rwsem(const struct blkup_bench_options *o);
int blkup_bench_modules(const struct blkup_bench_options *o);
int blkup_bench_blocksize(const struct blkup_bench_options *o);
int blkup_bench_mount(const struct blkup_bench_options *o);
int blkup_bench_probe(const struct blkup_bench_options *o);

/* ---- samples ---- */

struct blkup_bench_samples {
        double *v;
        size_t n, room;
        bool is_sorted;
};

BLKUP_MUST_CHECK int blkup_bench_add(struct blkup_bench_samples *s, double v); /* -ENOMEM */
/* The value below which the fraction q of the samples lies; 0 the least, 1 the largest; NAN without samples.
 */
double blkup_bench_quantile(struct blkup_bench_samples *s, double q);
void blkup_bench_free(struct blkup_bench_samples *s);

/* ---- the machine ---- */

struct blkup_bench_machine {
        unsigned cpus;          /* that this process may run on */
        unsigned hz;            /* of the coarse clock: the kernel's tick */
        double load[3];
        char nohz_full[64];     /* list of CPUs, "" none, "?" not told */
        int rcu_expedited;      /* -1: not told */
        bool has_expedited, has_global; /* membarrier */
        char kernel[80];
};

void blkup_bench_ask_machine(struct blkup_bench_machine *m);
void blkup_bench_print_machine(const struct blkup_bench_machine *m);
void blkup_bench_json_machine(struct blkup_json *j, const struct blkup_bench_machine *m);

/* Binds the calling thread to the n-th CPU that the process may use. 0 or negative errno. */
int blkup_bench_pin(unsigned n);

/* {"min": .., "median": ..}; NULL or without samples: null. */
void blkup_bench_json_min_median(struct blkup_json *j, const char *key, struct blkup_bench_samples *s);

#endif
