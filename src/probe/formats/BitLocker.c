/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * BitLocker. Source: Metz, "BitLocker Drive Encryption (BDE) format specification" (libbde), little-endian.
 * The boot sector, which looks like one of NTFS or FAT, says where the metadata are; those of Windows Vista
 * are not looked at.
 */
#include "probe/formats/BitLocker.h"
#include "probe/formats/fields.h"

enum { BOOT_METADATA = 176, BOOT_TOGO_METADATA = 440 };
/* Block header, and behind it the metadata with a list of entries. */
enum { FVE_VERSION = 10, FVE_METADATA = 64, FVE_HEADER_LEN = 112 };
enum { META_SIZE = 0, META_GUID = 16, META_ENTRIES = 48 };
enum { ENT_SIZE = 0, ENT_TYPE = 2, ENT_VALUE = 4, ENT_HEADER = 8 };

#define TYPE_DESCRIPTION 7u
#define VALUE_UTF16 2u
#define FIRST_WINDOW 512u
#define MAX_METADATA 65536u /* a block of metadata, by the specification */

static const struct blkup_magic magics[] = {
        { .len = 11, .bytes = "\xeb\x52\x90-FVE-FS-" }, /* Windows Vista */
        { .len = 11, .bytes = "\xeb\x58\x90-FVE-FS-" }, /* Windows 7 and later */
        { .len = 11, .bytes = "\xeb\x58\x90MSWIN4.1" }, /* To Go */
};
enum { ROW_VISTA = 0, ROW_WIN7 = 1 };

/* *ret_at: where the metadata stand, 0 for Vista's. */
static enum blkup_outcome locate(struct blkup_view *v, unsigned row, uint64_t *ret_at)
{
        struct blkup_bytes boot, fve;
        uint64_t at;

        *ret_at = 0;
        if (row == ROW_VISTA)
                return BLKUP_FOUND;
        BLKUP_FETCH(v, 0, 512, &boot);
        at = blkup_le64_at(boot, row == ROW_WIN7 ? BOOT_METADATA : BOOT_TOGO_METADATA);
        if (at == 0 || at % 64 != 0)
                return blkup_refuse(v, "no place of metadata in the boot sector");
        blkup_view_want(v, at, FIRST_WINDOW);
        BLKUP_FETCH(v, at, FVE_HEADER_LEN, &fve);
        if (!blkup_equal_at(fve, 0, "-FVE-FS-", 8))
                return blkup_refuse(v, "no metadata where the boot sector says");
        *ret_at = at;
        return BLKUP_FOUND;
}

enum blkup_outcome blkup_bitlocker_is_boot_sector(struct blkup_view *v)
{
        struct blkup_hit hit;
        uint64_t at;
        enum blkup_outcome o = blkup_match_magics(v, magics, BLKUP_ARRAY_SIZE(magics), 0, &hit);

        return o == BLKUP_FOUND ? locate(v, hit.row, &at) : o;
}

/* The description, which Windows makes of the computer's and the volume's name and the date. */
static enum blkup_outcome add_label(struct blkup_view *v, uint64_t at, uint32_t size, struct blkup_found *ret)
{
        for (uint64_t off = META_ENTRIES; off + ENT_HEADER <= size;) { /* ends: off grows, size is bounded */
                struct blkup_bytes head, text;
                uint32_t len;

                if (!blkup_view_work(v, 1))
                        return blkup_gave_up(v, "too many metadata entries");
                blkup_view_want(v, at + off, blkup_min(FIRST_WINDOW, size - off));
                BLKUP_FETCH(v, at + off, ENT_HEADER, &head);
                len = blkup_le16_at(head, ENT_SIZE);
                if (len < ENT_HEADER || len > size - off)
                        return BLKUP_FOUND;
                if (blkup_le16_at(head, ENT_TYPE) == TYPE_DESCRIPTION &&
                    blkup_le16_at(head, ENT_VALUE) == VALUE_UTF16) {
                        BLKUP_FETCH(v, at + off + ENT_HEADER, len - ENT_HEADER, &text);
                        blkup_found_utf16(ret, "LABEL", text, BLKUP_LITTLE_ENDIAN);
                        return BLKUP_FOUND;
                }
                off += len;
        }
        return BLKUP_FOUND;
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes fve;
        uint64_t at;
        enum blkup_outcome o = locate(v, hit->row, &at);
        uint32_t size;

        if (o != BLKUP_FOUND)
                return o;
        blkup_found_evidence(ret, 88 + (at != 0 ? 64 : 0));
        if (at == 0)
                return BLKUP_FOUND;
        BLKUP_FETCH(v, at, FVE_HEADER_LEN, &fve);
        blkup_found_u64(ret, "VERSION", blkup_le16_at(fve, FVE_VERSION));
        size = blkup_le32_at(fve, FVE_METADATA + META_SIZE);
        if (size <= MAX_METADATA) {
                o = add_label(v, at + FVE_METADATA, size, ret);
                if (o == BLKUP_NEED || o == BLKUP_UNREADABLE)
                        return o;
        }
        blkup_found_guid(ret, "UUID", blkup_slice_at(fve, FVE_METADATA + META_GUID, 16));
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_BitLocker;
const struct blkup_format blkup_format_BitLocker = {
        .name = "BitLocker", .usage = BLKUP_USAGE_CRYPTO,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
