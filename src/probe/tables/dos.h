/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the master boot record's readers (dos, gpt, PMBR) share. */
#ifndef BLKUP_TABLES_DOS_H
#define BLKUP_TABLES_DOS_H

#include "probe/format.h"

#define BLKUP_MBR_ENTRIES_AT 446
#define BLKUP_MBR_ENTRIES 4
#define BLKUP_MBR_TYPE_GPT 0xee

struct blkup_mbr_entry {
        uint8_t boot, type;
        uint32_t start, size; /* in logical sectors */
};

/* Entry i (0..3) of a boot record of 512 bytes. */
struct blkup_mbr_entry blkup_mbr_entry(struct blkup_bytes sector, unsigned i);

/* Sector 0 with its 55 AA and an entry of type 0xee: BLKUP_FOUND. */
BLKUP_MUST_CHECK enum blkup_outcome blkup_mbr_is_protective(struct blkup_view *v);

extern const struct blkup_magic blkup_mbr_magics[1];

#endif
