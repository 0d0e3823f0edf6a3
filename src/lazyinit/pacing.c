/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "lazyinit/pacing.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/checked.h"

/* Of what is owed, this part is added to each wait: a slow unit is paid for in the next few, not at once. */
#define OWED_SHARE 3
/* One slow unit, of a device that was busy with others, is not to be paid for during minutes. */
#define OWED_MAX_NS (INT64_C(16) * (int64_t) BLKUP_PACING_WAIT_MAX_NS)
/* No unit is believed to take longer, so that no product below overflows: 2^40 ns are 18 minutes. */
#define SAMPLE_MAX_NS (UINT64_C(1) << 40)

void blkup_pacing_init(struct blkup_pacing *p, unsigned mult, uint32_t unit_max)
{
        *p = (struct blkup_pacing){ .mult = mult > 1000 ? 1000 : mult, .unit = 1,
                                    .unit_max = unit_max > 0 ? unit_max : 1 };
}

static uint64_t median(const uint64_t *samples, unsigned n)
{
        uint64_t sorted[BLKUP_PACING_SAMPLES];

        for (unsigned i = 0; i < n; i++) {
                unsigned j = i;

                for (; j > 0 && sorted[j - 1] > samples[i]; j--)
                        sorted[j] = sorted[j - 1];
                sorted[j] = samples[i];
        }
        return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

uint64_t blkup_pacing_after(struct blkup_pacing *p, uint32_t groups, uint64_t ns)
{
        uint64_t sample = blkup_min(ns, SAMPLE_MAX_NS);
        int64_t wait, owed;

        p->samples[p->next] = sample;
        p->next = (p->next + 1) % BLKUP_PACING_SAMPLES;
        p->n_samples += p->n_samples < BLKUP_PACING_SAMPLES;

        owed = p->owed_ns + (int64_t) (sample * p->mult);
        wait = (int64_t) (median(p->samples, p->n_samples) * p->mult);
        wait += (owed - wait) / OWED_SHARE;
        if (wait < 0)
                wait = 0;
        if (wait > (int64_t) BLKUP_PACING_WAIT_MAX_NS)
                wait = (int64_t) BLKUP_PACING_WAIT_MAX_NS;
        owed -= wait;
        p->owed_ns = owed > OWED_MAX_NS ? OWED_MAX_NS : owed < -OWED_MAX_NS ? -OWED_MAX_NS : owed;

        if (groups == p->unit) {
                uint32_t before = p->unit;

                if (sample > BLKUP_PACING_TARGET_NS && p->unit > 1)
                        p->unit /= 2;
                else if (2 * sample <= BLKUP_PACING_TARGET_NS && p->unit < p->unit_max)
                        p->unit = (uint32_t) blkup_min(2ull * p->unit, p->unit_max);
                /* Samples of another size say nothing of the next: keep the last, scaled. */
                if (p->unit != before) {
                        p->samples[0] = sample * p->unit / before;
                        p->n_samples = 1;
                        p->next = 1;
                }
        }
        return (uint64_t) wait;
}

void blkup_pacing_overslept(struct blkup_pacing *p, uint64_t ns)
{
        /* A deadline is met late by a tick, or by much more on a busy machine: the next wait is so much
         * shorter. */
        p->owed_ns -= (int64_t) blkup_min(ns, BLKUP_PACING_WAIT_MAX_NS);
        if (p->owed_ns < -OWED_MAX_NS)
                p->owed_ns = -OWED_MAX_NS;
}
