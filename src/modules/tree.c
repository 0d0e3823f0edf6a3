/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "modules/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "host/hostfile.h"
#include "modules/name.h"

static int open_index(const struct blkup_modules *m, const char *base, struct blkup_index *ret,
                      struct blkup_error *err)
{
        char path[512];
        int r;

        if (snprintf(path, sizeof(path), "%s/%s", m->folder + 1, base) >= (int) sizeof(path))
                return -ENAMETOOLONG;
        r = blkup_index_open(m->root, path, ret);
        if (r == -ENOENT || r == -ENOTDIR)
                return 0;
        if (r < 0)
                return blkup_fail_errno(err, r, "%s/%s", m->folder, base);
        return 0;
}

static int open_indexes(struct blkup_modules *m, struct blkup_error *err)
{
        int r = open_index(m, "modules.dep.bin", &m->dep, err);

        m->has_index = m->dep.map != NULL;
        if (r == 0)
                r = open_index(m, "modules.alias.bin", &m->alias, err);
        if (r == 0)
                r = open_index(m, "modules.symbols.bin", &m->symbols, err);
        if (r == 0)
                r = open_index(m, "modules.builtin.bin", &m->builtin, err);
        if (r == 0)
                r = open_index(m, "modules.builtin.alias.bin", &m->builtin_alias, err);
        return r;
}

/* A release becomes part of a path. */
static bool is_release(const char *s)
{
        return *s && *s != '.' && strlen(s) < 256 && !strpbrk(s, "/\n\t ");
}

static int fill(struct blkup_modules *m, const struct blkup_modules_where *where, struct blkup_error *err)
{
        static const char *const places[] = { "lib/modules", "usr/lib/modules" };
        const char *release = where->release;
        struct utsname uts;
        int r;

        if (!release) {
                if (uname(&uts) < 0)
                        return -errno;
                release = uts.release;
        }
        if (!is_release(release))
                return blkup_fail(err, -EINVAL, "'%s' is no kernel release", release);
        m->root = strdup(where->root ? where->root : "");
        m->release = strdup(release);
        if (!m->root || !m->release)
                return -ENOMEM;
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(places) && !m->has_folder; i++) {
                int fd;

                free(m->folder);
                m->folder = NULL;
                if (asprintf(&m->folder, "/%s/%s", places[i], release) < 0) {
                        m->folder = NULL;
                        return -ENOMEM;
                }
                fd = blkup_host_open(m->root, m->folder + 1, O_PATH | O_DIRECTORY);
                m->has_folder = fd >= 0;
                (void) blkup_close(fd);
        }
        if (!m->has_folder) { /* messages name the usual place */
                free(m->folder);
                if (asprintf(&m->folder, "/%s/%s", places[0], release) < 0) {
                        m->folder = NULL;
                        return -ENOMEM;
                }
        }
        r = blkup_modconf_load(m->root, m->folder + 1, &m->config, err);
        if (r == 0 && m->has_folder)
                r = open_indexes(m, err);
        if (r < 0)
                return r;
        /* Without /proc nothing is known to be loaded: the kernel will say EEXIST. */
        if (blkup_modstates_load(m->root, &m->loaded, NULL) < 0)
                m->loaded = NULL;
        return 0;
}

int blkup_modules_new(const struct blkup_modules_where *where, struct blkup_modules **ret,
                      struct blkup_error *err)
{
        struct blkup_modules *m = calloc(1, sizeof(*m));
        int r;

        if (!m)
                return blkup_fail_errno(err, -ENOMEM, "modules");
        r = fill(m, where, err);
        if (r < 0) {
                (void) blkup_modules_free(m);
                return err && err->code ? r : blkup_fail_errno(err, r, "modules");
        }
        *ret = m;
        return 0;
}

struct blkup_modules *blkup_modules_free(struct blkup_modules *m)
{
        if (!m)
                return NULL;
        blkup_index_close(&m->dep);
        blkup_index_close(&m->alias);
        blkup_index_close(&m->symbols);
        blkup_index_close(&m->builtin);
        blkup_index_close(&m->builtin_alias);
        blkup_modconf_free(&m->config);
        (void) blkup_modstates_free(m->loaded);
        free(m->root);
        free(m->release);
        free(m->folder);
        free(m);
        return NULL;
}

const char *blkup_modules_release(const struct blkup_modules *m)
{
        return m->release;
}

const char *blkup_modules_folder(const struct blkup_modules *m)
{
        return m->folder;
}

bool blkup_modules_has_folder(const struct blkup_modules *m)
{
        return m->has_folder;
}

bool blkup_modules_has_index(const struct blkup_modules *m)
{
        return m->has_index;
}

int blkup_modules_dep_line(const struct blkup_modules *m, const char *name, const char **ret)
{
        return blkup_index_find(&m->dep, name, ret);
}

int blkup_modules_is_builtin(const struct blkup_modules *m, const char *name, bool *ret)
{
        const char *path = NULL;
        int r = blkup_index_find(&m->builtin, name, &path);

        if (r == 0)
                *ret = path != NULL;
        return r;
}

bool blkup_modules_is_live(const struct blkup_modules *m, const char *name)
{
        const struct blkup_modstate *s = blkup_modstates_by_name(m->loaded, name);

        /* Loaded since, still coming then, or /proc/modules is not there. */
        return s && s->state == BLKUP_MODSTATE_LIVE ? true : blkup_modules_is_live_now(m, name);
}

bool blkup_modules_is_live_now(const struct blkup_modules *m, const char *name)
{
        BLKUP_CLEANUP_CLOSE int fd = -1;
        char path[2 * BLKUP_MODULE_NAME_CAP + 32], state[16];

        if (strlen(name) >= BLKUP_MODULE_NAME_CAP || !blkup_module_is_name(name))
                return false;
        (void) snprintf(path, sizeof(path), "sys/module/%s", name);
        fd = blkup_host_open(m->root, path, O_RDONLY | O_DIRECTORY);
        return fd >= 0 && blkup_host_attribute(fd, "initstate", state, sizeof(state)) >= 0 &&
               strcmp(state, "live") == 0;
}

/* ---- lookup ---- */

static int lookup_index(const struct blkup_index *i, const char *request, blkup_modules_found_fn *found,
                        void *arg, bool *ret_any)
{
        struct blkup_index_values values = { 0 };
        int r = blkup_index_match(i, request, &values);

        for (size_t k = 0; r == 0 && k < values.n; k++) {
                r = found(arg, values.v[k].text, strlen(values.v[k].text));
                *ret_any = true;
        }
        blkup_index_values_free(&values);
        return r;
}

/* The order is kmod's: the first kind of place that knows the request ends the search. */
int blkup_modules_lookup(const struct blkup_modules *m, const char *request, blkup_modules_found_fn *found,
                         void *arg, bool *ret_by_name)
{
        const struct blkup_modconf *c = &m->config;
        const char *line = NULL;
        bool any = false;
        int r = 0;

        *ret_by_name = false;
        for (size_t i = 0; c->by_kind[BLKUP_MODCONF_ALIAS] && r == 0 && i < c->n; i++)
                if (c->lines[i].kind == BLKUP_MODCONF_ALIAS &&
                    blkup_module_matches(c->lines[i].name, request)) {
                        r = found(arg, c->lines[i].text, strlen(c->lines[i].text));
                        any = true;
                }
        if (r < 0 || any)
                return r;
        r = blkup_index_find(&m->dep, request, &line);
        if (r < 0)
                return r;
        if (line) {
                *ret_by_name = true;
                return found(arg, request, strlen(request));
        }
        if (strncmp(request, "symbol:", 7) == 0) {
                r = lookup_index(&m->symbols, request, found, arg, &any);
                if (r < 0 || any)
                        return r;
        }
        if (blkup_modconf_command(c, BLKUP_MODCONF_INSTALL, request) ||
            blkup_modconf_command(c, BLKUP_MODCONF_REMOVE, request)) {
                *ret_by_name = true;
                return found(arg, request, strlen(request));
        }
        r = lookup_index(&m->alias, request, found, arg, &any);
        if (r < 0 || any)
                return r;
        r = blkup_index_find(&m->builtin, request, &line);
        if (r < 0)
                return r;
        if (line) {
                *ret_by_name = true;
                return found(arg, request, strlen(request));
        }
        return lookup_index(&m->builtin_alias, request, found, arg, &any);
}

struct resolving {
        int (*each)(void *arg, const char *module);
        void *arg;
};

static int resolved(void *arg, const char *module, size_t len)
{
        struct resolving *s = arg;

        (void) len;
        return s->each(s->arg, module);
}

int blkup_modules_resolve(const struct blkup_modules *m, const char *request,
                          int (*each)(void *arg, const char *module), void *arg)
{
        struct resolving s = { each, arg };
        char normal[BLKUP_MODULE_ALIAS_CAP];
        bool by_name;
        int r = blkup_module_alias(request, strlen(request), normal, sizeof(normal));

        return r < 0 ? r : blkup_modules_lookup(m, normal, resolved, &s, &by_name);
}

/* ---- dump ---- */

struct dump {
        int (*each)(void *arg, const char *line);
        void *arg;
};

static int dump_text(const struct dump *d, const char *a, const char *b, const char *c)
{
        BLKUP_CLEANUP_FREE char *line = NULL;

        if (asprintf(&line, "%s%s%s%s%s", a, *b ? " " : "", b, c ? " " : "", c ? c : "") < 0) {
                line = NULL;
                return -ENOMEM;
        }
        return d->each(d->arg, line);
}

static int dump_alias(void *arg, const char *key, const char *value)
{
        return dump_text(arg, "alias", key, value);
}

/* "pre: A B post: C"; a weak dependency: "A B". */
static int dump_dependencies(const struct dump *d, const char *word, const struct blkup_modconf_line *line)
{
        BLKUP_CLEANUP_FREE char *text = NULL;
        size_t n = 0;
        FILE *f = open_memstream(&text, &n);
        bool is_soft = line->kind == BLKUP_MODCONF_SOFTDEP;
        int r;

        if (!f)
                return -ENOMEM;
        if (is_soft && line->n_pre)
                (void) fputs("pre:", f);
        for (size_t i = 0; i < line->n_pre; i++)
                (void) fprintf(f, "%s%s", i > 0 || is_soft ? " " : "", line->pre[i]);
        if (line->n_post)
                (void) fprintf(f, "%spost:", line->n_pre ? " " : "");
        for (size_t i = 0; i < line->n_post; i++)
                (void) fprintf(f, " %s", line->post[i]);
        if (fclose(f) != 0)
                return -ENOMEM;
        r = dump_text(d, word, line->name, text);
        return r;
}

int blkup_modules_dump(const struct blkup_modules *m, int (*each)(void *arg, const char *line), void *arg)
{
        static const char *const words[BLKUP_MODCONF_KINDS] = {
                [BLKUP_MODCONF_BLACKLIST] = "blacklist", [BLKUP_MODCONF_INSTALL] = "install",
                [BLKUP_MODCONF_REMOVE] = "remove",       [BLKUP_MODCONF_ALIAS] = "alias",
                [BLKUP_MODCONF_OPTIONS] = "options",     [BLKUP_MODCONF_SOFTDEP] = "softdep",
                [BLKUP_MODCONF_WEAKDEP] = "weakdep",
        };
        struct dump d = { each, arg };
        int r = 0;

        for (enum blkup_modconf_kind kind = 0; kind < BLKUP_MODCONF_KINDS; kind++)
                for (size_t i = 0; r == 0 && i < m->config.n; i++) {
                        const struct blkup_modconf_line *line = &m->config.lines[i];

                        if (line->kind != kind)
                                continue;
                        if (kind == BLKUP_MODCONF_SOFTDEP || kind == BLKUP_MODCONF_WEAKDEP)
                                r = dump_dependencies(&d, words[kind], line);
                        else
                                r = dump_text(&d, words[kind], line->name,
                                              kind == BLKUP_MODCONF_BLACKLIST ? NULL : line->text);
                }
        if (r == 0)
                r = each(arg, "");
        if (r == 0)
                r = each(arg, "# End of configuration files. Dumping indexes now:");
        if (r == 0)
                r = each(arg, "");
        if (r == 0)
                r = blkup_index_each(&m->alias, dump_alias, &d);
        if (r == 0)
                r = blkup_index_each(&m->symbols, dump_alias, &d);
        if (r == 0)
                r = blkup_index_each(&m->builtin_alias, dump_alias, &d);
        return r;
}
