/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <blkup/probe.h>

#include "base/clock.h"
#include "block/file.h"
#include "cli/patience.h"
#include "cli/tags.h"
#include "host/hostfile.h"
#include "host/sysfs.h"

#define ASK_AGAIN_NS UINT64_C(10000000000) /* who was silent is asked again after so long */
#define MAX_DEPTH 16   /* devices on devices on devices */

struct device {
        uint32_t major, minor;
        char path[256];
        char uuid[64], uuid_sub[64], label[512], part_uuid[64], part_label[256], type[32];
        bool is_file_system;
        uint64_t silent_ns; /* when it did not answer; 0: not known for that */
};

/* One look at all devices. */
struct scan {
        struct blkup_late *late;
        struct device
                *devices; /* with its lock: n that are looked at, and some that are known to be silent */
        size_t n, n_all;
};

struct blkup_cli_tags {
        pthread_mutex_t lock;
        const char *root;
        struct blkup_sysblocks *blocks; /* who stands on whom: read when two devices carry one tag */
        struct scan *scan; /* NULL: not yet */
        bool comes_again;  /* who asks will ask again soon */
        struct blkup_mount_resolver resolver;
};

static void copy_value(char *to, size_t cap, const char *value)
{
        if (value && strlen(value) < cap)
                memcpy(to, value, strlen(value) + 1);
        else
                to[0] = '\0';
}

static void probe_one(struct blkup_probe *p, struct device *d)
{
        enum blkup_verdict verdict;
        const char *usage;

        if (blkup_probe_path(p, d->path, NULL, &verdict, NULL) < 0)
                return;
        copy_value(d->part_uuid, sizeof(d->part_uuid), blkup_probe_lookup(p, "PART_ENTRY_UUID"));
        copy_value(d->part_label, sizeof(d->part_label), blkup_probe_lookup(p, "PART_ENTRY_NAME"));
        if (verdict != BLKUP_VERDICT_FOUND)
                return;
        copy_value(d->uuid, sizeof(d->uuid), blkup_probe_lookup(p, "UUID"));
        copy_value(d->uuid_sub, sizeof(d->uuid_sub), blkup_probe_lookup(p, "UUID_SUB"));
        copy_value(d->label, sizeof(d->label), blkup_probe_lookup(p, "LABEL"));
        copy_value(d->type, sizeof(d->type), blkup_probe_lookup(p, "TYPE"));
        usage = blkup_probe_lookup(p, "USAGE");
        d->is_file_system = usage && strcmp(usage, "filesystem") == 0;
}

/* What is on a device is looked at by a child that can do nothing else; where that is not to be had, here. */
static void into_cage(struct blkup_probe *p)
{
        if (p && blkup_probe_set_cage(p, true) < 0)
                return;
}

static void *begin(void *to)
{
        struct blkup_probe *p = blkup_probe_new();

        (void) to;
        into_cage(p);
        return p;
}

static void end(void *own)
{
        blkup_probe_unref(own);
}

static void *look(void *to, void *own, size_t i)
{
        const struct scan *s = to;
        struct device *d = malloc(sizeof(*d));

        if (d) {
                *d = s->devices[i]; /* nobody changes it before this has come back */
                probe_one(own, d);
        }
        return d;
}

static void take(void *to, size_t i, void *answer)
{
        struct scan *s = to;

        s->devices[i] = *(struct device *) answer;
        free(answer);
}

static void free_scan(void *to)
{
        struct scan *s = to;

        free(s->devices);
        free(s);
}

static void forget(struct blkup_cli_tags *t)
{
        if (t->scan)
                (void) blkup_late_free(t->scan->late); /* and with the last thread the scan */
        t->scan = NULL;
        t->blocks = blkup_sysblocks_free(t->blocks);
}

/* Was d silent in the last look, not long ago? Then a thread still waits for it. */
static uint64_t silent_in(const struct scan *last, const struct device *d)
{
        uint64_t now = blkup_now_ns();

        for (size_t i = 0; last && i < last->n_all; i++) {
                const struct device *o = &last->devices[i];

                if (o->major != d->major || o->minor != d->minor || strcmp(o->path, d->path) != 0)
                        continue;
                if (i < last->n)
                        return blkup_late_is_done(last->late, i) ? 0 : now;
                return now - o->silent_ns < ASK_AGAIN_NS ? o->silent_ns : 0;
        }
        return 0;
}

/* Puts those that are to be looked at first. */
static void sort_out(struct scan *s, const struct scan *last)
{
        size_t n = 0;

        for (size_t i = 0; i < s->n_all; i++) {
                struct device d = s->devices[i];

                d.silent_ns = silent_in(last, &d);
                s->devices[i] = d;
                if (d.silent_ns)
                        continue;
                s->devices[i] = s->devices[n];
                s->devices[n++] = d;
        }
        s->n = n;
}

/* A suspended mapping would hang the read. */
static bool is_suspended(const char *root, uint32_t major, uint32_t minor, const char *name)
{
        struct blkup_sysblocks *t;
        bool suspended;

        if (strncmp(name, "dm-", 3) != 0 ||
            blkup_sysblocks_load_one(root, major, minor, BLKUP_SYSFS_STACK, &t, NULL) < 0)
                return false;
        suspended = t->blocks[0].dm_is_suspended;
        blkup_sysblocks_free(t);
        return suspended;
}

/* All devices with a size, but what may not be opened at all (paths of a multipath NVMe are not listed):
 * /proc/partitions tells them in one read, where sysfs takes some ten calls for each number that is reserved.
 */
static int list_devices(const struct blkup_cli_tags *t, struct scan *s)
{
        BLKUP_CLEANUP_FREE char *text = NULL;
        size_t n, cap = 0;
        char *at, *line;
        bool good;
        int r = blkup_host_read(t->root, "proc/partitions", 4u << 20, &text, &n);

        at = text;
        /* Ends: each turn goes past one line. */
        while (r == 0 && (line = blkup_host_next_line(&at, text + n, 4096, &good))) {
                struct device d = { .path = "" };
                char *column = blkup_host_next_column(&line);

                if (!good || !blkup_host_number32(column, strlen(column), &d.major))
                        continue;
                column = blkup_host_next_column(&line);
                if (!blkup_host_number32(column, strlen(column), &d.minor))
                        continue;
                (void) blkup_host_next_column(&line);
                column = blkup_host_next_column(&line);
                if (!*column || strlen(column) > 200 || strstr(column, "..") ||
                    is_suspended(t->root, d.major, d.minor, column))
                        continue;
                (void) snprintf(d.path, sizeof(d.path), "%.48s/dev/%s", t->root ? t->root : "", column);
                for (char *k = d.path + strlen(d.path) - strlen(column); *k; k++)
                        if (*k == '!')
                                *k = '/';
                r = blkup_host_reserve((void **) &s->devices, &cap, s->n_all, sizeof(d),
                                       BLKUP_SYSFS_MAX_BLOCKS);
                if (r == 0)
                        s->devices[s->n_all++] = d;
        }
        return r;
}

static int start_scan(struct blkup_cli_tags *t)
{
        static const struct blkup_late_ops ops = {
                .begin = begin, .end = end, .look = look, .take = take, .drop = free, .free = free_scan,
        };
        struct scan *s = calloc(1, sizeof(*s));
        struct blkup_late *late = NULL;
        int r = s ? list_devices(t, s) : -ENOMEM;

        if (r == 0 && t->scan)
                blkup_late_lock(t->scan->late);
        if (r == 0)
                sort_out(s, t->scan);
        if (r == 0 && t->scan)
                blkup_late_unlock(t->scan->late);
        forget(t);
        if (r == 0) {
                late = blkup_late_start(s->n, BLKUP_CLI_PROBERS, &ops, s);
                r = late ? 0 : -ENOMEM;
        }
        if (r < 0) {
                if (s)
                        free_scan(s);
                return r;
        }
        s->late = late;
        t->scan = s;
        return 0;
}

static bool carries(const struct device *d, const char *name, const char *value)
{
        /* Identifiers are hexadecimal: case does not matter. Labels are text. */
        if (strcmp(name, "UUID") == 0)
                return *d->uuid && strcasecmp(d->uuid, value) == 0;
        if (strcmp(name, "PARTUUID") == 0)
                return *d->part_uuid && strcasecmp(d->part_uuid, value) == 0;
        if (strcmp(name, "LABEL") == 0)
                return *d->label && strcmp(d->label, value) == 0;
        if (strcmp(name, "PARTLABEL") == 0)
                return *d->part_label && strcmp(d->part_label, value) == 0;
        return false;
}

/* Does `top` stand on `bottom`: a mapping, an array, a multipath device over it? */
static bool stands_on(const struct blkup_sysblocks *t, const struct blkup_sysblock *top,
                      const struct blkup_sysblock *bottom, unsigned depth)
{
        for (size_t i = 0; depth < MAX_DEPTH && i < top->n_slaves; i++) {
                const struct blkup_sysblock *slave;

                if (strcmp(top->slaves[i], bottom->name) == 0)
                        return true;
                slave = blkup_sysblocks_by_name(t, top->slaves[i]);
                if (slave && stands_on(t, slave, bottom, depth + 1))
                        return true;
        }
        return false;
}

static const struct blkup_sysblock *block_of(const struct blkup_cli_tags *t, const struct device *d)
{
        return blkup_sysblocks_by_devno(t->blocks, d->major, d->minor);
}

static bool is_part_of(const struct blkup_sysblock *part, const struct blkup_sysblock *disk)
{
        return part->is_partition && !disk->is_partition && strcmp(part->disk_name, disk->name) == 0;
}

/* Of two devices with one tag: which is meant when they belong together. NULL: they do not. */
static const struct device *choose(const struct blkup_cli_tags *t, const char *name, const struct device *a,
                                   const struct device *b)
{
        const struct blkup_sysblock *x = block_of(t, a), *y = block_of(t, b);

        if (!x || !y)
                return NULL;
        if (stands_on(t->blocks, x, y, 0))
                return a;
        if (stands_on(t->blocks, y, x, 0))
                return b;
        /* A whole disk that shows the same as its partition (a hybrid image): the partition can be mounted
         * while others are. */
        if (is_part_of(x, y))
                return a;
        if (is_part_of(y, x))
                return b;
        /* Members of one btrfs: same UUID, each its own UUID_SUB. Two that share that as well are copies. */
        if (strncmp(name, "PART", 4) != 0 && strcmp(a->type, "btrfs") == 0 && strcmp(b->type, "btrfs") == 0 &&
            strcmp(a->uuid, b->uuid) == 0 && *a->uuid_sub && strcmp(a->uuid_sub, b->uuid_sub) != 0)
                return a;
        return NULL;
}

/* Is d under another device that carries the tag as well? Then only that one counts. */
static bool is_covered(const struct blkup_cli_tags *t, const char *name, const char *value,
                       const struct device *d)
{
        const struct blkup_sysblock *under = block_of(t, d), *over;

        for (size_t i = 0; under && i < t->scan->n; i++) {
                const struct device *other = &t->scan->devices[i];

                over = other != d && carries(other, name, value) ? block_of(t, other) : NULL;
                if (over && stands_on(t->blocks, over, under, 0))
                        return true;
        }
        return false;
}

static int find_by_link(const char *value, struct blkup_mount_device *ret)
{
        char link[512], path[PATH_MAX];
        struct stat st;

        if (strchr(value, '/') ||
            snprintf(link, sizeof(link), "/dev/disk/by-id/%s", value) >= (int) sizeof(link))
                return -EINVAL;
        if (!realpath(link, path) || stat(path, &st) < 0)
                return -errno;
        if (!S_ISBLK(st.st_mode) || strlen(path) >= sizeof(ret->path))
                return -ENOTBLK;
        memcpy(ret->path, path, strlen(path) + 1);
        return 0;
}

static int find_in_table(struct blkup_cli_tags *t, const char *name, const char *value,
                         struct blkup_mount_device *ret)
{
        const struct device *found = NULL;
        const struct scan *s = t->scan;
        size_t n = 0;

        for (size_t i = 0; i < s->n; i++)
                n += carries(&s->devices[i], name, value);
        if (n > 1 && !t->blocks) {
                int r = blkup_sysblocks_load(t->root, BLKUP_SYSFS_LINKS, &t->blocks, NULL);

                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < s->n; i++) {
                const struct device *d = &s->devices[i], *chosen;

                if (!carries(d, name, value) || is_covered(t, name, value, d))
                        continue;
                chosen = found ? choose(t, name, found, d) : d;
                if (!chosen) {
                        copy_value(ret->path, sizeof(ret->path), found->path);
                        copy_value(ret->other_path, sizeof(ret->other_path), d->path);
                        return -ENOTUNIQ;
                }
                found = chosen;
        }
        if (!found)
                return -ENOENT;
        copy_value(ret->path, sizeof(ret->path), found->path);
        copy_value(ret->type, sizeof(ret->type), found->is_file_system ? found->type : "");
        return 0;
}

/* The answer of all devices, or of those that answer in time. */
static int find_in_time(struct blkup_cli_tags *t, const char *name, const char *value,
                        struct blkup_mount_device *ret)
{
        struct scan *s = t->scan;
        bool is_left_out = false;
        int r;

        blkup_late_lock(s->late);
        do
                r = find_in_table(t, name, value, ret);
        while (r != -ENOTUNIQ && blkup_cli_wait_for_devices(s->late, r == 0 || t->comes_again));
        for (size_t i = 0; i < s->n_all && r == -ENOENT && !ret->other_path[0]; i++) {
                if (i < s->n && blkup_late_is_done(s->late, i))
                        continue;
                if (i >= s->n || blkup_late_is_begun(s->late, i))
                        copy_value(ret->other_path, sizeof(ret->other_path), s->devices[i].path);
                else
                        is_left_out = true;
        }
        /* That some were not looked at is nobody's silence: there was no memory for a prober. */
        if (r == -ENOENT && is_left_out && !ret->other_path[0])
                r = -ENOMEM;
        blkup_late_unlock(s->late);
        return r;
}

static int find(void *to, const char *name, const char *value, bool fresh, struct blkup_mount_device *ret,
                struct blkup_error *err)
{
        struct blkup_cli_tags *t = to;
        int r = 0;

        (void) err;
        if (strcmp(name, "ID") == 0)
                return find_by_link(value, ret);
        (void) pthread_mutex_lock(&t->lock);
        if (fresh || !t->scan)
                r = start_scan(t);
        if (r == 0)
                r = find_in_time(t, name, value, ret);
        (void) pthread_mutex_unlock(&t->lock);
        return r;
}

static int identify_block(struct blkup_block *b, uint64_t offset_bytes, uint64_t size_bytes,
                          struct blkup_mount_device *ret, struct blkup_error *err)
{
        struct blkup_probe *p = blkup_probe_new();
        enum blkup_verdict verdict;
        const char *type, *usage;
        int r;

        if (!p)
                return -ENOMEM;
        into_cage(p);
        blkup_probe_set_flags(p, BLKUP_PROBE_NO_TABLES | BLKUP_PROBE_NO_PART_ENTRY);
        blkup_probe_set_area(p, offset_bytes, size_bytes);
        r = blkup_probe_block(p, b, &verdict, err);
        if (r == 0 && verdict == BLKUP_VERDICT_AMBIVALENT)
                r = -ENOTUNIQ;
        if (r == 0 && verdict == BLKUP_VERDICT_UNKNOWN)
                r = -EIO;
        if (r == 0) {
                type = blkup_probe_lookup(p, "TYPE");
                usage = blkup_probe_lookup(p, "USAGE");
                copy_value(ret->type, sizeof(ret->type), type);
                if (!type)
                        r = -ENOENT;
                else if (!usage || strcmp(usage, "filesystem") != 0)
                        r = -EMEDIUMTYPE;
        }
        blkup_probe_unref(p);
        return r;
}

static int identify(void *to, int fd, const char *path, uint64_t offset_bytes, uint64_t size_bytes,
                    struct blkup_mount_device *ret, struct blkup_error *err)
{
        BLKUP_CLEANUP_BLOCK struct blkup_block *b = NULL;
        int copy, r;

        (void) to;
        copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        if (copy < 0)
                return -errno;
        r = blkup_block_open_fd(copy, path, NULL, &b, err);
        if (r < 0) {
                (void) blkup_close(copy);
                return r;
        }
        return identify_block(b, offset_bytes, size_bytes, ret, err);
}

struct blkup_cli_tags *blkup_cli_tags_new(const char *root)
{
        struct blkup_cli_tags *t = calloc(1, sizeof(*t));

        if (!t)
                return NULL;
        t->root = root;
        (void) pthread_mutex_init(&t->lock, NULL);
        t->resolver = (struct blkup_mount_resolver){ .to = t, .find = find, .identify = identify };
        return t;
}

struct blkup_cli_tags *blkup_cli_tags_free(struct blkup_cli_tags *t)
{
        if (!t)
                return NULL;
        forget(t);
        (void) pthread_mutex_destroy(&t->lock);
        free(t);
        return NULL;
}

void blkup_cli_tags_comes_again(struct blkup_cli_tags *t)
{
        t->comes_again = true;
}

const struct blkup_mount_resolver *blkup_cli_tags_resolver(struct blkup_cli_tags *t)
{
        return &t->resolver;
}
