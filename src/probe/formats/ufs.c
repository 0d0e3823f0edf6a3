/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* UFS1 and UFS2 in either byte order. Source: kernel fs/ufs/ufs_fs.h (struct ufs_super_block, the magics). */
#include <inttypes.h>

#include "probe/formats/fields.h"

/* Offsets in the superblock. */
enum {
        SB_FRAGMENT_BYTES = 52,
        SB_ID = 144,    /* two words */
        SB_LABEL = 680, /* 32 bytes, UFS2 */
        SB_MAGIC = 1372,
        SB_LEN = 1377,  /* what must be there of it */
};

#define UFS2_MAGIC 0x19540119u

static const uint32_t known_magics[] = { UFS2_MAGIC, 0x00011954, 0x00195612,
                                         0x00095014, 0x00612195, 0x05231994 };

/* Places, in the order of the search: floppies, UFS1, UFS2, UFS2 behind a large boot block. */
#define MAGIC_AT(base) { .at = (base) + SB_MAGIC, .len = 4 }
static const struct blkup_needed needs[] = { MAGIC_AT(0), MAGIC_AT(8192), MAGIC_AT(65536), MAGIC_AT(262144) };

/* The magic that stands at `at`, 0 when it is none. */
static enum blkup_outcome match(struct blkup_view *v, uint64_t at, uint32_t *ret, enum blkup_order *ret_order)
{
        struct blkup_bytes b;

        BLKUP_FETCH(v, at, 4, &b);
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(known_magics); i++) {
                if (blkup_be32_at(b, 0) == known_magics[i] || blkup_le32_at(b, 0) == known_magics[i]) {
                        *ret_order = blkup_be32_at(b, 0) == known_magics[i] ? BLKUP_BIG_ENDIAN
                                                                            : BLKUP_LITTLE_ENDIAN;
                        *ret = known_magics[i];
                        return BLKUP_FOUND;
                }
        }
        *ret = 0;
        return BLKUP_FOUND;
}

static enum blkup_outcome describe(struct blkup_view *v, uint64_t base, uint32_t magic,
                                   enum blkup_order order, struct blkup_found *ret)
{
        bool is_ufs2 = magic == UFS2_MAGIC;
        struct blkup_bytes sb, label = { 0 };
        uint32_t id[2];

        if (is_ufs2)
                blkup_view_want(v, base + SB_LABEL, 32);
        BLKUP_FETCH(v, base, SB_ID + 8, &sb);
        if (is_ufs2)
                BLKUP_FETCH(v, base + SB_LABEL, 32, &label);
        ret->magic_at = base + SB_MAGIC;
        ret->magic_len = 4;
        blkup_found_evidence(ret, 32);
        blkup_found_string(ret, "VERSION", is_ufs2 ? "2" : "1");
        if (is_ufs2)
                blkup_found_rtrimmed(ret, "LABEL", label);
        id[0] = blkup_u32_at(sb, SB_ID, order);
        id[1] = blkup_u32_at(sb, SB_ID + 4, order);
        if (id[0] || id[1])
                blkup_found_printf(ret, "UUID", "%08" PRIx32 "%08" PRIx32, id[0], id[1]);
        blkup_found_block_size(ret, blkup_u32_at(sb, SB_FRAGMENT_BYTES, order));
        blkup_found_endianness(ret, order);
        return BLKUP_FOUND;
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        (void) hit;
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(needs); i++) {
                uint64_t base = needs[i].at - SB_MAGIC;
                enum blkup_order order = BLKUP_BIG_ENDIAN;
                enum blkup_outcome o;
                uint32_t magic = 0;

                if (!blkup_inside(base, SB_LEN, v->size))
                        break;
                o = match(v, needs[i].at, &magic, &order);
                if (o != BLKUP_FOUND)
                        return o;
                if (magic)
                        return describe(v, base, magic, order, ret);
        }
        return BLKUP_NOT_THIS;
}

extern const struct blkup_format blkup_format_ufs;
const struct blkup_format blkup_format_ufs = {
        .name = "ufs", .usage = BLKUP_USAGE_FILESYSTEM, .needs = needs, .n_needs = BLKUP_ARRAY_SIZE(needs),
        .check = check,
};
