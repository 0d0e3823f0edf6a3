/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `blkup compare`: what became slower or faster between two sets of runs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/compare-output.h"
#include "cli/output.h"
#include "cli/timeline.h"

enum { EXIT_USAGE = 1, EXIT_FAILED = 2, EXIT_SLOWER = 3, EXIT_TOO_FEW = 4 };
enum { OPT_ALL = 1, OPT_JSON, OPT_ALPHA, OPT_AT_LEAST };

static const struct blkup_cli_option options[] = {
        { OPT_ALL, 'a', "all", BLKUP_CLI_NO_ARG, NULL, NULL, "spans without a difference as well" },
        { OPT_JSON, 'J', "json", BLKUP_CLI_NO_ARG, NULL, NULL, "everything, as JSON" },
        { OPT_ALPHA, 0, "alpha", BLKUP_CLI_ARG, "P", NULL,
          "how likely a false alarm may be (usual: 0.05)" },
        { OPT_AT_LEAST, 0, "at-least", BLKUP_CLI_ARG, "PERCENT", NULL,
          "a change below that share of A's time is none" },
        BLKUP_CLI_STANDARD_OPTIONS,
};

struct request {
        bool is_all, is_json;
        struct blkup_compare_options o;
        char **a, **b;
        size_t n_a, n_b;
};

/* A plain decimal number in low..high, whatever the locale. */
static bool read_number(const char *text, double low, double high, double *ret)
{
        double v = 0, unit = 1;
        bool has_point = false, has_digit = false;

        if (strlen(text) > 12)
                return false;
        for (; *text; text++) {
                if (*text == '.' && !has_point) {
                        has_point = true;
                } else if (*text >= '0' && *text <= '9') {
                        has_digit = true;
                        unit = has_point ? unit / 10 : unit;
                        v = has_point ? v + unit * (*text - '0') : v * 10 + (*text - '0');
                } else {
                        return false;
                }
        }
        *ret = v;
        return has_digit && v >= low && v <= high;
}

/* 0, or what to exit with when negative: parser->exit_code. */
static int parse(const struct blkup_cli_command *self, struct blkup_cli_parser *parser, struct request *q)
{
        const char *value;
        int id;

        while ((id = blkup_cli_next(parser, &value)) > 0) {
                switch (id) {
                case OPT_ALL:
                        q->is_all = true;
                        break;
                case OPT_JSON:
                        q->is_json = true;
                        break;
                case OPT_ALPHA:
                        if (!read_number(value, 1e-9, 0.5, &q->o.alpha)) {
                                parser->exit_code =
                                        blkup_cli_usage_error(self,
                                                              "--alpha: '%s' is not above 0 and up to 0.5",
                                                              value);
                                return -1;
                        }
                        break;
                case OPT_AT_LEAST:
                        if (!read_number(value, 0, 1000, &q->o.at_least)) {
                                parser->exit_code = blkup_cli_usage_error(
                                        self, "--at-least: '%s' is no percentage of 0 to 1000", value);
                                return -1;
                        }
                        q->o.at_least /= 100;
                        break;
                default:
                        break;
                }
        }
        return id;
}

static int read_traces(char **names, size_t n, struct blkup_trace **ret)
{
        for (size_t i = 0; i < n; i++) {
                struct blkup_error err = { 0 };
                int r = blkup_cli_read_timeline(names[i], &ret[i], &err);

                if (r < 0) {
                        blkup_cli_error("compare", "%s", err.message);
                        return r;
                }
        }
        return 0;
}

/* What a script wants to know first: is anything slower? */
static int exit_code(const struct blkup_comparison *c)
{
        if (c->counts[BLKUP_COMPARE_SLOWER] > 0 || c->items[0].verdict == BLKUP_COMPARE_SLOWER)
                return EXIT_SLOWER;
        return c->items[0].verdict == BLKUP_COMPARE_TOO_FEW ? EXIT_TOO_FEW : 0;
}

static int compare(const struct request *q, struct blkup_trace **traces)
{
        struct blkup_comparison c = { 0 };
        int r, code;

        if (read_traces(q->a, q->n_a, traces) < 0 || read_traces(q->b, q->n_b, traces + q->n_a) < 0)
                return EXIT_FAILED;
        r = blkup_compare(traces, q->n_a, traces + q->n_a, q->n_b, &q->o, &c);
        if (r < 0) {
                blkup_cli_error("compare", "%s", blkup_error_text(-r));
                return EXIT_FAILED;
        }
        code = exit_code(&c);
        r = q->is_json ? blkup_cli_compare_print_json(&c, q->o.alpha, code)
                       : blkup_cli_compare_print_table(&c, q->o.alpha, q->is_all);
        blkup_comparison_free(&c);
        if (r < 0 && !ferror(stdout)) {
                blkup_cli_error("compare", "%s", blkup_error_text(-r));
                return EXIT_FAILED;
        }
        return blkup_cli_finish_stdout("compare", code, EXIT_FAILED);
}

static int run_compare(const struct blkup_cli_command *self, int argc, char **argv)
{
        struct request q = { .o = { .alpha = 0.05 } };
        struct blkup_cli_parser parser;
        struct blkup_trace **traces;
        int middle = 1, code;

        /* The "--" stands between the two sets; getopt would take it away. */
        while (middle < argc && strcmp(argv[middle], "--") != 0)
                middle++;
        blkup_cli_parser_init(&parser, self, middle, argv, false);
        if (parse(self, &parser, &q) < 0)
                return parser.exit_code;
        q.a = argv + parser.first;
        q.n_a = (size_t) (middle - parser.first);
        q.b = argv + middle + 1;
        q.n_b = middle < argc ? (size_t) (argc - middle - 1) : 0;
        if (q.n_a == 0 || q.n_b == 0)
                return blkup_cli_usage_error(self, "traces before and behind a --: A.json... -- B.json...");
        for (size_t i = 0; i < q.n_b; i++)
                if (strcmp(q.b[i], "--") == 0)
                        return blkup_cli_usage_error(self, "one -- between the two sets");
        if (q.n_a > BLKUP_SHIFT_MAX_RUNS || q.n_b > BLKUP_SHIFT_MAX_RUNS)
                return blkup_cli_usage_error(self, "at most %u traces a set", BLKUP_SHIFT_MAX_RUNS);
        traces = calloc(q.n_a + q.n_b, sizeof(struct blkup_trace *));
        if (!traces) {
                blkup_cli_error("compare", "out of memory");
                return EXIT_FAILED;
        }
        code = compare(&q, traces);
        for (size_t i = 0; i < q.n_a + q.n_b; i++)
                (void) blkup_trace_unref(traces[i]);
        free(traces);
        return code;
}

const struct blkup_cli_command blkup_cli_command_compare = {
        .name = "compare",
        .help = "Says what became slower or faster between two sets of traces.",
        .synopsis = "[options] A.json... -- B.json...",
        .options = options,
        .n_options = BLKUP_ARRAY_SIZE(options),
        .usage_exit = EXIT_USAGE,
        .run = run_compare,
};
