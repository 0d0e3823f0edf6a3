/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many system calls one open-read-close costs: this program runs itself under strace with two arguments
 * (a word and the path) and counts the lines from the one that opens the path to the one that closes it.
 */
#ifndef BLKUP_TESTS_COUNT_CALLS_H
#define BLKUP_TESTS_COUNT_CALLS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The calls, or -1 when there is no strace (or it may not trace). */
static int count_calls(const char *word, const char *path, const char *log)
{
        char command[2048], line[1024], self[256], opens[512], closes[64];
        int calls = 0, fd = -1;
        ssize_t n;
        FILE *f;

        n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        if (n < 0)
                return -1;
        self[n] = '\0';
        /* LeakSanitizer cannot work in a process that is traced. */
        (void) snprintf(command, sizeof(command),
                        "ASAN_OPTIONS=detect_leaks=0 strace -o '%s' '%s' %s '%s' 2>/dev/null", log, self,
                        word, path);
        if (system(command) != 0)
                return -1;
        f = fopen(log, "re");
        if (!f)
                return -1;
        (void) snprintf(opens, sizeof(opens), "\"%s\"", path);
        while (fgets(line, sizeof(line), f)) {
                if (fd < 0) {
                        const char *answer = strrchr(line, '=');

                        if (strncmp(line, "open", 4) != 0 || !strstr(line, opens) || !answer)
                                continue;
                        fd = atoi(answer + 1);
                        (void) snprintf(closes, sizeof(closes), "close(%d)", fd);
                }
                /* The first malloc() of libc, or of a size under ASan. */
                if (strncmp(line, "brk(", 4) == 0 || strncmp(line, "getrandom(", 10) == 0 ||
                    (strncmp(line, "mmap(", 5) == 0 && strstr(line, "MAP_ANONYMOUS")))
                        continue;
                calls++;
                (void) printf("        %s", line);
                if (strncmp(line, closes, strlen(closes)) == 0)
                        break;
        }
        (void) fclose(f);
        return fd < 0 ? -1 : calls;
}

#endif
