/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Block devices and modaliases, as sysfs tells of them.
 *
 * Source: the kernel's Documentation/ABI/stable/sysfs-block, .../testing/sysfs-block-dm, -loop, -zram;
 * Documentation/admin-guide/md.rst; Documentation/admin-guide/sysfs-rules.rst.
 *
 * Texts belong to the table and live as long as it does. Names of devices are the kernel's; what a user or a
 * disk chose (names of device-mapper, files behind loop devices, names of partitions) may hold any byte but
 * NUL: encode before printing. Tables are read-only after loading, so several threads may ask one.
 * `root` and limits: see host/hostfile.h. A device that goes away while it is read is left out and counted.
 */
#ifndef BLKUP_HOST_SYSFS_H
#define BLKUP_HOST_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"

#define BLKUP_SYSFS_MAX_BLOCKS 65536u
#define BLKUP_SYSFS_MAX_LINKS  4096u /* holders, or slaves, of one device */

/* What to read beyond name, number, size and kind: each group costs further opens a device. */
enum blkup_sysfs_want {
        BLKUP_SYSFS_TOPOLOGY = 1, /* block sizes, alignment, dax, rotational: 7 opens */
        BLKUP_SYSFS_LINKS = 2,    /* holders and slaves: 2 opens */
        BLKUP_SYSFS_STACK = 4,    /* dm_, md_, loop_: up to 5 opens, only for such a device */
        BLKUP_SYSFS_ALL = 7,
        BLKUP_SYSFS_AROUND = 8, /* of one device: also its and its disk's holders and slaves */
};

/* What the kernel does not tell, or what was not asked for, is 0, false or NULL. */
struct blkup_sysblock {
        const char *name;     /* the kernel's: "sda1", "cciss!c0d0" */
        const char *dev_name; /* its node below /dev: "sda1", "cciss/c0d0" */
        const char *sys_path; /* its folder below /sys: "devices/.../block/sda/sda1" */
        bool has_devno;       /* hidden disks have none */
        uint32_t dev_major, dev_minor;
        uint64_t size_sectors; /* 512 bytes each, whatever the device's own sectors are; 0: no medium */
        uint64_t diskseq;      /* since 5.15: never the same for two disks of one boot */
        bool is_read_only, is_removable;
        bool is_hidden; /* a path of a multipath NVMe namespace: not to be opened */

        bool is_partition;
        uint32_t partition;     /* its number in the table, from 1 */
        uint64_t start_sectors; /* 512 bytes each, on its disk */
        const char *part_name;  /* of a GPT partition, what is not printable ASCII replaced by "!" */
        /* The whole disk; for a whole disk itself. */
        const char *disk_name;
        uint32_t disk_major, disk_minor;

        /* BLKUP_SYSFS_TOPOLOGY; of the whole disk, but for the alignment */
        uint32_t logical_block_bytes, physical_block_bytes, min_io_bytes, optimal_io_bytes;
        int64_t alignment_offset_bytes; /* -1: misaligned */
        bool is_dax, is_rotational;

        /* BLKUP_SYSFS_LINKS; names of other devices, in natural order */
        const char *const *holders, *const *slaves;
        size_t n_holders, n_slaves;

        /* BLKUP_SYSFS_STACK */
        const char *dm_name, *dm_uuid; /* dm_name is not NULL: a device of device-mapper */
        bool dm_is_suspended;          /* a read would hang */
        const char *md_level, *md_array_state, *md_metadata; /* md_array_state is not NULL: an md array */
        uint32_t md_disks, md_missing; /* members it should have, and how many of them it lacks */
        const char *loop_file; /* not NULL: a loop device in use; a removed file ends in " (deleted)" */
        uint64_t loop_offset_bytes, loop_sizelimit_bytes; /* 0: to the end of the file */
        bool loop_is_autoclear;
};

struct blkup_sysblocks {
        const struct blkup_sysblock *blocks; /* natural order; a disk stands before its partitions */
        size_t n;
        size_t n_skipped; /* devices that went away meanwhile, or did not make sense */
};

/* All block devices, from ROOT/sys/class/block, or ROOT/sys/block where that is missing. want: a set of
 * enum blkup_sysfs_want. -ENOENT: /sys is not mounted; -E2BIG: a limit; -ENOMEM; what open returns. err
 * may be NULL. */
BLKUP_MUST_CHECK int blkup_sysblocks_load(const char *root, unsigned want, struct blkup_sysblocks **ret,
                                          struct blkup_error *err);

/* One device by its number (ROOT/sys/dev/block/MAJ:MIN): blocks[0]. A partition's disk is blocks[1]. With
 * BLKUP_SYSFS_AROUND those that the two name as holders and slaves follow. -ENODEV: no such device. */
BLKUP_MUST_CHECK int blkup_sysblocks_load_one(const char *root, uint32_t dev_major, uint32_t dev_minor,
                                              unsigned want, struct blkup_sysblocks **ret,
                                              struct blkup_error *err);

struct blkup_sysblocks *blkup_sysblocks_free(struct blkup_sysblocks *t); /* NULL-safe, returns NULL */

/* NULL: not in the table (or t is NULL). */
const struct blkup_sysblock *blkup_sysblocks_by_devno(const struct blkup_sysblocks *t, uint32_t dev_major,
                                                      uint32_t dev_minor);
const struct blkup_sysblock *blkup_sysblocks_by_name(const struct blkup_sysblocks *t, const char *name);

/* The whole disk of b in this table: b itself when it is one, NULL when it is not listed. */
const struct blkup_sysblock *blkup_sysblocks_disk_of(const struct blkup_sysblocks *t,
                                                     const struct blkup_sysblock *b);

/* The number of a device's whole disk (its own when it is one), with two opens and no table.
 * *ret_partition: its number, 0 for a whole disk. Partitions that user space made by device-mapper are
 * whole disks to the kernel. -ENODEV: no such device. */
BLKUP_MUST_CHECK int blkup_sysfs_whole_disk(const char *root, uint32_t dev_major, uint32_t dev_minor,
                                            uint32_t *ret_major, uint32_t *ret_minor,
                                            uint32_t *ret_partition);

/* Has the kernel read a partition table on this disk, with partitions in it? One folder is read. */
bool blkup_sysfs_has_partitions(const char *root, uint32_t dev_major, uint32_t dev_minor);

/* ---- modaliases ---- */

#define BLKUP_MODALIAS_MAX         65536u /* distinct ones */
#define BLKUP_MODALIAS_MAX_FOLDERS (1u << 20)
#define BLKUP_MODALIAS_MAX_DEPTH   64u   /* folders below that are left out and counted */
#define BLKUP_MODALIAS_MAX_BYTES   4095u /* one alias; a sysfs file is a page */

struct blkup_modaliases {
        const char *const *aliases; /* each once, in strcmp() order */
        size_t n;
        size_t n_told;    /* how often one was told: n_told - n were repetitions */
        size_t n_folders; /* visited: of devices, or of the tree */
        size_t n_skipped; /* files that could not be read, lines that are no alias, folders too deep */
};

/* Every alias of a device below ROOT/sys/bus, of the input devices, the processors and the board (the other
 * places where the kernel tells one): the lines of each `modalias` file, and MODALIAS= of `uevent` where a
 * device has no such file (MDIO). Where there is no sys/bus, all of ROOT/sys/devices is searched, and no link
 * followed. -ENOENT: /sys is not mounted; -E2BIG: a limit; -ENOMEM, -EMFILE, -ENFILE: not all could be read.
 * err may be NULL. */
BLKUP_MUST_CHECK int blkup_modaliases_load(const char *root, struct blkup_modaliases **ret,
                                           struct blkup_error *err);
struct blkup_modaliases *blkup_modaliases_free(struct blkup_modaliases *t); /* NULL-safe, returns NULL */

#endif
