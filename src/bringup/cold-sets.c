/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is made of members: one of each, as long as a member is there. */
#include <stdlib.h>
#include <string.h>

#include "bringup/cold.h"
#include "host/hostfile.h"

#define MAX_SETS 65536u

struct blkup_cold_set *blkup_cold_find_set(struct blkup_coldplug *c, enum blkup_coldplug_set_kind kind,
                                           const char *uuid)
{
        for (size_t i = 0; i < c->n_sets; i++)
                if (c->sets[i]->s.kind == kind && strcmp(c->sets[i]->s.uuid, uuid) == 0)
                        return c->sets[i];
        return NULL;
}

struct blkup_cold_set *blkup_cold_get_set(struct blkup_coldplug *c, enum blkup_coldplug_set_kind kind,
                                          const char *uuid)
{
        struct blkup_cold_set *set = blkup_cold_find_set(c, kind, uuid);

        if (set)
                return set;
        if (blkup_host_reserve((void **) &c->sets, &c->set_cap, c->n_sets, sizeof(*c->sets), MAX_SETS) < 0)
                return NULL;
        set = calloc(1, sizeof(*set));
        if (set)
                set->s.uuid = strdup(uuid);
        if (!set || !set->s.uuid) {
                free(set);
                return NULL;
        }
        set->s.kind = kind;
        c->sets[c->n_sets++] = set;
        return set;
}

void blkup_cold_name_set(struct blkup_cold_set *set, const char *name)
{
        char *own = strdup(name);

        if (own) {
                free((char *) set->s.name);
                set->s.name = own;
        }
}

void blkup_cold_fail_set(struct blkup_coldplug *c, struct blkup_cold_set *set,
                         enum blkup_coldplug_state state, int error, const char *text)
{
        if (set->s.step.state == state && set->s.step.text && strcmp(set->s.step.text, text) == 0)
                return;
        set->s.step.state = state;
        set->s.step.error = error;
        blkup_cold_say(&set->s.step, "%s", text);
        blkup_cold_tell(c, BLKUP_COLDPLUG_EVENT_WARNING, SIZE_MAX, SIZE_MAX,
                        set->s.name ? set->s.name : set->s.uuid, text);
}

static void free_set(struct blkup_cold_set *set)
{
        free((char *) set->s.uuid);
        free((char *) set->s.name);
        free(set->md_name);
        free(set->s.step.text);
        free(set);
}

void blkup_cold_free_sets(struct blkup_coldplug *c)
{
        for (size_t i = 0; i < c->n_sets; i++)
                free_set(c->sets[i]);
        free(c->sets);
        /* Ends: the list gets shorter each turn. */
        while (c->jobs) {
                struct blkup_cold_job *j = c->jobs;

                c->jobs = j->next;
                free(j);
        }
}

/* Does d belong to the set, as far as anybody knows? */
static bool belongs(const struct blkup_cold_device *d, const struct blkup_cold_set *set)
{
        static const char *const types[] = { "linux_raid_member", "LVM2_member", "crypto_LUKS", "btrfs" };

        if (!blkup_cold_is_here(d) || !d->is_over || !d->d.type || strcmp(d->d.type, types[set->s.kind]) != 0)
                return false;
        if (set->s.kind == BLKUP_COLDPLUG_LVM)
                return d->lvm_set == set || (d->lvm && strcmp(d->lvm->vg_uuid, set->s.uuid) == 0);
        return d->d.uuid && strcmp(d->d.uuid, set->s.uuid) == 0;
}

static bool is_worked_on(const struct blkup_coldplug *c, const struct blkup_cold_set *set)
{
        for (const struct blkup_cold_job *j = c->jobs; j; j = j->next)
                if (j->set == set && !j->is_over)
                        return true;
        return false;
}

void blkup_cold_end_grace(struct blkup_coldplug *c, struct blkup_cold_set *set)
{
        if (set->grace_until_ns)
                c->n_graces--;
        set->grace_until_ns = 0;
}

/* d comes to a set, all other members of which have gone: what was made of those is nothing to it. */
void blkup_cold_renew_set(struct blkup_coldplug *c, struct blkup_cold_set *set,
                          const struct blkup_cold_device *d)
{
        if (is_worked_on(c, set))
                return;
        for (size_t i = 0; i < c->n_devices; i++)
                if (c->devices[i] != d && c->devices[i]->is_taken && belongs(c->devices[i], set))
                        return;
        blkup_cold_end_grace(c, set);
        set->is_begun = set->is_started = set->is_warned = set->s.is_degraded = false;
        set->s.n_members = 0;
        if (set->s.step.state == BLKUP_COLDPLUG_DONE || set->s.step.state == BLKUP_COLDPLUG_ALREADY)
                set->s.step.state = BLKUP_COLDPLUG_NOT_ASKED;
}

/* What was wrong before is not any more. */
void blkup_cold_succeed(struct blkup_cold_set *set)
{
        if (set->s.step.state != BLKUP_COLDPLUG_NOT_ASKED) {
                free(set->s.step.text);
                set->s.step.text = NULL;
        }
        set->is_started = true;
        set->s.step.state = BLKUP_COLDPLUG_DONE;
        set->s.step.error = 0;
}

static void tidy_jobs(struct blkup_coldplug *c)
{
        /* Ends: each turn goes on in the list, or makes it shorter. */
        for (struct blkup_cold_job **at = &c->jobs; *at;) {
                struct blkup_cold_job *j = *at;

                if (j->is_over && __atomic_load_n(&j->is_dropped, __ATOMIC_ACQUIRE)) {
                        *at = j->next;
                        free(j);
                } else {
                        at = &j->next;
                }
        }
}

void blkup_cold_tidy_sets(struct blkup_coldplug *c)
{
        size_t n = 0;

        tidy_jobs(c);
        for (size_t i = 0; i < c->n_sets; i++) {
                struct blkup_cold_set *set = c->sets[i];
                bool is_needed = false;

                for (size_t k = 0; k < c->n_devices && !is_needed; k++)
                        is_needed = belongs(c->devices[k], set);
                for (const struct blkup_cold_job *j = c->jobs; j && !is_needed; j = j->next)
                        is_needed = j->set == set;
                if (is_needed) {
                        c->sets[n++] = set;
                        continue;
                }
                for (size_t k = 0; k < c->n_devices; k++)
                        if (c->devices[k]->lvm_set == set)
                                c->devices[k]->lvm_set = NULL;
                blkup_cold_end_grace(c, set);
                free_set(set);
        }
        c->n_sets = n;
}
