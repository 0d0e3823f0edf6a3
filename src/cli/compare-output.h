/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BLKUP_CLI_COMPARE_OUTPUT_H
#define BLKUP_CLI_COMPARE_OUTPUT_H

#include <stdbool.h>

#include "trace/compare.h"

#define BLKUP_CLI_COMPARE_SCHEMA 1

/* What differs, or with is_all everything, and a line that sums up. -ENOMEM. */
BLKUP_MUST_CHECK int blkup_cli_compare_print_table(const struct blkup_comparison *c, double alpha,
                                                   bool is_all);
BLKUP_MUST_CHECK int blkup_cli_compare_print_json(const struct blkup_comparison *c, double alpha, int code);

#endif
