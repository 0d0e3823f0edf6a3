/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <blkup/coldplug.h>

#include "base/encode.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/coldplug-output.h"
#include "cli/coldplug-request.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/watch-hooks.h"
#include "cli/watch-lines.h"

static const struct blkup_cli_option options[] = {
        BLKUP_CLI_COLD_OPTIONS,
        { BLKUP_CLI_COLD_EXEC, 0, "exec", BLKUP_CLI_ARG, "PROGRAM", NULL,
          "call it at each event: EVENT DEVICE TYPE LABEL UUID\nMOUNTPOINT TEXT; may be given again" },
        { BLKUP_CLI_COLD_JSON, 0, "json", BLKUP_CLI_NO_ARG, NULL, NULL, "one JSON object a line" },
        BLKUP_CLI_STANDARD_OPTIONS,
};

struct listener {
        bool json;
        struct blkup_cli_lines *lines;
        struct blkup_cli_hooks *hooks;
};

static void add(struct blkup_json *j, const char *key, const char *value)
{
        if (value) {
                blkup_json_key(j, key);
                blkup_json_string(j, value);
        }
}

static void print_json(FILE *to, const struct blkup_coldplug_event *e)
{
        struct blkup_json j;

        blkup_json_init(&j, blkup_cli_file_sink, to, false);
        blkup_json_begin_object(&j);
        add(&j, "event", blkup_coldplug_event_name(e->kind));
        add(&j, "device", e->device);
        add(&j, "type", e->type);
        add(&j, "label", e->label);
        add(&j, "uuid", e->uuid);
        add(&j, "target", e->target);
        add(&j, "text", e->text);
        blkup_json_end_object(&j);
        (void) !blkup_json_finish(&j);
        (void) fprintf(to, "\n");
}

static void print_field(FILE *to, const char *before, const char *value)
{
        char safe[1024];

        if (!value)
                return;
        (void) blkup_encode_terminal(value, strnlen(value, 240), safe, sizeof(safe));
        (void) fprintf(to, "%s%s", before, safe);
}

static void print_line(FILE *to, const struct blkup_coldplug_event *e)
{
        bool is_all = !e->device && !e->target && !e->text;

        (void) fprintf(to, "%-*s", is_all ? 0 : 9, blkup_coldplug_event_name(e->kind));
        print_field(to, " ", e->device);
        print_field(to, " ", e->type);
        print_field(to, " LABEL=", e->label);
        print_field(to, " UUID=", e->uuid);
        print_field(to, " on ", e->target);
        print_field(to, ": ",
                    e->text && e->device ? blkup_cli_without_name(e->text, e->device) : e->text);
        (void) fprintf(to, "\n");
}

static void tell(void *to, const struct blkup_coldplug_event *e)
{
        struct listener *l = to;
        char *text = NULL;
        size_t n = 0;
        FILE *f = open_memstream(&text, &n);

        if (f && l->json)
                print_json(f, e);
        else if (f)
                print_line(f, e);
        if (f && fclose(f) == 0)
                blkup_cli_lines_put(l->lines, BLKUP_TAKE(text), n);
        free(text);
        if (l->hooks)
                blkup_cli_hooks_tell(l->hooks, e);
}

static int watch(struct blkup_cli_cold_request *q)
{
        struct listener l = { .json = q->json };
        struct blkup_coldplug *c = NULL;
        struct blkup_error err = { 0 };
        int code = BLKUP_CLI_COLDPLUG_EXIT_NONE, r;

        blkup_cli_cold_save_memory();
        r = blkup_cli_cold_request_load("watch", q);
        if (r < 0)
                return code;
        if (q->n_hooks > 0 && blkup_cli_hooks_new(q->hooks, q->n_hooks, &l.hooks) < 0) {
                blkup_cli_error("watch",
                                "no thread for the programs of --exec: free memory, or raise ulimit -u");
                return code;
        }
        r = blkup_cli_lines_new("watch", STDOUT_FILENO, &l.lines);
        if (r < 0) {
                blkup_cli_error("watch", "no thread for what is printed: %s%s", blkup_error_text(-r),
                                blkup_cli_more_processes(r));
                (void) blkup_cli_hooks_free(l.hooks);
                return code;
        }
        q->s.is_watch = true;
        q->s.tell = tell;
        q->s.tell_to = &l;
        /* Nobody sits before something that runs for ever. */
        q->s.may_ask = false;
        r = blkup_coldplug_run(&q->s, &c, &err);
        if (r < 0)
                blkup_cli_error("watch", "%s%s", err.message, blkup_cli_more_processes(r));
        else
                code = 0;
        (void) blkup_cli_hooks_free(l.hooks);
        blkup_coldplug_unref(c);
        return blkup_cli_lines_end(l.lines) < 0 ? BLKUP_CLI_COLDPLUG_EXIT_NONE : code;
}

static int run_watch(const struct blkup_cli_command *self, int argc, char **argv)
{
        struct blkup_cli_cold_request q = { .s = { .finish = BLKUP_COLDPLUG_FINISH_AUTO } };
        int first = 0, code_of_help = 0, code;

        code = blkup_cli_cold_request_parse(self, argc, argv, &q, &first, &code_of_help);
        if (code == 0 && first < argc)
                code = blkup_cli_usage_error(self, "'%s': no operands", argv[first]);
        if (code == 0)
                code = blkup_cli_cold_run_apart("watch", &q, watch, true);
        else if (code < 0)
                code = code_of_help;
        blkup_cli_cold_request_free(&q);
        return code;
}

const struct blkup_cli_command blkup_cli_command_watch = {
        .name = "watch",
        .help = "Stays, and brings up what is attached now and later.",
        .synopsis = "[options]",
        .called_as = "blkup-watch",
        .options = options,
        .n_options = BLKUP_ARRAY_SIZE(options),
        .usage_exit = BLKUP_CLI_COLDPLUG_EXIT_USAGE,
        .run = run_watch,
};
