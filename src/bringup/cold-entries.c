/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is asked for: lines of the fstab, places, images; and which device each means. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/clock.h"
#include "bringup/cold.h"
#include "mount/names.h"

#define MAX_NAMED 4u

static char *copy(const char *s)
{
        return s ? strdup(s) : NULL;
}

static int add(struct blkup_coldplug *c, const struct blkup_coldplug_entry *model, const char *types)
{
        size_t i = c->n_entries;
        struct blkup_coldplug_entry *entries = realloc(c->entries, (i + 1) * sizeof(*entries));
        struct blkup_cold_entry *cold;

        if (!entries)
                return -ENOMEM;
        c->entries = entries;
        cold = realloc(c->cold, (i + 1) * sizeof(*cold));
        if (!cold)
                return -ENOMEM;
        c->cold = cold;
        entries[i] = *model;
        entries[i].source = copy(model->source);
        entries[i].target = copy(model->target);
        entries[i].options = copy(model->options);
        cold[i] = (struct blkup_cold_entry){
                .run = c,
                .index = i,
                .types = copy(types),
                .locate_node = BLKUP_POOL_NONE,
                .order_node = BLKUP_POOL_NONE,
                .finish_node = BLKUP_POOL_NONE,
                .check_node = BLKUP_POOL_NONE,
                .mount_node = BLKUP_POOL_NONE,
                .parents_node = BLKUP_POOL_NONE,
                .twin = SIZE_MAX,
        };
        c->n_entries++;
        return entries[i].source && (entries[i].target || !model->target) && entries[i].options ? 0 : -ENOMEM;
}

static bool is_for_us(const struct blkup_fstab_entry *e)
{
        if (blkup_fstab_has_option(e, "noauto"))
                return false;
        return strcmp(e->types, "swap") == 0 ||
               (strcmp(e->types, "ignore") != 0 && e->target[0] == '/' && strcmp(e->target, "/") != 0);
}

/* What is bound is what a path shows, be it below /dev or a file that could be an image. */
static bool is_bind(const struct blkup_coldplug_entry *e)
{
        struct blkup_fstab_entry line = { .options = e->options };

        return e->source[0] == '/' &&
               (blkup_fstab_has_option(&line, "bind") || blkup_fstab_has_option(&line, "rbind"));
}

/* A path of the fstab that leads to a regular file: probed and finished like an image. */
static int device_of_path(struct blkup_coldplug *c, const char *path, size_t *ret)
{
        struct stat st;

        if (c->root || stat(path, &st) < 0)
                return 0;
        if (S_ISREG(st.st_mode))
                return blkup_cold_add_image(c, path, ret);
        for (size_t i = 0; S_ISBLK(st.st_mode) && i < c->n_devices; i++)
                if (!c->devices[i]->d.is_image && !c->devices[i]->is_gone &&
                    c->devices[i]->d.dev_major == major(st.st_rdev) &&
                    c->devices[i]->d.dev_minor == minor(st.st_rdev))
                        *ret = i;
        return 0;
}

static int collect_fstab(struct blkup_coldplug *c, const struct blkup_fstab *t)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < t->n; i++) {
                const struct blkup_fstab_entry *e = &t->entries[i];
                struct blkup_coldplug_entry model = {
                        .kind = BLKUP_COLDPLUG_FSTAB,
                        .line = e->line,
                        .source = e->source,
                        .target = e->target,
                        .options = e->options,
                        .passno = e->passno,
                        .device = BLKUP_COLDPLUG_NO_DEVICE,
                        .is_optional = blkup_fstab_has_option(e, "nofail"),
                };

                if (strcmp(e->types, "swap") == 0) {
                        model.kind = BLKUP_COLDPLUG_SWAP;
                        model.target = NULL;
                        model.passno = 0;
                }
                if (is_for_us(e))
                        r = add(c, &model, strcmp(e->types, "none") == 0 ? NULL : e->types);
        }
        return r;
}

static int collect_places(struct blkup_coldplug *c)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < c->s.n_places; i++) {
                struct blkup_coldplug_entry model = {
                        .kind = BLKUP_COLDPLUG_PLACE, .source = c->s.places[i].source,
                        .target = c->s.places[i].target, .options = "nosuid,nodev",
                        .device = BLKUP_COLDPLUG_NO_DEVICE,
                };

                r = add(c, &model, NULL);
        }
        return r;
}

/* The last part of the path without its suffix; a number behind it where an earlier image has the same. */
static int name_of(const struct blkup_coldplug *c, const char *path, char *ret, size_t cap)
{
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
        int len = dot && dot > name ? (int) (dot - name) : (int) strlen(name);
        unsigned number = 1;
        size_t i;

        if (len == 0 || (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.'))))
                return -EINVAL;
        (void) snprintf(ret, cap, "%s/%.*s", c->image_folder, len, name);
again:
        for (i = 0; i < c->n_entries; i++) {
                if (!c->entries[i].target || strcmp(c->entries[i].target, ret) != 0)
                        continue;
                number++;
                if (snprintf(ret, cap, "%s/%.*s-%u", c->image_folder, len, name, number) >= (int) cap)
                        return -ENAMETOOLONG;
                goto again; /* ends: each turn takes a number that no earlier turn had, and entries are finite
                             */
        }
        return 0;
}

static int collect_images(struct blkup_coldplug *c, struct blkup_error *err)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < c->s.n_images; i++) {
                struct blkup_coldplug_entry model = {
                        .kind = BLKUP_COLDPLUG_IMAGE,
                        .source = c->s.images[i],
                        /* Without `finish` in words nothing is written, not even a journal that is replayed:
                         * the loop device of a read-only mount is read-only itself. */
                        .options = c->s.finish == BLKUP_COLDPLUG_FINISH_NEVER ? "ro,nosuid,nodev"
                                                                              : "nosuid,nodev",
                };
                char target[4096];

                if (c->image_folder) {
                        r = name_of(c, c->s.images[i], target, sizeof(target));
                        if (r < 0)
                                return blkup_fail_errno(err, r, "%s: no name for a mount point",
                                                        c->s.images[i]);
                        model.target = target;
                }
                r = blkup_cold_add_image(c, c->s.images[i], &model.device);
                if (r == 0)
                        r = add(c, &model, NULL);
        }
        return r;
}

int blkup_cold_collect(struct blkup_coldplug *c, struct blkup_error *err)
{
        int r = 0;

        if (c->s.n_images > 0)
                return collect_images(c, err);
        if (c->s.fstab)
                r = collect_fstab(c, c->s.fstab);
        if (r == 0)
                r = collect_places(c);
        for (size_t i = 0; r == 0 && i < c->n_entries; i++)
                if (c->entries[i].source[0] == '/' && c->entries[i].kind != BLKUP_COLDPLUG_SWAP &&
                    !is_bind(&c->entries[i]) &&
                    !(c->cold[i].types && blkup_mount_is_nodev_type(c->cold[i].types)))
                        r = device_of_path(c, c->entries[i].source, &c->entries[i].device);
        return r;
}

/* ---- which device ---- */

bool blkup_cold_carries(const struct blkup_cold_device *d, const char *name, const char *value)
{
        if (!blkup_cold_is_here(d))
                return false;
        /* Identifiers are hexadecimal: case does not matter. Labels are text. */
        if (strcmp(name, "UUID") == 0)
                return d->d.uuid && strcasecmp(d->d.uuid, value) == 0;
        if (strcmp(name, "PARTUUID") == 0)
                return d->part_uuid && strcasecmp(d->part_uuid, value) == 0;
        if (strcmp(name, "LABEL") == 0)
                return d->d.label && strcmp(d->d.label, value) == 0;
        if (strcmp(name, "PARTLABEL") == 0)
                return d->part_label && strcmp(d->part_label, value) == 0;
        return false;
}

/* Links that udev or the tools make are followed where they are. */
bool blkup_cold_is_node(const struct blkup_coldplug *c, const struct blkup_cold_device *d, const char *path)
{
        struct stat st;

        return !c->root && !d->d.is_image && strncmp(path, "/dev/", 5) == 0 && stat(path, &st) == 0 &&
               S_ISBLK(st.st_mode) && major(st.st_rdev) == d->d.dev_major &&
               minor(st.st_rdev) == d->d.dev_minor;
}

/* Something that stands under another device carries the same tag as that one, which is the one that is
 * meant; a snapshot has its origin's. */
bool blkup_cold_counts(const struct blkup_cold_device *d)
{
        return d->d.bar != BLKUP_COLDPLUG_HELD && d->d.bar != BLKUP_COLDPLUG_MULTIPATH &&
               d->d.bar != BLKUP_COLDPLUG_SNAPSHOT;
}

/* Members of one btrfs: the same UUID, each with its own UUID_SUB. */
bool blkup_cold_belong_together(const struct blkup_cold_device *a, const struct blkup_cold_device *b)
{
        return a->d.type && b->d.type && strcmp(a->d.type, "btrfs") == 0 && strcmp(b->d.type, "btrfs") == 0 &&
               a->uuid_sub && b->uuid_sub && strcmp(a->uuid_sub, b->uuid_sub) != 0;
}

/* 0; -ENOENT: none yet; -ENOTUNIQ. */
static int find_tag(struct blkup_coldplug *c, const char *name, const char *value, size_t *ret,
                    size_t *ret_other)
{
        size_t found = BLKUP_COLDPLUG_NO_DEVICE, barred = BLKUP_COLDPLUG_NO_DEVICE;

        for (size_t i = 0; i < c->n_devices; i++) {
                if (!blkup_cold_carries(c->devices[i], name, value))
                        continue;
                if (!blkup_cold_counts(c->devices[i])) {
                        if (barred == BLKUP_COLDPLUG_NO_DEVICE)
                                barred = i;
                } else if (found == BLKUP_COLDPLUG_NO_DEVICE) {
                        found = i;
                } else if (!blkup_cold_belong_together(c->devices[found], c->devices[i])) {
                        *ret = found;
                        *ret_other = i;
                        return -ENOTUNIQ;
                }
        }
        if (found == BLKUP_COLDPLUG_NO_DEVICE)
                found = barred;
        *ret = found;
        return found == BLKUP_COLDPLUG_NO_DEVICE ? -ENOENT : 0;
}

/* One --only: the text of the entry, the path of its device or a link to it, or a tag of what is on it. */
static bool is_named_by(const struct blkup_coldplug *c, const struct blkup_coldplug_entry *e,
                        const char *only)
{
        return strcmp(only, e->source) == 0 ||
               (e->device != BLKUP_COLDPLUG_NO_DEVICE && blkup_cold_may_mean(c, c->devices[e->device], only));
}

bool blkup_cold_is_named(const struct blkup_coldplug *c, size_t entry)
{
        for (size_t i = 0; i < c->s.n_only; i++)
                if (strcmp(c->s.only[i], c->entries[entry].source) == 0)
                        return true;
        return c->s.n_only == 0;
}

static bool is_only(const struct blkup_coldplug *c, const struct blkup_coldplug_entry *e)
{
        for (size_t i = 0; i < c->s.n_only; i++)
                if (is_named_by(c, e, c->s.only[i]))
                        return true;
        return c->s.n_only == 0;
}

int blkup_cold_find_missed(struct blkup_coldplug *c)
{
        size_t n = 0;

        free(c->missed);
        c->missed = calloc(c->s.n_only + 1, sizeof(*c->missed));
        if (!c->missed)
                return -ENOMEM;
        for (size_t i = 0; i < c->s.n_only; i++) {
                bool hit = false;

                for (size_t k = 0; k < c->n_entries && !hit; k++)
                        hit = is_named_by(c, &c->entries[k], c->s.only[i]);
                if (!hit)
                        c->missed[n++] = c->s.only[i];
        }
        c->result.missed = c->missed;
        c->result.n_missed = n;
        return 0;
}

static bool is_looked_for(const struct blkup_coldplug *c, size_t device)
{
        for (size_t i = 0; i < c->n_entries; i++)
                if (c->entries[i].device == device && !c->cold[i].is_located)
                        return true;
        return false;
}

/* Is a device there that `only` may mean, and each entry of it decided? */
static bool is_answered(const struct blkup_coldplug *c, const char *only)
{
        for (size_t i = 0; i < c->n_entries; i++)
                if (c->cold[i].is_located && strcmp(c->entries[i].source, only) == 0)
                        return true;
        for (size_t i = 0; i < c->n_devices; i++)
                if (c->devices[i]->is_over && !is_looked_for(c, i) &&
                    blkup_cold_may_mean(c, c->devices[i], only))
                        return true;
        return false;
}

bool blkup_cold_is_waiting(const struct blkup_coldplug *c)
{
        bool is_waiting = false, is_wanted = c->s.n_only == 0;

        /* nofail: what may stay away keeps nobody waiting, unless it is asked for by name. */
        for (size_t i = 0; i < c->n_entries; i++)
                is_waiting = is_waiting ||
                             (!c->cold[i].is_located && (!c->entries[i].is_optional || c->s.n_only > 0));
        /* Other entries than those of --only are nobody's concern. */
        for (size_t i = 0; i < c->s.n_only; i++)
                is_wanted = is_wanted || !is_answered(c, c->s.only[i]);
        return is_waiting && is_wanted;
}

static bool decide(struct blkup_coldplug *c, size_t index, int error)
{
        struct blkup_coldplug_entry *e = &c->entries[index];
        struct blkup_cold_entry *cold = &c->cold[index];
        struct blkup_coldplug_step *s = &e->steps[BLKUP_COLDPLUG_PROBE];

        bool is_open;

        cold->is_located = true;
        cold->locate_error = error;
        if (c->s.is_watch) {
                cold->circumstances = blkup_cold_circumstances(c, index, &is_open);
                cold->decided_ns = blkup_now_ns();
        }
        e->is_left_out = !is_only(c, e);
        s->error = e->is_left_out ? 0 : error;
        s->state = e->is_left_out ? BLKUP_COLDPLUG_NOT_ASKED
                   : error == 0   ? BLKUP_COLDPLUG_DONE
                   : e->is_optional && error == -ENOENT ? BLKUP_COLDPLUG_SKIPPED
                                                        : BLKUP_COLDPLUG_FAILED;
        /* What is left out does nothing, and stands in nobody's way. */
        if (e->is_left_out)
                cold->locate_error = 0;
        return true;
}

/* A line for swap is in nobody's way who means what is really there. */
static bool may_own(const struct blkup_coldplug_entry *e, const struct blkup_cold_device *d)
{
        return e->kind != BLKUP_COLDPLUG_SWAP || (d->d.type && strcmp(d->d.type, "swap") == 0);
}

/* Of lines for one device that which wants it checked, as long as none of them has gone on. */
static bool becomes_owner(const struct blkup_coldplug *c, size_t index, const struct blkup_cold_device *d)
{
        const struct blkup_coldplug_entry *e = &c->entries[index];

        if (!may_own(e, d))
                return false;
        return !d->has_owner || (e->passno > 0 && !e->is_left_out && c->entries[d->owner].passno <= 0 &&
                                 !c->cold[d->owner].is_ordered);
}

/* The device is known: has it answered? */
static bool decide_device(struct blkup_coldplug *c, size_t index)
{
        struct blkup_coldplug_entry *e = &c->entries[index];
        struct blkup_cold_device *d = c->devices[e->device];
        struct blkup_coldplug_step *s = &e->steps[BLKUP_COLDPLUG_PROBE];

        if (!d->is_over)
                return false;
        /* What --mount names may lie behind a lock. */
        if (e->kind == BLKUP_COLDPLUG_PLACE && d->d.type && strcmp(d->d.type, "crypto_LUKS") == 0 &&
            d->d.probe.state == BLKUP_COLDPLUG_DONE && !c->is_stopped) {
                size_t behind = blkup_cold_behind(c, e->device);

                if (behind != BLKUP_COLDPLUG_NO_DEVICE) {
                        e->device = behind;
                        return decide_device(c, index);
                }
                if (blkup_cold_may_come(c))
                        return false;
        }
        if (d->d.probe.state == BLKUP_COLDPLUG_DONE && !blkup_cold_is_whole(c, d)) {
                struct blkup_fstab_entry line = { .options = e->options };

                if (blkup_cold_may_come(c))
                        return false;
                if (!blkup_fstab_has_option(&line, "degraded")) {
                        blkup_cold_say(s, "btrfs %s: not all of its devices are there", d->d.uuid);
                        return decide(c, index, -ENODEV);
                }
        }
        if (d->d.probe.state == BLKUP_COLDPLUG_DONE) {
                if (becomes_owner(c, index, d)) {
                        d->has_owner = true;
                        d->owner = index;
                }
                return decide(c, index, 0);
        }
        blkup_cold_say(s, "%s: %s", d->d.path, d->d.probe.text ? d->d.probe.text : "was not probed");
        return decide(c, index, d->d.probe.error ? d->d.probe.error : -EIO);
}

/* What stands at the device's place now is still being looked at: it may be another. */
static bool is_aside(const struct blkup_coldplug *c, struct blkup_coldplug_entry *e)
{
        if (e->device == BLKUP_COLDPLUG_NO_DEVICE || !c->devices[e->device]->is_aside)
                return false;
        e->device = BLKUP_COLDPLUG_NO_DEVICE;
        return true;
}

/* Those that might be what is looked for: nobody knows what is on them. */
static void name_unread(const struct blkup_coldplug *c, char *text, size_t cap)
{
        size_t n = 0, used = 0;

        *text = '\0';
        for (size_t i = 0; i < c->n_devices; i++) {
                const struct blkup_cold_device *d = c->devices[i];

                if (d->d.is_image || !blkup_cold_is_here(d) || d->d.probe.state == BLKUP_COLDPLUG_DONE)
                        continue;
                if (n++ < MAX_NAMED && used < cap)
                        used += (size_t) snprintf(text + used, cap - used, "%s%s",
                                                  n > 1 ? ", " : "; not read: ", d->d.path);
        }
        if (n > MAX_NAMED && used < cap)
                (void) snprintf(text + used, cap - used, " and %zu more", n - MAX_NAMED);
}

bool blkup_cold_locate(struct blkup_coldplug *c, size_t index)
{
        char held[512], unread[512];
        struct blkup_coldplug_entry *e = &c->entries[index];
        struct blkup_cold_entry *cold = &c->cold[index];
        struct blkup_coldplug_step *s = &e->steps[BLKUP_COLDPLUG_PROBE];
        struct blkup_cold_tag tag;
        size_t other = 0;
        bool is_tag;
        int r;

        if (cold->is_located)
                return true;
        /* One that went before it was mounted: who stays waits for the next. */
        if (c->s.is_watch && !c->is_stopped && e->device != BLKUP_COLDPLUG_NO_DEVICE &&
            c->devices[e->device]->is_gone)
                e->device = BLKUP_COLDPLUG_NO_DEVICE;
        if (e->device != BLKUP_COLDPLUG_NO_DEVICE)
                return decide_device(c, index);
        if (e->kind != BLKUP_COLDPLUG_SWAP && is_bind(e))
                return decide(c, index, 0);
        is_tag = blkup_cold_split_tag(e->source, &tag);
        if (is_tag) {
                r = find_tag(c, tag.name, tag.value, &e->device, &other);
                if (r == -ENOTUNIQ) {
                        blkup_cold_say(s, "%s and %s both carry %s: refused, one may be a copy of the other",
                                       c->devices[e->device]->d.path, c->devices[other]->d.path, e->source);
                        return decide(c, index, r);
                }
                if (r == 0 && !is_aside(c, e))
                        return decide_device(c, index);
                if (r == 0)
                        return false;
        }
        if (strncmp(e->source, "/dev/", 5) == 0) {
                /* A link that stands for a tag counts when what it leads to has answered, without it. */
                for (size_t i = 0; i < c->n_devices && e->device == BLKUP_COLDPLUG_NO_DEVICE; i++)
                        if (blkup_cold_is_path(c, c->devices[i], e->source) &&
                            (!is_tag || c->devices[i]->is_over))
                                e->device = i;
                if (is_aside(c, e) || (e->device == BLKUP_COLDPLUG_NO_DEVICE && blkup_cold_may_come(c)))
                        return false;
                if (e->device == BLKUP_COLDPLUG_NO_DEVICE && (c->root || access(e->source, F_OK) == 0)) {
                        blkup_cold_say(s, "%s is not among the devices that are looked at", e->source);
                        return decide(c, index, -ENODEV);
                }
                if (e->device != BLKUP_COLDPLUG_NO_DEVICE)
                        return decide_device(c, index);
        } else if (!is_tag) {
                return decide(c, index, 0); /* no device: tmpfs, a bind */
        }
        if (blkup_cold_may_come(c))
                return false;
        blkup_cold_explain_held(c, held, sizeof(held));
        *unread = '\0';
        if (is_tag)
                name_unread(c, unread, sizeof(unread));
        blkup_cold_say(s, "no device is or carries %s%s%s%s", e->source, *held ? "; " : "", held, unread);
        return decide(c, index, -ENOENT);
}

void blkup_cold_locate_pending(struct blkup_coldplug *c)
{
        for (size_t i = 0; i < c->n_entries; i++) {
                struct blkup_cold_entry *cold = &c->cold[i];

                if (!cold->is_pending || cold->is_located || !blkup_cold_locate(c, i))
                        continue;
                cold->is_pending = false;
                (void) !blkup_pool_complete(c->pool, cold->locate_node, cold->locate_error,
                                            c->entries[i].steps[BLKUP_COLDPLUG_PROBE].text);
        }
        blkup_cold_let_children_go(c);
}
