/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* An entry as it is on disk becomes the texts that util-linux prints. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "probe/tables.h"

static void copy_text(struct blkup_bytes s, char *out, size_t cap)
{
        size_t n = strnlen((const char *) s.data, s.len);

        n = blkup_rtrim((const char *) s.data, n < cap ? n : cap - 1);
        memcpy(out, s.data, n);
        out[n] = '\0';
}

void blkup_entry_to_partition(const struct blkup_entry *e, const char *table, struct blkup_partition *ret)
{
        memset(ret, 0, sizeof(*ret));
        ret->number = e->number;
        ret->start_sectors = e->start_sectors;
        ret->size_sectors = e->size_sectors;
        ret->flags = e->flags;
        ret->type_byte = (uint8_t) (e->type <= UINT8_MAX ? e->type : 0);
        if (e->type_guid)
                blkup_format_guid(e->type_guid, ret->type);
        else if (e->type_text.len > 0)
                copy_text(e->type_text, ret->type, sizeof(ret->type));
        else
                (void) snprintf(ret->type, sizeof(ret->type), "0x%" PRIx32, e->type);
        if (e->uuid_guid)
                blkup_format_guid(e->uuid_guid, ret->uuid);
        else if (e->disk_id != 0)
                (void) snprintf(ret->uuid, sizeof(ret->uuid), "%08" PRIx32 "-%02x", e->disk_id, e->number);
        if (e->name.len > 0 && e->name_is_utf16)
                ret->name[blkup_rtrim(ret->name, blkup_utf16_to_utf8(e->name, BLKUP_LITTLE_ENDIAN, ret->name,
                                                                     sizeof(ret->name)))] = '\0';
        else if (e->name.len > 0)
                copy_text(e->name, ret->name, sizeof(ret->name));
        (void) snprintf(ret->scheme, sizeof(ret->scheme), "%s", e->scheme ? e->scheme : table);
}
