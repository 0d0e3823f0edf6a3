/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts of "blkup probe": cmd-probe.c runs the devices, the others print. */
#ifndef BLKUP_CLI_CMD_PROBE_H
#define BLKUP_CLI_CMD_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <blkup/probe.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/options.h"

/* As blkid documents them, with one deviation: 2 only when every place was read. */
enum blkup_cli_probe_exit {
        BLKUP_CLI_PROBE_EXIT_FOUND = 0,
        BLKUP_CLI_PROBE_EXIT_NOTHING = 2, /* or the device is missing or may not be opened */
        BLKUP_CLI_PROBE_EXIT_OTHER = 4,   /* usage, read errors without a result, all else */
        BLKUP_CLI_PROBE_EXIT_AMBIVALENT = 8,
};

/* blkid's limit for -s. */
#define BLKUP_CLI_PROBE_MAX_SHOW 127

/* The order of the words of -o; then those that have options of their own. */
enum blkup_cli_probe_mode {
        BLKUP_CLI_PROBE_MODE_FULL,
        BLKUP_CLI_PROBE_MODE_VALUE,
        BLKUP_CLI_PROBE_MODE_LIST, /* refused: blkid has it without -p only */
        BLKUP_CLI_PROBE_MODE_DEVICE,
        BLKUP_CLI_PROBE_MODE_UDEV,
        BLKUP_CLI_PROBE_MODE_EXPORT,
        BLKUP_CLI_PROBE_MODE_TABLE,
        BLKUP_CLI_PROBE_MODE_JSON,
        BLKUP_CLI_PROBE_MODE_EXPLAIN,
};

/* What is shown of the values: the tags of -s, or all of them. */
struct blkup_cli_probe_show {
        const char *tags[BLKUP_CLI_PROBE_MAX_SHOW];
        size_t n;
};

/* "nothing", "found", "ambivalent", "unknown" */
const char *blkup_cli_probe_verdict_word(enum blkup_verdict verdict);

/* A tag's value as a number; false when it is not all decimal digits. */
bool blkup_cli_probe_parse_decimal(const char *s, size_t n, uint64_t *ret);

bool blkup_cli_probe_is_shown(const struct blkup_cli_probe_show *show, const char *tag);

/* The answer about one device, for the printers. */
struct blkup_cli_probe_answer {
        const char *device;
        const struct blkup_probe *probe; /* NULL: could not be opened, see error */
        enum blkup_verdict verdict;
        const char *error;               /* what went wrong; "" when all was well */
        const struct blkup_value *values; /* these instead of the probe's, for the text modes; may be NULL */
        size_t n_values;
};

/*
 * probe-setup.c: what the options mean, and the words for what went wrong.
 */
/* Each returns 0, or the exit code after a line on stderr. */
int blkup_cli_probe_parse_size(const struct blkup_cli_command *self, const char *what, const char *value,
                               uint64_t *ret);
int blkup_cli_probe_set_types(const struct blkup_cli_command *self, struct blkup_probe *p, const char *list);
int blkup_cli_probe_set_usages(const struct blkup_cli_command *self, struct blkup_probe *p,
                               const char *list);

/* As root: a cage for the prober (a line on stderr when there can be none), and no rights but to read.
 * Returns whether there is a cage. */
bool blkup_cli_probe_start_cage(const char *command, struct blkup_probe *p, bool writes_files);

/* What there is to say about one device beside its answer. */
struct blkup_cli_probe_said {
        int code;         /* enum blkup_cli_probe_exit */
        bool is_dropped;  /* a name that blkid would drop from its list: it ends nothing */
        bool is_denied;   /* for want of permission */
        const char *text; /* what went wrong, without the device; "" */
        char line[1400];  /* for stderr, without the command; "" when there is nothing to say there */
        char text_copy[600];
};
void blkup_cli_probe_say_failure(const char *device, int error, const struct blkup_error *err,
                                 struct blkup_cli_probe_said *ret);
/* is_told: an ambivalence stands on stdout. */
void blkup_cli_probe_say_verdict(const char *device, const struct blkup_probe *p, enum blkup_verdict verdict,
                                 bool is_told, struct blkup_cli_probe_said *ret);

/*
 * probe-output.c: -o full, value, device, udev, export; byte-equal to blkid -p.
 */
struct blkup_cli_probe_text {
        enum blkup_cli_probe_mode mode;
        const struct blkup_cli_probe_show *show;
        bool no_encoding; /* -d */
        bool had_device;  /* udev and export put an empty line between devices */
        bool skip_empty;  /* a device of which nothing is shown leaves no line (blkid without -p) */
        FILE *out;        /* NULL: stdout */
};
void blkup_cli_probe_print_text(struct blkup_cli_probe_text *t, const struct blkup_cli_probe_answer *a);

/*
 * probe-columns.c: the table, and JSON with the table's columns.
 */
struct blkup_cli_probe_columns; /* a choice of columns, and the rows so far */

/* list: names of columns; "+A,B" adds to the usual ones; NULL: the usual ones. -EINVAL: *ret_unknown is the
 * wrong name (of *ret_unknown_len bytes); -ENOMEM. */
BLKUP_MUST_CHECK int blkup_cli_probe_columns_new(const char *list, struct blkup_cli_probe_columns **ret,
                                             const char **ret_unknown, size_t *ret_unknown_len);
struct blkup_cli_probe_columns *blkup_cli_probe_columns_free(struct blkup_cli_probe_columns *c);
/* The known names, separated by blanks; and with their meaning on stdout. */
const char *blkup_cli_probe_column_names(char *out, size_t cap);
void blkup_cli_probe_print_column_help(void);
/* One row for the device, and one below it for each partition. -ENOMEM. */
BLKUP_MUST_CHECK int blkup_cli_probe_columns_add(struct blkup_cli_probe_columns *c,
                                                 const struct blkup_cli_probe_answer *a, bool bytes);
/* The table on stdout. */
BLKUP_MUST_CHECK int blkup_cli_probe_columns_print(struct blkup_cli_probe_columns *c, bool headings);
/* One JSON object for the device; the keys are the columns in lower case, null where there is no value.
 * -ENOMEM. */
BLKUP_MUST_CHECK int blkup_cli_probe_columns_json(const struct blkup_cli_probe_columns *c,
                                                  struct blkup_json *j,
                                                  const struct blkup_cli_probe_answer *a);

/*
 * probe-json.c: the full JSON of one device. Schema: docs/schema/probe.json.
 */
void blkup_cli_probe_json_device(struct blkup_json *j, const struct blkup_cli_probe_answer *a,
                                 const struct blkup_cli_probe_show *show, bool partitions, bool explain);

/*
 * probe-explain.c: --explain, after a run with BLKUP_PROBE_EXPLAIN.
 */
void blkup_cli_probe_print_explain(FILE *f, const struct blkup_cli_probe_answer *a);
void blkup_cli_probe_json_candidates(struct blkup_json *j, const struct blkup_probe *p);

/*
 * probe-stats.c: --io-stats.
 */
void blkup_cli_probe_print_stats(const char *device, const struct blkup_io_stats *s);
void blkup_cli_probe_print_stats_json(const char *device, const struct blkup_io_stats *s);

#endif
