/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The work itself, on a layout that was checked and a writer that nobody else uses: zeroes, flush, flags and
 * checksums in whole sectors, flush. This order is all there is to recovery.
 */
#ifndef BLKUP_LAZYINIT_FINISH_H
#define BLKUP_LAZYINIT_FINISH_H

#include <blkup/lazyinit.h>

#include "lazyinit/layout.h"
#include "lazyinit/zero.h"

/* One group to do. */
struct blkup_lazy_todo {
        uint64_t at, len; /* what has to be zero, in bytes */
        uint32_t group;
        bool needs_flag;  /* false: flagged, but stale */
};

/* Sorted by place; *ret is the caller's to free, NULL when n is 0. stale_only_of_flagged: groups for which
 * is_stale[g] is true are added (is_stale may be NULL). -ENOMEM. */
BLKUP_MUST_CHECK int blkup_lazy_todo(const struct blkup_lazy_layout *l, const bool *is_stale,
                                     struct blkup_lazy_todo **ret, size_t *ret_n);

struct blkup_lazy_finish {
        const struct blkup_lazy_layout *layout;
        struct blkup_writer *writer;
        const struct blkup_lazyinit_options *options;
        struct blkup_lazyinit_result *result; /* counts are added to it */
        const char *device;                   /* for progress and trace */
        struct blkup_lazy_zero zero;
        struct blkup_lazy_todo *todo;
        size_t n_todo;
        const struct blkup_lazy_span *body; /* further bytes to be zeroed, first: the journal; may be NULL */
        size_t n_body;
        /* Asked between units: is it still ours alone? 0 or a negative errno. May be NULL. */
        int (*still_ours)(void *to, struct blkup_error *err);
        void *still_ours_to;
        /* Background: does somebody else wait for the device? May be NULL. */
        bool (*is_busy)(void *to);
        void *is_busy_to;
};

/*
 * Does it. 0 (result->was_stopped tells whether it was stopped before the end); a negative errno: the groups
 * of the batch at hand keep their flag clear, all earlier ones are finished and durable.
 */
BLKUP_MUST_CHECK int blkup_lazy_finish(struct blkup_lazy_finish *f, struct blkup_error *err);

#endif
