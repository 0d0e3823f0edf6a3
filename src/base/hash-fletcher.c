/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Fletcher's sum, as the "Apple File System Reference" (Object Map, obj_phys_t, o_cksum) has it. */
#include "base/bytes.h"
#include "base/hash.h"

#define MODULUS UINT64_C(0xffffffff)

uint64_t blkup_fletcher64(const void *p, size_t n)
{
        const uint8_t *data = p;
        uint64_t sum = 0, sums = 0, low, high;

        for (size_t at = 0; at + 4 <= n; at += 4) {
                sum = (sum + blkup_load_le32(data + at)) % MODULUS;
                sums = (sums + sum) % MODULUS;
        }
        low = MODULUS - (sum + sums) % MODULUS;
        high = MODULUS - (sum + low) % MODULUS;
        return high << 32 | low;
}
