/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "cli/commands.h"
#include "cli/output.h"

/* The table of commands, in the order of their help. */
static const struct blkup_cli_command *const commands[] = {
        &blkup_cli_command_probe,
#if !BLKUP_ONLY_PROBE
        &blkup_cli_command_mount,
        &blkup_cli_command_umount,
        &blkup_cli_command_findfs,
        &blkup_cli_command_modules,
        &blkup_cli_command_modprobe,
        &blkup_cli_command_lsmod,
#endif
#if !BLKUP_IS_SMALL
        &blkup_cli_command_coldplug,
        &blkup_cli_command_blkid,
        &blkup_cli_command_bench,
        &blkup_cli_command_lazyinit,
        &blkup_cli_command_timeline,
        &blkup_cli_command_compare,
        &blkup_cli_command_watch,
#endif
        &blkup_cli_command_help,
};

static void print_commands(void)
{
        printf("\nCommands:\n");
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(commands); i++)
                if (!commands[i]->is_hidden)
                        printf(" %-12s %s\n", commands[i]->name, commands[i]->help);
}

static const struct blkup_cli_option program_options[] = { BLKUP_CLI_STANDARD_OPTIONS };

static const struct blkup_cli_command program = {
        .help = "Brings storage from attached to ready, and shows where the time went.",
        .synopsis = "COMMAND [options] ...",
        .options = program_options,
        .n_options = BLKUP_ARRAY_SIZE(program_options),
        .usage_exit = 1,
        .print_more = print_commands,
};

static const struct blkup_cli_command *find_command(const char *name)
{
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(commands); i++)
                if (strcmp(commands[i]->name, name) == 0)
                        return commands[i];
        return NULL;
}

static const struct blkup_cli_command *find_called_as(const char *path)
{
        const char *slash = strrchr(path, '/');
        const char *name = slash ? slash + 1 : path;

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(commands); i++)
                if (commands[i]->called_as && strcmp(commands[i]->called_as, name) == 0)
                        return commands[i];
        return NULL;
}

static int run_help(const struct blkup_cli_command *self, int argc, char **argv)
{
        struct blkup_cli_parser p;
        const struct blkup_cli_command *about;
        const char *value;

        blkup_cli_parser_init(&p, self, argc, argv, false);
        if (blkup_cli_next(&p, &value) < 0)
                return p.exit_code;
        if (p.first == argc) {
                blkup_cli_print_help(&program);
                return 0;
        }
        if (argc - p.first > 1)
                return blkup_cli_usage_error(self, "one command at a time");
        about = find_command(argv[p.first]);
        if (!about)
                return blkup_cli_usage_error(&program, "unknown command '%s'", argv[p.first]);
        blkup_cli_print_help(about);
        return 0;
}

static const struct blkup_cli_option help_options[] = { BLKUP_CLI_STANDARD_OPTIONS };

const struct blkup_cli_command blkup_cli_command_help = {
        .name = "help",
        .help = "Prints the options of a command, or the commands.",
        .synopsis = "[COMMAND]",
        .options = help_options,
        .n_options = BLKUP_ARRAY_SIZE(help_options),
        .usage_exit = 1,
        .run = run_help,
};

static int run_program(int argc, char **argv)
{
        const struct blkup_cli_command *c = argc > 0 ? find_called_as(argv[0]) : NULL;
        struct blkup_cli_parser p;
        const char *value;

        if (c)
                return c->run(c, argc, argv);
        blkup_cli_parser_init(&p, &program, argc, argv, true);
        if (blkup_cli_next(&p, &value) < 0)
                return p.exit_code;
        if (p.first >= argc) {
                blkup_cli_print_help(&program);
                return 0;
        }
        c = find_command(argv[p.first]);
        if (!c)
                return blkup_cli_usage_error(&program, "unknown command '%s'", argv[p.first]);
        return c->run(c, argc - p.first, argv + p.first);
}

/* A prober keeps a run's bookkeeping on its stack, some 100 KiB: below twice that it would end in a signal.
 */
#define LEAST_STACK_KIB 256u

static bool has_stack(void)
{
        struct rlimit stack;

        if (getrlimit(RLIMIT_STACK, &stack) < 0 || stack.rlim_cur >= LEAST_STACK_KIB * 1024)
                return true;
        blkup_cli_error(NULL, "the stack is limited to %llu KiB, and %u are needed: see ulimit -s",
                        (unsigned long long) stack.rlim_cur / 1024, LEAST_STACK_KIB);
        return false;
}

int main(int argc, char **argv)
{
        int code;

        blkup_cli_prepare_streams();
        /* In an initramfs nobody sets limits. */
        if (!BLKUP_IS_SMALL && !has_stack())
                return 1;
        code = run_program(argc, argv);
        /* A command that ends with something else than its answer has flushed already; for all others this is
         * the end. */
        return blkup_cli_finish_stdout(NULL, code, code ? code : 1);
}
