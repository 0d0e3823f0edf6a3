/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Loads that the kernel holds. finit_module(2) returns when the asynchronous probes of the whole machine are
 * over, or a driver probes in its init call itself: one silent device then holds the call for as long as it
 * is silent. A thread looks at the loads that are under way, and tells who need not wait for them any more.
 *
 * Of Linux 6.1 (kernel/module/main.c): a module is `live` before that wait, and from then on others may use
 * its symbols. While it is `coming` whoever needs it waits in the kernel, 30 s at most, and is refused with
 * EBUSY.
 */
#ifndef BLKUP_MODULES_HELD_H
#define BLKUP_MODULES_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <blkup/modules.h>

#include "base/cleanup.h"

struct blkup_held; /* opaque */

struct blkup_held_load {
        const char *name;
        bool is_needed; /* others use its symbols */
        bool has_after; /* others come after it for another reason: for the devices that it has then */
};

struct blkup_held_calls {
        /* Nobody has to wait for the load any more; live_ns: when its module was first seen live, 0: it is
         * not. Once a load. */
        void (*leave)(void *arg, size_t load, uint64_t live_ns);
        /* It takes so long that somebody may want to know. Once a load; may be NULL. */
        void (*tell)(void *arg, size_t load, uint64_t live_ns);
        /* Its holds() and goes_on(). */
        const struct blkup_module_holder *holder;
        /* Called once, when it does not go on, and before leave() is of each load that runs. */
        void (*give_up)(void *arg);
        void *arg;
        uint64_t after_ns; /* who comes after it for its devices' sake waits so long; 0: till it ends */
};

/* Texts stay the caller's while h lives; loads is copied. */
BLKUP_MUST_CHECK int blkup_held_new(const char *root, const struct blkup_held_load *loads, size_t n,
                                    const struct blkup_held_calls *calls, struct blkup_held **ret);
/* Makes the thread. One that cannot be had is no error: each load is then waited for. */
void blkup_held_start(struct blkup_held *h);
void blkup_held_begin(struct blkup_held *h, size_t load);
void blkup_held_end(struct blkup_held *h, size_t load);
/* No call comes any more when this returns. */
void blkup_held_stop(struct blkup_held *h);
struct blkup_held *
blkup_held_free(struct blkup_held *h); /* after blkup_held_stop(); NULL-safe, returns NULL */

#endif
