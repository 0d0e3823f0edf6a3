/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A made-up machine: a fake sysfs, devices in memory, and stubs in the place of mdadm, lvm, cryptsetup and
 * the kernel's btrfs, which make the devices that the real ones would. Include it after cmocka.h, in one file
 * of a program.
 */
#ifndef BLKUP_TESTS_COLD_WORLD_H
#define BLKUP_TESTS_COLD_WORLD_H

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <blkup/coldplug.h>

#include "base/clock.h"
#include "block/memory.h"
#include "bringup/crypttab.h"
#include "cold-disks.h"
#include "cold-reasons.h"
#include "fake-root.h"

#define MS UINT64_C(1000000)

#define UUID(n) "UUID=00000000-0000-4000-8000-0000000000" n

/* ---- the machine ---- */

#define MAX_CALLS 64

struct world {
        struct fake_root root, stock; /* stock: the folders of devices that are not there */
        pthread_mutex_t lock;
        uint64_t seed, delay_us;
        int uevents; /* our end; -1: none */
        bool is_here[N_DISKS];
        const uint8_t *content[N_DISKS];
        int open_error;   /* of the first disk */
        uint64_t open_ns; /* what its next answer takes */
        pthread_cond_t told_one;
        unsigned members_of[256], told_btrfs[256];
        bool has_no_tools, keeps_no_calls;
        /* What a mount at a target does; a success is noted in the mount table when that is kept. */
        int mount_error;
        bool keeps_table;
        unsigned n_mounts, n_tried;
        char table[4096];
        char calls[MAX_CALLS][256];
        unsigned n_calls;
        /* What was told. */
        unsigned ready, failed, gone, warnings;
        unsigned settled;
        char told[4096];
};

/* Most of this runs in threads of the pool, where no assertion of cmocka may fail. */
#define MUST(x)                                                                        \
        do {                                                                           \
                if (!(x)) {                                                            \
                        (void) fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
                        abort();                                                       \
                }                                                                      \
        } while (0)

static inline size_t index_of(const char *name)
{
        for (size_t i = 0; i < N_DISKS; i++)
                if (strcmp(disks[i].name, name) == 0)
                        return i;
        MUST(false); /* no such disk */
        return 0;
}

static inline void attribute(const struct fake_root *f, const char *name, const char *file, const char *text)
{
        char path[PATH_MAX], line[512];

        (void) snprintf(path, sizeof(path), "sys/devices/block/%s/%s", name, file);
        (void) snprintf(line, sizeof(line), "%s\n", text);
        fake_root_file(f, path, line);
}

static inline void make_folder(const struct fake_root *f, size_t i)
{
        const char *name = disks[i].name;
        char text[256];

        (void) snprintf(text, sizeof(text), "8:%zu", i + 16);
        attribute(f, name, "dev", text);
        (void) snprintf(text, sizeof(text), "MAJOR=8\nMINOR=%zu\nDEVNAME=%s\nDEVTYPE=disk", i + 16, name);
        attribute(f, name, "uevent", text);
        attribute(f, name, "size", "131072");
        attribute(f, name, "removable", "0");
        attribute(f, name, "ro", "0");
        if (strncmp(name, "dm-", 3) == 0) {
                attribute(f, name, "dm/name",
                          name[3] == '0'   ? "vg-lv"
                          : name[3] == '1' ? "crypt"
                                           : "stack-lv");
                attribute(f, name, "dm/uuid",
                          name[3] == '1' ? "CRYPT-LUKS1-00000000000040008000000000000010-crypt" : "LVM-x");
                attribute(f, name, "dm/suspended", "0");
        }
}

static inline uint64_t draw(struct world *w)
{
        uint64_t x;

        (void) pthread_mutex_lock(&w->lock);
        w->seed = w->seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        x = w->seed >> 33;
        (void) pthread_mutex_unlock(&w->lock);
        return x;
}

static inline void dawdle(struct world *w)
{
        uint64_t x = draw(w);

        if (w->delay_us > 0 && x % 3 > 0)
                blkup_sleep_until_ns(blkup_now_ns() + (x / 3 % w->delay_us) * 1000, NULL);
}

static inline void say(struct world *w, const char *action, size_t i)
{
        char text[512];
        int n;

        if (w->uevents < 0)
                return;
        n = snprintf(text, sizeof(text),
                     "%s@/devices/block/%s%cACTION=%s%cDEVPATH=/devices/block/%s%cSUBSYSTEM=block%cMAJOR=8%c"
                     "MINOR=%zu%cDEVNAME=%s%cDEVTYPE=disk%cSEQNUM=%zu%c",
                     action, disks[i].name, 0, action, 0, disks[i].name, 0, 0, 0, i + 16, 0, disks[i].name, 0,
                     0, i + 1, 0);
        /* A full queue loses it, as the kernel's does. */
        (void) !send(w->uevents, text, (size_t) n, MSG_DONTWAIT);
}

static inline void move(struct world *w, const struct fake_root *from, const struct fake_root *to,
                        const char *name)
{
        char a[PATH_MAX], b[PATH_MAX];

        (void) w;
        (void) snprintf(a, sizeof(a), "%s/sys/devices/block/%s", from->path, name);
        (void) snprintf(b, sizeof(b), "%s/sys/devices/block/%s", to->path, name);
        MUST(rename(a, b) == 0);
}

static inline void plug(struct world *w, size_t i, bool tell)
{
        char path[PATH_MAX], target[PATH_MAX];

        (void) pthread_mutex_lock(&w->lock);
        if (!w->is_here[i]) {
                w->is_here[i] = true;
                move(w, &w->stock, &w->root, disks[i].name);
                (void) snprintf(target, sizeof(target), "../../devices/block/%s", disks[i].name);
                (void) snprintf(path, sizeof(path), "sys/dev/block/8:%zu", i + 16);
                fake_root_link(&w->root, path, target);
                (void) snprintf(path, sizeof(path), "sys/class/block/%s", disks[i].name);
                fake_root_link(&w->root, path, target);
        }
        (void) pthread_mutex_unlock(&w->lock);
        if (tell)
                say(w, "add", i);
}

static inline void unplug(struct world *w, size_t i, bool tell)
{
        char path[PATH_MAX];

        (void) pthread_mutex_lock(&w->lock);
        if (w->is_here[i]) {
                w->is_here[i] = false;
                (void) snprintf(path, sizeof(path), "%s/sys/class/block/%s", w->root.path, disks[i].name);
                MUST(unlink(path) == 0);
                (void) snprintf(path, sizeof(path), "%s/sys/dev/block/8:%zu", w->root.path, i + 16);
                MUST(unlink(path) == 0);
                move(w, &w->root, &w->stock, disks[i].name);
        }
        (void) pthread_mutex_unlock(&w->lock);
        if (tell)
                say(w, "remove", i);
}

static inline void start_world(struct world *w)
{
        memset(w, 0, sizeof(*w));
        (void) pthread_mutex_init(&w->lock, NULL);
        (void) pthread_cond_init(&w->told_one, NULL);
        w->uevents = -1;
        fake_root_make(&w->root);
        fake_root_make(&w->stock);
        fake_root_folder(&w->root, "sys/devices/block");
        fake_root_folder(&w->root, "sys/class/block");
        fake_root_folder(&w->root, "sys/dev/block");
        fake_root_file(&w->root, "proc/self/mountinfo", "20 1 0:20 / / rw - rootfs rootfs rw\n");
        fake_root_file(&w->root, "key", "secret\n");
        for (size_t i = 0; i < N_DISKS; i++) {
                make_area(areas[i], &disks[i]);
                w->content[i] = areas[i];
                make_folder(&w->stock, i);
        }
}

/* As it was before anything was assembled; with the disks, or without any. */
static inline void reset(struct world *w, bool with_disks)
{
        for (size_t i = 0; i < N_DISKS; i++)
                if (with_disks && !disks[i].is_made)
                        plug(w, i, false);
                else
                        unplug(w, i, false);
        memset(w->members_of, 0, sizeof(w->members_of));
        memset(w->told_btrfs, 0, sizeof(w->told_btrfs));
        w->n_calls = w->ready = w->failed = w->gone = w->warnings = 0;
        w->settled = 0;
        *w->told = '\0';
}

static inline void end_world(struct world *w)
{
        fake_root_remove(&w->root);
        fake_root_remove(&w->stock);
}

/* ---- what stands in for the machine ---- */

static inline int world_open(void *to, const char *path, struct blkup_block **ret, struct blkup_error *err)
{
        struct world *w = to;
        size_t i = index_of(path + strlen("/dev/"));
        struct blkup_block *b;
        int r;

        dawdle(w);
        if (i == 0) {
                uint64_t ns;
                int error;

                (void) pthread_mutex_lock(&w->lock);
                ns = w->open_ns;
                error = w->open_error;
                w->open_ns = 0;
                (void) pthread_mutex_unlock(&w->lock);
                if (ns)
                        blkup_sleep_until_ns(blkup_now_ns() + ns, NULL);
                if (error)
                        return blkup_fail_errno(err, error, "%s", path);
        }
        b = blkup_block_memory_new(SIZE, 512);
        if (!b)
                return -ENOMEM;
        (void) pthread_mutex_lock(&w->lock);
        r = w->is_here[i] ? blkup_block_memory_add(b, 0, w->content[i], AREA) : -ENXIO;
        (void) pthread_mutex_unlock(&w->lock);
        if (r < 0) {
                (void) blkup_block_close(b);
                return blkup_fail_errno(err, r, "%s", path);
        }
        *ret = b;
        return 0;
}

static inline int world_status(void *to, const char *path, struct blkup_lazyinit_status *ret,
                               struct blkup_error *err)
{
        (void) to;
        (void) path;
        (void) err;
        *ret = (struct blkup_lazyinit_status){ .groups = 1 };
        return 0;
}

static inline int world_check(void *to, const char *type, const char *path, char *text, size_t cap)
{
        (void) to;
        (void) type;
        (void) path;
        (void) text;
        (void) cap;
        return 0;
}

/* With the lock. What is mounted now: one thing, or nothing. */
static inline void set_mount(struct world *w, const char *target, const char *source)
{
        (void) snprintf(w->table, sizeof(w->table), "20 1 0:20 / / rw - rootfs rootfs rw\n");
        if (target)
                (void) snprintf(w->table + strlen(w->table), sizeof(w->table) - strlen(w->table),
                                "21 20 0:21 / %s rw - ext4 %s rw\n", target, source);
        fake_root_file(&w->root, "proc/self/mountinfo", w->table);
}

static inline int world_mount(void *to, const struct blkup_mount_request *q, struct blkup_mount_result *ret)
{
        struct world *w = to;
        int error;

        dawdle(w);
        (void) pthread_mutex_lock(&w->lock);
        w->n_tried++;
        error = w->mount_error;
        if (error == 0) {
                w->n_mounts++;
                MUST(w->keeps_no_calls || w->n_calls < MAX_CALLS);
                if (!w->keeps_no_calls)
                        (void) snprintf(w->calls[w->n_calls++], sizeof(w->calls[0]), "mount %s %s", q->target,
                                        q->types);
                if (w->keeps_table)
                        set_mount(w, q->target, q->source);
        }
        (void) pthread_mutex_unlock(&w->lock);
        *ret = (struct blkup_mount_result){
                .outcome = error ? BLKUP_MOUNT_FAILED : BLKUP_MOUNT_DONE,
                .error = error,
        };
        return error;
}

static inline int stub_md(struct world *w, const char *const *argv, char *out, size_t cap)
{
        bool is_run = strcmp(argv[1], "--run") == 0;
        const struct disk *d;
        unsigned n;

        if (is_run) {
                MUST(strcmp(argv[2], "/dev/md1") == 0);
                MUST(!argv[3]);
                plug(w, index_of("md1"), true);
                return 0;
        }
        MUST(strcmp(argv[1], "--incremental") == 0);
        MUST(strcmp(argv[2], "--export") == 0);
        MUST(!argv[4]);
        d = &disks[index_of(argv[3] + strlen("/dev/"))];
        MUST(d->content == MD);
        (void) pthread_mutex_lock(&w->lock);
        n = ++w->members_of[(unsigned char) d->set];
        (void) pthread_mutex_unlock(&w->lock);
        MUST(n <= 2);
        if (n == 2)
                plug(w, index_of(d->set == 'A' ? "md0" : "md2"), true);
        (void) snprintf(out, cap, "MD_DEVICE=md%d\nMD_DEVNAME=array-%c\nMD_FOREIGN=no\nMD_STARTED=%s\n",
                        d->set - 'A', d->set, n == 2 ? "yes" : "no");
        return 0;
}

static inline int stub_lvm(struct world *w, const char *const *argv)
{
        const char *name = NULL;
        unsigned devices = 0;

        MUST(strcmp(argv[1], "vgchange") == 0);
        MUST(strcmp(argv[2], "-aay") == 0);
        MUST(strcmp(argv[3], "--noudevsync") == 0);
        /* No udev here: LVM is to make its nodes itself. */
        MUST(strcmp(argv[4], "--config") == 0);
        MUST(strstr(argv[5], "udev_rules=0"));
        for (unsigned i = 6; argv[i]; i++)
                if (strcmp(argv[i], "--devices") == 0) {
                        MUST(disks[index_of(argv[++i] + strlen("/dev/"))].content == PV);
                        devices++;
                } else {
                        MUST(!name);
                        name = argv[i];
                }
        MUST(name);
        if (strcmp(name, "vg") == 0)
                MUST(devices == 2);
        else
                MUST(strcmp(name, "stack") == 0);
        plug(w, index_of(*name == 'v' ? "dm-0" : "dm-2"), true);
        return 0;
}

static inline int stub_luks(struct world *w, const char *const *argv)
{
        static const char *const expected[] = { "cryptsetup",       "open",         "--type",     "luks",
                                                "--allow-discards", "--batch-mode", "--key-file", "/key",
                                                "/dev/sdj",         "crypt" };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(expected); i++)
                MUST(strcmp(argv[i], expected[i]) == 0);
        MUST(!argv[BLKUP_ARRAY_SIZE(expected)]);
        plug(w, index_of("dm-1"), true);
        return 0;
}

static inline int world_tool(void *to, const char *const *argv, bool may_ask, char *out, size_t out_cap,
                             char *text, size_t cap)
{
        struct world *w = to;
        size_t n = 0;
        int r;

        MUST(!may_ask);
        dawdle(w);
        if (w->has_no_tools)
                return -ENOENT;
        if (strcmp(argv[0], "mdadm") == 0)
                r = stub_md(w, argv, out, out_cap);
        else if (strcmp(argv[0], "lvm") == 0)
                r = stub_lvm(w, argv);
        else
                r = stub_luks(w, argv);
        (void) snprintf(text, cap, "words of a tool");
        (void) pthread_mutex_lock(&w->lock);
        MUST(w->keeps_no_calls || w->n_calls < MAX_CALLS);
        for (unsigned i = 0; argv[i] && !w->keeps_no_calls; i++)
                if (strcmp(argv[0], "lvm") != 0 || i < 3 || !argv[i + 1])
                        n += (size_t) snprintf(w->calls[w->n_calls] + n, sizeof(w->calls[0]) - n, "%s ",
                                               argv[i]);
        w->n_calls += !w->keeps_no_calls;
        (void) pthread_mutex_unlock(&w->lock);
        dawdle(w);
        return r;
}

static inline int world_btrfs(void *to, const char *path)
{
        struct world *w = to;
        const struct disk *d = &disks[index_of(path + strlen("/dev/"))];
        bool is_whole;

        dawdle(w);
        (void) pthread_mutex_lock(&w->lock);
        w->told_btrfs[d->id] |= 1u << d->member;
        is_whole = w->told_btrfs[d->id] == 3;
        (void) pthread_mutex_unlock(&w->lock);
        return is_whole;
}

static inline void world_tell(void *to, const struct blkup_coldplug_event *e)
{
        struct world *w = to;
        size_t n;

        (void) pthread_mutex_lock(&w->lock);
        w->ready += e->kind == BLKUP_COLDPLUG_EVENT_READY;
        w->failed += e->kind == BLKUP_COLDPLUG_EVENT_FAILED;
        w->gone += e->kind == BLKUP_COLDPLUG_EVENT_GONE;
        w->warnings += e->kind == BLKUP_COLDPLUG_EVENT_WARNING;
        w->settled += e->kind == BLKUP_COLDPLUG_EVENT_SETTLED;
        n = strlen(w->told);
        (void) snprintf(w->told + n, sizeof(w->told) - n, "%s %s %s %s\n", blkup_coldplug_event_name(e->kind),
                        e->device ? e->device : "-", e->target ? e->target : "-", e->text ? e->text : "-");
        (void) pthread_cond_broadcast(&w->told_one);
        (void) pthread_mutex_unlock(&w->lock);
}

struct tables {
        struct blkup_fstab *fstab;
        struct blkup_crypttab *crypttab;
};

static inline struct tables parse_texts(const char *fstab, const char *crypttab)
{
        struct tables t = { NULL, NULL };

        assert_int_equal(blkup_fstab_parse(fstab, strlen(fstab), &t.fstab), 0);
        assert_int_equal(blkup_crypttab_parse(crypttab, strlen(crypttab), &t.crypttab), 0);
        return t;
}

static inline void free_tables(struct tables *t)
{
        blkup_fstab_free(t->fstab);
        (void) blkup_crypttab_free(t->crypttab);
}

static inline struct blkup_coldplug_ops ops_of(struct world *w)
{
        return (struct blkup_coldplug_ops){
                .to = w,
                .open = world_open,
                .status = world_status,
                .check = world_check,
                .mount = world_mount,
                .tool = world_tool,
                .btrfs = world_btrfs,
        };
}

static inline struct blkup_coldplug_settings settings_of(struct world *w, const struct tables *t,
                                                         const struct blkup_coldplug_ops *ops)
{
        return (struct blkup_coldplug_settings){
                .fstab = t->fstab,
                .crypttab = t->crypttab,
                .root = w->root.path,
                .ops = ops,
                .no_cage = true,
                .late_ns = 60000 * MS,
                .device_ns = 60000 * MS,
                .grace_ns = 500 * MS, /* a busy machine is slow: the late member must be there before */
                .uevent_fd = -1,
        };
}

/* ---- hot-plug ---- */

struct watcher {
        struct blkup_coldplug_settings s;
        struct blkup_coldplug *c;
        int code;
};

static inline void *watch(void *arg)
{
        struct watcher *x = arg;

        x->code = blkup_coldplug_run(&x->s, &x->c, NULL);
        return NULL;
}

static inline bool wait_until(struct world *w, unsigned *what, unsigned n)
{
        struct timespec until;
        bool is;
        int r = 0;

        (void) clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 20;
        (void) pthread_mutex_lock(&w->lock);
        while (*what < n && r == 0)
                r = pthread_cond_timedwait(&w->told_one, &w->lock, &until);
        is = *what >= n;
        (void) pthread_mutex_unlock(&w->lock);
        if (!is)
                print_error("%s", w->told);
        return is;
}

#endif
