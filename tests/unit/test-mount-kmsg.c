/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "mount/kmsg.h"

static void test_about(void **state)
{
        (void) state;
        assert_true(blkup_kmsg_is_about("EXT4-fs (loop3): bad geometry", "loop3", "ext4"));
        assert_false(blkup_kmsg_is_about("EXT4-fs (loop31): bad geometry", "loop3", "ext4"));
        assert_false(blkup_kmsg_is_about("EXT4-fs (sda1): bad geometry", "loop3", "ext4"));
        assert_true(blkup_kmsg_is_about("BTRFS error (device loop3 state C): x", "loop3", "btrfs"));
        /* no device in it: of the type */
        assert_true(blkup_kmsg_is_about("SQUASHFS error: unable to read", "loop3", "squashfs"));
        assert_true(blkup_kmsg_is_about("overlay: missing lowerdir", "", "overlay"));
        assert_true(blkup_kmsg_is_about("overlayfs: missing", "", "overlay"));
        assert_false(blkup_kmsg_is_about("overlayfsx: missing", "", "overlay"));
        assert_true(blkup_kmsg_is_about("FAT-fs: utf8 is not a recommended", "", "vfat"));
        assert_true(blkup_kmsg_is_about("EXT4-fs: journaled quota format not specified", "", "ext2"));
        assert_false(blkup_kmsg_is_about("EXT4-fs (sda1): bad geometry", "", "ext2"));
        assert_false(blkup_kmsg_is_about("usb 1-1: new device", "loop3", "ext4"));
        assert_false(blkup_kmsg_is_about("", "loop3", ""));
}

static void test_not_readable(void **state)
{
        struct blkup_kmsg k;
        char text[64] = "x";

        (void) state;
        blkup_kmsg_init(&k, "/nonexistent/kmsg");
        assert_int_equal(k.fd, -1);
        assert_int_equal(blkup_kmsg_mark(&k), 0);
        assert_int_equal(blkup_kmsg_collect(&k, 0, "loop3", "ext4", text, sizeof(text)), 0);
        assert_string_equal(text, "");
        blkup_kmsg_close(&k);
}

/* A file in the place of the log: each of these is one read. */
static void say(const char *path, const char *record)
{
        FILE *f = fopen(path, "ae");

        assert_non_null(f);
        assert_true(fprintf(f, "6,1,1,-;%s\n", record) > 0);
        assert_int_equal(fclose(f), 0);
}

static void test_since_the_mark(void **state)
{
        char path[] = "/tmp/blkup-test-kmsg-XXXXXX", text[256];
        const struct timespec moment = { .tv_nsec = 5000000 };
        int fd = mkstemp(path);
        struct blkup_kmsg k;
        size_t mark;

        (void) state;
        assert_true(fd >= 0);
        say(path, "sda: long before");
        blkup_kmsg_init(&k, path);
        assert_true(k.fd >= 0);
        /* The driver's word, before anybody mounts. */
        say(path, "sda: 8192 blocks");
        (void) nanosleep(&moment, NULL);
        mark = blkup_kmsg_mark(&k);
        say(path, "EXT4-fs (sda): bad block size");
        assert_int_equal(blkup_kmsg_collect(&k, mark, "sda", "ext4", text, sizeof(text)), 1);
        assert_string_equal(text, "EXT4-fs (sda): bad block size");
        /* The next attempt hears nothing of the last one. */
        say(path, "EXT4-fs (sda): a late word");
        mark = blkup_kmsg_mark(&k);
        assert_int_equal(blkup_kmsg_collect(&k, mark, "sda", "ext4", text, sizeof(text)), 0);
        /* More lines than are kept: the last ones are heard all the same, those of an old mark too. */
        for (unsigned i = 0; i < 2 * BLKUP_KMSG_MAX_LINES + 100; i++) {
                say(path, "sdb: chatter");
                (void) blkup_kmsg_mark(&k);
        }
        say(path, "EXT4-fs (sda): the last");
        assert_int_equal(blkup_kmsg_collect(&k, mark, "sda", "ext4", text, sizeof(text)), 1);
        assert_string_equal(text, "EXT4-fs (sda): the last");
        assert_true(k.n > 2 * BLKUP_KMSG_MAX_LINES);
        assert_true(k.n - k.first <= BLKUP_KMSG_MAX_LINES);
        blkup_kmsg_close(&k);
        assert_int_equal(close(fd), 0);
        assert_int_equal(unlink(path), 0);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_about),
                cmocka_unit_test(test_not_readable),
                cmocka_unit_test(test_since_the_mark),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
