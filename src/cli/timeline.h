/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --timeline FILE: where the time went, as a file. The suffix says which form. */
#ifndef BLKUP_CLI_TIMELINE_H
#define BLKUP_CLI_TIMELINE_H

#include <stdbool.h>

#include "base/error.h"
#include "trace/trace.h"

/* The suffixes that are known, for messages: ".json". */
extern const char blkup_cli_timeline_suffixes[];

bool blkup_cli_timeline_has_suffix(const char *path);

/* Writes to a temporary file beside path and renames it: path is either the whole new timeline or what it was
 * before. Negative errno of what failed. */
BLKUP_MUST_CHECK int blkup_cli_write_timeline(struct blkup_trace *t, const char *path,
                                              struct blkup_error *err);

#endif
