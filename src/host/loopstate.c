/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "host/loopstate.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "host/hostfile.h"
#include "host/hostpool.h"

/* A sysfs attribute is at most a page. */
#define TEXT_CAP 4097u

struct table {
        struct blkup_loops public; /* first: the pointer the caller holds is ours */
        struct blkup_loop *loops;
        size_t cap;
        struct blkup_host_pool pool;
};

static void free_tablep(struct table **t)
{
        if (*t) {
                blkup_host_pool_free(&(*t)->pool);
                free((*t)->loops);
                free(*t);
        }
        *t = NULL;
}

struct blkup_loops *blkup_loops_free(struct blkup_loops *t)
{
        struct table *table = (struct table *) t;

        free_tablep(&table);
        return NULL;
}

static bool read_flag(int dir_fd, const char *name)
{
        uint64_t v;

        return blkup_host_attribute_u64(dir_fd, name, &v) == 0 && v != 0;
}

/* Asks the driver through the device's node. false: that is not possible, and l is as it was. */
static bool ask_driver(const char *root, struct blkup_loop *l, bool *ret_in_use)
{
        BLKUP_CLEANUP_CLOSE int fd = -1;
        struct loop_info64 info;
        struct stat st;
        char path[300];

        (void) snprintf(path, sizeof(path), "dev/%s", l->name);
        fd = blkup_host_open(root, path, O_RDONLY | O_NOFOLLOW);
        if (fd < 0 || fstat(fd, &st) != 0)
                return false;
        /* /dev is not sysfs: what stands there may be anything. */
        if (!S_ISBLK(st.st_mode) || st.st_rdev != makedev(l->dev_major, l->dev_minor))
                return false;
        if (ioctl(fd, LOOP_GET_STATUS64, &info) != 0) {
                *ret_in_use = errno != ENXIO;
                return errno == ENXIO;
        }
        *ret_in_use = true;
        l->identity = BLKUP_LOOP_BY_DRIVER;
        l->file_dev = info.lo_device;
        l->file_inode = info.lo_inode;
        l->offset_bytes = info.lo_offset;
        l->sizelimit_bytes = info.lo_sizelimit;
        l->is_read_only = info.lo_flags & LO_FLAGS_READ_ONLY;
        l->is_autoclear = info.lo_flags & LO_FLAGS_AUTOCLEAR;
        l->is_partscan = info.lo_flags & LO_FLAGS_PARTSCAN;
        l->is_direct_io = info.lo_flags & LO_FLAGS_DIRECT_IO;
        return true;
}

/* Second best: which file stands at the path now. */
static void ask_path(const char *root, struct blkup_loop *l)
{
        BLKUP_CLEANUP_CLOSE int fd = -1;
        struct stat st;

        if (!l->file || l->file[0] != '/')
                return;
        fd = blkup_host_open(root, l->file + 1, O_PATH);
        if (fd < 0 || fstat(fd, &st) != 0)
                return;
        l->identity = BLKUP_LOOP_BY_PATH;
        l->file_dev = st.st_dev;
        l->file_inode = st.st_ino;
}

/* Fills *ret. 0, -ENXIO: not in use, -ENODEV: went away meanwhile, -ENOMEM. */
static int read_loop(struct table *t, const char *root, const char *name, struct blkup_loop *ret)
{
        BLKUP_CLEANUP_CLOSE int dir_fd = -1;
        struct blkup_loop l = { .name = name };
        char path[300], text[TEXT_CAP];
        bool in_use = true;
        uint64_t v;
        int n;

        (void) snprintf(path, sizeof(path), "sys/block/%s", name);
        dir_fd = blkup_host_open(root, path, O_PATH | O_DIRECTORY);
        if (dir_fd < 0)
                return dir_fd == -ENOENT || dir_fd == -ENOTDIR ? -ENODEV : dir_fd;
        n = blkup_host_attribute(dir_fd, "loop/backing_file", text, sizeof(text));
        if (n == -ENOENT)
                return -ENXIO; /* the folder is there only while the device is in use */
        if (n >= 0) {          /* else: a path longer than a page */
                l.file = blkup_host_pool_text(&t->pool, text, (size_t) n);
                if (!l.file)
                        return -ENOMEM;
        }
        n = blkup_host_attribute(dir_fd, "dev", text, sizeof(text));
        if (n < 0 || !blkup_host_devno(text, (size_t) n, &l.dev_major, &l.dev_minor))
                return -ENODEV;
        if (blkup_host_attribute_u64(dir_fd, "size", &v) == 0)
                l.size_sectors = v;
        if (ask_driver(root, &l, &in_use)) {
                if (!in_use)
                        return -ENODEV;
        } else {
                if (blkup_host_attribute_u64(dir_fd, "loop/offset", &v) == 0)
                        l.offset_bytes = v;
                if (blkup_host_attribute_u64(dir_fd, "loop/sizelimit", &v) == 0)
                        l.sizelimit_bytes = v;
                l.is_read_only = read_flag(dir_fd, "ro");
                l.is_autoclear = read_flag(dir_fd, "loop/autoclear");
                l.is_partscan = read_flag(dir_fd, "loop/partscan");
                l.is_direct_io = read_flag(dir_fd, "loop/dio");
                ask_path(root, &l);
        }
        *ret = l;
        return 0;
}

static int load(struct table *t, const char *root)
{
        const char *const *names = NULL;
        size_t n = 0;
        int r;

        r = blkup_host_open(root, "sys/block", O_RDONLY | O_DIRECTORY);
        if (r >= 0)
                r = blkup_host_list(&t->pool, r, BLKUP_LOOPS_MAX, &names, &n);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++) {
                struct blkup_loop l;
                void *array = t->loops;

                if (strncmp(names[i], "loop", 4) != 0)
                        continue;
                r = read_loop(t, root, names[i], &l);
                if (r == -ENODEV)
                        t->public.n_skipped++;
                if (r == -ENODEV || r == -ENXIO)
                        continue;
                if (r == 0)
                        r = blkup_host_reserve(&array, &t->cap, t->public.n, sizeof(l), BLKUP_LOOPS_MAX);
                if (r < 0)
                        return r;
                t->loops = array;
                t->loops[t->public.n++] = l;
        }
        return 0;
}

int blkup_loops_load(const char *root, struct blkup_loops **ret, struct blkup_error *err)
{
        BLKUP_CLEANUP(free_tablep) struct table *t = NULL;
        int r;

        t = calloc(1, sizeof(*t));
        r = t ? load(t, root) : -ENOMEM;
        if (r < 0)
                return blkup_fail_errno(err, r, "%s/sys/block: loop devices", root ? root : "");
        t->public.loops = t->loops;
        *ret = &t->public;
        t = NULL;
        return 0;
}

static size_t index_after(const struct blkup_loops *t, const struct blkup_loop *after)
{
        return t && after ? (size_t) (after - t->loops) + 1 : 0;
}

const struct blkup_loop *blkup_loops_by_file(const struct blkup_loops *t, uint64_t file_dev,
                                             uint64_t file_inode, const struct blkup_loop *after)
{
        for (size_t i = index_after(t, after); t && i < t->n; i++)
                if (t->loops[i].identity != BLKUP_LOOP_UNKNOWN && t->loops[i].file_dev == file_dev &&
                    t->loops[i].file_inode == file_inode)
                        return &t->loops[i];
        return NULL;
}

const struct blkup_loop *blkup_loops_by_path(const struct blkup_loops *t, const char *file,
                                             const struct blkup_loop *after)
{
        for (size_t i = index_after(t, after); t && i < t->n; i++)
                if (t->loops[i].file && strcmp(t->loops[i].file, file) == 0)
                        return &t->loops[i];
        return NULL;
}

const struct blkup_loop *blkup_loops_by_devno(const struct blkup_loops *t, uint32_t dev_major,
                                              uint32_t dev_minor)
{
        for (size_t i = 0; t && i < t->n; i++)
                if (t->loops[i].dev_major == dev_major && t->loops[i].dev_minor == dev_minor)
                        return &t->loops[i];
        return NULL;
}

bool blkup_loop_is_overlapping(const struct blkup_loop *l, uint64_t offset_bytes, uint64_t len_bytes)
{
        /* The later one begins inside the earlier one, or they are apart. Differences, so that nothing wraps.
         */
        if (offset_bytes >= l->offset_bytes)
                return l->sizelimit_bytes == 0 || offset_bytes - l->offset_bytes < l->sizelimit_bytes;
        return len_bytes == 0 || l->offset_bytes - offset_bytes < len_bytes;
}
