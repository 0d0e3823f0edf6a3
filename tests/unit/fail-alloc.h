/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The n-th allocation fails. For a test that is linked with
 *   -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc
 * (the list `alloc_tests` in tests/unit/meson.build). Only calls from our own code are seen, not libc's.
 * Include it in one file of a program. In a run of several threads it is chance whose allocation the n-th is.
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
        long left;

        if (!__atomic_load_n(&fail_alloc.armed, __ATOMIC_ACQUIRE))
                return false;
        left = __atomic_fetch_sub(&fail_alloc.left, 1, __ATOMIC_RELAXED);
        if (left > 0 || (left < 0 && !fail_alloc.for_good))
                return false;
        (void) __atomic_add_fetch(&fail_alloc.failed, 1, __ATOMIC_RELAXED);
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
        fail_alloc.for_good = for_good;
        fail_alloc.left = after;
        fail_alloc.failed = 0;
        __atomic_store_n(&fail_alloc.armed, true, __ATOMIC_RELEASE);
}

/* How many failed since fail_alloc_arm(). 0: the run completed untouched, the loop over n is at its end. */
static long fail_alloc_disarm(void)
{
        __atomic_store_n(&fail_alloc.armed, false, __ATOMIC_RELEASE);
        return __atomic_load_n(&fail_alloc.failed, __ATOMIC_RELAXED);
}

#endif
