/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What comes and goes while the graph runs: one node that listens to the kernel, gives up what is silent, and
 * tells who wants to know. It is the only one that ends a run which nothing else would end.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "bringup/cold.h"
#include "bringup/explain.h"
#include "host/hostfile.h"
#include "host/uevent.h"

/* Without uevents a medium or a device is looked for this often. */
#define LOOK_AGAIN_NS UINT64_C(50000000)
/* Above this many at once /sys is walked instead of looking at each. */
#define MANY_EVENTS   16u
/* Steps that are under way are looked at this often, where somebody wants to know at once. */
#define STEP_NS       UINT64_C(20000000)
/* Taken before anything else is done: the queue of the kernel shall not run over while we walk. */
#define MAX_DRAIN     65536u
/* Of so many, when who drains waits for the end. */
#define MAX_TURNS     64u

int blkup_cold_listen(struct blkup_coldplug *c)
{
        c->uevent_fd = c->wake_fd = c->mounts_fd = -1;
        if (c->s.n_images > 0)
                return 0;
        c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (c->wake_fd < 0)
                return -errno;
        /* Who cannot see what is mounted mounts all the same, and cannot tell who unmounts. */
        if (c->s.is_watch)
                c->mounts_fd = blkup_host_open(c->root, "proc/self/mountinfo", O_RDONLY);
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
        if (c->mounts_fd >= 0)
                (void) blkup_close(c->mounts_fd);
        /* Ends: the list gets shorter each turn. */
        while (c->news) {
                struct blkup_cold_news *n = c->news;

                c->news = n->next;
                free(n->name); /* its device has been freed before */
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
        if (kind == BLKUP_COLDPLUG_EVENT_DEVICE && device != SIZE_MAX && c->devices[device]->before &&
            blkup_cold_is_same(c->devices[device]->before, c->devices[device]))
                return; /* looked at again, and as it was */
        n = calloc(1, sizeof(*n));
        if (!n)
                return; /* who listens sees less; what is done is the same */
        n->kind = kind;
        n->device = device == SIZE_MAX ? NULL : c->devices[device];
        if (n->device)
                blkup_cold_hold(n->device);
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
        bool is_good = blkup_cold_is_good(e);

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
        if (n->device) {
                const struct blkup_cold_device *d = n->device;

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
        if (n->device)
                blkup_cold_let_go(n->device);
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

/* A disc that lies in its drive when the machine starts is seen when the drive is first opened, by us, and
 * told as a new medium: the device is the same, and what is read now is of that. With the lock. */
static bool take_medium(struct blkup_cold_device *d, const struct blkup_uevent *e)
{
        if (!d || d->is_over || e->action != BLKUP_UEVENT_CHANGE || !e->is_media_change)
                return false;
        d->has_new_medium = true;
        if (e->diskseq)
                d->diskseq = e->diskseq;
        return true;
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
        c->n_module_events += e->action == BLKUP_UEVENT_ADD && strcmp(e->subsystem, "module") == 0;
        look = is_block(e) && (e->action == BLKUP_UEVENT_ADD || e->action == BLKUP_UEVENT_CHANGE);
        d = is_block(e) ? blkup_cold_by_devno(c, e->dev_major, e->dev_minor) : NULL;
        if (take_medium(d, e)) {
                (void) pthread_mutex_unlock(&c->lock);
                return false;
        }
        if (d && (e->action == BLKUP_UEVENT_REMOVE ||
                  (e->action == BLKUP_UEVENT_CHANGE && e->is_media_change && c->s.is_watch)))
                blkup_cold_set_gone(c, d);
        else if (d && look && e->diskseq && d->diskseq && e->diskseq != d->diskseq)
                blkup_cold_set_gone(c, d); /* another disk has its number: the end of the first was lost */
        if (c->s.is_watch && is_block(e) && e->action == BLKUP_UEVENT_REMOVE) {
                /* What it stood on is free, and what was made of it may be made of others. */
                blkup_cold_set_held_due(c);
                c->is_untidy = true;
                c->has_gone = true;
        } else if (c->s.is_watch && is_block(e) && e->action == BLKUP_UEVENT_CHANGE) {
                blkup_cold_set_due(c, e->dev_major, e->dev_minor);
                look = look && (!d || d->is_gone);
        }
        (void) pthread_mutex_unlock(&c->lock);
        return look;
}

/* true: there may be more. With events_lock. */
static bool take_events(struct blkup_coldplug *c)
{
        struct {
                uint32_t dev_major, dev_minor;
        } seen[MANY_EVENTS];
        BLKUP_CLEANUP_FREE struct blkup_uevent *e = malloc(sizeof(*e));
        size_t n_seen = 0;
        bool is_lost = e == NULL, is_many = false, is_more = e != NULL;

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
                        is_more = false;
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
                return is_more;
        }
        for (size_t k = 0; k < n_seen; k++)
                (void) !blkup_cold_look_at(c, seen[k].dev_major, seen[k].dev_minor);
        return is_more;
}

void blkup_cold_catch_up(struct blkup_coldplug *c)
{
        bool is_told, is_more = true;

        (void) pthread_mutex_lock(&c->events_lock);
        is_told = __atomic_load_n(&c->uevent_fd, __ATOMIC_RELAXED) >= 0;
        for (unsigned i = 0; is_told && is_more && i < MAX_TURNS; i++)
                is_more = take_events(c);
        (void) pthread_mutex_unlock(&c->events_lock);
        if (!is_told || is_more)
                (void) !blkup_cold_walk_again(c, false);
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

/* Entries that have been through. With the lock. */
static void tell_entries(struct blkup_coldplug *c, uint64_t now, uint64_t *next)
{
        for (size_t i = 0; c->s.tell && i < c->n_entries; i++) {
                if (!c->cold[i].is_located || c->cold[i].is_told)
                        continue;
                if (blkup_cold_has_ended(c, i))
                        blkup_cold_tell_entry(c, i);
                else
                        earlier(next, now + STEP_NS);
        }
}

static bool is_stop(const struct blkup_coldplug *c)
{
        struct pollfd p = { .fd = c->s.stop_fd, .events = POLLIN };

        return c->s.is_watch && c->s.stop_fd >= 0 && poll(&p, 1, 0) > 0;
}

/* Has each entry been through whose device is there, and those of its parents? Who waits for what may never
 * come holds up nobody. With the lock. */
static bool have_all_ended(struct blkup_coldplug *c)
{
        BLKUP_CLEANUP_FREE bool *waits = calloc(c->n_entries + 1, sizeof(*waits));
        bool is_new = waits != NULL;

        /* Ends: each turn but the last finds an entry more that waits. */
        while (is_new) {
                is_new = false;
                for (size_t i = 0; i < c->n_entries; i++) {
                        const struct blkup_cold_entry *cold = &c->cold[i];
                        bool does = !cold->is_located || blkup_cold_has_to_wait(c, cold, waits);

                        is_new = is_new || (does && !waits[i]);
                        waits[i] = does;
                }
        }
        for (size_t i = 0; waits && i < c->n_entries; i++)
                if (!waits[i] && !blkup_cold_has_ended(c, i))
                        return false;
        return true;
}

/* true: nothing more is to be waited for. With the lock. */
static bool is_over(struct blkup_coldplug *c, uint64_t now, uint64_t *next)
{
        blkup_cold_count_held(c, now, next);
        if (c->s.is_watch) {
                c->is_stopped = c->is_stopped || is_stop(c);
                if (!c->is_told_settled && c->is_settled && c->n_open == 0 && c->n_work <= c->n_held &&
                    have_all_ended(c)) {
                        c->is_told_settled = true;
                        tell_entries(c, now, next);
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
        if (c->n_held > 0)
                blkup_cold_locate_pending(c);
        if (c->n_open > 0 || c->n_work > c->n_held || !c->is_settled)
                return false;
        return !blkup_cold_is_waiting(c) || !blkup_cold_may_come(c);
}

/* true: something else is mounted than before, or may be. */
static bool wait_for_something(struct blkup_coldplug *c, uint64_t next)
{
        uint64_t now = blkup_now_ns(), left = next > now ? next - now : 0, drop;
        struct pollfd fds[4] = {
                { .fd = c->wake_fd, .events = POLLIN },
                { .fd = c->uevent_fd, .events = POLLIN },
                { .fd = c->s.is_watch ? c->s.stop_fd : -1, .events = POLLIN },
                { .fd = c->root ? -1 : c->mounts_fd, .events = POLLPRI },
        };
        int ms = left / 1000000 >= INT_MAX ? -1 : (int) ((left + 999999) / 1000000);

        /* A signal only makes the caller look round once more. */
        (void) poll(fds, 4, ms);
        if (fds[0].revents)
                (void) !read(c->wake_fd, &drop, sizeof(drop));
        /* A file that stands for it tells nothing. */
        return fds[3].revents || (c->root && c->mounts_fd >= 0);
}

/* What is mounted is read before the events are: whoever unmounts what has gone does so after the kernel has
 * told us of it. NULL: as before. */
static struct blkup_mountinfo *read_mounts(const struct blkup_coldplug *c)
{
        struct blkup_mountinfo *t = NULL;

        return blkup_mountinfo_load_fd(c->mounts_fd, &t, NULL) == 0 ? t : NULL;
}

/* One turn of the watch, without the lock. */
static void take_what_is_new(struct blkup_coldplug *c, bool has_mounts)
{
        struct blkup_mountinfo *mounts = has_mounts ? read_mounts(c) : NULL;
        bool walks;

        if (mounts) {
                (void) pthread_mutex_lock(&c->lock);
                blkup_cold_take_mounts(c, mounts);
                (void) pthread_mutex_unlock(&c->lock);
        }
        (void) pthread_mutex_lock(&c->events_lock);
        if (c->uevent_fd >= 0)
                (void) take_events(c);
        (void) pthread_mutex_unlock(&c->events_lock);
        (void) pthread_mutex_lock(&c->lock);
        walks = c->walk_is_due || (c->uevent_fd < 0 && !c->is_closed);
        c->walk_is_due = false;
        (void) pthread_mutex_unlock(&c->lock);
        if (walks)
                (void) !blkup_cold_walk_again(c, c->s.is_watch);
        if (!c->s.is_watch)
                return;
        blkup_cold_look_again(c);
        if (!mounts)
                return;
        (void) pthread_mutex_lock(&c->lock);
        blkup_cold_judge_mounts(c);
        (void) pthread_mutex_unlock(&c->lock);
}

/* What stands open when nobody listens any more. With the lock. */
static void close_run(struct blkup_coldplug *c)
{
        c->is_closed = true;
        for (size_t i = 0; i < c->n_devices; i++)
                if (!c->devices[i]->is_over && c->devices[i]->may_be_late)
                        blkup_cold_give_up(c, c->devices[i], -ETIMEDOUT, "no answer before the end");
        c->n_graces = 0;
        c->lets_go = true;
        blkup_cold_close_sets(c);
        blkup_cold_locate_pending(c);
}

int blkup_cold_run_watch(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                         struct blkup_error *err)
{
        struct blkup_coldplug *c = arg;
        bool over = false;

        (void) node;
        (void) worker;
        (void) err;
        /* Ends: when nothing can come any more, with the time of --wait, or when it is told to. */
        while (!over && !blkup_pool_is_cancelled(p)) {
                uint64_t now = blkup_now_ns(), next = UINT64_MAX;

                (void) pthread_mutex_lock(&c->lock);
                if (c->is_settled)
                        blkup_cold_assemble_due(c, now, &next);
                /* What stood in the way of a set may have gone, and what its key lies on may be mounted. */
                if (c->is_settled && (c->has_gone || c->n_causes != c->n_causes_seen)) {
                        c->has_gone = false;
                        c->n_causes_seen = c->n_causes;
                        blkup_cold_assemble(c);
                }
                give_up_late(c, now, &next);
                tell_entries(c, now, &next);
                if (c->s.is_watch) {
                        blkup_cold_try_again(c, now, &next);
                        blkup_cold_tidy(c);
                }
                over = is_over(c, now, &next) && !c->walk_is_due;
                if (c->walk_is_due || (c->uevent_fd < 0 && !c->is_closed))
                        earlier(&next, now + LOOK_AGAIN_NS);
                (void) pthread_mutex_unlock(&c->lock);
                tell_all(c);
                if (over)
                        break;
                blkup_cold_free_probers_if_last(c);
                take_what_is_new(c, wait_for_something(c, next));
        }
        (void) pthread_mutex_lock(&c->lock);
        close_run(c);
        (void) pthread_mutex_unlock(&c->lock);
        tell_all(c);
        return 0;
}
