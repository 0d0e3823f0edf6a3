/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Checked 64-bit arithmetic for values that come from a disk. Each returns false when the result
 * does not fit (or the operand is out of range) and then leaves *ret alone.
 */
#ifndef BLKUP_BASE_CHECKED_H
#define BLKUP_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

BLKUP_MUST_CHECK static inline bool blkup_add(uint64_t a, uint64_t b, uint64_t *ret)
{
        uint64_t r;

        if (__builtin_add_overflow(a, b, &r))
                return false;
        *ret = r;
        return true;
}

BLKUP_MUST_CHECK static inline bool blkup_sub(uint64_t a, uint64_t b, uint64_t *ret)
{
        if (b > a)
                return false;
        *ret = a - b;
        return true;
}

BLKUP_MUST_CHECK static inline bool blkup_mul(uint64_t a, uint64_t b, uint64_t *ret)
{
        uint64_t r;

        if (__builtin_mul_overflow(a, b, &r))
                return false;
        *ret = r;
        return true;
}

/* a << n; a shift count from a disk is any number, so it is checked here. */
BLKUP_MUST_CHECK static inline bool blkup_shl(uint64_t a, uint64_t n, uint64_t *ret)
{
        if (n > 63 || (n > 0 && a >> (64 - n) != 0))
                return false;
        *ret = a << n;
        return true;
}

/* Does [at, at + len) lie inside [0, size)? An empty range at the very end does. */
static inline bool blkup_inside(uint64_t at, uint64_t len, uint64_t size)
{
        return at <= size && len <= size - at;
}

static inline bool blkup_is_power_of_two(uint64_t v)
{
        return v != 0 && (v & (v - 1)) == 0;
}

static inline uint64_t blkup_align_down(uint64_t v, uint64_t power_of_two)
{
        return v & ~(power_of_two - 1);
}

/* Rounds up; saturates at the largest multiple that fits instead of wrapping. */
static inline uint64_t blkup_align_up(uint64_t v, uint64_t power_of_two)
{
        uint64_t r;

        if (__builtin_add_overflow(v, power_of_two - 1, &r))
                return ~(power_of_two - 1);
        return r & ~(power_of_two - 1);
}

static inline uint64_t blkup_min(uint64_t a, uint64_t b)
{
        return a < b ? a : b;
}

static inline uint64_t blkup_max(uint64_t a, uint64_t b)
{
        return a > b ? a : b;
}

#endif
