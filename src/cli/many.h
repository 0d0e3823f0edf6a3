/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One question about many things: asked by several processes at a time, answered in the order of the list,
 * however long one of them takes and whatever it does to its process.
 *
 * Processes and not threads, because a read of a dead disk cannot be taken back: the process that waits for
 * it is given up (killed, and not waited for), another one goes on, and this program still ends. With one
 * process and no time limit all is done in this one.
 */
#ifndef BLKUP_CLI_MANY_H
#define BLKUP_CLI_MANY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <blkup/probe.h>

#include "base/cleanup.h"

#define BLKUP_CLI_MANY_MAX_JOBS 64

/* What is told of one answer beside its text. */
struct blkup_cli_many_said {
        int code;
        char line[1400]; /* for stderr; "" when there is nothing to say there */
        struct blkup_io_stats stats;
        bool has_stats;
};

struct blkup_cli_many {
        size_t n;
        unsigned jobs;       /* 0: one a CPU */
        uint64_t timeout_ns; /* of one answer; 0: none */
        void *arg;
        /* Once in each process that answers, before its first answer. */
        void (*begin)(void *arg);
        /* Prints the answer about thing i to out. In a process of its own, unless jobs is 1 and there is no
         * time limit. Negative errno ends the run. */
        int (*one)(void *arg, size_t i, FILE *out, struct blkup_cli_many_said *ret);
        /* The same where there is none: the process hung or died. In this process. */
        int (*failed)(void *arg, size_t i, const char *why, FILE *out, struct blkup_cli_many_said *ret);
        /* In the order of the list, in this process. false: enough. */
        bool (*emit)(void *arg, size_t i, const char *text, size_t len,
                     const struct blkup_cli_many_said *said);
        bool keep_stderr; /* the processes may write to stderr themselves (--debug) */
};

/* Where no (more) processes can be made, fewer answer, or this one; with a time limit that is an error. 0,
 * or a negative errno. */
BLKUP_MUST_CHECK int blkup_cli_many_run(const struct blkup_cli_many *m);

/* A copy of name at the end of *names, which grows. -ENOMEM. */
BLKUP_MUST_CHECK int blkup_cli_many_add_name(const char *name, char ***names, size_t *n);

/* Names from a file ("-": standard input), each ended by separator; empty ones are left out. They are added
 * to *names, which grows. Negative errno. */
BLKUP_MUST_CHECK int blkup_cli_many_read_names(const char *path, int separator, char ***names, size_t *n);

#endif
