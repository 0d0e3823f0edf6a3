/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* XXH64 by the xxHash specification 0.1.1. Btrfs and bcachefs may checksum their superblocks with it. */
#include "base/bytes.h"
#include "base/hash.h"

#define PRIME1 UINT64_C(0x9e3779b185ebca87)
#define PRIME2 UINT64_C(0xc2b2ae3d27d4eb4f)
#define PRIME3 UINT64_C(0x165667b19e3779f9)
#define PRIME4 UINT64_C(0x85ebca77c2b2ae63)
#define PRIME5 UINT64_C(0x27d4eb2f165667c5)

static uint64_t turn(uint64_t v, unsigned n)
{
        return v << n | v >> (64 - n);
}

static uint64_t mix(uint64_t lane, uint64_t input)
{
        return turn(lane + input * PRIME2, 31) * PRIME1;
}

uint64_t blkup_xxh64(uint64_t seed, const void *p, size_t n)
{
        const uint8_t *data = p;
        size_t left = n;
        uint64_t h;

        if (n >= 32) {
                uint64_t lanes[4] = { seed + PRIME1 + PRIME2, seed + PRIME2, seed, seed - PRIME1 };

                for (; left >= 32; left -= 32, data += 32)
                        for (unsigned i = 0; i < 4; i++)
                                lanes[i] = mix(lanes[i], blkup_load_le64(data + 8 * i));
                h = turn(lanes[0], 1) + turn(lanes[1], 7) + turn(lanes[2], 12) + turn(lanes[3], 18);
                for (unsigned i = 0; i < 4; i++)
                        h = (h ^ mix(0, lanes[i])) * PRIME1 + PRIME4;
        } else {
                h = seed + PRIME5;
        }
        h += n;
        for (; left >= 8; left -= 8, data += 8)
                h = turn(h ^ mix(0, blkup_load_le64(data)), 27) * PRIME1 + PRIME4;
        for (; left >= 4; left -= 4, data += 4)
                h = turn(h ^ blkup_load_le32(data) * PRIME1, 23) * PRIME2 + PRIME3;
        for (; left > 0; left--, data++)
                h = turn(h ^ *data * PRIME5, 11) * PRIME1;
        h = (h ^ h >> 33) * PRIME2;
        h = (h ^ h >> 29) * PRIME3;
        return h ^ h >> 32;
}
