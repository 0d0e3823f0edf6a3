/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Multiple mount protection: a block through which machines that share a disk tell each other that one of
 * them uses the file system. Source: the kernel's fs/ext4/mmp.c and struct mmp_struct in fs/ext4/ext4.h.
 */
#ifndef BLKUP_LAZYINIT_MMP_H
#define BLKUP_LAZYINIT_MMP_H

#include "block/writer.h"
#include "lazyinit/layout.h"

#define BLKUP_MMP_LEN 1024u

struct blkup_lazy_mmp {
        struct blkup_writer *writer;
        const struct blkup_lazyinit_options *options;
        uint64_t at;          /* byte of the block */
        uint32_t unit_bytes;  /* what is read and written: whole sectors */
        uint8_t *block;       /* unit_bytes, as we last wrote it */
        bool has_checksum, is_held;
        uint32_t seed;
        unsigned wait_s;
        uint64_t looked_ns;
};

/* Looks at the block without changing it. 0: clean, or 1: refused, or a negative errno. */
BLKUP_MUST_CHECK int blkup_lazy_mmp_check(const struct blkup_lazy_layout *l, struct blkup_block *b,
                                          struct blkup_lazy_refusal *r, struct blkup_error *err);

/* Takes it: waits (11 s or more) to be sure that nobody else did. 0, 1 (refused) or a negative errno; on 0
 * blkup_lazy_mmp_release() has to follow. */
BLKUP_MUST_CHECK int blkup_lazy_mmp_take(const struct blkup_lazy_layout *l, struct blkup_writer *w,
                                         const struct blkup_lazyinit_options *o, struct blkup_lazy_mmp *ret,
                                         struct blkup_lazy_refusal *r, struct blkup_error *err);

/* Is it still ours? Asks the device every few seconds only. -ESTALE: no, stop at once. */
BLKUP_MUST_CHECK int blkup_lazy_mmp_still_held(void *mmp, struct blkup_error *err);

/* Gives it back as clean. Safe on one that was not taken. */
BLKUP_MUST_CHECK int blkup_lazy_mmp_release(struct blkup_lazy_mmp *m, struct blkup_error *err);

#endif
