/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "block/holes.h"

#include <errno.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/checked.h"

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

/* Those that have told the truth for years, dirty pages included. Others have called fresh data a hole (ZFS
 * until 2.2.2), and what is taken for empty may be formatted. */
static bool is_trusted(int fd)
{
        struct statfs fs;

        if (fstatfs(fd, &fs) < 0)
                return false;
        switch ((unsigned long) fs.f_type) {
        case EXT4_SUPER_MAGIC:
        case XFS_SUPER_MAGIC:
        case TMPFS_MAGIC:
                return true;
        default:
                return false;
        }
}

void blkup_holes_init(struct blkup_holes *h, int fd, uint64_t size_bytes, uint64_t blocks)
{
        *h = (struct blkup_holes){ .is_on = false };
        /* 512 bytes a block, whatever the file system's are. */
        if (blocks < size_bytes / 512)
                h->is_on = is_trusted(fd);
}

bool blkup_holes_have(struct blkup_holes *h, int fd, uint64_t at, uint64_t len)
{
        off_t next;

        if (!h->is_on || at > INT64_MAX)
                return false;
        if (at >= h->hole_from && at < h->hole_to)
                return len <= h->hole_to - at;
        if (at >= h->data_from && at < h->data_to)
                return false;
        h->questions++;
        next = lseek(fd, (off_t) at, SEEK_DATA);
        if (next < 0 && errno != ENXIO) {
                h->is_on = false;
                return false;
        }
        /* ENXIO: no data from here on, to where the file ends now: what has been cut off meanwhile is not
         * zero but gone. */
        if (next < 0) {
                h->questions++;
                next = lseek(fd, 0, SEEK_END);
                if (next < 0 || (uint64_t) next <= at)
                        return false;
        }
        if ((uint64_t) next > at) {
                h->hole_from = at;
                h->hole_to = (uint64_t) next;
                return len <= h->hole_to - at;
        }
        h->questions++;
        next = lseek(fd, (off_t) at, SEEK_HOLE);
        h->data_from = at;
        h->data_to = next < 0 ? UINT64_MAX : (uint64_t) next;
        return false;
}
