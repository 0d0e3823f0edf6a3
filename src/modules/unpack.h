/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Compressed modules. The libraries that unpack them are loaded when the first such module is met, so that
 * nothing else pays for them; without one, its format is -EOPNOTSUPP. Thread-safe.
 */
#ifndef BLKUP_MODULES_UNPACK_H
#define BLKUP_MODULES_UNPACK_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

enum blkup_packing { BLKUP_NOT_PACKED, BLKUP_GZIP, BLKUP_XZ, BLKUP_ZSTD, BLKUP_PACKINGS };

/* An unpacked module: Debian's largest has 20 MB, with debug sections some 150. */
#define BLKUP_UNPACK_MAX_BYTES (512u << 20)

/* By the first bytes. */
enum blkup_packing blkup_packing_of(const void *p, size_t n);
/* "gzip", "xz", "zstd", as /sys/module/compression has it; "" for none. */
const char *blkup_packing_name(enum blkup_packing k);

/* *ret is malloc'ed. -EBADMSG: damaged; -EFBIG; -EOPNOTSUPP; -ENOMEM. What follows the compressed data is
 * left alone. */
BLKUP_MUST_CHECK int blkup_unpack(enum blkup_packing k, const void *p, size_t n, uint8_t **ret,
                                  size_t *ret_n);

#endif
