/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kit/kit.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SAMPLE_MAX (1 << 20)

static void read_sample(const char *path, struct kit_sample *ret)
{
        static uint8_t buffer[SAMPLE_MAX];
        FILE *f = fopen(path, "rbe");

        if (!f)
                kit_die("%s: %s", path, strerror(errno));
        ret->len = fread(buffer, 1, sizeof(buffer), f);
        (void) fclose(f);
        /* Of exactly its length: a read behind it is seen. */
        ret->bytes = malloc(ret->len ? ret->len : 1);
        if (!ret->bytes)
                kit_die("memory exhausted");
        memcpy(ret->bytes, buffer, ret->len);
        (void) snprintf(ret->path, sizeof(ret->path), "%s", path);
}

void kit_samples_add(struct kit_samples *s, const char *folder, const char *target, unsigned most)
{
        struct dirent **list;
        char path[512];
        int n;

        if ((size_t) snprintf(path, sizeof(path), "%s/%s", folder, target) >= sizeof(path))
                kit_die("%s: too long a path", folder);
        n = scandir(path, &list, NULL, alphasort);
        for (int i = 0; i < n; i++) {
                char name[512];
                struct stat st;

                if (most > 0 &&
                    (size_t) snprintf(name, sizeof(name), "%s/%s", path, list[i]->d_name) < sizeof(name) &&
                    stat(name, &st) == 0 && S_ISREG(st.st_mode)) {
                        if (s->n == s->room) {
                                s->room = s->room ? s->room * 2 : 64;
                                s->list = realloc(s->list, s->room * sizeof(s->list[0]));
                                if (!s->list)
                                        kit_die("memory exhausted");
                        }
                        read_sample(name, &s->list[s->n++]);
                        most--;
                }
                free(list[i]);
        }
        if (n >= 0)
                free(list);
}

void kit_samples_free(struct kit_samples *s)
{
        for (unsigned i = 0; i < s->n; i++)
                free(s->list[i].bytes);
        free(s->list);
        *s = (struct kit_samples){ 0 };
}

const char *kit_target(unsigned k)
{
        for (unsigned i = 0; i < blkup_n_formats; i++) {
                bool is_first = true;

                for (unsigned j = 0; j < i; j++)
                        is_first &= strcmp(blkup_formats[i]->name, blkup_formats[j]->name) != 0;
                if (is_first && k-- == 0)
                        return blkup_formats[i]->name;
        }
        return k < blkup_n_tables ? blkup_tables[k]->name : NULL;
}
