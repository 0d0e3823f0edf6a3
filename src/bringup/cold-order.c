/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Who waits for whom, besides the stages of one entry: parents before children, checks by fs_passno and one
 * disk after the other, one owner a device.
 *
 * A parent is needed. All else is order, and holds among those whose devices are there: nobody waits for a
 * disk that is absent or silent because the fstab has it with a lower number, or at the same place.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bringup/cold.h"

#define MAX_PASSES 64

/* Checks of one disk one after the other: two at once would only make its heads run. And an entry whose
 * device another entry finishes and checks waits for that one. With the lock. */
static void order_on_device(struct blkup_coldplug *c, struct blkup_cold_entry *cold)
{
        const struct blkup_coldplug_entry *e = &c->entries[cold->index];
        struct blkup_cold_device *d, *disk;

        if (e->device == BLKUP_COLDPLUG_NO_DEVICE || cold->locate_error < 0)
                return;
        d = disk = c->devices[e->device];
        if (e->kind == BLKUP_COLDPLUG_SWAP) {
                /* Neither finished nor checked; but of two lines for one area the second finds it active. */
                if (d->has_owner && d->owner != cold->index)
                        (void) !blkup_pool_depend(c->pool, cold->mount_node, c->cold[d->owner].mount_node,
                                                  BLKUP_POOL_AFTER);
                return;
        }
        if (d->owner != cold->index) {
                /* An edge that would close a circle, or that comes too late, is not needed. */
                (void) !blkup_pool_depend(c->pool, cold->mount_node, c->cold[d->owner].check_node,
                                          BLKUP_POOL_NEEDS);
                return;
        }
        if (e->passno <= 0 || e->is_left_out || d->d.is_image)
                return;
        for (size_t i = 0; i < c->n_devices; i++)
                if (c->devices[i]->d.disk_major == d->d.disk_major &&
                    c->devices[i]->d.disk_minor == d->d.disk_minor && !c->devices[i]->d.is_image) {
                        disk = c->devices[i];
                        break;
                }
        if (disk->last_check != BLKUP_POOL_NONE && disk->last_pass == e->passno)
                (void) !blkup_pool_depend(c->pool, cold->check_node, disk->last_check, BLKUP_POOL_AFTER);
        disk->last_check = cold->check_node;
        disk->last_pass = e->passno;
}

/* File order, among those that are there. */
static void order_as_in_file(struct blkup_coldplug *c, const struct blkup_cold_entry *cold)
{
        for (size_t k = 0; k < cold->n_needs; k++) {
                const struct blkup_cold_entry *on = &c->cold[cold->needs[k] & ~BLKUP_COLD_NEEDS_ORDER];

                if ((cold->needs[k] & BLKUP_COLD_NEEDS_ORDER) && on->is_located && on->locate_error == 0 &&
                    on->mount_node != BLKUP_POOL_NONE)
                        (void) !blkup_pool_depend(c->pool, cold->mount_node, on->mount_node,
                                                  BLKUP_POOL_AFTER);
        }
}

void blkup_cold_order(struct blkup_coldplug *c, struct blkup_cold_entry *cold)
{
        order_as_in_file(c, cold);
        order_on_device(c, cold);
}

static bool is_checked_in(const struct blkup_coldplug *c, size_t i, int pass)
{
        return c->entries[i].passno == pass && c->cold[i].is_located && c->cold[i].locate_error == 0 &&
               !c->entries[i].is_left_out;
}

/* The lowest number above `pass`; 0: none. */
static int next_pass(const struct blkup_coldplug *c, int pass)
{
        int next = 0;

        for (size_t i = 0; i < c->n_entries; i++)
                if (c->entries[i].passno > pass && (next == 0 || c->entries[i].passno < next) &&
                    is_checked_in(c, i, c->entries[i].passno))
                        next = c->entries[i].passno;
        return next;
}

int blkup_cold_order_passes(struct blkup_coldplug *c, uint32_t settled)
{
        uint32_t point = BLKUP_POOL_NONE;
        int pass = next_pass(c, 0), r = 0;

        /* Ends: the number grows each turn, and only numbers that an entry has are taken. */
        for (unsigned turn = 0; r == 0 && pass > 0 && turn < MAX_PASSES; turn++) {
                int next = next_pass(c, pass);
                uint32_t done = BLKUP_POOL_NONE;

                if (next > 0)
                        r = blkup_cold_add_node(c, "checks", 1, 0, NULL, NULL, NULL, &settled, &done);
                for (size_t i = 0; r == 0 && i < c->n_entries; i++) {
                        if (!is_checked_in(c, i, pass))
                                continue;
                        if (point != BLKUP_POOL_NONE)
                                r = blkup_pool_depend(c->pool, c->cold[i].check_node, point,
                                                      BLKUP_POOL_AFTER);
                        if (r == 0 && done != BLKUP_POOL_NONE)
                                r = blkup_pool_depend(c->pool, done, c->cold[i].check_node, BLKUP_POOL_AFTER);
                }
                if (r == 0 && point != BLKUP_POOL_NONE && done != BLKUP_POOL_NONE)
                        r = blkup_pool_depend(c->pool, done, point, BLKUP_POOL_AFTER);
                point = done;
                pass = next;
        }
        return r;
}

/* Parents before children, as `mount -a` has it. What is only file order does not fail with the one before.
 */
int blkup_cold_order_mounts(struct blkup_coldplug *c)
{
        struct blkup_mount_request *q = calloc(c->n_entries + 1, sizeof(*q));
        size_t *needs = calloc(c->n_entries + 1, sizeof(*needs));
        struct blkup_mount_graph *g = NULL;
        int r = q && needs ? 0 : -ENOMEM;

        for (size_t i = 0; r == 0 && i < c->n_entries; i++)
                q[i] = (struct blkup_mount_request){
                        .line = c->entries[i].line, .source = c->entries[i].source,
                        .target = c->entries[i].target, .types = c->cold[i].types,
                        .options = c->entries[i].options,
                };
        if (r == 0)
                r = blkup_mount_graph_new(c->mounter, q, c->n_entries, &g);
        for (size_t i = 0; r == 0 && i < c->n_entries; i++) {
                size_t n = blkup_mount_graph_needs(g, i, needs, c->n_entries);

                c->cold[i].needs = calloc(n + 1, sizeof(*needs));
                if (!c->cold[i].needs)
                        r = -ENOMEM;
                for (size_t k = 0; r == 0 && k < n && k < c->n_entries; k++) {
                        bool is_order = strstr(blkup_mount_graph_why(g, i, needs[k]), "file order") != NULL;

                        if (!is_order)
                                r = blkup_pool_depend(c->pool, c->cold[i].mount_node,
                                                      c->cold[needs[k]].mount_node, BLKUP_POOL_NEEDS);
                        c->cold[i].needs[c->cold[i].n_needs++] =
                                needs[k] | (is_order ? BLKUP_COLD_NEEDS_ORDER : 0);
                }
        }
        blkup_mount_graph_free(g);
        free(needs);
        free(q);
        return r;
}
