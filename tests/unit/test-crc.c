/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/crc.h"

/* Bit by bit, from the definition. */
static uint64_t slow_reflected(uint64_t poly, uint64_t crc, const uint8_t *p, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                crc ^= p[i];
                for (unsigned k = 0; k < 8; k++)
                        crc = (crc & 1) ? crc >> 1 ^ poly : crc >> 1;
        }
        return crc;
}

static uint64_t slow_crc64(uint64_t crc, const uint8_t *p, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                crc ^= (uint64_t) p[i] << 56;
                for (unsigned k = 0; k < 8; k++)
                        crc = (crc >> 63) ? crc << 1 ^ UINT64_C(0x42f0e1eba9ea3693) : crc << 1;
        }
        return crc;
}

/* Check values: CRC catalogue by Greg Cook (CRC-32/ISO-HDLC, CRC-32/ISCSI, CRC-16/ARC, CRC-64/WE). */
static void published_check_values(void **state)
{
        static const char digits[] = "123456789";

        (void) state;
        assert_true(~blkup_crc32(~0u, digits, 9) == 0xcbf43926u);
        assert_true(~blkup_crc32c(~0u, digits, 9) == 0xe3069283u);
        assert_true(~blkup_crc32c_table(~0u, digits, 9) == 0xe3069283u);
        assert_int_equal(blkup_crc16(0, digits, 9), 0xbb3d);
        assert_true(~blkup_crc64(~UINT64_C(0), digits, 9) == UINT64_C(0x62ec59e3f1a4f00a));
        /* Other seeds and no final inversion: CRC-32/JAMCRC, CRC-16/MODBUS, CRC-64/ECMA-182. */
        assert_true(blkup_crc32(~0u, digits, 9) == 0x340bc6d9u);
        assert_int_equal(blkup_crc16(0xffff, digits, 9), 0x4b37);
        assert_true(blkup_crc64(0, digits, 9) == UINT64_C(0x6c40df5f0b497347));
}

/* RFC 3720 appendix B.4. The values there are in memory order. */
static void rfc3720_examples(void **state)
{
        static const uint8_t read_command[48] = {
                0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 0x04, 0,
                0, 0, 0, 0x14, 0, 0, 0, 0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0, 0,
        };
        uint8_t b[32];

        (void) state;
        memset(b, 0, sizeof(b));
        assert_true(~blkup_crc32c(~0u, b, sizeof(b)) == 0x8a9136aau);
        memset(b, 0xff, sizeof(b));
        assert_true(~blkup_crc32c(~0u, b, sizeof(b)) == 0x62a8ab43u);
        for (size_t i = 0; i < sizeof(b); i++)
                b[i] = (uint8_t) i;
        assert_true(~blkup_crc32c(~0u, b, sizeof(b)) == 0x46dd794eu);
        for (size_t i = 0; i < sizeof(b); i++)
                b[i] = (uint8_t) (31 - i);
        assert_true(~blkup_crc32c(~0u, b, sizeof(b)) == 0x113fdb5cu);
        assert_true(~blkup_crc32c(~0u, read_command, sizeof(read_command)) == 0xd9963a56u);
}

static uint64_t next(uint64_t *seed)
{
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        return *seed;
}

static void fill(uint8_t *p, size_t n, uint64_t seed)
{
        for (size_t i = 0; i < n; i++)
                p[i] = (uint8_t) (next(&seed) >> 24);
}

static void check_all(uint64_t seed, const uint8_t *p, size_t n)
{
        uint32_t s = (uint32_t) seed, slow = (uint32_t) slow_reflected(0x82f63b78u, s, p, n), hw;

        assert_true(blkup_crc32(s, p, n) == (uint32_t) slow_reflected(0xedb88320u, s, p, n));
        assert_true(blkup_crc32c(s, p, n) == slow);
        assert_true(blkup_crc32c_table(s, p, n) == slow);
        if (blkup_crc32c_hardware(s, p, n, &hw))
                assert_true(hw == slow);
        assert_true(blkup_crc16((uint16_t) s, p, n) ==
                    (uint16_t) slow_reflected(0xa001u, (uint16_t) s, p, n));
        assert_true(blkup_crc64(seed, p, n) == slow_crc64(seed, p, n));
}

/* Every length up to 80 at every alignment to 16, each in memory of exactly its size, so that the address
 * sanitizer sees a read beyond either end; then long ones. */
static void every_alignment_and_length(void **state)
{
        uint64_t seed = 1;

        (void) state;
        for (size_t off = 0; off < 16; off++)
                for (size_t n = 0; n <= 80; n++) {
                        uint8_t *p = malloc(off + n > 0 ? off + n : 1);

                        assert_non_null(p);
                        fill(p, off + n, next(&seed));
                        check_all(next(&seed), p + off, n);
                        check_all(0, p + off, n);
                        free(p);
                }
        for (size_t n = 500; n <= 70000; n = n * 3 + 1) {
                uint8_t *p = malloc(n);

                assert_non_null(p);
                fill(p, n, next(&seed));
                check_all(next(&seed), p, n);
                free(p);
        }
}

/* The running value may be handed on at any place. */
static void pieces_give_the_whole(void **state)
{
        uint8_t b[64];

        (void) state;
        fill(b, sizeof(b), 99);
        for (size_t cut = 0; cut <= sizeof(b); cut++) {
                size_t rest = sizeof(b) - cut;

                assert_true(blkup_crc32(blkup_crc32(5, b, cut), b + cut, rest) ==
                            blkup_crc32(5, b, sizeof(b)));
                assert_true(blkup_crc32c(blkup_crc32c(5, b, cut), b + cut, rest) ==
                            blkup_crc32c(5, b, sizeof(b)));
                assert_true(blkup_crc16(blkup_crc16(5, b, cut), b + cut, rest) ==
                            blkup_crc16(5, b, sizeof(b)));
                assert_true(blkup_crc64(blkup_crc64(5, b, cut), b + cut, rest) ==
                            blkup_crc64(5, b, sizeof(b)));
        }
}

/* Each entry of each table: one byte alone, followed by 0 to 3 more. */
static void every_table_entry(void **state)
{
        (void) state;
        for (unsigned c = 0; c < 256; c++)
                for (size_t place = 0; place < 4; place++) {
                        uint8_t b[4] = { 0 };

                        b[place] = (uint8_t) c;
                        check_all(0, b, sizeof(b));
                        check_all(0, b, place + 1);
                }
}

/* Does the kernel see the instruction on this CPU? Then the hardware variant must exist. */
static void hardware_is_used_where_it_is(void **state)
{
#if defined(__x86_64__)
        static const char flag[] = " sse4_2";
#else
        static const char flag[] = " crc32";
#endif
        BLKUP_CLEANUP_FCLOSE FILE *f = fopen("/proc/cpuinfo", "re");
        bool has = false;
        char line[8192];
        uint32_t v = 7;

        (void) state;
#if !defined(__x86_64__) && !defined(__aarch64__)
        assert_false(blkup_crc32c_hardware(0, "a", 1, &v));
        assert_int_equal(v, 7);
        return;
#endif
        if (!f) {
                print_message("skipped: no /proc/cpuinfo\n");
                skip();
        }
        while (!has && fgets(line, sizeof(line), f))
                has = strstr(line, flag) != NULL;
        assert_int_equal(blkup_crc32c_hardware(0, "a", 1, &v), has);
        assert_true(v == (has ? blkup_crc32c_table(0, "a", 1) : 7));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(published_check_values),
                cmocka_unit_test(rfc3720_examples),
                cmocka_unit_test(every_alignment_and_length),
                cmocka_unit_test(pieces_give_the_whole),
                cmocka_unit_test(every_table_entry),
                cmocka_unit_test(hardware_is_used_where_it_is),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
