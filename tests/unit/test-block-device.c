/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Real block devices: loop devices of 512 and of 4096 bytes a sector, which only root has. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

#include "block/file.h"
#include "count-calls.h"
#include "loop-device.h"

enum { TINY = 505 * 1024, LARGE = 3 << 20, MANY = 70 };

static char dir[] = "/tmp/blkup-test-device-XXXXXX";
static char log_path[64];
static uint8_t bytes[LARGE];
static uint8_t got[MANY][16384] __attribute__((aligned(4096)));

static const uint32_t sector_sizes[] = { 512, 4096 };

static struct loop_device attach(size_t size, uint32_t sector_bytes)
{
        struct loop_device d;
        char image[64];
        FILE *f;

        (void) snprintf(image, sizeof(image), "%s/image", dir);
        f = fopen(image, "we");
        assert_non_null(f);
        assert_int_equal(fwrite(bytes, 1, size, f), size);
        assert_int_equal(fclose(f), 0);
        assert_int_equal(loop_device_attach(image, sector_bytes, &d), 0);
        return d;
}

static struct blkup_block *open_device(const struct loop_device *d, enum blkup_direct direct,
                                       struct blkup_uring *u)
{
        struct blkup_block_open o = { .direct = direct, .uring = u };
        struct blkup_block *b = NULL;
        struct blkup_error err = {};

        if (blkup_block_open(d->path, &o, &b, &err) < 0)
                fail_msg("%s", err.message);
        return b;
}

static void facts_of_a_device(void **state)
{
        (void) state;
        for (size_t i = 0; i < 2; i++) {
                struct loop_device d = attach(LARGE, sector_sizes[i]);
                struct blkup_block *b = open_device(&d, BLKUP_DIRECT_AUTO, NULL);
                struct stat st;

                assert_int_equal(fstat(d.fd, &st), 0);
                assert_int_equal(b->info.kind, BLKUP_BLOCK_DISK);
                assert_int_equal(b->info.size_bytes, LARGE);
                assert_int_equal(b->info.logical_sector_bytes, sector_sizes[i]);
                assert_int_equal(b->info.major, major(st.st_rdev));
                assert_int_equal(b->info.minor, minor(st.st_rdev));
                assert_false(b->info.is_cdrom || b->info.is_floppy || b->info.is_dm || b->info.is_private_dm);
                assert_false(b->info.direct);
                assert_int_equal(b->align_bytes, 1);
                b = blkup_block_close(b);
                loop_device_detach(&d);
        }
}

static void write_text(const char *name, const char *text)
{
        char path[256];
        FILE *f;

        (void) snprintf(path, sizeof(path), "%s/%s", dir, name);
        f = fopen(path, "we");
        assert_non_null(f);
        assert_true(fputs(text, f) >= 0);
        assert_int_equal(fclose(f), 0);
}

static void make_dir(const char *name)
{
        char path[256];

        (void) snprintf(path, sizeof(path), "%s/%s", dir, name);
        assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
}

/* A loop device stands for a dm device and for a partition, by a sysfs of our own. */
static void sysfs_tells_partitions_and_layers(void **state)
{
        struct loop_device d = attach(LARGE, 512);
        struct blkup_block_open o = { .sysfs = dir };
        struct blkup_block *b = NULL;
        char name[64], sub[128];
        struct stat st;

        (void) state;
        assert_int_equal(fstat(d.fd, &st), 0);
        make_dir("dev");
        make_dir("dev/block");
        (void) snprintf(name, sizeof(name), "dev/block/%u:%u", major(st.st_rdev), minor(st.st_rdev));
        make_dir(name);
        (void) snprintf(sub, sizeof(sub), "%s/dm", name);
        make_dir(sub);
        (void) snprintf(sub, sizeof(sub), "%s/dm/uuid", name);

        write_text(sub, "CRYPT-LUKS2-00112233445566778899aabbccddeeff-root\n");
        assert_int_equal(blkup_block_open(d.path, &o, &b, NULL), 0);
        assert_int_equal(b->info.kind, BLKUP_BLOCK_DISK);
        assert_true(b->info.is_dm);
        assert_false(b->info.is_private_dm);
        b = blkup_block_close(b);

        write_text(sub, "CRYPT-TEMP-temporary-cryptsetup-1\n");
        assert_int_equal(blkup_block_open(d.path, &o, &b, NULL), 0);
        assert_true(b->info.is_dm && b->info.is_private_dm);
        b = blkup_block_close(b);

        (void) snprintf(sub, sizeof(sub), "%s/partition", name);
        write_text(sub, "2\n");
        assert_int_equal(blkup_block_open(d.path, &o, &b, NULL), 0);
        assert_int_equal(b->info.kind, BLKUP_BLOCK_PARTITION);
        assert_false(b->info.is_dm);
        b = blkup_block_close(b);
        loop_device_detach(&d);
}

/* Whose disk is known by its sequence number is not looked up; another number is nobody's word. */
static void a_known_disk_is_not_looked_up(void **state)
{
        struct loop_device d = attach(LARGE, 512);
        struct blkup_block_open o = { .sysfs = dir };
        struct blkup_block *b = NULL;
        char name[96];
        struct stat st;
        uint64_t seq = 0;

        (void) state;
        if (ioctl(d.fd, BLKGETDISKSEQ, &seq) < 0) {
                loop_device_detach(&d);
                print_message("SKIP: this kernel numbers no disks\n");
                skip();
        }
        assert_int_equal(fstat(d.fd, &st), 0);
        make_dir("dev");
        make_dir("dev/block");
        (void) snprintf(name, sizeof(name), "dev/block/%u:%u", major(st.st_rdev), minor(st.st_rdev));
        make_dir(name);
        (void) snprintf(name, sizeof(name), "dev/block/%u:%u/partition", major(st.st_rdev),
                        minor(st.st_rdev));
        write_text(name, "2\n");
        o.fixed_diskseq = seq;
        assert_int_equal(blkup_block_open(d.path, &o, &b, NULL), 0);
        assert_int_equal(b->info.kind, BLKUP_BLOCK_DISK);
        assert_int_equal(b->info.size_bytes, LARGE);
        b = blkup_block_close(b);
        o.fixed_diskseq = seq + 1;
        assert_int_equal(blkup_block_open(d.path, &o, &b, NULL), 0);
        assert_int_equal(b->info.kind, BLKUP_BLOCK_PARTITION);
        b = blkup_block_close(b);
        loop_device_detach(&d);
}

static void random_batches(struct blkup_block *b, uint64_t size, int seed)
{
        struct blkup_block_request r[MANY];

        srand((unsigned) seed);
        for (int round = 0; round < 20; round++) {
                size_t n = 1 + (size_t) rand() % MANY;

                for (size_t i = 0; i < n; i++) {
                        r[i] = (struct blkup_block_request) {
                                .at = (uint64_t) rand() % (size + 2000),
                                .len = 1 + (uint64_t) rand() % 12000,
                                .to = got[i] + rand() % 3,
                        };
                        if (rand() % 2) {
                                r[i].at &= ~UINT64_C(511);
                                r[i].len = 512;
                                r[i].to = got[i];
                        }
                }
                memset(got, 0xee, sizeof(got));
                assert_true(blkup_block_read(b, r, n) >= 0);
                for (size_t i = 0; i < n; i++) {
                        uint64_t left = r[i].at < size ? size - r[i].at : 0;
                        uint64_t want = r[i].len < left ? r[i].len : left;

                        assert_int_equal(r[i].done_bytes, want);
                        assert_memory_equal(r[i].to, bytes + (want ? r[i].at : 0), want);
                }
        }
}

static void the_same_bytes_whichever_way(void **state)
{
        BLKUP_CLEANUP_URING struct blkup_uring *u = blkup_uring_new(16);

        (void) state;
        for (size_t i = 0; i < 2; i++) {
                struct loop_device d = attach(LARGE, sector_sizes[i]);

                for (int ring = 0; ring < 2; ring++) {
                        struct blkup_block *b = open_device(&d, BLKUP_DIRECT_ALWAYS, ring ? u : NULL);

                        assert_true(b->info.direct);
                        assert_int_equal(b->align_bytes, sector_sizes[i]);
                        random_batches(b, LARGE, 1);
                        assert_true(b->info.direct);
                        assert_int_equal(blkup_block_set_direct(b, false), 0);
                        assert_int_equal(b->align_bytes, 1);
                        random_batches(b, LARGE, 2);
                        assert_int_equal(blkup_block_set_direct(b, true), 0);
                        random_batches(b, LARGE, 3);
                        b = blkup_block_close(b);
                }
                loop_device_detach(&d);
        }
}

/* Windows of any place and length, into memory of any alignment: still one submission, and its buffer is
 * kept. */
static void a_mixed_batch_is_one_submission(void **state)
{
        BLKUP_CLEANUP_URING struct blkup_uring *u = blkup_uring_new(0);
        struct loop_device d = attach(TINY, 512);
        struct blkup_block *b = open_device(&d, BLKUP_DIRECT_AUTO, u);

        (void) state;
        assert_true(b->info.direct);
        if (!b->one_submission) {
                b = blkup_block_close(b);
                loop_device_detach(&d);
                print_message("no io_uring here\n");
                skip();
        }
        for (int again = 0; again < 2; again++) {
                struct blkup_block_request r[] = {
                        { .at = 0, .len = 1024, .to = got[0] },
                        { .at = 1080, .len = 2, .to = got[1] },
                        { .at = 4096, .len = 512, .to = got[2] },
                        { .at = 8192, .len = 512, .to = got[3] + 1 },
                        { .at = 511, .len = 513, .to = got[4] },
                };

                memset(got, 0xee, sizeof(got));
                assert_int_equal(blkup_block_read(b, r, 5), 1);
                for (size_t i = 0; i < 5; i++) {
                        assert_int_equal(r[i].done_bytes, r[i].len);
                        assert_memory_equal(r[i].to, bytes + r[i].at, r[i].len);
                }
                assert_int_equal(got[1][2], 0xee);
        }
        b = blkup_block_close(b);
        loop_device_detach(&d);
}

static void auto_is_direct_on_a_tiny_device(void **state)
{
        struct loop_device d = attach(TINY, 512);
        struct blkup_block *b = open_device(&d, BLKUP_DIRECT_AUTO, NULL);

        (void) state;
        assert_true(b->info.direct);
        random_batches(b, TINY, 4);
        b = blkup_block_close(b);
        b = open_device(&d, BLKUP_DIRECT_NEVER, NULL);
        assert_false(b->info.direct);
        b = blkup_block_close(b);
        loop_device_detach(&d);
}

/*
 * What another process has written through the device node and not yet synced is in the page cache alone: a
 * direct read sees it all the same. A mounted ext4 has its metadata in just these pages.
 */
static void direct_reads_see_dirty_pages(void **state)
{
        BLKUP_CLEANUP_URING struct blkup_uring *u = blkup_uring_new(0);

        (void) state;
        for (size_t i = 0; i < 2; i++) {
                struct loop_device d = attach(LARGE, sector_sizes[i]);

                for (int ring = 0; ring < 2; ring++) {
                        struct blkup_block *b = open_device(&d, BLKUP_DIRECT_ALWAYS, ring ? u : NULL);
                        struct blkup_block_request r[20];

                        assert_true(b->info.direct);
                        for (int round = 0; round < 20; round++) {
                                uint8_t sector[512];

                                memset(sector, 1 + round + ring * 100, sizeof(sector));
                                for (size_t k = 0; k < 20; k++) {
                                        r[k] = (struct blkup_block_request){ .at = k * 65536,
                                                                             .len = 4096,
                                                                             .to = got[k] };
                                        assert_int_equal(pwrite(d.fd, sector, 512, (off_t) (k * 65536 + 512)),
                                                         512);
                                }
                                assert_true(blkup_block_read(b, r, 20) >= 1);
                                for (size_t k = 0; k < 20; k++) {
                                        assert_int_equal(r[k].done_bytes, 4096);
                                        assert_memory_equal(got[k] + 512, sector, 512);
                                        assert_memory_equal(got[k] + 1024, bytes + k * 65536 + 1024, 3072);
                                }
                        }
                        b = blkup_block_close(b);
                }
                loop_device_detach(&d);
        }
}

/* A handle that believes in 512 on a device that wants 4096: answered, and learned from. */
static void a_refused_alignment_is_learned(void **state)
{
        struct loop_device d = attach(LARGE, 4096);
        struct blkup_block *b = open_device(&d, BLKUP_DIRECT_ALWAYS, NULL);
        struct blkup_block_request r = { .at = 512, .len = 512, .to = got[0] };

        (void) state;
        b->align_bytes = 512;
        assert_int_equal(blkup_block_read(b, &r, 1), 2); /* the refused one and the buffered one */
        assert_int_equal(r.done_bytes, 512);
        assert_memory_equal(got[0], bytes + 512, 512);
        assert_true(b->info.direct);
        assert_int_equal(b->align_bytes, 4096);
        random_batches(b, LARGE, 9);
        assert_true(b->info.direct);
        b = blkup_block_close(b);
        loop_device_detach(&d);
}

/* The backing file is cut: its loop device has unreadable sectors then. */
static void an_unreadable_sector_is_an_error_not_an_end(void **state)
{
        BLKUP_CLEANUP_URING struct blkup_uring *u = blkup_uring_new(0);
        char image[64];

        (void) state;
        (void) snprintf(image, sizeof(image), "%s/image", dir);
        for (int way = 0; way < 4; way++) {
                struct loop_device d = attach(LARGE, 512);
                struct blkup_block *b = open_device(&d, way & 1 ? BLKUP_DIRECT_ALWAYS : BLKUP_DIRECT_NEVER,
                                                    way & 2 ? u : NULL);
                struct blkup_block_request r[] = {
                        { .at = 0, .len = 4096, .to = got[0] },
                        { .at = (1 << 20) + 4096, .len = 512, .to = got[1] },
                        { .at = (1 << 20) - 4096, .len = 8192, .to = got[2] },
                        { .at = (1 << 20) - 4096, .len = 4096, .to = got[3] },
                };

                assert_int_equal(truncate(image, 1 << 20), 0);
                assert_true(blkup_block_read(b, r, 4) >= 1);
                assert_int_equal(r[0].done_bytes, 4096);
                assert_int_equal(r[1].done_bytes, -EIO);
                assert_int_equal(r[2].done_bytes, -EIO);
                assert_int_equal(r[3].done_bytes, 4096);
                assert_memory_equal(got[3], bytes + (1 << 20) - 4096, 4096);
                b = blkup_block_close(b);
                loop_device_detach(&d);
        }
}

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

static void a_probe_costs_few_calls(void **state)
{
        static const size_t sizes[] = { TINY, LARGE };
        /* A larger device is also asked whether its medium can be taken out: open, read and close of an
         * attribute. */
        static const int most[] = { 12, 15 };

        (void) state;
        for (size_t i = 0; i < 2; i++) {
                struct loop_device d = attach(sizes[i], 512);
                int calls = count_calls("probe-like", d.path, log_path);

                loop_device_detach(&d);
                if (calls < 0) {
                        print_message("no strace here, or no io_uring\n");
                        skip();
                }
                assert_in_range(calls, 5, most[i]);
        }
}

static int make_bytes(void **state)
{
        (void) state;
        if (!mkdtemp(dir))
                return -1;
        (void) snprintf(log_path, sizeof(log_path), "%s/log", dir);
        srand(2);
        for (size_t i = 0; i < LARGE; i++)
                bytes[i] = (uint8_t) rand();
        return 0;
}

static int remove_dir(void **state)
{
        char command[128];

        (void) state;
        (void) snprintf(command, sizeof(command), "rm -rf '%s'", dir);
        return system(command);
}

/* One that is attached and let go again, before anything is promised. */
static const char *reason_to_skip(void)
{
        char image[] = "/tmp/blkup-test-loop-XXXXXX";
        struct loop_device d;
        int fd, r;

        if (geteuid() != 0)
                return "loop devices need root";
        fd = mkstemp(image);
        if (fd < 0 || ftruncate(fd, 1 << 20) < 0)
                return "no temporary file";
        r = loop_device_attach(image, 4096, &d);
        if (r == 0)
                loop_device_detach(&d);
        (void) close(fd);
        (void) unlink(image);
        return r < 0 ? "no loop device to be had (LOOP_CONFIGURE needs Linux 5.8)" : NULL;
}

int main(int argc, char **argv)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(facts_of_a_device),
                cmocka_unit_test(sysfs_tells_partitions_and_layers),
                cmocka_unit_test(a_known_disk_is_not_looked_up),
                cmocka_unit_test(the_same_bytes_whichever_way),
                cmocka_unit_test(a_mixed_batch_is_one_submission),
                cmocka_unit_test(auto_is_direct_on_a_tiny_device),
                cmocka_unit_test(direct_reads_see_dirty_pages),
                cmocka_unit_test(a_refused_alignment_is_learned),
                cmocka_unit_test(an_unreadable_sector_is_an_error_not_an_end),
                cmocka_unit_test(a_probe_costs_few_calls),
        };
        const char *reason;

        if (argc == 3 && strcmp(argv[1], "probe-like") == 0)
                return probe_like(argv[2]);
        reason = reason_to_skip();
        if (reason) {
                (void) printf("skipped: %s\n", reason);
                return 77;
        }
        return cmocka_run_group_tests(tests, make_bytes, remove_dir);
}
