/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Clean-up attributes: ownership ends with the scope unless it is taken on the return line. */
#ifndef BLKUP_BASE_CLEANUP_H
#define BLKUP_BASE_CLEANUP_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <blkup/error.h> /* BLKUP_MUST_CHECK */

#define BLKUP_CLEANUP(f) __attribute__((cleanup(f)))

/* close(2) that keeps errno, so that it may stand on an error path. Always returns -1, to be assigned:
 * `fd = blkup_close(fd)`. */
static inline int blkup_close(int fd)
{
        if (fd >= 0) {
                int saved = errno;

                (void) close(fd);
                errno = saved;
        }
        return -1;
}

static inline void blkup_closep(int *fd)
{
        *fd = blkup_close(*fd);
}

static inline void blkup_freep(void *p)
{
        int saved = errno;

        free(*(void **) p);
        errno = saved;
}

static inline void blkup_fclosep(FILE **f)
{
        if (*f) {
                int saved = errno;

                (void) fclose(*f);
                errno = saved;
        }
}

#define BLKUP_CLEANUP_CLOSE BLKUP_CLEANUP(blkup_closep)
#define BLKUP_CLEANUP_FREE BLKUP_CLEANUP(blkup_freep)
#define BLKUP_CLEANUP_FCLOSE BLKUP_CLEANUP(blkup_fclosep)

/* Hands an owned fd or pointer to the caller; the scope's clean-up then finds nothing. */
static inline int blkup_take_fd(int *fd)
{
        int taken = *fd;

        *fd = -1;
        return taken;
}

#define BLKUP_TAKE(p)                       \
        __extension__({                     \
                __typeof__(p) *at_ = &(p);  \
                __typeof__(p) had_ = *at_;  \
                *at_ = NULL;                \
                had_;                       \
        })

#define BLKUP_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define BLKUP_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#endif
