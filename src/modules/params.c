/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Parameters as the kernel's kernel/params.c takes them: words by white space and quotes, "-" as "_", types
 * by .modinfo's parmtype. A name that the module does not have only makes the kernel warn.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "modules/ko.h"

#define MAX_VALUE 1024u /* param_set_charp(): longer is -ENOSPC */

/* One word: NAME or NAME=VALUE, cut in place. Source: lib/cmdline.c, next_arg(). */
static char *next_arg(char *args, char **ret_name, char **ret_value)
{
        bool in_quote = false, quoted = false;
        size_t i, equals = 0;

        if (*args == '"') {
                args++;
                in_quote = quoted = true;
        }
        for (i = 0; args[i]; i++) {
                if (blkup_is_space(args[i]) && !in_quote)
                        break;
                if (equals == 0 && args[i] == '=')
                        equals = i;
                if (args[i] == '"')
                        in_quote = !in_quote;
        }
        *ret_name = args;
        *ret_value = NULL;
        if (equals) {
                args[equals] = '\0';
                *ret_value = args + equals + 1;
                if (**ret_value == '"') {
                        (*ret_value)++;
                        if (i > 0 && args[i - 1] == '"')
                                args[i - 1] = '\0';
                }
        }
        if (quoted && i > 0 && args[i - 1] == '"')
                args[i - 1] = '\0';
        if (args[i]) {
                args[i] = '\0';
                args += i + 1;
        } else {
                args += i;
        }
        return args + strspn(args, " \t\n\v\f\r");
}

static bool is_same(const char *a, const char *b, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                char x = a[i] == '-' ? '_' : a[i], y = b[i] == '-' ? '_' : b[i];

                if (x != y || !x)
                        return false;
        }
        return a[n] == '\0';
}

/* "NAME:TYPE" of the parameter; NULL: it has none of that name. */
static const char *find_type(const struct blkup_ko *k, const char *name)
{
        const char *entry = NULL;

        while ((entry = blkup_ko_modinfo(k, "parmtype", entry))) { /* ends: with the section */
                const char *colon = strchr(entry, ':');

                if (colon && is_same(name, entry, (size_t) (colon - entry)))
                        return colon + 1;
        }
        return NULL;
}

/* kstrtoull(): digits with an optional base, sign only where the type has one, one newline at the end. */
static int parse_number(const char *s, bool is_signed, uint64_t most, uint64_t most_negative)
{
        bool negative = false;
        unsigned base = 10;
        uint64_t v = 0;
        size_t digits = 0;

        if (is_signed && *s == '-') {
                negative = true;
                s++;
        } else if (*s == '+') {
                s++;
        }
        if (*s == '0' && (s[1] == 'x' || s[1] == 'X') && strchr("0123456789abcdefABCDEF", s[2]) && s[2]) {
                base = 16;
                s += 2;
        } else if (*s == '0') {
                base = 8;
        }
        for (;; s++, digits++) {
                unsigned d = *s >= '0' && *s <= '9'   ? (unsigned) (*s - '0')
                             : *s >= 'a' && *s <= 'f' ? (unsigned) (*s - 'a' + 10)
                             : *s >= 'A' && *s <= 'F' ? (unsigned) (*s - 'A' + 10)
                                                      : 99;

                if (d >= base)
                        break;
                if (v > (UINT64_MAX - d) / base)
                        return -ERANGE;
                v = v * base + d;
        }
        if (*s == '\n')
                s++;
        if (digits == 0 || *s)
                return -EINVAL;
        return v > (negative ? most_negative : most) ? -ERANGE : 0;
}

static int check_bool(const char *s)
{
        if (strchr("yY1nN0", *s) && *s)
                return 0;
        return (*s == 'o' || *s == 'O') && s[1] && strchr("nNfF", s[1]) ? 0 : -EINVAL;
}

static int check_value(const char *type, const char *value)
{
        static const struct { const char *name; bool is_signed; uint64_t most, most_negative; } numbers[] = {
                { "byte", false, UINT8_MAX, 0 },      { "short", true, INT16_MAX, UINT64_C(1) << 15 },
                { "ushort", false, UINT16_MAX, 0 },   { "int", true, INT32_MAX, UINT64_C(1) << 31 },
                { "uint", false, UINT32_MAX, 0 },     { "long", true, INT64_MAX, UINT64_C(1) << 63 },
                { "ulong", false, UINT64_MAX, 0 },    { "ullong", false, UINT64_MAX, 0 },
                { "hexint", false, UINT32_MAX, 0 },
        };

        if (strncmp(type, "array of ", 9) == 0) {
                BLKUP_CLEANUP_FREE char *copy = value ? strdup(value) : NULL;
                char *state = NULL, *word;
                int r = 0;

                if (!value)
                        return -EINVAL;
                if (!copy)
                        return -ENOMEM;
                for (word = copy, state = word; r == 0 && state; word = state) { /* ends: with the commas */
                        state = strchr(word, ',');
                        if (state)
                                *state++ = '\0';
                        r = check_value(type + 9, word);
                }
                return r;
        }
        if (strcmp(type, "bool") == 0)
                return value ? check_bool(value) : 0;
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(numbers); i++)
                if (strcmp(type, numbers[i].name) == 0)
                        return value ? parse_number(value, numbers[i].is_signed, numbers[i].most,
                                                    numbers[i].most_negative)
                                     : -EINVAL;
        if (!value)
                return strcmp(type, "invbool") == 0 || strcmp(type, "charp") == 0 ||
                                       strcmp(type, "string") == 0
                               ? -EINVAL
                               : 0;
        if (strcmp(type, "invbool") == 0)
                return check_bool(value);
        if (strcmp(type, "charp") == 0)
                return strlen(value) > MAX_VALUE ? -ENOSPC : 0;
        return 0; /* a type of the module's own */
}

int blkup_ko_check_parameters(const struct blkup_ko *k, const char *text, struct blkup_refusal *r,
                              char *unknown, size_t unknown_cap)
{
        BLKUP_CLEANUP_FREE char *copy = strdup(text);
        char *at;

        if (!copy)
                return -ENOMEM;
        /* Ends: each word takes characters of the text. */
        for (at = copy + strspn(copy, " \t\n\v\f\r"); *at;) {
                const char *type;
                char *name, *value;
                int e;

                at = next_arg(at, &name, &value);
                if (!value && strcmp(name, "--") == 0)
                        break;
                type = find_type(k, name);
                if (!type) {
                        /* Two that the kernel answers for every module. */
                        if (strcmp(name, "async_probe") != 0 && strcmp(name, "dyndbg") != 0) {
                                size_t n = strlen(unknown);

                                (void) snprintf(unknown + n, unknown_cap - n, "%s%s", n ? ", " : "", name);
                        }
                        continue;
                }
                e = check_value(type, value);
                if (e == -ENOMEM)
                        return e;
                if (e == -ENOSPC)
                        return blkup_refuse(r, e, "parameters", "'%s' is too long for parameter '%s'",
                                            value ? value : "", name);
                if (e < 0)
                        return blkup_refuse(r, e, "parameters", "'%s' is invalid for parameter '%s' (%s)",
                                            value ? value : "", name, type);
        }
        return 0;
}
