/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names of modules and aliases. The kernel has "_" where files often have "-"; the two are one character in
 * names and aliases, except between "[" and "]", where "-" makes a range. Pure, thread-safe.
 */
#ifndef BLKUP_MODULES_NAME_H
#define BLKUP_MODULES_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

/* MODULE_NAME_LEN of the kernel's include/linux/module.h is 56 (64 less a long) with the NUL. */
#define BLKUP_MODULE_NAME_CAP 56u
/* An alias: a sysfs file is a page. */
#define BLKUP_MODULE_ALIAS_CAP 4096u

/* in[0..n) with "-" as "_" into out, with a NUL. -EINVAL: "[" without "]", or the other way round, a "/" or a
 * control character; -ENAMETOOLONG: does not fit. */
BLKUP_MUST_CHECK int blkup_module_alias(const char *in, size_t n, char *out, size_t cap);

/* Letters, digits, "_", "-", "." and a few signs that modules have: what may become part of a path. */
bool blkup_module_is_name(const char *s);

/* The name of the module in this file: "kernel/drivers/snd-pcm.ko.xz" gives "snd_pcm". -EINVAL: no module's
 * file name. */
BLKUP_MUST_CHECK int blkup_module_name_of_path(const char *path, size_t n,
                                               char out[BLKUP_MODULE_ALIAS_CAP]);

/* Does pattern match all of text? As fnmatch(3) without flags in the C locale, but without the tables of all
 * the world's letters that a static build would get from there. */
bool blkup_module_matches(const char *pattern, const char *text);

#endif
