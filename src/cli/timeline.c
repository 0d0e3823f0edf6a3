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

/* In an initramfs there is nobody to look at a picture: it can be drawn from the JSON elsewhere. */
#if BLKUP_IS_SMALL
const char blkup_cli_timeline_suffixes[] = ".json";
#else
const char blkup_cli_timeline_suffixes[] = ".json .svg";
#endif

static bool has_suffix(const char *path, const char *suffix)
{
        size_t n = strlen(path), k = strlen(suffix);

        return n > k && strcmp(path + n - k, suffix) == 0;
}

bool blkup_cli_timeline_has_suffix(const char *path)
{
        return has_suffix(path, ".json") || (!BLKUP_IS_SMALL && has_suffix(path, ".svg"));
}

static int write_form(struct blkup_trace *t, const char *path, FILE *f)
{
#if !BLKUP_IS_SMALL
        if (has_suffix(path, ".svg"))
                return blkup_trace_write_svg(t, blkup_cli_file_sink, f);
#endif
        (void) path;
        return blkup_trace_write_json(t, blkup_cli_file_sink, f);
}

static int write_all(struct blkup_trace *t, const char *path, int fd)
{
        BLKUP_CLEANUP_FCLOSE FILE *f = fdopen(fd, "w");
        int r;

        if (!f) {
                r = -errno;
                (void) close(fd);
                return r;
        }
        errno = 0;
        r = write_form(t, path, f);
        if (r < 0)
                return r;
        if (fflush(f) != 0)
                return -errno;
        /* close(2) may be the first to tell that a network file system had no room. */
        r = fclose(f) != 0 ? -errno : 0;
        f = NULL;
        return r;
}

int blkup_cli_write_timeline(struct blkup_trace *t, const char *title, const char *path,
                             struct blkup_error *err)
{
        BLKUP_CLEANUP_FREE char *temporary = NULL;
        mode_t mask;
        int fd, r;

        if (title)
                blkup_trace_set_title(t, title);
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
                r = write_all(t, path, fd);
        if (r == 0 && rename(temporary, path) < 0)
                r = -errno;
        if (r < 0) {
                (void) unlink(temporary);
                return blkup_fail_errno(err, r, "%s: cannot write the timeline", path);
        }
        return 0;
}
