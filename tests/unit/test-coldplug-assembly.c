/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Assembly and hot-plug on a made-up machine: a fake sysfs, devices in memory, and stubs in the place of
 * mdadm, lvm, cryptsetup and the kernel's btrfs, which make the devices that the real ones would. Each run
 * has another order, other delays and another number of workers; what comes out must be the same.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <blkup/coldplug.h>

#include "base/clock.h"
#include "block/memory.h"
#include "bringup/crypttab.h"
#include "cold-disks.h"
#include "fake-root.h"
#include "host/uevent.h"
#include "trace/path.h"

#define MS UINT64_C(1000000)

#define UUID(n) "UUID=00000000-0000-4000-8000-0000000000" n

static const char fstab_text[] =
        UUID("01") " /plain ext4 defaults 0 0\n"
        UUID("02") " /array ext4 defaults 0 0\n"
        UUID("03") " /degraded ext4 defaults 0 0\n"
        UUID("04") " /group ext4 defaults 0 0\n"
        "/dev/mapper/crypt /locked ext4 defaults 0 0\n"
        UUID("06") " /stacked ext4 defaults 0 0\n"
        UUID("b1") " /whole btrfs defaults 0 0\n"
        UUID("b2") " /half btrfs defaults 0 0\n"
        "/dev/mapper/half-lv /never ext4 defaults 0 0\n";
#define N_ENTRIES 9

static const char crypttab_text[] = "crypt " UUID("10") " /key luks,discard\n"
                                                        "other " UUID("99") " /key\n";

/* ---- the machine ---- */

#define MAX_CALLS 64

struct world {
        struct fake_root root, stock; /* stock: the folders of devices that are not there */
        pthread_mutex_t lock;
        uint64_t seed, delay_us;
        int uevents; /* our end; -1: none */
        bool is_here[N_DISKS];
        unsigned members_of[256], told_btrfs[256];
        bool has_no_tools;
        char calls[MAX_CALLS][256];
        unsigned n_calls;
        /* What was told. */
        unsigned ready, failed, gone, warnings;
        bool is_settled;
        char told[4096];
};

/* Most of this runs in threads of the pool, where no assertion of cmocka may fail. */
#define MUST(x)                                                                                              \
        do {                                                                                                 \
                if (!(x)) {                                                                                  \
                        (void) fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                       \
                        abort();                                                                             \
                }                                                                                            \
        } while (0)

static size_t index_of(const char *name)
{
        for (size_t i = 0; i < N_DISKS; i++)
                if (strcmp(disks[i].name, name) == 0)
                        return i;
        MUST(false); /* no such disk */
        return 0;
}

static void attribute(const struct fake_root *f, const char *name, const char *file, const char *text)
{
        char path[PATH_MAX], line[512];

        (void) snprintf(path, sizeof(path), "sys/devices/block/%s/%s", name, file);
        (void) snprintf(line, sizeof(line), "%s\n", text);
        fake_root_file(f, path, line);
}

static void make_folder(const struct fake_root *f, size_t i)
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

static uint64_t draw(struct world *w)
{
        w->seed = w->seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        return w->seed >> 33;
}

static void dawdle(struct world *w)
{
        uint64_t x;

        (void) pthread_mutex_lock(&w->lock);
        x = draw(w);
        (void) pthread_mutex_unlock(&w->lock);
        if (w->delay_us > 0 && x % 3 > 0)
                blkup_sleep_until_ns(blkup_now_ns() + (x / 3 % w->delay_us) * 1000, NULL);
}

static void say(struct world *w, const char *action, size_t i)
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

static void move(struct world *w, const struct fake_root *from, const struct fake_root *to, const char *name)
{
        char a[PATH_MAX], b[PATH_MAX];

        (void) w;
        (void) snprintf(a, sizeof(a), "%s/sys/devices/block/%s", from->path, name);
        (void) snprintf(b, sizeof(b), "%s/sys/devices/block/%s", to->path, name);
        MUST(rename(a, b) == 0);
}

static void plug(struct world *w, size_t i, bool tell)
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

static void unplug(struct world *w, size_t i, bool tell)
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

static void start_world(struct world *w)
{
        memset(w, 0, sizeof(*w));
        (void) pthread_mutex_init(&w->lock, NULL);
        w->uevents = -1;
        fake_root_make(&w->root);
        fake_root_make(&w->stock);
        fake_root_folder(&w->root, "sys/devices/block");
        fake_root_folder(&w->root, "sys/class/block");
        fake_root_folder(&w->root, "sys/dev/block");
        fake_root_file(&w->root, "proc/self/mountinfo", "20 1 0:20 / / rw - rootfs rootfs rw\n");
        for (size_t i = 0; i < N_DISKS; i++) {
                make_area(areas[i], &disks[i]);
                make_folder(&w->stock, i);
        }
}

/* As it was before anything was assembled; with the disks, or without any. */
static void reset(struct world *w, bool with_disks)
{
        for (size_t i = 0; i < N_DISKS; i++)
                if (with_disks && !disks[i].is_made)
                        plug(w, i, false);
                else
                        unplug(w, i, false);
        memset(w->members_of, 0, sizeof(w->members_of));
        memset(w->told_btrfs, 0, sizeof(w->told_btrfs));
        w->n_calls = w->ready = w->failed = w->gone = w->warnings = 0;
        w->is_settled = false;
        *w->told = '\0';
}

static void end_world(struct world *w)
{
        fake_root_remove(&w->root);
        fake_root_remove(&w->stock);
}

/* ---- what stands in for the machine ---- */

static int world_open(void *to, const char *path, struct blkup_block **ret, struct blkup_error *err)
{
        struct world *w = to;
        size_t i = index_of(path + strlen("/dev/"));
        struct blkup_block *b;

        dawdle(w);
        if (!w->is_here[i])
                return blkup_fail(err, -ENXIO, "%s: gone", path);
        b = blkup_block_memory_new(SIZE, 512);
        if (!b)
                return -ENOMEM;
        if (blkup_block_memory_add(b, 0, areas[i], AREA) < 0) {
                (void) blkup_block_close(b);
                return -ENOMEM;
        }
        *ret = b;
        return 0;
}

static int world_status(void *to, const char *path, struct blkup_lazyinit_status *ret,
                        struct blkup_error *err)
{
        (void) to;
        (void) path;
        (void) err;
        *ret = (struct blkup_lazyinit_status){ .groups = 1 };
        return 0;
}

static int world_check(void *to, const char *type, const char *path, char *text, size_t cap)
{
        (void) to;
        (void) type;
        (void) path;
        (void) text;
        (void) cap;
        return 0;
}

static int world_mount(void *to, const struct blkup_mount_request *q, struct blkup_mount_result *ret)
{
        struct world *w = to;

        dawdle(w);
        (void) pthread_mutex_lock(&w->lock);
        MUST(w->n_calls < MAX_CALLS);
        (void) snprintf(w->calls[w->n_calls++], sizeof(w->calls[0]), "mount %s %s", q->target, q->types);
        (void) pthread_mutex_unlock(&w->lock);
        *ret = (struct blkup_mount_result){ .outcome = BLKUP_MOUNT_DONE };
        return 0;
}

static int stub_md(struct world *w, const char *const *argv, char *out, size_t cap)
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
        (void) snprintf(out, cap, "MD_DEVICE=md%d\nMD_DEVNAME=x\nMD_FOREIGN=no\nMD_STARTED=%s\n",
                        d->set - 'A', n == 2 ? "yes" : "no");
        return 0;
}

static int stub_lvm(struct world *w, const char *const *argv)
{
        const char *name = NULL;
        unsigned devices = 0;

        MUST(strcmp(argv[1], "vgchange") == 0);
        MUST(strcmp(argv[2], "-aay") == 0);
        MUST(strcmp(argv[3], "--noudevsync") == 0);
        for (unsigned i = 4; argv[i]; i++)
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

static int stub_luks(struct world *w, const char *const *argv)
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

static int world_tool(void *to, const char *const *argv, bool may_ask, char *out, size_t out_cap, char *text,
                      size_t cap)
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
        MUST(w->n_calls < MAX_CALLS);
        for (unsigned i = 0; argv[i]; i++)
                if (strcmp(argv[0], "lvm") != 0 || i < 3 || !argv[i + 1])
                        n += (size_t) snprintf(w->calls[w->n_calls] + n, sizeof(w->calls[0]) - n, "%s ",
                                               argv[i]);
        w->n_calls++;
        (void) pthread_mutex_unlock(&w->lock);
        dawdle(w);
        return r;
}

static int world_btrfs(void *to, const char *path)
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

static void world_tell(void *to, const struct blkup_coldplug_event *e)
{
        struct world *w = to;
        size_t n;

        (void) pthread_mutex_lock(&w->lock);
        w->ready += e->kind == BLKUP_COLDPLUG_EVENT_READY;
        w->failed += e->kind == BLKUP_COLDPLUG_EVENT_FAILED;
        w->gone += e->kind == BLKUP_COLDPLUG_EVENT_GONE;
        w->warnings += e->kind == BLKUP_COLDPLUG_EVENT_WARNING;
        w->is_settled = w->is_settled || e->kind == BLKUP_COLDPLUG_EVENT_SETTLED;
        n = strlen(w->told);
        (void) snprintf(w->told + n, sizeof(w->told) - n, "%s %s %s %s\n", blkup_coldplug_event_name(e->kind),
                        e->device ? e->device : "-", e->target ? e->target : "-", e->text ? e->text : "-");
        (void) pthread_mutex_unlock(&w->lock);
}

/* ---- runs ---- */

static int by_text(const void *a, const void *b)
{
        return strcmp(a, b);
}

static void add_sets(const struct blkup_coldplug_result *r, char *out, size_t cap)
{
        char lines[16][256];
        size_t n = strlen(out);

        assert_true(r->n_sets <= 16);
        for (size_t i = 0; i < r->n_sets; i++) {
                const struct blkup_coldplug_set *s = r->sets[i];

                (void) snprintf(lines[i], sizeof(lines[i]), "%s %s %zu/%zu %d %s",
                                blkup_coldplug_set_name(s->kind), s->name ? s->name : s->uuid, s->n_members,
                                s->n_expected, s->is_degraded, blkup_coldplug_state_name(s->step.state));
        }
        qsort(lines, r->n_sets, sizeof(lines[0]), by_text);
        for (size_t i = 0; i < r->n_sets; i++)
                n += (size_t) snprintf(out + n, cap - n, "%s\n", lines[i]);
        assert_true(n < cap);
}

static void describe(struct world *w, const struct blkup_coldplug_result *r, char *out, size_t cap)
{
        size_t n = 0;

        for (size_t i = 0; i < r->n_entries; i++)
                n += (size_t) snprintf(out + n, cap - n, "%s %d\n", r->entries[i].target,
                                       r->entries[i].is_ready);
        *(out + n) = '\0';
        add_sets(r, out, cap);
        n = strlen(out);
        qsort(w->calls, w->n_calls, sizeof(w->calls[0]), by_text);
        for (unsigned i = 0; i < w->n_calls; i++)
                n += (size_t) snprintf(out + n, cap - n, "%s\n", w->calls[i]);
        assert_true(n < cap);
}

static const char expected[] =
        "/plain 1\n/array 1\n/degraded 1\n/group 1\n/locked 1\n/stacked 1\n/whole 1\n/half 0\n/never 0\n"
        "LUKS crypt 1/1 0 done\n"
        "LVM half 1/2 0 left\n"
        "LVM stack 1/1 0 done\n"
        "LVM twin 1/1 0 refused\n"
        "LVM vg 2/2 0 done\n"
        "btrfs 00000000-0000-4000-8000-0000000000b1 2/0 0 done\n"
        "btrfs 00000000-0000-4000-8000-0000000000b2 1/0 0 left\n"
        "md md0 2/0 0 done\n"
        "md md1 1/0 1 done\n"
        "md md2 2/0 0 done\n"
        "cryptsetup open --type luks --allow-discards --batch-mode --key-file /key /dev/sdj crypt \n"
        "lvm vgchange -aay stack \n"
        "lvm vgchange -aay vg \n"
        "mdadm --incremental --export /dev/sdb \n"
        "mdadm --incremental --export /dev/sdc \n"
        "mdadm --incremental --export /dev/sdd \n"
        "mdadm --incremental --export /dev/sdo \n"
        "mdadm --incremental --export /dev/sdp \n"
        "mdadm --run /dev/md1 \n"
        "mount /array ext4\n"
        "mount /degraded ext4\n"
        "mount /group ext4\n"
        "mount /locked ext4\n"
        "mount /plain ext4\n"
        "mount /stacked ext4\n"
        "mount /whole btrfs\n";

struct tables {
        struct blkup_fstab *fstab;
        struct blkup_crypttab *crypttab;
};

static struct tables parse_tables(void)
{
        struct tables t = { NULL, NULL };

        assert_int_equal(blkup_fstab_parse(fstab_text, strlen(fstab_text), &t.fstab), 0);
        assert_int_equal(t.fstab->n, N_ENTRIES);
        assert_int_equal(blkup_crypttab_parse(crypttab_text, strlen(crypttab_text), &t.crypttab), 0);
        assert_int_equal(t.crypttab->n, 2);
        return t;
}

static void free_tables(struct tables *t)
{
        blkup_fstab_free(t->fstab);
        (void) blkup_crypttab_free(t->crypttab);
}

static struct blkup_coldplug_ops ops_of(struct world *w)
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

static struct blkup_coldplug_settings settings_of(struct world *w, const struct tables *t,
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

static unsigned runs(void)
{
        const char *text = getenv("BLKUP_TEST_RUNS");

        return text ? (unsigned) strtoul(text, NULL, 10) : getenv("BLKUP_SOAK") ? 1000 : 30;
}

/* The trace has a span for each set that was made, and the path of the trace is the result's. */
static void check_path(const struct blkup_coldplug_result *r, struct blkup_trace *t)
{
        struct blkup_path_step *path = NULL;
        size_t n = 0, at = 0, n_made = 0, n_spans = 0;
        uint64_t sum_ns = 0;

        for (size_t i = 0; i < r->n_sets; i++)
                n_made += r->sets[i]->step.end_ns > r->sets[i]->step.start_ns && r->sets[i]->step.start_ns;
        for (uint64_t i = 0; i < blkup_trace_count(t); i++) {
                struct blkup_span s;

                assert_int_equal(blkup_trace_get(t, i, &s), 0);
                n_spans += s.kind == BLKUP_SPAN_ASSEMBLE;
        }
        assert_true(n_made > 0);
        assert_int_equal(n_spans, n_made);
        assert_int_equal(blkup_trace_path(t, &path, &n), 0);
        for (size_t i = 0; i < n; i++) {
                struct blkup_span s;

                assert_int_equal(blkup_trace_get(t, path[i].node, &s), 0);
                sum_ns += s.end_ns - s.start_ns + path[i].wait_ns;
                if (path[i].wait_ns > BLKUP_PATH_GAP_NS) {
                        assert_true(at < r->n_path);
                        assert_int_equal(r->path[at++].ns, path[i].wait_ns);
                }
                if (!blkup_path_is_told(s.kind, s.end_ns - s.start_ns))
                        continue;
                assert_true(at < r->n_path);
                assert_string_equal(r->path[at].stage, s.name);
                assert_string_equal(r->path[at].object, s.lane);
                assert_int_equal(r->path[at++].ns, s.end_ns - s.start_ns);
        }
        assert_int_equal(at, r->n_path);
        /* It is all of the time from the beginning to the end of the last step: nothing is left unexplained.
         */
        if (n > 0) {
                struct blkup_span s;

                assert_int_equal(blkup_trace_get(t, path[n - 1].node, &s), 0);
                assert_int_equal(sum_ns, s.end_ns - r->start_ns);
        }
        free(path);
}

static void same_result_in_any_order(void **state)
{
        struct world w;
        struct tables t = parse_tables();
        char out[8192];

        (void) state;
        start_world(&w);
        w.seed = (uint64_t) time(NULL);
        print_message("seed %" PRIu64 ", %u runs\n", w.seed, runs());
        for (unsigned i = 0; i < runs(); i++) {
                const struct blkup_coldplug_ops ops = ops_of(&w);
                struct blkup_coldplug_settings s = settings_of(&w, &t, &ops);
                struct blkup_coldplug *c = NULL;

                s.workers = 1 + i % 17;
                s.no_cage = i % 50 > 0;
                s.trace = blkup_trace_new(0);
                w.delay_us = i % 4 * 700;
                reset(&w, true);
                assert_int_equal(blkup_coldplug_run(&s, &c, NULL), 0);
                check_path(blkup_coldplug_result(c), s.trace);
                describe(&w, blkup_coldplug_result(c), out, sizeof(out));
                if (strcmp(out, expected) != 0)
                        print_error("run %u\n", i);
                assert_string_equal(out, expected);
                blkup_coldplug_unref(c);
                (void) blkup_trace_unref(s.trace);
        }
        free_tables(&t);
        end_world(&w);
}

/* ---- hot-plug ---- */

struct watcher {
        struct blkup_coldplug_settings s;
        struct blkup_coldplug *c;
        int code;
};

static void *watch(void *arg)
{
        struct watcher *x = arg;

        x->code = blkup_coldplug_run(&x->s, &x->c, NULL);
        return NULL;
}

static bool wait_until(struct world *w, unsigned *what, unsigned n)
{
        uint64_t until = blkup_now_ns() + 20000 * MS;
        bool is = false;

        while (!is && blkup_now_ns() < until) {
                (void) pthread_mutex_lock(&w->lock);
                is = *what >= n;
                (void) pthread_mutex_unlock(&w->lock);
                if (!is)
                        blkup_sleep_until_ns(blkup_now_ns() + MS, NULL);
        }
        if (!is)
                print_error("%s", w->told);
        return is;
}

/* Disks come one after the other; events are lost, come twice, or are no events. */
static void plug_in_any_order(struct world *w, unsigned run)
{
        static char large[BLKUP_UEVENT_MAX_BYTES + 1];
        size_t order[N_DISKS], n = 0;
        bool loses = run % 3 == 2;

        for (size_t i = 0; i < N_DISKS; i++)
                if (!disks[i].is_made)
                        order[n++] = i;
        for (size_t i = n - 1; i > 0; i--) {
                size_t k = draw(w) % (i + 1), keep = order[i];

                order[i] = order[k];
                order[k] = keep;
        }
        for (size_t i = 0; i < n; i++) {
                plug(w, order[i], !loses || draw(w) % 2);
                if (draw(w) % 4 == 0)
                        say(w, "change", order[i]);
                if (draw(w) % 8 == 0)
                        (void) !send(w->uevents, "add@", 5, MSG_DONTWAIT);
                dawdle(w);
        }
        /* The end of what was lost: the kernel says that there was something. */
        if (loses)
                assert_int_equal(send(w->uevents, large, sizeof(large), 0), sizeof(large));
}

static void hot_plug_in_any_order(void **state)
{
        struct world w;
        struct tables t = parse_tables();
        char out[8192];

        (void) state;
        start_world(&w);
        w.seed = (uint64_t) time(NULL);
        print_message("seed %" PRIu64 ", %u runs\n", w.seed, runs());
        for (unsigned i = 0; i < runs(); i++) {
                const struct blkup_coldplug_ops ops = ops_of(&w);
                struct watcher x = { .s = settings_of(&w, &t, &ops), .code = 1 };
                int fds[2], stop = eventfd(0, EFD_CLOEXEC);
                pthread_t thread;

                assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
                assert_true(stop >= 0);
                w.uevents = fds[1];
                w.delay_us = i % 4 * 300;
                reset(&w, false);
                /* Two copies are only seen as such when both are there. */
                plug(&w, index_of("sdh"), false);
                plug(&w, index_of("sdi"), false);
                x.s.workers = 1 + i % 17;
                x.s.is_watch = true;
                x.s.stop_fd = stop;
                x.s.uevent_fd = fds[0];
                x.s.tell = world_tell;
                x.s.tell_to = &w;
                /* A machine that waits long enough: no array is started without a member that is on its way.
                 */
                x.s.grace_ns = 400 * MS;
                assert_int_equal(pthread_create(&thread, NULL, watch, &x), 0);
                plug_in_any_order(&w, i);
                assert_true(wait_until(&w, &w.ready, N_ENTRIES - 2));
                assert_int_equal(eventfd_write(stop, 1), 0);
                assert_int_equal(pthread_join(thread, NULL), 0);
                assert_int_equal(x.code, 0);
                describe(&w, blkup_coldplug_result(x.c), out, sizeof(out));
                if (strcmp(out, expected) != 0)
                        print_error("run %u\n%s", i, w.told);
                assert_string_equal(out, expected);
                assert_true(w.is_settled);
                blkup_coldplug_unref(x.c);
                w.uevents = -1;
                (void) close(fds[0]);
                (void) close(fds[1]);
                (void) close(stop);
        }
        free_tables(&t);
        end_world(&w);
}

/* A disk that goes and comes again is mounted again; one that goes while others are looked at is told. */
static void plugged_again(void **state)
{
        struct world w;
        struct tables t = parse_tables();
        int fds[2], stop = eventfd(0, EFD_CLOEXEC);
        pthread_t thread;
        size_t sda = index_of("sda");

        (void) state;
        start_world(&w);
        {
                const struct blkup_coldplug_ops ops = ops_of(&w);
                struct watcher x = { .s = settings_of(&w, &t, &ops), .code = 1 };

                assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
                w.uevents = fds[1];
                reset(&w, true);
                x.s.is_watch = true;
                x.s.stop_fd = stop;
                x.s.uevent_fd = fds[0];
                x.s.tell = world_tell;
                x.s.tell_to = &w;
                assert_int_equal(pthread_create(&thread, NULL, watch, &x), 0);
                assert_true(wait_until(&w, &w.ready, N_ENTRIES - 2));
                for (unsigned i = 1; i <= 20; i++) {
                        unplug(&w, sda, true);
                        assert_true(wait_until(&w, &w.gone, i));
                        plug(&w, sda, true);
                        assert_true(wait_until(&w, &w.ready, N_ENTRIES - 2 + i));
                }
                assert_int_equal(w.gone, 20);
                assert_int_equal(eventfd_write(stop, 1), 0);
                assert_int_equal(pthread_join(thread, NULL), 0);
                assert_int_equal(x.code, 0);
                assert_true(blkup_coldplug_result(x.c)->entries[0].is_ready);
                blkup_coldplug_unref(x.c);
        }
        (void) close(fds[0]);
        (void) close(fds[1]);
        (void) close(stop);
        free_tables(&t);
        end_world(&w);
}

static const struct blkup_coldplug_set *set_of(const struct blkup_coldplug_result *r, const char *name)
{
        for (size_t i = 0; i < r->n_sets; i++)
                if (r->sets[i]->name && strcmp(r->sets[i]->name, name) == 0)
                        return r->sets[i];
        fail_msg("no set %s", name);
        return NULL;
}

static void trouble_is_named(void **state)
{
        struct world w;
        struct tables t = parse_tables();
        struct blkup_coldplug *c = NULL;

        (void) state;
        start_world(&w);
        {
                const struct blkup_coldplug_ops ops = ops_of(&w);
                struct blkup_coldplug_settings s = settings_of(&w, &t, &ops);
                const struct blkup_coldplug_result *r;

                reset(&w, true);
                assert_int_equal(blkup_coldplug_run(&s, &c, NULL), 0);
                r = blkup_coldplug_result(c);
                assert_non_null(strstr(set_of(r, "twin")->step.text, "/dev/sdh and /dev/sdi are the same"));
                assert_non_null(strstr(set_of(r, "half")->step.text, "1 of 2"));
                assert_non_null(strstr(set_of(r, "md1")->step.text, "member is still missing"));
                assert_non_null(strstr(r->entries[7].steps[0].text, "not all of its devices"));
                blkup_coldplug_unref(c);

                /* No tool: named, and the rest goes on. */
                w.has_no_tools = true;
                reset(&w, true);
                assert_int_equal(blkup_coldplug_run(&s, &c, NULL), 0);
                r = blkup_coldplug_result(c);
                assert_string_equal(set_of(r, "vg")->step.text, "there is no lvm on this machine");
                assert_string_equal(set_of(r, "crypt")->step.text, "there is no cryptsetup on this machine");
                assert_true(r->entries[0].is_ready);
                assert_true(r->entries[6].is_ready);
                assert_false(r->entries[3].is_ready);
                blkup_coldplug_unref(c);
                w.has_no_tools = false;

                /* Nothing is assembled when that is not wanted, or in a dry run. */
                for (unsigned i = 0; i < 2; i++) {
                        s.no_assembly = i == 0;
                        s.dry_run = i == 1;
                        reset(&w, true);
                        assert_int_equal(blkup_coldplug_run(&s, &c, NULL), 0);
                        for (unsigned k = 0; k < w.n_calls; k++)
                                assert_true(strncmp(w.calls[k], "mount", 5) == 0);
                        blkup_coldplug_unref(c);
                }
        }
        free_tables(&t);
        end_world(&w);
}

/* --mount of a locked volume: without a terminal nobody is asked. */
static void nobody_to_ask(void **state)
{
        static const struct blkup_coldplug_place places[] = { { UUID("11"), "/place" },
                                                              { UUID("10"), "/other" } };
        struct world w;
        struct tables t = parse_tables();
        struct blkup_coldplug *c = NULL;

        (void) state;
        start_world(&w);
        {
                const struct blkup_coldplug_ops ops = ops_of(&w);
                struct blkup_coldplug_settings s = settings_of(&w, &t, &ops);
                const struct blkup_coldplug_result *r;

                s.fstab = NULL;
                s.places = places;
                s.n_places = 2;
                reset(&w, true);
                assert_int_equal(blkup_coldplug_run(&s, &c, NULL), 0);
                r = blkup_coldplug_result(c);
                assert_false(r->entries[0].is_ready);
                assert_non_null(strstr(set_of(r, "luks-00000000-0000-4000-8000-000000000011")->step.text,
                                       "no terminal"));
                /* The crypttab has a key for the other one: what is mounted is what lies behind the lock. */
                assert_true(r->entries[1].is_ready);
                assert_string_equal(r->devices[r->entries[1].device]->path, "/dev/dm-1");
                blkup_coldplug_unref(c);
        }
        free_tables(&t);
        end_world(&w);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(trouble_is_named),
                cmocka_unit_test(nobody_to_ask),
                cmocka_unit_test(plugged_again),
                cmocka_unit_test(same_result_in_any_order),
                cmocka_unit_test(hot_plug_in_any_order),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
