/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The header that swap areas and hibernation images share. */
#ifndef BLKUP_FORMATS_SWAP_H
#define BLKUP_FORMATS_SWAP_H

#include "probe/format.h"

#define BLKUP_SWAP_HEADER_AT 1024
#define BLKUP_SWAP_HEADER_LEN 180
#define BLKUP_SWAP_MIN_BYTES 40960
#define BLKUP_TUXONICE_MAGIC "\xed\xc3\x02\xe9\x98\x56\xe5\x0c"

/* The magic stands at the end of the first page, of 4 to 64 KiB; `rows` gives the rows of one page size. */
#define BLKUP_SWAP_PAGES(rows) rows(4096) rows(8192) rows(16384) rows(32768) rows(65536)

/* LABEL and UUID of the header, where a mkswap wrote one. */
void blkup_swap_label_uuid(struct blkup_bytes header, struct blkup_found *ret);

#endif
