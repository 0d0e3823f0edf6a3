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
#include "mount/hibernation.h"
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

/* mount/hibernation.h says why these. */
static const char *const offset_places[] = {
        "sys/power/resume_offset",
        "sys/firmware/efi/efivars/HibernateLocation-8cf2644b-4b0b-428f-9387-6d876050dc67",
};

/* The number in text, or the one behind "offset" in JSON; the zero bytes of UTF-16 are left out before. 0:
 * none. */
static uint64_t offset_in(char *text, size_t n)
{
        static const char key[] = "\"offset\"";
        char *at;
        size_t kept = 0;

        for (size_t i = 0; i < n; i++)
                if (text[i])
                        text[kept++] = text[i];
        text[kept] = '\0';
        at = strstr(text, key);
        if (!at && strchr(text, '{'))
                return 0;
        at = at ? at + strlen(key) : text;
        at += strspn(at, " \t:\"");
        if (*at < '0' || *at > '9')
                return 0;
        return strtoull(at, NULL, 10);
}

static uint64_t read_offset(const char *root, const char *place)
{
        BLKUP_CLEANUP_CLOSE int fd = -1;
        char buf[2048], absolute[128];
        ssize_t n;

        if (root) {
                fd = blkup_host_open(root, place, O_RDONLY);
        } else {
                (void) snprintf(absolute, sizeof(absolute), "/%s", place);
                fd = blkup_mount_open(absolute, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        }
        if (fd < 0)
                return 0;
        n = read(fd, buf, sizeof(buf) - 1);
        return n > 0 ? offset_in(buf, (size_t) n) : 0;
}

void blkup_hibernation_places_load(const char *root, struct blkup_hibernation_places *ret)
{
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(offset_places); i++)
                ret->offsets[i] = read_offset(root, offset_places[i]);
}

bool blkup_hibernation_places_any(const struct blkup_hibernation_places *p)
{
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(p->offsets); i++)
                if (p->offsets[i])
                        return true;
        return false;
}

bool blkup_hibernation_is_at(const struct blkup_hibernation_places *p, int fd)
{
        uint64_t page = (uint64_t) sysconf(_SC_PAGESIZE), end;

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(p->offsets); i++)
                if (p->offsets[i] && !__builtin_mul_overflow(p->offsets[i], page, &end) &&
                    !__builtin_add_overflow(end, page, &end) && end <= INT64_MAX && is_image_at(fd, end))
                        return true;
        return false;
}

/* A device to be looked at; is_in_use_soon: this run mounts it, so it is no swap, but may hold a swap file.
 */
struct candidate {
        const char *name;
        bool is_in_use_soon;
};

/* Devices to be looked at, by as many threads as there are devices, up to MAX_THREADS: a look is a wait. */
struct search {
        const char *root;
        struct blkup_hibernation_places places;
        struct candidate *devices;
        size_t n, cap, next; /* next: atomic */
        pthread_mutex_t lock;
        char found[256]; /* "" = none so far */
};

static bool has_image(const struct search *s, const struct candidate *c, char *ret, size_t cap)
{
        BLKUP_CLEANUP_CLOSE int fd = -1;
        uint64_t page = (uint64_t) sysconf(_SC_PAGESIZE);
        char path[128];
        bool is = false;

        if (snprintf(path, sizeof(path), "dev/%s", c->name) >= (int) sizeof(path))
                return false;
        /* /proc/partitions writes cciss!c0d0 as sysfs does */
        for (char *at = path; *at; at++)
                if (*at == '!')
                        *at = '/';
        fd = s->root ? blkup_host_open(s->root, path, O_RDONLY) : -1;
        if (!s->root) {
                char absolute[sizeof(path) + 1];

                (void) snprintf(absolute, sizeof(absolute), "/%s", path);
                fd = blkup_mount_open(absolute, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        }
        if (fd < 0)
                return false;
        if (!c->is_in_use_soon)
                is = is_image_at(fd, 4096) || (page > 4096 && is_image_at(fd, page));
        is = is || blkup_hibernation_is_at(&s->places, fd);
        if (is)
                (void) snprintf(ret, cap, "/%s", path);
        return is;
}

static bool is_to_be_mounted(const struct blkup_mounter *m, dev_t own, uint32_t major, uint32_t minor)
{
        if (own == makedev(major, minor))
                return true;
        for (size_t i = 0; i < m->n_scan_skips; i++)
                if (m->scan_skips[i] == makedev(major, minor))
                        return true;
        return false;
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

static void *look(void *arg)
{
        struct search *s = arg;
        size_t i;

        /* Ends: each device is taken once. */
        while ((i = __atomic_fetch_add(&s->next, 1, __ATOMIC_RELAXED)) < s->n) {
                char path[256];

                if (!has_image(s, &s->devices[i], path, sizeof(path)))
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

/* Every device that has a size: one read of /proc/partitions, and ten bytes of each; with the place of a swap
 * file also those there. */
static bool scan(const struct blkup_mounter *m, dev_t own, char *ret, size_t cap)
{
        BLKUP_CLEANUP_FREE char *long_text = NULL;
        char short_text[4096], *text = short_text, *at, *line;
        struct search s = { .root = m->settings.root };
        bool good, found, is_soon;
        size_t n;

        blkup_hibernation_places_load(m->settings.root, &s.places);
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
                    strncmp(column, "zram", 4) == 0 ||
                    blkup_mountinfo_by_device(m->mounts, major, minor, NULL))
                        continue;
                is_soon = is_to_be_mounted(m, own, major, minor);
                if (is_soon && !blkup_hibernation_places_any(&s.places))
                        continue;
                if (blkup_host_reserve((void **) &s.devices, &s.cap, s.n, sizeof(*s.devices), MAX_DEVICES) <
                    0) {
                        blkup_mount_copy(ret, cap, UNLISTED);
                        free(s.devices);
                        return true;
                }
                s.devices[s.n++] = (struct candidate){ .name = column, .is_in_use_soon = is_soon };
        }
        found = look_at_all(&s, ret, cap);
        free(s.devices);
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
