/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * blkid -i: what sysfs tells of a device's blocks. Source: the kernel's Documentation/ABI/stable/sysfs-block;
 * names and order of the tags: ../shared/probe/tags.tsv. Nothing is opened but sysfs.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "cli/blkid.h"

/* Zero is "not known" or "nothing special": blkid leaves it out. */
static void add(struct blkup_cli_blkid_topology *t, const char *name, uint64_t v)
{
        if (v == 0 || t->n == BLKUP_CLI_BLKID_MAX_TOPOLOGY)
                return;
        (void) snprintf(t->text[t->n], sizeof(t->text[0]), "%" PRIu64, v);
        t->values[t->n] = (struct blkup_value){
                .name = name,
                .value = t->text[t->n],
                .len = strlen(t->text[t->n]),
        };
        t->n++;
}

int blkup_cli_blkid_topology(const char *path, const char *root, struct blkup_cli_blkid_topology *ret,
                             struct blkup_error *err)
{
        struct blkup_sysblocks *t = NULL;
        const struct blkup_sysblock *b;
        struct stat st;
        int r;

        if (stat(path, &st) < 0)
                return blkup_fail_errno(err, -errno, "%s", path);
        if (!S_ISBLK(st.st_mode))
                return blkup_fail(err, -ENOTBLK, "%s: no block device: it has no I/O limits", path);
        r = blkup_sysblocks_load_one(root, major(st.st_rdev), minor(st.st_rdev), BLKUP_SYSFS_TOPOLOGY, &t,
                                     err);
        if (r < 0)
                return r;
        b = &t->blocks[0];
        ret->n = 0;
        /* -1, "misaligned", has no number to print: blkid prints none either. */
        add(ret, "ALIGNMENT_OFFSET",
            b->alignment_offset_bytes > 0 ? (uint64_t) b->alignment_offset_bytes : 0);
        add(ret, "MINIMUM_IO_SIZE", b->min_io_bytes);
        add(ret, "OPTIMAL_IO_SIZE", b->optimal_io_bytes);
        add(ret, "PHYSICAL_SECTOR_SIZE", b->physical_block_bytes);
        add(ret, "DAX", b->is_dax);
        add(ret, "DISKSEQ", b->diskseq);
        add(ret, "LOGICAL_SECTOR_SIZE", b->logical_block_bytes);
        (void) blkup_sysblocks_free(t);
        return 0;
}
