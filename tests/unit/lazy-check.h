/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What must hold of an image in whatever state a run left it: for the tests of power cuts and faults. */
#ifndef BLKUP_TESTS_LAZY_CHECK_H
#define BLKUP_TESTS_LAZY_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "block/writer-model.h"
#include "lazyinit/finish.h"
#include "lazyinit/layout.h"

struct lazy_work {
        struct blkup_lazyinit_options options;
        struct blkup_lazyinit_result result;
};

/* Finishes what is behind w, from reading its layout on. */
static inline int lazy_work_finish(struct lazy_work *work, struct blkup_writer *w, struct blkup_error *err)
{
        struct blkup_lazy_layout l;
        struct blkup_lazy_refusal r = { 0 };
        struct blkup_lazy_finish f = {
                .layout = &l,
                .writer = w,
                .options = &work->options,
                .result = &work->result,
                .device = "image",
                .zero = { .writer = w,
                          .strategy = work->options.strategy,
                          .allocation = work->options.allocation,
                          .stop = work->options.stop,
                          .one_at_a_time = work->options.background,
                          .in_flight = work->options.in_flight },
        };
        int k = blkup_lazy_layout_read(&w->block, false, &l, &r, err);

        if (k != 0)
                return k < 0 ? k : blkup_fail(err, -EUCLEAN, "%s", r.reason);
        work->result = (struct blkup_lazyinit_result){ .groups = l.groups };
        k = blkup_lazy_check_bitmaps(&l, &w->block, false, &r, err);
        if (k == 0)
                k = blkup_lazy_zero_init(&f.zero);
        if (k == 0)
                k = blkup_lazy_todo(&l, NULL, &f.todo, &f.n_todo);
        work->result.groups_left = work->result.groups_left_before = (uint32_t) f.n_todo;
        if (k == 0)
                k = blkup_lazy_finish(&f, err);
        free(f.todo);
        blkup_lazy_zero_done(&f.zero);
        blkup_lazy_layout_done(&l);
        return k == 1 ? blkup_fail(err, -EUCLEAN, "%s", r.reason) : k;
}

/*
 * Every group of `image` that is flagged and was not in `before` has an empty table; every descriptor and the
 * rest of the metadata is valid; and outside the tables and the descriptors' flags and checksums nothing has
 * changed, so neither has any file. NULL: all holds, else what does not.
 */
static inline const char *lazy_check(const uint8_t *before, uint8_t *image, size_t size)
{
        static char what[320];
        struct blkup_writer *w = blkup_writer_memory_new(image, size, 512);
        struct blkup_lazy_layout l;
        struct blkup_lazy_refusal r = { 0 };
        static uint8_t *plain; /* one for all: thousands of images are checked */
        static size_t plain_size;
        const char *wrong = NULL;
        int k = blkup_lazy_layout_read(&w->block, false, &l, &r, NULL);

        if (k != 0) {
                (void) snprintf(what, sizeof(what), "refused: %s", r.reason);
                (void) blkup_writer_close(w);
                return what;
        }
        if (plain_size != size) {
                plain = realloc(plain, size);
                plain_size = size;
        }
        /* The image with all that may have changed put back. */
        memcpy(plain, image, size);
        for (uint32_t g = 0; g < l.groups && !wrong; g++) {
                uint64_t at = blkup_lazy_zero_at(&l, g), len = blkup_lazy_zero_len(&l, g),
                         d = blkup_lazy_desc_at(&l, g);

                if (!(before[d + BLKUP_EXT4_BG_FLAGS] & BLKUP_EXT4_BG_INODE_ZEROED)) {
                        for (uint64_t i = 0; (l.group[g].flags & BLKUP_EXT4_BG_INODE_ZEROED) && i < len;
                             i++) {
                                if (image[at + i] != 0) {
                                        (void) snprintf(what, sizeof(what),
                                                        "group %u is flagged and not zero", g);
                                        wrong = what;
                                        break;
                                }
                        }
                        memcpy(plain + at, before + at, len);
                        plain[d + BLKUP_EXT4_BG_FLAGS] &= (uint8_t) ~BLKUP_EXT4_BG_INODE_ZEROED;
                        memcpy(plain + d + BLKUP_EXT4_BG_CHECKSUM, before + d + BLKUP_EXT4_BG_CHECKSUM, 2);
                }
        }
        if (!wrong && memcmp(plain, before, size) != 0)
                wrong = "something else has changed";
        blkup_lazy_layout_done(&l);
        (void) blkup_writer_close(w);
        return wrong;
}

#endif
