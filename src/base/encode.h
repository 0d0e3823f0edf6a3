/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Encoders: untrusted text made safe for one kind of reader each. Rules as util-linux's blkid prints them
 * (probe's -o modes are byte-equal to it); JSON is in base/json.h.
 *
 * Each returns the length written without the NUL and always NUL-terminates (cap > 0). No allocation. An
 * encoded character is written whole or not at all. in and out must not overlap. What udev's forms call valid
 * UTF-8 leaves out U+FDD0..U+FDEF and U+xxFFFF, as libblkid does.
 */
#ifndef BLKUP_BASE_ENCODE_H
#define BLKUP_BASE_ENCODE_H

#include <stddef.h>

/* Buffers for the two udev forms, with the NUL: results are then cut exactly where blkid cuts them. blkid's
 * own buffer for the encoded form has 265 bytes, and the NUL of an escape at its very end lands one byte
 * behind it. */
#define BLKUP_UDEV_ENC_CAP 266
#define BLKUP_UDEV_SAFE_CAP 256

/* udev "_ENC" form: keeps 0-9 A-Z a-z # + - . : = @ _ and valid multi-byte UTF-8, all else (also backslash)
 * as \xNN in lower case. Stops at NUL. A value that does not fit is cut before the character that would not;
 * as in libblkid no character starts in the last four bytes of out (NUL included), even if it would fit. */
size_t blkup_encode_udev(const char *in, size_t n, char *out, size_t cap);

/* udev "safe" form: blanks at both ends dropped, runs of white space to one, white space to '_', printable
 * ASCII (backslash included) and valid UTF-8 kept, the rest '_'. Stops at NUL and after cap bytes of input.
 * Differs from libblkid 2.38.1 on purpose: that lets control characters other than white space through. */
size_t blkup_encode_udev_safe(const char *in, size_t n, char *out, size_t cap);

/* -o full: inside double quotes. Bytes >= 128 as M- and the low seven bits' form; control as ^X, DEL ^?;
 * '"' and '\' get a backslash. Stops at NUL. Worst case 4 bytes a byte. */
size_t blkup_encode_full(const char *in, size_t n, char *out, size_t cap);

/* -o export: the same M-/^ rules, backslash before any of space \ " ' $ ` < >. */
size_t blkup_encode_export(const char *in, size_t n, char *out, size_t cap);

/* For a terminal or a log line: valid UTF-8 without control characters (C0, DEL, C1, line separators,
 * direction marks) kept, the rest \xNN byte by byte; NUL is one of the rest. Worst case 4 bytes a byte. */
size_t blkup_encode_terminal(const char *in, size_t n, char *out, size_t cap);

#endif
