/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * PART_ENTRY_*: the entry of a partition in the table of its disk. The kernel says where the partition begins
 * and which disk it is on; the table on that disk is read, and the entry that begins there and is as long is
 * the one.
 *
 * The view is the disk's afterwards: results must have been taken from it.
 */
#include "probe/part-entry.h"

#include <stdio.h>
#include <string.h>

#include "block/file.h"
#include "host/sysfs.h"
#include "probe/cage.h"
#include "probe/tables.h"

/* The kernel makes an extended partition two sectors long (1024 bytes, up to a page on other sector sizes),
 * so that nobody formats it by mistake. */
#define MAX_EXTENDED_SECTORS 1024u

struct search {
        struct blkup_entries entries;
        const struct blkup_part_wanted *wanted;
        const struct blkup_table *table;
        struct blkup_partition found;
        bool has_found;
};

static void begin(struct blkup_entries *e)
{
        ((struct search *) (void *) e)->has_found = false;
}

static bool is_extended(const struct blkup_entry *p)
{
        return !p->type_guid && p->type_text.len == 0 &&
               (p->type == 0x05 || p->type == 0x0f || p->type == 0x85);
}

static bool entry(struct blkup_entries *e, const struct blkup_entry *p)
{
        struct search *s = (struct search *) (void *) e;
        const struct blkup_part_wanted *w = s->wanted;

        if (w->by_number ? p->number != w->number : p->start_sectors != w->start_sectors)
                return true;
        if (p->size_sectors != w->size_sectors &&
            !(is_extended(p) && w->size_sectors <= MAX_EXTENDED_SECTORS))
                return true;
        blkup_entry_to_partition(p, s->table->name, &s->found);
        s->has_found = true;
        return false;
}

bool blkup_part_entry_search(struct blkup_probe *p, const struct blkup_part_wanted *w,
                             struct blkup_partition *ret)
{
        struct search s = { .entries = { .begin = begin, .entry = entry }, .wanted = w };
        struct blkup_found scratch;

        if (blkup_engine_entries(p, &scratch, &s.entries, &s.table) != BLKUP_FOUND || !s.has_found)
                return false;
        *ret = s.found;
        return true;
}

/* kpartx names its mappings "partN-" and the uuid of the device below. */
static bool is_part_uuid(const char *uuid, unsigned *ret)
{
        unsigned n = 0;

        if (strncmp(uuid, "part", 4) != 0)
                return false;
        for (uuid += 4; *uuid >= '0' && *uuid <= '9' && n < 100000; uuid++)
                n = n * 10 + (unsigned) (*uuid - '0');
        *ret = n;
        return *uuid == '-' && n > 0;
}

/* Which partition of which disk, by sysfs; the disk's node is below /dev. false: none. */
static bool ask_kernel(const struct blkup_block_info *info, struct blkup_part_wanted *w, char *node,
                       size_t room, uint32_t *ret_major, uint32_t *ret_minor)
{
        struct blkup_sysblocks *t = NULL, *all = NULL;
        const struct blkup_sysblock *b, *disk = NULL;
        bool ok = false;

        if (blkup_sysblocks_load_one(NULL, info->major, info->minor,
                                     info->is_dm ? BLKUP_SYSFS_LINKS | BLKUP_SYSFS_STACK : 0, &t, NULL) < 0 ||
            t->n == 0)
                goto out;
        b = &t->blocks[0];
        if (b->is_partition) {
                w->start_sectors = b->start_sectors;
                disk = blkup_sysblocks_disk_of(t, b);
        } else if (b->dm_uuid && is_part_uuid(b->dm_uuid, &w->number) && b->n_slaves == 1) {
                /* A partition that kpartx mapped on a multipath or RAID device. */
                w->by_number = true;
                if (blkup_sysblocks_load(NULL, 0, &all, NULL) == 0)
                        disk = blkup_sysblocks_by_name(all, b->slaves[0]);
        }
        if (!disk || !disk->has_devno)
                goto out;
        *ret_major = disk->dev_major;
        *ret_minor = disk->dev_minor;
        ok = (size_t) snprintf(node, room, "/dev/%s", disk->dev_name) < room;
out:
        (void) blkup_sysblocks_free(all);
        (void) blkup_sysblocks_free(t);
        return ok;
}

static void describe(struct blkup_probe *p, const struct blkup_partition *e, uint32_t major, uint32_t minor)
{
        struct blkup_found *f = p->entry;

        blkup_found_string(f, "PART_ENTRY_SCHEME", e->scheme);
        blkup_found_string(f, "PART_ENTRY_NAME", e->name);
        blkup_found_string(f, "PART_ENTRY_UUID", e->uuid);
        blkup_found_string(f, "PART_ENTRY_TYPE", e->type);
        if (e->flags != 0)
                blkup_found_printf(f, "PART_ENTRY_FLAGS", "0x%llx", (unsigned long long) e->flags);
        blkup_found_u64(f, "PART_ENTRY_NUMBER", e->number);
        blkup_found_u64(f, "PART_ENTRY_OFFSET", e->start_sectors);
        blkup_found_u64(f, "PART_ENTRY_SIZE", e->size_sectors);
        blkup_found_printf(f, "PART_ENTRY_DISK", "%u:%u", major, minor);
}

void blkup_part_entry_find(struct blkup_probe *p)
{
        const struct blkup_block_info *info = &p->block->info;
        const struct blkup_block_open how = {
                .direct = info->direct ? BLKUP_DIRECT_ALWAYS : BLKUP_DIRECT_AUTO,
                .uring = p->ring,
        };
        struct blkup_part_wanted w = { .size_sectors = info->size_bytes / 512 };
        struct blkup_block *partition = p->block, *disk = NULL;
        uint64_t looked_at = p->view.size;
        struct blkup_partition found;
        uint32_t major = 0, minor = 0;
        char node[128];

        if (info->kind != BLKUP_BLOCK_PARTITION && !info->is_dm)
                return;
        if (!ask_kernel(info, &w, node, sizeof(node), &major, &minor) ||
            blkup_block_open(node, &how, &disk, NULL) < 0)
                return;
        /* Between sysfs and the node the disk may have become another one. */
        if (disk->info.major == major && disk->info.minor == minor) {
                p->block = disk;
                p->log_device = (uint64_t) 1 << 62;
                if (p->cage ? blkup_cage_search(p->cage, p, &w, &found) > 0
                            : blkup_part_entry_search(p, &w, &found))
                        describe(p, &found, major, minor);
                p->block = partition;
                p->view.size = looked_at;
        }
        (void) blkup_block_close(disk);
}
