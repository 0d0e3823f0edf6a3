/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "host/hostpool.h"

#include <dirent.h>
#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "host/hostfile.h"

#define BLOCK_BYTES 4000u

struct blkup_host_pool_block {
        struct blkup_host_pool_block *next;
        size_t used, cap;
        alignas(max_align_t) char bytes[];
};

/* at: where in a block of cap bytes the next n bytes begin. */
static void *take(struct blkup_host_pool *pool, size_t n, size_t align)
{
        struct blkup_host_pool_block *b = pool->blocks;
        size_t at = b ? (b->used + align - 1) & ~(align - 1) : 0;

        if (n > BLKUP_HOST_POOL_MAX_BYTES - pool->taken_bytes)
                return NULL;
        if (!b || at > b->cap || n > b->cap - at) {
                size_t cap = n > BLOCK_BYTES ? n : BLOCK_BYTES;

                b = malloc(sizeof(*b) + cap);
                if (!b)
                        return NULL;
                *b = (struct blkup_host_pool_block){ .next = pool->blocks, .cap = cap };
                pool->blocks = b;
                at = 0;
        }
        b->used = at + n;
        pool->taken_bytes += n;
        return b->bytes + at;
}

void *blkup_host_pool_take(struct blkup_host_pool *pool, size_t n)
{
        return take(pool, n, alignof(max_align_t));
}

char *blkup_host_pool_text(struct blkup_host_pool *pool, const char *s, size_t n)
{
        char *copy = take(pool, n + 1, 1);

        if (!copy)
                return NULL;
        memcpy(copy, s, n);
        copy[n] = '\0';
        return copy;
}

void blkup_host_pool_free(struct blkup_host_pool *pool)
{
        while (pool->blocks) { /* a list that only take() grows: ends at its first block */
                struct blkup_host_pool_block *next = pool->blocks->next;

                free(pool->blocks);
                pool->blocks = next;
        }
        pool->taken_bytes = 0;
}

static int compare_names(const void *pa, const void *pb)
{
        return strverscmp(*(const char *const *) pa, *(const char *const *) pb);
}

int blkup_host_list(struct blkup_host_pool *pool, int dir_fd, size_t max, const char *const **ret,
                    size_t *ret_n)
{
        const char **names = NULL, **kept = NULL;
        size_t n = 0, cap = 0;
        DIR *dir;
        int r = 0;

        dir = fdopendir(dir_fd);
        if (!dir) {
                r = -errno;
                (void) blkup_close(dir_fd);
                return r;
        }
        for (;;) { /* ends: at most max + 2 names are taken */
                const struct dirent *e;
                void *array = names;

                errno = 0;
                e = readdir(dir);
                if (!e) {
                        r = -errno;
                        break;
                }
                if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                        continue;
                r = blkup_host_reserve(&array, &cap, n, sizeof(*names), max);
                if (r < 0)
                        break;
                names = array;
                names[n] = blkup_host_pool_text(pool, e->d_name, strlen(e->d_name));
                if (!names[n++]) {
                        r = -ENOMEM;
                        break;
                }
        }
        (void) closedir(dir);
        if (r == 0 && n > 0) {
                qsort(names, n, sizeof(*names), compare_names);
                kept = blkup_host_pool_take(pool, n * sizeof(*kept));
                if (kept)
                        memcpy(kept, names, n * sizeof(*kept));
                else
                        r = -ENOMEM;
        }
        free(names);
        if (r < 0)
                return r;
        *ret = kept;
        *ret_n = n;
        return 0;
}
