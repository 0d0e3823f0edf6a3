/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "block/file.h"
#include "count-calls.h"

enum { SIZE = 300 * 1024 + 123, MANY = 150 };

static char dir[] = "/tmp/blkup-test-uring-XXXXXX";
static char image[64], log_path[64];
static uint8_t bytes[SIZE];
static uint8_t got[MANY][8192] __attribute__((aligned(4096)));

/* What each request must be answered with is known without reading: from `bytes`. */
static void check(const struct blkup_block_request *r)
{
        uint64_t left = r->at < SIZE ? SIZE - r->at : 0;
        uint64_t want = r->len < left ? r->len : left;

        assert_int_equal(r->done_bytes, want);
        assert_memory_equal(r->to, bytes + (want ? r->at : 0), want);
}

static void random_batches(struct blkup_block *b, bool is_aligned, int seed)
{
        struct blkup_block_request r[MANY];

        srand((unsigned) seed);
        for (int round = 0; round < 30; round++) {
                size_t n = 1 + (size_t) rand() % MANY;

                for (size_t i = 0; i < n; i++) {
                        r[i] = (struct blkup_block_request) {
                                .at = (uint64_t) rand() % (SIZE + 3000),
                                .len = 1 + (uint64_t) rand() % 8000,
                                .to = got[i],
                        };
                        if (is_aligned) {
                                r[i].at &= ~UINT64_C(511);
                                r[i].len = (r[i].len + 511) & ~(size_t) 511;
                        }
                }
                memset(got, 0xee, sizeof(got));
                assert_true(blkup_block_read(b, r, n) >= 0);
                for (size_t i = 0; i < n; i++)
                        check(&r[i]);
        }
}

/* A tmpfs or an overlay has no device: no ring is used there (see file.h). */
static bool is_image_on_a_device(void)
{
        struct stat st;

        return stat(image, &st) == 0 && major(st.st_dev) != 0;
}

#define SKIP_WITHOUT_DEVICE()                                                        \
        do {                                                                         \
                if (!is_image_on_a_device()) {                                       \
                        print_message("the file system of /tmp has no device\n"); \
                        skip();                                                      \
                }                                                                    \
        } while (0)

/* Nothing of the image is in memory: what is, is had without the ring. */
static void forget_image(void)
{
        int fd = open(image, O_RDONLY | O_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(fsync(fd), 0);
        assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
        assert_int_equal(close(fd), 0);
}

static void the_same_bytes_as_pread(void **state)
{
        BLKUP_CLEANUP_URING struct blkup_uring *u = blkup_uring_new(0);
        static const enum blkup_direct directs[] = { BLKUP_DIRECT_NEVER, BLKUP_DIRECT_ALWAYS };

        (void) state;
        for (int ring = 0; ring < 2; ring++) {
                for (int d = 0; d < 2; d++) {
                        struct blkup_block_open o = { .direct = directs[d], .uring = ring ? u : NULL };
                        struct blkup_block *b = NULL;

                        assert_int_equal(blkup_block_open(image, &o, &b, NULL), 0);
                        random_batches(b, false, 100 + d);
                        random_batches(b, true, 200 + d);
                        b = blkup_block_close(b);
                }
        }
}

/* A ring of four takes a long batch in parts, and goes around many times. */
static void a_batch_longer_than_the_ring_is_split(void **state)
{
        BLKUP_CLEANUP_URING struct blkup_uring *u = blkup_uring_new(4);
        struct blkup_block_request r[10];
        int fd = open(image, O_RDONLY | O_CLOEXEC);

        (void) state;
        for (int round = 0; round < 100; round++) {
                for (size_t i = 0; i < 10; i++)
                        r[i] = (struct blkup_block_request){ .at = i * 700 + (unsigned) round,
                                                             .len = 600,
                                                             .to = got[i] };
                assert_int_equal(blkup_uring_read(u, fd, r, 10), 3);
                for (size_t i = 0; i < 10; i++) {
                        check(&r[i]);
                        assert_true(r[i].ns > 0);
                }
        }
        assert_int_equal(close(fd), 0);
}

static void each_request_has_its_own_answer(void **state)
{
        BLKUP_CLEANUP_URING struct blkup_uring *u = blkup_uring_new(0);
        struct blkup_block_request r[] = {
                { .at = 0, .len = 512, .to = got[0] },
                { .at = 512, .len = 512, .to = NULL }, /* EFAULT */
                { .at = SIZE - 5, .len = 512, .to = got[2] },
                { .at = SIZE + 5, .len = 512, .to = got[3] },
        };
        int fd = open(image, O_RDONLY | O_CLOEXEC);

        (void) state;
        assert_int_equal(blkup_uring_read(u, fd, r, 4), 1);
        assert_int_equal(r[0].done_bytes, 512);
        assert_int_equal(r[1].done_bytes, -EFAULT);
        assert_int_equal(r[2].done_bytes, 5);
        assert_int_equal(r[3].done_bytes, 0);
        assert_int_equal(close(fd), 0);
        assert_int_equal(blkup_uring_read(u, fd, r, 1), 1);
        assert_int_equal(r[0].done_bytes, -EBADF);
}

static void one_batch_is_one_submission(void **state)
{
        BLKUP_CLEANUP_URING struct blkup_uring *u = blkup_uring_new(0);
        struct blkup_block_open o = { .uring = u };
        struct blkup_block *b = NULL;
        struct blkup_block_request r[18];

        (void) state;
        SKIP_WITHOUT_DEVICE();
        for (int again = 0; again < 3; again++) {
                forget_image();
                assert_int_equal(blkup_block_open(image, &o, &b, NULL), 0);
                assert_true(b->one_submission);
                for (size_t i = 0; i < 18; i++)
                        r[i] = (struct blkup_block_request) { .at = i * 16384, .len = 512, .to = got[i] };
                assert_int_equal(blkup_block_read(b, r, 18), 1);
                for (size_t i = 0; i < 18; i++)
                        check(&r[i]);
                b = blkup_block_close(b);
        }
}

/* The next ones go on by pread. */
static void a_refused_ring_is_done_without(void **state)
{
        BLKUP_CLEANUP_URING struct blkup_uring *u = blkup_uring_new(0);
        struct blkup_block_open o = { .uring = u };
        struct blkup_block *b = NULL;

        (void) state;
        SKIP_WITHOUT_DEVICE();
        assert_int_equal(blkup_block_open(image, &o, &b, NULL), 0);
        assert_true(b->one_submission);
        blkup_uring_refuse(u);
        assert_false(blkup_uring_is_usable(u));
        random_batches(b, false, 5);
        assert_false(b->one_submission);
        b = blkup_block_close(b);
        assert_int_equal(blkup_block_open(image, &o, &b, NULL), 0);
        assert_false(b->one_submission);
        random_batches(b, false, 6);
        b = blkup_block_close(b);
}

/* From here on, this process' system call `nr` fails with `code`: always, or (argument not 0) when its
 * second argument is that. The low word of it, on a little-endian machine. */
static bool forbid(long nr, int code, uint32_t argument)
{
        struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t) nr, 0, 3),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, argument, 0, argument ? 1 : 0),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t) code),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { .len = BLKUP_ARRAY_SIZE(filter), .filter = filter };

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
               prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int right_answers_where_forbidden(long nr, int code, bool is_set_up_before)
{
        struct blkup_uring *u = blkup_uring_new(0);
        struct blkup_block_open o = { .uring = u };
        struct blkup_block *b = NULL;
        struct blkup_block_request r[18];
        int result = 0;

        if (is_set_up_before && !blkup_uring_is_usable(u))
                return 2;
        forget_image();
        if (!forbid(nr, code, 0))
                return 77;
        if (blkup_block_open(image, &o, &b, NULL) < 0 || b->one_submission != is_set_up_before)
                return 3;
        for (size_t i = 0; i < 18; i++)
                r[i] = (struct blkup_block_request) { .at = i * 17000 + 1, .len = 512, .to = got[i] };
        if (blkup_block_read(b, r, 18) != 18 || b->one_submission)
                result = 4;
        for (size_t i = 0; i < 18 && result == 0; i++)
                if (r[i].done_bytes != 512 || memcmp(got[i], bytes + i * 17000 + 1, 512) != 0)
                        result = 5;
        b = blkup_block_close(b);
        u = blkup_uring_unref(u);
        return result;
}

static void a_forbidden_ring_is_done_without(void **state)
{
        static const struct {
                long nr;
                int code;
                bool is_set_up_before;
        } cases[] = {
                { SYS_io_uring_setup, ENOSYS, false }, /* older kernels */
                { SYS_io_uring_setup, EPERM, false },  /* containers; kernel.io_uring_disabled */
                { SYS_io_uring_setup, ENOMEM, false }, /* RLIMIT_MEMLOCK before 5.12 */
                { SYS_io_uring_enter, EPERM, true },   /* a filter that came after the set-up */
                { SYS_io_uring_enter, EAGAIN, true },
        };

        (void) state;
        SKIP_WITHOUT_DEVICE();
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(cases); i++) {
                pid_t pid = fork();
                int status = -1;

                assert_true(pid >= 0);
                if (pid == 0)
                        _exit(right_answers_where_forbidden(cases[i].nr, cases[i].code,
                                                            cases[i].is_set_up_before));
                assert_int_equal(waitpid(pid, &status, 0), pid);
                assert_true(WIFEXITED(status));
                if (WEXITSTATUS(status) == 77) {
                        print_message("no seccomp filters here\n");
                        skip();
                }
                assert_int_equal(WEXITSTATUS(status), 0);
        }
}

static int right_answers_after_a_refusal(void)
{
        struct blkup_uring *u = blkup_uring_new(0);
        struct blkup_block_request r[18];
        int fd = open(image, O_RDONLY | O_CLOEXEC), result = 0;

        if (!blkup_uring_is_usable(u) || fd < 0)
                return 2;
        if (!forbid(SYS_io_uring_enter, EAGAIN, 18))
                return 77;
        for (size_t n = 18; n >= 17; n--) {
                for (size_t i = 0; i < n; i++)
                        r[i] = (struct blkup_block_request) { .at = i * 1000 + n, .len = 100, .to = got[i] };
                if (blkup_uring_read(u, fd, r, n) != (n == 17))
                        result = 3;
                for (size_t i = 0; i < n; i++)
                        if (r[i].done_bytes != (n == 17 ? 100 : -EAGAIN) ||
                            (n == 17 && memcmp(got[i], bytes + i * 1000 + n, 100) != 0))
                                result = 4;
        }
        u = blkup_uring_unref(u);
        return result;
}

/* What was not taken must not be read with the next batch. */
static void a_refusal_leaves_nothing_behind(void **state)
{
        pid_t pid = fork();
        int status = -1;

        (void) state;
        assert_true(pid >= 0);
        if (pid == 0)
                _exit(right_answers_after_a_refusal());
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77) {
                print_message("no seccomp filters here\n");
                skip();
        }
        assert_int_equal(WEXITSTATUS(status), 0);
}

static void on_alarm(int nr)
{
        (void) nr;
}

/* Signals end the wait: no request may be lost, or still be in flight. */
static void signals_do_not_end_a_batch(void **state)
{
        BLKUP_CLEANUP_URING struct blkup_uring *u = blkup_uring_new(0);
        struct blkup_block_open o = { .uring = u, .direct = BLKUP_DIRECT_ALWAYS };
        struct sigaction action = { .sa_handler = on_alarm }, before;
        struct itimerval timer = { .it_interval = { .tv_usec = 50 }, .it_value = { .tv_usec = 50 } },
                         off = {};
        struct blkup_block *b = NULL;

        (void) state;
        assert_int_equal(blkup_block_open(image, &o, &b, NULL), 0);
        assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
        assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
        random_batches(b, true, 11);
        assert_int_equal(setitimer(ITIMER_REAL, &off, NULL), 0);
        assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
        b = blkup_block_close(b);
}

/* Two batches of nine, as a plan and its second round. */
static int probe_like(const char *path)
{
        BLKUP_CLEANUP_URING struct blkup_uring *u = blkup_uring_new(0);
        struct blkup_block_open o = { .uring = u };
        struct blkup_block *b = NULL;
        struct blkup_block_request r[18];

        if (!blkup_uring_is_usable(u) || blkup_block_open(path, &o, &b, NULL) < 0)
                return 1;
        for (size_t i = 0; i < 18; i++)
                r[i] = (struct blkup_block_request) { .at = i * 16384, .len = 512, .to = got[i] };
        if (blkup_block_read(b, r, 9) < 0 || blkup_block_read(b, r + 9, 9) < 0)
                return 1;
        b = blkup_block_close(b);
        return 0;
}

static void a_cached_file_costs_its_reads_and_three_calls(void **state)
{
        int calls;

        (void) state;
        SKIP_WITHOUT_DEVICE();
        calls = count_calls("probe-like", image, log_path);
        if (calls < 0) {
                print_message("no strace here, or it may not trace\n");
                skip();
        }
        /* open, fstat, close */
        assert_int_equal(calls, 3 + 18);
}

static int make_image(void **state)
{
        FILE *f;

        (void) state;
        if (!mkdtemp(dir))
                return -1;
        (void) snprintf(image, sizeof(image), "%s/image", dir);
        (void) snprintf(log_path, sizeof(log_path), "%s/log", dir);
        srand(1);
        for (size_t i = 0; i < SIZE; i++)
                bytes[i] = (uint8_t) rand();
        f = fopen(image, "we");
        return f && fwrite(bytes, 1, SIZE, f) == SIZE && fclose(f) == 0 ? 0 : -1;
}

static int remove_image(void **state)
{
        char command[128];

        (void) state;
        (void) snprintf(command, sizeof(command), "rm -rf '%s'", dir);
        return system(command);
}

int main(int argc, char **argv)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_same_bytes_as_pread),
                cmocka_unit_test(a_batch_longer_than_the_ring_is_split),
                cmocka_unit_test(each_request_has_its_own_answer),
                cmocka_unit_test(one_batch_is_one_submission),
                cmocka_unit_test(a_refused_ring_is_done_without),
                cmocka_unit_test(a_forbidden_ring_is_done_without),
                cmocka_unit_test(a_refusal_leaves_nothing_behind),
                cmocka_unit_test(signals_do_not_end_a_batch),
                cmocka_unit_test(a_cached_file_costs_its_reads_and_three_calls),
        };
        struct blkup_uring *u;

        if (argc == 3 && strcmp(argv[1], "probe-like") == 0)
                return probe_like(argv[2]);
        u = blkup_uring_new(0);
        if (!blkup_uring_is_usable(u)) {
                (void) printf("skipped: io_uring is not to be had here\n");
                (void) blkup_uring_unref(u);
                return 77;
        }
        (void) blkup_uring_unref(u);
        return cmocka_run_group_tests(tests, make_image, remove_image);
}
