/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The option text of a mount, taken apart: what goes to the file system, what is an attribute of the mount,
 * what is for programs only.
 *
 * Source: mount(8), fstab(5), mount_setattr(2); which words the kernel itself takes as flags of the super
 * block: the kernel's fs/fs_context.c.
 */
#ifndef BLKUP_MOUNT_OPTIONS_H
#define BLKUP_MOUNT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

#define BLKUP_MOUNT_MAX_OPTIONS 1024u
#define BLKUP_MOUNT_MAX_OPTION_BYTES (64u << 10)

struct blkup_mount_option_word {
        const char *key;
        const char *value; /* NULL: a flag */
};

struct blkup_mount_options {
        char *text;                          /* owned: the words lie in it */
        struct blkup_mount_option_word *fs;  /* owned: for the file system, in order; "ro" is among them */
        size_t n_fs;
        struct blkup_mount_option_word *user; /* owned: x-*, helper= and the like, in order */
        size_t n_user;

        uint64_t attr_set, attr_clr; /* MOUNT_ATTR_*; for a new mount attr_set is all */
        bool has_atime;
        uint64_t propagation;        /* MS_SHARED ... or 0 */
        bool propagation_is_recursive;

        bool is_read_only;      /* ro was the last word on it */
        bool is_read_write;     /* rw, in words */
        bool is_bind, is_recursive, is_move, is_remount;
        bool is_loop;
        const char *loop_device; /* loop=/dev/loop7 */
        bool has_offset;
        uint64_t offset_bytes, sizelimit_bytes;
        bool is_nofail, is_noauto, is_netdev;
        bool has_super_flags;   /* a word that changes the super block was given */
        bool has_verity;
        unsigned mkdir_mode;    /* X-mount.mkdir: 0 = not asked for */
        const char *subtype_helper; /* helper=: not followed, kept for messages */
};

/* -EINVAL: *ret_bad_key (in bad_key, cut) is the option that makes no sense; -E2BIG, -ENOMEM. text may be
 * NULL. */
BLKUP_MUST_CHECK int blkup_mount_options_parse(const char *text, struct blkup_mount_options *ret,
                                               char *bad_key, size_t cap);
void blkup_mount_options_free(struct blkup_mount_options *o);

/* The value of a user word (NULL: not there). "after" counts how many of that name to pass over. */
const char *blkup_mount_options_user(const struct blkup_mount_options *o, const char *name, size_t nth);

/* A size with an optional suffix (K M G T P E, with or without iB: powers of 1024). */
BLKUP_MUST_CHECK bool blkup_mount_parse_size(const char *text, uint64_t *ret);

/* The next option of a list, a comma inside double quotes being part of it: its length; *at moves past it and
 * its comma. NULL-terminated at the end: returns false. */
bool blkup_mount_next_option(const char **at, const char **ret, size_t *ret_len);

#endif
