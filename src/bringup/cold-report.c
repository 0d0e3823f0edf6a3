/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* After the run, in one thread: why something failed, what decided how long it took, and the trace. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bringup/cold.h"
#include "bringup/explain.h"
#include "trace/trace.h"

/* Between two steps that follow each other there are some tens of microseconds of the queue. */
#define GAP_NS UINT64_C(200000)

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

/* ---- the critical path ---- */

struct place {
        const struct blkup_coldplug_step *step;
        const char *stage, *object;
};

/* The step that ended last among those that ended before `at`. All of them were waited for: the first write
 * waits for every device, a stage for the one before, a child for its parent. */
static struct place last_before(const struct blkup_coldplug *c, uint64_t at, size_t entry)
{
        struct place best = { NULL, NULL, NULL };

        for (size_t k = BLKUP_COLDPLUG_FINISH; entry != SIZE_MAX && k < BLKUP_COLDPLUG_STAGES; k++) {
                const struct blkup_coldplug_step *s = &c->entries[entry].steps[k];

                if (s->start_ns && s->end_ns <= at && s->start_ns < at &&
                    (!best.step || s->end_ns > best.step->end_ns))
                        best = (struct place){ s, blkup_coldplug_stage_name((enum blkup_coldplug_stage) k),
                                               object_of(c, &c->entries[entry]) };
        }
        if (best.step)
                return best;
        for (size_t i = 0; i < c->n_devices; i++) {
                const struct blkup_coldplug_step *s = &c->devices[i]->d.probe;

                if (s->start_ns && s->end_ns <= at && s->start_ns < at &&
                    (!best.step || s->end_ns > best.step->end_ns))
                        best = (struct place){ s, "probe", c->devices[i]->d.path };
        }
        return best;
}

/* The mount of another entry that e waited for. */
static struct place parent_before(const struct blkup_coldplug *c, size_t entry, uint64_t at,
                                  size_t *ret_entry)
{
        struct place best = { NULL, NULL, NULL };

        for (size_t i = 0; i < c->n_entries; i++) {
                const struct blkup_coldplug_step *s = &c->entries[i].steps[BLKUP_COLDPLUG_MOUNT];
                const char *own = c->entries[entry].target, *other = c->entries[i].target;
                size_t n = other ? strlen(other) : 0;

                if (i == entry || !own || !other || strncmp(own, other, n) != 0 || own[n] != '/' ||
                    !s->start_ns || s->end_ns > at || s->start_ns >= at ||
                    (best.step && s->end_ns <= best.step->end_ns))
                        continue;
                best = (struct place){ s, "mount", object_of(c, &c->entries[i]) };
                *ret_entry = i;
        }
        return best;
}

static int find_path(struct blkup_coldplug *c)
{
        struct blkup_coldplug_link *path =
                calloc(2 * (c->n_entries + 2) * BLKUP_COLDPLUG_STAGES, sizeof(*path));
        size_t n = 0, cap = 2 * (c->n_entries + 2) * BLKUP_COLDPLUG_STAGES, entry = SIZE_MAX;
        struct place at = { NULL, NULL, NULL };

        if (!path)
                return -ENOMEM;
        for (size_t i = 0; i < c->n_entries; i++)
                for (size_t k = BLKUP_COLDPLUG_FINISH; k < BLKUP_COLDPLUG_STAGES; k++) {
                        const struct blkup_coldplug_step *s = &c->entries[i].steps[k];

                        if (s->start_ns && (!at.step || s->end_ns > at.step->end_ns)) {
                                at = (struct place){ s,
                                                     blkup_coldplug_stage_name((enum blkup_coldplug_stage) k),
                                                     object_of(c, &c->entries[i]) };
                                entry = i;
                        }
                }
        for (size_t i = 0; !at.step && i < c->n_devices; i++) {
                const struct blkup_coldplug_step *s = &c->devices[i]->d.probe;

                if (s->start_ns)
                        at = (struct place){ s, "probe", c->devices[i]->d.path };
        }
        /* Ends: each turn goes to a step that began before. */
        while (at.step && n + 2 < cap) {
                struct place before = last_before(c, at.step->start_ns, entry), parent = { NULL, NULL, NULL };
                size_t parent_entry = SIZE_MAX;

                if (strcmp(at.stage, "probe") == 0)
                        before.step = NULL;
                if (strcmp(at.stage, "mount") == 0 && entry != SIZE_MAX)
                        parent = parent_before(c, entry, at.step->start_ns, &parent_entry);
                if (parent.step && (!before.step || parent.step->end_ns > before.step->end_ns)) {
                        before = parent;
                        entry = parent_entry;
                }
                path[n++] = (struct blkup_coldplug_link){ at.stage, at.object,
                                                          at.step->end_ns - at.step->start_ns };
                if (before.step && at.step->start_ns - before.step->end_ns > GAP_NS)
                        path[n++] = (struct blkup_coldplug_link){ "wait", at.object,
                                                                  at.step->start_ns - before.step->end_ns };
                else if (!before.step && at.step->start_ns > c->result.start_ns + GAP_NS)
                        path[n++] = (struct blkup_coldplug_link){ "start", at.object,
                                                                  at.step->start_ns - c->result.start_ns };
                at = before;
        }
        for (size_t i = 0; i < n / 2; i++) {
                struct blkup_coldplug_link first = path[i];

                path[i] = path[n - 1 - i];
                path[n - 1 - i] = first;
        }
        c->result.path = path;
        c->result.n_path = n;
        return 0;
}

/* ---- the trace ---- */

static void add_span(struct blkup_trace *t, enum blkup_span_kind kind, const char *lane, const char *name,
                     const struct blkup_coldplug_step *s)
{
        if (s->start_ns)
                blkup_trace_add(t, &(struct blkup_span){
                        .kind = kind, .lane = lane, .name = name, .detail = s->text, .start_ns = s->start_ns,
                        .end_ns = s->end_ns, .bytes = s->bytes, .reads = s->reads, .error = s->error,
                });
}

static void add_wait(struct blkup_trace *t, const char *lane, const char *why, uint64_t from, uint64_t to)
{
        if (from && to > from + GAP_NS)
                blkup_trace_add(t, &(struct blkup_span){
                                           .kind = BLKUP_SPAN_WAIT,
                                           .lane = lane,
                                           .name = "wait",
                                           .detail = why,
                                           .start_ns = from,
                                           .end_ns = to,
                                   });
}

static void trace_entry(struct blkup_coldplug *c, const struct blkup_coldplug_entry *e)
{
        static const enum blkup_span_kind kinds[] = { BLKUP_SPAN_PROBE, BLKUP_SPAN_LAZYINIT, BLKUP_SPAN_FSCK,
                                                      BLKUP_SPAN_MOUNT };
        const char *lane = object_of(c, e), *why = "for the other devices' answers";
        uint64_t from = e->device == BLKUP_COLDPLUG_NO_DEVICE ? 0 : c->devices[e->device]->d.probe.end_ns;

        for (size_t k = BLKUP_COLDPLUG_FINISH; k < BLKUP_COLDPLUG_STAGES; k++) {
                const struct blkup_coldplug_step *s = &e->steps[k];

                if (!s->start_ns)
                        continue;
                add_wait(c->s.trace, lane, why, from, s->start_ns);
                add_span(c->s.trace, kinds[k], lane, blkup_coldplug_stage_name((enum blkup_coldplug_stage) k),
                         s);
                from = s->end_ns;
                why = "for its turn";
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
        int r = devices ? explain(c) : -ENOMEM;
        struct rusage usage;

        if (r < 0) {
                free(devices);
                return r;
        }
        watch_kernel(c);
        judge(c);
        for (size_t i = 0; i < c->n_devices; i++) {
                devices[i] = &c->devices[i]->d;
                if (c->s.trace)
                        add_span(c->s.trace, BLKUP_SPAN_PROBE, devices[i]->path, "probe", &devices[i]->probe);
        }
        for (size_t i = 0; c->s.trace && i < c->n_entries; i++)
                trace_entry(c, &c->entries[i]);
        c->result.devices = devices;
        c->result.n_devices = c->n_devices;
        c->result.is_limited = c->s.n_only > 0;
        c->result.entries = c->entries;
        c->result.n_entries = c->n_entries;
        c->result.hibernation = c->hibernation;
        if (getrusage(RUSAGE_SELF, &usage) == 0)
                c->result.peak_bytes = (uint64_t) usage.ru_maxrss * 1024; /* the kernel tells KiB */
        return find_path(c);
}
