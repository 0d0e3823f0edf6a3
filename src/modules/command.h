/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* An install line of modprobe.d: what is run instead of handing a file to the kernel. */
#ifndef BLKUP_MODULES_COMMAND_H
#define BLKUP_MODULES_COMMAND_H

#include <stddef.h>

#include "base/cleanup.h"

struct blkup_module_command {
        const char *root, *name, *command, *options;
};

/* By /bin/sh. 0, or a negative errno with a message where there is something to say: -EXDEV, another root;
 * -ECHILD, it ended badly. */
BLKUP_MUST_CHECK int blkup_module_command(const struct blkup_module_command *c, char *message, size_t cap);

#endif
