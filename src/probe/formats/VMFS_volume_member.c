/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * VMFS_volume_member: a device of VMware's volume manager, below VMFS, at 1 MiB. Source:
 * github.com/glandium/vmfs-tools, libvmfs/vmfs_volume.h (struct vmfs_volinfo_raw, and vmfs_lvminfo_raw 512
 * bytes behind it), little-endian.
 */
#include <inttypes.h>

#include "probe/formats/fields.h"

enum {
        VOL_AT = 1 << 20,
        VOL_VERSION = 4,
        VOL_UUID = 130,
        VOL_LVM_UUID = 532,
        VOL_LVM_UUID_LEN = 35,
        VOL_LEN = 567
};

static const struct blkup_magic magics[] = { { .at = VOL_AT, .len = 4, .bytes = "\x0d\xd0\x01\xc0" } };

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes vol;
        const uint8_t *b;

        BLKUP_FETCH(v, hit->base, VOL_LEN, &vol);
        blkup_found_evidence(ret, 32);
        b = vol.data + VOL_UUID;
        /* As VMware writes it: two words and a half word, each read little-endian, then six bytes. */
        blkup_found_printf(ret, "UUID_SUB", "%08" PRIx32 "-%08" PRIx32 "-%04x-%02x%02x%02x%02x%02x%02x",
                           blkup_load_le32(b), blkup_load_le32(b + 4), blkup_load_le16(b + 8), b[10], b[11],
                           b[12], b[13], b[14], b[15]);
        blkup_found_u64(ret, "VERSION", blkup_le32_at(vol, VOL_VERSION));
        blkup_found_text(ret, "UUID", blkup_slice_at(vol, VOL_LVM_UUID, VOL_LVM_UUID_LEN));
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_VMFS_volume_member;
const struct blkup_format blkup_format_VMFS_volume_member = {
        .name = "VMFS_volume_member", .usage = BLKUP_USAGE_RAID,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
