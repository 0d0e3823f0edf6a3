/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "modules/name.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

int blkup_module_alias(const char *in, size_t n, char *out, size_t cap)
{
        bool in_range = false;

        if (n >= cap)
                return -ENAMETOOLONG;
        for (size_t i = 0; i < n; i++) {
                unsigned char c = (unsigned char) in[i];

                if (c < 0x20 || c == 0x7f || c == '/')
                        return -EINVAL;
                if (c == '[') {
                        in_range = true;
                } else if (c == ']') {
                        if (!in_range)
                                return -EINVAL;
                        in_range = false;
                } else if (c == '-' && !in_range) {
                        c = '_';
                }
                out[i] = (char) c;
        }
        if (in_range)
                return -EINVAL;
        out[n] = '\0';
        return 0;
}

bool blkup_module_is_name(const char *s)
{
        if (!*s || strcmp(s, ".") == 0 || strcmp(s, "..") == 0)
                return false;
        for (; *s; s++)
                if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') ||
                      strchr("_-.+,:", *s)))
                        return false;
        return true;
}

int blkup_module_name_of_path(const char *path, size_t n, char out[BLKUP_MODULE_ALIAS_CAP])
{
        static const char *const suffixes[] = { ".gz", ".xz", ".zst" };
        size_t start = n;

        while (start > 0 && path[start - 1] != '/')
                start--;
        path += start;
        n -= start;
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(suffixes); i++) {
                size_t len = strlen(suffixes[i]);

                if (n > len && memcmp(path + n - len, suffixes[i], len) == 0) {
                        n -= len;
                        break;
                }
        }
        if (n <= 3 || memcmp(path + n - 3, ".ko", 3) != 0)
                return -EINVAL;
        return blkup_module_alias(path, n - 3, out, BLKUP_MODULE_ALIAS_CAP);
}

/* ---- patterns ---- */

static bool is_of_class(const char *name, size_t n, unsigned char c)
{
        /* POSIX.1-2017, base definitions, 9.3.5 */
        static const struct {
                char name[7];
                int (*is)(int);
        } classes[] = {
                { "alnum", isalnum }, { "alpha", isalpha }, { "blank", isblank }, { "cntrl", iscntrl },
                { "digit", isdigit }, { "graph", isgraph }, { "lower", islower }, { "print", isprint },
                { "punct", ispunct }, { "space", isspace }, { "upper", isupper }, { "xdigit", isxdigit },
        };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(classes); i++)
                if (strlen(classes[i].name) == n && memcmp(classes[i].name, name, n) == 0)
                        return c < 128 && classes[i].is(c);
        return false;
}

/* p stands behind a bracket that opens. Returns what is behind the one that closes, NULL when none does: then
 * the bracket is a letter like others. */
static const char *match_set(const char *p, unsigned char c, bool *ret)
{
        bool is_not = *p == '!' || *p == '^', is_in = false;

        p += is_not;
        for (bool is_first = true; *p && (is_first || *p != ']'); is_first = false) { /* ends: p grows */
                const char *end = p[0] == '[' && p[1] == ':' ? strstr(p + 2, ":]") : NULL;
                unsigned char from, to;

                if (end) {
                        is_in |= is_of_class(p + 2, (size_t) (end - p) - 2, c);
                        p = end + 2;
                        continue;
                }
                if (*p == '\\' && !*++p)
                        return NULL;
                from = to = (unsigned char) *p++;
                if (p[0] == '-' && p[1] && p[1] != ']') {
                        p += p[1] == '\\' ? 2 : 1;
                        if (!*p)
                                return NULL;
                        to = (unsigned char) *p++;
                }
                is_in |= from <= c && c <= to;
        }
        if (!*p)
                return NULL;
        *ret = is_in != is_not;
        return p + 1;
}

/* One letter of text against one step of the pattern, which *p is moved behind. */
static bool match_one(const char **p, char c)
{
        const char *at = *p, *end;
        bool is_in;

        *p = at + 1;
        if (*at == '?')
                return true;
        if (*at == '[') {
                end = match_set(at + 1, (unsigned char) c, &is_in);
                if (end) {
                        *p = end;
                        return is_in;
                }
        }
        if (*at == '\\') {
                if (!at[1])
                        return false;
                *p = ++at + 1;
        }
        return *at == c;
}

bool blkup_module_matches(const char *pattern, const char *text)
{
        /* Behind the last star, and what it has not swallowed yet: only that one need give way. */
        const char *star = NULL, *left = NULL;

        for (;;) { /* ends: text or left grows with each turn, and when pattern goes back it is left that has
                    */
                if (*pattern == '*') {
                        star = ++pattern;
                        left = text;
                        if (!*star)
                                return true;
                        continue;
                }
                if (!*text && !*pattern)
                        return true;
                if (*text && *pattern && match_one(&pattern, *text)) {
                        text++;
                        continue;
                }
                if (!star || !*left)
                        return false;
                text = ++left;
                pattern = star;
        }
}
