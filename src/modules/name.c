/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "modules/name.h"

#include <errno.h>
#include <string.h>

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
