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
#include "cold-recorder.h"
#include "fake-root.h"
#include "trace/trace.h"

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
        /* It may be the one. */
        assert_non_null(strstr(entry_of(r, "/lost")->steps[0].text, "; not read: "));
        assert_non_null(strstr(entry_of(r, "/lost")->steps[0].text, "/dev/sde"));
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

/* nofail: nobody waits for it, unless it is asked for. */
static void nofail_is_not_waited_for(void **state)
{
        static const char *const only[] = { UUID("cc") };
        struct world w;
        struct blkup_fstab *t =
                parse_fstab(UUID("cc") " /a ext4 nofail 0 2\n" UUID("02") " /b ext4 defaults 0 2\n");
        struct blkup_coldplug_settings s = { .fstab = t, .wait_ns = 20000 * MS, .device_ns = 60000 * MS };
        struct blkup_coldplug *c = NULL;
        const struct blkup_coldplug_result *r;

        (void) state;
        start_world(&w);
        run_once(&w, &s, &c);
        r = blkup_coldplug_result(c);
        assert_int_equal(r->entries[0].steps[BLKUP_COLDPLUG_PROBE].state, BLKUP_COLDPLUG_SKIPPED);
        assert_true(r->entries[1].is_ready);
        assert_true(r->end_ns < r->start_ns + 15000 * MS);
        blkup_coldplug_unref(c);
        s.only = only;
        s.n_only = 1;
        s.wait_ns = 500 * MS;
        run_once(&w, &s, &c);
        r = blkup_coldplug_result(c);
        assert_true(r->end_ns >= r->start_ns + 500 * MS);
        blkup_coldplug_unref(c);
        blkup_fstab_free(t);
        end_world(&w);
}

/* More servers that do not answer than devices are worked on at a time. */
static void servers_take_no_place(void **state)
{
        char text[8192];
        size_t used = 0;
        struct world w;
        struct blkup_fstab *t;
        struct blkup_coldplug_settings s = { .wait_ns = 0, .device_ns = 3000 * MS };
        struct blkup_coldplug *c = NULL;
        const struct blkup_coldplug_entry *e;

        (void) state;
        for (unsigned i = 0; i < 80; i++)
                used += (size_t) snprintf(text + used, sizeof(text) - used,
                                          "server%u:/x /s%u nfs nofail 0 0\n", i, i);
        (void) snprintf(text + used, sizeof(text) - used, "%s", UUID("01") " /b ext4 defaults 0 2\n");
        t = parse_fstab(text);
        s.fstab = t;
        start_world(&w);
        w.may_hang = true;
        run_once(&w, &s, &c);
        e = entry_of(blkup_coldplug_result(c), "/b");
        assert_true(e->is_ready);
        assert_true(e->steps[BLKUP_COLDPLUG_MOUNT].end_ns < blkup_coldplug_result(c)->start_ns + 2900 * MS);
        assert_false(entry_of(blkup_coldplug_result(c), "/s79")->is_ready);
        blkup_coldplug_unref(c);
        blkup_fstab_free(t);
        end_world(&w);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(who_is_there_waits_for_nobody),
                cmocka_unit_test(nofail_is_not_waited_for),
                cmocka_unit_test(servers_take_no_place),
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
