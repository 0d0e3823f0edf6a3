/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fake-root.h"
#include "probe/explain.h"

static struct blkup_candidate judged(const char *type, uint64_t incompat, uint64_t ro_compat, unsigned major,
                                     unsigned minor, const char *sysfs)
{
        struct blkup_candidate c = { .incompat = incompat, .ro_compat = ro_compat };
        const struct blkup_kernel k = { .major = major, .minor = minor, .sysfs = sysfs };

        (void) snprintf(c.type, sizeof(c.type), "%s", type);
        blkup_features_judge(&c, &k);
        return c;
}

static void by_version(void **state)
{
        const char *none = "/nonexistent";
        struct blkup_candidate c;

        (void) state;
        /* what mkfs.ext4 of e2fsprogs 1.47 sets, on a kernel that has no driver loaded */
        c = judged("ext4", 0x2c2, 0x46b, 5, 10, none);
        assert_int_equal(c.notes, 0);
        assert_string_equal(c.features, "");
        c = judged("ext4", 0x2c2 | 0x20000, 0x46b, 5, 1, none);
        assert_int_equal(c.notes, BLKUP_NOTE_NO_MOUNT);
        assert_string_equal(c.features, "incompat 0x20000 (casefold)");
        c = judged("ext4", 0x2c2 | 0x20000, 0x46b, 5, 2, none);
        assert_int_equal(c.notes, 0);
        /* orphan_file's bit: 5.15 */
        assert_int_equal(judged("ext4", 0x2c2, 0x10000, 5, 14, none).notes, BLKUP_NOTE_READ_ONLY);
        assert_int_equal(judged("ext4", 0x2c2, 0x10000, 6, 0, none).notes, 0);
        /* no kernel knows these */
        assert_int_equal(judged("ext4", 0x1000, 0, 99, 0, none).notes, BLKUP_NOTE_NO_MOUNT);
        c = judged("ext2", UINT64_C(1) << 31, 0x800, 99, 0, none);
        assert_int_equal(c.notes, BLKUP_NOTE_NO_MOUNT | BLKUP_NOTE_READ_ONLY);
        assert_string_equal(c.features, "incompat 0x80000000, ro_compat 0x800");

        assert_int_equal(judged("xfs", 0x20, 0, 5, 18, none).notes, BLKUP_NOTE_NO_MOUNT);
        assert_int_equal(judged("xfs", 0x2b, 0xf, 5, 19, none).notes, 0);
        assert_int_equal(judged("btrfs", 0x341, 0xb, 6, 0, none).notes, BLKUP_NOTE_READ_ONLY);
        assert_int_equal(judged("btrfs", 0x341, 0xb, 6, 1, none).notes, 0);
        assert_int_equal(judged("vfat", ~UINT64_C(0), ~UINT64_C(0), 1, 0, none).notes, 0);
}

/* A loaded driver tells: that counts, whatever the version says. */
static void by_sysfs(void **state)
{
        struct fake_root f;

        (void) state;
        fake_root_make(&f);
        fake_root_file(&f, "ext4/features/verity", "supported\n");
        assert_int_equal(judged("ext4", 0x20000, 0x8000, 6, 1, f.path).notes, BLKUP_NOTE_NO_MOUNT);
        assert_int_equal(judged("ext4", 0, 0x8000, 4, 0, f.path).notes, 0);
        fake_root_file(&f, "ext4/features/casefold", "supported\n");
        assert_int_equal(judged("ext4", 0x20000, 0x8000, 4, 0, f.path).notes, 0);
        /* of another file system nothing is told: the version */
        assert_int_equal(judged("btrfs", 0x800, 0, 5, 4, f.path).notes, BLKUP_NOTE_NO_MOUNT);
        fake_root_file(&f, "btrfs/features/raid1c34", "0\n");
        assert_int_equal(judged("btrfs", 0x800, 0, 5, 4, f.path).notes, 0);
        fake_root_remove(&f);
}

/* More names than there is room for: cut, and still a text. */
static void many_names(void **state)
{
        struct blkup_candidate c = judged("ext4", 0xffffffff, 0xffffffff, 1, 0, "/nonexistent");

        (void) state;
        assert_int_equal(c.notes, BLKUP_NOTE_NO_MOUNT | BLKUP_NOTE_READ_ONLY);
        assert_true(strlen(c.features) == sizeof(c.features) - 1);
}

static void refused_is_not_judged(void **state)
{
        const struct blkup_kernel k = { .major = 1, .sysfs = "/nonexistent" };
        struct blkup_candidate c = { .type = "ext4", .state = BLKUP_CANDIDATE_DAMAGED, .incompat = 0xffff };

        (void) state;
        blkup_features_judge(&c, &k);
        assert_int_equal(c.notes, 0);
}

static void this_kernel(void **state)
{
        struct blkup_kernel k;

        (void) state;
        blkup_kernel_here(&k);
        assert_true(k.major >= 2 && k.major < 100);
        assert_string_equal(k.sysfs, "/sys/fs");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(by_version),  cmocka_unit_test(by_sysfs),
                cmocka_unit_test(many_names),  cmocka_unit_test(refused_is_not_judged),
                cmocka_unit_test(this_kernel),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
