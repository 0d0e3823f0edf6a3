/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Another program, as a shell would start it: with no signal blocked, and SIGPIPE as it usually is, whatever
 * this process has made of them. */
#ifndef BLKUP_HOST_PROGRAM_H
#define BLKUP_HOST_PROGRAM_H

#include <spawn.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/cleanup.h"

/* files may be NULL. has_group: a process group of its own, so that a terminal's signals do not reach it, or
 * that all it starts is killed with it. What posix_spawn(3) returns, negative. */
BLKUP_MUST_CHECK int blkup_program_start(const char *program, const posix_spawn_file_actions_t *files,
                                         bool has_group, const char *const *argv, char *const *environment,
                                         pid_t *ret);

#endif
