/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A table for people: aligned columns, rows that may stand below another row. Printed by libsmartcols, as
 * lsblk's are, where that library is on the machine: it is loaded when a table is printed, so that nothing
 * else pays for it. Without it (and in the static build) the same columns are printed plainly.
 */
#ifndef BLKUP_CLI_TABLE_H
#define BLKUP_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

struct blkup_cli_column {
        const char *name;
        bool right; /* numbers */
        bool tree;  /* the column that shows which row stands below which; at most one, the first */
};

struct blkup_cli_table;

#define BLKUP_CLI_NO_PARENT ((size_t) -1)

enum blkup_cli_colour { BLKUP_CLI_PLAIN, BLKUP_CLI_YELLOW, BLKUP_CLI_RED };

/* columns must outlive the table. NULL: out of memory. */
struct blkup_cli_table *blkup_cli_table_new(const struct blkup_cli_column *columns, size_t n_columns);
struct blkup_cli_table *blkup_cli_table_free(struct blkup_cli_table *t); /* NULL-safe, returns NULL */

/* A row of empty cells; parent: an earlier row's index or BLKUP_CLI_NO_PARENT. -ENOMEM. */
BLKUP_MUST_CHECK int blkup_cli_table_add_row(struct blkup_cli_table *t, size_t parent,
                                             enum blkup_cli_colour colour, size_t *ret_row);
/* The text is copied, and made safe for a terminal. -ENOMEM. */
BLKUP_MUST_CHECK int blkup_cli_table_set(struct blkup_cli_table *t, size_t row, size_t column,
                                         const char *text, size_t n);

/* On stdout. -ENOMEM. */
BLKUP_MUST_CHECK int blkup_cli_table_print(struct blkup_cli_table *t, bool headings);

#endif
