/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A disk of Oracle ASM. Source: oracleasm kernel driver, include/linux/oracleasm/disk.h (struct
 * asm_disk_label, 32 bytes from 32 on: eight of tag, 24 of label). */
#include "probe/formats/fields.h"

enum { SB_MAGIC = 32, SB_LABEL = 40 /* 24 bytes */ };

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes sb;

        (void) hit;
        BLKUP_FETCH(v, 0, SB_LABEL + 24, &sb);
        blkup_found_evidence(ret, 64);
        blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(sb, SB_LABEL, 24));
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = { { .within = SB_MAGIC, .len = 8, .bytes = "ORCLDISK" } };

extern const struct blkup_format blkup_format_oracleasm;
const struct blkup_format blkup_format_oracleasm = {
        .name = "oracleasm", .usage = BLKUP_USAGE_FILESYSTEM, .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
