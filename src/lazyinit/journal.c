/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "lazyinit/journal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "block/writer.h"

#define SB_JOURNAL_INODE 0xE0
#define INODE_FLAGS 0x20
#define INODE_FLAG_EXTENTS 0x80000u
#define INODE_MAP 0x28
#define INODE_MAP_LEN 60u
#define EXTENT_MAGIC 0xF30Au
#define EXTENT_DEPTH_MAX 5u
/* Longer is "allocated, not written": of no concern, it reads as zeroes. */
#define EXTENT_LEN_MAX 32768u
/* A journal has at most 2^32 blocks, and mke2fs makes a handful of extents; a map with more is not walked. */
#define SPANS_MAX 65536u
#define NODES_MAX 65536u
#define JOURNAL_MAGIC 0xC03B3998u
#define JOURNAL_V2 4u

struct walk {
        const struct blkup_lazy_layout *l;
        struct blkup_block *b;
        struct blkup_lazy_span *spans; /* in blocks while it is walked */
        size_t n, room;
        uint64_t next_logical; /* extents are in order and without overlap: the proof that the walk ends */
        unsigned nodes;
        struct blkup_lazy_refusal *r;
        struct blkup_error *err;
};

static int nonsense(struct walk *w, const char *what)
{
        return blkup_lazy_refuse(w->r, BLKUP_LAZYINIT_BAD_SUPERBLOCK, "journal: %s", what);
}

static bool is_free_to_use(const struct walk *w, uint64_t block, uint64_t n)
{
        return block > w->l->first_block && blkup_inside(block, n, w->l->blocks) &&
               !blkup_lazy_is_metadata(w->l, block, n);
}

static int add_extent(struct walk *w, struct blkup_bytes e)
{
        uint64_t logical = blkup_le32_at(e, 0), len = blkup_le16_at(e, 4);
        uint64_t block = blkup_le32_at(e, 8) | (uint64_t) blkup_le16_at(e, 6) << 32;

        if (logical != w->next_logical || len == 0)
                return nonsense(w, "its extents have gaps");
        if (len > EXTENT_LEN_MAX)
                len -= EXTENT_LEN_MAX;
        if (!is_free_to_use(w, block, len))
                return nonsense(w, "it overlaps other metadata, or leaves the file system");
        if (w->n == w->room) {
                size_t room = w->room ? 2 * w->room : 16;
                void *more = w->n < SPANS_MAX ? realloc(w->spans, room * sizeof(*w->spans)) : NULL;

                if (!more)
                        return blkup_fail_errno(w->err, -ENOMEM, "journal");
                w->spans = more;
                w->room = room;
        }
        w->spans[w->n++] = (struct blkup_lazy_span){ block, len };
        w->next_logical = logical + len;
        return 0;
}

/* One node. Depth must be one less than its parent's, so at most five nodes are open at once. */
static int walk_node(struct walk *w, struct blkup_bytes node, unsigned depth)
{
        uint16_t n = blkup_le16_at(node, 2);

        if (blkup_le16_at(node, 0) != EXTENT_MAGIC || blkup_le16_at(node, 6) != depth)
                return nonsense(w, "a node of its map is none");
        if (++w->nodes > NODES_MAX)
                return nonsense(w, "its map is too large");
        for (uint16_t i = 0; i < n; i++) {
                struct blkup_bytes e;
                uint64_t block;
                int k;

                if (!blkup_sub_bytes(node, 12 + 12 * (size_t) i, 12, &e))
                        return nonsense(w, "a node of its map is too long");
                if (depth == 0) {
                        k = add_extent(w, e);
                } else {
                        BLKUP_CLEANUP_FREE uint8_t *child = NULL;

                        block = blkup_le32_at(e, 4) | (uint64_t) blkup_le16_at(e, 8) << 32;
                        if (!is_free_to_use(w, block, 1))
                                return nonsense(w, "its map leaves the file system");
                        if (posix_memalign((void **) &child, 4096, w->l->block_bytes) != 0)
                                return blkup_fail_errno(w->err, -ENOMEM, "journal");
                        k = blkup_block_read_exact(w->b, block * w->l->block_bytes, child, w->l->block_bytes);
                        if (k < 0)
                                return blkup_fail_errno(w->err, k, "journal map at block %" PRIu64, block);
                        k = walk_node(w, (struct blkup_bytes){ .data = child, .len = w->l->block_bytes },
                                      depth - 1);
                }
                if (k != 0)
                        return k;
        }
        return 0;
}

/* Whole block in, so that a read past the page cache needs no copy; n bytes at `at` out. */
static int read_at(struct walk *w, uint64_t at, uint8_t *to, size_t n)
{
        BLKUP_CLEANUP_FREE uint8_t *block = NULL;
        uint64_t start = at / w->l->block_bytes * w->l->block_bytes;
        int k;

        if (posix_memalign((void **) &block, 4096, w->l->block_bytes) != 0)
                return blkup_fail_errno(w->err, -ENOMEM, "journal");
        k = blkup_block_read_exact(w->b, start, block, w->l->block_bytes);
        if (k < 0)
                return blkup_fail_errno(w->err, k, "journal at byte %" PRIu64, at);
        memcpy(to, block + (at - start), n);
        return 0;
}

static int find_body(struct walk *w, const char **ret_why)
{
        const struct blkup_lazy_layout *l = w->l;
        struct blkup_bytes sb = { .data = l->super, .len = sizeof(l->super) };
        uint32_t inode = blkup_le32_at(sb, SB_JOURNAL_INODE);
        uint8_t raw[128], head[32];
        struct blkup_bytes in = { .data = raw, .len = sizeof(raw) }, map;
        struct blkup_bytes js = { .data = head, .len = sizeof(head) };
        unsigned depth;
        int k;

        *ret_why = "there is no journal inside";
        if (!(l->compat & BLKUP_EXT4_COMPAT_JOURNAL) || inode == 0)
                return 0;
        if (inode > (uint64_t) l->groups * l->inodes_per_group)
                return nonsense(w, "its inode does not exist");
        k = read_at(w,
                    l->group[(inode - 1) / l->inodes_per_group].table * l->block_bytes +
                            (uint64_t) ((inode - 1) % l->inodes_per_group) * l->inode_bytes,
                    raw, sizeof(raw));
        if (k != 0)
                return k;
        *ret_why = "its journal is mapped block by block, which is not walked";
        if (!(blkup_le32_at(in, INODE_FLAGS) & INODE_FLAG_EXTENTS) ||
            !blkup_sub_bytes(in, INODE_MAP, INODE_MAP_LEN, &map))
                return 0;
        depth = blkup_le16_at(map, 6);
        if (depth > EXTENT_DEPTH_MAX)
                return nonsense(w, "its map is too deep");
        k = walk_node(w, map, depth);
        if (k != 0)
                return k;
        if (w->n == 0)
                return nonsense(w, "it has no blocks");
        k = read_at(w, w->spans[0].at * l->block_bytes, head, sizeof(head));
        if (k != 0)
                return k;
        if (blkup_be32_at(js, 0) != JOURNAL_MAGIC || blkup_be32_at(js, 4) != JOURNAL_V2)
                return nonsense(w, "its superblock is none");
        if (blkup_be32_at(js, 28) != 0) {
                /* s_start: the log begins there; needs_recovery should have said so. */
                *ret_why = "its journal is not empty";
                w->n = 0;
                return 0;
        }
        *ret_why = NULL;
        return 0;
}

int blkup_lazy_journal_body(const struct blkup_lazy_layout *l, struct blkup_block *b,
                            struct blkup_lazy_span **ret, size_t *ret_n, const char **ret_why,
                            struct blkup_lazy_refusal *r, struct blkup_error *err)
{
        struct walk w = { .l = l, .b = b, .r = r, .err = err };
        int k = find_body(&w, ret_why);

        if (k != 0 || w.n == 0) {
                free(w.spans);
                if (k == 0) {
                        *ret = NULL;
                        *ret_n = 0;
                }
                return k;
        }
        /* The first block is the journal's superblock. */
        w.spans[0].at++;
        w.spans[0].len--;
        for (size_t i = 0; i < w.n; i++) {
                w.spans[i].at *= l->block_bytes;
                w.spans[i].len *= l->block_bytes;
        }
        *ret = w.spans;
        *ret_n = w.n;
        return 0;
}
