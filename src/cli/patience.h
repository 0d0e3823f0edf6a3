/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For how long a command that looks for something on many devices waits for those that do not answer. */
#ifndef BLKUP_CLI_PATIENCE_H
#define BLKUP_CLI_PATIENCE_H

#include "sync/late.h"

#define BLKUP_CLI_PROBERS 16u /* threads; a prober waits for its device most of the time */

/* is_found: the caller has what it looked for, and only wants to know whether others have it too: who has not
 * answered after a second, and four times what the slowest answer took, is not waited for. Otherwise: ten
 * seconds. */
static inline bool blkup_cli_wait_for_devices(struct blkup_late *l, bool is_found)
{
        const uint64_t second_ns = UINT64_C(1000000000);

        return blkup_late_wait(l, is_found ? second_ns : 10 * second_ns, 10 * second_ns);
}

#endif
