/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which kernel modules are loaded (/proc/modules). Modules that are built in are not among them.
 *
 * Source of the format: the kernel's kernel/module/procfs.c:
 *   NAME SIZE REFCOUNT USERS STATE ADDRESS [TAINTS]
 *
 * Texts belong to the table and live as long as it does. A table is read-only after loading, so several
 * threads may ask one. `root` and limits: see host/hostfile.h.
 */
#ifndef BLKUP_HOST_MODSTATE_H
#define BLKUP_HOST_MODSTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"

/* A kernel with every module loaded has some 6,000; a line names each user, up to all of them. */
#define BLKUP_MODSTATE_MAX_BYTES (16u << 20)
#define BLKUP_MODSTATE_MAX_MODULES 65536u
#define BLKUP_MODSTATE_MAX_LINE (1u << 20)
#define BLKUP_MODSTATE_MAX_USERS (1u << 20) /* in all lines together */

enum blkup_modstate_state {
        BLKUP_MODSTATE_LIVE,    /* "Live" */
        BLKUP_MODSTATE_COMING,  /* "Loading": its init function has not returned */
        BLKUP_MODSTATE_GOING,   /* "Unloading" */
        BLKUP_MODSTATE_UNKNOWN, /* a word of a later kernel */
};

struct blkup_modstate {
        const char *name;            /* with "_", as the kernel has it */
        uint64_t size_bytes;
        int32_t refcount;            /* -1: this kernel cannot unload modules and does not count */
        const char *const *users;    /* modules that use this one */
        size_t n_users;
        enum blkup_modstate_state state;
        bool is_permanent;           /* has an init function but no exit function: cannot be removed */
        const char *taints;          /* letters, "OE"; "" = none */
};

struct blkup_modstates {
        const struct blkup_modstate *modules; /* in the kernel's order: the last loaded comes first */
        size_t n;
        size_t n_bad_lines; /* lines that were no module: skipped */
};

/* Reads ROOT/proc/modules. -ENOENT: a kernel without modules, or /proc is not mounted; -EFBIG, -E2BIG: a
 * limit; -ENOMEM; what open and read return. err may be NULL. */
BLKUP_MUST_CHECK int blkup_modstates_load(const char *root, struct blkup_modstates **ret,
                                          struct blkup_error *err);

/* The same from text in memory, which is copied. */
BLKUP_MUST_CHECK int blkup_modstates_parse(const char *text, size_t n, struct blkup_modstates **ret);

struct blkup_modstates *blkup_modstates_free(struct blkup_modstates *t); /* NULL-safe, returns NULL */

/* The module of this name, "-" and "_" being one character; NULL: not loaded (or t is NULL). */
const struct blkup_modstate *blkup_modstates_by_name(const struct blkup_modstates *t, const char *name);

#endif
