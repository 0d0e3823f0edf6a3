/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * cs_fvault2: a physical volume of Apple's Core Storage that FileVault 2 encrypts. Source: Choudary, Grobert,
 * Metz, "Infiltrate the Vault" (2012), little-endian.
 */
#include "probe/formats/fields.h"

enum {
        VH_CHECKSUM = 0,
        VH_SEED = 4,
        VH_VERSION = 8,
        VH_BLOCK_TYPE = 10,
        VH_MAGIC = 88,
        VH_CHECKSUM_KIND = 90,
        VH_KEY_LEN = 168,
        VH_CIPHER = 172,
        VH_UUID = 304,
        VH_LEN = 512,
};
#define CHECKSUM_CRC32C 1u
#define BLOCK_TYPE_HEADER 0x10u
#define KEY_LEN 16u
#define CIPHER_AES_XTS 2u

static const struct blkup_magic magics[] = { { .within = VH_MAGIC, .len = 2, .bytes = "CS" } };

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes h;

        (void) hit;
        BLKUP_FETCH(v, 0, VH_LEN, &h);
        if (blkup_le16_at(h, VH_VERSION) != 1 || blkup_le32_at(h, VH_CHECKSUM_KIND) != CHECKSUM_CRC32C)
                return blkup_refuse(v, "neither version 1 nor CRC-32C");
        if (blkup_crc32c(blkup_le32_at(h, VH_SEED), h.data + VH_VERSION, VH_LEN - VH_VERSION) !=
            blkup_le32_at(h, VH_CHECKSUM))
                return blkup_damaged(v, "header checksum mismatch");
        if (blkup_le16_at(h, VH_BLOCK_TYPE) != BLOCK_TYPE_HEADER || blkup_le32_at(h, VH_KEY_LEN) != KEY_LEN ||
            blkup_le32_at(h, VH_CIPHER) != CIPHER_AES_XTS)
                return blkup_refuse(v, "no volume header with a key for AES-XTS");
        blkup_found_evidence(ret, 16 + 16 + 32 + 32 + 16 + 32 + 32);
        blkup_found_u64(ret, "VERSION", blkup_le16_at(h, VH_VERSION));
        blkup_found_uuid(ret, "UUID", blkup_slice_at(h, VH_UUID, 16));
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_cs_fvault2;
const struct blkup_format blkup_format_cs_fvault2 = {
        .name = "cs_fvault2", .usage = BLKUP_USAGE_CRYPTO,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
