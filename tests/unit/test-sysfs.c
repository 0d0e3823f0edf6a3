/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fail-alloc.h"
#include "fake-root.h"
#include "host/sysfs.h"

/* ---- a fake sysfs with the kernel's own layout ---- */

static void attribute(const struct fake_root *f, const char *folder, const char *name, const char *text)
{
        char path[PATH_MAX], line[8192];

        (void) snprintf(path, sizeof(path), "sys/devices/%s/%s", folder, name);
        (void) snprintf(line, sizeof(line), "%s\n", text);
        fake_root_file(f, path, line);
}

/* A device at sys/devices/FOLDER with its links in class/block, dev/block and, for a disk, block. */
static void device(const struct fake_root *f, const char *folder, uint32_t major, uint32_t minor,
                   const char *size, const char *more_uevent)
{
        const char *name = strrchr(folder, '/') + 1;
        char path[PATH_MAX], target[PATH_MAX], text[512];

        (void) snprintf(text, sizeof(text), "%u:%u", major, minor);
        attribute(f, folder, "dev", text);
        (void) snprintf(text, sizeof(text), "MAJOR=%u\nMINOR=%u\n%s", major, minor, more_uevent);
        attribute(f, folder, "uevent", text);
        attribute(f, folder, "size", size);
        (void) snprintf(target, sizeof(target), "../../devices/%s", folder);
        (void) snprintf(path, sizeof(path), "sys/class/block/%s", name);
        fake_root_link(f, path, target);
        (void) snprintf(path, sizeof(path), "sys/dev/block/%u:%u", major, minor);
        fake_root_link(f, path, target);
        if (!strstr(more_uevent, "DEVTYPE=partition")) {
                (void) snprintf(path, sizeof(path), "sys/block/%s", name);
                fake_root_link(f, path, target + 3);
        }
}

#define SDA "pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda"

static void make_machine(struct fake_root *f)
{
        fake_root_make(f);
        device(f, SDA, 8, 0, "1000215216", "DEVNAME=sda\nDEVTYPE=disk\nDISKSEQ=9");
        attribute(f, SDA, "ro", "0");
        attribute(f, SDA, "removable", "1");
        attribute(f, SDA, "hidden", "0");
        attribute(f, SDA, "alignment_offset", "0");
        attribute(f, SDA, "queue/logical_block_size", "512");
        attribute(f, SDA, "queue/physical_block_size", "4096");
        attribute(f, SDA, "queue/minimum_io_size", "8192");
        attribute(f, SDA, "queue/optimal_io_size", "65536");
        attribute(f, SDA, "queue/dax", "1");
        attribute(f, SDA, "queue/rotational", "1");
        device(f, SDA "/sda10", 8, 10, "2048", "DEVNAME=sda10\nDEVTYPE=partition\nDISKSEQ=9\nPARTN=10");
        attribute(f, SDA "/sda10", "partition", "10");
        attribute(f, SDA "/sda10", "start", "4096");
        attribute(f, SDA "/sda10", "ro", "1");
        device(f, SDA "/sda2", 8, 2, "2048",
               "DEVNAME=sda2\nDEVTYPE=partition\nPARTN=2\nPARTNAME=my root = it\nDISKSEQ=9");
        attribute(f, SDA "/sda2", "partition", "2");
        attribute(f, SDA "/sda2", "start", "2048");
        attribute(f, SDA "/sda2", "alignment_offset", "-1");
        fake_root_folder(f, "sys/devices/" SDA "/sda2/slaves");
        fake_root_link(f, "sys/devices/" SDA "/sda2/holders/dm-0", "../../../nowhere");
        fake_root_link(f, "sys/devices/" SDA "/sda2/holders/dm-10", "../../../nowhere");
        fake_root_link(f, "sys/devices/" SDA "/sda2/holders/dm-2", "../../../nowhere");
        device(f, "virtual/block/dm-0", 253, 0, "2000", "DEVNAME=dm-0\nDEVTYPE=disk");
        attribute(f, "virtual/block/dm-0", "dm/name", "my \\ vol\xff");
        attribute(f, "virtual/block/dm-0", "dm/uuid", "CRYPT-LUKS2-0123-my");
        attribute(f, "virtual/block/dm-0", "dm/suspended", "1");
        fake_root_link(f, "sys/devices/virtual/block/dm-0/slaves/sda2", "../../../nowhere");
        device(f, "virtual/block/md127", 9, 127, "4000", "DEVNAME=md127\nDEVTYPE=disk");
        attribute(f, "virtual/block/md127", "md/array_state", "clean");
        attribute(f, "virtual/block/md127", "md/level", "raid5");
        attribute(f, "virtual/block/md127", "md/metadata_version", "1.2");
        attribute(f, "virtual/block/md127", "md/raid_disks", "4 (3)");
        attribute(f, "virtual/block/md127", "md/degraded", "1");
        device(f, "virtual/block/loop3", 7, 3, "80", "DEVNAME=loop3\nDEVTYPE=disk");
        attribute(f, "virtual/block/loop3", "loop/backing_file", "/a b/\xc3\xa9.img (deleted)");
        attribute(f, "virtual/block/loop3", "loop/offset", "1048576");
        attribute(f, "virtual/block/loop3", "loop/sizelimit", "40960");
        attribute(f, "virtual/block/loop3", "loop/autoclear", "1");
        device(f, "virtual/block/cciss!c0d0", 104, 0, "7", "DEVNAME=cciss/c0d0\nDEVTYPE=disk");
        /* A hidden path of a multipath namespace: no number. */
        attribute(f, "virtual/block/nvme0c0n1", "uevent", "DEVTYPE=disk");
        attribute(f, "virtual/block/nvme0c0n1", "hidden", "1");
        attribute(f, "virtual/block/nvme0c0n1", "size", "5");
        fake_root_link(f, "sys/class/block/nvme0c0n1", "../../devices/virtual/block/nvme0c0n1");
        fake_root_link(f, "sys/block/nvme0c0n1", "../devices/virtual/block/nvme0c0n1");
        /* Going away: the link is still there, or the folder without its files. */
        fake_root_link(f, "sys/class/block/sdx", "../../devices/virtual/block/sdx");
        fake_root_folder(f, "sys/devices/virtual/block/sdy");
        fake_root_link(f, "sys/class/block/sdy", "../../devices/virtual/block/sdy");
        fake_root_link(f, "sys/dev/block/99:1", "../../devices/virtual/block/sdx");
}

static void check_basics(const struct blkup_sysblocks *t)
{
        static const char *const order[] = {
                "cciss!c0d0", "dm-0", "loop3", "md127", "nvme0c0n1", "sda", "sda2", "sda10",
        };
        const struct blkup_sysblock *b;

        assert_int_equal(t->n, 8);
        for (size_t i = 0; i < 8; i++)
                assert_string_equal(t->blocks[i].name, order[i]);
        b = blkup_sysblocks_by_name(t, "sda");
        assert_ptr_equal(b, blkup_sysblocks_by_devno(t, 8, 0));
        assert_true(b->has_devno);
        assert_string_equal(b->dev_name, "sda");
        assert_int_equal(b->size_sectors, 1000215216);
        assert_int_equal(b->diskseq, 9);
        assert_false(b->is_read_only);
        assert_true(b->is_removable);
        assert_false(b->is_partition);
        assert_string_equal(b->disk_name, "sda");
        assert_int_equal(b->disk_major, 8);
        assert_int_equal(b->disk_minor, 0);
        assert_ptr_equal(blkup_sysblocks_disk_of(t, b), b);
        b = blkup_sysblocks_by_devno(t, 8, 2);
        assert_true(b->is_partition);
        assert_int_equal(b->partition, 2);
        assert_int_equal(b->start_sectors, 2048);
        assert_int_equal(b->size_sectors, 2048);
        assert_string_equal(b->part_name, "my root = it");
        assert_true(b->is_removable);
        assert_int_equal(b->diskseq, 9);
        assert_string_equal(b->disk_name, "sda");
        assert_int_equal(b->disk_major, 8);
        assert_int_equal(b->disk_minor, 0);
        assert_ptr_equal(blkup_sysblocks_disk_of(t, b), blkup_sysblocks_by_name(t, "sda"));
        b = blkup_sysblocks_by_name(t, "sda10");
        assert_true(b->is_read_only);
        assert_null(b->part_name);
        b = blkup_sysblocks_by_name(t, "cciss!c0d0");
        assert_string_equal(b->dev_name, "cciss/c0d0");
        assert_int_equal(b->dev_major, 104);
        assert_int_equal(b->diskseq, 0);
        b = blkup_sysblocks_by_name(t, "nvme0c0n1");
        assert_true(b->is_hidden);
        assert_false(b->has_devno);
        assert_null(blkup_sysblocks_by_devno(t, 0, 0));
        assert_null(blkup_sysblocks_by_name(t, "sdx"));
        assert_null(blkup_sysblocks_by_name(NULL, "sda"));
        assert_null(blkup_sysblocks_by_devno(NULL, 8, 0));
}

static void check_details(const struct blkup_sysblocks *t)
{
        const struct blkup_sysblock *b;

        b = blkup_sysblocks_by_name(t, "sda");
        assert_int_equal(b->logical_block_bytes, 512);
        assert_int_equal(b->physical_block_bytes, 4096);
        assert_int_equal(b->min_io_bytes, 8192);
        assert_int_equal(b->optimal_io_bytes, 65536);
        assert_int_equal(b->alignment_offset_bytes, 0);
        assert_true(b->is_dax && b->is_rotational);
        assert_int_equal(b->n_holders, 0);
        assert_null(b->dm_name);
        b = blkup_sysblocks_by_name(t, "sda2");
        assert_int_equal(b->logical_block_bytes, 512);
        assert_int_equal(b->optimal_io_bytes, 65536);
        assert_true(b->is_rotational);
        assert_int_equal(b->alignment_offset_bytes, -1);
        assert_int_equal(b->n_holders, 3);
        assert_string_equal(b->holders[0], "dm-0");
        assert_string_equal(b->holders[1], "dm-2");
        assert_string_equal(b->holders[2], "dm-10");
        assert_int_equal(b->n_slaves, 0);
        b = blkup_sysblocks_by_name(t, "dm-0");
        assert_string_equal(b->dm_name, "my \\ vol\xff");
        assert_string_equal(b->dm_uuid, "CRYPT-LUKS2-0123-my");
        assert_true(b->dm_is_suspended);
        assert_int_equal(b->n_slaves, 1);
        assert_string_equal(b->slaves[0], "sda2");
        b = blkup_sysblocks_by_name(t, "md127");
        assert_null(b->dm_name);
        assert_string_equal(b->md_array_state, "clean");
        assert_string_equal(b->md_level, "raid5");
        assert_string_equal(b->md_metadata, "1.2");
        assert_int_equal(b->md_disks, 4);
        assert_int_equal(b->md_missing, 1);
        b = blkup_sysblocks_by_name(t, "loop3");
        assert_string_equal(b->loop_file, "/a b/\xc3\xa9.img (deleted)");
        assert_int_equal(b->loop_offset_bytes, 1048576);
        assert_int_equal(b->loop_sizelimit_bytes, 40960);
        assert_true(b->loop_is_autoclear);
        b = blkup_sysblocks_by_name(t, "cciss!c0d0");
        assert_int_equal(b->logical_block_bytes, 0);
        assert_null(b->loop_file);
}

static void the_table_of_a_machine_is_read(void **state)
{
        struct fake_root f;
        struct blkup_sysblocks *t = NULL;
        struct blkup_error err = { 0 };
        char path[PATH_MAX];

        (void) state;
        make_machine(&f);
        assert_int_equal(blkup_sysblocks_load(f.path, BLKUP_SYSFS_ALL, &t, &err), 0);
        assert_int_equal(t->n_skipped, 2);
        check_basics(t);
        check_details(t);
        assert_string_equal(blkup_sysblocks_by_name(t, "sda2")->sys_path, "devices/" SDA "/sda2");
        blkup_sysblocks_free(t);

        /* Nothing but the basics when nothing else is wanted. */
        assert_int_equal(blkup_sysblocks_load(f.path, 0, &t, NULL), 0);
        check_basics(t);
        assert_int_equal(blkup_sysblocks_by_name(t, "sda")->logical_block_bytes, 0);
        assert_int_equal(blkup_sysblocks_by_name(t, "sda2")->n_holders, 0);
        assert_null(blkup_sysblocks_by_name(t, "loop3")->loop_file);
        blkup_sysblocks_free(t);

        /* Without class/block: whole disks from block/, partitions below them. */
        (void) snprintf(path, sizeof(path), "%s/sys/class/block", f.path);
        assert_int_equal(nftw(path, fake_root_remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
        assert_int_equal(blkup_sysblocks_load(f.path, BLKUP_SYSFS_ALL, &t, &err), 0);
        check_basics(t);
        check_details(t);
        blkup_sysblocks_free(t);
        (void) snprintf(path, sizeof(path), "%s/sys/block", f.path);
        assert_int_equal(nftw(path, fake_root_remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
        t = NULL;
        assert_int_equal(blkup_sysblocks_load(f.path, BLKUP_SYSFS_ALL, &t, &err), -ENOENT);
        assert_null(t);
        assert_int_equal(err.code, -ENOENT);
        assert_non_null(strstr(err.message, "/sys/class/block"));
        assert_null(blkup_sysblocks_free(NULL));
        fake_root_remove(&f);
}

static void one_device_is_found_by_its_number(void **state)
{
        struct fake_root f;
        struct blkup_sysblocks *t = NULL;
        struct blkup_error err = { 0 };
        uint32_t major = 1, minor = 2, partition = 3;

        (void) state;
        make_machine(&f);
        assert_int_equal(blkup_sysblocks_load_one(f.path, 8, 2, BLKUP_SYSFS_ALL, &t, &err), 0);
        assert_int_equal(t->n, 2);
        assert_string_equal(t->blocks[0].name, "sda2");
        assert_string_equal(t->blocks[0].part_name, "my root = it");
        assert_int_equal(t->blocks[0].n_holders, 3);
        assert_string_equal(t->blocks[1].name, "sda");
        assert_ptr_equal(blkup_sysblocks_disk_of(t, &t->blocks[0]), &t->blocks[1]);
        blkup_sysblocks_free(t);
        assert_int_equal(blkup_sysblocks_load_one(f.path, 104, 0, 0, &t, NULL), 0);
        assert_int_equal(t->n, 1);
        assert_string_equal(t->blocks[0].name, "cciss!c0d0");
        blkup_sysblocks_free(t);
        t = NULL;
        assert_int_equal(blkup_sysblocks_load_one(f.path, 8, 99, 0, &t, &err), -ENODEV);
        assert_int_equal(blkup_sysblocks_load_one(f.path, 99, 1, 0, &t, &err), -ENODEV);
        assert_null(t);
        assert_non_null(strstr(err.message, "99:1"));

        assert_int_equal(blkup_sysfs_whole_disk(f.path, 8, 10, &major, &minor, &partition), 0);
        assert_int_equal(major, 8);
        assert_int_equal(minor, 0);
        assert_int_equal(partition, 10);
        assert_int_equal(blkup_sysfs_whole_disk(f.path, 253, 0, &major, &minor, &partition), 0);
        assert_int_equal(major, 253);
        assert_int_equal(minor, 0);
        assert_int_equal(partition, 0);
        assert_int_equal(blkup_sysfs_whole_disk(f.path, 99, 1, &major, &minor, &partition), -ENODEV);
        assert_int_equal(blkup_sysfs_whole_disk(f.path, 1, 1, &major, &minor, &partition), -ENODEV);
        assert_int_equal(major, 253);
        fake_root_remove(&f);
}

/* A copy of sysfs that lost its links (an archive, a test's own tree): folders tell what links would have
 * told. */
static void a_tree_without_links_is_read(void **state)
{
        struct fake_root f;
        struct blkup_sysblocks *t = NULL;
        uint32_t major, minor, partition;

        (void) state;
        fake_root_make(&f);
        fake_root_file(&f, "sys/block/cciss!c0d0/uevent", "MAJOR=104\nMINOR=0\nDEVNAME=cciss/c0d0\n");
        fake_root_file(&f, "sys/block/cciss!c0d0/dev", "104:0\n");
        fake_root_file(&f, "sys/block/cciss!c0d0/size", "100\n");
        fake_root_file(&f, "sys/block/cciss!c0d0/md/array_state", "inactive\n");
        fake_root_file(&f, "sys/block/cciss!c0d0/md/raid_disks", "\n");
        fake_root_file(&f, "sys/block/cciss!c0d0/cciss!c0d0p1/uevent",
                       "DEVNAME=cciss/c0d0p1\nDEVTYPE=partition\n");
        fake_root_file(&f, "sys/block/cciss!c0d0/cciss!c0d0p1/dev", "104:1\n");
        fake_root_file(&f, "sys/block/cciss!c0d0/cciss!c0d0p1/size", "50\n");
        fake_root_file(&f, "sys/block/cciss!c0d0/cciss!c0d0p1/start", "8\n");
        fake_root_file(&f, "sys/block/cciss!c0d0/cciss!c0d0p1/partition", "1\n");
        fake_root_file(&f, "sys/block/a-file", "");
        fake_root_file(&f, "sys/dev/block/104:0/size", "100\n");
        fake_root_file(&f, "sys/dev/block/104:0/uevent", "MAJOR=104\nMINOR=0\nDEVNAME=cciss/c0d0\n");
        /* Numbers that are not those of the name; a device whose name nobody tells; partitions without a
         * disk. */
        fake_root_file(&f, "sys/dev/block/8:0/size", "100\n");
        fake_root_file(&f, "sys/dev/block/8:0/uevent", "MAJOR=8\nMINOR=1\nDEVNAME=sda\n");
        fake_root_file(&f, "sys/dev/block/8:2/size", "100\n");
        fake_root_file(&f, "sys/dev/block/8:2/dev", "8:2\n");
        fake_root_file(&f, "sys/dev/block/8:3/size", "100\n");
        fake_root_file(&f, "sys/dev/block/8:3/uevent", "MAJOR=8\nMINOR=3\nDEVNAME=sda3\n");
        fake_root_file(&f, "sys/dev/block/8:3/start", "1\n");
        fake_root_file(&f, "sys/dev/block/8:3/partition", "3\n");
        fake_root_file(&f, "sys/dev/block/8:4/partition", "x\n");

        assert_int_equal(blkup_sysblocks_load(f.path, BLKUP_SYSFS_ALL, &t, NULL), 0);
        assert_int_equal(t->n, 2);
        assert_int_equal(t->n_skipped, 1);
        assert_string_equal(t->blocks[0].name, "cciss!c0d0");
        assert_string_equal(t->blocks[0].dev_name, "cciss/c0d0");
        assert_null(t->blocks[0].sys_path);
        assert_null(t->blocks[0].md_array_state); /* a name that no array has */
        assert_int_equal(t->blocks[0].md_disks, 0);
        assert_string_equal(t->blocks[1].name, "cciss!c0d0p1");
        assert_string_equal(t->blocks[1].disk_name, "cciss!c0d0");
        assert_int_equal(t->blocks[1].disk_major, 104);
        assert_ptr_equal(blkup_sysblocks_disk_of(t, &t->blocks[1]), &t->blocks[0]);
        blkup_sysblocks_free(t);
        assert_int_equal(blkup_sysblocks_load_one(f.path, 104, 0, 0, &t, NULL), 0);
        assert_string_equal(t->blocks[0].name, "cciss!c0d0");
        blkup_sysblocks_free(t);
        t = NULL;
        for (minor = 0; minor < 4; minor++)
                assert_int_equal(blkup_sysblocks_load_one(f.path, 8, minor, 0, &t, NULL), -ENODEV);
        assert_null(t);
        assert_int_equal(blkup_sysfs_whole_disk(f.path, 8, 3, &major, &minor, &partition), -ENODEV);
        assert_int_equal(blkup_sysfs_whole_disk(f.path, 8, 4, &major, &minor, &partition), -ENODEV);
        fake_root_remove(&f);
}

static void a_link_under_a_root_stays_under_it(void **state)
{
        struct fake_root f, outside;
        struct blkup_sysblocks *t = NULL;
        char target[PATH_MAX];

        (void) state;
        fake_root_make(&outside);
        fake_root_file(&outside, "sdz/size", "1\n");
        fake_root_file(&outside, "sdz/dev", "8:99\n");
        fake_root_make(&f);
        device(&f, "virtual/block/sda", 8, 0, "4", "DEVNAME=sda\nDEVTYPE=disk");
        (void) snprintf(target, sizeof(target), "%s/sdz", outside.path);
        fake_root_link(&f, "sys/class/block/sdz", target);
        (void) snprintf(target, sizeof(target), "../../../../../../../../../..%s/sdz", outside.path);
        fake_root_link(&f, "sys/class/block/sdzz", target);
        assert_int_equal(blkup_sysblocks_load(f.path, 0, &t, NULL), 0);
        assert_int_equal(t->n, 1);
        assert_int_equal(t->n_skipped, 2);
        blkup_sysblocks_free(t);
        fake_root_remove(&f);
        fake_root_remove(&outside);
}

static void devices_that_make_no_sense_are_left_out(void **state)
{
        static const struct {
                const char *name, *text;
        } bad[] = {
                { "size", "" },   { "size", "-1" },     { "size", "18446744073709551616" }, { "size", "1k" },
                { "size", " 1" }, { "partition", "0" }, { "partition", "4294967296" },      { "start", "x" },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct fake_root f;
                struct blkup_sysblocks *t;

                fake_root_make(&f);
                device(&f, "virtual/block/sda", 8, 0, "4", "DEVNAME=sda\nDEVTYPE=disk");
                device(&f, "virtual/block/sda/sda1", 8, 1, "4", "DEVNAME=sda1\nDEVTYPE=partition");
                attribute(&f, "virtual/block/sda/sda1", "partition", "1");
                attribute(&f, "virtual/block/sda/sda1", "start", "1");
                attribute(&f, "virtual/block/sda/sda1", bad[i].name, bad[i].text);
                assert_int_equal(blkup_sysblocks_load(f.path, BLKUP_SYSFS_ALL, &t, NULL), 0);
                if (t->n != 1 || t->n_skipped != 1 || strcmp(t->blocks[0].name, "sda") != 0)
                        fail_msg("%s \"%s\": %zu devices", bad[i].name, bad[i].text, t->n);
                blkup_sysblocks_free(t);
                fake_root_remove(&f);
        }
}

/* Every text of a device, cut at every byte and changed at random. */
static void cut_or_changed_it_stays_sane(void **state)
{
        static const char uevent[] = "MAJOR=8\nMINOR=0\nDEVNAME=sda\nDEVTYPE=disk\nDISKSEQ=9\nPARTNAME=x\n";
        static const char alphabet[] = "\n=08A\0\xff-/!";
        struct fake_root f;
        uint64_t seed = 3;

        (void) state;
        fake_root_make(&f);
        device(&f, "virtual/block/sda", 8, 0, "4", "DEVNAME=sda\nDEVTYPE=disk");
        for (unsigned round = 0; round < sizeof(uevent) + 1500; round++) {
                struct blkup_sysblocks *t = NULL;
                char text[sizeof(uevent)];
                size_t n = round < sizeof(uevent) ? round : sizeof(uevent) - 1;
                int r;

                memcpy(text, uevent, sizeof(text));
                for (unsigned i = 0; round >= sizeof(uevent) && i < 1 + round % 7; i++) {
                        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
                        text[(seed >> 33) % n] = alphabet[(seed >> 20) % (sizeof(alphabet) - 1)];
                }
                fake_root_write(&f, "sys/devices/virtual/block/sda/uevent", text, n);
                assert_int_equal(blkup_sysblocks_load(f.path, 0, &t, NULL), 0);
                assert_int_equal(t->n, 1); /* `dev` and the link are enough */
                assert_string_equal(t->blocks[0].name, "sda");
                assert_true(t->blocks[0].has_devno);
                blkup_sysblocks_free(t);
                t = NULL;
                r = blkup_sysblocks_load_one(f.path, 8, 0, 0, &t, NULL);
                assert_true(r == 0 ? t->blocks[0].dev_major == 8 : r == -ENODEV && !t);
                blkup_sysblocks_free(t);
        }
        fake_root_remove(&f);
}

static void each_allocation_may_fail(void **state)
{
        struct fake_root f;
        struct blkup_sysblocks *t = NULL;
        struct blkup_modaliases *m = NULL;
        long n = 0;

        (void) state;
        make_machine(&f);
        for (unsigned i = 0; i < 60; i++) { /* so that no allocation holds them all */
                char folder[64];

                (void) snprintf(folder, sizeof(folder), "virtual/block/zz%u", i);
                device(&f, folder, 300, i, "8", "DEVTYPE=disk");
                attribute(&f, folder, "loop/backing_file",
                          "/a/file/with/a/name/of/some/length/that/fills/the/pool");
        }
        for (unsigned i = 0; i < 300; i++) {
                char folder[64], alias[64];

                (void) snprintf(folder, sizeof(folder), "bus/d%u", i);
                (void) snprintf(alias, sizeof(alias), "pci:v0000%04Xd*", i);
                attribute(&f, folder, "modalias", alias);
        }
        for (long failed = 1; failed > 0; n++) {
                int r;

                fail_alloc_arm(n, false);
                r = blkup_sysblocks_load(f.path, BLKUP_SYSFS_ALL, &t, NULL);
                failed = fail_alloc_disarm();
                /* A name that found no memory may only cost its device when the kernel could be the reason.
                 */
                assert_int_equal(r, failed ? -ENOMEM : 0);
        }
        assert_true(n > 8); /* else the wrapper is not linked in */
        assert_int_equal(t->n, 68);
        blkup_sysblocks_free(t);
        n = 0;
        for (long failed = 1; failed > 0; n++) {
                int r;

                fail_alloc_arm(n, false);
                r = blkup_modaliases_load(f.path, &m, NULL);
                failed = fail_alloc_disarm();
                assert_int_equal(r, failed ? -ENOMEM : 0);
        }
        assert_true(n > 5);
        assert_int_equal(m->n, 300);
        blkup_modaliases_free(m);
        fake_root_remove(&f);
}

/* ---- modaliases ---- */

static bool has_alias(const struct blkup_modaliases *m, const char *alias)
{
        for (size_t i = 0; i < m->n; i++)
                if (strcmp(m->aliases[i], alias) == 0)
                        return true;
        return false;
}

/* A device whose files cannot be opened for want of descriptors has not gone: it is an error, or all are
 * there. */
static void without_descriptors_nothing_is_left_out(void **state)
{
        struct rlimit usual, few;
        struct fake_root f;
        int first = open("/dev/null", O_RDONLY | O_CLOEXEC), refused = 0, whole = 0;

        (void) state;
        assert_true(first >= 0);
        assert_int_equal(close(first), 0);
        make_machine(&f);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
        few = usual;
        for (unsigned more = 0; more < 8; more++) {
                struct blkup_sysblocks *t = NULL;
                int r;

                few.rlim_cur = (rlim_t) first + more;
                assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
                r = blkup_sysblocks_load(f.path, BLKUP_SYSFS_ALL, &t, NULL);
                assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
                if (r < 0) {
                        assert_int_equal(r, -EMFILE);
                        refused++;
                        continue;
                }
                check_basics(t);
                check_details(t);
                whole++;
                (void) blkup_sysblocks_free(t);
        }
        assert_true(refused > 0);
        assert_true(whole > 0);
        fake_root_remove(&f);
}

static void aliases_are_gathered_once_each(void **state)
{
        struct fake_root f;
        struct blkup_modaliases *m = NULL;
        struct blkup_error err = { 0 };

        (void) state;
        fake_root_make(&f);
        assert_int_equal(blkup_modaliases_load(f.path, &m, &err), -ENOENT);
        assert_null(m);
        assert_non_null(strstr(err.message, "/sys/devices"));
        attribute(&f, "pci0000:00/0000:00:01.0", "modalias", "pci:v00001AF4d00001042");
        attribute(&f, "pci0000:00/0000:00:01.0", "uevent", "PCI_ID=1AF4\nMODALIAS=not:read\nX=y");
        attribute(&f, "pci0000:00/0000:00:01.0/virtio0", "modalias", "virtio:d00000002v00001AF4");
        attribute(&f, "pci0000:00/0000:00:02.0/virtio1", "modalias", "virtio:d00000002v00001AF4");
        /* two lines, one of them a repetition */
        attribute(&f, "LNXSYSTM:00/PNP0A03:00", "modalias",
                  "acpi:PNP0A08:PNP0A03:\nvirtio:d00000002v00001AF4");
        /* no modalias file: the uevent tells */
        attribute(&f, "platform/mdio/phy0", "uevent", "DRIVER=x\nMODALIAS=mdio:0000000000100010");
        attribute(&f, "platform/mdio/phy1", "uevent", "XMODALIAS=no:1\nMODALIASX=no:2\nMODALIAS=");
        attribute(&f, "platform/empty", "modalias", "");
        attribute(&f, "platform/odd", "modalias", "a b\nc\td\ne\x7f\nutf:\xc3\xa9");
        attribute(&f, "platform/cut", "uevent", "MODALIAS");
        /* links are not followed, and a link named modalias is not read */
        fake_root_file(&f, "elsewhere/modalias", "evil:1\n");
        fake_root_link(&f, "sys/devices/platform/link", "../../../elsewhere");
        fake_root_link(&f, "sys/devices/platform/linked/modalias", "../../../../elsewhere/modalias");
        fake_root_link(&f, "sys/devices/platform/up", "..");
        /* power management has no devices in it */
        attribute(&f, "platform/odd/power", "modalias", "power:1");
        /* a pipe in the place of a file is no hang */
        char path[PATH_MAX];
        fake_root_place(&f, "sys/devices/platform/pipe/modalias", path);
        assert_int_equal(mkfifo(path, 0600), 0);

        assert_int_equal(blkup_modaliases_load(f.path, &m, &err), 0);
        assert_int_equal(m->n, 5);
        assert_string_equal(m->aliases[0], "acpi:PNP0A08:PNP0A03:"); /* sorted */
        assert_string_equal(m->aliases[1], "mdio:0000000000100010");
        assert_string_equal(m->aliases[2], "pci:v00001AF4d00001042");
        assert_string_equal(m->aliases[3], "utf:\xc3\xa9");
        assert_string_equal(m->aliases[4], "virtio:d00000002v00001AF4");
        assert_int_equal(m->n_told, 7);
        assert_int_equal(m->n_skipped, 4); /* three lines, one link */
        assert_false(has_alias(m, "evil:1"));
        blkup_modaliases_free(m);
        assert_null(blkup_modaliases_free(NULL));
        fake_root_remove(&f);
}

/* Links to devices as a bus has them. */
static void on_bus(const struct fake_root *f, const char *bus, const char *device, const char *folder)
{
        char path[PATH_MAX], to[PATH_MAX];

        (void) snprintf(path, sizeof(path), "sys/bus/%s/devices/%s", bus, device);
        (void) snprintf(to, sizeof(to), "../../../devices/%s", folder);
        fake_root_link(f, path, to);
}

static void aliases_of_buses_are_enough(void **state)
{
        struct fake_root f;
        struct blkup_modaliases *m = NULL;

        (void) state;
        fake_root_make(&f);
        attribute(&f, "pci0000:00/0000:00:01.0", "modalias", "pci:v00001AF4d00001042");
        attribute(&f, "pci0000:00/0000:00:01.0/virtio0", "modalias", "virtio:d00000002v00001AF4");
        /* on no bus: nothing is to be found for it, and its folder is not looked into */
        attribute(&f, "pci0000:00/0000:00:01.0/virtio0/block/vda", "modalias", "no:1");
        fake_root_file(&f, "sys/devices/platform/phy0/uevent", "DRIVER=x\nMODALIAS=mdio:0000000000100010\n");
        fake_root_file(&f, "sys/devices/host0/uevent", "MODALIAS=no:2\n");
        attribute(&f, "input/input0", "modalias", "input:b0003");
        attribute(&f, "virtual/dmi/id", "modalias", "dmi:bvnX:");
        attribute(&f, "system/cpu", "modalias", "cpu:type:x86");
        fake_root_file(&f, "elsewhere/modalias", "evil:1\n");
        on_bus(&f, "pci", "0000:00:01.0", "pci0000:00/0000:00:01.0");
        on_bus(&f, "virtio", "virtio0", "pci0000:00/0000:00:01.0/virtio0");
        on_bus(&f, "virtio", "gone", "pci0000:00/0000:00:02.0/virtio1");
        on_bus(&f, "mdio_bus", "phy0", "platform/phy0");
        on_bus(&f, "scsi", "host0", "host0");
        fake_root_link(&f, "sys/class/input/input0", "../../devices/input/input0");
        fake_root_link(&f, "sys/class/dmi/id", "../../devices/virtual/dmi/id");
        /* a link as the attribute itself is not followed */
        fake_root_link(&f, "sys/devices/odd/modalias", "../../../elsewhere/modalias");
        on_bus(&f, "platform", "odd", "odd");
        fake_root_file(&f, "sys/bus/platform/drivers_autoprobe", "1\n");

        assert_int_equal(blkup_modaliases_load(f.path, &m, NULL), 0);
        assert_int_equal(m->n, 6);
        assert_string_equal(m->aliases[0], "cpu:type:x86");
        assert_string_equal(m->aliases[1], "dmi:bvnX:");
        assert_string_equal(m->aliases[2], "input:b0003");
        assert_string_equal(m->aliases[3], "mdio:0000000000100010");
        assert_string_equal(m->aliases[4], "pci:v00001AF4d00001042");
        assert_string_equal(m->aliases[5], "virtio:d00000002v00001AF4");
        assert_int_equal(m->n_skipped, 1); /* the link */
        blkup_modaliases_free(m);
        fake_root_remove(&f);
}

static void the_walk_is_bounded(void **state)
{
        struct fake_root f;
        struct blkup_modaliases *m;
        char folder[1024] = "d", alias[BLKUP_MODALIAS_MAX_BYTES + 2];

        (void) state;
        fake_root_make(&f);
        /* A folder at depth 1, 2 ... 70 (sys/devices itself is the first level). */
        for (unsigned depth = 1; depth <= 70; depth++) {
                (void) snprintf(alias, sizeof(alias), "depth:%u", depth);
                attribute(&f, folder, "modalias", alias);
                (void) strcat(folder, "/d");
        }
        /* The longest alias, one byte more, and a file above a page. */
        memset(alias, 'x', sizeof(alias));
        alias[BLKUP_MODALIAS_MAX_BYTES] = '\0';
        attribute(&f, "longest", "modalias", alias);
        alias[BLKUP_MODALIAS_MAX_BYTES] = 'x';
        alias[BLKUP_MODALIAS_MAX_BYTES + 1] = '\0';
        attribute(&f, "longer", "modalias", alias);
        assert_int_equal(blkup_modaliases_load(f.path, &m, NULL), 0);
        assert_int_equal(m->n, 63 + 1);
        assert_true(has_alias(m, "depth:63"));
        assert_false(has_alias(m, "depth:64"));
        assert_int_equal(m->n_skipped, 2);
        alias[BLKUP_MODALIAS_MAX_BYTES] = '\0';
        assert_true(has_alias(m, alias));
        blkup_modaliases_free(m);
        fake_root_remove(&f);

        /* More aliases than the limit: an error, not a part. */
        fake_root_make(&f);
        char *text = malloc(4000);
        for (unsigned file = 0, next = 0; next <= BLKUP_MODALIAS_MAX; file++) {
                size_t at = 0;

                while (at < 3900 && next <= BLKUP_MODALIAS_MAX)
                        at += (size_t) sprintf(text + at, "%x\n", next++);
                (void) snprintf(folder, sizeof(folder), "d%u", file);
                attribute(&f, folder, "modalias", text);
        }
        m = NULL;
        assert_int_equal(blkup_modaliases_load(f.path, &m, NULL), -E2BIG);
        assert_null(m);
        (void) snprintf(folder, sizeof(folder), "sys/devices/d0");
        fake_root_file(&f, "sys/devices/d0/modalias", "1\n"); /* some fewer */
        assert_int_equal(blkup_modaliases_load(f.path, &m, NULL), 0);
        assert_true(m->n > BLKUP_MODALIAS_MAX - 4000);
        for (size_t i = 1; i < m->n; i++)
                assert_true(strcmp(m->aliases[i - 1], m->aliases[i]) < 0);
        blkup_modaliases_free(m);
        free(text);
        fake_root_remove(&f);
}

/* ---- the real one ---- */

static void the_machine_itself_is_read(void **state)
{
        struct blkup_sysblocks *t = NULL;
        struct blkup_modaliases *m = NULL;
        struct blkup_error err;
        int r;

        (void) state;
        r = blkup_sysblocks_load("", BLKUP_SYSFS_ALL, &t, &err);
        if (r == -ENOENT) {
                print_message("SKIP: no /sys here\n");
                skip();
        }
        assert_int_equal(r, 0);
        for (size_t i = 0; i < t->n; i++) {
                const struct blkup_sysblock *b = &t->blocks[i];
                uint32_t major, minor, partition;
                char path[PATH_MAX];
                FILE *size;
                uint64_t sectors;

                assert_non_null(b->sys_path);
                /* Loop devices come and go under us; the others are expected to stay for a moment. */
                if (!b->has_devno || strncmp(b->name, "loop", 4) == 0)
                        continue;
                (void) snprintf(path, sizeof(path), "/sys/%s/size", b->sys_path);
                size = fopen(path, "re");
                assert_non_null(size);
                assert_int_equal(fscanf(size, "%" SCNu64, &sectors), 1);
                fclose(size);
                assert_int_equal(b->size_sectors, sectors);
                assert_true(b->logical_block_bytes >= 512);
                assert_int_equal(blkup_sysfs_whole_disk(NULL, b->dev_major, b->dev_minor, &major, &minor,
                                                        &partition),
                                 0);
                assert_int_equal(major, b->disk_major);
                assert_int_equal(minor, b->disk_minor);
                assert_int_equal(partition, b->partition);
                struct blkup_sysblocks *one;
                assert_int_equal(blkup_sysblocks_load_one(NULL, b->dev_major, b->dev_minor, 0, &one, &err),
                                 0);
                assert_string_equal(one->blocks[0].name, b->name);
                assert_string_equal(one->blocks[0].sys_path, b->sys_path);
                assert_int_equal(one->n, b->is_partition ? 2 : 1);
                blkup_sysblocks_free(one);
        }
        blkup_sysblocks_free(t);
        assert_int_equal(blkup_modaliases_load(NULL, &m, &err), 0);
        assert_true(m->n <= m->n_told);
        assert_true(m->n_folders > 1);
        blkup_modaliases_free(m);
}

static const struct blkup_modaliases *of_machine;
static unsigned n_seen;

static int see_alias(const char *path, const struct stat *st, int kind, struct FTW *at)
{
        char line[4200];
        FILE *file;

        (void) st;
        if (kind != FTW_F || strcmp(path + at->base, "modalias") != 0)
                return 0;
        file = fopen(path, "re");
        while (file && fgets(line, sizeof(line), file)) {
                line[strcspn(line, "\n")] = '\0';
                if (!*line)
                        continue;
                n_seen++;
                if (!has_alias(of_machine, line))
                        print_error("%s: %s is missing\n", path, line);
                assert_true(has_alias(of_machine, line));
        }
        if (file)
                fclose(file);
        return 0;
}

/* What the buses tell is all that is in the tree. */
static void the_machine_has_no_other_alias(void **state)
{
        struct blkup_modaliases *m = NULL;

        (void) state;
        if (access("/sys/bus", F_OK) < 0) {
                print_message("SKIP: no /sys/bus here\n");
                skip();
        }
        assert_int_equal(blkup_modaliases_load("", &m, NULL), 0);
        of_machine = m;
        assert_int_equal(nftw("/sys/devices", see_alias, 64, FTW_PHYS), 0);
        assert_true(n_seen > 0);
        assert_true(m->n > 0 && m->n <= n_seen);
        blkup_modaliases_free(m);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_table_of_a_machine_is_read),
                cmocka_unit_test(one_device_is_found_by_its_number),
                cmocka_unit_test(a_tree_without_links_is_read),
                cmocka_unit_test(a_link_under_a_root_stays_under_it),
                cmocka_unit_test(devices_that_make_no_sense_are_left_out),
                cmocka_unit_test(cut_or_changed_it_stays_sane),
                cmocka_unit_test(each_allocation_may_fail),
                cmocka_unit_test(without_descriptors_nothing_is_left_out),
                cmocka_unit_test(aliases_are_gathered_once_each),
                cmocka_unit_test(aliases_of_buses_are_enough),
                cmocka_unit_test(the_walk_is_bounded),
                cmocka_unit_test(the_machine_itself_is_read),
                cmocka_unit_test(the_machine_has_no_other_alias),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
