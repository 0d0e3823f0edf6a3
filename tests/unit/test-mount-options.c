/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>

#include <cmocka.h>

#include "mount/options.h"
#include "mount/syscalls.h"

static struct blkup_mount_options parse(const char *text)
{
        struct blkup_mount_options o;

        assert_int_equal(blkup_mount_options_parse(text, &o, NULL, 0), 0);
        return o;
}

static void test_attributes(void **state)
{
        struct blkup_mount_options o = parse("nosuid,noatime,ro,nodev,dev");

        (void) state;
        assert_int_equal(o.attr_set,
                         BLKUP_MOUNT_ATTR_NOSUID | BLKUP_MOUNT_ATTR_NOATIME | BLKUP_MOUNT_ATTR_RDONLY);
        /* a change of atime needs the whole field */
        assert_int_equal(o.attr_clr, BLKUP_MOUNT_ATTR_ATIME | BLKUP_MOUNT_ATTR_NODEV);
        assert_true(o.is_read_only);
        assert_int_equal(o.n_fs, 0);
        blkup_mount_options_free(&o);
        o = parse("noatime,strictatime,relatime");
        assert_int_equal(o.attr_set, BLKUP_MOUNT_ATTR_RELATIME);
        blkup_mount_options_free(&o);
        o = parse("ro,rw");
        assert_false(o.is_read_only);
        assert_true(o.is_read_write);
        assert_int_equal(o.attr_set, 0);
        blkup_mount_options_free(&o);
        o = parse("defaults");
        assert_false(o.is_read_write);
        assert_int_equal(o.attr_set | o.attr_clr, 0);
        blkup_mount_options_free(&o);
}

static void test_for_the_file_system(void **state)
{
        struct blkup_mount_options o =
                parse("commit=5,noload,x-systemd.after=a,x-systemd.after=b,nofail,comment=z,"
                      "context=\"a,b\",sync,user=root,_netdev,auto");

        (void) state;
        assert_int_equal(o.n_fs, 4);
        assert_string_equal(o.fs[0].key, "commit");
        assert_string_equal(o.fs[0].value, "5");
        assert_string_equal(o.fs[1].key, "noload");
        assert_null(o.fs[1].value);
        assert_string_equal(o.fs[2].key, "context");
        assert_string_equal(o.fs[2].value, "a,b");
        assert_string_equal(o.fs[3].key, "sync");
        assert_string_equal(blkup_mount_options_user(&o, "x-systemd.after", 0), "a");
        assert_string_equal(blkup_mount_options_user(&o, "x-systemd.after", 1), "b");
        assert_null(blkup_mount_options_user(&o, "x-systemd.after", 2));
        assert_true(o.is_nofail && o.is_netdev);
        /* user implies three */
        assert_int_equal(o.attr_set,
                         BLKUP_MOUNT_ATTR_NOSUID | BLKUP_MOUNT_ATTR_NODEV | BLKUP_MOUNT_ATTR_NOEXEC);
        blkup_mount_options_free(&o);
}

static void test_kinds(void **state)
{
        struct blkup_mount_options o = parse("rbind,rslave");

        (void) state;
        assert_true(o.is_bind && o.is_recursive && o.propagation_is_recursive);
        assert_int_equal(o.propagation, MS_SLAVE);
        blkup_mount_options_free(&o);
        o = parse("loop=/dev/loop7,offset=1M,sizelimit=4KiB");
        assert_string_equal(o.loop_device, "/dev/loop7");
        assert_int_equal(o.offset_bytes, 1 << 20);
        assert_int_equal(o.sizelimit_bytes, 4096);
        blkup_mount_options_free(&o);
        o = parse("X-mount.mkdir=700");
        assert_int_equal(o.mkdir_mode, 0700);
        blkup_mount_options_free(&o);
        o = parse(NULL);
        assert_int_equal(o.n_fs + o.n_user, 0);
        blkup_mount_options_free(&o);
}

static void test_refused(void **state)
{
        static const char *const bad[][2] = {
                { "context=\"a", "context=\"a" },
                { "=x", "=x" },
                { "offset=", "offset" },
                { "offset", "offset" },
                { "sizelimit=9Q", "sizelimit" },
                { "offset=99999999999999999999", "offset" },
                { "ro,loop=/etc/passwd", "loop" },
                { "bind=1", "bind" },
                { "X-mount.mkdir=8", "X-mount.mkdir" },
                { "bind,move", "move" },
                { "offset=16777216T", "offset" },
        };

        (void) state;
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(bad); i++) {
                struct blkup_mount_options o;
                char key[32] = "";

                if (blkup_mount_options_parse(bad[i][0], &o, key, sizeof(key)) != -EINVAL)
                        fail_msg("'%s' is taken", bad[i][0]);
                assert_string_equal(key, bad[i][1]);
        }
}

static void test_limits(void **state)
{
        char text[4096];
        struct blkup_mount_options o;

        (void) state;
        memset(text, ',', sizeof(text));
        text[sizeof(text) - 1] = '\0';
        assert_int_equal(blkup_mount_options_parse(text, &o, NULL, 0), -E2BIG);
        text[1000] = '\0';
        assert_int_equal(blkup_mount_options_parse(text, &o, NULL, 0), 0);
        assert_int_equal(o.n_fs, 0);
        blkup_mount_options_free(&o);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_attributes), cmocka_unit_test(test_for_the_file_system),
                cmocka_unit_test(test_kinds), cmocka_unit_test(test_refused), cmocka_unit_test(test_limits),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
