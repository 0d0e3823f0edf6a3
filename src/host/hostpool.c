/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "host/hostpool.h"

#include <dirent.h>
#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/hostfile.h"

#define BLOCK_BYTES 4000u
/* Some hundred names. */
#define LIST_BYTES  4096u

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

/* One entry of what getdents64(2) writes: its name, and how many bytes it takes. NULL: none. */
static const char *next_entry(const char *buf, size_t n, size_t *at)
{
        const size_t head = offsetof(struct dirent64, d_name);
        unsigned short len;
        const char *name = buf + *at + head;

        if (n - *at <= head)
                return NULL;
        memcpy(&len, buf + *at + offsetof(struct dirent64, d_reclen), sizeof(len));
        if (len <= head || len > n - *at)
                return NULL;
        *at += len;
        return name;
}

static int add_name(struct blkup_host_pool *pool, const char ***names, size_t *cap, size_t *n, size_t max,
                    const char *name)
{
        void *array = *names;
        int r;

        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                return 0;
        r = blkup_host_reserve(&array, cap, *n, sizeof(**names), max);
        if (r < 0)
                return r;
        *names = array;
        (*names)[*n] = blkup_host_pool_text(pool, name, strlen(name));
        if (!(*names)[*n])
                return -ENOMEM;
        (*n)++;
        return 0;
}

/* By hand: readdir() comes with a look at the descriptor and 32 KiB, for folders that mostly are empty. */
int blkup_host_list(struct blkup_host_pool *pool, int dir_fd, size_t max, const char *const **ret,
                    size_t *ret_n)
{
        BLKUP_CLEANUP_CLOSE int fd = dir_fd;
        BLKUP_CLEANUP_FREE const char **names = NULL;
        alignas(struct dirent64) char buf[LIST_BYTES];
        const char **kept = NULL;
        size_t n = 0, cap = 0;
        long got;
        int r = 0;

        /* Ends: each turn takes a name at least, and at most max + 2 are taken. */
        while (r == 0 && (got = syscall(SYS_getdents64, fd, buf, sizeof(buf))) != 0) {
                const char *name;
                size_t at = 0;

                if (got < 0)
                        return -errno;
                while (r == 0 && (name = next_entry(buf, (size_t) got, &at)))
                        r = add_name(pool, &names, &cap, &n, max, name);
        }
        if (r < 0)
                return r;
        if (n > 0) {
                qsort(names, n, sizeof(*names), compare_names);
                kept = blkup_host_pool_take(pool, n * sizeof(*kept));
                if (!kept)
                        return -ENOMEM;
                memcpy(kept, names, n * sizeof(*kept));
        }
        *ret = kept;
        *ret_n = n;
        return 0;
}
