/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "modules/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <blkup/modules.h>

#include "base/error.h"
#include "host/hostfile.h"
#include "modules/unpack.h"

int blkup_kernel_load(void *arg, const char *name, int fd, const void *image, size_t n, const char *options,
                      int flags)
{
        long r;

        (void) arg;
        (void) name;
        do
                r = fd >= 0 ? syscall(SYS_finit_module, fd, options, flags)
                            : syscall(SYS_init_module, image, n, options);
        while (r < 0 && errno == EINTR);
        return r < 0 ? -errno : 0;
}

const char *blkup_module_errno_meaning(int error)
{
        switch (-error) {
        case EEXIST:
                return "it is loaded already";
        case EBUSY:
                return "a load of that name was under way and failed, or one it needs did not come up in 30 "
                       "s";
        case ENOENT:
                return "a symbol is missing; `blkup modules check` names it";
        case EINVAL:
                return "a symbol's version differs, a namespace is not imported, or a parameter is wrong; "
                       "see "
                       "`blkup modules check` and dmesg(1)";
        case ENOEXEC:
                return "it is no module for this kernel; `blkup modules check` says why";
        case EKEYREJECTED:
                return "its signature is wrong, or missing where one is required";
        case EPERM:
                return "not permitted: no CAP_SYS_MODULE, modules_disabled, lockdown, or module_blacklist= "
                       "of the "
                       "kernel command line";
        case EOPNOTSUPP:
                return "compressed, and neither the kernel nor a library here unpacks it";
        case ENODEV:
        case ENXIO:
                return "not this hardware";
        default:
                return blkup_error_text(error);
        }
}

int blkup_kernel_compression(const char *root)
{
        BLKUP_CLEANUP_CLOSE int fd = blkup_host_open(root, "sys/module", O_RDONLY | O_DIRECTORY);
        char text[32];

        if (fd < 0 || blkup_host_attribute(fd, "compression", text, sizeof(text)) < 0)
                return BLKUP_NOT_PACKED;
        for (int k = BLKUP_GZIP; k < BLKUP_PACKINGS; k++)
                if (strcmp(text, blkup_packing_name(k)) == 0)
                        return k;
        return BLKUP_NOT_PACKED;
}

int blkup_packing_of_path(const char *path)
{
        const char *dot = strrchr(path, '.');

        if (!dot)
                return BLKUP_NOT_PACKED;
        if (strcmp(dot, ".gz") == 0)
                return BLKUP_GZIP;
        if (strcmp(dot, ".xz") == 0)
                return BLKUP_XZ;
        return strcmp(dot, ".zst") == 0 ? BLKUP_ZSTD : BLKUP_NOT_PACKED;
}
