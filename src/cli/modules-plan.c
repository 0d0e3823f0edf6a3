/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests, and what they mean: `modules plan`, `modprobe -D`, `-R`, `-c`, `-n -v`. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/modules.h"
#include "cli/output.h"
#include "host/hostfile.h"
#include "host/modstate.h"
#include "host/sysfs.h"

#define MAX_REQUESTS (1u << 20)
#define MAX_LIST_BYTES (64u << 20)

int blkup_cli_requests_add(struct blkup_cli_requests *r, const char *text, size_t n)
{
        int err = blkup_host_reserve((void **) &r->v, &r->cap, r->n, sizeof(*r->v), MAX_REQUESTS);

        if (err < 0)
                return err;
        r->v[r->n] = strndup(text, n);
        if (!r->v[r->n])
                return -ENOMEM;
        r->n++;
        return 0;
}

void blkup_cli_requests_free(struct blkup_cli_requests *r)
{
        for (size_t i = 0; i < r->n; i++)
                free(r->v[i]);
        free(r->v);
        *r = (struct blkup_cli_requests){ 0 };
}

int blkup_cli_requests_read(struct blkup_cli_requests *r, const char *path)
{
        FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
        BLKUP_CLEANUP_FREE char *line = NULL;
        size_t cap = 0, total = 0;
        ssize_t len;
        int err = 0;

        if (!f)
                return -errno;
        errno = 0;
        /* Ends: with the file, or at the limit. */
        while (err == 0 && (len = getline(&line, &cap, f)) >= 0) {
                size_t n = (size_t) len, skip = strspn(line, " \t");

                total += n;
                while (n > skip && strchr(" \t\r\n", line[n - 1]))
                        n--;
                if (total > MAX_LIST_BYTES)
                        err = -EFBIG;
                else if (n > skip && line[skip] != '#')
                        err = strlen(line) < n ? -EINVAL : blkup_cli_requests_add(r, line + skip, n - skip);
        }
        if (err == 0 && ferror(f))
                err = errno ? -errno : -EIO;
        if (f != stdin)
                (void) fclose(f);
        return err;
}

int blkup_cli_requests_coldplug(struct blkup_cli_requests *r, const char *root, struct blkup_error *err)
{
        struct blkup_modaliases *t = NULL;
        int e = blkup_modaliases_load(root, &t, err);

        for (size_t i = 0; e == 0 && i < t->n; i++)
                e = blkup_cli_requests_add(r, t->aliases[i], strlen(t->aliases[i]));
        if (t)
                (void) blkup_modaliases_free(t);
        return e;
}

char *blkup_cli_join_options(char **words, size_t n)
{
        char *text = NULL;
        size_t len = 0;
        FILE *f = open_memstream(&text, &len);

        if (!f)
                return NULL;
        for (size_t i = 0; i < n; i++) {
                const char *equal = strchr(words[i], '=');
                bool quote = equal && strpbrk(equal, " \t") && equal[1] != '"';

                (void) fprintf(f, "%s%.*s", i ? " " : "", equal ? (int) (equal + 1 - words[i]) : 0, words[i]);
                (void) fprintf(f, "%s%s%s", quote ? "\"" : "", equal ? equal + 1 : words[i],
                               quote ? "\"" : "");
        }
        if (fclose(f) != 0) {
                free(text);
                return NULL;
        }
        return text;
}

static const char *action_name(enum blkup_module_action a)
{
        switch (a) {
        case BLKUP_MODULE_INSMOD:
                return "insmod";
        case BLKUP_MODULE_INSTALL:
                return "install";
        case BLKUP_MODULE_BUILTIN:
                return "builtin";
        case BLKUP_MODULE_MISSING:
                return "missing";
        }
        return "missing";
}

/* Nothing here decodes: paths and options are printed as modprobe prints them. */
static void print_step(const struct blkup_module_step *s)
{
        switch (s->action) {
        case BLKUP_MODULE_INSMOD:
                printf("insmod %s %s\n", s->path, s->options);
                break;
        case BLKUP_MODULE_INSTALL:
                printf("install %s %s\n", s->command, s->options);
                break;
        case BLKUP_MODULE_BUILTIN:
                printf("builtin %s\n", s->name);
                break;
        case BLKUP_MODULE_MISSING:
                break;
        }
}

static void json_list(struct blkup_json *j, const char *key, const struct blkup_module_node *nodes,
                      const uint32_t *v, uint32_t n)
{
        blkup_json_key(j, key);
        blkup_json_begin_array(j);
        for (uint32_t i = 0; i < n; i++)
                blkup_json_string(j, nodes[v[i]].name);
        blkup_json_end_array(j);
}

static int print_json(struct blkup_module_plan *p, const struct blkup_modules *m)
{
        const struct blkup_module_node *nodes = NULL;
        struct blkup_json j;
        size_t n = 0;
        int r = blkup_module_plan_nodes(p, &nodes, &n);

        if (r < 0)
                return r;
        blkup_json_init(&j, blkup_cli_file_sink, stdout, true);
        blkup_json_begin_object(&j);
        blkup_json_key(&j, "release");
        blkup_json_string(&j, blkup_modules_release(m));
        blkup_json_key(&j, "modules");
        blkup_json_begin_array(&j);
        for (size_t i = 0; i < n; i++) {
                blkup_json_begin_object(&j);
                blkup_json_key(&j, "name");
                blkup_json_string(&j, nodes[i].name);
                blkup_json_key(&j, "action");
                blkup_json_string(&j, action_name(nodes[i].action));
                blkup_json_key(&j, "path");
                if (*nodes[i].path)
                        blkup_json_string(&j, nodes[i].path);
                else
                        blkup_json_null(&j);
                blkup_json_key(&j, "options");
                blkup_json_string(&j, nodes[i].options);
                if (nodes[i].command) {
                        blkup_json_key(&j, "command");
                        blkup_json_string(&j, nodes[i].command);
                }
                blkup_json_key(&j, "required");
                blkup_json_bool(&j, nodes[i].is_required);
                json_list(&j, "needs", nodes, nodes[i].needs, nodes[i].n_needs);
                json_list(&j, "after", nodes, nodes[i].after, nodes[i].n_after);
                blkup_json_end_object(&j);
        }
        blkup_json_end_array(&j);
        blkup_json_end_object(&j);
        blkup_json_newline(&j);
        return blkup_json_finish(&j);
}

void blkup_cli_modules_explain_missing(const char *command, const struct blkup_modules *m,
                                       const char *request)
{
        if (!blkup_modules_has_folder(m))
                blkup_cli_error(command,
                                "%s: not found: there is no %s; is this the kernel that is meant (-S)?",
                                request, blkup_modules_folder(m));
        else if (!blkup_modules_has_index(m))
                blkup_cli_error(command, "%s: not found: %s has no modules.dep.bin; run depmod %s first",
                                request, blkup_modules_folder(m), blkup_modules_release(m));
        else
                blkup_cli_error(command, "%s: not found in %s", request, blkup_modules_folder(m));
}

static int print_line(void *arg, const char *line)
{
        (void) arg;
        printf("%s\n", line);
        return 0;
}

static int print_name(void *arg, const char *module)
{
        ++*(size_t *) arg;
        printf("%s\n", module);
        return 0;
}

static int report(const struct blkup_cli_modules_plan *o, const struct blkup_modules *m, const char *request,
                  int r, size_t n_found)
{
        if (r == 0 && n_found > 0)
                return BLKUP_CLI_MODULES_OK;
        if (r == 0 && o->lenient)
                return BLKUP_CLI_MODULES_OK;
        if (o->quiet && r == 0)
                return BLKUP_CLI_MODULES_FAILED;
        if (r == 0)
                blkup_cli_modules_explain_missing(o->command, m, request);
        else if (r == -EINVAL)
                blkup_cli_error(o->command, "'%s' is no name of a module: no '/', no control characters, "
                                "brackets in pairs", request);
        else
                blkup_cli_error(o->command, "%s: %s", request, blkup_error_text(-r));
        return BLKUP_CLI_MODULES_FAILED;
}

static int resolve(const struct blkup_modules *m, const struct blkup_cli_modules_plan *o,
                   const struct blkup_cli_requests *q)
{
        int code = BLKUP_CLI_MODULES_OK;

        for (size_t i = 0; i < q->n; i++) {
                size_t n = 0;
                int r = blkup_modules_resolve(m, q->v[i], print_name, &n), c = report(o, m, q->v[i], r, n);

                if (code == BLKUP_CLI_MODULES_OK)
                        code = c;
        }
        return code;
}

int blkup_cli_modules_plan(const struct blkup_modules *m, const struct blkup_cli_modules_plan *o,
                           const struct blkup_cli_requests *q)
{
        struct blkup_module_plan *p = NULL;
        int code = BLKUP_CLI_MODULES_OK, r;

        if (o->show == BLKUP_CLI_MODULES_DUMP) {
                r = blkup_modules_dump(m, print_line, NULL);
                if (r < 0)
                        blkup_cli_error(o->command, "%s: %s", blkup_modules_folder(m), blkup_error_text(-r));
                return r < 0 ? BLKUP_CLI_MODULES_FAILED : BLKUP_CLI_MODULES_OK;
        }
        if (o->show == BLKUP_CLI_MODULES_RESOLVE)
                return resolve(m, o, q);
        r = blkup_module_plan_new(m, o->flags, &p);
        for (size_t i = 0; r == 0 && i < q->n; i++) {
                size_t n_found = 0;
                int e = blkup_module_plan_add(p, q->v[i], o->options, &n_found),
                    c = report(o, m, q->v[i], e, n_found);

                if (code == BLKUP_CLI_MODULES_OK)
                        code = c;
        }
        if (r == 0 && o->json)
                r = print_json(p, m);
        else if (r == 0 && !o->silent_steps)
                for (size_t i = 0; i < blkup_module_plan_n_steps(p); i++)
                        print_step(blkup_module_plan_step(p, i));
        (void) blkup_module_plan_free(p);
        blkup_cli_note_stdout();
        if (r < 0 && !ferror(stdout)) {
                blkup_cli_error(o->command, "cannot print: %s", blkup_error_text(-r));
                code = BLKUP_CLI_MODULES_FAILED;
        }
        return code;
}

/* ---- lsmod ---- */

static int list_json(const struct blkup_modstates *t)
{
        static const char *const states[] = { "live", "coming", "going", "unknown" };
        struct blkup_json j;

        blkup_json_init(&j, blkup_cli_file_sink, stdout, true);
        blkup_json_begin_object(&j);
        blkup_json_key(&j, "modules");
        blkup_json_begin_array(&j);
        for (size_t i = 0; i < t->n; i++) {
                const struct blkup_modstate *s = &t->modules[i];

                blkup_json_begin_object(&j);
                blkup_json_key(&j, "name");
                blkup_json_string(&j, s->name);
                blkup_json_key(&j, "size");
                blkup_json_u64(&j, s->size_bytes);
                blkup_json_key(&j, "refcount");
                blkup_json_i64(&j, s->refcount);
                blkup_json_key(&j, "users");
                blkup_json_begin_array(&j);
                for (size_t k = 0; k < s->n_users; k++)
                        blkup_json_string(&j, s->users[k]);
                blkup_json_end_array(&j);
                blkup_json_key(&j, "state");
                blkup_json_string(&j, states[s->state]);
                blkup_json_end_object(&j);
        }
        blkup_json_end_array(&j);
        blkup_json_end_object(&j);
        blkup_json_newline(&j);
        return blkup_json_finish(&j);
}

int blkup_cli_modules_list(const char *command, const char *root, bool json)
{
        struct blkup_error err = { 0 };
        struct blkup_modstates *t = NULL;
        int r = blkup_modstates_load(root, &t, &err);

        if (r < 0) {
                blkup_cli_error(command, "%s", err.message);
                return BLKUP_CLI_MODULES_FAILED;
        }
        if (json) {
                r = list_json(t);
        } else {
                printf("Module                  Size  Used by\n");
                for (size_t i = 0; i < t->n; i++) {
                        const struct blkup_modstate *s = &t->modules[i];

                        printf("%-19s %8llu  %d ", s->name, (unsigned long long) s->size_bytes, s->refcount);
                        for (size_t k = 0; k < s->n_users; k++)
                                printf("%s%s", k ? "," : "", s->users[k]);
                        printf("\n");
                }
        }
        (void) blkup_modstates_free(t);
        blkup_cli_note_stdout();
        return r < 0 ? BLKUP_CLI_MODULES_FAILED : BLKUP_CLI_MODULES_OK;
}
