/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * An image in a swap file lies in the middle of a file system, perhaps the very one that is to be mounted.
 * Where it begins is known to the kernel (resume_offset= of its command line, or what a boot wrote there) and
 * to the EFI variable that systemd leaves until the resume. Without either no such image can be resumed from.
 *
 * Sources: the kernel's Documentation/admin-guide/kernel-parameters.txt and
 * Documentation/power/swsusp-and-swap-files.rst; systemd-hibernate-resume(8); a variable of efivarfs is four
 * bytes of attributes and then its value, here JSON in UTF-16.
 *
 * Thread-safe: the places are only read after they were loaded.
 */
#ifndef BLKUP_MOUNT_HIBERNATION_H
#define BLKUP_MOUNT_HIBERNATION_H

#include <stdbool.h>
#include <stdint.h>

struct blkup_hibernation_places {
        uint64_t offsets[2]; /* pages from the start of the device; 0: not told */
};

/* root: a folder that stands for /, or NULL. What cannot be read is not told. */
void blkup_hibernation_places_load(const char *root, struct blkup_hibernation_places *ret);
bool blkup_hibernation_places_any(const struct blkup_hibernation_places *p);
/* Is an image at one of them? fd: the device, open for reading. */
bool blkup_hibernation_is_at(const struct blkup_hibernation_places *p, int fd);

#endif
