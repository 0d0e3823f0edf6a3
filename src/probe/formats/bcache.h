/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where bcache and its descendant bcachefs have their superblock, and the magic that both have used. */
#ifndef BLKUP_FORMATS_BCACHE_H
#define BLKUP_FORMATS_BCACHE_H

#include "probe/format.h"

#define BLKUP_BCACHE_AT 4096u /* both wipe what stands before it */
#define BLKUP_BCACHE_MAGIC_WITHIN 24
#define BLKUP_BCACHE_MAGIC "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"

#endif
