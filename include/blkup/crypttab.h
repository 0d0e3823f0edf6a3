/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which locked volumes the administrator wants opened: /etc/crypttab. A line that makes no sense, or asks for
 * what is not done here, is kept apart with its reason; the others go on.
 *
 * Source: crypttab(5), of systemd and of Debian's cryptsetup.
 */
#ifndef BLKUP_CRYPTTAB_H
#define BLKUP_CRYPTTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <blkup/error.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define BLKUP_CRYPTTAB_MAX_LINES 4096u
#define BLKUP_CRYPTTAB_MAX_BYTES (1u << 20)

struct blkup_crypttab_line {
        const char *name;   /* of the mapping: no "/", no - at its begin, at most 127 bytes */
        const char *source; /* a path or a tag */
        const char *key;    /* an absolute path; NULL: a passphrase */
        const char *header; /* an absolute path; NULL: on the device */
        bool is_noauto, is_read_only, allows_discards;
        uint64_t key_offset, key_size; /* 0: from the start, to the end */
        unsigned line;                 /* from 1 */
};

struct blkup_crypttab_bad {
        unsigned line;
        const char *why;
};

struct blkup_crypttab {
        const struct blkup_crypttab_line *lines;
        size_t n;
        const struct blkup_crypttab_bad *bad;
        size_t n_bad;
};

/* -EFBIG, -E2BIG, -ENOMEM. */
BLKUP_MUST_CHECK int blkup_crypttab_parse(const char *text, size_t n, struct blkup_crypttab **ret);
/* The file; -ENOENT and so on, err may be NULL. */
BLKUP_MUST_CHECK int blkup_crypttab_load(const char *path, struct blkup_crypttab **ret,
                                         struct blkup_error *err);
struct blkup_crypttab *blkup_crypttab_free(struct blkup_crypttab *t); /* NULL-safe, returns NULL */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
