/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which device a path below /dev means where nobody has made a link. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bringup/cold.h"
#include "fake-root.h"

static const char LVM[] = "LVM-0123456789abcdefABCDEF0123456789xyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyz";

#define DISK(p, ...) \
        {            \
                .d = { .path = (p), __VA_ARGS__ }, .is_over = true \
        }

static struct blkup_cold_device devices[] = {
        DISK("/dev/sda", .type = "ext4", .uuid = "AbCd-12", .label = "my root/1"),
        DISK("/dev/sdb", .type = "linux_raid_member", .uuid = "00000000-1111-2222-3333-444444444444",
             .label = "here:data", .dev_major = 8, .dev_minor = 16),
        DISK("/dev/sdc", .type = "linux_raid_member", .uuid = "00000000-1111-2222-3333-555555555555",
             .label = "there:both", .dev_major = 8, .dev_minor = 32),
        DISK("/dev/sdd", .type = "linux_raid_member", .uuid = "00000000-1111-2222-3333-666666666666",
             .label = "here:both", .dev_major = 8, .dev_minor = 48),
        DISK("/dev/md0", .type = "ext4"), /* on sdb */
        DISK("/dev/md1", .type = "ext4"), /* on sdc */
        DISK("/dev/md2", .type = "ext4"), /* this run has made it */
        DISK("/dev/dm-0", .type = "ext4"),
        DISK("/dev/dm-1", .type = "ext4"),
        DISK("/dev/dm-2", .type = "ext4"),
};
#define N BLKUP_ARRAY_SIZE(devices)

static const struct {
        const char *path, *means; /* NULL: none */
} cases[] = {
        { "/dev/sda", "/dev/sda" },
        { "/dev/disk/by-uuid/aBcD-12", "/dev/sda" },
        { "/dev/disk/by-label/my\\x20root\\x2f1", "/dev/sda" },
        { "/dev/disk/by-label/my\\x20root\\x2F1", "/dev/sda" },
        { "/dev/disk/by-label/my root", NULL },
        { "/dev/disk/by-label/", NULL },
        { "/dev/disk/by-label", NULL },
        { "/dev/disk/by-partuuid/0123-01", "/dev/sda" },
        { "/dev/disk/by-partlabel/a\\x", "/dev/sda" }, /* no escape */
        { "/dev/mapper/my--vg-a--b", "/dev/dm-0" },
        { "/dev/mapper/my-vg-a-b", NULL },
        { "/dev/my-vg/a-b", "/dev/dm-0" },
        { "/dev/my--vg/a--b", NULL },
        { "/dev/my/vg/a-b", NULL },
        { "/dev/my-vg/a-b/", NULL },
        { "/dev/my-vg/", NULL },
        { "/dev/my-vg", NULL },
        { "/dev//a-b", NULL },
        { "/dev/my-vg/a", NULL },
        { "/dev/my-vg/a-b-c", NULL },
        { "/dev/vg/lv-real", NULL }, /* what LVM hides */
        { "/dev/vg/lv", NULL },
        { "/dev/mapper/vg-lv-real", "/dev/dm-1" },
        { "/dev/vg/crypt", NULL }, /* vg-crypt is no volume */
        { "/dev/mapper/vg-crypt", "/dev/dm-2" },
        { "/dev/disk/by-id/dm-name-vg-crypt", "/dev/dm-2" },
        { "/dev/disk/by-id/dm-uuid-CRYPT-LUKS2-0-vg-crypt", "/dev/dm-2" },
        { "/dev/md/data", "/dev/md0" },
        { "/dev/md/here:data", "/dev/md0" },
        { "/dev/md/other:data", NULL },
        { "/dev/md/both", NULL }, /* of two hosts */
        { "/dev/md/there:both", "/dev/md1" },
        { "/dev/md/both_0", "/dev/md2" },
        { "/dev/md/", NULL },
        { "/dev/disk/by-id/md-name-here:data", "/dev/md0" },
        { "/dev/disk/by-id/md-name-here\\x3adata", "/dev/md0" },
        { "/dev/disk/by-id/md-uuid-00000000:11112222:33334444:44444444", "/dev/md0" },
        { "/dev/disk/by-id/md-uuid-00000000:11112222:33334444:4444444", NULL },
        { "/dev/disk/by-id/md-uuid-", NULL },
        { "/dev/disk/by-id/md-uuid-99999999:11112222:33334444:66666666", "/dev/md2" },
        { "/dev/disk/by-id/ata-MAKER_1", NULL },
        { "/mnt/my-vg/a-b", NULL },
        { "", NULL },
};

static void paths(void **state)
{
        struct blkup_cold_set set = { .s = { .kind = BLKUP_COLDPLUG_MD,
                                             .uuid = "99999999-1111-2222-3333-444466666666",
                                             .name = "md2" } },
                              *sets[] = { &set };
        struct blkup_cold_device *list[N];
        struct blkup_coldplug c = { .devices = list, .n_devices = N, .sets = sets, .n_sets = 1 };
        struct fake_root root;
        char md_name[] = "both_0", mapping[] = "my--vg-a--b", hidden[] = "vg-lv-real", crypt[] = "vg-crypt";
        char uuid[sizeof(LVM)], hidden_uuid[sizeof(LVM) + 8], crypt_uuid[] = "CRYPT-LUKS2-0-vg-crypt";
        char part_uuid[] = "0123-01", part_label[] = "a\\x";

        (void) state;
        fake_root_make(&root);
        c.root = root.path;
        fake_root_folder(&root, "sys/dev/block/8:16/holders/md0");
        fake_root_folder(&root, "sys/dev/block/8:32/holders/md1");
        fake_root_folder(&root, "sys/dev/block/8:48/holders");
        (void) snprintf(uuid, sizeof(uuid), "%s", LVM);
        (void) snprintf(hidden_uuid, sizeof(hidden_uuid), "%s-real", LVM);
        set.md_name = md_name;
        for (size_t i = 0; i < N; i++)
                list[i] = &devices[i];
        list[0]->part_uuid = part_uuid;
        list[0]->part_label = part_label;
        list[7]->dm_name = mapping;
        list[7]->dm_uuid = uuid;
        list[8]->dm_name = hidden;
        list[8]->dm_uuid = hidden_uuid;
        list[9]->dm_name = crypt;
        list[9]->dm_uuid = crypt_uuid;
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(cases); i++)
                for (size_t k = 0; k < N; k++) {
                        bool is = cases[i].means && strcmp(cases[i].means, devices[k].d.path) == 0;

                        if (blkup_cold_may_mean(&c, list[k], cases[i].path) != is)
                                fail_msg("%s: %s", cases[i].path, devices[k].d.path);
                }
        fake_root_remove(&root);
}

/* What is written in an fstab has no limit. */
static void long_names(void **state)
{
        struct blkup_cold_tag tag;
        char path[8192] = "/dev/disk/by-label/";
        size_t n = strlen(path);

        (void) state;
        for (size_t i = n; i + 4 < sizeof(path); i += 4)
                memcpy(path + i, "\\x41", 5);
        assert_false(blkup_cold_split_tag(path, &tag)); /* longer than any label */
        path[n + 4 * (sizeof(tag.text) - 1)] = '\0';
        assert_true(blkup_cold_split_tag(path, &tag));
        assert_int_equal(strlen(tag.value), sizeof(tag.text) - 1);
        assert_string_equal(tag.name, "LABEL");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(paths),
                cmocka_unit_test(long_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
