/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Source for the library's interface: its headers, ext2fs/ext2fs.h and ext2fs/ext2_io.h. */
#include "lazyinit/second.h"

#if !BLKUP_HAVE_EXT2FS

int blkup_lazy_second_opinion(const struct blkup_lazy_layout *l, struct blkup_block *b, bool *ret_asked,
                              struct blkup_lazy_refusal *r)
{
        (void) l;
        (void) b;
        (void) r;
        *ret_asked = false;
        return 0;
}

#else

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The library's headers are not ours to keep free of these. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <ext2fs/ext2_fs.h>
#include <ext2fs/ext2fs.h>
#pragma GCC diagnostic pop

#include "base/checked.h"
#include "block/writer.h"

struct library {
        void *handle;
        errcode_t (*open2)(const char *name, const char *io_options, int flags, int superblock,
                           unsigned block_size, io_manager manager, ext2_filsys *ret);
        void (*free)(ext2_filsys fs);
        blk64_t (*inode_table_loc)(ext2_filsys fs, dgrp_t g);
        blk64_t (*descriptor_block_loc2)(ext2_filsys fs, blk64_t group_block, dgrp_t i);
        __u16 (*group_desc_csum)(ext2_filsys fs, dgrp_t g);
        void (*bg_flags_set)(ext2_filsys fs, dgrp_t g, __u16 flags);
        struct ext2_group_desc *(*group_desc)(ext2_filsys fs, struct opaque_ext2_group_desc *gdp, dgrp_t g);
        blk64_t (*blocks_count)(struct ext2_super_block *sb);
};

static bool load(struct library *lib)
{
        static const char *const names[] = {
                "ext2fs_open2", "ext2fs_free", "ext2fs_inode_table_loc", "ext2fs_descriptor_block_loc2",
                "ext2fs_group_desc_csum", "ext2fs_bg_flags_set", "ext2fs_group_desc", "ext2fs_blocks_count",
        };
        void **to[] = {
                (void **) &lib->open2, (void **) &lib->free, (void **) &lib->inode_table_loc,
                (void **) &lib->descriptor_block_loc2, (void **) &lib->group_desc_csum,
                (void **) &lib->bg_flags_set, (void **) &lib->group_desc, (void **) &lib->blocks_count,
        };

        lib->handle = dlopen("libext2fs.so.2", RTLD_NOW | RTLD_LOCAL);
        if (!lib->handle)
                return false;
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(names); i++) {
                *to[i] = dlsym(lib->handle, names[i]);
                if (!*to[i]) {
                        (void) dlclose(lib->handle);
                        return false;
                }
        }
        return true;
}

/* ---- an I/O manager of the library over our handle, which only reads ---- */

static errcode_t io_open(const char *name, int flags, io_channel *ret)
{
        io_channel io = calloc(1, sizeof(*io));
        char *end;

        (void) flags;
        if (!io)
                return EXT2_ET_NO_MEMORY;
        /* The only thing that the library hands on is the name, so the name is the handle. */
        io->private_data = (void *) (uintptr_t) strtoull(name, &end, 16);
        io->manager = (void *) (uintptr_t) strtoull(end, &end, 16);
        if (!io->private_data || !io->manager || *end) {
                free(io);
                return EXT2_ET_BAD_DEVICE_NAME;
        }
        io->magic = EXT2_ET_MAGIC_IO_CHANNEL;
        io->block_size = 1024;
        io->refcount = 1;
        *ret = io;
        return 0;
}

static errcode_t io_close(io_channel io)
{
        if (--io->refcount == 0)
                free(io);
        return 0;
}

static errcode_t io_set_blksize(io_channel io, int blksize)
{
        io->block_size = blksize;
        return 0;
}

static errcode_t io_read_blk64(io_channel io, unsigned long long block, int count, void *to)
{
        /* A negative count is in bytes. */
        uint64_t len = count < 0 ? (uint64_t) -(int64_t) count : (uint64_t) count * (uint64_t) io->block_size;

        return blkup_block_read_exact(io->private_data, block * (uint64_t) io->block_size, to, len) < 0
                       ? EXT2_ET_SHORT_READ : 0;
}

static errcode_t io_read_blk(io_channel io, unsigned long block, int count, void *to)
{
        return io_read_blk64(io, block, count, to);
}

static errcode_t io_write_blk64(io_channel io, unsigned long long block, int count, const void *from)
{
        (void) io;
        (void) block;
        (void) count;
        (void) from;
        return EXT2_ET_RO_FILSYS;
}

static errcode_t io_write_blk(io_channel io, unsigned long block, int count, const void *from)
{
        return io_write_blk64(io, block, count, from);
}

static errcode_t io_flush(io_channel io)
{
        (void) io;
        return 0;
}

static int disagree(struct blkup_lazy_refusal *r, uint32_t g, const char *what, uint64_t ours,
                    uint64_t theirs)
{
        return blkup_lazy_refuse(r, BLKUP_LAZYINIT_LIBRARY_DISAGREES,
                                 "group %" PRIu32 ": %s is %" PRIu64 ", libext2fs says %" PRIu64, g, what,
                                 ours, theirs);
}

static int compare(const struct library *lib, const struct blkup_lazy_layout *l, ext2_filsys fs,
                   struct blkup_lazy_refusal *r)
{
        if (fs->group_desc_count != l->groups)
                return disagree(r, 0, "number of groups", l->groups, fs->group_desc_count);
        if (fs->inode_blocks_per_group != l->table_blocks)
                return disagree(r, 0, "size of a table", l->table_blocks, fs->inode_blocks_per_group);
        if (lib->blocks_count(fs->super) != l->blocks)
                return disagree(r, 0, "number of blocks", l->blocks, lib->blocks_count(fs->super));
        for (uint32_t g = 0; g < l->groups; g++) {
                uint64_t ours = blkup_lazy_desc_at(l, g) / l->block_bytes, theirs;
                const uint8_t *desc;

                if (lib->inode_table_loc(fs, g) != l->group[g].table)
                        return disagree(r, g, "inode table", l->group[g].table, lib->inode_table_loc(fs, g));
                if (g % l->desc_per_block == 0) {
                        theirs = lib->descriptor_block_loc2(fs, fs->super->s_first_data_block,
                                                            g / l->desc_per_block);
                        if (theirs != ours)
                                return disagree(r, g, "place of the descriptor", ours, theirs);
                }
                if (l->group[g].flags & BLKUP_EXT4_BG_INODE_ZEROED)
                        continue;
                lib->bg_flags_set(fs, g, EXT2_BG_INODE_ZEROED);
                desc = (const uint8_t *) lib->group_desc(fs, fs->group_desc, g);
                if (blkup_lazy_desc_checksum(l, g, desc) != lib->group_desc_csum(fs, g))
                        return disagree(r, g, "new checksum", blkup_lazy_desc_checksum(l, g, desc),
                                        lib->group_desc_csum(fs, g));
        }
        return 0;
}

int blkup_lazy_second_opinion(const struct blkup_lazy_layout *l, struct blkup_block *b, bool *ret_asked,
                              struct blkup_lazy_refusal *r)
{
        /* The library keeps a pointer to it, not a copy; it lives as long as the file system below. */
        struct struct_io_manager manager = {
                .magic = EXT2_ET_MAGIC_IO_MANAGER,
                .name = "blkup, read-only",
                .open = io_open,
                .close = io_close,
                .set_blksize = io_set_blksize,
                .read_blk = io_read_blk,
                .write_blk = io_write_blk,
                .flush = io_flush,
                .read_blk64 = io_read_blk64,
                .write_blk64 = io_write_blk64,
        };
        struct library lib;
        ext2_filsys fs = NULL;
        errcode_t e;
        char name[64];
        int k = 0;

        *ret_asked = false;
        /* On a machine with the other byte order the library holds descriptors in another form than the disk.
         */
        if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__ || !load(&lib))
                return 0;
        (void) snprintf(name, sizeof(name), "%zx %zx", (size_t) (uintptr_t) b, (size_t) (uintptr_t) &manager);
        e = lib.open2(name, NULL, EXT2_FLAG_64BITS | EXT2_FLAG_SOFTSUPP_FEATURES, 0, 0, &manager, &fs);
        if (e == 0) {
                *ret_asked = true;
                k = compare(&lib, l, fs, r);
                lib.free(fs);
        } else if (e != EXT2_ET_UNSUPP_FEATURE && e != EXT2_ET_RO_UNSUPP_FEATURE && e != EXT2_ET_NO_MEMORY) {
                /* One that is too old to know a feature has no opinion; any other failure is one. */
                k = blkup_lazy_refuse(r, BLKUP_LAZYINIT_LIBRARY_DISAGREES,
                                      "libext2fs does not open it (error %ld)", (long) e);
        }
        (void) dlclose(lib.handle);
        return k;
}

#endif
