/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fail-alloc.h"
#include "fake-root.h"
#include "host/mountinfo.h"

static const char sample[] =
        "22 28 0:20 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw\n"
        "23 28 0:21 / /proc rw,relatime shared:14 master:3 propagate_from:2 later:9 - proc proc rw\n"
        "28 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro\n"
        "31 28 0:26 /@home /home ro,noatime - btrfs /dev/mapper/my-vol rw,subvolid=257,subvol=/@home\n"
        "32 28 7:0 / /mnt/a\\040b\\011c\\012d\\134e rw unbindable - vfat /dev/loop0 rw,codepage=437\n"
        "33 28 0:4 mnt:[4026532281] /run/ns rw - nsfs nsfs rw\n"
        "34 28 0:50 / /mnt/empty rw - tmpfs  ro,size=1k\n"
        "35 28 254:1 /old//deleted /srv rw - ext4 /dev/vda1 rw\n"
        "36 35 8:17 / /srv rw - fuse.sshfs#x user@host:/a\\043b rw,lower=a\\054b\\134,with blank\n";

static struct blkup_mountinfo *parse(const char *text)
{
        struct blkup_mountinfo *t = NULL;

        assert_int_equal(blkup_mountinfo_parse(text, strlen(text), &t), 0);
        return t;
}

static void every_field_is_read(void **state)
{
        struct blkup_mountinfo *t = parse(sample);
        const struct blkup_mount *m;

        (void) state;
        assert_int_equal(t->n, 9);
        assert_int_equal(t->n_bad_lines, 0);
        m = &t->mounts[0];
        assert_int_equal(m->id, 22);
        assert_int_equal(m->parent_id, 28);
        assert_int_equal(m->dev_major, 0);
        assert_int_equal(m->dev_minor, 20);
        assert_string_equal(m->root, "/");
        assert_string_equal(m->target, "/sys");
        assert_string_equal(m->options, "rw,nosuid,nodev,noexec,relatime");
        assert_string_equal(m->fs_type, "sysfs");
        assert_string_equal(m->source, "sysfs");
        assert_string_equal(m->super_options, "rw");
        assert_int_equal(m->shared, 7);
        assert_int_equal(m->master, 0);
        assert_false(m->is_read_only);
        m = &t->mounts[1]; /* an optional field of a later kernel does no harm */
        assert_int_equal(m->shared, 14);
        assert_int_equal(m->master, 3);
        assert_int_equal(m->propagate_from, 2);
        assert_string_equal(m->fs_type, "proc");
        m = &t->mounts[3]; /* read-only as a mount */
        assert_true(m->is_read_only);
        assert_string_equal(m->root, "/@home");
        m = &t->mounts[4];
        assert_true(m->is_unbindable);
        assert_string_equal(m->target, "/mnt/a b\tc\nd\\e");
        assert_string_equal(t->mounts[5].root, "mnt:[4026532281]");
        m = &t->mounts[6]; /* no source, and read-only as a file system */
        assert_string_equal(m->source, "");
        assert_true(m->is_read_only);
        assert_string_equal(t->mounts[7].root, "/old//deleted");
        m = &t->mounts[8];
        assert_string_equal(m->fs_type, "fuse.sshfs#x");
        assert_string_equal(m->source, "user@host:/a#b");
        assert_string_equal(m->super_options, "rw,lower=a\\054b\\134,with blank");
        blkup_mountinfo_free(t);
}

static void a_bad_line_costs_that_line_only(void **state)
{
        static const char *const bad[] = {
                "",
                " ",
                "x",
                "1",
                "1 2",
                "1 2 3:4",
                "1 2 3:4 /",
                "1 2 3:4 / /m",
                "1 2 3:4 / /m rw",
                "1 2 3:4 / /m rw -",
                "1 2 3:4 / /m rw - t",
                "1 2 3:4 / /m rw - t s",
                "1 2 3:4 / /m rw - t s ",
                "1 2 3:4 / /m rw shared:1 t s rw",
                "1 2 3:4 / m rw - t s rw",
                "1 2 3:4  /m rw - t s rw",
                "1 2 3:4 / /m  - t s rw",
                "-1 2 3:4 / /m rw - t s rw",
                "1 +2 3:4 / /m rw - t s rw",
                "4294967296 2 3:4 / /m rw - t s rw",
                "1 2 34 / /m rw - t s rw",
                "1 2 :4 / /m rw - t s rw",
                "1 2 3: / /m rw - t s rw",
                "1 2 3:4294967296 / /m rw - t s rw",
                "1 2 3:4 / /m rw -  s rw",
                " 1 2 3:4 / /m rw - t s rw",
                "1 2 3:4x / /m rw - t s rw",
                "0x1 2 3:4 / /m rw - t s rw",
        };
        static const char good[] = "5 6 7:8 / /good rw - ext4 /dev/x rw\n";

        (void) state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                char text[512];
                struct blkup_mountinfo *t;

                (void) snprintf(text, sizeof(text), "%s%s\n%s", good, bad[i], good);
                t = parse(text);
                if (t->n != 2 || t->n_bad_lines != 1)
                        fail_msg("line \"%s\": %zu mounts, %zu bad lines", bad[i], t->n, t->n_bad_lines);
                assert_string_equal(t->mounts[1].target, "/good");
                blkup_mountinfo_free(t);
        }
        /* A NUL inside, and a line without its newline, which is still whole. */
        struct blkup_mountinfo *t;
        static const char nul[] = "1 2 3:4 / /m rw - t s r\0w\n5 6 7:8 / /good rw - ext4 /dev/x rw";

        assert_int_equal(blkup_mountinfo_parse(nul, sizeof(nul) - 1, &t), 0);
        assert_int_equal(t->n, 1);
        assert_int_equal(t->n_bad_lines, 1);
        assert_string_equal(t->mounts[0].super_options, "rw");
        blkup_mountinfo_free(t);
        assert_int_equal(blkup_mountinfo_parse(NULL, 0, &t), 0);
        assert_int_equal(t->n, 0);
        blkup_mountinfo_free(t);
}

static void limits_are_errors_not_short_answers(void **state)
{
        static const char line[] = "1 2 3:4 / /m rw - t s rw\n";
        size_t each = sizeof(line) - 1, n = BLKUP_MOUNTINFO_MAX_MOUNTS + 1;
        struct blkup_mountinfo *t = NULL;
        char *text = malloc(n * each);

        (void) state;
        for (size_t i = 0; i < n; i++)
                memcpy(text + i * each, line, each);
        assert_int_equal(blkup_mountinfo_parse(text, n * each, &t), -E2BIG);
        assert_null(t);
        assert_int_equal(blkup_mountinfo_parse(text, (n - 1) * each, &t), 0);
        assert_int_equal(t->n, BLKUP_MOUNTINFO_MAX_MOUNTS);
        blkup_mountinfo_free(t);
        t = NULL;
        assert_int_equal(blkup_mountinfo_parse(text, BLKUP_MOUNTINFO_MAX_BYTES + 1ul, &t), -EFBIG);
        assert_null(t);
        /* One line too long for a line; 65 optional fields. */
        memset(text, 'a', BLKUP_MOUNTINFO_MAX_LINE + 1);
        memcpy(text, "1 2 3:4 / /m rw - t s rw", each - 1);
        text[BLKUP_MOUNTINFO_MAX_LINE + 1] = '\n';
        memcpy(text + BLKUP_MOUNTINFO_MAX_LINE + 2, line, each);
        assert_int_equal(blkup_mountinfo_parse(text, BLKUP_MOUNTINFO_MAX_LINE + 2 + each, &t), 0);
        assert_int_equal(t->n, 1);
        assert_int_equal(t->n_bad_lines, 1);
        blkup_mountinfo_free(t);
        (void) strcpy(text, "1 2 3:4 / /m rw");
        for (unsigned i = 0; i < 65; i++)
                (void) strcat(text, " x:1");
        (void) strcat(text, " - t s rw\n");
        t = parse(text);
        assert_int_equal(t->n_bad_lines, 1);
        blkup_mountinfo_free(t);
        free(text);
}

static void options_are_found_whole_and_decoded(void **state)
{
        const char *list = "rw,subvol=/a\\040b,subvolid=7,empty=,flag,lower=x\\054y,bad=\\400\\18\\000\\";
        char value[16];

        (void) state;
        assert_int_equal(blkup_mount_option(list, "subvol", value, sizeof(value)), 0);
        assert_string_equal(value, "/a b");
        assert_int_equal(blkup_mount_option(list, "empty", value, sizeof(value)), 0);
        assert_string_equal(value, "");
        assert_int_equal(blkup_mount_option(list, "flag", value, sizeof(value)), 0);
        assert_string_equal(value, "");
        assert_int_equal(blkup_mount_option(list, "lower", value, sizeof(value)), 0);
        assert_string_equal(value, "x,y");
        assert_int_equal(blkup_mount_option(list, "bad", value, sizeof(value)), 0);
        assert_string_equal(value, "\\400\\18\\000\\"); /* none of these is an escape */
        assert_int_equal(blkup_mount_option(list, "rw", NULL, 0), 0);
        assert_int_equal(blkup_mount_option(list, "subvo", value, sizeof(value)), -ENOENT);
        assert_int_equal(blkup_mount_option(list, "ubvol", value, sizeof(value)), -ENOENT);
        assert_int_equal(blkup_mount_option("", "ro", NULL, 0), -ENOENT);
        (void) strcpy(value, "kept");
        assert_int_equal(blkup_mount_option(list, "subvol", value, 4), -ENAMETOOLONG);
        assert_string_equal(value, "kept");
        assert_int_equal(blkup_mount_option(list, "subvol", value, 5), 0);
}

static void tables_answer_questions(void **state)
{
        struct blkup_mountinfo *t = parse(sample);
        const struct blkup_mount *m;

        (void) state;
        m = blkup_mountinfo_by_device(t, 254, 1, NULL);
        assert_non_null(m);
        assert_string_equal(m->target, "/");
        m = blkup_mountinfo_by_device(t, 254, 1, m);
        assert_non_null(m);
        assert_string_equal(m->root, "/old//deleted");
        assert_null(blkup_mountinfo_by_device(t, 254, 1, m));
        assert_null(blkup_mountinfo_by_device(t, 254, 2, NULL));
        assert_null(blkup_mountinfo_by_device(NULL, 254, 1, NULL));
        m = blkup_mountinfo_by_source(t, "/dev/mapper/my-vol", NULL);
        assert_non_null(m);
        assert_string_equal(m->target, "/home");
        assert_null(blkup_mountinfo_by_source(t, "/dev/mapper/my-vol", m));
        m = blkup_mountinfo_by_source(t, "", NULL);
        assert_string_equal(m->target, "/mnt/empty");
        m = blkup_mountinfo_by_target(t, "/mnt/a b\tc\nd\\e");
        assert_non_null(m);
        assert_int_equal(m->id, 32);
        assert_ptr_equal(blkup_mountinfo_by_target(t, "/mnt/a b\tc\nd\\e///"), m);
        assert_int_equal(blkup_mountinfo_by_target(t, "/")->id, 28);
        assert_int_equal(blkup_mountinfo_by_target(t, "///")->id, 28);
        assert_int_equal(blkup_mountinfo_by_target(t, "/srv")->id, 36);
        assert_null(blkup_mountinfo_by_target(t, "/mn"));
        assert_null(blkup_mountinfo_by_target(t, "/mnt"));
        assert_null(blkup_mountinfo_by_target(t, ""));
        assert_null(blkup_mountinfo_by_target(NULL, "/"));
        assert_int_equal(blkup_mountinfo_by_id(t, 35)->dev_major, 254);
        assert_null(blkup_mountinfo_by_id(t, 99));
        /* 36 lies on 35. */
        assert_true(blkup_mountinfo_is_covered(t, blkup_mountinfo_by_id(t, 35)));
        assert_false(blkup_mountinfo_is_covered(t, blkup_mountinfo_by_id(t, 36)));
        assert_false(blkup_mountinfo_is_covered(t, blkup_mountinfo_by_id(t, 28)));
        blkup_mountinfo_free(t);
        assert_null(blkup_mountinfo_free(NULL));
}

static void what_lies_under_what(void **state)
{
        struct blkup_mountinfo *t = parse("1 1 0:1 / / rw - rootfs rootfs rw\n"
                                          "2 1 8:1 / / rw - ext4 /dev/a rw\n"
                                          "10 2 8:2 / /a/b rw - ext4 /dev/b rw\n"
                                          "11 2 8:3 / /a rw - ext4 /dev/c rw\n"
                                          "12 11 8:4 / /a/b rw - ext4 /dev/d rw\n"
                                          "13 2 8:5 / /ab rw - ext4 /dev/e rw\n"
                                          "14 10 8:6 / /a/b/c rw - ext4 /dev/f rw\n"
                                          /* put beneath: the older one became its child, and stands first */
                                          "20 21 8:7 / /m rw - ext4 /dev/g rw\n"
                                          "21 2 8:8 / /m rw - ext4 /dev/h rw\n");
        static const struct {
                uint32_t id;
                bool covered;
        } expected[] = {
                { 1, true },   { 2, false }, { 10, true },  { 11, false }, { 12, false },
                { 13, false }, { 14, true }, { 20, false }, { 21, true },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
                if (blkup_mountinfo_is_covered(t, blkup_mountinfo_by_id(t, expected[i].id)) !=
                    expected[i].covered)
                        fail_msg("mount %" PRIu32, expected[i].id);
        assert_int_equal(blkup_mountinfo_by_target(t, "/")->id, 2);
        assert_int_equal(blkup_mountinfo_by_target(t, "/a/b")->id, 12);
        assert_int_equal(blkup_mountinfo_by_target(t, "/m")->id, 20);
        blkup_mountinfo_free(t);

        /* Parents in a ring: an answer, whatever it is, in bounded time. */
        t = parse("1 2 0:1 / /x rw - t t rw\n2 3 0:1 / /x rw - t t rw\n3 1 0:1 / /x rw - t t rw\n");
        assert_non_null(blkup_mountinfo_by_target(t, "/x"));
        (void) blkup_mountinfo_is_covered(t, t->mounts);
        blkup_mountinfo_free(t);
        t = parse("1 2 0:1 / /x rw - t t rw\n2 1 0:1 / /y rw - t t rw\n");
        assert_false(blkup_mountinfo_is_covered(t, t->mounts));
        blkup_mountinfo_free(t);
}

static void cut_anywhere_it_stays_sane(void **state)
{
        struct blkup_mountinfo *whole = parse(sample);

        (void) state;
        for (size_t n = 0; n < sizeof(sample); n++) {
                char *exact = malloc(n ? n : 1); /* so that ASan sees a byte too far */
                struct blkup_mountinfo *t;
                size_t lines = 0;

                memcpy(exact, sample, n);
                assert_int_equal(blkup_mountinfo_parse(exact, n, &t), 0);
                free(exact);
                for (size_t i = 0; i < n; i++)
                        lines += sample[i] == '\n';
                assert_true(t->n == lines || t->n == lines + 1);
                assert_int_equal(t->n + t->n_bad_lines,
                                 lines + (n > 0 && n < sizeof(sample) && sample[n - 1] != '\n'));
                for (size_t i = 0; i < lines; i++)
                        assert_string_equal(t->mounts[i].target, whole->mounts[i].target);
                blkup_mountinfo_free(t);
        }
        blkup_mountinfo_free(whole);
}

static void changed_anyhow_it_stays_sane(void **state)
{
        static const char alphabet[] = "\n\n  -:/\\0479,\0\x80zr";
        uint64_t seed = 99;

        (void) state;
        for (unsigned round = 0; round < 20000; round++) {
                char text[sizeof(sample) - 1], value[64];
                struct blkup_mountinfo *t;

                memcpy(text, sample, sizeof(text));
                for (unsigned i = 0; i < 1 + round % 9; i++) {
                        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
                        text[(seed >> 33) % sizeof(text)] = alphabet[(seed >> 20) % (sizeof(alphabet) - 1)];
                }
                assert_int_equal(blkup_mountinfo_parse(text, sizeof(text), &t), 0);
                for (size_t i = 0; i < t->n; i++) {
                        const struct blkup_mount *m = &t->mounts[i];

                        assert_int_equal(m->target[0], '/');
                        assert_non_null(blkup_mountinfo_by_target(t, m->target));
                        assert_non_null(blkup_mountinfo_by_source(t, m->source, NULL));
                        (void) blkup_mountinfo_is_covered(t, m);
                        (void) !blkup_mount_option(m->super_options, "lower", value, sizeof(value));
                }
                blkup_mountinfo_free(t);
        }
}

/* ---- swap ---- */

static const char swaps_sample[] = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
                                   "/dev/vda2                               partition\t1048572\t\t12\t\t-2\n"
                                   "/swap\\040file\\040(deleted)               file\t\t4\t\t0\t\t32767\n"
                                   "/dev/zram0 later 9007199254740991 0 100\n";

static void swaps_are_read(void **state)
{
        static const char *const bad[] = {
                "/a partition",
                "/a partition 1 2",
                "/a partition 1 2 x",
                "a partition 1 2 3",
                "/a partition -1 2 3",
                "/a partition 9007199254740992 2 3",
                "/a partition 1 2 2147483648",
                "",
                "/a partition 1 2 --3",
        };
        struct blkup_swaps *t;
        struct fake_root root;

        (void) state;
        assert_int_equal(blkup_swaps_parse(swaps_sample, strlen(swaps_sample), &t), 0);
        assert_int_equal(t->n, 3);
        assert_int_equal(t->n_bad_lines, 0);
        assert_string_equal(t->swaps[0].path, "/dev/vda2");
        assert_int_equal(t->swaps[0].kind, BLKUP_SWAP_PARTITION);
        assert_int_equal(t->swaps[0].size_bytes, 1048572ul * 1024);
        assert_int_equal(t->swaps[0].used_bytes, 12 * 1024);
        assert_int_equal(t->swaps[0].priority, -2);
        assert_string_equal(t->swaps[1].path, "/swap file (deleted)");
        assert_int_equal(t->swaps[1].kind, BLKUP_SWAP_FILE);
        assert_int_equal(t->swaps[1].priority, 32767);
        assert_int_equal(t->swaps[2].kind, BLKUP_SWAP_OTHER);
        assert_int_equal(t->swaps[2].size_bytes, UINT64_C(9223372036854774784));
        blkup_swaps_free(t);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                char text[256];

                (void) snprintf(text, sizeof(text), "%s\n/b file 4 4 4\n", bad[i]);
                assert_int_equal(blkup_swaps_parse(text, strlen(text), &t), 0);
                if (t->n != 1 || t->n_bad_lines != 1)
                        fail_msg("line \"%s\"", bad[i]);
                blkup_swaps_free(t);
        }
        for (size_t n = 0; n < sizeof(swaps_sample); n++) {
                assert_int_equal(blkup_swaps_parse(swaps_sample, n, &t), 0);
                assert_true(t->n <= 3);
                blkup_swaps_free(t);
        }
        fake_root_make(&root);
        fake_root_file(&root, "proc/swaps", swaps_sample);
        assert_int_equal(blkup_swaps_load(root.path, &t, NULL), 0);
        assert_int_equal(t->n, 3);
        blkup_swaps_free(t);
        fake_root_remove(&root);
        assert_null(blkup_swaps_free(NULL));
}

/* ---- where it is read from ---- */

static void a_fake_root_is_read(void **state)
{
        struct fake_root root;
        struct blkup_mountinfo *t = NULL;
        struct blkup_error err = { 0 };

        (void) state;
        fake_root_make(&root);
        assert_int_equal(blkup_mountinfo_load(root.path, &t, &err), -ENOENT);
        assert_null(t);
        assert_int_equal(err.code, -ENOENT);
        assert_non_null(strstr(err.message, "/proc/self/mountinfo"));
        assert_int_equal(blkup_mountinfo_load(root.path, &t, NULL), -ENOENT);
        fake_root_file(&root, "proc/17/mountinfo", sample);
        fake_root_link(&root, "proc/self", "17");
        assert_int_equal(blkup_mountinfo_load(root.path, &t, &err), 0);
        assert_int_equal(t->n, 9);
        assert_int_equal(t->n_reads, 1);
        assert_false(t->is_moving);
        blkup_mountinfo_free(t);
        fake_root_remove(&root);

        /* An absolute link is one of the fake machine, not of ours. */
        fake_root_make(&root);
        fake_root_link(&root, "proc", "/proc");
        t = NULL;
        assert_int_not_equal(blkup_mountinfo_load(root.path, &t, &err), 0);
        assert_null(t);
        fake_root_remove(&root);

        /* A folder, a pipe, a file above the limit (sparse). */
        char path[PATH_MAX];
        fake_root_make(&root);
        fake_root_folder(&root, "proc/self/mountinfo");
        assert_int_equal(blkup_mountinfo_load(root.path, &t, &err), -EISDIR);
        fake_root_place(&root, "proc/self/mountinfo", path);
        assert_int_equal(rmdir(path), 0);
        assert_int_equal(mkfifo(path, 0600), 0);
        assert_int_equal(blkup_mountinfo_load(root.path, &t, &err),
                         0); /* nobody writes: empty, and no hang */
        assert_int_equal(t->n, 0);
        t = blkup_mountinfo_free(t);
        assert_int_equal(unlink(path), 0);
        fake_root_file(&root, "proc/self/mountinfo", sample);
        assert_int_equal(truncate(path, BLKUP_MOUNTINFO_MAX_BYTES + 1l), 0);
        assert_int_equal(blkup_mountinfo_load(root.path, &t, &err), -EFBIG);
        assert_null(t);
        fake_root_remove(&root);
}

static void an_open_file_is_read_from_its_start(void **state)
{
        struct fake_root root;
        struct blkup_mountinfo *t = NULL;
        struct blkup_error err = { 0 };
        char path[PATH_MAX], some[100];
        int fd, ends[2];

        (void) state;
        fake_root_make(&root);
        fake_root_file(&root, "mountinfo", sample);
        fake_root_place(&root, "mountinfo", path);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        for (unsigned i = 0; i < 2; i++) { /* wherever the fd stands, and it stays open */
                assert_int_equal(read(fd, some, sizeof(some)), i == 0 ? sizeof(some) : 0);
                assert_int_equal(blkup_mountinfo_load_fd(fd, &t, &err), 0);
                assert_int_equal(t->n, 9);
                assert_int_equal(t->n_reads, 1);
                t = blkup_mountinfo_free(t);
        }
        close(fd);
        fd = open(root.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(blkup_mountinfo_load_fd(fd, &t, &err), -EISDIR);
        close(fd);
        fake_root_remove(&root);
        assert_int_equal(pipe(ends), 0);
        assert_int_equal(blkup_mountinfo_load_fd(ends[0], &t, &err), -ESPIPE);
        assert_int_equal(err.code, -ESPIPE);
        assert_null(t);
        close(ends[0]);
        close(ends[1]);
}

static long load_with_failures(const struct fake_root *root, long after)
{
        struct blkup_mountinfo *t = NULL;
        struct blkup_swaps *s = NULL;
        int r, r2;
        long failed;

        fail_alloc_arm(after, false);
        r = blkup_mountinfo_load(root->path, &t, NULL);
        r2 = blkup_swaps_load(root->path, &s, NULL);
        failed = fail_alloc_disarm();
        assert_true(r == 0 ? t != NULL : r == -ENOMEM && !t);
        assert_true(r2 == 0 ? s != NULL : r2 == -ENOMEM && !s);
        if (failed)
                assert_true(r == -ENOMEM || r2 == -ENOMEM);
        blkup_mountinfo_free(t);
        blkup_swaps_free(s);
        return failed;
}

static void each_allocation_may_fail(void **state)
{
        struct fake_root root;
        char *many = malloc(200000);
        long n = 0;

        (void) state;
        many[0] = '\0';
        for (unsigned i = 0; i < 100; i++)
                (void) strcat(many, sample);
        fake_root_make(&root);
        fake_root_file(&root, "proc/self/mountinfo", many);
        fake_root_file(&root, "proc/swaps", swaps_sample);
        while (load_with_failures(&root, n) > 0)
                n++;
        assert_true(n > 8); /* else the wrapper is not linked in */
        fake_root_remove(&root);
        free(many);
}

static void the_machine_itself_is_read(void **state)
{
        struct blkup_mountinfo *t = NULL;
        struct blkup_swaps *s = NULL;
        const struct blkup_mount *proc;
        struct blkup_error err;
        struct stat st;
        int r;

        (void) state;
        r = blkup_mountinfo_load("", &t, &err);
        if (r == -ENOENT) {
                print_message("SKIP: no /proc here\n");
                skip();
        }
        assert_int_equal(r, 0);
        assert_true(t->n > 0);
        assert_int_equal(t->n_bad_lines, 0);
        proc = blkup_mountinfo_by_target(t, "/proc/");
        if (proc && strcmp(proc->fs_type, "proc") == 0) {
                assert_int_equal(stat("/proc", &st), 0);
                assert_int_equal(makedev(proc->dev_major, proc->dev_minor), st.st_dev);
                assert_false(blkup_mountinfo_is_covered(t, proc));
        }
        blkup_mountinfo_free(t);
        r = blkup_swaps_load(NULL, &s, &err);
        assert_true(r == 0 || r == -ENOENT);
        if (r == 0)
                assert_int_equal(s->n_bad_lines, 0);
        blkup_swaps_free(s);
}

/* ---- mounts that come and go while the table is read ---- */

#define STEADY 150

static atomic_bool stop_churn;

static void *churn(void *arg)
{
        const char *folder = arg;

        while (!atomic_load(&stop_churn))
                if (mount("blkup-churn", folder, "tmpfs", 0, "size=4k") == 0)
                        (void) umount2(folder, MNT_DETACH);
        return NULL;
}

/* In a process of its own, in a mount namespace of its own: nothing outlives it. Exit 0, or 77 with a reason.
 */
static int load_while_mounts_change(const char *folder)
{
        char path[PATH_MAX];
        unsigned read_again = 0;
        pthread_t thread;
        int fd;
        struct blkup_mountinfo *t;

        if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("blkup-base", folder, "tmpfs", 0, NULL) != 0)
                return 77;
        for (unsigned i = 0; i < STEADY; i++) {
                (void) snprintf(path, sizeof(path), "%s/%u", folder, i);
                if (mkdir(path, 0700) != 0 || mount("blkup-steady", path, "tmpfs", 0, "size=4k") != 0)
                        return 1;
        }

        /* Changes before a load are no reason to read twice. */
        fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
        (void) snprintf(path, sizeof(path), "%s/0", folder);
        if (fd < 0 || mount("blkup-more", path, "tmpfs", 0, "size=4k") != 0)
                return 2;
        for (unsigned i = 0; i < 2; i++) {
                if (blkup_mountinfo_load_fd(fd, &t, NULL) != 0 || t->n_reads != 1 || t->is_moving ||
                    !blkup_mountinfo_by_source(t, "blkup-more", NULL) ||
                    blkup_mountinfo_by_target(t, path) != blkup_mountinfo_by_source(t, "blkup-more", NULL))
                        return 3;
                blkup_mountinfo_free(t);
        }
        close(fd);
        if (umount2(path, MNT_DETACH) != 0)
                return 4;

        (void) snprintf(path, sizeof(path), "%s/churn", folder);
        if (mkdir(path, 0700) != 0 || pthread_create(&thread, NULL, churn, path) != 0)
                return 5;
        /* On a busy machine the other thread may not run for a while. */
        for (unsigned i = 0; i < 40 || (read_again == 0 && i < 5000); i++) {
                unsigned steady = 0;

                if (blkup_mountinfo_load(NULL, &t, NULL) != 0)
                        return 6;
                for (const struct blkup_mount *m = NULL;
                     (m = blkup_mountinfo_by_source(t, "blkup-steady", m));)
                        steady++;
                /* A table that is said to be a picture of one moment is one. */
                if (!t->is_moving && steady != STEADY)
                        return 7;
                if (t->n_reads > 8 || (t->is_moving && t->n_reads != 8))
                        return 8;
                read_again += t->n_reads > 1;
                blkup_mountinfo_free(t);
        }
        atomic_store(&stop_churn, true);
        (void) pthread_join(thread, NULL);
        return read_again > 0 ? 0 : 9;
}

static void mounts_may_change_meanwhile(void **state)
{
        struct fake_root root;
        int status;
        pid_t pid;

        (void) state;
        fake_root_make(&root);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
                _exit(load_while_mounts_change(root.path));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        fake_root_remove(&root);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77) {
                print_message("SKIP: mounting in a private namespace is not allowed here\n");
                skip();
        }
        assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_field_is_read),
                cmocka_unit_test(a_bad_line_costs_that_line_only),
                cmocka_unit_test(limits_are_errors_not_short_answers),
                cmocka_unit_test(options_are_found_whole_and_decoded),
                cmocka_unit_test(tables_answer_questions),
                cmocka_unit_test(what_lies_under_what),
                cmocka_unit_test(cut_anywhere_it_stays_sane),
                cmocka_unit_test(changed_anyhow_it_stays_sane),
                cmocka_unit_test(swaps_are_read),
                cmocka_unit_test(a_fake_root_is_read),
                cmocka_unit_test(an_open_file_is_read_from_its_start),
                cmocka_unit_test(each_allocation_may_fail),
                cmocka_unit_test(the_machine_itself_is_read),
                cmocka_unit_test(mounts_may_change_meanwhile),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
