/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/output.h"
#include "cli/timeline.h"

const char blkup_cli_timeline_suffixes[] = ".json";

bool blkup_cli_timeline_has_suffix(const char *path)
{
        size_t n = strlen(path), k = strlen(blkup_cli_timeline_suffixes);

        return n > k && strcmp(path + n - k, blkup_cli_timeline_suffixes) == 0;
}

static int write_all(struct blkup_trace *t, int fd)
{
        BLKUP_CLEANUP_FCLOSE FILE *f = fdopen(fd, "w");
        int r;

        if (!f) {
                r = -errno;
                (void) close(fd);
                return r;
        }
        errno = 0;
        r = blkup_trace_write_json(t, blkup_cli_file_sink, f);
        if (r < 0)
                return r;
        if (fflush(f) != 0)
                return -errno;
        /* close(2) may be the first to tell that a network file system had no room. */
        r = fclose(f) != 0 ? -errno : 0;
        f = NULL;
        return r;
}

int blkup_cli_write_timeline(struct blkup_trace *t, const char *path, struct blkup_error *err)
{
        BLKUP_CLEANUP_FREE char *temporary = NULL;
        mode_t mask;
        int fd, r;

        if (asprintf(&temporary, "%s.XXXXXX", path) < 0) {
                temporary = NULL;
                return blkup_fail(err, -ENOMEM, "%s: out of memory", path);
        }
        fd = mkostemp(temporary, O_CLOEXEC);
        if (fd < 0)
                return blkup_fail_errno(err, -errno, "%s: cannot create a file beside it", path);
        /* mkostemp gives 0600; a file that open(2) made would follow the umask. */
        mask = umask(0);
        (void) umask(mask);
        r = fchmod(fd, 0666 & ~mask) < 0 ? -errno : 0;
        if (r < 0)
                (void) close(fd);
        else
                r = write_all(t, fd);
        if (r == 0 && rename(temporary, path) < 0)
                r = -errno;
        if (r < 0) {
                (void) unlink(temporary);
                return blkup_fail_errno(err, r, "%s: cannot write the timeline", path);
        }
        return 0;
}
