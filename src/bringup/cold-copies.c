/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A second device that carries what is in use already. While nobody uses either, both are refused (find_tag()
 * and add_lvm()); when the second one comes later, nothing can be undone: it is told, once, with both names.
 * It is not handed to any tool.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bringup/cold.h"
#include "host/hostfile.h"

#define MAX_COPIES 64u

static bool is_text(const char *a, const char *b)
{
        return a && b && strcasecmp(a, b) == 0;
}

/* Of which several devices carry one UUID, and each its own UUID_SUB. */
static bool has_members(const char *type)
{
        static const char *const types[] = { "linux_raid_member", "btrfs", "bcachefs", "zfs_member" };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(types); i++)
                if (strcmp(type, types[i]) == 0)
                        return true;
        return false;
}

bool blkup_cold_is_copy(const struct blkup_cold_device *a, const struct blkup_cold_device *b)
{
        if (!is_text(a->d.type, b->d.type) || !is_text(a->d.uuid, b->d.uuid))
                return false;
        return has_members(a->d.type) ? is_text(a->uuid_sub, b->uuid_sub) : true;
}

static void free_copy(struct blkup_coldplug_copy *copy)
{
        free((char *) copy->device);
        free((char *) copy->other);
        free((char *) copy->of);
        free((char *) copy->text);
}

static void keep(struct blkup_coldplug *c, const struct blkup_cold_device *d,
                 const struct blkup_cold_device *o, const char *of, const char *text)
{
        struct blkup_coldplug_copy copy;

        for (size_t i = 0; i < c->n_copies; i++)
                if (strcmp(c->copies[i].device, d->d.path) == 0 &&
                    strcmp(c->copies[i].other, o->d.path) == 0 && strcmp(c->copies[i].of, of) == 0)
                        return; /* it has come again */
        if (blkup_host_reserve((void **) &c->copies, &c->copy_cap, c->n_copies, sizeof(*c->copies),
                               MAX_COPIES) < 0)
                return;
        copy = (struct blkup_coldplug_copy){ .device = strdup(d->d.path),
                                             .other = strdup(o->d.path),
                                             .of = strdup(of),
                                             .text = strdup(text) };
        if (copy.device && copy.other && copy.of && copy.text)
                c->copies[c->n_copies++] = copy;
        else
                free_copy(&copy);
}

static void tell(struct blkup_coldplug *c, const struct blkup_cold_device *d,
                 const struct blkup_cold_device *o, const char *what, const char *of)
{
        char text[1024];

        (void) snprintf(text, sizeof(text),
                        "%s and %s both carry %s, and %s has %s already: one may be a copy of the other",
                        d->d.path, o->d.path, what, of, o->d.path);
        keep(c, d, o, of, text);
        blkup_cold_tell(c, BLKUP_COLDPLUG_EVENT_WARNING, d->index, SIZE_MAX, NULL, text);
}

/* The loop device over an image: what a line of the fstab for the file is mounted by. */
bool blkup_cold_is_loop_of(const struct blkup_coldplug *c, uint32_t dev_major, uint32_t dev_minor,
                           const struct blkup_cold_device *image)
{
        BLKUP_CLEANUP_FREE char *file = NULL;
        char path[64];
        size_t n;

        if (!image->d.is_image || !image->file)
                return false;
        (void) snprintf(path, sizeof(path), "sys/dev/block/%u:%u/loop/backing_file", dev_major, dev_minor);
        if (blkup_host_read(c->root, path, 4096 + 16, &file, &n) < 0)
                return false;
        if (n > 0 && file[n - 1] == '\n')
                file[n - 1] = '\0';
        return strcmp(file, image->file) == 0;
}

/* Something that stands on another shows what is on that one. */
static bool are_one(const struct blkup_coldplug *c, const struct blkup_cold_device *a,
                    const struct blkup_cold_device *b)
{
        return (!a->d.is_image && blkup_cold_is_loop_of(c, a->d.dev_major, a->d.dev_minor, b)) ||
               blkup_cold_stands_on(c, a, b, false) || blkup_cold_stands_on(c, b, a, false);
}

/* The set that has taken o, or NULL. Only what cannot be undone: not one that was refused. */
static const struct blkup_cold_set *set_of(const struct blkup_coldplug *c, const struct blkup_cold_device *o)
{
        static const char *const types[] = { "linux_raid_member", "LVM2_member", "crypto_LUKS" };

        for (size_t i = 0; o->is_taken && i < c->n_sets; i++) {
                const struct blkup_cold_set *set = c->sets[i];
                unsigned kind = (unsigned) set->s.kind;

                if (kind >= BLKUP_ARRAY_SIZE(types) || strcmp(o->d.type, types[kind]) != 0 ||
                    set->s.step.state == BLKUP_COLDPLUG_REFUSED)
                        continue;
                if (set->s.kind == BLKUP_COLDPLUG_LVM
                            ? o->lvm_set == set && (set->is_begun || set->is_started)
                            : is_text(o->d.uuid, set->s.uuid))
                        return set;
        }
        return NULL;
}

static void look_at_sets(struct blkup_coldplug *c, const struct blkup_cold_device *d)
{
        for (size_t i = 0; d->d.uuid && i < c->n_devices; i++) {
                const struct blkup_cold_device *o = c->devices[i];
                const struct blkup_cold_set *set;
                char what[128];

                if (o == d || o == d->before || !blkup_cold_is_here(o) || !o->is_over ||
                    !blkup_cold_is_copy(d, o) || are_one(c, d, o))
                        continue;
                set = set_of(c, o);
                if (!set)
                        continue;
                (void) snprintf(what, sizeof(what), "UUID=%s", d->uuid_sub ? d->uuid_sub : d->d.uuid);
                tell(c, d, o, what, set->s.name ? set->s.name : set->s.uuid);
                return;
        }
}

static void look_at_entries(struct blkup_coldplug *c, const struct blkup_cold_device *d)
{
        for (size_t i = 0; i < c->n_entries; i++) {
                const struct blkup_coldplug_entry *e = &c->entries[i];
                const struct blkup_cold_device *o =
                        e->device == BLKUP_COLDPLUG_NO_DEVICE ? NULL : c->devices[e->device];
                struct blkup_cold_tag tag;
                char what[128];
                bool is_tag;

                if (!o || o == d || o == d->before || !blkup_cold_is_here(o) || !c->cold[i].is_located ||
                    c->cold[i].locate_error != 0 || e->is_left_out)
                        continue;
                is_tag = blkup_cold_split_tag(e->source, &tag) &&
                         blkup_cold_carries(d, tag.name, tag.value) && !blkup_cold_belong_together(o, d);
                if ((!is_tag && !blkup_cold_is_copy(d, o)) || are_one(c, d, o))
                        continue;
                if (is_tag)
                        (void) snprintf(what, sizeof(what), "%s=%s", tag.name, tag.value);
                else
                        (void) snprintf(what, sizeof(what), "UUID=%s", d->d.uuid);
                tell(c, d, o, what, e->target ? e->target : e->source);
        }
}

void blkup_cold_note_copies(struct blkup_coldplug *c, const struct blkup_cold_device *d)
{
        if (!c->is_settled || c->is_stopped || c->is_finished || d->d.is_image || d->is_gone ||
            d->d.probe.state != BLKUP_COLDPLUG_DONE || !blkup_cold_counts(d) ||
            (d->before && blkup_cold_is_same(d->before, d)))
                return;
        look_at_sets(c, d);
        look_at_entries(c, d);
}

void blkup_cold_free_copies(struct blkup_coldplug *c)
{
        for (size_t i = 0; i < c->n_copies; i++)
                free_copy(&c->copies[i]);
        free(c->copies);
}
