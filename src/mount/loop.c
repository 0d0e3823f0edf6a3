/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Loop devices. The same part of a file is never on two of them: two file systems that know nothing of each
 * other would write to it, and nothing in the kernel objects.
 *
 * Between processes: whoever looks for a loop device and then makes one holds a lock (flock) on
 * /dev/loop-control. Within a run: claims. The table of loop devices is read once a run.
 *
 * Source: <linux/loop.h>, loop(4); the kernel's drivers/block/loop.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/clock.h"
#include "mount/mounter.h"

#ifndef LOOP_CONFIGURE
#define LOOP_CONFIGURE 0x4C0A
struct loop_config {
        __u32 fd, block_size;
        struct loop_info64 info;
        __u64 reserved[8];
};
#endif

#define MAX_TRIES 512
#define LOCK_WAIT_NS UINT64_C(5000000000)

static void sleep_ms(unsigned ms)
{
        blkup_sleep_until_ns(blkup_now_ns() + ms * UINT64_C(1000000), NULL);
}

int blkup_mount_open_file(struct blkup_mount_attempt *a)
{
        bool want_rw = !a->read_only;

        a->file_fd = open(a->source.path, (want_rw ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOCTTY);
        if (a->file_fd < 0 && want_rw &&
            (errno == EROFS || errno == EACCES || errno == EPERM || errno == ETXTBSY)) {
                if (a->o.is_read_write)
                        return blkup_mount_refuse(a, BLKUP_MOUNT_CALL_LOOP, BLKUP_MOUNT_REASON_LOOP_READ_ONLY,
                                                  -errno);
                a->file_fd = open(a->source.path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
                a->read_only = true;
                a->r->notes |= BLKUP_MOUNT_NOTE_LOOP_READ_ONLY;
        }
        if (a->file_fd < 0)
                return blkup_mount_fail(a, BLKUP_MOUNT_CALL_LOOP, -errno);
        return 0;
}

/* Takes the lock between processes, and reads the table under it. m->lock is held. */
static int begin_loops(struct blkup_mounter *m)
{
        uint64_t until = blkup_now_ns() + LOCK_WAIT_NS;

        if (m->loop_control_fd < 0) {
                m->loop_control_fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
                /* -ENOENT is another answer: nobody has the file */
                if (m->loop_control_fd < 0)
                        return errno == ENOENT ? -ENODEV : -errno;
        }
        if (m->loops_are_read)
                return 0;
        /* Ends: with the time. Then another run holds it for long; the table that is read now is the best
         * there is. */
        while (flock(m->loop_control_fd, LOCK_EX | LOCK_NB) < 0 && blkup_now_ns() < until)
                sleep_ms(1);
        m->loops = blkup_loops_free(m->loops);
        m->loops_are_read = true;
        return blkup_loops_load(m->settings.root, &m->loops, NULL);
}

/* m->lock is held. After the last claim of a moment the lock goes, and with it the knowledge. */
static void end_loops(struct blkup_mounter *m)
{
        for (const struct blkup_loop_claim *c = m->claims; c; c = c->next)
                if (!c->path[0])
                        return;
        if (m->loop_control_fd >= 0)
                (void) flock(m->loop_control_fd, LOCK_UN);
        m->loops_are_read = false;
}

static bool ranges_meet(uint64_t a_at, uint64_t a_len, uint64_t b_at, uint64_t b_len)
{
        uint64_t a_end, b_end;

        /* A length of 0 is "to the end". */
        if (a_len == 0 || __builtin_add_overflow(a_at, a_len, &a_end))
                a_end = UINT64_MAX;
        if (b_len == 0 || __builtin_add_overflow(b_at, b_len, &b_end))
                b_end = UINT64_MAX;
        return a_at < b_end && b_at < a_end;
}

/* Opens a loop device that has this part of the file. -ENXIO: it is gone, or another file's by now. */
static int open_known(struct blkup_mount_attempt *a, const char *path, const struct stat *st,
                      bool *ret_read_only)
{
        struct loop_info64 info;
        int fd = open(path, O_RDONLY | O_CLOEXEC);

        if (fd < 0)
                return -ENXIO;
        /* While fd is open the device keeps its file, also with autoclear. */
        if (ioctl(fd, LOOP_GET_STATUS64, &info) < 0 || info.lo_inode != st->st_ino ||
            info.lo_offset != a->o.offset_bytes || info.lo_sizelimit != a->o.sizelimit_bytes) {
                (void) blkup_close(fd);
                return -ENXIO;
        }
        *ret_read_only = info.lo_flags & LO_FLAGS_READ_ONLY;
        a->loop_fd = fd;
        return 0;
}

/* Writes to a->source what the loop device is. */
static int take_device(struct blkup_mount_attempt *a, const char *path)
{
        struct stat st;

        if (fstat(a->loop_fd, &st) < 0)
                return -errno;
        blkup_mount_copy(a->source.path, sizeof(a->source.path), path);
        a->source.kind = BLKUP_SOURCE_BLOCK;
        a->source.rdev = st.st_rdev;
        blkup_mount_copy(a->r->device, sizeof(a->r->device), path);
        a->r->dev_major = major(st.st_rdev);
        a->r->dev_minor = minor(st.st_rdev);
        return 0;
}

static int reuse(struct blkup_mount_attempt *a, const char *path, bool is_read_only)
{
        if (is_read_only && !a->read_only) {
                if (a->o.is_read_write) {
                        blkup_mount_copy(a->r->other, sizeof(a->r->other), path);
                        return -EROFS;
                }
                a->read_only = true;
                a->r->notes |= BLKUP_MOUNT_NOTE_LOOP_READ_ONLY;
        }
        a->r->notes |= BLKUP_MOUNT_NOTE_LOOP_REUSED;
        return take_device(a, path);
}

/* Who has this part of the file already? 0: taken over; -ENOENT: nobody; -EBUSY: another part that overlaps.
 * m->lock is held, and given up while another attempt of this run sets the same part up. */
static int look_for_user(struct blkup_mount_attempt *a, const struct stat *st)
{
        struct blkup_mounter *m = a->m;
        uint64_t at = a->o.offset_bytes, len = a->o.sizelimit_bytes;
        bool read_only;

again:
        for (const struct blkup_loop_claim *c = m->claims; c; c = c->next) {
                if (c->file_dev != st->st_dev || c->file_inode != st->st_ino ||
                    !ranges_meet(c->offset_bytes, c->sizelimit_bytes, at, len))
                        continue;
                if (!c->path[0]) {
                        /* Ends: who sets it up always takes the claim away or names the device. */
                        (void) pthread_cond_wait(&m->changed, &m->lock);
                        goto again;
                }
                if (c->offset_bytes == at && c->sizelimit_bytes == len &&
                    open_known(a, c->path, st, &read_only) == 0)
                        return reuse(a, c->path, read_only);
        }
        for (const struct blkup_loop *l = NULL;
             (l = blkup_loops_by_file(m->loops, st->st_dev, st->st_ino, l));) {
                char path[64];

                if (!blkup_loop_is_overlapping(l, at, len))
                        continue;
                (void) snprintf(path, sizeof(path), "/dev/%s", l->name);
                if (l->offset_bytes == at && l->sizelimit_bytes == len) {
                        if (open_known(a, path, st, &read_only) == 0)
                                return reuse(a, path, read_only);
                        continue; /* gone since */
                }
                blkup_mount_copy(a->r->other, sizeof(a->r->other), path);
                return -EBUSY;
        }
        return -ENOENT;
}

/* Before 5.8 in two steps. */
static int configure_in_two(int loop, int file, struct loop_info64 *info)
{
        if (ioctl(loop, LOOP_SET_FD, file) < 0)
                return -errno;
        if (ioctl(loop, LOOP_SET_STATUS64, info) < 0) {
                int r = -errno;

                (void) ioctl(loop, LOOP_CLR_FD, 0);
                return r;
        }
        return 0;
}

static int configure(struct blkup_mount_attempt *a, int loop)
{
        struct loop_config c = { .fd = (__u32) a->file_fd };

        c.info.lo_offset = a->o.offset_bytes;
        c.info.lo_sizelimit = a->o.sizelimit_bytes;
        c.info.lo_flags = LO_FLAGS_AUTOCLEAR | (a->read_only ? LO_FLAGS_READ_ONLY : 0u);
        blkup_mount_copy((char *) c.info.lo_file_name, sizeof(c.info.lo_file_name), a->source.path);
        if (ioctl(loop, LOOP_CONFIGURE, &c) == 0)
                return 0;
        if (errno == EINVAL || errno == ENOTTY)
                return configure_in_two(loop, a->file_fd, &c.info);
        return -errno;
}

/* A free device, made to show the file: LOOP_CTL_GET_FREE reserves nothing, so another program may be faster.
 */
static int make_device(struct blkup_mount_attempt *a, char *ret_path, size_t cap)
{
        int control = a->m->loop_control_fd, r = -EBUSY, mode = a->read_only ? O_RDONLY : O_RDWR;

        for (unsigned i = 0; i < MAX_TRIES; i++) {
                int number = ioctl(control, LOOP_CTL_GET_FREE), fd;

                if (a->o.loop_device)
                        (void) snprintf(ret_path, cap, "%s", a->o.loop_device);
                else if (number < 0)
                        return -errno;
                else
                        (void) snprintf(ret_path, cap, "/dev/loop%d", number);
                fd = open(ret_path, mode | O_CLOEXEC);
                if (fd < 0) {
                        r = -errno;
                        /* the node comes, or gets its rights, a moment later; that of a device that was named
                         * by hand need not come at all */
                        if (a->o.loop_device && i > 8)
                                return r == -ENOENT ? -ENXIO : r;
                        if (r != -ENOENT && r != -EACCES && r != -ENXIO && r != -EBUSY)
                                return r;
                        sleep_ms(1);
                        continue;
                }
                r = configure(a, fd);
                if (r == 0) {
                        /* Kernels that forbid writing to mounted devices refuse the mount while a descriptor
                         * for writing is open. */
                        a->loop_fd = mode == O_RDONLY ? fd : open(ret_path, O_RDONLY | O_CLOEXEC);
                        if (a->loop_fd < 0)
                                r = -errno;
                        if (mode != O_RDONLY)
                                (void) blkup_close(fd);
                        return r;
                }
                (void) blkup_close(fd);
                if (r != -EBUSY && r != -EAGAIN)
                        return r;
                if (a->o.loop_device && i > 8)
                        return r;
                if (r == -EAGAIN || i > 16)
                        sleep_ms(1);
        }
        return r;
}

static int set_up(struct blkup_mount_attempt *a, const struct stat *st)
{
        struct blkup_mounter *m = a->m;
        struct blkup_loop_claim *claim;
        char path[64];
        int r;

        (void) pthread_mutex_lock(&m->lock);
        r = begin_loops(m);
        if (r == 0)
                r = look_for_user(a, st);
        if (r != -ENOENT) {
                end_loops(m);
                (void) pthread_mutex_unlock(&m->lock);
                return r;
        }
        claim = calloc(1, sizeof(*claim));
        if (claim) {
                *claim = (struct blkup_loop_claim){
                        .file_dev = st->st_dev, .file_inode = st->st_ino,
                        .offset_bytes = a->o.offset_bytes, .sizelimit_bytes = a->o.sizelimit_bytes,
                        .next = m->claims,
                };
                m->claims = claim;
        }
        (void) pthread_mutex_unlock(&m->lock);
        if (!claim)
                return -ENOMEM;
        r = make_device(a, path, sizeof(path));
        (void) pthread_mutex_lock(&m->lock);
        if (r == 0) {
                blkup_mount_copy(claim->path, sizeof(claim->path), path);
                claim->is_read_only = a->read_only;
        } else {
                struct blkup_loop_claim **at = &m->claims;

                /* Ends: the claim is in the list. */
                while (*at != claim)
                        at = &(*at)->next;
                *at = claim->next;
                free(claim);
        }
        end_loops(m);
        (void) pthread_cond_broadcast(&m->changed);
        (void) pthread_mutex_unlock(&m->lock);
        return r == 0 ? take_device(a, path) : r;
}

int blkup_mount_check_area(struct blkup_mount_attempt *a)
{
        off_t end;
        int r = a->file_fd < 0 ? blkup_mount_open_file(a) : 0;

        if (r < 0)
                return r;
        blkup_mount_copy(a->r->file, sizeof(a->r->file), a->source.path);
        a->r->offset_bytes = a->o.offset_bytes;
        a->r->sizelimit_bytes = a->o.sizelimit_bytes;
        end = lseek(a->file_fd, 0, SEEK_END);
        if (end < 0)
                return blkup_mount_fail(a, BLKUP_MOUNT_CALL_LOOP, -errno);
        a->file_bytes = (uint64_t) end;
        if (a->o.offset_bytes > 0 && a->o.offset_bytes >= a->file_bytes)
                return blkup_mount_refuse(a, BLKUP_MOUNT_CALL_LOOP, BLKUP_MOUNT_REASON_OFFSET, -ENXIO);
        return 0;
}

int blkup_mount_set_up_loop(struct blkup_mount_attempt *a)
{
        struct stat st;
        int r = 0;

        if (a->file_fd < 0)
                r = blkup_mount_open_file(a);
        if (r < 0)
                return r;
        if (fstat(a->file_fd, &st) < 0)
                return blkup_mount_fail(a, BLKUP_MOUNT_CALL_LOOP, -errno);
        if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
                return blkup_mount_fail(a, BLKUP_MOUNT_CALL_LOOP, -ENOTBLK);
        blkup_mount_copy(a->r->file, sizeof(a->r->file), a->source.path);
        a->r->offset_bytes = a->o.offset_bytes;
        a->r->sizelimit_bytes = a->o.sizelimit_bytes;
        blkup_mount_step_begin(a->r, "loop");
        r = set_up(a, &st);
        blkup_mount_step_end(a->r);
        if (r == -EBUSY && a->r->other[0])
                return blkup_mount_refuse(a, BLKUP_MOUNT_CALL_LOOP, BLKUP_MOUNT_REASON_LOOP_IN_USE, r);
        if (r == -EROFS && a->r->other[0])
                return blkup_mount_refuse(a, BLKUP_MOUNT_CALL_LOOP, BLKUP_MOUNT_REASON_LOOP_READ_ONLY, r);
        return r < 0 ? blkup_mount_fail(a, BLKUP_MOUNT_CALL_LOOP, r) : 0;
}
