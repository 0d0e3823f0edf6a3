/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Indexes as depmod writes them: a trie, here without merged chains. Include it after cmocka.h. */
#ifndef BLKUP_TESTS_FAKE_INDEX_H
#define BLKUP_TESTS_FAKE_INDEX_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fake-root.h"

struct fake_index {
        uint8_t p[1 << 22];
        size_t n;
};

static inline void fake_index_put32(struct fake_index *i, uint32_t v)
{
        for (int k = 3; k >= 0; k--)
                i->p[i->n++] = (uint8_t) (v >> (8 * k));
}

static inline void fake_index_put(struct fake_index *i, const char *text)
{
        memcpy(i->p + i->n, text, strlen(text) + 1);
        i->n += strlen(text) + 1;
}

/* Keys must be sorted and two letters at least; keys[from..to) share the first `depth` letters. */
static inline uint32_t fake_index_put_node(struct fake_index *i, const char *const *keys,
                                           const char *const *values, size_t from, size_t to, size_t depth)
{
        uint32_t words[128] = { 0 }, flags = 0;
        unsigned first = 127, last = 0;
        size_t own = to, at;

        for (size_t k = from; k < to;) {
                size_t end = k + 1;
                unsigned c = (unsigned char) keys[k][depth];

                if (!c) {
                        own = k++;
                        continue;
                }
                while (end < to && (unsigned char) keys[end][depth] == c)
                        end++;
                words[c] = fake_index_put_node(i, keys, values, k, end, depth + 1);
                first = c < first ? c : first;
                last = c > last ? c : last;
                k = end;
        }
        at = i->n;
        if (first <= last) {
                flags |= 0x20000000u;
                i->p[i->n++] = (uint8_t) first;
                i->p[i->n++] = (uint8_t) last;
                for (unsigned c = first; c <= last; c++)
                        fake_index_put32(i, words[c]);
        }
        if (own < to) {
                flags |= 0x40000000u;
                fake_index_put32(i, 1);
                fake_index_put32(i, (uint32_t) own);
                fake_index_put(i, values[own]);
        }
        return (uint32_t) at | flags;
}

static inline void fake_index_write(const struct fake_root *f, const char *path, const char *const *keys,
                                    const char *const *values, size_t n)
{
        struct fake_index *i = calloc(1, sizeof(*i));
        uint32_t root;
        size_t end;

        assert_non_null(i);
        fake_index_put32(i, 0xB007F457);
        fake_index_put32(i, 0x00020001);
        fake_index_put32(i, 0);
        root = fake_index_put_node(i, keys, values, 0, n, 0);
        end = i->n;
        i->n = 8;
        fake_index_put32(i, root);
        fake_root_write(f, path, i->p, end);
        free(i);
}

#endif
