/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * HFS+ and HFSX, bare or inside an HFS wrapper. Source: Apple's technical note TN1150 (volume header,
 * B-trees, catalog file: the first key of the catalog is the root folder, its name is the volume's).
 */
#include "probe/formats/fields.h"
#include "probe/formats/hfs.h"

/* Offsets in the volume header, big-endian. */
enum {
        VH_BLOCK_BYTES = 40,
        VH_ID = 104,             /* 8 bytes of Finder's information */
        VH_CATALOG_EXTENTS = 288, /* eight of start and length, in blocks */
        VH_USED = 352,
        N_EXTENTS = 8,
};

/* Offsets in a B-tree's header node and in a leaf; the node's descriptor is 14 bytes long. */
enum {
        NODE_KIND = 8,           /* 8 bits */
        NODE_RECORDS = 10,       /* 16 bits */
        HEADER_LEAF_RECORDS = 14 + 6,
        HEADER_FIRST_LEAF = 14 + 10,
        HEADER_NODE_BYTES = 14 + 18, /* 16 bits */
        HEADER_USED = 14 + 20,
        KEY_PARENT = 14 + 2,     /* of a leaf's first record */
        KEY_NAME_CHARS = 14 + 6, /* 16 bits */
        KEY_NAME = 14 + 8,
};
#define NODE_KIND_LEAF 0xffu
#define PARENT_OF_ROOT 1u
#define MAX_NAME_CHARS 255

struct volume {
        struct blkup_bytes vh;
        uint64_t at; /* of the volume, bytes */
        uint64_t block_bytes;
};

/* Where on the device byte `at` of the catalog file is; false when its first extents do not hold it. */
static bool catalog_at(const struct volume *vol, uint64_t at, uint64_t *ret)
{
        uint64_t block = at / vol->block_bytes;

        for (size_t i = 0; i < N_EXTENTS; i++) {
                uint64_t start = blkup_be32_at(vol->vh, VH_CATALOG_EXTENTS + 8 * i);
                uint64_t count = blkup_be32_at(vol->vh, VH_CATALOG_EXTENTS + 8 * i + 4);

                if (count == 0)
                        break;
                if (block < count)
                        return blkup_mul(start + block, vol->block_bytes, ret) &&
                               blkup_add(*ret, vol->at, ret) && blkup_add(*ret, at % vol->block_bytes, ret);
                block -= count;
        }
        return false;
}

/* Empty when the catalog does not show one at its beginning. */
static enum blkup_outcome find_label(struct blkup_view *v, const struct volume *vol, uint64_t header_at,
                                     struct blkup_bytes *ret)
{
        uint64_t leaf, leaf_at = 0, node_bytes;
        struct blkup_bytes header, first;

        BLKUP_FETCH(v, header_at, HEADER_USED, &header);
        if (blkup_be32_at(header, HEADER_LEAF_RECORDS) == 0)
                return BLKUP_FOUND;
        leaf = blkup_be32_at(header, HEADER_FIRST_LEAF);
        node_bytes = blkup_be16_at(header, HEADER_NODE_BYTES);
        if (node_bytes < KEY_NAME + MAX_NAME_CHARS * 2)
                return BLKUP_FOUND;
        if (!catalog_at(vol, leaf * node_bytes, &leaf_at))
                return BLKUP_FOUND;
        BLKUP_FETCH(v, leaf_at, KEY_NAME, &first);
        if (blkup_be16_at(first, NODE_RECORDS) == 0 || blkup_u8_at(first, NODE_KIND) != NODE_KIND_LEAF ||
            blkup_be32_at(first, KEY_PARENT) != PARENT_OF_ROOT ||
            blkup_be16_at(first, KEY_NAME_CHARS) > MAX_NAME_CHARS)
                return BLKUP_FOUND;
        return blkup_view_get(v, leaf_at + KEY_NAME, blkup_min(blkup_be16_at(first, KEY_NAME_CHARS), 255) * 2,
                              ret);
}

/* The volume header's place: behind the boot blocks, or in the allocation blocks of a wrapper. */
static enum blkup_outcome find_volume(struct blkup_view *v, uint64_t *ret)
{
        struct blkup_bytes mdb;
        uint64_t alloc;

        BLKUP_FETCH(v, BLKUP_HFS_MDB_AT, BLKUP_HFS_EMBED_START + 2, &mdb);
        *ret = 0;
        if (!blkup_equal_at(mdb, 0, "BD", 2))
                return BLKUP_FOUND;
        if (!blkup_hfs_is_wrapper(mdb))
                return blkup_refuse(v, "an hfs with nothing inside");
        alloc = blkup_be32_at(mdb, BLKUP_HFS_ALLOC_BYTES);
        if (alloc < 512 || alloc % 512 != 0)
                return blkup_refuse(v, "no such allocation block size");
        *ret = blkup_be16_at(mdb, BLKUP_HFS_FIRST_ALLOC) * UINT64_C(512) +
               blkup_be16_at(mdb, BLKUP_HFS_EMBED_START) * alloc;
        return BLKUP_FOUND;
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct volume vol = { .at = 0 };
        struct blkup_bytes label = { 0 };
        uint64_t catalog;
        enum blkup_outcome o = find_volume(v, &vol.at);

        (void) hit;
        if (o != BLKUP_FOUND)
                return o;
        BLKUP_FETCH(v, vol.at + BLKUP_HFS_MDB_AT, VH_USED, &vol.vh);
        if (!blkup_equal_at(vol.vh, 0, "H+", 2) && !blkup_equal_at(vol.vh, 0, "HX", 2))
                return blkup_refuse(v, "no volume header");
        vol.block_bytes = blkup_be32_at(vol.vh, VH_BLOCK_BYTES);
        if (vol.block_bytes < 512 || !blkup_is_power_of_two(vol.block_bytes))
                return blkup_refuse(v, "block size is no power of two");
        /* Factors of 32 bits, and 2^48 for a wrapper: no overflow. */
        catalog = vol.at + blkup_be32_at(vol.vh, VH_CATALOG_EXTENTS) * vol.block_bytes;
        if (!blkup_inside(catalog, HEADER_USED, v->size))
                return blkup_refuse(v, "catalog beyond the end of the device");
        o = find_label(v, &vol, catalog, &label);
        if (o == BLKUP_NEED || o == BLKUP_UNREADABLE)
                return o;
        blkup_found_evidence(ret, 16 + 27 + 16);
        blkup_hfs_add_uuid(ret, blkup_slice_at(vol.vh, VH_ID, 8));
        blkup_found_block_size(ret, vol.block_bytes);
        blkup_found_utf16(ret, "LABEL", label, BLKUP_BIG_ENDIAN);
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = {
        { .at = BLKUP_HFS_MDB_AT, .len = 2, .bytes = "BD" },
        { .at = BLKUP_HFS_MDB_AT, .len = 2, .bytes = "H+" },
        { .at = BLKUP_HFS_MDB_AT, .len = 2, .bytes = "HX" },
};

extern const struct blkup_format blkup_format_hfsplus;
const struct blkup_format blkup_format_hfsplus = {
        .name = "hfsplus",
        .usage = BLKUP_USAGE_FILESYSTEM,
        .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics),
        .check = check,
};
