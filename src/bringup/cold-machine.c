/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What does the work outside of tests. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bringup/cold.h"

static int machine_status(void *to, const char *path, struct blkup_lazyinit_status *ret,
                          struct blkup_error *err)
{
        (void) to;
        return blkup_lazyinit_status(path, ret, err);
}

static int machine_finish(void *to, const char *path, const struct blkup_lazyinit_options *o,
                          struct blkup_lazyinit_result *ret, struct blkup_error *err)
{
        (void) to;
        return blkup_lazyinit_run(path, o, ret, err);
}

/* By absolute path: nothing of what the caller's environment says counts. */
static int find_checker(const char *type, char *ret, size_t cap)
{
        static const char *const folders[] = { "/sbin", "/usr/sbin", "/usr/local/sbin" };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(folders); i++) {
                if (snprintf(ret, cap, "%s/fsck.%s", folders[i], type) >= (int) cap)
                        return -ENAMETOOLONG;
                if (access(ret, X_OK) == 0)
                        return 0;
        }
        return -ENOENT;
}

/* The last line that is not empty; what comes is read to its end, so that the writer never waits. */
static void keep_last_line(int fd, char *text, size_t cap)
{
        char line[256], buf[512];
        size_t n = 0;
        ssize_t got;

        /* Ends: when the checker and all it started have closed their end. */
        while ((got = read(fd, buf, sizeof(buf))) > 0 || (got < 0 && errno == EINTR))
                for (ssize_t i = 0; i < got; i++) {
                        if (buf[i] != '\n' && buf[i] != '\r') {
                                if (n + 1 < sizeof(line))
                                        line[n++] = buf[i];
                                continue;
                        }
                        line[n] = '\0';
                        if (n > 0)
                                (void) snprintf(text, cap, "%s", line);
                        n = 0;
                }
        line[n] = '\0';
        if (n > 0)
                (void) snprintf(text, cap, "%s", line);
}

static int spawn_checker(const char *program, const char *path, int out, pid_t *ret)
{
        char *environment[] = { NULL };
        /* -a: repair what is safe to repair, ask nothing; every fsck.TYPE takes it (fsck(8)). */
        const char *argv[] = { program, "-a", path, NULL };
        posix_spawn_file_actions_t files;
        posix_spawnattr_t attr;
        sigset_t none, defaults;
        int r;

        (void) posix_spawn_file_actions_init(&files);
        (void) posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
        (void) posix_spawn_file_actions_adddup2(&files, out, 1);
        (void) posix_spawn_file_actions_adddup2(&files, out, 2);
        (void) posix_spawnattr_init(&attr);
        (void) sigemptyset(&none);
        (void) sigemptyset(&defaults);
        (void) sigaddset(&defaults, SIGPIPE);
        (void) posix_spawnattr_setsigmask(&attr, &none);
        (void) posix_spawnattr_setsigdefault(&attr, &defaults);
        (void) posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        r = -posix_spawn(ret, program, &files, &attr, (char *const *) argv, environment);
        (void) posix_spawnattr_destroy(&attr);
        (void) posix_spawn_file_actions_destroy(&files);
        return r;
}

static int machine_check(void *to, const char *type, const char *path, char *text, size_t cap)
{
        char program[128];
        int pipe_fds[2], status, r = find_checker(type, program, sizeof(program));
        pid_t pid, got;

        (void) to;
        if (r < 0)
                return r;
        if (path[0] == '-')
                return -EINVAL; /* nobody's option */
        if (pipe2(pipe_fds, O_CLOEXEC) < 0)
                return -errno;
        r = spawn_checker(program, path, pipe_fds[1], &pid);
        (void) blkup_close(pipe_fds[1]);
        if (r == 0)
                keep_last_line(pipe_fds[0], text, cap);
        (void) blkup_close(pipe_fds[0]);
        if (r < 0)
                return r;
        do
                got = waitpid(pid, &status, 0);
        while (got < 0 && errno == EINTR);
        if (got < 0)
                return -errno;
        /* fsck(8): 8, an operational error */
        return WIFEXITED(status) ? WEXITSTATUS(status) : 8;
}

void blkup_cold_fill_ops(struct blkup_coldplug *c)
{
        if (c->s.ops)
                c->ops = *c->s.ops;
        if (!c->ops.status)
                c->ops.status = machine_status;
        if (!c->ops.finish)
                c->ops.finish = machine_finish;
        if (!c->ops.check)
                c->ops.check = machine_check;
}
