/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "host/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/hostfile.h"
#include "host/hostpool.h"

/* The kernel's buffer for it has 2,048 bytes (UEVENT_BUFFER_SIZE). */
#define UEVENT_CAP 4097u
/* An attribute is at most a page. */
#define TEXT_CAP   4097u

struct table {
        struct blkup_sysblocks public; /* first: the pointer the caller holds is ours */
        struct blkup_sysblock *blocks;
        size_t cap;
        struct blkup_host_pool pool;
};

static void free_tablep(struct table **t)
{
        if (*t) {
                blkup_host_pool_free(&(*t)->pool);
                free((*t)->blocks);
                free(*t);
        }
        *t = NULL;
}

struct blkup_sysblocks *blkup_sysblocks_free(struct blkup_sysblocks *t)
{
        struct table *table = (struct table *) t;

        free_tablep(&table);
        return NULL;
}

/* The value of KEY in the lines KEY=VALUE of a uevent file; NULL: not there. */
static const char *find_key(const char *uevent, const char *key, size_t *ret_len)
{
        size_t key_len = strlen(key);

        for (const char *line = uevent; *line;) { /* each turn moves behind the next newline */
                const char *end = strchrnul(line, '\n');

                if (strncmp(line, key, key_len) == 0 && line[key_len] == '=') {
                        *ret_len = (size_t) (end - line) - key_len - 1;
                        return line + key_len + 1;
                }
                line = *end ? end + 1 : end;
        }
        return NULL;
}

static bool find_number32(const char *uevent, const char *key, uint32_t *ret)
{
        size_t n;
        const char *value = find_key(uevent, key, &n);

        return value && blkup_host_number32(value, n, ret);
}

/* An attribute that may be missing: *ret is then as it was. Only memory is a reason to fail. */
static int read_text(struct table *t, int dir_fd, const char *name, const char **ret)
{
        char text[TEXT_CAP];
        int n = blkup_host_attribute(dir_fd, name, text, sizeof(text));
        const char *copy;

        if (n < 0)
                return 0;
        copy = blkup_host_pool_text(&t->pool, text, (size_t) n);
        if (!copy)
                return -ENOMEM;
        *ret = copy;
        return 0;
}

static uint32_t read_u32(int dir_fd, const char *name)
{
        uint64_t v;

        return blkup_host_attribute_u64(dir_fd, name, &v) == 0 && v <= UINT32_MAX ? (uint32_t) v : 0;
}

static bool read_flag(int dir_fd, const char *name)
{
        uint64_t v;

        return blkup_host_attribute_u64(dir_fd, name, &v) == 0 && v != 0;
}

static void read_topology(int dir_fd, struct blkup_sysblock *b)
{
        static const char *const names[2][6] = {
                { "queue/logical_block_size", "queue/physical_block_size", "queue/minimum_io_size",
                  "queue/optimal_io_size", "queue/dax", "queue/rotational" },
                { "../queue/logical_block_size", "../queue/physical_block_size", "../queue/minimum_io_size",
                  "../queue/optimal_io_size", "../queue/dax", "../queue/rotational" },
        };
        const char *const *name = names[b->is_partition];
        int64_t alignment;

        b->logical_block_bytes = read_u32(dir_fd, name[0]);
        b->physical_block_bytes = read_u32(dir_fd, name[1]);
        b->min_io_bytes = read_u32(dir_fd, name[2]);
        b->optimal_io_bytes = read_u32(dir_fd, name[3]);
        b->is_dax = read_flag(dir_fd, name[4]);
        b->is_rotational = read_flag(dir_fd, name[5]);
        if (blkup_host_attribute_i64(dir_fd, "alignment_offset", &alignment) == 0)
                b->alignment_offset_bytes = alignment;
}

static int read_links(struct table *t, int dir_fd, const char *name, const char *const **ret, size_t *ret_n)
{
        int fd, r;

        fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return errno == EMFILE || errno == ENFILE ? -errno : 0;
        r = blkup_host_list(&t->pool, fd, BLKUP_SYSFS_MAX_LINKS, ret, ret_n);
        return r == -ENOMEM || r == -E2BIG ? r : 0; /* else: the device is going away */
}

/* The kernel's names say which kind a device is: no open for the others. Sources: alloc_dev() in
 * drivers/md/dm.c, md_alloc() in drivers/md/md.c, loop_add() in drivers/block/loop.c. */
static bool may_be(const struct blkup_sysblock *b, const char *prefix)
{
        return !b->name || strncmp(b->name, prefix, strlen(prefix)) == 0;
}

/* What a device stands on is listed by drivers whose disks have no device of their own (device-mapper, md,
 * bcache: bd_link_disk_holder() in block/holder.c); device_add_disk() puts these in devices/virtual. */
static bool may_have_slaves(const struct blkup_sysblock *b)
{
        return !b->is_partition && (!b->sys_path || strncmp(b->sys_path, "devices/virtual/", 16) == 0);
}

static int read_stack(struct table *t, int dir_fd, struct blkup_sysblock *b)
{
        uint64_t v;
        int r;

        /* Partitions are of none. */
        if (may_be(b, "dm-")) {
                r = read_text(t, dir_fd, "dm/name", &b->dm_name);
                if (r < 0)
                        return r;
        }
        if (b->dm_name) {
                b->dm_is_suspended = read_flag(dir_fd, "dm/suspended");
                return read_text(t, dir_fd, "dm/uuid", &b->dm_uuid);
        }
        if (may_be(b, "md")) {
                r = read_text(t, dir_fd, "md/array_state", &b->md_array_state);
                if (r < 0)
                        return r;
        }
        if (b->md_array_state) {
                char disks[64];
                int n = blkup_host_attribute(dir_fd, "md/raid_disks", disks, sizeof(disks));

                /* "4", or "4 (3)" while the array is being reshaped from 3 */
                if (n > 0 && !blkup_host_number32(disks, strcspn(disks, " "), &b->md_disks))
                        b->md_disks = 0;
                b->md_missing = read_u32(dir_fd, "md/degraded");
                r = read_text(t, dir_fd, "md/level", &b->md_level);
                return r < 0 ? r : read_text(t, dir_fd, "md/metadata_version", &b->md_metadata);
        }
        if (!may_be(b, "loop"))
                return 0;
        r = read_text(t, dir_fd, "loop/backing_file", &b->loop_file);
        if (r < 0 || !b->loop_file)
                return r;
        if (blkup_host_attribute_u64(dir_fd, "loop/offset", &v) == 0)
                b->loop_offset_bytes = v;
        if (blkup_host_attribute_u64(dir_fd, "loop/sizelimit", &v) == 0)
                b->loop_sizelimit_bytes = v;
        b->loop_is_autoclear = read_flag(dir_fd, "loop/autoclear");
        return 0;
}

/* From the link to a device's folder: where that is, and for a partition the folder above, which is its disk.
 */
static int read_place(struct table *t, const char *link, struct blkup_sysblock *b)
{
        const char *path = link, *name, *disk;

        while (strncmp(path, "../", 3) == 0)
                path += 3;
        name = strrchr(path, '/');
        if (path == link || !name || name == path)
                return 0; /* no link that sysfs makes */
        b->sys_path = blkup_host_pool_text(&t->pool, path, strlen(path));
        if (!b->sys_path)
                return -ENOMEM;
        if (!b->name) {
                b->name = blkup_host_pool_text(&t->pool, name + 1, strlen(name + 1));
                if (!b->name)
                        return -ENOMEM;
        }
        if (b->is_partition) {
                disk = memrchr(path, '/', (size_t) (name - path));
                disk = disk ? disk + 1 : path;
                b->disk_name = blkup_host_pool_text(&t->pool, disk, (size_t) (name - disk));
                if (!b->disk_name)
                        return -ENOMEM;
        }
        return 0;
}

/* Names: the kernel writes "!" where the node has "/". */
static const char *swap_slashes(struct table *t, const char *name, size_t n, char from, char to)
{
        char *copy = blkup_host_pool_text(&t->pool, name, n);

        for (char *c = copy; c && *c; c++)
                if (*c == from)
                        *c = to;
        return copy;
}

static int read_names(struct table *t, const char *uevent, struct blkup_sysblock *b)
{
        size_t n;
        const char *value;

        value = find_key(uevent, "DEVNAME", &n);
        if (!b->name) {
                if (!value || n == 0)
                        return -ENODEV;
                b->name = swap_slashes(t, value, n, '/', '!');
                if (!b->name)
                        return -ENOMEM;
        }
        b->dev_name = value && n > 0 ? blkup_host_pool_text(&t->pool, value, n)
                                     : swap_slashes(t, b->name, strlen(b->name), '!', '/');
        if (!b->dev_name)
                return -ENOMEM;
        value = find_key(uevent, "PARTNAME", &n);
        if (value) {
                b->part_name = blkup_host_pool_text(&t->pool, value, n);
                if (!b->part_name)
                        return -ENOMEM;
        }
        return 0;
}

static int read_disk(struct table *t, int dir_fd, struct blkup_sysblock *b)
{
        char dev[32], uevent[UEVENT_CAP];
        const char *value;
        size_t len;
        int n;

        if (!b->is_partition) {
                b->disk_name = b->name;
                b->disk_major = b->dev_major;
                b->disk_minor = b->dev_minor;
                return 0;
        }
        n = blkup_host_attribute(dir_fd, "../dev", dev, sizeof(dev));
        if (n < 0 || !blkup_host_devno(dev, (size_t) n, &b->disk_major, &b->disk_minor))
                return -ENODEV;
        if (b->disk_name)
                return 0;
        /* The partition was not reached by a link: ask the disk itself. */
        n = blkup_host_attribute(dir_fd, "../uevent", uevent, sizeof(uevent));
        value = n < 0 ? NULL : find_key(uevent, "DEVNAME", &len);
        if (!value || len == 0)
                return -ENODEV;
        b->disk_name = swap_slashes(t, value, len, '/', '!');
        return b->disk_name ? 0 : -ENOMEM;
}

static int read_devno(int dir_fd, const char *uevent, struct blkup_sysblock *b)
{
        char dev[32];
        int n;

        b->has_devno = find_number32(uevent, "MAJOR", &b->dev_major) &&
                       find_number32(uevent, "MINOR", &b->dev_minor);
        if (!b->has_devno) {
                n = blkup_host_attribute(dir_fd, "dev", dev, sizeof(dev));
                b->has_devno = n > 0 && blkup_host_devno(dev, (size_t) n, &b->dev_major, &b->dev_minor);
        }
        if (!b->has_devno) {
                b->dev_major = b->dev_minor = 0;
                b->is_hidden = read_flag(dir_fd, "hidden");
                return b->is_hidden ? 0 : -ENODEV;
        }
        return 0;
}

/* Of descriptors: what cannot be opened for that is not gone. */
static bool is_shortage(int error)
{
        return error == -EMFILE || error == -ENFILE;
}

/* Everything of the device whose folder is dir_fd. name: may be NULL, then the link or the uevent tells it;
 * link: may be "". -ENODEV: it is going away, or is no block device. */
static int read_block(struct table *t, int dir_fd, const char *name, const char *link, unsigned want,
                      struct blkup_sysblock *ret)
{
        struct blkup_sysblock b = { .name = name };
        char uevent[UEVENT_CAP];
        const char *devtype, *diskseq;
        uint64_t v;
        size_t n;
        int r;

        r = blkup_host_attribute(dir_fd, "uevent", uevent, sizeof(uevent));
        /* The first of its files: where there is a descriptor for it there is one for each other. */
        if (is_shortage(r))
                return r;
        if (r < 0)
                uevent[0] = '\0';
        if (blkup_host_attribute_u64(dir_fd, "size", &b.size_sectors) < 0)
                return -ENODEV;
        r = read_devno(dir_fd, uevent, &b);
        if (r < 0)
                return r;
        devtype = find_key(uevent, "DEVTYPE", &n);
        if ((!devtype || n != 4 || memcmp(devtype, "disk", 4) != 0) &&
            blkup_host_attribute_u64(dir_fd, "partition", &v) == 0) {
                if (v == 0 || v > UINT32_MAX ||
                    blkup_host_attribute_u64(dir_fd, "start", &b.start_sectors) < 0)
                        return -ENODEV;
                b.is_partition = true;
                b.partition = (uint32_t) v;
        }
        b.is_read_only = read_flag(dir_fd, "ro");
        b.is_removable = read_flag(dir_fd, b.is_partition ? "../removable" : "removable");
        r = read_place(t, link, &b);
        if (r == 0)
                r = read_names(t, uevent, &b);
        if (r == 0)
                r = read_disk(t, dir_fd, &b);
        if (r < 0)
                return r;
        /* DISKSEQ is in the uevent of the disk and, since 5.15, of its partitions. */
        diskseq = find_key(uevent, "DISKSEQ", &n);
        if (!diskseq || !blkup_host_number(diskseq, n, &b.diskseq))
                b.diskseq = 0;
        if (want & BLKUP_SYSFS_TOPOLOGY)
                read_topology(dir_fd, &b);
        if (want & BLKUP_SYSFS_LINKS) {
                r = read_links(t, dir_fd, "holders", &b.holders, &b.n_holders);
                if (r == 0 && may_have_slaves(&b))
                        r = read_links(t, dir_fd, "slaves", &b.slaves, &b.n_slaves);
        }
        if (r == 0 && (want & BLKUP_SYSFS_STACK) && !b.is_partition)
                r = read_stack(t, dir_fd, &b);
        if (r < 0)
                return r;
        *ret = b;
        return 0;
}

/* Reads the device ROOT/path into the table. 0 also when it is left out. */
static int add_block(struct table *t, const char *root, const char *path, const char *name, unsigned want)
{
        BLKUP_CLEANUP_CLOSE int dir_fd = -1;
        char link[PATH_MAX];
        struct blkup_sysblock b;
        void *array = t->blocks;
        int r;

        dir_fd = blkup_host_open(root, path, O_PATH | O_DIRECTORY);
        if (dir_fd < 0) {
                r = dir_fd;
                goto skip;
        }
        if (blkup_host_readlink(root, path, link, sizeof(link)) < 0)
                link[0] = '\0';
        r = read_block(t, dir_fd, name, link, want, &b);
        if (r < 0)
                goto skip;
        r = blkup_host_reserve(&array, &t->cap, t->public.n, sizeof(b), BLKUP_SYSFS_MAX_BLOCKS);
        if (r < 0)
                return r;
        t->blocks = array;
        t->blocks[t->public.n++] = b;
        return 0;
skip:
        if (r == -ENOMEM || r == -E2BIG || is_shortage(r))
                return r;
        t->public.n_skipped++;
        return 0;
}

static int compare_blocks(const void *pa, const void *pb)
{
        const struct blkup_sysblock *a = pa, *b = pb;
        int r = strverscmp(a->disk_name, b->disk_name);

        if (r == 0 && a->is_partition != b->is_partition)
                return a->is_partition ? 1 : -1;
        if (r == 0 && a->partition != b->partition)
                return a->partition < b->partition ? -1 : 1;
        return r ? r : strcmp(a->name, b->name);
}

static int list_folder(struct table *t, const char *root, const char *path, const char *const **ret,
                       size_t *ret_n)
{
        int fd = blkup_host_open(root, path, O_RDONLY | O_DIRECTORY);

        return fd < 0 ? fd : blkup_host_list(&t->pool, fd, BLKUP_SYSFS_MAX_BLOCKS, ret, ret_n);
}

/* ROOT/sys/block lists whole disks only; their partitions are folders in theirs. */
static int add_partitions(struct table *t, const char *root, const char *disk, unsigned want)
{
        const char *const *names;
        char path[PATH_MAX];
        size_t n = 0;
        int r;

        (void) snprintf(path, sizeof(path), "sys/block/%s", disk);
        r = list_folder(t, root, path, &names, &n);
        if (r < 0)
                return r == -ENOMEM || r == -E2BIG ? r : 0;
        for (size_t i = 0; i < n; i++) {
                BLKUP_CLEANUP_CLOSE int fd = -1;

                (void) snprintf(path, sizeof(path), "sys/block/%s/%s/partition", disk, names[i]);
                fd = blkup_host_open(root, path, O_PATH | O_NOFOLLOW);
                if (fd < 0)
                        continue;
                (void) snprintf(path, sizeof(path), "sys/block/%s/%s", disk, names[i]);
                r = add_block(t, root, path, names[i], want);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int load_all(struct table *t, const char *root, unsigned want)
{
        const char *const *names = NULL;
        bool with_partitions = true;
        size_t n = 0;
        int r;

        r = list_folder(t, root, "sys/class/block", &names, &n);
        if (r == -ENOENT) {
                with_partitions = false;
                r = list_folder(t, root, "sys/block", &names, &n);
        }
        for (size_t i = 0; i < n && r == 0; i++) {
                char path[PATH_MAX];

                (void) snprintf(path, sizeof(path), "sys/%s/%s", with_partitions ? "class/block" : "block",
                                names[i]);
                r = add_block(t, root, path, names[i], want);
                if (r == 0 && !with_partitions)
                        r = add_partitions(t, root, names[i], want);
        }
        if (r == 0 && t->public.n > 0)
                qsort(t->blocks, t->public.n, sizeof(*t->blocks), compare_blocks);
        return r;
}

int blkup_sysblocks_load(const char *root, unsigned want, struct blkup_sysblocks **ret,
                         struct blkup_error *err)
{
        BLKUP_CLEANUP(free_tablep) struct table *t = NULL;
        int r;

        t = calloc(1, sizeof(*t));
        r = t ? load_all(t, root, want) : -ENOMEM;
        if (r < 0)
                return r == -ENOENT ? blkup_fail(err, r, "there is no %s/sys/class/block: is /sys mounted?",
                                                 root ? root : "")
                                    : blkup_fail_errno(err, r, "%s/sys/class/block", root ? root : "");
        t->public.blocks = t->blocks;
        *ret = &t->public;
        t = NULL;
        return 0;
}

static void path_of_devno(char *to, size_t cap, uint32_t dev_major, uint32_t dev_minor)
{
        (void) snprintf(to, cap, "sys/dev/block/%" PRIu32 ":%" PRIu32, dev_major, dev_minor);
}

static int add_named(struct table *t, const char *root, const char *const *names, size_t n, unsigned want)
{
        int r = 0;

        for (size_t i = 0; i < n && r == 0; i++) {
                char path[PATH_MAX];

                t->public.blocks = t->blocks; /* it may have moved */
                if (!blkup_sysblocks_by_name(&t->public, names[i]) &&
                    snprintf(path, sizeof(path), "sys/class/block/%s", names[i]) < (int) sizeof(path))
                        r = add_block(t, root, path, names[i], want);
        }
        return r;
}

static int add_neighbours(struct table *t, const char *root, unsigned want)
{
        size_t n = t->public.n;
        int r = 0;

        for (size_t i = 0; i < n && r == 0; i++) {
                const struct blkup_sysblock b = t->blocks[i];

                r = add_named(t, root, b.holders, b.n_holders, want);
                if (r == 0)
                        r = add_named(t, root, b.slaves, b.n_slaves, want);
        }
        return r;
}

static int load_one(struct table *t, const char *root, uint32_t dev_major, uint32_t dev_minor, unsigned want)
{
        char path[64];
        int r;

        path_of_devno(path, sizeof(path), dev_major, dev_minor);
        r = add_block(t, root, path, NULL, want);
        if (r < 0)
                return r;
        /* Another number than the link says: the device went away and its folder is another's now. */
        if (t->public.n == 0 || t->blocks[0].dev_major != dev_major || t->blocks[0].dev_minor != dev_minor)
                return -ENODEV;
        if (t->blocks[0].is_partition) {
                path_of_devno(path, sizeof(path), t->blocks[0].disk_major, t->blocks[0].disk_minor);
                r = add_block(t, root, path, NULL, want);
        }
        return r == 0 && (want & BLKUP_SYSFS_AROUND) ? add_neighbours(t, root, want) : r;
}

int blkup_sysblocks_load_one(const char *root, uint32_t dev_major, uint32_t dev_minor, unsigned want,
                             struct blkup_sysblocks **ret, struct blkup_error *err)
{
        BLKUP_CLEANUP(free_tablep) struct table *t = NULL;
        int r;

        t = calloc(1, sizeof(*t));
        r = t ? load_one(t, root, dev_major, dev_minor, want) : -ENOMEM;
        if (r < 0)
                return blkup_fail_errno(err, r, "%s/sys/dev/block/%" PRIu32 ":%" PRIu32, root ? root : "",
                                        dev_major, dev_minor);
        t->public.blocks = t->blocks;
        *ret = &t->public;
        t = NULL;
        return 0;
}

const struct blkup_sysblock *blkup_sysblocks_by_devno(const struct blkup_sysblocks *t, uint32_t dev_major,
                                                      uint32_t dev_minor)
{
        for (size_t i = 0; t && i < t->n; i++)
                if (t->blocks[i].has_devno && t->blocks[i].dev_major == dev_major &&
                    t->blocks[i].dev_minor == dev_minor)
                        return &t->blocks[i];
        return NULL;
}

const struct blkup_sysblock *blkup_sysblocks_by_name(const struct blkup_sysblocks *t, const char *name)
{
        for (size_t i = 0; t && i < t->n; i++)
                if (strcmp(t->blocks[i].name, name) == 0)
                        return &t->blocks[i];
        return NULL;
}

const struct blkup_sysblock *blkup_sysblocks_disk_of(const struct blkup_sysblocks *t,
                                                     const struct blkup_sysblock *b)
{
        if (!b->is_partition)
                return b;
        return blkup_sysblocks_by_devno(t, b->disk_major, b->disk_minor);
}

int blkup_sysfs_whole_disk(const char *root, uint32_t dev_major, uint32_t dev_minor, uint32_t *ret_major,
                           uint32_t *ret_minor, uint32_t *ret_partition)
{
        BLKUP_CLEANUP_CLOSE int dir_fd = -1;
        uint32_t disk_major, disk_minor;
        char text[64];
        uint64_t number;
        int r;

        path_of_devno(text, sizeof(text), dev_major, dev_minor);
        dir_fd = blkup_host_open(root, text, O_PATH | O_DIRECTORY);
        if (dir_fd < 0)
                return dir_fd == -ENOENT ? -ENODEV : dir_fd;
        r = blkup_host_attribute_u64(dir_fd, "partition", &number);
        if (r == -ENOENT) {
                *ret_major = dev_major;
                *ret_minor = dev_minor;
                *ret_partition = 0;
                return 0;
        }
        if (r < 0 || number == 0 || number > UINT32_MAX)
                return -ENODEV;
        r = blkup_host_attribute(dir_fd, "../dev", text, sizeof(text));
        if (r < 0 || !blkup_host_devno(text, (size_t) r, &disk_major, &disk_minor))
                return -ENODEV;
        *ret_major = disk_major;
        *ret_minor = disk_minor;
        *ret_partition = (uint32_t) number;
        return 0;
}

bool blkup_sysfs_has_partitions(const char *root, uint32_t dev_major, uint32_t dev_minor)
{
        char path[64], name[300];
        bool has = false;
        struct dirent *e;
        DIR *d;
        int fd;

        path_of_devno(path, sizeof(path), dev_major, dev_minor);
        fd = blkup_host_open(root, path, O_RDONLY | O_DIRECTORY);
        d = fd < 0 ? NULL : fdopendir(fd);
        if (!d) {
                if (fd >= 0)
                        (void) blkup_close(fd);
                return false;
        }
        /* Ends: with the folder. */
        while (!has && (e = readdir(d)))
                has = e->d_name[0] != '.' &&
                      snprintf(name, sizeof(name), "%s/partition", e->d_name) < (int) sizeof(name) &&
                      faccessat(dirfd(d), name, F_OK, 0) == 0;
        (void) closedir(d);
        return has;
}
