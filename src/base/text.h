/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Text from a disk: decoding to UTF-8 and trimming. All of it is untrusted; nothing here is a format
 * string or reaches a shell. Output is encoded in base/encode.h.
 *
 * Decoders write at most cap - 1 bytes and a NUL, never cut inside a character, and return the length
 * written without the NUL. cap 0 writes nothing and returns 0. in may be unaligned; no function allocates.
 */
#ifndef BLKUP_BASE_TEXT_H
#define BLKUP_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

enum blkup_order { BLKUP_LITTLE_ENDIAN, BLKUP_BIG_ENDIAN };

/* UTF-16 to UTF-8. Surrogate pairs are joined; a lone surrogate becomes the three bytes of its code point
 * (as util-linux prints it); stops at U+0000 or at the last whole unit. */
size_t blkup_utf16_to_utf8(struct blkup_bytes in, enum blkup_order order, char *out, size_t cap);

/* Latin-1 to UTF-8; stops at NUL. */
size_t blkup_latin1_to_utf8(struct blkup_bytes in, char *out, size_t cap);

/* Length of the valid UTF-8 sequence that starts at s (1 to 4), or 0: no overlong forms, no surrogates,
 * nothing above U+10FFFF. n is how many bytes are readable. */
size_t blkup_utf8_sequence(const char *s, size_t n);

/* The same, and the code point; *ret is written only when the result is not 0. */
size_t blkup_utf8_decode(const char *s, size_t n, uint32_t *ret);

/* True for the six white-space characters of the C locale. */
bool blkup_is_space(char c);

/* New length of s[0..n) without trailing white space. */
size_t blkup_rtrim(const char *s, size_t n);

/* Skips leading white space: returns how many bytes to skip (0..n). */
size_t blkup_ltrim(const char *s, size_t n);

#endif
