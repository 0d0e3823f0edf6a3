/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What coldplug prints. */
#ifndef BLKUP_CLI_COLDPLUG_OUTPUT_H
#define BLKUP_CLI_COLDPLUG_OUTPUT_H

#include <blkup/coldplug.h>

#include "base/cleanup.h"

/* The version of docs/schema/coldplug.json. */
#define BLKUP_CLI_COLDPLUG_SCHEMA 1

enum {
        BLKUP_CLI_COLDPLUG_EXIT_USAGE = 1,
        BLKUP_CLI_COLDPLUG_EXIT_NONE = 32,
        BLKUP_CLI_COLDPLUG_EXIT_SOME = 64,
};

int blkup_cli_coldplug_exit_code(const struct blkup_coldplug_result *r);
/* Lines on stderr: what failed, was refused or left, and why. */
void blkup_cli_coldplug_print_messages(const struct blkup_coldplug_result *r);
/* The table "where the time went" and the critical path, on stdout. */
BLKUP_MUST_CHECK int blkup_cli_coldplug_print_table(const struct blkup_coldplug_result *r);
BLKUP_MUST_CHECK int blkup_cli_coldplug_print_json(const struct blkup_coldplug_result *r, int code);

#endif
