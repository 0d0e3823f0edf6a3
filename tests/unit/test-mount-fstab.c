/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <blkup/mount.h>

#include "base/cleanup.h"
#include "base/error.h"

static struct blkup_fstab *parse(const char *text)
{
        struct blkup_fstab *t = NULL;

        assert_int_equal(blkup_fstab_parse(text, strlen(text), &t), 0);
        return t;
}

static void test_fields(void **state)
{
        struct blkup_fstab *t = parse("# a remark\n"
                                      "\n"
                                      "  /dev/vda1\t/  ext4 rw,noatime 0 1\n"
                                      "UUID=1234-ABCD /boot vfat\n"
                                      "tmpfs /tmp tmpfs size=1g # not an option\n"
                                      "/dev/vda2 none swap sw 0 0 # a remark behind\n"
                                      "/srv/my\\040disk /mnt/a\\011b\\134c none bind 1 2");

        (void) state;
        assert_int_equal(t->n_bad, 0);
        assert_int_equal(t->n, 5);
        assert_string_equal(t->entries[0].source, "/dev/vda1");
        assert_string_equal(t->entries[0].target, "/");
        assert_string_equal(t->entries[0].types, "ext4");
        assert_string_equal(t->entries[0].options, "rw,noatime");
        assert_int_equal(t->entries[0].passno, 1);
        assert_int_equal(t->entries[0].line, 3);
        assert_string_equal(t->entries[1].options, "defaults");
        assert_int_equal(t->entries[1].freq, 0);
        assert_string_equal(t->entries[2].options, "size=1g");
        assert_string_equal(t->entries[3].types, "swap");
        assert_string_equal(t->entries[4].source, "/srv/my disk");
        assert_string_equal(t->entries[4].target, "/mnt/a\tb\\c");
        assert_int_equal(t->entries[4].freq, 1);
        assert_int_equal(t->entries[4].passno, 2);
        blkup_fstab_free(t);
}

static void test_tags(void **state)
{
        static const char *const same[] = {
                "LABEL=\"Foo Bar\" /m ext4\n",
                "LABEL=Foo\\040Bar /m ext4\n",
                "LABEL=\"Foo\\040Bar\" /m ext4\n",
                "LABEL='Foo\\040Bar' /m ext4\n",
        };

        (void) state;
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(same); i++) {
                struct blkup_fstab *t = parse(same[i]);

                assert_int_equal(t->n, 1);
                assert_string_equal(t->entries[0].source, "LABEL=Foo Bar");
                blkup_fstab_free(t);
        }
}

static void test_quotes_in_options(void **state)
{
        struct blkup_fstab *t = parse("tmpfs /m tmpfs context=\"a,nofail,b\",size=1m,x-y=1\n");

        (void) state;
        assert_int_equal(t->n, 1);
        assert_false(blkup_fstab_has_option(&t->entries[0], "nofail"));
        assert_true(blkup_fstab_has_option(&t->entries[0], "size"));
        assert_true(blkup_fstab_has_option(&t->entries[0], "x-y"));
        assert_false(blkup_fstab_has_option(&t->entries[0], "si"));
        blkup_fstab_free(t);
}

/* An escaped comma or quotation mark stays escaped: decoded, it would cut the list in another place. */
static void test_escapes_in_options(void **state)
{
        struct blkup_fstab *t = parse("tmpfs /m tmpfs a\\054b,c\\040d,e\\042f\n");

        (void) state;
        assert_string_equal(t->entries[0].options, "a\\054b,c d,e\\042f");
        blkup_fstab_free(t);
}

/* Each costs itself alone: the line before and the line behind are there. */
static void test_broken_lines(void **state)
{
        static const char *const broken[] = {
                "one",
                "tmpfs /x",
                "tmpfs relative tmpfs",
                "tmpfs /x ../../etc",
                "tmpfs /x tmpfs defaults x 0",
                "tmpfs /x tmpfs defaults 0 y",
                "tmpfs /x tmpfs defaults 0 -1",
                "tmpfs /x tmpfs defaults 0 0 seven",
                "UUID= /x ext4",
                "LABEL=\"open /x ext4",
                "LABEL=\"a\"b /x ext4",
                "tmpfs /x tmpfs context=\"a,b",
                "tmpfs /x\\000y tmpfs",
                "tmpfs /x tmpfs def\001aults",
                "tmpfs /x tmpfs offset=12q",
                "tmpfs /x tmpfs =1",
                "tmpfs /x tmpfs loop=/etc/passwd",
                "tmpfs /x tmpfs defaults 99999999999",
                "tmpfs /x ,ext4",
                "tmpfs /x tmpfs X-mount.mkdir=9z",
                "tmpfs /x ext4, defaults",
                "LABEL=\"\" /x ext4",
                "tmpfs /x -t defaults",
                "tmpfs /x tmpfs bind,move",
                "tmpfs /x\033[31m tmpfs",
        };

        (void) state;
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(broken); i++) {
                struct blkup_fstab *t;
                char *text;

                assert_true(asprintf(&text, "tmpfs /a tmpfs\n%s\ntmpfs /b tmpfs\n", broken[i]) > 0);
                t = parse(text);
                if (t->n != 2 || t->n_bad != 1 || t->bad[0].line != 2)
                        fail_msg("'%s': %zu good, %zu bad", broken[i], t->n, t->n_bad);
                assert_non_null(t->bad[0].why);
                assert_string_equal(t->entries[1].target, "/b");
                assert_int_equal(t->entries[1].line, 3);
                blkup_fstab_free(t);
                free(text);
        }
}

static void test_nul_and_length(void **state)
{
        static const char nul[] = "tmpfs /a tmpfs\ntmpfs /x tm\0pfs\ntmpfs /b tmpfs\n";
        struct blkup_fstab *t;
        size_t n = 70000;
        char *text = malloc(n + 64);

        (void) state;
        assert_int_equal(blkup_fstab_parse(nul, sizeof(nul) - 1, &t), 0);
        assert_int_equal(t->n, 2);
        assert_int_equal(t->bad[0].line, 2);
        blkup_fstab_free(t);
        assert_non_null(text);
        memset(text, 'x', n);
        memcpy(text + n, "\ntmpfs /b tmpfs\n", 17);
        t = parse(text);
        assert_int_equal(t->n, 1);
        assert_int_equal(t->bad[0].line, 1);
        blkup_fstab_free(t);
        free(text);
        text = calloc(1, 5u << 20);
        assert_non_null(text);
        assert_int_equal(blkup_fstab_parse(text, 5u << 20, &t), -EFBIG);
        free(text);
}

/* Every prefix of a table is read without a crash, and never gives more entries than lines. */
static void test_every_cut(void **state)
{
        static const char text[] =
                "LABEL=\"a b\" /m\\040n ext4,xfs context=\"x,y\",nofail 1 2 # z\n\\ \\0 \\05 \"\n";

        (void) state;
        for (size_t n = 0; n < sizeof(text); n++) {
                BLKUP_CLEANUP_FREE char *copy = malloc(n + 1); /* the sanitizer sees a byte too far */
                struct blkup_fstab *t;

                assert_non_null(copy);
                memcpy(copy, text, n);
                assert_int_equal(blkup_fstab_parse(copy, n, &t), 0);
                assert_true(t->n + t->n_bad <= 2);
                blkup_fstab_free(t);
        }
}

static void test_types(void **state)
{
        (void) state;
        assert_true(blkup_mount_is_in_types(NULL, "ext4"));
        assert_true(blkup_mount_is_in_types("auto", "ext4"));
        assert_true(blkup_mount_is_in_types("xfs,ext4", "ext4"));
        assert_false(blkup_mount_is_in_types("xfs,ext", "ext4"));
        assert_false(blkup_mount_is_in_types("noext4,xfs", "xfs"));
        assert_false(blkup_mount_is_in_types("noext4,noxfs", "xfs"));
        assert_true(blkup_mount_is_in_types("noext4,xfs", "btrfs"));
}

static void test_load(void **state)
{
        struct blkup_error err = { 0 };
        struct blkup_fstab *t = NULL;

        (void) state;
        assert_int_equal(blkup_fstab_load("/nonexistent/fstab", &t, &err), -ENOENT);
        assert_non_null(strstr(err.message, "/nonexistent/fstab"));
        assert_null(t);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_fields), cmocka_unit_test(test_tags),
                cmocka_unit_test(test_quotes_in_options), cmocka_unit_test(test_escapes_in_options),
                cmocka_unit_test(test_broken_lines), cmocka_unit_test(test_nul_and_length),
                cmocka_unit_test(test_every_cut), cmocka_unit_test(test_types), cmocka_unit_test(test_load),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
