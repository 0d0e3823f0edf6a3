/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fstab, read with bounds on everything. A line that makes no sense is kept apart with its number and its
 * reason; the others go on.
 *
 * Source: fstab(5); where it is silent, what libmount 2.38 does (compared with it in
 * tests/unit/test-mount-fstab.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <blkup/mount.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "host/hostfile.h"
#include "mount/names.h"
#include "mount/options.h"

#define MAX_BYTES (4u << 20)
#define MAX_ENTRIES 65536u
#define MAX_LINE (64u << 10)

struct table {
        struct blkup_fstab public; /* first: callers hold a pointer to it */
        char *text;
        struct blkup_fstab_entry *entries;
        size_t cap;
        struct blkup_fstab_bad *bad;
        size_t bad_cap;
};

/* The tags that a source may be given by. */
static const char *const tag_names[] = { "UUID", "LABEL", "PARTUUID", "PARTLABEL", "ID" };

bool blkup_mount_split_tag(const char *source, const char **ret_name, const char **ret_value)
{
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(tag_names); i++) {
                size_t n = strlen(tag_names[i]);

                if (strncmp(source, tag_names[i], n) == 0 && source[n] == '=') {
                        *ret_name = tag_names[i];
                        *ret_value = source + n + 1;
                        return true;
                }
        }
        return false;
}

bool blkup_mount_is_type_name(const char *s)
{
        size_t n = strlen(s);

        if (n == 0 || n > 48 || s[0] == '.' || s[0] == '-')
                return false;
        for (size_t i = 0; i < n; i++) {
                char c = s[i];

                if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '_' || c == '-' || c == '+'))
                        return false;
        }
        return true;
}

static bool is_blank(char c)
{
        return c == ' ' || c == '\t';
}

/* Cuts the next field off. A tag's value in double quotes may hold blanks: LABEL="Foo Bar" is one field. */
static char *next_field(char **at, bool may_be_tag, const char **ret_why)
{
        char *s = *at, *field;
        const char *name, *value;

        while (is_blank(*s))
                s++;
        field = s;
        if (may_be_tag && blkup_mount_split_tag(s, &name, &value) && *value == '"') {
                char *end = strchr(field + (value - field) + 1, '"');

                if (!end) {
                        *ret_why = "a quotation mark is missing";
                        return NULL;
                }
                s = end + 1;
                if (*s && !is_blank(*s)) {
                        *ret_why = "text behind a quotation mark";
                        return NULL;
                }
        }
        while (*s && !is_blank(*s))
                s++;
        if (*s)
                *s++ = '\0';
        *at = s;
        return field;
}

static bool has_bad_escape(const char *s)
{
        /* \000 would end the text early; other backslashes without three digits stay as they are. */
        for (; (s = strchr(s, '\\')); s++)
                if (strncmp(s, "\\000", 4) == 0)
                        return true;
        return false;
}

static bool has_control(const char *s)
{
        for (; *s; s++)
                if ((unsigned char) *s < 0x20 && *s != '\t' && *s != '\n')
                        return true;
        return false;
}

/* Escapes of an option list: decoded but for a comma or a quotation mark, which would cut it differently. */
static void decode_options(char *s)
{
        char *to = s;

        /* Ends: each turn goes past at least one character. */
        while (*s) {
                if (strncmp(s, "\\054", 4) == 0 || strncmp(s, "\\042", 4) == 0) {
                        memmove(to, s, 4);
                        to += 4;
                        s += 4;
                } else if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
                           s[3] >= '0' && s[3] <= '7') {
                        *to++ = (char) ((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
                        s += 4;
                } else {
                        *to++ = *s++;
                }
        }
        *to = '\0';
}

static const char *check_types(const char *types)
{
        const char *at = types;
        char name[64];

        if (strncmp(at, "no", 2) == 0 && strchr(at, ','))
                at += 2;
        /* Ends: each turn goes past one name. */
        for (;;) {
                size_t n = strcspn(at, ",");

                if (n == 0 || n >= sizeof(name))
                        return "the type is no name";
                memcpy(name, at, n);
                name[n] = '\0';
                if (!blkup_mount_is_type_name(name))
                        return "the type is no name";
                if (!at[n])
                        return NULL;
                at += n + 1;
        }
}

/* The decoded source, without the quotes of a tag. */
void blkup_mount_unquote_tag(char *source)
{
        const char *name, *value;
        size_t n;

        if (!blkup_mount_split_tag(source, &name, &value))
                return;
        n = strlen(value);
        if (n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n - 1] == value[0]) {
                char *at = source + (value - source);

                memmove(at, at + 1, n - 2);
                at[n - 2] = '\0';
        }
}

static const char *take_source(char *s)
{
        const char *name, *value;

        blkup_host_unescape(s);
        if (!*s)
                return "the source is empty";
        if (!blkup_mount_split_tag(s, &name, &value))
                return NULL;
        blkup_mount_unquote_tag(s);
        return *value ? NULL : "the tag has no value";
}

static const char *take_number(char **at, int *ret)
{
        const char *why = NULL;
        char *field = next_field(at, false, &why);
        uint32_t v;

        *ret = 0;
        if (!*field)
                return NULL;
        if (*field == '#') {
                *at += strlen(*at); /* a remark behind the fields: libmount lets it pass, too */
                return NULL;
        }
        if (!blkup_host_number32(field, strlen(field), &v) || v > 1000000)
                return "field 5 or 6 is no number";
        *ret = (int) v;
        return NULL;
}

static const char *check_options(const char *text)
{
        struct blkup_mount_options o;
        char key[64];
        int r = blkup_mount_options_parse(text, &o, key, sizeof(key));

        if (r == 0) {
                blkup_mount_options_free(&o);
                return NULL;
        }
        return r == -E2BIG ? "too many options" : r == -EINVAL ? "an option makes no sense" : "out of memory";
}

/* Fills *e from a line that may be cut up; NULL, or why not. */
static const char *parse_line(char *line, struct blkup_fstab_entry *e)
{
        const char *why = NULL;
        char *source, *target, *types, *options, *rest;
        bool is_swap;

        source = next_field(&line, true, &why);
        if (!source)
                return why;
        target = next_field(&line, false, &why);
        types = next_field(&line, false, &why);
        options = next_field(&line, false, &why);
        if (!*target)
                return "only one field";
        if (!*types)
                return "only two fields: the type is missing";
        if (has_bad_escape(source) || has_bad_escape(target) || has_bad_escape(options))
                return "\\000 in a field";
        if (*options == '#') {
                options = line + strlen(line);
                line = options;
        }
        why = take_source(source);
        if (why)
                return why;
        blkup_host_unescape(target);
        decode_options(options);
        if (has_control(source) || has_control(target) || has_control(types) || has_control(options))
                return "a control character";
        why = check_types(types);
        if (why)
                return why;
        is_swap = strcmp(types, "swap") == 0 || strcmp(types, "ignore") == 0;
        if (!is_swap && target[0] != '/' && strcmp(target, "none") != 0 && strcmp(target, "swap") != 0)
                return "the mount point is no absolute path";
        if (strlen(target) >= 4096)
                return "the mount point is too long";
        why = check_options(options);
        if (why)
                return why;
        if (take_number(&line, &e->freq) || take_number(&line, &e->passno))
                return "field 5 or 6 is no number";
        rest = next_field(&line, false, &why);
        if (*rest && *rest != '#')
                return "more than six fields";
        e->source = source;
        e->target = target;
        e->types = types;
        e->options = *options ? options : "defaults";
        return NULL;
}

static int add_bad(struct table *t, unsigned line, const char *why)
{
        int r = blkup_host_reserve((void **) &t->bad, &t->bad_cap, t->public.n_bad, sizeof(*t->bad),
                                   MAX_ENTRIES);

        if (r == 0)
                t->bad[t->public.n_bad++] = (struct blkup_fstab_bad){ line, why };
        return r;
}

static int parse_text(struct table *t, char *end)
{
        char *at = t->text, *line;
        unsigned number = 0;
        bool good;
        int r = 0;

        /* Ends: each turn goes past one line. */
        while (r == 0 && (line = blkup_host_next_line(&at, end, MAX_LINE, &good))) {
                struct blkup_fstab_entry e = { .line = ++number };
                const char *why;
                size_t n = good ? strlen(line) : 0;

                if (!good) {
                        r = add_bad(t, number, "a NUL byte, or longer than 65536 bytes");
                        continue;
                }
                if (n > 0 && line[n - 1] == '\r')
                        line[n - 1] = '\0';
                while (is_blank(*line))
                        line++;
                if (!*line || *line == '#')
                        continue;
                why = parse_line(line, &e);
                if (why) {
                        r = add_bad(t, number, why);
                        continue;
                }
                r = blkup_host_reserve((void **) &t->entries, &t->cap, t->public.n, sizeof(*t->entries),
                                       MAX_ENTRIES);
                if (r == 0)
                        t->entries[t->public.n++] = e;
        }
        t->public.entries = t->entries;
        t->public.bad = t->bad;
        return r;
}

int blkup_fstab_parse(const char *text, size_t n, struct blkup_fstab **ret)
{
        struct table *t = calloc(1, sizeof(*t));
        int r;

        if (!t)
                return -ENOMEM;
        r = blkup_host_copy(text, n, MAX_BYTES, &t->text);
        if (r == 0)
                r = parse_text(t, t->text + n);
        if (r < 0) {
                blkup_fstab_free(&t->public);
                return r;
        }
        *ret = &t->public;
        return 0;
}

int blkup_fstab_load(const char *path, struct blkup_fstab **ret, struct blkup_error *err)
{
        BLKUP_CLEANUP_FREE char *text = NULL;
        size_t n;
        int r = blkup_host_read_named(path, MAX_BYTES, &text, &n);

        if (r == 0)
                r = blkup_fstab_parse(text, n, ret);
        return r < 0 ? blkup_fail_errno(err, r, "%s", path) : 0;
}

struct blkup_fstab *blkup_fstab_free(struct blkup_fstab *t)
{
        struct table *all = (struct table *) t;

        if (!all)
                return NULL;
        free(all->text);
        free(all->entries);
        free(all->bad);
        free(all);
        return NULL;
}

bool blkup_fstab_has_option(const struct blkup_fstab_entry *e, const char *name)
{
        const char *at = e->options, *word;
        size_t len, n = strlen(name);

        while (blkup_mount_next_option(&at, &word, &len))
                if (len >= n && strncmp(word, name, n) == 0 && (len == n || word[n] == '='))
                        return true;
        return false;
}

bool blkup_mount_is_in_types(const char *list, const char *type)
{
        bool no, found = false;

        if (!list || !*list || strcmp(list, "auto") == 0)
                return true;
        no = strncmp(list, "no", 2) == 0;
        if (no)
                list += 2;
        /* Ends: each turn goes past one name. */
        for (;;) {
                size_t n = strcspn(list, ",");

                if (strlen(type) == n && strncmp(list, type, n) == 0)
                        found = true;
                if (!list[n])
                        return found != no;
                list += n + 1;
                /* "noext4,noxfs" is written too */
                if (no && strncmp(list, "no", 2) == 0 && strncmp(list, "none", 4) != 0)
                        list += 2;
        }
}
