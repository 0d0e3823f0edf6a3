/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Modules in coldplug and watch: a made-up kernel loads them, and brings the disks that they drive. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/utsname.h>

#include <cmocka.h>

#include <blkup/modules.h>

#include "cold-world.h"
#include "fake-index.h"
#include "trace/trace.h"

struct machine {
        struct world w;
        struct tables t;
        struct blkup_coldplug_ops ops;
        struct blkup_module_backend backend;
        struct blkup_coldplug_settings s;
        int fds[2];
        /* Under the world's lock: what was loaded, and what comes of it. */
        char loaded[64][32];
        size_t n_loaded, n_tried;
        uint64_t take_ns;
        bool is_held; /* "drv" and "other" do not return */
        int error;    /* of "drv" */
};

static void set_state(struct machine *m, const char *name, const char *state)
{
        char path[128];

        (void) snprintf(path, sizeof(path), "sys/module/%s/initstate", name);
        fake_root_file(&m->w.root, path, state);
}

static int take(void *arg, const char *name, int fd, const void *image, size_t n, const char *options,
                int flags)
{
        struct machine *m = arg;
        const bool is_driver = strcmp(name, "drv") == 0;
        int error = 0;

        (void) fd, (void) image, (void) n, (void) options, (void) flags;
        (void) pthread_mutex_lock(&m->w.lock);
        m->n_tried++;
        (void) pthread_mutex_unlock(&m->w.lock);
        blkup_sleep_until_ns(blkup_now_ns() + m->take_ns, NULL);
        if (is_driver) {
                (void) pthread_mutex_lock(&m->w.lock);
                error = m->error;
                (void) pthread_mutex_unlock(&m->w.lock);
                if (!error)
                        plug(&m->w, 0, true);
        }
        if (!is_driver)
                set_state(m, name, "live\n");
        for (unsigned i = 0; is_driver || strcmp(name, "other") == 0; i++) {
                bool is_held;

                (void) pthread_mutex_lock(&m->w.lock);
                is_held = m->is_held && i < 10000;
                (void) pthread_mutex_unlock(&m->w.lock);
                if (!is_held)
                        break;
                blkup_sleep_until_ns(blkup_now_ns() + MS, NULL);
        }
        if (!error)
                set_state(m, name, "live\n");
        (void) pthread_mutex_lock(&m->w.lock);
        if (!error && m->n_loaded < 64)
                (void) snprintf(m->loaded[m->n_loaded++], sizeof(m->loaded[0]), "%s", name);
        (void) pthread_mutex_unlock(&m->w.lock);
        return error;
}

static void put_devices(struct machine *m, size_t n, char alias)
{
        for (size_t i = 0; i < n; i++) {
                char path[64], text[64];

                (void) snprintf(path, sizeof(path), "sys/bus/pci/devices/%zu/modalias", i);
                (void) snprintf(text, sizeof(text), "pci:%c%zu\n", alias, i);
                fake_root_file(&m->w.root, path, text);
        }
}

/* drv needs lib; other has a driver of its own. */
static int set_up(void **state)
{
        static const char *const names[] = { "drv", "lib", "listed", "loop1", "loop2", "other" };
        static const char *const lines[] = { "k/drv.ko: k/lib.ko", "k/lib.ko:",   "k/listed.ko:",
                                             "k/loop1.ko:",        "k/loop2.ko:", "k/other.ko:" };
        static const char *const aliases[] = { "pci:a*", "pci:b*", "pci:l*", "pci:o*" };
        static const char *const modules[] = { "drv", "listed", "loop1", "other" };
        struct machine *m = calloc(1, sizeof(*m));
        struct utsname u;
        char path[256];

        assert_non_null(m);
        start_world(&m->w);
        m->t = parse_texts(UUID("01") " /a ext4 defaults 0 0\n", "");
        m->ops = ops_of(&m->w);
        m->backend = (struct blkup_module_backend){ .load = take, .arg = m };
        m->ops.modules = &m->backend;
        m->s = settings_of(&m->w, &m->t, &m->ops);
        assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, m->fds), 0);
        m->s.uevent_fd = m->fds[0];
        m->w.uevents = m->fds[1];
        assert_int_equal(uname(&u), 0);
        (void) snprintf(path, sizeof(path), "lib/modules/%s/modules.dep.bin", u.release);
        fake_index_write(&m->w.root, path, names, lines, 6);
        (void) snprintf(path, sizeof(path), "lib/modules/%s/modules.alias.bin", u.release);
        fake_index_write(&m->w.root, path, aliases, modules, 4);
        for (size_t i = 0; i < 6; i++) {
                (void) snprintf(path, sizeof(path), "lib/modules/%s/k/%s.ko", u.release, names[i]);
                fake_root_file(&m->w.root, path, "x");
        }
        fake_root_file(&m->w.root, "etc/modprobe.d/a.conf",
                       "blacklist listed\nsoftdep loop1 pre: loop2\nsoftdep loop2 pre: loop1\n");
        fake_root_file(&m->w.root, "proc/modules", "");
        fake_root_file(&m->w.root, "proc/filesystems", "\text4\n");
        fake_root_folder(&m->w.root, "sys/devices/block/driver");
        fake_root_link(&m->w.root, "sys/devices/block/driver/module", "../../../module/drv");
        *state = m;
        return 0;
}

static int tear_down(void **state)
{
        struct machine *m = *state;

        (void) close(m->fds[0]);
        (void) close(m->fds[1]);
        free_tables(&m->t);
        end_world(&m->w);
        free(m);
        return 0;
}

static bool was_loaded(struct machine *m, const char *name)
{
        bool was = false;

        (void) pthread_mutex_lock(&m->w.lock);
        for (size_t i = 0; i < m->n_loaded; i++)
                was = was || strcmp(m->loaded[i], name) == 0;
        (void) pthread_mutex_unlock(&m->w.lock);
        return was;
}

static struct blkup_coldplug *run(struct machine *m)
{
        struct blkup_coldplug *c = NULL;

        assert_int_equal(blkup_coldplug_run(&m->s, &c, NULL), 0);
        return c;
}

static bool has_span(struct blkup_trace *t, const char *lane, const char *detail)
{
        struct blkup_span s;

        for (uint64_t i = 0; blkup_trace_get(t, i, &s) == 0; i++)
                if (strcmp(s.lane, lane) == 0 && s.detail && strstr(s.detail, detail))
                        return true;
        return false;
}

/* A device, the chain and the trace name the load that was waited for, and how long that took. */
static void a_device_names_the_load_that_brought_it(void **state)
{
        struct machine *m = *state;
        const struct blkup_coldplug_result *r;
        struct blkup_trace *t = blkup_trace_new(0);
        struct blkup_coldplug *c;
        bool has_load = false;

        assert_non_null(t);
        m->take_ns = 60 * MS;
        m->s.trace = t;
        put_devices(m, 2, 'a');
        c = run(m);
        r = blkup_coldplug_result(c);
        assert_int_equal(r->n_modules, 2);
        assert_true(r->entries[0].is_ready);
        assert_int_equal(r->n_devices, 1);
        assert_string_equal(r->devices[0]->module, "drv");
        assert_true(r->devices[0]->came_ns >= r->devices[0]->module_end_ns);
        assert_true(r->devices[0]->module_end_ns - r->devices[0]->module_start_ns >= 60 * MS);
        for (size_t i = 0; i < r->n_path; i++) {
                has_load = has_load || (strcmp(r->path[i].stage, "load") == 0 && r->path[i].ns >= 59 * MS);
                assert_false(strcmp(r->path[i].stage, "wait") == 0 && r->path[i].ns >= 60 * MS);
        }
        assert_true(has_load);
        assert_true(has_span(t, "/dev/sda", "for the load of drv"));
        blkup_coldplug_unref(c);
        (void) blkup_trace_unref(t);
}

/* What is held is named, and waited for no longer than a device. */
static void a_held_load_ends_nothing(void **state)
{
        struct machine *m = *state;
        const struct blkup_coldplug_result *r;
        struct blkup_coldplug *c;
        uint64_t start = blkup_now_ns();
        char path[PATH_MAX], text[32];
        FILE *f;

        m->is_held = true;
        m->s.device_ns = 1500 * MS;
        put_devices(m, 1, 'o');
        fake_root_file(&m->w.root, "sys/bus/pci/devices/9/modalias", "pci:a\n");
        /* Asked, and silent. */
        fake_root_file(&m->w.root, "sys/bus/scsi/devices/1:0:0:0/iorequest_cnt", "0x5\n");
        fake_root_file(&m->w.root, "sys/bus/scsi/devices/1:0:0:0/iodone_cnt", "0x4\n");
        fake_root_file(&m->w.root, "sys/bus/scsi/devices/1:0:0:1/iorequest_cnt", "0x5\n");
        fake_root_file(&m->w.root, "sys/bus/scsi/devices/1:0:0:1/iodone_cnt", "0x5\n");
        fake_root_folder(&m->w.root, "sys/block/vdx/device");
        fake_root_file(&m->w.root, "sys/block/vdx/inflight", "       1        0\n");
        fake_root_file(&m->w.root, "sys/block/vdx/stat", " 7 0 56 3 0 0 0 0 0 4 3\n");
        /* On the bus of what is held: one that is driven, one that is not, one of another driver. */
        fake_root_file(&m->w.root, "sys/bus/pci/drivers_autoprobe", "1\n");
        fake_root_file(&m->w.root, "sys/bus/pci/drivers_probe", "");
        fake_root_file(&m->w.root, "sys/bus/pci/devices/7/modalias", "pci:a\n");
        fake_root_link(&m->w.root, "sys/bus/pci/devices/7/driver", "x");
        c = run(m);
        fake_root_place(&m->w.root, "sys/bus/pci/drivers_probe", path);
        f = fopen(path, "r");
        assert_non_null(f);
        assert_non_null(fgets(text, sizeof(text), f));
        assert_int_equal(fclose(f), 0);
        assert_string_equal(text, "9");
        r = blkup_coldplug_result(c);
        assert_true(blkup_now_ns() - start < 4000 * MS);
        assert_true(r->entries[0].is_ready);
        assert_int_equal(r->n_bad_modules, 2);
        for (size_t i = 0; i < 2; i++) {
                const bool is_live = strcmp(r->bad_modules[i].name, "other") == 0;

                assert_non_null(
                        strstr(r->bad_modules[i].text, is_live ? "has started" : "does not end its start"));
                assert_non_null(strstr(r->bad_modules[i].text, "SCSI device 1:0:0:0, /dev/vdx"));
                assert_null(strstr(r->bad_modules[i].text, "1:0:0:1"));
        }
        blkup_coldplug_unref(c);
        (void) pthread_mutex_lock(&m->w.lock);
        m->is_held = false;
        (void) pthread_mutex_unlock(&m->w.lock);
        while (!was_loaded(m, "drv") || !was_loaded(m, "other")) /* ends: nothing holds them any more */
                blkup_sleep_until_ns(blkup_now_ns() + MS, NULL);
}

/* Nobody's hardware, a module that somebody loads at the same time, one of the blacklist, softdeps in a
 * circle, many devices of one alias: none of it is a failure, and each module is handed over once. */
static void what_goes_wrong_every_day_is_no_failure(void **state)
{
        static const int errors[] = { -ENODEV, -ENXIO, -EEXIST };
        struct machine *m = *state;

        put_devices(m, 10000, 'a');
        fake_root_file(&m->w.root, "sys/bus/pci/devices/b/modalias", "pci:b\n");
        fake_root_file(&m->w.root, "sys/bus/pci/devices/l/modalias", "pci:l\n");
        for (size_t i = 0; i < 3; i++) {
                const struct blkup_coldplug_result *r;
                struct blkup_coldplug *c;

                m->error = errors[i];
                m->n_loaded = m->n_tried = 0;
                fake_root_take_away(&m->w.root, "sys/module");
                c = run(m);
                r = blkup_coldplug_result(c);
                assert_int_equal(r->n_bad_modules, 0);
                assert_int_equal(m->n_tried, 4); /* lib, drv, loop1, loop2 */
                assert_true(was_loaded(m, "loop1") && was_loaded(m, "loop2") && !was_loaded(m, "listed"));
                assert_false(r->entries[0].is_ready);
                blkup_coldplug_unref(c);
        }
}

/* Once for all devices. */
static void modules_that_are_not_there_are_told_once(void **state)
{
        struct machine *m = *state;
        struct blkup_coldplug *c;
        struct utsname u;
        char path[256];

        assert_int_equal(uname(&u), 0);
        put_devices(m, 100, 'a');
        for (unsigned i = 0; i < 3; i++) {
                const struct blkup_coldplug_result *r;

                if (i == 0)
                        (void) snprintf(path, sizeof(path), "lib/modules/%s/modules.dep.bin", u.release);
                else
                        (void) snprintf(path, sizeof(path), "%s", i == 1 ? "lib/modules" : "proc/modules");
                fake_root_take_away(&m->w.root, path);
                c = run(m);
                r = blkup_coldplug_result(c);
                /* A kernel without modules misses none. */
                assert_int_equal(r->n_bad_modules, i < 2);
                if (i < 2) {
                        assert_non_null(strstr(r->bad_modules[0].name, "/lib/modules/"));
                        assert_non_null(strstr(r->bad_modules[0].text, i ? "is not there" : "has no index"));
                }
                blkup_coldplug_unref(c);
        }
}

/* In a run that stays a device that is plugged in again has its module again, whoever removed that meanwhile.
 */
static void what_was_removed_comes_again(void **state)
{
        struct machine *m = *state;
        struct watcher x = { .s = m->s };
        char text[] = "add@/devices/pci/0 ACTION=add DEVPATH=/devices/pci/0 SUBSYSTEM=pci MODALIAS=pci:o1 "
                      "SEQNUM=9 ";
        pthread_t thread;
        size_t n = 0;

        for (char *at = text; *at; at++)
                if (*at == ' ')
                        *at = '\0', n = (size_t) (at - text) + 1;
        x.s.is_watch = true;
        x.s.stop_fd = eventfd(0, EFD_CLOEXEC);
        x.s.tell = world_tell;
        x.s.tell_to = &m->w;
        assert_int_equal(pthread_create(&thread, NULL, watch, &x), 0);
        for (unsigned round = 0; round < 3; round++) {
                uint64_t until = blkup_now_ns() + 20000 * MS;
                size_t loaded = 0;

                assert_int_equal(send(m->w.uevents, text, n, 0), (ssize_t) n);
                while (loaded <= round && blkup_now_ns() < until) {
                        blkup_sleep_until_ns(blkup_now_ns() + MS, NULL);
                        (void) pthread_mutex_lock(&m->w.lock);
                        loaded = m->n_loaded;
                        (void) pthread_mutex_unlock(&m->w.lock);
                }
                assert_int_equal(loaded, round + 1);
                /* Once more while it is there: nothing is loaded. */
                assert_int_equal(send(m->w.uevents, text, n, 0), (ssize_t) n);
                blkup_sleep_until_ns(blkup_now_ns() + 50 * MS, NULL);
                assert_int_equal(m->n_tried, round + 1);
                fake_root_take_away(&m->w.root, "sys/module");
        }
        assert_int_equal(eventfd_write(x.s.stop_fd, 1), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(x.code, 0);
        blkup_coldplug_unref(x.c);
        (void) close(x.s.stop_fd);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(a_device_names_the_load_that_brought_it, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_held_load_ends_nothing, set_up, tear_down),
                cmocka_unit_test_setup_teardown(what_goes_wrong_every_day_is_no_failure, set_up, tear_down),
                cmocka_unit_test_setup_teardown(modules_that_are_not_there_are_told_once, set_up, tear_down),
                cmocka_unit_test_setup_teardown(what_was_removed_comes_again, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
