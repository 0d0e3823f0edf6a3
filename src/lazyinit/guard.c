/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "lazyinit/guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <linux/major.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/clock.h"
#include "host/hostfile.h"
#include "host/loopstate.h"
#include "host/sysfs.h"

/* udev holds its shared lock while it probes a device: some milliseconds, seconds on a slow disk. */
#define FLOCK_PATIENCE_NS UINT64_C(5000000000)
#define FLOCK_STEP_NS UINT64_C(20000000)
/* Processes and descriptors that are looked at: more than a machine has. */
#define FDS_MAX (1u << 22)

static int flock_patiently(int fd)
{
        uint64_t until = blkup_now_ns() + FLOCK_PATIENCE_NS;

        /* Ends: the clock runs. */
        while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                if (errno != EWOULDBLOCK && errno != EINTR)
                        /* A file system without such locks: nobody else can have one. */
                        return errno == ENOLCK || errno == EINVAL || errno == EOPNOTSUPP ? 0 : -errno;
                if (blkup_now_ns() >= until)
                        return -EWOULDBLOCK;
                blkup_sleep_until_ns(blkup_now_ns() + FLOCK_STEP_NS, NULL);
        }
        return 0;
}

/* ---- loop devices ---- */

/* Is there a loop device, other than `own` (major:minor, may be NULL), that shows this file? */
static int check_loops(uint64_t file_dev, uint64_t file_inode, const struct blkup_loop *own, const char *root,
                       const struct blkup_loops *loops, struct blkup_lazy_refusal *r)
{
        (void) root;
        for (const struct blkup_loop *l = blkup_loops_by_file(loops, file_dev, file_inode, NULL); l;
             l = blkup_loops_by_file(loops, file_dev, file_inode, l)) {
                if (l == own)
                        continue;
                if (own && !blkup_loop_is_overlapping(l, own->offset_bytes, own->sizelimit_bytes))
                        continue;
                return blkup_lazy_refuse(r, BLKUP_LAZYINIT_LOOP, "/dev/%s shows %s", l->name,
                                         own ? "the same file" : "this file");
        }
        return 0;
}

static int check_loops_of(const struct blkup_lazy_guard *g, const char *root, struct blkup_lazy_refusal *r)
{
        struct blkup_loops *loops = NULL;
        int k = blkup_loops_load(root, &loops, NULL);

        /* No /sys: nothing can be said, and O_EXCL and the locks still hold. */
        if (k < 0)
                return k == -ENOMEM ? k : 0;
        k = 0;
        if (g->is_file) {
                k = check_loops(g->file_dev, g->file_inode, NULL, root, loops, r);
        } else if (g->dev_major == LOOP_MAJOR) {
                const struct blkup_loop *own = blkup_loops_by_devno(loops, g->dev_major, g->dev_minor);

                if (own && own->identity != BLKUP_LOOP_UNKNOWN)
                        k = check_loops(own->file_dev, own->file_inode, own, root, loops, r);
        }
        blkup_loops_free(loops);
        return k;
}

/* ---- processes that have the file open for writing ---- */

static bool is_number(const char *s)
{
        return *s && s[strspn(s, "0123456789")] == '\0';
}

/* "flags:" in fdinfo is the open mode in octal. */
static bool is_for_writing(int proc_fd, const char *pid, const char *fd)
{
        BLKUP_CLEANUP_CLOSE int info = -1;
        char path[64], text[512];
        const char *flags;
        ssize_t n;

        (void) snprintf(path, sizeof(path), "%.20s/fdinfo/%.20s", pid, fd);
        info = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
        n = info < 0 ? -1 : read(info, text, sizeof(text) - 1);
        if (n <= 0)
                return false;
        text[n] = '\0';
        flags = strstr(text, "flags:");
        return flags && (strtoul(flags + 6, NULL, 8) & O_ACCMODE) != O_RDONLY;
}

/* A path that the kernel writes for what is no file on a disk. */
static bool is_elsewhere(const char *target)
{
        return strncmp(target, "socket:", 7) == 0 || strncmp(target, "pipe:", 5) == 0 ||
               strncmp(target, "anon_inode:", 11) == 0 || strncmp(target, "/dev/", 5) == 0 ||
               strncmp(target, "/proc/", 6) == 0 || strncmp(target, "/sys/", 5) == 0;
}

static int check_process(const struct blkup_lazy_guard *g, int proc_fd, const char *pid, unsigned *budget,
                         struct blkup_lazy_refusal *r)
{
        struct dirent *e;
        char path[64];
        DIR *d;
        int fd, k = 0;

        (void) snprintf(path, sizeof(path), "%.20s/fd", pid);
        fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        d = fd < 0 ? NULL : fdopendir(fd);
        if (!d) {
                (void) blkup_close(fd);
                return 0;
        }
        while (k == 0 && *budget > 0 && (e = readdir(d))) {
                char target[256];
                struct stat st;
                ssize_t n;

                if (!is_number(e->d_name))
                        continue;
                (*budget)--;
                n = readlinkat(fd, e->d_name, target, sizeof(target) - 1);
                if (n <= 0)
                        continue;
                target[n] = '\0';
                if (is_elsewhere(target) || fstatat(fd, e->d_name, &st, AT_NO_AUTOMOUNT) < 0 ||
                    st.st_dev != g->file_dev || st.st_ino != g->file_inode)
                        continue;
                if (is_for_writing(proc_fd, pid, e->d_name))
                        k = blkup_lazy_refuse(r, BLKUP_LAZYINIT_OPEN_WRITER,
                                              "process %s has it open for writing", pid);
        }
        (void) closedir(d);
        return k;
}

/* Other users' processes only show their files to root; without it, what is not seen is not refused. */
static int check_writers(const struct blkup_lazy_guard *g, const char *root, struct blkup_lazy_refusal *r)
{
        char self[24];
        unsigned budget = FDS_MAX;
        struct dirent *e;
        DIR *d;
        int fd, k = 0;

        fd = blkup_host_open(root, "proc", O_RDONLY | O_DIRECTORY);
        d = fd < 0 ? NULL : fdopendir(fd);
        if (!d) {
                (void) blkup_close(fd < 0 ? -1 : fd);
                return 0;
        }
        (void) snprintf(self, sizeof(self), "%ld", (long) getpid());
        while (k == 0 && (e = readdir(d)))
                if (is_number(e->d_name) && strcmp(e->d_name, self) != 0)
                        k = check_process(g, fd, e->d_name, &budget, r);
        (void) closedir(d);
        return k;
}

/* ---- files and devices ---- */

static int lock_file(struct blkup_lazy_guard *g, bool for_writing, struct blkup_lazy_refusal *r,
                     struct blkup_error *err)
{
        /* The whole file, for writing: it conflicts with every lock that anyone may hold, as qemu does on
         * bytes of its own. Asking for one on a descriptor that only reads is an error, so then we only ask.
         */
        struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

        if (fcntl(g->fd, for_writing ? F_OFD_SETLK : F_OFD_GETLK, &lock) < 0) {
                if (errno == EAGAIN || errno == EACCES)
                        return blkup_lazy_refuse(r, BLKUP_LAZYINIT_LOCKED,
                                                 "another program holds a lock on it");
                if (errno != ENOLCK && errno != EINVAL && errno != EOPNOTSUPP && errno != EBADF)
                        return blkup_fail_errno(err, -errno, "lock");
        } else if (!for_writing && lock.l_type != F_UNLCK) {
                return blkup_lazy_refuse(r, BLKUP_LAZYINIT_LOCKED, "another program holds a lock on it");
        }
        if (for_writing) {
                if (flock(g->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
                        return blkup_lazy_refuse(r, BLKUP_LAZYINIT_LOCKED, "another program holds its flock");
        } else {
                if (flock(g->fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK)
                        return blkup_lazy_refuse(r, BLKUP_LAZYINIT_LOCKED, "another program holds its flock");
                (void) flock(g->fd, LOCK_UN);
        }
        return 0;
}

/* udev takes its lock on the whole disk, also for a partition. */
static int lock_disk(struct blkup_lazy_guard *g, const char *root, struct blkup_lazy_refusal *r)
{
        struct blkup_sysblocks *t = NULL;
        char path[64];
        int k, fd = g->fd;

        if (blkup_sysblocks_load_one(root, g->dev_major, g->dev_minor, 0, &t, NULL) == 0) {
                const struct blkup_sysblock *b = &t->blocks[0];

                if (b->is_partition) {
                        (void) snprintf(path, sizeof(path), "/dev/block/%" PRIu32 ":%" PRIu32, b->disk_major,
                                        b->disk_minor);
                        g->disk_fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
                        if (g->disk_fd < 0 && strlen(t->blocks[0].disk_name) < 50) {
                                (void) snprintf(path, sizeof(path), "/dev/%s", b->disk_name);
                                g->disk_fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
                        }
                        if (g->disk_fd >= 0)
                                fd = g->disk_fd;
                }
                blkup_sysblocks_free(t);
        }
        k = flock_patiently(fd);
        if (k == -EWOULDBLOCK)
                return blkup_lazy_refuse(r, BLKUP_LAZYINIT_LOCKED,
                                         "another program holds the flock of the disk");
        return k;
}

static int open_file(const char *path, bool for_writing, struct blkup_lazy_guard *g, const struct stat *st,
                     struct blkup_lazy_refusal *r, struct blkup_error *err)
{
        g->is_file = true;
        g->fd = open(path, (for_writing ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (g->fd < 0) {
                if (errno == EROFS || errno == ETXTBSY)
                        return blkup_lazy_refuse(r,
                                                 errno == EROFS ? BLKUP_LAZYINIT_READ_ONLY
                                                                : BLKUP_LAZYINIT_BUSY,
                                                 errno == EROFS
                                                         ? "it stands on a file system that is read-only"
                                                         : "it is in use as a program or swap file");
                return blkup_fail_errno(err, -errno, "cannot be opened");
        }
        g->file_dev = st->st_dev;
        g->file_inode = st->st_ino;
        g->dev_major = major(st->st_dev);
        g->dev_minor = minor(st->st_dev);
        return lock_file(g, for_writing, r, err);
}

static int open_device(const char *path, bool for_writing, const char *root, struct blkup_lazy_guard *g,
                       const struct stat *st, struct blkup_lazy_refusal *r, struct blkup_error *err)
{
        int read_only = 0;

        g->dev_major = major(st->st_rdev);
        g->dev_minor = minor(st->st_rdev);
        g->fd = open(path, (for_writing ? O_RDWR : O_RDONLY) | O_EXCL | O_CLOEXEC | O_NOCTTY);
        if (g->fd < 0) {
                if (errno == EBUSY)
                        return blkup_lazy_refuse(r, BLKUP_LAZYINIT_BUSY,
                                                 "it is mounted, or another driver holds it");
                if (errno == EROFS || (errno == EACCES && geteuid() == 0))
                        return blkup_lazy_refuse(r, BLKUP_LAZYINIT_READ_ONLY, "the device is read-only");
                return blkup_fail_errno(err, -errno, "cannot be opened");
        }
        if (ioctl(g->fd, BLKROGET, &read_only) == 0 && read_only)
                return blkup_lazy_refuse(r, BLKUP_LAZYINIT_READ_ONLY, "the device is read-only");
        if (for_writing) {
                int k = lock_disk(g, root, r);

                if (k != 0)
                        return k < 0 ? blkup_fail_errno(err, k, "lock") : k;
        }
        return 0;
}

int blkup_lazy_guard_open(const char *path, const struct blkup_lazyinit_options *o, bool for_writing,
                          struct blkup_lazy_guard *ret, struct blkup_lazy_refusal *r, struct blkup_error *err)
{
        struct blkup_lazy_guard g = { .fd = -1, .disk_fd = -1 };
        struct stat st, opened;
        char name[256] = "";
        int k;

        if (stat(path, &st) < 0)
                return blkup_fail_errno(err, -errno, "cannot be opened");
        if (S_ISREG(st.st_mode))
                k = open_file(path, for_writing, &g, &st, r, err);
        else if (S_ISBLK(st.st_mode))
                k = open_device(path, for_writing, o->root, &g, &st, r, err);
        else if (S_ISDIR(st.st_mode))
                k = blkup_fail(err, -EISDIR, "is a directory");
        else
                k = blkup_fail(err, -ENOTBLK, "not a block device or regular file");
        /* What was looked at is what was opened. */
        if (k == 0 && (fstat(g.fd, &opened) < 0 || opened.st_dev != st.st_dev || opened.st_ino != st.st_ino))
                k = blkup_fail(err, -ESTALE, "was replaced while it was opened");
        if (k == 0) {
                k = check_loops_of(&g, o->root, r);
                if (k < 0)
                        (void) blkup_fail_errno(err, k, "loop devices");
        }
        if (k == 0 && g.is_file)
                k = check_writers(&g, o->root, r);
        if (k == 0 && o->find_hibernation && !o->ignore_hibernation &&
            o->find_hibernation(o->find_hibernation_to, name, sizeof(name)) == 1)
                k = blkup_lazy_refuse(r, BLKUP_LAZYINIT_HIBERNATION, "%.200s holds a hibernation image",
                                      name);
        if (k != 0) {
                blkup_lazy_guard_done(&g);
                return k;
        }
        *ret = g;
        return 0;
}

void blkup_lazy_guard_done(struct blkup_lazy_guard *g)
{
        g->fd = blkup_close(g->fd);
        g->disk_fd = blkup_close(g->disk_fd);
}

/* ---- what sysfs says of the device below ---- */

static int open_sysfs(const struct blkup_lazy_guard *g, const char *root, const char *rest)
{
        char path[128];

        if (g->dev_major == 0)
                return -ENODEV;
        (void) snprintf(path, sizeof(path), "sys/dev/block/%" PRIu32 ":%" PRIu32 "%s", g->dev_major,
                        g->dev_minor, rest);
        return blkup_host_open(root, path, O_RDONLY);
}

static bool read_number(const struct blkup_lazy_guard *g, const char *root, const char *rest, uint64_t *ret)
{
        BLKUP_CLEANUP_CLOSE int fd = open_sysfs(g, root, rest);
        char text[64];
        ssize_t n;

        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n <= 0)
                return false;
        text[n] = '\0';
        *ret = strtoull(text, NULL, 10);
        return true;
}

bool blkup_lazy_guard_may_be_thin(const struct blkup_lazy_guard *g, const char *root)
{
        uint64_t discard = 0;
        char link[512];
        char path[64];
        const char *name;

        if (g->is_file)
                return false;
        /* A partition's queue is its disk's. */
        if (!read_number(g, root, "/queue/discard_max_bytes", &discard) &&
            !read_number(g, root, "/../queue/discard_max_bytes", &discard))
                return false;
        if (discard == 0)
                return false;
        /* Flash under these names gives nobody else the space that it does not use. */
        (void) snprintf(path, sizeof(path), "sys/dev/block/%" PRIu32 ":%" PRIu32, g->dev_major, g->dev_minor);
        if (blkup_host_readlink(root, path, link, sizeof(link)) < 0)
                return true;
        name = strstr(link, "/block/");
        return !name || (strncmp(name + 7, "nvme", 4) != 0 && strncmp(name + 7, "mmc", 3) != 0 &&
                         strncmp(name + 7, "sd", 2) != 0);
}

bool blkup_lazy_guard_has_foreign_io(const struct blkup_lazy_guard *g, const char *root)
{
        BLKUP_CLEANUP_CLOSE int fd = open_sysfs(g, root, "/stat");
        uint64_t v[9];
        char text[512];
        ssize_t n;

        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n <= 0)
                return false;
        text[n] = '\0';
        /* Documentation/block/stat.rst: the ninth is what is in flight. Ours is none at this moment. */
        return blkup_host_numbers(text, " ", v, 9) == 9 && v[8] > 0;
}
