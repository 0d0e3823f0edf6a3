/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Inside `blkup lazyinit`: what its files tell each other. */
#ifndef BLKUP_CLI_CMD_LAZYINIT_H
#define BLKUP_CLI_CMD_LAZYINIT_H

#include <blkup/lazyinit.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "cli/options.h"

/* The version of docs/schema/lazyinit.json: goes up when a field changes its meaning or disappears. */
#define BLKUP_CLI_LAZYINIT_SCHEMA 1

enum {
        BLKUP_CLI_LAZYINIT_EXIT_DONE = 0,
        BLKUP_CLI_LAZYINIT_EXIT_LEFT = 1,
        BLKUP_CLI_LAZYINIT_EXIT_REFUSED = 2,
        BLKUP_CLI_LAZYINIT_EXIT_OTHER = 4,
};

enum blkup_cli_lazyinit_progress {
        BLKUP_CLI_PROGRESS_AUTO,
        BLKUP_CLI_PROGRESS_NONE,
        BLKUP_CLI_PROGRESS_JSON
};

/* What the command line asks for. */
struct blkup_cli_lazyinit_request {
        struct blkup_lazyinit_options options;
        bool check, dry_run, json, has_wait_mult;
        unsigned jobs;
        enum blkup_cli_lazyinit_progress progress;
        int progress_fd;
        const char *timeline;
        char **operands;
        size_t n_operands;
        /* status */
        bool watch;
        /* simulate */
        struct blkup_lazyinit_sim sim;
        bool has_policy, has_hz, has_groups, has_time, table, lottery;
};

/* One device of a run. */
struct blkup_cli_lazyinit_job {
        const char *device;
        struct blkup_lazyinit_result result;
        struct blkup_error err;
        int error; /* negative errno of the run, 0 */
        uint64_t disk; /* equal ones stand on one disk and are not done at once; 0: alone */
        enum { BLKUP_CLI_JOB_WAITS, BLKUP_CLI_JOB_RUNS, BLKUP_CLI_JOB_DONE } state;
};

/* Set by SIGINT and SIGTERM. */
extern volatile int blkup_cli_lazyinit_stop;
void blkup_cli_lazyinit_catch_signals(void);

/* Runs all jobs; each one's result is in it afterwards. */
void blkup_cli_lazyinit_run_jobs(const struct blkup_cli_lazyinit_request *q, struct blkup_trace *trace,
                                 struct blkup_cli_lazyinit_job *jobs, size_t n);
int blkup_cli_lazyinit_exit_code(const struct blkup_cli_lazyinit_request *q,
                                 const struct blkup_cli_lazyinit_job *job);

void blkup_cli_lazyinit_print(const struct blkup_cli_lazyinit_request *q,
                              const struct blkup_cli_lazyinit_job *job);
int blkup_cli_lazyinit_print_json(const struct blkup_cli_lazyinit_request *q,
                                  const struct blkup_cli_lazyinit_job *jobs, size_t n);

/* Progress of all jobs, from their threads. */
struct blkup_cli_lazyinit_meter;
struct blkup_cli_lazyinit_meter *blkup_cli_lazyinit_meter_new(enum blkup_cli_lazyinit_progress what, int fd);
void blkup_cli_lazyinit_meter_tell(void *meter, const struct blkup_lazyinit_progress *p);
void blkup_cli_lazyinit_meter_free(struct blkup_cli_lazyinit_meter *m);
/* "1:05:09", "0:07" */
void blkup_cli_lazyinit_format_time(uint64_t ns, char *out, size_t cap);

/* Looks for a hibernation image on every block device and swap file. As find_hibernation of the options. */
int blkup_cli_lazyinit_find_hibernation(void *unused, char *name, size_t cap);

/* A child that gives an MMP block back should this process be killed. As mmp_guard of the options. */
struct blkup_cli_lazyinit_watchman {
        int pipe_fd; /* -1: none */
        pid_t pid;
};
void blkup_cli_lazyinit_mmp_guard(void *watchman, bool is_held, int fd, uint64_t at, const void *clean,
                                  size_t len);

int blkup_cli_lazyinit_simulate(const struct blkup_cli_command *self, struct blkup_cli_lazyinit_request *q);
int blkup_cli_lazyinit_status(const struct blkup_cli_command *self,
                              const struct blkup_cli_lazyinit_request *q);

#endif
