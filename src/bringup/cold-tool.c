/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The machine's own tools: by absolute path, with an empty environment, every descriptor of ours closed
 * (they are close-on-exec), and what they say read to its end, so that they never wait for us.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bringup/cold.h"
#include "host/program.h"

int blkup_cold_find_tool(const char *name, char *ret, size_t cap)
{
        static const char *const folders[] = { "/sbin", "/usr/sbin", "/usr/local/sbin" };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(folders); i++) {
                if (snprintf(ret, cap, "%s/%s", folders[i], name) >= (int) cap)
                        return -ENAMETOOLONG;
                if (access(ret, X_OK) == 0)
                        return 0;
        }
        return -ENOENT;
}

/* The last line that is not empty. */
struct last_line {
        char line[256];
        size_t n;
        char *text;
        size_t cap;
};

static void end_line(struct last_line *l)
{
        l->line[l->n] = '\0';
        if (l->n > 0)
                (void) snprintf(l->text, l->cap, "%s", l->line);
        l->n = 0;
}

static void take_bytes(struct last_line *l, const char *bytes, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (bytes[i] == '\n' || bytes[i] == '\r')
                        end_line(l);
                else if (l->n + 1 < sizeof(l->line))
                        l->line[l->n++] = bytes[i];
}

/* false: its writers are gone. */
static bool read_some(int fd, char *buf, size_t cap, size_t *ret)
{
        ssize_t n = read(fd, buf, cap);

        *ret = n > 0 ? (size_t) n : 0;
        return n > 0 || (n < 0 && errno == EINTR);
}

static void listen_to(int out, int errors, int process, const struct blkup_cold_tool *t)
{
        struct pollfd fds[3] = {
                { .fd = errors, .events = POLLIN },
                { .fd = out, .events = POLLIN },
                { .fd = process, .events = POLLIN },
        };
        struct last_line l = { .text = t->text, .cap = t->cap };
        size_t kept = 0;
        char buf[512];

        /* Ends: when the tool has ended and its pipes are empty (what it left running may hold them open), or
         * all have closed their ends. poll() skips negative ones. */
        while (fds[0].fd >= 0 || fds[1].fd >= 0) {
                int n_ready = poll(fds, 3, fds[2].fd < 0 && process >= 0 ? 0 : -1);

                if (n_ready < 0 && errno == EINTR)
                        continue;
                if (n_ready <= 0)
                        break;
                if (fds[2].revents)
                        fds[2].fd = -1;
                for (size_t i = 0; i < 2; i++) {
                        size_t n;

                        if (fds[i].fd < 0 || !fds[i].revents)
                                continue;
                        if (!read_some(fds[i].fd, buf, sizeof(buf), &n))
                                fds[i].fd = -1;
                        else if (i == 0)
                                take_bytes(&l, buf, n);
                        for (size_t k = 0; i == 1 && k < n && kept + 1 < t->out_cap; k++)
                                t->out[kept++] = buf[k];
                }
        }
        end_line(&l);
        if (t->out && t->out_cap > 0)
                t->out[kept] = '\0';
}

static int start(const struct blkup_cold_tool *t, int out, int errors, pid_t *ret)
{
        char *environment[] = { NULL };
        posix_spawn_file_actions_t files;
        int r;

        (void) posix_spawn_file_actions_init(&files);
        if (t->has_terminal)
                (void) posix_spawn_file_actions_adddup2(&files, 0, 0);
        else
                (void) posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
        (void) posix_spawn_file_actions_adddup2(&files, out, 1);
        if (!t->has_terminal)
                (void) posix_spawn_file_actions_adddup2(&files, errors, 2);
        /* A terminal's signals go to a group. */
        r = blkup_program_start(t->program, &files, t->is_to_end, t->argv, environment, ret);
        (void) posix_spawn_file_actions_destroy(&files);
        return r;
}

static int wait_for(pid_t pid)
{
        int status;
        pid_t got;

        do
                got = waitpid(pid, &status, 0);
        while (got < 0 && errno == EINTR);
        if (got < 0)
                return -errno;
        /* fsck(8): 8, an operational error; the others know no such number, which is as good as any */
        return WIFEXITED(status) ? WEXITSTATUS(status) : 8;
}

/* What it prints goes to a file in memory: a pipe would break when we end, and kill it half way. */
static int spawn_to_end(const struct blkup_cold_tool *t)
{
        BLKUP_CLEANUP_CLOSE int fd = memfd_create("blkup-check", MFD_CLOEXEC);
        struct last_line l = { .text = t->text, .cap = t->cap };
        char buf[4096];
        int code;
        ssize_t n;
        pid_t pid;

        if (fd < 0)
                return -errno;
        code = start(t, fd, fd, &pid);
        if (code == 0)
                code = wait_for(pid);
        /* Ends: at the end of the file. */
        for (off_t at = 0; (n = pread(fd, buf, sizeof(buf), at)) > 0; at += n)
                take_bytes(&l, buf, (size_t) n);
        end_line(&l);
        return code;
}

int blkup_cold_spawn(const struct blkup_cold_tool *t)
{
        int errors[2] = { -1, -1 }, out[2] = { -1, -1 }, r;
        pid_t pid;

        if (t->is_to_end)
                return spawn_to_end(t);
        if (pipe2(errors, O_CLOEXEC) < 0)
                return -errno;
        if (t->out && pipe2(out, O_CLOEXEC) < 0) {
                r = -errno;
                (void) blkup_close(errors[0]);
                (void) blkup_close(errors[1]);
                return r;
        }
        r = start(t, t->out ? out[1] : errors[1], errors[1], &pid);
        (void) blkup_close(errors[1]);
        if (t->out)
                (void) blkup_close(out[1]);
        if (r == 0) {
                /* -1 before Linux 5.3 */
                BLKUP_CLEANUP_CLOSE int process = (int) syscall(SYS_pidfd_open, pid, 0);

                listen_to(out[0], errors[0], process, t);
        }
        (void) blkup_close(errors[0]);
        if (t->out)
                (void) blkup_close(out[0]);
        return r < 0 ? r : wait_for(pid);
}
