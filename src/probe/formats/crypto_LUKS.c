/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * crypto_LUKS, versions 1 and 2. Source: "LUKS1 On-Disk Format Specification" 1.2.3 and "LUKS2 On-Disk Format
 * Specification" 1.1.1 (headers; big-endian). No checksum is verified: a header that an interrupted
 * cryptsetup left behind must still be named, because what lies behind it must not be formatted over.
 *
 * A header of version 2 that says it belongs elsewhere is damaged, or a copy. util-linux says "nothing" then,
 * and who takes that for "may be formatted" loses all that is behind it, which the second header could still
 * open: here the answer is that nothing can be said.
 *
 * The secondary header of LUKS2 is a matter of wipefs, not of probing: alone it is nothing.
 */
#include "probe/formats/fields.h"

enum {
        HDR_VERSION = 6,      /* 16 bits */
        HDR2_LABEL = 24,      /* 48 bytes */
        HDR_UUID = 168,       /* 40 bytes, text */
        HDR2_SUBSYSTEM = 208, /* 48 bytes */
        HDR2_OFFSET = 256,    /* 64 bits: where this header stands */
};

static const struct blkup_magic magics[] = { { .len = 6, .bytes = "LUKS\xba\xbe" } };

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes h;
        uint16_t version;

        BLKUP_FETCH(v, hit->base, 264, &h);
        version = blkup_be16_at(h, HDR_VERSION);
        if (version == 2 && blkup_be64_at(h, HDR2_OFFSET) != hit->base)
                return blkup_damaged(v, "header says it stands elsewhere");
        blkup_found_evidence(ret, 48 + (version == 2 ? 64 : 0));
        blkup_found_u64(ret, "VERSION", version);
        if (version == 1 || version == 2)
                blkup_found_rtrimmed(ret, "UUID", blkup_slice_at(h, HDR_UUID, 40));
        if (version == 2) {
                blkup_found_rtrimmed(ret, "LABEL", blkup_slice_at(h, HDR2_LABEL, 48));
                blkup_found_trimmed(ret, "SUBSYSTEM", blkup_slice_at(h, HDR2_SUBSYSTEM, 48));
        }
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_crypto_LUKS;
const struct blkup_format blkup_format_crypto_LUKS = {
        .name = "crypto_LUKS", .usage = BLKUP_USAGE_CRYPTO, .flags = BLKUP_PRECIOUS,
        .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
