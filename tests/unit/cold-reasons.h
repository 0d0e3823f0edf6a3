/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What failed says why, whatever it was. */
#ifndef TESTS_UNIT_COLD_REASONS_H
#define TESTS_UNIT_COLD_REASONS_H

#include <cmocka.h>

#include <blkup/coldplug.h>

static inline void has_reason(const struct blkup_coldplug_step *s)
{
        if (s->state == BLKUP_COLDPLUG_FAILED || s->state == BLKUP_COLDPLUG_REFUSED ||
            s->state == BLKUP_COLDPLUG_TIMED_OUT)
                assert_true(s->text && *s->text);
}

static inline void have_reasons(const struct blkup_coldplug_result *r)
{
        for (size_t i = 0; i < r->n_devices; i++)
                has_reason(&r->devices[i]->probe);
        for (size_t i = 0; i < r->n_sets; i++)
                has_reason(&r->sets[i]->step);
        for (size_t i = 0; i < r->n_entries; i++)
                for (size_t k = 0; k < BLKUP_COLDPLUG_STAGES; k++)
                        has_reason(&r->entries[i].steps[k]);
}

#endif
