/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A run that stays: each cause of a failure is taken away by the event that a kernel would send, and the
 * entry is brought up; without a cause nothing is tried twice; what somebody has unmounted stays so.
 */
#include <dirent.h>
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
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cold-world.h"

static const char plain[] = UUID("01") " /plain ext4 defaults 0 0\n";
static const char by_path[] = "/dev/sda /plain ext4 defaults 0 0\n";

struct stay {
        struct world w;
        struct tables t;
        struct blkup_coldplug_ops ops;
        struct watcher x;
        int fds[2], stop;
        pthread_t thread;
};

static void start(struct stay *s, const char *fstab, const char *crypttab)
{
        memset(s, 0, sizeof(*s));
        start_world(&s->w);
        reset(&s->w, false);
        s->t = parse_texts(fstab, crypttab);
        s->ops = ops_of(&s->w);
        s->x = (struct watcher){ .s = settings_of(&s->w, &s->t, &s->ops), .code = 1 };
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s->fds), 0);
        s->stop = eventfd(0, EFD_CLOEXEC);
        assert_true(s->stop >= 0);
        s->w.uevents = s->fds[1];
        s->x.s.is_watch = true;
        s->x.s.stop_fd = s->stop;
        s->x.s.uevent_fd = s->fds[0];
        s->x.s.tell = world_tell;
        s->x.s.tell_to = &s->w;
}

static void go(struct stay *s)
{
        assert_int_equal(pthread_create(&s->thread, NULL, watch, &s->x), 0);
}

static void stop(struct stay *s)
{
        assert_int_equal(eventfd_write(s->stop, 1), 0);
        assert_int_equal(pthread_join(s->thread, NULL), 0);
        assert_int_equal(s->x.code, 0);
        blkup_coldplug_unref(s->x.c);
        (void) close(s->fds[0]);
        (void) close(s->fds[1]);
        (void) close(s->stop);
        free_tables(&s->t);
        end_world(&s->w);
}

/* What the kernel says besides: keys and values, each parted by a blank. */
static void say_more(struct world *w, const char *action, size_t i, const char *more)
{
        char text[512];
        int n = snprintf(text, sizeof(text),
                         "%s@/devices/block/%s ACTION=%s DEVPATH=/devices/block/%s SUBSYSTEM=block MAJOR=8 "
                         "MINOR=%zu DEVNAME=%s DEVTYPE=disk SEQNUM=7 %s",
                         action, disks[i].name, action, disks[i].name, i + 16, disks[i].name, more);

        for (int k = 0; k < n; k++)
                if (text[k] == ' ')
                        text[k] = '\0';
        assert_int_equal(send(w->uevents, text, (size_t) n + 1, 0), n + 1);
}

static void *nothing(void *arg)
{
        return arg;
}

/* Somebody may still read what was there before. */
static void set_content(struct world *w, size_t i, enum content content, unsigned id)
{
        static uint8_t other[16][AREA];
        static unsigned n;
        const struct disk d = { .content = content, .id = id };
        uint8_t *a = other[n++ % 16];

        make_area(a, &d);
        (void) pthread_mutex_lock(&w->lock);
        w->content[i] = a;
        (void) pthread_mutex_unlock(&w->lock);
}

static unsigned read_one(struct world *w, const unsigned *what)
{
        unsigned n;

        (void) pthread_mutex_lock(&w->lock);
        n = *what;
        (void) pthread_mutex_unlock(&w->lock);
        return n;
}

static bool was_told(struct world *w, const char *text)
{
        bool is;

        (void) pthread_mutex_lock(&w->lock);
        is = strstr(w->told, text) != NULL;
        (void) pthread_mutex_unlock(&w->lock);
        return is;
}

/* Whether another thread of this process runs, or waits for a CPU. */
static bool is_anybody_awake(void)
{
        const pid_t own = (pid_t) syscall(SYS_gettid);
        DIR *all = opendir("/proc/self/task");
        const struct dirent *d;
        bool is = false;

        assert_non_null(all);
        /* Ends: with the threads, which nobody makes meanwhile. */
        while ((d = readdir(all))) {
                char path[300], text[512];
                const char *state;
                size_t n;
                FILE *f;

                if (d->d_name[0] == '.' || atoi(d->d_name) == own)
                        continue;
                (void) snprintf(path, sizeof(path), "/proc/self/task/%.200s/stat", d->d_name);
                f = fopen(path, "re");
                if (!f)
                        continue;
                n = fread(text, 1, sizeof(text) - 1, f);
                (void) fclose(f);
                text[n] = '\0';
                state = strrchr(text, ')');
                is = is || (state && (state[2] == 'R' || state[2] == 'D'));
        }
        (void) closedir(all);
        return is;
}

/* Until nobody has had anything to do for 150 ms, however busy the machine is: whatever would happen without
 * a cause has happened then; it only has to be seen when it does. */
static void settle(void)
{
        unsigned quiet = 0;

        /* Ends: after at least 30 turns, and ten seconds at most. */
        for (unsigned turn = 0; turn < 2000 && quiet < 30; turn++) {
                blkup_sleep_until_ns(blkup_now_ns() + 5 * MS, NULL);
                quiet = is_anybody_awake() ? 0 : quiet + 1;
        }
}

static void start_copies(struct stay *s, const char *fstab)
{
        start(s, fstab, "");
        set_content(&s->w, 1, EXT4, 1);
        plug(&s->w, 0, false);
        plug(&s->w, 1, false);
}

static void a_copy_is_pulled(void **state)
{
        struct stay s;

        (void) state;
        for (size_t pulled = 0; pulled < 2; pulled++) {
                start_copies(&s, plain);
                go(&s);
                assert_true(wait_until(&s.w, &s.w.failed, 1));
                assert_true(was_told(&s.w, "both carry"));
                settle();
                assert_int_equal(read_one(&s.w, &s.w.n_tried), 0);
                unplug(&s.w, pulled, true);
                assert_true(wait_until(&s.w, &s.w.ready, 1));
                assert_true(was_told(&s.w, pulled ? "ready /dev/sda /plain" : "ready /dev/sdb /plain"));
                /* It comes back: what is mounted stays. */
                plug(&s.w, pulled, true);
                settle();
                assert_int_equal(read_one(&s.w, &s.w.n_mounts), 1);
                stop(&s);
        }
}

static void a_copy_gets_another_tag(void **state)
{
        struct stay s;

        (void) state;
        start_copies(&s, plain);
        go(&s);
        assert_true(wait_until(&s.w, &s.w.failed, 1));
        /* Said, but nothing is new. */
        for (unsigned i = 0; i < 3; i++) {
                say(&s.w, "change", i);
                settle();
        }
        for (unsigned i = 0; i < 10; i++)
                say(&s.w, "change", i % 2);
        settle();
        assert_int_equal(read_one(&s.w, &s.w.failed), 1);
        assert_int_equal(read_one(&s.w, &s.w.gone), 0);
        set_content(&s.w, 1, EXT4, 9);
        say(&s.w, "change", 1);
        assert_true(wait_until(&s.w, &s.w.ready, 1));
        assert_true(was_told(&s.w, "ready /dev/sda /plain"));
        assert_int_equal(read_one(&s.w, &s.w.gone), 0);
        stop(&s);
}

static void something_is_made_on_it(void **state)
{
        struct stay s;

        (void) state;
        start(&s, by_path, "");
        memset(areas[0], 0, AREA);
        plug(&s.w, 0, false);
        go(&s);
        assert_true(wait_until(&s.w, &s.w.failed, 1));
        assert_true(was_told(&s.w, "nothing known"));
        say(&s.w, "change", 0);
        settle();
        assert_int_equal(read_one(&s.w, &s.w.failed), 1);
        set_content(&s.w, 0, EXT4, 1);
        say(&s.w, "change", 0);
        assert_true(wait_until(&s.w, &s.w.ready, 1));
        stop(&s);
}

static void set_error(struct world *w, int *what, int error)
{
        (void) pthread_mutex_lock(&w->lock);
        *what = error;
        (void) pthread_mutex_unlock(&w->lock);
}

static void it_can_be_read_again(void **state)
{
        struct stay s;

        (void) state;
        start(&s, by_path, "");
        s.w.open_error = -EIO;
        plug(&s.w, 0, false);
        go(&s);
        assert_true(wait_until(&s.w, &s.w.failed, 1));
        set_error(&s.w, &s.w.open_error, 0);
        say(&s.w, "change", 0);
        assert_true(wait_until(&s.w, &s.w.ready, 1));
        stop(&s);
}

/* What only we lacked is no event of the kernel's. */
static void memory_is_there_again(void **state)
{
        struct stay s;

        (void) state;
        start(&s, by_path, "");
        s.w.open_error = -ENOMEM;
        plug(&s.w, 0, false);
        go(&s);
        assert_true(wait_until(&s.w, &s.w.failed, 1));
        set_error(&s.w, &s.w.open_error, 0);
        assert_true(wait_until(&s.w, &s.w.ready, 1));
        stop(&s);
}

static void somebody_lets_it_go(void **state)
{
        struct stay s;

        (void) state;
        start(&s, plain, "");
        s.w.mount_error = -EBUSY;
        plug(&s.w, 0, false);
        go(&s);
        assert_true(wait_until(&s.w, &s.w.failed, 1));
        set_error(&s.w, &s.w.mount_error, 0);
        settle();
        assert_int_equal(read_one(&s.w, &s.w.n_tried), 1);
        say(&s.w, "change", 0);
        assert_true(wait_until(&s.w, &s.w.ready, 1));
        assert_int_equal(read_one(&s.w, &s.w.n_tried), 2);
        stop(&s);
}

static void another_failure_is_final(void **state)
{
        struct stay s;

        (void) state;
        start(&s, plain, "");
        s.w.mount_error = -EINVAL;
        plug(&s.w, 0, false);
        go(&s);
        assert_true(wait_until(&s.w, &s.w.failed, 1));
        for (unsigned i = 0; i < 10; i++)
                say(&s.w, "change", 0);
        settle();
        assert_int_equal(read_one(&s.w, &s.w.n_tried), 1);
        /* The device itself is another cause. */
        set_error(&s.w, &s.w.mount_error, 0);
        unplug(&s.w, 0, true);
        plug(&s.w, 0, true);
        assert_true(wait_until(&s.w, &s.w.ready, 1));
        stop(&s);
}

static void a_module_comes(void **state)
{
        static const char add[] =
                "add@/module/xfs\0ACTION=add\0DEVPATH=/module/xfs\0SUBSYSTEM=module\0SEQNUM=9";
        struct stay s;

        (void) state;
        start(&s, plain, "");
        s.w.mount_error = -ENODEV;
        plug(&s.w, 0, false);
        go(&s);
        assert_true(wait_until(&s.w, &s.w.failed, 1));
        set_error(&s.w, &s.w.mount_error, 0);
        settle();
        assert_int_equal(read_one(&s.w, &s.w.n_tried), 1);
        assert_int_equal(send(s.w.uevents, add, sizeof(add), 0), sizeof(add));
        assert_true(wait_until(&s.w, &s.w.ready, 1));
        stop(&s);
}

static void set_sequence(const struct fake_root *f, unsigned sequence)
{
        char text[128];

        (void) snprintf(text, sizeof(text), "MAJOR=8\nMINOR=16\nDEVNAME=sda\nDEVTYPE=disk\nDISKSEQ=%u",
                        sequence);
        attribute(f, "sda", "uevent", text);
}

/* Another medium; another file behind a loop device: another disk under the same number. */
static void another_disk(void **state)
{
        struct stay s;

        (void) state;
        for (unsigned i = 0; i < 2; i++) {
                start(&s, by_path, "");
                set_sequence(&s.w.stock, 5);
                plug(&s.w, 0, false);
                go(&s);
                assert_true(wait_until(&s.w, &s.w.ready, 1));
                /* The same disk says something: it is mounted, and stays so. */
                say_more(&s.w, "change", 0, "DISKSEQ=5");
                settle();
                assert_int_equal(read_one(&s.w, &s.w.n_mounts), 1);
                set_sequence(&s.w.root, 6);
                say_more(&s.w, "change", 0, i ? "DISKSEQ=6" : "DISK_MEDIA_CHANGE=1");
                assert_true(wait_until(&s.w, &s.w.ready, 2));
                assert_int_equal(read_one(&s.w, &s.w.gone), 1);
                /* No medium, no file: nothing there any more. */
                attribute(&s.w.root, "sda", "size", "0");
                say(&s.w, "change", 0);
                assert_true(wait_until(&s.w, &s.w.gone, 2));
                stop(&s);
        }
}

/* A disc that lay in its drive: the kernel tells of it when the drive is opened, which is no other device. */
static void a_disc_is_seen(void **state)
{
        struct stay s;

        (void) state;
        start(&s, by_path, "");
        set_sequence(&s.w.stock, 5);
        s.w.open_ns = 300 * MS;
        plug(&s.w, 0, false);
        go(&s);
        blkup_sleep_until_ns(blkup_now_ns() + 100 * MS, NULL);
        say_more(&s.w, "change", 0, "DISK_MEDIA_CHANGE=1 DISKSEQ=6");
        assert_true(wait_until(&s.w, &s.w.ready, 1));
        settle();
        assert_int_equal(read_one(&s.w, &s.w.gone), 0);
        assert_false(was_told(&s.w, "it was removed"));
        assert_int_equal(read_one(&s.w, &s.w.n_mounts), 1);
        stop(&s);
}

static void its_holder_goes(void **state)
{
        struct stay s;
        char path[PATH_MAX];

        (void) state;
        start(&s, by_path, "");
        plug(&s.w, 0, false);
        plug(&s.w, index_of("dm-0"), false);
        attribute(&s.w.root, "sda", "holders/dm-0/x", "");
        go(&s);
        assert_true(wait_until(&s.w, &s.w.failed, 1));
        assert_true(was_told(&s.w, "used by another block device"));
        assert_int_equal(read_one(&s.w, &s.w.n_tried), 0);
        (void) snprintf(path, sizeof(path), "%s/sys/devices/block/sda/holders/dm-0/x", s.w.root.path);
        assert_int_equal(unlink(path), 0);
        *strrchr(path, '/') = '\0';
        assert_int_equal(rmdir(path), 0);
        unplug(&s.w, index_of("dm-0"), true);
        assert_true(wait_until(&s.w, &s.w.ready, 1));
        stop(&s);
}

static void the_key_comes(void **state)
{
        struct stay s;
        char path[PATH_MAX];

        (void) state;
        start(&s, "/dev/mapper/crypt /locked ext4 defaults 0 0\n" UUID("01") " /plain ext4 defaults 0 0\n",
              "crypt " UUID("10") " /key luks,discard\n");
        (void) snprintf(path, sizeof(path), "%s/key", s.w.root.path);
        assert_int_equal(unlink(path), 0);
        plug(&s.w, index_of("sdj"), false);
        go(&s);
        assert_true(wait_until(&s.w, &s.w.warnings, 1));
        assert_true(was_told(&s.w, "/key is not there"));
        settle();
        assert_int_equal(read_one(&s.w, &s.w.warnings), 1);
        fake_root_file(&s.w.root, "key", "secret\n");
        plug(&s.w, 0, true);
        assert_true(wait_until(&s.w, &s.w.ready, 2));
        assert_true(was_told(&s.w, "ready /dev/dm-1 /locked"));
        stop(&s);
}

static void a_locked_volume_is_plugged_again(void **state)
{
        struct stay s;
        size_t sdj = index_of("sdj"), mapping = index_of("dm-1");

        (void) state;
        start(&s, "/dev/mapper/crypt /locked ext4 defaults 0 0\n",
              "crypt " UUID("10") " /key luks,discard\n");
        plug(&s.w, sdj, false);
        go(&s);
        assert_true(wait_until(&s.w, &s.w.ready, 1));
        for (unsigned i = 0; i < 3; i++) {
                unplug(&s.w, sdj, true);
                unplug(&s.w, mapping, true);
                assert_true(wait_until(&s.w, &s.w.gone, 2 * i + 2));
                plug(&s.w, sdj, true);
                assert_true(wait_until(&s.w, &s.w.ready, 2 + i));
        }
        assert_int_equal(read_one(&s.w, &s.w.n_calls), 8); /* unlocked and mounted, four times */
        stop(&s);

        /* What was made of the first still stands there: it is not the other one's, and not mounted again. */
        start(&s, "/dev/mapper/crypt /locked ext4 defaults 0 0\n",
              "crypt " UUID("10") " /key luks,discard\n");
        fake_root_folder(&s.w.stock, "sys/devices/block/sdj/holders");
        plug(&s.w, mapping, false);
        go(&s);
        assert_true(wait_until(&s.w, &s.w.ready, 1));
        plug(&s.w, sdj, true);
        assert_true(wait_until(&s.w, &s.w.warnings, 1));
        assert_true(was_told(&s.w, "close it first"));
        unplug(&s.w, mapping, true);
        assert_true(wait_until(&s.w, &s.w.ready, 2));
        stop(&s);
}

/* Of what is mounted, in an array, in a group, unlocked: told with both names, once, and given to nobody. */
static void a_copy_comes_later(void **state)
{
        static const struct {
                const char *copy, *of, *text;
        } copies[] = {
                { "sdn", "sda",
                  "/dev/sdn and /dev/sda both carry UUID=00000000-0000-4000-8000-000000000001, and /plain "
                  "has" },
                { "sdd", "sdc", "/dev/sdd and /dev/sdc both carry UUID=41414141-" },
                { "sdg", "sdf", "and vg has /dev/sdf already" },
                { "sdk", "sdj", "and crypt has /dev/sdj already" },
        };
        const unsigned n = BLKUP_ARRAY_SIZE(copies);
        struct stay s;
        unsigned calls;

        (void) state;
        start(&s,
              UUID("01") " /plain ext4 defaults 0 0\n" UUID(
                      "02") " /array ext4 defaults 0 0\n"
                            "/dev/vg/lv /group ext4 defaults 0 0\n/dev/mapper/crypt /locked ext4 defaults 0 "
                            "0\n",
              "crypt " UUID("10") " /key luks,discard\n");
        for (const char *const *name =
                     (const char *const[]){ "sda", "sdb", "sdc", "sde", "sdf", "sdj", NULL };
             *name; name++)
                plug(&s.w, index_of(*name), false);
        go(&s);
        assert_true(wait_until(&s.w, &s.w.ready, 4));
        settle();
        calls = read_one(&s.w, &s.w.n_calls);
        for (unsigned i = 0; i < n; i++) {
                s.w.content[index_of(copies[i].copy)] = areas[index_of(copies[i].of)];
                plug(&s.w, index_of(copies[i].copy), true);
                assert_true(wait_until(&s.w, &s.w.warnings, i + 1));
                if (!was_told(&s.w, copies[i].text))
                        fail_msg("%s", s.w.told);
        }
        /* Looked at again, and as it was. */
        for (unsigned i = 0; i < n; i++)
                say(&s.w, "change", index_of(copies[i].copy));
        settle();
        settle();
        assert_int_equal(read_one(&s.w, &s.w.warnings), n);
        /* It goes and comes again. */
        unplug(&s.w, index_of("sdn"), true);
        assert_true(wait_until(&s.w, &s.w.gone, 1));
        plug(&s.w, index_of("sdn"), true);
        assert_true(wait_until(&s.w, &s.w.warnings, n + 1));
        assert_int_equal(read_one(&s.w, &s.w.n_calls), calls);
        assert_int_equal(read_one(&s.w, &s.w.failed), 0);
        assert_int_equal(eventfd_write(s.stop, 1), 0);
        assert_int_equal(pthread_join(s.thread, NULL), 0);
        assert_int_equal(blkup_coldplug_result(s.x.c)->n_copies, n);
        assert_string_equal(blkup_coldplug_result(s.x.c)->copies[2].of, "vg");
        assert_int_equal(pthread_create(&s.thread, NULL, nothing, NULL), 0);
        stop(&s);
}

/* Two of them before the array is made: neither is given to mdadm. */
static void a_copy_of_a_member(void **state)
{
        struct stay s;

        (void) state;
        start(&s, UUID("02") " /array ext4 defaults 0 0\n", "");
        s.x.s.grace_ns = 50 * MS;
        s.w.content[index_of("sdd")] = areas[index_of("sdc")];
        plug(&s.w, index_of("sdb"), false);
        plug(&s.w, index_of("sdc"), false);
        plug(&s.w, index_of("sdd"), false);
        go(&s);
        assert_true(wait_until(&s.w, &s.w.warnings, 1));
        assert_true(was_told(&s.w, "/dev/sdc and /dev/sdd are the same member 41414141-"));
        settle();
        assert_int_equal(read_one(&s.w, &s.w.warnings), 1);
        assert_int_equal(read_one(&s.w, &s.w.ready), 0);
        unplug(&s.w, index_of("sdd"), true);
        assert_true(wait_until(&s.w, &s.w.ready, 1));
        assert_true(was_told(&s.w, "ready /dev/md0 /array"));
        stop(&s);
}

static void a_parent_comes(void **state)
{
        struct stay s;

        (void) state;
        start(&s, UUID("01") " /plain ext4 defaults 0 0\n" UUID("02") " /plain/child ext4 defaults 0 0\n",
              "");
        set_content(&s.w, 1, EXT4, 1);
        set_content(&s.w, 2, EXT4, 2);
        for (size_t i = 0; i < 3; i++)
                plug(&s.w, i, false);
        go(&s);
        assert_true(wait_until(&s.w, &s.w.failed, 2));
        assert_true(was_told(&s.w, "failed /dev/sdc /plain/child needs /plain, which failed"));
        assert_int_equal(read_one(&s.w, &s.w.ready), 0);
        unplug(&s.w, 1, true);
        assert_true(wait_until(&s.w, &s.w.ready, 2));
        assert_int_equal(read_one(&s.w, &s.w.n_mounts), 2);
        stop(&s);
}

/* An order, another line for its parent's place, a parent that --only leaves out: the absent keep nobody. */
static void the_absent_keep_nobody(void **state)
{
        static const char two[] = UUID("07") " /plain ext4 nofail,x-systemd.before=/b 0 0\n" UUID(
                "08") " /plain ext4 nofail 0 0\n" UUID("02") " /plain/child ext4 defaults 0 0\n";
        static const char one[] =
                UUID("07") " /plain ext4 nofail 0 0\n" UUID("02") " /plain/child ext4 defaults 0 0\n";
        static const char order[] = UUID("07") " /plain ext4 nofail,x-systemd.before=/b 0 0\n" UUID(
                "01") " /b ext4 defaults 0 0\n" UUID("02") " /c ext4 x-systemd.after=/plain 0 0\n";
        static const char *const only[] = { UUID("02") };
        struct stay s;

        (void) state;
        start(&s, order, "");
        set_content(&s.w, 1, EXT4, 2);
        plug(&s.w, 0, false);
        plug(&s.w, 1, false);
        go(&s);
        assert_true(wait_until(&s.w, &s.w.ready, 2));
        stop(&s);

        start(&s, two, "");
        set_content(&s.w, 0, EXT4, 8);
        set_content(&s.w, 1, EXT4, 2);
        plug(&s.w, 1, false);
        go(&s);
        assert_true(wait_until(&s.w, &s.w.settled, 1));
        assert_int_equal(read_one(&s.w, &s.w.ready), 0);
        plug(&s.w, 0, true);
        assert_true(wait_until(&s.w, &s.w.ready, 2));
        assert_int_equal(read_one(&s.w, &s.w.failed), 0);
        stop(&s);

        start(&s, one, "");
        s.x.s.only = only;
        s.x.s.n_only = 1;
        set_content(&s.w, 1, EXT4, 2);
        plug(&s.w, 1, false);
        go(&s);
        assert_true(wait_until(&s.w, &s.w.ready, 1));
        stop(&s);
}

static void it_answers_after_all(void **state)
{
        struct stay s;

        (void) state;
        start(&s, by_path, "");
        s.x.s.device_ns = 200 * MS;
        s.w.open_ns = 700 * MS;
        plug(&s.w, 0, false);
        go(&s);
        assert_true(wait_until(&s.w, &s.w.failed, 1));
        assert_true(wait_until(&s.w, &s.w.ready, 1));
        stop(&s);
}

static void write_table(struct world *w, const char *target, const char *source)
{
        (void) pthread_mutex_lock(&w->lock);
        set_mount(w, target, source);
        (void) pthread_mutex_unlock(&w->lock);
}

static void what_somebody_unmounts_stays_so(void **state)
{
        struct stay s;

        (void) state;
        start(&s, plain, "");
        s.w.keeps_table = true;
        plug(&s.w, 0, false);
        go(&s);
        assert_true(wait_until(&s.w, &s.w.ready, 1));
        settle();
        write_table(&s.w, NULL, NULL);
        say(&s.w, "change", 5); /* a turn of the watch: a fake table wakes nobody */
        assert_true(wait_until(&s.w, &s.w.warnings, 1));
        assert_true(was_told(&s.w, "somebody has unmounted it"));
        say(&s.w, "change", 0);
        settle();
        for (unsigned i = 0; i < 2; i++) {
                unplug(&s.w, 0, true);
                assert_true(wait_until(&s.w, &s.w.gone, i + 1));
                plug(&s.w, 0, true);
                settle();
        }
        assert_int_equal(read_one(&s.w, &s.w.n_tried), 1);
        stop(&s);
}

/* Whoever mounts it again wants it brought up again. And who unmounts since the device has gone (as systemd
 * does) has not done it on purpose. */
/* `settled` comes when all that was there is ready, whatever else is absent. */
static void settled_is_the_last_word(void **state)
{
        struct stay s;
        const char *ready, *settled;

        (void) state;
        start(&s,
              UUID("cc") " /absent ext4 defaults 0 1\n" UUID("cd") " /plain ext4 nofail 0 0\n" UUID(
                      "01") " /plain ext4 defaults 0 2\n" UUID("02") " /absent/child ext4 defaults 0 2\n",
              "");
        set_content(&s.w, 1, EXT4, 2);
        plug(&s.w, 0, false);
        plug(&s.w, 1, false);
        s.w.delay_us = 50000;
        go(&s);
        assert_true(wait_until(&s.w, &s.w.settled, 1));
        (void) pthread_mutex_lock(&s.w.lock);
        ready = strstr(s.w.told, "ready");
        settled = strstr(s.w.told, "settled");
        assert_non_null(ready);
        assert_non_null(settled);
        assert_true(ready < settled);
        (void) pthread_mutex_unlock(&s.w.lock);
        stop(&s);
}

static void what_goes_by_itself_comes_back(void **state)
{
        struct stay s;

        (void) state;
        start(&s, plain, "");
        s.w.keeps_table = true;
        plug(&s.w, 0, false);
        go(&s);
        assert_true(wait_until(&s.w, &s.w.ready, 1));
        settle();
        write_table(&s.w, NULL, NULL);
        say(&s.w, "change", 5);
        assert_true(wait_until(&s.w, &s.w.warnings, 1));
        write_table(&s.w, "/plain", "/dev/sda");
        say(&s.w, "change", 5);
        settle();
        for (unsigned i = 0; i < 5; i++) {
                unplug(&s.w, 0, true);
                write_table(&s.w, NULL, NULL);
                assert_true(wait_until(&s.w, &s.w.gone, i + 1));
                plug(&s.w, 0, true);
                assert_true(wait_until(&s.w, &s.w.ready, i + 2));
                settle();
        }
        assert_int_equal(read_one(&s.w, &s.w.warnings), 1);
        assert_int_equal(read_one(&s.w, &s.w.n_mounts), 6);
        stop(&s);
}

static unsigned rounds(void)
{
        const char *text = getenv("BLKUP_TEST_RUNS");

        return text ? (unsigned) strtoul(text, NULL, 10) : getenv("BLKUP_SOAK") ? 100000 : 1000;
}

static size_t resident_kib(void)
{
        unsigned long all = 0, resident = 0;
        FILE *f = fopen("/proc/self/statm", "r");

        assert_non_null(f);
        assert_int_equal(fscanf(f, "%lu %lu", &all, &resident), 2);
        (void) fclose(f);
        return (size_t) resident * (size_t) sysconf(_SC_PAGESIZE) / 1024;
}

/* A disk and a locked volume that come and go for months. */
static bool was_told_so_often(struct world *w, const char *text, unsigned n)
{
        /* Ends: after ten seconds. */
        for (unsigned turn = 0; turn < 2000; turn++) {
                unsigned k = 0;

                (void) pthread_mutex_lock(&w->lock);
                for (const char *at = w->told; (at = strstr(at, text)); at++)
                        k++;
                (void) pthread_mutex_unlock(&w->lock);
                if (k >= n)
                        return true;
                blkup_sleep_until_ns(blkup_now_ns() + 5 * MS, NULL);
        }
        return false;
}

/* A loop device that is detached, a card that is pulled: a medium goes, and its device is not removed. Nobody
 * asks for it. */
static void media_come_and_go(void **state)
{
        const unsigned n = 40;
        struct stay s;

        (void) state;
        start(&s, UUID("77") " /plain ext4 defaults 0 0\n", "");
        plug(&s.w, 0, false);
        go(&s);
        for (unsigned i = 0; i < n; i++) {
                assert_true(was_told_so_often(&s.w, "device /dev/sda", i + 1));
                attribute(&s.w.root, "sda", "size", "0");
                say_more(&s.w, "change", 0, "DISK_MEDIA_CHANGE=1");
                assert_true(wait_until(&s.w, &s.w.gone, i + 1));
                attribute(&s.w.root, "sda", "size", "131072");
                say(&s.w, "change", 0);
        }
        settle();
        assert_int_equal(eventfd_write(s.stop, 1), 0);
        assert_int_equal(pthread_join(s.thread, NULL), 0);
        assert_true(blkup_coldplug_result(s.x.c)->n_devices < 8);
        blkup_coldplug_unref(s.x.c);
        (void) close(s.fds[0]);
        (void) close(s.fds[1]);
        (void) close(s.stop);
        free_tables(&s.t);
        end_world(&s.w);
}

static void for_months(void **state)
{
        const struct blkup_coldplug_result *r;
        unsigned n = rounds();
        size_t before = 0, places;
        struct stay s;

        (void) state;
        start(&s, UUID("01") " /plain ext4 defaults 0 0\n/dev/mapper/crypt /locked ext4 defaults 0 0\n",
              "crypt " UUID("10") " /key luks,discard\n");
        s.w.keeps_no_calls = true;
        go(&s);
        for (unsigned i = 0; i < n; i++) {
                size_t k = i % 8 == 7 ? index_of("sdj") : 0;

                plug(&s.w, k, true);
                assert_true(wait_until(&s.w, &s.w.ready, i + 1));
                unplug(&s.w, k, true);
                if (k)
                        unplug(&s.w, index_of("dm-1"), true);
                assert_true(wait_until(&s.w, &s.w.gone, i + 1 + (i + 1) / 8));
                if (i == n / 10)
                        before = resident_kib();
        }
        print_message("%u rounds: %zu KiB resident after a tenth of them, %zu at the end\n", n, before,
                      resident_kib());
        assert_int_equal(eventfd_write(s.stop, 1), 0);
        assert_int_equal(pthread_join(s.thread, NULL), 0);
        r = blkup_coldplug_result(s.x.c);
        places = r->n_places;
        print_message("%zu places of nodes, %zu devices, %zu sets\n", places, r->n_devices, r->n_sets);
        /* Two chains of five, and what comes and goes. */
        assert_true(places < 64);
        assert_true(r->n_devices < 8);
        assert_true(r->n_sets < 4);
        assert_int_equal(s.w.n_mounts, n);
        s.thread = 0;
        blkup_coldplug_unref(s.x.c);
        (void) close(s.fds[0]);
        (void) close(s.fds[1]);
        (void) close(s.stop);
        free_tables(&s.t);
        end_world(&s.w);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_copy_is_pulled),
                cmocka_unit_test(a_copy_gets_another_tag),
                cmocka_unit_test(something_is_made_on_it),
                cmocka_unit_test(it_can_be_read_again),
                cmocka_unit_test(memory_is_there_again),
                cmocka_unit_test(somebody_lets_it_go),
                cmocka_unit_test(another_failure_is_final),
                cmocka_unit_test(a_module_comes),
                cmocka_unit_test(another_disk),
                cmocka_unit_test(a_disc_is_seen),
                cmocka_unit_test(its_holder_goes),
                cmocka_unit_test(the_key_comes),
                cmocka_unit_test(a_locked_volume_is_plugged_again),
                cmocka_unit_test(a_copy_comes_later),
                cmocka_unit_test(a_copy_of_a_member),
                cmocka_unit_test(a_parent_comes),
                cmocka_unit_test(the_absent_keep_nobody),
                cmocka_unit_test(it_answers_after_all),
                cmocka_unit_test(what_somebody_unmounts_stays_so),
                cmocka_unit_test(settled_is_the_last_word),
                cmocka_unit_test(what_goes_by_itself_comes_back),
                cmocka_unit_test(media_come_and_go),
                cmocka_unit_test(for_months),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
