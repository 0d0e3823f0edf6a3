/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Checksums of on-disk formats. Each takes the running value and returns the new one, WITHOUT initial or
 * final inversion: callers write what their format asks for (~0 or another seed, final xor or none).
 * Pure, thread-safe, no allocation; p may be unaligned.
 */
#ifndef BLKUP_BASE_CRC_H
#define BLKUP_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Reflected, 0xEDB88320 (IEEE 802.3). */
uint32_t blkup_crc32(uint32_t crc, const void *p, size_t n);
/* Reflected, 0x82F63B78 (Castagnoli); the best variant for this CPU. */
uint32_t blkup_crc32c(uint32_t crc, const void *p, size_t n);
/* Reflected, 0xA001, as ext4's uninit_bg uses it. */
uint16_t blkup_crc16(uint16_t crc, const void *p, size_t n);
/* Not reflected, 0x42F0E1EBA9EA3693; with ~0 in and out it is CRC-64/WE. */
uint64_t blkup_crc64(uint64_t crc, const void *p, size_t n);

/* The variants behind blkup_crc32c(), for the test that compares them. The hardware one returns false when
 * this CPU lacks it. */
uint32_t blkup_crc32c_table(uint32_t crc, const void *p, size_t n);
_Bool blkup_crc32c_hardware(uint32_t crc, const void *p, size_t n, uint32_t *ret);

#endif
