/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Feature bits that keep a kernel from mounting. Where the file system tells in sysfs what it knows, that
 * counts; else the version from which on the kernel knows the bit.
 *
 * Source: the kernel's Documentation/filesystems/ext4/super.rst and Documentation/ABI/testing/sysfs-fs-ext4,
 * fs/ext4/ext4.h, fs/xfs/libxfs/xfs_format.h, include/uapi/linux/btrfs.h.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "probe/explain.h"

struct feature {
        uint64_t bit;
        const char *name;
        const char *file;     /* in sysfs; NULL: it is not told there */
        uint8_t major, minor; /* first version that knows it; 0: none does */
};

static const struct feature ext4_incompat[] = {
        { 0x1, "compression", NULL, 0, 0 },
        { 0x2, "filetype", NULL, 2, 6 },
        { 0x4, "needs_recovery", NULL, 2, 6 },
        { 0x8, "journal_dev", NULL, 0, 0 },
        { 0x10, "meta_bg", NULL, 2, 6 },
        { 0x40, "extent", NULL, 2, 6 },
        { 0x80, "64bit", NULL, 2, 6 },
        { 0x100, "mmp", NULL, 3, 0 },
        { 0x200, "flex_bg", NULL, 2, 6 },
        { 0x400, "ea_inode", NULL, 4, 13 },
        { 0x1000, "dirdata", NULL, 0, 0 },
        { 0x2000, "metadata_csum_seed", "metadata_csum_seed", 4, 4 },
        { 0x4000, "large_dir", NULL, 4, 13 },
        { 0x8000, "inline_data", NULL, 3, 8 },
        { 0x10000, "encrypt", "encryption", 4, 1 },
        { 0x20000, "casefold", "casefold", 5, 2 },
};

static const struct feature ext4_ro_compat[] = {
        { 0x1, "sparse_super", NULL, 2, 6 },  { 0x2, "large_file", NULL, 2, 6 },
        { 0x4, "btree_dir", NULL, 2, 6 },     { 0x8, "huge_file", NULL, 2, 6 },
        { 0x10, "uninit_bg", NULL, 2, 6 },    { 0x20, "dir_nlink", NULL, 2, 6 },
        { 0x40, "extra_isize", NULL, 2, 6 },  { 0x100, "quota", NULL, 3, 6 },
        { 0x200, "bigalloc", NULL, 3, 2 },    { 0x400, "metadata_csum", NULL, 3, 5 },
        { 0x1000, "read-only", NULL, 4, 0 },  { 0x2000, "project", NULL, 4, 5 },
        { 0x8000, "verity", "verity", 5, 4 }, { 0x10000, "orphan_present", NULL, 5, 15 },
};

static const struct feature xfs_incompat[] = {
        { 0x1, "ftype", NULL, 3, 10 },   { 0x2, "spinodes", NULL, 4, 2 },   { 0x4, "meta_uuid", NULL, 4, 3 },
        { 0x8, "bigtime", NULL, 5, 10 }, { 0x20, "nrext64", NULL, 5, 19 },  { 0x40, "exchange", NULL, 6, 10 },
        { 0x80, "parent", NULL, 6, 10 }, { 0x100, "metadir", NULL, 6, 13 },
};

static const struct feature xfs_ro_compat[] = {
        { 0x1, "finobt", NULL, 3, 16 },
        { 0x2, "rmapbt", NULL, 4, 8 },
        { 0x4, "reflink", NULL, 4, 9 },
        { 0x8, "inobtcount", NULL, 5, 10 },
};

static const struct feature btrfs_incompat[] = {
        { 0x1, "mixed_backref", NULL, 2, 6 },
        { 0x2, "default_subvol", "default_subvol", 2, 6 },
        { 0x4, "mixed_groups", "mixed_groups", 2, 6 },
        { 0x8, "compress_lzo", "compress_lzo", 2, 6 },
        { 0x10, "compress_zstd", "compress_zstd", 4, 14 },
        { 0x20, "big_metadata", NULL, 3, 4 },
        { 0x40, "extended_iref", "extended_iref", 3, 7 },
        { 0x80, "raid56", "raid56", 3, 9 },
        { 0x100, "skinny_metadata", "skinny_metadata", 3, 10 },
        { 0x200, "no_holes", "no_holes", 3, 14 },
        { 0x400, "metadata_uuid", "metadata_uuid", 5, 0 },
        { 0x800, "raid1c34", "raid1c34", 5, 5 },
        { 0x1000, "zoned", "zoned", 5, 12 },
        { 0x4000, "raid_stripe_tree", "raid_stripe_tree", 6, 7 },
        { 0x10000, "simple_quota", NULL, 6, 7 },
};

static const struct feature btrfs_ro_compat[] = {
        { 0x1, "free_space_tree", "free_space_tree", 4, 5 },
        { 0x2, "free_space_tree_valid", NULL, 4, 9 },
        { 0x4, "verity", NULL, 5, 15 },
        { 0x8, "block_group_tree", "block_group_tree", 6, 1 },
};

struct file_system {
        const char *type;  /* TYPE */
        const char *sysfs; /* its folder below /sys/fs */
        const struct feature *incompat, *ro_compat;
        size_t n_incompat, n_ro_compat;
        /* of the words, from the superblock's start */
        uint16_t incompat_at, ro_compat_at, bytes;
        enum blkup_order order;
};

#define EXT(name)                                                                             \
        {                                                                                     \
                name, "ext4", ext4_incompat, ext4_ro_compat, BLKUP_ARRAY_SIZE(ext4_incompat), \
                        BLKUP_ARRAY_SIZE(ext4_ro_compat), 96, 100, 4, BLKUP_LITTLE_ENDIAN     \
        }

static const struct file_system file_systems[] = {
        EXT("ext4"),
        EXT("ext3"),
        EXT("ext2"),
        { "xfs", "xfs", xfs_incompat, xfs_ro_compat, BLKUP_ARRAY_SIZE(xfs_incompat),
          BLKUP_ARRAY_SIZE(xfs_ro_compat), 216, 212, 4, BLKUP_BIG_ENDIAN },
        { "btrfs", "btrfs", btrfs_incompat, btrfs_ro_compat, BLKUP_ARRAY_SIZE(btrfs_incompat),
          BLKUP_ARRAY_SIZE(btrfs_ro_compat), 188, 180, 8, BLKUP_LITTLE_ENDIAN },
};

static const struct file_system *find(const char *type)
{
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(file_systems); i++)
                if (strcmp(file_systems[i].type, type) == 0)
                        return &file_systems[i];
        return NULL;
}

/* xfs before version 5 has no such words. */
#define XFS_VERSION_AT   100
#define XFS_VERSION_MASK 0xfu
#define XFS_HAS_FEATURES 5u

enum blkup_outcome blkup_features_read(struct blkup_view *v, const char *type, uint64_t base,
                                       uint64_t *ret_incompat, uint64_t *ret_ro_compat)
{
        const struct file_system *fs = find(type);
        struct blkup_bytes sb;

        if (!fs)
                return BLKUP_NOT_THIS;
        BLKUP_FETCH(v, base, 512, &sb);
        if (strcmp(type, "xfs") == 0 &&
            (blkup_be16_at(sb, XFS_VERSION_AT) & XFS_VERSION_MASK) != XFS_HAS_FEATURES)
                return BLKUP_NOT_THIS;
        if (fs->bytes == 8) {
                *ret_incompat = blkup_le64_at(sb, fs->incompat_at);
                *ret_ro_compat = blkup_le64_at(sb, fs->ro_compat_at);
        } else if (fs->order == BLKUP_BIG_ENDIAN) {
                *ret_incompat = blkup_be32_at(sb, fs->incompat_at);
                *ret_ro_compat = blkup_be32_at(sb, fs->ro_compat_at);
        } else {
                *ret_incompat = blkup_le32_at(sb, fs->incompat_at);
                *ret_ro_compat = blkup_le32_at(sb, fs->ro_compat_at);
        }
        return BLKUP_FOUND;
}

void blkup_kernel_here(struct blkup_kernel *ret)
{
        struct utsname u;

        *ret = (struct blkup_kernel){ .sysfs = "/sys/fs" };
        if (uname(&u) < 0)
                return;
        for (const char *s = u.release; *s >= '0' && *s <= '9' && ret->major < 1000; s++)
                ret->major = 10 * ret->major + (unsigned) (*s - '0');
        for (const char *s = strchr(u.release, '.'); s && *++s >= '0' && *s <= '9' && ret->minor < 1000;)
                ret->minor = 10 * ret->minor + (unsigned) (*s - '0');
}

static bool exists(const struct blkup_kernel *k, const char *fs, const char *file)
{
        char path[PATH_MAX];
        int n = snprintf(path, sizeof(path), "%s/%s/features/%s", k->sysfs, fs, file);

        return n > 0 && (size_t) n < sizeof(path) && access(path, F_OK) == 0;
}

static bool is_known(const struct blkup_kernel *k, const struct file_system *fs, const struct feature *f)
{
        if (f->major == 0)
                return false;
        /* Told where the driver is there; a driver that was left out of the kernel's configuration (casefold,
         * verity) shows only so. */
        if (f->file && exists(k, fs->sysfs, ""))
                return exists(k, fs->sysfs, f->file);
        return k->major > f->major || (k->major == f->major && k->minor >= f->minor);
}

/* Adds the names of the bits that are not known. Returns whether there are any. */
static bool name_unknown(const struct blkup_kernel *k, const struct file_system *fs,
                         const struct feature *known, size_t n, uint64_t bits, const char *kind, char *out,
                         size_t cap)
{
        bool any = false;

        for (unsigned b = 0; b < 64; b++) {
                uint64_t bit = UINT64_C(1) << b;
                const struct feature *f = NULL;
                size_t used = strlen(out);

                if (!(bits & bit))
                        continue;
                for (size_t i = 0; i < n; i++)
                        if (known[i].bit == bit)
                                f = &known[i];
                if (f && is_known(k, fs, f))
                        continue;
                any = true;
                (void) snprintf(out + used, cap - used, "%s%s 0x%" PRIx64 "%s%s%s", used ? ", " : "", kind,
                                bit, f ? " (" : "", f ? f->name : "", f ? ")" : "");
        }
        return any;
}

void blkup_features_judge(struct blkup_candidate *c, const struct blkup_kernel *k)
{
        const struct file_system *fs = find(c->type);

        c->features[0] = '\0';
        if (!fs || c->state != BLKUP_CANDIDATE_FOUND)
                return;
        if (name_unknown(k, fs, fs->incompat, fs->n_incompat, c->incompat, "incompat", c->features,
                         sizeof(c->features)))
                c->notes |= BLKUP_NOTE_NO_MOUNT;
        if (name_unknown(k, fs, fs->ro_compat, fs->n_ro_compat, c->ro_compat, "ro_compat", c->features,
                         sizeof(c->features)))
                c->notes |= BLKUP_NOTE_READ_ONLY;
}
