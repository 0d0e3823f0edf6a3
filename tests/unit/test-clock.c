/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "base/clock.h"

#define MS UINT64_C(1000000)

static volatile int stop;
static volatile sig_atomic_t signals;

static void on_alarm(int sig)
{
        (void) sig;
        signals++;
}

static void on_alarm_stop(int sig)
{
        on_alarm(sig);
        stop = 1;
}

/* Real-time timer signals, first after 20 ms and then every `interval_ms`, without SA_RESTART. */
static void arm(void (*handler)(int), int interval_ms)
{
        struct sigaction act;
        struct itimerval t = { .it_value = { .tv_usec = 20000 },
                               .it_interval = { .tv_usec = interval_ms * 1000 } };

        memset(&act, 0, sizeof(act));
        act.sa_handler = handler;
        signals = 0;
        stop = 0;
        assert_int_equal(sigaction(SIGALRM, &act, NULL), 0);
        assert_int_equal(setitimer(ITIMER_REAL, &t, NULL), 0);
}

static void disarm(void)
{
        struct itimerval t = { .it_value = { .tv_usec = 0 } };

        assert_int_equal(setitimer(ITIMER_REAL, &t, NULL), 0);
}

static void now_is_the_monotonic_clock(void **state)
{
        struct timespec t;
        uint64_t before, now, after;

        (void) state;
        assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &t), 0);
        before = (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
        now = blkup_now_ns();
        assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &t), 0);
        after = (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
        assert_true(before <= now && now <= after);
        for (unsigned i = 0; i < 10000; i++) {
                uint64_t next = blkup_now_ns();

                assert_true(next >= now);
                now = next;
        }
}

/* Only lower bounds of sleeps are promised: a busy machine may wake us late. */
static void sleeps_until_the_time(void **state)
{
        uint64_t at = blkup_now_ns() + 30 * MS;

        (void) state;
        blkup_sleep_until_ns(at, NULL);
        assert_true(blkup_now_ns() >= at);
        /* A whole second more or less in the two fields would show here. */
        assert_true(blkup_now_ns() < at + 20000 * MS);
}

static void a_past_time_does_not_wait(void **state)
{
        uint64_t from = blkup_now_ns();

        (void) state;
        blkup_sleep_until_ns(0, NULL);
        blkup_sleep_until_ns(from - 1, NULL);
        assert_true(blkup_now_ns() < from + 20000 * MS);
}

static void signals_do_not_shorten_or_lengthen(void **state)
{
        uint64_t at;

        (void) state;
        arm(on_alarm, 10);
        at = blkup_now_ns() + 100 * MS;
        blkup_sleep_until_ns(at, NULL);
        assert_true(blkup_now_ns() >= at);
        at = blkup_now_ns() + 50 * MS;
        blkup_sleep_until_ns(at, &stop); /* stop stays 0 */
        assert_true(blkup_now_ns() >= at);
        disarm();
        assert_true(signals >= 2);
}

static void stop_ends_the_wait(void **state)
{
        uint64_t from = blkup_now_ns();

        (void) state;
#ifdef __SANITIZE_THREAD__
        /* It keeps a signal for the next call that it knows, and this one it does not. */
        print_message("SKIP: ThreadSanitizer delivers no signal during clock_nanosleep()\n");
        skip();
#endif
        /* Again every 20 ms, because the first signal may come before the sleep has begun. */
        arm(on_alarm_stop, 20);
        blkup_sleep_until_ns(from + 60000 * MS, &stop);
        disarm();
        assert_int_equal(stop, 1);
        assert_true(blkup_now_ns() < from + 30000 * MS);
        /* Set before: no sleep at all. */
        from = blkup_now_ns();
        blkup_sleep_until_ns(from + 60000 * MS, &stop);
        assert_true(blkup_now_ns() < from + 30000 * MS);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(now_is_the_monotonic_clock),
                cmocka_unit_test(sleeps_until_the_time),
                cmocka_unit_test(a_past_time_does_not_wait),
                cmocka_unit_test(signals_do_not_shorten_or_lengthen),
                cmocka_unit_test(stop_ends_the_wait),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
