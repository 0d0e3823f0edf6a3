/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Every candidate and what decided about it. Private to src/probe. */
#ifndef BLKUP_PROBE_EXPLAIN_H
#define BLKUP_PROBE_EXPLAIN_H

#include "probe/format.h"

struct blkup_probe;

/* Fills p->candidates after a run, on the same view; the result of the run stays as it is. */
void blkup_explain(struct blkup_probe *p);

/* features.c: the feature words of a superblock at base, for the types that have them (else nothing is read).
 */
BLKUP_MUST_CHECK enum blkup_outcome blkup_features_read(struct blkup_view *v, const char *type, uint64_t base,
                                                        uint64_t *ret_incompat, uint64_t *ret_ro_compat);

/* What the running kernel knows: its version, and the folder where file systems tell their features
 * (SYSFS/ext4/features/...; NULL: /sys/fs). */
struct blkup_kernel {
        unsigned major, minor;
        const char *sysfs;
};
void blkup_kernel_here(struct blkup_kernel *ret);

/* Names the features of c that the kernel does not know, and notes what that means. */
void blkup_features_judge(struct blkup_candidate *c, const struct blkup_kernel *k);

#endif
