/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A file of its own, because the kernel's header for struct statx and the C library's <sys/stat.h> do not go
 * together everywhere, and older C libraries' struct lacks the two fields.
 */
#include "block/dioalign.h"

#include <linux/fcntl.h>
#include <linux/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checked.h"

bool blkup_block_dioalign(int fd, uint32_t *ret_offset_bytes, uint32_t *ret_memory_bytes)
{
        struct statx x;

        if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &x) < 0 ||
            !(x.stx_mask & STATX_DIOALIGN))
                return false;
        if (x.stx_dio_offset_align != 0 &&
            (!blkup_is_power_of_two(x.stx_dio_offset_align) || !blkup_is_power_of_two(x.stx_dio_mem_align)))
                return false;
        *ret_offset_bytes = x.stx_dio_offset_align;
        *ret_memory_bytes = x.stx_dio_offset_align ? x.stx_dio_mem_align : 0;
        return true;
}
