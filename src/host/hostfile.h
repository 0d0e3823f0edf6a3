/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Bounded reads of the kernel's text files, for the other modules of this room.
 *
 * The room's rule for places: every function that reads the machine takes `const char *root`. NULL or ""
 * is the running system; anything else is a folder that stands for "/" (a test's fake machine, a sysroot).
 * Under such a root the way to a file or to a device's folder does not lead outside: links are resolved
 * inside it (openat2(2) with RESOLVE_IN_ROOT, since Linux 5.6; where that call is missing or forbidden the
 * path is opened as it is, which only matters for a root that somebody else filled).
 *
 * The room's rule for limits: a limit passed is an error (-EFBIG, -E2BIG), never a silently shorter
 * answer: "not mounted" must not be said after half a table.
 *
 * No state, thread-safe. Functions return 0 or a negative errno.
 */
#ifndef BLKUP_HOST_HOSTFILE_H
#define BLKUP_HOST_HOSTFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

/* Is root a folder that stands for "/"? */
static inline bool blkup_host_is_fake(const char *root)
{
        return root && *root;
}

/* Opens ROOT/path; path has no leading slash. O_CLOEXEC, O_NOCTTY and O_NONBLOCK (a pipe in the place of a
 * file must not hang us) are added to flags. Returns the fd, owned by the caller, or a negative errno. */
BLKUP_MUST_CHECK int blkup_host_open(const char *root, const char *path, int flags);

/* The target of the link ROOT/path, read and not followed, with a NUL. -ENAMETOOLONG when cap is too
 * small. */
BLKUP_MUST_CHECK int blkup_host_readlink(const char *root, const char *path, char *ret, size_t cap);

/* Everything from fd's position to the end: *ret is malloc'ed (caller frees), with a NUL behind ret_len
 * bytes. -EFBIG above max_bytes. */
BLKUP_MUST_CHECK int blkup_host_read_fd(int fd, size_t max_bytes, char **ret, size_t *ret_len);

/* blkup_host_open() and blkup_host_read_fd() in one. */
BLKUP_MUST_CHECK int blkup_host_read(const char *root, const char *path, size_t max_bytes, char **ret,
                                     size_t *ret_len);

/* A file that somebody named, by its own path: a pipe that a program still writes is waited for, a FIFO that
 * nobody writes is empty. Otherwise as blkup_host_read_fd(). */
BLKUP_MUST_CHECK int blkup_host_read_named(const char *path, size_t max_bytes, char **ret, size_t *ret_len);

/* A sysfs attribute into buf, with a NUL; newlines at the end are dropped. name may hold "/" but its last
 * part must not be a link. -EFBIG when it does not fit, -EBADMSG when it holds a NUL.
 * Returns the length or a negative errno; buf is undefined on failure. */
BLKUP_MUST_CHECK int blkup_host_attribute(int dir_fd, const char *name, char *buf, size_t cap);

/* The attribute as a decimal number. -EBADMSG when it is anything else, or does not fit. */
BLKUP_MUST_CHECK int blkup_host_attribute_u64(int dir_fd, const char *name, uint64_t *ret);
BLKUP_MUST_CHECK int blkup_host_attribute_i64(int dir_fd, const char *name, int64_t *ret);

/* s[0..n) as a decimal number: digits only, all of them, no sign, no blanks. */
BLKUP_MUST_CHECK bool blkup_host_number(const char *s, size_t n, uint64_t *ret);
BLKUP_MUST_CHECK bool blkup_host_number32(const char *s, size_t n, uint32_t *ret);

/* Up to n decimal numbers of s, parted by characters of `between`, which may also stand before the first; how
 * many there are. What follows is not looked at. */
BLKUP_MUST_CHECK size_t blkup_host_numbers(const char *s, const char *between, uint64_t *ret, size_t n);

/* "MAJ:MIN", two decimal numbers of 32 bits. */
BLKUP_MUST_CHECK bool blkup_host_devno(const char *s, size_t n, uint32_t *ret_major, uint32_t *ret_minor);

/* \ooo (three octal digits, \001 to \377) to its byte; other backslashes stay. Writes at most cap - 1 bytes
 * and a NUL (cap 0: nothing, to may be NULL) and returns the whole decoded length without the NUL; to may be
 * from. Source: mangle_path() and seq_escape() in the kernel's fs/seq_file.c write this form. */
size_t blkup_host_decode_octal(const char *from, size_t n, char *to, size_t cap);

/* The same in place for a text with a NUL. */
void blkup_host_unescape(char *s);

/* Are two module names or kernel parameters the same? The kernel takes "-" and "_" for one character. */
bool blkup_host_is_same_name(const char *a, const char *b);

/* ---- for parsers that cut up a text they own ---- */

/* A copy of text[0..n) with a NUL behind it; -EFBIG above max, -ENOMEM. The caller frees it. */
BLKUP_MUST_CHECK int blkup_host_copy(const char *text, size_t n, size_t max, char **ret);

/* Cuts the next line off the text [*at, end), where *end may be overwritten; NULL at the end. *ret_good: it
 * has at most max_line bytes and holds no NUL. */
char *blkup_host_next_line(char **at, char *end, size_t max_line, bool *ret_good);

/* Cuts the next column off a line, columns being parted by any number of blanks and tabs; "" at the end. */
char *blkup_host_next_column(char **at);

/* Room for entry number n in *array of *cap entries of `size` bytes: grows it by doubling, up to max entries.
 * -E2BIG beyond max, -ENOMEM; *array stays valid then. */
BLKUP_MUST_CHECK int blkup_host_reserve(void **array, size_t *cap, size_t n, size_t size, size_t max);

#endif
