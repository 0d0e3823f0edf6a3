/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "block/writer-file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/checked.h"
#include "block/dioalign.h"
#include "block/facts.h"

/* Memory that direct I/O takes everywhere. */
#define MEMORY_ALIGN 4096u
/* Requests that go to the ring together; the engine sends 8 to 16. */
#define RING_MAX 32u

struct writer_file {
        struct blkup_writer writer;
        int fd, direct_fd; /* direct_fd -1: no direct I/O */
        uint32_t align;    /* of offset and length, for direct I/O */
        bool is_regular;
        struct blkup_uring *uring; /* NULL: not in use */
};

static struct writer_file *of_block(struct blkup_block *b)
{
        return (struct writer_file *) b;
}

static struct writer_file *of_writer(struct blkup_writer *w)
{
        return (struct writer_file *) w;
}

static bool is_direct(const struct writer_file *f, const struct blkup_block_request *r)
{
        return f->direct_fd >= 0 && ((r->at | r->len) & (f->align - 1)) == 0 &&
               ((uintptr_t) r->to & (MEMORY_ALIGN - 1)) == 0;
}

static int64_t one_call(int fd, const struct blkup_block_request *r, bool is_write)
{
        ssize_t n =
                is_write ? pwrite(fd, r->to, r->len, (off_t) r->at) : pread(fd, r->to, r->len, (off_t) r->at);

        return n < 0 ? -errno : n;
}

/* EINVAL of a direct request means its alignment: the page cache takes any. */
static void one(struct writer_file *f, struct blkup_block_request *r, bool is_write)
{
        r->ns = 0;
        if (is_direct(f, r)) {
                r->done_bytes = one_call(f->direct_fd, r, is_write);
                if (r->done_bytes != -EINVAL)
                        return;
        }
        r->done_bytes = one_call(f->fd, r, is_write);
}

/* A batch of direct requests in one submission. False: not by the ring. */
static bool all_by_ring(struct writer_file *f, struct blkup_block_request *r, size_t n, bool is_write)
{
        int k;

        if (!f->uring || n < 2 || n > RING_MAX)
                return false;
        for (size_t i = 0; i < n; i++)
                if (!is_direct(f, &r[i]))
                        return false;
        k = is_write ? blkup_uring_write(f->uring, f->direct_fd, r, n)
                     : blkup_uring_read(f->uring, f->direct_fd, r, n);
        if (k < 0)
                return false;
        /* A request that the ring did not take, or whose opcode it does not know, is done by a plain call. */
        for (size_t i = 0; i < n; i++)
                if (r[i].done_bytes == -EAGAIN || r[i].done_bytes == -EINVAL ||
                    r[i].done_bytes == -EOPNOTSUPP)
                        one(f, &r[i], is_write);
        return true;
}

static int transfer(struct writer_file *f, struct blkup_block_request *r, size_t n, bool is_write)
{
        if (all_by_ring(f, r, n, is_write))
                return 1;
        for (size_t i = 0; i < n; i++)
                one(f, &r[i], is_write);
        return (int) n;
}

static int file_read(struct blkup_block *b, struct blkup_block_request *r, size_t n)
{
        return transfer(of_block(b), r, n, false);
}

static int file_write(struct blkup_writer *w, struct blkup_block_request *r, size_t n)
{
        return transfer(of_writer(w), r, n, true);
}

static int file_zero(struct blkup_writer *w, uint64_t at, uint64_t len, enum blkup_zero_how how)
{
        struct writer_file *f = of_writer(w);
        int mode = how == BLKUP_ZERO_PUNCH ? FALLOC_FL_PUNCH_HOLE : FALLOC_FL_ZERO_RANGE;
        int r;

        if (f->is_regular || how == BLKUP_ZERO_PUNCH) {
                r = fallocate(f->fd, mode | FALLOC_FL_KEEP_SIZE, (off_t) at, (off_t) len) < 0 ? -errno : 0;
        } else {
                uint64_t range[2] = { at, len };

                r = ioctl(f->fd, BLKZEROOUT, range) < 0 ? -errno : 0;
        }
        /* EINVAL: not aligned as this device wants it; ENODEV, ENOTTY, ENOSYS: it knows no such call;
         * EREMOTEIO: a target that refused the command although it had said it knew it. */
        if (r == -EINVAL || r == -ENODEV || r == -ENOTTY || r == -ENOSYS || r == -EREMOTEIO)
                r = -EOPNOTSUPP;
        return r;
}

static int file_flush(struct blkup_writer *w)
{
        int r;

        do
                r = fdatasync(of_writer(w)->fd);
        while (r < 0 && errno == EINTR);
        return r < 0 ? -errno : 0;
}

static int file_next_data(struct blkup_writer *w, uint64_t at, uint64_t *ret_at, uint64_t *ret_len)
{
        struct writer_file *f = of_writer(w);
        uint64_t size = w->block.info.size_bytes;
        off_t from, to;

        *ret_at = at;
        *ret_len = at < size ? size - at : 0;
        /* On a block device all is data. */
        if (!f->is_regular)
                return 0;
        from = lseek(f->fd, (off_t) at, SEEK_DATA);
        if (from < 0) {
                if (errno == ENXIO)
                        *ret_len = 0;
                return 0;
        }
        to = lseek(f->fd, from, SEEK_HOLE);
        *ret_at = (uint64_t) from;
        *ret_len = to > from ? (uint64_t) (to - from) : size - blkup_min(size, (uint64_t) from);
        return 0;
}

static void file_close(struct blkup_block *b)
{
        struct writer_file *f = of_block(b);

        (void) blkup_uring_unref(f->uring);
        (void) blkup_close(f->direct_fd);
        (void) blkup_close(f->fd);
        free(f);
}

static const struct blkup_block_ops block_ops = { .name = "writer-file",
                                                  .read = file_read,
                                                  .close = file_close };

static const struct blkup_writer_ops file_ops = {
        .name = "file",
        .write = file_write,
        .zero = file_zero,
        .flush = file_flush,
        .next_data = file_next_data,
};

/* A second open of the same file, found by its descriptor so that a rename does not matter. */
static void open_direct(struct writer_file *f, const struct blkup_writer_open *o)
{
        uint32_t offset_bytes = 0, memory_bytes = 0;
        char path[64];

        f->direct_fd = -1;
        if (o && o->no_direct)
                return;
        f->align = f->writer.block.info.logical_sector_bytes;
        if (f->is_regular && blkup_block_dioalign(f->fd, &offset_bytes, &memory_bytes)) {
                if (offset_bytes == 0 || memory_bytes > MEMORY_ALIGN || !blkup_is_power_of_two(offset_bytes))
                        return;
                f->align = offset_bytes;
        }
        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", f->fd);
        f->direct_fd =
                open(path, (o && o->is_read_only ? O_RDONLY : O_RDWR) | O_DIRECT | O_CLOEXEC | O_NOCTTY);
}

int blkup_writer_open_fd(int fd, const char *name, const struct blkup_writer_open *o,
                         struct blkup_writer **ret, struct blkup_error *err)
{
        struct writer_file *f;
        bool suits_ring = false;
        int r;

        f = calloc(1, sizeof(*f));
        if (!f)
                return blkup_fail_errno(err, -ENOMEM, "%s", name);
        f->fd = fd;
        f->direct_fd = -1;
        r = blkup_block_facts(&f->fd, name, o ? o->sysfs : NULL, 0, &f->writer.block.info, &suits_ring, err);
        if (r == 0 && f->writer.block.info.kind == BLKUP_BLOCK_CHAR)
                r = blkup_fail(err, -ENOTBLK, "%s: not a block device or regular file", name);
        if (r < 0) {
                free(f);
                return r;
        }
        f->writer.block.ops = &block_ops;
        f->writer.ops = &file_ops;
        f->is_regular = f->writer.block.info.kind == BLKUP_BLOCK_FILE;
        open_direct(f, o);
        f->writer.block.align_bytes = f->direct_fd >= 0 ? f->align : 1;
        f->writer.block.info.direct = f->direct_fd >= 0;
        /* Without memory for it, plain calls do the same. */
        if (suits_ring && f->direct_fd >= 0 && !(o && o->no_uring))
                f->uring = blkup_uring_new(RING_MAX);
        *ret = &f->writer;
        return 0;
}

int blkup_writer_fd(const struct blkup_writer *w)
{
        return ((const struct writer_file *) w)->fd;
}
