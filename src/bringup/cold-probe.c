/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Probing, each device in a thread of its own, what is read being looked at in a cage.
 *
 * A device has two nodes: `probe`, and `end`, which comes after the probe however that ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "block/block.h"
#include "bringup/cold.h"
#include "host/hostfile.h"

/* That are put in while a drive is read. */
#define MAX_MEDIA 4u

static char *copy_of(const struct blkup_probe *p, const char *name)
{
        const char *value = blkup_probe_lookup(p, name);

        return value ? strdup(value) : NULL;
}

static bool is_type(const struct blkup_probe *p, const char *type)
{
        const char *is = blkup_probe_lookup(p, "TYPE");

        return is && strcmp(is, type) == 0;
}

/* What nobody else has open is not in the page cache, and what is put there goes with the last close: so it
 * is read past it, which costs the kernel two thirds as much. A removable device is asked how fast it is. */
static bool is_ours_alone(struct blkup_coldplug *c, const struct blkup_cold_device *d)
{
        return !d->d.is_image && d->d.bar == BLKUP_COLDPLUG_FREE &&
               !blkup_cold_is_mounted(c, d->d.dev_major, d->d.dev_minor);
}

static bool is_whole_disk(const struct blkup_cold_device *d)
{
        return d->d.disk_major == d->d.dev_major && d->d.disk_minor == d->d.dev_minor && !d->dm_name;
}

static int probe(struct blkup_coldplug *c, struct blkup_probe *p, const struct blkup_cold_device *d,
                 uint64_t diskseq, enum blkup_verdict *ret, struct blkup_error *err)
{
        BLKUP_CLEANUP_BLOCK struct blkup_block *b = NULL;
        const bool is_ours = is_ours_alone(c, d);
        const struct blkup_open_options how = { .direct = is_ours,
                                                .fixed_diskseq = is_ours && is_whole_disk(d) ? diskseq : 0 };
        int r;

        blkup_probe_set_flags(p, is_ours ? BLKUP_PROBE_FEW_READS : 0);
        if (!c->ops.open)
                return blkup_probe_path(p, d->d.path, &how, ret, err);
        r = c->ops.open(c->ops.to, d->d.path, &b, err);
        return r < 0 ? r : blkup_probe_block(p, b, ret, err);
}

/* true: another medium since the last call; its number is the last event's. */
static bool take_new_medium(struct blkup_coldplug *c, struct blkup_cold_device *d, uint64_t *ret_diskseq)
{
        bool has;

        (void) pthread_mutex_lock(&c->lock);
        has = d->has_new_medium;
        d->has_new_medium = false;
        *ret_diskseq = d->diskseq;
        (void) pthread_mutex_unlock(&c->lock);
        return has;
}

/* Of one medium: when another was put in meanwhile, from the start. */
static int probe_medium(struct blkup_coldplug *c, struct blkup_probe *p, struct blkup_cold_device *d,
                        enum blkup_verdict *ret, struct blkup_error *err)
{
        uint64_t diskseq;
        int r = 0;

        (void) take_new_medium(c, d, &diskseq);
        for (unsigned turn = 0; turn < MAX_MEDIA; turn++) {
                r = probe(c, p, d, diskseq, ret, err);
                if (!take_new_medium(c, d, &diskseq))
                        break;
        }
        return r;
}

/* What was found goes to the device; with the lock. */
static void take_over(struct blkup_cold_device *d, const struct blkup_probe *p, enum blkup_verdict verdict)
{
        const char *trouble = blkup_probe_trouble(p);
        struct blkup_io_stats io;

        blkup_probe_stats(p, &io);
        d->d.probe.bytes = io.bytes;
        d->d.probe.reads = io.reads;
        if (d->d.size_bytes == 0)
                d->d.size_bytes = blkup_probe_size(p);
        d->part_uuid = copy_of(p, "PART_ENTRY_UUID");
        d->part_label = copy_of(p, "PART_ENTRY_NAME");
        if (*trouble)
                blkup_cold_say(&d->d.probe, "%s", trouble);
        d->d.probe.state = BLKUP_COLDPLUG_DONE;
        switch (verdict) {
        case BLKUP_VERDICT_UNKNOWN:
                d->d.probe.state = BLKUP_COLDPLUG_FAILED;
                d->d.probe.error = blkup_probe_try_again(p) ? -EAGAIN : -EIO;
                return;
        case BLKUP_VERDICT_AMBIVALENT:
                d->d.bar = BLKUP_COLDPLUG_TWO_TYPES;
                blkup_cold_say(&d->d.probe, "more than one file system: %s and %s",
                               blkup_probe_hit(p, 0).type,
                               blkup_probe_n_hits(p) > 1 ? blkup_probe_hit(p, 1).type : "another");
                return;
        case BLKUP_VERDICT_NOTHING:
                if (!*trouble)
                        blkup_cold_say(&d->d.probe, "nothing known is on it");
                return;
        case BLKUP_VERDICT_FOUND:
                break;
        }
        d->d.type = copy_of(p, "TYPE");
        d->d.usage = copy_of(p, "USAGE");
        d->d.label = copy_of(p, "LABEL");
        d->d.uuid = copy_of(p, "UUID");
        d->uuid_sub = copy_of(p, "UUID_SUB");
        if (!d->d.type)
                d->d.type = copy_of(p, "PTTYPE");
        if (d->d.usage && (strcmp(d->d.usage, "raid") == 0 || strcmp(d->d.usage, "crypto") == 0) &&
            d->d.bar == BLKUP_COLDPLUG_FREE)
                d->d.bar = BLKUP_COLDPLUG_MEMBER;
        if (d->d.type && strcmp(d->d.type, "swsuspend") == 0 && !d->run->hibernation)
                d->run->hibernation = strdup(d->d.path);
}

/* An image in a swap file on d; what is mounted has been resumed, or is lost already. */
static bool has_image_in_file(struct blkup_coldplug *c, const struct blkup_cold_device *d)
{
        BLKUP_CLEANUP_CLOSE int fd = -1;

        if (!blkup_hibernation_places_any(&c->places) || d->d.is_image ||
            blkup_cold_is_mounted(c, d->d.dev_major, d->d.dev_minor))
                return false;
        fd = blkup_host_open(c->root, d->d.path + 1, O_RDONLY);
        return fd >= 0 && blkup_hibernation_is_at(&c->places, fd);
}

void blkup_cold_set_over(struct blkup_coldplug *c, struct blkup_cold_device *d)
{
        if (d->is_over)
                return;
        d->is_over = true;
        c->n_open--;
        (void) pthread_cond_broadcast(&c->changed);
        blkup_cold_tell(c, BLKUP_COLDPLUG_EVENT_DEVICE, d->index, SIZE_MAX, NULL, NULL);
        blkup_cold_note_copies(c, d);
        blkup_cold_assemble(c);
        if (c->is_settled)
                blkup_cold_locate_pending(c);
        blkup_cold_wake(c);
}

void blkup_cold_give_up(struct blkup_coldplug *c, struct blkup_cold_device *d, int error, const char *text)
{
        if (d->is_over)
                return;
        d->d.probe.state = error == -ETIMEDOUT ? BLKUP_COLDPLUG_TIMED_OUT : BLKUP_COLDPLUG_FAILED;
        d->d.probe.error = error;
        if (d->began_ns) {
                d->d.probe.start_ns = d->began_ns;
                d->d.probe.end_ns = blkup_now_ns();
        }
        if (text)
                blkup_cold_say(&d->d.probe, "%s", text);
        else
                blkup_cold_say(&d->d.probe, "no answer within %.1f s",
                               (double) blkup_cold_device_ns(c) / 1e9);
        blkup_cold_set_over(c, d);
}

int blkup_cold_run_probe(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                         struct blkup_error *err)
{
        struct blkup_cold_device *d = arg;
        struct blkup_coldplug *c = d->run;
        enum blkup_verdict verdict = BLKUP_VERDICT_UNKNOWN;
        struct blkup_error why = { 0 };
        uint64_t start = blkup_now_ns();
        struct blkup_coldplug_step wait = { 0 };
        struct blkup_cold_prober *e = NULL;
        bool is_late, has_image;
        int r;

        (void) p;
        (void) node;
        (void) err;
        (void) pthread_mutex_lock(&c->lock);
        d->began_ns = start;
        (void) pthread_mutex_unlock(&c->lock);
        r = blkup_cold_take_prober(c, &e);
        blkup_cold_note_wait(&wait, start, "a prober", "");
        if (r == 0)
                r = probe_medium(c, e->p, d, &verdict, &why);
        has_image = r == 0 && has_image_in_file(c, d);
        if (r == 0 && verdict == BLKUP_VERDICT_FOUND && !c->s.no_assembly && !c->s.dry_run &&
            !d->d.is_image && (is_type(e->p, "LVM2_member") || is_type(e->p, "linux_raid_member")))
                blkup_cold_read_member(d, is_type(e->p, "linux_raid_member"));
        (void) pthread_mutex_lock(&c->lock);
        is_late = d->is_over || c->is_finished;
        if (!is_late) {
                d->d.probe.worker = worker;
                d->d.probe.start_ns = start;
                d->d.probe.end_ns = blkup_now_ns();
                d->d.probe.wait_start_ns = wait.wait_start_ns;
                d->d.probe.wait_end_ns = wait.wait_end_ns;
                (void) snprintf(d->d.probe.wait_for, sizeof(d->d.probe.wait_for), "%s", wait.wait_for);
                if (d->d.probe.end_ns - start > c->longest_ns)
                        c->longest_ns = d->d.probe.end_ns - start;
                if (r == 0) {
                        take_over(d, e->p, verdict);
                        if (has_image && !c->hibernation)
                                c->hibernation = strdup(d->d.path);
                } else {
                        d->d.probe.state = BLKUP_COLDPLUG_FAILED;
                        d->d.probe.error = r;
                        blkup_cold_say(&d->d.probe, "%s", *why.message ? why.message : blkup_error_text(-r));
                }
                blkup_cold_set_over(c, d);
        }
        (void) pthread_mutex_unlock(&c->lock);
        if (e)
                blkup_cold_give_prober(c, e);
        blkup_cold_free_probers_if_last(c);
        return 0;
}

int blkup_cold_run_end(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                       struct blkup_error *err)
{
        struct blkup_cold_device *d = arg;
        struct blkup_coldplug *c = d->run;

        (void) p;
        (void) node;
        (void) worker;
        (void) err;
        (void) pthread_mutex_lock(&c->lock);
        blkup_cold_give_up(c, d, -ETIMEDOUT, NULL);
        (void) pthread_mutex_unlock(&c->lock);
        return 0;
}
