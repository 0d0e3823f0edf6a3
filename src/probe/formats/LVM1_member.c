/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* LVM1_member: a physical volume of the first LVM, in sector 0. Source: Linux 2.4 include/linux/lvm.h
 * (pv_disk_t). */
#include "probe/formats/fields.h"
#include "probe/formats/lvm.h"

enum { PV_VERSION = 2, PV_UUID = 44 };

static const struct blkup_magic magics[] = { { .len = 2, .bytes = "HM" } };

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes pv;
        uint16_t version;

        (void) hit;
        BLKUP_FETCH(v, 0, PV_UUID + BLKUP_LVM_ID_LEN, &pv);
        version = blkup_le16_at(pv, PV_VERSION);
        if (version != 1 && version != 2)
                return blkup_refuse(v, "version is neither 1 nor 2");
        blkup_found_evidence(ret, 16 + 15);
        blkup_lvm_uuid(ret, blkup_slice_at(pv, PV_UUID, BLKUP_LVM_ID_LEN));
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_LVM1_member;
const struct blkup_format blkup_format_LVM1_member = {
        .name = "LVM1_member", .usage = BLKUP_USAGE_RAID,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
