/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* finish, check, mount: one entry each, when its device is known. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "bringup/cold.h"
#include "host/hostfile.h"
#include "mount/names.h"

/* What zeroes cost where no offload is: the sequential rate of a slow disk. */
#define SLOW_BYTES_PER_S UINT64_C(150000000)
/* mke2fs puts the tables of 16 groups side by side (flex_bg): one request for all of them. */
#define FLEX_GROUPS 16u

/* Devices finished at a time: each takes some MiB for what is compared and written. Measured on 32 devices of
 * 5 ms a request, 18 of them finished: all at once 48 MiB and 2.9 s, two at a time 18 MiB and 5.8 s. */
#define MAX_FINISHING 8u

/* What a stage knows of its entry; taken under the lock. */
struct job {
        struct blkup_coldplug *c;
        struct blkup_coldplug_entry *e;
        struct blkup_cold_entry *cold;
        struct blkup_cold_device *d; /* held; NULL: none */
        const uint32_t *at;          /* where the entry has the number of this stage's node */
        uint32_t node;
        bool is_ours;                     /* false: the entry has begun anew before this node had */
        struct blkup_mount_result *mount; /* owned */
        char *place;                      /* owned */
        enum blkup_coldplug_bar bar;
        bool is_owner;
        char *hibernation; /* owned */
        struct blkup_coldplug_step step;
};

static struct job begin(struct blkup_cold_entry *cold, const uint32_t *at, uint32_t node, unsigned worker)
{
        struct job j = {
                .c = cold->run,
                .e = &cold->run->entries[cold->index],
                .cold = cold,
                .at = at,
                .node = node,
        };

        (void) pthread_mutex_lock(&j.c->lock);
        j.is_ours = *at == node;
        if (j.is_ours && j.e->device != BLKUP_COLDPLUG_NO_DEVICE) {
                j.d = j.c->devices[j.e->device];
                blkup_cold_hold(j.d);
                j.bar = j.d->d.bar;
                j.is_owner = j.d->has_owner && j.d->owner == cold->index;
        }
        if (j.c->hibernation && j.c->s.n_images == 0 && !j.c->s.ignore_hibernation) {
                j.hibernation = strdup(j.c->hibernation);
                if (j.bar == BLKUP_COLDPLUG_FREE)
                        j.bar = BLKUP_COLDPLUG_HIBERNATED;
        }
        (void) pthread_mutex_unlock(&j.c->lock);
        j.step.worker = worker;
        j.step.start_ns = blkup_now_ns();
        return j;
}

/* With the lock: the last stage has an answer, which nobody may wait for any more. */
static void end_mount(struct job *j, bool counts)
{
        if (counts) {
                j->e->mount = BLKUP_TAKE(j->mount);
                j->cold->place = BLKUP_TAKE(j->place);
                /* It was given up, and told so: now it is as it is. */
                if (j->cold->is_ended)
                        j->cold->is_told = false;
                j->c->n_causes++;
                blkup_cold_wake(j->c);
        } else if (j->mount && j->mount->outcome == BLKUP_MOUNT_DONE && !j->c->s.dry_run) {
                blkup_cold_tell(j->c, BLKUP_COLDPLUG_EVENT_WARNING, SIZE_MAX, j->cold->index,
                                j->d ? j->d->d.path : j->e->source,
                                "it was mounted after it had been given up, and is not looked after");
        }
}

/* What nobody waits for any more is dropped. */
static void end(struct job *j, enum blkup_coldplug_stage stage)
{
        bool counts;

        j->step.end_ns = blkup_now_ns();
        (void) pthread_mutex_lock(&j->c->lock);
        counts = !j->c->is_finished && *j->at == j->node;
        if (counts) {
                free(j->e->steps[stage].text);
                j->e->steps[stage] = j->step;
        }
        if (stage == BLKUP_COLDPLUG_MOUNT)
                end_mount(j, counts);
        if (j->d)
                blkup_cold_let_go(j->d);
        (void) pthread_mutex_unlock(&j->c->lock);
        if (!counts)
                free(j->step.text);
        blkup_mount_result_free(j->mount);
        free(j->mount);
        free(j->place);
        free(j->hibernation);
}

bool blkup_cold_is_there(const struct blkup_coldplug *c, const struct blkup_cold_device *d)
{
        return !d->d.is_image && d->d.dev_major > 0 &&
               (blkup_mountinfo_by_device(c->mounts, d->d.dev_major, d->d.dev_minor, NULL) ||
                blkup_mountinfo_by_source(c->mounts, d->d.path, NULL));
}

bool blkup_cold_is_mounted(struct blkup_coldplug *c, uint32_t dev_major, uint32_t dev_minor)
{
        bool is;

        (void) pthread_mutex_lock(&c->lock);
        is = blkup_mountinfo_by_device(c->mounts, dev_major, dev_minor, NULL) != NULL;
        (void) pthread_mutex_unlock(&c->lock);
        return is;
}

static bool is_there(const struct job *j)
{
        bool is;

        (void) pthread_mutex_lock(&j->c->lock);
        is = blkup_cold_is_there(j->c, j->d);
        (void) pthread_mutex_unlock(&j->c->lock);
        return is;
}

static bool is_of(const struct blkup_mount *m, const struct blkup_cold_device *d)
{
        return !d->d.is_image && ((m->dev_major == d->d.dev_major && m->dev_minor == d->d.dev_minor) ||
                                  strcmp(m->source, d->d.path) == 0);
}

static bool is_it(const struct blkup_coldplug *c, const struct blkup_coldplug_entry *e,
                  const struct blkup_mount *m, const struct blkup_cold_device *d, const char *types)
{
        if (d)
                return d->d.is_image ? blkup_cold_is_loop_of(c, m->dev_major, m->dev_minor, d) : is_of(m, d);
        return types && strcmp(m->fs_type, types) == 0 && strcmp(m->source, e->source) == 0;
}

/* Is a place taken by what e asks for, on d? or_below: what lies on top of it has not taken it away. With the
 * lock. */
static bool is_mounted_at(const struct blkup_coldplug *c, const struct blkup_coldplug_entry *e,
                          const char *place, const struct blkup_cold_device *d, const char *types,
                          bool or_below)
{
        const struct blkup_mount *top = place ? blkup_mountinfo_by_target(c->mounts, place) : NULL;

        if (!top || !or_below)
                return top && is_it(c, e, top, d, types);
        /* Ends: each turn goes to a mount further down; one that is its own parent is the lowest. */
        for (size_t turn = 0; top && turn < c->mounts->n && strcmp(top->target, place) == 0; turn++) {
                if (is_it(c, e, top, d, types))
                        return true;
                top = blkup_mountinfo_by_id(c->mounts, top->parent_id);
        }
        return false;
}

bool blkup_cold_is_at_place(const struct blkup_coldplug *c, size_t i, bool or_below)
{
        const struct blkup_coldplug_entry *e = &c->entries[i];
        const char *place = c->cold[i].place ? c->cold[i].place : e->target;

        return is_mounted_at(c, e, place,
                             e->device == BLKUP_COLDPLUG_NO_DEVICE ? NULL : c->devices[e->device],
                             c->cold[i].types, or_below);
}

static bool is_mounted_in_table(const struct job *j)
{
        /* The table has no links; nobody else waits for what this path leads to. */
        BLKUP_CLEANUP_FREE char *place = j->c->root || !j->e->target ? NULL : realpath(j->e->target, NULL);
        bool is;

        (void) pthread_mutex_lock(&j->c->lock);
        is = is_mounted_at(j->c, j->e, place ? place : j->e->target, j->d, j->cold->types, true);
        (void) pthread_mutex_unlock(&j->c->lock);
        return is;
}

/* One read for all that ask meanwhile: it counts for whoever asked before it began. Each takes the kernel
 * time that grows with the mounts there are. With the lock, which is let go for the read. */
static void read_mounts(struct blkup_coldplug *c)
{
        uint64_t wanted = c->n_mounts_begun + 1;

        /* Ends: each turn reads, or another does. */
        while (c->n_mounts_read < wanted) {
                struct blkup_mountinfo *now = NULL;
                int r;

                if (c->n_mounts_begun > c->n_mounts_read) {
                        (void) pthread_cond_wait(&c->changed, &c->lock);
                        continue;
                }
                c->n_mounts_begun++;
                (void) pthread_mutex_unlock(&c->lock);
                r = blkup_mountinfo_load(c->root, &now, NULL);
                (void) pthread_mutex_lock(&c->lock);
                if (r == 0)
                        blkup_cold_take_mounts(c, now);
                c->n_mounts_read = c->n_mounts_begun;
                (void) pthread_cond_broadcast(&c->changed);
        }
}

/* What the table tells may be of the device that had this number before, and unmounted since it was read. */
static bool is_mounted_here(const struct job *j)
{
        if (!is_mounted_in_table(j))
                return false;
        (void) pthread_mutex_lock(&j->c->lock);
        read_mounts(j->c);
        (void) pthread_mutex_unlock(&j->c->lock);
        return is_mounted_in_table(j);
}

static bool has_option(const struct blkup_coldplug_entry *e, const char *name)
{
        struct blkup_fstab_entry line = { .options = e->options };

        return blkup_fstab_has_option(&line, name);
}

/* The table tells which file system is there, not by what path it was bound. */
static bool is_bound_here(const struct job *j)
{
        BLKUP_CLEANUP_FREE char *source = NULL, *target = NULL;
        struct blkup_mountinfo *now = NULL;
        bool is;

        if (j->d || j->c->root || !j->e->target || (!has_option(j->e, "bind") && !has_option(j->e, "rbind")))
                return false;
        target = realpath(j->e->target, NULL);
        source = realpath(j->e->source, NULL);
        if (!source || !target)
                return false;
        (void) pthread_mutex_lock(&j->c->lock);
        is = blkup_mountinfo_by_target(j->c->mounts, target) != NULL;
        (void) pthread_mutex_unlock(&j->c->lock);
        /* Not with the lock: the paths may lie on what does not answer. */
        if (!is || blkup_mountinfo_load(NULL, &now, NULL) < 0)
                return false;
        is = blkup_mount_is_bound(now, source, target);
        blkup_mountinfo_free(now);
        return is;
}

static void refuse(struct job *j)
{
        j->step.state = BLKUP_COLDPLUG_REFUSED;
        if (j->bar == BLKUP_COLDPLUG_HIBERNATED && j->hibernation)
                blkup_cold_say(&j->step,
                               "a hibernation image is on %s: nothing is written before it is resumed",
                               j->hibernation);
        else if (j->bar == BLKUP_COLDPLUG_MEMBER && j->d && j->d->d.type)
                blkup_cold_say(&j->step, "%s: %s", j->d->d.type, blkup_coldplug_bar_name(j->bar));
        else
                blkup_cold_say(&j->step, "%s", blkup_coldplug_bar_name(j->bar));
}

/* ---- finish ---- */

/* Does the device zero a range by one command (write_zeroes, or a loop device over a file that can)? */
static bool has_offload(const struct blkup_coldplug *c, const struct blkup_coldplug_device *d)
{
        static const char *const names[] = { "queue", "../queue" };
        char path[128];

        if (d->is_image)
                return true; /* fallocate: the file system below keeps a list, it writes no zeroes */
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(names); i++) {
                BLKUP_CLEANUP_FREE char *text = NULL;
                size_t n;

                (void) snprintf(path, sizeof(path), "sys/dev/block/%u:%u/%s/write_zeroes_max_bytes",
                                d->dev_major, d->dev_minor, names[i]);
                if (blkup_host_read(c->root, path, 64, &text, &n) == 0)
                        return strtoull(text, NULL, 10) > 0;
        }
        return false;
}

/* What is to be expected: requests and flushes at the latency that reading the flags showed, and bytes where
 * they have to be written. Reading them is three reads one after the other. */
static uint64_t cost_of(const struct job *j, const struct blkup_lazyinit_status *s, uint64_t status_ns)
{
        uint64_t latency = status_ns / 3, requests = 4 + s->groups_left / FLEX_GROUPS + 1;
        uint64_t cost = requests * latency;

        if (!has_offload(j->c, &j->d->d))
                cost += s->bytes_left / (SLOW_BYTES_PER_S / 1000000) * 1000;
        return cost;
}

static int find_hibernation(void *to, char *name, size_t cap)
{
        struct blkup_coldplug *c = to;
        int r;

        (void) pthread_mutex_lock(&c->lock);
        r = c->hibernation != NULL && c->s.n_images == 0;
        if (r)
                (void) snprintf(name, cap, "%s", c->hibernation);
        (void) pthread_mutex_unlock(&c->lock);
        return r;
}

/* false: others took so long that the kernel shall do it. */
static bool take_place(struct blkup_coldplug *c)
{
        uint64_t until = blkup_now_ns() + blkup_cold_device_ns(c) / 4;
        struct timespec at = blkup_to_timespec(until);
        bool is_ours;

        (void) pthread_mutex_lock(&c->lock);
        /* Ends: with the time, or, where all tables have to be finished, when others are. */
        while (c->finishing >= MAX_FINISHING)
                if (c->s.finish == BLKUP_COLDPLUG_FINISH_ALWAYS)
                        (void) pthread_cond_wait(&c->changed, &c->lock);
                else if (pthread_cond_timedwait(&c->changed, &c->lock, &at) == ETIMEDOUT)
                        break;
        is_ours = c->finishing < MAX_FINISHING;
        c->finishing += is_ours;
        (void) pthread_mutex_unlock(&c->lock);
        return is_ours;
}

static void give_place(struct blkup_coldplug *c)
{
        (void) pthread_mutex_lock(&c->lock);
        c->finishing--;
        (void) pthread_cond_broadcast(&c->changed);
        (void) pthread_mutex_unlock(&c->lock);
}

static void do_finish(struct job *j)
{
        struct blkup_lazyinit_options o = {
                .ignore_hibernation = j->c->s.ignore_hibernation, .find_hibernation = find_hibernation,
                .find_hibernation_to = j->c, .root = j->c->root, .in_flight = 1,
        };
        struct blkup_lazyinit_status status = { 0 };
        struct blkup_lazyinit_result result;
        struct blkup_error err = { 0 };
        uint64_t before = blkup_now_ns(), took, cost;
        bool is_ours;
        int r = j->c->ops.status(j->c->ops.to, j->d->d.path, &status, &err);

        took = blkup_now_ns() - before;
        if (r < 0) {
                j->step.state = BLKUP_COLDPLUG_FAILED;
                j->step.error = r;
                blkup_cold_say(&j->step, "%s", err.message);
                return;
        }
        j->e->groups_left = status.groups_left;
        j->step.state = BLKUP_COLDPLUG_DONE;
        if (!status.has_group_checksums || status.groups_left == 0)
                return;
        cost = cost_of(j, &status, took);
        if (j->c->s.finish == BLKUP_COLDPLUG_FINISH_AUTO && cost > j->c->s.finish_budget_ns) {
                j->step.state = BLKUP_COLDPLUG_LEFT;
                blkup_cold_say(&j->step,
                               "%u of %u groups are left to the kernel: about %.0f ms, more than %.0f",
                               status.groups_left, status.groups, (double) cost / 1e6,
                               (double) j->c->s.finish_budget_ns / 1e6);
                return;
        }
        if (j->c->s.dry_run) {
                j->step.state = BLKUP_COLDPLUG_WOULD;
                blkup_cold_say(&j->step, "%u of %u groups, about %.1f ms", status.groups_left, status.groups,
                               (double) cost / 1e6);
                return;
        }
        before = blkup_now_ns();
        is_ours = take_place(j->c);
        blkup_cold_note_wait(&j->step, before, "a place among those that finish", "");
        if (!is_ours) {
                j->step.state = BLKUP_COLDPLUG_LEFT;
                blkup_cold_say(&j->step, "%u groups are left to the kernel: other devices took too long",
                               status.groups_left);
                return;
        }
        r = j->c->ops.finish(j->c->ops.to, j->d->d.path, &o, &result, &err);
        give_place(j->c);
        if (r < 0) {
                j->step.state = BLKUP_COLDPLUG_FAILED;
                j->step.error = r;
                blkup_cold_say(&j->step, "%s", err.message);
        } else if (result.outcome == BLKUP_LAZYINIT_REFUSED) {
                j->step.state = BLKUP_COLDPLUG_REFUSED;
                blkup_cold_say(&j->step, "%s: %s", blkup_lazyinit_refusal_name(result.refusal),
                               result.reason);
        } else {
                j->e->groups_left = result.groups_left;
                j->step.bytes = result.bytes_todo;
                blkup_cold_say(&j->step, "%u groups, %.1f MiB", result.groups_left_before,
                               (double) result.bytes_todo / 1048576);
        }
}

/* Never fails: a file system whose tables are open is mounted all the same, and the kernel goes on. */
int blkup_cold_run_finish(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                          struct blkup_error *err)
{
        struct blkup_cold_entry *cold = arg;
        struct job j = begin(cold, &cold->finish_node, node, worker);

        (void) p;
        (void) err;
        if (!j.is_ours || j.c->s.finish == BLKUP_COLDPLUG_FINISH_NEVER || j.e->is_left_out || !j.d ||
            !j.is_owner || j.bar == BLKUP_COLDPLUG_READ_ONLY || !j.d->d.type ||
            strcmp(j.d->d.type, "ext4") != 0 || has_option(j.e, "ro") || is_there(&j) ||
            (j.c->s.no_mount && j.e->kind != BLKUP_COLDPLUG_IMAGE &&
             j.c->s.finish != BLKUP_COLDPLUG_FINISH_ALWAYS))
                j.step.start_ns = 0;
        else if (j.bar != BLKUP_COLDPLUG_FREE)
                refuse(&j);
        else
                do_finish(&j);
        end(&j, BLKUP_COLDPLUG_FINISH);
        return 0;
}

/* ---- check ---- */

/* fsck's answer, as ops.check(). */
static int check(struct job *j, const char *type, char *text, size_t cap)
{
        const struct blkup_coldplug_settings *s = &j->c->s;
        char name[128];
        int code;

        (void) snprintf(name, sizeof(name), "fsck.%s", type);
        if (s->checks && !s->checks(s->checks_to, name, j->d->d.path, true))
                return -ECANCELED;
        code = j->c->ops.check(j->c->ops.to, type, j->d->d.path, text, cap);
        if (s->checks)
                (void) s->checks(s->checks_to, name, j->d->d.path, false);
        return code;
}

int blkup_cold_run_check(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                         struct blkup_error *err)
{
        struct blkup_cold_entry *cold = arg;
        struct job j = begin(cold, &cold->check_node, node, worker);
        const char *type = j.d ? j.d->d.type : NULL;
        char text[256] = "";
        int r = 0, code;

        (void) p;
        if (!j.is_ours || j.c->s.no_check || j.e->is_left_out || j.bar == BLKUP_COLDPLUG_READ_ONLY ||
            j.e->passno <= 0 || !j.is_owner || !type || !blkup_mount_is_type_name(type) || is_there(&j)) {
                j.step.start_ns = 0;
        } else if (j.bar != BLKUP_COLDPLUG_FREE) {
                refuse(&j);
        } else if (j.c->s.dry_run) {
                j.step.state = BLKUP_COLDPLUG_WOULD;
        } else {
                code = check(&j, type, text, sizeof(text));
                j.step.state = BLKUP_COLDPLUG_DONE;
                if (code == -ENOENT) {
                        j.step.state = BLKUP_COLDPLUG_NOT_ASKED;
                        blkup_cold_say(&j.step, "there is no fsck.%s", type);
                } else if (code < 0 || code >= 4) {
                        /* fsck(8): 4 errors left uncorrected, 8 and above: it could not do its work */
                        r = code < 0 ? code : -EUCLEAN;
                        j.step.state = BLKUP_COLDPLUG_FAILED;
                        j.step.error = r;
                        if (code < 0)
                                blkup_cold_say(&j.step, "fsck.%s: %s", type, blkup_error_text(-code));
                        else
                                blkup_cold_say(&j.step, "fsck.%s answered %d: %s", type, code, text);
                        (void) blkup_fail(err, r, "%s", j.step.text ? j.step.text : "");
                } else {
                        blkup_cold_say(&j.step, code ? "repaired: %s" : "%s", text);
                }
        }
        end(&j, BLKUP_COLDPLUG_CHECK);
        return r;
}

/* ---- mount ---- */

static enum blkup_coldplug_state state_of(const struct blkup_mount_result *m)
{
        switch (m->outcome) {
        case BLKUP_MOUNT_DONE:
                return BLKUP_COLDPLUG_DONE;
        case BLKUP_MOUNT_ALREADY:
                return BLKUP_COLDPLUG_ALREADY;
        case BLKUP_MOUNT_SKIPPED:
                return BLKUP_COLDPLUG_SKIPPED;
        case BLKUP_MOUNT_FAILED:
                break;
        }
        return m->reason == BLKUP_MOUNT_REASON_HIBERNATED ? BLKUP_COLDPLUG_REFUSED : BLKUP_COLDPLUG_FAILED;
}

/* May it be mounted at all? Read-only devices are, read-only; of removable ones what nobody can write to, a
 * disc; under hibernation the mount decides, which knows how each type is mounted without a write. */
static bool is_barred(const struct job *j)
{
        if (j->bar == BLKUP_COLDPLUG_REMOVABLE)
                return !j->d->d.type || !blkup_mount_is_read_only_type(j->d->d.type);
        return j->bar != BLKUP_COLDPLUG_FREE && j->bar != BLKUP_COLDPLUG_READ_ONLY &&
               j->bar != BLKUP_COLDPLUG_HIBERNATED;
}

/* In a dry run: what this lies on would be mounted, so nobody can see yet whether it is there. */
static bool is_out_of_sight(struct job *j, int error)
{
        const char *on = NULL;

        if (!j->c->s.dry_run || error != -ENOENT)
                return false;
        (void) pthread_mutex_lock(&j->c->lock);
        for (size_t k = 0; k < j->cold->n_needs && !on; k++) {
                const struct blkup_coldplug_entry *e =
                        &j->c->entries[j->cold->needs[k] & BLKUP_COLD_NEEDS_INDEX];

                if (!(j->cold->needs[k] & BLKUP_COLD_NEEDS_ORDER) &&
                    e->steps[BLKUP_COLDPLUG_MOUNT].state == BLKUP_COLDPLUG_WOULD)
                        on = e->target;
        }
        (void) pthread_mutex_unlock(&j->c->lock);
        if (!on)
                return false;
        j->step.state = BLKUP_COLDPLUG_WOULD;
        blkup_cold_say(&j->step, "if it is there: %s is not mounted yet", on);
        return true;
}

static bool is_list(const char *types)
{
        return types && (strchr(types, ',') || strncmp(types, "no", 2) == 0) && strcmp(types, "none") != 0;
}

static bool is_left_out_by_type(const struct job *j)
{
        return j->d && j->d->d.type && is_list(j->cold->types) &&
               !blkup_mount_is_in_types(j->cold->types, j->d->d.type);
}

/* What is on the device is known: of a list the type that it is. */
static const char *choose_type(const struct job *j)
{
        const char *types = j->cold->types, *type = j->d ? j->d->d.type : NULL;

        return type && (!types || strcmp(types, "auto") == 0 || is_list(types)) ? type : types;
}

static int do_mount(struct job *j, struct blkup_mount_result *m)
{
        BLKUP_CLEANUP_FREE char *options = NULL;
        struct blkup_mount_request q = {
                .line = j->e->line,
                .source = j->d ? j->d->d.path : j->e->source,
                .target = j->e->target,
                .types = choose_type(j),
                .options = j->e->options,
        };
        int r;

        if ((j->bar == BLKUP_COLDPLUG_READ_ONLY || j->bar == BLKUP_COLDPLUG_REMOVABLE) &&
            !has_option(j->e, "ro")) {
                if (asprintf(&options, "%s,ro", j->e->options) < 0)
                        return -ENOMEM;
                q.options = options;
        }
        /* Not by an option: a mount.TYPE helper knows none for that. */
        if (j->e->kind == BLKUP_COLDPLUG_IMAGE && !j->c->s.dry_run &&
            ((mkdir(j->c->image_folder, 0755) < 0 && errno != EEXIST) ||
             (mkdir(j->e->target, 0755) < 0 && errno != EEXIST))) {
                r = -errno;
                blkup_cold_say(&j->step, "%s: cannot be made: %s", j->e->target, blkup_error_text(-r));
                return r;
        }
        if (is_left_out_by_type(j)) {
                blkup_cold_say(&j->step, "%s holds %s, which the types %s leave out", j->d->d.path,
                               j->d->d.type, j->cold->types);
                return -EMEDIUMTYPE;
        }
        blkup_cold_need_fs(j->c, q.types, &j->step);
        if (j->c->ops.mount)
                r = j->c->ops.mount(j->c->ops.to, &q, m);
        else
                r = blkup_mount_one(j->bar == BLKUP_COLDPLUG_HIBERNATED ? j->c->careful : j->c->mounter, &q,
                                    m);
        /* By a path or a loop device that the table did not tell, or by a line like this one. */
        if (m->outcome == BLKUP_MOUNT_FAILED && m->reason == BLKUP_MOUNT_REASON_SAME_PLACE) {
                m->outcome = BLKUP_MOUNT_ALREADY;
                m->reason = BLKUP_MOUNT_REASON_NONE;
                m->error = r = 0;
        }
        if (is_out_of_sight(j, r)) {
                m->outcome = BLKUP_MOUNT_DONE;
                m->reason = BLKUP_MOUNT_REASON_NONE;
                m->error = 0;
                return 0;
        }
        j->step.state = state_of(m);
        if (r == 0 && j->c->s.dry_run && m->outcome == BLKUP_MOUNT_DONE)
                j->step.state = BLKUP_COLDPLUG_WOULD;
        return r;
}

/* A step that ended well, with nothing done. */
static bool is_settled_before(struct job *j)
{
        const char *usage = j->d ? j->d->d.usage : NULL;

        if (!j->is_ours || j->c->s.no_mount || j->e->is_left_out ||
            (!j->e->target && j->e->kind != BLKUP_COLDPLUG_SWAP)) {
                j->step.start_ns = 0;
                return true;
        }
        if (is_mounted_here(j) || is_bound_here(j)) {
                j->step.state = BLKUP_COLDPLUG_ALREADY;
                return true;
        }
        /* An image of a disk or of swap is identified, and that is all there is to do yet. */
        if (j->e->kind == BLKUP_COLDPLUG_IMAGE && j->d && (!usage || strcmp(usage, "filesystem") != 0) &&
            j->d->d.type) {
                j->step.start_ns = 0;
                blkup_cold_say(&j->step, "%s: no file system by itself", j->d->d.type);
                return true;
        }
        return false;
}

static int do_swap(struct job *j)
{
        const char *path = j->d ? j->d->d.path : j->e->source;
        int r;

        if (blkup_cold_is_swapped_on(j->c, path)) {
                j->step.state = BLKUP_COLDPLUG_ALREADY;
                return 0;
        }
        /* Read-only, removable, held, hibernated: what is swapped would be written there. */
        if (j->bar != BLKUP_COLDPLUG_FREE) {
                refuse(j);
                return -EPERM;
        }
        r = blkup_cold_swap_on(j->c, path, j->d, j->e->options, &j->step);
        return is_out_of_sight(j, r) ? 0 : r;
}

/* None of several that were for its mount point's place has come. */
static bool lacks_parent(struct job *j)
{
        size_t parent;
        bool does;

        (void) pthread_mutex_lock(&j->c->lock);
        does = blkup_cold_lacks_parent(j->c, j->cold, &parent);
        (void) pthread_mutex_unlock(&j->c->lock);
        if (does) {
                j->step.state = BLKUP_COLDPLUG_SKIPPED;
                blkup_cold_say(&j->step, "needs %s, which failed", j->c->entries[parent].target);
        }
        return does;
}

int blkup_cold_run_mount(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                         struct blkup_error *err)
{
        struct blkup_cold_entry *cold = arg;
        struct job j = begin(cold, &cold->mount_node, node, worker);
        int r = 0;

        (void) p;
        if (!is_settled_before(&j)) {
                if (lacks_parent(&j)) {
                        r = -ECANCELED;
                } else if (j.e->kind == BLKUP_COLDPLUG_SWAP) {
                        r = do_swap(&j);
                } else if (is_barred(&j)) {
                        refuse(&j);
                        r = -EPERM;
                } else if (j.d && !j.d->d.type) {
                        j.step.state = BLKUP_COLDPLUG_FAILED;
                        r = -EMEDIUMTYPE;
                        blkup_cold_say(&j.step, "%s: nothing known is on it", j.d->d.path);
                } else {
                        j.mount = calloc(1, sizeof(*j.mount));
                        r = j.mount ? do_mount(&j, j.mount) : -ENOMEM;
                        if (j.mount)
                                j.mount->worker = worker;
                        if (r < 0 && j.step.state == BLKUP_COLDPLUG_NOT_ASKED)
                                j.step.state = BLKUP_COLDPLUG_FAILED;
                }
                j.step.error = r;
                if (r < 0)
                        (void) blkup_fail(err, r, "%s", j.step.text ? j.step.text : blkup_error_text(-r));
        }
        /* Where a link of the path leads to: the kernel's table has no other name for it. */
        if (r == 0 && j.c->s.is_watch && !j.c->root && j.e->target)
                j.place = realpath(j.e->target, NULL);
        end(&j, BLKUP_COLDPLUG_MOUNT);
        return r;
}
