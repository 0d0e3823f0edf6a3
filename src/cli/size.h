/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sizes as people write and read them. */
#ifndef BLKUP_CLI_SIZE_H
#define BLKUP_CLI_SIZE_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

/*
 * Bytes from text, as util-linux's options take them: a number (decimal, 0x hexadecimal, 0 octal), for a
 * decimal one perhaps a fraction, then K M G T P E alone or with "iB" (powers of 1024) or with "B" (powers of
 * 1000), in either case. A fraction needs a suffix. -EINVAL: not a size; -ERANGE: does not fit into 64 bits.
 */
BLKUP_MUST_CHECK int blkup_cli_parse_size(const char *text, uint64_t *ret);

/* "505K", "1.4M", "16G": at most one decimal, powers of 1024, as lsblk prints. */
void blkup_cli_format_size(uint64_t bytes, char *out, size_t cap);

#endif
