/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs that are told of what happens: one call an event and program, one after the other, in a thread of
 * their own. They get arguments alone, encoded, no shell, a fixed environment, and half a minute each.
 */
#ifndef BLKUP_CLI_WATCH_HOOKS_H
#define BLKUP_CLI_WATCH_HOOKS_H

#include <stddef.h>

#include <blkup/coldplug.h>

#include "base/cleanup.h"

struct blkup_cli_hooks; /* opaque */

/* programs: absolute paths, which stay the caller's. -ENOMEM, -EAGAIN. */
BLKUP_MUST_CHECK int blkup_cli_hooks_new(const char *const *programs, size_t n, struct blkup_cli_hooks **ret);
/* Puts it in the queue; what does not fit is dropped, and that is said. */
void blkup_cli_hooks_tell(struct blkup_cli_hooks *h, const struct blkup_coldplug_event *e);
/* What is in the queue is still run, for some seconds in all. NULL-safe, returns NULL. */
struct blkup_cli_hooks *blkup_cli_hooks_free(struct blkup_cli_hooks *h);

/* A path with each of its parts in udev's encoded form. Returns the length; always ends with a NUL. */
size_t blkup_cli_encode_path(const char *path, char *out, size_t cap);

#endif
