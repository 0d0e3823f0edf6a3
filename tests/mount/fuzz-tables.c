/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The first byte chooses: an fstab, a mountinfo, an option list, a path. What comes out is looked at, so that
 * the sanitizers see every text.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <blkup/mount.h>

#include "host/mountinfo.h"
#include "mount/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static size_t sink; /* keeps the compiler from leaving out what is looked at */

static void look_at(const char *s)
{
        sink += s ? strlen(s) : 0;
}

static void read_fstab(const char *text, size_t n)
{
        struct blkup_fstab *t;

        if (blkup_fstab_parse(text, n, &t) < 0)
                return;
        for (size_t i = 0; i < t->n; i++) {
                look_at(t->entries[i].source);
                look_at(t->entries[i].target);
                look_at(t->entries[i].types);
                look_at(t->entries[i].options);
                sink += blkup_fstab_has_option(&t->entries[i], "nofail");
                /* What was let through is absolute, or for swap. */
                if (t->entries[i].target[0] != '/' && t->entries[i].target[0] != 'n' &&
                    t->entries[i].target[0] != 's' && strcmp(t->entries[i].types, "swap") != 0 &&
                    strcmp(t->entries[i].types, "ignore") != 0)
                        abort();
                if (strchr(t->entries[i].types, '/'))
                        abort();
        }
        for (size_t i = 0; i < t->n_bad; i++)
                look_at(t->bad[i].why);
        blkup_fstab_free(t);
}

static void read_mountinfo(const char *text, size_t n)
{
        struct blkup_mountinfo *t;

        if (blkup_mountinfo_parse(text, n, &t) < 0)
                return;
        for (size_t i = 0; i < t->n; i++) {
                look_at(t->mounts[i].target);
                look_at(t->mounts[i].source);
                look_at(t->mounts[i].super_options);
                sink += blkup_mountinfo_by_target(t, t->mounts[i].target) != NULL;
        }
        blkup_mountinfo_free(t);
}

static void read_options(const char *text)
{
        struct blkup_mount_options o;
        char key[16];

        if (blkup_mount_options_parse(text, &o, key, sizeof(key)) < 0)
                return;
        for (size_t i = 0; i < o.n_fs; i++) {
                look_at(o.fs[i].key);
                look_at(o.fs[i].value);
        }
        for (size_t i = 0; i < o.n_user; i++)
                look_at(o.user[i].key);
        blkup_mount_options_free(&o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        char *text;

        if (n == 0 || n > 1 << 16)
                return 0;
        text = malloc(n);
        if (!text)
                return 0;
        memcpy(text, data + 1, n - 1);
        text[n - 1] = '\0';
        switch (data[0] % 3) {
        case 0:
                read_fstab(text, n - 1);
                break;
        case 1:
                read_mountinfo(text, n - 1);
                break;
        default:
                read_options(text);
                break;
        }
        free(text);
        return 0;
}
