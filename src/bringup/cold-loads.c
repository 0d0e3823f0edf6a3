/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What was loaded when, and which load brought a device: for the report. A run that stays keeps none of it.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <blkup/modules.h>

#include "bringup/cold.h"
#include "host/hostfile.h"

#define MAX_LOADS 8192u

static struct blkup_cold_load *add(struct blkup_coldplug *c)
{
        struct blkup_cold_load *l;

        if (c->s.is_watch || c->is_finished ||
            blkup_host_reserve((void **) &c->loads, &c->load_cap, c->n_loads, sizeof(*c->loads), MAX_LOADS) <
                    0)
                return NULL;
        l = &c->loads[c->n_loads++];
        *l = (struct blkup_cold_load){ .plan = SIZE_MAX };
        return l;
}

size_t blkup_cold_note_plan(struct blkup_coldplug *c, uint64_t start_ns, uint64_t end_ns, unsigned worker)
{
        struct blkup_cold_load *l = add(c);

        if (!l)
                return SIZE_MAX;
        l->start_ns = start_ns;
        l->end_ns = end_ns;
        l->worker = worker;
        return c->n_loads - 1;
}

void blkup_cold_note_loads(struct blkup_coldplug *c, struct blkup_module_plan *p,
                           const struct blkup_module_load *done, size_t plan)
{
        const struct blkup_module_node *nodes;
        size_t n = 0, *at;

        if (blkup_module_plan_nodes(p, &nodes, &n) < 0)
                return;
        at = calloc(n + 1, sizeof(*at)); /* the load of each node, and one: 0 none */
        for (size_t i = 0; at && i < n; i++) {
                const struct blkup_module_result *m = blkup_module_load_result(done, i);
                struct blkup_cold_load *l = m && m->calls && m->start_ns ? add(c) : NULL;

                if (!l)
                        continue;
                at[i] = c->n_loads;
                l->name = strdup(m->name);
                l->start_ns = m->start_ns;
                l->end_ns = m->live_ns && m->live_ns < m->end_ns ? m->live_ns : m->end_ns;
                l->span = m->span;
                l->worker = BLKUP_POOL_MAX_WORKERS + m->worker;
                l->plan = plan;
                l->needs = calloc((size_t) nodes[i].n_needs + 1, sizeof(*l->needs));
                for (uint32_t k = 0; l->needs && k < nodes[i].n_needs; k++)
                        if (at[nodes[i].needs[k]])
                                l->needs[l->n_needs++] = (uint32_t) at[nodes[i].needs[k]] - 1;
        }
        free(at);
}

void blkup_cold_free_loads(struct blkup_coldplug *c)
{
        for (size_t i = 0; i < c->n_loads; i++) {
                free(c->loads[i].name);
                free(c->loads[i].needs);
        }
        free(c->loads);
}

/* The load of a module that had begun when d came. */
static void take_bringer(struct blkup_coldplug *c, struct blkup_cold_device *d, const char *module)
{
        for (size_t i = 0; i < c->n_loads; i++) {
                struct blkup_cold_load *l = &c->loads[i];
                const struct blkup_cold_load *best = d->bringer == SIZE_MAX ? NULL : &c->loads[d->bringer];

                if (!l->name || !blkup_host_is_same_name(l->name, module) || l->start_ns >= d->came_ns)
                        continue;
                /* It has done its work when its first device is there. */
                if (l->end_ns > d->came_ns)
                        l->end_ns = d->came_ns;
                if (!best || l->end_ns > best->end_ns)
                        d->bringer = i;
        }
}

/* Of what it stands on, up to its bus, whatever has a driver (Documentation/driver-api/driver-model). */
static void find_bringer(struct blkup_coldplug *c, struct blkup_cold_device *d)
{
        char path[PATH_MAX], link[PATH_MAX], module[PATH_MAX], *slash;
        const char *at;

        (void) snprintf(link, sizeof(link), "sys/dev/block/%u:%u", d->d.dev_major, d->d.dev_minor);
        if (blkup_host_readlink(c->root, link, path, sizeof(path)) < 0)
                return;
        at = strstr(path, "devices/");
        if (!at)
                return;
        /* Ends: the path gets shorter each turn. */
        for (slash = strrchr(path, '/'); slash > at + sizeof("devices"); slash = strrchr(path, '/')) {
                *slash = '\0';
                if (snprintf(link, sizeof(link), "sys/%s/driver/module", at) >= (int) sizeof(link) ||
                    blkup_host_readlink(c->root, link, module, sizeof(module)) < 0)
                        continue;
                slash = strrchr(module, '/');
                take_bringer(c, d, slash ? slash + 1 : module);
        }
}

void blkup_cold_find_bringers(struct blkup_coldplug *c)
{
        for (size_t i = 0; i < c->n_devices; i++) {
                struct blkup_cold_device *d = c->devices[i];

                d->bringer = SIZE_MAX;
                if (c->n_loads > 0 && d->came_ns && !d->d.is_image)
                        find_bringer(c, d);
        }
        for (size_t i = 0; i < c->n_devices; i++) {
                struct blkup_coldplug_device *d = &c->devices[i]->d;
                const struct blkup_cold_load *l;

                if (c->devices[i]->bringer == SIZE_MAX)
                        continue;
                l = &c->loads[c->devices[i]->bringer];
                d->module = l->name;
                d->module_start_ns = l->start_ns;
                d->module_end_ns = l->end_ns;
        }
}
