/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What ext2, ext3, ext4, ext4dev and jbd share: one superblock, told apart by feature bits. */
#ifndef BLKUP_FORMATS_EXT_H
#define BLKUP_FORMATS_EXT_H

#include "probe/format.h"

#define BLKUP_EXT_SB_AT 1024
#define BLKUP_EXT_SB_LEN 1024
#define BLKUP_EXT_SB_UUID 104 /* 16 bytes */

/* Feature bits that tell the types apart. */
#define BLKUP_EXT_COMPAT_HAS_JOURNAL 0x0004u
#define BLKUP_EXT_INCOMPAT_JOURNAL_DEV 0x0008u

extern const struct blkup_magic blkup_ext_magics[1];

struct blkup_ext_super {
        struct blkup_bytes sb; /* 1024 bytes */
        uint32_t compat, incompat, ro_compat, flags;
};

/* Fetches and validates the superblock at 1024. */
BLKUP_MUST_CHECK enum blkup_outcome blkup_ext_fetch(struct blkup_view *v, struct blkup_ext_super *ret);

/* Adds the tags; type is the TYPE that was decided on. */
void blkup_ext_describe(const struct blkup_ext_super *s, const char *type, struct blkup_found *ret);

#endif
