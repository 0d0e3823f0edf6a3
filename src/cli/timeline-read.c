/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A trace from a file or from standard input. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/timeline.h"
#include "trace/trace-read.h"

/* A million spans, as many as a trace keeps, are some 250 MB. */
#define MAX_BYTES ((size_t) 512 << 20)

static int read_all(int fd, char **ret, size_t *ret_n)
{
        char *text = NULL;
        size_t n = 0, cap = 0;

        /* Ends: with the file, or at MAX_BYTES. */
        for (;;) {
                ssize_t got;

                if (n == cap) {
                        char *grown;

                        cap = cap ? cap * 2 : 65536;
                        grown = cap <= 2 * MAX_BYTES ? realloc(text, cap) : NULL;
                        if (!grown) {
                                free(text);
                                return cap > 2 * MAX_BYTES ? -EFBIG : -ENOMEM;
                        }
                        text = grown;
                }
                got = read(fd, text + n, cap - n);
                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0) {
                        got = -errno;
                        free(text);
                        return (int) got;
                }
                if (got == 0)
                        break;
                n += (size_t) got;
                if (n > MAX_BYTES) {
                        free(text);
                        return -EFBIG;
                }
        }
        *ret = text;
        *ret_n = n;
        return 0;
}

int blkup_cli_read_timeline(const char *path, struct blkup_trace **ret, struct blkup_error *err)
{
        bool is_stdin = strcmp(path, "-") == 0;
        BLKUP_CLEANUP_CLOSE int fd = is_stdin ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        BLKUP_CLEANUP_FREE char *text = NULL;
        size_t n = 0;
        int r;

        if (!is_stdin && fd < 0)
                return blkup_fail_errno(err, -errno, "%s", path);
        r = read_all(is_stdin ? STDIN_FILENO : fd, &text, &n);
        if (r < 0)
                return blkup_fail_errno(err, r, "%s", path);
        r = blkup_trace_read_json(text, n, 0, ret, err);
        return r < 0 ? blkup_wrap(err, r, "%s", path) : 0;
}
