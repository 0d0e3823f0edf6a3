/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* MD5 by RFC 1321. HFS names its volumes with it. */
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"

/* Step i (RFC 1321, 3.4) adds floor(2^32 * |sin(i + 1)|). */
static const uint32_t sines[64] = {
        0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
        0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
        0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
        0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
        0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
        0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
        0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
        0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

/* How far each step of a round turns; a round repeats its four. */
static const uint8_t turns[4][4] = {
        { 7, 12, 17, 22 }, { 5, 9, 14, 20 }, { 4, 11, 16, 23 }, { 6, 10, 15, 21 }
};

static uint32_t turn(uint32_t v, unsigned n)
{
        return v << n | v >> (32 - n);
}

static void block(uint32_t state[4], const uint8_t *p)
{
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];

        for (unsigned i = 0; i < 64; i++) {
                unsigned round = i / 16, word;
                uint32_t f, next;

                switch (round) {
                case 0:
                        f = (b & c) | (~b & d);
                        word = i;
                        break;
                case 1:
                        f = (b & d) | (c & ~d);
                        word = 5 * i + 1;
                        break;
                case 2:
                        f = b ^ c ^ d;
                        word = 3 * i + 5;
                        break;
                default:
                        f = c ^ (b | ~d);
                        word = 7 * i;
                        break;
                }
                next = b + turn(a + f + sines[i] + blkup_load_le32(p + 4 * (word % 16)), turns[round][i % 4]);
                a = d;
                d = c;
                c = b;
                b = next;
        }
        state[0] += a;
        state[1] += b;
        state[2] += c;
        state[3] += d;
}

void blkup_md5(const void *p, size_t n, uint8_t out[16])
{
        uint32_t state[4] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476 };
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
                last[last_len - 8 + i] = (uint8_t) (bits >> 8 * i);
        for (size_t at = 0; at < last_len; at += 64)
                block(state, last + at);
        for (unsigned i = 0; i < 16; i++)
                out[i] = (uint8_t) (state[i / 4] >> 8 * (i % 4));
}
