/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Modules that the devices ask for, beside everything else: a device whose driver is there is probed while
 * others still load.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <blkup/modules.h>

#include "base/clock.h"
#include "base/error.h"
#include "bringup/cold.h"
#include "host/hostfile.h"
#include "modules/tree.h"
#include "mount/names.h"

#define MAX_ALIASES     BLKUP_MODALIAS_MAX
#define MAX_BAD         64u
/* finit_module(2) of a driver returns when all asynchronous probes of the machine have: one silent disk holds
 * it. So what other devices ask for does not wait for it. */
#define MAX_LOADERS     8u
/* With those that are held: each takes a thread of the graph. */
#define MAX_ALL_LOADERS 32u
/* A run that stays may outlive what it knew of loaded modules. */
#define PLAN_FLAGS(c)   (BLKUP_MODULES_BLACKLIST | ((c)->s.is_watch ? BLKUP_MODULES_LOOK_AGAIN : 0))
#define LOOK_NS         UINT64_C(1000000000)
/* Where nobody tells us of what a module brought, /sys is asked again this often at most. */
#define MAX_WALKS       16u
#define COST_MODULES_NS UINT64_C(300000000)

/* The indexes are read once, when the first module is wanted. NULL: there are none. */
static struct blkup_modules *indexes(struct blkup_coldplug *c)
{
        struct blkup_modules_where where = { .root = c->root };

        (void) pthread_mutex_lock(&c->modules_lock);
        if (!c->modules && blkup_modules_new(&where, &c->modules, NULL) < 0)
                c->modules = NULL;
        (void) pthread_mutex_unlock(&c->modules_lock);
        return c->modules && blkup_modules_has_index(c->modules) ? c->modules : NULL;
}

/* What is told of a module that is no success; names: of what does not answer. */
static char *bad_text(const struct blkup_module_result *m, bool is_live, const char *names)
{
        const char *text = *m->message ? m->message : blkup_error_text(-m->error);
        const char *of = *names ? ": " : "";
        char *ret = NULL;
        int r;

        if (m->outcome == BLKUP_MODULE_HUNG && is_live)
                r = asprintf(&ret,
                             "has started, but a device does not answer the kernel, which waits for it%s%s",
                             of, names);
        else if (m->outcome == BLKUP_MODULE_HUNG)
                r = asprintf(&ret, "does not end its start%s%s%s",
                             *names ? ": the kernel waits for an answer of " : "", names, "");
        else if (m->outcome == BLKUP_MODULE_SKIPPED)
                r = asprintf(&ret, "was not loaded: it needs %s%s%s",
                             m->culprit ? m->culprit : "another module",
                             *names ? ", which waits for " : ", which did not load", names);
        else
                r = asprintf(&ret, "%s", text);
        return r < 0 ? NULL : ret;
}

static void note_bad(struct blkup_coldplug *c, const struct blkup_module_result *m, const char *names)
{
        const bool is_live =
                m->outcome == BLKUP_MODULE_HUNG && (m->live_ns || blkup_modules_is_live(c->modules, m->name));
        struct blkup_coldplug_module bad = { .error = m->error };

        /* Whoever asks again and again tells it once. */
        for (size_t i = 0; i < c->n_bad_modules; i++)
                if (strcmp(c->bad_modules[i].name, m->name) == 0)
                        return;
        if (blkup_host_reserve((void **) &c->bad_modules, &c->bad_cap, c->n_bad_modules,
                               sizeof(*c->bad_modules), MAX_BAD) < 0)
                return;
        bad.name = strdup(m->name);
        bad.text = bad_text(m, is_live, names);
        if (!bad.name || !bad.text) {
                free((char *) bad.name);
                free((char *) bad.text);
                return;
        }
        c->bad_modules[c->n_bad_modules++] = bad;
        blkup_cold_tell(c, BLKUP_COLDPLUG_EVENT_WARNING, SIZE_MAX, SIZE_MAX, bad.name, bad.text);
}

/* What absent hardware is about is no failure: many aliases fit more than one module. */
static bool is_bad(const struct blkup_module_result *m)
{
        return m->outcome == BLKUP_MODULE_HUNG ||
               (m->outcome == BLKUP_MODULE_SKIPPED && m->is_required && m->error == -ETIMEDOUT) ||
               (m->outcome == BLKUP_MODULE_FAILED && m->is_required && m->error != -ENODEV &&
                m->error != -ENXIO && m->error != -EEXIST);
}

/* ---- what the kernel holds ---- */

static void note_told(void *arg, const char *name, bool is_live)
{
        struct blkup_cold_loader *l = arg;

        (void) pthread_mutex_lock(&l->run->lock);
        if (!is_live)
                (void) snprintf(l->coming, sizeof(l->coming), "%.60s", name);
        (void) pthread_mutex_unlock(&l->run->lock);
        if (is_live)
                return;
        (void) snprintf(l->behind, sizeof(l->behind), "%.60s", name);
        blkup_cold_probe_behind(l->run, l->behind);
}

static void note_held(void *arg, uint64_t since_ns)
{
        struct blkup_cold_loader *l = arg;
        struct blkup_coldplug *c = l->run;

        (void) pthread_mutex_lock(&c->lock);
        l->held_since_ns = since_ns;
        /* Another one takes what it cannot. */
        if (since_ns && (c->n_due > 0 || c->wants_alias_walk))
                blkup_cold_start_loader(c);
        (void) pthread_cond_broadcast(&c->changed);
        blkup_cold_wake(c);
        (void) pthread_mutex_unlock(&c->lock);
}

/* Also looks who does not answer: this thread has nothing else to do. */
static bool goes_on(void *arg)
{
        struct blkup_cold_loader *l = arg;
        struct blkup_coldplug *c = l->run;
        uint64_t now = blkup_now_ns();
        bool goes;

        if (now - l->looked_ns >= (*l->silent.names ? LOOK_NS : LOOK_NS / 4)) {
                blkup_cold_look_for_silent(c->root, &l->silent);
                l->looked_ns = now;
        }
        (void) pthread_mutex_lock(&c->lock);
        if (*l->silent.names)
                memcpy(l->names, l->silent.names, sizeof(l->names));
        goes = !c->lets_go;
        (void) pthread_mutex_unlock(&c->lock);
        return goes;
}

unsigned blkup_cold_n_loading(const struct blkup_coldplug *c)
{
        unsigned n = c->n_loaders;

        for (const struct blkup_cold_loader *l = c->loaders; l; l = l->next)
                n -= l->held_since_ns != 0;
        return n;
}

void blkup_cold_count_held(struct blkup_coldplug *c, uint64_t now, uint64_t *next)
{
        const bool is_late = c->s.wait_ns > 0 && c->is_closed;

        c->n_held = 0;
        for (const struct blkup_cold_loader *l = c->loaders; l; l = l->next) {
                uint64_t at = l->held_since_ns + blkup_cold_device_ns(c);

                if (!l->held_since_ns)
                        continue;
                if (is_late || at <= now)
                        c->n_held++;
                else if (at < *next)
                        *next = at;
        }
}

void blkup_cold_explain_held(const struct blkup_coldplug *c, char *text, size_t cap)
{
        *text = '\0';
        for (const struct blkup_cold_loader *l = c->loaders; l; l = l->next)
                if (*l->coming) {
                        (void) snprintf(text, cap, "%s does not end its start%s%s", l->coming,
                                        *l->names ? ": the kernel waits for an answer of " : "", l->names);
                        return;
                }
}

/* ---- loading ---- */

/* l NULL: for somebody who has a time limit of his own. */
static void load(struct blkup_coldplug *c, struct blkup_module_plan *p, struct blkup_cold_loader *l,
                 size_t plan)
{
        struct blkup_module_load_options o = {
                .wait_ns = 3 * blkup_cold_device_ns(c),
                .trace = c->s.trace,
                .first_worker = BLKUP_POOL_MAX_WORKERS, /* above those of the bring-up's own graph */
                .no_async_wait = !l,
                .only_asked_waits = true,
                .backend = c->ops.modules,
        };
        struct blkup_module_load *done = NULL;

        if (l)
                o.holder = (struct blkup_module_holder){ note_told, note_held, goes_on, l };
        if (blkup_module_load(p, &o, &done, NULL) < 0)
                return;
        (void) pthread_mutex_lock(&c->lock);
        blkup_cold_note_loads(c, p, done, plan);
        for (size_t i = 0; i < blkup_module_load_count(done) && !c->is_finished; i++) {
                const struct blkup_module_result *m = blkup_module_load_result(done, i);

                c->n_modules += m->outcome == BLKUP_MODULE_LOADED;
                if (is_bad(m))
                        note_bad(c, m, l ? l->names : "");
        }
        if (l) {
                l->held_since_ns = 0;
                *l->coming = *l->names = '\0';
                l->silent.n = 0;
        }
        (void) pthread_mutex_unlock(&c->lock);
        (void) blkup_module_load_free(done);
}

/* Adds what nobody has asked for before. In a run that stays what is plugged in again counts again: its
 * module may have been removed, or may have been out of reach. With the lock. */
static bool note_alias(struct blkup_coldplug *c, const char *alias, bool is_event)
{
        char *own;

        if (!*alias)
                return false;
        /* A machine has some hundred different ones. */
        for (size_t i = 0; i < c->n_aliases; i++)
                if (strcmp(c->aliases[i].text, alias) == 0) {
                        if (!is_event || !c->s.is_watch || c->aliases[i].is_due)
                                return false;
                        c->aliases[i].is_due = true;
                        c->n_due++;
                        return true;
                }
        if (blkup_host_reserve((void **) &c->aliases, &c->alias_cap, c->n_aliases, sizeof(*c->aliases),
                               MAX_ALIASES) < 0)
                return false;
        own = strdup(alias);
        if (own) {
                c->aliases[c->n_aliases++] = (struct blkup_cold_alias){ own, true };
                c->n_due++;
        }
        return own != NULL;
}

static void walk(struct blkup_coldplug *c)
{
        struct blkup_modaliases *t = NULL;

        if (blkup_modaliases_load(c->root, &t, NULL) < 0)
                return;
        (void) pthread_mutex_lock(&c->lock);
        for (size_t i = 0; i < t->n; i++)
                (void) note_alias(c, t->aliases[i], false);
        (void) pthread_mutex_unlock(&c->lock);
        (void) blkup_modaliases_free(t);
}

/* A plan of what is new; NULL: nothing, or no memory: then what is due is due no more, or the loader would
 * ask for ever, and *ret_is_short. */
static struct blkup_module_plan *plan(struct blkup_coldplug *c, const struct blkup_modules *m,
                                      bool *ret_is_short)
{
        struct blkup_module_plan *p = NULL;
        const struct blkup_module_node *nodes;
        size_t n = 0, to_load = 0, n_due = 0;
        BLKUP_CLEANUP_FREE const char **due = NULL;

        (void) pthread_mutex_lock(&c->lock);
        due = calloc(c->n_due + 1, sizeof(*due));
        for (size_t i = 0; due && i < c->n_aliases; i++) {
                if (!c->aliases[i].is_due)
                        continue;
                due[n_due++] = c->aliases[i].text; /* stays where it is while the array may move */
                c->aliases[i].is_due = false;
        }
        *ret_is_short = !due && c->n_due > 0;
        for (size_t i = 0; !due && i < c->n_aliases; i++)
                c->aliases[i].is_due = false;
        c->n_due = 0;
        (void) pthread_mutex_unlock(&c->lock);
        if (n_due == 0)
                return NULL;
        if (blkup_module_plan_new(m, PLAN_FLAGS(c), &p) < 0) {
                *ret_is_short = true;
                return NULL;
        }
        /* One that is no alias to the resolver is nobody's loss. */
        for (size_t i = 0; i < n_due; i++)
                *ret_is_short = blkup_module_plan_add(p, due[i], NULL, NULL) == -ENOMEM || *ret_is_short;
        (void) blkup_module_plan_add_sha(p);
        if (blkup_module_plan_nodes(p, &nodes, &n) < 0)
                n = 0;
        for (size_t i = 0; i < n; i++)
                to_load += !nodes[i].is_loaded && nodes[i].action == BLKUP_MODULE_INSMOD;
        return to_load > 0 ? p : blkup_module_plan_free(p);
}

/* A kernel that could load modules, of which there are none here: said once, not for each device. */
static void note_missing(struct blkup_coldplug *c)
{
        BLKUP_CLEANUP_CLOSE int fd = blkup_host_open(c->root, "proc/modules", O_RDONLY);
        struct blkup_module_result missing = { .outcome = BLKUP_MODULE_FAILED, .error = -ENOENT };

        if (fd < 0 || !c->modules)
                return;
        missing.name = blkup_modules_folder(c->modules);
        missing.message = blkup_modules_has_folder(c->modules)
                                  ? "has no index, as depmod makes it: no module is loaded"
                                  : "is not there: no module is loaded";
        (void) pthread_mutex_lock(&c->lock);
        if (!c->is_told_missing)
                note_bad(c, &missing, "");
        c->is_told_missing = true;
        (void) pthread_mutex_unlock(&c->lock);
}

/* Devices may stay away for want of memory: that is told. */
static void note_short(struct blkup_coldplug *c)
{
        const struct blkup_module_result bad = { .name = blkup_modules_folder(c->modules),
                                                 .outcome = BLKUP_MODULE_FAILED,
                                                 .error = -ENOMEM,
                                                 .message = "some of it was not loaded: there is no memory" };

        (void) pthread_mutex_lock(&c->lock);
        note_bad(c, &bad, "");
        (void) pthread_mutex_unlock(&c->lock);
}

/* Does the kernel tell us of what comes? */
static bool is_told(const struct blkup_coldplug *c)
{
        return __atomic_load_n(&c->uevent_fd, __ATOMIC_RELAXED) >= 0;
}

int blkup_cold_run_modules(struct blkup_pool *pool, uint32_t node, unsigned worker, void *arg,
                           struct blkup_error *err)
{
        struct blkup_coldplug *c = arg;
        struct blkup_modules *m = indexes(c);
        struct blkup_cold_loader loader = { .run = c }, **at;
        unsigned walks = 0;
        bool again;

        (void) node;
        (void) err;
        (void) pthread_mutex_lock(&c->lock);
        loader.next = c->loaders;
        c->loaders = &loader;
        (void) pthread_mutex_unlock(&c->lock);
        /* Ends: with no new alias; devices are finite, and a walk without news asks for no other. */
        do {
                struct blkup_module_plan *p;
                uint64_t since = blkup_now_ns();
                size_t planned = SIZE_MAX;
                bool wants, is_short = false;

                if (!m)
                        note_missing(c);
                (void) pthread_mutex_lock(&c->lock);
                wants = c->wants_alias_walk;
                c->wants_alias_walk = false;
                (void) pthread_mutex_unlock(&c->lock);
                if (m && wants)
                        walk(c);
                p = m ? plan(c, m, &is_short) : NULL;
                if (is_short)
                        note_short(c);
                if (p) {
                        (void) pthread_mutex_lock(&c->lock);
                        planned = blkup_cold_note_plan(c, since, blkup_now_ns(), worker);
                        (void) pthread_mutex_unlock(&c->lock);
                        load(c, p, &loader, planned);
                        (void) blkup_module_plan_free(p);
                        /* Before this counts as done: what it brought may be all that an entry waits for. */
                        if (!c->s.is_watch || !is_told(c))
                                blkup_cold_catch_up(c);
                }
                (void) pthread_mutex_lock(&c->lock);
                if (p && !is_told(c) && ++walks < MAX_WALKS)
                        c->wants_alias_walk = true;
                again = m && (c->wants_alias_walk || c->n_due > 0) && !c->lets_go &&
                        !blkup_pool_is_cancelled(pool);
                if (!again) {
                        for (at = &c->loaders; *at != &loader;) /* ends: it is in the list */
                                at = &(*at)->next;
                        *at = loader.next;
                        c->n_loaders--;
                        blkup_cold_work_over(c);
                }
                (void) pthread_mutex_unlock(&c->lock);
        } while (again);
        return 0;
}

void blkup_cold_start_loader(struct blkup_coldplug *c)
{
        if (c->s.no_modules || c->s.dry_run || blkup_cold_n_loading(c) >= MAX_LOADERS ||
            c->n_loaders >= MAX_ALL_LOADERS ||
            blkup_cold_add_node(c, "modules", COST_MODULES_NS, 0, blkup_cold_run_modules, c,
                                blkup_cold_drop_run, NULL, NULL) < 0)
                return;
        c->n_loaders++;
        c->n_work++;
}

void blkup_cold_want_alias(struct blkup_coldplug *c, const char *alias)
{
        if (!c->s.no_modules && !c->s.dry_run && note_alias(c, alias, true))
                blkup_cold_start_loader(c);
}

void blkup_cold_need_module(struct blkup_coldplug *c, const char *alias, struct blkup_coldplug_step *s)
{
        uint64_t since = blkup_now_ns();
        struct blkup_module_plan *p = NULL;
        struct blkup_modules *m;

        if (c->s.no_modules || c->s.dry_run)
                return;
        m = indexes(c);
        if (!m || blkup_module_plan_new(m, PLAN_FLAGS(c), &p) < 0)
                return;
        /* What does not load is told by who needed it. */
        if (blkup_module_plan_add(p, alias, NULL, NULL) == 0)
                load(c, p, NULL, SIZE_MAX);
        (void) blkup_module_plan_free(p);
        (void) pthread_mutex_lock(&c->lock);
        blkup_cold_note_wait(s, since, "the load of ", alias);
        (void) pthread_mutex_unlock(&c->lock);
}

static bool has_fs(const struct blkup_coldplug *c, const char *type)
{
        BLKUP_CLEANUP_FREE char *text = NULL;
        size_t n, len = strlen(type);

        if (blkup_host_read(c->root, "proc/filesystems", 1u << 16, &text, &n) < 0)
                return true; /* nobody knows: let the mount try */
        for (const char *at = strstr(text, type); at; at = strstr(at + 1, type))
                if (at > text && at[-1] == '\t' && (at[len] == '\n' || at[len] == '\0'))
                        return true;
        return false;
}

/* The kernel would ask its modprobe, which an initramfs need not have. */
void blkup_cold_need_fs(struct blkup_coldplug *c, const char *type, struct blkup_coldplug_step *s)
{
        char alias[80];

        if (c->s.no_modules || c->s.dry_run || !type || !blkup_mount_is_type_name(type) || has_fs(c, type))
                return;
        (void) snprintf(alias, sizeof(alias), "fs-%s", type);
        blkup_cold_need_module(c, alias, s);
}

void blkup_cold_free_modules(struct blkup_coldplug *c)
{
        for (size_t i = 0; i < c->n_aliases; i++)
                free(c->aliases[i].text);
        free(c->aliases);
        for (size_t i = 0; i < c->n_bad_modules; i++) {
                free((char *) c->bad_modules[i].name);
                free((char *) c->bad_modules[i].text);
        }
        free(c->bad_modules);
        (void) blkup_modules_free(c->modules);
}
