/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What comes and goes while the graph runs: one node that listens to the kernel, gives up what is silent, and
 * tells who wants to know. It is the only one that ends a run which nothing else would end.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/clock.h"
#include "bringup/cold.h"
#include "bringup/explain.h"
#include "host/uevent.h"

/* Without uevents a medium or a device is looked for this often. */
#define LOOK_AGAIN_NS UINT64_C(50000000)
/* Above this many at once /sys is walked instead of looking at each. */
#define MANY_EVENTS   16u
/* Steps that are under way are looked at this often, where somebody wants to know at once. */
#define STEP_NS       UINT64_C(20000000)
/* Taken before anything else is done: the queue of the kernel shall not run over while we walk. */
#define MAX_DRAIN     65536u

int blkup_cold_listen(struct blkup_coldplug *c)
{
        c->uevent_fd = c->wake_fd = -1;
        if (c->s.n_images > 0)
                return 0;
        c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (c->wake_fd < 0)
                return -errno;
        if (c->s.uevent_fd != 0) {
                c->uevent_fd = c->s.uevent_fd;
        } else if (!c->root) {
                /* Where there is none to be had, /sys is looked at again and again. */
                c->owns_uevent_fd = blkup_uevent_open(c->s.uevent_bytes, &c->uevent_fd, NULL) == 0;
                if (!c->owns_uevent_fd)
                        c->uevent_fd = -1;
        }
        return 0;
}

void blkup_cold_unlisten(struct blkup_coldplug *c)
{
        if (c->owns_uevent_fd)
                (void) blkup_close(c->uevent_fd);
        if (c->wake_fd >= 0)
                (void) blkup_close(c->wake_fd);
        /* Ends: the list gets shorter each turn. */
        while (c->news) {
                struct blkup_cold_news *n = c->news;

                c->news = n->next;
                free(n->name);
                free(n->text);
                free(n);
        }
}

void blkup_cold_wake(struct blkup_coldplug *c)
{
        uint64_t one = 1;

        if (c->wake_fd >= 0)
                (void) !write(c->wake_fd, &one, sizeof(one));
}

void blkup_cold_work_over(struct blkup_coldplug *c)
{
        c->n_work--;
        (void) pthread_cond_broadcast(&c->changed);
        blkup_cold_wake(c);
        if (c->is_settled)
                blkup_cold_locate_pending(c);
}

/* ---- telling ---- */

const char *blkup_coldplug_event_name(enum blkup_coldplug_event_kind k)
{
        static const char *const names[] = { "device",    "gone",    "ready",  "failed",
                                             "assembled", "warning", "settled" };

        return (unsigned) k < BLKUP_ARRAY_SIZE(names) ? names[k] : "?";
}

void blkup_cold_tell(struct blkup_coldplug *c, enum blkup_coldplug_event_kind kind, size_t device,
                     size_t entry, const char *name, const char *text)
{
        struct blkup_cold_news *n;

        if (!c->s.tell || c->wake_fd < 0 || c->is_finished)
                return;
        n = calloc(1, sizeof(*n));
        if (!n)
                return; /* who listens sees less; what is done is the same */
        n->kind = kind;
        n->device = device;
        n->entry = entry;
        n->name = name ? strdup(name) : NULL;
        n->text = text ? strdup(text) : NULL;
        if (!c->news)
                c->news_end = &c->news;
        *c->news_end = n;
        c->news_end = &n->next;
        blkup_cold_wake(c);
}

void blkup_cold_tell_entry(struct blkup_coldplug *c, size_t entry)
{
        const struct blkup_coldplug_entry *e = &c->entries[entry];
        const struct blkup_coldplug_step *s = e->steps;
        bool is_good = s[BLKUP_COLDPLUG_PROBE].state == BLKUP_COLDPLUG_DONE &&
                       blkup_coldplug_is_good(s[BLKUP_COLDPLUG_CHECK].state) &&
                       blkup_coldplug_is_good(s[BLKUP_COLDPLUG_MOUNT].state);

        if (e->is_left_out || c->cold[entry].is_told)
                return;
        c->cold[entry].is_told = true;
        blkup_cold_tell(c, is_good ? BLKUP_COLDPLUG_EVENT_READY : BLKUP_COLDPLUG_EVENT_FAILED, e->device,
                        entry, e->source, NULL);
}

/* Why an entry failed, in words; only this thread rearms entries, so what it looks at stays. */
static void explain_entry(struct blkup_coldplug *c, size_t i, char *text, size_t cap)
{
        const struct blkup_coldplug_entry *e = &c->entries[i];
        struct blkup_explainer *x;

        for (size_t k = 0; k < BLKUP_COLDPLUG_STAGES; k++)
                if (!blkup_coldplug_is_good(e->steps[k].state) && e->steps[k].text) {
                        (void) snprintf(text, cap, "%s", e->steps[k].text);
                        return;
                }
        x = e->mount ? blkup_explainer_new(c->root) : NULL;
        if (x) {
                struct blkup_mount_request q = {
                        .line = e->line,
                        .target = e->target,
                        .options = e->options,
                        .types = c->cold[i].types,
                        .source = e->device == BLKUP_COLDPLUG_NO_DEVICE ? e->source
                                                                        : c->devices[e->device]->d.path,
                };

                blkup_explain_mount(x, &q, e->mount, text, cap);
        }
        blkup_explainer_unref(x);
}

static void tell_one(struct blkup_coldplug *c, struct blkup_cold_news *n)
{
        struct blkup_coldplug_event e = { .kind = n->kind, .device = n->name, .text = n->text };
        char why[1024] = "";

        (void) pthread_mutex_lock(&c->lock);
        if (n->device != SIZE_MAX) {
                const struct blkup_cold_device *d = c->devices[n->device];

                e.device = d->d.path;
                e.type = d->d.type;
                e.label = d->d.label;
                e.uuid = d->d.uuid;
                if (!e.text)
                        e.text = d->d.probe.text;
        }
        if (n->entry != SIZE_MAX)
                e.target = c->entries[n->entry].target;
        (void) pthread_mutex_unlock(&c->lock);
        if (n->kind == BLKUP_COLDPLUG_EVENT_FAILED && n->entry != SIZE_MAX) {
                explain_entry(c, n->entry, why, sizeof(why));
                e.text = *why ? why : NULL;
        }
        c->s.tell(c->s.tell_to, &e);
}

static void tell_all(struct blkup_coldplug *c)
{
        struct blkup_cold_news *n;

        (void) pthread_mutex_lock(&c->lock);
        n = c->news;
        c->news = NULL;
        (void) pthread_mutex_unlock(&c->lock);
        /* Ends: the list gets shorter each turn. */
        while (n) {
                struct blkup_cold_news *next = n->next;

                tell_one(c, n);
                free(n->name);
                free(n->text);
                free(n);
                n = next;
        }
}

/* ---- the kernel's word ---- */

static bool is_block(const struct blkup_uevent *e)
{
        return strcmp(e->subsystem, "block") == 0 && e->has_devno;
}

/* What an event says at once; the rest is for who looks at /sys. true: look at this device. */
static bool take_event(struct blkup_coldplug *c, const struct blkup_uevent *e)
{
        struct blkup_cold_device *d;
        bool look;

        (void) pthread_mutex_lock(&c->lock);
        c->result.n_events++;
        if (e->action == BLKUP_UEVENT_ADD)
                blkup_cold_want_alias(c, e->modalias);
        look = is_block(e) && (e->action == BLKUP_UEVENT_ADD || e->action == BLKUP_UEVENT_CHANGE);
        d = is_block(e) ? blkup_cold_by_devno(c, e->dev_major, e->dev_minor) : NULL;
        if (d && (e->action == BLKUP_UEVENT_REMOVE ||
                  (e->action == BLKUP_UEVENT_CHANGE && e->is_media_change && c->s.is_watch)))
                blkup_cold_set_gone(c, d);
        else if (d && e->action == BLKUP_UEVENT_ADD && e->diskseq && d->diskseq && e->diskseq != d->diskseq)
                blkup_cold_set_gone(c, d); /* another disk has its number: the end of the first was lost */
        (void) pthread_mutex_unlock(&c->lock);
        return look;
}

static void take_events(struct blkup_coldplug *c)
{
        struct {
                uint32_t dev_major, dev_minor;
        } seen[MANY_EVENTS];
        BLKUP_CLEANUP_FREE struct blkup_uevent *e = malloc(sizeof(*e));
        size_t n_seen = 0;
        bool is_lost = e == NULL, is_many = false;

        for (unsigned i = 0; e && i < MAX_DRAIN; i++) {
                int r = blkup_uevent_receive(c->uevent_fd, e);
                size_t k = 0;

                if (r == -ENOBUFS) {
                        is_lost = true;
                        continue;
                }
                if (r < 0) {
                        if (r == -EPIPE)
                                __atomic_store_n(&c->uevent_fd, -1, __ATOMIC_RELAXED);
                        break;
                }
                if (r == 0 || !take_event(c, e))
                        continue;
                while (k < n_seen && (seen[k].dev_major != e->dev_major || seen[k].dev_minor != e->dev_minor))
                        k++;
                if (k == MANY_EVENTS)
                        is_many = true;
                else if (k == n_seen) {
                        seen[n_seen].dev_major = e->dev_major;
                        seen[n_seen++].dev_minor = e->dev_minor;
                }
        }
        if (is_lost) {
                (void) pthread_mutex_lock(&c->lock);
                c->result.n_overflows++;
                c->wants_alias_walk = true;
                blkup_cold_start_loader(c);
                (void) pthread_mutex_unlock(&c->lock);
        }
        if (is_lost || is_many) {
                (void) !blkup_cold_walk_again(c, is_lost);
                return;
        }
        for (size_t k = 0; k < n_seen; k++)
                (void) !blkup_cold_look_at(c, seen[k].dev_major, seen[k].dev_minor);
}

/* ---- time ---- */

static void earlier(uint64_t *at, uint64_t candidate)
{
        if (candidate < *at)
                *at = candidate;
}

/* Gives up what came during the run and does not answer. With the lock. */
static void give_up_late(struct blkup_coldplug *c, uint64_t now, uint64_t *next)
{
        for (size_t i = 0; c->n_open > 0 && i < c->n_devices; i++) {
                struct blkup_cold_device *d = c->devices[i];
                uint64_t until = (d->began_ns ? d->began_ns : d->came_ns) + blkup_cold_device_ns(c);
                bool is_closed = c->is_closed && c->s.wait_ns > 0 && c->deadline_ns < now;

                if (d->is_over || !d->may_be_late)
                        continue;
                if (is_closed)
                        blkup_cold_give_up(c, d, -ETIMEDOUT, "no answer before the end of --wait");
                else if (until <= now)
                        blkup_cold_give_up(c, d, -ETIMEDOUT, NULL);
                else
                        earlier(next, until);
        }
}

static bool has_ended(struct blkup_coldplug *c, uint32_t node)
{
        struct blkup_pool_result r;

        return blkup_pool_get(c->pool, node, &r) == 0 && r.state >= BLKUP_POOL_DONE;
}

/* Entries that have been through. With the lock. */
static void tell_entries(struct blkup_coldplug *c, uint64_t now, uint64_t *next)
{
        for (size_t i = 0; c->s.tell && i < c->n_entries; i++) {
                if (!c->cold[i].is_located || c->cold[i].is_told)
                        continue;
                if (has_ended(c, c->cold[i].mount_node))
                        blkup_cold_tell_entry(c, i);
                else
                        earlier(next, now + STEP_NS);
        }
}

/* Entries whose device has gone begin anew. Only with is_watch. With the lock. */
static void rearm(struct blkup_coldplug *c, uint64_t now, uint64_t *next)
{
        for (size_t i = 0; i < c->n_entries; i++) {
                struct blkup_coldplug_entry *e = &c->entries[i];
                bool was_mounted = e->mount && e->mount->outcome == BLKUP_MOUNT_DONE;

                if (e->device == BLKUP_COLDPLUG_NO_DEVICE || !c->devices[e->device]->is_gone ||
                    !c->cold[i].is_located)
                        continue;
                if (!has_ended(c, c->cold[i].mount_node)) {
                        earlier(next, now + STEP_NS);
                        continue;
                }
                /* What we mounted ourselves and nobody can reach any more stands in the way of the next. */
                if (was_mounted && e->target && !c->ops.mount && umount2(e->target, MNT_DETACH) < 0)
                        blkup_cold_tell(c, BLKUP_COLDPLUG_EVENT_WARNING, SIZE_MAX, i, e->target,
                                        "its device has gone, and it cannot be unmounted");
                if (blkup_cold_rearm(c, i) < 0)
                        e->device = BLKUP_COLDPLUG_NO_DEVICE;
        }
}

static bool is_stop(const struct blkup_coldplug *c)
{
        struct pollfd p = { .fd = c->s.stop_fd, .events = POLLIN };

        return c->s.is_watch && c->s.stop_fd >= 0 && poll(&p, 1, 0) > 0;
}

/* true: nothing more is to be waited for. With the lock. */
static bool is_over(struct blkup_coldplug *c, uint64_t now, uint64_t *next)
{
        if (c->s.is_watch) {
                c->is_stopped = c->is_stopped || is_stop(c);
                if (!c->is_told_settled && c->is_settled && c->n_open == 0 && c->n_work == 0) {
                        c->is_told_settled = true;
                        blkup_cold_tell(c, BLKUP_COLDPLUG_EVENT_SETTLED, SIZE_MAX, SIZE_MAX, NULL, NULL);
                }
                return c->is_stopped;
        }
        if (!c->is_closed && now >= c->deadline_ns) {
                c->is_closed = true;
                blkup_cold_locate_pending(c);
        } else if (!c->is_closed) {
                earlier(next, c->deadline_ns);
        }
        if (c->n_open > 0 || c->n_work > 0 || !c->is_settled)
                return false;
        return !blkup_cold_is_waiting(c) || !blkup_cold_may_come(c);
}

static void wait_for_something(struct blkup_coldplug *c, uint64_t next)
{
        uint64_t now = blkup_now_ns(), left = next > now ? next - now : 0, drop;
        struct pollfd fds[3] = {
                { .fd = c->wake_fd, .events = POLLIN },
                { .fd = c->uevent_fd, .events = POLLIN },
                { .fd = c->s.is_watch ? c->s.stop_fd : -1, .events = POLLIN },
        };
        int ms = left / 1000000 >= INT_MAX ? -1 : (int) ((left + 999999) / 1000000);

        /* A signal only makes the caller look round once more. */
        (void) poll(fds, 3, ms);
        if (fds[0].revents)
                (void) !read(c->wake_fd, &drop, sizeof(drop));
}

/* What stands open when nobody listens any more. With the lock. */
static void close_run(struct blkup_coldplug *c)
{
        c->is_closed = true;
        for (size_t i = 0; i < c->n_devices; i++)
                if (!c->devices[i]->is_over && c->devices[i]->may_be_late)
                        blkup_cold_give_up(c, c->devices[i], -ETIMEDOUT, "no answer before the end");
        c->n_graces = 0;
        blkup_cold_close_sets(c);
        blkup_cold_locate_pending(c);
}

int blkup_cold_run_watch(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                         struct blkup_error *err)
{
        struct blkup_coldplug *c = arg;
        bool over = false, walks;

        (void) node;
        (void) worker;
        (void) err;
        /* Ends: when nothing can come any more, with the time of --wait, or when it is told to. */
        while (!over && !blkup_pool_is_cancelled(p)) {
                uint64_t now = blkup_now_ns(), next = UINT64_MAX;

                (void) pthread_mutex_lock(&c->lock);
                if (c->is_settled)
                        blkup_cold_assemble_due(c, now, &next);
                give_up_late(c, now, &next);
                tell_entries(c, now, &next);
                if (c->s.is_watch)
                        rearm(c, now, &next);
                over = is_over(c, now, &next) && !c->walk_is_due;
                if (c->walk_is_due || (c->uevent_fd < 0 && !c->is_closed))
                        earlier(&next, now + LOOK_AGAIN_NS);
                (void) pthread_mutex_unlock(&c->lock);
                tell_all(c);
                if (over)
                        break;
                wait_for_something(c, next);
                if (c->uevent_fd >= 0)
                        take_events(c);
                (void) pthread_mutex_lock(&c->lock);
                walks = c->walk_is_due || (c->uevent_fd < 0 && !c->is_closed);
                c->walk_is_due = false;
                (void) pthread_mutex_unlock(&c->lock);
                if (walks)
                        (void) !blkup_cold_walk_again(c, c->s.is_watch);
        }
        (void) pthread_mutex_lock(&c->lock);
        close_run(c);
        (void) pthread_mutex_unlock(&c->lock);
        tell_all(c);
        return 0;
}
