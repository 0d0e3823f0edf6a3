/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which device carries a tag: all block devices that have a size, probed in parallel when the first tag is
 * asked for, and again when something may have appeared. Thread-safe.
 */
#ifndef BLKUP_CLI_TAGS_H
#define BLKUP_CLI_TAGS_H

#include <blkup/mount.h>

#include "base/cleanup.h"

struct blkup_cli_tags;

/* root: a folder that stands for /, for tests; NULL. Returns NULL when out of memory. */
struct blkup_cli_tags *blkup_cli_tags_new(const char *root);
struct blkup_cli_tags *blkup_cli_tags_free(struct blkup_cli_tags *t); /* NULL-safe, returns NULL */

/* Who does not find a tag will ask again soon (--wait): devices that do not answer are waited for a second,
 * not ten. */
void blkup_cli_tags_comes_again(struct blkup_cli_tags *t);

/* For blkup_mount_settings; lives as long as t. */
const struct blkup_mount_resolver *blkup_cli_tags_resolver(struct blkup_cli_tags *t);

#endif
