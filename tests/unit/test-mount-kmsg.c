/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_about), cmocka_unit_test(test_not_readable),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
