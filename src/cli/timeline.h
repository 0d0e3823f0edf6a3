/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --timeline FILE: where the time went, as a file. The suffix says which form. */
#ifndef BLKUP_CLI_TIMELINE_H
#define BLKUP_CLI_TIMELINE_H

#include <stdbool.h>

#include "base/error.h"
#include "trace/trace.h"

/* The suffixes that are known, for messages: ".json .svg". */
extern const char blkup_cli_timeline_suffixes[];
#if BLKUP_IS_SMALL
#define BLKUP_CLI_TIMELINE_HELP "where the time went, FILE.json"
#else
#define BLKUP_CLI_TIMELINE_HELP "where the time went, FILE.svg or FILE.json"
#endif

bool blkup_cli_timeline_has_suffix(const char *path);

/* title: what was run; NULL: as the trace has it. Writes to a temporary file beside path and renames it: path
 * is either the whole new timeline or what it was before. Negative errno of what failed. */
BLKUP_MUST_CHECK int blkup_cli_write_timeline(struct blkup_trace *t, const char *title, const char *path,
                                              struct blkup_error *err);

/* Reads FILE.json, "-": standard input. err names the file. Not in the small build. */
BLKUP_MUST_CHECK int blkup_cli_read_timeline(const char *path, struct blkup_trace **ret,
                                             struct blkup_error *err);

#endif
