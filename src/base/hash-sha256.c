/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SHA-256 by FIPS 180-4. Btrfs may checksum its superblock with it. */
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"

/* FIPS 180-4, 4.2.2: the first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t cube_roots[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turn(uint32_t v, unsigned n)
{
        return v >> n | v << (32 - n);
}

static void block(uint32_t state[8], const uint8_t *p)
{
        uint32_t w[64], s[8];

        for (unsigned i = 0; i < 16; i++)
                w[i] = blkup_load_be32(p + 4 * i);
        for (unsigned i = 16; i < 64; i++) {
                uint32_t low = w[i - 15], high = w[i - 2];

                w[i] = w[i - 16] + w[i - 7] + (turn(low, 7) ^ turn(low, 18) ^ low >> 3) +
                       (turn(high, 17) ^ turn(high, 19) ^ high >> 10);
        }
        memcpy(s, state, sizeof(s));
        for (unsigned i = 0; i < 64; i++) {
                uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]),
                         majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
                uint32_t t1 = s[7] + (turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25)) + choice +
                              cube_roots[i] + w[i];
                uint32_t t2 = (turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22)) + majority;

                memmove(s + 1, s, 7 * sizeof(s[0]));
                s[4] += t1;
                s[0] = t1 + t2;
        }
        for (unsigned i = 0; i < 8; i++)
                state[i] += s[i];
}

void blkup_sha256(const void *p, size_t n, uint8_t out[32])
{
        /* FIPS 180-4, 5.3.3: the same of the square roots of the first eight primes. */
        uint32_t state[8] = {
                0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
        };
        const uint8_t *data = p;
        uint64_t bits = (uint64_t) n * 8;
        uint8_t last[128] = { 0 };
        size_t rest = n % 64, last_len = rest < 56 ? 64 : 128;

        for (size_t at = 0; at + 64 <= n; at += 64)
                block(state, data + at);
        if (rest > 0)
                memcpy(last, data + (n - rest), rest);
        last[rest] = 0x80;
        for (unsigned i = 0; i < 8; i++)
                last[last_len - 1 - i] = (uint8_t) (bits >> 8 * i);
        for (size_t at = 0; at < last_len; at += 64)
                block(state, last + at);
        for (unsigned i = 0; i < 32; i++)
                out[i] = (uint8_t) (state[i / 4] >> (24 - 8 * (i % 4)));
}
