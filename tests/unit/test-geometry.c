/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "block/geometry.h"

/* ---- a disk in memory that counts, and fails when told to ---- */

struct disk {
        uint8_t *bytes;
        uint64_t size;
        uint64_t reads, writes; /* atomic */
        uint64_t fail_write_at; /* writes that touch this byte fail; UINT64_MAX: none */
        int fail_reads;
};

static int disk_read(void *to_device, uint64_t at, void *to, size_t len)
{
        struct disk *d = to_device;

        if (at + len > d->size)
                abort();
        __atomic_fetch_add(&d->reads, 1, __ATOMIC_RELAXED);
        if (d->fail_reads)
                return -EIO;
        memcpy(to, d->bytes + at, len);
        return 0;
}

static int disk_write(void *to_device, uint64_t at, const void *from, size_t len)
{
        struct disk *d = to_device;

        if (at + len > d->size)
                abort();
        __atomic_fetch_add(&d->writes, 1, __ATOMIC_RELAXED);
        if (d->fail_write_at >= at && d->fail_write_at < at + len)
                return -ENOSPC;
        memcpy(d->bytes + at, from, len);
        return 0;
}

/* Sector i holds, at its start: i and its version, 64 bits each. */
static void stamp(uint8_t *sector, uint64_t i, uint64_t version)
{
        for (size_t b = 0; b < 8; b++) {
                sector[b] = (uint8_t) (i >> 8 * b);
                sector[8 + b] = (uint8_t) (version >> 8 * b);
        }
}

static void disk_make(struct disk *d, uint64_t size)
{
        *d = (struct disk){ .bytes = calloc(1, size), .size = size, .fail_write_at = UINT64_MAX };
        assert_non_null(d->bytes);
        for (uint64_t i = 0; i < size / 512; i++)
                stamp(d->bytes + 512 * i, i, 0);
}

static struct blkup_geometry *make(struct disk *d, uint32_t sector, size_t cache,
                                   const struct blkup_rwsem_options *o)
{
        struct blkup_geometry_device dev = { .read = disk_read, .write = disk_write, .to_device = d,
                                             .size_bytes = d->size, .logical_sector_bytes = sector };
        struct blkup_geometry *g = NULL;
        struct blkup_error err = { .code = 0 };

        if (blkup_geometry_new(&g, &dev, cache, o, &err) < 0)
                fail_msg("%s", err.message);
        return g;
}

static struct blkup_geometry_facts facts(struct blkup_geometry *g)
{
        struct blkup_geometry_facts f;

        assert_int_equal(blkup_geometry_get(g, &f), 0);
        return f;
}

/* ---- sizes ---- */

static void test_default(void **state)
{
        (void) state;
        assert_int_equal(blkup_geometry_default_block_bytes(UINT64_C(1) << 40, 512), 4096);
        assert_int_equal(blkup_geometry_default_block_bytes(UINT64_C(505) * 1024, 512), 1024);
        assert_int_equal(blkup_geometry_default_block_bytes(UINT64_C(1474560), 512), 4096);
        assert_int_equal(blkup_geometry_default_block_bytes(6144, 512), 2048);
        assert_int_equal(blkup_geometry_default_block_bytes(512 * 3, 512), 512);
        assert_int_equal(blkup_geometry_default_block_bytes(1000, 512), 512); /* not even whole sectors */
        assert_int_equal(blkup_geometry_default_block_bytes(6144, 4096), 4096);
        assert_int_equal(blkup_geometry_default_block_bytes(1 << 20, 16384), 16384);
        assert_int_equal(blkup_geometry_default_block_bytes(0, 512), 4096);
}

static void test_sizes(void **state)
{
        static const uint32_t bad[] = { 0, 1, 256, 511, 513, 1000, 3072, 65535, 65537, 131072, UINT32_MAX };
        static const uint32_t good[] = { 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536 };
        struct blkup_geometry *g = NULL;
        struct blkup_geometry_device dev = { .size_bytes = 1 << 20, .logical_sector_bytes = 520 };
        struct blkup_error err = { .code = 0 };
        struct disk d;

        (void) state;
        assert_int_equal(blkup_geometry_new(&g, &dev, 0, NULL, &err), -EINVAL);
        assert_string_equal(err.message, "logical sector of 520 bytes");
        assert_null(g);
        assert_null(blkup_geometry_unref(NULL));

        disk_make(&d, 1 << 20);
        g = make(&d, 512, 0, NULL);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_int_equal(blkup_geometry_set_block_bytes(g, bad[i]), -EINVAL);
        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
                assert_int_equal(blkup_geometry_set_block_bytes(g, good[i]), 0);
                assert_int_equal(facts(g).block_bytes, good[i]);
        }
        g = blkup_geometry_unref(g);
        g = make(&d, 4096, 0, NULL);
        assert_int_equal(blkup_geometry_set_block_bytes(g, 2048), -EINVAL);
        assert_int_equal(blkup_geometry_set_block_bytes(g, 8192), 0);
        assert_int_equal(facts(g).logical_sector_bytes, 4096);
        g = blkup_geometry_unref(g);
        free(d.bytes);
}

/* The whole trouble of 2012: a change that changes nothing takes no lock. */
static void test_same_size(void **state)
{
        struct blkup_rwsem_stats before, after;
        struct blkup_geometry *g;
        uint32_t mapped = 0;
        struct disk d;

        (void) state;
        disk_make(&d, 1 << 20);
        g = make(&d, 512, 0, NULL);
        assert_int_equal(blkup_geometry_map(g, &mapped), 0);
        assert_int_equal(mapped, 4096);
        blkup_rwsem_get_stats(blkup_geometry_lock(g), &before);
        for (int i = 0; i < 1000; i++)
                assert_int_equal(blkup_geometry_set_block_bytes(g, 4096), 0); /* also while mapped */
        blkup_rwsem_get_stats(blkup_geometry_lock(g), &after);
        assert_int_equal(after.writes, before.writes);
        assert_int_equal(after.barriers, before.barriers);
        assert_int_equal(facts(g).unchanged, 1000);
        assert_int_equal(facts(g).changes, 0);

        assert_int_equal(blkup_geometry_set_block_bytes(g, 1024), -EBUSY);
        assert_int_equal(facts(g).block_bytes, 4096);
        assert_int_equal(facts(g).mappings, 1);
        blkup_geometry_unmap(g);
        assert_int_equal(blkup_geometry_set_block_bytes(g, 1024), 0);
        assert_int_equal(facts(g).changes, 1);
        g = blkup_geometry_unref(g);
        free(d.bytes);
}

struct setter {
        struct blkup_geometry *g;
        pthread_t thread;
        int answer;
};

static void *set_1024(void *arg)
{
        struct setter *s = arg;

        s->answer = blkup_geometry_set_block_bytes(s->g, 1024);
        return NULL;
}

/* Two threads come for the same change: the second looks again under the lock, and finds it done. */
static void test_checked_again(void **state)
{
        enum { N = 8 };
        struct blkup_geometry *g;
        struct setter s[N];
        struct disk d;

        (void) state;
        disk_make(&d, 1 << 20);
        g = make(&d, 512, 0, NULL);
        /* While this thread reads, they all pass the first look and queue. */
        assert_int_equal(blkup_rwsem_read_lock(blkup_geometry_lock(g)), 0);
        for (int i = 0; i < N; i++) {
                s[i] = (struct setter){ .g = g, .answer = 1 };
                assert_int_equal(pthread_create(&s[i].thread, NULL, set_1024, &s[i]), 0);
        }
        blkup_sleep_until_ns(blkup_now_ns() + UINT64_C(50000000), NULL);
        blkup_rwsem_read_unlock(blkup_geometry_lock(g));
        for (int i = 0; i < N; i++) {
                assert_int_equal(pthread_join(s[i].thread, NULL), 0);
                assert_int_equal(s[i].answer, 0);
        }
        assert_int_equal(facts(g).changes, 1);
        assert_int_equal(facts(g).unchanged + facts(g).unchanged_late, N - 1);
        assert_true(facts(g).unchanged_late > 0); /* unless not one of them came within 50 ms */
        g = blkup_geometry_unref(g);
        free(d.bytes);
}

/* ---- blocks ---- */

static void test_blocks(void **state)
{
        static uint8_t block[65536], other[65536];
        struct blkup_geometry *g;
        uint32_t bs = 0;
        size_t len = 0;
        struct disk d;

        (void) state;
        disk_make(&d, 65536 + 1024); /* the last block of most sizes is cut */
        g = make(&d, 512, 0, NULL);
        assert_int_equal(facts(g).block_bytes, 1024);
        assert_int_equal(blkup_geometry_set_block_bytes(g, 4096), 0);

        assert_int_equal(blkup_geometry_read(g, 3, block, sizeof(block), &len, &bs), 0);
        assert_int_equal(len, 4096);
        assert_int_equal(bs, 4096);
        assert_memory_equal(block, d.bytes + 3 * 4096, 4096);
        assert_int_equal(d.reads, 1);
        assert_int_equal(blkup_geometry_read(g, 3, block, 4096, &len, &bs), 0);
        assert_int_equal(d.reads, 1); /* from the cache */
        assert_int_equal(blkup_geometry_read(g, 16, block, sizeof(block), &len, &bs), 0);
        assert_int_equal(len, 1024);
        assert_memory_equal(block, d.bytes + 65536, 1024);
        assert_int_equal(blkup_geometry_read(g, 17, block, sizeof(block), &len, &bs), -ENXIO);
        assert_int_equal(blkup_geometry_read(g, UINT64_MAX, block, sizeof(block), &len, &bs), -ENXIO);
        assert_int_equal(blkup_geometry_read(g, 3, block, 4095, &len, &bs), -ENOBUFS);

        /* writes stay in the cache until they have to go */
        memset(other, 0xa5, sizeof(other));
        assert_int_equal(blkup_geometry_write(g, 3, 1024, other, 1024), -ESTALE);
        assert_int_equal(blkup_geometry_write(g, 3, 4096, other, 1024), -EINVAL);
        assert_int_equal(blkup_geometry_write(g, 17, 4096, other, 4096), -ENXIO);
        assert_int_equal(blkup_geometry_write(g, 3, 4096, other, 4096), 0);
        assert_int_equal(blkup_geometry_write(g, 16, 4096, other, 1024), 0);
        assert_int_equal(d.writes, 0);
        assert_int_equal(facts(g).dirty, 2);
        assert_int_equal(blkup_geometry_read(g, 3, block, sizeof(block), &len, &bs), 0);
        assert_memory_equal(block, other, 4096);
        assert_int_equal(d.bytes[3 * 4096], 24);

        /* a change of size writes them out and drops them: the new blocks come from the device */
        assert_int_equal(blkup_geometry_set_block_bytes(g, 1024), 0);
        assert_int_equal(d.writes, 2);
        assert_int_equal(facts(g).cached, 0);
        assert_int_equal(blkup_geometry_read(g, 12, block, sizeof(block), &len, &bs), 0);
        assert_int_equal(bs, 1024);
        assert_memory_equal(block, other, 1024);
        assert_int_equal(blkup_geometry_read(g, 64, block, sizeof(block), &len, &bs), 0);
        assert_memory_equal(block, other, 1024);

        /* flush keeps them */
        assert_int_equal(blkup_geometry_write(g, 0, 1024, other, 1024), 0);
        assert_int_equal(blkup_geometry_flush(g), 0);
        assert_memory_equal(d.bytes, other, 1024);
        assert_int_equal(facts(g).dirty, 0);
        assert_int_equal(facts(g).cached, 3);
        assert_int_equal(blkup_geometry_flush(g), 0);
        assert_int_equal(d.writes, 3);
        g = blkup_geometry_unref(g);
        free(d.bytes);
}

static void test_errors(void **state)
{
        static uint8_t block[65536];
        struct blkup_geometry_device ro = { .read = disk_read,
                                            .size_bytes = 65536,
                                            .logical_sector_bytes = 512 };
        struct blkup_geometry *g;
        uint32_t bs = 77;
        size_t len = 77;
        struct disk d;

        (void) state;
        disk_make(&d, 65536);
        g = make(&d, 512, 0, NULL);
        /* a write error refuses the change: nothing is lost, and the others were tried */
        memset(block, 0x11, sizeof(block));
        for (uint64_t i = 0; i < 4; i++)
                assert_int_equal(blkup_geometry_write(g, i, 4096, block, 4096), 0);
        d.fail_write_at = 4096;
        assert_int_equal(blkup_geometry_set_block_bytes(g, 1024), -ENOSPC);
        assert_int_equal(facts(g).block_bytes, 4096);
        assert_int_equal(facts(g).dirty, 1);
        assert_int_equal(facts(g).cached, 4);
        assert_int_equal(d.writes, 4);
        assert_int_equal(blkup_geometry_flush(g), -ENOSPC);
        d.fail_write_at = UINT64_MAX;
        assert_int_equal(blkup_geometry_set_block_bytes(g, 1024), 0);
        assert_memory_equal(d.bytes, block, 4 * 4096);

        /* a read error leaves no rubbish behind */
        d.fail_reads = 1;
        assert_int_equal(blkup_geometry_read(g, 5, block, sizeof(block), &len, &bs), -EIO);
        assert_int_equal(len + bs, 2 * 77);
        d.fail_reads = 0;
        assert_int_equal(blkup_geometry_read(g, 5, block, sizeof(block), &len, &bs), 0);
        assert_memory_equal(block, d.bytes + 5 * 1024, 1024);
        g = blkup_geometry_unref(g);

        ro.to_device = &d;
        assert_int_equal(blkup_geometry_new(&g, &ro, 0, NULL, NULL), 0);
        assert_int_equal(blkup_geometry_write(g, 0, 4096, block, 4096), -EROFS);
        assert_int_equal(blkup_geometry_set_block_bytes(g, 512), 0);
        g = blkup_geometry_unref(g);
        free(d.bytes);
}

/* The cache is bounded: what has to make room is written out first. */
static void test_bounded(void **state)
{
        static uint8_t block[65536];
        struct blkup_geometry *g;
        uint32_t bs = 0;
        size_t len = 0;
        struct disk d;

        (void) state;
        disk_make(&d, 8 << 20);
        g = make(&d, 512, 1 << 20, NULL);
        for (uint64_t i = 0; i < 2048; i++) {
                stamp(block, i, 9);
                assert_int_equal(blkup_geometry_write(g, i, 4096, block, 4096), 0);
        }
        assert_int_equal(facts(g).cached, 256); /* 1 MiB */
        assert_int_equal(d.writes, 2048 - 256);
        for (uint64_t i = 0; i < 2048; i++) {
                assert_int_equal(blkup_geometry_read(g, i, block, sizeof(block), &len, &bs), 0);
                assert_int_equal(blkup_load_le64(block), i);
                assert_int_equal(blkup_load_le64(block + 8), 9);
        }
        assert_int_equal(blkup_geometry_set_block_bytes(g, 65536), 0);
        for (uint64_t i = 0; i < 128; i++)
                assert_int_equal(blkup_geometry_read(g, i, block, sizeof(block), &len, &bs), 0);
        assert_int_equal(facts(g).cached, 64); /* the least there is room for */
        g = blkup_geometry_unref(g);
        free(d.bytes);
}

/* ---- the race that came back to the kernel in 2025 ---- */

#define REGION 8192u /* the largest of the sizes below: a writer's own */
#define N_WRITERS 2u
#define RACE_BYTES (64u * REGION)

struct race {
        struct blkup_geometry *g;
        uint64_t changes;
        int stop;
        uint64_t reads, writes, maps; /* atomic */
};

/* Is the block what its number and size say? versions[i] (may be NULL): at least what sector i must have. */
static void check_block(const uint8_t *block, size_t len, uint64_t number, uint32_t bs,
                        const uint64_t *versions)
{
        if ((bs != 1024 && bs != 4096 && bs != 8192) || len != bs)
                abort();
        for (size_t i = 0; i < len / 512; i++) {
                uint64_t sector = number * bs / 512 + i;

                if (blkup_load_le64(block + 512 * i) != sector)
                        abort(); /* size of one moment, data of another */
                if (versions && blkup_load_le64(block + 512 * i + 8) != versions[i])
                        abort(); /* a block was lost */
        }
}

static void *race_reader(void *arg)
{
        struct race *r = arg;
        uint8_t block[REGION];
        uint64_t x = (uintptr_t) &block;

        while (!__atomic_load_n(&r->stop, __ATOMIC_RELAXED)) {
                uint64_t number;
                uint32_t bs = 0;
                size_t len = 0;
                int e;

                x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
                /* Outside the lock: on few CPUs a thread would else lose its CPU inside, nearly every time.
                 */
                if (x >> 62 == 0)
                        sched_yield();
                number = (x >> 33) % (RACE_BYTES / 1024);
                e = blkup_geometry_read(r->g, number, block, sizeof(block), &len, &bs);
                if (e == -ENXIO)
                        continue; /* of that number there is none at this size */
                if (e != 0)
                        abort();
                check_block(block, len, number, bs, NULL);
                (void) __atomic_fetch_add(&r->reads, 1, __ATOMIC_RELAXED);
                if ((x >> 40) % 256 == 0 && blkup_geometry_map(r->g, &bs) == 0) {
                        struct blkup_geometry_facts f;

                        if (blkup_geometry_get(r->g, &f) != 0 || f.block_bytes != bs)
                                abort(); /* a mapping holds the size */
                        blkup_geometry_unmap(r->g);
                        (void) __atomic_fetch_add(&r->maps, 1, __ATOMIC_RELAXED);
                }
        }
        return NULL;
}

/* Owns one region, writes its blocks at whatever size is set, and knows what must be in them. */
struct race_writer {
        struct race *r;
        uint64_t region;
        uint64_t versions[REGION / 512];
};

static void *race_writer(void *arg)
{
        struct race_writer *w = arg;
        uint8_t block[REGION];
        uint64_t version = 0;

        while (!__atomic_load_n(&w->r->stop, __ATOMIC_RELAXED)) {
                struct blkup_geometry_facts f;
                uint64_t first, n;
                size_t len = 0;
                uint32_t bs = 0;
                int e;

                if (version % 4 == 0)
                        sched_yield();
                if (blkup_geometry_get(w->r->g, &f) != 0)
                        abort();
                version++;
                n = version % (REGION / f.block_bytes);
                first = n * f.block_bytes / 512;
                memset(block, 0, f.block_bytes);
                for (uint64_t i = 0; i < f.block_bytes / 512; i++)
                        stamp(block + 512 * i, w->region * (REGION / 512) + first + i, version);
                e = blkup_geometry_write(w->r->g, w->region * (REGION / f.block_bytes) + n, f.block_bytes,
                                         block, f.block_bytes);
                if (e == -ESTALE)
                        continue;
                if (e != 0)
                        abort();
                for (uint64_t i = 0; i < f.block_bytes / 512; i++)
                        w->versions[first + i] = version;
                (void) __atomic_fetch_add(&w->r->writes, 1, __ATOMIC_RELAXED);
                /* Reads its own writing, at the size of now: another one may mean another part of the region.
                 */
                n = w->region * (REGION / f.block_bytes) + n;
                e = blkup_geometry_read(w->r->g, n, block, sizeof(block), &len, &bs);
                if (e == -ENXIO || (e == 0 && n * bs / REGION != w->region))
                        continue;
                if (e != 0)
                        abort();
                check_block(block, len, n, bs, &w->versions[n * bs % REGION / 512]);
        }
        return NULL;
}

static void race(const char *name, const struct blkup_rwsem_options *o, uint64_t changes, bool has_writers)
{
        static const uint32_t sizes[] = { 4096, 8192, 1024 };
        struct race r = { .stop = 0 };
        struct race_writer w[N_WRITERS];
        pthread_t t[2 + N_WRITERS];
        struct blkup_rwsem_stats st;
        struct disk d;
        uint64_t n_changes = 0, busy = 0, start = blkup_now_ns();
        size_t n = 0;

        disk_make(&d, RACE_BYTES);
        /* A small cache, so that blocks also leave it on their own. */
        r.g = make(&d, 512, 65536, o);
        for (; n < 2; n++)
                assert_int_equal(pthread_create(&t[n], NULL, race_reader, &r), 0);
        for (size_t i = 0; has_writers && i < N_WRITERS; i++) {
                w[i] = (struct race_writer){ .r = &r, .region = 5 + 11 * i };
                assert_int_equal(pthread_create(&t[n++], NULL, race_writer, &w[i]), 0);
        }
        /* Until all have had their share, however late their threads begin. */
        while (n_changes < changes || __atomic_load_n(&r.reads, __ATOMIC_RELAXED) < changes ||
               (has_writers && __atomic_load_n(&r.writes, __ATOMIC_RELAXED) < changes / 10)) {
                int e = blkup_geometry_set_block_bytes(r.g, sizes[n_changes % 3]);

                if (e == 0) {
                        n_changes++;
                } else if (e == -EBUSY) {
                        busy++;
                        sched_yield(); /* who holds the mapping may wait for this CPU */
                } else {
                        fail_msg("change %" PRIu64 ": %d", n_changes, e);
                }
        }
        __atomic_store_n(&r.stop, 1, __ATOMIC_RELAXED);
        for (size_t i = 0; i < n; i++)
                assert_int_equal(pthread_join(t[i], NULL), 0);
        assert_true(facts(r.g).changes + 1 >= n_changes);
        assert_int_equal(blkup_geometry_flush(r.g), 0);
        for (uint64_t i = 0; i < RACE_BYTES / 512; i++) {
                uint64_t region = i / (REGION / 512), version = 0;

                for (size_t k = 0; has_writers && k < N_WRITERS; k++)
                        if (w[k].region == region)
                                version = w[k].versions[i % (REGION / 512)];
                assert_int_equal(blkup_load_le64(d.bytes + 512 * i), i);
                assert_int_equal(blkup_load_le64(d.bytes + 512 * i + 8), version);
        }
        blkup_rwsem_get_stats(blkup_geometry_lock(r.g), &st);
        printf("  %-22s %" PRIu64 " changes in %.1f s, %" PRIu64 " refused for mappings, %" PRIu64
               " reads, %" PRIu64 " writes, %" PRIu64 " maps, %" PRIu64
               " barriers, longest waits %.1f and %.1f ms\n",
               name, n_changes, (double) (blkup_now_ns() - start) / 1e9, busy, r.reads, r.writes, r.maps,
               st.barriers, (double) st.read_wait_max_ns / 1e6, (double) st.write_wait_max_ns / 1e6);
        r.g = blkup_geometry_unref(r.g);
        free(d.bytes);
}

static void test_race(void **state)
{
        /* A third for each lock: 10^6 together. */
        uint64_t changes = getenv("BLKUP_SOAK") ? 333334 : 2000;
        struct blkup_rwsem_options o = { .fenced_reads = BLKUP_RWSEM_OPEN_AT_ONCE };

        (void) state;
        race("usual lock, readers", NULL, changes / 2, false);
        race("usual lock", NULL, changes - changes / 2, true);
        race("a barrier per change", &o, changes, true);
        o = (struct blkup_rwsem_options){ .policy = BLKUP_RWSEM_FENCE };
        race("fence", &o, changes, true);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_default), cmocka_unit_test(test_sizes),
                cmocka_unit_test(test_same_size), cmocka_unit_test(test_checked_again),
                cmocka_unit_test(test_blocks), cmocka_unit_test(test_errors),
                cmocka_unit_test(test_bounded), cmocka_unit_test(test_race),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
