/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Two devices with one tag: which pairs belong together. On a machine that is made of files. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/tags.h"
#include "fake-root.h"

static struct fake_root root;
static struct blkup_cli_tags *tags;

/* The start of an ext4 file system, as much of it as names it: label, UUID and the magic. */
static void put_ext4(const char *path, const char *label, unsigned char uuid)
{
        static unsigned char image[65536];

        memset(image, 0, sizeof(image));
        image[1024 + 4] = 64;                    /* blocks */
        image[1024 + 0x20] = 32;
        image[1024 + 0x38] = 0x53;
        image[1024 + 0x39] = 0xef;
        image[1024 + 0x4c] = 1;                  /* dynamic revision */
        image[1024 + 0x58] = 0;
        image[1024 + 0x59] = 1;                  /* inodes of 256 bytes */
        image[1024 + 0x5c] = 4;                  /* has_journal */
        image[1024 + 0x60] = 0x42;               /* filetype, extents */
        memset(image + 1024 + 0x68, uuid, 16);
        memcpy(image + 1024 + 0x78, label, strlen(label));
        fake_root_write(&root, path, image, sizeof(image));
}

static void put_block(const char *name, const char *number, const char *folder)
{
        char path[256], link[256], to[300];

        (void) snprintf(path, sizeof(path), "sys/%s/size", folder);
        fake_root_file(&root, path, "128\n");
        (void) snprintf(path, sizeof(path), "sys/%s/dev", folder);
        fake_root_file(&root, path, number);
        (void) snprintf(path, sizeof(path), "sys/%s/ro", folder);
        fake_root_file(&root, path, "0\n");
        (void) snprintf(link, sizeof(link), "sys/class/block/%s", name);
        (void) snprintf(to, sizeof(to), "../../%s", folder);
        fake_root_link(&root, link, to);
}

static int set_up(void **state)
{
        (void) state;
        fake_root_make(&root);
        fake_root_file(
                &root, "proc/partitions",
                "major minor  #blocks  name\n\n"
                "   8        0         64 sda\n   8        1         64 sda1\n   8       16         64 sdb\n"
                "   8       32         64 sdc\n   8       48         64 sdd\n 253        0         64 dm-0\n"
                "   8       64         64 sde\n");
        put_ext4("dev/sda", "hybrid", 1);
        put_ext4("dev/sda1", "hybrid", 1);
        put_ext4("dev/sdb", "paths", 2);
        put_ext4("dev/sdc", "paths", 2);
        put_ext4("dev/dm-0", "paths", 2);
        put_ext4("dev/sdd", "twins", 3);
        put_ext4("dev/sde", "twins", 3);
        put_block("sda", "8:0\n", "devices/x/block/sda");
        put_block("sda1", "8:1\n", "devices/x/block/sda/sda1");
        fake_root_file(&root, "sys/devices/x/block/sda/sda1/partition", "1\n");
        fake_root_file(&root, "sys/devices/x/block/sda/sda1/start", "0\n");
        put_block("sdb", "8:16\n", "devices/x/block/sdb");
        put_block("sdc", "8:32\n", "devices/x/block/sdc");
        put_block("sdd", "8:48\n", "devices/x/block/sdd");
        put_block("sde", "8:64\n", "devices/x/block/sde");
        put_block("dm-0", "253:0\n", "devices/virtual/block/dm-0");
        fake_root_file(&root, "sys/devices/virtual/block/dm-0/dm/name", "mpatha\n");
        fake_root_file(&root, "sys/devices/virtual/block/dm-0/dm/suspended", "0\n");
        fake_root_link(&root, "sys/devices/virtual/block/dm-0/slaves/sdb", "../../../../x/block/sdb");
        fake_root_link(&root, "sys/devices/virtual/block/dm-0/slaves/sdc", "../../../../x/block/sdc");
        fake_root_link(&root, "sys/devices/x/block/sdb/holders/dm-0", "../../../../virtual/block/dm-0");
        fake_root_link(&root, "sys/devices/x/block/sdc/holders/dm-0", "../../../../virtual/block/dm-0");
        tags = blkup_cli_tags_new(root.path);
        assert_non_null(tags);
        return 0;
}

static int tear_down(void **state)
{
        (void) state;
        blkup_cli_tags_free(tags);
        fake_root_remove(&root);
        return 0;
}

static int find(const char *name, const char *value, struct blkup_mount_device *d)
{
        const struct blkup_mount_resolver *r = blkup_cli_tags_resolver(tags);

        memset(d, 0, sizeof(*d));
        return r->find(r->to, name, value, false, d, NULL);
}

static void is_device(const struct blkup_mount_device *d, const char *name)
{
        const char *slash = strrchr(d->path, '/');

        assert_non_null(slash);
        assert_string_equal(slash + 1, name);
}

static void test_disk_and_partition(void **state)
{
        struct blkup_mount_device d;

        (void) state;
        assert_int_equal(find("LABEL", "hybrid", &d), 0);
        is_device(&d, "sda1");
        assert_string_equal(d.type, "ext4");
        assert_int_equal(find("UUID", "01010101-0101-0101-0101-010101010101", &d), 0);
        is_device(&d, "sda1");
}

static void test_holder_and_slaves(void **state)
{
        struct blkup_mount_device d;

        (void) state;
        assert_int_equal(find("LABEL", "paths", &d), 0);
        is_device(&d, "dm-0");
}

static void test_strangers(void **state)
{
        struct blkup_mount_device d;

        (void) state;
        assert_int_equal(find("LABEL", "twins", &d), -ENOTUNIQ);
        is_device(&d, "sdd");
        assert_non_null(strstr(d.other_path, "/sde"));
        assert_int_equal(find("LABEL", "nobody", &d), -ENOENT);
        assert_int_equal(find("LABEL", "", &d), -ENOENT);
        assert_int_equal(find("NOSUCH", "twins", &d), -ENOENT);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_disk_and_partition), cmocka_unit_test(test_holder_and_slaves),
                cmocka_unit_test(test_strangers),
        };

        return cmocka_run_group_tests(tests, set_up, tear_down);
}
