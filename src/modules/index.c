/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "modules/index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "host/hostfile.h"
#include "modules/name.h"

#define MAGIC        0xB007F457u
#define MAJOR        2u
#define HAS_PREFIX   0x80000000u
#define HAS_VALUES   0x40000000u
#define HAS_CHILDREN 0x20000000u
#define PLACE        0x0fffffffu

struct node {
        const char *prefix; /* ends with a NUL */
        size_t prefix_len;
        uint8_t first, last; /* first > last: no children */
        size_t children;     /* place of the word of `first` */
        size_t values;       /* place of the first value's priority */
        uint32_t n_values;
};

struct search {
        const struct blkup_index *index;
        uint32_t budget;
        /* The key so far, below the wildcard or from the root. */
        char key[BLKUP_INDEX_MAX_KEY];
        const char *query;
        struct blkup_index_values *to;
        int (*each)(void *arg, const char *key, const char *value);
        void *arg;
};

int blkup_index_from_bytes(const void *p, size_t n, struct blkup_index *ret)
{
        struct blkup_bytes b = { .data = p, .len = n };
        uint32_t magic = 0, version = 0, root = 0;

        if (!blkup_get_be32(b, 0, &magic) || !blkup_get_be32(b, 4, &version) ||
            !blkup_get_be32(b, 8, &root) || magic != MAGIC || version >> 16 != MAJOR)
                return -EBADMSG;
        *ret = (struct blkup_index){ .bytes = b, .root = root & PLACE ? root : 0 };
        return 0;
}

int blkup_index_open(const char *root, const char *path, struct blkup_index *ret)
{
        BLKUP_CLEANUP_CLOSE int fd = blkup_host_open(root, path, O_RDONLY);
        struct stat st;
        void *map;
        int r;

        if (fd < 0)
                return fd;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (S_ISREG(st.st_mode) && st.st_size == 0) {
                *ret = (struct blkup_index){ 0 };
                return 0;
        }
        if (!S_ISREG(st.st_mode) || st.st_size < 12)
                return -EBADMSG;
        if ((uint64_t) st.st_size > BLKUP_INDEX_MAX_BYTES)
                return -EFBIG;
        map = mmap(NULL, (size_t) st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED)
                return -errno;
        r = blkup_index_from_bytes(map, (size_t) st.st_size, ret);
        if (r < 0)
                (void) munmap(map, (size_t) st.st_size);
        else
                ret->map = map;
        return r;
}

void blkup_index_close(struct blkup_index *i)
{
        if (i->map)
                (void) munmap(i->map, i->bytes.len);
        *i = (struct blkup_index){ 0 };
}

/* The text at a place, which must end inside the file. */
static bool get_text(struct blkup_bytes b, size_t at, const char **ret, size_t *ret_len)
{
        const uint8_t *end;

        if (at >= b.len)
                return false;
        end = memchr(b.data + at, '\0', b.len - at);
        if (!end)
                return false;
        *ret = (const char *) b.data + at;
        *ret_len = (size_t) (end - (b.data + at));
        return true;
}

static bool read_node(struct search *s, uint32_t word, struct node *ret)
{
        struct blkup_bytes b = s->index->bytes;
        struct node n = { .prefix = "", .first = 1, .last = 0 };
        size_t at = word & PLACE;

        if (at == 0 || s->budget == 0)
                return false;
        s->budget--;
        if (word & HAS_PREFIX) {
                if (!get_text(b, at, &n.prefix, &n.prefix_len))
                        return false;
                at += n.prefix_len + 1;
        }
        if (word & HAS_CHILDREN) {
                if (!blkup_get_u8(b, at, &n.first) || !blkup_get_u8(b, at + 1, &n.last) || n.first > n.last)
                        return false;
                n.children = at + 2;
                at += 2 + 4 * ((size_t) n.last - n.first + 1);
                if (!blkup_has(b, n.children, at - n.children))
                        return false;
        }
        if (word & HAS_VALUES) {
                if (!blkup_get_be32(b, at, &n.n_values))
                        return false;
                n.values = at + 4;
        }
        *ret = n;
        return true;
}

/* The word of the child for c; 0: none. */
static uint32_t child_word(const struct search *s, const struct node *n, uint8_t c)
{
        uint32_t word;

        if (c < n->first || c > n->last)
                return 0;
        word = blkup_be32_at(s->index->bytes, n->children + 4 * (size_t) (c - n->first));
        return word & PLACE ? word : 0;
}

static int add_value(struct blkup_index_values *to, const char *text, uint32_t priority)
{
        size_t at = to->n;

        if (to->n == to->cap) {
                size_t cap = to->cap ? to->cap * 2 : 16;
                struct blkup_index_value *grown = reallocarray(to->v, cap, sizeof(*grown));

                if (!grown)
                        return -ENOMEM;
                to->v = grown;
                to->cap = cap;
        }
        /* Equal priorities: the later one first, as kmod has it. */
        while (at > 0 && to->v[at - 1].priority >= priority)
                at--;
        memmove(to->v + at + 1, to->v + at, (to->n - at) * sizeof(*to->v));
        to->v[at] = (struct blkup_index_value){ text, priority };
        to->n++;
        return 0;
}

/* Gives all values of a node to whoever asked. Ends: each value takes bytes of the file. */
static int take_values(struct search *s, const struct node *n)
{
        struct blkup_bytes b = s->index->bytes;
        size_t at = n->values;

        for (uint32_t i = 0; i < n->n_values; i++) {
                uint32_t priority = 0;
                const char *text = NULL;
                size_t len = 0;
                int r;

                if (s->budget == 0 || !blkup_get_be32(b, at, &priority) || !get_text(b, at + 4, &text, &len))
                        return -EBADMSG;
                s->budget--;
                at += 4 + len + 1;
                r = s->to ? add_value(s->to, text, priority) : s->each(s->arg, s->key, text);
                if (r < 0)
                        return r;
        }
        return 0;
}

/*
 * All keys of the subtree at `word`, whose key so far is s->key[0..len). from: how much of the node's prefix
 * is in the key already. Ends: the key grows with each level and has a cap, and nodes have a budget.
 */
static int walk_all(struct search *s, uint32_t word, size_t len, size_t from)
{
        struct node n;
        size_t more;
        int r = 0;

        if (!read_node(s, word, &n) || from > n.prefix_len)
                return -EBADMSG;
        more = n.prefix_len - from;
        if (more >= sizeof(s->key) - len - 1)
                return -EBADMSG;
        memcpy(s->key + len, n.prefix + from, more);
        len += more;
        s->key[len] = '\0';
        if (n.n_values && (s->query == NULL || blkup_module_matches(s->key, s->query)))
                r = take_values(s, &n);
        for (unsigned c = n.first; r == 0 && c <= n.last; c++) {
                uint32_t child = child_word(s, &n, (uint8_t) c);

                if (!child)
                        continue;
                if (len + 2 >= sizeof(s->key))
                        return -EBADMSG;
                s->key[len] = (char) c;
                r = walk_all(s, child, len + 1, 0);
        }
        return r;
}

int blkup_index_find(const struct blkup_index *i, const char *key, const char **ret)
{
        struct search s = { .budget = BLKUP_INDEX_BUDGET, .index = i };
        uint32_t word = i->root;
        struct node n;

        /* Ends: each turn but the last takes a character of the key. */
        while (word) {
                if (!read_node(&s, word, &n))
                        return -EBADMSG;
                if (strncmp(key, n.prefix, n.prefix_len) != 0)
                        break;
                key += n.prefix_len;
                if (!*key) {
                        size_t len;

                        if (n.n_values == 0)
                                break;
                        return get_text(i->bytes, n.values + 4, ret, &len) ? 0 : -EBADMSG;
                }
                word = child_word(&s, &n, (uint8_t) *key++);
        }
        *ret = NULL;
        return 0;
}

int blkup_index_match(const struct blkup_index *i, const char *query, struct blkup_index_values *to)
{
        static const char wild[] = { '*', '?', '[' };
        struct search s = { .budget = BLKUP_INDEX_BUDGET, .index = i, .to = to };
        uint32_t word = i->root;

        /* Ends: each turn but the last takes a character of the query. */
        while (word) {
                struct node n;
                int r;

                if (!read_node(&s, word, &n))
                        return -EBADMSG;
                for (size_t k = 0; k < n.prefix_len; k++) {
                        if (memchr(wild, n.prefix[k], sizeof(wild))) {
                                s.query = query + k;
                                return walk_all(&s, word, 0, k);
                        }
                        /* Also ends at the query's NUL, which no prefix holds. */
                        if (n.prefix[k] != query[k])
                                return 0;
                }
                query += n.prefix_len;
                for (size_t k = 0; k < sizeof(wild); k++) {
                        uint32_t child = child_word(&s, &n, (uint8_t) wild[k]);

                        if (!child)
                                continue;
                        s.key[0] = wild[k];
                        s.query = query;
                        r = walk_all(&s, child, 1, 0);
                        if (r < 0)
                                return r;
                }
                if (!*query)
                        return take_values(&s, &n);
                word = child_word(&s, &n, (uint8_t) *query++);
        }
        return 0;
}

void blkup_index_values_free(struct blkup_index_values *v)
{
        free(v->v);
        *v = (struct blkup_index_values){ 0 };
}

int blkup_index_each(const struct blkup_index *i, int (*each)(void *, const char *, const char *), void *arg)
{
        struct search s = { .budget = 64 * BLKUP_INDEX_BUDGET, .index = i, .each = each, .arg = arg };

        return i->root ? walk_all(&s, i->root, 0, 0) : 0;
}
