/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/loop.h>
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

#include "fail-alloc.h"
#include "fake-root.h"
#include "host/loopstate.h"

static void loop(const struct fake_root *f, unsigned number, const char *file, const char *offset,
                 const char *sizelimit, const char *flags)
{
        static const char *const names[] = { "ro", "loop/autoclear", "loop/partscan", "loop/dio" };
        char folder[64], path[128], text[4200];

        (void) snprintf(folder, sizeof(folder), "sys/devices/virtual/block/loop%u", number);
        (void) snprintf(path, sizeof(path), "sys/block/loop%u", number);
        (void) snprintf(text, sizeof(text), "../devices/virtual/block/loop%u", number);
        fake_root_link(f, path, text);
        (void) snprintf(path, sizeof(path), "%s/dev", folder);
        (void) snprintf(text, sizeof(text), "7:%u\n", number);
        fake_root_file(f, path, text);
        (void) snprintf(path, sizeof(path), "%s/size", folder);
        fake_root_file(f, path, "4096\n");
        if (!file)
                return;
        (void) snprintf(path, sizeof(path), "%s/loop/backing_file", folder);
        (void) snprintf(text, sizeof(text), "%s\n", file);
        fake_root_file(f, path, text);
        (void) snprintf(path, sizeof(path), "%s/loop/offset", folder);
        fake_root_file(f, path, offset);
        (void) snprintf(path, sizeof(path), "%s/loop/sizelimit", folder);
        fake_root_file(f, path, sizelimit);
        for (unsigned i = 0; i < 4; i++) {
                (void) snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
                (void) snprintf(text, sizeof(text), "%c\n", flags[i]);
                fake_root_file(f, path, text);
        }
}

static void stat_of(const struct fake_root *f, const char *path, struct stat *st)
{
        char whole[PATH_MAX];

        fake_root_place(f, path, whole);
        assert_int_equal(stat(whole, st), 0);
}

static void make_machine(struct fake_root *f)
{
        fake_root_make(f);
        fake_root_file(f, "srv/a.img", "x");
        fake_root_file(f, "srv/b b.img", "x");
        loop(f, 0, NULL, NULL, NULL, NULL); /* free */
        loop(f, 10, "/srv/a.img", "0\n", "0\n", "0000");
        loop(f, 2, "/srv/a.img", "1048576\n", "4096\n", "1111");
        loop(f, 3, "/srv/b b.img", "0\n", "0\n", "0010");
        loop(f, 4, "/srv/gone.img (deleted)", "512\n", "0\n", "0000");
        fake_root_file(f, "dev/loop3", "not a device"); /* whatever stands there is not believed */
        fake_root_folder(f, "sys/block/loop5");         /* going away: nothing in it but its files */
        fake_root_file(f, "sys/block/loop5/loop/backing_file", "/srv/a.img\n");
        fake_root_file(f, "sys/block/loopback/size", "1\n"); /* another driver's name */
        fake_root_file(f, "sys/block/sda/loop/backing_file", "/srv/a.img\n");
}

static void the_table_of_a_machine_is_read(void **state)
{
        struct fake_root f;
        struct blkup_loops *t = NULL;
        const struct blkup_loop *l;
        struct blkup_error err = { 0 };
        struct stat a, b;

        (void) state;
        make_machine(&f);
        stat_of(&f, "srv/a.img", &a);
        stat_of(&f, "srv/b b.img", &b);
        assert_int_equal(blkup_loops_load(f.path, &t, &err), 0);
        assert_int_equal(t->n, 4);
        assert_int_equal(t->n_skipped, 1);
        l = &t->loops[0];
        assert_string_equal(l->name, "loop2");
        assert_int_equal(l->dev_major, 7);
        assert_int_equal(l->dev_minor, 2);
        assert_int_equal(l->size_sectors, 4096);
        assert_string_equal(l->file, "/srv/a.img");
        assert_int_equal(l->identity, BLKUP_LOOP_BY_PATH);
        assert_int_equal(l->file_dev, a.st_dev);
        assert_int_equal(l->file_inode, a.st_ino);
        assert_int_equal(l->offset_bytes, 1048576);
        assert_int_equal(l->sizelimit_bytes, 4096);
        assert_true(l->is_read_only && l->is_autoclear && l->is_partscan && l->is_direct_io);
        l = &t->loops[1];
        assert_string_equal(l->name, "loop3");
        assert_int_equal(l->identity, BLKUP_LOOP_BY_PATH);
        assert_true(l->is_partscan && !l->is_read_only && !l->is_autoclear && !l->is_direct_io);
        l = &t->loops[2];
        assert_string_equal(l->name, "loop4");
        assert_string_equal(l->file, "/srv/gone.img (deleted)");
        assert_int_equal(l->identity, BLKUP_LOOP_UNKNOWN);
        assert_int_equal(l->offset_bytes, 512);
        assert_string_equal(t->loops[3].name, "loop10");

        l = blkup_loops_by_file(t, a.st_dev, a.st_ino, NULL);
        assert_ptr_equal(l, &t->loops[0]);
        l = blkup_loops_by_file(t, a.st_dev, a.st_ino, l);
        assert_ptr_equal(l, &t->loops[3]);
        assert_null(blkup_loops_by_file(t, a.st_dev, a.st_ino, l));
        assert_ptr_equal(blkup_loops_by_file(t, b.st_dev, b.st_ino, NULL), &t->loops[1]);
        assert_null(blkup_loops_by_file(t, 0, 0, NULL)); /* what is unknown is not "the file 0" */
        assert_null(blkup_loops_by_file(NULL, a.st_dev, a.st_ino, NULL));
        l = blkup_loops_by_path(t, "/srv/a.img", NULL);
        assert_ptr_equal(l, &t->loops[0]);
        assert_ptr_equal(blkup_loops_by_path(t, "/srv/a.img", l), &t->loops[3]);
        assert_ptr_equal(blkup_loops_by_path(t, "/srv/gone.img (deleted)", NULL), &t->loops[2]);
        assert_null(blkup_loops_by_path(t, "/srv/gone.img", NULL));
        assert_ptr_equal(blkup_loops_by_devno(t, 7, 10), &t->loops[3]);
        assert_null(blkup_loops_by_devno(t, 7, 0));
        assert_null(blkup_loops_by_devno(NULL, 7, 10));
        blkup_loops_free(t);
        assert_null(blkup_loops_free(NULL));
        fake_root_remove(&f);

        fake_root_make(&f);
        t = NULL;
        assert_int_equal(blkup_loops_load(f.path, &t, &err), -ENOENT);
        assert_null(t);
        assert_non_null(strstr(err.message, "/sys/block"));
        fake_root_folder(&f, "sys/block");
        assert_int_equal(blkup_loops_load(f.path, &t, &err), 0);
        assert_int_equal(t->n, 0);
        blkup_loops_free(t);
        fake_root_remove(&f);
}

static void ranges_overlap_or_do_not(void **state)
{
        static const struct {
                uint64_t at, limit, offset, len;
                bool overlapping;
        } cases[] = {
                { 0, 0, 0, 0, true },
                { 0, 0, UINT64_MAX, 1, true },
                { 1000, 0, 0, 1000, false },
                { 1000, 0, 0, 1001, true },
                { 1000, 0, 0, 0, true },
                { 1000, 100, 1100, 0, false },
                { 1000, 100, 1099, 0, true },
                { 1000, 100, 1000, 1, true },
                { 1000, 100, 999, 1, false },
                { UINT64_MAX, 0, 0, UINT64_MAX, false },
                { UINT64_MAX - 1, UINT64_MAX, UINT64_MAX, UINT64_MAX, true },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct blkup_loop l = { .offset_bytes = cases[i].at, .sizelimit_bytes = cases[i].limit };

                if (blkup_loop_is_overlapping(&l, cases[i].offset, cases[i].len) != cases[i].overlapping)
                        fail_msg("case %zu", i);
        }
}

static void odd_texts_do_no_harm(void **state)
{
        static const char *const files[] = {
                "",        "relative", "/", "/srv/a.img/below", "/srv/\n/x", "/../../../../../../etc/passwd",
                "/srv/..",
        };
        struct fake_root f;
        struct blkup_loops *t = NULL;
        char path[4200];

        (void) state;
        make_machine(&f);
        for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++)
                loop(&f, 100 + i, files[i], "-1\n", "18446744073709551616\n", "2x \n");
        /* A path longer than a page, which the kernel itself cannot tell. */
        memset(path, 'a', sizeof(path));
        path[0] = '/';
        path[sizeof(path) - 1] = '\0';
        loop(&f, 200, path, "1\n", "2\n", "0000");
        /* Where the path leads out of the root it leads to its top instead: no file of ours is looked at. */
        assert_int_equal(blkup_loops_load(f.path, &t, NULL), 0);
        assert_int_equal(t->n, 4 + sizeof(files) / sizeof(files[0]) + 1);
        assert_int_equal(blkup_loops_by_devno(t, 7, 105)->identity, BLKUP_LOOP_UNKNOWN);
        assert_int_equal(blkup_loops_by_devno(t, 7, 100)->offset_bytes, 0);
        assert_int_equal(blkup_loops_by_devno(t, 7, 100)->sizelimit_bytes, 0);
        assert_true(blkup_loops_by_devno(t, 7, 100)->is_read_only); /* 2: anything but 0 */
        assert_false(blkup_loops_by_devno(t, 7, 100)->is_autoclear);
        assert_null(blkup_loops_by_devno(t, 7, 200)->file);
        assert_int_equal(blkup_loops_by_devno(t, 7, 200)->sizelimit_bytes, 2);
        blkup_loops_free(t);
        fake_root_remove(&f);
}

static void each_allocation_may_fail(void **state)
{
        struct fake_root f;
        struct blkup_loops *t = NULL;
        long n = 0;

        (void) state;
        make_machine(&f);
        for (unsigned i = 50; i < 120; i++)
                loop(&f, i, "/srv/a/file/with/a/name/of/some/length/that/fills/the/pool.img", "0\n", "0\n",
                     "0000");
        for (long failed = 1; failed > 0; n++) {
                int r;

                fail_alloc_arm(n, false);
                r = blkup_loops_load(f.path, &t, NULL);
                failed = fail_alloc_disarm();
                assert_int_equal(r, failed ? -ENOMEM : 0);
        }
        assert_true(n > 6); /* else the wrapper is not linked in */
        assert_int_equal(t->n, 74);
        blkup_loops_free(t);
        fake_root_remove(&f);
}

/* ---- real loop devices, of our own making ---- */

/* A free loop device on fd; its own fd, or -1 where that is not possible. */
static int attach(int file_fd, uint64_t offset, uint64_t sizelimit, uint32_t flags, struct stat *ret_node)
{
        struct loop_config config = {
                .fd = (uint32_t) file_fd,
                .info = { .lo_offset = offset, .lo_sizelimit = sizelimit, .lo_flags = flags }
        };
        int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), fd = -1;

        for (unsigned i = 0; control >= 0 && i < 50; i++) { /* another may take the number: try the next */
                int number = ioctl(control, LOOP_CTL_GET_FREE);
                char path[32];

                if (number < 0)
                        break;
                (void) snprintf(path, sizeof(path), "/dev/loop%d", number);
                fd = open(path, O_RDONLY | O_CLOEXEC);
                if (fd < 0)
                        break;
                if (ioctl(fd, LOOP_CONFIGURE, &config) == 0) {
                        close(control);
                        assert_int_equal(fstat(fd, ret_node), 0);
                        return fd;
                }
                close(fd);
                fd = -1;
                if (errno != EBUSY && errno != EAGAIN)
                        break;
        }
        if (control >= 0)
                close(control);
        return -1;
}

/* Somebody may look at the device just when we let go of it: then the driver frees it a moment later. */
static void wait_for_count(const struct stat *file, unsigned expected)
{
        for (unsigned tries = 0;; tries++) {
                struct blkup_loops *t;
                unsigned found = 0;

                assert_int_equal(blkup_loops_load(NULL, &t, NULL), 0);
                for (const struct blkup_loop *l = NULL;
                     (l = blkup_loops_by_file(t, file->st_dev, file->st_ino, l));)
                        found++;
                blkup_loops_free(t);
                if (found == expected)
                        return;
                assert_true(found > expected && tries < 200);
                usleep(10000);
        }
}

static void the_driver_itself_is_asked(void **state)
{
        char path[] = "/tmp/blkup-test-loop-XXXXXX", deleted[64];
        struct blkup_loops *t = NULL;
        struct blkup_error err;
        const struct blkup_loop *l;
        struct stat file, first_node, second_node;
        int file_fd, first, second;

        (void) state;
        file_fd = mkostemp(path, O_CLOEXEC);
        assert_true(file_fd >= 0);
        assert_int_equal(ftruncate(file_fd, 1 << 20), 0);
        assert_int_equal(fstat(file_fd, &file), 0);
        /* Read-only because our fd of the node is; autoclear, so that nothing outlives a failure here. */
        first = attach(file_fd, 4096, 8192, LO_FLAGS_AUTOCLEAR | LO_FLAGS_READ_ONLY, &first_node);
        if (first < 0) {
                close(file_fd);
                unlink(path);
                print_message("SKIP: no loop device may be made here\n");
                skip();
        }
        second = attach(file_fd, 65536, 0, LO_FLAGS_AUTOCLEAR | LO_FLAGS_READ_ONLY, &second_node);
        assert_true(second >= 0);

        assert_int_equal(blkup_loops_load(NULL, &t, &err), 0);
        l = blkup_loops_by_devno(t, major(first_node.st_rdev), minor(first_node.st_rdev));
        assert_non_null(l);
        assert_int_equal(l->identity, BLKUP_LOOP_BY_DRIVER);
        assert_int_equal(l->file_dev, file.st_dev);
        assert_int_equal(l->file_inode, file.st_ino);
        assert_string_equal(l->file, path);
        assert_int_equal(l->offset_bytes, 4096);
        assert_int_equal(l->sizelimit_bytes, 8192);
        assert_int_equal(l->size_sectors, 16);
        assert_true(l->is_read_only && l->is_autoclear && !l->is_partscan);
        /* Exactly these two use the file. */
        unsigned found = 0;
        for (l = NULL; (l = blkup_loops_by_file(t, file.st_dev, file.st_ino, l)); found++)
                assert_true(makedev(l->dev_major, l->dev_minor) == first_node.st_rdev ||
                            makedev(l->dev_major, l->dev_minor) == second_node.st_rdev);
        assert_int_equal(found, 2);
        blkup_loops_free(t);

        /* The file goes, its name too; the driver still knows which one it was. */
        assert_int_equal(unlink(path), 0);
        assert_int_equal(ioctl(second, LOOP_CLR_FD), 0);
        close(second);
        wait_for_count(&file, 1);
        assert_int_equal(blkup_loops_load("", &t, &err), 0);
        l = blkup_loops_by_file(t, file.st_dev, file.st_ino, NULL);
        assert_non_null(l);
        (void) snprintf(deleted, sizeof(deleted), "%s (deleted)", path);
        assert_string_equal(l->file, deleted);
        assert_int_equal(l->identity, BLKUP_LOOP_BY_DRIVER);
        assert_true(makedev(l->dev_major, l->dev_minor) == first_node.st_rdev);
        blkup_loops_free(t);
        assert_int_equal(ioctl(first, LOOP_CLR_FD), 0);
        close(first);
        wait_for_count(&file, 0);
        close(file_fd); /* not before: until then no other file has its number */
}

static void the_machine_itself_is_read(void **state)
{
        struct blkup_loops *t = NULL;
        struct blkup_error err;
        int r = blkup_loops_load("", &t, &err);

        (void) state;
        if (r == -ENOENT) {
                print_message("SKIP: no /sys here\n");
                skip();
        }
        assert_int_equal(r, 0);
        for (size_t i = 0; i < t->n; i++)
                assert_ptr_equal(blkup_loops_by_devno(t, t->loops[i].dev_major, t->loops[i].dev_minor),
                                 &t->loops[i]);
        blkup_loops_free(t);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_table_of_a_machine_is_read),
                cmocka_unit_test(ranges_overlap_or_do_not),
                cmocka_unit_test(odd_texts_do_no_harm),
                cmocka_unit_test(each_allocation_may_fail),
                cmocka_unit_test(the_driver_itself_is_asked),
                cmocka_unit_test(the_machine_itself_is_read),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
