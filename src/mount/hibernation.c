/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Is there a hibernation image on a device that is attached? A system that is resumed from it believes its
 * file systems to be as they were; writing to one of them in between destroys it.
 *
 * Source: the kernel's kernel/power/swap.c (the signature takes the place of swap's magic, ten bytes before
 * the end of the first page); those of other writers: ../shared/probe/signatures.tsv.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "host/hostfile.h"
#include "mount/mounter.h"

#define MAX_PARTITIONS_BYTES (4u << 20)
#define MAX_DEVICES 65536u
#define MAX_THREADS 31

static const struct {
        const char *bytes;
        size_t len;
} magics[] = {
        { "S1SUSPEND", 9 }, { "S2SUSPEND", 9 }, { "ULSUSPEND", 9 }, { "LINHIB0001", 10 },
};

static bool is_image_at(int fd, uint64_t page)
{
        uint8_t buf[10];
        struct blkup_bytes view = { .data = buf, .at = page - sizeof(buf), .len = sizeof(buf) };

        if (pread(fd, buf, sizeof(buf), (off_t) (page - sizeof(buf))) != (ssize_t) sizeof(buf))
                return false;
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(magics); i++)
                if (blkup_equal_at(view, 0, magics[i].bytes, magics[i].len))
                        return true;
        return false;
}

static bool has_image(const char *root, const char *name, char *ret, size_t cap)
{
        BLKUP_CLEANUP_CLOSE int fd = -1;
        long page = sysconf(_SC_PAGESIZE);
        char path[128];

        if (snprintf(path, sizeof(path), "dev/%s", name) >= (int) sizeof(path))
                return false;
        /* /proc/partitions writes cciss!c0d0 as sysfs does */
        for (char *s = path; *s; s++)
                if (*s == '!')
                        *s = '/';
        fd = root ? blkup_host_open(root, path, O_RDONLY) : -1;
        if (!root) {
                char absolute[sizeof(path) + 1];

                (void) snprintf(absolute, sizeof(absolute), "/%s", path);
                fd = blkup_mount_open(absolute, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        }
        if (fd < 0)
                return false;
        if (!is_image_at(fd, 4096) && !(page > 4096 && is_image_at(fd, (uint64_t) page)))
                return false;
        (void) snprintf(ret, cap, "/%s", path);
        return true;
}

static bool is_skipped(const struct blkup_mounter *m, dev_t own, uint32_t major, uint32_t minor)
{
        if (own == makedev(major, minor))
                return true;
        for (size_t i = 0; i < m->n_scan_skips; i++)
                if (m->scan_skips[i] == makedev(major, minor))
                        return true;
        return blkup_mountinfo_by_device(m->mounts, major, minor, NULL) != NULL;
}

/* /proc/partitions of a usual machine, without asking for memory. false: it is longer, or not to be read. */
static bool read_short(const char *root, char *ret, size_t cap, size_t *ret_n)
{
        BLKUP_CLEANUP_CLOSE int fd = -1;
        size_t n = 0;

        if (root)
                return false;
        fd = blkup_mount_open("/proc/partitions", O_RDONLY);
        /* Ends: n grows, or it is the end. */
        while (fd >= 0 && n + 1 < cap) {
                ssize_t got = read(fd, ret + n, cap - 1 - n);

                if (got < 0)
                        return false;
                if (got == 0) {
                        ret[n] = '\0';
                        *ret_n = n;
                        return true;
                }
                n += (size_t) got;
        }
        return false;
}

/* Devices to be looked at, by as many threads as there are devices, up to MAX_THREADS: a look is a wait. */
struct search {
        const char *root;
        const char **names;
        size_t n, cap, next; /* next: atomic */
        pthread_mutex_t lock;
        char found[256]; /* "" = none so far */
};

static void *look(void *arg)
{
        struct search *s = arg;
        size_t i;

        /* Ends: each device is taken once. */
        while ((i = __atomic_fetch_add(&s->next, 1, __ATOMIC_RELAXED)) < s->n) {
                char path[256];

                if (!has_image(s->root, s->names[i], path, sizeof(path)))
                        continue;
                (void) pthread_mutex_lock(&s->lock);
                memcpy(s->found, path, sizeof(path));
                (void) pthread_mutex_unlock(&s->lock);
        }
        return NULL;
}

/* true: an image was found. */
static bool look_at_all(struct search *s, char *ret, size_t cap)
{
        pthread_t threads[MAX_THREADS];
        size_t n = 0;

        (void) pthread_mutex_init(&s->lock, NULL);
        /* Two looks cost less than a thread. */
        while (s->n > 2 && n + 1 < s->n && n < MAX_THREADS && pthread_create(&threads[n], NULL, look, s) == 0)
                n++;
        (void) look(s);
        for (size_t i = 0; i < n; i++)
                (void) pthread_join(threads[i], NULL);
        (void) pthread_mutex_destroy(&s->lock);
        blkup_mount_copy(ret, cap, s->found);
        return s->found[0];
}

#define UNLISTED "perhaps a device that cannot be listed (is /proc mounted?)"

/* Every device that has a size: one read of /proc/partitions, and ten bytes of each. */
static bool scan(const struct blkup_mounter *m, dev_t own, char *ret, size_t cap)
{
        BLKUP_CLEANUP_FREE char *long_text = NULL;
        char short_text[4096], *text = short_text, *at, *line;
        struct search s = { .root = m->settings.root };
        bool good, found;
        size_t n;

        if (!read_short(m->settings.root, short_text, sizeof(short_text), &n)) {
                if (blkup_host_read(m->settings.root, "proc/partitions", MAX_PARTITIONS_BYTES, &long_text,
                                    &n) < 0) {
                        /* What cannot be listed may hold an image. */
                        blkup_mount_copy(ret, cap, UNLISTED);
                        return true;
                }
                text = long_text;
        }
        if (n == 0) { /* not even the heading */
                blkup_mount_copy(ret, cap, UNLISTED);
                return true;
        }
        at = text;
        /* Ends: each turn goes past one line. */
        while ((line = blkup_host_next_line(&at, text + n, 4096, &good))) {
                uint32_t major, minor;
                char *column;

                if (!good)
                        continue;
                column = blkup_host_next_column(&line);
                if (!blkup_host_number32(column, strlen(column), &major))
                        continue;
                column = blkup_host_next_column(&line);
                if (!blkup_host_number32(column, strlen(column), &minor))
                        continue;
                (void) blkup_host_next_column(&line);
                column = blkup_host_next_column(&line);
                /* ram0: memory, gone with the system that wrote an image */
                if (!*column || strstr(column, "..") || strncmp(column, "ram", 3) == 0 ||
                    strncmp(column, "zram", 4) == 0 || is_skipped(m, own, major, minor))
                        continue;
                if (blkup_host_reserve((void **) &s.names, &s.cap, s.n, sizeof(*s.names), MAX_DEVICES) < 0) {
                        blkup_mount_copy(ret, cap, UNLISTED);
                        free(s.names);
                        return true;
                }
                s.names[s.n++] = column;
        }
        found = look_at_all(&s, ret, cap);
        free(s.names);
        return found;
}

enum blkup_hibernation blkup_mount_look_for_hibernation(struct blkup_mounter *m, dev_t own, char *ret,
                                                        size_t cap)
{
        enum blkup_hibernation answer;
        char path[256] = "";

        (void) pthread_mutex_lock(&m->lock);
        while (m->hibernation_is_running)
                (void) pthread_cond_wait(&m->changed, &m->lock);
        if (m->hibernation == BLKUP_HIBERNATION_UNKNOWN) {
                bool found;

                m->hibernation_is_running = true;
                (void) pthread_mutex_unlock(&m->lock);
                found = scan(m, own, path, sizeof(path));
                (void) pthread_mutex_lock(&m->lock);
                m->hibernation = found ? BLKUP_HIBERNATION_FOUND : BLKUP_HIBERNATION_NONE;
                memcpy(m->hibernation_path, path, sizeof(path));
                m->hibernation_is_running = false;
                (void) pthread_cond_broadcast(&m->changed);
        }
        answer = m->hibernation;
        blkup_mount_copy(ret, cap, m->hibernation_path);
        (void) pthread_mutex_unlock(&m->lock);
        return answer;
}

const char *blkup_mount_no_replay_option(const char *type)
{
        static const struct {
                const char *type, *option;
        } table[] = {
                { "ext4", "noload" }, { "ext3", "noload" }, { "ext2", "" }, { "xfs", "norecovery" },
                { "btrfs", "rescue=nologreplay" }, { "f2fs", "norecovery" }, { "nilfs2", "norecovery" },
                { "squashfs", "" }, { "erofs", "" }, { "iso9660", "" }, { "udf", "" }, { "cramfs", "" },
                { "romfs", "" }, { "vfat", "" }, { "msdos", "" }, { "exfat", "" },
        };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(table); i++)
                if (strcmp(table[i].type, type) == 0)
                        return table[i].option;
        return NULL;
}
