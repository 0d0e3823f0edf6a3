/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Opening a file whose name holds "hang" never ends; one that holds "crash" kills; with "nofile" and "stale"
 * it fails as it does without a free descriptor and without its server. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int do_open(const char *path, int flags, int mode)
{
        if (strstr(path, "hang"))
                for (;;)
                        pause();
        if (strstr(path, "crash"))
                abort();
        if (strstr(path, "nofile") || strstr(path, "stale")) {
                errno = strstr(path, "stale") ? ESTALE : EMFILE;
                return -1;
        }
        return (int) syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
        va_list ap;
        int mode;

        va_start(ap, flags);
        mode = flags & O_CREAT ? va_arg(ap, int) : 0;
        va_end(ap);
        return do_open(path, flags, mode);
}

/* What glibc's open64() becomes under _FORTIFY_SOURCE; its headers declare it only there. */
int __open64_2(const char *path, int flags);
int __open64_2(const char *path, int flags)
{
        return do_open(path, flags, 0);
}
