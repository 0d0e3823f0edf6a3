/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Bounded byte views. Bytes from a device are looked at only through these: no cast of a buffer to
 * a struct, no index without its check. Each accessor compiles to one compare and one load.
 *
 * A view does not own its bytes. Not thread-safe by itself, but read-only, so views may be shared.
 */
#ifndef BLKUP_BASE_BYTES_H
#define BLKUP_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"

struct blkup_bytes {
        const uint8_t *data;
        uint64_t at; /* offset of data[0] on the device, in bytes: for messages */
        size_t len;
};

static inline bool blkup_has(struct blkup_bytes s, size_t off, size_t n)
{
        size_t end;

        return !__builtin_add_overflow(off, n, &end) && end <= s.len;
}

/* The part [off, off + n) of s; false when it is not all inside. */
BLKUP_MUST_CHECK static inline bool blkup_sub_bytes(struct blkup_bytes s, size_t off, size_t n,
                                                    struct blkup_bytes *ret)
{
        if (!blkup_has(s, off, n))
                return false;
        *ret = (struct blkup_bytes){ .data = s.data + off, .at = s.at + off, .len = n };
        return true;
}

static inline bool blkup_equal_at(struct blkup_bytes s, size_t off, const void *what, size_t n)
{
        return blkup_has(s, off, n) && memcmp(s.data + off, what, n) == 0;
}

static inline bool blkup_is_filled(struct blkup_bytes s, size_t off, size_t n, uint8_t with)
{
        if (!blkup_has(s, off, n))
                return false;
        for (size_t i = 0; i < n; i++)
                if (s.data[off + i] != with)
                        return false;
        return true;
}

static inline uint16_t blkup_load_le16(const uint8_t *p)
{
        return (uint16_t) (p[0] | p[1] << 8);
}

static inline uint32_t blkup_load_le32(const uint8_t *p)
{
        return (uint32_t) p[0] | (uint32_t) p[1] << 8 | (uint32_t) p[2] << 16 | (uint32_t) p[3] << 24;
}

static inline uint64_t blkup_load_le64(const uint8_t *p)
{
        return (uint64_t) blkup_load_le32(p) | (uint64_t) blkup_load_le32(p + 4) << 32;
}

static inline uint16_t blkup_load_be16(const uint8_t *p)
{
        return (uint16_t) (p[0] << 8 | p[1]);
}

static inline uint32_t blkup_load_be32(const uint8_t *p)
{
        return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 | (uint32_t) p[2] << 8 | (uint32_t) p[3];
}

static inline uint64_t blkup_load_be64(const uint8_t *p)
{
        return (uint64_t) blkup_load_be32(p) << 32 | (uint64_t) blkup_load_be32(p + 4);
}

/* blkup_get_<order><bits>(s, off, &v): false when the field is not all inside s; *ret is then untouched. */
#define BLKUP_DEFINE_GET(name, type, load)                                                                   \
        BLKUP_MUST_CHECK static inline bool blkup_get_##name(struct blkup_bytes s, size_t off, type *ret)    \
        {                                                                                                    \
                if (!blkup_has(s, off, sizeof(type)))                                                        \
                        return false;                                                                        \
                *ret = load(s.data + off);                                                                   \
                return true;                                                                                 \
        }
static inline uint8_t blkup_load_u8(const uint8_t *p)
{
        return *p;
}
BLKUP_DEFINE_GET(u8, uint8_t, blkup_load_u8)
BLKUP_DEFINE_GET(le16, uint16_t, blkup_load_le16)
BLKUP_DEFINE_GET(le32, uint32_t, blkup_load_le32)
BLKUP_DEFINE_GET(le64, uint64_t, blkup_load_le64)
BLKUP_DEFINE_GET(be16, uint16_t, blkup_load_be16)
BLKUP_DEFINE_GET(be32, uint32_t, blkup_load_be32)
BLKUP_DEFINE_GET(be64, uint64_t, blkup_load_be64)
#undef BLKUP_DEFINE_GET

/*
 * The same for a view whose length the caller has already proven (a superblock fetched whole):
 * a field outside reads as 0, never outside the buffer. Saves a branch per field in validators.
 */
#define BLKUP_DEFINE_AT(name, type)                                                        \
        static inline type blkup_##name##_at(struct blkup_bytes s, size_t off)             \
        {                                                                                  \
                type v = 0;                                                                \
                                                                                           \
                return blkup_get_##name(s, off, &v) ? v : 0;                               \
        }
BLKUP_DEFINE_AT(u8, uint8_t)
BLKUP_DEFINE_AT(le16, uint16_t)
BLKUP_DEFINE_AT(le32, uint32_t)
BLKUP_DEFINE_AT(le64, uint64_t)
BLKUP_DEFINE_AT(be16, uint16_t)
BLKUP_DEFINE_AT(be32, uint32_t)
BLKUP_DEFINE_AT(be64, uint64_t)
#undef BLKUP_DEFINE_AT

#endif
