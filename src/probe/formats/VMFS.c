/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* VMFS, VMware's file system. Source: github.com/glandium/vmfs-tools, libvmfs/vmfs_fs.h (struct
 * vmfs_fsinfo_raw). */
#include <inttypes.h>

#include "probe/formats/fields.h"

#define SB_AT 2097152

/* Offsets in the superblock, little-endian. */
enum {
        SB_VERSION = 8, /* 8 bits */
        SB_UUID = 9,
        SB_LABEL = 29,  /* 128 bytes */
        SB_USED = 157,
};

/* As VMware writes it: two words and a half word, each read little-endian, then six bytes. */
static void add_uuid(struct blkup_found *ret, struct blkup_bytes s)
{
        const uint8_t *b = s.data;

        if (blkup_is_filled(s, 0, 16, 0))
                return;
        blkup_found_printf(ret, "UUID", "%08" PRIx32 "-%08" PRIx32 "-%04x-%02x%02x%02x%02x%02x%02x",
                           blkup_load_le32(b), blkup_load_le32(b + 4), blkup_load_le16(b + 8), b[10], b[11],
                           b[12], b[13], b[14], b[15]);
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes sb;

        (void) hit;
        BLKUP_FETCH(v, SB_AT, SB_USED, &sb);
        blkup_found_evidence(ret, 32);
        add_uuid(ret, blkup_slice_at(sb, SB_UUID, 16));
        blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(sb, SB_LABEL, 128));
        blkup_found_u64(ret, "VERSION", blkup_u8_at(sb, SB_VERSION));
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = { { .at = SB_AT, .len = 4, .bytes = "\x5e\xf1\xab\x2f" } };

extern const struct blkup_format blkup_format_VMFS;
const struct blkup_format blkup_format_VMFS = {
        .name = "VMFS",
        .usage = BLKUP_USAGE_FILESYSTEM,
        .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics),
        .check = check,
};
