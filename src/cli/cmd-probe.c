/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/cmd-probe.h"
#include "cli/commands.h"
#include "cli/many.h"
#include "cli/output.h"
#include "cli/size.h"
#include "cli/timeline.h"

/* The small build has no sentences, and the prober that is alone nothing but its answer (probe-only.c). */
#define HAS_TABLE !BLKUP_ONLY_PROBE
#define HAS_TIMELINE !BLKUP_ONLY_PROBE

/* The version of docs/schema/probe.json: goes up when a field changes its meaning or disappears. */
#define PROBE_JSON_SCHEMA 1

enum {
        OPT_OUTPUT = 1,
        OPT_COLUMNS,
        OPT_JSON,
        OPT_SHOW,
        OPT_TYPES,
        OPT_USAGES,
        OPT_OFFSET,
        OPT_SIZE,
        OPT_SESSION,
        OPT_STRICT,
        OPT_PARTITIONS,
        OPT_NO_PART_ENTRY,
        OPT_NO_ENCODING,
        OPT_BYTES,
        OPT_NO_HEADINGS,
        OPT_DIRECT,
        OPT_NO_CAGE,
        OPT_IO_STATS,
        OPT_TIMELINE,
        OPT_DEBUG,
        OPT_PROBE,
        OPT_FILES_FROM,
        OPT_NULL,
        OPT_JOBS,
        OPT_TIMEOUT,
        OPT_EXPLAIN,
};

static const struct blkup_cli_option options[] = {
        /* id, letter, name, argument, its name, its words, help */
        { OPT_OUTPUT, 'o', "output", BLKUP_CLI_ARG, "MODE", "full value list device udev export",
          "full, value, device, udev or export, as blkid\n"
          "prints them (usual: full; on a terminal the table)" },
#if HAS_TABLE
        { OPT_COLUMNS, 0, "columns", BLKUP_CLI_ARG, "LIST", NULL,
          "a table of these columns, see below; +LIST adds" },
#endif
        { OPT_JSON, 0, "json", BLKUP_CLI_OPTIONAL_ARG, "lines", "lines",
          "JSON: all that is known, or the columns;\n"
          "lines: an object a line, as they come" },
        { OPT_SHOW, 's', "match-tag", BLKUP_CLI_ARG, "TAG", NULL, "print only this tag (may be repeated)" },
        { OPT_TYPES, 'n', "match-types", BLKUP_CLI_ARG, "LIST", NULL,
          "look only for these types, as vfat,ext4;\n"
          "with no before the first: for all others" },
        { OPT_USAGES, 'u', "usages", BLKUP_CLI_ARG, "LIST", NULL,
          "the same by usage: filesystem,raid,crypto,other" },
        { OPT_OFFSET, 'O', "offset", BLKUP_CLI_ARG, "BYTES", NULL,
          "begin here (suffixes K, M, G ... or KB, MB ...)" },
        { OPT_SIZE, 'S', "size", BLKUP_CLI_ARG, "BYTES", NULL, "look at this much; 0: up to the end" },
        { OPT_SESSION, 0, "session-offset", BLKUP_CLI_ARG, "BYTES", NULL,
          "where the last session of an optical disc begins" },
        { OPT_STRICT, 0, "strict", BLKUP_CLI_NO_ARG, NULL, NULL,
          "read also what can only make a find ambivalent" },
        { OPT_PARTITIONS, 0, "partitions", BLKUP_CLI_NO_ARG, NULL, NULL,
          "list the partitions too (table and JSON)" },
        { OPT_NO_PART_ENTRY, 'D', "no-part-details", BLKUP_CLI_NO_ARG, NULL, NULL,
          "nothing of the table that a partition stands in" },
        { OPT_NO_ENCODING, 'd', "no-encoding", BLKUP_CLI_NO_ARG, NULL, NULL,
          "full and export: values as they are" },
#if !BLKUP_IS_SMALL
        { OPT_EXPLAIN, 0, "explain", BLKUP_CLI_NO_ARG, NULL, NULL,
          "every candidate, and the rule that decided" },
#endif
#if HAS_TABLE
        { OPT_BYTES, 'b', "bytes", BLKUP_CLI_NO_ARG, NULL, NULL, "table: sizes in bytes" },
        { OPT_NO_HEADINGS, 0, "noheadings", BLKUP_CLI_NO_ARG, NULL, NULL,
          "table: without the names of the columns" },
#endif
        { OPT_FILES_FROM, 0, "files-from", BLKUP_CLI_ARG, "FILE", NULL,
          "many: names from FILE (- is standard input), one a\n"
          "line; in order, and a bad one ends nothing" },
        { OPT_NULL, '0', "null", BLKUP_CLI_NO_ARG, NULL, NULL,
          "the names end with a NUL, as of find -print0" },
        { OPT_JOBS, 'j', "jobs", BLKUP_CLI_ARG, "N", NULL, "look at N of many at a time (usual: one a CPU)" },
        { OPT_TIMEOUT, 0, "timeout", BLKUP_CLI_ARG, "SECONDS", NULL,
          "of many: give one up after so long, and go on" },
        { OPT_DIRECT, 0, "direct", BLKUP_CLI_ARG, "WHEN", "auto always never",
          "read past the page cache: auto, always, never" },
        { OPT_NO_CAGE, 0, "no-cage", BLKUP_CLI_NO_ARG, NULL, NULL,
          "root only: look in this process, not in a child\n"
          "that can do nothing else" },
        { OPT_IO_STATS, 0, "io-stats", BLKUP_CLI_OPTIONAL_ARG, "json", "json",
          "what it cost, a line a device on stderr" },
#if HAS_TIMELINE
        { OPT_TIMELINE, 0, "timeline", BLKUP_CLI_ARG, "FILE", NULL, BLKUP_CLI_TIMELINE_HELP },
#endif
        { OPT_DEBUG, 0, "debug", BLKUP_CLI_NO_ARG, NULL, NULL, "each read and each refusal, on stderr" },
        { OPT_PROBE, 'p', "probe", BLKUP_CLI_NO_ARG, NULL, NULL,
          "for blkid's sake: this command always probes" },
        BLKUP_CLI_STANDARD_OPTIONS,
};

/* What the command line asks for. */
struct request {
        enum blkup_cli_probe_mode mode;
        struct blkup_cli_probe_show show;
        const char *columns;
        const char *types;
        const char *usages;
        const char *timeline;
        uint64_t offset_bytes, size_bytes, session_bytes;
        bool has_mode, json, has_columns, has_session;
        bool strict, partitions, no_part_entry, no_encoding, bytes, no_headings, debug, no_cage, explain;
        enum { NO_STATS, STATS_LINES, STATS_JSON } stats;
        struct blkup_open_options open;
        const char *files_from;
        bool null_separated, is_many, json_lines;
        unsigned jobs;
        uint64_t timeout_ns;
        char **devices;
        size_t n_devices;
        char **names; /* ours, with --files-from */
        size_t n_names;
};

/* The cost of one device, kept until everything else was said: --io-stats=json is the last on stderr. */
struct cost {
        const char *device;
        struct blkup_io_stats stats;
};

struct run {
        const struct request *request;
        struct blkup_probe *probe;
        struct blkup_trace *trace;
        struct blkup_cli_probe_columns *columns;
        struct blkup_cli_probe_text text;
        struct blkup_json json;
        struct cost *costs;
        bool is_caged;
        size_t n_costs;
        const char *device; /* for the debug lines */
        /* of many */
        size_t n_emitted;
        bool had_text;
        int worst_code;
};

static int parse_jobs(const struct blkup_cli_command *self, struct request *q, const char *value)
{
        uint64_t n;

        if (!blkup_cli_probe_parse_decimal(value, strlen(value), &n) || n == 0)
                return blkup_cli_usage_error(self, "-j: '%s' is no number from 1 on", value);
        q->jobs = n < BLKUP_CLI_MANY_MAX_JOBS ? (unsigned) n : BLKUP_CLI_MANY_MAX_JOBS;
        q->is_many = true;
        return 0;
}

/* Seconds, perhaps with a fraction of up to three digits. */
static int parse_timeout(const struct blkup_cli_command *self, struct request *q, const char *value)
{
        size_t whole = strcspn(value, "."), digits = value[whole] ? strlen(value + whole + 1) : 0;
        uint64_t seconds = 0, part = 0;

        if ((whole > 0 && !blkup_cli_probe_parse_decimal(value, whole, &seconds)) || whole + digits == 0 ||
            (digits > 0 && !blkup_cli_probe_parse_decimal(value + whole + 1, digits, &part)) ||
            seconds > 86400 || digits > 3)
                return blkup_cli_usage_error(self, "--timeout: '%s' is no number of seconds, as 5 or 0.5",
                                             value);
        for (; digits < 3; digits++)
                part *= 10;
        q->timeout_ns = seconds * 1000000000 + part * 1000000;
        if (q->timeout_ns == 0)
                return blkup_cli_usage_error(self, "--timeout: 0 seconds are not enough for anything");
        q->is_many = true;
        return 0;
}

static int set_option(const struct blkup_cli_command *self, struct request *q, int id, const char *value)
{
        int word;

        switch (id) {
        case OPT_OUTPUT:
                word = blkup_cli_word(self, id, value);
                if (word < 0)
                        return self->usage_exit;
                if (word == BLKUP_CLI_PROBE_MODE_LIST)
                        return blkup_cli_usage_error(self, "-o list is not for probing; use full, value, "
                                                           "device, udev, export or --columns");
                q->mode = (enum blkup_cli_probe_mode) word;
                q->has_mode = true;
                break;
        case OPT_COLUMNS:
                q->columns = value;
                q->has_columns = true;
                break;
        case OPT_JSON:
                if (value && blkup_cli_word(self, id, value) < 0)
                        return self->usage_exit;
                q->json = true;
                q->json_lines = value != NULL;
                q->is_many |= value != NULL;
                break;
        case OPT_FILES_FROM:
                q->files_from = value;
                q->is_many = true;
                break;
        case OPT_EXPLAIN:
                q->explain = true;
                break;
        case OPT_NULL:
                q->null_separated = true;
                break;
        case OPT_JOBS:
                return parse_jobs(self, q, value);
        case OPT_TIMEOUT:
                return parse_timeout(self, q, value);
        case OPT_SHOW:
                if (q->show.n == BLKUP_CLI_PROBE_MAX_SHOW)
                        return blkup_cli_usage_error(self, "-s: at most %d tags", BLKUP_CLI_PROBE_MAX_SHOW);
                q->show.tags[q->show.n++] = value;
                break;
        case OPT_TYPES:
                q->types = value;
                break;
        case OPT_USAGES:
                q->usages = value;
                break;
        case OPT_OFFSET:
                return blkup_cli_probe_parse_size(self, "-O", value, &q->offset_bytes);
        case OPT_SIZE:
                return blkup_cli_probe_parse_size(self, "-S", value, &q->size_bytes);
        case OPT_SESSION:
                q->has_session = true;
                return blkup_cli_probe_parse_size(self, "--session-offset", value, &q->session_bytes);
        case OPT_NO_CAGE:
                q->no_cage = true;
                break;
        case OPT_STRICT:
                q->strict = true;
                break;
        case OPT_PARTITIONS:
                q->partitions = true;
                break;
        case OPT_NO_PART_ENTRY:
                q->no_part_entry = true;
                break;
        case OPT_NO_ENCODING:
                q->no_encoding = true;
                break;
        case OPT_BYTES:
                q->bytes = true;
                break;
        case OPT_NO_HEADINGS:
                q->no_headings = true;
                break;
        case OPT_DIRECT:
                word = blkup_cli_word(self, id, value);
                if (word < 0)
                        return self->usage_exit;
                q->open.direct = word == 1 ? 1 : word == 2 ? -1 : 0;
                break;
        case OPT_IO_STATS:
                q->stats = STATS_LINES;
                if (value && blkup_cli_word(self, id, value) < 0)
                        return self->usage_exit;
                if (value)
                        q->stats = STATS_JSON;
                break;
        case OPT_TIMELINE:
                if (!blkup_cli_timeline_has_suffix(value))
                        return blkup_cli_usage_error(self, "--timeline: '%s' has no known suffix; known: %s",
                                                     value, blkup_cli_timeline_suffixes);
                q->timeline = value;
                break;
        case OPT_DEBUG:
                q->debug = true;
                break;
        case OPT_PROBE:
                break;
        }
        return 0;
}

/* Options that say different things about the same. Decides the mode where none was asked for. */
static int check_request(const struct blkup_cli_command *self, struct request *q)
{
        if (q->types && q->usages)
                return blkup_cli_usage_error(self, "-u and -n exclude each other");
        if (q->has_mode && (q->json || q->has_columns))
                return blkup_cli_usage_error(self, "-o and %s exclude each other",
                                             q->json ? "--json" : "--columns");
        if (q->has_columns && q->show.n > 0)
                return blkup_cli_usage_error(self, "-s and --columns exclude each other");
        if (q->has_mode && q->partitions)
                return blkup_cli_usage_error(self, "--partitions goes with --json or --columns, not with -o");
        if (q->explain && (q->has_mode || q->has_columns || q->show.n > 0))
                return blkup_cli_usage_error(self, "--explain goes alone or with --json");
        if (q->n_devices == 0 && !q->files_from)
                return blkup_cli_usage_error(self, "no device given");
        if (q->null_separated && !q->files_from)
                return blkup_cli_usage_error(self, "-0 goes with --files-from");
        if (q->is_many && !q->json && (q->has_columns || q->partitions))
                return blkup_cli_usage_error(self, "--files-from, -j and --timeout go with -o or --json, "
                                                   "not with a table");
        if (q->is_many && q->timeline && (q->timeout_ns || q->jobs > 1))
                return blkup_cli_usage_error(self, "--timeline is of one process: not with -j and --timeout");
        if (q->timeline)
                q->jobs = 1;
        if (q->json)
                q->mode = BLKUP_CLI_PROBE_MODE_JSON;
        else if (q->explain)
                q->mode = BLKUP_CLI_PROBE_MODE_EXPLAIN;
        else if (q->is_many)
                return 0;
        else if (!HAS_TABLE)
                return q->partitions ? blkup_cli_usage_error(self, "--partitions goes with --json") : 0;
        else if (q->has_columns || (!q->has_mode && q->partitions) ||
                 (!q->has_mode && q->show.n == 0 && !q->no_encoding && isatty(STDOUT_FILENO)))
                q->mode = BLKUP_CLI_PROBE_MODE_TABLE;
        return 0;
}

static void debug_line(void *to, const char *text)
{
        const struct run *run = to;

        blkup_cli_error("probe", "%s: %s", run->device, text);
}

/* BLKUP_DEBUG=probe,io: the same as --debug, for where the command line is somebody else's. */
static bool environment_wants_debug(void)
{
        const char *at = getenv("BLKUP_DEBUG");

        /* Ends: each turn goes past one word. */
        while (at && *at) {
                size_t len = strcspn(at, ", ");

                if ((len == 5 && strncmp(at, "probe", len) == 0) ||
                    (len == 2 && strncmp(at, "io", len) == 0) || (len == 3 && strncmp(at, "all", len) == 0))
                        return true;
                at += len;
                at += strspn(at, ", ");
        }
        return false;
}

static int set_up(const struct blkup_cli_command *self, struct run *run)
{
        const struct request *q = run->request;
        struct blkup_probe *p = run->probe;
        int code = 0;

        if (q->types)
                code = blkup_cli_probe_set_types(self, p, q->types);
        else if (q->usages)
                code = blkup_cli_probe_set_usages(self, p, q->usages);
        if (code)
                return code;
        blkup_probe_set_area(p, q->offset_bytes, q->size_bytes);
        if (q->has_session)
                blkup_probe_set_session(p, q->session_bytes);
        blkup_probe_set_flags(p, (q->strict ? BLKUP_PROBE_STRICT : 0u) |
                                         (q->partitions ? BLKUP_PROBE_PARTITIONS : 0u) |
                                         (q->explain ? BLKUP_PROBE_EXPLAIN : 0u) |
                                         (q->no_part_entry ? BLKUP_PROBE_NO_PART_ENTRY : 0u));
        if (HAS_TIMELINE)
                blkup_probe_set_trace(p, run->trace);
        if (!q->no_cage)
                run->is_caged = blkup_cli_probe_start_cage(self->name, p, q->timeline != NULL || q->is_many);
        if (q->debug || environment_wants_debug())
                blkup_probe_set_debug(p, debug_line, run);
        return 0;
}

/* Prints one answer. Negative errno: memory. */
static int print_answer(struct run *run, const struct blkup_cli_probe_answer *a)
{
        const struct request *q = run->request;
        int r = 0;

        switch (q->mode) {
        case BLKUP_CLI_PROBE_MODE_JSON:
                if (HAS_TABLE && run->columns)
                        r = blkup_cli_probe_columns_json(run->columns, &run->json, a);
                else
                        blkup_cli_probe_json_device(&run->json, a, &q->show, q->partitions, q->explain);
                break;
        case BLKUP_CLI_PROBE_MODE_EXPLAIN:
                blkup_cli_probe_print_explain(run->text.out ? run->text.out : stdout, a);
                break;
        case BLKUP_CLI_PROBE_MODE_TABLE:
                r = blkup_cli_probe_columns_add(run->columns, a, q->bytes);
                break;
        default:
                blkup_cli_probe_print_text(&run->text, a);
                break;
        }
        blkup_cli_note_stdout();
        return r;
}

static int report(struct run *run, const char *device, const struct blkup_cli_probe_said *said,
                  enum blkup_verdict verdict, const struct blkup_probe *probe)
{
        if (*said->line)
                blkup_cli_error("probe", "%s", said->line);
        return print_answer(run, &(struct blkup_cli_probe_answer){
                                         .device = device,
                                         .probe = probe,
                                         .verdict = verdict,
                                         .error = said->text,
                                 });
}

/* All devices in order. The answer modes of blkid end with the first device whose result is not 0; the table
 * and JSON have a place for such results, and go on. Returns the exit code. */
static int run_devices(struct run *run)
{
        const struct request *q = run->request;
        bool goes_on = q->mode == BLKUP_CLI_PROBE_MODE_TABLE || q->mode == BLKUP_CLI_PROBE_MODE_JSON ||
                       q->mode == BLKUP_CLI_PROBE_MODE_EXPLAIN;
        size_t n_looked_at = 0;
        int first_code = 0;

        for (size_t i = 0; i < q->n_devices && (goes_on || first_code == 0); i++) {
                struct blkup_error err = { 0 };
                enum blkup_verdict verdict;
                struct blkup_cli_probe_said said;
                int r;

                run->device = q->devices[i];
                r = blkup_probe_path(run->probe, run->device, &q->open, &verdict, &err);
                if (r < 0) {
                        blkup_cli_probe_say_failure(run->device, r, &err, &said);
                        n_looked_at += !said.is_dropped;
                        r = report(run, run->device, &said, BLKUP_VERDICT_UNKNOWN, NULL);
                } else {
                        n_looked_at++;
                        if (run->costs) {
                                run->costs[run->n_costs].device = run->device;
                                blkup_probe_stats(run->probe, &run->costs[run->n_costs++].stats);
                        }
                        /* udev gets its answer about an ambivalence on stdout, and blkid says nothing else.
                         */
                        blkup_cli_probe_say_verdict(run->device, run->probe, verdict,
                                                    q->mode == BLKUP_CLI_PROBE_MODE_UDEV, &said);
                        r = report(run, run->device, &said, verdict, run->probe);
                }
                if (r < 0) {
                        blkup_cli_error("probe", "%s: %s", run->device, blkup_error_text(-r));
                        return BLKUP_CLI_PROBE_EXIT_OTHER;
                }
                if (first_code == 0)
                        first_code = said.code;
        }
        return n_looked_at > 0 ? first_code : BLKUP_CLI_PROBE_EXIT_NOTHING;
}

/*
 * Many: in other processes perhaps, so an answer is a text before it is printed.
 */

static int many_print(struct run *run, const char *device, const struct blkup_cli_probe_said *said,
                      enum blkup_verdict verdict, const struct blkup_probe *probe, FILE *out,
                      struct blkup_cli_many_said *ret)
{
        const struct blkup_cli_probe_answer a = {
                .device = device, .probe = probe, .verdict = verdict, .error = said->text,
        };
        int r;

        run->text.out = out;
        run->text.had_device = false;
        blkup_json_init(&run->json, blkup_cli_file_sink, out, false);
        r = print_answer(run, &a);
        ret->code = said->code;
        if (said->is_dropped)
                ret->code = BLKUP_CLI_PROBE_EXIT_NOTHING;
        (void) snprintf(ret->line, sizeof(ret->line), "%s", said->line);
        if (probe && run->costs) {
                blkup_probe_stats(probe, &ret->stats);
                ret->has_stats = true;
        }
        return r;
}

/* In the process that looks: its own cage, and no more rights than it needs. */
static void many_begin(void *arg)
{
        struct run *run = arg;

        if (run->is_caged)
                (void) blkup_cli_probe_start_cage("probe", run->probe, run->request->timeline != NULL);
}

static int many_one(void *arg, size_t i, FILE *out, struct blkup_cli_many_said *ret)
{
        struct run *run = arg;
        struct blkup_cli_probe_said said;
        struct blkup_error err = { 0 };
        enum blkup_verdict verdict;
        int r;

        run->device = run->request->devices[i];
        r = blkup_probe_path(run->probe, run->device, &run->request->open, &verdict, &err);
        if (r < 0) {
                blkup_cli_probe_say_failure(run->device, r, &err, &said);
                return many_print(run, run->device, &said, BLKUP_VERDICT_UNKNOWN, NULL, out, ret);
        }
        blkup_cli_probe_say_verdict(run->device, run->probe, verdict,
                                    run->request->mode == BLKUP_CLI_PROBE_MODE_UDEV, &said);
        return many_print(run, run->device, &said, verdict, run->probe, out, ret);
}

static int many_failed(void *arg, size_t i, const char *why, FILE *out, struct blkup_cli_many_said *ret)
{
        struct run *run = arg;
        struct blkup_cli_probe_said said = { .text = why, .code = BLKUP_CLI_PROBE_EXIT_OTHER };
        const char *device = run->request->devices[i];

        (void) snprintf(said.line, sizeof(said.line), "%s: %s: nothing can be said", device, why);
        return many_print(run, device, &said, BLKUP_VERDICT_UNKNOWN, NULL, out, ret);
}

/* "Cannot be said" outweighs "ambivalent", and that "nothing". */
static int worse_code(int a, int b)
{
        static const int order[] = { BLKUP_CLI_PROBE_EXIT_OTHER, BLKUP_CLI_PROBE_EXIT_AMBIVALENT,
                                     BLKUP_CLI_PROBE_EXIT_NOTHING };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(order); i++)
                if (a == order[i] || b == order[i])
                        return order[i];
        return 0;
}

static bool many_emit(void *arg, size_t i, const char *text, size_t len,
                      const struct blkup_cli_many_said *said)
{
        struct run *run = arg;
        const struct request *q = run->request;
        bool is_block = q->mode == BLKUP_CLI_PROBE_MODE_UDEV || q->mode == BLKUP_CLI_PROBE_MODE_EXPORT;

        if (*said->line)
                blkup_cli_error("probe", "%s", said->line);
        if (q->mode == BLKUP_CLI_PROBE_MODE_JSON && !q->json_lines)
                fputs(run->n_emitted > 0 ? ",\n" : "\n", stdout);
        else if (is_block && len > 0 && run->had_text)
                putchar('\n');
        (void) fwrite(text, 1, len, stdout);
        if (q->json_lines)
                putchar('\n');
        blkup_cli_note_stdout();
        if (said->has_stats && run->costs)
                run->costs[run->n_costs++] = (struct cost){ .device = q->devices[i], .stats = said->stats };
        run->n_emitted++;
        run->had_text |= len > 0;
        run->worst_code = worse_code(run->worst_code, said->code);
        return !ferror(stdout);
}

/* The array's objects stand one a line, so that they can be written as they come. */
static int run_many(struct run *run)
{
        const struct request *q = run->request;
        const struct blkup_cli_many m = {
                .n = q->n_devices, .jobs = q->jobs, .timeout_ns = q->timeout_ns, .arg = run,
                .begin = many_begin, .one = many_one, .failed = many_failed, .emit = many_emit,
                .keep_stderr = q->debug,
        };
        bool is_array = q->mode == BLKUP_CLI_PROBE_MODE_JSON && !q->json_lines;
        int r;

        if (is_array)
                printf("{\"blkup\":{\"version\":\"%s\",\"schema\":%d},\"cage\":%s,\"devices\":[",
                       BLKUP_VERSION, PROBE_JSON_SCHEMA, run->is_caged ? "true" : "false");
        /* That a cage can be made is known now. Each process makes one of its own: they cannot share it. */
        (void) blkup_probe_set_cage(run->probe, false);
        r = blkup_cli_many_run(&m);
        if (is_array)
                printf("\n]}\n");
        if (r < 0) {
                blkup_cli_error("probe", "cannot go on: %s", blkup_error_text(-r));
                return BLKUP_CLI_PROBE_EXIT_OTHER;
        }
        return q->n_devices > 0 ? run->worst_code : BLKUP_CLI_PROBE_EXIT_NOTHING;
}

/* The answer: what comes before, between and after the devices on stdout. */
static int answer(struct run *run)
{
        const struct request *q = run->request;
        int code, r;

        if (q->is_many) {
                code = run_many(run);
                r = 0;
        } else if (q->mode == BLKUP_CLI_PROBE_MODE_JSON) {
                struct blkup_json *j = &run->json;

                blkup_json_init(j, blkup_cli_file_sink, stdout, true);
                blkup_json_begin_object(j);
                blkup_json_key(j, "blkup");
                blkup_json_begin_object(j);
                blkup_json_key(j, "version");
                blkup_json_string(j, BLKUP_VERSION);
                blkup_json_key(j, "schema");
                blkup_json_u64(j, PROBE_JSON_SCHEMA);
                blkup_json_end_object(j);
                blkup_json_key(j, "cage");
                blkup_json_bool(j, run->is_caged);
                blkup_json_key(j, "devices");
                blkup_json_begin_array(j);
                code = run_devices(run);
                blkup_json_end_array(j);
                blkup_json_end_object(j);
                blkup_json_newline(j);
                r = blkup_json_finish(j);
        } else {
                code = run_devices(run);
                r = q->mode == BLKUP_CLI_PROBE_MODE_TABLE
                            ? blkup_cli_probe_columns_print(run->columns, !q->no_headings)
                            : 0;
        }
        blkup_cli_note_stdout();
        /* A failed stdout is told by the flush. */
        if (r < 0 && !ferror(stdout)) {
                blkup_cli_error("probe", "cannot print: %s", blkup_error_text(-r));
                code = BLKUP_CLI_PROBE_EXIT_OTHER;
        }
        return blkup_cli_finish_stdout("probe", code, BLKUP_CLI_PROBE_EXIT_OTHER);
}

static int finish_timeline(const struct run *run, int code)
{
        struct blkup_error err = { 0 };

        if (!HAS_TIMELINE || !run->request->timeline)
                return code;
        if (blkup_cli_write_timeline(run->trace, "blkup probe", run->request->timeline, &err) < 0) {
                blkup_cli_error("probe", "%s", err.message);
                return BLKUP_CLI_PROBE_EXIT_OTHER;
        }
        return code;
}

static int run_request(const struct blkup_cli_command *self, struct run *run)
{
        int code = set_up(self, run);

        if (code)
                return code;
        code = finish_timeline(run, answer(run));
        for (size_t i = 0; i < run->n_costs; i++) {
                if (run->request->stats == STATS_JSON)
                        blkup_cli_probe_print_stats_json(run->costs[i].device, &run->costs[i].stats);
                else
                        blkup_cli_probe_print_stats(run->costs[i].device, &run->costs[i].stats);
        }
        return code;
}

/* Makes what the request needs. */
static int make_run(const struct blkup_cli_command *self, const struct request *q, struct run *run)
{
        const char *unknown;
        char known[512];
        size_t len;
        int r = 0;

        *run = (struct run){
                .request = q,
                .text = { .mode = q->mode, .show = &q->show, .no_encoding = q->no_encoding },
        };
        if (HAS_TABLE && (q->mode == BLKUP_CLI_PROBE_MODE_TABLE || q->has_columns))
                r = blkup_cli_probe_columns_new(q->columns, &run->columns, &unknown, &len);
        if (r == -EINVAL)
                return blkup_cli_usage_error(self, "--columns: unknown column '%.*s'; known: %s",
                                             (int) (len > 200 ? 200 : len), unknown,
                                             blkup_cli_probe_column_names(known, sizeof(known)));
        run->probe = blkup_probe_new();
        if (HAS_TIMELINE && q->timeline)
                run->trace = blkup_trace_new(0);
        if (q->stats != NO_STATS)
                run->costs = calloc(q->n_devices, sizeof(*run->costs));
        if (r < 0 || !run->probe || (q->timeline && !run->trace) || (q->stats != NO_STATS && !run->costs)) {
                blkup_cli_error(self->name, "out of memory");
                return BLKUP_CLI_PROBE_EXIT_OTHER;
        }
        return 0;
}

/* The devices of the command line, then those of the list. */
static int read_names(struct request *q)
{
        int r = 0;

        if (!q->files_from)
                return 0;
        for (size_t i = 0; i < q->n_devices && r == 0; i++)
                r = blkup_cli_many_add_name(q->devices[i], &q->names, &q->n_names);
        if (r == 0)
                r = blkup_cli_many_read_names(q->files_from, q->null_separated ? '\0' : '\n', &q->names,
                                              &q->n_names);
        if (r < 0) {
                blkup_cli_error("probe", "--files-from: %s: %s", q->files_from, blkup_error_text(-r));
                return BLKUP_CLI_PROBE_EXIT_OTHER;
        }
        q->devices = q->names;
        q->n_devices = q->n_names;
        return 0;
}

static void free_names(struct request *q)
{
        for (size_t i = 0; i < q->n_names; i++)
                free(q->names[i]);
        free(q->names);
}

static void free_run(struct run *run)
{
        blkup_probe_unref(run->probe);
        if (HAS_TIMELINE)
                blkup_trace_unref(run->trace);
        blkup_cli_probe_columns_free(run->columns);
        free(run->costs);
}

static int run_probe(const struct blkup_cli_command *self, int argc, char **argv)
{
        struct blkup_cli_parser parser;
        struct request q = { .mode = BLKUP_CLI_PROBE_MODE_FULL };
        struct run run;
        const char *value;
        int id, code;

        blkup_cli_parser_init(&parser, self, argc, argv, false);
        while ((id = blkup_cli_next(&parser, &value)) > 0) {
                code = set_option(self, &q, id, value);
                if (code)
                        return code;
        }
        if (id < 0)
                return parser.exit_code;
        q.devices = argv + parser.first;
        q.n_devices = (size_t) (argc - parser.first);
        code = check_request(self, &q);
        if (code)
                return code;
        code = read_names(&q);
        if (code == 0) {
                code = make_run(self, &q, &run);
                if (code == 0)
                        code = run_request(self, &run);
                free_run(&run);
        }
        free_names(&q);
        return code;
}

const struct blkup_cli_command blkup_cli_command_probe = {
        .name = "probe",
        .help = "Says what is on a device, with the least I/O.",
        .synopsis = "[options] DEVICE...",
        .called_as = "blkup-probe",
        .options = options,
        .n_options = BLKUP_ARRAY_SIZE(options),
        .usage_exit = BLKUP_CLI_PROBE_EXIT_OTHER,
#if HAS_TABLE
        .print_more = blkup_cli_probe_print_column_help,
#endif
        .run = run_probe,
};
