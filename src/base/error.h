/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Filling the caller's error (blkup/error.h). errno is left as it was, and the old message may be an argument
 * of the new one. Control characters become blanks or '?'.
 */
#ifndef BLKUP_BASE_ERROR_H
#define BLKUP_BASE_ERROR_H

#include <stdarg.h>
#include <stdint.h>

#include <blkup/error.h>

#include "base/cleanup.h"

/* Sets code and message, returns code: `return blkup_fail(err, -EINVAL, "size %" PRIu64 ...)`.
 * err may be NULL. */
int blkup_fail(struct blkup_error *err, int code, const char *fmt, ...) BLKUP_PRINTF(3, 4);

/* The text of an errno, of either sign; for what this process, or the machine, has not enough of, with what
 * to do about it. */
const char *blkup_error_text(int error);

/* Like blkup_fail(), with ": " and blkup_error_text() appended. */
int blkup_fail_errno(struct blkup_error *err, int code, const char *fmt, ...) BLKUP_PRINTF(3, 4);

/* Puts "prefix: " before the message that is there (wrap on the way up), or before blkup_error_text()
 * when there is none; sets and returns code. */
int blkup_wrap(struct blkup_error *err, int code, const char *fmt, ...) BLKUP_PRINTF(3, 4);

#endif
