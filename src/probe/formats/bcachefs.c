/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * bcachefs, at 4 KiB, with copies at 2 MiB and 1 MiB before the end. Source: kernel
 * fs/bcachefs/bcachefs_format.h (struct bch_sb, little-endian). Behind the fixed part stand fields of any
 * length; the ones that matter list the members and their labels.
 */
#include "base/hash.h"
#include "probe/formats/bcache.h"
#include "probe/formats/fields.h"

enum {
        SB_CHECKSUM = 0,       /* 16 bytes, of what follows; the kind is in the flags */
        SB_VERSION = 16,       /* 16 bits: 6 major, 10 minor */
        SB_USER_UUID = 56, SB_LABEL = 72,
        SB_OFFSET = 104,       /* sectors: where it stands */
        SB_BLOCK = 120,        /* sectors, 16 bits */
        SB_DEV_INDEX = 122, SB_DEVICES = 123,
        SB_FIELDS_LEN = 124,   /* in units of 64 bits */
        SB_FLAGS = 144,
        SB_MAX_SIZE_BITS = 257, /* of 512 bytes */
        SB_FIELDS = 752,
};
enum { FIELD_LEN = 0, FIELD_TYPE = 4, FIELD_HEADER = 8 };
enum { FIELD_MEMBERS_1 = 1, FIELD_GROUPS = 5, FIELD_MEMBERS_2 = 11 };
enum { MEMBERS_2_ENTRY_LEN = 8, MEMBERS_2_HEADER = 16, MEMBER_1_LEN = 56 };
enum {
        MEMBER_UUID = 0,
        MEMBER_BUCKETS = 16,
        MEMBER_BUCKET = 26 /* sectors */,
        MEMBER_FLAGS = 40,
        MEMBER_MIN_LEN = 48
};
enum { GROUP_LABEL = 0, GROUP_FLAGS = 32, GROUP_LEN = 48 };
enum { CHECKSUM_NONE = 0, CHECKSUM_CRC32C = 1, CHECKSUM_CRC64 = 2, CHECKSUM_XXHASH = 7 };

#define MAX_SIZE_BITS 16u /* 32 MiB */
#define MAX_GROUPS 32u /* from a member's group to its root */
#define MAX_LABEL_LEN 32u

#define BCACHEFS_MAGIC "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"
#define MAGIC(magic) .within = BLKUP_BCACHE_MAGIC_WITHIN, .len = 16, .bytes = (magic)
static const struct blkup_magic magics[] = {
        { .at = BLKUP_BCACHE_AT, MAGIC(BLKUP_BCACHE_MAGIC) },
        { .at = BLKUP_BCACHE_AT, MAGIC(BCACHEFS_MAGIC) },
        { .at = 2 << 20, MAGIC(BCACHEFS_MAGIC) },
        { .at = 1 << 20, .anchor = BLKUP_FROM_END, MAGIC(BCACHEFS_MAGIC) },
};

static bool has_checksum(struct blkup_bytes sb)
{
        const uint8_t *what = sb.data + SB_VERSION;
        size_t n = sb.len - SB_VERSION;

        /* The upper 6 bits of the flags read in big-endian order, as util-linux does. */
        switch (blkup_be64_at(sb, SB_FLAGS) >> 58) {
        case CHECKSUM_CRC32C:
                return ~blkup_crc32c(~0U, what, n) == blkup_le32_at(sb, SB_CHECKSUM);
        case CHECKSUM_CRC64:
                return ~blkup_crc64(~(uint64_t) 0, what, n) == blkup_le64_at(sb, SB_CHECKSUM);
        case CHECKSUM_XXHASH:
                return blkup_xxh64(0, what, n) == blkup_le64_at(sb, SB_CHECKSUM);
        default:
                return true; /* none, or one that is not known here */
        }
}

struct members {
        struct blkup_bytes own; /* entry of this device */
        struct blkup_bytes groups; /* label entries */
};

/* Takes the field when it has room for exactly the members that there are. */
static void take_members(struct blkup_bytes sb, struct blkup_bytes field, size_t header, size_t entry_len,
                         struct members *m, struct blkup_found *ret)
{
        unsigned n = blkup_u8_at(sb, SB_DEVICES);
        uint64_t sectors = 0;

        if (entry_len < MEMBER_MIN_LEN || field.len != header + n * entry_len)
                return;
        m->own = blkup_slice_at(field, header + blkup_u8_at(sb, SB_DEV_INDEX) * entry_len, entry_len);
        blkup_found_uuid(ret, "UUID_SUB", blkup_slice_at(m->own, MEMBER_UUID, 16));
        for (unsigned i = 0; i < n; i++) {
                uint64_t some;

                if (blkup_mul(blkup_le64_at(field, header + i * entry_len + MEMBER_BUCKETS),
                              blkup_le16_at(field, header + i * entry_len + MEMBER_BUCKET), &some))
                        sectors += some;
        }
        blkup_found_u64(ret, "FSSIZE", sectors * 512);
}

/* The labels from the root to the member's own group, with dots between. */
static void add_label(const struct members *m, struct blkup_found *ret)
{
        uint64_t index = blkup_le64_at(m->own, MEMBER_FLAGS) >> 20 & 0xff;
        char text[MAX_GROUPS * (MAX_LABEL_LEN + 1)];
        size_t at = sizeof(text);

        for (unsigned level = 0; index > 0; level++) {
                struct blkup_bytes group, label;
                uint64_t flags;
                size_t n;

                if (level == MAX_GROUPS ||
                    !blkup_sub_bytes(m->groups, (size_t) (index - 1) * GROUP_LEN, GROUP_LEN, &group))
                        return;
                flags = blkup_le64_at(group, GROUP_FLAGS);
                if (flags & 1)
                        return; /* deleted */
                label = blkup_slice_at(group, GROUP_LABEL, MAX_LABEL_LEN);
                n = strnlen((const char *) label.data, label.len);
                if (level > 0)
                        text[--at] = '.';
                at -= n;
                memcpy(text + at, label.data, n);
                index = flags >> 6 & 0x3ffff;
        }
        blkup_found_rtrimmed(ret, "LABEL_SUB",
                             (struct blkup_bytes){ .data = (const uint8_t *) text + at,
                                                   .len = sizeof(text) - at });
}

static enum blkup_outcome look_fields(struct blkup_view *v, struct blkup_bytes sb, struct blkup_found *ret)
{
        struct members m = { .own = { .len = 0 } };
        struct blkup_bytes field;

        for (size_t at = SB_FIELDS; blkup_has(sb, at, FIELD_HEADER);
             at += field.len) { /* ends: a field is 8 bytes at least */
                uint64_t len = (uint64_t) blkup_le32_at(sb, at + FIELD_LEN) * 8;

                if (!blkup_view_work(v, 1))
                        return blkup_gave_up(v, "superblock has too many fields");
                if (len < FIELD_HEADER || !blkup_sub_bytes(sb, at, (size_t) len, &field))
                        break;
                switch (blkup_le32_at(field, FIELD_TYPE)) {
                case FIELD_MEMBERS_1:
                        take_members(sb, field, FIELD_HEADER, MEMBER_1_LEN, &m, ret);
                        break;
                case FIELD_MEMBERS_2:
                        take_members(sb, field, MEMBERS_2_HEADER, blkup_le16_at(field, MEMBERS_2_ENTRY_LEN),
                                     &m, ret);
                        break;
                case FIELD_GROUPS:
                        m.groups = blkup_slice_at(field, FIELD_HEADER, field.len - FIELD_HEADER);
                        break;
                default:
                        break;
                }
        }
        add_label(&m, ret);
        return BLKUP_FOUND;
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes sb;
        uint64_t size;
        uint16_t version;
        uint8_t bits;

        BLKUP_FETCH(v, hit->base, SB_FIELDS, &sb);
        if (blkup_le64_at(sb, SB_OFFSET) != hit->base / 512)
                return blkup_damaged(v, "superblock says it stands elsewhere");
        if (blkup_u8_at(sb, SB_DEV_INDEX) >= blkup_u8_at(sb, SB_DEVICES))
                return blkup_damaged(v, "no such member");
        size = SB_FIELDS + 8 * (uint64_t) blkup_le32_at(sb, SB_FIELDS_LEN);
        bits = blkup_u8_at(sb, SB_MAX_SIZE_BITS);
        if (bits > MAX_SIZE_BITS || size > UINT64_C(512) << bits)
                return blkup_damaged(v, "superblock is longer than it may be");
        BLKUP_FETCH(v, hit->base, size, &sb);
        if (!has_checksum(sb))
                return blkup_damaged(v, "superblock checksum mismatch");
        blkup_found_evidence(ret, 128 + 64 + 32);
        blkup_found_uuid(ret, "UUID", blkup_slice_at(sb, SB_USER_UUID, 16));
        blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(sb, SB_LABEL, 32));
        version = blkup_le16_at(sb, SB_VERSION);
        blkup_found_version(ret, version >> 10, version & 1023);
        blkup_found_u64(ret, "BLOCK_SIZE", blkup_le16_at(sb, SB_BLOCK) * UINT64_C(512));
        blkup_found_u64(ret, "FSBLOCKSIZE", blkup_le16_at(sb, SB_BLOCK) * UINT64_C(512));
        ret->wiped_to = BLKUP_BCACHE_AT;
        return look_fields(v, sb, ret);
}

extern const struct blkup_format blkup_format_bcachefs;
const struct blkup_format blkup_format_bcachefs = {
        .name = "bcachefs", .usage = BLKUP_USAGE_FILESYSTEM, .min_bytes = 131072,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
