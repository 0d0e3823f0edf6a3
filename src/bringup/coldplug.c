/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The graph of the whole bring-up.
 *
 *      modules ~~> probe(d) ~~> settled --> locate(e) -> finish(e) -> check(e) -> mount(e) -> mount(child)
 *                     ^             \
 *                   watch <~~ assemble(set)
 *
 * `settled` waits itself: until each device has answered, or has been silent for longer than late_ns and than
 * four times what the slowest answer took (a busy machine is no silent device), and until the modules that
 * the machine asks for are there; a second at most. Assembly begins then: what it makes is a device that is
 * added to the running graph, as one is of which `watch` hears.
 *
 * A node that is given up keeps its thread, so everything that a callback uses belongs to the run, which is
 * counted: the last of them frees it.
 */
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "bringup/cold.h"
#include "host/hostfile.h"
#include "host/workers.h"
#include "sync/cond.h"
#include "trace/path.h"

#define USUAL_WORKERS 64u
/* That only wait: `settled`, `watch`, `modules`. */
#define WAITING_WORKERS 3u
/* Probe while the CPUs are busy, for one CPU; each of some more has one more, up to the stock of probers. A
 * thread beyond that would wait for one of those, and costs as much as some calls. */
#define FIRST_PROBING   3u
#define MOST_PROBING    5u
/* Counted with strace: at most six of each device at a time (image, cage and its child, loop device,
 * context, mount point), a dozen besides; and one more each. */
#define FDS_OF_A_DEVICE 7u
#define FDS_BESIDES     14u
#define USUAL_LATE_NS UINT64_C(100000000)
#define USUAL_BUDGET_NS UINT64_C(50000000)
/* For a probe that has not begun. */
#define LOOK_AGAIN_NS UINT64_C(50000000)
#define COST_MODULES_NS UINT64_C(300000000)
/* At a time: nodes of what is over are released. As many devices as there may be, and their entries. */
#define MAX_WATCH_NODES (1u << 20)
#define FEW_NODES 65536u
/* See above. */
#define LATE_FACTOR 4u
#define LATE_MAX_NS UINT64_C(1000000000)

/* For the order alone: what a stage takes on a disk of some ms a request. */
#define COST_PROBE_NS UINT64_C(15000000)
#define COST_FINISH_NS UINT64_C(20000000)
#define COST_CHECK_NS UINT64_C(300000000)
#define COST_MOUNT_NS UINT64_C(20000000)

void blkup_cold_say(struct blkup_coldplug_step *s, const char *fmt, ...)
{
        char *text = NULL;
        va_list ap;

        va_start(ap, fmt);
        if (vasprintf(&text, fmt, ap) >= 0) {
                free(s->text);
                s->text = text;
        }
        va_end(ap);
}

void blkup_cold_note_wait(struct blkup_coldplug_step *s, uint64_t since_ns, const char *what,
                          const char *name)
{
        uint64_t now = blkup_now_ns();

        if (now - since_ns <= BLKUP_PATH_GAP_NS || now - since_ns <= s->wait_end_ns - s->wait_start_ns)
                return;
        s->wait_start_ns = since_ns;
        s->wait_end_ns = now;
        (void) snprintf(s->wait_for, sizeof(s->wait_for), "%s%s", what, name);
}

static void free_entries(struct blkup_coldplug *c)
{
        for (size_t i = 0; i < c->n_entries; i++) {
                struct blkup_coldplug_entry *e = &c->entries[i];

                free((char *) e->source);
                free((char *) e->target);
                free((char *) e->options);
                for (size_t k = 0; k < BLKUP_COLDPLUG_STAGES; k++)
                        free(e->steps[k].text);
                blkup_mount_result_free(e->mount);
                free(e->mount);
                free(c->cold[i].types);
                free(c->cold[i].needs);
                free(c->cold[i].place);
        }
        free(c->entries);
        free(c->cold);
}

struct blkup_coldplug *blkup_coldplug_unref(struct blkup_coldplug *c)
{
        if (!c || __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL) > 0)
                return NULL;
        free_entries(c);
        for (size_t i = 0; i < c->n_devices; i++)
                blkup_cold_device_free(c->devices[i]);
        free(c->devices);
        blkup_cold_free_probers(c);
        blkup_cold_free_sets(c);
        blkup_cold_free_modules(c);
        blkup_cold_free_loads(c);
        blkup_cold_free_copies(c);
        blkup_cold_unlisten(c);
        blkup_mounter_unref(c->mounter);
        blkup_mounter_unref(c->careful);
        blkup_mountinfo_free(c->mounts);
        free((void *) c->result.devices);
        free((void *) c->result.path);
        for (size_t i = 0; i < c->n_before; i++)
                free(c->before[i].nodes);
        free(c->before);
        free((void *) c->result.sets);
        free(c->hibernation);
        free(c->missed);
        free(c->root);
        free(c->image_folder);
        (void) pthread_cond_destroy(&c->changed);
        (void) pthread_cond_destroy(&c->prober_is_free);
        (void) pthread_mutex_destroy(&c->lock);
        (void) pthread_mutex_destroy(&c->terminal);
        (void) pthread_mutex_destroy(&c->modules_lock);
        (void) pthread_mutex_destroy(&c->events_lock);
        free(c);
        return NULL;
}

static void drop_device(void *arg)
{
        struct blkup_cold_device *d = arg;
        struct blkup_coldplug *c = d->run;

        blkup_cold_let_go(d); /* from here on it may be freed */
        if (c->s.is_watch)
                blkup_cold_wake(c);
        (void) blkup_coldplug_unref(c);
}

void blkup_cold_drop_entry(void *arg)
{
        (void) blkup_coldplug_unref(((struct blkup_cold_entry *) arg)->run);
}

void blkup_cold_drop_run(void *run)
{
        (void) blkup_coldplug_unref(run);
}

int blkup_cold_add_node(struct blkup_coldplug *c, const char *name, uint64_t cost_ns, uint64_t timeout_ns,
                        blkup_pool_fn *run, void *arg, void (*drop)(void *arg), const uint32_t *wait_for,
                        uint32_t *ret)
{
        struct blkup_pool_node n = {
                .name = name,
                .cost_ns = cost_ns,
                .timeout_ns = timeout_ns,
                .run = run,
                .arg = arg,
                .drop = drop,
        };
        int r;

        if (drop)
                (void) __atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
        r = blkup_pool_add(c->pool, &n, wait_for, wait_for ? 1 : 0, ret);
        if (r < 0 && drop)
                (void) __atomic_sub_fetch(&c->refs, 1, __ATOMIC_RELAXED);
        return r;
}

/* A device that is added while the graph runs is not waited for by `settled`, and the one who looks again
 * gives it up when it does not answer (`watch`). */
int blkup_cold_add_probe(struct blkup_coldplug *c, struct blkup_cold_device *d)
{
        int r;

        if (d->serial == 0)
                d->serial = ++c->n_serials;
        c->n_causes++;
        blkup_cold_find_before(c, d);
        blkup_cold_hold(d);
        r = blkup_cold_add_node(c, d->d.path, COST_PROBE_NS, blkup_cold_device_ns(c), blkup_cold_run_probe, d,
                                drop_device, NULL, d->may_be_late ? NULL : &d->probe_node);
        if (r < 0)
                blkup_cold_let_go(d);
        return r;
}

static int add_device(struct blkup_coldplug *c, struct blkup_cold_device *d)
{
        int r = blkup_cold_add_probe(c, d);

        if (r == 0) {
                blkup_cold_hold(d);
                r = blkup_cold_add_node(c, d->d.path, 1, 0, blkup_cold_run_end, d, drop_device, NULL,
                                        &d->end_node);
                if (r < 0)
                        blkup_cold_let_go(d);
        }
        if (r == 0)
                r = blkup_pool_depend(c->pool, d->end_node, d->probe_node, BLKUP_POOL_AFTER);
        if (r == 0 && c->s.is_watch)
                r = blkup_pool_release(c->pool, d->probe_node);
        if (r == 0 && c->s.is_watch)
                r = blkup_pool_release(c->pool, d->end_node);
        return r;
}

/* Until when the answers are waited for: 0 for ever (one has not begun, or its end will tell). With the lock.
 */
static uint64_t wait_until(const struct blkup_coldplug *c)
{
        uint64_t late_ns = c->s.late_ns ? c->s.late_ns : USUAL_LATE_NS, until = 1;

        if (late_ns < LATE_MAX_NS && late_ns < c->longest_ns * LATE_FACTOR)
                late_ns =
                        c->longest_ns < LATE_MAX_NS / LATE_FACTOR ? c->longest_ns * LATE_FACTOR : LATE_MAX_NS;
        for (size_t i = 0; i < c->n_devices; i++) {
                const struct blkup_cold_device *d = c->devices[i];

                if (d->is_over)
                        continue;
                if (d->began_ns == 0)
                        return 0;
                if (d->began_ns + late_ns > until)
                        until = d->began_ns + late_ns;
        }
        return until;
}

/* What is waited for now. With the lock. */
static void note_settled_for(struct blkup_coldplug *c, bool is_loading)
{
        for (size_t i = 0; i < c->n_devices; i++)
                if (!c->devices[i]->is_over) {
                        (void) snprintf(c->settled_for, sizeof(c->settled_for), "the answer of %.100s",
                                        c->devices[i]->d.path);
                        return;
                }
        (void) snprintf(c->settled_for, sizeof(c->settled_for), "%s",
                        is_loading ? "the loads of modules, and what they bring" : "");
}

/* With the lock. */
static void wait_for_answers(struct blkup_coldplug *c)
{
        uint64_t last = c->result.start_ns + LATE_MAX_NS;

        /* Ends: each probe begins, since this holds one worker of several, and then ends or is late; or there
         * are no others, and the run is cancelled. Modules are waited for until `last`. */
        while (c->n_open > 0 || (blkup_cold_n_loading(c) > 0 && blkup_now_ns() < last)) {
                bool is_loading = blkup_cold_n_loading(c) > 0 && blkup_now_ns() < last;
                uint64_t until = is_loading ? 0 : wait_until(c);
                struct timespec at = blkup_to_timespec(until);

                note_settled_for(c, is_loading);
                if (until == 0) {
                        until = blkup_now_ns() + LOOK_AGAIN_NS;
                        at = blkup_to_timespec(until);
                } else if (until <= blkup_now_ns()) {
                        break;
                }
                if (blkup_pool_is_cancelled(c->pool))
                        break;
                (void) pthread_cond_timedwait(&c->changed, &c->lock, &at);
        }
}

/* In the order of the entries, so that the answer does not depend on who was faster. */
static int run_settled(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                       struct blkup_error *err)
{
        struct blkup_coldplug *c = arg;
        int r;

        (void) err;
        (void) pthread_mutex_lock(&c->lock);
        wait_for_answers(c);
        if (blkup_pool_is_cancelled(p)) {
                (void) pthread_mutex_unlock(&c->lock);
                return -ECANCELED;
        }
        c->is_settled = true;
        c->settled_ns = blkup_now_ns();
        c->settled_worker = worker;
        blkup_cold_assemble(c);
        for (size_t i = 0; i < c->n_entries; i++)
                (void) blkup_cold_locate(c, i);
        r = blkup_cold_order_passes(c, node);
        blkup_cold_wake(c);
        (void) pthread_mutex_unlock(&c->lock);
        return r;
}

static int run_locate(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                      struct blkup_error *err)
{
        struct blkup_cold_entry *cold = arg;
        struct blkup_coldplug *c = cold->run;
        const struct blkup_coldplug_step *s = &c->entries[cold->index].steps[BLKUP_COLDPLUG_PROBE];
        int r;

        (void) p;
        (void) worker;
        (void) pthread_mutex_lock(&c->lock);
        if (cold->is_broken || cold->locate_node != node) {
                r = -ECANCELED; /* the others of its chain could not be made */
        } else if (blkup_cold_locate(c, cold->index)) {
                r = cold->locate_error;
                if (r < 0 && s->text)
                        (void) blkup_fail(err, r, "%s", s->text);
        } else {
                cold->is_pending = true;
                r = BLKUP_POOL_PENDING;
        }
        blkup_cold_let_children_go(c);
        (void) pthread_mutex_unlock(&c->lock);
        return r;
}

/* Between locate and finish, when the device is known. */
static int run_order(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg, struct blkup_error *err)
{
        struct blkup_cold_entry *cold = arg;

        (void) p;
        (void) node;
        (void) worker;
        (void) err;
        (void) pthread_mutex_lock(&cold->run->lock);
        blkup_cold_order(cold->run, cold);
        (void) pthread_mutex_unlock(&cold->run->lock);
        return 0;
}

/* settled: NULL once it is over. */
static int add_entry(struct blkup_coldplug *c, struct blkup_cold_entry *cold, const uint32_t *settled)
{
        const struct blkup_coldplug_entry *e = &c->entries[cold->index];
        const char *name = e->target ? e->target : e->source;
        uint64_t limit = blkup_cold_device_ns(c);
        int r;

        r = blkup_cold_add_node(c, name, 1, 0, run_locate, cold, blkup_cold_drop_entry, settled,
                                &cold->locate_node);
        if (r == 0)
                r = blkup_cold_add_node(c, name, 1, 0, run_order, cold, blkup_cold_drop_entry,
                                        &cold->locate_node, &cold->order_node);
        if (r == 0)
                r = blkup_cold_add_node(c, name, COST_FINISH_NS,
                                        c->s.finish == BLKUP_COLDPLUG_FINISH_ALWAYS ? 0 : limit,
                                        blkup_cold_run_finish, cold, blkup_cold_drop_entry, &cold->order_node,
                                        &cold->finish_node);
        if (r == 0)
                r = blkup_cold_add_node(c, name, e->passno > 0 ? COST_CHECK_NS : 1, 0, blkup_cold_run_check,
                                        cold, blkup_cold_drop_entry, &cold->finish_node, &cold->check_node);
        if (r == 0)
                r = blkup_cold_add_node(c, name, COST_MOUNT_NS, limit, blkup_cold_run_mount, cold,
                                        blkup_cold_drop_entry, &cold->check_node, &cold->mount_node);
        return r;
}

static void release(struct blkup_coldplug *c, uint32_t *node)
{
        for (size_t i = 0; *node != BLKUP_POOL_NONE && i < c->n_devices; i++)
                if (c->devices[i]->last_check == *node)
                        c->devices[i]->last_check = BLKUP_POOL_NONE;
        if (*node != BLKUP_POOL_NONE)
                (void) !blkup_pool_release(c->pool, *node);
        *node = BLKUP_POOL_NONE;
}

static void forget_chain(struct blkup_coldplug *c, struct blkup_cold_entry *cold)
{
        release(c, &cold->mount_node);
        release(c, &cold->parents_node);
        release(c, &cold->check_node);
        release(c, &cold->finish_node);
        release(c, &cold->order_node);
        release(c, &cold->locate_node);
}

/* Nobody asks what a chain that is over did: its nodes are released, those of the new one are added. The lock
 * keeps the first of them from going on before the last has its edges. */
int blkup_cold_rearm(struct blkup_coldplug *c, size_t i)
{
        struct blkup_coldplug_entry *e = &c->entries[i];
        struct blkup_cold_entry *cold = &c->cold[i];
        struct blkup_mountinfo *mounts = NULL;
        int r;

        if (e->device != BLKUP_COLDPLUG_NO_DEVICE && c->devices[e->device]->has_owner &&
            c->devices[e->device]->owner == i)
                c->devices[e->device]->has_owner = false;
        for (size_t k = 0; k < BLKUP_COLDPLUG_STAGES; k++) {
                free(e->steps[k].text);
                e->steps[k] = (struct blkup_coldplug_step){ .state = BLKUP_COLDPLUG_NOT_ASKED };
        }
        blkup_mount_result_free(e->mount);
        free(e->mount);
        e->mount = NULL;
        e->device = BLKUP_COLDPLUG_NO_DEVICE;
        e->groups_left = 0;
        free(cold->place);
        cold->place = NULL;
        cold->is_located = cold->is_pending = cold->is_told = cold->is_ended = cold->is_seen = false;
        cold->waits_for_parents = cold->is_ordered = false;
        cold->is_carried_off = cold->is_broken = cold->has_others = false;
        cold->locate_error = 0;
        forget_chain(c, cold);
        if (blkup_mountinfo_load(c->root, &mounts, NULL) == 0) {
                blkup_mountinfo_free(c->mounts);
                c->mounts = mounts;
        }
        r = add_entry(c, cold, NULL);
        for (size_t k = 0; r == 0 && k < cold->n_needs; k++) {
                size_t on = cold->needs[k];

                /* One that could not be made is tried again itself. */
                if ((on & ~BLKUP_COLD_NEEDS_INDEX) || c->cold[on].mount_node == BLKUP_POOL_NONE)
                        continue;
                r = blkup_pool_depend(c->pool, cold->mount_node, c->cold[on].mount_node, BLKUP_POOL_NEEDS);
                if (r == -EBUSY)
                        r = 0; /* the one before has failed: it is skipped */
        }
        if (r == 0)
                r = blkup_cold_add_parents(c, cold);
        if (r < 0) {
                cold->is_broken = true;
                forget_chain(c, cold);
        }
        return r;
}

static int build(struct blkup_coldplug *c)
{
        uint32_t settled;
        int r = blkup_cold_add_node(c, "settled", 1, 0, run_settled, c, blkup_cold_drop_run, NULL, &settled);

        if (r == 0)
                c->settled_node = settled;
        for (size_t i = 0; r == 0 && i < c->n_devices; i++)
                r = add_device(c, c->devices[i]);
        for (size_t i = 0; r == 0 && i < c->n_entries; i++)
                r = add_entry(c, &c->cold[i], &settled);
        if (r == 0 && !c->s.no_mount && (c->s.n_images == 0 || c->image_folder))
                r = blkup_cold_order_mounts(c);
        if (r == 0 && c->s.n_images == 0)
                r = blkup_cold_add_node(c, "watch", 1, 0, blkup_cold_run_watch, c, blkup_cold_drop_run, NULL,
                                        NULL);
        if (r == 0 && c->s.n_images == 0 && !c->s.no_modules && !c->s.dry_run) {
                c->wants_alias_walk = true;
                r = blkup_cold_add_node(c, "modules", COST_MODULES_NS, 0, blkup_cold_run_modules, c,
                                        blkup_cold_drop_run, NULL, NULL);
                c->n_loaders += r == 0;
                c->n_work += r == 0;
        }
        return r;
}

/* What is over without its callback's word: given up, or never begun. */
static void take_over(struct blkup_coldplug *c, size_t index, enum blkup_coldplug_stage stage, uint32_t node)
{
        struct blkup_coldplug_step *s = &c->entries[index].steps[stage];
        struct blkup_pool_result n;

        if (blkup_pool_get(c->pool, node, &n) < 0)
                return;
        if (n.state == BLKUP_POOL_TIMED_OUT) {
                s->state = BLKUP_COLDPLUG_TIMED_OUT;
                s->error = -ETIMEDOUT;
                s->start_ns = n.start_ns;
                s->end_ns = n.end_ns;
                s->worker = n.worker;
                blkup_cold_say(s, "%s", n.message);
                c->result.n_silent++;
        } else if (n.state == BLKUP_POOL_SKIPPED) {
                s->state = BLKUP_COLDPLUG_SKIPPED;
        } else if (n.state == BLKUP_POOL_CANCELLED) {
                s->state = BLKUP_COLDPLUG_SKIPPED;
                s->error = -ECANCELED;
        }
}

static void take_entry_over(struct blkup_coldplug *c, size_t i)
{
        struct blkup_coldplug_step *s = &c->entries[i].steps[BLKUP_COLDPLUG_MOUNT];
        struct blkup_pool_result n;

        take_over(c, i, BLKUP_COLDPLUG_FINISH, c->cold[i].finish_node);
        take_over(c, i, BLKUP_COLDPLUG_CHECK, c->cold[i].check_node);
        take_over(c, i, BLKUP_COLDPLUG_MOUNT, c->cold[i].mount_node);
        c->cold[i].is_ended = true;
        /* The mount point's own parent is what failed: say which. */
        if (s->state == BLKUP_COLDPLUG_SKIPPED && !s->text &&
            blkup_pool_get(c->pool, c->cold[i].mount_node, &n) == 0 && n.culprit != BLKUP_POOL_NONE)
                for (size_t k = 0; k < c->n_entries; k++)
                        if (k != i &&
                            (n.culprit == c->cold[k].mount_node || n.culprit == c->cold[k].locate_node ||
                             n.culprit == c->cold[k].check_node))
                                blkup_cold_say(s, "needs %s, which failed",
                                               c->entries[k].target ? c->entries[k].target
                                                                    : c->entries[k].source);
}

bool blkup_cold_has_ended(struct blkup_coldplug *c, size_t entry)
{
        struct blkup_cold_entry *cold = &c->cold[entry];
        struct blkup_pool_result r;

        if (!cold->is_ended && blkup_pool_get(c->pool, cold->mount_node, &r) == 0 &&
            r.state >= BLKUP_POOL_DONE)
                take_entry_over(c, entry);
        return cold->is_ended;
}

static void collect_results(struct blkup_coldplug *c)
{
        for (size_t i = 0; i < c->n_entries; i++)
                if (!c->cold[i].is_ended)
                        take_entry_over(c, i);
        for (size_t i = 0; i < c->n_devices; i++)
                c->result.n_silent += c->devices[i]->d.probe.state == BLKUP_COLDPLUG_TIMED_OUT;
}

/* An entry has five, a device two; what comes meanwhile has room in what is there for a few. */
static uint32_t max_nodes(const struct blkup_coldplug *c)
{
        size_t n = 8 * (c->n_entries + c->n_devices);

        if (c->s.is_watch)
                return MAX_WATCH_NODES;
        return n < MAX_WATCH_NODES ? FEW_NODES + (uint32_t) n : MAX_WATCH_NODES;
}

static unsigned count_at_first(void)
{
        unsigned n = FIRST_PROBING - 1;
        cpu_set_t set;

        CPU_ZERO(&set);
        if (sched_getaffinity(0, sizeof(set), &set) == 0)
                n += (unsigned) CPU_COUNT(&set);
        return WAITING_WORKERS + (n < FIRST_PROBING ? FIRST_PROBING : n > MOST_PROBING ? MOST_PROBING : n);
}

/* Lines for servers and the like: whoever waits for one of them takes no place of a device. */
static unsigned count_servers(const struct blkup_coldplug *c)
{
        unsigned n = 0;

        for (size_t i = 0; i < c->n_entries && n < BLKUP_POOL_MAX_WORKERS; i++)
                n += c->entries[i].source[0] != '/' && !strchr(c->entries[i].source, '=');
        return n;
}

/* There are no threads for the work: who waits for it need not. */
static void let_all_go(void *arg)
{
        struct blkup_coldplug *c = arg;

        (void) pthread_mutex_lock(&c->lock);
        c->lets_go = true;
        (void) pthread_cond_broadcast(&c->changed);
        blkup_cold_wake(c);
        (void) pthread_mutex_unlock(&c->lock);
}

static int run_graph(struct blkup_coldplug *c, struct blkup_error *err)
{
        struct blkup_pool_options o = {
                /* More for `settled`, `watch` and `modules`: they only wait. */
                .workers = blkup_host_limit_workers(c->s.workers ? c->s.workers
                                                                 : USUAL_WORKERS + count_servers(c),
                                                    FDS_OF_A_DEVICE, FDS_BESIDES) +
                           1 + 2 * (c->s.n_images == 0),
                .at_first = count_at_first(),
                .doubles = true,
                .has_timeouts = true,
                .at_least = (c->s.n_images > 0 ? 1 : WAITING_WORKERS) + 1,
                .is_short = let_all_go,
                .arg = c,
        };
        int r = blkup_pool_new(&c->pool, max_nodes(c));

        if (o.workers > BLKUP_POOL_MAX_WORKERS)
                o.workers = BLKUP_POOL_MAX_WORKERS;
        if (r == 0)
                r = build(c);
        if (r == 0)
                r = blkup_pool_run(c->pool, &o, NULL, err);
        if (r == 0) {
                (void) pthread_mutex_lock(&c->lock);
                c->is_finished = true;
                c->result.n_places = blkup_pool_count(c->pool);
                collect_results(c);
                r = blkup_cold_collect_edges(c);
                (void) pthread_mutex_unlock(&c->lock);
        }
        c->pool = blkup_pool_unref(c->pool);
        return r;
}

static int prepare(struct blkup_coldplug *c, struct blkup_error *err)
{
        struct blkup_mount_settings m = {
                .dry_run = c->s.dry_run, .root = c->root, .ignore_hibernation = true,
        };
        int r;

        if (c->s.root)
                c->root = strdup(c->s.root);
        if (c->s.image_folder)
                c->image_folder = strdup(c->s.image_folder);
        if ((c->s.root && !c->root) || (c->s.image_folder && !c->image_folder))
                return -ENOMEM;
        if (c->s.finish_budget_ns == 0)
                c->s.finish_budget_ns = USUAL_BUDGET_NS;
        m.root = c->root;
        r = blkup_mounter_new(&m, &c->mounter);
        m.ignore_hibernation = c->s.ignore_hibernation;
        if (r == 0)
                r = blkup_mounter_new(&m, &c->careful);
        /* A table that cannot be read only means that nothing counts as mounted. */
        if (r == 0 && blkup_mountinfo_load(c->root, &c->mounts, NULL) == -ENOMEM)
                r = -ENOMEM;
        if (c->s.n_images == 0 && !c->s.ignore_hibernation)
                blkup_hibernation_places_load(c->root, &c->places);
        if (r == 0)
                blkup_cold_prepare_prober(c);
        if (r == 0)
                r = blkup_cold_listen(c);
        if (r == 0 && c->s.n_images == 0)
                r = blkup_cold_walk(c, err);
        if (r == 0)
                r = blkup_cold_collect(c, err);
        return r;
}

int blkup_coldplug_run(const struct blkup_coldplug_settings *s, struct blkup_coldplug **ret,
                       struct blkup_error *err)
{
        struct blkup_coldplug *c = calloc(1, sizeof(*c));
        int r;

        if (!c)
                return blkup_fail_errno(err, -ENOMEM, "cannot begin");
        c->refs = 1;
        c->s = *s;
        c->no_cage = s->no_cage;
        c->uevent_fd = c->wake_fd = c->mounts_fd = -1;
        (void) pthread_mutex_init(&c->lock, NULL);
        (void) pthread_mutex_init(&c->terminal, NULL);
        (void) pthread_mutex_init(&c->modules_lock, NULL);
        (void) pthread_mutex_init(&c->events_lock, NULL);
        (void) blkup_cond_init(&c->changed);
        (void) blkup_cond_init(&c->prober_is_free);
        blkup_cold_fill_ops(c);
        c->result.start_ns = blkup_now_ns();
        c->deadline_ns = c->result.start_ns + s->wait_ns;
        c->is_closed = (s->wait_ns == 0 && !s->is_watch) || s->n_images > 0;
        r = prepare(c, err);
        c->walked_ns = blkup_now_ns();
        if (r == 0)
                r = run_graph(c, err);
        c->result.end_ns = blkup_now_ns();
        if (r == 0)
                r = blkup_cold_report(c);
        if (r < 0) {
                blkup_coldplug_unref(c);
                return err && err->code == r ? r : blkup_fail_errno(err, r, "cannot begin");
        }
        *ret = c;
        return 0;
}

const struct blkup_coldplug_result *blkup_coldplug_result(const struct blkup_coldplug *c)
{
        return &c->result;
}
