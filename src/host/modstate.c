/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "host/modstate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/hostfile.h"

struct table {
        struct blkup_modstates public; /* first: the pointer the caller holds is ours */
        struct blkup_modstate *modules;
        const char **users; /* of all modules, one after the other */
        size_t n_users, cap_users;
        char *text; /* what all texts point into */
};

static void free_tablep(struct table **t)
{
        if (*t) {
                free((*t)->modules);
                free((*t)->users);
                free((*t)->text);
                free(*t);
        }
        *t = NULL;
}

struct blkup_modstates *blkup_modstates_free(struct blkup_modstates *t)
{
        struct table *table = (struct table *) t;

        free_tablep(&table);
        return NULL;
}

/* "a,b,[permanent]," or "-". Users go behind those of the modules before; n_users counts them. */
static int parse_users(struct table *t, char *list, struct blkup_modstate *m)
{
        if (strcmp(list, "-") == 0)
                return 0;
        for (char *user = list, *comma; *user; user = comma) { /* each turn moves behind the next comma */
                void *array = t->users;
                int r;

                comma = strchrnul(user, ',');
                if (*comma)
                        *comma++ = '\0';
                if (!*user)
                        continue;
                if (strcmp(user, "[permanent]") == 0) {
                        m->is_permanent = true;
                        continue;
                }
                r = blkup_host_reserve(&array, &t->cap_users, t->n_users, sizeof(*t->users),
                                       BLKUP_MODSTATE_MAX_USERS);
                if (r < 0)
                        return r;
                t->users = array;
                t->users[t->n_users++] = user;
                m->n_users++;
        }
        return 0;
}

static enum blkup_modstate_state read_state(const char *word)
{
        if (strcmp(word, "Live") == 0)
                return BLKUP_MODSTATE_LIVE;
        if (strcmp(word, "Loading") == 0)
                return BLKUP_MODSTATE_COMING;
        return strcmp(word, "Unloading") == 0 ? BLKUP_MODSTATE_GOING : BLKUP_MODSTATE_UNKNOWN;
}

/* 1: a module, 0: a bad line, negative errno. */
static int parse_module(struct table *t, char *line, struct blkup_modstate *ret)
{
        char *at = line, *taints, *users;
        const char *size, *refcount, *state;
        struct blkup_modstate m = { 0 };
        int r;

        m.name = blkup_host_next_column(&at);
        size = blkup_host_next_column(&at);
        refcount = blkup_host_next_column(&at);
        users = blkup_host_next_column(&at);
        state = blkup_host_next_column(&at);
        (void) blkup_host_next_column(&at); /* the address: zeros for most readers, of no use to us */
        taints = blkup_host_next_column(&at);
        if (!*m.name || !*users || !*state || !blkup_host_number(size, strlen(size), &m.size_bytes))
                return 0;
        if (strcmp(refcount, "-") == 0)
                m.refcount = -1;
        else {
                uint32_t count;

                bool minus = *refcount == '-'; /* only for a moment, while a module goes */

                refcount += minus;
                if (!blkup_host_number32(refcount, strlen(refcount), &count) || count > INT32_MAX)
                        return 0;
                m.refcount = minus ? 0 : (int32_t) count;
        }
        m.state = read_state(state);
        if (*taints == '(') {
                taints++;
                taints[strcspn(taints, ")")] = '\0';
        }
        m.taints = taints;
        r = parse_users(t, users, &m);
        if (r < 0)
                return r;
        *ret = m;
        return 1;
}

/* Takes the text, of n bytes and a NUL. */
static int parse_owned(char *text, size_t n, struct blkup_modstates **ret)
{
        BLKUP_CLEANUP(free_tablep) struct table *t = NULL;
        char *at = text, *line;
        size_t cap = 0, first_user = 0;
        bool good;

        t = calloc(1, sizeof(*t));
        if (!t) {
                free(text);
                return -ENOMEM;
        }
        t->text = text;
        /* each turn moves at */
        while ((line = blkup_host_next_line(&at, text + n, BLKUP_MODSTATE_MAX_LINE, &good))) {
                struct blkup_modstate m;
                void *array = t->modules;
                int r;

                r = good ? parse_module(t, line, &m) : 0;
                if (r < 0)
                        return r;
                if (r == 0) {
                        t->public.n_bad_lines++;
                        continue;
                }
                r = blkup_host_reserve(&array, &cap, t->public.n, sizeof(m), BLKUP_MODSTATE_MAX_MODULES);
                if (r < 0)
                        return r;
                t->modules = array;
                t->modules[t->public.n++] = m;
        }
        /* Only now: the array of users has moved while it grew. */
        for (size_t i = 0; i < t->public.n; i++) {
                if (t->modules[i].n_users == 0)
                        continue;
                t->modules[i].users = t->users + first_user;
                first_user += t->modules[i].n_users;
        }
        t->public.modules = t->modules;
        *ret = &t->public;
        t = NULL;
        return 0;
}

int blkup_modstates_parse(const char *text, size_t n, struct blkup_modstates **ret)
{
        char *copy;
        int r;

        r = blkup_host_copy(text, n, BLKUP_MODSTATE_MAX_BYTES, &copy);
        return r < 0 ? r : parse_owned(copy, n, ret);
}

int blkup_modstates_load(const char *root, struct blkup_modstates **ret, struct blkup_error *err)
{
        char *text;
        size_t n;
        int r;

        r = blkup_host_read(root, "proc/modules", BLKUP_MODSTATE_MAX_BYTES, &text, &n);
        if (r == 0)
                r = parse_owned(text, n, ret);
        if (r == -ENOENT)
                return blkup_fail(err, r,
                                  "there is no %s/proc/modules: is /proc mounted, and can this kernel load "
                                  "modules?",
                                  root ? root : "");
        return r < 0 ? blkup_fail_errno(err, r, "%s/proc/modules", root ? root : "") : 0;
}

const struct blkup_modstate *blkup_modstates_by_name(const struct blkup_modstates *t, const char *name)
{
        for (size_t i = 0; t && i < t->n; i++)
                if (blkup_host_is_same_name(t->modules[i].name, name))
                        return &t->modules[i];
        return NULL;
}
