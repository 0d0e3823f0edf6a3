/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands and their options as data. One table a command feeds getopt_long, --help, and whatever else wants
 * to know the options (completions, the check that the manual page names each one).
 */
#ifndef BLKUP_CLI_OPTIONS_H
#define BLKUP_CLI_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

enum blkup_cli_arg {
        BLKUP_CLI_NO_ARG = 0,
        BLKUP_CLI_ARG,          /* --name VALUE, -n VALUE */
        BLKUP_CLI_OPTIONAL_ARG, /* --name[=VALUE] */
};

struct blkup_cli_option {
        int id;             /* > 0, one of its table: what blkup_cli_next() answers */
        char letter;        /* 0: long only */
        const char *name;   /* without the dashes; NULL: letter only */
        enum blkup_cli_arg arg;
        const char *arg_name;
        const char *words;  /* the only values it takes, blank-separated; NULL: any text */
        const char *help;   /* "\n" starts a further line */
};

/* The two that every command has; first in each table. Answered by blkup_cli_next() itself. */
#define BLKUP_CLI_ID_HELP 1001
#define BLKUP_CLI_ID_VERSION 1002
#define BLKUP_CLI_STANDARD_OPTIONS                                                                  \
        { .id = BLKUP_CLI_ID_HELP, .letter = 'h', .name = "help", .help = "print this text" },      \
        { .id = BLKUP_CLI_ID_VERSION, .letter = 'V', .name = "version", .help = "print the version" }

struct blkup_cli_command {
        const char *name;
        const char *help;      /* one line, for the list of commands */
        const char *synopsis;  /* what follows "blkup NAME" in the usage line */
        const char *called_as; /* the program's name that means this command (a symbolic link); NULL: none */
        bool is_hidden;        /* another program's command line: not in the list of commands */
        const struct blkup_cli_option *options;
        size_t n_options;
        int usage_exit;                    /* exit code of a usage error */
        void (*print_more)(void);          /* further --help text on stdout; NULL: none */
        int (*run)(const struct blkup_cli_command *self, int argc, char **argv); /* argv[0]: the command */
};

/* More options than any one command has: the arrays for getopt_long are of a fixed size. */
#define BLKUP_CLI_MAX_OPTIONS 64

struct blkup_cli_parser {
        const struct blkup_cli_command *command;
        int argc;
        char **argv;
        struct option longs[BLKUP_CLI_MAX_OPTIONS + 1];
        char shorts[3 * BLKUP_CLI_MAX_OPTIONS + 3];
        int exit_code;   /* after a negative answer: what to exit with */
        int first;       /* after the last option: index of the first operand in argv */
};

/* only_leading: stop at the first operand (options before a sub-command). getopt's state is global: one
 * parser at a time. */
void blkup_cli_parser_init(struct blkup_cli_parser *p, const struct blkup_cli_command *c, int argc,
                           char **argv, bool only_leading);

/*
 * The next option: its id, with its value (NULL: none) in *ret_value. 0: no more, operands from p->first on.
 * Negative: --help or --version was answered, or a wrong option was reported; exit with p->exit_code.
 */
int blkup_cli_next(struct blkup_cli_parser *p, const char **ret_value);

/* Which of an option's words is value: 0, 1 ... in their order. -1: none, and that was said on stderr. */
int blkup_cli_word(const struct blkup_cli_command *c, int id, const char *value);

/* A wrong use of the command: the line, then "Try ...", both on stderr. Returns c->usage_exit. */
int blkup_cli_usage_error(const struct blkup_cli_command *c, const char *fmt, ...) BLKUP_PRINTF(2, 3);

/* --help of a command on stdout, made from its table. */
void blkup_cli_print_help(const struct blkup_cli_command *c);

#endif
