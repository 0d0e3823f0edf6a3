/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The first byte chooses: a uevent, a crypttab, the metadata of a volume group. What comes out is looked at,
 * so that the sanitizers see every text, and must keep what the headers promise.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bringup/crypttab.h"
#include "bringup/lvm-text.h"
#include "host/uevent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static size_t sink; /* keeps the compiler from leaving out what is looked at */

static void look_at(const char *s)
{
        sink += s ? strlen(s) : 0;
}

static void must(int is)
{
        if (!is)
                abort();
}

static void read_uevent(const uint8_t *data, size_t n)
{
        struct blkup_uevent *e;

        if (n > BLKUP_UEVENT_MAX_BYTES)
                return;
        e = malloc(sizeof(*e));
        if (!e)
                return;
        memcpy(e->bytes, data, n);
        e->n = n;
        if (blkup_uevent_parse(e) == 0) {
                must(e->devpath[0] == '/' && !strstr(e->devpath, "/../") && *e->subsystem);
                must(e->devname[0] != '/' && !strstr(e->devname, "/../"));
                look_at(e->devtype);
                look_at(e->modalias);
        }
        free(e);
}

static void read_crypttab(const uint8_t *data, size_t n)
{
        struct blkup_crypttab *t = NULL;

        if (blkup_crypttab_parse((const char *) data, n, &t) < 0)
                return;
        for (size_t i = 0; i < t->n; i++) {
                must(t->lines[i].name[0] != '-' && !strchr(t->lines[i].name, '/'));
                must(t->lines[i].source[0] && t->lines[i].source[0] != '-');
                must(!t->lines[i].key || t->lines[i].key[0] == '/');
                must(!t->lines[i].header || t->lines[i].header[0] == '/');
        }
        for (size_t i = 0; i < t->n_bad; i++)
                look_at(t->bad[i].why);
        (void) blkup_crypttab_free(t);
}

static void read_group(const uint8_t *data, size_t n)
{
        struct blkup_lvm_text *t = NULL;

        if (blkup_lvm_text_parse((const char *) data, n, &t) < 0)
                return;
        must(t->vg_name[0] && t->vg_name[0] != '-' && !strchr(t->vg_name, '/'));
        must(strlen(t->vg_uuid) == BLKUP_LVM_UUID - 1);
        for (size_t i = 0; i < t->n_pvs; i++)
                must(strlen(t->pv_uuids[i]) == BLKUP_LVM_UUID - 1);
        (void) blkup_lvm_text_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        uint8_t *copy;

        if (n == 0 || n > 1 << 16)
                return 0;
        /* Of exactly that length, so that a byte behind it is seen. */
        copy = malloc(n > 1 ? n - 1 : 1);
        if (!copy)
                return 0;
        memcpy(copy, data + 1, n - 1);
        switch (data[0] % 3) {
        case 0:
                read_uevent(copy, n - 1);
                break;
        case 1:
                read_crypttab(copy, n - 1);
                break;
        default:
                read_group(copy, n - 1);
                break;
        }
        free(copy);
        return 0;
}
