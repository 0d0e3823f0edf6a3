/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a load asks of the kernel. */
#ifndef BLKUP_MODULES_KERNEL_H
#define BLKUP_MODULES_KERNEL_H

#include <linux/module.h>
#include <stddef.h>

#include "base/cleanup.h"

#ifndef MODULE_INIT_COMPRESSED_FILE
#define MODULE_INIT_COMPRESSED_FILE 4
#endif

/* finit_module(2), or init_module(2) where there is no file; a backend of blkup_module_load(). */
BLKUP_MUST_CHECK int blkup_kernel_load(void *arg, const char *name, int fd, const void *image, size_t n,
                                       const char *options, int flags);
/* The packing that the kernel unpacks by itself, one format: /sys/module/compression. BLKUP_NOT_PACKED: none.
 */
BLKUP_MUST_CHECK int blkup_kernel_compression(const char *root);
/* By the end of its name. */
BLKUP_MUST_CHECK int blkup_packing_of_path(const char *path);

#endif
