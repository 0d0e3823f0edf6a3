/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/encode.h"
#include "base/json.h"
#include "cli/mount-output.h"
#include "cli/output.h"
#include "cli/table.h"

#define CAUSE_BYTES 2048

int blkup_cli_mount_explain(struct blkup_cli_mount_report *r)
{
        struct blkup_explainer *e = blkup_explainer_new(NULL);
        char text[CAUSE_BYTES];

        r->causes = calloc(r->n + 1, sizeof(*r->causes));
        if (!e || !r->causes) {
                blkup_explainer_unref(e);
                return -ENOMEM;
        }
        for (size_t i = 0; i < r->n; i++) {
                text[0] = '\0';
                if (r->results[i].outcome == BLKUP_MOUNT_DONE)
                        blkup_explain_notes(&r->results[i], text, sizeof(text));
                else if (r->results[i].outcome != BLKUP_MOUNT_ALREADY && r->requests)
                        blkup_explain_mount(e, &r->requests[i], &r->results[i], text, sizeof(text));
                else if (r->results[i].outcome != BLKUP_MOUNT_ALREADY)
                        blkup_explain_umount(e, &r->results[i], text, sizeof(text));
                r->causes[i] = strdup(text);
                if (!r->causes[i]) {
                        blkup_explainer_unref(e);
                        return -ENOMEM;
                }
        }
        blkup_explainer_unref(e);
        return 0;
}

void blkup_cli_mount_free_causes(struct blkup_cli_mount_report *r)
{
        for (size_t i = 0; r->causes && i < r->n; i++)
                free(r->causes[i]);
        free(r->causes);
        r->causes = NULL;
}

static const char *outcome_name(const struct blkup_cli_mount_report *r, size_t i)
{
        switch (r->results[i].outcome) {
        case BLKUP_MOUNT_DONE:
                return r->dry_run ? "would" : r->requests ? "mounted" : "unmounted";
        case BLKUP_MOUNT_ALREADY:
                return "already";
        case BLKUP_MOUNT_SKIPPED:
                return "skipped";
        case BLKUP_MOUNT_FAILED:
                break;
        }
        return "failed";
}

static const char *name_of(const struct blkup_mount_result *r)
{
        return r->target ? r->target : r->source;
}

void blkup_cli_mount_print_messages(const struct blkup_cli_mount_report *r)
{
        for (size_t i = 0; r->fstab && i < r->fstab->n_bad; i++)
                blkup_cli_error(r->command, "fstab line %u: %s; the line is left out", r->fstab->bad[i].line,
                                r->fstab->bad[i].why);
        for (size_t i = 0; i < r->n; i++) {
                const struct blkup_mount_result *m = &r->results[i];

                if (m->outcome == BLKUP_MOUNT_FAILED && r->requests && r->requests[i].line)
                        blkup_cli_error(r->command, "%s (fstab line %u): %s", name_of(m), r->requests[i].line,
                                        blkup_cli_without_name(r->causes[i], name_of(m)));
                else if (m->outcome == BLKUP_MOUNT_FAILED)
                        blkup_cli_error_of(r->command, name_of(m), r->causes[i]);
                else if (m->outcome == BLKUP_MOUNT_DONE && *r->causes[i])
                        blkup_cli_error_of(r->command, name_of(m), r->causes[i]);
                else if (r->verbose)
                        blkup_cli_error(r->command, "%s: %s%s%s", name_of(m), outcome_name(r, i),
                                        *r->causes[i] ? ": " : "", r->causes[i]);
        }
}

/* ---- the step table ---- */

static const char *const step_columns[] = { "wait",    "identify", "loop",    "fsopen",
                                            "options", "CREATE",   "fsmount", "attach" };
enum { N_STEPS = 8, FIRST_STEP = 5, OTHER = FIRST_STEP + N_STEPS, N_COLUMNS };

static uint64_t step_ns(const struct blkup_mount_result *m, const char *name)
{
        uint64_t sum = 0;

        for (unsigned i = 0; i < m->n_steps; i++)
                if (strcmp(m->steps[i].name, name) == 0)
                        sum += m->steps[i].end_ns - m->steps[i].start_ns;
        return sum;
}

static int set_us(struct blkup_cli_table *t, size_t row, size_t column, uint64_t ns)
{
        char text[32];
        int n;

        if (ns == 0)
                return 0;
        n = snprintf(text, sizeof(text), "%" PRIu64 ".%" PRIu64, ns / 1000, ns % 1000 / 100);
        return blkup_cli_table_set(t, row, column, text, (size_t) n);
}

static int set_text(struct blkup_cli_table *t, size_t row, size_t column, const char *text)
{
        return blkup_cli_table_set(t, row, column, text, strlen(text));
}

static int add_times(const struct blkup_cli_mount_report *r, struct blkup_cli_table *t, size_t i,
                     uint64_t first_ns)
{
        const struct blkup_mount_result *m = &r->results[i];
        uint64_t rest = m->end_ns - m->start_ns;
        size_t row;
        int e = blkup_cli_table_add_row(t, BLKUP_CLI_NO_PARENT,
                                        m->outcome == BLKUP_MOUNT_FAILED ? BLKUP_CLI_RED : BLKUP_CLI_PLAIN,
                                        &row);

        if (e == 0)
                e = set_text(t, row, 0, name_of(m));
        if (e == 0)
                e = set_text(t, row, 1, m->type);
        if (e == 0)
                e = set_text(t, row, 2, outcome_name(r, i));
        if (e == 0 && m->start_ns)
                e = set_us(t, row, 3, m->start_ns - first_ns);
        if (e == 0)
                e = set_us(t, row, 4, m->end_ns - m->start_ns);
        for (size_t k = 0; e == 0 && k < N_STEPS; k++) {
                uint64_t ns = step_ns(m, step_columns[k]);

                e = set_us(t, row, FIRST_STEP + k, ns);
                rest -= ns < rest ? ns : rest;
        }
        return e == 0 ? set_us(t, row, OTHER, rest) : e;
}

int blkup_cli_mount_print_times(const struct blkup_cli_mount_report *r)
{
        static const struct blkup_cli_column columns[N_COLUMNS] = {
                { .name = "TARGET" }, { .name = "TYPE" }, { .name = "STATE" },
                { .name = "START-US", .right = true }, { .name = "TOTAL-US", .right = true },
                { .name = "WAIT", .right = true }, { .name = "IDENTIFY", .right = true },
                { .name = "LOOP", .right = true }, { .name = "FSOPEN", .right = true },
                { .name = "OPTIONS", .right = true }, { .name = "CREATE", .right = true },
                { .name = "FSMOUNT", .right = true }, { .name = "ATTACH", .right = true },
                { .name = "OTHER", .right = true },
        };
        struct blkup_cli_table *t = blkup_cli_table_new(columns, N_COLUMNS);
        uint64_t first = UINT64_MAX;
        int e = t ? 0 : -ENOMEM;

        for (size_t i = 0; i < r->n; i++)
                if (r->results[i].start_ns && r->results[i].start_ns < first)
                        first = r->results[i].start_ns;
        for (size_t i = 0; e == 0 && i < r->n; i++)
                e = add_times(r, t, i, first);
        if (e == 0)
                e = blkup_cli_table_print(t, true);
        blkup_cli_table_free(t);
        blkup_cli_note_stdout();
        return e;
}

/* ---- the graph ---- */

static void print_safe(const char *text)
{
        char safe[4 * 1024];
        size_t n = strlen(text);

        (void) blkup_encode_terminal(text, n < 1023 ? n : 1023, safe, sizeof(safe));
        fputs(safe, stdout);
}

void blkup_cli_mount_print_graph(const struct blkup_cli_mount_report *r)
{
        size_t *needs = calloc(r->n + 1, sizeof(*needs));

        for (size_t i = 0; needs && i < r->n; i++) {
                size_t n = r->graph ? blkup_mount_graph_needs(r->graph, i, needs, r->n) : 0;

                print_safe(name_of(&r->results[i]));
                fputs(": ", stdout);
                print_safe(r->results[i].source);
                if (*r->results[i].type)
                        printf(" (%s)", r->results[i].type);
                printf("%s\n", r->results[i].outcome == BLKUP_MOUNT_ALREADY ? ", already mounted" : "");
                for (size_t k = 0; k < n; k++) {
                        fputs("  after ", stdout);
                        print_safe(r->requests[needs[k]].target);
                        printf(" (%s)\n", blkup_mount_graph_why(r->graph, i, needs[k]));
                }
        }
        free(needs);
        blkup_cli_note_stdout();
}

/* ---- JSON ---- */

static void json_text(struct blkup_json *j, const char *key, const char *text)
{
        if (!text || !*text)
                return;
        blkup_json_key(j, key);
        blkup_json_string(j, text);
}

static void json_steps(struct blkup_json *j, const struct blkup_mount_result *m, uint64_t first)
{
        blkup_json_key(j, "steps");
        blkup_json_begin_array(j);
        for (unsigned i = 0; i < m->n_steps; i++) {
                blkup_json_begin_object(j);
                json_text(j, "name", m->steps[i].name);
                blkup_json_key(j, "start_us");
                blkup_json_double(j, (double) (m->steps[i].start_ns - first) / 1000, 1);
                blkup_json_key(j, "us");
                blkup_json_double(j, (double) (m->steps[i].end_ns - m->steps[i].start_ns) / 1000, 1);
                blkup_json_end_object(j);
        }
        blkup_json_end_array(j);
}

static void json_needs(struct blkup_json *j, const struct blkup_cli_mount_report *r, size_t i)
{
        size_t *needs = calloc(r->n + 1, sizeof(*needs));
        size_t n = needs ? blkup_mount_graph_needs(r->graph, i, needs, r->n) : 0;

        blkup_json_key(j, "after");
        blkup_json_begin_array(j);
        for (size_t k = 0; k < n; k++) {
                blkup_json_begin_object(j);
                json_text(j, "target", r->requests[needs[k]].target);
                json_text(j, "why", blkup_mount_graph_why(r->graph, i, needs[k]));
                blkup_json_end_object(j);
        }
        blkup_json_end_array(j);
        free(needs);
}

static void json_mount(struct blkup_json *j, const struct blkup_cli_mount_report *r, size_t i, uint64_t first)
{
        const struct blkup_mount_result *m = &r->results[i];

        blkup_json_begin_object(j);
        json_text(j, "target", m->target);
        json_text(j, "source", m->source);
        json_text(j, "device", m->device);
        json_text(j, "type", m->type);
        if (r->requests && r->requests[i].line) {
                blkup_json_key(j, "line");
                blkup_json_u64(j, r->requests[i].line);
        }
        blkup_json_key(j, "outcome");
        blkup_json_string(j, outcome_name(r, i));
        if (m->outcome == BLKUP_MOUNT_FAILED || m->outcome == BLKUP_MOUNT_SKIPPED) {
                blkup_json_key(j, "errno");
                blkup_json_i64(j, -m->error);
                json_text(j, "cause", r->causes[i]);
                json_text(j, "log", m->log);
                json_text(j, "kernel", m->kernel);
        } else {
                json_text(j, "note", r->causes[i]);
                blkup_json_key(j, "read_only");
                blkup_json_bool(j, m->is_read_only);
        }
        if (m->start_ns) {
                blkup_json_key(j, "start_us");
                blkup_json_double(j, (double) (m->start_ns - first) / 1000, 1);
                blkup_json_key(j, "us");
                blkup_json_double(j, (double) (m->end_ns - m->start_ns) / 1000, 1);
                json_steps(j, m, first);
        }
        if (r->graph)
                json_needs(j, r, i);
        blkup_json_end_object(j);
}

int blkup_cli_mount_print_json(const struct blkup_cli_mount_report *r, int code)
{
        struct blkup_json j;
        uint64_t first = UINT64_MAX;

        for (size_t i = 0; i < r->n; i++)
                if (r->results[i].start_ns && r->results[i].start_ns < first)
                        first = r->results[i].start_ns;
        blkup_json_init(&j, blkup_cli_file_sink, stdout, true);
        blkup_json_begin_object(&j);
        blkup_json_key(&j, "blkup");
        blkup_json_begin_object(&j);
        json_text(&j, "version", BLKUP_VERSION);
        blkup_json_key(&j, "schema");
        blkup_json_u64(&j, BLKUP_CLI_MOUNT_SCHEMA);
        blkup_json_end_object(&j);
        blkup_json_key(&j, r->requests ? "mounts" : "umounts");
        blkup_json_begin_array(&j);
        for (size_t i = 0; i < r->n; i++)
                json_mount(&j, r, i, first);
        blkup_json_end_array(&j);
        if (r->fstab) {
                blkup_json_key(&j, "bad_lines");
                blkup_json_begin_array(&j);
                for (size_t i = 0; i < r->fstab->n_bad; i++) {
                        blkup_json_begin_object(&j);
                        blkup_json_key(&j, "line");
                        blkup_json_u64(&j, r->fstab->bad[i].line);
                        json_text(&j, "why", r->fstab->bad[i].why);
                        blkup_json_end_object(&j);
                }
                blkup_json_end_array(&j);
        }
        blkup_json_key(&j, "exit_code");
        blkup_json_i64(&j, code);
        blkup_json_end_object(&j);
        blkup_json_newline(&j);
        blkup_cli_note_stdout();
        return blkup_json_finish(&j);
}

int blkup_cli_mount_exit_code(const struct blkup_cli_mount_report *r)
{
        size_t failed = r->fstab ? r->fstab->n_bad : 0, good = 0;
        bool usage = false;

        for (size_t i = 0; i < r->n; i++) {
                if (r->results[i].outcome == BLKUP_MOUNT_FAILED) {
                        failed++;
                        usage |= r->results[i].call == BLKUP_MOUNT_CALL_OPTIONS;
                } else {
                        good++;
                }
        }
        if (failed == 0)
                return 0;
        if (good > 0)
                return BLKUP_CLI_MOUNT_EXIT_SOME;
        return usage && r->n == 1 && !r->many ? BLKUP_CLI_MOUNT_EXIT_USAGE : BLKUP_CLI_MOUNT_EXIT_FAILED;
}
