/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The n-th allocation fails. For a test that is linked with
 *   -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc
 * (the list `alloc_tests` in tests/unit/meson.build). Only calls from our own code are seen, not libc's.
 * Include it in one file of a program. Not thread-safe: arm it in tests of one thread.
 */
#ifndef BLKUP_TESTS_FAIL_ALLOC_H
#define BLKUP_TESTS_FAIL_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

static struct {
        bool armed, for_good; /* for_good: all that follow fail too */
        long left;            /* allocations that still succeed */
        long failed;
} fail_alloc;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static bool fail_alloc_now(void)
{
        if (!fail_alloc.armed || fail_alloc.left-- > 0)
                return false;
        if (fail_alloc.left < -1 && !fail_alloc.for_good)
                return false;
        fail_alloc.failed++;
        return true;
}

void *__wrap_malloc(size_t n)
{
        return fail_alloc_now() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
        return fail_alloc_now() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
        return fail_alloc_now() ? NULL : __real_realloc(p, n);
}

static void fail_alloc_arm(long after, bool for_good)
{
        fail_alloc.armed = true;
        fail_alloc.for_good = for_good;
        fail_alloc.left = after;
        fail_alloc.failed = 0;
}

/* How many failed since fail_alloc_arm(). 0: the run completed untouched, the loop over n is at its end. */
static long fail_alloc_disarm(void)
{
        fail_alloc.armed = false;
        return fail_alloc.failed;
}

#endif
