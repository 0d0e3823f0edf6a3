/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line of lsmod(8), with a root folder for `blkup modules list`. */
#include "cli/commands.h"
#include "cli/modules.h"

enum { OPT_SYSROOT = 1 };

static const struct blkup_cli_option options[] = {
        { OPT_SYSROOT, 'd', "sysroot", BLKUP_CLI_ARG, "DIR", NULL, "read DIR/proc/modules" },
        BLKUP_CLI_STANDARD_OPTIONS,
};

static int run_lsmod(const struct blkup_cli_command *self, int argc, char **argv)
{
        struct blkup_cli_parser p;
        const char *value = NULL, *root = NULL;
        int id;

        blkup_cli_parser_init(&p, self, argc, argv, false);
        while ((id = blkup_cli_next(&p, &value)) > 0) /* ends: with the arguments */
                root = value;
        if (id < 0)
                return p.exit_code;
        if (p.first < argc)
                return blkup_cli_usage_error(self, "too many parameters");
        return blkup_cli_modules_list("lsmod", root, false);
}

const struct blkup_cli_command blkup_cli_command_lsmod = {
        .name = "lsmod",
        .help = "Shows which modules are loaded, as lsmod does.",
        .synopsis = "[options]",
        .called_as = "lsmod",
        .is_hidden = true,
        .options = options,
        .n_options = BLKUP_ARRAY_SIZE(options),
        .usage_exit = BLKUP_CLI_MODULES_FAILED,
        .run = run_lsmod,
};
