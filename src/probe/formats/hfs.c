/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* HFS. Source: "Inside Macintosh: Files", chapter 2 (master directory block); the UUID is what macOS makes of
 * it. */
#include <string.h>

#include "base/hash.h"
#include "probe/formats/fields.h"
#include "probe/formats/hfs.h"

enum {
        MDB_LABEL_LEN = 36, /* 8 bits */
        MDB_LABEL = 37,     /* 27 bytes */
        MDB_ID = 116,       /* 8 bytes of Finder's information */
        MDB_USED = 128,
};

bool blkup_hfs_is_wrapper(struct blkup_bytes mdb)
{
        return blkup_equal_at(mdb, BLKUP_HFS_EMBED_SIGN, "H+", 2) ||
               blkup_equal_at(mdb, BLKUP_HFS_EMBED_SIGN, "HX", 2);
}

void blkup_hfs_add_uuid(struct blkup_found *ret, struct blkup_bytes id)
{
        /* A UUID of version 3 (RFC 4122, 4.3) in this name space. */
        uint8_t text[24] = { 0xb3, 0xe2, 0x0f, 0x39, 0xf2, 0x92, 0x11, 0xd6,
                             0x97, 0xa4, 0x00, 0x30, 0x65, 0x43, 0xec, 0xac };
        uint8_t uuid[16];

        if (id.len != 8 || blkup_is_filled(id, 0, 8, 0))
                return;
        memcpy(text + 16, id.data, 8);
        blkup_md5(text, sizeof(text), uuid);
        uuid[6] = (uint8_t) (0x30 | (uuid[6] & 0x0f));
        uuid[8] = (uint8_t) (0x80 | (uuid[8] & 0x3f));
        blkup_found_uuid(ret, "UUID", (struct blkup_bytes){ .data = uuid, .len = sizeof(uuid) });
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes mdb;
        uint32_t alloc;

        (void) hit;
        BLKUP_FETCH(v, BLKUP_HFS_MDB_AT, MDB_USED, &mdb);
        if (blkup_hfs_is_wrapper(mdb))
                return blkup_refuse(v, "wrapper of an hfsplus");
        alloc = blkup_be32_at(mdb, BLKUP_HFS_ALLOC_BYTES);
        if (alloc == 0 || alloc % 512 != 0)
                return blkup_refuse(v, "no such allocation block size");
        blkup_found_evidence(ret, 16 + 9);
        blkup_hfs_add_uuid(ret, blkup_slice_at(mdb, MDB_ID, 8));
        blkup_found_rtrimmed(ret, "LABEL",
                             blkup_slice_at(mdb, MDB_LABEL, blkup_min(blkup_u8_at(mdb, MDB_LABEL_LEN), 27)));
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = { { .at = BLKUP_HFS_MDB_AT, .len = 2, .bytes = "BD" } };

extern const struct blkup_format blkup_format_hfs;
const struct blkup_format blkup_format_hfs = {
        .name = "hfs", .usage = BLKUP_USAGE_FILESYSTEM, .flags = BLKUP_TOLERANT, .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
