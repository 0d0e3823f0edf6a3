/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The graph of coldplug on a made-up machine: a fake sysfs, devices in memory behind the fault injector, and
 * a recorder in the place of everything that writes. Each run has other delays and another number of workers;
 * what comes out must be the same, and what must come before what is looked at in each.
 */
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

static unsigned find_event(const struct world *w, const char *text)
{
        for (unsigned i = 0; i < w->n_events; i++)
                if (strcmp(w->events[i], text) == 0)
                        return i;
        return UINT32_MAX;
}

static void comes_before(const struct world *w, const char *a, const char *b)
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
                (void) pthread_mutex_lock(&w->lock);
                w->hanging++;
                while (!w->is_over)
                        (void) pthread_cond_wait(&w->go, &w->lock);
                w->hanging--;
                (void) pthread_cond_broadcast(&w->go);
                (void) pthread_mutex_unlock(&w->lock);
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

/* ---- runs ---- */

static int by_text(const void *a, const void *b)
{
        return strcmp(a, b);
}

/* What came out, as one text: the state of each entry, and what was written to, in no order. */
static void describe(struct world *w, const struct blkup_coldplug_result *r, char *out, size_t cap)
{
        char sorted[MAX_EVENTS][96];
        size_t n = 0;

        for (size_t i = 0; i < r->n_entries; i++) {
                const struct blkup_coldplug_entry *e = &r->entries[i];

                n += (size_t) snprintf(out + n, cap - n, "%s %d:", e->target ? e->target : e->source,
                                       e->is_ready);
                for (size_t k = 0; k < BLKUP_COLDPLUG_STAGES; k++)
                        n += (size_t) snprintf(out + n, cap - n, " %s",
                                               blkup_coldplug_state_name(e->steps[k].state));
                n += (size_t) snprintf(out + n, cap - n, "\n");
        }
        memcpy(sorted, w->events, sizeof(sorted));
        qsort(sorted, w->n_events, sizeof(sorted[0]), by_text);
        for (unsigned i = 0; i < w->n_events; i++)
                n += (size_t) snprintf(out + n, cap - n, "%s\n", sorted[i]);
        assert_true(n < cap);
}

static const char expected[] =
        UUID("01") " 0: done nothing to do nothing to do refused\n"
        "/srv 1: done done done done\n"
        "/srv/a 1: done done done done\n"
        "/srv/a/b 1: done left done done\n"
        "/garbage 0: done nothing to do nothing to do failed\n"
        "/errors 0: failed skipped skipped skipped\n"
        "/silent 1: done done nothing to do done\n"
        "/stick 0: done refused refused refused\n"
        "/fixed 1: done nothing to do nothing to do done\n"
        "/locked 0: done nothing to do nothing to do refused\n"
        "/twin 0: failed skipped skipped skipped\n"
        "/mapped 1: done done done done\n"
        "/dev/sdm 1: done nothing to do nothing to do done\n"
        "/dev/sdl 0: done nothing to do nothing to do refused\n"
        "/dev/sdp 0: done nothing to do nothing to do refused\n"
        "/broken 0: done done failed skipped\n"
        "/broken/child 0: done done nothing to do skipped\n"
        "/absent 0: skipped skipped skipped skipped\n"
        "/lost 0: failed skipped skipped skipped\n"
        "/there 1: done nothing to do nothing to do already\n"
        "/srv/tmp 1: done nothing to do nothing to do done\n"
        "/disc 1: done nothing to do nothing to do done\n"
        "check /dev/dm-0\n"
        "check /dev/sda\n"
        "check /dev/sdb\n"
        "check /dev/sdc\n"
        "check /dev/sdn\n"
        "checked /dev/dm-0\n"
        "checked /dev/sda\n"
        "checked /dev/sdb\n"
        "checked /dev/sdc\n"
        "checked /dev/sdn\n"
        "finish /dev/sdb\n"
        "mount /dev/dm-0 /mapped ext4 defaults\n"
        "mount /dev/sda /srv ext4 defaults\n"
        "mount /dev/sdb /srv/a ext4 noatime\n"
        "mount /dev/sdc /srv/a/b ext4 defaults\n"
        "mount /dev/sdf /silent ext4 defaults\n"
        "mount /dev/sdh /fixed ext4 defaults,ro\n"
        "mount /dev/sr0 /disc squashfs defaults,ro\n"
        "mount tmpfs /srv/tmp tmpfs size=1m\n"
        "mounted /disc\n"
        "mounted /fixed\n"
        "mounted /mapped\n"
        "mounted /silent\n"
        "mounted /srv\n"
        "mounted /srv/a\n"
        "mounted /srv/a/b\n"
        "mounted /srv/tmp\n"
        "swap /dev/sdm 0x38005\n";

static void check_order(const struct world *w)
{
        comes_before(w, "mounted /srv", "mount /dev/sdb /srv/a ext4 noatime");
        comes_before(w, "mounted /srv", "mount tmpfs /srv/tmp tmpfs size=1m");
        comes_before(w, "mounted /srv/a", "mount /dev/sdc /srv/a/b ext4 defaults");
        comes_before(w, "finish /dev/sdb", "check /dev/sdb");
        comes_before(w, "checked /dev/sdb", "mount /dev/sdb /srv/a ext4 noatime");
        /* The first number of fs_passno before the second. */
        comes_before(w, "checked /dev/sda", "check /dev/sdb");
        comes_before(w, "checked /dev/sda", "check /dev/dm-0");
        comes_before(w, "checked /dev/sda", "mount /dev/sda /srv ext4 defaults");
}

static void run_once(struct world *w, struct blkup_coldplug_settings *s, struct blkup_coldplug **ret)
{
        const struct blkup_coldplug_ops ops = { .to = w,
                                                .open = world_open,
                                                .status = world_status,
                                                .finish = world_finish,
                                                .check = world_check,
                                                .mount = world_mount,
                                                .swap = world_swap };
        struct blkup_error err = { 0 };
        int r;

        s->root = w->root.path;
        s->ops = &ops;
        w->n_events = 0;
        r = blkup_coldplug_run(s, ret, &err);
        if (r < 0)
                print_error("%s\n", err.message);
        assert_int_equal(r, 0);
        have_reasons(blkup_coldplug_result(*ret));
}

static struct blkup_fstab *parse_fstab(const char *text)
{
        struct blkup_fstab *t = NULL;

        assert_int_equal(blkup_fstab_parse(text, strlen(text), &t), 0);
        assert_int_equal(t->n_bad, 0);
        return t;
}

static void same_result_in_any_order(void **state)
{
        struct world w;
        struct blkup_fstab *t = parse_fstab(fstab_text);
        unsigned runs = getenv("BLKUP_SOAK") ? 2000 : 300;
        char out[8192];

        (void) state;
        start_world(&w);
        w.seed = (uint64_t) time(NULL);
        print_message("seed %" PRIu64 ", %u runs\n", w.seed, runs);
        for (unsigned i = 0; i < runs; i++) {
                struct blkup_coldplug_settings s = {
                        .fstab = t,
                        .finish = BLKUP_COLDPLUG_FINISH_AUTO,
                        .workers = 1 + i % 17,
                        /* Everybody is waited for: how fast this machine is at the moment must not matter. */
                        .late_ns = 60000 * MS,
                        .device_ns = 60000 * MS,
                        .no_cage = i % 50 > 0,
                        /* 500,000 groups are 20 s by what their status takes; 20 groups at the delays of
                         * dawdle() some ms, and on a machine that is busy some hundred. */
                        .finish_budget_ns = 19000 * MS,
                };
                struct blkup_coldplug *c = NULL;

                w.delay_us = i % 4 * 700;
                run_once(&w, &s, &c);
                describe(&w, blkup_coldplug_result(c), out, sizeof(out));
                if (strcmp(out, expected) != 0)
                        print_error("run %u\n", i);
                assert_string_equal(out, expected);
                check_order(&w);
                assert_true(blkup_coldplug_result(c)->n_path > 0);
                blkup_coldplug_unref(c);
        }
        blkup_fstab_free(t);
        end_world(&w);
}

/* As the OOM killer does: a child that ends is no word about the devices that are in its hands. */
static void who_kills_the_cage_changes_nothing(void **state)
{
        struct world w;
        struct blkup_fstab *t = parse_fstab(fstab_text);
        char out[8192];

        (void) state;
        start_world(&w);
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(disks); i++) {
                struct blkup_coldplug_settings s = {
                        .fstab = t, .finish = BLKUP_COLDPLUG_FINISH_AUTO, .workers = 6,
                        .late_ns = 60000 * MS, .device_ns = 60000 * MS, .finish_budget_ns = 19000 * MS,
                };
                struct blkup_coldplug *c = NULL;

                w.kills_at = disks[i].name;
                run_once(&w, &s, &c);
                describe(&w, blkup_coldplug_result(c), out, sizeof(out));
                assert_string_equal(out, expected);
                blkup_coldplug_unref(c);
        }
        print_message("%u killed%s\n", w.n_killed,
                      w.n_killed == 0 ? ": no seccomp, or a kernel that does not list children" : "");
        blkup_fstab_free(t);
        end_world(&w);
}

static const struct blkup_coldplug_entry *entry_of(const struct blkup_coldplug_result *r, const char *target)
{
        for (size_t i = 0; i < r->n_entries; i++)
                if (r->entries[i].target && strcmp(r->entries[i].target, target) == 0)
                        return &r->entries[i];
        fail_msg("no entry %s", target);
        return NULL;
}

/* A device that never answers: named, and everybody else is done long before it is given up. */
static void silence_delays_nobody(void **state)
{
        struct world w;
        struct blkup_fstab *t = parse_fstab(fstab_text);
        const struct blkup_coldplug_result *r;

        (void) state;
        start_world(&w);
        w.may_hang = true;
        for (unsigned round = 0; round < 3; round++) {
                struct blkup_coldplug_settings s = {
                        .fstab = t, .finish = BLKUP_COLDPLUG_FINISH_AUTO, .late_ns = 100 * MS,
                        .device_ns = 3000 * MS, .no_cage = round > 0,
                };
                struct blkup_coldplug *c = NULL;
                unsigned last;

                run_once(&w, &s, &c);
                r = blkup_coldplug_result(c);
                assert_int_equal(entry_of(r, "/silent")->steps[BLKUP_COLDPLUG_PROBE].error, -ETIMEDOUT);
                assert_false(entry_of(r, "/silent")->is_ready);
                assert_non_null(
                        strstr(entry_of(r, "/silent")->steps[BLKUP_COLDPLUG_PROBE].text, "no answer"));
                assert_true(entry_of(r, "/srv/a/b")->is_ready);
                assert_int_equal(r->n_silent, 1);
                last = find_event(&w, "mounted /srv/a/b");
                assert_true(last != UINT32_MAX);
                assert_true(w.at_ns[last] - r->start_ns < 2000 * MS);
                assert_true(r->end_ns - r->start_ns >= 3000 * MS);
                /* Its thread is still in the call, and what that uses stays. */
                blkup_coldplug_unref(c);
        }
        blkup_fstab_free(t);
        end_world(&w);
}

/* What was not to be read is named with its reason. */
static void trouble_is_named(void **state)
{
        struct world w;
        struct blkup_fstab *t = parse_fstab(fstab_text);
        struct blkup_coldplug_settings s = { .fstab = t, .late_ns = 60000 * MS, .device_ns = 60000 * MS };
        struct blkup_coldplug *c = NULL;
        const struct blkup_coldplug_result *r;

        (void) state;
        start_world(&w);
        run_once(&w, &s, &c);
        r = blkup_coldplug_result(c);
        assert_non_null(strstr(entry_of(r, "/errors")->steps[0].text, "/dev/sde: "));
        assert_non_null(strstr(entry_of(r, "/errors")->steps[0].text, "rror"));
        assert_non_null(strstr(entry_of(r, "/twin")->steps[0].text, "/dev/sdj and /dev/sdk both carry"));
        assert_non_null(strstr(entry_of(r, "/stick")->steps[3].text, "removable"));
        assert_int_equal(entry_of(r, "/disc")->steps[3].state, BLKUP_COLDPLUG_DONE);
        assert_int_not_equal(find_event(&w, "mount /dev/sr0 /disc squashfs defaults,ro"), UINT32_MAX);
        assert_non_null(strstr(entry_of(r, "/locked")->steps[3].text, "crypto_LUKS"));
        assert_non_null(strstr(entry_of(r, "/broken")->steps[2].text, "fsck.ext4 answered 4: words of fsck"));
        assert_non_null(strstr(entry_of(r, "/broken/child")->steps[3].text, "needs /broken"));
        assert_non_null(strstr(entry_of(r, "/lost")->steps[0].text, "no device"));
        assert_non_null(strstr(entry_of(r, "/srv/a")->steps[2].text, "repaired"));
        /* `finish` was never: no table was touched. */
        assert_int_equal(find_event(&w, "finish /dev/sdb"), UINT32_MAX);
        blkup_coldplug_unref(c);
        blkup_fstab_free(t);
        end_world(&w);
}

static void nothing_in_a_dry_run(void **state)
{
        struct world w;
        struct blkup_fstab *t = parse_fstab(fstab_text);
        struct blkup_coldplug_settings s = { .fstab = t,
                                             .finish = BLKUP_COLDPLUG_FINISH_ALWAYS,
                                             .dry_run = true,
                                             .late_ns = 60000 * MS,
                                             .device_ns = 60000 * MS };
        struct blkup_coldplug *c = NULL;

        (void) state;
        start_world(&w);
        run_once(&w, &s, &c);
        for (unsigned i = 0; i < w.n_events; i++)
                assert_true(strncmp(w.events[i], "mount", 5) ==
                            0); /* the mount room has a dry run of its own */
        assert_int_equal(entry_of(blkup_coldplug_result(c), "/srv/a")->steps[BLKUP_COLDPLUG_MOUNT].state,
                         BLKUP_COLDPLUG_WOULD);
        assert_int_equal(entry_of(blkup_coldplug_result(c), "/srv/a")->steps[BLKUP_COLDPLUG_FINISH].state,
                         BLKUP_COLDPLUG_WOULD);
        blkup_coldplug_unref(c);
        blkup_fstab_free(t);
        end_world(&w);
}

/* The place of the image is told; what is on the device is a file system like any other. */
static void image_in_a_swap_file_forbids_writes(void **state)
{
        static uint8_t disk[4 * 65536];
        size_t page = (size_t) sysconf(_SC_PAGESIZE);
        struct world w;
        struct blkup_fstab *t = parse_fstab(UUID("02") " /a ext4 defaults 0 2\n");
        struct blkup_coldplug_settings s = { .fstab = t, .finish = BLKUP_COLDPLUG_FINISH_ALWAYS,
                                             .late_ns = 60000 * MS, .device_ns = 60000 * MS };
        struct blkup_coldplug *c = NULL;

        (void) state;
        assert_true(3 * page <= sizeof(disk));
        memset(disk, 0, sizeof(disk));
        memcpy(disk + 3 * page - 10, "S1SUSPEND", 10);
        start_world(&w);
        fake_root_write(&w.root, "dev/sdb", disk, sizeof(disk));
        run_once(&w, &s, &c); /* nobody tells where it is */
        assert_null(blkup_coldplug_result(c)->hibernation);
        assert_true(find_event(&w, "finish /dev/sdb") != UINT32_MAX);
        blkup_coldplug_unref(c);
        fake_root_file(&w.root, "sys/power/resume_offset", "2\n");
        run_once(&w, &s, &c);
        assert_string_equal(blkup_coldplug_result(c)->hibernation, "/dev/sdb");
        assert_int_equal(find_event(&w, "finish /dev/sdb"), UINT32_MAX);
        assert_int_equal(find_event(&w, "check /dev/sdb"), UINT32_MAX);
        blkup_coldplug_unref(c);
        blkup_fstab_free(t);
        end_world(&w);
}

/* A hibernation image forbids tables and checks; the mount is asked, which knows what may be mounted. */
static void hibernation_forbids_writes(void **state)
{
        struct world w;
        struct blkup_fstab *t = parse_fstab(UUID("02") " /a ext4 defaults 0 2\n/dev/sdm none swap sw 0 0\n");
        struct blkup_coldplug_settings s = { .fstab = t, .finish = BLKUP_COLDPLUG_FINISH_ALWAYS,
                                             .late_ns = 60000 * MS, .device_ns = 60000 * MS };
        struct blkup_coldplug *c = NULL;

        (void) state;
        start_world(&w);
        make_area(areas[13], &(struct disk){ .content = HIBERNATED });
        run_once(&w, &s, &c);
        assert_string_equal(blkup_coldplug_result(c)->hibernation, "/dev/sdm");
        assert_int_equal(find_event(&w, "finish /dev/sdb"), UINT32_MAX);
        assert_int_equal(find_event(&w, "check /dev/sdb"), UINT32_MAX);
        assert_int_equal(blkup_coldplug_result(c)->entries[0].steps[BLKUP_COLDPLUG_FINISH].state,
                         BLKUP_COLDPLUG_REFUSED);
        assert_int_equal(blkup_coldplug_result(c)->entries[1].steps[BLKUP_COLDPLUG_MOUNT].state,
                         BLKUP_COLDPLUG_REFUSED);
        blkup_coldplug_unref(c);
        s.ignore_hibernation = true;
        run_once(&w, &s, &c);
        /* The area with the image itself in any case. */
        assert_int_equal(blkup_coldplug_result(c)->entries[1].steps[BLKUP_COLDPLUG_MOUNT].state,
                         BLKUP_COLDPLUG_REFUSED);
        assert_non_null(strstr(blkup_coldplug_result(c)->entries[1].steps[BLKUP_COLDPLUG_MOUNT].text,
                               "it holds a hibernation image"));
        assert_true(find_event(&w, "finish /dev/sdb") != UINT32_MAX);
        blkup_coldplug_unref(c);
        make_area(areas[13], &disks[13]);
        blkup_fstab_free(t);
        end_world(&w);
}

/* --only, --mount, and automatic mounts being nosuid and nodev. */
static void only_and_places(void **state)
{
        static const struct blkup_coldplug_place places[] = { { UUID("03"), "/place" } };
        static const char *const only[] = { UUID("02"), "LABEL=none", "/dev/sdc" };
        struct world w;
        struct blkup_fstab *t = parse_fstab(fstab_text);
        struct blkup_coldplug_settings s = { .fstab = t,
                                             .places = places,
                                             .n_places = 1,
                                             .only = only,
                                             .n_only = 3,
                                             .no_check = true,
                                             .late_ns = 60000 * MS,
                                             .device_ns = 60000 * MS };
        struct blkup_coldplug *c = NULL;

        (void) state;
        start_world(&w);
        run_once(&w, &s, &c);
        assert_true(find_event(&w, "mount /dev/sdc /place ext4 nosuid,nodev") != UINT32_MAX);
        assert_int_equal(find_event(&w, "mount /dev/sda /srv ext4 defaults"), UINT32_MAX);
        assert_true(entry_of(blkup_coldplug_result(c), "/srv")->is_left_out);
        assert_true(find_event(&w, "mount /dev/sdb /srv/a ext4 noatime") != UINT32_MAX);
        blkup_coldplug_unref(c);
        blkup_fstab_free(t);
        end_world(&w);
}

struct late {
        struct world *w;
};

static void *plug_in(void *arg)
{
        struct late *l = arg;
        struct fake_root whole;
        char from[PATH_MAX], to[PATH_MAX];

        blkup_sleep_until_ns(blkup_now_ns() + 200 * MS, NULL);
        make_machine(&whole, "sdo");
        (void) snprintf(from, sizeof(from), "%s/sys/devices/block/sdo", whole.path);
        (void) snprintf(to, sizeof(to), "%s/sys/devices/block/sdo", l->w->root.path);
        assert_int_equal(rename(from, to), 0);
        (void) snprintf(from, sizeof(from), "%s/sys/class/block/sdo", whole.path);
        (void) snprintf(to, sizeof(to), "%s/sys/class/block/sdo", l->w->root.path);
        assert_int_equal(rename(from, to), 0);
        fake_root_remove(&whole);
        return NULL;
}

/* A device that comes while it is waited for. */
static void wait_for_a_device(void **state)
{
        struct world w;
        struct late l = { .w = &w };
        struct blkup_fstab *t =
                parse_fstab(UUID("0e") " /late ext4 defaults 0 0\n" UUID("ee") " /never ext4 defaults 0 0\n");
        struct blkup_coldplug_settings s = { .fstab = t, .wait_ns = 1500 * MS, .late_ns = 60000 * MS,
                                             .device_ns = 60000 * MS };
        struct blkup_coldplug *c = NULL;
        pthread_t thread;

        (void) state;
        start_world(&w);
        fake_root_remove(&w.root);
        make_machine(&w.root, "sda");
        assert_int_equal(pthread_create(&thread, NULL, plug_in, &l), 0);
        run_once(&w, &s, &c);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(entry_of(blkup_coldplug_result(c), "/late")->is_ready);
        assert_int_equal(entry_of(blkup_coldplug_result(c), "/never")->steps[0].error, -ENOENT);
        assert_true(blkup_coldplug_result(c)->end_ns - blkup_coldplug_result(c)->start_ns >= 1500 * MS);
        blkup_coldplug_unref(c);
        blkup_fstab_free(t);
        end_world(&w);
}

/* An absent disk with a lower fs_passno, or with the same mount point earlier in the file, and a silent one:
 * who is there is mounted long before anybody gives them up. */
static void who_is_there_waits_for_nobody(void **state)
{
        struct world w;
        struct blkup_fstab *t = parse_fstab(UUID("cc") " /a ext4 defaults 0 1\n"
                                            UUID("cd") " /same ext4 nofail 0 0\n"
                                            UUID("06") " /silent ext4 defaults 0 1\n"
                                            UUID("01") " /b ext4 defaults 0 2\n"
                                            UUID("02") " /same ext4 nofail 0 3\n");
        struct blkup_coldplug_settings s = { .fstab = t, .wait_ns = 4000 * MS, .device_ns = 3000 * MS };
        struct blkup_coldplug *c = NULL;
        const struct blkup_coldplug_result *r;

        (void) state;
        start_world(&w);
        w.may_hang = true;
        run_once(&w, &s, &c);
        r = blkup_coldplug_result(c);
        assert_false(r->entries[0].is_ready || r->entries[1].is_ready || r->entries[2].is_ready);
        for (size_t i = 3; i < 5; i++) {
                assert_true(r->entries[i].is_ready);
                assert_true(r->entries[i].steps[BLKUP_COLDPLUG_MOUNT].end_ns < r->start_ns + 2900 * MS);
        }
        comes_before(&w, "checked /dev/sda", "check /dev/sdb");
        blkup_coldplug_unref(c);
        blkup_fstab_free(t);
        end_world(&w);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(who_is_there_waits_for_nobody),
                cmocka_unit_test(trouble_is_named),
                cmocka_unit_test(nothing_in_a_dry_run),
                cmocka_unit_test(hibernation_forbids_writes),
                cmocka_unit_test(image_in_a_swap_file_forbids_writes),
                cmocka_unit_test(only_and_places),
                cmocka_unit_test(wait_for_a_device),
                cmocka_unit_test(silence_delays_nobody),
                cmocka_unit_test(who_kills_the_cage_changes_nothing),
                cmocka_unit_test(same_result_in_any_order),
        };

        make_areas();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
