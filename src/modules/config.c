/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "modules/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/cmdline.h"
#include "host/hostfile.h"
#include "modules/name.h"

static const char *const folders[] = {
        "etc/modprobe.d",     "run/modprobe.d", "usr/local/lib/modprobe.d",
        "usr/lib/modprobe.d", "lib/modprobe.d",
};

/* A file to read: its base name decides the order, its path is what is opened. */
struct file {
        const char *base, *path;
};

static int add_line(struct blkup_modconf *c, const struct blkup_modconf_line *line)
{
        int r = blkup_host_reserve((void **) &c->lines, &c->cap, c->n, sizeof(*c->lines),
                                   BLKUP_MODCONF_MAX_LINES);

        if (r < 0)
                return r;
        c->lines[c->n++] = *line;
        c->by_kind[line->kind]++;
        return 0;
}


/* Cuts the next word off a line; NULL: none. */
static char *next_word(char **at)
{
        char *word = *at + strspn(*at, " \t"), *end;

        if (!*word)
                return NULL;
        end = word + strcspn(word, " \t");
        *at = *end ? end + 1 : end;
        *end = '\0';
        return word;
}

/* "-" as "_", in place. */
static bool normalise(char *s)
{
        char out[BLKUP_MODULE_ALIAS_CAP];
        size_t n = strlen(s);

        if (blkup_module_alias(s, n, out, sizeof(out)) < 0)
                return false;
        memcpy(s, out, n + 1);
        return true;
}

/* "[pre: A B] [post: C]": names before the first keyword are ignored, as kmod does. Weak dependencies have no
 * keywords. */
static int parse_dependencies(struct blkup_modconf *c, char *text, struct blkup_modconf_line *line)
{
        size_t room = strlen(text) / 2 + 1;
        const char **pre = blkup_host_pool_take(&c->pool, 2 * room * sizeof(*pre)), **post;
        enum { NOWHERE, PRE, POST } mode = line->kind == BLKUP_MODCONF_WEAKDEP ? PRE : NOWHERE;
        char *word, *state = NULL;

        if (!pre)
                return -ENOMEM;
        post = pre + room;
        /* Ends: each word takes characters of the text. */
        for (word = strtok_r(text, " \t\n\r\v\f", &state); word;
             word = strtok_r(NULL, " \t\n\r\v\f", &state)) {
                if (line->kind == BLKUP_MODCONF_SOFTDEP && strcmp(word, "pre:") == 0)
                        mode = PRE;
                else if (line->kind == BLKUP_MODCONF_SOFTDEP && strcmp(word, "post:") == 0)
                        mode = POST;
                else if (mode == PRE)
                        pre[line->n_pre++] = word;
                else if (mode == POST)
                        post[line->n_post++] = word;
        }
        line->pre = pre;
        line->post = post;
        return 0;
}

/* One joined line. 1: no line that we know. */
static int parse_line(struct blkup_modconf *c, char *text)
{
        static const char *const words[BLKUP_MODCONF_KINDS] = {
                [BLKUP_MODCONF_BLACKLIST] = "blacklist", [BLKUP_MODCONF_INSTALL] = "install",
                [BLKUP_MODCONF_REMOVE] = "remove",       [BLKUP_MODCONF_ALIAS] = "alias",
                [BLKUP_MODCONF_OPTIONS] = "options",     [BLKUP_MODCONF_SOFTDEP] = "softdep",
                [BLKUP_MODCONF_WEAKDEP] = "weakdep",
        };
        struct blkup_modconf_line line = { .text = "" };
        char *word, *name;
        int r = 0;

        if (*text == '#' || !*text)
                return 0;
        word = next_word(&text);
        if (!word)
                return 0;
        for (line.kind = 0; line.kind < BLKUP_MODCONF_KINDS; line.kind++)
                if (strcmp(words[line.kind], word) == 0)
                        break;
        if (line.kind == BLKUP_MODCONF_KINDS)
                return 1;
        name = next_word(&text);
        if (!name || !normalise(name))
                return 1;
        line.name = name;
        switch (line.kind) {
        case BLKUP_MODCONF_BLACKLIST:
                break;
        case BLKUP_MODCONF_ALIAS: {
                char *module = next_word(&text);

                if (!module || !normalise(module))
                        return 1;
                line.text = module;
                break;
        }
        case BLKUP_MODCONF_SOFTDEP:
        case BLKUP_MODCONF_WEAKDEP:
                r = parse_dependencies(c, text, &line);
                break;
        default:
                if (!*text)
                        return 1;
                /* kmod 30: blanks of parameters are all spaces; those of commands stay. */
                for (char *tab = text; line.kind == BLKUP_MODCONF_OPTIONS && (tab = strchr(tab, '\t'));)
                        *tab = ' ';
                line.text = text;
                break;
        }
        return r < 0 ? r : add_line(c, &line);
}

int blkup_modconf_parse(struct blkup_modconf *c, const char *text, size_t n)
{
        char *copy = blkup_host_pool_text(&c->pool, text, n);
        size_t at = 0, to;

        if (!copy)
                return -ENOMEM;
        /* Ends: each turn takes a line. A backslash before a newline joins lines; before anything else it
         * only means that the next character is itself, as kmod 30 answers. */
        while (at < n) {
                char *line = copy + at;
                bool has_nul = false;
                int r;

                for (to = at; at < n && copy[at] != '\n'; at++) {
                        if (copy[at] == '\\' && at + 1 < n && copy[++at] == '\n')
                                continue;
                        has_nul |= copy[at] == '\0';
                        copy[to++] = copy[at];
                }
                at++;
                copy[to] = '\0';
                r = has_nul ? 1 : parse_line(c, line);
                if (r < 0)
                        return r;
                c->n_bad_lines += r > 0;
        }
        return 0;
}

static int add_blacklist(struct blkup_modconf *c, const char *list)
{
        char *copy = blkup_host_pool_text(&c->pool, list, strlen(list));
        char *state = NULL;

        if (!copy)
                return -ENOMEM;
        for (char *name = strtok_r(copy, ",", &state); name; name = strtok_r(NULL, ",", &state)) {
                struct blkup_modconf_line line = { .kind = BLKUP_MODCONF_BLACKLIST,
                                                   .name = name,
                                                   .text = "" };
                int r = normalise(name) ? add_line(c, &line) : 0;

                if (r < 0)
                        return r;
        }
        return 0;
}

/* NAME.PARAM or NAME.PARAM=VALUE: an option of module NAME. Quotes were taken off, and come back around a
 * value with blanks. */
static int add_module_option(struct blkup_modconf *c, const struct blkup_cmdline_word *w)
{
        const char *dot = strchr(w->key, '.');
        struct blkup_modconf_line line = { .kind = BLKUP_MODCONF_OPTIONS };
        size_t n;
        char *name, *text;
        bool quote;

        if (!dot || dot == w->key || !dot[1] || strpbrk(w->key, "\"[]/ \t"))
                return 0;
        name = blkup_host_pool_text(&c->pool, w->key, (size_t) (dot - w->key));
        if (!name)
                return -ENOMEM;
        if (!normalise(name) || !blkup_module_is_name(name))
                return 0;
        quote = w->value && strpbrk(w->value, " \t\n\v\f\r");
        n = strlen(dot + 1) + (w->value ? strlen(w->value) + 3 : 0) + 1;
        text = blkup_host_pool_take(&c->pool, n);
        if (!text)
                return -ENOMEM;
        (void) snprintf(text, n, "%s%s%s%s%s", dot + 1, w->value ? "=" : "", quote ? "\"" : "",
                        w->value ? w->value : "", quote ? "\"" : "");
        line.name = name;
        line.text = text;
        return add_line(c, &line);
}

static void free_cmdlinep(struct blkup_cmdline **c)
{
        *c = blkup_cmdline_free(*c);
}

int blkup_modconf_parse_cmdline(struct blkup_modconf *c, const char *text, size_t n)
{
        __attribute__((cleanup(free_cmdlinep))) struct blkup_cmdline *words = NULL;
        int r = blkup_cmdline_parse(text, n, &words);

        for (size_t i = 0; r == 0 && i < words->n; i++) {
                const struct blkup_cmdline_word *w = &words->words[i];

                if (w->is_for_init)
                        continue;
                if (blkup_host_is_same_name(w->key, "modprobe.blacklist"))
                        r = w->value ? add_blacklist(c, w->value) : 0;
                else
                        r = add_module_option(c, w);
        }
        return r;
}

static int compare_files(const void *a, const void *b)
{
        return strcmp(((const struct file *) a)->base, ((const struct file *) b)->base);
}

/* The files of one folder that no higher folder hides. */
static int list_folder(struct blkup_modconf *c, const char *root, const char *folder, struct file **files,
                       size_t *cap, size_t *n)
{
        const char *const *names = NULL;
        size_t n_names = 0, n_higher = *n;
        int fd = blkup_host_open(root, folder, O_RDONLY | O_DIRECTORY), r;

        if (fd < 0)
                return 0;
        r = blkup_host_list(&c->pool, fd, BLKUP_MODCONF_MAX_FILES, &names, &n_names);
        for (size_t i = 0; r == 0 && i < n_names; i++) {
                size_t len = strlen(names[i]), room = strlen(folder) + 1 + len + 1;
                bool is_hidden = false;
                char *path;

                if (len < 5 || strcmp(names[i] + len - 5, ".conf") != 0 || names[i][0] == '.')
                        continue;
                for (size_t k = 0; k < n_higher && !is_hidden; k++)
                        is_hidden = strcmp((*files)[k].base, names[i]) == 0;
                if (is_hidden)
                        continue;
                path = blkup_host_pool_take(&c->pool, room);
                if (!path)
                        return -ENOMEM;
                (void) snprintf(path, room, "%s/%s", folder, names[i]);
                r = blkup_host_reserve((void **) files, cap, *n, sizeof(**files),
                                       8 * BLKUP_MODCONF_MAX_FILES);
                if (r == 0)
                        (*files)[(*n)++] = (struct file){ names[i], path };
        }
        return r;
}

static int add_kernel_file(struct blkup_modconf *c, const char *kernel_dir, const char *base,
                           struct file **files, size_t *cap, size_t *n)
{
        size_t room = strlen(kernel_dir) + 1 + strlen(base) + 1;
        char *path = blkup_host_pool_take(&c->pool, room);
        int r;

        if (!path)
                return -ENOMEM;
        (void) snprintf(path, room, "%s/%s", kernel_dir, base);
        r = blkup_host_reserve((void **) files, cap, *n, sizeof(**files), 8 * BLKUP_MODCONF_MAX_FILES);
        if (r == 0)
                (*files)[(*n)++] = (struct file){ base, path };
        return r;
}

static int load_file(struct blkup_modconf *c, const char *root, const char *path, bool is_cmdline)
{
        BLKUP_CLEANUP_FREE char *text = NULL;
        size_t n = 0;
        int r = blkup_host_read(root, path, BLKUP_MODCONF_MAX_BYTES, &text, &n);

        if (r == -ENOMEM || r == -EFBIG)
                return r;
        if (r < 0)
                return 0;
        return is_cmdline ? blkup_modconf_parse_cmdline(c, text, n) : blkup_modconf_parse(c, text, n);
}

int blkup_modconf_load(const char *root, const char *kernel_dir, struct blkup_modconf *ret,
                       struct blkup_error *err)
{
        BLKUP_CLEANUP_FREE struct file *files = NULL;
        struct blkup_modconf c = { 0 };
        size_t cap = 0, n = 0;
        int r = 0;

        for (size_t i = 0; r == 0 && i < BLKUP_ARRAY_SIZE(folders); i++)
                r = list_folder(&c, root, folders[i], &files, &cap, &n);
        if (r == 0 && kernel_dir)
                r = add_kernel_file(&c, kernel_dir, "modules.softdep", &files, &cap, &n);
        if (r == 0 && kernel_dir)
                r = add_kernel_file(&c, kernel_dir, "modules.weakdep", &files, &cap, &n);
        if (r == 0 && n > 0)
                qsort(files, n, sizeof(*files), compare_files);
        for (size_t i = 0; r == 0 && i < n; i++) {
                r = load_file(&c, root, files[i].path, false);
                if (r < 0)
                        (void) blkup_fail_errno(err, r, "%s", files[i].path);
        }
        if (r == 0)
                r = load_file(&c, root, "proc/cmdline", true);
        if (r < 0) {
                blkup_modconf_free(&c);
                return err && err->code ? r : blkup_fail_errno(err, r, "configuration of modules");
        }
        *ret = c;
        return 0;
}

void blkup_modconf_free(struct blkup_modconf *c)
{
        blkup_host_pool_free(&c->pool);
        free(c->lines);
        *c = (struct blkup_modconf){ 0 };
}

bool blkup_modconf_is_blacklisted(const struct blkup_modconf *c, const char *name)
{
        for (size_t i = 0; c->by_kind[BLKUP_MODCONF_BLACKLIST] && i < c->n; i++)
                if (c->lines[i].kind == BLKUP_MODCONF_BLACKLIST && strcmp(c->lines[i].name, name) == 0)
                        return true;
        return false;
}

const char *blkup_modconf_command(const struct blkup_modconf *c, enum blkup_modconf_kind kind,
                                  const char *name)
{
        for (size_t i = 0; c->by_kind[kind] && i < c->n; i++)
                if (c->lines[i].kind == kind && blkup_module_matches(c->lines[i].name, name))
                        return c->lines[i].text;
        return NULL;
}
