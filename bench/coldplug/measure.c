/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * measure GROUP COMMAND...: runs a command in the control group GROUP and prints what was used meanwhile by
 * all in it, daemons that were there before too: `measure code=.. ms=.. cpu_ms=.. tools_ms=..`. The last is
 * the part of mdadm and lvm: a link to this program of their name enters the group "tools" and becomes
 * /sbin/NAME.real. A group's cpu.stat is used because it is made of the scheduler's own run times, not of
 * ticks of 4 ms, and because it holds what the workers of a daemon used.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GROUPS "/sys/fs/cgroup/"

static double now_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double) t.tv_sec * 1e3 + (double) t.tv_nsec / 1e6;
}

static int enter(const char *group)
{
        char path[PATH_MAX];
        int fd, good;

        snprintf(path, sizeof(path), GROUPS "%s/cgroup.procs", group);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        good = fd >= 0 && write(fd, "0", 1) == 1;
        if (fd >= 0)
                close(fd);
        return good ? 0 : -1;
}

static double used_ms(const char *group)
{
        char path[PATH_MAX];
        unsigned long long us = 0;
        FILE *f;

        snprintf(path, sizeof(path), GROUPS "%s/cpu.stat", group);
        f = fopen(path, "re");
        if (f != NULL) {
                if (fscanf(f, "usage_usec %llu", &us) != 1)
                        us = 0;
                fclose(f);
        }
        return (double) us / 1e3;
}

int main(int argc, char **argv)
{
        const char *slash = strrchr(argv[0], '/');
        char path[PATH_MAX];
        double start, used, tools, end;
        int status = 0, code;
        pid_t pid;

        if (strcmp(slash != NULL ? slash + 1 : argv[0], "measure") != 0) {
                enter("tools");
                snprintf(path, sizeof(path), "/sbin/%s.real", slash != NULL ? slash + 1 : argv[0]);
                execv(path, argv);
                return 127;
        }
        if (argc < 3)
                return 1;
        snprintf(path, sizeof(path), GROUPS "%s", argv[1]);
        mkdir(path, 0755);
        mkdir(GROUPS "tools", 0755);
        if (enter(argv[1]) < 0)
                return 1;
        used = used_ms(argv[1]);
        tools = used_ms("tools");
        start = now_ms();
        pid = fork();
        if (pid == 0) {
                execv(argv[2], argv + 2);
                _exit(127);
        }
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        end = now_ms();
        /* Tools that the command left behind to end by themselves. */
        usleep(200 * 1000);
        code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
        used = used_ms(argv[1]) - used;
        tools = used_ms("tools") - tools;
        fprintf(stderr, "\nmeasure code=%d ms=%.3f cpu_ms=%.3f tools_ms=%.3f\n", code, end - start,
                used + tools, tools);
        return 0;
}
