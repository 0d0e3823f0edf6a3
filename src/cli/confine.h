/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A command that only reads gives up the rest of root's power before it touches a device. */
#ifndef BLKUP_CLI_CONFINE_H
#define BLKUP_CLI_CONFINE_H

#include <stdbool.h>

/*
 * From now on this process and its children start nothing with more rights (no_new_privs), keep of the
 * capabilities only those that open devices for reading, and, where the kernel has Landlock and writes_files
 * is false, can open no file for writing, make none and execute none. What a kernel lacks is left out: it is
 * a second wall, not the first.
 */
void blkup_cli_confine(bool writes_files);

#endif
