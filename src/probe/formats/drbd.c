/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * drbd: internal meta-data in the last 4 KiB of a backing device, big-endian. Source: DRBD's drbd_int.h (8.4)
 * and drbd-headers (9). The area behind the fields is zero, which is what tells it from chance.
 */
#include <inttypes.h>

#include "probe/format.h"

enum { MD_BLOCK = 80 /* bytes for a bit of the bitmap */, MD_LEN = 4096 };
enum { MD8_UUID = 40, MD8_END = 100 };
enum { MD9_UUID = 48, MD9_END = 1392 };

static const struct blkup_magic magics[] = {
        { .at = MD_LEN, .within = 60, .anchor = BLKUP_FROM_END, .len = 4, .bytes = "\x83\x74\x02\x6b" },
        { .at = MD_LEN,
          .within = 60,
          .anchor = BLKUP_FROM_END,
          .len = 4,
          .bytes = "\x83\x74\x02\x6c" }, /* not shut down */
        { .at = MD_LEN, .within = 60, .anchor = BLKUP_FROM_END, .len = 4, .bytes = "\x83\x74\x02\x6d" },
};
#define ROW_OF_9 2u

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        bool is_9 = hit->row == ROW_OF_9;
        size_t end = is_9 ? MD9_END : MD8_END;
        struct blkup_bytes md;
        uint64_t uuid;

        BLKUP_FETCH(v, hit->base, MD_LEN, &md);
        if (blkup_be32_at(md, MD_BLOCK) != 4096)
                return blkup_refuse(v, "bitmap is not of 4 KiB a bit");
        if (!blkup_is_filled(md, end, MD_LEN - end, 0))
                return blkup_refuse(v, "bytes behind the fields are not zero");
        blkup_found_evidence(ret, 32 + 32 + 256);
        uuid = blkup_be64_at(md, is_9 ? MD9_UUID : MD8_UUID);
        if (uuid != 0)
                blkup_found_printf(ret, "UUID", "%" PRIx64, uuid);
        blkup_found_string(ret, "VERSION", is_9 ? "v09" : "v08");
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_drbd;
const struct blkup_format blkup_format_drbd = {
        .name = "drbd", .usage = BLKUP_USAGE_RAID, .min_bytes = 65536,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
