/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/options.h"
#include "cli/output.h"

/* getopt_long's answer for the long option at index i of the table: above every letter. */
#define LONG_BASE 256

/* Widest left column of --help; an option that is wider gets its text on the next line. */
#define HELP_INDENT 30

static const struct blkup_cli_option *find_id(const struct blkup_cli_command *c, int id)
{
        for (size_t i = 0; i < c->n_options; i++)
                if (c->options[i].id == id)
                        return &c->options[i];
        return NULL;
}

static const struct blkup_cli_option *find_answer(const struct blkup_cli_command *c, int answer)
{
        if (answer >= LONG_BASE)
                return (size_t) (answer - LONG_BASE) < c->n_options ? &c->options[answer - LONG_BASE] : NULL;
        for (size_t i = 0; i < c->n_options; i++)
                if (c->options[i].letter && c->options[i].letter == answer)
                        return &c->options[i];
        return NULL;
}

void blkup_cli_parser_init(struct blkup_cli_parser *p, const struct blkup_cli_command *c, int argc,
                           char **argv, bool only_leading)
{
        static const int has_arg[] = {
                [BLKUP_CLI_NO_ARG] = no_argument,
                [BLKUP_CLI_ARG] = required_argument,
                [BLKUP_CLI_OPTIONAL_ARG] = optional_argument,
        };
        size_t n_longs = 0, n_shorts = 0;

        assert(c->n_options <= BLKUP_CLI_MAX_OPTIONS);
        *p = (struct blkup_cli_parser){ .command = c, .argc = argc, .argv = argv };

        if (only_leading)
                p->shorts[n_shorts++] = '+';
        p->shorts[n_shorts++] = ':'; /* a missing value is told apart from an unknown option */
        for (size_t i = 0; i < c->n_options; i++) {
                const struct blkup_cli_option *o = &c->options[i];

                if (o->letter) {
                        p->shorts[n_shorts++] = o->letter;
                        if (o->arg != BLKUP_CLI_NO_ARG)
                                p->shorts[n_shorts++] = ':';
                        if (o->arg == BLKUP_CLI_OPTIONAL_ARG)
                                p->shorts[n_shorts++] = ':';
                }
                if (o->name)
                        p->longs[n_longs++] = (struct option){
                                .name = o->name, .has_arg = has_arg[o->arg], .val = LONG_BASE + (int) i,
                        };
        }
        opterr = 0; /* the messages are ours */
        optind = 0; /* glibc and musl: start afresh */
}

static void describe(const struct blkup_cli_option *o, bool with_letter, char *out, size_t cap)
{
        if (with_letter)
                snprintf(out, cap, "-%c", o->letter);
        else
                snprintf(out, cap, "--%s", o->name);
}

/* Is it the beginning of a long option's name? Then it begins several: getopt_long would have taken a single
 * one. */
static bool is_ambiguous(const struct blkup_cli_command *c, const char *given)
{
        size_t n;

        if (strncmp(given, "--", 2) != 0)
                return false;
        given += 2;
        n = strcspn(given, "=");
        for (size_t i = 0; i < c->n_options; i++)
                if (c->options[i].name && strncmp(c->options[i].name, given, n) == 0)
                        return true;
        return false;
}

/* Says what getopt_long did not like. Its answer was '?' or ':'. */
static void refuse(struct blkup_cli_parser *p, int answer)
{
        const struct blkup_cli_option *o = optopt ? find_answer(p->command, optopt) : NULL;
        const char *given;
        char name[64];

        if (o) {
                describe(o, optopt < LONG_BASE, name, sizeof(name));
                if (answer == ':')
                        blkup_cli_usage_error(p->command, "option %s needs a value", name);
                else
                        blkup_cli_usage_error(p->command, "option %s takes no value", name);
                return;
        }
        if (optopt > 0 && optopt < LONG_BASE) {
                blkup_cli_usage_error(p->command, "unknown option '-%c'", optopt);
                return;
        }
        given = optind > 0 && optind <= p->argc ? p->argv[optind - 1] : "";
        blkup_cli_usage_error(p->command, "%s option '%s'",
                              is_ambiguous(p->command, given) ? "ambiguous" : "unknown", given);
}

int blkup_cli_next(struct blkup_cli_parser *p, const char **ret_value)
{
        const struct blkup_cli_option *o;
        int answer = getopt_long(p->argc, p->argv, p->shorts, p->longs, NULL);

        if (answer == -1) {
                p->first = optind;
                return 0;
        }
        o = answer == '?' || answer == ':' ? NULL : find_answer(p->command, answer);
        if (!o) {
                refuse(p, answer);
                p->exit_code = p->command->usage_exit;
                return -1;
        }
        if (o->id == BLKUP_CLI_ID_HELP) {
                blkup_cli_print_help(p->command);
                return -1;
        }
        if (o->id == BLKUP_CLI_ID_VERSION) {
                printf("blkup %s\n", BLKUP_VERSION);
                return -1;
        }
        *ret_value = optarg;
        return o->id;
}

int blkup_cli_word(const struct blkup_cli_command *c, int id, const char *value)
{
        const struct blkup_cli_option *o = find_id(c, id);
        const char *at = o->words;
        char name[64];

        /* Ends: each turn goes past one word of the table's text. */
        for (int i = 0; *at; i++) {
                size_t len = strcspn(at, " ");

                if (strlen(value) == len && strncmp(at, value, len) == 0)
                        return i;
                at += len;
                at += strspn(at, " ");
        }
        describe(o, o->name == NULL, name, sizeof(name));
        blkup_cli_usage_error(c, "%s: unknown word '%s'; known: %s", name, value, o->words);
        return -1;
}

int blkup_cli_usage_error(const struct blkup_cli_command *c, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        blkup_cli_verror(c->name, fmt, ap);
        va_end(ap);
        fprintf(stderr, "Try 'blkup%s%s --help' for more information.\n", c->name ? " " : "",
                c->name ? c->name : "");
        return c->usage_exit;
}

static void print_option(const struct blkup_cli_option *o)
{
        char left[80], letter[8] = "    ";
        const char *at = o->help;
        const char *arg_name = o->arg_name ? o->arg_name : "VALUE";
        int width;

        if (o->letter)
                snprintf(letter, sizeof(letter), "-%c%s", o->letter, o->name ? ", " : "  ");
        snprintf(left, sizeof(left), " %s%s%s%s%s%s", letter, o->name ? "--" : "", o->name ? o->name : "",
                 o->arg == BLKUP_CLI_ARG ? " " : o->arg == BLKUP_CLI_OPTIONAL_ARG ? "[=" : "",
                 o->arg == BLKUP_CLI_NO_ARG ? "" : arg_name, o->arg == BLKUP_CLI_OPTIONAL_ARG ? "]" : "");
        width = printf("%s", left);
        if (width > HELP_INDENT - 2) {
                printf("\n");
                width = 0;
        }
        /* Ends: each turn goes past one line of the table's text. */
        for (;;) {
                size_t len = strcspn(at, "\n");

                printf("%*s%.*s\n", HELP_INDENT - width, "", (int) len, at);
                width = 0;
                if (!at[len])
                        break;
                at += len + 1;
        }
}

void blkup_cli_print_help(const struct blkup_cli_command *c)
{
        printf("Usage: blkup%s%s %s\n\n%s\n", c->name ? " " : "", c->name ? c->name : "", c->synopsis,
               c->help);
        if (c->print_more && !c->name)
                c->print_more();
        printf("\nOptions:\n");
        for (size_t i = 0; i < c->n_options; i++)
                print_option(&c->options[i]);
        if (c->print_more && c->name)
                c->print_more();
        if (c->name)
                printf("\nMore: man blkup-%s\n", c->name);
        else
                printf("\nMore: man blkup, or 'blkup help COMMAND'\n");
}
