/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pacing policies in virtual time. Source of the two kernel policies: fs/ext4/super.c (ext4_run_li_request)
 * before and after "ext4: fix lazy initialization next schedule time computation in more granular unit"
 * (2021), and kernel/time/timer.c for when a sleep ends. */
#include <blkup/lazyinit.h>

#include <errno.h>

#include "base/checked.h"
#include "base/error.h"
#include "lazyinit/pacing.h"

#define NS_PER_S UINT64_C(1000000000)

/* xorshift64*: the lottery needs no better numbers, and the same ones on every machine. */
static uint64_t next_random(uint64_t *state)
{
        uint64_t x = *state;

        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        *state = x;
        return x * UINT64_C(0x2545F4914F6CDD1D);
}

/*
 * -ln(u) for u in (0, 1], without libm: u = m x 2^-k with m in [1/2, 1), so -ln(u) = k ln 2 - ln(m), and
 * ln(m) by the series of atanh, whose 14th term is below 1e-15 here.
 */
static double minus_ln(double u)
{
        double k = 0, t, t2, power, sum = 0;

        while (u < 0.5 && k < 64) {
                u *= 2;
                k++;
        }
        t = (u - 1) / (u + 1);
        t2 = t * t;
        power = t;
        for (int i = 1; i < 30; i += 2) {
                sum += power / i;
                power *= t2;
        }
        return k * 0.69314718055994530942 - 2 * sum;
}

static uint64_t group_time(const struct blkup_lazyinit_sim *s, uint64_t *state)
{
        double u;

        if (s->group_ns > 0 || s->exp_mean_ns == 0)
                return s->group_ns > 0 ? s->group_ns : s->base_ns;
        /* 53 bits, and never 0. */
        u = ((double) (next_random(state) >> 11) + 1) / 9007199254740992.0;
        return s->base_ns + (uint64_t) ((double) s->exp_mean_ns * minus_ln(u));
}

/* A sleep until jiffy `until`, w jiffies long: the timer wheel rounds longer ones up (LVL_START of each
 * level). */
static uint64_t wheel(uint64_t until, uint64_t w)
{
        unsigned s = w < 63 ? 0 : w < 504 ? 3 : w < 4032 ? 6 : w < 32256 ? 9 : 12;

        return ((until >> s) + 1) << s;
}

int blkup_lazyinit_simulate(const struct blkup_lazyinit_sim *s, struct blkup_lazyinit_sim_result *ret)
{
        struct blkup_lazyinit_sim_result result = { 0 };
        struct blkup_pacing pacing;
        uint64_t state = s->seed * 2 + 1, now = 0, wait = 0, jiffy, product;
        uint32_t done = 0;

        if (s->hz == 0 || s->hz > 100000 || s->groups == 0)
                return -EINVAL;
        jiffy = NS_PER_S / s->hz;
        blkup_pacing_init(&pacing, s->wait_mult, s->policy == BLKUP_LAZYINIT_BLKUP ? 16 : 1);
        state = next_random(&state);
        /* Ends: done grows. */
        while (done < s->groups) {
                uint32_t unit = (uint32_t) blkup_min(pacing.unit, s->groups - done);
                uint64_t took = 0, end;

                for (uint32_t i = 0; i < unit; i++)
                        took += group_time(s, &state);
                /* Far from overflow: a century. */
                if (took > (UINT64_C(1) << 61) || !blkup_add(now, took, &end) || end > (UINT64_C(1) << 61) ||
                    !blkup_mul(took, s->wait_mult, &product) || product > (UINT64_C(1) << 61))
                        return -EINVAL;
                result.busy_ns += took;
                done += unit;
                if (s->policy == BLKUP_LAZYINIT_BLKUP) {
                        wait = blkup_pacing_after(&pacing, unit, took);
                        result.wait_jiffies = wait / jiffy;
                        now = done < s->groups ? end + wait : end;
                        continue;
                }
                if (wait == 0)
                        wait = s->policy == BLKUP_LAZYINIT_JIFFIES
                                       ? (end / jiffy - now / jiffy) * s->wait_mult
                                       : product / jiffy;
                result.wait_jiffies = wait;
                now = done == s->groups || wait == 0 ? end : wheel(end / jiffy + wait, wait) * jiffy;
        }
        result.total_ns = now;
        *ret = result;
        return 0;
}
