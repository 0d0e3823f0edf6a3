/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * blkup/error.h - an error that its caller owns: fixed size, so that it can be filled when memory is
 * exhausted.
 *
 * Functions that take one accept NULL. They fill it when they return a negative errno, and leave it alone
 * otherwise; begin with `{ 0 }`. One error belongs to one thread at a time. Control characters in what a
 * device or a file said have become blanks or '?': the message may go to a terminal as it is.
 */
#ifndef BLKUP_ERROR_H
#define BLKUP_ERROR_H

/* What a caller that does not look at the answer has got wrong. */
#define BLKUP_MUST_CHECK __attribute__((warn_unused_result))

struct blkup_error {
        int code;          /* negative errno, 0 = none */
        char message[512]; /* one line, no newline, always NUL-terminated; cut with "..." when too long */
};

#endif
