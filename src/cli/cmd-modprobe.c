/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line of modprobe(8). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/modules.h"
#include "cli/output.h"

enum {
        OPT_ALL = 1,
        OPT_REMOVE,
        OPT_RESOLVE,
        OPT_FIRST_TIME,
        OPT_IGNORE_INSTALL,
        OPT_IGNORE_REMOVE,
        OPT_BLACKLIST,
        OPT_DEPENDS,
        OPT_CONFIG,
        OPT_DRY_RUN,
        OPT_RELEASE,
        OPT_SYSROOT,
        OPT_QUIET,
        OPT_VERBOSE,
        OPT_SYSLOG,
};

static const struct blkup_cli_option options[] = {
        { OPT_ALL, 'a', "all", BLKUP_CLI_NO_ARG, NULL, NULL,
          "every operand is a module, none is a parameter" },
        { OPT_REMOVE, 'r', "remove", BLKUP_CLI_NO_ARG, NULL, NULL, "remove modules, and what they needed" },
        { OPT_RESOLVE, 'R', "resolve-alias", BLKUP_CLI_NO_ARG, NULL, NULL,
          "print which modules an alias means" },
        { OPT_FIRST_TIME, 0, "first-time", BLKUP_CLI_NO_ARG, NULL, NULL, "fail when there is nothing to do" },
        { OPT_IGNORE_INSTALL, 'i', "ignore-install", BLKUP_CLI_NO_ARG, NULL, NULL,
          "ignore install commands" },
        { OPT_IGNORE_INSTALL, 'i', "ignore-remove", BLKUP_CLI_NO_ARG, NULL, NULL, "ignore remove commands" },
        { OPT_BLACKLIST, 'b', "use-blacklist", BLKUP_CLI_NO_ARG, NULL, NULL, "blacklist also what is named" },
        { OPT_DEPENDS, 'D', "show-depends", BLKUP_CLI_NO_ARG, NULL, NULL,
          "print what would be loaded, in order" },
        { OPT_CONFIG, 'c', "showconfig", BLKUP_CLI_NO_ARG, NULL, NULL, "print the configuration" },
        { OPT_CONFIG, 'c', "show-config", BLKUP_CLI_NO_ARG, NULL, NULL, "the same" },
        { OPT_DRY_RUN, 'n', "dry-run", BLKUP_CLI_NO_ARG, NULL, NULL,
          "do nothing; with -v say what would be done" },
        { OPT_DRY_RUN, 'n', "show", BLKUP_CLI_NO_ARG, NULL, NULL, "the same" },
        { OPT_RELEASE, 'S', "set-version", BLKUP_CLI_ARG, "VERSION", NULL, "the kernel's release" },
        { OPT_SYSROOT, 'd', "sysroot", BLKUP_CLI_ARG, "DIR", NULL, "the same as --dirname" },
        { OPT_SYSROOT, 'd', "dirname", BLKUP_CLI_ARG, "DIR", NULL,
          "a folder that stands for /, also for\n/proc, /sys and the configuration" },
        { OPT_QUIET, 'q', "quiet", BLKUP_CLI_NO_ARG, NULL, NULL,
          "say nothing of modules that are not found" },
        { OPT_SYSLOG, 's', "syslog", BLKUP_CLI_NO_ARG, NULL, NULL,
          "accepted, messages stay on standard error" },
        { OPT_VERBOSE, 'v', "verbose", BLKUP_CLI_NO_ARG, NULL, NULL, "print what is done" },
        BLKUP_CLI_STANDARD_OPTIONS,
};

struct modprobe {
        struct blkup_modules_where where;
        struct blkup_cli_modules_plan plan;
        bool all, remove, depends, dry_run, verbose, first_time;
};

static void set_option(struct modprobe *o, int id, const char *value)
{
        switch (id) {
        case OPT_ALL:
                o->all = true;
                break;
        case OPT_REMOVE:
                o->remove = true;
                break;
        case OPT_RESOLVE:
                o->plan.show = BLKUP_CLI_MODULES_RESOLVE;
                break;
        case OPT_FIRST_TIME:
                o->first_time = true;
                break;
        case OPT_IGNORE_INSTALL:
                o->plan.flags |= BLKUP_MODULES_IGNORE_COMMANDS;
                break;
        case OPT_BLACKLIST:
                o->plan.flags |= BLKUP_MODULES_BLACKLIST;
                break;
        case OPT_DEPENDS:
                o->depends = true;
                o->plan.flags |= BLKUP_MODULES_IGNORE_LOADED;
                break;
        case OPT_CONFIG:
                o->plan.show = BLKUP_CLI_MODULES_DUMP;
                break;
        case OPT_DRY_RUN:
                o->dry_run = true;
                break;
        case OPT_RELEASE:
                o->where.release = value;
                break;
        case OPT_SYSROOT:
                o->where.root = value;
                break;
        case OPT_QUIET:
                o->plan.quiet = true;
                break;
        case OPT_VERBOSE:
                o->verbose = true;
                break;
        default:
                break;
        }
}

/* -a: all operands are modules. Otherwise the first one is, and the rest are its parameters. */
static int take_operands(struct modprobe *o, char **operands, size_t n, struct blkup_cli_requests *q,
                         char **ret_options)
{
        bool all = o->all || o->remove;
        int r = 0;

        for (size_t i = 0; r == 0 && i < (all ? n : 1); i++)
                r = blkup_cli_requests_add(q, operands[i], strlen(operands[i]));
        if (r == 0 && !all && n > 1) {
                *ret_options = blkup_cli_join_options(operands + 1, n - 1);
                r = *ret_options ? 0 : -ENOMEM;
        }
        return r;
}

static int run_modprobe(const struct blkup_cli_command *self, int argc, char **argv)
{
        struct modprobe o = { .plan = { .command = "modprobe" } };
        struct blkup_cli_requests q = { 0 };
        BLKUP_CLEANUP_FREE char *extra = NULL;
        struct blkup_modules *m = NULL;
        struct blkup_error err = { 0 };
        struct blkup_cli_parser p;
        const char *value = NULL;
        int id, code, r = 0;

        blkup_cli_parser_init(&p, self, argc, argv, false);
        while ((id = blkup_cli_next(&p, &value)) > 0) /* ends: with the arguments */
                set_option(&o, id, value);
        if (id < 0)
                return p.exit_code;
        if (p.first == argc && o.plan.show != BLKUP_CLI_MODULES_DUMP)
                return blkup_cli_usage_error(self, "which module?");
        if (p.first < argc)
                r = take_operands(&o, argv + p.first, (size_t) (argc - p.first), &q, &extra);
        if (r == 0)
                r = blkup_modules_new(&o.where, &m, &err);
        if (r < 0) {
                blkup_cli_error("modprobe", "%s", err.code ? err.message : blkup_error_text(-r));
                blkup_cli_requests_free(&q);
                return BLKUP_CLI_MODULES_FAILED;
        }
        o.plan.options = extra;
        o.plan.silent_steps = !o.depends && !o.verbose;
        if (o.remove)
                code = blkup_cli_modules_remove(m, "modprobe", o.verbose, o.dry_run || o.depends,
                                                o.plan.quiet, &q);
        else if (o.plan.show != BLKUP_CLI_MODULES_STEPS || o.depends || o.dry_run)
                code = blkup_cli_modules_plan(m, &o.plan, &q);
        else
                code = blkup_cli_modules_load(m, &(struct blkup_cli_modules_load){
                        .command = "modprobe", .flags = o.plan.flags, .options = extra, .quiet = o.plan.quiet,
                        .verbose = o.verbose, .first_time = o.first_time, .load.no_sha_first = true,
                }, &q);
        (void) blkup_modules_free(m);
        blkup_cli_requests_free(&q);
        return code;
}

const struct blkup_cli_command blkup_cli_command_modprobe = {
        .name = "modprobe",
        .help = "Loads, removes and shows modules, as modprobe does.",
        .synopsis = "[options] MODULE [PARAMETER=VALUE...]",
        .called_as = "modprobe",
        .is_hidden = true,
        .options = options,
        .n_options = BLKUP_ARRAY_SIZE(options),
        .usage_exit = BLKUP_CLI_MODULES_FAILED,
        .run = run_modprobe,
};
