/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The kernel command line (/proc/cmdline), cut into words.
 *
 * Source of the rules: the kernel's lib/cmdline.c (next_arg) and kernel/params.c (parse_args):
 * - white space parts words, but not between double quotes; a quote toggles wherever it stands;
 * - a word is KEY or KEY=VALUE, the first "=" counts, one at the very start does not;
 * - quotes around the whole word or around the value are taken off, others stay: x="a b", "x=a b" and x=a" "b
 *   give `a b`, `a b` and `a" "b`;
 * - behind a word "--" everything belongs to init;
 * - "-" and "_" are equal in keys.
 *
 * Texts belong to the table, live as long as it does, and may hold any byte but NUL. A table is read-only
 * after loading, so several threads may ask one. `root` and limits: see host/hostfile.h.
 */
#ifndef BLKUP_HOST_CMDLINE_H
#define BLKUP_HOST_CMDLINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/error.h"

/* x86 has 2,048 bytes, others less or a few times more; a boot configuration can add 32 KiB. */
#define BLKUP_CMDLINE_MAX_BYTES (256u << 10)
#define BLKUP_CMDLINE_MAX_WORDS 8192u

struct blkup_cmdline_word {
        const char *key;   /* "" only for a word that is just quotes */
        const char *value; /* NULL: no "=" */
        bool is_for_init;  /* stands behind "--" */
};

struct blkup_cmdline {
        const struct blkup_cmdline_word *words; /* in order; the "--" itself is not among them */
        size_t n;
};

/* Reads ROOT/proc/cmdline. -ENOENT: /proc is not mounted; -EFBIG, -E2BIG: a limit; -ENOMEM; what open and
 * read return. err may be NULL. */
BLKUP_MUST_CHECK int blkup_cmdline_load(const char *root, struct blkup_cmdline **ret,
                                        struct blkup_error *err);

/* The same from text in memory, which is copied; it ends at n or at a NUL. */
BLKUP_MUST_CHECK int blkup_cmdline_parse(const char *text, size_t n, struct blkup_cmdline **ret);

struct blkup_cmdline *blkup_cmdline_free(struct blkup_cmdline *c); /* NULL-safe, returns NULL */

/* The last word with this key before "--", which is the one that counts for most options; NULL: none (or c is
 * NULL). */
const struct blkup_cmdline_word *blkup_cmdline_last(const struct blkup_cmdline *c, const char *key);

/* The next word with this key before "--", after `after` (NULL: the first): for options that add up. */
const struct blkup_cmdline_word *blkup_cmdline_next(const struct blkup_cmdline *c, const char *key,
                                                    const struct blkup_cmdline_word *after);

#endif
