/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* After the run, in one thread: why something failed, what decided how long it took, and the trace. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/error.h"
#include "bringup/cold.h"
#include "bringup/explain.h"
#include "trace/path.h"
#include "trace/trace.h"

const char *blkup_coldplug_stage_name(enum blkup_coldplug_stage s)
{
        static const char *const names[] = { "probe", "finish", "check", "mount" };

        return (unsigned) s < BLKUP_ARRAY_SIZE(names) ? names[s] : "?";
}

const char *blkup_coldplug_state_name(enum blkup_coldplug_state s)
{
        static const char *const names[] = {
                "nothing to do", "done",    "already", "would",     "left",
                "refused",       "skipped", "failed",  "timed out",
        };

        return (unsigned) s < BLKUP_ARRAY_SIZE(names) ? names[s] : "?";
}

bool blkup_coldplug_is_good(enum blkup_coldplug_state s)
{
        return s == BLKUP_COLDPLUG_NOT_ASKED || s == BLKUP_COLDPLUG_DONE || s == BLKUP_COLDPLUG_ALREADY ||
               s == BLKUP_COLDPLUG_WOULD || s == BLKUP_COLDPLUG_LEFT;
}

const char *blkup_coldplug_bar_name(enum blkup_coldplug_bar b)
{
        static const char *const names[] = {
                "",
                "a read-only device",
                "a removable device: not touched",
                "used by another block device",
                "a path of a multipath device",
                "a snapshot",
                "a member of something that has to be assembled first",
                "more than one file system on it",
                "a hibernation image is attached",
        };

        return (unsigned) b < BLKUP_ARRAY_SIZE(names) ? names[b] : "?";
}

static const char *object_of(const struct blkup_coldplug *c, const struct blkup_coldplug_entry *e)
{
        return e->device == BLKUP_COLDPLUG_NO_DEVICE ? (e->target ? e->target : e->source)
                                                     : c->devices[e->device]->d.path;
}

static int explain(struct blkup_coldplug *c)
{
        struct blkup_explainer *x = NULL;
        int r = 0;

        for (size_t i = 0; r == 0 && i < c->n_entries; i++) {
                struct blkup_coldplug_entry *e = &c->entries[i];
                struct blkup_coldplug_step *s = &e->steps[BLKUP_COLDPLUG_MOUNT];
                struct blkup_mount_request q = {
                        .line = e->line, .source = e->source, .target = e->target, .options = e->options,
                        .types = c->cold[i].types,
                };
                char text[1024] = "";

                if (!e->mount || s->text)
                        continue;
                if (e->device != BLKUP_COLDPLUG_NO_DEVICE)
                        q.source = c->devices[e->device]->d.path;
                if (e->mount->outcome == BLKUP_MOUNT_DONE) {
                        blkup_explain_notes(e->mount, text, sizeof(text));
                } else {
                        if (!x)
                                x = blkup_explainer_new(c->root);
                        r = x ? 0 : -ENOMEM;
                        if (x)
                                blkup_explain_mount(x, &q, e->mount, text, sizeof(text));
                }
                if (*text)
                        blkup_cold_say(s, "%s", text);
        }
        blkup_explainer_unref(x);
        return r;
}

/* Who reads a failure wants to know why: where memory ran out, or somebody below had no word for it, it is at
 * least the errno that is told. */
static void give_reason(struct blkup_coldplug_step *s)
{
        const bool has_failed = s->state == BLKUP_COLDPLUG_FAILED || s->state == BLKUP_COLDPLUG_REFUSED ||
                                s->state == BLKUP_COLDPLUG_TIMED_OUT;

        if (has_failed && (!s->text || *s->text == '\0'))
                blkup_cold_say(s, "%s", s->error < 0 ? blkup_error_text(-s->error) : "no reason is known");
}

static void give_reasons(struct blkup_coldplug *c)
{
        for (size_t i = 0; i < c->n_devices; i++)
                give_reason(&c->devices[i]->d.probe);
        for (size_t i = 0; i < c->n_sets; i++)
                give_reason(&c->sets[i]->s.step);
        for (size_t i = 0; i < c->n_entries; i++)
                for (size_t k = 0; k < BLKUP_COLDPLUG_STAGES; k++)
                        give_reason(&c->entries[i].steps[k]);
}

/* Whether the kernel's thread has gone on meanwhile. */
static void watch_kernel(struct blkup_coldplug *c)
{
        for (size_t i = 0; i < c->n_entries; i++) {
                struct blkup_coldplug_entry *e = &c->entries[i];
                struct blkup_coldplug_step *s = &e->steps[BLKUP_COLDPLUG_FINISH];
                struct blkup_lazyinit_status now;

                if (s->state != BLKUP_COLDPLUG_LEFT ||
                    e->steps[BLKUP_COLDPLUG_MOUNT].state != BLKUP_COLDPLUG_DONE ||
                    c->ops.status(c->ops.to, c->devices[e->device]->d.path, &now, NULL) < 0)
                        continue;
                if (now.groups_left < e->groups_left)
                        blkup_cold_say(s, "the kernel has done %u of %u groups since the mount",
                                       e->groups_left - now.groups_left, e->groups_left);
                e->groups_left = now.groups_left;
        }
}

static void judge(struct blkup_coldplug *c)
{
        for (size_t i = 0; i < c->n_entries; i++) {
                struct blkup_coldplug_entry *e = &c->entries[i];
                const struct blkup_coldplug_step *s = e->steps;

                e->is_ready = !e->is_left_out && s[BLKUP_COLDPLUG_PROBE].state == BLKUP_COLDPLUG_DONE &&
                              blkup_coldplug_is_good(s[BLKUP_COLDPLUG_CHECK].state) &&
                              blkup_coldplug_is_good(s[BLKUP_COLDPLUG_MOUNT].state);
                /* An image that is only to be identified. */
                if (e->kind == BLKUP_COLDPLUG_IMAGE && !c->devices[e->device]->d.type)
                        e->is_ready = false;
        }
}

/* ---- steps, by one number each: probes, `settled`, stages ---- */

static size_t step_of_stage(const struct blkup_coldplug *c, size_t entry, size_t stage)
{
        return c->n_devices + 2 + entry * BLKUP_COLDPLUG_STAGES + stage;
}

static size_t step_of_set(const struct blkup_coldplug *c, size_t set)
{
        return c->n_devices + 2 + c->n_entries * BLKUP_COLDPLUG_STAGES + set;
}

static size_t step_of_load(const struct blkup_coldplug *c, size_t load)
{
        return step_of_set(c, c->n_sets) + load;
}

/* A set's tool has done its work when the first device that it made is there: it tells us itself of that,
 * before it ends. */
static struct blkup_coldplug_step step_of(const struct blkup_coldplug *c, const struct blkup_cold_set *set)
{
        struct blkup_coldplug_step s = set->s.step;

        for (size_t i = 0; i < c->n_devices; i++) {
                uint64_t came_ns = c->devices[i]->came_ns;

                if (came_ns > set->s.step.start_ns && came_ns < s.end_ns)
                        s.end_ns = came_ns;
        }
        if (s.end_ns < s.start_ns) /* it was begun, and never ended */
                s.start_ns = s.end_ns = 0;
        return s;
}

/* What a number means: the step, what it is called and of what. *s is a copy. */
static void describe(const struct blkup_coldplug *c, size_t number, struct blkup_coldplug_step *s,
                     const char **ret_stage, const char **ret_object)
{
        size_t entry, stage;

        if (number < c->n_devices) {
                *s = c->devices[number]->d.probe;
                *ret_stage = "probe";
                *ret_object = c->devices[number]->d.path;
                return;
        }
        if (number == c->n_devices) {
                /* Only what was waited for after the last answer: for those that were silent. */
                *s = (struct blkup_coldplug_step){ .end_ns = c->settled_ns, .worker = c->settled_worker };
                for (size_t i = 0; i < c->n_devices; i++)
                        if (c->devices[i]->d.probe.end_ns <= c->settled_ns &&
                            c->devices[i]->d.probe.end_ns > s->start_ns)
                                s->start_ns = c->devices[i]->d.probe.end_ns;
                s->start_ns = s->start_ns ? s->start_ns : c->settled_ns;
                *ret_stage = "wait";
                *ret_object = "all devices";
                return;
        }
        if (number == c->n_devices + 1) {
                *s = (struct blkup_coldplug_step){ .start_ns = c->result.start_ns, .end_ns = c->walked_ns };
                *ret_stage = "start";
                *ret_object = "all devices";
                return;
        }
        if (number >= step_of_load(c, 0)) {
                const struct blkup_cold_load *l = &c->loads[number - step_of_load(c, 0)];

                *s = (struct blkup_coldplug_step){ .start_ns = l->start_ns,
                                                   .end_ns = l->end_ns,
                                                   .worker = l->worker };
                *ret_stage = l->name ? "load" : "plan";
                *ret_object = l->name ? l->name : "modules";
                return;
        }
        if (number >= step_of_set(c, 0)) {
                const struct blkup_cold_set *set = c->sets[number - step_of_set(c, 0)];

                *s = step_of(c, set);
                *ret_stage = "assemble";
                *ret_object = set->s.name ? set->s.name : set->s.uuid;
                return;
        }
        entry = (number - c->n_devices - 2) / BLKUP_COLDPLUG_STAGES;
        stage = (number - c->n_devices - 2) % BLKUP_COLDPLUG_STAGES;
        *s = c->entries[entry].steps[stage];
        /* Looking for the device is no work. */
        if (stage == BLKUP_COLDPLUG_PROBE)
                s->start_ns = s->end_ns = 0;
        *ret_stage = blkup_coldplug_stage_name((enum blkup_coldplug_stage) stage);
        *ret_object = object_of(c, &c->entries[entry]);
}

static enum blkup_span_kind kind_of(const struct blkup_coldplug *c, size_t number)
{
        static const enum blkup_span_kind kinds[] = { BLKUP_SPAN_PROBE, BLKUP_SPAN_LAZYINIT, BLKUP_SPAN_FSCK,
                                                      BLKUP_SPAN_MOUNT };

        if (number < c->n_devices)
                return BLKUP_SPAN_PROBE;
        if (number < c->n_devices + 2)
                return number == c->n_devices ? BLKUP_SPAN_WAIT : BLKUP_SPAN_OTHER;
        if (number >= step_of_load(c, 0))
                return c->loads[number - step_of_load(c, 0)].name ? BLKUP_SPAN_MODULE : BLKUP_SPAN_OTHER;
        if (number >= step_of_set(c, 0))
                return BLKUP_SPAN_ASSEMBLE;
        return kinds[(number - c->n_devices - 2) % BLKUP_COLDPLUG_STAGES];
}

/* The probes that `settled` waited for, the last one first: it decided. */
static int settled_after(struct blkup_coldplug *c, struct blkup_cold_before *b)
{
        uint64_t last_ns = 0;

        b->nodes = calloc(c->n_devices + 1, sizeof(*b->nodes));
        if (!b->nodes)
                return -ENOMEM;
        for (size_t i = 0; i < c->n_devices; i++) {
                const struct blkup_coldplug_step *s = &c->devices[i]->d.probe;

                if (!s->start_ns || s->end_ns > c->settled_ns)
                        continue;
                b->nodes[b->n++] = (uint32_t) i;
                if (s->end_ns > last_ns) {
                        b->nodes[b->n - 1] = b->nodes[0];
                        b->nodes[0] = (uint32_t) i;
                        last_ns = s->end_ns;
                }
        }
        return 0;
}

/* A set waits for `settled` and for members that came later; a device that came later for the sets that were
 * being made when it came. What of it decided is what ended last. */
static int take_set_edges(struct blkup_coldplug *c)
{
        for (size_t k = 0; k < c->n_sets; k++) {
                struct blkup_cold_before *b = &c->before[step_of_set(c, k)];
                const struct blkup_coldplug_step *s = &c->sets[k]->s.step;

                b->nodes = calloc(c->n_devices + 1, sizeof(*b->nodes));
                if (!b->nodes)
                        return -ENOMEM;
                for (size_t i = 0; i < c->n_devices; i++)
                        if (c->devices[i]->came_ns && c->devices[i]->d.probe.start_ns &&
                            c->devices[i]->d.probe.end_ns <= s->start_ns)
                                b->nodes[b->n++] = (uint32_t) i;
                b->nodes[b->n++] = (uint32_t) c->n_devices;
        }
        for (size_t i = 0; i < c->n_devices; i++) {
                struct blkup_cold_before *b = &c->before[i];
                uint64_t came_ns = c->devices[i]->came_ns;

                b->nodes = calloc(c->n_sets + 2, sizeof(*b->nodes));
                if (!b->nodes)
                        return -ENOMEM;
                b->nodes[b->n++] = (uint32_t) c->n_devices + 1;
                if (c->devices[i]->bringer != SIZE_MAX)
                        b->nodes[b->n++] = (uint32_t) step_of_load(c, c->devices[i]->bringer);
                for (size_t k = 0; came_ns && k < c->n_sets; k++)
                        if (c->sets[k]->s.step.start_ns && c->sets[k]->s.step.start_ns < came_ns &&
                            c->sets[k]->s.step.end_ns >= came_ns)
                                b->nodes[b->n++] = (uint32_t) step_of_set(c, k);
        }
        return 0;
}

/* A load waits for what it needs, and for who found that it is to be loaded. */
static int take_load_edges(struct blkup_coldplug *c)
{
        for (size_t i = 0; i < c->n_loads; i++) {
                struct blkup_cold_before *b = &c->before[step_of_load(c, i)];
                const struct blkup_cold_load *l = &c->loads[i];

                b->nodes = calloc((size_t) l->n_needs + 2, sizeof(*b->nodes));
                if (!b->nodes)
                        return -ENOMEM;
                for (uint32_t k = 0; l->needs && k < l->n_needs; k++)
                        b->nodes[b->n++] = (uint32_t) step_of_load(c, l->needs[k]);
                if (l->plan != SIZE_MAX)
                        b->nodes[b->n++] = (uint32_t) step_of_load(c, l->plan);
                if (b->n == 0)
                        b->nodes[b->n++] = (uint32_t) c->n_devices + 1;
        }
        return 0;
}

/* From the pool's graph: what is before `node`, as numbers of steps. */
static int take_edges(struct blkup_coldplug *c, uint32_t node, size_t number, const uint32_t *numbers,
                      const bool *is_left_out, uint32_t *found, uint32_t cap)
{
        struct blkup_cold_before *b = &c->before[number];
        size_t device = c->entries[(number - c->n_devices - 2) / BLKUP_COLDPLUG_STAGES].device;
        bool is_first = false;
        uint32_t n = 0;
        int r = blkup_pool_before(c->pool, node, is_left_out, found, cap, &n);

        if (r < 0)
                return r;
        n = n < cap ? n : cap;
        b->nodes = calloc((size_t) n + 1 + c->n_sets, sizeof(*b->nodes));
        if (!b->nodes)
                return -ENOMEM;
        for (uint32_t i = 0; i < n; i++) {
                b->nodes[b->n++] = numbers[found[i]];
                is_first = is_first || found[i] == c->settled_node;
        }
        /* A device that came later than all others answered. */
        if (is_first && device != BLKUP_COLDPLUG_NO_DEVICE &&
            c->devices[device]->d.probe.end_ns > c->settled_ns)
                b->nodes[b->n++] = (uint32_t) device;
        /* A file system of several devices is there when the kernel knows all of them. */
        for (size_t k = 0; is_first && device != BLKUP_COLDPLUG_NO_DEVICE && k < c->n_sets; k++)
                if (c->sets[k]->s.kind == BLKUP_COLDPLUG_BTRFS && c->devices[device]->d.uuid &&
                    strcmp(c->sets[k]->s.uuid, c->devices[device]->d.uuid) == 0)
                        b->nodes[b->n++] = (uint32_t) step_of_set(c, k);
        return 0;
}

int blkup_cold_collect_edges(struct blkup_coldplug *c)
{
        uint32_t n_nodes = blkup_pool_count(c->pool);
        BLKUP_CLEANUP_FREE bool *is_left_out = malloc((size_t) n_nodes + 1);
        BLKUP_CLEANUP_FREE uint32_t *numbers = calloc((size_t) n_nodes + 1, sizeof(*numbers));
        BLKUP_CLEANUP_FREE uint32_t *found = calloc((size_t) n_nodes + 1, sizeof(*found));
        int r;

        blkup_cold_find_bringers(c);
        c->before = calloc(blkup_cold_n_steps(c), sizeof(*c->before));
        if (!is_left_out || !numbers || !found || !c->before)
                return -ENOMEM;
        c->n_before = blkup_cold_n_steps(c);
        memset(is_left_out, true, n_nodes);
        is_left_out[c->settled_node] = false;
        numbers[c->settled_node] = (uint32_t) c->n_devices;
        for (size_t i = 0; i < c->n_entries; i++) {
                const uint32_t nodes[BLKUP_COLDPLUG_STAGES] = {
                        [BLKUP_COLDPLUG_FINISH] = c->cold[i].finish_node,
                        [BLKUP_COLDPLUG_CHECK] = c->cold[i].check_node,
                        [BLKUP_COLDPLUG_MOUNT] = c->cold[i].mount_node
                };

                for (size_t k = BLKUP_COLDPLUG_FINISH; k < BLKUP_COLDPLUG_STAGES; k++) {
                        if (nodes[k] == BLKUP_POOL_NONE)
                                continue; /* it could not be made again */
                        numbers[nodes[k]] = (uint32_t) step_of_stage(c, i, k);
                        is_left_out[nodes[k]] = !c->entries[i].steps[k].start_ns;
                }
        }
        r = settled_after(c, &c->before[c->n_devices]);
        if (r == 0)
                r = take_set_edges(c);
        if (r == 0)
                r = take_load_edges(c);
        for (size_t i = 0; i < c->n_entries; i++) {
                const uint32_t nodes[BLKUP_COLDPLUG_STAGES] = {
                        [BLKUP_COLDPLUG_FINISH] = c->cold[i].finish_node,
                        [BLKUP_COLDPLUG_CHECK] = c->cold[i].check_node,
                        [BLKUP_COLDPLUG_MOUNT] = c->cold[i].mount_node
                };

                for (size_t k = BLKUP_COLDPLUG_FINISH; r == 0 && k < BLKUP_COLDPLUG_STAGES; k++)
                        if (c->entries[i].steps[k].start_ns && nodes[k] != BLKUP_POOL_NONE)
                                r = take_edges(c, nodes[k], step_of_stage(c, i, k), numbers, is_left_out,
                                               found, n_nodes);
        }
        return r;
}

/* ---- the critical path ---- */

/* Is it the kernel's own probe of a device that was waited for, rather than a worker of ours? */
static bool is_attached(const struct blkup_coldplug *c, const struct blkup_path_step *step,
                        const struct blkup_coldplug_step *s)
{
        const struct blkup_cold_device *d = step->node < c->n_devices ? c->devices[step->node] : NULL;

        return d && d->came_ns && s->start_ns - d->came_ns < step->wait_ns / 2;
}

static int find_path(struct blkup_coldplug *c)
{
        size_t n = blkup_cold_n_steps(c), n_steps = 0;
        BLKUP_CLEANUP_FREE struct blkup_path_node *nodes = calloc(n, sizeof(*nodes));
        BLKUP_CLEANUP_FREE struct blkup_path_step *steps = NULL;
        struct blkup_coldplug_link *path;
        int r;

        if (!nodes)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                struct blkup_coldplug_step s;
                const char *stage, *object;

                describe(c, i, &s, &stage, &object);
                if (s.start_ns)
                        nodes[i] = (struct blkup_path_node){
                                .start_ns = s.start_ns,
                                .end_ns = s.end_ns,
                                .worker = s.worker,
                                .after = c->before[i].nodes,
                                .n_after = c->before[i].n,
                                .is_known = true,
                        };
        }
        r = blkup_path_find(nodes, n, c->result.start_ns, &steps, &n_steps);
        path = r == 0 ? calloc(2 * n_steps + 1, sizeof(*path)) : NULL;
        if (!path)
                return -ENOMEM;
        c->result.path = path;
        for (size_t i = 0; i < n_steps; i++) {
                struct blkup_coldplug_link link = { 0 };
                struct blkup_coldplug_step s;

                describe(c, steps[i].node, &s, &link.stage, &link.object);
                link.ns = s.end_ns - s.start_ns;
                if (steps[i].wait_ns > BLKUP_PATH_GAP_NS)
                        path[c->result.n_path++] =
                                (struct blkup_coldplug_link){ i == 0                          ? "start"
                                                              : is_attached(c, &steps[i], &s) ? "attach"
                                                                                              : "wait",
                                                              link.object, steps[i].wait_ns };
                if (blkup_path_is_told(kind_of(c, steps[i].node), link.ns))
                        path[c->result.n_path++] = link;
        }
        return 0;
}

/* ---- the trace ---- */

/* Loads have their spans from who did them. */
static uint64_t id_of(const struct blkup_coldplug *c, size_t number, uint64_t first_id)
{
        const struct blkup_cold_load *l =
                number < step_of_load(c, 0) ? NULL : &c->loads[number - step_of_load(c, 0)];

        return l && l->name ? l->span : first_id + number;
}

static const char *settled_for(const struct blkup_coldplug *c)
{
        return *c->settled_for ? c->settled_for : "each device's answer, until it is late";
}

/* For something, or for a stage of an object. */
static void add_wait(const struct blkup_coldplug *c, const char *lane, const char *what, const char *object,
                     uint64_t from, uint64_t to)
{
        char why[160];

        if (!from || to <= from + BLKUP_PATH_GAP_NS)
                return;
        (void) snprintf(why, sizeof(why), object ? "for the %s of %.90s" : "for %s", what, object);
        blkup_trace_add(c->s.trace, &(struct blkup_span){
                                            .kind = BLKUP_SPAN_WAIT,
                                            .lane = lane,
                                            .name = "wait",
                                            .detail = why,
                                            .start_ns = from,
                                            .end_ns = to,
                                    });
}

static void add_step(struct blkup_coldplug *c, size_t number, uint64_t first_id)
{
        const struct blkup_cold_before *b = &c->before[number];
        BLKUP_CLEANUP_FREE uint64_t *after = calloc((size_t) b->n + 1, sizeof(*after));
        struct blkup_coldplug_step s;
        const char *stage, *object;

        describe(c, number, &s, &stage, &object);
        if (!s.start_ns)
                return;
        for (uint32_t i = 0; after && i < b->n; i++)
                after[i] = id_of(c, b->nodes[i], first_id);
        blkup_trace_add(c->s.trace, &(struct blkup_span){
                                            .kind = kind_of(c, number),
                                            .lane = object,
                                            .name = stage,
                                            .start_ns = s.start_ns,
                                            .end_ns = s.end_ns,
                                            .detail = number == c->n_devices ? settled_for(c) : s.text,
                                            .bytes = s.bytes,
                                            .reads = s.reads,
                                            .worker = s.worker,
                                            .error = s.error,
                                            .id = first_id ? first_id + number : 0,
                                            .after = after,
                                            .n_after = after ? b->n : 0,
                                    });
        add_wait(c, object, s.wait_for, NULL, s.wait_start_ns, s.wait_end_ns);
}

/* Before its probe: the load of its driver, the kernel's own probe of it, a worker of ours. */
static void trace_device(struct blkup_coldplug *c, size_t index, uint64_t first_id)
{
        const struct blkup_coldplug_device *d = &c->devices[index]->d;

        if (d->module) {
                add_wait(c, d->path, "load", d->module, d->module_start_ns, d->module_end_ns);
                add_wait(c, d->path, "kernel's own probe", d->path, d->module_end_ns, d->came_ns);
        }
        add_wait(c, d->path, "a worker", NULL, d->came_ns ? d->came_ns : c->walked_ns, d->probe.start_ns);
        add_step(c, index, first_id);
}

/* What a step waited for: of what comes before it, what ended last. */
static void add_wait_before(struct blkup_coldplug *c, size_t number, const char *lane, uint64_t from,
                            uint64_t to)
{
        const struct blkup_cold_before *b = &c->before[number];
        const char *what = "a worker", *of = NULL;
        uint64_t last_ns = from;

        for (uint32_t i = 0; i < b->n; i++) {
                struct blkup_coldplug_step s;
                const char *stage, *object;

                describe(c, b->nodes[i], &s, &stage, &object);
                if (s.end_ns <= last_ns || s.end_ns > to)
                        continue;
                last_ns = s.end_ns;
                of = b->nodes[i] == c->n_devices ? NULL : object;
                what = of ? stage : settled_for(c);
        }
        add_wait(c, lane, what, of, from, to);
}

static void trace_entry(struct blkup_coldplug *c, size_t index, uint64_t first_id)
{
        const struct blkup_coldplug_entry *e = &c->entries[index];
        const char *lane = object_of(c, e);
        uint64_t from = e->device == BLKUP_COLDPLUG_NO_DEVICE ? 0 : c->devices[e->device]->d.probe.end_ns;

        for (size_t k = BLKUP_COLDPLUG_FINISH; k < BLKUP_COLDPLUG_STAGES; k++) {
                const struct blkup_coldplug_step *s = &e->steps[k];

                if (!s->start_ns)
                        continue;
                add_wait_before(c, step_of_stage(c, index, k), lane, from, s->start_ns);
                add_step(c, step_of_stage(c, index, k), first_id);
                from = s->end_ns;
        }
        for (unsigned i = 0; e->mount && i < e->mount->n_steps; i++)
                blkup_trace_add(c->s.trace, &(struct blkup_span){
                        .kind = BLKUP_SPAN_MOUNT, .lane = lane, .name = e->mount->steps[i].name,
                        .start_ns = e->mount->steps[i].start_ns, .end_ns = e->mount->steps[i].end_ns,
                });
}

int blkup_cold_report(struct blkup_coldplug *c)
{
        const struct blkup_coldplug_device **devices = calloc(c->n_devices + 1, sizeof(*devices));
        const struct blkup_coldplug_set **sets = calloc(c->n_sets + 1, sizeof(*sets));
        int r = devices && sets ? blkup_cold_find_missed(c) : -ENOMEM;
        struct rusage usage;
        uint64_t first_id;

        if (r == 0)
                r = explain(c);
        if (r < 0) {
                free(devices);
                free(sets);
                return r;
        }
        watch_kernel(c);
        give_reasons(c);
        judge(c);
        first_id = blkup_trace_ids(c->s.trace, c->n_before);
        if (c->s.trace)
                add_step(c, c->n_devices + 1, first_id);
        for (size_t i = 0; i < c->n_devices; i++) {
                devices[i] = &c->devices[i]->d;
                c->devices[i]->d.came_ns = c->devices[i]->came_ns;
                if (c->s.trace)
                        trace_device(c, i, first_id);
        }
        if (c->s.trace)
                add_step(c, c->n_devices, first_id);
        for (size_t i = 0; c->s.trace && i < c->n_sets; i++)
                add_step(c, step_of_set(c, i), first_id);
        for (size_t i = 0; c->s.trace && i < c->n_loads; i++)
                if (!c->loads[i].name)
                        add_step(c, step_of_load(c, i), first_id);
        for (size_t i = 0; c->s.trace && i < c->n_entries; i++)
                trace_entry(c, i, first_id);
        c->result.devices = devices;
        c->result.n_devices = c->n_devices;
        c->result.is_limited = c->s.n_only > 0;
        c->result.sets = sets;
        c->result.n_sets = c->n_sets;
        for (size_t i = 0; i < c->n_sets; i++)
                sets[i] = &c->sets[i]->s;
        c->result.n_modules = c->n_modules;
        c->result.bad_modules = c->bad_modules;
        c->result.n_bad_modules = c->n_bad_modules;
        c->result.copies = c->copies;
        c->result.n_copies = c->n_copies;
        c->result.entries = c->entries;
        c->result.n_entries = c->n_entries;
        c->result.hibernation = c->hibernation;
        if (getrusage(RUSAGE_SELF, &usage) == 0)
                c->result.peak_bytes = (uint64_t) usage.ru_maxrss * 1024; /* the kernel tells KiB */
        return find_path(c);
}
