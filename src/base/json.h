/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A JSON writer for tables and traces. Output goes through a sink, so the library itself never prints.
 * Well-formed by construction: commas, nesting and escapes are the writer's; each byte that is not part of
 * valid UTF-8 becomes U+FFFD; '"' and '\' get a backslash; control characters (C0, DEL, C1), '<', '>', '&'
 * and U+2028, U+2029 become \uXXXX, so that the text is harmless on a terminal and inside HTML. Numbers do
 * not depend on the locale.
 *
 * Misuse (a value without a key in an object, a key elsewhere, the wrong end, a second value at the top
 * without blkup_json_newline() between, more than BLKUP_JSON_DEPTH levels) is an error: -EINVAL, which sticks
 * like any other; nothing more is written after it. Not thread-safe; one writer belongs to one thread.
 */
#ifndef BLKUP_BASE_JSON_H
#define BLKUP_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

#define BLKUP_JSON_DEPTH 32

struct blkup_json {
        int (*write)(void *to, const char *s, size_t n); /* 0 or negative errno; the first error sticks */
        void *to;
        int error;
        unsigned depth;
        bool pretty;                 /* two blanks a level and newlines, else one line */
        bool has_item[BLKUP_JSON_DEPTH + 1]; /* [0] is the top, outside every container */
        bool is_object[BLKUP_JSON_DEPTH + 1];
        bool after_key;
};

void blkup_json_init(struct blkup_json *j, int (*write)(void *to, const char *s, size_t n), void *to,
                     bool pretty);
void blkup_json_begin_object(struct blkup_json *j);
void blkup_json_end_object(struct blkup_json *j);
void blkup_json_begin_array(struct blkup_json *j);
void blkup_json_end_array(struct blkup_json *j);
void blkup_json_key(struct blkup_json *j, const char *key);
void blkup_json_string(struct blkup_json *j, const char *s);
void blkup_json_string_n(struct blkup_json *j, const char *s, size_t n); /* n bytes, may hold NUL */
void blkup_json_u64(struct blkup_json *j, uint64_t v);
void blkup_json_i64(struct blkup_json *j, int64_t v);
void blkup_json_double(struct blkup_json *j, double v, unsigned decimals); /* at most 17; not finite: null */
void blkup_json_bool(struct blkup_json *j, bool v);
void blkup_json_null(struct blkup_json *j);
void blkup_json_newline(struct blkup_json *j); /* between JSON Lines records, depth 0 only */
/* The first error, or -EINVAL when something is still open. */
BLKUP_MUST_CHECK int blkup_json_finish(struct blkup_json *j);

#endif
