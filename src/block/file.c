/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "block/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "block/facts.h"

struct blkup_block_file {
        struct blkup_block block;
        int fd;
};

/*
 * A pread is answered short at the end of the device, and in front of an unreadable sector; what comes next tells which
 * of the two it was. Each turn but the last gets at least one byte, and one EAGAIN is followed by a blocking
 * descriptor, so the loop ends.
 */
static int64_t read_fully(struct blkup_block_file *f, uint64_t at, size_t len, uint8_t *to, int *submissions)
{
        size_t done = 0;
        bool is_blocking = false;

        while (done < len) {
                ssize_t n = pread(f->fd, to + done, len - done, (off_t) (at + done));

                ++*submissions;
                if (n > 0) {
                        done += (size_t) n;
                        continue;
                }
                if (n == 0)
                        break;
                if (errno == EINTR)
                        continue;
                if (errno == EAGAIN && !is_blocking) {
                        int flags = fcntl(f->fd, F_GETFL);

                        if (flags >= 0 && fcntl(f->fd, F_SETFL, flags & ~O_NONBLOCK) == 0) {
                                is_blocking = true;
                                continue;
                        }
                }
                return -errno;
        }
        return (int64_t) done;
}

static int file_read(struct blkup_block *b, struct blkup_block_request *r, size_t n)
{
        struct blkup_block_file *f = (struct blkup_block_file *) b;
        uint64_t before = blkup_now_ns();
        int submissions = 0;

        for (size_t i = 0; i < n; i++) {
                uint64_t after;

                r[i].done_bytes = read_fully(f, r[i].at, r[i].len, r[i].to, &submissions);
                after = blkup_now_ns();
                r[i].ns = after - before;
                before = after;
        }
        return submissions;
}

static void file_close(struct blkup_block *b)
{
        struct blkup_block_file *f = (struct blkup_block_file *) b;

        (void) blkup_close(f->fd);
        free(f);
}

static const struct blkup_block_ops file_ops = { .name = "pread", .read = file_read, .close = file_close };

/* fd becomes the handle's on success. */
static int make_handle(int *fd, const char *name, const struct blkup_block_open *o, struct blkup_block **ret,
                       struct blkup_error *err)
{
        struct blkup_block_info info;
        struct blkup_block_file *f;
        int r;

        r = blkup_block_facts(fd, name, o->sysfs, &info, err);
        if (r < 0)
                return r;
        f = malloc(sizeof(*f));
        if (!f)
                return blkup_fail_errno(err, -ENOMEM, "%s", name);
        *f = (struct blkup_block_file) {
                .block = { .ops = &file_ops, .info = info, .align_bytes = 1 },
                .fd = blkup_take_fd(fd),
        };
        /* No readahead: it would fetch what nobody looks at. A file in a file system is left to its readahead: there
         * the call would cost more than it saves. */
        if (info.kind == BLKUP_BLOCK_DISK || info.kind == BLKUP_BLOCK_PARTITION)
                (void) posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM);
        *ret = &f->block;
        return 0;
}

static const struct blkup_block_open defaults;

int blkup_block_open_fd(int fd, const char *name, const struct blkup_block_open *o, struct blkup_block **ret,
                        struct blkup_error *err)
{
        int own = fd;

        return make_handle(&own, name, o ? o : &defaults, ret, err);
}

int blkup_block_open(const char *path, const struct blkup_block_open *o, struct blkup_block **ret,
                     struct blkup_error *err)
{
        BLKUP_CLEANUP_CLOSE int fd = -1;

        /* Non-blocking: a CD-ROM with an open tray is opened (and not pulled in), a FIFO does not wait for a writer. */
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
                return blkup_fail_errno(err, -errno, "%s", path);
        return make_handle(&fd, path, o ? o : &defaults, ret, err);
}
