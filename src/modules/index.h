/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Readers of modules.*.bin, the indexes that depmod writes.
 *
 * Source: kmod's own description of version 2.1 of the format. All integers are 32 bits, big-endian:
 *   magic B007F457, version 0002mmmm, word of the root node.
 * The high bits of a word say what a node has (8: prefix, 4: values, 2: children), the low 28 are its place;
 * place 0 is no node. A node is: prefix NUL; first and last child character and a word for each of them; the
 * count of values and for each its priority and text NUL. Keys are a trie whose lonely chains are prefixes.
 *
 * Files come from disk: each place is checked, and each search has a budget of nodes, so a file whose nodes
 * point in circles ends in -EBADMSG. Read-only after opening; threads may share one.
 */
#ifndef BLKUP_MODULES_INDEX_H
#define BLKUP_MODULES_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/cleanup.h"

#define BLKUP_INDEX_MAX_BYTES (256u << 20)
#define BLKUP_INDEX_MAX_KEY 4096u
/* Nodes that one search may touch: more than the largest index has (33,000 keys: some 60,000 nodes). */
#define BLKUP_INDEX_BUDGET (1u << 20)

struct blkup_index {
        struct blkup_bytes bytes;
        uint32_t root;   /* word of the root node; 0: an empty index */
        void *map;       /* NULL: the bytes are the caller's */
};

struct blkup_index_value {
        const char *text; /* in the index */
        uint32_t priority;
};

struct blkup_index_values {
        struct blkup_index_value *v; /* by priority */
        size_t n, cap;
};

/* Maps ROOT/path. -ENOENT; -EBADMSG: no index of version 2; -EFBIG; what open and mmap return. */
BLKUP_MUST_CHECK int blkup_index_open(const char *root, const char *path, struct blkup_index *ret);
/* The same over bytes in memory, which stay the caller's. */
BLKUP_MUST_CHECK int blkup_index_from_bytes(const void *p, size_t n, struct blkup_index *ret);
void blkup_index_close(struct blkup_index *i); /* zeroed or opened ones */

/* The first value of exactly this key, in *ret; NULL: none. -EBADMSG: a broken index. */
BLKUP_MUST_CHECK int blkup_index_find(const struct blkup_index *i, const char *key, const char **ret);

/* All values whose key, taken as a pattern for fnmatch(3), matches query; added to *to, which is sorted by
 * priority. Doubles stay. -EBADMSG, -ENOMEM. */
BLKUP_MUST_CHECK int blkup_index_match(const struct blkup_index *i, const char *query,
                                       struct blkup_index_values *to);
void blkup_index_values_free(struct blkup_index_values *v);

/* Calls each(key, value) for all, in the order of the trie; stops at its first negative answer and returns
 * it. */
BLKUP_MUST_CHECK int blkup_index_each(const struct blkup_index *i,
                                      int (*each)(void *arg, const char *key, const char *value), void *arg);

#endif
