/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The tables are constants that the compiler works out, so there is nothing to initialise and nothing to
 * lock. A CRC is linear: the entry of a byte is the XOR of the entries of its bits. The entries of single
 * bits are one chain: S(0) is the polynomial, each next one is one more bit step. Reflected: bit b of table k
 * is S(8k + 7 - b), where table k is for a byte with k more bytes after it; not reflected, one table: bit b
 * is S(b).
 */
#include <endian.h>
#include <stdbool.h>
#include <string.h>

#include "base/crc.h"

#if BLKUP_IS_SMALL
/* No tables, 12 KB less: a bit a step, which for what a probe has to check is still well below a millisecond.
 */
static uint64_t reflected(uint64_t poly, uint64_t crc, const uint8_t *p, size_t n)
{
        for (; n > 0; n--) {
                crc ^= *p++;
                for (int i = 0; i < 8; i++)
                        crc = crc >> 1 ^ (crc & 1 ? poly : 0);
        }
        return crc;
}

uint32_t blkup_crc32(uint32_t crc, const void *p, size_t n)
{
        return (uint32_t) reflected(0xedb88320u, crc, p, n);
}

uint32_t blkup_crc32c_table(uint32_t crc, const void *p, size_t n)
{
        return (uint32_t) reflected(0x82f63b78u, crc, p, n);
}

uint16_t blkup_crc16(uint16_t crc, const void *p, size_t n)
{
        return (uint16_t) reflected(0xa001u, crc, p, n);
}

uint64_t blkup_crc64(uint64_t crc, const void *p, size_t n)
{
        for (const uint8_t *b = p; n > 0; n--) {
                crc ^= (uint64_t) *b++ << 56;
                for (int i = 0; i < 8; i++)
                        crc = crc << 1 ^ (crc >> 63 ? UINT64_C(0x42f0e1eba9ea3693) : 0);
        }
        return crc;
}
#else

#define BITS(i, s7, s6, s5, s4, s3, s2, s1, s0)                                                             \
        (((i) &1 ? (s7) : 0) ^ ((i) &2 ? (s6) : 0) ^ ((i) &4 ? (s5) : 0) ^ ((i) &8 ? (s4) : 0) ^            \
         ((i) &16 ? (s3) : 0) ^ ((i) &32 ? (s2) : 0) ^ ((i) &64 ? (s1) : 0) ^ ((i) &128 ? (s0) : 0))
#define ROW4(e, i) e(i), e((i) + 1), e((i) + 2), e((i) + 3)
#define ROW16(e, i) ROW4(e, i), ROW4(e, (i) + 4), ROW4(e, (i) + 8), ROW4(e, (i) + 12)
#define ROW64(e, i) ROW16(e, i), ROW16(e, (i) + 16), ROW16(e, (i) + 32), ROW16(e, (i) + 48)
#define TABLE(e) { ROW64(e, 0), ROW64(e, 64), ROW64(e, 128), ROW64(e, 192) }

/* Eight more links of a reflected chain, and the table made of them. */
#define STEP(c, poly) ((c) >> 1 ^ ((c) &1 ? (poly) : 0))
#define LINKS(p, poly, from, a, b, c, d, e, f, g, h)                                                        \
        enum {                                                                                              \
                p##a = from, p##b = STEP(p##a, poly), p##c = STEP(p##b, poly), p##d = STEP(p##c, poly),     \
                p##e = STEP(p##d, poly), p##f = STEP(p##e, poly), p##g = STEP(p##f, poly),                  \
                p##h = STEP(p##g, poly)                                                                     \
        }
#define CHAIN32(p, poly)                                                                                    \
        LINKS(p, poly, poly, 0, 1, 2, 3, 4, 5, 6, 7);                                                       \
        LINKS(p, poly, STEP(p##7, poly), 8, 9, 10, 11, 12, 13, 14, 15);                                     \
        LINKS(p, poly, STEP(p##15, poly), 16, 17, 18, 19, 20, 21, 22, 23);                                  \
        LINKS(p, poly, STEP(p##23, poly), 24, 25, 26, 27, 28, 29, 30, 31)

CHAIN32(ieee_, 0xedb88320u);       /* IEEE 802.3, UEFI specification 5.3.2 */
CHAIN32(castagnoli_, 0x82f63b78u); /* RFC 3720 appendix B.4 */

#define IEEE0(i) BITS(i, ieee_7, ieee_6, ieee_5, ieee_4, ieee_3, ieee_2, ieee_1, ieee_0)
#define IEEE1(i) BITS(i, ieee_15, ieee_14, ieee_13, ieee_12, ieee_11, ieee_10, ieee_9, ieee_8)
#define IEEE2(i) BITS(i, ieee_23, ieee_22, ieee_21, ieee_20, ieee_19, ieee_18, ieee_17, ieee_16)
#define IEEE3(i) BITS(i, ieee_31, ieee_30, ieee_29, ieee_28, ieee_27, ieee_26, ieee_25, ieee_24)
#define CAST0(i)                                                                                            \
        BITS(i, castagnoli_7, castagnoli_6, castagnoli_5, castagnoli_4, castagnoli_3, castagnoli_2,         \
             castagnoli_1, castagnoli_0)
#define CAST1(i)                                                                                            \
        BITS(i, castagnoli_15, castagnoli_14, castagnoli_13, castagnoli_12, castagnoli_11, castagnoli_10,   \
             castagnoli_9, castagnoli_8)
#define CAST2(i)                                                                                            \
        BITS(i, castagnoli_23, castagnoli_22, castagnoli_21, castagnoli_20, castagnoli_19, castagnoli_18,   \
             castagnoli_17, castagnoli_16)
#define CAST3(i)                                                                                            \
        BITS(i, castagnoli_31, castagnoli_30, castagnoli_29, castagnoli_28, castagnoli_27, castagnoli_26,   \
             castagnoli_25, castagnoli_24)

static const uint32_t ieee_tables[4][256] = { TABLE(IEEE0), TABLE(IEEE1), TABLE(IEEE2), TABLE(IEEE3) };
static const uint32_t castagnoli_tables[4][256] = { TABLE(CAST0), TABLE(CAST1), TABLE(CAST2), TABLE(CAST3) };

LINKS(ansi_, 0xa001u, 0xa001u, 0, 1, 2, 3, 4, 5, 6, 7); /* CRC-16/ARC, lib/crc16.c of the kernel */
#define ANSI(i) BITS(i, ansi_7, ansi_6, ansi_5, ansi_4, ansi_3, ansi_2, ansi_1, ansi_0)
static const uint16_t ansi_table[256] = TABLE(ANSI);

/* ECMA-182, lib/crc64.c of the kernel (bcache). */
#define ECMA UINT64_C(0x42f0e1eba9ea3693)
#define ECMA_STEP(c) ((c) << 1 ^ ((c) >> 63 ? ECMA : 0))
#define ECMA_S0 ECMA
#define ECMA_S1 ECMA_STEP(ECMA_S0)
#define ECMA_S2 ECMA_STEP(ECMA_S1)
#define ECMA_S3 ECMA_STEP(ECMA_S2)
#define ECMA_S4 ECMA_STEP(ECMA_S3)
#define ECMA_S5 ECMA_STEP(ECMA_S4)
#define ECMA_S6 ECMA_STEP(ECMA_S5)
#define ECMA_S7 ECMA_STEP(ECMA_S6)
#define ECMA_ENTRY(i) BITS(i, ECMA_S0, ECMA_S1, ECMA_S2, ECMA_S3, ECMA_S4, ECMA_S5, ECMA_S6, ECMA_S7)
static const uint64_t ecma_table[256] = TABLE(ECMA_ENTRY);

static uint32_t reflected32(const uint32_t t[4][256], uint32_t crc, const uint8_t *p, size_t n)
{
        for (; n >= 4; n -= 4, p += 4) {
                uint32_t w;

                memcpy(&w, p, sizeof(w));
                crc ^= le32toh(w);
                crc = t[3][crc & 0xff] ^ t[2][crc >> 8 & 0xff] ^ t[1][crc >> 16 & 0xff] ^ t[0][crc >> 24];
        }
        for (; n > 0; n--)
                crc = crc >> 8 ^ t[0][(crc ^ *p++) & 0xff];
        return crc;
}

uint32_t blkup_crc32(uint32_t crc, const void *p, size_t n)
{
        return reflected32(ieee_tables, crc, p, n);
}

uint32_t blkup_crc32c_table(uint32_t crc, const void *p, size_t n)
{
        return reflected32(castagnoli_tables, crc, p, n);
}

uint16_t blkup_crc16(uint16_t crc, const void *p, size_t n)
{
        for (const uint8_t *b = p; n > 0; n--)
                crc = (uint16_t) (crc >> 8 ^ ansi_table[(crc ^ *b++) & 0xff]);
        return crc;
}

uint64_t blkup_crc64(uint64_t crc, const void *p, size_t n)
{
        for (const uint8_t *b = p; n > 0; n--)
                crc = crc << 8 ^ ecma_table[(crc >> 56 ^ *b++) & 0xff];
        return crc;
}
#endif

#if defined(__x86_64__)

#include <cpuid.h>
#include <nmmintrin.h>
#include <stdatomic.h>

__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const uint8_t *p, size_t n)
{
        uint64_t c = crc;

        for (; n >= 8; n -= 8, p += 8) {
                uint64_t w;

                memcpy(&w, p, sizeof(w));
                c = _mm_crc32_u64(c, w);
        }
        crc = (uint32_t) c;
        for (; n > 0; n--)
                crc = _mm_crc32_u8(crc, *p++);
        return crc;
}

/*
 * CPUID leaves a virtual machine, which costs more than the checksum of a superblock, so it is asked once and
 * only when a checksum is wanted. (The compiler's own __builtin_cpu_supports() asks several times before
 * main(), in every program that links this, and brings 3.5 KB.) What is kept is a fact of the CPU, the same
 * for whoever writes it first.
 */
static bool has_instruction(void)
{
        static _Atomic int known; /* 0: not asked yet; 1: no; 2: yes */
        int k = atomic_load_explicit(&known, memory_order_relaxed);
        unsigned a, b, c, d;

        if (k == 0) {
                k = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2) ? 2 : 1;
                atomic_store_explicit(&known, k, memory_order_relaxed);
        }
        return k == 2;
}

#elif defined(__aarch64__)

#include <asm/hwcap.h>
#include <sys/auxv.h>

/* In assembly, because gcc and clang name the builtins and the target attribute differently. */
static uint32_t by_instruction(uint32_t crc, const uint8_t *p, size_t n)
{
        for (; n >= 8; n -= 8, p += 8) {
                uint64_t w;

                memcpy(&w, p, sizeof(w));
                w = le64toh(w);
                __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(w));
        }
        for (; n > 0; n--) {
                uint32_t b = *p++;

                __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"(b));
        }
        return crc;
}

static bool has_instruction(void)
{
        return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}

#else

static uint32_t by_instruction(uint32_t crc, const uint8_t *p, size_t n)
{
        return blkup_crc32c_table(crc, p, n);
}

static bool has_instruction(void)
{
        return false;
}

#endif

_Bool blkup_crc32c_hardware(uint32_t crc, const void *p, size_t n, uint32_t *ret)
{
        if (!has_instruction())
                return false;
        *ret = by_instruction(crc, p, n);
        return true;
}

uint32_t blkup_crc32c(uint32_t crc, const void *p, size_t n)
{
        return has_instruction() ? by_instruction(crc, p, n) : blkup_crc32c_table(crc, p, n);
}
