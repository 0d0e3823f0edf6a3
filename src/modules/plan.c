/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From requests to steps, in the order in which kmod would load, and from steps to a graph of modules.
 *
 * The steps follow libkmod's walk, whose order users know from `modprobe -D`: for each hard dependency, in
 * load order, its pre-softdeps with all they need, itself, its post-softdeps; then the module the same way. A
 * module is walked into once a request, but stands in the list as often as it was met. kmod tells a module
 * that was found by an alias from the same module found by its name; so do we, or lists would differ.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host/hostfile.h"
#include "modules/name.h"
#include "modules/tree.h"

/* Steps of one plan: every module of a kernel with all it needs is some 20,000. */
#define MAX_STEPS   (1u << 20)
#define MAX_OBJECTS (1u << 17)
/* Softdeps of softdeps: real chains are 3 deep, each object is walked into once, this only bounds the stack.
 */
#define MAX_DEPTH   512u
/* Below that a faster sha256 does not earn its own load: 17 ms, and some 100 ns less a byte. */
#define SHA_PAYS_BYTES ((uint64_t) 512 << 10)

struct info { /* one a module name */
        const char *name, *path, *command;
        struct object **deps; /* load order */
        uint32_t n_deps;
        bool is_builtin, is_loaded, is_blacklisted;
        uint32_t node;   /* its place in the graph; NO_NODE */
        uint32_t stamp;  /* of the reduction of edges */
        struct info *next;
};

struct object { /* one a name and alias */
        struct info *info;
        const char *alias;   /* NULL: found by its name */
        const char *options; /* NULL: not asked yet */
        struct object **pre, **post;
        uint32_t n_pre, n_post;
        bool has_softdeps; /* pre and post are filled */
        bool required, ignores_command;
        uint32_t visit;
        struct object *next;
};

struct cached { /* what a softdep's name stands for */
        const char *request;
        struct object **found;
        uint32_t n;
        struct cached *next;
};

struct step {
        struct blkup_module_step public;
        struct object *object;
        bool required, asked;
};

#define N_BUCKETS 4096u
#define NO_NODE   UINT32_MAX

struct blkup_module_plan {
        const struct blkup_modules *m;
        unsigned flags;
        struct blkup_host_pool pool;
        struct info *infos[N_BUCKETS];
        struct object *objects[N_BUCKETS];
        struct cached *cache[N_BUCKETS];
        uint32_t n_objects, visit;
        struct object **list; /* of the request that is being added */
        size_t n_list, list_cap;
        struct step *steps;
        size_t n_steps, steps_cap;
        struct blkup_module_node *nodes;
        size_t n_nodes;
        bool has_nodes;
};

static uint32_t hash(const char *s, size_t n, uint32_t h)
{
        for (size_t i = 0; i < n; i++)
                h = (h ^ (unsigned char) s[i]) * 16777619u; /* FNV-1a, 32 bits: RFC 9923 */
        return h;
}

int blkup_module_plan_new(const struct blkup_modules *m, unsigned flags, struct blkup_module_plan **ret)
{
        struct blkup_module_plan *p = calloc(1, sizeof(*p));

        if (!p)
                return -ENOMEM;
        p->m = m;
        p->flags = flags;
        *ret = p;
        return 0;
}

struct blkup_module_plan *blkup_module_plan_free(struct blkup_module_plan *p)
{
        if (!p)
                return NULL;
        blkup_host_pool_free(&p->pool);
        free(p->list);
        free(p->steps);
        free(p->nodes);
        free(p);
        return NULL;
}

static int get_object(struct blkup_module_plan *p, const char *name, size_t n, const char *alias,
                      struct object **ret);

/* A path of modules.dep: below the kernel's folder, or absolute. */
static const char *whole_path(struct blkup_module_plan *p, const char *path, size_t n)
{
        size_t room;
        char *whole;

        if (*path == '/')
                return blkup_host_pool_text(&p->pool, path, n);
        room = strlen(p->m->folder) + 1 + n + 1;
        whole = blkup_host_pool_take(&p->pool, room);
        if (whole)
                (void) snprintf(whole, room, "%s/%.*s", p->m->folder, (int) n, path);
        return whole;
}

/* "PATH: DEP DEP", nearest dependency first: the other way round is the order of loading. */
static int fill_deps(struct blkup_module_plan *p, struct info *i, const char *line)
{
        const char *colon = strchr(line, ':'), *at;
        char name[BLKUP_MODULE_ALIAS_CAP];
        size_t n = 0, room;

        if (!colon || colon == line || colon - line > PATH_MAX)
                return -EBADMSG;
        i->path = whole_path(p, line, (size_t) (colon - line));
        if (!i->path)
                return -ENOMEM;
        room = strlen(colon) / 2 + 1;
        i->deps = blkup_host_pool_take(&p->pool, room * sizeof(struct object *));
        if (!i->deps)
                return -ENOMEM;
        /* Ends: each turn takes characters of the line. */
        for (at = colon + 1; *at;) {
                size_t len;
                int r;

                at += strspn(at, " \t\n");
                len = strcspn(at, " \t\n");
                if (len == 0)
                        break;
                r = blkup_module_name_of_path(at, len, name);
                if (r < 0)
                        return -EBADMSG;
                r = get_object(p, name, strlen(name), NULL, &i->deps[n]);
                if (r < 0)
                        return r;
                n++;
                at += len;
        }
        for (size_t k = 0; k < n / 2; k++) {
                struct object *o = i->deps[k];

                i->deps[k] = i->deps[n - 1 - k];
                i->deps[n - 1 - k] = o;
        }
        i->n_deps = (uint32_t) n;
        return 0;
}

/* Dependencies are filled later, by the walk: here they would recurse as deep as a broken index likes. */
static int get_info(struct blkup_module_plan *p, const char *name, size_t n, struct info **ret)
{
        struct info **bucket = &p->infos[hash(name, n, 2166136261u) % N_BUCKETS], *i;
        int r;

        for (i = *bucket; i; i = i->next)
                if (strncmp(i->name, name, n) == 0 && i->name[n] == '\0') {
                        *ret = i;
                        return 0;
                }
        i = blkup_host_pool_take(&p->pool, sizeof(*i));
        if (!i)
                return -ENOMEM;
        *i = (struct info){ .name = blkup_host_pool_text(&p->pool, name, n), .path = NULL, .node = NO_NODE };
        if (!i->name)
                return -ENOMEM;
        r = blkup_modules_is_builtin(p->m, i->name, &i->is_builtin);
        if (r < 0)
                return r;
        i->is_loaded = p->flags & BLKUP_MODULES_LOOK_AGAIN ? blkup_modules_is_live_now(p->m, i->name)
                                                           : blkup_modules_is_live(p->m, i->name);
        i->is_blacklisted = blkup_modconf_is_blacklisted(&p->m->config, i->name);
        i->command = blkup_modconf_command(&p->m->config, BLKUP_MODCONF_INSTALL, i->name);
        i->next = *bucket;
        *bucket = i;
        *ret = i;
        return 0;
}

static int need_deps(struct blkup_module_plan *p, struct info *i)
{
        const char *line = NULL;
        int r;

        if (i->path)
                return 0;
        r = blkup_modules_dep_line(p->m, i->name, &line);
        if (r < 0)
                return r;
        if (line)
                return fill_deps(p, i, line);
        i->path = "";
        return 0;
}

static int get_object(struct blkup_module_plan *p, const char *name, size_t n, const char *alias,
                      struct object **ret)
{
        uint32_t h = hash(name, n, 2166136261u);
        struct object **bucket, *o;
        int r;

        if (alias)
                h = hash(alias, strlen(alias), h * 31);
        bucket = &p->objects[h % N_BUCKETS];
        for (o = *bucket; o; o = o->next)
                if (strncmp(o->info->name, name, n) == 0 && o->info->name[n] == '\0' && !o->alias == !alias &&
                    (!alias || strcmp(o->alias, alias) == 0)) {
                        *ret = o;
                        return 0;
                }
        if (p->n_objects >= MAX_OBJECTS)
                return -E2BIG;
        o = blkup_host_pool_take(&p->pool, sizeof(*o));
        if (!o)
                return -ENOMEM;
        *o = (struct object){ .alias = alias ? blkup_host_pool_text(&p->pool, alias, strlen(alias)) : NULL };
        if (alias && !o->alias)
                return -ENOMEM;
        r = get_info(p, name, n, &o->info);
        if (r < 0)
                return r;
        p->n_objects++;
        o->next = *bucket;
        *bucket = o;
        *ret = o;
        return 0;
}

struct finding {
        struct blkup_module_plan *p;
        const char *request;
        struct object **found;
        size_t n, cap;
        struct { const char *name; size_t len; } *names;
};

static int take_name(void *arg, const char *module, size_t len)
{
        struct finding *f = arg;
        int r = blkup_host_reserve((void **) &f->names, &f->cap, f->n, sizeof(*f->names), MAX_OBJECTS);

        if (r == 0) {
                f->names[f->n].name = module;
                f->names[f->n++].len = len;
        }
        return r;
}

/* The objects that a normalised request stands for; in the pool, kept for the next who asks. */
static int find_objects(struct blkup_module_plan *p, const char *request, struct cached **ret)
{
        struct cached **bucket = &p->cache[hash(request, strlen(request), 2166136261u) % N_BUCKETS], *c;
        struct finding f = { .p = p, .request = request };
        bool by_name;
        int r;

        for (c = *bucket; c; c = c->next)
                if (strcmp(c->request, request) == 0) {
                        *ret = c;
                        return 0;
                }
        r = blkup_modules_lookup(p->m, request, take_name, &f, &by_name);
        c = r == 0 ? blkup_host_pool_take(&p->pool, sizeof(*c)) : NULL;
        if (c) {
                *c = (struct cached){
                        .request = blkup_host_pool_text(&p->pool, request, strlen(request)),
                        .found = blkup_host_pool_take(&p->pool, (f.n + 1) * sizeof(struct object *)),
                };
                if (!c->request || !c->found)
                        c = NULL;
        }
        if (!c && r == 0)
                r = -ENOMEM;
        for (size_t i = 0; r == 0 && i < f.n; i++) {
                r = get_object(p, f.names[i].name, f.names[i].len, by_name ? NULL : c->request, &c->found[i]);
                c->n += r == 0;
        }
        free(f.names);
        if (r < 0)
                return r;
        c->next = *bucket;
        *bucket = c;
        *ret = c;
        return 0;
}

/* Appends what the names of a softdep stand for; a name that nothing knows is left out. */
static int find_softdeps(struct blkup_module_plan *p, const char *const *names, size_t n, struct object ***to,
                         uint32_t *n_to)
{
        char normal[BLKUP_MODULE_ALIAS_CAP];
        size_t total = *n_to;
        struct object **all;

        for (size_t i = 0; i < n; i++) {
                struct cached *c;
                int r = blkup_module_alias(names[i], strlen(names[i]), normal, sizeof(normal));

                if (r < 0)
                        continue;
                r = find_objects(p, normal, &c);
                if (r < 0)
                        return r;
                if (c->n == 0)
                        continue;
                all = blkup_host_pool_take(&p->pool, (total + c->n) * sizeof(struct object *));
                if (!all)
                        return -ENOMEM;
                if (total)
                        memcpy(all, *to, total * sizeof(struct object *));
                memcpy(all + total, c->found, c->n * sizeof(struct object *));
                total += c->n;
                *to = all;
                *n_to = (uint32_t) total;
        }
        return 0;
}

static int need_softdeps(struct blkup_module_plan *p, struct object *o)
{
        const struct blkup_modconf *c = &p->m->config;
        int r = 0;

        if (o->has_softdeps)
                return 0;
        o->has_softdeps = true;
        for (size_t i = 0; c->by_kind[BLKUP_MODCONF_SOFTDEP] && r == 0 && i < c->n; i++) {
                const struct blkup_modconf_line *l = &c->lines[i];

                if (l->kind != BLKUP_MODCONF_SOFTDEP || !blkup_module_matches(l->name, o->info->name))
                        continue;
                r = find_softdeps(p, l->pre, l->n_pre, &o->pre, &o->n_pre);
                if (r == 0)
                        r = find_softdeps(p, l->post, l->n_post, &o->post, &o->n_post);
                if (p->flags & BLKUP_MODULES_FIRST_SOFTDEP)
                        break;
        }
        return r;
}

static int append(struct blkup_module_plan *p, struct object *o)
{
        int r = blkup_host_reserve((void **) &p->list, &p->list_cap, p->n_list, sizeof(struct object *),
                                   MAX_STEPS);

        if (r == 0)
                p->list[p->n_list++] = o;
        return r;
}

static int walk(struct blkup_module_plan *p, struct object *o, bool required, bool ignore_command,
                unsigned depth);

/* o between its softdeps. Ends: walk() goes into each object once a request. */
static int walk_softdeps(struct blkup_module_plan *p, struct object *o, unsigned depth)
{
        int r = need_softdeps(p, o);

        for (uint32_t i = 0; r == 0 && i < o->n_pre; i++)
                r = walk(p, o->pre[i], false, false, depth + 1);
        if (r == 0)
                r = append(p, o);
        /* kmod: a module with softdeps loses its install command, which could ask for the same again. */
        o->ignores_command = o->n_pre || o->n_post;
        for (uint32_t i = 0; r == 0 && i < o->n_post; i++)
                r = walk(p, o->post[i], false, false, depth + 1);
        return r;
}

static int walk(struct blkup_module_plan *p, struct object *o, bool required, bool ignore_command,
                unsigned depth)
{
        int r;

        if (o->visit == p->visit)
                return 0;
        o->visit = p->visit;
        if (depth > MAX_DEPTH)
                return -ELOOP;
        r = need_deps(p, o->info);
        if (r < 0)
                return r;
        if (required) {
                o->required = true;
                for (uint32_t i = 0; i < o->info->n_deps; i++)
                        o->info->deps[i]->required = true;
        }
        for (uint32_t i = 0; r == 0 && i < o->info->n_deps; i++) {
                r = need_deps(p, o->info->deps[i]->info);
                if (r == 0)
                        r = walk_softdeps(p, o->info->deps[i], depth);
        }
        if (r < 0)
                return r;
        if (ignore_command) {
                o->ignores_command = true;
                return append(p, o);
        }
        return walk_softdeps(p, o, depth);
}

/* All option lines of the module, or of the alias by which it was found. */
static int need_options(struct blkup_module_plan *p, struct object *o)
{
        const struct blkup_modconf *c = &p->m->config;
        const char *text = "";

        if (o->options)
                return 0;
        for (size_t i = 0; c->by_kind[BLKUP_MODCONF_OPTIONS] && i < c->n; i++) {
                const struct blkup_modconf_line *l = &c->lines[i];
                size_t room;
                char *joined;

                if (l->kind != BLKUP_MODCONF_OPTIONS ||
                    (strcmp(l->name, o->info->name) != 0 && (!o->alias || strcmp(l->name, o->alias) != 0)))
                        continue;
                room = strlen(text) + 1 + strlen(l->text) + 1;
                joined = blkup_host_pool_take(&p->pool, room);
                if (!joined)
                        return -ENOMEM;
                (void) snprintf(joined, room, "%s%s%s", text, *text ? " " : "", l->text);
                text = joined;
        }
        o->options = text;
        return 0;
}

static int add_step(struct blkup_module_plan *p, struct object *o, const char *extra, bool asked)
{
        struct step s = { .object = o, .required = o->required, .asked = asked };
        bool show_all = (p->flags & BLKUP_MODULES_IGNORE_LOADED) != 0;
        int r;

        if (!show_all && o->info->is_builtin)
                return 0;
        r = need_options(p, o);
        if (r < 0)
                return r;
        s.public = (struct blkup_module_step){ .name = o->info->name,
                                               .path = o->info->path,
                                               .options = o->options };
        /* kmod parts configured options from those of the request by a blank, also when the latter are none.
         */
        if (*o->options || (extra && *extra)) {
                size_t room = strlen(o->options) + 2;
                char *joined;

                if (extra)
                        room += strlen(extra);
                joined = blkup_host_pool_take(&p->pool, room);
                if (!joined)
                        return -ENOMEM;
                (void) snprintf(joined, room, "%s%s%s", o->options, *o->options ? " " : "",
                                extra ? extra : "");
                s.public.options = joined;
        }
        if (o->info->command && !o->ignores_command) {
                s.public.action = BLKUP_MODULE_INSTALL;
                s.public.command = o->info->command;
        } else if (*o->info->path) {
                s.public.action = BLKUP_MODULE_INSMOD;
        } else {
                s.public.action = o->info->is_builtin ? BLKUP_MODULE_BUILTIN : BLKUP_MODULE_MISSING;
        }
        r = blkup_host_reserve((void **) &p->steps, &p->steps_cap, p->n_steps, sizeof(*p->steps), MAX_STEPS);
        if (r == 0)
                p->steps[p->n_steps++] = s;
        return r;
}

static int add_module(struct blkup_module_plan *p, struct object *o, const char *options, bool required)
{
        bool show_all = (p->flags & BLKUP_MODULES_IGNORE_LOADED) != 0;
        int r;

        if (!show_all && (o->info->is_builtin || o->info->is_loaded))
                return 0;
        if (o->info->is_blacklisted && (o->alias || (p->flags & BLKUP_MODULES_BLACKLIST)))
                return 0;
        p->visit++;
        p->n_list = 0;
        r = walk(p, o, required, (p->flags & BLKUP_MODULES_IGNORE_COMMANDS) != 0, 0);
        for (size_t i = 0; r == 0 && i < p->n_list; i++) {
                struct object *s = p->list[i];

                if (!show_all && s->info->is_loaded)
                        continue;
                r = add_step(p, s, s == o ? options : NULL, s == o && required);
        }
        return r;
}

int blkup_module_plan_add(struct blkup_module_plan *p, const char *request, const char *options,
                          size_t *ret_found)
{
        char normal[BLKUP_MODULE_ALIAS_CAP];
        struct cached *c;
        int r = blkup_module_alias(request, strlen(request), normal, sizeof(normal));

        if (r < 0)
                return r;
        if (p->has_nodes)
                return -EBUSY;
        r = find_objects(p, normal, &c);
        for (uint32_t i = 0; r == 0 && i < c->n; i++)
                r = add_module(p, c->found[i], options, true);
        if (r == 0 && ret_found)
                *ret_found = c->n;
        return r;
}

/* Does this machine's CPU have it? Loading it for nothing would cost time and answer ENODEV. */
static bool has_cpu_flag(const char *root, const char *flag)
{
        BLKUP_CLEANUP_FREE char *text = NULL;
        char word[32];
        size_t n = 0;

        if (blkup_host_read(root, "proc/cpuinfo", 8u << 20, &text, &n) < 0)
                return false;
        (void) snprintf(word, sizeof(word), " %s ", flag);
        return strstr(text, word) != NULL;
}

/* Bytes of the files to load, no further than enough. */
static bool has_bytes(const struct blkup_module_plan *p, uint64_t enough)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < p->n_steps && sum < enough; i++) {
                struct stat st;
                int fd;

                if (p->steps[i].public.action != BLKUP_MODULE_INSMOD)
                        continue;
                fd = blkup_host_open(p->m->root, p->steps[i].public.path + 1, O_PATH);
                if (fd >= 0 && fstat(fd, &st) == 0)
                        sum += (uint64_t) st.st_size;
                (void) blkup_close(fd);
        }
        return sum >= enough;
}

int blkup_module_plan_add_sha(struct blkup_module_plan *p)
{
        /* Names in the kernel's crypto folders of x86 and arm64, and what of /proc/cpuinfo they need. */
        static const struct { const char *name, *flag; } choices[] = {
                { "sha256_ssse3", "ssse3" }, { "sha2_ce", "sha2" }, { "sha256_arm64", "asimd" },
        };

        if (!has_bytes(p, SHA_PAYS_BYTES))
                return 0;
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(choices); i++) {
                const char *line = NULL;
                struct cached *c;
                int r = blkup_modules_dep_line(p->m, choices[i].name, &line);

                if (r < 0)
                        return r;
                if (!line || !has_cpu_flag(p->m->root, choices[i].flag))
                        continue;
                r = find_objects(p, choices[i].name, &c);
                return r < 0 || c->n == 0 ? r : add_module(p, c->found[0], NULL, false);
        }
        return 0;
}

const struct blkup_modules *blkup_module_plan_modules(const struct blkup_module_plan *p)
{
        return p->m;
}

size_t blkup_module_plan_n_steps(const struct blkup_module_plan *p)
{
        return p->n_steps;
}

const struct blkup_module_step *blkup_module_plan_step(const struct blkup_module_plan *p, size_t i)
{
        return i < p->n_steps ? &p->steps[i].public : NULL;
}

/* ---- the graph ---- */

/* Is there a node for this module, before the one at `at`? Edges go only back, so there is no circle: what
 * softdeps or a broken modules.dep close is broken here. */
static bool is_before(const struct info *i, uint32_t at)
{
        return i->node != NO_NODE && i->node < at;
}

/* The hard dependencies that no other hard dependency needs already: modules.dep has all of them. */
static int add_needs(struct blkup_module_plan *p, struct info *i, struct blkup_module_node *n)
{
        uint32_t *needs = blkup_host_pool_take(&p->pool, (i->n_deps + 1u) * sizeof(*needs));

        if (!needs)
                return -ENOMEM;
        for (uint32_t k = 0; k < i->n_deps; k++) {
                struct info *d = i->deps[k]->info;

                for (uint32_t j = 0; j < d->n_deps; j++)
                        if (d->deps[j]->info->node < d->node)
                                d->deps[j]->info->stamp = i->node + 1;
        }
        for (uint32_t k = 0; k < i->n_deps; k++) {
                struct info *d = i->deps[k]->info;

                if (is_before(d, i->node) && d->stamp != i->node + 1)
                        needs[n->n_needs++] = d->node;
        }
        n->needs = needs;
        return 0;
}

struct edges {
        uint32_t *v;
        size_t n, cap;
};

static int add_after(struct edges *e, uint32_t node)
{
        int r;

        for (size_t i = 0; i < e->n; i++)
                if (e->v[i] == node)
                        return 0;
        r = blkup_host_reserve((void **) &e->v, &e->cap, e->n, sizeof(*e->v), MAX_OBJECTS);
        if (r == 0)
                e->v[e->n++] = node;
        return r;
}

/* Fills edges[node] with those that must have ended before it. */
static int collect_after(struct blkup_module_plan *p, struct edges *edges)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < p->n_steps; i++) {
                struct object *o = p->steps[i].object;
                uint32_t at = o->info->node;

                for (uint32_t k = 0; r == 0 && k < o->n_pre; k++)
                        if (is_before(o->pre[k]->info, at))
                                r = add_after(&edges[at], o->pre[k]->info->node);
                for (uint32_t k = 0; r == 0 && k < o->n_post; k++) {
                        const struct info *post = o->post[k]->info;

                        if (post->node != NO_NODE && is_before(o->info, post->node))
                                r = add_after(&edges[post->node], at);
                }
        }
        return r;
}

static int make_nodes(struct blkup_module_plan *p)
{
        BLKUP_CLEANUP_FREE struct edges *edges = NULL;
        BLKUP_CLEANUP_FREE struct info **infos = NULL;
        uint32_t n = 0;
        int r = 0;

        p->nodes = calloc(p->n_steps + 1, sizeof(*p->nodes));
        infos = calloc(p->n_steps + 1, sizeof(*infos));
        edges = calloc(p->n_steps + 1, sizeof(*edges));
        if (!p->nodes || !infos || !edges)
                return -ENOMEM;
        for (size_t i = 0; i < p->n_steps; i++) {
                const struct blkup_module_step *s = &p->steps[i].public;
                struct info *info = p->steps[i].object->info;

                if (info->node == NO_NODE) {
                        info->node = n;
                        infos[n] = info;
                        p->nodes[n++] = (struct blkup_module_node){
                                .action = s->action, .name = s->name, .path = s->path, .options = s->options,
                                .command = s->command, .is_loaded = info->is_loaded,
                        };
                }
                p->nodes[info->node].is_required |= p->steps[i].required;
                p->nodes[info->node].is_asked |= p->steps[i].asked;
                /* A request's own options count also when an earlier one met the module without them. */
                if (strlen(s->options) > strlen(p->nodes[info->node].options))
                        p->nodes[info->node].options = s->options;
        }
        for (uint32_t i = 0; r == 0 && i < n; i++)
                r = add_needs(p, infos[i], &p->nodes[i]);
        if (r == 0)
                r = collect_after(p, edges);
        for (uint32_t i = 0; i < n; i++) {
                uint32_t *after =
                        r == 0 ? blkup_host_pool_take(&p->pool, (edges[i].n + 1) * sizeof(*after)) : NULL;

                if (after) {
                        if (edges[i].n)
                                memcpy(after, edges[i].v, edges[i].n * sizeof(*after));
                        p->nodes[i].after = after;
                        p->nodes[i].n_after = (uint32_t) edges[i].n;
                } else if (r == 0) {
                        r = -ENOMEM;
                }
                free(edges[i].v);
        }
        for (uint32_t i = 0; r == 0 && i < n; i++) {
                const char *text = p->nodes[i].options;
                size_t len = strlen(text);

                while (len > 0 && text[len - 1] == ' ')
                        len--;
                p->nodes[i].options = blkup_host_pool_text(&p->pool, text, len);
                r = p->nodes[i].options ? 0 : -ENOMEM;
        }
        p->n_nodes = n;
        return r;
}

int blkup_module_plan_nodes(struct blkup_module_plan *p, const struct blkup_module_node **ret, size_t *ret_n)
{
        if (!p->has_nodes) {
                int r = make_nodes(p);

                if (r < 0) {
                        free(p->nodes);
                        p->nodes = NULL;
                        return r;
                }
                p->has_nodes = true;
        }
        *ret = p->nodes;
        *ret_n = p->n_nodes;
        return 0;
}
