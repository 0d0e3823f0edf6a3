/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The machine of test-coldplug.c: a fake sysfs, devices in memory behind the fault injector, and a recorder
 * in the place of everything that writes.
 */
#ifndef BLKUP_TEST_COLD_RECORDER_H
#define BLKUP_TEST_COLD_RECORDER_H

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <blkup/coldplug.h>

#include "base/clock.h"
#include "block/fault.h"
#include "block/memory.h"
#include "cold-reasons.h"
#include "fake-root.h"
#include "trace/trace.h"
#define SECTORS 32768u /* 16 MiB */
#define MS UINT64_C(1000000)

enum content { EXT4, GARBAGE, BLANK, LUKS, SWAP, HIBERNATED, SQUASHFS };

static const struct disk {
        const char *name;
        enum content content;
        unsigned uuid;      /* the last digit of it */
        bool is_removable, is_read_only, has_read_errors, hangs;
        const char *holder, *slave;
        unsigned groups_left;
} disks[] = {
        { .name = "dm-0", .content = EXT4, .uuid = 11, .slave = "sdl" },
        { .name = "sda", .content = EXT4, .uuid = 1 },
        { .name = "sdb", .content = EXT4, .uuid = 2, .groups_left = 20 },
        { .name = "sdc", .content = EXT4, .uuid = 3, .groups_left = 500000 },
        { .name = "sdd", .content = GARBAGE },
        { .name = "sde", .content = EXT4, .uuid = 5, .has_read_errors = true },
        { .name = "sdf", .content = EXT4, .uuid = 6, .hangs = true },
        { .name = "sdg", .content = EXT4, .uuid = 7, .is_removable = true, .groups_left = 3 },
        { .name = "sdh", .content = EXT4, .uuid = 8, .is_read_only = true, .groups_left = 3 },
        { .name = "sdi", .content = LUKS },
        { .name = "sdj", .content = EXT4, .uuid = 9 },
        { .name = "sdk", .content = EXT4, .uuid = 9 },
        { .name = "sdl", .content = EXT4, .uuid = 11, .holder = "dm-0", .groups_left = 3 },
        { .name = "sdm", .content = SWAP },
        { .name = "sdn", .content = EXT4, .uuid = 13 },
        { .name = "sdo", .content = EXT4, .uuid = 14 },
        { .name = "sdp", .content = BLANK },
        { .name = "sdq", .content = EXT4, .uuid = 15, .groups_left = 7 },
        { .name = "sr0", .content = SQUASHFS, .is_removable = true },
};

#define UUID(n) "UUID=00000000-0000-4000-8000-0000000000" n

static const char fstab_text[] =
        UUID("01") " none swap sw 0 0\n" /* it is none, and it keeps nobody from it */
        UUID("01") " /srv ext4 defaults 0 1\n"
        UUID("02") " /srv/a ext4 noatime 0 2\n"
        UUID("03") " /srv/a/b auto defaults 0 2\n"
        "/dev/sdd /garbage auto defaults 0 0\n"
        "/dev/sde /errors auto defaults 0 2\n"
        "/dev/sdf /silent auto defaults 0 0\n"
        UUID("07") " /stick ext4 defaults 0 2\n"
        UUID("08") " /fixed ext4 defaults 0 2\n"
        "/dev/sdi /locked auto defaults 0 0\n"
        UUID("09") " /twin ext4 defaults 0 0\n"
        UUID("0b") " /mapped ext4 defaults 0 2\n"
        "/dev/sdm none swap sw,pri=5,discard=once 0 0\n"
        "/dev/sdl none swap defaults 0 0\n" /* held */
        "/dev/sdp swap swap defaults 0 0\n"
        "/dev/sda none swap noauto 0 0\n"
        UUID("0d") " /broken ext4 defaults 0 2\n"
        UUID("0e") " /broken/child ext4 defaults 0 0\n"
        UUID("cc") " /absent ext4 nofail 0 2\n"
        UUID("cd") " /lost ext4 defaults 0 2\n"
        "/dev/sdq /there ext4 defaults 0 2\n"
        "tmpfs /srv/tmp tmpfs size=1m 0 0\n"
        UUID("01") " /later ext4 noauto 0 0\n"
        "/dev/sr0 /disc auto defaults 0 0\n";

/* ---- what is on the disks ---- */

#define AREA 8192u

/* Made once: probers that were left behind may read them until the program ends. */
static uint8_t areas[sizeof(disks) / sizeof(disks[0])][AREA];

static void put(uint8_t *to, uint64_t value, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                to[i] = (uint8_t) (value >> (8 * i));
}

static void make_area(uint8_t *a, const struct disk *d)
{
        uint8_t *s = a + 1024;
        uint32_t x = 12345;

        memset(a, 0, AREA);
        switch (d->content) {
        case EXT4:
                put(s + 0x00, 4096, 4);  /* inodes */
                put(s + 0x04, 16384, 4); /* blocks of 1 KiB */
                put(s + 0x14, 1, 4);
                put(s + 0x20, 8192, 4);
                put(s + 0x24, 8192, 4);
                put(s + 0x28, 2048, 4);
                put(s + 0x38, 0xef53, 2);
                put(s + 0x3a, 1, 2);
                put(s + 0x4c, 1, 4);
                put(s + 0x54, 11, 4);
                put(s + 0x58, 256, 2);
                put(s + 0x5c, 4, 4);     /* has_journal */
                put(s + 0x60, 0x42, 4);  /* filetype, extents */
                s[0x68 + 6] = 0x40;
                s[0x68 + 8] = 0x80;
                s[0x68 + 15] = (uint8_t) d->uuid;
                break;
        case GARBAGE:
                for (unsigned i = 0; i < AREA; i++)
                        a[i] = (uint8_t) ((x = x * 1103515245 + 12345) >> 16);
                break;
        case BLANK:
                break;
        case LUKS:
                memcpy(a, "LUKS\xba\xbe\0\1", 8);
                memcpy(a + 168, "00000000-0000-4000-8000-000000000010", 36);
                break;
        case SWAP:
                put(a + 1024, 1, 4);
                put(a + 1028, 4095, 4);
                memcpy(a + 4086, "SWAPSPACE2", 10);
                break;
        case HIBERNATED:
                memcpy(a + 4086, "S1SUSPEND\0", 10);
                break;
        case SQUASHFS:
                memcpy(a, "hsqs", 4);
                put(a + 12, 131072, 4);
                put(a + 22, 17, 2);
                put(a + 28, 4, 2);
                put(a + 40, 4096, 8);
                break;
        }
}

static void make_areas(void)
{
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(disks); i++)
                make_area(areas[i], &disks[i]);
}

/* ---- the machine ---- */

static void attribute(const struct fake_root *f, const char *name, const char *file, const char *text)
{
        char path[PATH_MAX], line[512];

        (void) snprintf(path, sizeof(path), "sys/devices/block/%s/%s", name, file);
        (void) snprintf(line, sizeof(line), "%s\n", text);
        fake_root_file(f, path, line);
}

static void make_machine(struct fake_root *f, const char *only)
{
        fake_root_make(f);
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(disks); i++) {
                const struct disk *d = &disks[i];
                char text[256], path[PATH_MAX], target[PATH_MAX];

                if (only && strcmp(only, d->name) != 0)
                        continue;
                (void) snprintf(text, sizeof(text), "8:%zu", i + 16);
                attribute(f, d->name, "dev", text);
                (void) snprintf(target, sizeof(target), "../../devices/block/%s", d->name);
                (void) snprintf(path, sizeof(path), "sys/dev/block/%s", text);
                fake_root_link(f, path, target);
                (void) snprintf(text, sizeof(text), "MAJOR=8\nMINOR=%zu\nDEVNAME=%s\nDEVTYPE=disk", i + 16,
                                d->name);
                attribute(f, d->name, "uevent", text);
                (void) snprintf(text, sizeof(text), "%u", SECTORS);
                attribute(f, d->name, "size", text);
                attribute(f, d->name, "removable", d->is_removable ? "1" : "0");
                attribute(f, d->name, "ro", d->is_read_only ? "1" : "0");
                attribute(f, d->name, "queue/write_zeroes_max_bytes", "1048576");
                if (d->holder) {
                        (void) snprintf(path, sizeof(path), "sys/devices/block/%s/holders/%s", d->name,
                                        d->holder);
                        fake_root_link(f, path, "../..");
                }
                if (d->slave) {
                        (void) snprintf(path, sizeof(path), "sys/devices/block/%s/slaves/%s", d->name,
                                        d->slave);
                        fake_root_link(f, path, "../..");
                        attribute(f, d->name, "dm/name", "vg-lv");
                        attribute(f, d->name, "dm/uuid", "LVM-x");
                        attribute(f, d->name, "dm/suspended", "0");
                }
                (void) snprintf(path, sizeof(path), "sys/class/block/%s", d->name);
                fake_root_link(f, path, target);
                (void) snprintf(path, sizeof(path), "sys/block/%s", d->name);
                fake_root_link(f, path, target + 3);
        }
        /* sdq, 8:33, is mounted where the fstab wants it. */
        fake_root_file(f, "proc/self/mountinfo",
                       "20 1 0:20 / / rw - rootfs rootfs rw\n30 20 8:33 / /there rw - ext4 /dev/sdq rw\n");
}

static const struct disk *disk_of(const char *path, size_t *ret)
{
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(disks); i++)
                if (strcmp(path + strlen("/dev/"), disks[i].name) == 0) {
                        *ret = i;
                        return &disks[i];
                }
        return NULL;
}

/* ---- the recorder ---- */

#define MAX_EVENTS 128

struct world {
        struct fake_root root;
        pthread_mutex_t lock;
        pthread_cond_t go; /* hanging devices wait for it */
        bool is_over;
        unsigned hanging;
        bool may_hang;
        const char *kills_at; /* the disk at which all children are killed */
        unsigned n_killed;
        uint64_t seed, delay_us;
        unsigned n_events;
        char events[MAX_EVENTS][96];
        uint64_t at_ns[MAX_EVENTS];
};

static void start_world(struct world *w)
{
        memset(w, 0, sizeof(*w));
        (void) pthread_mutex_init(&w->lock, NULL);
        (void) pthread_cond_init(&w->go, NULL);
        make_machine(&w->root, NULL);
}

static void end_world(struct world *w)
{
        (void) pthread_mutex_lock(&w->lock);
        w->is_over = true;
        (void) pthread_cond_broadcast(&w->go);
        while (w->hanging > 0)
                (void) pthread_cond_wait(&w->go, &w->lock);
        (void) pthread_mutex_unlock(&w->lock);
        fake_root_remove(&w->root);
}

static void dawdle(struct world *w)
{
        uint64_t x;

        (void) pthread_mutex_lock(&w->lock);
        w->seed = w->seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        x = w->seed >> 33;
        (void) pthread_mutex_unlock(&w->lock);
        if (w->delay_us > 0 && x % 3 > 0)
                blkup_sleep_until_ns(blkup_now_ns() + (x / 3 % w->delay_us) * 1000, NULL);
}

static void record(struct world *w, const char *what, const char *object)
{
        (void) pthread_mutex_lock(&w->lock);
        assert_true(w->n_events < MAX_EVENTS);
        (void) snprintf(w->events[w->n_events], sizeof(w->events[0]), "%s %s", what, object);
        w->at_ns[w->n_events++] = blkup_now_ns();
        (void) pthread_mutex_unlock(&w->lock);
}

static inline unsigned find_event(const struct world *w, const char *text)
{
        for (unsigned i = 0; i < w->n_events; i++)
                if (strcmp(w->events[i], text) == 0)
                        return i;
        return UINT32_MAX;
}

static inline void comes_before(const struct world *w, const char *a, const char *b)
{
        unsigned x = find_event(w, a), y = find_event(w, b);

        if (x == UINT32_MAX || y == UINT32_MAX || x > y)
                print_error("'%s' (%u) before '%s' (%u)\n", a, x, b, y);
        assert_true(x != UINT32_MAX && y != UINT32_MAX && x < y);
}

/* All children of the main thread, which makes the cage. */
static unsigned kill_children(void)
{
        char path[64];
        unsigned n = 0;
        int child;
        FILE *f;

        (void) snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int) getpid());
        f = fopen(path, "re");
        if (!f)
                return 0;
        while (fscanf(f, "%d", &child) == 1) /* ends: with the list */
                n += kill(child, SIGKILL) == 0;
        (void) fclose(f);
        return n;
}

/* Until the test is over. */
static void hang(struct world *w)
{
        (void) pthread_mutex_lock(&w->lock);
        w->hanging++;
        while (!w->is_over)
                (void) pthread_cond_wait(&w->go, &w->lock);
        w->hanging--;
        (void) pthread_cond_broadcast(&w->go);
        (void) pthread_mutex_unlock(&w->lock);
}

static int world_open(void *to, const char *path, struct blkup_block **ret, struct blkup_error *err)
{
        static const struct blkup_fault_rule unreadable = { .what = BLKUP_FAULT_ERROR, .is_for_good = true };
        struct world *w = to;
        struct blkup_block *b, *faulty;
        size_t i = 0;
        const struct disk *d = disk_of(path, &i);

        if (!d)
                return blkup_fail_errno(err, -ENOENT, "%s", path);
        dawdle(w);
        if (w->kills_at && strcmp(w->kills_at, d->name) == 0)
                (void) __atomic_fetch_add(&w->n_killed, kill_children(), __ATOMIC_RELAXED);
        if (d->hangs && w->may_hang) {
                hang(w);
                return -EIO;
        }
        b = blkup_block_memory_new((uint64_t) SECTORS * 512, 512);
        if (!b)
                return -ENOMEM;
        if (blkup_block_memory_add(b, 0, areas[i], AREA) < 0) {
                (void) blkup_block_close(b);
                return -ENOMEM;
        }
        if (d->has_read_errors) {
                faulty = blkup_block_fault_new(b, &unreadable, 1);
                if (!faulty) {
                        (void) blkup_block_close(b);
                        return -ENOMEM;
                }
                b = faulty;
        }
        *ret = b;
        return 0;
}

static int world_status(void *to, const char *path, struct blkup_lazyinit_status *ret,
                        struct blkup_error *err)
{
        struct world *w = to;
        size_t i;
        const struct disk *d = disk_of(path, &i);

        (void) err;
        if (d->groups_left < 5000)
                dawdle(w);
        else
                blkup_sleep_until_ns(blkup_now_ns() + 2 * MS, NULL); /* slow: too dear to be finished */
        *ret = (struct blkup_lazyinit_status){ .groups = 500000,
                                               .groups_left = d->groups_left,
                                               .bytes_left = d->groups_left * 4096u,
                                               .has_group_checksums = true };
        return 0;
}

static int world_finish(void *to, const char *path, const struct blkup_lazyinit_options *o,
                        struct blkup_lazyinit_result *ret, struct blkup_error *err)
{
        struct world *w = to;

        (void) err;
        (void) o;
        dawdle(w);
        record(w, "finish", path);
        *ret = (struct blkup_lazyinit_result){ .outcome = BLKUP_LAZYINIT_DONE, .groups_left_before = 20 };
        return 0;
}

static int world_check(void *to, const char *type, const char *path, char *text, size_t cap)
{
        struct world *w = to;

        assert_string_equal(type, "ext4");
        record(w, "check", path);
        dawdle(w);
        record(w, "checked", path);
        (void) snprintf(text, cap, "words of fsck");
        return strcmp(path, "/dev/sdn") == 0 ? 4 : strcmp(path, "/dev/sdb") == 0 ? 1 : 0;
}

static int world_mount(void *to, const struct blkup_mount_request *q, struct blkup_mount_result *ret)
{
        struct world *w = to;
        char text[96];

        if (w->may_hang && strncmp(q->source, "server", 6) == 0) {
                hang(w);
                *ret = (struct blkup_mount_result){ .outcome = BLKUP_MOUNT_FAILED, .error = -EIO };
                return -EIO;
        }
        (void) snprintf(text, sizeof(text), "%s %s %s %s", q->source, q->target, q->types, q->options);
        record(w, "mount", text);
        dawdle(w);
        record(w, "mounted", q->target);
        *ret = (struct blkup_mount_result){ .outcome = BLKUP_MOUNT_DONE };
        return 0;
}

static int world_swap(void *to, const char *path, int flags)
{
        struct world *w = to;
        char text[96];

        (void) snprintf(text, sizeof(text), "%s %#x", path, (unsigned) flags);
        record(w, "swap", text);
        return 0;
}

#endif
