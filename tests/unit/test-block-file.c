/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/checked.h"
#include "block/facts.h"
#include "block/file.h"
#include "count-calls.h"
#include "fail-alloc.h"

static char dir[] = "/tmp/blkup-test-block-XXXXXX";

static const char *path_of(const char *name)
{
        static char path[256];

        (void) snprintf(path, sizeof(path), "%s/%s", dir, name);
        return path;
}

static void make_file(const char *name, const void *bytes, size_t n)
{
        int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, bytes, n), n);
        assert_int_equal(close(fd), 0);
}

static void a_file_is_read_as_it_is(void **state)
{
        uint8_t bytes[3000], got[4][512];
        struct blkup_block *b = NULL;
        struct blkup_error err;
        struct blkup_block_request r[] = {
                { .at = 0, .len = 512, .to = got[0] },
                { .at = 2900, .len = 512, .to = got[1] },
                { .at = 77, .len = 100, .to = got[2] },
                { .at = 3000, .len = 1, .to = got[3] },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (uint8_t) (i * 7 + i / 256);
        make_file("plain", bytes, sizeof(bytes));
        assert_int_equal(blkup_block_open(path_of("plain"), NULL, &b, &err), 0);
        assert_int_equal(b->info.kind, BLKUP_BLOCK_FILE);
        assert_int_equal(b->info.size_bytes, 3000);
        assert_int_equal(b->info.logical_sector_bytes, 512);
        assert_int_equal(blkup_block_read(b, r, 4), 3);
        assert_int_equal(r[0].done_bytes, 512);
        assert_memory_equal(got[0], bytes, 512);
        assert_int_equal(r[1].done_bytes, 100);
        assert_memory_equal(got[1], bytes + 2900, 100);
        assert_int_equal(r[2].done_bytes, 100);
        assert_memory_equal(got[2], bytes + 77, 100);
        assert_int_equal(r[3].done_bytes, 0);
        b = blkup_block_close(b);
}

/* The end that fstat told may be gone when it is read. */
static void a_file_cut_meanwhile_reads_short(void **state)
{
        uint8_t bytes[3000] = { 1 }, got[2048];
        struct blkup_block *b = NULL;
        struct blkup_block_request r = { .at = 0, .len = 2048, .to = got };

        (void) state;
        make_file("cut", bytes, sizeof(bytes));
        assert_int_equal(blkup_block_open(path_of("cut"), NULL, &b, NULL), 0);
        assert_int_equal(truncate(path_of("cut"), 1000), 0);
        assert_true(blkup_block_read(b, &r, 1) >= 1);
        assert_int_equal(r.done_bytes, 1000);
        b = blkup_block_close(b);
}

static void what_is_no_device_is_refused(void **state)
{
        struct blkup_block *b = NULL;
        struct blkup_error err;

        (void) state;
        assert_int_equal(blkup_block_open(path_of("missing"), NULL, &b, &err), -ENOENT);
        assert_non_null(strstr(err.message, "missing"));
        assert_int_equal(blkup_block_open(dir, NULL, &b, &err), -EISDIR);
        assert_int_equal(blkup_block_open("/dev/null", NULL, &b, &err), -ENOTBLK);
        assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
        assert_int_equal(blkup_block_open(path_of("fifo"), NULL, &b, &err), -ENOTBLK);
        assert_null(b);
}

static void a_descriptor_changes_hands_only_on_success(void **state)
{
        struct blkup_block *b = NULL;
        int fd;

        (void) state;
        make_file("fd", "x", 1);
        fd = open(path_of("fd"), O_RDONLY | O_CLOEXEC);
        assert_int_equal(blkup_block_open_fd(fd, "fd", NULL, &b, NULL), 0);
        b = blkup_block_close(b);
        assert_int_equal(fcntl(fd, F_GETFD), -1);
        fd = open(dir, O_RDONLY | O_CLOEXEC);
        assert_int_equal(blkup_block_open_fd(fd, "dir", NULL, &b, NULL), -EISDIR);
        assert_true(fcntl(fd, F_GETFD) >= 0);
        assert_int_equal(close(fd), 0);
}

/* A character device is taken for a UBI volume by where its sysfs link leads: /dev/null stands for one. */
static void ubi_is_known_by_sysfs(void **state)
{
        struct blkup_block_open o = { .sysfs = dir };
        struct blkup_block *b = NULL;
        struct stat st;
        char path[512];

        (void) state;
        assert_int_equal(stat("/dev/null", &st), 0);
        (void) snprintf(path, sizeof(path), "%s/dev/char", dir);
        assert_int_equal(mkdir(path_of("dev"), 0700), 0);
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(mkdir(path_of("ubi0_1"), 0700), 0);
        (void) snprintf(path, sizeof(path), "%s/dev/char/%u:%u", dir, major(st.st_rdev), minor(st.st_rdev));
        assert_int_equal(symlink("../../ubi0_1", path), 0);
        assert_int_equal(blkup_block_open("/dev/null", &o, &b, NULL), 0);
        assert_int_equal(b->info.kind, BLKUP_BLOCK_CHAR);
        assert_int_equal(b->info.size_bytes, 1);
        b = blkup_block_close(b);
        make_file("ubi0_1/data_bytes", "1032192\n", 8);
        assert_int_equal(blkup_block_open("/dev/null", &o, &b, NULL), 0);
        assert_int_equal(b->info.size_bytes, 1032192);
        b = blkup_block_close(b);

        assert_int_equal(unlink(path), 0);
        assert_int_equal(symlink("../../ubi_ctrl", path), 0);
        assert_int_equal(blkup_block_open("/dev/null", &o, &b, NULL), -ENOTBLK);
}

static void private_layers_are_known_by_their_uuid(void **state)
{
#define VG "0123456789abcdef0123456789abcdef"
#define LV "fedcba9876543210fedcba9876543210"
        (void) state;
        assert_false(blkup_block_is_private_dm(""));
        assert_false(blkup_block_is_private_dm("LVM-" VG LV));
        assert_false(blkup_block_is_private_dm("LVM-" VG LV "-"));
        assert_true(blkup_block_is_private_dm("LVM-" VG LV "-cow"));
        assert_true(blkup_block_is_private_dm("LVM-" VG LV "-tpool"));
        assert_false(blkup_block_is_private_dm("CRYPT-LUKS2-" VG "-root"));
        assert_true(blkup_block_is_private_dm("CRYPT-TEMP-temporary-cryptsetup-77"));
        assert_false(blkup_block_is_private_dm("mpath-3600508b400105e210000900000490000"));
        assert_true(blkup_block_is_private_dm("stratis-1-private-" VG "-flex-mdv"));
        assert_false(blkup_block_is_private_dm("stratis-1-" VG "-thin-fs-" LV));
}

static void no_memory_closes_what_was_opened(void **state)
{
        struct blkup_block *b = NULL;
        struct blkup_error err;
        int before, after;

        (void) state;
        make_file("memory", "x", 1);
        before = dup(2);
        fail_alloc_arm(0, true);
        assert_int_equal(blkup_block_open(path_of("memory"), NULL, &b, &err), -ENOMEM);
        assert_int_equal(fail_alloc_disarm(), 1);
        assert_null(b);
        after = dup(2);
        assert_int_equal(after, before + 1);
        assert_int_equal(close(before), 0);
        assert_int_equal(close(after), 0);
}

/* A file of the kernel's has no direct reads: it is read all the same, and the handle says how. */
static void refused_direct_reads_are_buffered(void **state)
{
        struct blkup_block_open o = { .direct = BLKUP_DIRECT_ALWAYS };
        struct blkup_block *b = NULL;
        char got[64] = "";
        struct blkup_block_request r = { .at = 0, .len = sizeof(got), .to = got };

        (void) state;
        if (access("/sys/kernel/uevent_seqnum", R_OK) != 0) {
                print_message("no sysfs here\n");
                skip();
        }
        assert_int_equal(blkup_block_open("/sys/kernel/uevent_seqnum", &o, &b, NULL), 0);
        assert_false(b->info.direct);
        assert_int_equal(b->align_bytes, 1);
        assert_true(blkup_block_read(b, &r, 1) >= 1);
        assert_true(r.done_bytes > 0);
        assert_true(got[0] >= '0' && got[0] <= '9');
        assert_int_equal(blkup_block_set_direct(b, true), -EOPNOTSUPP);
        assert_int_equal(blkup_block_set_direct(b, false), 0);
        b = blkup_block_close(b);
}

/* A descriptor may come with O_DIRECT set; a buffered handle does not keep it. */
static void a_direct_descriptor_becomes_buffered(void **state)
{
        uint8_t bytes[5000], got[100];
        struct blkup_block_request r = { .at = 4321, .len = 100, .to = got };
        struct blkup_block *b = NULL;
        int fd;

        (void) state;
        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (uint8_t) (i * 3);
        make_file("direct", bytes, sizeof(bytes));
        fd = open(path_of("direct"), O_RDONLY | O_CLOEXEC | O_DIRECT);
        if (fd < 0) {
                print_message("no direct reads on the file system of /tmp\n");
                skip();
        }
        assert_int_equal(blkup_block_open_fd(fd, "direct", NULL, &b, NULL), 0);
        assert_int_equal(blkup_block_read(b, &r, 1), 1);
        assert_int_equal(r.done_bytes, 100);
        assert_memory_equal(got, bytes + 4321, 100);
        b = blkup_block_close(b);
}

/* Pieces of data in a file that is hole otherwise: each read is answered as pread has it, whatever was asked
 * before. */
static void holes_read_as_zeroes(void **state)
{
        static const struct {
                uint64_t at;
                size_t len;
        } pieces[] = { { 4096, 4096 }, { 65536, 12288 }, { 1 << 20, 1 }, { (3 << 20) - 100, 100 } };
        static uint8_t bytes[12288], got[64][3000], want[3000];
        struct blkup_block_request r[64];
        struct blkup_block *b = NULL;
        struct stat st;
        int fd = open(path_of("sparse"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);

        (void) state;
        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, (4 << 20) + 77), 0);
        memset(bytes, 0xa5, sizeof(bytes));
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(pieces); i++)
                assert_int_equal(pwrite(fd, bytes, pieces[i].len, (off_t) pieces[i].at), pieces[i].len);
        assert_int_equal(fstat(fd, &st), 0);
        /* Some file systems have no holes; the answers must be right there too. */
        if (st.st_blocks * 512 >= st.st_size)
                print_message("the file system of /tmp wrote the holes\n");
        srand(7);
        for (int round = 0; round < 200; round++) {
                size_t n = 1 + (size_t) rand() % 64;

                assert_int_equal(blkup_block_open(path_of("sparse"), NULL, &b, NULL), 0);
                for (size_t i = 0; i < n; i++) {
                        uint64_t near = pieces[(unsigned) rand() % 4].at + 12288;
                        uint64_t at = rand() % 3 ? near - blkup_min(near, (uint64_t) rand() % 20000)
                                                 : (uint64_t) rand() % ((4 << 20) + 1000);

                        r[i] = (struct blkup_block_request){ .at = at,
                                                             .len = 1 + (size_t) rand() % 3000,
                                                             .to = got[i] };
                }
                memset(got, 0xee, sizeof(got));
                assert_true(blkup_block_read(b, r, n) >= 0);
                for (size_t i = 0; i < n; i++) {
                        ssize_t k = pread(fd, want, r[i].len, (off_t) r[i].at);

                        assert_int_equal(r[i].done_bytes, k);
                        assert_memory_equal(r[i].to, want, (size_t) k);
                }
                b = blkup_block_close(b);
        }
        /* What is cut off meanwhile is short, and not zero. */
        assert_int_equal(blkup_block_open(path_of("sparse"), NULL, &b, NULL), 0);
        r[0] = (struct blkup_block_request){ .at = (3 << 20) + 4096, .len = 512, .to = got[0] };
        r[1] = (struct blkup_block_request){ .at = (4 << 20) - 512, .len = 1024, .to = got[1] };
        assert_true(blkup_block_read(b, r, 2) >= 0);
        assert_int_equal(r[0].done_bytes, 512);
        assert_int_equal(r[1].done_bytes, 512 + 77);
        b = blkup_block_close(b);
        assert_int_equal(blkup_block_open(path_of("sparse"), NULL, &b, NULL), 0);
        assert_int_equal(ftruncate(fd, (3 << 20) + 4096 + 100), 0);
        assert_true(blkup_block_read(b, r, 2) >= 0);
        assert_int_equal(r[0].done_bytes, 100);
        assert_int_equal(r[1].done_bytes, 0);
        b = blkup_block_close(b);
        /* What is written meanwhile is data, though the question was put before. */
        assert_int_equal(blkup_block_open(path_of("sparse"), NULL, &b, NULL), 0);
        r[0] = (struct blkup_block_request){ .at = 2 << 20, .len = 512, .to = got[0] };
        assert_int_equal(pwrite(fd, bytes, 512, 2 << 20), 512);
        assert_true(blkup_block_read(b, r, 1) >= 0);
        assert_memory_equal(got[0], bytes, 512);
        b = blkup_block_close(b);
        assert_int_equal(close(fd), 0);
}

/* A hole costs a question instead of its reads. */
static int probe_sparse(const char *path)
{
        struct blkup_block *b = NULL;
        uint8_t got[10 * 512];
        struct blkup_block_request r[10];

        if (blkup_block_open(path, NULL, &b, NULL) < 0)
                return 1;
        for (size_t i = 0; i < 10; i++)
                r[i] = (struct blkup_block_request){ .at = 8192 + i * 4096, .len = 512, .to = got + i * 512 };
        if (blkup_block_read(b, r, 10) < 0)
                return 1;
        b = blkup_block_close(b);
        return 0;
}

static void ten_reads_of_a_hole_are_one_call(void **state)
{
        char path[256], log[256];
        struct stat st;
        int calls;

        (void) state;
        (void) snprintf(path, sizeof(path), "%s", path_of("sparse"));
        (void) snprintf(log, sizeof(log), "%s", path_of("log"));
        assert_int_equal(stat(path, &st), 0);
        calls = st.st_blocks * 512 < st.st_size ? count_calls("probe-sparse", path, log) : -1;
        if (calls < 0) {
                print_message("no holes here, or no strace, or it may not trace\n");
                skip();
        }
        /* open, fstat, fstatfs, lseek, close (data is behind the hole); where the file system's word is not
         * taken, no lseek but ten reads */
        if (calls != 4 + 10)
                assert_int_equal(calls, 5);
}

static int probe_like(const char *path)
{
        struct blkup_block *b = NULL;
        uint8_t got[4096];
        struct blkup_block_request r[5];

        if (blkup_block_open(path, NULL, &b, NULL) < 0)
                return 1;
        for (size_t i = 0; i < 5; i++)
                r[i] = (struct blkup_block_request) { .at = i * 1024, .len = 512, .to = got + i * 512 };
        if (blkup_block_read(b, r, 5) != 5)
                return 1;
        b = blkup_block_close(b);
        return 0;
}

static void a_file_costs_its_reads_and_three_calls(void **state)
{
        uint8_t bytes[4608] = {}; /* the last of the five reads ends with the file: no call finds that out */
        char path[256], log[256];
        int calls;

        (void) state;
        make_file("calls", bytes, sizeof(bytes));
        (void) snprintf(path, sizeof(path), "%s", path_of("calls"));
        (void) snprintf(log, sizeof(log), "%s", path_of("log"));
        calls = count_calls("probe-like", path, log);
        if (calls < 0) {
                print_message("no strace here, or it may not trace\n");
                skip();
        }
        assert_int_equal(calls, 3 + 5);
}

static int make_dir(void **state)
{
        (void) state;
        return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
        char command[128];

        (void) state;
        (void) snprintf(command, sizeof(command), "rm -rf '%s'", dir);
        return system(command);
}

int main(int argc, char **argv)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_file_is_read_as_it_is),
                cmocka_unit_test(a_file_cut_meanwhile_reads_short),
                cmocka_unit_test(what_is_no_device_is_refused),
                cmocka_unit_test(a_descriptor_changes_hands_only_on_success),
                cmocka_unit_test(ubi_is_known_by_sysfs),
                cmocka_unit_test(private_layers_are_known_by_their_uuid),
                cmocka_unit_test(no_memory_closes_what_was_opened),
                cmocka_unit_test(refused_direct_reads_are_buffered),
                cmocka_unit_test(a_direct_descriptor_becomes_buffered),
                cmocka_unit_test(a_file_costs_its_reads_and_three_calls),
                cmocka_unit_test(holes_read_as_zeroes),
                cmocka_unit_test(ten_reads_of_a_hole_are_one_call),
        };

        if (argc == 3 && strcmp(argv[1], "probe-sparse") == 0)
                return probe_sparse(argv[2]);
        if (argc == 3 && strcmp(argv[1], "probe-like") == 0)
                return probe_like(argv[2]);

        return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
