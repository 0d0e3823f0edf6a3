/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `blkup bench blocksize`: what a change of the block size costs under the barriers of each algorithm of 2012
 * and under ours. All rows run the same code, the geometry of src/block with its semaphore, and differ in the
 * barriers alone; no time is faked. A round is what mounting did: to 1024, read 1 KiB, back to 4096, read 4
 * KiB. The last row is the running kernel's own block layer, on a loop device of our own.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <blkup/rwsem.h>

#include "base/clock.h"
#include "block/geometry.h"
#include "cli/bench.h"
#include "cli/output.h"

#define DEVICE_BYTES (1u << 20)
#define FAST_REPEATS 100 /* rounds of a fast row in the time of one of a slow row */
#define N_LOADS 3        /* 0, 1 and 2 busy readers */

struct kind {
        const char *name, *policy; /* as printed */
        struct blkup_rwsem_options lock;
        bool is_slow, is_same_size;
};

/* The rows of 2012, then ours. "policy" names the barrier; the algorithms stand in docs/decisions/rwsem.md.
 */
static const struct kind kinds[] = {
        { "none", "none", { .policy = BLKUP_RWSEM_FENCE }, false, false },
        { "slow1",
          "global",
          { .policy = BLKUP_RWSEM_GLOBAL, .fenced_reads = BLKUP_RWSEM_OPEN_AT_ONCE },
          true,
          false },
        { "slow3",
          "global",
          { .policy = BLKUP_RWSEM_GLOBAL,
            .fenced_reads = BLKUP_RWSEM_OPEN_AT_ONCE,
            .extra_entry_barriers = 1,
            .extra_exit_barriers = 1 },
          true,
          false },
        { "expedited3",
          "expedited",
          { .policy = BLKUP_RWSEM_EXPEDITED,
            .fenced_reads = BLKUP_RWSEM_OPEN_AT_ONCE,
            .extra_entry_barriers = 1,
            .extra_exit_barriers = 1 },
          false,
          false },
        { "slow2",
          "global",
          { .policy = BLKUP_RWSEM_GLOBAL,
            .fenced_reads = BLKUP_RWSEM_OPEN_AT_ONCE,
            .extra_exit_barriers = 1 },
          true,
          false },
        { "blkup",
          "expedited",
          { .policy = BLKUP_RWSEM_EXPEDITED, .fenced_reads = BLKUP_RWSEM_OPEN_AT_ONCE },
          false,
          false },
        { "same_size",
          "expedited",
          { .policy = BLKUP_RWSEM_EXPEDITED, .fenced_reads = BLKUP_RWSEM_OPEN_AT_ONCE },
          false,
          true },
};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

struct row {
        const struct kind *kind; /* NULL: the kernel */
        const char *name, *policy;
        char refused[160];       /* why there are no figures */
        struct blkup_geometry *g;
        struct blkup_bench_samples us[N_LOADS];
        uint64_t barriers, writes;
};

struct bench {
        const struct blkup_bench_options *o;
        struct blkup_bench_machine machine;
        uint8_t *device;
        struct row rows[N_KINDS + 1];
        int loop_fd; /* the kernel row's device, -1 */
};

/* ---- the device: memory, so that only the lock is measured ---- */

static int device_read(void *to_device, uint64_t at, void *to, size_t len)
{
        memcpy(to, (const uint8_t *) to_device + at, len);
        return 0;
}

static int device_write(void *to_device, uint64_t at, const void *from, size_t len)
{
        memcpy((uint8_t *) to_device + at, from, len);
        return 0;
}

/* ---- one round ---- */

static int round_of_geometry(struct blkup_geometry *g, bool is_same_size)
{
        uint8_t block[4096];
        uint32_t bs = 0;
        size_t len = 0;
        int r = blkup_geometry_set_block_bytes(g, is_same_size ? 4096 : 1024);

        if (r == 0)
                r = blkup_geometry_read(g, 0, block, sizeof(block), &len, &bs);
        if (r == 0)
                r = blkup_geometry_set_block_bytes(g, 4096);
        if (r == 0)
                r = blkup_geometry_read(g, 0, block, sizeof(block), &len, &bs);
        return r;
}

static int round_of_kernel(int fd)
{
        uint8_t block[4096];
        int bytes = 1024;

        if (ioctl(fd, BLKBSZSET, &bytes) < 0 || pread(fd, block, 1024, 0) != 1024)
                return errno ? -errno : -EIO;
        bytes = 4096;
        if (ioctl(fd, BLKBSZSET, &bytes) < 0 || pread(fd, block, 4096, 0) != 4096)
                return errno ? -errno : -EIO;
        return 0;
}

/* ---- busy readers ---- */

struct reader {
        struct bench *b;
        struct row *row;
        unsigned number;
        int *stop; /* atomic */
        int *begun;
        int answer;
};

static void *read_busily(void *arg)
{
        struct reader *r = arg;
        uint8_t block[4096];

        r->answer = blkup_bench_pin(r->number);
        (void) __atomic_add_fetch(r->begun, 1, __ATOMIC_SEQ_CST);
        while (r->answer == 0 &&
               !__atomic_load_n(r->stop, __ATOMIC_RELAXED)) { /* ends: the row is measured */
                uint32_t bs = 0;
                size_t len = 0;

                if (r->row->kind)
                        r->answer = blkup_geometry_read(r->row->g, 1 + r->number, block, sizeof(block), &len,
                                                        &bs);
                else if (pread(r->b->loop_fd, block, 1024, 8192) != 1024)
                        r->answer = errno ? -errno : -EIO;
        }
        return NULL;
}

static int measure_row(struct bench *b, struct row *row, unsigned n_readers, unsigned repeats)
{
        struct reader readers[N_LOADS - 1];
        pthread_t threads[N_LOADS - 1];
        unsigned n = 0;
        int stop = 0, begun = 0, r = 0;

        for (; n < n_readers && r == 0; n += r == 0) {
                readers[n] =
                        (struct reader){ .b = b, .row = row, .number = n, .stop = &stop, .begun = &begun };
                r = -pthread_create(&threads[n], NULL, read_busily, &readers[n]);
        }
        while (r == 0 && __atomic_load_n(&begun, __ATOMIC_SEQ_CST) < (int) n) /* ends: all begin */
                blkup_sleep_until_ns(blkup_now_ns() + 1000000, NULL);
        for (unsigned i = 0; i < repeats && r == 0; i++) {
                uint64_t start = blkup_now_ns();

                errno = 0;
                r = row->kind ? round_of_geometry(row->g, row->kind->is_same_size)
                              : round_of_kernel(b->loop_fd);
                if (r == 0)
                        r = blkup_bench_add(&row->us[n_readers], (double) (blkup_now_ns() - start) / 1e3);
        }
        __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
        for (unsigned i = 0; i < n; i++) {
                (void) pthread_join(threads[i], NULL);
                if (r == 0)
                        r = readers[i].answer;
        }
        return r;
}

/* ---- the kernel's own: a loop device over a file in memory ---- */

static int open_loop(struct row *row)
{
        BLKUP_CLEANUP_CLOSE int control = -1, file = -1, fd = -1;
        struct loop_config config = { .info = { .lo_flags = LO_FLAGS_AUTOCLEAR } };
        char path[32];

        control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
        if (control < 0) {
                (void) snprintf(row->refused, sizeof(row->refused), "/dev/loop-control: %s%s",
                                strerror(errno), geteuid() == 0 ? "" : " (needs root)");
                return -1;
        }
        file = memfd_create("blkup-bench", MFD_CLOEXEC);
        if (file < 0 || ftruncate(file, DEVICE_BYTES) < 0) {
                (void) snprintf(row->refused, sizeof(row->refused), "a file in memory: %s", strerror(errno));
                return -1;
        }
        config.fd = (uint32_t) file;
        for (int tries = 0; tries < 8; tries++) { /* another may take the free device first */
                int n = ioctl(control, LOOP_CTL_GET_FREE);

                if (n < 0)
                        break;
                (void) snprintf(path, sizeof(path), "/dev/loop%d", n);
                fd = open(path, O_RDWR | O_CLOEXEC);
                if (fd < 0)
                        break;
                if (ioctl(fd, LOOP_CONFIGURE, &config) == 0)
                        return blkup_take_fd(&fd);
                if (errno != EBUSY)
                        break;
                fd = blkup_close(fd);
        }
        (void) snprintf(row->refused, sizeof(row->refused), "no loop device: %s", strerror(errno));
        return -1;
}

/* ---- the run ---- */

static void prepare(struct bench *b)
{
        for (size_t i = 0; i < N_KINDS; i++) {
                const struct kind *k = &kinds[i];
                struct row *row = &b->rows[i];
                struct blkup_geometry_device d = { .read = device_read,
                                                   .write = device_write,
                                                   .to_device = b->device,
                                                   .size_bytes = DEVICE_BYTES,
                                                   .logical_sector_bytes = 512 };
                struct blkup_error err = { .code = 0 };

                *row = (struct row){ .kind = k, .name = k->name, .policy = k->policy };
                if (k->is_slow && b->machine.cpus < 2)
                        (void) snprintf(row->refused, sizeof(row->refused),
                                        "with one CPU the barrier waits for nobody");
                else if (k->is_slow && !b->machine.has_global)
                        (void) snprintf(row->refused, sizeof(row->refused),
                                        "membarrier GLOBAL is not offered here (nohz_full: EINVAL)");
                else if (k->is_slow && b->machine.rcu_expedited == 1)
                        (void) snprintf(row->refused, sizeof(row->refused),
                                        "rcu_expedited is 1: grace periods are not what they were");
                else if (blkup_geometry_new(&row->g, &d, 0, &k->lock, &err) < 0)
                        (void) snprintf(row->refused, sizeof(row->refused), "%.150s", err.message);
        }
        b->rows[N_KINDS] = (struct row){ .name = "kernel", .policy = "BLKBSZSET" };
        b->loop_fd = open_loop(&b->rows[N_KINDS]);
}

static int measure(struct bench *b)
{
        unsigned loads = b->machine.cpus < 2 ? 1 : N_LOADS;
        int r = 0;

        for (unsigned readers = 0; readers < loads; readers++)
                for (unsigned round = 0; round < b->o->rounds; round++)
                        for (size_t i = 0; i <= N_KINDS && r == 0; i++) {
                                struct row *row = &b->rows[i];
                                struct blkup_rwsem_stats st = { .writes = 0 };
                                bool is_slow = !row->kind || row->kind->is_slow;

                                if (row->refused[0])
                                        continue;
                                r = measure_row(b, row, readers, is_slow ? 1 : FAST_REPEATS);
                                if (r < 0 && !row->kind) {
                                        (void) snprintf(row->refused, sizeof(row->refused), "%s",
                                                        strerror(-r));
                                        r = 0;
                                }
                                if (!row->g)
                                        continue;
                                blkup_rwsem_get_stats(blkup_geometry_lock(row->g), &st);
                                row->barriers = st.barriers;
                                row->writes = st.writes;
                        }
        return r;
}

/* What was counted, not what was planned. A row without write locks had none that could issue any. */
static double barriers_per_write(const struct row *row)
{
        if (!row->kind || row->refused[0])
                return (double) NAN;
        return row->writes > 0 ? (double) row->barriers / (double) row->writes : 0;
}

static double least(struct bench *b, size_t i)
{
        return b->rows[i].refused[0] ? (double) NAN : blkup_bench_quantile(&b->rows[i].us[0], 0);
}

static double median(struct bench *b, size_t i)
{
        return b->rows[i].refused[0] ? (double) NAN : blkup_bench_quantile(&b->rows[i].us[0], 0.5);
}

enum { NONE, SLOW1, SLOW3, EXPEDITED3, SLOW2, BLKUP, SAME_SIZE };

static const struct {
        const char *name;
        size_t over, under;
        bool by_median;
} ratios[] = {
        /* Grace periods vary by a tick or more: their medians are compared; the rest by the least. */
        { "slow3/slow1", SLOW3, SLOW1, true },           { "slow2/slow1", SLOW2, SLOW1, true },
        { "slow3/slow2", SLOW3, SLOW2, true },           { "slow3/blkup", SLOW3, BLKUP, true },
        { "expedited3/none", EXPEDITED3, NONE, false },  { "expedited3/blkup", EXPEDITED3, BLKUP, false },
        { "same_size/none", SAME_SIZE, NONE, false },
};

static double ratio(struct bench *b, size_t i)
{
        return ratios[i].by_median ? median(b, ratios[i].over) / median(b, ratios[i].under) :
                                     least(b, ratios[i].over) / least(b, ratios[i].under);
}

static const char *const load_names[N_LOADS] = { "idle_us", "busy1_us", "busy2_us" };

static void print_text(struct bench *b)
{
        blkup_bench_print_machine(&b->machine);
        printf("%u rounds of 4096 to 1024, read 1 KiB, to 4096, read 4 KiB (fast rows: %d each); µs, least "
               "and median\n\n",
               b->o->rounds, FAST_REPEATS);
        printf("%-11s %-10s %8s %23s %23s %23s\n", "", "barrier", "a write", load_names[0], load_names[1],
               load_names[2]);
        for (size_t i = 0; i <= N_KINDS; i++) {
                struct row *row = &b->rows[i];

                printf("%-11s %-10s", row->name, row->policy);
                if (row->refused[0]) {
                        printf(" left out: %s\n", row->refused);
                        continue;
                }
                if (row->kind)
                        printf(" %8.2f", barriers_per_write(row));
                else
                        printf(" %8s", "-");
                for (size_t load = 0; load < N_LOADS; load++)
                        if (row->us[load].n == 0)
                                printf(" %23s", "-");
                        else
                                printf(" %11.2f %11.2f", blkup_bench_quantile(&row->us[load], 0),
                                       blkup_bench_quantile(&row->us[load], 0.5));
                printf("\n");
        }
        printf("\n");
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(ratios); i++)
                if (isfinite(ratio(b, i)))
                        printf("%-18s %10.2f  (idle, %s)\n", ratios[i].name, ratio(b, i),
                               ratios[i].by_median ? "medians" : "least");
}

static int print_json(struct bench *b)
{
        struct blkup_json j;

        blkup_json_init(&j, blkup_cli_file_sink, stdout, true);
        blkup_json_begin_object(&j);
        blkup_bench_json_machine(&j, &b->machine);
        blkup_json_key(&j, "rounds");
        blkup_json_u64(&j, b->o->rounds);
        blkup_json_key(&j, "rows");
        blkup_json_begin_array(&j);
        for (size_t i = 0; i <= N_KINDS; i++) {
                struct row *row = &b->rows[i];

                blkup_json_begin_object(&j);
                blkup_json_key(&j, "name");
                blkup_json_string(&j, row->name);
                blkup_json_key(&j, "policy");
                blkup_json_string(&j, row->policy);
                if (row->refused[0]) {
                        blkup_json_key(&j, "refused");
                        blkup_json_string(&j, row->refused);
                } else {
                        blkup_json_key(&j, "barriers_per_write");
                        blkup_json_double(&j, barriers_per_write(row), 3);
                        for (size_t load = 0; load < N_LOADS; load++)
                                blkup_bench_json_min_median(&j, load_names[load], &row->us[load]);
                }
                blkup_json_end_object(&j);
        }
        blkup_json_end_array(&j);
        blkup_json_key(&j, "ratios");
        blkup_json_begin_object(&j);
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(ratios); i++)
                if (isfinite(ratio(b, i))) {
                        blkup_json_key(&j, ratios[i].name);
                        blkup_json_double(&j, ratio(b, i), 3);
                }
        blkup_json_end_object(&j);
        blkup_json_end_object(&j);
        blkup_json_newline(&j);
        return blkup_json_finish(&j);
}

int blkup_bench_blocksize(const struct blkup_bench_options *o)
{
        struct bench b = { .o = o, .loop_fd = -1 };
        int r, code = 1;

        b.device = calloc(1, DEVICE_BYTES);
        if (!b.device) {
                blkup_cli_error("bench", "no memory for the device");
                return 1;
        }
        blkup_bench_ask_machine(&b.machine);
        prepare(&b);
        r = measure(&b);
        if (r < 0) {
                blkup_cli_error("bench", "%s", strerror(-r));
        } else if (o->json) {
                code = print_json(&b) < 0;
        } else {
                print_text(&b);
                code = 0;
        }
        for (size_t i = 0; i <= N_KINDS; i++) {
                b.rows[i].g = blkup_geometry_unref(b.rows[i].g);
                for (size_t load = 0; load < N_LOADS; load++)
                        blkup_bench_free(&b.rows[i].us[load]);
        }
        (void) blkup_close(b.loop_fd); /* LO_FLAGS_AUTOCLEAR: this detaches it */
        free(b.device);
        return code;
}
