/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* drbdproxy_datalog: the log of DRBD Proxy, little-endian (../shared/probe/tags.tsv). */
#include <inttypes.h>

#include "probe/formats/fields.h"

enum { LOG_VERSION = 8, LOG_UUID = 16, LOG_LEN = 32 };

static const struct blkup_magic magics[] = { { .len = 8, .bytes = "DRBDdlh*" } };

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes log;

        (void) hit;
        BLKUP_FETCH(v, 0, LOG_LEN, &log);
        blkup_found_evidence(ret, 64);
        blkup_found_uuid(ret, "UUID", blkup_slice_at(log, LOG_UUID, 16));
        blkup_found_printf(ret, "VERSION", "v%" PRIu64, blkup_le64_at(log, LOG_VERSION));
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_drbdproxy_datalog;
const struct blkup_format blkup_format_drbdproxy_datalog = {
        .name = "drbdproxy_datalog", .usage = BLKUP_USAGE_FILESYSTEM, .min_bytes = 16384,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
