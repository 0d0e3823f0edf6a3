/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cli/cmd-lazyinit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/timeline.h"

enum {
        OPT_CHECK = 1,
        OPT_DRY_RUN,
        OPT_JSON,
        OPT_STRATEGY,
        OPT_KEEP,
        OPT_THIN,
        OPT_THICK,
        OPT_VERIFY,
        OPT_JOURNAL,
        OPT_JOBS,
        OPT_BACKGROUND,
        OPT_WAIT_MULT,
        OPT_PROGRESS,
        OPT_PROGRESS_FD,
        OPT_TIMELINE,
        OPT_IGNORE_HIBERNATION,
        OPT_WATCH,
        OPT_POLICY,
        OPT_HZ,
        OPT_GROUPS,
        OPT_TIME,
        OPT_TABLE,
        OPT_LOTTERY,
};

/* The kernel's default (init_itable=10). */
#define WAIT_MULT_DEFAULT 10u
#define WAIT_MULT_MAX 1000u
#define JOBS_DEFAULT 4u

static const struct blkup_cli_option options[] = {
        { OPT_CHECK, 0, "check", BLKUP_CLI_NO_ARG, NULL, NULL,
          "change nothing; exit 0: done, 1: work left, 2: refused" },
        { OPT_DRY_RUN, 0, "dry-run", BLKUP_CLI_NO_ARG, NULL, NULL,
          "say what would be done, and change nothing" },
        { OPT_JSON, 0, "json", BLKUP_CLI_NO_ARG, NULL, NULL, "the answer as JSON" },
        { OPT_STRATEGY, 0, "strategy", BLKUP_CLI_ARG, "HOW", "auto zero-range punch write",
          "how what is not yet zero is made so: auto,\nzero-range, punch, write" },
        { OPT_KEEP, 0, "keep", BLKUP_CLI_NO_ARG, NULL, NULL, "allocation neither grows nor shrinks (usual)" },
        { OPT_THIN, 0, "thin", BLKUP_CLI_NO_ARG, NULL, NULL, "give the space of what is zeroed back" },
        { OPT_THICK, 0, "thick", BLKUP_CLI_NO_ARG, NULL, NULL, "allocate the holes" },
        { OPT_VERIFY, 0, "verify", BLKUP_CLI_NO_ARG, NULL, NULL,
          "read finished tables too, zero stale ones,\nand read back what was zeroed" },
        { OPT_JOURNAL, 0, "journal", BLKUP_CLI_NO_ARG, NULL, NULL, "zero the body of an empty journal too" },
        { OPT_JOBS, 'j', "jobs", BLKUP_CLI_ARG, "N", NULL, "devices at once (usual: 4)" },
        { OPT_BACKGROUND, 0, "background", BLKUP_CLI_NO_ARG, NULL, NULL,
          "politely: work, wait, yield to others" },
        { OPT_WAIT_MULT, 0, "wait-mult", BLKUP_CLI_ARG, "N", NULL,
          "wait N times as long as the work took (usual: 10)" },
        { OPT_PROGRESS, 0, "progress", BLKUP_CLI_ARG, "WHAT", "auto none json",
          "auto (a line on a terminal), none, json" },
        { OPT_PROGRESS_FD, 0, "progress-fd", BLKUP_CLI_ARG, "N", NULL, "descriptor for it (usual: 2)" },
        { OPT_TIMELINE, 0, "timeline", BLKUP_CLI_ARG, "FILE", NULL, BLKUP_CLI_TIMELINE_HELP },
        { OPT_IGNORE_HIBERNATION, 0, "ignore-hibernation", BLKUP_CLI_NO_ARG, NULL, NULL,
          "go on although a hibernated system is on a swap area" },
        { OPT_WATCH, 0, "watch", BLKUP_CLI_NO_ARG, NULL, NULL, "status: a line a second until it is done" },
        { OPT_POLICY, 0, "policy", BLKUP_CLI_ARG, "NAME", "jiffies ns blkup",
          "simulate: jiffies, ns (the kernel's) or blkup" },
        { OPT_HZ, 0, "hz", BLKUP_CLI_ARG, "N", NULL, "simulate: ticks a second" },
        { OPT_GROUPS, 0, "groups", BLKUP_CLI_ARG, "N", NULL, "simulate: block groups" },
        { OPT_TIME, 0, "time", BLKUP_CLI_ARG, "MS", NULL, "simulate: ms that one group takes" },
        { OPT_TABLE, 0, "table", BLKUP_CLI_NO_ARG, NULL, NULL,
          "simulate: the eight figures of 2021 beside the model's" },
        { OPT_LOTTERY, 0, "lottery", BLKUP_CLI_NO_ARG, NULL, NULL,
          "simulate: spread over 1000 runs whose groups take\n2.9 ms and an exponential 0.95 ms" },
        BLKUP_CLI_STANDARD_OPTIONS,
};

static int parse_number(const struct blkup_cli_command *self, const char *what, const char *value,
                        uint64_t max, uint64_t *ret)
{
        char *end;
        unsigned long long v;

        errno = 0;
        v = strtoull(value, &end, 10);
        if (errno != 0 || *value < '0' || *value > '9' || *end != '\0' || v > max)
                return blkup_cli_usage_error(self, "%s: '%s' is no number from 0 to %llu", what, value,
                                             (unsigned long long) max);
        *ret = v;
        return 0;
}

/* Milliseconds with up to six decimals, exactly, as ns. */
static int parse_ms(const struct blkup_cli_command *self, const char *value, uint64_t *ret)
{
        uint64_t ns = 0, unit = 1000000;
        const char *p = value;
        unsigned digits = 0;

        for (; *p >= '0' && *p <= '9' && digits < 10; p++, digits++)
                ns = ns * 10 + (uint64_t) (*p - '0') * unit;
        if (digits > 0 && *p == '.')
                for (p++; *p >= '0' && *p <= '9' && unit > 1; p++) {
                        unit /= 10;
                        ns += (uint64_t) (*p - '0') * unit;
                }
        if (digits == 0 || *p != '\0' || ns == 0)
                return blkup_cli_usage_error(self, "--time: '%s' is no time in ms; as 3.53", value);
        *ret = ns;
        return 0;
}

static int set_allocation(const struct blkup_cli_command *self, struct blkup_cli_lazyinit_request *q,
                          enum blkup_lazyinit_allocation a, bool *has)
{
        if (*has && q->options.allocation != a)
                return blkup_cli_usage_error(self, "--keep, --thin and --thick exclude each other");
        q->options.allocation = a;
        *has = true;
        return 0;
}

static int set_option(const struct blkup_cli_command *self, struct blkup_cli_lazyinit_request *q, int id,
                      const char *value, bool *has_allocation)
{
        uint64_t v = 0;
        int word, code;

        switch (id) {
        case OPT_CHECK:
                q->check = true;
                break;
        case OPT_DRY_RUN:
                q->dry_run = true;
                break;
        case OPT_JSON:
                q->json = true;
                break;
        case OPT_STRATEGY:
        case OPT_PROGRESS:
        case OPT_POLICY:
                word = blkup_cli_word(self, id, value);
                if (word < 0)
                        return self->usage_exit;
                if (id == OPT_STRATEGY)
                        q->options.strategy = (enum blkup_lazyinit_strategy) word;
                else if (id == OPT_PROGRESS)
                        q->progress = (enum blkup_cli_lazyinit_progress) word;
                else
                        q->sim.policy = (enum blkup_lazyinit_policy) word;
                q->has_policy = q->has_policy || id == OPT_POLICY;
                break;
        case OPT_KEEP:
                return set_allocation(self, q, BLKUP_LAZYINIT_KEEP, has_allocation);
        case OPT_THIN:
                return set_allocation(self, q, BLKUP_LAZYINIT_THIN, has_allocation);
        case OPT_THICK:
                return set_allocation(self, q, BLKUP_LAZYINIT_THICK, has_allocation);
        case OPT_VERIFY:
                q->options.verify = true;
                break;
        case OPT_JOURNAL:
                q->options.journal = true;
                break;
        case OPT_JOBS:
                code = parse_number(self, "-j", value, 64, &v);
                q->jobs = v > 0 ? (unsigned) v : 1;
                return code;
        case OPT_BACKGROUND:
                q->options.background = true;
                break;
        case OPT_WAIT_MULT:
                code = parse_number(self, "--wait-mult", value, WAIT_MULT_MAX, &v);
                q->options.wait_mult = q->sim.wait_mult = (unsigned) v;
                q->has_wait_mult = true;
                return code;
        case OPT_PROGRESS_FD:
                code = parse_number(self, "--progress-fd", value, 65535, &v);
                q->progress_fd = (int) v;
                return code;
        case OPT_TIMELINE:
                if (!blkup_cli_timeline_has_suffix(value))
                        return blkup_cli_usage_error(self, "--timeline: '%s' has no known suffix; known: %s",
                                                     value, blkup_cli_timeline_suffixes);
                q->timeline = value;
                break;
        case OPT_IGNORE_HIBERNATION:
                q->options.ignore_hibernation = true;
                break;
        case OPT_WATCH:
                q->watch = true;
                break;
        case OPT_HZ:
                code = parse_number(self, "--hz", value, 100000, &v);
                q->sim.hz = (unsigned) v;
                q->has_hz = true;
                return code;
        case OPT_GROUPS:
                code = parse_number(self, "--groups", value, 1u << 24, &v);
                q->sim.groups = (uint32_t) v;
                q->has_groups = true;
                return code;
        case OPT_TIME:
                q->has_time = true;
                return parse_ms(self, value, &q->sim.group_ns);
        case OPT_TABLE:
                q->table = true;
                break;
        case OPT_LOTTERY:
                q->lottery = true;
                break;
        }
        return 0;
}

static int check_request(const struct blkup_cli_command *self, struct blkup_cli_lazyinit_request *q,
                         bool has_allocation)
{
        struct blkup_lazyinit_options *o = &q->options;

        if (q->n_operands == 0)
                return blkup_cli_usage_error(self, "no device given");
        if (q->check && q->dry_run)
                return blkup_cli_usage_error(self, "--check and --dry-run exclude each other");
        if (o->strategy == BLKUP_LAZYINIT_PUNCH && has_allocation && o->allocation != BLKUP_LAZYINIT_THIN)
                return blkup_cli_usage_error(self,
                                             "--strategy punch gives space back: it goes with --thin only");
        if (o->allocation == BLKUP_LAZYINIT_THIN && o->strategy != BLKUP_LAZYINIT_PUNCH &&
            o->strategy != BLKUP_LAZYINIT_AUTO)
                return blkup_cli_usage_error(self, "--thin goes with --strategy auto or punch");
        if (o->strategy == BLKUP_LAZYINIT_PUNCH)
                o->allocation = BLKUP_LAZYINIT_THIN;
        if (q->has_wait_mult && !o->background)
                return blkup_cli_usage_error(self, "--wait-mult goes with --background");
        o->only_check = q->check || q->dry_run;
        return 0;
}

static int finish_timeline(const struct blkup_cli_lazyinit_request *q, struct blkup_trace *trace, int code)
{
        struct blkup_error err = { 0 };

        if (!q->timeline)
                return code;
        if (blkup_cli_write_timeline(trace, "blkup lazyinit", q->timeline, &err) < 0) {
                blkup_cli_error("lazyinit", "%s", err.message);
                return BLKUP_CLI_LAZYINIT_EXIT_OTHER;
        }
        return code;
}

static int run_devices(const struct blkup_cli_lazyinit_request *q)
{
        BLKUP_CLEANUP_FREE struct blkup_cli_lazyinit_job *jobs = calloc(q->n_operands, sizeof(*jobs));
        struct blkup_trace *trace = q->timeline ? blkup_trace_new(0) : NULL;
        int code = 0;

        if (!jobs || (q->timeline && !trace)) {
                blkup_cli_error("lazyinit", "out of memory");
                blkup_trace_unref(trace);
                return BLKUP_CLI_LAZYINIT_EXIT_OTHER;
        }
        for (size_t i = 0; i < q->n_operands; i++)
                jobs[i].device = q->operands[i];
        blkup_cli_lazyinit_catch_signals();
        blkup_cli_lazyinit_run_jobs(q, trace, jobs, q->n_operands);
        if (q->json && blkup_cli_lazyinit_print_json(q, jobs, q->n_operands) < 0 && !ferror(stdout))
                code = BLKUP_CLI_LAZYINIT_EXIT_OTHER;
        for (size_t i = 0; i < q->n_operands; i++) {
                int one = blkup_cli_lazyinit_exit_code(q, &jobs[i]);

                blkup_cli_lazyinit_print(q, &jobs[i]);
                code = one > code ? one : code;
        }
        code = finish_timeline(q, trace, code);
        blkup_trace_unref(trace);
        return blkup_cli_finish_stdout("lazyinit", code, BLKUP_CLI_LAZYINIT_EXIT_OTHER);
}

static int run_lazyinit(const struct blkup_cli_command *self, int argc, char **argv)
{
        struct blkup_cli_lazyinit_request q = {
                .jobs = JOBS_DEFAULT, .progress_fd = 2,
                .options = { .wait_mult = WAIT_MULT_DEFAULT }, .sim = { .wait_mult = WAIT_MULT_DEFAULT },
        };
        struct blkup_cli_parser parser;
        bool has_allocation = false;
        const char *value;
        int id, code;

        blkup_cli_parser_init(&parser, self, argc, argv, false);
        while ((id = blkup_cli_next(&parser, &value)) > 0) {
                code = set_option(self, &q, id, value, &has_allocation);
                if (code)
                        return code;
        }
        if (id < 0)
                return parser.exit_code;
        q.operands = argv + parser.first;
        q.n_operands = (size_t) (argc - parser.first);
        if (q.n_operands > 0 && strcmp(q.operands[0], "simulate") == 0)
                return blkup_cli_lazyinit_simulate(self, &q);
        if (q.n_operands > 0 && strcmp(q.operands[0], "status") == 0)
                return blkup_cli_lazyinit_status(self, &q);
        if (q.watch)
                return blkup_cli_usage_error(self, "--watch goes with status");
        if (q.has_policy || q.has_hz || q.has_groups || q.has_time || q.table || q.lottery)
                return blkup_cli_usage_error(
                        self, "--policy, --hz, --groups, --time, --table and --lottery go with "
                              "simulate");
        code = check_request(self, &q, has_allocation);
        return code ? code : run_devices(&q);
}

const struct blkup_cli_command blkup_cli_command_lazyinit = {
        .name = "lazyinit",
        .help = "Finishes the inode tables of ext4, at full speed or politely.",
        .synopsis = "[options] DEVICE... | simulate ... | status [--watch] DEVICE|DIR",
        .called_as = "blkup-lazyinit",
        .options = options,
        .n_options = BLKUP_ARRAY_SIZE(options),
        .usage_exit = BLKUP_CLI_LAZYINIT_EXIT_OTHER,
        .run = run_lazyinit,
};
