/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Several devices at once, one thread each, but never two of one disk. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "cli/cmd-lazyinit.h"
#include "cli/output.h"
#include "host/sysfs.h"

volatile int blkup_cli_lazyinit_stop;

static void on_signal(int signal_number)
{
        (void) signal_number;
        blkup_cli_lazyinit_stop = 1;
}

void blkup_cli_lazyinit_catch_signals(void)
{
        /* No SA_RESTART: a sleep ends. */
        struct sigaction a = { .sa_handler = on_signal };

        (void) sigaction(SIGINT, &a, NULL);
        (void) sigaction(SIGTERM, &a, NULL);
        (void) sigaction(SIGHUP, &a, NULL);
}

struct pool {
        const struct blkup_cli_lazyinit_request *q;
        struct blkup_trace *trace;
        struct blkup_cli_lazyinit_meter *meter;
        struct blkup_cli_lazyinit_job *jobs;
        size_t n;
        pthread_mutex_t lock;
        pthread_cond_t changed;
};

/* The next job whose disk nobody works on; NULL: none is left. Called with the lock held. */
static struct blkup_cli_lazyinit_job *next_job(struct pool *p)
{
        /* Ends: a job that keeps another waiting is finished by its thread, which then wakes us. */
        for (;;) {
                bool any_waits = false;

                for (size_t i = 0; i < p->n; i++) {
                        bool is_disk_taken = false;

                        if (p->jobs[i].state != BLKUP_CLI_JOB_WAITS)
                                continue;
                        any_waits = true;
                        for (size_t j = 0; p->jobs[i].disk != 0 && j < p->n; j++)
                                is_disk_taken |= p->jobs[j].state == BLKUP_CLI_JOB_RUNS &&
                                                 p->jobs[j].disk == p->jobs[i].disk;
                        if (!is_disk_taken)
                                return &p->jobs[i];
                }
                if (!any_waits)
                        return NULL;
                (void) pthread_cond_wait(&p->changed, &p->lock);
        }
}

static void run_job(struct pool *p, struct blkup_cli_lazyinit_job *job)
{
        struct blkup_cli_lazyinit_watchman watchman = { .pipe_fd = -1, .pid = -1 };
        struct blkup_lazyinit_options o = p->q->options;

        o.stop = &blkup_cli_lazyinit_stop;
        o.trace = p->trace;
        o.find_hibernation = blkup_cli_lazyinit_find_hibernation;
        o.mmp_guard = blkup_cli_lazyinit_mmp_guard;
        o.mmp_guard_to = &watchman;
        if (p->meter) {
                o.progress = blkup_cli_lazyinit_meter_tell;
                o.progress_to = p->meter;
        }
        job->error = blkup_lazyinit_run(job->device, &o, &job->result, &job->err);
}

static void *work(void *arg)
{
        struct pool *p = arg;
        struct blkup_cli_lazyinit_job *job;

        (void) pthread_mutex_lock(&p->lock);
        while ((job = next_job(p))) {
                job->state = BLKUP_CLI_JOB_RUNS;
                (void) pthread_mutex_unlock(&p->lock);
                run_job(p, job);
                (void) pthread_mutex_lock(&p->lock);
                job->state = BLKUP_CLI_JOB_DONE;
                (void) pthread_cond_broadcast(&p->changed);
        }
        (void) pthread_mutex_unlock(&p->lock);
        return NULL;
}

/* The whole disk's number, plus one so that it is never 0. The same file given twice is one too. */
static uint64_t disk_of(const char *device)
{
        struct blkup_sysblocks *t = NULL;
        struct stat st;
        uint64_t key;

        if (stat(device, &st) < 0)
                return 0;
        if (!S_ISBLK(st.st_mode))
                return (uint64_t) st.st_ino << 1 | 1;
        key = (uint64_t) major(st.st_rdev) << 32 | minor(st.st_rdev);
        if (blkup_sysblocks_load_one(NULL, major(st.st_rdev), minor(st.st_rdev), 0, &t, NULL) == 0) {
                key = (uint64_t) t->blocks[0].disk_major << 32 | t->blocks[0].disk_minor;
                blkup_sysblocks_free(t);
        }
        return (key + 1) << 1;
}

void blkup_cli_lazyinit_run_jobs(const struct blkup_cli_lazyinit_request *q, struct blkup_trace *trace,
                                 struct blkup_cli_lazyinit_job *jobs, size_t n)
{
        struct pool p = { .q = q, .trace = trace, .jobs = jobs, .n = n, .lock = PTHREAD_MUTEX_INITIALIZER,
                          .changed = PTHREAD_COND_INITIALIZER };
        pthread_t threads[64];
        size_t n_threads = 0, want = q->jobs < n ? q->jobs : n;

        p.meter = blkup_cli_lazyinit_meter_new(q->progress, q->progress_fd);
        for (size_t i = 0; i < n && n > 1; i++)
                jobs[i].disk = disk_of(jobs[i].device);
        /* This thread is one of them, and does all when no other can be made. */
        while (n_threads + 1 < want && n_threads < 64 &&
               pthread_create(&threads[n_threads], NULL, work, &p) == 0)
                n_threads++;
        (void) work(&p);
        for (size_t i = 0; i < n_threads; i++)
                (void) pthread_join(threads[i], NULL);
        blkup_cli_lazyinit_meter_free(p.meter);
}

int blkup_cli_lazyinit_exit_code(const struct blkup_cli_lazyinit_request *q,
                                 const struct blkup_cli_lazyinit_job *job)
{
        if (job->error < 0)
                return BLKUP_CLI_LAZYINIT_EXIT_OTHER;
        switch (job->result.outcome) {
        case BLKUP_LAZYINIT_REFUSED:
                return BLKUP_CLI_LAZYINIT_EXIT_REFUSED;
        case BLKUP_LAZYINIT_LEFT:
                return q->dry_run ? BLKUP_CLI_LAZYINIT_EXIT_DONE : BLKUP_CLI_LAZYINIT_EXIT_LEFT;
        default:
                return BLKUP_CLI_LAZYINIT_EXIT_DONE;
        }
}
