/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where the body of an empty journal is: all its blocks but the first. mke2fs -E lazy_journal_init=1 leaves
 * the old contents of the disk in it, and no flag says so. Source: the kernel's include/linux/jbd2.h (journal
 * superblock) and fs/ext4/ext4_extents.h.
 */
#ifndef BLKUP_LAZYINIT_JOURNAL_H
#define BLKUP_LAZYINIT_JOURNAL_H

#include "lazyinit/layout.h"

/*
 * Ranges in bytes, sorted by their place in the journal; *ret is the caller's to free. *ret_n 0: there is
 * nothing to do, and *ret_why tells why (a constant). 0, 1 (refused: the journal's map makes no sense) or a
 * negative errno.
 */
BLKUP_MUST_CHECK int blkup_lazy_journal_body(const struct blkup_lazy_layout *l, struct blkup_block *b,
                                             struct blkup_lazy_span **ret, size_t *ret_n,
                                             const char **ret_why, struct blkup_lazy_refusal *r,
                                             struct blkup_error *err);

#endif
