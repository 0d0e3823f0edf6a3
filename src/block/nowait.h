/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reading what is in the page cache, and nothing else. Thread-safe. */
#ifndef BLKUP_BLOCK_NOWAIT_H
#define BLKUP_BLOCK_NOWAIT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x8 /* kernel include/uapi/linux/fs.h */
#endif

/* As pread(2); -1 and EAGAIN: the device would have to be asked. EOPNOTSUPP, ENOSYS: it cannot be told here.
 */
static inline ssize_t blkup_pread_nowait(int fd, void *to, size_t n, uint64_t at)
{
        struct iovec part = { .iov_base = to, .iov_len = n };

        /* preadv2(): musl has no name for it. The kernel takes the offset in two halves, on every
         * architecture. */
        return syscall(SYS_preadv2, fd, &part, 1UL, (unsigned long) at, (unsigned long) (at >> 32),
                       RWF_NOWAIT);
}

#endif
