/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "block/geometry.h"

/* Blocks are spread over sets by number; a set has its own mutex, so that readers of different blocks rarely
 * meet. */
#define SETS 64u
#define MAX_WAYS 16u
#define DEFAULT_CACHE_BYTES (1u << 20)

struct entry {
        uint64_t number;
        uint8_t *data; /* one block; NULL: free */
        bool is_dirty;
        uint64_t used; /* for the choice of the one that goes */
};

struct set {
        pthread_mutex_t lock;
        uint64_t clock;
        struct entry ways[MAX_WAYS];
} __attribute__((aligned(64)));

struct blkup_geometry {
        struct blkup_geometry_device device;
        struct blkup_rwsem *sem;
        size_t cache_bytes;

        uint32_t block_bytes; /* changed under the write lock; read under a read lock, or atomically to see
                               * whether a change would change anything */
        uint32_t mappings; /* atomic; raised under a read lock only: a writer sees all that were before it */
        uint64_t changes, unchanged, unchanged_late; /* atomic */
        struct set sets[SETS];
};

static bool is_block_size(uint32_t bytes)
{
        return blkup_is_power_of_two(bytes) && bytes >= BLKUP_BLOCK_BYTES_MIN &&
               bytes <= BLKUP_BLOCK_BYTES_MAX;
}

uint32_t blkup_geometry_default_block_bytes(uint64_t size_bytes, uint32_t logical_sector_bytes)
{
        uint32_t bytes = BLKUP_BLOCK_BYTES_USUAL_MAX;

        if (bytes < logical_sector_bytes)
                return logical_sector_bytes;
        while (bytes > logical_sector_bytes && bytes > BLKUP_BLOCK_BYTES_MIN && size_bytes % bytes != 0)
                bytes /= 2; /* ends: at 512 at the latest */
        return bytes;
}

int blkup_geometry_new(struct blkup_geometry **ret, const struct blkup_geometry_device *d, size_t cache_bytes,
                       const struct blkup_rwsem_options *lock, struct blkup_error *err)
{
        struct blkup_geometry *g;
        int r;

        if (!is_block_size(d->logical_sector_bytes))
                return blkup_fail(err, -EINVAL, "logical sector of %u bytes", d->logical_sector_bytes);
        g = aligned_alloc(64, sizeof(*g));
        if (!g)
                return blkup_fail(err, -ENOMEM, "no memory for the geometry of a device");
        memset(g, 0, sizeof(*g));
        r = blkup_rwsem_new(&g->sem, lock, err);
        if (r < 0) {
                free(g);
                return r;
        }
        for (size_t i = 0; i < SETS; i++) {
                r = -pthread_mutex_init(&g->sets[i].lock, NULL);
                if (r < 0) {
                        while (i-- > 0)
                                (void) pthread_mutex_destroy(&g->sets[i].lock);
                        g->sem = blkup_rwsem_unref(g->sem);
                        free(g);
                        return blkup_fail_errno(err, r, "no mutex for the geometry of a device");
                }
        }
        g->device = *d;
        g->cache_bytes = cache_bytes ? cache_bytes : DEFAULT_CACHE_BYTES;
        g->block_bytes = blkup_geometry_default_block_bytes(d->size_bytes, d->logical_sector_bytes);
        *ret = g;
        return 0;
}

struct blkup_geometry *blkup_geometry_unref(struct blkup_geometry *g)
{
        if (!g)
                return NULL;
        for (size_t i = 0; i < SETS; i++) {
                for (size_t w = 0; w < MAX_WAYS; w++)
                        free(g->sets[i].ways[w].data);
                (void) pthread_mutex_destroy(&g->sets[i].lock);
        }
        g->sem = blkup_rwsem_unref(g->sem);
        free(g);
        return NULL;
}

struct blkup_rwsem *blkup_geometry_lock(struct blkup_geometry *g)
{
        return g->sem;
}

/* ---- the cache; all with a read lock or the write lock, so that block_bytes stands still ---- */

static size_t ways_of(const struct blkup_geometry *g)
{
        size_t ways = g->cache_bytes / SETS / g->block_bytes;

        return ways < 1 ? 1 : ways > MAX_WAYS ? MAX_WAYS : ways;
}

/* Where block `number` begins and how much of it the device has; false: nothing. */
static bool place(const struct blkup_geometry *g, uint64_t number, uint64_t *ret_at, size_t *ret_len)
{
        uint64_t at;

        if (!blkup_mul(number, g->block_bytes, &at) || at >= g->device.size_bytes)
                return false;
        *ret_at = at;
        *ret_len = (size_t) blkup_min(g->block_bytes, g->device.size_bytes - at);
        return true;
}

static int write_out(struct blkup_geometry *g, struct entry *e)
{
        uint64_t at = 0;
        size_t len = 0;
        int r;

        if (!e->data || !e->is_dirty || !place(g, e->number, &at, &len))
                return 0;
        r = g->device.write(g->device.to_device, at, e->data, len);
        if (r == 0)
                e->is_dirty = false;
        return r;
}

/*
 * The entry of block `number`, with the set's mutex. is_whole: its content is about to be replaced, so it
 * need not be read. On failure no dirty block is lost: the one that had to make room was written out, or is
 * still there.
 */
static int get_entry(struct blkup_geometry *g, struct set *s, uint64_t number, bool is_whole,
                     struct entry **ret)
{
        size_t ways = ways_of(g), len = 0;
        struct entry *e = NULL;
        uint64_t at = 0;
        uint8_t *data;
        int r;

        for (size_t w = 0; w < ways; w++) {
                struct entry *one = &s->ways[w];

                if (one->data && one->number == number) {
                        one->used = ++s->clock;
                        *ret = one;
                        return 0;
                }
                /* A free one, else the one unused for the longest time. */
                if (!e || (e->data && (!one->data || one->used < e->used)))
                        e = one;
        }
        if (!place(g, number, &at, &len))
                return -ENXIO;
        r = write_out(g, e);
        if (r < 0)
                return r;
        data = e->data ? e->data : malloc(g->block_bytes);
        if (!data)
                return -ENOMEM;
        if (!is_whole) {
                r = g->device.read(g->device.to_device, at, data, len);
                if (r < 0) {
                        /* Half overwritten. */
                        free(data);
                        e->data = NULL;
                        return r;
                }
        }
        *e = (struct entry){ .number = number, .data = data, .used = ++s->clock };
        *ret = e;
        return 0;
}

static struct set *set_of(struct blkup_geometry *g, uint64_t number)
{
        return &g->sets[number % SETS];
}

static int flush(struct blkup_geometry *g)
{
        int first = 0;

        for (size_t i = 0; i < SETS; i++) {
                struct set *s = &g->sets[i];

                (void) pthread_mutex_lock(&s->lock);
                for (size_t w = 0; w < MAX_WAYS; w++) {
                        int r = write_out(g, &s->ways[w]);

                        if (first == 0)
                                first = r;
                }
                (void) pthread_mutex_unlock(&s->lock);
        }
        return first;
}

/* With the write lock: nobody holds a set's mutex. */
static void drop(struct blkup_geometry *g)
{
        for (size_t i = 0; i < SETS; i++)
                for (size_t w = 0; w < MAX_WAYS; w++) {
                        free(g->sets[i].ways[w].data);
                        g->sets[i].ways[w] = (struct entry){ .data = NULL };
                }
}

/* ---- what others call ---- */

int blkup_geometry_get(struct blkup_geometry *g, struct blkup_geometry_facts *ret)
{
        struct blkup_geometry_facts f = { .cached = 0 };
        int r = blkup_rwsem_read_lock(g->sem);

        if (r < 0)
                return r;
        f.size_bytes = g->device.size_bytes;
        f.logical_sector_bytes = g->device.logical_sector_bytes;
        f.block_bytes = g->block_bytes;
        f.mappings = __atomic_load_n(&g->mappings, __ATOMIC_RELAXED);
        f.changes = __atomic_load_n(&g->changes, __ATOMIC_RELAXED);
        f.unchanged = __atomic_load_n(&g->unchanged, __ATOMIC_RELAXED);
        f.unchanged_late = __atomic_load_n(&g->unchanged_late, __ATOMIC_RELAXED);
        for (size_t i = 0; i < SETS; i++) {
                struct set *s = &g->sets[i];

                (void) pthread_mutex_lock(&s->lock);
                for (size_t w = 0; w < MAX_WAYS; w++) {
                        f.cached += s->ways[w].data != NULL;
                        f.dirty += s->ways[w].data && s->ways[w].is_dirty;
                }
                (void) pthread_mutex_unlock(&s->lock);
        }
        blkup_rwsem_read_unlock(g->sem);
        *ret = f;
        return 0;
}

int blkup_geometry_set_block_bytes(struct blkup_geometry *g, uint32_t block_bytes)
{
        int r;

        if (!is_block_size(block_bytes) || block_bytes < g->device.logical_sector_bytes)
                return -EINVAL;
        /* Most mounts set what is set. Whoever changes it at this moment comes before or after this call. */
        if (__atomic_load_n(&g->block_bytes, __ATOMIC_RELAXED) == block_bytes) {
                (void) __atomic_fetch_add(&g->unchanged, 1, __ATOMIC_RELAXED);
                return 0;
        }
        r = blkup_rwsem_write_lock(g->sem);
        if (r < 0)
                return r;
        /* Again, now that nobody else can: two threads may have come for the same change, and mappings that
         * were made since hold the size that the first of them set. */
        if (g->block_bytes == block_bytes) {
                (void) __atomic_fetch_add(&g->unchanged_late, 1, __ATOMIC_RELAXED);
        } else if (__atomic_load_n(&g->mappings, __ATOMIC_RELAXED) > 0) {
                r = -EBUSY;
        } else {
                /* Written out while the old size still says where the blocks are, dropped before the new one
                 * does. */
                r = flush(g);
                if (r == 0) {
                        drop(g);
                        __atomic_store_n(&g->block_bytes, block_bytes, __ATOMIC_RELAXED);
                        (void) __atomic_fetch_add(&g->changes, 1, __ATOMIC_RELAXED);
                }
        }
        blkup_rwsem_write_unlock(g->sem);
        return r;
}

int blkup_geometry_read(struct blkup_geometry *g, uint64_t number, void *to, size_t cap, size_t *ret_len,
                        uint32_t *ret_block_bytes)
{
        struct set *s = set_of(g, number);
        struct entry *e = NULL;
        uint64_t at = 0;
        size_t len = 0;
        int r = blkup_rwsem_read_lock(g->sem);

        if (r < 0)
                return r;
        if (!place(g, number, &at, &len)) {
                r = -ENXIO;
        } else if (cap < g->block_bytes) {
                r = -ENOBUFS;
        } else {
                (void) pthread_mutex_lock(&s->lock);
                r = get_entry(g, s, number, false, &e);
                if (r == 0) {
                        memcpy(to, e->data, len);
                        *ret_len = len;
                        *ret_block_bytes = g->block_bytes;
                }
                (void) pthread_mutex_unlock(&s->lock);
        }
        blkup_rwsem_read_unlock(g->sem);
        return r;
}

int blkup_geometry_write(struct blkup_geometry *g, uint64_t number, uint32_t block_bytes, const void *from,
                         size_t len)
{
        struct set *s = set_of(g, number);
        struct entry *e = NULL;
        uint64_t at = 0;
        size_t has = 0;
        int r;

        if (!g->device.write)
                return -EROFS;
        /* A reader of the geometry, though a writer of the block: the size must stand still, and does. */
        r = blkup_rwsem_read_lock(g->sem);
        if (r < 0)
                return r;
        if (block_bytes != g->block_bytes) {
                r = -ESTALE;
        } else if (!place(g, number, &at, &has)) {
                r = -ENXIO;
        } else if (len != has) {
                r = -EINVAL;
        } else {
                (void) pthread_mutex_lock(&s->lock);
                r = get_entry(g, s, number, true, &e);
                if (r == 0) {
                        memcpy(e->data, from, len);
                        e->is_dirty = true;
                }
                (void) pthread_mutex_unlock(&s->lock);
        }
        blkup_rwsem_read_unlock(g->sem);
        return r;
}

int blkup_geometry_flush(struct blkup_geometry *g)
{
        int r = blkup_rwsem_read_lock(g->sem);

        if (r < 0)
                return r;
        r = flush(g);
        blkup_rwsem_read_unlock(g->sem);
        return r;
}

int blkup_geometry_map(struct blkup_geometry *g, uint32_t *ret_block_bytes)
{
        int r = blkup_rwsem_read_lock(g->sem);

        if (r < 0)
                return r;
        if (__atomic_add_fetch(&g->mappings, 1, __ATOMIC_RELAXED) == 0) {
                (void) __atomic_sub_fetch(&g->mappings, 1, __ATOMIC_RELAXED);
                r = -EOVERFLOW;
        } else {
                *ret_block_bytes = g->block_bytes;
        }
        blkup_rwsem_read_unlock(g->sem);
        return r;
}

void blkup_geometry_unmap(struct blkup_geometry *g)
{
        uint32_t before = __atomic_fetch_sub(&g->mappings, 1, __ATOMIC_RELEASE);

        assert(before > 0);
        (void) before;
}
