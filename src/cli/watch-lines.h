/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lines of a command that stays, written by a thread of their own: a reader that has stopped reading holds
 * nobody else, and one that has gone is said once. What does not fit is dropped, and that is said.
 */
#ifndef BLKUP_CLI_WATCH_LINES_H
#define BLKUP_CLI_WATCH_LINES_H

#include <stddef.h>

#include "base/cleanup.h"

struct blkup_cli_lines; /* opaque */

/* fd stays the caller's, who may close it any time: lines go to a copy of it. -ENOMEM, -EAGAIN; what
 * fcntl(2) answers. */
BLKUP_MUST_CHECK int blkup_cli_lines_new(const char *command, int fd, struct blkup_cli_lines **ret);
/* text is the callee's then, from malloc(3). */
void blkup_cli_lines_put(struct blkup_cli_lines *l, char *text, size_t n);
/* What is left is written, for two seconds; who does not read by then loses it. 0, or a negative errno: not
 * all of it could be written. The process ends soon: a thread that still waits is left behind. */
BLKUP_MUST_CHECK int blkup_cli_lines_end(struct blkup_cli_lines *l);

#endif
