/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the administrator and the kernel command line say of modules: modprobe.d, modules.softdep and
 * modules.weakdep of the kernel's folder, /proc/cmdline.
 *
 * Folders from high to low: /etc, /run, /usr/local/lib, /usr/lib, /lib, each with modprobe.d; a file hides
 * those of the same name in lower folders (an empty one or a link to /dev/null masks them); what is left is
 * read in the order of the base names. Source: modprobe.d(5).
 *
 * Texts belong to the configuration. Read-only after loading; threads may share one.
 */
#ifndef BLKUP_MODULES_CONFIG_H
#define BLKUP_MODULES_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "host/hostpool.h"

#define BLKUP_MODCONF_MAX_BYTES (4u << 20)   /* one file */
#define BLKUP_MODCONF_MAX_LINES (1u << 20)   /* all files */
#define BLKUP_MODCONF_MAX_FILES 4096u        /* one folder */

enum blkup_modconf_kind {
        BLKUP_MODCONF_BLACKLIST, BLKUP_MODCONF_INSTALL, BLKUP_MODCONF_REMOVE, BLKUP_MODCONF_ALIAS,
        BLKUP_MODCONF_OPTIONS, BLKUP_MODCONF_SOFTDEP, BLKUP_MODCONF_WEAKDEP, BLKUP_MODCONF_KINDS,
};

struct blkup_modconf_line {
        enum blkup_modconf_kind kind;
        const char *name;          /* module (for an alias the pattern), "-" as "_" */
        const char *text; /* alias: the module; install, remove, options: the rest of the line; else "" */
        const char *const *pre;    /* softdep; weakdep: all of them */
        const char *const *post;
        size_t n_pre, n_post;
};

struct blkup_modconf {
        struct blkup_host_pool pool;
        struct blkup_modconf_line *lines; /* in the order in which they were read */
        size_t n, cap;
        size_t n_bad_lines;
        size_t by_kind[BLKUP_MODCONF_KINDS]; /* how many */
};

/* kernel_dir: "lib/modules/RELEASE" below root, or NULL. -ENOMEM, -E2BIG, -EFBIG; a folder or file that is
 * not there, or that may not be read, is as if empty. */
BLKUP_MUST_CHECK int blkup_modconf_load(const char *root, const char *kernel_dir, struct blkup_modconf *ret,
                                        struct blkup_error *err);

/* Adds the lines of one file. text is copied. */
BLKUP_MUST_CHECK int blkup_modconf_parse(struct blkup_modconf *c, const char *text, size_t n);
/* Adds what a kernel command line says. */
BLKUP_MUST_CHECK int blkup_modconf_parse_cmdline(struct blkup_modconf *c, const char *text, size_t n);

void blkup_modconf_free(struct blkup_modconf *c);

bool blkup_modconf_is_blacklisted(const struct blkup_modconf *c, const char *name);
/* The first install or remove command for the module; NULL: none. */
const char *blkup_modconf_command(const struct blkup_modconf *c, enum blkup_modconf_kind kind,
                                  const char *name);

#endif
