/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A JSON reader for untrusted text that lies in memory: token after token, no allocation, no recursion. It
 * takes what RFC 8259 allows, and nothing else; at most BLKUP_JSON_DEPTH containers deep. Each token costs
 * the bytes it is made of, so that reading a text costs its length.
 *
 * The first error sticks, and r->at says where it is. Not thread-safe; one reader belongs to one thread. The
 * text must stay as it is while it is read.
 */
#ifndef BLKUP_BASE_JSON_READER_H
#define BLKUP_BASE_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/json.h"

enum blkup_json_token {
        BLKUP_JSON_END = 0, /* of the text; only blanks follow the one value */
        BLKUP_JSON_OBJECT,
        BLKUP_JSON_OBJECT_END,
        BLKUP_JSON_ARRAY,
        BLKUP_JSON_ARRAY_END,
        BLKUP_JSON_KEY,
        BLKUP_JSON_STRING,
        BLKUP_JSON_NUMBER,
        BLKUP_JSON_TRUE,
        BLKUP_JSON_FALSE,
        BLKUP_JSON_NULL,
};

struct blkup_json_reader {
        const char *s;
        size_t n, at;
        int error;
        unsigned depth;
        bool is_object[BLKUP_JSON_DEPTH + 1];
        bool has_item[BLKUP_JSON_DEPTH + 1]; /* [0]: the one value at the top */
        bool after_key;
        /* The token that was read last: of strings and keys what stands between the quotes. */
        const char *text;
        size_t len;
};

void blkup_json_reader_init(struct blkup_json_reader *r, const char *s, size_t n);

/* The next token, enum blkup_json_token; -EINVAL: this is no JSON; -E2BIG: it is too deep. */
BLKUP_MUST_CHECK int blkup_json_next(struct blkup_json_reader *r);

/* After the token that begins a value (or after a key): passes over all of the value. 0 or the error. */
BLKUP_MUST_CHECK int blkup_json_skip(struct blkup_json_reader *r, int token);

/*
 * The text of the last string or key, at most cap - 1 bytes and a NUL, never cut inside a character; returns
 * the length without the NUL. Escapes are resolved; U+0000, a lone surrogate and each byte that is no UTF-8
 * become U+FFFD. cap 0: writes nothing, returns 0.
 */
size_t blkup_json_text(const struct blkup_json_reader *r, char *out, size_t cap);

/* Is the last string or key exactly word? */
bool blkup_json_is(const struct blkup_json_reader *r, const char *word);

/* The last number, where it is a whole one that fits: else false. */
bool blkup_json_get_u64(const struct blkup_json_reader *r, uint64_t *ret);
bool blkup_json_get_i64(const struct blkup_json_reader *r, int64_t *ret);

/* The last number times 1000, exactly, further digits cut off: microseconds as nanoseconds. False: negative,
 * with an exponent, or too large. */
bool blkup_json_get_thousandths(const struct blkup_json_reader *r, uint64_t *ret);

#endif
