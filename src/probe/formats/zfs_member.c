/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * zfs_member: one of the four labels of a vdev, two at the start and two at the end. Source: "ZFS On-Disk
 * Specification" (2006), chapter 1, and RFC 4506 (XDR), in which the name/value list of a label is packed.
 *
 * A label has no magic. Its list begins with the number of the encoding, so one sector of each label is read
 * first and the list only where that fits, as far as it goes.
 */
#include "probe/format.h"

#define LIST_LEN 114688u /* of a label, from its byte 16384 on */
#define FIRST_WINDOW 2048u

/* The list starts with encoding, byte order, two spare bytes, version and flags; pairs follow. */
enum { LIST_ENCODING = 0, LIST_ENDIAN = 1, LIST_PAIRS = 12, NESTED_HEADER = 8 };
enum { TYPE_U64 = 8, TYPE_STRING = 9, TYPE_LIST = 19 };

#define MAX_STATE 7u
#define STATE_SPARE 3u
#define STATE_L2CACHE 4u
#define MAX_VALUES 5u
#define MAX_DEPTH 64u

static const struct blkup_magic magics[] = {
        { .at = 16384, .len = 1, .bytes = "\x01" },
        { .at = 16384 + 262144, .len = 1, .bytes = "\x01" },
        { .at = 507904, .anchor = BLKUP_FROM_END_256K, .len = 1, .bytes = "\x01" },
        { .at = 245760, .anchor = BLKUP_FROM_END_256K, .len = 1, .bytes = "\x01" },
};

struct label {
        uint64_t guid, state, txg;
        unsigned values;
};

static bool is_name(struct blkup_bytes name, const char *what)
{
        size_t n = strlen(what);

        /* Some writers count the NUL into the length. */
        return (name.len == n || (name.len == n + 1 && name.data[n] == '\0')) &&
               memcmp(name.data, what, n) == 0;
}

static void take_u64(struct blkup_bytes name, uint64_t value, unsigned depth, struct label *l,
                     struct blkup_found *ret)
{
        if (is_name(name, "ashift")) {
                if (value < 32 && l->values < MAX_VALUES) {
                        blkup_found_u64(ret, "BLOCK_SIZE", (uint64_t) 1 << value);
                        blkup_found_u64(ret, "FSBLOCKSIZE", (uint64_t) 1 << value);
                        l->values++;
                }
                return;
        }
        if (depth > 0)
                return;
        if (is_name(name, "state")) {
                l->state = value;
        } else if (is_name(name, "txg")) {
                l->txg = value;
        } else {
                const char *tag = is_name(name, "guid") ? "UUID_SUB" :
                                  is_name(name, "pool_guid") ? "UUID" :
                                  is_name(name, "version") ? "VERSION" : NULL;

                if (is_name(name, "guid"))
                        l->guid = value;
                if (tag && l->values < MAX_VALUES) {
                        blkup_found_u64(ret, tag, value);
                        l->values++;
                }
        }
}

/* Walks the pairs of the window. BLKUP_NEED: the list goes on behind it. */
static enum blkup_outcome walk(struct blkup_view *v, struct blkup_bytes w, struct label *l,
                               struct blkup_found *ret)
{
        size_t at = LIST_PAIRS;
        unsigned depth = 0;

        for (;;) { /* ends: `at` grows with each pair, and the window is bounded */
                uint32_t size, name_len, type;
                struct blkup_bytes name, text;
                size_t end, value;

                if (!blkup_view_work(v, 1))
                        return blkup_gave_up(v, "label has too many pairs");
                if (!blkup_get_be32(w, at, &size))
                        return BLKUP_NEED;
                if (size == 0) {
                        if (depth-- == 0)
                                return BLKUP_FOUND;
                        at += 8;
                        continue;
                }
                if (size < 20 || size > LIST_LEN || size % 4 != 0)
                        return blkup_damaged(v, "pair has an impossible size");
                end = at + size;
                if (!blkup_get_be32(w, at + 8, &name_len))
                        return BLKUP_NEED;
                if (name_len > size - 20)
                        return blkup_damaged(v, "name is longer than its pair");
                value = at + 12 + (size_t) blkup_align_up(name_len, 4);
                if (!blkup_sub_bytes(w, at + 12, name_len, &name) || !blkup_get_be32(w, value, &type))
                        return BLKUP_NEED;
                if (type == TYPE_LIST) {
                        if (++depth > MAX_DEPTH)
                                return blkup_damaged(v, "lists nest too deep");
                        at = value + 8 + NESTED_HEADER;
                        continue;
                }
                if (type == TYPE_U64 && value + 16 <= end) {
                        uint64_t number;

                        if (!blkup_get_be64(w, value + 8, &number))
                                return BLKUP_NEED;
                        take_u64(name, number, depth, l, ret);
                } else if (type == TYPE_STRING && depth == 0 && is_name(name, "name") && value + 12 <= end) {
                        uint32_t n;

                        if (!blkup_get_be32(w, value + 8, &n))
                                return BLKUP_NEED;
                        if (n > end - (value + 12))
                                return blkup_damaged(v, "text is longer than its pair");
                        if (!blkup_sub_bytes(w, value + 12, n, &text))
                                return BLKUP_NEED;
                        if (l->values < MAX_VALUES) {
                                blkup_found_rtrimmed(ret, "LABEL", text);
                                l->values++;
                        }
                }
                at = end;
        }
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes head, list;
        bool covered = false;
        struct label l;

        BLKUP_FETCH(v, hit->base, 16, &head);
        if (blkup_u8_at(head, LIST_ENDIAN) > 1 || blkup_be32_at(head, LIST_PAIRS) == 0)
                return blkup_refuse(v, "no name/value list");
        /* Each window is twice the last: a usual label of two disks ends in the first. */
        for (uint64_t len = FIRST_WINDOW;; len = blkup_min(len * 2, LIST_LEN)) {
                enum blkup_outcome o;

                BLKUP_FETCH(v, hit->base, len, &list);
                blkup_found_reset(ret);
                l = (struct label){ 0 };
                o = walk(v, list, &l, ret);
                if (o == BLKUP_NEED && len < LIST_LEN)
                        continue;
                if (o == BLKUP_NEED)
                        return blkup_damaged(v, "list goes on behind its label");
                if (o != BLKUP_FOUND)
                        return o;
                break;
        }
        if (l.guid == 0 || l.state > MAX_STATE ||
            (l.state != STATE_SPARE && l.state != STATE_L2CACHE && l.txg == 0))
                return blkup_refuse(v, "label names no device of a pool");
        if (v->is_whole) {
                enum blkup_outcome o = blkup_tables_cover(v, hit->base, LIST_LEN, &covered);

                if (o != BLKUP_FOUND)
                        return o;
                if (covered)
                        return blkup_refuse(v, "label belongs to a partition");
        }
        blkup_found_evidence(ret, 16 + 64);
        blkup_found_string(ret, "ENDIANNESS", blkup_u8_at(head, LIST_ENDIAN) == 1 ? "LITTLE" : "BIG");
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_zfs_member;
const struct blkup_format blkup_format_zfs_member = {
        .name = "zfs_member",
        .usage = BLKUP_USAGE_FILESYSTEM,
        .min_bytes = 67108864,
        .flags = BLKUP_EVERY_MAGIC,
        .magics = magics,
        .n_magics = BLKUP_ARRAY_SIZE(magics),
        .check = check,
};
