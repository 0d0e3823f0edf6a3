/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Paths: the mount point, and where a path really leads. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "mount/mounter.h"

bool blkup_mount_is_below(const char *path, const char *folder, bool or_same)
{
        size_t n = strlen(folder);

        /* One comparison: a long fstab asks this of each pair. */
        if (strncmp(path, folder, n) != 0)
                return false;
        if (!path[n])
                return or_same;
        return n == 1 || path[n] == '/';
}

/* Appends the components of rest to the path in out. */
static int append_rest(char out[PATH_MAX], const char *rest)
{
        size_t len = strlen(out);

        /* Ends: each turn goes past one component. */
        while (*rest) {
                size_t n;

                rest += strspn(rest, "/");
                n = strcspn(rest, "/");
                if (n == 2 && rest[0] == '.' && rest[1] == '.') {
                        char *slash = strrchr(out, '/');

                        len = slash && slash != out ? (size_t) (slash - out) : 1;
                        out[len] = '\0';
                } else if (n > 0 && !(n == 1 && rest[0] == '.')) {
                        if (len + n + 2 > PATH_MAX)
                                return -ENAMETOOLONG;
                        if (len > 1)
                                out[len++] = '/';
                        memcpy(out + len, rest, n);
                        len += n;
                        out[len] = '\0';
                }
                rest += n;
        }
        return 0;
}

int blkup_mount_canonical_path(const char *path, char ret[PATH_MAX])
{
        char head[PATH_MAX], out[PATH_MAX];
        size_t n = strlen(path), cut; /* what is behind cut does not exist */
        int r;

        if (n == 0 || n >= PATH_MAX)
                return n == 0 ? -ENOENT : -ENAMETOOLONG;
        memcpy(head, path, n + 1);
        cut = n;
        /* Ends: head gets shorter each turn. */
        while (!realpath(head, out)) {
                if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
                        return -errno;
                while (cut > 0 && head[cut - 1] == '/')
                        cut--;
                while (cut > 0 && head[cut - 1] != '/')
                        cut--;
                if (cut == 0) {
                        if (!getcwd(out, sizeof(out)))
                                return -errno;
                        break;
                }
                if (cut == 1) {
                        memcpy(out, "/", 2);
                        break;
                }
                head[cut] = '\0';
        }
        r = append_rest(out, path + cut);
        if (r == 0)
                memcpy(ret, out, strlen(out) + 1);
        return r;
}

/* mkdir -p, for X-mount.mkdir. Folders on the way get 0755. */
static int make_folders(const char *path, unsigned mode)
{
        char at[PATH_MAX];
        size_t n = strlen(path);

        if (n == 0 || n >= sizeof(at))
                return -ENAMETOOLONG;
        memcpy(at, path, n + 1);
        /* Ends: i grows up to the length. */
        for (size_t i = 1; i <= n; i++) {
                if (at[i] != '/' && at[i] != '\0')
                        continue;
                at[i] = '\0';
                if (mkdir(at, i == n ? mode : 0755) < 0 && errno != EEXIST)
                        return -errno;
                at[i] = i == n ? '\0' : '/';
        }
        return 0;
}

int blkup_mount_open_target(struct blkup_mount_attempt *a)
{
        int r;

        a->target_fd = blkup_mount_open(a->target, O_PATH);
        if (a->target_fd < 0 && errno == ENOENT && a->o.mkdir_mode) {
                r = make_folders(a->target, a->o.mkdir_mode);
                if (r < 0)
                        return blkup_mount_fail(a, BLKUP_MOUNT_CALL_TARGET, r);
                a->target_fd = blkup_mount_open(a->target, O_PATH);
        }
        if (a->target_fd < 0)
                return blkup_mount_fail(a, BLKUP_MOUNT_CALL_TARGET, -errno);
        return 0;
}
