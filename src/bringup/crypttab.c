/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bringup/crypttab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/hostfile.h"

#define MAX_LINE 8192u
#define MAX_NAME 127u /* DM_NAME_LEN is 128 with its NUL (linux/dm-ioctl.h) */

struct table {
        struct blkup_crypttab public; /* first: callers hold a pointer to it */
        char *text;
        struct blkup_crypttab_line *lines;
        size_t cap;
        struct blkup_crypttab_bad *bad;
        size_t bad_cap;
};

static const char *take_number(const char *value, uint64_t *ret)
{
        return blkup_host_number(value, strlen(value), ret) ? NULL : "a number is expected";
}

/* NULL, or why the line cannot be followed. An option that is not known is left alone, as crypttab(5) has it.
 */
static const char *take_option(struct blkup_crypttab_line *l, char *option)
{
        char *value = strchr(option, '=');

        if (value)
                *value++ = '\0';
        if (strcmp(option, "noauto") == 0)
                l->is_noauto = true;
        else if (strcmp(option, "readonly") == 0 || strcmp(option, "read-only") == 0)
                l->is_read_only = true;
        else if (strcmp(option, "discard") == 0 || strcmp(option, "allow-discards") == 0)
                l->allows_discards = true;
        else if (strcmp(option, "plain") == 0 || strcmp(option, "swap") == 0 || strcmp(option, "tmp") == 0 ||
                 strcmp(option, "tcrypt") == 0 || strcmp(option, "tcrypt-hidden") == 0 ||
                 strcmp(option, "tcrypt-system") == 0 || strcmp(option, "bitlk") == 0)
                return "only LUKS is opened here";
        else if (strcmp(option, "keyscript") == 0)
                return "a keyscript is not run";
        else if (strcmp(option, "pkcs11-uri") == 0 || strcmp(option, "fido2-device") == 0 ||
                 strcmp(option, "tpm2-device") == 0)
                return "keys of a token are not asked for";
        else if (strcmp(option, "keyfile-offset") == 0 && value)
                return take_number(value, &l->key_offset);
        else if (strcmp(option, "keyfile-size") == 0 && value)
                return take_number(value, &l->key_size);
        else if (strcmp(option, "header") == 0) {
                if (!value || *value != '/')
                        return "header= is no absolute path";
                l->header = value;
        }
        return NULL;
}

static const char *take_line(struct blkup_crypttab_line *l, char *line)
{
        char *at = line, *key, *options;

        l->name = blkup_host_next_column(&at);
        l->source = blkup_host_next_column(&at);
        key = blkup_host_next_column(&at);
        options = blkup_host_next_column(&at);
        if (*l->name == '-' || strchr(l->name, '/') || strlen(l->name) > MAX_NAME ||
            strcmp(l->name, ".") == 0 || strcmp(l->name, "..") == 0)
                return "no name for a mapping";
        if (!*l->source)
                return "no device";
        if (*l->source == '-')
                return "no device";
        if (*key && strcmp(key, "none") != 0 && strcmp(key, "-") != 0) {
                if (*key != '/')
                        return "the key file is no absolute path";
                l->key = key;
        }
        /* Ends: each turn goes behind a comma. */
        while (options && *options) {
                char *comma = strchr(options, ',');
                const char *why;

                if (comma)
                        *comma = '\0';
                why = take_option(l, options);
                if (why)
                        return why;
                options = comma ? comma + 1 : NULL;
        }
        return NULL;
}

static int parse(struct table *t, size_t n)
{
        char *at = t->text, *end = t->text + n, *line;
        unsigned number = 0;
        bool is_good;
        int r = 0;

        /* Ends: each turn takes a line. */
        while (r == 0 && (line = blkup_host_next_line(&at, end, MAX_LINE, &is_good))) {
                struct blkup_crypttab_line l = { .line = ++number };
                const char *why = is_good ? NULL : "too long, or holds a NUL";

                if (is_good) {
                        line += strspn(line, " \t");
                        if (*line == '\0' || *line == '#')
                                continue;
                        why = take_line(&l, line);
                }
                if (why) {
                        r = blkup_host_reserve((void **) &t->bad, &t->bad_cap, t->public.n_bad,
                                               sizeof(*t->bad), BLKUP_CRYPTTAB_MAX_LINES);
                        if (r == 0)
                                t->bad[t->public.n_bad++] = (struct blkup_crypttab_bad){ number, why };
                        continue;
                }
                r = blkup_host_reserve((void **) &t->lines, &t->cap, t->public.n, sizeof(*t->lines),
                                       BLKUP_CRYPTTAB_MAX_LINES);
                if (r == 0)
                        t->lines[t->public.n++] = l;
        }
        t->public.lines = t->lines;
        t->public.bad = t->bad;
        return r;
}

int blkup_crypttab_parse(const char *text, size_t n, struct blkup_crypttab **ret)
{
        struct table *t = calloc(1, sizeof(*t));
        int r;

        if (!t)
                return -ENOMEM;
        r = blkup_host_copy(text, n, BLKUP_CRYPTTAB_MAX_BYTES, &t->text);
        if (r == 0)
                r = parse(t, n);
        if (r < 0) {
                (void) blkup_crypttab_free(&t->public);
                return r;
        }
        *ret = &t->public;
        return 0;
}

int blkup_crypttab_load(const char *path, struct blkup_crypttab **ret, struct blkup_error *err)
{
        BLKUP_CLEANUP_FREE char *text = NULL;
        size_t n;
        int r = blkup_host_read_named(path, BLKUP_CRYPTTAB_MAX_BYTES, &text, &n);

        if (r == 0)
                r = blkup_crypttab_parse(text, n, ret);
        return r < 0 ? blkup_fail_errno(err, r, "%s", path) : 0;
}

struct blkup_crypttab *blkup_crypttab_free(struct blkup_crypttab *public)
{
        struct table *t = (struct table *) public;

        if (t) {
                free(t->text);
                free(t->lines);
                free(t->bad);
                free(t);
        }
        return NULL;
}
