/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Who waits for whom, besides the stages of one entry: parents before children, checks by fs_passno and one
 * disk after the other, one owner a device.
 *
 * A parent is needed, or one of several for its place. All else is order, and holds among those whose devices
 * are there: nobody waits for a disk that is absent or silent because the fstab has it with a lower number,
 * or at the same place.
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

/* Behind those that are there of what it needs in that way. With the lock. */
static void order_behind(struct blkup_coldplug *c, const struct blkup_cold_entry *cold, size_t how)
{
        for (size_t k = 0; k < cold->n_needs; k++) {
                const struct blkup_cold_entry *on = &c->cold[cold->needs[k] & BLKUP_COLD_NEEDS_INDEX];

                if ((cold->needs[k] & how) && on->is_located && on->locate_error == 0 &&
                    on->mount_node != BLKUP_POOL_NONE)
                        (void) !blkup_pool_depend(c->pool, cold->mount_node, on->mount_node,
                                                  BLKUP_POOL_AFTER);
        }
}

struct behind {
        bool *is;      /* of each entry */
        size_t *first; /* of each device: the first line of it that is */
};

static bool is_behind_any(const struct blkup_coldplug *c, size_t i, const struct behind *b)
{
        const struct blkup_cold_entry *cold = &c->cold[i];
        size_t device = c->entries[i].device;

        if (device != BLKUP_COLDPLUG_NO_DEVICE && b->first[device] < i)
                return true;
        for (size_t k = 0; k < cold->n_needs; k++)
                if (b->is[cold->needs[k] & BLKUP_COLD_NEEDS_INDEX])
                        return true;
        return false;
}

static void add_behind(const struct blkup_coldplug *c, size_t i, struct behind *b)
{
        size_t device = c->entries[i].device;

        b->is[i] = true;
        if (device != BLKUP_COLDPLUG_NO_DEVICE && i < b->first[device])
                b->first[device] = i;
}

/* Who comes behind an entry, itself included. Of one of several parents the pool is told late, so it cannot
 * know. */
static void find_behind(const struct blkup_coldplug *c, size_t entry, struct behind *b)
{
        bool goes_on = true;

        for (size_t i = 0; i < c->n_devices; i++)
                b->first[i] = SIZE_MAX;
        add_behind(c, entry, b);
        while (goes_on) { /* ends: each turn but the last finds one more */
                goes_on = false;
                for (size_t i = 0; i < c->n_entries; i++)
                        if (!b->is[i] && is_behind_any(c, i, b)) {
                                add_behind(c, i, b);
                                goes_on = true;
                        }
        }
}

/* Of lines for one device the first decides whether its file system is read-only; but for one that lies below
 * a later one. Each is behind the one before it: an edge to all of them would cost the pool too much. */
static void order_behind_same_device(struct blkup_coldplug *c, const struct blkup_cold_entry *cold)
{
        size_t device = c->entries[cold->index].device, i = cold->index;
        struct behind b = { 0 };
        int r = -ELOOP;

        if (device == BLKUP_COLDPLUG_NO_DEVICE)
                return;
        while (r == -ELOOP && i-- > 0) { /* ends: with the first line */
                if (c->entries[i].device != device || !c->cold[i].is_located ||
                    c->cold[i].locate_error < 0 || c->cold[i].mount_node == BLKUP_POOL_NONE)
                        continue;
                if (!b.is) {
                        b.is = calloc(c->n_entries + 1, sizeof(*b.is));
                        b.first = calloc(c->n_devices + 1, sizeof(*b.first));
                        if (!b.is || !b.first)
                                break;
                        find_behind(c, cold->index, &b);
                }
                if (!b.is[i])
                        r = blkup_pool_depend(c->pool, cold->mount_node, c->cold[i].mount_node,
                                              BLKUP_POOL_AFTER);
        }
        free(b.is);
        free(b.first);
}

void blkup_cold_order(struct blkup_coldplug *c, struct blkup_cold_entry *cold)
{
        cold->is_ordered = true;
        order_behind(c, cold, BLKUP_COLD_NEEDS_ORDER);
        order_behind_same_device(c, cold);
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

/* ---- parents ---- */

static size_t place_of(const struct blkup_coldplug *c, size_t entry)
{
        return c->cold[entry].twin == SIZE_MAX ? entry : c->cold[entry].twin;
}

/* Of the entries for one place that `cold` needs one of. */
struct parents {
        bool is_any_there, is_any_good, may_come, is_any_left_out;
        size_t last; /* of them */
};

static struct parents look_at_parents(struct blkup_coldplug *c, const struct blkup_cold_entry *cold,
                                      size_t place)
{
        struct parents p = { .last = SIZE_MAX };

        for (size_t k = 0; k < cold->n_needs; k++) {
                size_t on = cold->needs[k] & BLKUP_COLD_NEEDS_INDEX;

                if (!(cold->needs[k] & BLKUP_COLD_NEEDS_ANY) || place_of(c, on) != place)
                        continue;
                p.last = on;
                if (c->entries[on].is_left_out || (!c->cold[on].is_located && !blkup_cold_is_named(c, on)))
                        p.is_any_left_out = true;
                else if (!c->cold[on].is_located)
                        p.may_come = true;
                else if (c->cold[on].locate_error == 0 && !blkup_cold_has_ended(c, on))
                        p.is_any_there = true;
                else if (c->cold[on].locate_error == 0 && blkup_cold_is_good(&c->entries[on]))
                        p.is_any_there = p.is_any_good = true;
        }
        return p;
}

/* Is there nobody yet of those that it needs one of? With the lock. */
static bool waits(struct blkup_coldplug *c, const struct blkup_cold_entry *cold)
{
        for (size_t k = 0; k < cold->n_needs; k++) {
                struct parents p;

                if (!(cold->needs[k] & BLKUP_COLD_NEEDS_ANY))
                        continue;
                p = look_at_parents(c, cold, place_of(c, cold->needs[k] & BLKUP_COLD_NEEDS_INDEX));
                if (p.may_come && !p.is_any_there && !p.is_any_left_out)
                        return true;
        }
        return false;
}

static int run_parents(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                       struct blkup_error *err)
{
        struct blkup_cold_entry *cold = arg;
        struct blkup_coldplug *c = cold->run;
        int r = 0;

        (void) p;
        (void) worker;
        (void) err;
        (void) pthread_mutex_lock(&c->lock);
        if (cold->parents_node == node) {
                cold->waits_for_parents = waits(c, cold);
                r = cold->waits_for_parents ? BLKUP_POOL_PENDING : 0;
                if (r == 0)
                        order_behind(c, cold, BLKUP_COLD_NEEDS_ANY);
        }
        (void) pthread_mutex_unlock(&c->lock);
        return r;
}

void blkup_cold_let_children_go(struct blkup_coldplug *c)
{
        for (size_t i = 0; i < c->n_entries; i++) {
                struct blkup_cold_entry *cold = &c->cold[i];

                if (!cold->waits_for_parents || waits(c, cold))
                        continue;
                cold->waits_for_parents = false;
                order_behind(c, cold, BLKUP_COLD_NEEDS_ANY);
                (void) !blkup_pool_complete(c->pool, cold->parents_node, 0, NULL);
        }
}

int blkup_cold_add_parents(struct blkup_coldplug *c, struct blkup_cold_entry *cold)
{
        const struct blkup_coldplug_entry *e = &c->entries[cold->index];
        bool is_any = false;
        int r;

        for (size_t k = 0; k < cold->n_needs; k++)
                is_any = is_any || (cold->needs[k] & BLKUP_COLD_NEEDS_ANY);
        if (!is_any)
                return 0;
        r = blkup_cold_add_node(c, e->target ? e->target : e->source, 1, 0, run_parents, cold,
                                blkup_cold_drop_entry, &cold->order_node, &cold->parents_node);
        return r < 0 ? r : blkup_pool_depend(c->pool, cold->mount_node, cold->parents_node, BLKUP_POOL_NEEDS);
}

bool blkup_cold_lacks_parent(struct blkup_coldplug *c, const struct blkup_cold_entry *cold, size_t *ret)
{
        for (size_t k = 0; k < cold->n_needs; k++) {
                struct parents p;

                if (!(cold->needs[k] & BLKUP_COLD_NEEDS_ANY))
                        continue;
                p = look_at_parents(c, cold, place_of(c, cold->needs[k] & BLKUP_COLD_NEEDS_INDEX));
                if (!p.is_any_good && !p.is_any_left_out) {
                        *ret = p.last;
                        return true;
                }
        }
        return false;
}

bool blkup_cold_has_to_wait(const struct blkup_coldplug *c, const struct blkup_cold_entry *cold,
                            const bool *waits_too)
{
        for (size_t k = 0; k < cold->n_needs; k++) {
                size_t on = cold->needs[k] & BLKUP_COLD_NEEDS_INDEX;
                bool do_all = waits_too[on];

                if ((cold->needs[k] & BLKUP_COLD_NEEDS_ORDER) || !do_all)
                        continue;
                if (!(cold->needs[k] & BLKUP_COLD_NEEDS_ANY))
                        return true;
                for (size_t i = 0; i < cold->n_needs && do_all; i++) {
                        size_t other = cold->needs[i] & BLKUP_COLD_NEEDS_INDEX;

                        if ((cold->needs[i] & BLKUP_COLD_NEEDS_ANY) && place_of(c, other) == place_of(c, on))
                                do_all = waits_too[other] && blkup_cold_is_named(c, other);
                }
                if (do_all)
                        return true;
        }
        return false;
}

/* Is one of several enough, or may it be left out? */
static bool is_any(const struct blkup_coldplug *c, const struct blkup_mount_graph *g, size_t on)
{
        for (size_t i = 0; i < c->n_entries; i++)
                if (i != on && blkup_mount_graph_is_same_place(g, i, on))
                        return true;
        return !blkup_cold_is_named(c, on);
}

static int add_need(struct blkup_coldplug *c, const struct blkup_mount_graph *g, size_t i, size_t on)
{
        struct blkup_cold_entry *cold = &c->cold[i];
        size_t how = 0;
        int r = 0;

        if (!blkup_mount_graph_is_need(g, i, on))
                how = BLKUP_COLD_NEEDS_ORDER;
        else if (is_any(c, g, on))
                how = BLKUP_COLD_NEEDS_ANY;
        else
                r = blkup_pool_depend(c->pool, cold->mount_node, c->cold[on].mount_node, BLKUP_POOL_NEEDS);
        cold->needs[cold->n_needs++] = on | how;
        /* Lines for one place are in the order of the file: the first has no twin. */
        if (blkup_mount_graph_is_same_place(g, i, on) && on < i &&
            (cold->twin == SIZE_MAX || on < cold->twin))
                cold->twin = on;
        return r;
}

/* Parents before children, as `mount -a` has it. What is only order does not fail with the one before. */
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
                for (size_t k = 0; r == 0 && k < n && k < c->n_entries; k++)
                        r = add_need(c, g, i, needs[k]);
        }
        for (size_t i = 0; r == 0 && i < c->n_entries; i++)
                r = blkup_cold_add_parents(c, &c->cold[i]);
        blkup_mount_graph_free(g);
        free(needs);
        free(q);
        return r;
}
