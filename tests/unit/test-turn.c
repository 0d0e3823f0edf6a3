/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "sync/turn.h"

#define ROUNDS 20000u

static struct blkup_turn turn;
static unsigned n_done; /* whose turn it is adds to it */
static atomic_uint n_refused;

static void *add(void *arg)
{
        (void) arg;
        for (unsigned i = 0; i < ROUNDS; i++) {
                /* One who waited for nothing tries again. */
                while (!blkup_turn_take(&turn, i % 8 ? UINT64_C(1000000000) : 1))
                        atomic_fetch_add(&n_refused, 1);
                n_done++;
                blkup_turn_give(&turn);
        }
        return NULL;
}

static void one_at_a_time(void **state)
{
        pthread_t t[4];

        (void) state;
        blkup_turn_init(&turn);
        for (unsigned i = 0; i < 4; i++)
                assert_int_equal(pthread_create(&t[i], NULL, add, NULL), 0);
        for (unsigned i = 0; i < 4; i++)
                assert_int_equal(pthread_join(t[i], NULL), 0);
        assert_int_equal(n_done, 4 * ROUNDS);
        print_message("%u refused\n", atomic_load(&n_refused));
        blkup_turn_destroy(&turn);
}

static void nobody_waits_for_longer(void **state)
{
        uint64_t start;

        (void) state;
        blkup_turn_init(&turn);
        assert_true(blkup_turn_take(&turn, 0));
        start = blkup_now_ns();
        assert_false(blkup_turn_take(&turn, 30000000));
        assert_true(blkup_now_ns() - start >= 30000000);
        /* Who was refused has taken nothing: it is still the other's, and free once that gives it. */
        assert_false(blkup_turn_take(&turn, 0));
        blkup_turn_give(&turn);
        assert_true(blkup_turn_take(&turn, 0));
        blkup_turn_give(&turn);
        blkup_turn_destroy(&turn);
}

static void the_last_user_knows(void **state)
{
        (void) state;
        blkup_turn_init(&turn);
        assert_false(blkup_turn_is_shared(&turn));
        blkup_turn_join(&turn);
        blkup_turn_join(&turn);
        assert_true(blkup_turn_is_shared(&turn));
        assert_false(blkup_turn_leave(&turn));
        assert_false(blkup_turn_leave(&turn));
        assert_false(blkup_turn_is_shared(&turn));
        assert_true(blkup_turn_leave(&turn));
        blkup_turn_destroy(&turn);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(one_at_a_time),
                cmocka_unit_test(nobody_waits_for_longer),
                cmocka_unit_test(the_last_user_knows),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
