/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What is tried again, in a run that stays.
 *
 * An entry that was decided has circumstances: the devices that it may mean, as they are, and what else its
 * failure depends on. It is tried again when they are others than those under which it failed, and not
 * before: so each try has a cause, and what a try itself makes of the device is none. Causes are:
 *
 *      a device that came, went, or answers otherwise    all of them
 *      its medium, size, partitions, bar                 the kernel's `change`, or a holder that went
 *      a module that came, whoever loaded it             "no such type of file system"
 *      the kernel's `change` of its device               "it is in use"; once a second at most
 *      a parent that is mounted now                      what was skipped for it
 *
 * No event tells of a mount point that is made, of a read-only mark that BLKROSET clears, or of a repair that
 * leaves the file system what it was. A hibernation image that was seen forbids writing until the next run:
 * one that was pulled may come back, and be resumed.
 *
 * An entry whose mount was seen and is not there any more, although its device is, was unmounted by somebody:
 * it is left alone, until somebody mounts it again.
 *
 * A device is looked at again by taking its place: a new one under the same number, of which nobody is told
 * when it is as it was.
 */
#include <errno.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/clock.h"
#include "bringup/cold.h"
#include "mount/names.h"

#define STEP_NS      UINT64_C(20000000)
#define BUSY_NS      UINT64_C(1000000000)
#define NO_MEMORY_NS UINT64_C(2000000000)
/* Whoever says a thousand times a second that something is new has it looked at ten times. */
#define AGAIN_NS     UINT64_C(100000000)
#define MAX_LATE     3u
#define MAX_LOOKS    64u /* devices at a time */

/* ---- devices that are looked at again ---- */

static bool is_same_text(const char *a, const char *b)
{
        return a == b || (a && b && strcmp(a, b) == 0);
}

bool blkup_cold_is_same(const struct blkup_cold_device *a, const struct blkup_cold_device *b)
{
        return a->diskseq == b->diskseq && a->d.size_bytes == b->d.size_bytes && a->d.bar == b->d.bar &&
               a->d.probe.state == b->d.probe.state && a->d.probe.error == b->d.probe.error &&
               is_same_text(a->d.path, b->d.path) && is_same_text(a->d.type, b->d.type) &&
               is_same_text(a->d.usage, b->d.usage) && is_same_text(a->d.label, b->d.label) &&
               is_same_text(a->d.uuid, b->d.uuid) && is_same_text(a->uuid_sub, b->uuid_sub) &&
               is_same_text(a->part_uuid, b->part_uuid) && is_same_text(a->part_label, b->part_label) &&
               is_same_text(a->dm_name, b->dm_name) && is_same_text(a->dm_uuid, b->dm_uuid);
}

void blkup_cold_find_before(struct blkup_coldplug *c, struct blkup_cold_device *d)
{
        for (size_t i = 0; i < c->n_devices; i++) {
                struct blkup_cold_device *o = c->devices[i];

                if (!o->is_replaced || o->d.dev_major != d->d.dev_major || o->d.dev_minor != d->d.dev_minor)
                        continue;
                o->is_replaced = false; /* once */
                blkup_cold_hold(o);
                d->before = o;
                d->n_changes = o->n_changes;
                d->n_late = o->n_late;
                return;
        }
}

static void take_place(struct blkup_coldplug *c, struct blkup_cold_device *d)
{
        struct blkup_cold_device *o = d->before;

        d->before = NULL;
        if (blkup_cold_is_same(o, d)) {
                d->serial = o->serial;
                d->is_taken = o->is_taken;
                d->lvm_set = o->lvm_set;
                d->has_owner = o->has_owner;
                d->owner = o->owner;
                d->last_check = o->last_check;
                d->last_pass = o->last_pass;
                for (size_t i = 0; i < c->n_entries; i++)
                        if (c->entries[i].device == o->index)
                                c->entries[i].device = d->index;
        } else {
                c->n_causes++;
        }
        o->is_aside = false;
        blkup_cold_let_go(o);
        c->is_untidy = true;
}

void blkup_cold_settle_again(struct blkup_coldplug *c)
{
        for (size_t i = 0; i < c->n_devices; i++)
                if (c->devices[i]->before && c->devices[i]->is_over)
                        take_place(c, c->devices[i]);
}

void blkup_cold_set_due(struct blkup_coldplug *c, uint32_t dev_major, uint32_t dev_minor)
{
        for (size_t i = 0; i < c->n_devices; i++) {
                struct blkup_cold_device *d = c->devices[i];
                bool is_it = d->d.dev_major == dev_major && d->d.dev_minor == dev_minor;

                /* What is said of a disk goes for its partitions. */
                if (d->is_gone || d->d.is_image ||
                    (!is_it && (d->d.disk_major != dev_major || d->d.disk_minor != dev_minor)))
                        continue;
                d->is_due = true;
                d->n_changes++;
        }
}

void blkup_cold_set_held_due(struct blkup_coldplug *c)
{
        for (size_t i = 0; i < c->n_devices; i++) {
                struct blkup_cold_device *d = c->devices[i];

                if (!d->is_gone && (d->d.bar == BLKUP_COLDPLUG_HELD || d->d.bar == BLKUP_COLDPLUG_MULTIPATH ||
                                    d->d.bar == BLKUP_COLDPLUG_SNAPSHOT))
                        d->is_due = true;
        }
}

static bool is_short_of_something(int error)
{
        return error == -ENOMEM || error == -EMFILE || error == -ENFILE || error == -EAGAIN;
}

/* Those that nobody tells of: an answer after all, or one that only we could not read. */
static void set_late_due(struct blkup_cold_device *d, uint64_t now, uint64_t *next)
{
        uint64_t at = d->d.probe.end_ns + NO_MEMORY_NS;

        if (d->is_due || !d->is_over)
                return;
        if (d->d.probe.state == BLKUP_COLDPLUG_TIMED_OUT && d->n_late < MAX_LATE && !blkup_cold_is_held(d)) {
                d->n_late++;
                d->is_due = true;
        } else if (d->d.probe.state == BLKUP_COLDPLUG_FAILED && is_short_of_something(d->d.probe.error)) {
                if (at <= now)
                        d->is_due = true;
                else if (at < *next)
                        *next = at;
        }
}

/* Does an entry work on d, or wait for its turn? */
static bool is_worked_on(struct blkup_coldplug *c, const struct blkup_cold_device *d)
{
        for (size_t i = 0; i < c->n_entries; i++)
                if (c->entries[i].device == d->index && c->cold[i].is_located && !blkup_cold_has_ended(c, i))
                        return true;
        return false;
}

/* Nobody has it in hand: it makes room for what is there now. With the lock. */
static bool set_aside(struct blkup_coldplug *c, struct blkup_cold_device *d, uint64_t now, uint64_t *next)
{
        if (!d->is_over || now < d->came_ns + AGAIN_NS || blkup_cold_is_held(d) || is_worked_on(c, d)) {
                if (now + STEP_NS < *next)
                        *next = now + STEP_NS;
                return false;
        }
        d->is_due = false;
        /* What is mounted is what it was; a write to it is no news. */
        if (blkup_cold_is_there(c, d))
                return false;
        d->is_gone = d->is_aside = d->is_replaced = true;
        c->last_gone_ns = now; /* a table that somebody reads just now has the old one */
        return true;
}

/* With the lock. Another has not come in its place: it is gone for good. */
static void set_gone(struct blkup_coldplug *c, struct blkup_cold_device *d)
{
        if (!d->is_replaced)
                return;
        d->is_replaced = d->is_aside = false;
        c->is_untidy = c->has_gone = true;
        blkup_cold_tell(c, BLKUP_COLDPLUG_EVENT_GONE, d->index, SIZE_MAX, NULL, NULL);
}

void blkup_cold_look_again(struct blkup_coldplug *c)
{
        struct blkup_cold_device *aside[MAX_LOOKS];
        uint64_t now = blkup_now_ns(), unused = UINT64_MAX;
        size_t n = 0;

        (void) pthread_mutex_lock(&c->lock);
        for (size_t i = 0; i < c->n_devices && n < MAX_LOOKS && c->is_settled; i++) {
                struct blkup_cold_device *d = c->devices[i];

                if (!d->is_gone && d->is_due && set_aside(c, d, now, &unused)) {
                        blkup_cold_hold(d);
                        aside[n++] = d;
                }
        }
        (void) pthread_mutex_unlock(&c->lock);
        for (size_t i = 0; i < n; i++)
                (void) !blkup_cold_look_at(c, aside[i]->d.dev_major, aside[i]->d.dev_minor);
        if (n == 0)
                return;
        (void) pthread_mutex_lock(&c->lock);
        for (size_t i = 0; i < n; i++) {
                set_gone(c, aside[i]);
                blkup_cold_let_go(aside[i]);
        }
        (void) pthread_mutex_unlock(&c->lock);
}

/* ---- circumstances ---- */

/* FNV-1a: whoever makes two of them equal has an entry that is not tried again. */
static void mix(uint64_t *h, const void *data, size_t n)
{
        const uint8_t *bytes = data;

        for (size_t i = 0; i < n; i++)
                *h = (*h ^ bytes[i]) * UINT64_C(0x100000001b3);
}

static void mix_number(uint64_t *h, uint64_t x)
{
        mix(h, &x, sizeof(x));
}

/* In any order: one that was looked at again is the last in the list. */
static void add_device(uint64_t *h, const struct blkup_cold_device *d)
{
        uint64_t one = UINT64_C(0xcbf29ce484222325);

        mix_number(&one, d->serial);
        mix_number(&one, (uint64_t) d->d.bar);
        *h += one;
}

uint64_t blkup_cold_circumstances(const struct blkup_coldplug *c, size_t index, bool *ret_is_open)
{
        const struct blkup_coldplug_entry *e = &c->entries[index];
        uint64_t h = 0;

        *ret_is_open = false;
        for (size_t i = 0; i < c->n_devices; i++) {
                const struct blkup_cold_device *d = c->devices[i];

                if (!blkup_cold_is_here(d))
                        continue;
                /* It may be any until it has answered. */
                if (!d->is_over || d->is_aside)
                        *ret_is_open = true;
                else if (i == e->device || blkup_cold_may_mean(c, d, e->source))
                        add_device(&h, d);
        }
        return h;
}

bool blkup_cold_is_good(const struct blkup_coldplug_entry *e)
{
        const struct blkup_coldplug_step *s = e->steps;

        return s[BLKUP_COLDPLUG_PROBE].state == BLKUP_COLDPLUG_DONE &&
               blkup_coldplug_is_good(s[BLKUP_COLDPLUG_CHECK].state) &&
               blkup_coldplug_is_good(s[BLKUP_COLDPLUG_MOUNT].state);
}

/* What an event takes away although its devices are as they were; counted from 0 for each try. */
static uint64_t other_causes(const struct blkup_coldplug *c, size_t index)
{
        const struct blkup_coldplug_entry *e = &c->entries[index];

        if (e->device == BLKUP_COLDPLUG_NO_DEVICE)
                return 0;
        switch (e->steps[BLKUP_COLDPLUG_MOUNT].error) {
        case -ENODEV: /* no such file system */
                return c->n_module_events;
        case -EBUSY:
                return c->devices[e->device]->n_changes;
        default:
                return 0;
        }
}

/* It was not tried since a parent had failed, and all of them are well now. */
static bool has_parents_now(struct blkup_coldplug *c, size_t index)
{
        size_t unused;

        const struct blkup_coldplug_entry *e = &c->entries[index];
        const struct blkup_cold_entry *cold = &c->cold[index];
        const struct blkup_coldplug_step *s = e->steps;

        if (s[BLKUP_COLDPLUG_PROBE].state != BLKUP_COLDPLUG_DONE ||
            !blkup_coldplug_is_good(s[BLKUP_COLDPLUG_CHECK].state) ||
            s[BLKUP_COLDPLUG_MOUNT].state != BLKUP_COLDPLUG_SKIPPED || e->mount)
                return false;
        for (size_t k = 0; k < cold->n_needs; k++) {
                size_t on = cold->needs[k];

                if (!(on & ~BLKUP_COLD_NEEDS_INDEX) &&
                    (!c->cold[on].is_ended || !blkup_cold_is_good(&c->entries[on])))
                        return false;
        }
        return !blkup_cold_lacks_parent(c, cold, &unused);
}

static bool is_to_be_tried(struct blkup_coldplug *c, size_t index, uint64_t now, uint64_t *next)
{
        struct blkup_cold_entry *cold = &c->cold[index];
        uint64_t h, others;
        bool is_open;

        if (cold->is_broken) {
                if (now < cold->decided_ns + BUSY_NS) {
                        *next = cold->decided_ns + BUSY_NS < *next ? cold->decided_ns + BUSY_NS : *next;
                        return false;
                }
                cold->decided_ns = now;
                return true;
        }
        if (!cold->is_ended || (blkup_cold_is_good(&c->entries[index]) && !c->entries[index].is_left_out))
                return false;
        if (has_parents_now(c, index))
                return true;
        h = blkup_cold_circumstances(c, index, &is_open);
        if (is_open)
                return false;
        if (h != cold->circumstances)
                return true;
        others = other_causes(c, index);
        if (others == cold->others)
                return false;
        if (now < cold->decided_ns + BUSY_NS) {
                *next = cold->decided_ns + BUSY_NS < *next ? cold->decided_ns + BUSY_NS : *next;
                return false;
        }
        return true;
}

/* ---- what is mounted ---- */

/* Is it what we mounted that stands there, and nothing that somebody has put there since? */
static bool is_still_ours(struct blkup_coldplug *c, size_t index)
{
        struct blkup_mountinfo *now = NULL;

        if (blkup_mountinfo_load(c->root, &now, NULL) < 0)
                return false;
        blkup_cold_take_mounts(c, now);
        return blkup_cold_is_at_place(c, index, false);
}

/* What we mounted ourselves and nobody can reach any more stands in the way of the next. What lies below it
 * goes with it, whether its own device is there or not. */
static void unmount(struct blkup_coldplug *c, size_t index, uint64_t now, uint64_t *next)
{
        const char *place = c->cold[index].place ? c->cold[index].place : c->entries[index].target;
        size_t n = strlen(place);

        if (!c->ops.mount && !is_still_ours(c, index))
                return;
        if (!c->ops.mount && umount2(place, MNT_DETACH | UMOUNT_NOFOLLOW) < 0) {
                if (errno != EINVAL && errno != ENOENT) /* somebody else was faster */
                        blkup_cold_tell(c, BLKUP_COLDPLUG_EVENT_WARNING, SIZE_MAX, index, place,
                                        "its device has gone, and it cannot be unmounted");
                return;
        }
        for (size_t i = 0; i < c->n_entries; i++) {
                const char *other = c->cold[i].place ? c->cold[i].place : c->entries[i].target;

                if (i != index && other && c->cold[i].is_ended && !c->cold[i].is_users &&
                    strncmp(other, place, n) == 0 && other[n] == '/' && c->entries[i].mount &&
                    c->entries[i].mount->outcome == BLKUP_MOUNT_DONE) {
                        c->cold[i].is_carried_off = true;
                        c->cold[i].is_seen = false;
                        *next = now;
                }
        }
}

static bool is_same_table(const struct blkup_mountinfo *a, const struct blkup_mountinfo *b)
{
        if (!a || a->n != b->n)
                return false;
        for (size_t i = 0; i < a->n; i++)
                if (a->mounts[i].id != b->mounts[i].id ||
                    strcmp(a->mounts[i].target, b->mounts[i].target) != 0 ||
                    strcmp(a->mounts[i].source, b->mounts[i].source) != 0)
                        return false;
        return true;
}

void blkup_cold_take_mounts(struct blkup_coldplug *c, struct blkup_mountinfo *t)
{
        c->n_causes += !is_same_table(c->mounts, t);
        blkup_mountinfo_free(c->mounts);
        c->mounts = t;
}

void blkup_cold_judge_mounts(struct blkup_coldplug *c)
{
        for (size_t i = 0; i < c->n_entries; i++) {
                struct blkup_coldplug_entry *e = &c->entries[i];
                struct blkup_cold_entry *cold = &c->cold[i];
                bool is_there, is_found;

                if (!cold->is_located || e->device == BLKUP_COLDPLUG_NO_DEVICE || !e->target ||
                    !blkup_cold_has_ended(c, i))
                        continue;
                is_there = blkup_cold_is_at_place(c, i, true);
                /* Others may wait for it to be there. Once, whatever comes of it. */
                is_found = is_there && !cold->is_users && !blkup_cold_is_good(e) && !e->is_left_out;
                if (is_found && !cold->is_found)
                        cold->is_carried_off = true;
                cold->is_found = is_found || (cold->is_found && is_there);
                if (is_there) {
                        cold->is_seen = true;
                        cold->is_users = false;
                } else if (cold->is_seen && blkup_cold_is_here(c->devices[e->device]) &&
                           !cold->is_carried_off) {
                        cold->is_seen = false;
                        cold->is_users = true;
                        blkup_cold_tell(c, BLKUP_COLDPLUG_EVENT_WARNING, c->devices[e->device]->index, i,
                                        NULL, "somebody has unmounted it: it is left alone");
                }
        }
}

/* ---- entries ---- */

/* Has it gone, or does another of which nobody knows yet what it is stand in its place? */
static bool has_gone(const struct blkup_coldplug *c, const struct blkup_coldplug_entry *e, bool *ret_is_open)
{
        const struct blkup_cold_device *d =
                e->device == BLKUP_COLDPLUG_NO_DEVICE ? NULL : c->devices[e->device];

        *ret_is_open = d && d->is_aside;
        return d && !blkup_cold_is_here(d);
}

static void begin_anew(struct blkup_coldplug *c, size_t index, uint64_t now, uint64_t *next)
{
        struct blkup_coldplug_entry *e = &c->entries[index];
        bool was_mounted = e->mount && e->mount->outcome == BLKUP_MOUNT_DONE, is_open;

        if (has_gone(c, e, &is_open) && was_mounted && e->target && !c->s.dry_run)
                unmount(c, index, now, next);
        if (blkup_cold_rearm(c, index) < 0) {
                c->cold[index].decided_ns = now;
                *next = now + BUSY_NS < *next ? now + BUSY_NS : *next;
        }
        c->is_untidy = true;
}

void blkup_cold_try_again(struct blkup_coldplug *c, uint64_t now, uint64_t *next)
{
        for (size_t i = 0; i < c->n_devices; i++) {
                set_late_due(c->devices[i], now, next);
                if (c->devices[i]->is_due && !c->devices[i]->is_gone && now + STEP_NS < *next)
                        *next = now + STEP_NS;
        }
        for (size_t i = 0; i < c->n_entries; i++) {
                struct blkup_coldplug_entry *e = &c->entries[i];
                struct blkup_cold_entry *cold = &c->cold[i];
                bool is_open, gone;

                if (!cold->is_located && !cold->is_broken)
                        continue;
                if (!cold->is_broken && !cold->is_ended && !blkup_cold_has_ended(c, i)) {
                        if (e->device != BLKUP_COLDPLUG_NO_DEVICE && c->devices[e->device]->is_gone &&
                            now + STEP_NS < *next)
                                *next = now + STEP_NS;
                        continue;
                }
                if (!cold->has_others) {
                        cold->others = other_causes(c, i);
                        cold->has_others = true;
                }
                gone = has_gone(c, e, &is_open);
                if (is_open)
                        continue;
                if (cold->is_users) {
                        /* Whatever comes under its name: the user has it. */
                        if (gone)
                                e->device = BLKUP_COLDPLUG_NO_DEVICE;
                        continue;
                }
                if (gone || cold->is_carried_off || is_to_be_tried(c, i, now, next))
                        begin_anew(c, i, now, next);
        }
}

/* ---- tidying ---- */

static bool is_asked_for(const struct blkup_coldplug *c, size_t device)
{
        for (size_t i = 0; i < c->n_entries; i++)
                if (c->entries[i].device == device)
                        return true;
        return false;
}

void blkup_cold_tidy(struct blkup_coldplug *c)
{
        size_t n = 0;

        if (!c->is_untidy)
                return;
        c->is_untidy = false;
        blkup_cold_tidy_sets(c);
        for (size_t i = 0; i < c->n_devices; i++) {
                struct blkup_cold_device *d = c->devices[i];

                if (d->is_gone && d->is_over && !d->is_aside && !d->before && !blkup_cold_is_held(d) &&
                    !is_asked_for(c, i)) {
                        (void) blkup_cold_device_free(d);
                        continue;
                }
                /* Those that are still held are looked at when somebody lets them go. */
                c->is_untidy = c->is_untidy || d->is_gone;
                for (size_t k = 0; n != i && k < c->n_entries; k++)
                        if (c->entries[k].device == i)
                                c->entries[k].device = n;
                d->index = n;
                c->devices[n++] = d;
        }
        c->n_devices = n;
}
