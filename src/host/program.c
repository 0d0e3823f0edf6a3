/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "host/program.h"

#include <signal.h>

int blkup_program_start(const char *program, const posix_spawn_file_actions_t *files, bool has_group,
                        const char *const *argv, char *const *environment, pid_t *ret)
{
        const short group = has_group ? POSIX_SPAWN_SETPGROUP : 0;
        posix_spawnattr_t attr;
        sigset_t none, defaults;
        int r = posix_spawnattr_init(&attr);

        if (r != 0)
                return -r;
        (void) sigemptyset(&none);
        (void) sigemptyset(&defaults);
        (void) sigaddset(&defaults, SIGPIPE);
        (void) posix_spawnattr_setsigmask(&attr, &none);
        (void) posix_spawnattr_setsigdefault(&attr, &defaults);
        (void) posix_spawnattr_setpgroup(&attr, 0);
        (void) posix_spawnattr_setflags(&attr,
                                        (short) (POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | group));
        r = posix_spawn(ret, program, files, &attr, (char *const *) argv, environment);
        (void) posix_spawnattr_destroy(&attr);
        return -r;
}
