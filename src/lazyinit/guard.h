/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Alone with a device or file: opens it so that nobody else can use it by the rules, and looks for those who
 * use it all the same. Each finding is a refusal.
 */
#ifndef BLKUP_LAZYINIT_GUARD_H
#define BLKUP_LAZYINIT_GUARD_H

#include <blkup/lazyinit.h>

#include "lazyinit/layout.h"

struct blkup_lazy_guard {
        int fd;      /* the file or device, for reading and perhaps writing; taken by the writer */
        int disk_fd; /* of a partition: its whole disk, whose flock udev respects; -1: none */
        bool is_file;
        uint64_t file_dev, file_inode;
        uint32_t dev_major,
                dev_minor; /* of the device; of a file: of the disk below its file system, 0: none */
};

/*
 * Opens PATH and locks it; for_writing false: everything is looked at as well, but it is opened for reading
 * and takes no lock that others would see. 0, 1 (refused) or a negative errno. blkup_lazy_guard_done()
 * releases.
 */
BLKUP_MUST_CHECK int blkup_lazy_guard_open(const char *path, const struct blkup_lazyinit_options *o,
                                           bool for_writing, struct blkup_lazy_guard *ret,
                                           struct blkup_lazy_refusal *r, struct blkup_error *err);
void blkup_lazy_guard_done(struct blkup_lazy_guard *g);

/* Zeroes written to what was never written may take space there. */
bool blkup_lazy_guard_may_be_thin(const struct blkup_lazy_guard *g, const char *root);

/* Requests of others that the device below has in flight right now. False too when nobody can tell. */
bool blkup_lazy_guard_has_foreign_io(const struct blkup_lazy_guard *g, const char *root);

#endif
