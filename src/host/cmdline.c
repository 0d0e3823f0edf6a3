/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "host/cmdline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "host/hostfile.h"

struct table {
        struct blkup_cmdline public; /* first: the pointer the caller holds is ours */
        struct blkup_cmdline_word *words;
        char *text; /* what all texts point into */
};

static void free_tablep(struct table **t)
{
        if (*t) {
                free((*t)->words);
                free((*t)->text);
                free(*t);
        }
        *t = NULL;
}

struct blkup_cmdline *blkup_cmdline_free(struct blkup_cmdline *c)
{
        struct table *t = (struct table *) c;

        free_tablep(&t);
        return NULL;
}

/* Cuts the next word off and takes its quotes away; false at the end of the text. */
static bool next_word(char **at, struct blkup_cmdline_word *ret)
{
        char *word = *at, *end, *equals = NULL, *value = NULL;
        bool in_quotes = false, is_quoted;

        while (blkup_is_space(*word))
                word++;
        if (!*word)
                return false;
        is_quoted = *word == '"';
        if (is_quoted) {
                in_quotes = true;
                word++;
        }
        for (end = word; *end && (in_quotes || !blkup_is_space(*end)); end++) {
                if (*end == '"')
                        in_quotes = !in_quotes;
                else if (*end == '=' && !equals && end > word)
                        equals = end;
        }
        *at = *end ? end + 1 : end;
        *end = '\0';
        if (equals) {
                *equals = '\0';
                value = equals + 1;
                /* The quote behind "=" goes, and with it the one that ends the word. */
                if (*value == '"') {
                        value++;
                        if (end > value && end[-1] == '"')
                                *--end = '\0';
                }
        }
        if (is_quoted && end > (value ? value : word) && end[-1] == '"')
                end[-1] = '\0';
        *ret = (struct blkup_cmdline_word){ .key = word, .value = value };
        return true;
}

/* Takes the text. */
static int parse_owned(char *text, struct blkup_cmdline **ret)
{
        BLKUP_CLEANUP(free_tablep) struct table *t = NULL;
        struct blkup_cmdline_word word;
        bool is_for_init = false;
        char *at = text;
        size_t cap = 0;

        t = calloc(1, sizeof(*t));
        if (!t) {
                free(text);
                return -ENOMEM;
        }
        t->text = text;
        while (next_word(&at, &word)) { /* each turn moves at, up to the NUL */
                void *array = t->words;
                int r;

                if (!is_for_init && !word.value && strcmp(word.key, "--") == 0) {
                        is_for_init = true;
                        continue;
                }
                r = blkup_host_reserve(&array, &cap, t->public.n, sizeof(word), BLKUP_CMDLINE_MAX_WORDS);
                if (r < 0)
                        return r;
                t->words = array;
                word.is_for_init = is_for_init;
                t->words[t->public.n++] = word;
        }
        t->public.words = t->words;
        *ret = &t->public;
        t = NULL;
        return 0;
}

int blkup_cmdline_parse(const char *text, size_t n, struct blkup_cmdline **ret)
{
        char *copy;
        int r;

        r = blkup_host_copy(text, n, BLKUP_CMDLINE_MAX_BYTES, &copy);
        return r < 0 ? r : parse_owned(copy, ret);
}

int blkup_cmdline_load(const char *root, struct blkup_cmdline **ret, struct blkup_error *err)
{
        char *text;
        size_t n;
        int r;

        r = blkup_host_read(root, "proc/cmdline", BLKUP_CMDLINE_MAX_BYTES, &text, &n);
        if (r == 0)
                r = parse_owned(text, ret);
        return r < 0 ? blkup_fail_errno(err, r, "%s/proc/cmdline", root ? root : "") : 0;
}

const struct blkup_cmdline_word *blkup_cmdline_next(const struct blkup_cmdline *c, const char *key,
                                                    const struct blkup_cmdline_word *after)
{
        for (size_t i = c && after ? (size_t) (after - c->words) + 1 : 0; c && i < c->n; i++)
                if (!c->words[i].is_for_init && blkup_host_is_same_name(c->words[i].key, key))
                        return &c->words[i];
        return NULL;
}

const struct blkup_cmdline_word *blkup_cmdline_last(const struct blkup_cmdline *c, const char *key)
{
        for (size_t i = c ? c->n : 0; i > 0; i--)
                if (!c->words[i - 1].is_for_init && blkup_host_is_same_name(c->words[i - 1].key, key))
                        return &c->words[i - 1];
        return NULL;
}
