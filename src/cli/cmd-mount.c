/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/encode.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/mount-output.h"
#include "cli/output.h"
#include "cli/tags.h"
#include "cli/timeline.h"
#include "host/mountinfo.h"
#include "mount/names.h"

enum {
        OPT_ALL = 1,
        OPT_FSTAB,
        OPT_JOBS,
        OPT_TYPES,
        OPT_OPTIONS,
        OPT_TEST_OPTS,
        OPT_READ_ONLY,
        OPT_READ_WRITE,
        OPT_LABEL,
        OPT_UUID,
        OPT_SOURCE,
        OPT_TARGET,
        OPT_BIND,
        OPT_RBIND,
        OPT_MOVE,
        OPT_SHARED,
        OPT_SLAVE,
        OPT_PRIVATE,
        OPT_UNBINDABLE,
        OPT_RSHARED,
        OPT_RSLAVE,
        OPT_RPRIVATE,
        OPT_RUNBINDABLE,
        OPT_MKDIR,
        OPT_WAIT,
        OPT_DRY_RUN,
        OPT_INTERNAL,
        OPT_FORK,
        OPT_NO_MTAB,
        OPT_TIME,
        OPT_JSON,
        OPT_TIMELINE,
        OPT_HIBERNATION,
        OPT_VERBOSE,
};

static const struct blkup_cli_option options[] = {
        { OPT_ALL, 'a', "all", BLKUP_CLI_NO_ARG, NULL, NULL,
          "everything in the fstab, in parallel by graph" },
        { OPT_FSTAB, 'T', "fstab", BLKUP_CLI_ARG, "FILE", NULL, "another fstab than /etc/fstab" },
        { OPT_JOBS, 'j', "jobs", BLKUP_CLI_ARG, "N", NULL, "at most N at a time (usual: 64)" },
        { OPT_TYPES, 't', "types", BLKUP_CLI_ARG, "LIST", NULL,
          "the type; with -a only these, or with no\nbefore the list all others" },
        { OPT_OPTIONS, 'o', "options", BLKUP_CLI_ARG, "LIST", NULL, "mount options, separated by commas" },
        { OPT_TEST_OPTS, 'O', "test-opts", BLKUP_CLI_ARG, "LIST", NULL,
          "with -a: only entries with these options" },
        { OPT_READ_ONLY, 'r', "read-only", BLKUP_CLI_NO_ARG, NULL, NULL, "-o ro" },
        { OPT_READ_WRITE, 'w', "read-write", BLKUP_CLI_NO_ARG, NULL, NULL, "-o rw" },
        { OPT_LABEL, 'L', "label", BLKUP_CLI_ARG, "TEXT", NULL, "the source is LABEL=TEXT" },
        { OPT_UUID, 'U', "uuid", BLKUP_CLI_ARG, "UUID", NULL, "the source is UUID=UUID" },
        { OPT_SOURCE, 0, "source", BLKUP_CLI_ARG, "SOURCE", NULL, "the source, said in words" },
        { OPT_TARGET, 0, "target", BLKUP_CLI_ARG, "DIR", NULL, "the mount point, said in words" },
        { OPT_BIND, 'B', "bind", BLKUP_CLI_NO_ARG, NULL, NULL, "show a directory elsewhere" },
        { OPT_RBIND, 'R', "rbind", BLKUP_CLI_NO_ARG, NULL, NULL, "the same, with what is mounted below" },
        { OPT_MOVE, 'M', "move", BLKUP_CLI_NO_ARG, NULL, NULL, "move a mount to another place" },
        { OPT_SHARED, 0, "make-shared", BLKUP_CLI_NO_ARG, NULL, NULL, "propagation of a mount" },
        { OPT_SLAVE, 0, "make-slave", BLKUP_CLI_NO_ARG, NULL, NULL, "" },
        { OPT_PRIVATE, 0, "make-private", BLKUP_CLI_NO_ARG, NULL, NULL, "" },
        { OPT_UNBINDABLE, 0, "make-unbindable", BLKUP_CLI_NO_ARG, NULL, NULL, "" },
        { OPT_RSHARED, 0, "make-rshared", BLKUP_CLI_NO_ARG, NULL, NULL, "the same with all below" },
        { OPT_RSLAVE, 0, "make-rslave", BLKUP_CLI_NO_ARG, NULL, NULL, "" },
        { OPT_RPRIVATE, 0, "make-rprivate", BLKUP_CLI_NO_ARG, NULL, NULL, "" },
        { OPT_RUNBINDABLE, 0, "make-runbindable", BLKUP_CLI_NO_ARG, NULL, NULL, "" },
        { OPT_MKDIR, 'm', "mkdir", BLKUP_CLI_NO_ARG, NULL, NULL, "make the mount point when it is missing" },
        { OPT_WAIT, 0, "wait", BLKUP_CLI_ARG, "SECONDS", NULL, "for devices that are not there yet" },
        { OPT_DRY_RUN, 'f', "dry-run", BLKUP_CLI_NO_ARG, NULL, NULL,
          "mount nothing, print what waits for what" },
        { OPT_INTERNAL, 'i', "internal-only", BLKUP_CLI_NO_ARG, NULL, NULL, "no mount.TYPE helper" },
        { OPT_FORK, 'F', "fork", BLKUP_CLI_NO_ARG, NULL, NULL, "for mount's sake: -a is always parallel" },
        { OPT_NO_MTAB, 'n', "no-mtab", BLKUP_CLI_NO_ARG, NULL, NULL,
          "for mount's sake: no table is written" },
        { OPT_TIME, 0, "time", BLKUP_CLI_NO_ARG, NULL, NULL, "a table of what each step took" },
        { OPT_JSON, 0, "json", BLKUP_CLI_NO_ARG, NULL, NULL, "JSON: results, causes, steps" },
        { OPT_TIMELINE, 0, "timeline", BLKUP_CLI_ARG, "FILE", NULL, BLKUP_CLI_TIMELINE_HELP },
        { OPT_HIBERNATION, 0, "ignore-hibernation", BLKUP_CLI_NO_ARG, NULL, NULL,
          "write although a hibernation image is attached" },
        { OPT_VERBOSE, 'v', "verbose", BLKUP_CLI_NO_ARG, NULL, NULL, "say what was mounted, too" },
        BLKUP_CLI_STANDARD_OPTIONS,
};

struct request {
        struct blkup_mount_settings settings;
        const char *fstab_path, *types, *test_opts, *timeline, *source, *target;
        char *options;    /* owned */
        char *tag;        /* owned: LABEL=..., UUID=... */
        bool all, has_fstab_path, time, json, verbose, propagation_only;
};

static int out_of_memory(void)
{
        blkup_cli_error("mount", "out of memory");
        return BLKUP_CLI_MOUNT_EXIT_SYSTEM;
}

static bool append_option(char **list, const char *more)
{
        char *joined;

        if (!*list)
                return (*list = strdup(more)) != NULL;
        if (asprintf(&joined, "%s,%s", *list, more) < 0)
                return false;
        free(*list);
        *list = joined;
        return true;
}

static int set_tag(struct request *q, const char *name, const char *value)
{
        free(q->tag);
        if (asprintf(&q->tag, "%s=%s", name, value) < 0) {
                q->tag = NULL;
                return out_of_memory();
        }
        q->source = q->tag;
        return 0;
}

static int parse_number(const struct blkup_cli_command *self, const char *what, const char *value, double max,
                        double *ret)
{
        char *end;

        errno = 0;
        *ret = strtod(value, &end);
        if (*end || end == value || errno || !(*ret >= 0) || *ret > max)
                return blkup_cli_usage_error(self, "%s: '%s' is no number from 0 to %.0f", what, value, max);
        return 0;
}

static const char *word_of(int id)
{
        static const struct {
                int id;
                const char *word;
        } table[] = {
                { OPT_READ_ONLY, "ro" },
                { OPT_READ_WRITE, "rw" },
                { OPT_BIND, "bind" },
                { OPT_RBIND, "rbind" },
                { OPT_MOVE, "move" },
                { OPT_SHARED, "shared" },
                { OPT_SLAVE, "slave" },
                { OPT_PRIVATE, "private" },
                { OPT_UNBINDABLE, "unbindable" },
                { OPT_RSHARED, "rshared" },
                { OPT_RSLAVE, "rslave" },
                { OPT_RPRIVATE, "rprivate" },
                { OPT_RUNBINDABLE, "runbindable" },
                { OPT_MKDIR, "X-mount.mkdir" },
        };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(table); i++)
                if (table[i].id == id)
                        return table[i].word;
        return NULL;
}

static int set_option(const struct blkup_cli_command *self, struct request *q, int id, const char *value)
{
        const char *word = word_of(id);
        double number;
        int code;

        if (word || id == OPT_OPTIONS) {
                if (id >= OPT_SHARED && id <= OPT_RUNBINDABLE)
                        q->propagation_only = true;
                return append_option(&q->options, word ? word : value) ? 0 : out_of_memory();
        }
        switch (id) {
        case OPT_ALL:
                q->all = true;
                break;
        case OPT_FSTAB:
                q->fstab_path = value;
                q->has_fstab_path = true;
                break;
        case OPT_JOBS:
                code = parse_number(self, "-j", value, 256, &number);
                if (code)
                        return code;
                q->settings.workers = (unsigned) number;
                break;
        case OPT_WAIT:
                code = parse_number(self, "--wait", value, 86400, &number);
                if (code)
                        return code;
                q->settings.wait_ns = (uint64_t) (number * 1e9);
                break;
        case OPT_TYPES:
                q->types = value;
                break;
        case OPT_TEST_OPTS:
                q->test_opts = value;
                break;
        case OPT_LABEL:
                return set_tag(q, "LABEL", value);
        case OPT_UUID:
                return set_tag(q, "UUID", value);
        case OPT_SOURCE:
                q->source = value;
                break;
        case OPT_TARGET:
                q->target = value;
                break;
        case OPT_DRY_RUN:
                q->settings.dry_run = true;
                break;
        case OPT_INTERNAL:
                q->settings.no_helpers = true;
                break;
        case OPT_TIME:
                q->time = true;
                break;
        case OPT_JSON:
                q->json = true;
                break;
        case OPT_TIMELINE:
                if (!blkup_cli_timeline_has_suffix(value))
                        return blkup_cli_usage_error(self, "--timeline: '%s' has no known suffix; known: %s",
                                                     value, blkup_cli_timeline_suffixes);
                q->timeline = value;
                break;
        case OPT_HIBERNATION:
                q->settings.ignore_hibernation = true;
                break;
        case OPT_VERBOSE:
                q->verbose = true;
                break;
        }
        return 0;
}

/* ---- the list of what is mounted ---- */

static int print_mounts(const char *types)
{
        struct blkup_error err = { 0 };
        struct blkup_mountinfo *t;

        if (blkup_mountinfo_load(NULL, &t, &err) < 0) {
                blkup_cli_error("mount", "%s", err.message);
                return BLKUP_CLI_MOUNT_EXIT_SYSTEM;
        }
        for (size_t i = 0; i < t->n; i++) {
                const struct blkup_mount *m = &t->mounts[i];
                char safe[3][4096];

                if (!blkup_mount_is_in_types(types, m->fs_type))
                        continue;
                blkup_encode_terminal(m->source, strnlen(m->source, 1000), safe[0], sizeof(safe[0]));
                blkup_encode_terminal(m->target, strnlen(m->target, 1000), safe[1], sizeof(safe[1]));
                blkup_encode_terminal(m->options, strnlen(m->options, 1000), safe[2], sizeof(safe[2]));
                printf("%s on %s type %s (%s)\n", safe[0], safe[1], m->fs_type, safe[2]);
        }
        blkup_mountinfo_free(t);
        blkup_cli_note_stdout();
        return blkup_cli_finish_stdout("mount", 0, BLKUP_CLI_MOUNT_EXIT_SYSTEM);
}

/* ---- which lines of the fstab ---- */

/* Are all words of the list among the entry's options ("noNAME": not among them)? */
static bool has_test_opts(const struct blkup_fstab_entry *e, const char *list)
{
        /* Ends: each turn goes past one word. */
        while (list && *list) {
                size_t n = strcspn(list, ",");
                char word[128];

                if (n < sizeof(word)) {
                        bool no = strncmp(list, "no", 2) == 0 && n > 2;

                        (void) snprintf(word, sizeof(word), "%.*s", (int) n, list);
                        if (blkup_fstab_has_option(e, word) == false &&
                            !(no && !blkup_fstab_has_option(e, word + 2)))
                                return false;
                }
                list += n + (list[n] == ',');
        }
        return true;
}

static bool is_for_all(const struct request *q, const struct blkup_fstab_entry *e)
{
        if (strcmp(e->types, "swap") == 0 || strcmp(e->types, "ignore") == 0 || e->target[0] != '/' ||
            strcmp(e->target, "/") == 0 || blkup_fstab_has_option(e, "noauto"))
                return false;
        if (q->types && !blkup_mount_is_in_types(q->types, e->types))
                return false;
        return has_test_opts(e, q->test_opts);
}

static struct blkup_mount_request request_of(const struct blkup_fstab_entry *e)
{
        return (struct blkup_mount_request){
                .line = e->line, .source = e->source, .target = e->target,
                .types = strcmp(e->types, "none") == 0 ? NULL : e->types, .options = e->options,
        };
}

/* ---- running ---- */

static int print_answer(const struct request *q, struct blkup_cli_mount_report *report)
{
        int code = blkup_cli_mount_exit_code(report), r = 0;

        blkup_cli_mount_print_messages(report);
        if (q->json)
                r = blkup_cli_mount_print_json(report, code);
        else if (q->time)
                r = blkup_cli_mount_print_times(report);
        else if (q->settings.dry_run)
                blkup_cli_mount_print_graph(report);
        if (r < 0 && !ferror(stdout)) {
                blkup_cli_error("mount", "cannot print: %s", blkup_error_text(-r));
                code |= BLKUP_CLI_MOUNT_EXIT_SYSTEM;
        }
        return blkup_cli_finish_stdout("mount", code, code | BLKUP_CLI_MOUNT_EXIT_SYSTEM);
}

static int finish_timeline(const struct request *q, int code)
{
        struct blkup_error err = { 0 };

        if (q->timeline &&
            blkup_cli_write_timeline(q->settings.trace, "blkup mount", q->timeline, &err) < 0) {
                blkup_cli_error("mount", "%s", err.message);
                return code | BLKUP_CLI_MOUNT_EXIT_SYSTEM;
        }
        return code;
}

static int run_requests(const struct request *q, const struct blkup_mount_request *requests, size_t n,
                        const struct blkup_fstab *fstab)
{
        struct blkup_cli_mount_report report = {
                .command = "mount", .requests = requests, .n = n, .fstab = fstab, .verbose = q->verbose,
                .dry_run = q->settings.dry_run, .many = q->all,
        };
        struct blkup_mount_graph *graph = NULL;
        struct blkup_mount_result one; /* the usual case asks for no memory */
        struct blkup_mounter *m = NULL;
        struct blkup_error err = { 0 };
        int r, code;

        report.results = n == 1 && !q->all ? &one : calloc(n + 1, sizeof(*report.results));
        r = report.results ? blkup_mounter_new(&q->settings, &m) : -ENOMEM;
        if (r < 0 && report.results == &one)
                report.n = n = 0;
        if (r == 0 && q->all) {
                r = blkup_mount_all(m, requests, n, report.results, &err);
                if (r == 0 && q->settings.dry_run)
                        r = blkup_mount_graph_new(m, requests, n, &graph);
        } else if (r == 0) {
                (void) blkup_mount_one(m, &requests[0], &report.results[0]);
        }
        report.graph = graph;
        if (r == 0)
                r = blkup_cli_mount_explain(&report);
        if (r < 0) {
                blkup_cli_error("mount", "%s", *err.message ? err.message : blkup_error_text(-r));
                code = BLKUP_CLI_MOUNT_EXIT_SYSTEM;
        } else {
                code = finish_timeline(q, print_answer(q, &report));
        }
        blkup_cli_mount_free_causes(&report);
        for (size_t i = 0; report.results && i < n; i++)
                blkup_mount_result_free(&report.results[i]);
        if (report.results != &one)
                free(report.results);
        blkup_mount_graph_free(graph);
        blkup_mounter_unref(m);
        return code;
}

static int load_fstab(const struct request *q, struct blkup_fstab **ret)
{
        struct blkup_error err = { 0 };
        int r = blkup_fstab_load(q->fstab_path, ret, &err);

        if (r < 0) {
                blkup_cli_error("mount", "%s%s", err.message, blkup_cli_try_option(r, "; -T names another"));
                return BLKUP_CLI_MOUNT_EXIT_SYSTEM;
        }
        return 0;
}

static int run_all(const struct request *q)
{
        struct blkup_fstab *fstab = NULL;
        struct blkup_mount_request *requests;
        char **texts;
        size_t n = 0;
        int code = load_fstab(q, &fstab);

        if (code)
                return code;
        requests = calloc(fstab->n + 1, sizeof(*requests));
        texts = calloc(fstab->n + 1, sizeof(*texts));
        for (size_t i = 0; requests && texts && i < fstab->n; i++) {
                if (!is_for_all(q, &fstab->entries[i]))
                        continue;
                requests[n] = request_of(&fstab->entries[i]);
                if (q->options) {
                        if (asprintf(&texts[n], "%s,%s", requests[n].options, q->options) < 0)
                                texts[n] = NULL;
                        requests[n].options = texts[n];
                }
                n++;
        }
        code = requests && texts ? run_requests(q, requests, n, fstab) : out_of_memory();
        for (size_t i = 0; texts && i < n; i++)
                free(texts[i]);
        free(texts);
        free(requests);
        blkup_fstab_free(fstab);
        return code;
}

/* The entry whose source or mount point is name; the last one, as mount takes it. */
static const struct blkup_fstab_entry *find_entry(const struct blkup_fstab *t, const char *name)
{
        char canonical[4096];
        const char *at = realpath(name, canonical) ? canonical : name;

        for (size_t i = t->n; i-- > 0;)
                if (strcmp(t->entries[i].target, name) == 0 || strcmp(t->entries[i].target, at) == 0 ||
                    strcmp(t->entries[i].source, name) == 0)
                        return &t->entries[i];
        return NULL;
}

static bool has_word(const char *list, const char *word)
{
        struct blkup_fstab_entry e = { .options = list ? list : "" };

        return blkup_fstab_has_option(&e, word);
}

/* One operand: the rest stands in the fstab. */
static int run_from_fstab(const struct request *q, const char *name)
{
        struct blkup_fstab *fstab = NULL;
        const struct blkup_fstab_entry *e;
        struct blkup_mount_request request;
        char *text = NULL;
        int code;

        /* A remount, or a change of propagation, needs no entry: the kernel knows what is mounted there. */
        if (has_word(q->options, "remount") || q->propagation_only) {
                request = (struct blkup_mount_request){ .target = name, .options = q->options };
                return run_requests(q, &request, 1, NULL);
        }
        code = load_fstab(q, &fstab);
        if (code)
                return code;
        e = find_entry(fstab, name);
        if (!e) {
                blkup_cli_error("mount", "%s: not found in %s", name, q->fstab_path);
                blkup_fstab_free(fstab);
                return BLKUP_CLI_MOUNT_EXIT_USAGE;
        }
        request = request_of(e);
        if (q->types)
                request.types = q->types;
        if (q->options && asprintf(&text, "%s,%s", e->options, q->options) < 0) {
                blkup_fstab_free(fstab);
                return out_of_memory();
        }
        if (text)
                request.options = text;
        code = run_requests(q, &request, 1, NULL);
        free(text);
        blkup_fstab_free(fstab);
        return code;
}

static int run_operands(const struct blkup_cli_command *self, struct request *q, int n, char **operands)
{
        struct blkup_mount_request request;

        if (!q->target && n > 0 && (q->source || n > 1))
                q->target = operands[--n];
        if (!q->source && n > 0 && q->target)
                q->source = operands[--n];
        if (n > 0 && !q->source && !q->target) {
                if (n > 1)
                        return blkup_cli_usage_error(self, "too many operands");
                return run_from_fstab(q, operands[0]);
        }
        if (n > 0)
                return blkup_cli_usage_error(self, "too many operands");
        if (!q->target || (!q->source && !q->propagation_only && !has_word(q->options, "remount")))
                return run_from_fstab(q, q->source ? q->source : q->target);
        request = (struct blkup_mount_request){
                .source = q->source, .target = q->target, .types = q->types, .options = q->options,
        };
        return run_requests(q, &request, 1, NULL);
}

static int run_checked(const struct blkup_cli_command *self, struct request *q, int n, char **operands)
{
        if (q->all && (n > 0 || q->source || q->target))
                return blkup_cli_usage_error(self, "-a takes no source and no mount point");
        if (q->all)
                return run_all(q);
        if (n == 0 && !q->source && !q->target) {
                if (q->options || q->has_fstab_path)
                        return blkup_cli_usage_error(self, "no source and no mount point");
                return print_mounts(q->types);
        }
        return run_operands(self, q, n, operands);
}

static int run_mount(const struct blkup_cli_command *self, int argc, char **argv)
{
        struct blkup_cli_parser parser;
        struct request q = { .fstab_path = "/etc/fstab" };
        struct blkup_cli_tags *tags = NULL;
        const char *value;
        int id, code = 0;

        /* As fstab has them: a shell leaves the inner marks of 'LABEL="a b"'. */
        for (int i = 1; i < argc; i++)
                blkup_mount_unquote_tag(argv[i]);
        blkup_cli_parser_init(&parser, self, argc, argv, false);
        while (code == 0 && (id = blkup_cli_next(&parser, &value)) > 0)
                code = set_option(self, &q, id, value);
        if (code == 0 && id < 0)
                code = parser.exit_code;
        else if (code == 0) {
                tags = blkup_cli_tags_new(NULL);
                if (tags && q.settings.wait_ns > 0)
                        blkup_cli_tags_comes_again(tags);
                if (q.timeline)
                        q.settings.trace = blkup_trace_new(0);
                if (!tags || (q.timeline && !q.settings.trace)) {
                        code = out_of_memory();
                } else {
                        q.settings.resolver = blkup_cli_tags_resolver(tags);
                        code = run_checked(self, &q, argc - parser.first, argv + parser.first);
                }
        }
        blkup_cli_tags_free(tags);
        blkup_trace_unref(q.settings.trace);
        free(q.options);
        free(q.tag);
        return code;
}

const struct blkup_cli_command blkup_cli_command_mount = {
        .name = "mount",
        .help = "Mounts one file system, or a whole fstab in parallel.",
        .synopsis = "[options] [-a | SOURCE DIR | SOURCE | DIR]",
        .called_as = "blkup-mount",
        .options = options,
        .n_options = BLKUP_ARRAY_SIZE(options),
        .usage_exit = BLKUP_CLI_MOUNT_EXIT_USAGE,
        .run = run_mount,
};
