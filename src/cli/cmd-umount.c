/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/mount-output.h"
#include "cli/output.h"
#include "cli/tags.h"
#include "cli/timeline.h"
#include "mount/names.h"

enum {
        OPT_ALL = 1,
        OPT_ALL_OF,
        OPT_RECURSIVE,
        OPT_LAZY,
        OPT_FORCE,
        OPT_TYPES,
        OPT_JOBS,
        OPT_DRY_RUN,
        OPT_TIME,
        OPT_JSON,
        OPT_TIMELINE,
        OPT_NO_MTAB,
        OPT_DETACH,
        OPT_VERBOSE,
};

static const struct blkup_cli_option options[] = {
        { OPT_ALL, 'a', "all", BLKUP_CLI_NO_ARG, NULL, NULL, "all but what the system itself stands on" },
        { OPT_ALL_OF, 'A', "all-of", BLKUP_CLI_NO_ARG, NULL, NULL,
          "all mounts of each named device, or of the file\nsystem at each named mount point" },
        { OPT_RECURSIVE, 'R', "recursive", BLKUP_CLI_NO_ARG, NULL, NULL, "with all that is mounted below" },
        { OPT_LAZY, 'l', "lazy", BLKUP_CLI_NO_ARG, NULL, NULL, "out of sight now, gone when nobody uses it" },
        { OPT_FORCE, 'f', "force", BLKUP_CLI_NO_ARG, NULL, NULL, "of a server that does not answer" },
        { OPT_TYPES, 't', "types", BLKUP_CLI_ARG, "LIST", NULL, "with -a: only these types" },
        { OPT_JOBS, 'j', "jobs", BLKUP_CLI_ARG, "N", NULL, "at most N at a time (usual: 64)" },
        { OPT_DRY_RUN, 0, "dry-run", BLKUP_CLI_NO_ARG, NULL, NULL, "only say what would be unmounted" },
        { OPT_TIME, 0, "time", BLKUP_CLI_NO_ARG, NULL, NULL, "a table of what each took" },
        { OPT_JSON, 0, "json", BLKUP_CLI_NO_ARG, NULL, NULL, "JSON: results and causes" },
        { OPT_TIMELINE, 0, "timeline", BLKUP_CLI_ARG, "FILE", NULL, BLKUP_CLI_TIMELINE_HELP },
        { OPT_NO_MTAB, 'n', "no-mtab", BLKUP_CLI_NO_ARG, NULL, NULL,
          "for umount's sake: no table is written" },
        { OPT_DETACH, 'd', "detach-loop", BLKUP_CLI_NO_ARG, NULL, NULL,
          "for umount's sake: a loop device that mount made\ngoes away by itself" },
        { OPT_VERBOSE, 'v', "verbose", BLKUP_CLI_NO_ARG, NULL, NULL, "say what was unmounted, too" },
        BLKUP_CLI_STANDARD_OPTIONS,
};

struct request {
        struct blkup_mount_settings settings;
        unsigned flags;
        const char *types, *timeline;
        bool time, json, verbose;
};

static int set_option(const struct blkup_cli_command *self, struct request *q, int id, const char *value)
{
        char *end;

        switch (id) {
        case OPT_ALL:
                q->flags |= BLKUP_UMOUNT_ALL;
                break;
        case OPT_ALL_OF:
                q->flags |= BLKUP_UMOUNT_ALL_OF;
                break;
        case OPT_RECURSIVE:
                q->flags |= BLKUP_UMOUNT_RECURSIVE;
                break;
        case OPT_LAZY:
                q->flags |= BLKUP_UMOUNT_LAZY;
                break;
        case OPT_FORCE:
                q->flags |= BLKUP_UMOUNT_FORCE;
                break;
        case OPT_DRY_RUN:
                q->flags |= BLKUP_UMOUNT_DRY_RUN;
                break;
        case OPT_TYPES:
                q->types = value;
                break;
        case OPT_JOBS:
                q->settings.workers = (unsigned) strtoul(value, &end, 10);
                if (*end || end == value || q->settings.workers > 256)
                        return blkup_cli_usage_error(self, "-j: '%s' is no number from 0 to 256", value);
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
        case OPT_VERBOSE:
                q->verbose = true;
                break;
        }
        return 0;
}

static int print_answer(const struct request *q, struct blkup_cli_mount_report *report)
{
        int code = blkup_cli_mount_exit_code(report), r = 0;
        struct blkup_error err = { 0 };

        blkup_cli_mount_print_messages(report);
        if (q->json)
                r = blkup_cli_mount_print_json(report, code);
        else if (q->time)
                r = blkup_cli_mount_print_times(report);
        else if (q->flags & BLKUP_UMOUNT_DRY_RUN)
                blkup_cli_mount_print_graph(report);
        if (r < 0 && !ferror(stdout)) {
                blkup_cli_error("umount", "cannot print: %s", blkup_error_text(-r));
                code |= BLKUP_CLI_MOUNT_EXIT_SYSTEM;
        }
        if (q->timeline &&
            blkup_cli_write_timeline(q->settings.trace, "blkup umount", q->timeline, &err) < 0) {
                blkup_cli_error("umount", "%s", err.message);
                code |= BLKUP_CLI_MOUNT_EXIT_SYSTEM;
        }
        return blkup_cli_finish_stdout("umount", code, code | BLKUP_CLI_MOUNT_EXIT_SYSTEM);
}

static int run_checked(const struct request *q, size_t n, char **names)
{
        struct blkup_cli_mount_report report = {
                .command = "umount", .verbose = q->verbose, .many = n > 1,
                .dry_run = q->flags & BLKUP_UMOUNT_DRY_RUN,
        };
        struct blkup_error err = { 0 };
        struct blkup_mounter *m = NULL;
        int r = blkup_mounter_new(&q->settings, &m), code;

        if (r == 0)
                r = blkup_umount(m, (const char *const *) names, n, q->types, q->flags, &report.results,
                                 &report.n, &err);
        if (r == 0)
                r = blkup_cli_mount_explain(&report);
        if (r < 0) {
                blkup_cli_error("umount", "%s", *err.message ? err.message : blkup_error_text(-r));
                code = BLKUP_CLI_MOUNT_EXIT_SYSTEM;
        } else {
                code = print_answer(q, &report);
        }
        blkup_cli_mount_free_causes(&report);
        blkup_umount_results_free(report.results, report.n);
        blkup_mounter_unref(m);
        return code;
}

static int run_umount(const struct blkup_cli_command *self, int argc, char **argv)
{
        struct blkup_cli_parser parser;
        struct request q = { .flags = 0 };
        struct blkup_cli_tags *tags = NULL;
        const char *value;
        int id, n, code = 0;

        /* As fstab has them: a shell leaves the inner marks of 'LABEL="a b"'. */
        for (int i = 1; i < argc; i++)
                blkup_mount_unquote_tag(argv[i]);
        blkup_cli_parser_init(&parser, self, argc, argv, false);
        while (code == 0 && (id = blkup_cli_next(&parser, &value)) > 0)
                code = set_option(self, &q, id, value);
        if (code)
                return code;
        if (id < 0)
                return parser.exit_code;
        n = argc - parser.first;
        if (n == 0 && !(q.flags & BLKUP_UMOUNT_ALL))
                return blkup_cli_usage_error(self, "no mount point given");
        if (n > 0 && (q.flags & BLKUP_UMOUNT_ALL))
                return blkup_cli_usage_error(self, "-a takes no mount point");
        tags = blkup_cli_tags_new(NULL);
        if (q.timeline)
                q.settings.trace = blkup_trace_new(0);
        if (!tags || (q.timeline && !q.settings.trace)) {
                blkup_cli_error("umount", "out of memory");
                code = BLKUP_CLI_MOUNT_EXIT_SYSTEM;
        } else {
                q.settings.resolver = blkup_cli_tags_resolver(tags);
                code = run_checked(&q, (size_t) n, argv + parser.first);
        }
        blkup_cli_tags_free(tags);
        blkup_trace_unref(q.settings.trace);
        return code;
}

const struct blkup_cli_command blkup_cli_command_umount = {
        .name = "umount",
        .help = "Unmounts file systems, in parallel, children first.",
        .synopsis = "[options] -a | DIR... | DEVICE...",
        .called_as = "blkup-umount",
        .options = options,
        .n_options = BLKUP_ARRAY_SIZE(options),
        .usage_exit = BLKUP_CLI_MOUNT_EXIT_USAGE,
        .run = run_umount,
};
