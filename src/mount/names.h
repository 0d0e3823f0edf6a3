/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names that come from files and devices: checked before they become part of a path or of a call. */
#ifndef BLKUP_MOUNT_NAMES_H
#define BLKUP_MOUNT_NAMES_H

#include <stdbool.h>

struct blkup_mountinfo;

/* "UUID=x" in two; false: no tag. The name is a constant, the value lies in source. */
bool blkup_mount_split_tag(const char *source, const char **ret_name, const char **ret_value);

/* TAG="value" and TAG='value' without their quotation marks, in place; all else stays as it is. */
void blkup_mount_unquote_tag(char *source);

/* Letters, digits, . _ - +: nothing that could leave a folder or be an option. */
bool blkup_mount_is_type_name(const char *s);

/* A type that has no device: its source is a text of its own. */
bool blkup_mount_is_nodev_type(const char *type);

/* A type that nothing writes to, the kernel's driver having no way to. */
bool blkup_mount_is_read_only_type(const char *type);

/* A type whose file system is the kernel's and for which nobody has a mount.TYPE. */
bool blkup_mount_is_plain_type(const char *type);

/* Is source, a file or a folder, bound at target already, as t has it? Both canonical. */
bool blkup_mount_is_bound(const struct blkup_mountinfo *t, const char *source, const char *target);

#endif
