/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Runs a command and prints what it and everything it started took: `measure code=.. ms=.. cpu_ms=..`. As a
 * subreaper it waits for grandchildren too.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double) t.tv_sec * 1e3 + (double) t.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
        double start = now_ms(), end = start;
        struct rusage u;
        int status, code = -1;
        pid_t pid, got;

        if (argc < 2)
                return 1;
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        pid = fork();
        if (pid == 0) {
                execv(argv[1], argv + 1);
                _exit(127);
        }
        while ((got = wait(&status)) > 0 || errno == EINTR)
                if (got == pid) {
                        end = now_ms();
                        code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
                }
        getrusage(RUSAGE_CHILDREN, &u);
        fprintf(stderr, "\nmeasure code=%d ms=%.3f cpu_ms=%.3f\n", code, end - start,
                (double) (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
                        (double) (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3);
        return 0;
}
