/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Is there a hibernation image on a device that is attached? A system that is resumed from it believes its
 * file systems to be as they were; writing to one of them in between destroys it.
 *
 * Source: the kernel's kernel/power/swap.c (the signature takes the place of swap's magic, ten bytes before
 * the end of the first page); those of other writers: ../shared/probe/signatures.tsv.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "block/nowait.h"
#include "host/hostfile.h"
#include "mount/hibernation.h"
#include "mount/mounter.h"
#include "sync/late.h"

#define MAX_PARTITIONS_BYTES (4u << 20)
#define MAX_DEVICES 65536u
#define MAX_THREADS 31
/* A device that is silent for so long is not waited for: it may be silent for good. */
#define SILENT_NS UINT64_C(1000000000)
#define UNLISTED "perhaps a device that cannot be listed (is /proc mounted?)"

static const struct {
        const char *bytes;
        size_t len;
} magics[] = {
        { "S1SUSPEND", 9 }, { "S2SUSPEND", 9 }, { "ULSUSPEND", 9 }, { "LINHIB0001", 10 },
};

enum look { NO_IMAGE, IMAGE, NOT_IN_MEMORY };

/* is_patient: reads from the device; otherwise only what is in the page cache. page: where the signature
 * ends. */
static enum look look_at(int fd, uint64_t page, bool is_patient)
{
        uint8_t buf[10];
        struct blkup_bytes view = { .data = buf, .at = page - sizeof(buf), .len = sizeof(buf) };
        ssize_t n = is_patient ? pread(fd, buf, sizeof(buf), (off_t) view.at)
                               : blkup_pread_nowait(fd, buf, sizeof(buf), view.at);

        /* Not in the cache; or a device, a kernel or a filter of system calls that has no such flag: EAGAIN,
         * EOPNOTSUPP, ENOSYS, EPERM, and whatever else is no answer. */
        if (n < 0 && !is_patient)
                return NOT_IN_MEMORY;
        if (n != (ssize_t) sizeof(buf))
                return NO_IMAGE;
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(magics); i++)
                if (blkup_equal_at(view, 0, magics[i].bytes, magics[i].len))
                        return IMAGE;
        return NO_IMAGE;
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

static enum look look_at_places(const struct blkup_hibernation_places *p, int fd, bool is_patient)
{
        uint64_t page = (uint64_t) sysconf(_SC_PAGESIZE), end;
        enum look l = NO_IMAGE;

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(p->offsets) && l == NO_IMAGE; i++)
                if (p->offsets[i] && !__builtin_mul_overflow(p->offsets[i], page, &end) &&
                    !__builtin_add_overflow(end, page, &end) && end <= INT64_MAX)
                        l = look_at(fd, end, is_patient);
        return l;
}

bool blkup_hibernation_is_at(const struct blkup_hibernation_places *p, int fd)
{
        return look_at_places(p, fd, true) == IMAGE;
}

/* A device to be looked at; is_in_use_soon: this run mounts it, so it is no swap, but may hold a swap file.
 */
struct candidate {
        char path[128];
        bool is_in_use_soon;
};

/* What all looks need. Devices that have to be read, by as many threads as there are devices, up to
 * MAX_THREADS, are the first n_left. */
struct search {
        char *root;
        struct blkup_hibernation_places places;
        struct candidate *devices;
        size_t n, cap, n_left;
        char found[256]; /* "" = none so far */
};

static void free_search(void *to)
{
        struct search *s = to;

        free(s->devices);
        free(s->root);
        free(s);
}

static struct search *new_search(const char *root)
{
        struct search *s = calloc(1, sizeof(*s));

        if (!s)
                return NULL;
        s->root = root ? strdup(root) : NULL;
        if (root && !s->root) {
                free_search(s);
                return NULL;
        }
        return s;
}

static enum look look_at_device(const struct search *s, const struct candidate *c, bool is_patient)
{
        BLKUP_CLEANUP_CLOSE int fd = -1;
        uint64_t page = (uint64_t) sysconf(_SC_PAGESIZE);
        enum look l = NO_IMAGE;

        fd = s->root ? blkup_host_open(s->root, c->path + 1, O_RDONLY)
                     : blkup_mount_open(c->path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
                return NO_IMAGE;
        if (!c->is_in_use_soon)
                l = look_at(fd, 4096, is_patient);
        if (l == NO_IMAGE && !c->is_in_use_soon && page > 4096)
                l = look_at(fd, page, is_patient);
        return l == NO_IMAGE ? look_at_places(&s->places, fd, is_patient) : l;
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

/* The answer is the device with an image, or NULL. */
static void *look_patiently(void *to, void *own, size_t i)
{
        struct search *s = to;

        (void) own;
        return look_at_device(s, &s->devices[i], true) == IMAGE ? s->devices[i].path : NULL;
}

static void take_image(void *to, size_t i, void *path)
{
        (void) i;
        blkup_mount_copy(((struct search *) to)->found, sizeof(((struct search *) to)->found), path);
}

/* true: an image was found, or must be thought to be there; ret says where. Else the first that has not
 * answered goes to ret_silent. s is not the caller's any more. */
static bool read_what_is_left(struct search *s, char *ret, size_t cap, char *ret_silent, size_t silent_cap)
{
        static const struct blkup_late_ops ops = { .look = look_patiently, .take = take_image,
                                                   .free = free_search };
        struct blkup_late *l = blkup_late_start(s->n_left, MAX_THREADS, &ops, s);

        if (!l) {
                free_search(s);
                blkup_mount_copy(ret, cap, UNLISTED);
                return true;
        }
        blkup_late_lock(l);
        while (!s->found[0] && blkup_late_wait(l, SILENT_NS, SILENT_NS))
                ; /* ends: with the answers, or the time */
        blkup_mount_copy(ret, cap, s->found);
        for (size_t i = 0; i < s->n_left && !s->found[0]; i++)
                if (!blkup_late_is_done(l, i)) {
                        blkup_mount_copy(ret_silent, silent_cap, s->devices[i].path);
                        break;
                }
        blkup_late_unlock(l);
        (void) blkup_late_free(l);
        return *ret;
}

/* Most of the time everything is in the page cache: then no thread is needed. As above. */
static bool look_at_all(struct search *s, char *ret, size_t cap, char *ret_silent, size_t silent_cap)
{
        for (size_t i = 0; i < s->n; i++) {
                enum look l = look_at_device(s, &s->devices[i], false);

                if (l == IMAGE) {
                        blkup_mount_copy(ret, cap, s->devices[i].path);
                        free_search(s);
                        return true;
                }
                if (l == NOT_IN_MEMORY)
                        s->devices[s->n_left++] = s->devices[i];
        }
        if (s->n_left > 0)
                return read_what_is_left(s, ret, cap, ret_silent, silent_cap);
        free_search(s);
        return false;
}

/* Adds the devices of a text like /proc/partitions. -ENOMEM, -E2BIG. */
static int add_devices(const struct blkup_mounter *m, dev_t own, struct search *s, char *text, size_t n)
{
        char *at = text, *line;
        bool good;
        int r = 0;

        /* Ends: each turn goes past one line. */
        while (r == 0 && (line = blkup_host_next_line(&at, text + n, 4096, &good))) {
                struct candidate c = { .is_in_use_soon = false };
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
                    strncmp(column, "zram", 4) == 0 || strlen(column) + 6 > sizeof(c.path) ||
                    blkup_mountinfo_by_device(m->mounts, major, minor, NULL))
                        continue;
                c.is_in_use_soon = is_to_be_mounted(m, own, major, minor);
                if (c.is_in_use_soon && !blkup_hibernation_places_any(&s->places))
                        continue;
                (void) snprintf(c.path, sizeof(c.path), "/dev/%s", column);
                /* /proc/partitions writes cciss!c0d0 as sysfs does */
                for (char *k = c.path; *k; k++)
                        if (*k == '!')
                                *k = '/';
                r = blkup_host_reserve((void **) &s->devices, &s->cap, s->n, sizeof(c), MAX_DEVICES);
                if (r == 0)
                        s->devices[s->n++] = c;
        }
        return r;
}

/* Every device that has a size: one read of /proc/partitions, and ten bytes of each; with the place of a swap
 * file also those there. */
static bool scan(const struct blkup_mounter *m, dev_t own, char *ret, size_t cap, char *ret_silent,
                 size_t silent_cap)
{
        BLKUP_CLEANUP_FREE char *long_text = NULL;
        char short_text[4096], *text = short_text;
        struct search *s = new_search(m->settings.root);
        size_t n = 0;

        if (s)
                blkup_hibernation_places_load(m->settings.root, &s->places);
        if (s && !read_short(m->settings.root, short_text, sizeof(short_text), &n) &&
            blkup_host_read(m->settings.root, "proc/partitions", MAX_PARTITIONS_BYTES, &long_text, &n) == 0)
                text = long_text;
        /* What cannot be listed may hold an image; the heading alone is something. */
        if (n > 0 && add_devices(m, own, s, text, n) == 0)
                return look_at_all(s, ret, cap, ret_silent, silent_cap);
        if (s)
                free_search(s);
        blkup_mount_copy(ret, cap, UNLISTED);
        return true;
}

enum blkup_hibernation blkup_mount_look_for_hibernation(struct blkup_mounter *m, dev_t own, char *ret,
                                                        size_t cap)
{
        enum blkup_hibernation answer;
        char path[256] = "", silent[256] = "";

        (void) pthread_mutex_lock(&m->lock);
        while (m->hibernation_is_running)
                (void) pthread_cond_wait(&m->changed, &m->lock);
        if (m->hibernation == BLKUP_HIBERNATION_UNKNOWN) {
                bool found;

                m->hibernation_is_running = true;
                (void) pthread_mutex_unlock(&m->lock);
                found = scan(m, own, path, sizeof(path), silent, sizeof(silent));
                (void) pthread_mutex_lock(&m->lock);
                m->hibernation = found ? BLKUP_HIBERNATION_FOUND : BLKUP_HIBERNATION_NONE;
                memcpy(m->hibernation_path, found ? path : silent, sizeof(path));
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
