/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which devices there are, and which of them are never written to. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/clock.h"
#include "bringup/cold.h"

#define MAX_DEVICES BLKUP_SYSFS_MAX_BLOCKS
/* Reading /sys again because something went meanwhile. */
#define MAX_TURNS   16u

struct blkup_cold_device *blkup_cold_device_free(struct blkup_cold_device *d)
{
        if (d) {
                free((char *) d->d.path);
                free((char *) d->d.type);
                free((char *) d->d.usage);
                free((char *) d->d.label);
                free((char *) d->d.uuid);
                free(d->d.probe.text);
                free(d->uuid_sub);
                free(d->part_uuid);
                free(d->part_label);
                free(d->dm_name);
                free(d->dm_uuid);
                free(d->file);
                (void) blkup_lvm_text_free(d->lvm);
                free(d);
        }
        return NULL;
}

static bool has_prefix(const char *s, const char *prefix)
{
        return s && strncmp(s, prefix, strlen(prefix)) == 0;
}

static bool has_suffix(const char *s, const char *suffix)
{
        size_t n = s ? strlen(s) : 0, k = strlen(suffix);

        return n >= k && strcmp(s + n - k, suffix) == 0;
}

/* A snapshot stands on its origin and on a store of changes, which LVM calls NAME-cow (dm-snapshot's table;
 * lvm2's lib/activate/dev_manager.c names it). */
static bool is_snapshot(const struct blkup_sysblocks *t, const struct blkup_sysblock *b)
{
        for (size_t i = 0; i < b->n_slaves; i++) {
                const struct blkup_sysblock *s = blkup_sysblocks_by_name(t, b->slaves[i]);

                if (s && has_suffix(s->dm_name, "-cow"))
                        return true;
        }
        return false;
}

/* What the machine says; what is on the device may forbid more. */
static enum blkup_coldplug_bar bar_of(const struct blkup_sysblocks *t, const struct blkup_sysblock *b)
{
        const struct blkup_sysblock *disk = blkup_sysblocks_disk_of(t, b);

        if (!disk)
                disk = b;
        for (size_t i = 0; i < b->n_holders + disk->n_holders; i++) {
                const char *name = i < b->n_holders ? b->holders[i] : disk->holders[i - b->n_holders];
                const struct blkup_sysblock *holder = blkup_sysblocks_by_name(t, name);

                /* multipath-tools gives its mappings a UUID that begins so */
                if (holder && (has_prefix(holder->dm_uuid, "mpath-") || has_prefix(holder->dm_uuid, "part")))
                        return BLKUP_COLDPLUG_MULTIPATH;
        }
        if (b->n_holders > 0 || disk->n_holders > 0)
                return BLKUP_COLDPLUG_HELD;
        if (is_snapshot(t, b))
                return BLKUP_COLDPLUG_SNAPSHOT;
        if (disk->is_removable)
                return BLKUP_COLDPLUG_REMOVABLE;
        return b->is_read_only || disk->is_read_only ? BLKUP_COLDPLUG_READ_ONLY : BLKUP_COLDPLUG_FREE;
}

/* Not opened at all: what has no medium or is no place for a file system, and a disk that is cut into
 * partitions (the kernel has read its table). */
static bool is_left_alone(const struct blkup_sysblocks *t, const struct blkup_sysblock *b)
{
        if (!b->has_devno || b->is_hidden || b->size_sectors == 0 || b->dm_is_suspended ||
            has_prefix(b->name, "ram") || has_prefix(b->name, "zram") || has_prefix(b->name, "fd") ||
            has_prefix(b->name, "mtdblock"))
                return true;
        for (size_t i = 0; !b->is_partition && i < t->n; i++)
                if (t->blocks[i].is_partition && strcmp(t->blocks[i].disk_name, b->name) == 0)
                        return true;
        return false;
}

static int add(struct blkup_coldplug *c, struct blkup_cold_device *d)
{
        if (c->n_devices == c->device_cap) {
                size_t cap = c->device_cap ? c->device_cap * 2 : 16;
                struct blkup_cold_device **grown = realloc(c->devices, cap * sizeof(*grown));

                if (!grown)
                        return -ENOMEM;
                c->devices = grown;
                c->device_cap = cap;
        }
        d->run = c;
        d->index = c->n_devices;
        d->probe_node = d->end_node = d->last_check = BLKUP_POOL_NONE;
        c->devices[c->n_devices++] = d;
        c->n_open++;
        return 0;
}

static int add_block(struct blkup_coldplug *c, const struct blkup_sysblocks *t,
                     const struct blkup_sysblock *b)
{
        struct blkup_cold_device *d = calloc(1, sizeof(*d));
        char *path = NULL;
        int r;

        if (!d)
                return -ENOMEM;
        if (asprintf(&path, "/dev/%s", b->dev_name) < 0) {
                free(d);
                return -ENOMEM;
        }
        d->d = (struct blkup_coldplug_device){
                .path = path,
                .size_bytes = b->size_sectors * 512,
                .dev_major = b->dev_major,
                .dev_minor = b->dev_minor,
                .disk_major = b->disk_major,
                .disk_minor = b->disk_minor,
                .bar = bar_of(t, b),
        };
        d->diskseq = b->diskseq;
        d->dm_name = b->dm_name ? strdup(b->dm_name) : NULL;
        d->dm_uuid = b->dm_uuid ? strdup(b->dm_uuid) : NULL;
        r = add(c, d);
        if (r < 0)
                blkup_cold_device_free(d);
        return r;
}

int blkup_cold_add_image(struct blkup_coldplug *c, const char *path, size_t *ret)
{
        struct blkup_cold_device *d;
        struct stat st = { 0 };
        int r;

        for (size_t i = 0; i < c->n_devices; i++)
                if (strcmp(c->devices[i]->d.path, path) == 0) {
                        *ret = i;
                        return 0;
                }
        d = calloc(1, sizeof(*d));
        if (!d)
                return -ENOMEM;
        d->d.path = strdup(path);
        d->d.is_image = true;
        d->file = realpath(path, NULL);
        /* One that is not there fails when it is probed, and is named. */
        if (stat(path, &st) == 0 && S_ISBLK(st.st_mode)) {
                d->d.is_image = false;
                d->d.dev_major = major(st.st_rdev);
                d->d.dev_minor = minor(st.st_rdev);
        }
        d->d.disk_major = d->d.dev_major;
        d->d.disk_minor = d->d.dev_minor;
        d->d.size_bytes = S_ISREG(st.st_mode) ? (uint64_t) st.st_size : 0;
        r = d->d.path ? add(c, d) : -ENOMEM;
        if (r < 0) {
                blkup_cold_device_free(d);
                return r;
        }
        *ret = d->index;
        return 0;
}

struct blkup_cold_device *blkup_cold_by_devno(const struct blkup_coldplug *c, uint32_t dev_major,
                                              uint32_t dev_minor)
{
        for (size_t i = 0; i < c->n_devices; i++)
                if (c->devices[i]->d.dev_major == dev_major && c->devices[i]->d.dev_minor == dev_minor &&
                    !c->devices[i]->d.is_image && !c->devices[i]->is_gone)
                        return c->devices[i];
        return NULL;
}

int blkup_cold_walk(struct blkup_coldplug *c, struct blkup_error *err)
{
        struct blkup_sysblocks *t = NULL;
        int r = blkup_sysblocks_load(c->root, BLKUP_SYSFS_LINKS | BLKUP_SYSFS_STACK, &t, err);

        for (size_t i = 0; r == 0 && i < t->n && c->n_devices < MAX_DEVICES; i++)
                if (!is_left_alone(t, &t->blocks[i]))
                        r = add_block(c, t, &t->blocks[i]);
        blkup_sysblocks_free(t);
        return r;
}

/* Nobody opens it any more, and nobody waits for it. A probe that is under way ends as it may. */
void blkup_cold_set_gone(struct blkup_coldplug *c, struct blkup_cold_device *d)
{
        if (d->is_gone)
                return;
        /* However it went, by a medium or by the device: it is freed, and what it stood in the way of may go
         * on. */
        d->is_gone = c->is_untidy = c->has_gone = true;
        c->last_gone_ns = blkup_now_ns();
        for (size_t i = 0; i < c->n_sets; i++)
                if (c->sets[i] == d->lvm_set)
                        c->sets[i]->is_begun = false; /* its group may come back */
        blkup_cold_give_up(c, d, -ENODEV, "it was removed");
        blkup_cold_tell(c, BLKUP_COLDPLUG_EVENT_GONE, d->index, SIZE_MAX, NULL, NULL);
        blkup_cold_wake(c);
}

/* What is new of the first n in t, which was read from `at` on; with `gone`, what is not in it goes. A device
 * that came or went since is another reader's. 1: something went, so that t may still have it: to be read
 * again. */
static int take_over(struct blkup_coldplug *c, const struct blkup_sysblocks *t, size_t n, uint64_t at,
                     bool gone)
{
        int r = 0;

        (void) pthread_mutex_lock(&c->lock);
        if (c->last_gone_ns >= at) {
                (void) pthread_mutex_unlock(&c->lock);
                return 1;
        }
        for (size_t i = 0; gone && i < c->n_devices; i++) {
                struct blkup_cold_device *d = c->devices[i];
                const struct blkup_sysblock *b = blkup_sysblocks_by_devno(t, d->d.dev_major, d->d.dev_minor);

                if (!d->d.is_image && !d->is_gone && d->came_ns < at &&
                    (!b || b->size_sectors == 0 || (d->diskseq && b->diskseq && d->diskseq != b->diskseq)))
                        blkup_cold_set_gone(c, d);
        }
        for (size_t i = 0; r == 0 && i < n && c->n_devices < MAX_DEVICES && !c->is_finished; i++) {
                const struct blkup_sysblock *b = &t->blocks[i];
                struct blkup_cold_device *d;

                if (is_left_alone(t, b) || blkup_cold_by_devno(c, b->dev_major, b->dev_minor))
                        continue;
                r = add_block(c, t, b);
                if (r < 0)
                        break;
                d = c->devices[c->n_devices - 1];
                d->may_be_late = true;
                d->came_ns = blkup_now_ns();
                r = blkup_cold_add_probe(c, d);
                if (r < 0)
                        blkup_cold_give_up(c, d, r, "it could not be probed");
        }
        (void) pthread_mutex_unlock(&c->lock);
        return r;
}

int blkup_cold_walk_again(struct blkup_coldplug *c, bool gone)
{
        int r = 1;

        for (unsigned turn = 0; r == 1 && turn < MAX_TURNS; turn++) {
                struct blkup_sysblocks *t = NULL;
                uint64_t at = blkup_now_ns();

                r = blkup_sysblocks_load(c->root, BLKUP_SYSFS_LINKS | BLKUP_SYSFS_STACK, &t, NULL);
                if (r == 0)
                        r = take_over(c, t, t->n, at, gone);
                blkup_sysblocks_free(t);
        }
        if (r != 1)
                return r;
        /* Devices come and go faster than they can be listed: the watch does it again in a while. */
        (void) pthread_mutex_lock(&c->lock);
        c->walk_is_due = true;
        (void) pthread_mutex_unlock(&c->lock);
        return -EAGAIN;
}

/* A whole disk that is cut into partitions is left alone, and only a table with both of them shows that: its
 * partitions have events of their own, which come after its own. So a disk that has any is skipped here by
 * what its folder holds. */
int blkup_cold_look_at(struct blkup_coldplug *c, uint32_t dev_major, uint32_t dev_minor)
{
        struct blkup_sysblocks *t = NULL;
        uint64_t at = blkup_now_ns();
        int r = blkup_sysblocks_load_one(c->root, dev_major, dev_minor,
                                         BLKUP_SYSFS_LINKS | BLKUP_SYSFS_STACK | BLKUP_SYSFS_AROUND, &t,
                                         NULL);

        if (r == 0 &&
            (t->blocks[0].is_partition || !blkup_sysfs_has_partitions(c->root, dev_major, dev_minor)))
                r = take_over(c, t, 1, at, false);
        blkup_sysblocks_free(t);
        return r == 1 ? blkup_cold_walk_again(c, false) : r;
}
