/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The n-th allocation of a bring-up fails, and of one that stays: it ends when it is told to, and frees all.
 */
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
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cold-world.h"
#include "fail-alloc.h"

static const char fstab_text[] = UUID("01") " /plain ext4 defaults 0 2\n" UUID(
        "04") " /group ext4 defaults 0 0\n" UUID("04") " /group/below ext4 defaults 0 0\n"
                                                       "/dev/mapper/crypt /locked ext4 defaults 0 0\n" UUID(
                                                               "b1") " /whole btrfs defaults 0 0\n";
static const char crypttab_text[] = "crypt " UUID("10") " /key luks,discard\n";
static const char *const attached[] = { "sda", "sde", "sdf", "sdj", "sdl", "sdm" };

static unsigned step(unsigned usual)
{
        return getenv("BLKUP_SOAK") ? 1 : usual;
}

static void attach(struct world *w)
{
        reset(w, false);
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(attached); i++)
                plug(w, index_of(attached[i]), false);
}

static void bring_up(void **state)
{
        struct tables t = parse_texts(fstab_text, crypttab_text);
        struct world w;
        long n = 0, failed = 1;
        unsigned whole = 0;

        (void) state;
        start_world(&w);
        for (; failed > 0; n += step(1)) { /* ends: when a whole run needs fewer allocations than n */
                const struct blkup_coldplug_ops ops = ops_of(&w);
                struct blkup_coldplug_settings s = settings_of(&w, &t, &ops);
                struct blkup_coldplug *c = NULL;
                int r;

                assert_true(n < 100000);
                attach(&w);
                fail_alloc_arm(n, false);
                r = blkup_coldplug_run(&s, &c, NULL);
                failed = fail_alloc_disarm();
                assert_true(r == 0 || r == -ENOMEM);
                if (r == 0) {
                        have_reasons(blkup_coldplug_result(c));
                        whole += blkup_coldplug_result(c)->entries[0].is_ready;
                }
                blkup_coldplug_unref(c);
        }
        print_message("%ld allocations\n", n);
        assert_true(whole > 0);
        free_tables(&t);
        end_world(&w);
}

static void pause_ms(unsigned ms)
{
        blkup_sleep_until_ns(blkup_now_ns() + ms * MS, NULL);
}

static void stay(void **state)
{
        struct tables t = parse_texts(fstab_text, crypttab_text);
        struct world w;
        long n = 0, failed = 1;

        (void) state;
        start_world(&w);
        for (; failed > 0; n += step(7)) { /* ends: as above */
                const struct blkup_coldplug_ops ops = ops_of(&w);
                struct watcher x = { .s = settings_of(&w, &t, &ops), .code = 1 };
                struct timespec until;
                int fds[2];
                pthread_t thread;

                assert_true(n < 100000);
                assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
                w.uevents = fds[1];
                attach(&w);
                x.s.is_watch = true;
                x.s.stop_fd = eventfd(0, EFD_CLOEXEC);
                x.s.uevent_fd = fds[0];
                x.s.tell = world_tell;
                x.s.tell_to = &w;
                fail_alloc_arm(n, false);
                assert_int_equal(pthread_create(&thread, NULL, watch, &x), 0);
                pause_ms(40);
                unplug(&w, index_of("sda"), true);
                say(&w, "change", index_of("sde"));
                pause_ms(20);
                plug(&w, index_of("sda"), true);
                pause_ms(40);
                assert_int_equal(eventfd_write(x.s.stop_fd, 1), 0);
                (void) clock_gettime(CLOCK_REALTIME, &until);
                until.tv_sec += 30;
                /* It ends, whatever it could not do. */
                assert_int_equal(pthread_timedjoin_np(thread, NULL, &until), 0);
                failed = fail_alloc_disarm();
                assert_true(x.code == 0 || x.code == -ENOMEM);
                blkup_coldplug_unref(x.c);
                w.uevents = -1;
                (void) close(fds[0]);
                (void) close(fds[1]);
                (void) close(x.s.stop_fd);
        }
        print_message("%ld allocations\n", n);
        free_tables(&t);
        end_world(&w);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(bring_up),
                cmocka_unit_test(stay),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
