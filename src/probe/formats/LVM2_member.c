/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * LVM2_member: a physical volume. Source: the label as described in lvm2's man pages and libblkid's
 * documented offsets: the label stands in one of the first four 512-byte sectors and says in which.
 */
#include "probe/formats/fields.h"
#include "probe/formats/lvm.h"

enum {
        LABEL_SECTOR = 8,   /* 64 bits */
        LABEL_CRC = 16,     /* over 20..511 */
        LABEL_TYPE = 24,    /* 8 bytes, "LVM2 001" */
        LABEL_PV_UUID = 32, /* 32 characters */
        LABEL_LEN = 512,
};
#define CRC_SEED 0xf597a6cfU
#define WIPED_BY_PVCREATE 8192

static const struct blkup_magic magics[] = {
        /* Sector 1 first: that is where every pvcreate puts it. */
        { .at = 512, .within = 24, .len = 8, .bytes = "LVM2 001" },
        { .at = 0, .within = 24, .len = 8, .bytes = "LVM2 001" },
        { .at = 1024, .within = 24, .len = 8, .bytes = "LVM2 001" },
        { .at = 1536, .within = 24, .len = 8, .bytes = "LVM2 001" },
};

void blkup_lvm_uuid(struct blkup_found *ret, struct blkup_bytes id)
{
        static const uint8_t groups[] = { 6, 4, 4, 4, 4, 4, 6 };
        char text[BLKUP_LVM_ID_LEN + 6];
        size_t from = 0, to = 0;

        if (id.len < BLKUP_LVM_ID_LEN)
                return;
        for (size_t i = 0; i < sizeof(groups); i++) {
                if (i > 0)
                        text[to++] = '-';
                memcpy(text + to, id.data + from, groups[i]);
                from += groups[i];
                to += groups[i];
        }
        blkup_found_text(ret, "UUID", (struct blkup_bytes){ .data = (const uint8_t *) text, .len = to });
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes pair, label;
        size_t first;

        /* The type that matched may be in either sector of a pair; the label that counts is the first of the
         * two. */
        BLKUP_FETCH(v, hit->base & ~(uint64_t) 1023, 2 * LABEL_LEN, &pair);
        first = blkup_equal_at(pair, 0, "LABELONE", 8) ? 0 : LABEL_LEN;
        if (!blkup_sub_bytes(pair, first, LABEL_LEN, &label) || !blkup_equal_at(label, 0, "LABELONE", 8))
                return blkup_refuse(v, "no label around the type");
        if (blkup_le64_at(label, LABEL_SECTOR) != label.at / 512)
                return blkup_damaged(v, "label says it stands elsewhere");
        if (blkup_crc32(CRC_SEED, label.data + 20, LABEL_LEN - 20) != blkup_le32_at(label, LABEL_CRC))
                return blkup_damaged(v, "label checksum mismatch");
        blkup_found_evidence(ret, 64 + 64 + 64 + 32);
        blkup_lvm_uuid(ret, blkup_slice_at(label, LABEL_PV_UUID, BLKUP_LVM_ID_LEN));
        blkup_found_text(ret, "VERSION", blkup_slice_at(label, LABEL_TYPE, 8));
        ret->wiped_to = WIPED_BY_PVCREATE;
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_LVM2_member;
const struct blkup_format blkup_format_LVM2_member = {
        .name = "LVM2_member", .usage = BLKUP_USAGE_RAID,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
