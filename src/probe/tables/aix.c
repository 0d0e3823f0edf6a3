/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * aix: a disk of AIX's volume manager. Only its mark is known ("IBMA" in EBCDIC,
 * ../shared/probe/signatures.tsv); its volumes are not listed.
 */
#include "probe/format.h"

static const struct blkup_magic magics[] = { { .len = 4, .bytes = "\xc9\xc2\xd4\xc1" } };

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret,
                                struct blkup_entries *e)
{
        (void) v;
        (void) hit;
        (void) e;
        blkup_found_evidence(ret, 32);
        return BLKUP_FOUND;
}

extern const struct blkup_table blkup_table_aix;
const struct blkup_table blkup_table_aix = {
        .name = "aix", .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
