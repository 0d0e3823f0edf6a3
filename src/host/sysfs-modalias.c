/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The modaliases of host/sysfs.h. A device with a driver to be found is on a bus, and /sys/bus names these
 * devices; the tree below /sys/devices holds some twenty folders for each of them. Where there are no buses
 * to be read (a kernel without, a tree that somebody made) that tree is gone through.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host/hostfile.h"
#include "host/hostpool.h"
#include "host/sysfs.h"

/* A sysfs file is at most a page; several aliases may share one. */
#define FILE_CAP 4097u
#define MAX_TOLD (4u << 20)

struct table {
        struct blkup_modaliases public; /* first: the pointer the caller holds is ours */
        const char **aliases;           /* in the order of discovery, then sorted */
        size_t cap;
        const char **slots; /* open addressing, a power of two, at most half full: which aliases are known */
        size_t n_slots;
        struct blkup_host_pool pool;
};

static void free_tablep(struct table **t)
{
        if (*t) {
                blkup_host_pool_free(&(*t)->pool);
                free((*t)->aliases);
                free((*t)->slots);
                free(*t);
        }
        *t = NULL;
}

struct blkup_modaliases *blkup_modaliases_free(struct blkup_modaliases *t)
{
        struct table *table = (struct table *) t;

        free_tablep(&table);
        return NULL;
}

static size_t hash_text(const char *s, size_t n)
{
        uint64_t h = UINT64_C(14695981039346656037); /* FNV-1a, 64 bits: RFC 9923 */

        for (size_t i = 0; i < n; i++)
                h = (h ^ (unsigned char) s[i]) * UINT64_C(1099511628211);
        return (size_t) (h ^ h >> 32);
}

/* The slot of s, or the free one where it belongs. Ends: the table is at most half full. */
static const char **find_slot(const char **slots, size_t n_slots, const char *s, size_t n)
{
        size_t at = hash_text(s, n) & (n_slots - 1);

        while (slots[at] && !(strncmp(slots[at], s, n) == 0 && slots[at][n] == '\0'))
                at = (at + 1) & (n_slots - 1);
        return &slots[at];
}

static int grow_slots(struct table *t)
{
        size_t n = t->n_slots ? t->n_slots * 2 : 256;
        const char **grown = calloc(n, sizeof(*grown));

        if (!grown)
                return -ENOMEM;
        for (size_t i = 0; i < t->public.n; i++)
                *find_slot(grown, n, t->aliases[i], strlen(t->aliases[i])) = t->aliases[i];
        free(t->slots);
        t->slots = grown;
        t->n_slots = n;
        return 0;
}

/* Blanks and control characters are in no alias that the kernel makes; anything else is kept as it is. */
static bool is_alias(const char *s, size_t n)
{
        if (n == 0 || n > BLKUP_MODALIAS_MAX_BYTES)
                return false;
        for (size_t i = 0; i < n; i++)
                if ((unsigned char) s[i] <= ' ' || s[i] == 0x7f)
                        return false;
        return true;
}

static int add_alias(struct table *t, const char *s, size_t n)
{
        void *array = t->aliases;
        const char **slot;
        int r;

        if (!is_alias(s, n)) {
                t->public.n_skipped++;
                return 0;
        }
        if (t->public.n_told >= MAX_TOLD)
                return -E2BIG;
        if ((t->public.n + 1) * 2 > t->n_slots) {
                r = grow_slots(t);
                if (r < 0)
                        return r;
        }
        t->public.n_told++;
        slot = find_slot(t->slots, t->n_slots, s, n);
        if (*slot)
                return 0;
        r = blkup_host_reserve(&array, &t->cap, t->public.n, sizeof(*t->aliases), BLKUP_MODALIAS_MAX);
        if (r < 0)
                return r;
        t->aliases = array;
        *slot = blkup_host_pool_text(&t->pool, s, n);
        if (!*slot)
                return -ENOMEM;
        t->aliases[t->public.n++] = *slot;
        return 0;
}

/* Each line of a modalias file is one alias; of a uevent file (key "MODALIAS=") those that begin so. */
static int add_text(struct table *t, const char *text, const char *key)
{
        size_t key_len = strlen(key);

        for (const char *line = text; *line;) { /* each turn moves behind the next newline */
                const char *end = strchrnul(line, '\n');
                int r = 0;

                if (strncmp(line, key, key_len) == 0 && (size_t) (end - line) > key_len)
                        r = add_alias(t, line + key_len, (size_t) (end - line) - key_len);
                if (r < 0)
                        return r;
                line = *end ? end + 1 : end;
        }
        return 0;
}

static int add_file(struct table *t, int dir_fd, const char *name, const char *key)
{
        char text[FILE_CAP];

        if (blkup_host_attribute(dir_fd, name, text, sizeof(text)) >= 0)
                return add_text(t, text, key);
        t->public.n_skipped++; /* ENODEV, EINVAL: buses answer so for devices without one */
        return 0;
}

/* ---- by bus ---- */

/* A folder of links to devices. */
struct list {
        const char *root, *path; /* path: below root */
        DIR *dir;
        bool asks_uevent; /* MDIO tells its aliases only there (drivers/net/phy/mdio_bus.c) */
};

static int read_of_device(const struct list *l, const char *device, const char *name, char *text, size_t cap)
{
        BLKUP_CLEANUP_CLOSE int fd = -1;
        char path[PATH_MAX];

        if (!blkup_host_is_fake(l->root)) {
                if (snprintf(path, sizeof(path), "%s/%s", device, name) >= (int) sizeof(path))
                        return -ENAMETOOLONG;
                return blkup_host_attribute(dirfd(l->dir), path, text, cap);
        }
        if (snprintf(path, sizeof(path), "%s/%s", l->path, device) >= (int) sizeof(path))
                return -ENAMETOOLONG;
        fd = blkup_host_open(l->root, path, O_PATH | O_DIRECTORY);
        return fd < 0 ? fd : blkup_host_attribute(fd, name, text, cap);
}

static bool is_short_of(int error)
{
        return error == -ENOMEM || error == -EMFILE || error == -ENFILE;
}

static int add_device(struct table *t, const struct list *l, const char *device)
{
        char text[FILE_CAP];
        int n = read_of_device(l, device, "modalias", text, sizeof(text));
        const char *key = "";

        if (n == -ENOENT && l->asks_uevent) {
                n = read_of_device(l, device, "uevent", text, sizeof(text));
                key = "MODALIAS=";
        }
        if (n >= 0)
                return add_text(t, text, key);
        if (is_short_of(n))
                return n;
        t->public.n_skipped += n != -ENOENT && n != -ENOTDIR;
        return 0;
}

/* Takes fd, which may be an error: a list that is not there has nothing in it. */
static int add_list(struct table *t, const char *root, const char *path, int fd, bool asks_uevent)
{
        struct list l = { .root = root, .path = path, .asks_uevent = asks_uevent };
        const struct dirent *e;
        int r = 0;

        if (fd < 0)
                return is_short_of(fd) ? fd : 0;
        l.dir = fdopendir(fd);
        if (!l.dir) {
                (void) blkup_close(fd);
                return -ENOMEM;
        }
        /* Ends: with the folder, which is not written to meanwhile but by devices that come. */
        while (r == 0 && (e = readdir(l.dir))) {
                if (e->d_name[0] == '.')
                        continue;
                r = ++t->public.n_folders > BLKUP_MODALIAS_MAX_FOLDERS ? -E2BIG
                                                                       : add_device(t, &l, e->d_name);
        }
        (void) closedir(l.dir);
        return r;
}

/* Buses whose devices have no modalias, in neither place: two more opens for each of them would be for
 * nothing. A SCSI disk's host and target are two, and a server has thousands of blocks of memory. */
static bool has_no_uevent_alias(const char *bus)
{
        static const char *const none[] = { "clockevents", "clocksource",  "container",    "cpu",
                                            "edac",        "event_source", "machinecheck", "memory",
                                            "node",        "scsi",         "workqueue" };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(none); i++)
                if (strcmp(bus, none[i]) == 0)
                        return true;
        return false;
}

/* 1: there are no buses here. */
static int load_by_bus(struct table *t, const char *root)
{
        /* Devices of no bus that have an alias all the same: drivers/input/input.c,
         * drivers/firmware/dmi-id.c; and the processors', which is told once for all (drivers/base/cpu.c). */
        static const char *const others[] = { "sys/class/input", "sys/class/dmi", "sys/devices/system" };
        const struct dirent *e;
        bool any = false;
        DIR *buses;
        int fd, r = 0;

        fd = blkup_host_open(root, "sys/bus", O_RDONLY | O_DIRECTORY);
        if (fd < 0)
                return is_short_of(fd) ? fd : 1;
        buses = fdopendir(fd);
        if (!buses) {
                (void) blkup_close(fd);
                return -ENOMEM;
        }
        /* Ends: with the folder. */
        while (r == 0 && (e = readdir(buses))) {
                char path[PATH_MAX];

                if (e->d_name[0] == '.' ||
                    snprintf(path, sizeof(path), "sys/bus/%s/devices", e->d_name) >= (int) sizeof(path))
                        continue;
                fd = blkup_host_open(root, path, O_RDONLY | O_DIRECTORY);
                any = any || fd >= 0;
                r = add_list(t, root, path, fd, !has_no_uevent_alias(e->d_name));
        }
        (void) closedir(buses);
        for (size_t i = 0; any && r == 0 && i < BLKUP_ARRAY_SIZE(others); i++)
                r = add_list(t, root, others[i], blkup_host_open(root, others[i], O_RDONLY | O_DIRECTORY),
                             false);
        return r < 0 ? r : !any;
}

/* ---- by tree ---- */

struct level {
        DIR *dir;
        bool has_modalias, has_uevent;
};

static bool is_folder(int dir_fd, const struct dirent *e)
{
        struct stat st;

        if (e->d_type != DT_UNKNOWN)
                return e->d_type == DT_DIR;
        return fstatat(dir_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static DIR *open_folder(int above_fd, const char *name, int *ret_errno)
{
        int fd = openat(above_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);

        *ret_errno = dir ? 0 : errno;
        if (!dir)
                (void) blkup_close(fd);
        return dir;
}

/* One entry of the deepest folder. Returns 1 when it is a folder to go down into, 0, or a negative errno. */
static int see_entry(struct table *t, struct level *l, const struct dirent *e)
{
        int fd = dirfd(l->dir);

        if (strcmp(e->d_name, "modalias") == 0) {
                l->has_modalias = true;
                return add_file(t, fd, e->d_name, "");
        }
        if (strcmp(e->d_name, "uevent") == 0) {
                l->has_uevent = true;
                return 0;
        }
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                return 0;
        /* Each device has a folder of this name for its power management, and no other device is in there
         * (drivers/base/power/sysfs.c). They were 401 of the 958 folders of a small virtual machine. */
        if (strcmp(e->d_name, "power") == 0)
                return 0;
        return is_folder(fd, e);
}

/* Takes `top`. levels has room for BLKUP_MODALIAS_MAX_DEPTH. */
static int walk(struct table *t, DIR *top, struct level *levels)
{
        size_t depth = 1;
        int r = 0;

        levels[0] = (struct level){ .dir = top };
        t->public.n_folders = 1;
        /* Ends: each turn takes an entry of a folder or leaves one, and at most MAX_FOLDERS are entered. */
        while (depth > 0 && r >= 0) {
                struct level *l = &levels[depth - 1];
                const struct dirent *e =
                        readdir(l->dir); /* an error ends this folder, whose device went away */
                int why;

                if (!e) {
                        if (l->has_uevent && !l->has_modalias)
                                r = add_file(t, dirfd(l->dir), "uevent", "MODALIAS=");
                        (void) closedir(l->dir);
                        depth--;
                        continue;
                }
                r = see_entry(t, l, e);
                if (r <= 0)
                        continue;
                if (t->public.n_folders >= BLKUP_MODALIAS_MAX_FOLDERS) {
                        r = -E2BIG;
                        break;
                }
                levels[depth] = (struct level){ 0 };
                if (depth < BLKUP_MODALIAS_MAX_DEPTH)
                        levels[depth].dir = open_folder(dirfd(l->dir), e->d_name, &why);
                else
                        why = ELOOP;
                if (levels[depth].dir) {
                        depth++;
                        t->public.n_folders++;
                } else if (why == ENOMEM || why == EMFILE || why == ENFILE)
                        r = -why;
                else
                        t->public.n_skipped++;
        }
        while (depth > 0)
                (void) closedir(levels[--depth].dir);
        return r < 0 ? r : 0;
}

static int load_by_tree(struct table *t, const char *root)
{
        BLKUP_CLEANUP_FREE struct level *levels = NULL;
        DIR *top;
        int fd, r;

        levels = calloc(BLKUP_MODALIAS_MAX_DEPTH + 1, sizeof(*levels));
        if (!levels)
                return -ENOMEM;
        fd = blkup_host_open(root, "sys/devices", O_RDONLY | O_DIRECTORY);
        if (fd < 0)
                return fd;
        top = fdopendir(fd);
        if (!top) {
                r = -errno;
                (void) blkup_close(fd);
                return r;
        }
        return walk(t, top, levels);
}

static int compare_aliases(const void *pa, const void *pb)
{
        return strcmp(*(const char *const *) pa, *(const char *const *) pb);
}

static int load(struct table *t, const char *root)
{
        int r = load_by_bus(t, root);

        if (r == 1)
                r = load_by_tree(t, root);
        if (r == 0 && t->public.n > 0)
                qsort(t->aliases, t->public.n, sizeof(*t->aliases), compare_aliases);
        return r;
}

int blkup_modaliases_load(const char *root, struct blkup_modaliases **ret, struct blkup_error *err)
{
        BLKUP_CLEANUP(free_tablep) struct table *t = NULL;
        int r;

        t = calloc(1, sizeof(*t));
        r = t ? load(t, root) : -ENOMEM;
        if (r < 0)
                return blkup_fail_errno(err, r, "%s/sys/devices", root ? root : "");
        t->public.aliases = t->aliases;
        *ret = &t->public;
        t = NULL;
        return 0;
}
