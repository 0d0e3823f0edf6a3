/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/modules.h"
#include "cli/output.h"
#include "cli/timeline.h"
#include "host/hostfile.h"

enum {
        OPT_RELEASE = 1,
        OPT_SYSROOT,
        OPT_COLDPLUG,
        OPT_FILES_FROM,
        OPT_OPTIONS,
        OPT_IGNORE_INSTALL,
        OPT_BLACKLIST,
        OPT_SOFTDEP,
        OPT_IGNORE_LOADED,
        OPT_RESOLVE,
        OPT_CONFIG,
        OPT_DEPENDS,
        OPT_QUIET,
        OPT_DRY_RUN,
        OPT_JSON,
        OPT_WORKERS,
        OPT_SEQUENTIAL,
        OPT_WAIT,
        OPT_TIMELINE,
        OPT_NO_SHA,
        OPT_VERBOSE,
        OPT_VERMAGIC,
        OPT_SYMVERS,
        OPT_SYSTEM_MAP,
        OPT_LOADED,
        OPT_PARAMS,
        OPT_FLAGS,
        OPT_SIG_ENFORCE,
        OPT_KEYS,
        OPT_LOCK,
        OPT_PREP,
        OPT_ALL,
        OPT_STATS,
};

static const struct blkup_cli_option options[] = {
        { OPT_RELEASE, 'S', "kernel", BLKUP_CLI_ARG, "VERSION", NULL,
          "the kernel's release (usual: the running one)" },
        { OPT_SYSROOT, 'd', "sysroot", BLKUP_CLI_ARG, "DIR", NULL,
          "a folder that stands for /, also for /proc and /sys" },
        { OPT_COLDPLUG, 0, "coldplug", BLKUP_CLI_NO_ARG, NULL, NULL, "also all modaliases that /sys tells" },
        { OPT_FILES_FROM, 0, "files-from", BLKUP_CLI_ARG, "FILE", NULL,
          "also the names in FILE, one a line; - is standard\ninput" },
        { OPT_OPTIONS, 'o', "options", BLKUP_CLI_ARG, "TEXT", NULL, "parameters for the named modules" },
        { OPT_IGNORE_INSTALL, 'i', "ignore-install", BLKUP_CLI_NO_ARG, NULL, NULL,
          "ignore install commands of the named\nmodules" },
        { OPT_BLACKLIST, 'b', "use-blacklist", BLKUP_CLI_NO_ARG, NULL, NULL,
          "blacklist also what is asked for by name" },
        { OPT_SOFTDEP, 0, "softdep", BLKUP_CLI_ARG, "WHICH", "all first",
          "which softdep lines of a module count: all, or the\nfirst, as in kmod up to 30" },
        { OPT_IGNORE_LOADED, 'D', "show-depends", BLKUP_CLI_NO_ARG, NULL, NULL,
          "plan: as if nothing were loaded (usual)" },
        { OPT_RESOLVE, 'R', "resolve", BLKUP_CLI_NO_ARG, NULL, NULL,
          "plan: only the modules that a name or alias means" },
        { OPT_CONFIG, 'c', "show-config", BLKUP_CLI_NO_ARG, NULL, NULL,
          "plan: the configuration and the aliases" },
        { OPT_QUIET, 'q', "quiet", BLKUP_CLI_NO_ARG, NULL, NULL, "say nothing of names that are not found" },
        { OPT_DRY_RUN, 'n', "dry-run", BLKUP_CLI_NO_ARG, NULL, NULL,
          "do nothing; plan: leave out what is loaded" },
        { OPT_WORKERS, 'j', "jobs", BLKUP_CLI_ARG, "N", NULL,
          "load, check: N at a time (usual: load four a CPU, at\nleast 8; check one a CPU)" },
        { OPT_SEQUENTIAL, 0, "sequential", BLKUP_CLI_ARG, "NAME", NULL,
          "load: nothing else while NAME is loaded; may be\nrepeated" },
        { OPT_WAIT, 0, "wait", BLKUP_CLI_ARG, "S", NULL,
          "load: leave a module alone that takes longer than S\nseconds" },
        { OPT_NO_SHA, 0, "no-sha-first", BLKUP_CLI_NO_ARG, NULL, NULL,
          "load: no accelerated sha256 before signed modules" },
        { OPT_TIMELINE, 0, "timeline", BLKUP_CLI_ARG, "FILE", NULL, "load: " BLKUP_CLI_TIMELINE_HELP },
        { OPT_VERBOSE, 'v', "verbose", BLKUP_CLI_NO_ARG, NULL, NULL, "load, remove: a line for each module" },
        { OPT_ALL, 'a', "all", BLKUP_CLI_NO_ARG, NULL, NULL, "check: every module of the kernel's folder" },
        { OPT_VERMAGIC, 0, "vermagic", BLKUP_CLI_ARG, "TEXT", NULL, "check: the kernel's version magic" },
        { OPT_SYMVERS, 0, "symvers", BLKUP_CLI_ARG, "FILE", NULL,
          "check: Module.symvers of the kernel (usual: that of\nits headers, if they are there)" },
        { OPT_SYSTEM_MAP, 0, "system-map", BLKUP_CLI_ARG, "FILE", NULL, "check: System.map of the kernel" },
        { OPT_LOADED, 0, "loaded", BLKUP_CLI_ARG, "FILE.ko", NULL,
          "check: a module that is in the kernel already;\nmay be repeated" },
        { OPT_PARAMS, 0, "params", BLKUP_CLI_ARG, "TEXT", NULL, "check: parameters that would be given" },
        { OPT_FLAGS, 0, "flags", BLKUP_CLI_ARG, "N", NULL, "check: flags of finit_module(2)" },
        { OPT_SIG_ENFORCE, 0, "sig-enforce", BLKUP_CLI_NO_ARG, NULL, NULL,
          "check: the kernel requires signatures" },
        { OPT_KEYS, 0, "keys", BLKUP_CLI_ARG, "FILE", NULL,
          "check: verify signatures by these certificates, or\nby those in a vmlinux or vmlinuz" },
        { OPT_LOCK, 0, "lock", BLKUP_CLI_ARG, "KIND", "short big",
          "check: for measurements, one lock over each\nmodule's check" },
        { OPT_PREP, 0, "prep", BLKUP_CLI_ARG, "WHEN", "on-error always",
          "check: for measurements, make the threads that an\nerror needs on-error or always" },
        { OPT_STATS, 0, "stats", BLKUP_CLI_NO_ARG, NULL, NULL, "check: locks and times on standard error" },
        { OPT_JSON, 0, "json", BLKUP_CLI_OPTIONAL_ARG, "lines", "lines",
          "the answer as JSON; check: with lines, one object a\nmodule and line" },
        BLKUP_CLI_STANDARD_OPTIONS,
};

#define MAX_SEQUENTIAL 64u
#define MAX_LOADED     1024u

struct request {
        struct blkup_modules_where where;
        struct blkup_cli_modules_plan plan;
        struct blkup_cli_modules_load load;
        const char *sequential[MAX_SEQUENTIAL];
        struct blkup_cli_modules_check check;
        const char *loaded[MAX_LOADED];
        bool coldplug, json, dry_run, verbose;
        const char *files_from;
        char **operands;
        size_t n_operands;
};

static bool get_number(const char *text, uint64_t least, uint64_t most, uint64_t *ret)
{
        return blkup_host_number(text, strlen(text), ret) && *ret >= least && *ret <= most;
}

static int set_option(const struct blkup_cli_command *self, struct request *q, int id, const char *value)
{
        uint64_t n = 0;
        int word;

        switch (id) {
        case OPT_RELEASE:
                q->where.release = value;
                break;
        case OPT_SYSROOT:
                q->where.root = value;
                break;
        case OPT_COLDPLUG:
                q->coldplug = true;
                break;
        case OPT_FILES_FROM:
                q->files_from = value;
                break;
        case OPT_OPTIONS:
                q->plan.options = value;
                break;
        case OPT_IGNORE_INSTALL:
                q->plan.flags |= BLKUP_MODULES_IGNORE_COMMANDS;
                break;
        case OPT_BLACKLIST:
                q->plan.flags |= BLKUP_MODULES_BLACKLIST;
                break;
        case OPT_SOFTDEP:
                word = blkup_cli_word(self, id, value);
                if (word < 0)
                        return self->usage_exit;
                if (word == 1)
                        q->plan.flags |= BLKUP_MODULES_FIRST_SOFTDEP;
                break;
        case OPT_RESOLVE:
                q->plan.show = BLKUP_CLI_MODULES_RESOLVE;
                break;
        case OPT_CONFIG:
                q->plan.show = BLKUP_CLI_MODULES_DUMP;
                break;
        case OPT_QUIET:
                q->plan.quiet = true;
                break;
        case OPT_DRY_RUN:
                q->dry_run = true;
                break;
        case OPT_JSON:
                q->json = true;
                if (value && blkup_cli_word(self, id, value) < 0)
                        return self->usage_exit;
                q->check.json_lines = value != NULL;
                break;
        case OPT_ALL:
                q->check.all = true;
                break;
        case OPT_VERMAGIC:
                q->check.check.vermagic = value;
                break;
        case OPT_SYMVERS:
                q->check.check.symvers = value;
                break;
        case OPT_SYSTEM_MAP:
                q->check.check.system_map = value;
                break;
        case OPT_LOADED:
                if (q->check.check.n_loaded == MAX_LOADED)
                        return blkup_cli_usage_error(self, "--loaded: at most %u", MAX_LOADED);
                q->loaded[q->check.check.n_loaded++] = value;
                break;
        case OPT_PARAMS:
                q->check.check.params = value;
                break;
        case OPT_FLAGS:
                if (!get_number(value, 0, INT32_MAX, &n))
                        return blkup_cli_usage_error(self, "--flags: a number, not '%s'", value);
                q->check.check.flags = (unsigned) n;
                break;
        case OPT_SIG_ENFORCE:
                q->check.check.sig_enforce = true;
                break;
        case OPT_KEYS:
                q->check.check.keys = value;
                break;
        case OPT_LOCK:
                word = blkup_cli_word(self, id, value);
                if (word < 0)
                        return self->usage_exit;
                q->check.check.lock = word == 0 ? BLKUP_MODULE_LOCK_SHORT : BLKUP_MODULE_LOCK_BIG;
                break;
        case OPT_PREP:
                word = blkup_cli_word(self, id, value);
                if (word < 0)
                        return self->usage_exit;
                q->check.check.prep = word == 0 ? BLKUP_MODULE_PREP_ON_ERROR : BLKUP_MODULE_PREP_ALWAYS;
                break;
        case OPT_STATS:
                q->check.stats = true;
                break;
        case OPT_WORKERS:
                if (!get_number(value, 1, 256, &n))
                        return blkup_cli_usage_error(self, "--jobs: 1 to 256, not '%s'", value);
                q->load.load.workers = (unsigned) n;
                break;
        case OPT_WAIT:
                if (!get_number(value, 1, 86400, &n))
                        return blkup_cli_usage_error(self, "--wait: 1 to 86400 seconds, not '%s'", value);
                q->load.load.wait_ns = n * 1000000000u;
                break;
        case OPT_SEQUENTIAL:
                if (q->load.load.n_sequential == MAX_SEQUENTIAL)
                        return blkup_cli_usage_error(self, "--sequential: at most %u", MAX_SEQUENTIAL);
                q->sequential[q->load.load.n_sequential++] = value;
                break;
        case OPT_TIMELINE:
                if (!blkup_cli_timeline_has_suffix(value))
                        return blkup_cli_usage_error(self, "--timeline: '%s' has no known suffix (%s)", value,
                                                     blkup_cli_timeline_suffixes);
                q->load.timeline = value;
                break;
        case OPT_NO_SHA:
                q->load.load.no_sha_first = true;
                break;
        case OPT_VERBOSE:
                q->verbose = true;
                break;
        default:
                break;
        }
        return 0;
}

/* Everything that is asked for: operands, the list, what sysfs tells. */
static int gather(struct request *q, struct blkup_cli_requests *to)
{
        struct blkup_error err = { 0 };
        int r = 0;

        for (size_t i = 0; r == 0 && i < q->n_operands; i++)
                r = blkup_cli_requests_add(to, q->operands[i], strlen(q->operands[i]));
        if (r == 0 && q->files_from) {
                r = blkup_cli_requests_read(to, q->files_from);
                if (r < 0)
                        (void) blkup_fail_errno(&err, r, "%s", q->files_from);
        }
        if (r == 0 && q->coldplug)
                r = blkup_cli_requests_coldplug(to, q->where.root, &err);
        if (r < 0)
                blkup_cli_error("modules", "%s", err.code ? err.message : blkup_error_text(-r));
        return r;
}

static int run_plan(const struct blkup_cli_command *self, struct request *q)
{
        struct blkup_cli_requests requests = { 0 };
        struct blkup_modules *m = NULL;
        struct blkup_error err = { 0 };
        int code = BLKUP_CLI_MODULES_FAILED;

        q->plan.json = q->json;
        q->plan.lenient = q->coldplug;
        if (!q->dry_run)
                q->plan.flags |= BLKUP_MODULES_IGNORE_LOADED;
        if (q->n_operands == 0 && !q->coldplug && !q->files_from && q->plan.show != BLKUP_CLI_MODULES_DUMP)
                return blkup_cli_usage_error(self, "plan: which modules?");
        if (gather(q, &requests) == 0) {
                if (blkup_modules_new(&q->where, &m, &err) < 0)
                        blkup_cli_error("modules", "%s", err.message);
                else
                        code = blkup_cli_modules_plan(m, &q->plan, &requests);
                (void) blkup_modules_free(m);
        }
        blkup_cli_requests_free(&requests);
        return code;
}

static int run_load(const struct blkup_cli_command *self, struct request *q)
{
        struct blkup_cli_requests requests = { 0 };
        struct blkup_modules *m = NULL;
        struct blkup_error err = { 0 };
        int code = BLKUP_CLI_MODULES_FAILED;

        if (q->dry_run)
                return run_plan(self, q);
        if (q->n_operands == 0 && !q->coldplug && !q->files_from)
                return blkup_cli_usage_error(self, "load: which modules?");
        q->load.command = "modules";
        q->load.flags = q->plan.flags;
        q->load.options = q->plan.options;
        q->load.quiet = q->plan.quiet;
        q->load.verbose = q->verbose;
        q->load.json = q->json;
        q->load.lenient = q->coldplug;
        q->load.load.sequential = q->sequential;
        if (gather(q, &requests) == 0) {
                if (blkup_modules_new(&q->where, &m, &err) < 0)
                        blkup_cli_error("modules", "%s", err.message);
                else
                        code = blkup_cli_modules_load(m, &q->load, &requests);
                (void) blkup_modules_free(m);
        }
        blkup_cli_requests_free(&requests);
        return code;
}

static int run_remove(const struct blkup_cli_command *self, struct request *q)
{
        struct blkup_cli_requests requests = { 0 };
        struct blkup_modules *m = NULL;
        struct blkup_error err = { 0 };
        int code = BLKUP_CLI_MODULES_FAILED;

        /* Coldplug brings things up; taking every driver of a machine away is nobody's wish. */
        if (q->coldplug)
                return blkup_cli_usage_error(self, "remove: not with --coldplug, which never unloads");
        if (q->n_operands == 0 && !q->files_from)
                return blkup_cli_usage_error(self, "remove: which modules?");
        if (gather(q, &requests) == 0) {
                if (blkup_modules_new(&q->where, &m, &err) < 0)
                        blkup_cli_error("modules", "%s", err.message);
                else
                        code = blkup_cli_modules_remove(m, "modules", q->verbose || q->dry_run, q->dry_run,
                                                        q->plan.quiet, &requests);
                (void) blkup_modules_free(m);
        }
        blkup_cli_requests_free(&requests);
        return code;
}

static int run_check(const struct blkup_cli_command *self, struct request *q)
{
        struct blkup_cli_requests files = { 0 };
        struct blkup_modules *m = NULL;
        struct blkup_error err = { 0 };
        int code = BLKUP_CLI_MODULES_USAGE;

        if (q->coldplug)
                return blkup_cli_usage_error(self, "check: files, or --all; not --coldplug");
        if (q->n_operands == 0 && !q->files_from && !q->check.all)
                return blkup_cli_usage_error(self, "check: which files? or --all");
        q->check.check.loaded = q->loaded;
        q->check.check.workers = q->load.load.workers;
        q->check.json = q->json;
        q->check.verbose = q->verbose;
        if (gather(q, &files) == 0) {
                if (blkup_modules_new(&q->where, &m, &err) < 0) {
                        blkup_cli_error("modules", "%s", err.message);
                } else {
                        q->check.check.modules = m;
                        code = blkup_cli_modules_check(&q->check, files.v, files.n);
                }
                (void) blkup_modules_free(m);
        }
        blkup_cli_requests_free(&files);
        return code;
}

static int run_list(const struct blkup_cli_command *self, struct request *q)
{
        if (q->n_operands > 0)
                return blkup_cli_usage_error(self, "list: no operands");
        return blkup_cli_modules_list("modules", q->where.root, q->json);
}

static const struct action {
        const char *name, *help;
        int (*run)(const struct blkup_cli_command *self, struct request *q);
} actions[] = {
        { "plan", "what would be loaded, in order", run_plan },
        { "load", "load, in parallel", run_load },
        { "check", "say which files the kernel would refuse, and why", run_check },
        { "list", "what is loaded", run_list },
        { "remove", "remove modules, and what they needed and nobody uses", run_remove },
};

static void print_actions(void)
{
        printf("\nActions:\n");
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(actions); i++)
                printf(" %-12s %s\n", actions[i].name, actions[i].help);
}

static int run_modules(const struct blkup_cli_command *self, int argc, char **argv)
{
        struct request q = { .plan = { .command = "modules" } };
        struct blkup_cli_parser p;
        const char *value = NULL;
        int id, code;

        blkup_cli_parser_init(&p, self, argc, argv, false);
        while ((id = blkup_cli_next(&p, &value)) > 0) { /* ends: with the arguments */
                code = set_option(self, &q, id, value);
                if (code)
                        return code;
        }
        if (id < 0)
                return p.exit_code;
        if (p.first == argc)
                return blkup_cli_usage_error(self, "which action? plan, load, check, list or remove");
        q.operands = argv + p.first + 1;
        q.n_operands = (size_t) (argc - p.first - 1);
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(actions); i++)
                if (strcmp(actions[i].name, argv[p.first]) == 0)
                        return actions[i].run(self, &q);
        return blkup_cli_usage_error(self, "unknown action '%s'", argv[p.first]);
}

const struct blkup_cli_command blkup_cli_command_modules = {
        .name = "modules",
        .help = "Plans, loads, checks, lists and removes kernel modules.",
        .synopsis = "plan|load|check|list|remove [options] [NAME...]",
        .called_as = "blkup-modules",
        .options = options,
        .n_options = BLKUP_ARRAY_SIZE(options),
        .usage_exit = BLKUP_CLI_MODULES_USAGE,
        .print_more = print_actions,
        .run = run_modules,
};
