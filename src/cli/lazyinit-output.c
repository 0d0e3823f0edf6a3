/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What lazyinit says: the line of a device, JSON, and progress. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/encode.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/cmd-lazyinit.h"
#include "cli/output.h"
#include "cli/size.h"

void blkup_cli_lazyinit_format_time(uint64_t ns, char *out, size_t cap)
{
        uint64_t s = (ns + 500000000) / 1000000000;

        if (s >= 3600)
                (void) snprintf(out, cap, "%" PRIu64 ":%02u:%02u", s / 3600, (unsigned) (s / 60 % 60),
                                (unsigned) (s % 60));
        else
                (void) snprintf(out, cap, "%u:%02u", (unsigned) (s / 60), (unsigned) (s % 60));
}

/* ---- progress ---- */

struct blkup_cli_lazyinit_meter {
        enum blkup_cli_lazyinit_progress what;
        int fd;
        bool has_line; /* on the terminal, without its end */
        pthread_mutex_t lock;
};

struct blkup_cli_lazyinit_meter *blkup_cli_lazyinit_meter_new(enum blkup_cli_lazyinit_progress what, int fd)
{
        struct blkup_cli_lazyinit_meter *m;

        if (what == BLKUP_CLI_PROGRESS_NONE || (what == BLKUP_CLI_PROGRESS_AUTO && !isatty(fd)))
                return NULL;
        m = calloc(1, sizeof(*m));
        if (!m)
                return NULL;
        m->what = what;
        m->fd = fd;
        (void) pthread_mutex_init(&m->lock, NULL);
        return m;
}

static int memory_sink(void *to, const char *s, size_t n)
{
        char *line = to;
        size_t have = strlen(line);

        if (have + n >= 2048)
                return -ENOSPC;
        memcpy(line + have, s, n);
        line[have + n] = '\0';
        return 0;
}

static double rate_of(const struct blkup_lazyinit_progress *p)
{
        return p->ns > 0 ? (double) p->bytes_done * 1e9 / (double) p->ns : 0;
}

static void tell_json(struct blkup_cli_lazyinit_meter *m, const struct blkup_lazyinit_progress *p)
{
        char line[2048] = "";
        struct blkup_json j;

        blkup_json_init(&j, memory_sink, line, false);
        blkup_json_begin_object(&j);
        blkup_json_key(&j, "device");
        blkup_json_string(&j, p->device);
        blkup_json_key(&j, "groups_todo");
        blkup_json_u64(&j, p->groups_todo);
        blkup_json_key(&j, "groups_done");
        blkup_json_u64(&j, p->groups_done);
        blkup_json_key(&j, "bytes_todo");
        blkup_json_u64(&j, p->bytes_todo);
        blkup_json_key(&j, "bytes_done");
        blkup_json_u64(&j, p->bytes_done);
        blkup_json_key(&j, "bytes_per_s");
        blkup_json_double(&j, rate_of(p), 0);
        blkup_json_key(&j, "eta_s");
        if (p->eta_ns == UINT64_MAX)
                blkup_json_null(&j);
        else
                blkup_json_double(&j, (double) p->eta_ns / 1e9, 3);
        blkup_json_end_object(&j);
        blkup_json_newline(&j);
        if (blkup_json_finish(&j) == 0)
                (void) !write(m->fd, line, strlen(line));
}

static void tell_terminal(struct blkup_cli_lazyinit_meter *m, const struct blkup_lazyinit_progress *p)
{
        char name[128], line[384], left[32] = "?", rate[32];
        const char *device = strlen(p->device) > 30 ? p->device + strlen(p->device) - 30 : p->device;
        double percent = p->bytes_todo > 0 ? 100.0 * (double) p->bytes_done / (double) p->bytes_todo : 100;
        int n;

        (void) blkup_encode_terminal(device, strlen(device), name, sizeof(name));
        blkup_cli_format_size((uint64_t) rate_of(p), rate, sizeof(rate));
        if (p->eta_ns != UINT64_MAX)
                blkup_cli_lazyinit_format_time(p->eta_ns, left, sizeof(left));
        n = snprintf(line, sizeof(line),
                     "\r%s: %3.0f%%, %" PRIu32 " of %" PRIu32 " groups, %s/s, %s left\033[K", name, percent,
                     p->groups_done, p->groups_todo, rate, left);
        if (n > 0 && (size_t) n < sizeof(line))
                (void) !write(m->fd, line, (size_t) n);
        m->has_line = true;
}

void blkup_cli_lazyinit_meter_tell(void *meter, const struct blkup_lazyinit_progress *p)
{
        struct blkup_cli_lazyinit_meter *m = meter;

        (void) pthread_mutex_lock(&m->lock);
        if (m->what == BLKUP_CLI_PROGRESS_JSON)
                tell_json(m, p);
        else
                tell_terminal(m, p);
        (void) pthread_mutex_unlock(&m->lock);
}

void blkup_cli_lazyinit_meter_free(struct blkup_cli_lazyinit_meter *m)
{
        if (!m)
                return;
        if (m->has_line)
                (void) !write(m->fd, "\r\033[K", 4);
        (void) pthread_mutex_destroy(&m->lock);
        free(m);
}

/* ---- the answer ---- */

/* The message without the device that it may begin with, which is printed anyway. */
static const char *message_of(const struct blkup_cli_lazyinit_job *job)
{
        size_t n = strlen(job->device);
        const char *m = job->err.message;

        if (!*m)
                return blkup_error_text(-job->error);
        return strncmp(m, job->device, n) == 0 && strncmp(m + n, ": ", 2) == 0 ? m + n + 2 : m;
}

static void print_done(const struct blkup_cli_lazyinit_job *job, const char *name)
{
        const struct blkup_lazyinit_result *r = &job->result;
        uint64_t made = r->bytes_written + r->bytes_offloaded + r->bytes_punched;
        uint32_t done = r->groups_left_before - r->groups_left;
        char todo[32], was[32], wrote[32];

        if (!r->has_group_checksums ||
            (r->groups_left_before == 0 && r->groups_stale == 0 && r->bytes_journal == 0)) {
                printf("%s: nothing to do%s%s\n", name, *r->reason ? ": " : "", r->reason);
                return;
        }
        blkup_cli_format_size(r->bytes_todo, todo, sizeof(todo));
        blkup_cli_format_size(r->bytes_already_zero, was, sizeof(was));
        blkup_cli_format_size(made, wrote, sizeof(wrote));
        printf("%s: %" PRIu32 " of %" PRIu32 " groups finished, %s of tables: %s were zero, %s %s; %.3f s\n",
               name, done, r->groups_left_before, todo, was, wrote,
               r->bytes_punched  ? "given back"
               : r->is_offloaded ? "zeroed by the device or file system"
                                 : "written",
               (double) (r->ns + r->plan_ns) / 1e9);
        if (r->groups_stale > 0)
                printf("%s: %" PRIu32 " groups were marked as finished and held old data\n", name,
                       r->groups_stale);
}

void blkup_cli_lazyinit_print(const struct blkup_cli_lazyinit_request *q,
                              const struct blkup_cli_lazyinit_job *job)
{
        const struct blkup_lazyinit_result *r = &job->result;
        char name[1024], todo[32];

        (void) blkup_encode_terminal(job->device, strlen(job->device), name, sizeof(name));
        if (job->error < 0) {
                blkup_cli_error("lazyinit", "%s: %s%s", job->device, message_of(job),
                                blkup_cli_try_as_root(job->error));
                if (r->groups_left_before > r->groups_left)
                        blkup_cli_error("lazyinit",
                                        "%s: %" PRIu32 " of %" PRIu32 " groups were finished before",
                                        job->device, r->groups_left_before - r->groups_left,
                                        r->groups_left_before);
                return;
        }
        if (r->outcome == BLKUP_LAZYINIT_REFUSED) {
                blkup_cli_error("lazyinit", "%s: refused (%s): %s; %s", job->device,
                                blkup_lazyinit_refusal_name(r->refusal), r->reason,
                                blkup_lazyinit_refusal_advice(r->refusal));
                return;
        }
        if (r->was_stopped)
                blkup_cli_error("lazyinit",
                                "%s: stopped: %" PRIu32 " of %" PRIu32 " groups are finished; run it again "
                                "to go on",
                                job->device, r->groups_left_before - r->groups_left, r->groups_left_before);
        if (q->json || r->was_stopped)
                return;
        if (!q->options.only_check || r->outcome == BLKUP_LAZYINIT_DONE) {
                print_done(job, name);
                return;
        }
        blkup_cli_format_size(r->bytes_todo, todo, sizeof(todo));
        printf("%s: %" PRIu32 " of %" PRIu32 " groups left, %s of tables\n", name, r->groups_left, r->groups,
               todo);
        if (r->groups_stale > 0)
                printf("%s: %" PRIu32 " groups are marked as finished and hold old data\n", name,
                       r->groups_stale);
}

static void json_u64(struct blkup_json *j, const char *key, uint64_t v)
{
        blkup_json_key(j, key);
        blkup_json_u64(j, v);
}

static void json_bool(struct blkup_json *j, const char *key, bool v)
{
        blkup_json_key(j, key);
        blkup_json_bool(j, v);
}

static void json_string(struct blkup_json *j, const char *key, const char *v)
{
        blkup_json_key(j, key);
        blkup_json_string(j, v);
}

static void json_job(const struct blkup_cli_lazyinit_request *q, struct blkup_json *j,
                     const struct blkup_cli_lazyinit_job *job)
{
        static const char *const outcomes[] = { "done", "left", "refused" };
        const struct blkup_lazyinit_result *r = &job->result;
        uint64_t paid = r->units > 1 ? r->busy_ns - r->last_unit_ns : r->busy_ns;

        blkup_json_begin_object(j);
        json_string(j, "device", job->device);
        json_string(j, "outcome", job->error < 0 ? "failed" : outcomes[r->outcome]);
        if (job->error < 0)
                json_string(j, "error", message_of(job));
        if (job->error == 0 && r->outcome == BLKUP_LAZYINIT_REFUSED) {
                json_string(j, "refusal", blkup_lazyinit_refusal_name(r->refusal));
                json_string(j, "advice", blkup_lazyinit_refusal_advice(r->refusal));
        }
        if (*r->reason)
                json_string(j, "reason", r->reason);
        json_bool(j, "group_checksums", r->has_group_checksums);
        json_bool(j, "stopped", r->was_stopped);
        json_u64(j, "groups", r->groups);
        json_u64(j, "groups_left_before", r->groups_left_before);
        json_u64(j, "groups_left", r->groups_left);
        json_u64(j, "groups_stale", r->groups_stale);
        json_u64(j, "bytes_todo", r->bytes_todo);
        json_u64(j, "bytes_already_zero", r->bytes_already_zero);
        json_u64(j, "bytes_written", r->bytes_written);
        json_u64(j, "bytes_offloaded", r->bytes_offloaded);
        json_u64(j, "bytes_punched", r->bytes_punched);
        json_u64(j, "bytes_journal", r->bytes_journal);
        blkup_json_key(j, "allocated_change_bytes");
        blkup_json_i64(j, r->allocated_change_bytes);
        json_u64(j, "requests", r->requests);
        json_u64(j, "offload_refusals", r->offload_refusals);
        json_u64(j, "flushes", r->flushes);
        json_u64(j, "batches", r->batches);
        json_bool(j, "library_asked", r->library_asked);
        json_u64(j, "plan_ns", r->plan_ns);
        json_u64(j, "ns", r->ns);
        if (q->options.background) {
                blkup_json_key(j, "background");
                blkup_json_begin_object(j);
                json_u64(j, "wait_mult", q->options.wait_mult);
                json_u64(j, "units", r->units);
                json_u64(j, "largest_unit_groups", r->largest_unit_groups);
                json_u64(j, "busy_ns", r->busy_ns);
                json_u64(j, "wait_ns", r->wait_ns);
                json_u64(j, "yield_ns", r->yield_ns);
                blkup_json_key(j, "duty_cycle");
                /* No wait follows the last unit. */
                if (paid == 0)
                        blkup_json_null(j);
                else
                        blkup_json_double(j, (double) paid / (double) (paid + r->wait_ns), 4);
                blkup_json_end_object(j);
        }
        blkup_json_end_object(j);
}

int blkup_cli_lazyinit_print_json(const struct blkup_cli_lazyinit_request *q,
                                  const struct blkup_cli_lazyinit_job *jobs, size_t n)
{
        struct blkup_json j;

        blkup_json_init(&j, blkup_cli_file_sink, stdout, true);
        blkup_json_begin_object(&j);
        blkup_json_key(&j, "blkup");
        blkup_json_begin_object(&j);
        json_string(&j, "version", BLKUP_VERSION);
        json_u64(&j, "schema", BLKUP_CLI_LAZYINIT_SCHEMA);
        blkup_json_end_object(&j);
        json_bool(&j, "dry_run", q->options.only_check);
        blkup_json_key(&j, "devices");
        blkup_json_begin_array(&j);
        for (size_t i = 0; i < n; i++)
                json_job(q, &j, &jobs[i]);
        blkup_json_end_array(&j);
        blkup_json_end_object(&j);
        blkup_json_newline(&j);
        return blkup_json_finish(&j);
}
