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
#include "cold-world.h"
#include "host/uevent.h"
#include "trace/path.h"

static const char fstab_text[] =
        "/dev/disk/by-uuid/00000000-0000-4000-8000-000000000001 /plain ext4 defaults 0 0\n"
        "/dev/md/array-A /array ext4 defaults 0 0\n" UUID(
                "03") " /degraded ext4 defaults 0 0\n"
                      "/dev/vg/lv /group ext4 defaults 0 0\n"
                      "/dev/mapper/crypt /locked ext4 defaults 0 0\n" UUID(
                              "06") " /stacked ext4 defaults 0 0\n" UUID("b1") " /whole btrfs defaults 0 "
                                                                               "0\n" UUID("b2") " /half "
                                                                                                "btrfs "
                                                                                                "defaults 0 "
                                                                                                "0\n"
                                                                                                "/dev/mapper/"
                                                                                                "half-lv "
                                                                                                "/never ext4 "
                                                                                                "defaults 0 "
                                                                                                "0\n";
#define N_ENTRIES 9

static const char crypttab_text[] = "crypt " UUID("10") " /key luks,discard\n"
                                                        "other " UUID("99") " /key\n";

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
        struct tables t = parse_texts(fstab_text, crypttab_text);
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
                have_reasons(blkup_coldplug_result(c));
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
        struct tables t = parse_texts(fstab_text, crypttab_text);
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
                have_reasons(blkup_coldplug_result(x.c));
                describe(&w, blkup_coldplug_result(x.c), out, sizeof(out));
                if (strcmp(out, expected) != 0)
                        print_error("run %u\n%s", i, w.told);
                assert_string_equal(out, expected);
                assert_int_equal(w.settled, 1);
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
        struct tables t = parse_texts(fstab_text, crypttab_text);
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
        struct tables t = parse_texts(fstab_text, crypttab_text);
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
        struct tables t = parse_texts(fstab_text, crypttab_text);
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
