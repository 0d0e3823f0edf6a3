/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"

static void hex(const uint8_t *b, size_t n, char *to)
{
        for (size_t i = 0; i < n; i++)
                (void) sprintf(to + 2 * i, "%02x", b[i]);
}

/* RFC 1321, A.5. */
static void md5_of_the_rfc(void **state)
{
        static const char *const suite[][2] = {
                { "", "d41d8cd98f00b204e9800998ecf8427e" },
                { "a", "0cc175b9c0f1b6a831c399e269772661" },
                { "abc", "900150983cd24fb0d6963f7d28e17f72" },
                { "message digest", "f96b697d7cb7938d525a2f31aaf161d0" },
                { "abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b" },
                { "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
                  "d174ab98d277d9f5a5611c2c9f419d9f" },
                { "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                  "57edf4a22be3c955ac49da2e2107b67a" },
        };

        (void) state;
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(suite); i++) {
                uint8_t out[16];
                char text[33];

                blkup_md5(suite[i][0], strlen(suite[i][0]), out);
                hex(out, sizeof(out), text);
                assert_string_equal(text, suite[i][1]);
        }
}

/* NIST's examples for FIPS 180-4, and the padding's edges against coreutils' sha256sum. */
static void sha256_of_nist(void **state)
{
        static const char *const suite[][2] = {
                { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
                { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
                { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
                { "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlm"
                  "n"
                  "opqrsmnopqrstnopqrstu",
                  "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1" },
        };
        static const struct {
                size_t n;
                const char *digest;
        } zeros[] = {
                { 55, "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7" },
                { 56, "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb" },
                { 63, "c7723fa1e0127975e49e62e753db53924c1bd84b8ac1ac08df78d09270f3d971" },
                { 64, "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b" },
                { 65, "98ce42deef51d40269d542f5314bef2c7468d401ad5d85168bfab4c0108f75f7" },
        };
        static const uint8_t none[65];
        uint8_t out[32];
        char text[65];

        (void) state;
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(suite); i++) {
                blkup_sha256(suite[i][0], strlen(suite[i][0]), out);
                hex(out, sizeof(out), text);
                assert_string_equal(text, suite[i][1]);
        }
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(zeros); i++) {
                blkup_sha256(none, zeros[i].n, out);
                hex(out, sizeof(out), text);
                assert_string_equal(text, zeros[i].digest);
        }
}

/* Values of xxhsum 0.8.1 -H64; the last texts of each length class leave 8, 4 and single bytes over. */
static void xxh64_of_xxhsum(void **state)
{
        static const struct {
                size_t n;
                uint64_t hash;
        } suite[] = {
                { 31, UINT64_C(0x6ab1c40e29f50073) }, { 32, UINT64_C(0x5a0756fbe9ecd3d1) },
                { 33, UINT64_C(0xdc50cdc37bb9c183) }, { 63, UINT64_C(0x10dd94885c71894a) },
                { 64, UINT64_C(0x90083da9cdb9d795) }, { 100, UINT64_C(0xd248bfc5208b0b16) },
                { 101, UINT64_C(0x6bf452176f29bc13) }, { 103, UINT64_C(0xe954c7841d1305f7) },
                { 107, UINT64_C(0x6686b6187ff0ef45) }, { 255, UINT64_C(0x5da8139d7acf3995) },
                { 256, UINT64_C(0xb451505592b94d00) },
        };
        uint8_t b[257];

        (void) state;
        assert_true(blkup_xxh64(0, "", 0) == UINT64_C(0xef46db3751d8e999));
        assert_true(blkup_xxh64(0, "a", 1) == UINT64_C(0xd24ec4f1a98c6e5b));
        assert_true(blkup_xxh64(0, "abc", 3) == UINT64_C(0x44bc2cf5ad770999));
        for (size_t shift = 0; shift < 2; shift++) {
                for (size_t i = 0; i < 256; i++)
                        b[i + shift] = (uint8_t) (i * 7 + 1);
                for (size_t i = 0; i < BLKUP_ARRAY_SIZE(suite); i++)
                        assert_true(blkup_xxh64(0, b + shift, suite[i].n) == suite[i].hash);
        }
        assert_true(blkup_xxh64(1, b, 100) != blkup_xxh64(0, b, 100));
}

/* By hand, and by what the sum is for: over data and checksum it is zero. */
static void fletcher64_cancels(void **state)
{
        static const uint8_t one_two[8] = { 1, 0, 0, 0, 2, 0, 0, 0 };
        uint8_t b[4096];
        uint64_t sum = 0, sums = 0, stored;

        (void) state;
        assert_true(blkup_fletcher64(one_two, sizeof(one_two)) == UINT64_C(0x4fffffff8));
        for (size_t i = 0; i < sizeof(b) - 8; i++)
                b[i] = (uint8_t) (i * i + 3 * i);
        stored = blkup_fletcher64(b, sizeof(b) - 8);
        for (unsigned i = 0; i < 8; i++)
                b[sizeof(b) - 8 + i] = (uint8_t) (stored >> 8 * i);
        for (size_t i = 0; i < sizeof(b); i += 4) {
                uint32_t word = (uint32_t) b[i] | (uint32_t) b[i + 1] << 8 | (uint32_t) b[i + 2] << 16 |
                                (uint32_t) b[i + 3] << 24;

                sum = (sum + word) % UINT64_C(0xffffffff);
                sums = (sums + sum) % UINT64_C(0xffffffff);
        }
        assert_true(sum == 0);
        assert_true(sums == 0);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(md5_of_the_rfc),
                cmocka_unit_test(sha256_of_nist),
                cmocka_unit_test(xxh64_of_xxhsum),
                cmocka_unit_test(fletcher64_cancels),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
