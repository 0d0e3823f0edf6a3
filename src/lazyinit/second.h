/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A second opinion before the first write: libext2fs, where the machine has it, is asked for the geometry,
 * the place of each table and descriptor, and the checksum that each descriptor will get. It only reads,
 * through our handle, and only after our own checks. Loaded when it is needed, never linked.
 */
#ifndef BLKUP_LAZYINIT_SECOND_H
#define BLKUP_LAZYINIT_SECOND_H

#include "lazyinit/layout.h"

/* 0: *ret_asked tells whether it was there (and then it agrees); 1: it does not; negative errno. */
BLKUP_MUST_CHECK int blkup_lazy_second_opinion(const struct blkup_lazy_layout *l, struct blkup_block *b,
                                               bool *ret_asked, struct blkup_lazy_refusal *r);

#endif
