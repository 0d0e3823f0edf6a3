/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `blkup timeline`: a picture of a trace that was made before, perhaps on another machine. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/timeline.h"
#include "trace/trace-read.h"

enum { EXIT_USAGE = 1, EXIT_FAILED = 2 };
enum { OPT_OUTPUT = 1, OPT_TABLE };

static const struct blkup_cli_option options[] = {
        { OPT_OUTPUT, 'o', "output", BLKUP_CLI_ARG, "FILE", NULL,
          "into FILE.svg, not to standard output;\nFILE.json: the trace again" },
        { OPT_TABLE, 't', "table", BLKUP_CLI_NO_ARG, NULL, NULL,
          "the table of times, a line a lane, no picture" },
        BLKUP_CLI_STANDARD_OPTIONS,
};

struct request {
        const char *output;
        bool is_table;
};

static int draw(const struct request *q, struct blkup_trace *t)
{
        struct blkup_error err = { 0 };
        int r;

        if (q->output) {
                if (blkup_cli_write_timeline(t, NULL, q->output, &err) == 0)
                        return 0;
                blkup_cli_error("timeline", "%s", err.message);
                return EXIT_FAILED;
        }
        r = q->is_table ? blkup_trace_write_table(t, blkup_cli_file_sink, stdout)
                        : blkup_trace_write_svg(t, blkup_cli_file_sink, stdout);
        blkup_cli_note_stdout();
        if (r < 0 && !ferror(stdout)) {
                blkup_cli_error("timeline", "%s", blkup_error_text(-r));
                return EXIT_FAILED;
        }
        return blkup_cli_finish_stdout("timeline", 0, EXIT_FAILED);
}

static int run_timeline(const struct blkup_cli_command *self, int argc, char **argv)
{
        struct request q = { 0 };
        struct blkup_cli_parser parser;
        struct blkup_trace *t = NULL;
        struct blkup_error err = { 0 };
        const char *value;
        int id, code;

        blkup_cli_parser_init(&parser, self, argc, argv, false);
        while ((id = blkup_cli_next(&parser, &value)) > 0) {
                if (id == OPT_OUTPUT) {
                        if (!blkup_cli_timeline_has_suffix(value))
                                return blkup_cli_usage_error(self,
                                                             "--output: '%s' has no known suffix; known: %s",
                                                             value, blkup_cli_timeline_suffixes);
                        q.output = value;
                } else {
                        q.is_table = true;
                }
        }
        if (id < 0)
                return parser.exit_code;
        if (argc - parser.first != 1)
                return blkup_cli_usage_error(self, "one trace, FILE.json, or - for standard input");
        if (q.output && q.is_table)
                return blkup_cli_usage_error(self, "--table goes to standard output: not with --output");
        if (blkup_cli_read_timeline(argv[parser.first], &t, &err) < 0) {
                blkup_cli_error("timeline", "%s", err.message);
                return EXIT_FAILED;
        }
        code = draw(&q, t);
        (void) blkup_trace_unref(t);
        return code;
}

const struct blkup_cli_command blkup_cli_command_timeline = {
        .name = "timeline",
        .help = "Draws where the time went, from a trace (--timeline FILE.json).",
        .synopsis = "[options] FILE.json",
        .options = options,
        .n_options = BLKUP_ARRAY_SIZE(options),
        .usage_exit = EXIT_USAGE,
        .run = run_timeline,
};
