/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Hashes and sums of on-disk formats that are no CRC. None of them is used to keep a secret here: they say
 * whether a superblock is whole, or make a name of one. Pure, thread-safe, no allocation; p may be unaligned.
 */
#ifndef BLKUP_BASE_HASH_H
#define BLKUP_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* RFC 1321; out has 16 bytes. */
void blkup_md5(const void *p, size_t n, uint8_t out[16]);
/* FIPS 180-4; out has 32 bytes. */
void blkup_sha256(const void *p, size_t n, uint8_t out[32]);
/* xxHash, 64-bit variant. */
uint64_t blkup_xxh64(uint64_t seed, const void *p, size_t n);
/* Fletcher's sum over little-endian 32-bit words, in the form that APFS stores: the two words that make the
 * sum of data and checksum zero. A rest of less than four bytes is left out. */
uint64_t blkup_fletcher64(const void *p, size_t n);

#endif
