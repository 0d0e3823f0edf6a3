/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "block/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "block/dioalign.h"
#include "block/facts.h"
#include "block/holes.h"
#include "block/nowait.h"

/* No file system or device in use asks for more than a page. */
#define ALIGN_MAX 4096u
/* Requests that go through the bounce buffer together. */
#define BOUNCE_MAX 64
/* Requests of a sparse file that are sent together. */
#define BETWEEN_MAX 64
/* The bounce buffer starts with this much; a plan has some twenty windows of a sector or a few. */
#define BOUNCE_BYTES 65536u

struct blkup_block_file {
        struct blkup_block block;
        int fd;
        bool is_regular;
        bool is_blocking; /* O_NONBLOCK is gone */
        uint32_t memory_align;     /* of buffers, for direct reads; at most align_bytes */
        struct blkup_uring *uring; /* NULL: not in use */
        uint8_t *bounce;
        size_t bounce_bytes;
        struct blkup_holes holes; /* of a file opened by its name */
};

/* The descriptor is ours alone and read-only, so its flags are known. O_NONBLOCK has done its work at open;
 * with it, a ring on a kernel before 5.19 answers EAGAIN instead of waiting. */
static int set_flags(const struct blkup_block_file *f, bool direct)
{
        return fcntl(f->fd, F_SETFL, direct ? O_DIRECT : 0) < 0 ? -errno : 0;
}

static bool is_aligned(uint64_t v, uint32_t align)
{
        return (v & (align - 1)) == 0;
}

/*
 * A direct read was refused for its alignment: this one goes through the page cache. If it was aligned as
 * we believe is right, the next ones are aligned to more, and when that is refused too the handle becomes a
 * buffered one.
 */
static ssize_t pread_buffered(struct blkup_block_file *f, void *to, size_t len, uint64_t at)
{
        bool is_belief_wrong = is_aligned(at | len, f->block.align_bytes) &&
                               is_aligned((uintptr_t) to, f->memory_align);
        ssize_t n;
        int code;

        if (set_flags(f, false) < 0) {
                errno = EINVAL;
                return -1;
        }
        n = pread(f->fd, to, len, (off_t) at);
        code = errno;
        if ((is_belief_wrong && f->block.align_bytes == ALIGN_MAX) || set_flags(f, true) < 0) {
                f->block.info.direct = false;
                f->block.align_bytes = 1;
        } else if (is_belief_wrong) {
                f->block.align_bytes = f->memory_align = ALIGN_MAX;
        }
        errno = code;
        return n;
}

/*
 * Goes on with a request of which `done` bytes are there. A read is answered short at the end of the device,
 * and in front of an unreadable sector; what comes next tells which of the two it was. Each turn gets at
 * least one byte, ends the loop, was ended by a signal, or changes the descriptor to blocking, which it does
 * once.
 */
static int64_t read_rest(struct blkup_block_file *f, const struct blkup_block_request *r, size_t done,
                         int *submissions)
{
        bool is_blocking = false;

        while (done < r->len) {
                uint64_t at = r->at + done;
                uint8_t *to = (uint8_t *) r->to + done;
                ssize_t n;

                /* At the end that the device was opened with: no call is needed to see it. */
                if (done > 0 && f->block.info.kind != BLKUP_BLOCK_CHAR && at >= f->block.info.size_bytes)
                        break;
                n = pread(f->fd, to, r->len - done, (off_t) at);
                ++*submissions;
                if (n < 0 && errno == EINVAL && f->block.info.direct) {
                        n = pread_buffered(f, to, r->len - done, at);
                        ++*submissions;
                }
                if (n > 0) {
                        done += (size_t) n;
                } else if (n == 0) {
                        break;
                } else if (errno == EAGAIN && !is_blocking && set_flags(f, f->block.info.direct) == 0) {
                        is_blocking = true;
                } else if (errno != EINTR) {
                        return -errno;
                }
        }
        return (int64_t) done;
}

static int read_one_by_one(struct blkup_block_file *f, struct blkup_block_request *r, size_t n)
{
        uint64_t before = blkup_now_ns();
        int submissions = 0;

        for (size_t i = 0; i < n; i++) {
                uint64_t after;

                r[i].done_bytes = read_rest(f, &r[i], 0, &submissions);
                after = blkup_now_ns();
                r[i].ns = after - before;
                before = after;
        }
        return submissions;
}

static bool is_refusal(int64_t done)
{
        return done == -EINVAL || done == -EOPNOTSUPP || done == -ENOSYS;
}

static void drop_ring(struct blkup_block_file *f)
{
        f->uring = NULL;
        f->block.one_submission = false;
}

/* What the ring did not finish is finished by pread: short reads, and "not like this", "not now". */
static int read_by_ring(struct blkup_block_file *f, struct blkup_block_request *r, size_t n)
{
        bool is_direct = f->block.info.direct, is_known = true, is_taken;
        int submissions;

        if (!f->is_blocking) {
                (void) set_flags(f, is_direct);
                f->is_blocking = true;
        }
        submissions = blkup_uring_read(f->uring, f->fd, r, n);
        if (submissions < 0) {
                drop_ring(f);
                return read_one_by_one(f, r, n);
        }
        is_taken = submissions > 0;
        for (size_t i = 0; i < n; i++) {
                int64_t done = r[i].done_bytes;

                if (done == (int64_t) r[i].len)
                        continue;
                if (done >= 0 || is_refusal(done) || done == -EAGAIN || done == -EINTR || done == -ECANCELED)
                        r[i].done_bytes = read_rest(f, &r[i], done > 0 ? (size_t) done : 0, &submissions);
                /* A buffered read has nothing that could be refused but the operation itself. */
                if (is_refusal(done) && !is_refusal(r[i].done_bytes) && !is_direct)
                        is_known = false;
        }
        if (!is_known)
                blkup_uring_refuse(f->uring);
        if (!is_known || !is_taken)
                drop_ring(f);
        return submissions;
}

/*
 * What is in the page cache is had by a call each, in half the time that the ring takes for it. The first
 * that would have to wait for the disk shows that it pays to ask for all that is left at once.
 */
static int read_cached(struct blkup_block_file *f, struct blkup_block_request *r, size_t n, size_t *ret_taken)
{
        uint64_t before = blkup_now_ns();
        int submissions = 0;
        size_t i;

        for (i = 0; i < n; i++) {
                uint64_t after;

                if (blkup_pread_nowait(f->fd, r[i].to, r[i].len, r[i].at) != (ssize_t) r[i].len)
                        break;
                submissions++;
                after = blkup_now_ns();
                r[i].done_bytes = (int64_t) r[i].len;
                r[i].ns = after - before;
                before = after;
        }
        *ret_taken = i;
        return submissions;
}

static int read_batch(struct blkup_block_file *f, struct blkup_block_request *r, size_t n)
{
        size_t taken = 0;
        int submissions = 0;

        if (f->uring && !blkup_uring_is_usable(f->uring))
                drop_ring(f);
        if (f->uring && n > 1 && f->is_regular && !f->block.info.direct)
                submissions = read_cached(f, r, n, &taken);
        if (taken == n)
                return submissions;
        /* A single read is one call either way, and pread is the shorter one. */
        return submissions + (f->uring && n - taken > 1 ? read_by_ring(f, r + taken, n - taken)
                                                        : read_one_by_one(f, r + taken, n - taken));
}

/* true: all of it that lies on the device is in a hole, and answered. */
static bool answer_from_hole(struct blkup_block_file *f, struct blkup_block_request *r)
{
        uint64_t size = f->block.info.size_bytes, len = blkup_min(r->len, size - blkup_min(r->at, size));

        if (!blkup_holes_have(&f->holes, f->fd, r->at, len))
                return false;
        r->done_bytes = (int64_t) len;
        r->ns = 0;
        memset(r->to, 0, (size_t) len);
        return true;
}

/* What lies in holes is not read; the others are, so many at a time. A question about a hole is a submission
 * too. */
static int read_between_holes(struct blkup_block_file *f, struct blkup_block_request *r, size_t n)
{
        struct blkup_block_request sent[BETWEEN_MAX];
        size_t which[BETWEEN_MAX], taken = 0;
        int submissions = -f->holes.questions;

        for (size_t i = 0; i < n; i++) {
                if (!answer_from_hole(f, &r[i])) {
                        which[taken] = i;
                        sent[taken++] = r[i];
                }
                if (taken == 0 || (taken < BETWEEN_MAX && i + 1 < n))
                        continue;
                submissions += read_batch(f, sent, taken);
                for (size_t k = 0; k < taken; k++)
                        r[which[k]] = sent[k];
                taken = 0;
        }
        return submissions + f->holes.questions;
}

static bool is_direct_ready(const struct blkup_block_file *f, const struct blkup_block_request *r)
{
        return is_aligned(r->at, f->block.align_bytes) && is_aligned(r->len, f->block.align_bytes) &&
               is_aligned((uintptr_t) r->to, f->memory_align);
}

/* Bytes of the aligned range around a request; 0 when that cannot be told in 64 bits. */
static uint64_t around(const struct blkup_block_request *r, uint32_t align)
{
        uint64_t end;

        if (!blkup_add(r->at, r->len, &end))
                return 0;
        return blkup_align_up(end, align) - blkup_align_down(r->at, align);
}

static bool make_bounce(struct blkup_block_file *f, uint64_t bytes)
{
        uint8_t *larger;

        if (f->bounce_bytes >= bytes)
                return true;
        bytes = blkup_align_up(blkup_max(bytes, BOUNCE_BYTES), ALIGN_MAX);
        larger = bytes <= SIZE_MAX ? aligned_alloc(ALIGN_MAX, (size_t) bytes) : NULL;
        if (!larger)
                return false;
        free(f->bounce);
        f->bounce = larger;
        f->bounce_bytes = (size_t) bytes;
        return true;
}

/*
 * Requests [0, n) as direct reads, as many at a time as the bounce buffer and the array take. Returns
 * submissions, and in *ret_taken how many requests that was: at least one, so the caller's loop ends.
 */
static int read_bounced(struct blkup_block_file *f, struct blkup_block_request *r, size_t n,
                        size_t *ret_taken)
{
        struct blkup_block_request sent[BOUNCE_MAX];
        uint32_t align = f->block.align_bytes; /* a refusal may change it meanwhile */
        size_t used = 0, taken;
        int submissions;

        for (taken = 0; taken < n && taken < BOUNCE_MAX; taken++) {
                struct blkup_block_request *q = &r[taken];
                uint64_t bytes;

                sent[taken] = *q;
                if (is_direct_ready(f, q))
                        continue;
                bytes = around(q, align);
                if (taken == 0 && !make_bounce(f, bytes)) {
                        q->done_bytes = -ENOMEM;
                        q->ns = 0;
                        *ret_taken = 1;
                        return 0;
                }
                /* The buffer cannot grow under requests that already point into it. */
                if (used == 0 && taken > 0 && !make_bounce(f, bytes))
                        break;
                if (bytes > f->bounce_bytes - used)
                        break;
                sent[taken].at = blkup_align_down(q->at, align);
                sent[taken].len = (size_t) bytes;
                sent[taken].to = f->bounce + used;
                used += (size_t) bytes;
        }
        submissions = read_batch(f, sent, taken);
        for (size_t i = 0; i < taken; i++) {
                struct blkup_block_request *q = &r[i];
                int64_t done = sent[i].done_bytes;

                q->ns = sent[i].ns;
                if (sent[i].to != q->to && done >= 0) {
                        size_t skip = (size_t) (q->at - sent[i].at);
                        size_t got = (size_t) done > skip ? (size_t) done - skip : 0;

                        got = got < q->len ? got : q->len;
                        memcpy(q->to, (const uint8_t *) sent[i].to + skip, got);
                        done = (int64_t) got;
                }
                q->done_bytes = done;
        }
        *ret_taken = taken;
        return submissions;
}

static int file_read(struct blkup_block *b, struct blkup_block_request *r, size_t n)
{
        struct blkup_block_file *f = (struct blkup_block_file *) b;
        int submissions = 0;
        size_t i = 0;

        if (b->info.direct)
                while (i < n && is_direct_ready(f, &r[i]))
                        i++;
        if (f->holes.is_on && !b->info.direct)
                return read_between_holes(f, r, n);
        if (!b->info.direct || i == n)
                return read_batch(f, r, n);
        for (i = 0; i < n;) {
                size_t taken = n - i;

                /* It may have become a buffered one on the way. */
                if (b->info.direct)
                        submissions += read_bounced(f, r + i, n - i, &taken);
                else
                        submissions += read_batch(f, r + i, n - i);
                i += taken;
        }
        return submissions;
}

static int make_direct(struct blkup_block_file *f)
{
        uint32_t offset = f->block.info.logical_sector_bytes, memory = offset;
        int r;

        if (f->is_regular && blkup_block_dioalign(f->fd, &offset, &memory) && offset == 0)
                return -EOPNOTSUPP;
        if (offset > ALIGN_MAX || memory > ALIGN_MAX)
                return -EOPNOTSUPP;
        r = set_flags(f, true);
        if (r < 0)
                return r == -EINVAL ? -EOPNOTSUPP : r;
        f->block.info.direct = true;
        f->block.align_bytes = offset;
        f->memory_align = memory;
        return 0;
}

static int file_set_direct(struct blkup_block *b, bool direct)
{
        struct blkup_block_file *f = (struct blkup_block_file *) b;
        int r;

        if (direct)
                return make_direct(f);
        r = set_flags(f, false);
        if (r < 0)
                return r;
        b->info.direct = false;
        b->align_bytes = 1;
        if (!f->is_regular)
                (void) posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM);
        return 0;
}

static void file_close(struct blkup_block *b)
{
        struct blkup_block_file *f = (struct blkup_block_file *) b;

        (void) blkup_close(f->fd);
        free(f->bounce);
        free(f);
}

static const struct blkup_block_ops file_ops = {
        .name = "file", .read = file_read, .close = file_close, .set_direct = file_set_direct,
};

static void prepare(struct blkup_block_file *f, const struct blkup_block_open *o, bool suits_ring)
{
        struct blkup_block_info *info = &f->block.info;
        bool is_device = info->kind == BLKUP_BLOCK_DISK || info->kind == BLKUP_BLOCK_PARTITION;
        bool want = o->direct == BLKUP_DIRECT_ALWAYS || (o->direct == BLKUP_DIRECT_AUTO && is_device &&
                                                         info->size_bytes <= BLKUP_BLOCK_TINY_BYTES);

        f->is_regular = info->kind == BLKUP_BLOCK_FILE;
        if (suits_ring && o->uring && blkup_uring_is_usable(o->uring)) {
                f->uring = o->uring;
                f->block.one_submission = true;
        }
        if (want && info->kind != BLKUP_BLOCK_CHAR && make_direct(f) == 0)
                return;
        /* No readahead: it would fetch what nobody looks at. A file is left to its file system's readahead:
         * there the call would cost more than it saves. */
        if (is_device)
                (void) posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM);
}

/* fd becomes the handle's on success. */
static int make_handle(int *fd, const char *name, const struct blkup_block_open *o, struct blkup_block **ret,
                       struct blkup_error *err)
{
        static const struct blkup_block_open defaults;
        struct blkup_block_info info;
        struct blkup_block_file *f;
        bool suits_ring;
        int r;

        if (!o)
                o = &defaults;
        r = blkup_block_facts(fd, name, o->sysfs, o->fixed_diskseq, &info, &suits_ring, err);
        if (r < 0)
                return r;
        f = malloc(sizeof(*f));
        if (!f)
                return blkup_fail_errno(err, -ENOMEM, "%s", name);
        *f = (struct blkup_block_file) {
                .block = { .ops = &file_ops, .info = info, .align_bytes = 1 },
                .fd = blkup_take_fd(fd),
        };
        prepare(f, o, suits_ring);
        *ret = &f->block;
        return 0;
}

int blkup_block_open_fd(int fd, const char *name, const struct blkup_block_open *o, struct blkup_block **ret,
                        struct blkup_error *err)
{
        struct blkup_block *b;
        int own = fd, r;

        r = make_handle(&own, name, o, &b, err);
        if (r < 0)
                return r;
        /* It may have come with O_DIRECT. */
        if (!b->info.direct)
                (void) set_flags((struct blkup_block_file *) b, false);
        *ret = b;
        return 0;
}

int blkup_block_open(const char *path, const struct blkup_block_open *o, struct blkup_block **ret,
                     struct blkup_error *err)
{
        BLKUP_CLEANUP_CLOSE int fd = -1;
        struct stat st;
        int r;

        /* Looked at before it is opened: opening a watchdog starts it, opening a tape may wind it. */
        if (stat(path, &st) < 0)
                return blkup_fail_errno(err, -errno, "%s", path);
        r = blkup_block_check_kind(&st, path, o ? o->sysfs : NULL, err);
        if (r < 0)
                return r;
        /* Non-blocking: a CD-ROM's open tray is not pulled in, a FIFO does not wait for a writer. */
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
                return blkup_fail_errno(err, -errno, "%s", path);
        r = make_handle(&fd, path, o, ret, err);
        if (r == 0 && S_ISREG(st.st_mode)) {
                struct blkup_block_file *f = (struct blkup_block_file *) *ret;

                blkup_holes_init(&f->holes, f->fd, (uint64_t) st.st_size, (uint64_t) st.st_blocks);
        }
        return r;
}
