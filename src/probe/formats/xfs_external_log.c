/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The log of an XFS on a device of its own. Source: "XFS Algorithms & Data Structures", 3rd edition (log
 * record header). A log is a ring, so a record may begin in any of its first sectors: that makes this the
 * dearest format to look for.
 */
#include "probe/formats/fields.h"

/* Offsets in a record's header, big-endian. */
enum {
        LOG_VERSION = 8,
        LOG_LENGTH = 12,  /* bytes, signed */
        LOG_FORMAT = 300, /* of the system that wrote it */
        LOG_UUID = 304,   /* of the file system */
        LOG_HEADER_LEN = 320,
};

#define LOG_MAGIC "\xfe\xed\xba\xbe"
#define KNOWN_VERSIONS 0x3u /* a bit mask on disk: 1 and 2 */
#define SCANNED_BYTES (UINT64_C(256) << 10)

static bool is_record(struct blkup_bytes s)
{
        uint32_t version = blkup_be32_at(s, LOG_VERSION), length = blkup_be32_at(s, LOG_LENGTH);
        uint32_t format = blkup_be32_at(s, LOG_FORMAT);

        return blkup_equal_at(s, 0, LOG_MAGIC, 4) && version != 0 && !(version & ~KNOWN_VERSIONS) &&
               length > 0 && length <= INT32_MAX && format >= 1 && format <= 3;
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes first, all;

        (void) hit;
        /* Sector 0 is in memory anyway; where a file system begins, no log does. */
        BLKUP_FETCH(v, 0, 4, &first);
        if (blkup_equal_at(first, 0, "XFSB", 4))
                return blkup_refuse(v, "an xfs itself");
        BLKUP_FETCH(v, 0, SCANNED_BYTES, &all);
        for (size_t off = 0; off < SCANNED_BYTES; off += 512) {
                struct blkup_bytes s = blkup_slice_at(all, off, LOG_HEADER_LEN);

                if (blkup_equal_at(s, 0, "XFSB", 4))
                        return blkup_refuse(v, "an xfs stands before any log record");
                if (!is_record(s))
                        continue;
                ret->magic_at = off;
                ret->magic_len = 4;
                blkup_found_evidence(ret, 32 + 30 + 30);
                blkup_found_uuid(ret, "LOGUUID", blkup_slice_at(s, LOG_UUID, 16));
                return BLKUP_FOUND;
        }
        return BLKUP_NOT_THIS;
}

extern const struct blkup_format blkup_format_xfs_external_log;
const struct blkup_format blkup_format_xfs_external_log = {
        .name = "xfs_external_log",
        .usage = BLKUP_USAGE_OTHER,
        .min_bytes = UINT64_C(10) << 20,
        .flags = BLKUP_LATE,
        .check = check,
};
