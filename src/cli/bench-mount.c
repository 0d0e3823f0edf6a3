/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench mount: the line that the report of 2012 timed, `mount; sync; sync; umount`, step by step, with the
 * soft block size of the device before, during and after; and 2, 10 and 32 file systems, one after another
 * and by graph.
 *
 * Everything is in a mount namespace of its own, on ext4 images in a folder that is removed at the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <blkup/mount.h>

#include "base/clock.h"
#include "cli/bench.h"
#include "cli/output.h"

#define MAX_IMAGES 32
#define IMAGE_BYTES (16 << 20)

enum { STEP_MOUNT, STEP_SYNC, STEP_SYNC_AGAIN, STEP_UMOUNT, N_STEPS };
enum { SERIAL_MOUNT, SERIAL_UMOUNT, GRAPH_MOUNT, GRAPH_UMOUNT, N_WAYS };

static const char *const step_names[N_STEPS] = { "mount", "sync", "sync again", "umount" };
static const char *const way_names[N_WAYS] = { "mount, one by one", "umount, one by one", "mount, by graph",
                                               "umount, by graph" };
static const unsigned counts[] = { 2, 10, MAX_IMAGES };

/* What has to go again; shared with the child that sees to it, also when this program is killed. */
struct images {
        char dir[64];
        char devices[MAX_IMAGES][64];
        char targets[MAX_IMAGES][96];
        unsigned n;
};

struct bench {
        const struct blkup_bench_options *o;
        struct blkup_bench_machine machine;
        struct images *at;
        pid_t cleaner;  /* waits for the end of the pipe, then cleans up */
        int cleaner_fd; /* our end of it */
        struct blkup_bench_samples steps[N_STEPS];
        struct blkup_bench_samples ways[3][N_WAYS];
        int before, during, after; /* soft block sizes in the last round */
};

/* ---- images on loop devices ---- */

static int run_mkfs(const char *path)
{
        static const char *const places[] = { "/sbin/mkfs.ext4", "/usr/sbin/mkfs.ext4" };
        const char *argv[] = { "mkfs.ext4", "-q", "-F", path, NULL };
        char *environment[] = { NULL };
        int status = 0, r = -ENOENT;
        pid_t pid;

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(places) && r != 0; i++)
                r = -posix_spawn(&pid, places[i], NULL, NULL, (char *const *) argv, environment);
        if (r < 0)
                return r;
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

/* Takes a free loop device; another program may be faster, so more than once. */
static int attach(const char *path, char *ret, size_t cap)
{
        BLKUP_CLEANUP_CLOSE int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
        BLKUP_CLEANUP_CLOSE int file = open(path, O_RDWR | O_CLOEXEC);

        if (control < 0 || file < 0)
                return -errno;
        for (unsigned i = 0; i < 64; i++) {
                BLKUP_CLEANUP_CLOSE int fd = -1;
                int number = ioctl(control, LOOP_CTL_GET_FREE);

                if (number < 0)
                        return -errno;
                (void) snprintf(ret, cap, "/dev/loop%d", number);
                fd = open(ret, O_RDWR | O_CLOEXEC);
                if (fd >= 0 && ioctl(fd, LOOP_SET_FD, file) == 0)
                        return 0;
                if (errno != EBUSY && errno != ENOENT)
                        return -errno;
        }
        return -EBUSY;
}

static void detach(const char *device)
{
        int fd = open(device, O_RDONLY | O_CLOEXEC);

        if (fd >= 0)
                (void) ioctl(fd, LOOP_CLR_FD, 0);
        (void) blkup_close(fd);
}

static int make_one(struct bench *b, unsigned i)
{
        char path[96], target[96];
        int fd, r;

        (void) snprintf(path, sizeof(path), "%s/%u.img", b->at->dir, i);
        (void) snprintf(target, sizeof(target), "%s/%u", b->at->dir, i);
        memcpy(b->at->targets[i], target, sizeof(target));
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        r = ftruncate(fd, IMAGE_BYTES) < 0 || mkdir(b->at->targets[i], 0700) < 0 ? -errno : 0;
        (void) blkup_close(fd);
        if (r == 0)
                r = run_mkfs(path);
        if (r == 0)
                r = attach(path, b->at->devices[i], sizeof(b->at->devices[i]));
        if (r == 0)
                b->at->n = i + 1;
        return r;
}

static void remove_all(struct images *at)
{
        char path[96];

        for (unsigned i = 0; i < at->n; i++) {
                (void) umount2(at->targets[i], MNT_DETACH);
                detach(at->devices[i]);
        }
        for (unsigned i = 0; at->dir[0] && i < MAX_IMAGES; i++) {
                (void) snprintf(path, sizeof(path), "%s/%u.img", at->dir, i);
                (void) unlink(path);
                (void) snprintf(path, sizeof(path), "%s/%u", at->dir, i);
                (void) rmdir(path);
        }
        if (at->dir[0])
                (void) rmdir(at->dir);
}

/* A killed program cleans nothing up: a child of its own does, when the pipe from here has ended. */
static int start_cleaner(struct bench *b)
{
        int fds[2];
        char c;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        b->cleaner = fork();
        if (b->cleaner == 0) {
                (void) setsid(); /* what is typed at the terminal is not for it */
                (void) blkup_close(fds[1]);
                /* Ends: with the last byte there can be, which is none. */
                while (read(fds[0], &c, 1) < 0 && errno == EINTR)
                        ;
                remove_all(b->at);
                _exit(0);
        }
        (void) blkup_close(fds[0]);
        b->cleaner_fd = fds[1];
        return b->cleaner < 0 ? -errno : 0;
}

static int prepare(struct bench *b)
{
        int r = 0;

        b->at = mmap(NULL, sizeof(*b->at), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (b->at == MAP_FAILED) {
                b->at = NULL;
                return -errno;
        }
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return -errno;
        (void) snprintf(b->at->dir, sizeof(b->at->dir), "%s/blkup-bench-mount.XXXXXX",
                        access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        if (!mkdtemp(b->at->dir)) {
                b->at->dir[0] = '\0';
                return -errno;
        }
        r = start_cleaner(b);
        for (unsigned i = 0; r == 0 && i < MAX_IMAGES; i++)
                r = make_one(b, i);
        return r;
}

static void clean_up(struct bench *b)
{
        int status;

        b->cleaner_fd = blkup_close(b->cleaner_fd);
        if (b->cleaner > 0)
                while (waitpid(b->cleaner, &status, 0) < 0 && errno == EINTR)
                        ;
        else if (b->at)
                remove_all(b->at);
        if (b->at)
                (void) munmap(b->at, sizeof(*b->at));
}

/* ---- measuring ---- */

static int soft_block_size(const char *device)
{
        BLKUP_CLEANUP_CLOSE int fd = open(device, O_RDONLY | O_CLOEXEC);
        int bytes = -1;

        return fd >= 0 && ioctl(fd, BLKBSZGET, &bytes) == 0 ? bytes : -1;
}

static int mount_one(struct bench *b, unsigned i)
{
        static const struct blkup_mount_settings settings = { .ignore_hibernation = true };
        struct blkup_mount_request q = { .source = b->at->devices[i],
                                         .target = b->at->targets[i],
                                         .types = "ext4" };
        struct blkup_mounter *m;
        struct blkup_mount_result result;
        int r = blkup_mounter_new(&settings, &m);

        if (r < 0)
                return r;
        r = blkup_mount_one(m, &q, &result);
        blkup_mount_result_free(&result);
        blkup_mounter_unref(m);
        return r;
}

static int mount_by_graph(struct bench *b, unsigned n)
{
        static const struct blkup_mount_settings settings = { .ignore_hibernation = true };
        struct blkup_mount_request q[MAX_IMAGES];
        struct blkup_mount_result *results = calloc(n, sizeof(*results));
        struct blkup_mounter *m = NULL;
        int r = results ? blkup_mounter_new(&settings, &m) : -ENOMEM;

        for (unsigned i = 0; i < n; i++)
                q[i] = (struct blkup_mount_request){
                        .source = b->at->devices[i], .target = b->at->targets[i], .types = "ext4",
                };
        if (r == 0)
                r = blkup_mount_all(m, q, n, results, NULL);
        for (unsigned i = 0; results && i < n; i++) {
                if (r == 0 && results[i].outcome == BLKUP_MOUNT_FAILED)
                        r = results[i].error;
                blkup_mount_result_free(&results[i]);
        }
        blkup_mounter_unref(m);
        free(results);
        return r;
}

static int umount_by_graph(struct bench *b, unsigned n)
{
        static const struct blkup_mount_settings settings = { .workers = 0 };
        const char *names[MAX_IMAGES];
        struct blkup_mount_result *results = NULL;
        struct blkup_mounter *m;
        size_t n_results = 0;
        int r = blkup_mounter_new(&settings, &m);

        if (r < 0)
                return r;
        for (unsigned i = 0; i < n; i++)
                names[i] = b->at->targets[i];
        r = blkup_umount(m, names, n, NULL, 0, &results, &n_results, NULL);
        for (size_t i = 0; r == 0 && i < n_results; i++)
                if (results[i].outcome == BLKUP_MOUNT_FAILED)
                        r = results[i].error;
        blkup_umount_results_free(results, n_results);
        blkup_mounter_unref(m);
        return r;
}

static int add_ms(struct blkup_bench_samples *s, uint64_t from, uint64_t to)
{
        return blkup_bench_add(s, (double) (to - from) / 1e6);
}

/* The line of the report, on the first image. */
static int measure_line(struct bench *b)
{
        uint64_t at[N_STEPS + 1];
        int r;

        b->before = soft_block_size(b->at->devices[0]);
        at[STEP_MOUNT] = blkup_now_ns();
        r = mount_one(b, 0);
        if (r < 0)
                return r;
        at[STEP_SYNC] = blkup_now_ns();
        sync();
        at[STEP_SYNC_AGAIN] = blkup_now_ns();
        sync();
        at[STEP_UMOUNT] = blkup_now_ns();
        if (umount2(b->at->targets[0], 0) < 0)
                return -errno;
        at[N_STEPS] = blkup_now_ns();
        b->after = soft_block_size(b->at->devices[0]);
        /* asked in a mount of its own: opening the device takes time as well */
        r = mount_one(b, 0);
        b->during = soft_block_size(b->at->devices[0]);
        if (r == 0 && umount2(b->at->targets[0], 0) < 0)
                r = -errno;
        for (size_t i = 0; r == 0 && i < N_STEPS; i++)
                r = add_ms(&b->steps[i], at[i], at[i + 1]);
        return r;
}

static int measure_many(struct bench *b, size_t k)
{
        unsigned n = counts[k];
        uint64_t at[N_WAYS + 1];
        int r = 0;

        at[SERIAL_MOUNT] = blkup_now_ns();
        for (unsigned i = 0; r == 0 && i < n; i++)
                r = mount_one(b, i);
        at[SERIAL_UMOUNT] = blkup_now_ns();
        for (unsigned i = 0; r == 0 && i < n; i++)
                r = umount2(b->at->targets[i], 0) < 0 ? -errno : 0;
        at[GRAPH_MOUNT] = blkup_now_ns();
        if (r == 0)
                r = mount_by_graph(b, n);
        at[GRAPH_UMOUNT] = blkup_now_ns();
        if (r == 0)
                r = umount_by_graph(b, n);
        at[N_WAYS] = blkup_now_ns();
        for (size_t i = 0; r == 0 && i < N_WAYS; i++)
                r = add_ms(&b->ways[k][i], at[i], at[i + 1]);
        return r;
}

static int measure(struct bench *b)
{
        int r = 0;

        for (unsigned round = 0; r == 0 && round < b->o->rounds; round++) {
                r = measure_line(b);
                for (size_t k = 0; r == 0 && k < BLKUP_ARRAY_SIZE(counts); k++)
                        r = measure_many(b, k);
        }
        return r;
}

/* ---- printing ---- */

static void print_row(const char *name, struct blkup_bench_samples *s)
{
        printf("%-22s %9.3f %9.3f\n", name, blkup_bench_quantile(s, 0), blkup_bench_quantile(s, 0.5));
}

static void print_text(struct bench *b)
{
        blkup_bench_print_machine(&b->machine);
        printf("%u rounds on ext4 images of 16 MiB, in memory where that is to be had; ms, least and "
               "median\n\n",
               b->o->rounds);
        for (size_t i = 0; i < N_STEPS; i++)
                print_row(step_names[i], &b->steps[i]);
        printf("soft block size: %d before, %d during, %d after\n", b->before, b->during, b->after);
        for (size_t k = 0; k < BLKUP_ARRAY_SIZE(counts); k++) {
                printf("\n%u file systems\n", counts[k]);
                for (size_t i = 0; i < N_WAYS; i++)
                        print_row(way_names[i], &b->ways[k][i]);
        }
}

static int print_json(struct bench *b)
{
        struct blkup_json j;

        blkup_json_init(&j, blkup_cli_file_sink, stdout, true);
        blkup_json_begin_object(&j);
        blkup_bench_json_machine(&j, &b->machine);
        blkup_json_key(&j, "rounds");
        blkup_json_u64(&j, b->o->rounds);
        blkup_json_key(&j, "steps_ms");
        blkup_json_begin_object(&j);
        for (size_t i = 0; i < N_STEPS; i++)
                blkup_bench_json_min_median(&j, step_names[i], &b->steps[i]);
        blkup_json_end_object(&j);
        blkup_json_key(&j, "soft_block_bytes");
        blkup_json_begin_object(&j);
        blkup_json_key(&j, "before");
        blkup_json_i64(&j, b->before);
        blkup_json_key(&j, "during");
        blkup_json_i64(&j, b->during);
        blkup_json_key(&j, "after");
        blkup_json_i64(&j, b->after);
        blkup_json_end_object(&j);
        blkup_json_key(&j, "many_ms");
        blkup_json_begin_array(&j);
        for (size_t k = 0; k < BLKUP_ARRAY_SIZE(counts); k++) {
                blkup_json_begin_object(&j);
                blkup_json_key(&j, "file_systems");
                blkup_json_u64(&j, counts[k]);
                for (size_t i = 0; i < N_WAYS; i++)
                        blkup_bench_json_min_median(&j, way_names[i], &b->ways[k][i]);
                blkup_json_end_object(&j);
        }
        blkup_json_end_array(&j);
        blkup_json_end_object(&j);
        blkup_json_newline(&j);
        return blkup_json_finish(&j);
}

int blkup_bench_mount(const struct blkup_bench_options *o)
{
        struct bench b = { .o = o, .cleaner_fd = -1 };
        int r, code = 1;

        blkup_bench_ask_machine(&b.machine);
        r = prepare(&b);
        if (r == 0)
                r = measure(&b);
        clean_up(&b);
        if (r < 0) {
                blkup_cli_error("bench", "mount: %s%s", strerror(-r), blkup_cli_try_as_root(r));
        } else if (o->json) {
                code = print_json(&b) < 0;
        } else {
                print_text(&b);
                code = 0;
        }
        for (size_t i = 0; i < N_STEPS; i++)
                blkup_bench_free(&b.steps[i]);
        for (size_t k = 0; k < BLKUP_ARRAY_SIZE(counts); k++)
                for (size_t i = 0; i < N_WAYS; i++)
                        blkup_bench_free(&b.ways[k][i]);
        return code;
}
