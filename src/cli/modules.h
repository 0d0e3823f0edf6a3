/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the commands about kernel modules share: cmd-modules.c reads the options, modules-*.c does the work.
 */
#ifndef BLKUP_CLI_MODULES_H
#define BLKUP_CLI_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <blkup/modules.h>

#include "base/error.h"

#include "cli/options.h"

enum {
        BLKUP_CLI_MODULES_OK = 0,
        BLKUP_CLI_MODULES_FAILED = 1, /* a module failed, is missing, or would be refused */
        BLKUP_CLI_MODULES_USAGE = 2,
};

/* The requests: module names and aliases, owned by the list. */
struct blkup_cli_requests {
        char **v;
        size_t n, cap;
};

BLKUP_MUST_CHECK int blkup_cli_requests_add(struct blkup_cli_requests *r, const char *text, size_t n);
void blkup_cli_requests_free(struct blkup_cli_requests *r);
/* One a line; "#" starts a comment line. path "-": standard input. */
BLKUP_MUST_CHECK int blkup_cli_requests_read(struct blkup_cli_requests *r, const char *path);
/* All modaliases of ROOT/sys. */
BLKUP_MUST_CHECK int blkup_cli_requests_coldplug(struct blkup_cli_requests *r, const char *root,
                                                 struct blkup_error *err);

/* Options of modules as the kernel reads them: words joined by blanks, values with blanks quoted. NULL: out
 * of memory. The caller frees. */
char *blkup_cli_join_options(char **words, size_t n);

enum blkup_cli_modules_show { BLKUP_CLI_MODULES_STEPS, BLKUP_CLI_MODULES_RESOLVE, BLKUP_CLI_MODULES_DUMP };

struct blkup_cli_modules_plan {
        const char *command; /* for messages */
        enum blkup_cli_modules_show show;
        unsigned flags;      /* enum blkup_module_plan_flags */
        const char *options; /* for each request; may be NULL */
        bool quiet, json, lenient; /* lenient: an alias that nothing knows is no error */
        bool silent_steps;   /* print nothing, only find */
};

/* Says why nothing can be found: no folder, or depmod has not run. */
void blkup_cli_modules_explain_missing(const char *command, const struct blkup_modules *m,
                                       const char *request);

/* Prints what the requests mean. An exit code. */
int blkup_cli_modules_plan(const struct blkup_modules *m, const struct blkup_cli_modules_plan *o,
                           const struct blkup_cli_requests *r);

struct blkup_cli_modules_load {
        const char *command;
        unsigned flags;         /* enum blkup_module_plan_flags */
        const char *options;
        bool quiet, verbose, json, lenient, first_time;
        struct blkup_module_load_options load;
        const char *timeline;   /* may be NULL */
};

/* Loads what the requests mean. An exit code. */
int blkup_cli_modules_load(const struct blkup_modules *m, const struct blkup_cli_modules_load *o,
                           const struct blkup_cli_requests *r);
struct blkup_cli_modules_check {
        struct blkup_module_check_options check;
        bool all, json, json_lines, verbose, stats;
};

/* An exit code: 0 all would load, 1 some are refused, 2 wrong use. */
int blkup_cli_modules_check(const struct blkup_cli_modules_check *o, char **files, size_t n);

/* Removes. An exit code. */
int blkup_cli_modules_remove(const struct blkup_modules *m, const char *command, bool verbose, bool dry_run,
                             bool quiet, const struct blkup_cli_requests *r);

/* lsmod. An exit code. */
int blkup_cli_modules_list(const char *command, const char *root, bool json);

#endif
