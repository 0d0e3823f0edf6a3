/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * BeFS in either byte order. Source: kernel fs/befs/befs_fs_types.h (superblock, inode, block run, B+tree)
 * and D. Giampaolo, "Practical File System Design with the Be File System" (attributes). The volume's
 * identifier is the attribute be:volume_id of the root folder: kept in the inode's own room, or in a file of
 * a folder of attributes.
 */
#include <inttypes.h>
#include <string.h>

#include "probe/formats/fields.h"

/* Offsets in the superblock. */
enum {
        SB_LABEL = 0, /* 32 bytes */
        SB_MAGIC1 = 32,
        SB_ORDER = 36,
        SB_BLOCK_BYTES = 40,
        SB_BLOCK_SHIFT = 44,
        SB_MAGIC2 = 68,
        SB_GROUP_SHIFT = 76, /* blocks of an allocation group */
        SB_MAGIC3 = 112,
        SB_ROOT = 116,       /* block run */
        SB_LEN = 132,
};
#define MAGIC1 0x42465331u
#define MAGIC2 0xdd121031u
#define MAGIC3 0x15b6830eu
#define ORDER_MARK 0x42494745u

/* A block run: allocation group, then block and length in it of 16 bits. */
enum { RUN_GROUP = 0, RUN_START = 4, RUN_BLOCKS = 6, RUN_LEN = 8 };

/* Offsets in an inode, which has a block of its own. */
enum {
        INODE_MAGIC1 = 0,
        INODE_ATTRIBUTES = 52, /* block run */
        INODE_TYPE = 60,
        INODE_SIZE = 64,
        INODE_DIRECT = 72,     /* twelve block runs */
        INODE_BYTES = 208,     /* 64 bits */
        INODE_SMALL_DATA = 232,
        N_DIRECT = 12,
};
#define INODE_MAGIC 0x3bbe0ad9u

/* Offsets in an attribute in the inode. */
enum { SMALL_TYPE = 0, SMALL_NAME_LEN = 4, SMALL_DATA_LEN = 6, SMALL_NAME = 8 };
#define TYPE_UINT64 0x554c4c47u /* ULLG */

/* Offsets in the header of a B+tree and in a node of it. */
enum { TREE_MAGIC_AT = 0, TREE_NODE_BYTES = 4, TREE_ROOT = 16, TREE_USED = 24 };
enum { NODE_OVERFLOW = 16, NODE_KEYS = 24, NODE_KEY_BYTES = 26, NODE_NAMES = 28 };
#define TREE_MAGIC 0x69f6c2e8u
#define TREE_NULL UINT64_MAX
#define MAX_NODE_BYTES 65536u
#define MAX_TREE_DEPTH 16

static const char volume_id[] = "be:volume_id";
#define VOLUME_ID_LEN (sizeof(volume_id) - 1)

struct befs {
        enum blkup_order order;
        unsigned block_shift, group_shift; /* of bytes, of blocks */
        uint64_t block_bytes;
};

/* Where a block run is on the device, in bytes; false when that number does not fit. */
static bool run_at(const struct befs *b, struct blkup_bytes s, size_t off, uint64_t *ret_at,
                   uint64_t *ret_len)
{
        uint64_t group;

        *ret_len = (uint64_t) blkup_u16_at(s, off + RUN_BLOCKS, b->order) << b->block_shift;
        return blkup_shl(blkup_u32_at(s, off + RUN_GROUP, b->order), b->group_shift + b->block_shift,
                         &group) &&
               blkup_add(group, (uint64_t) blkup_u16_at(s, off + RUN_START, b->order) << b->block_shift,
                         ret_at);
}

/* Bytes [at, at + len) of a file: they must lie in one of its direct runs, where small files lie. */
static enum blkup_outcome get_of_file(struct blkup_view *v, const struct befs *b, struct blkup_bytes inode,
                                      uint64_t at, uint64_t len, struct blkup_bytes *ret)
{
        for (size_t i = 0; i < N_DIRECT; i++) {
                uint64_t run, run_len;

                if (!run_at(b, inode, INODE_DIRECT + i * RUN_LEN, &run, &run_len) || run_len == 0)
                        break;
                if (at < run_len)
                        return len <= run_len - at && blkup_add(run, at, &run)
                                       ? blkup_view_get(v, run, len, ret)
                                       : BLKUP_NOT_THIS;
                at -= run_len;
        }
        return BLKUP_NOT_THIS;
}

static enum blkup_outcome get_inode(struct blkup_view *v, const struct befs *b, uint64_t at,
                                    struct blkup_bytes *ret)
{
        BLKUP_FETCH(v, at, b->block_bytes, ret);
        if (blkup_u32_at(*ret, INODE_MAGIC1, b->order) != INODE_MAGIC)
                return blkup_refuse(v, "no inode");
        return BLKUP_FOUND;
}

/* In the room behind the inode. true: *ret is the value. */
static bool find_small(const struct befs *b, struct blkup_bytes inode, uint64_t *ret)
{
        struct blkup_bytes room = inode;

        room.len =
                blkup_min(inode.len, INODE_SMALL_DATA + (uint64_t) blkup_u32_at(inode, INODE_SIZE, b->order));
        /* Ends: each step is at least 12 bytes. */
        for (size_t off = INODE_SMALL_DATA; blkup_has(room, off, SMALL_NAME);) {
                size_t name_len = blkup_u16_at(room, off + SMALL_NAME_LEN, b->order);
                size_t data_len = blkup_u16_at(room, off + SMALL_DATA_LEN, b->order);
                uint32_t type = blkup_u32_at(room, off + SMALL_TYPE, b->order);

                if (type == 0 && name_len == 0 && data_len == 0)
                        break;
                /* The name is followed by three zero bytes, the data by one. */
                if (type == TYPE_UINT64 && name_len == VOLUME_ID_LEN && data_len == 8 &&
                    blkup_equal_at(room, off + SMALL_NAME, volume_id, VOLUME_ID_LEN) &&
                    blkup_has(room, off + SMALL_NAME + VOLUME_ID_LEN + 3, 8)) {
                        *ret = blkup_u64_at(room, off + SMALL_NAME + VOLUME_ID_LEN + 3, b->order);
                        return true;
                }
                off += SMALL_NAME + name_len + 3 + data_len + 1;
        }
        return false;
}

/*
 * In one node: where the search goes on (a node of the tree) or ends (*ret_is_value: an inode).
 * BLKUP_NOT_THIS: nowhere. A node has its names, then where each of them ends, then a value for each.
 */
static enum blkup_outcome search_node(struct blkup_view *v, const struct befs *b, struct blkup_bytes node,
                                      uint64_t *ret, bool *ret_is_value)
{
        size_t keys = blkup_u16_at(node, NODE_KEYS, b->order),
               names_len = blkup_u16_at(node, NODE_KEY_BYTES, b->order);
        size_t ends_at = (size_t) blkup_align_up(NODE_NAMES + names_len, 8), values_at = ends_at + keys * 2,
               begin = 0;
        uint64_t overflow = blkup_u64_at(node, NODE_OVERFLOW, b->order);
        bool is_leaf = overflow == TREE_NULL;

        if (!blkup_has(node, values_at, keys * 8))
                return blkup_refuse(v, "node of attributes beyond its end");
        if (!blkup_view_work(v, (uint32_t) keys + 1))
                return blkup_gave_up(v, "too many attributes");
        for (size_t i = 0; i < keys; i++) {
                size_t end = blkup_u16_at(node, ends_at + i * 2, b->order), len;
                int order;

                if (end < begin || end > names_len)
                        return blkup_refuse(v, "names of attributes out of order");
                len = end - begin;
                order = memcmp(node.data + NODE_NAMES + begin, volume_id, blkup_min(len, VOLUME_ID_LEN));
                if (order == 0)
                        order = len < VOLUME_ID_LEN ? -1 : len > VOLUME_ID_LEN;
                if (order == 0 || (order > 0 && !is_leaf)) {
                        *ret = blkup_u64_at(node, values_at + i * 8, b->order);
                        *ret_is_value = is_leaf;
                        return BLKUP_FOUND;
                }
                begin = end;
        }
        if (is_leaf)
                return BLKUP_NOT_THIS;
        *ret = overflow;
        *ret_is_value = false;
        return BLKUP_FOUND;
}

/* In the folder of attributes, a B+tree of their names. */
static enum blkup_outcome find_in_folder(struct blkup_view *v, const struct befs *b, uint64_t folder_at,
                                         uint64_t *ret)
{
        struct blkup_bytes folder, header, inode, data;
        uint64_t node_bytes, next, at, len;
        bool is_value = false;
        enum blkup_outcome o = get_inode(v, b, folder_at, &folder);

        if (o == BLKUP_FOUND)
                o = get_of_file(v, b, folder, 0, TREE_USED, &header);
        if (o != BLKUP_FOUND)
                return o;
        node_bytes = blkup_u32_at(header, TREE_NODE_BYTES, b->order);
        if (blkup_u32_at(header, TREE_MAGIC_AT, b->order) != TREE_MAGIC || node_bytes < NODE_NAMES ||
            node_bytes > MAX_NODE_BYTES)
                return blkup_refuse(v, "no tree of attributes");
        next = blkup_u64_at(header, TREE_ROOT, b->order);
        for (unsigned depth = 0; !is_value; depth++) {
                struct blkup_bytes node;

                if (depth == MAX_TREE_DEPTH)
                        return blkup_refuse(v, "tree of attributes too deep");
                o = get_of_file(v, b, folder, next, node_bytes, &node);
                if (o == BLKUP_FOUND)
                        o = search_node(v, b, node, &next, &is_value);
                if (o != BLKUP_FOUND)
                        return o;
        }
        if (!blkup_shl(next, b->block_shift, &at))
                return blkup_refuse(v, "attribute beyond the end");
        o = get_inode(v, b, at, &inode);
        if (o != BLKUP_FOUND)
                return o;
        if (blkup_u32_at(inode, INODE_TYPE, b->order) != TYPE_UINT64 ||
            blkup_u64_at(inode, INODE_BYTES, b->order) != 8 || !run_at(b, inode, INODE_DIRECT, &at, &len) ||
            len != b->block_bytes)
                return blkup_refuse(v, "volume identifier of another type");
        BLKUP_FETCH(v, at, 8, &data);
        *ret = blkup_u64_at(data, 0, b->order);
        return BLKUP_FOUND;
}

static bool is_superblock(struct blkup_bytes sb, enum blkup_order order)
{
        return blkup_u32_at(sb, SB_MAGIC1, order) == MAGIC1 && blkup_u32_at(sb, SB_MAGIC2, order) == MAGIC2 &&
               blkup_u32_at(sb, SB_MAGIC3, order) == MAGIC3 &&
               blkup_u32_at(sb, SB_ORDER, order) == ORDER_MARK;
}

static enum blkup_outcome find_volume_id(struct blkup_view *v, const struct befs *b, struct blkup_bytes root,
                                         uint64_t *ret)
{
        uint64_t at, len;

        *ret = 0;
        if ((find_small(b, root, ret) && *ret != 0) || blkup_is_filled(root, INODE_ATTRIBUTES, RUN_LEN, 0))
                return BLKUP_FOUND;
        return run_at(b, root, INODE_ATTRIBUTES, &at, &len) ? find_in_folder(v, b, at, ret) : BLKUP_NOT_THIS;
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct befs b = { .order = BLKUP_LITTLE_ENDIAN };
        uint64_t root_at, root_len, id;
        struct blkup_bytes sb, root;
        uint32_t block_shift, group_shift;
        enum blkup_outcome o;

        BLKUP_FETCH(v, hit->base, SB_LEN, &sb);
        if (!is_superblock(sb, b.order))
                b.order = BLKUP_BIG_ENDIAN;
        if (!is_superblock(sb, b.order))
                return blkup_refuse(v, "not all magics are there");
        block_shift = blkup_u32_at(sb, SB_BLOCK_SHIFT, b.order);
        group_shift = blkup_u32_at(sb, SB_GROUP_SHIFT, b.order);
        if (block_shift < 10 || block_shift > 13 ||
            blkup_u32_at(sb, SB_BLOCK_BYTES, b.order) != UINT32_C(1) << block_shift)
                return blkup_refuse(v, "block size is not 1024 to 8192");
        if (group_shift > 63 || group_shift + block_shift > 63)
                return blkup_refuse(v, "allocation groups too large");
        b.block_shift = block_shift;
        b.group_shift = group_shift;
        b.block_bytes = UINT64_C(1) << block_shift;
        if (!run_at(&b, sb, SB_ROOT, &root_at, &root_len))
                return blkup_refuse(v, "root folder beyond the end");
        o = get_inode(v, &b, root_at, &root);
        if (o != BLKUP_FOUND)
                return o;
        o = find_volume_id(v, &b, root, &id);
        if (o == BLKUP_NEED || o == BLKUP_UNREADABLE)
                return o;

        blkup_found_evidence(ret, 4 * 32 + 32 + 32);
        blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(sb, SB_LABEL, 32));
        blkup_found_string(ret, "VERSION", b.order == BLKUP_LITTLE_ENDIAN ? "little-endian" : "big-endian");
        if (o == BLKUP_FOUND && id != 0)
                blkup_found_printf(ret, "UUID", "%016" PRIx64, id);
        blkup_found_block_size(ret, b.block_bytes);
        blkup_found_endianness(ret, b.order);
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = {
        { .within = SB_MAGIC1, .len = 4, .bytes = "BFS1" },
        { .within = SB_MAGIC1, .len = 4, .bytes = "1SFB" },
        { .at = 512, .within = SB_MAGIC1, .len = 4, .bytes = "BFS1" },
        { .at = 512, .within = SB_MAGIC1, .len = 4, .bytes = "1SFB" },
};

extern const struct blkup_format blkup_format_befs;
const struct blkup_format blkup_format_befs = {
        .name = "befs", .usage = BLKUP_USAGE_FILESYSTEM, .min_bytes = 1474560, .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
