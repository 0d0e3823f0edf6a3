/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * OCFS, and the file system of its maker for Windows. Source: kernel fs/ocfs2/ocfs1_fs_compat.h (struct
 * ocfs1_vol_disk_hdr in sector 0, struct ocfs1_vol_label in sector 1). That the mount point has a length of
 * 16 bits behind it is libblkid's (superblocks/ocfs.c): the kernel's header has a serial number there.
 * util-linux looks for the magic at 8192 instead of 8, so both places count.
 */
#include "probe/formats/fields.h"

#define LABEL_AT 512 /* behind the header */

/* Offsets in the header, little-endian, and in the label's sector. */
enum {
        VH_MINOR = 0,
        VH_MAJOR = 4,
        VH_MOUNT = 136,     /* 128 bytes: the mount point */
        VH_MOUNT_LEN = 264, /* 16 bits */
};
enum {
        VL_LABEL = 48,      /* 64 bytes */
        VL_LABEL_LEN = 112, /* 16 bits */
        VL_UUID = 114,
};

/* Text of a length that stands beside it; none when the length is beyond its room. */
static struct blkup_bytes text(struct blkup_bytes s, size_t at, size_t room, size_t len_at)
{
        size_t len = blkup_le16_at(s, len_at);

        return blkup_slice_at(s, at, len <= room ? len : 0);
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes vh, vl;
        uint32_t major;

        blkup_view_want(v, hit->base + LABEL_AT, 130);
        BLKUP_FETCH(v, hit->base, 512, &vh);
        BLKUP_FETCH(v, hit->base + LABEL_AT, 130, &vl);
        major = blkup_le32_at(vh, VH_MAJOR);
        blkup_found_evidence(ret, 72);
        if (major == 1)
                blkup_found_string(ret, "SEC_TYPE", "ocfs1");
        else if (major >= 9)
                blkup_found_string(ret, "SEC_TYPE", "ntocfs");
        blkup_found_rtrimmed(ret, "LABEL", text(vl, VL_LABEL, 64, VL_LABEL_LEN));
        blkup_found_text(ret, "MOUNT", text(vh, VH_MOUNT, 128, VH_MOUNT_LEN));
        blkup_found_uuid(ret, "UUID", blkup_slice_at(vl, VL_UUID, 16));
        blkup_found_version(ret, major, blkup_le32_at(vh, VH_MINOR));
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = {
        { .within = 8, .len = 9, .bytes = "OracleCFS" },
        { .at = 8192, .len = 9, .bytes = "OracleCFS" },
};

extern const struct blkup_format blkup_format_ocfs;
const struct blkup_format blkup_format_ocfs = {
        .name = "ocfs", .usage = BLKUP_USAGE_FILESYSTEM, .min_bytes = 14336000, .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
