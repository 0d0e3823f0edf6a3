/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What every command does with its standard streams. The answer goes to stdout, all else to stderr. */
#ifndef BLKUP_CLI_OUTPUT_H
#define BLKUP_CLI_OUTPUT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

/* Before anything is opened: fills closed standard descriptors, so that no device lands on one and is written
 * to by accident, and makes a reader that went away an error (EPIPE) instead of a death half-way. */
void blkup_cli_prepare_streams(void);

/* One line on stderr: "blkup: COMMAND: text" (COMMAND may be NULL); control characters in it are shown as
 * \xNN. */
void blkup_cli_error(const char *command, const char *fmt, ...) BLKUP_PRINTF(2, 3);
void blkup_cli_verror(const char *command, const char *fmt, va_list ap) BLKUP_PRINTF(2, 0);

/* "name: text", each name once: where the text says by itself of which object it speaks, only the text. */
void blkup_cli_error_of(const char *command, const char *name, const char *text);
/* text without "name: " at its beginning. */
const char *blkup_cli_without_name(const char *text, const char *name);

/* What to try after a negative errno, as "; try as root"; "" where that would not help. Root may do
 * all, but where somebody has drawn a line: that is asked for then. */
const char *blkup_cli_try_as_root(int error);
/* The same where a list is not there: which option names another one. */
const char *blkup_cli_try_option(int error, const char *hint);
/* The same after a fork or a thread that could not be made. */
const char *blkup_cli_more_processes(int error);

/* After printing to stdout: keeps why that failed, if it did. stdio only remembers that it did. */
void blkup_cli_note_stdout(void);

/* Flushes stdout. Returns code, or failed_code after one line (the first time) when the answer could not be
 * written. */
int blkup_cli_finish_stdout(const char *command, int code, int failed_code);

/* A sink for the writers of base and trace; to is a FILE *. */
int blkup_cli_file_sink(void *to, const char *s, size_t n);

/* Colour: only on a terminal, and not when NO_COLOR is set to anything. */
bool blkup_cli_wants_colour(int fd);

#endif
