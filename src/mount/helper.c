/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * mount.TYPE: programs that mount what the kernel does not mount by itself. Run by their absolute path, with
 * an empty environment, without a shell, without descriptors of ours.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "host/program.h"
#include "mount/mounter.h"
#include "mount/names.h"

int blkup_mount_find_helper(const char *type, char *ret, size_t cap)
{
        static const char *const folders[] = { "/sbin", "/usr/sbin" };
        const char *dot = strchr(type, '.');
        size_t lengths[2] = { strlen(type), dot ? (size_t) (dot - type) : 0 };

        if (!blkup_mount_is_type_name(type))
                return -EINVAL;
        /* "fuse.sshfs": mount.fuse.sshfs, else mount.fuse */
        for (size_t k = 0; k < 2; k++) {
                for (size_t i = 0; lengths[k] > 0 && i < BLKUP_ARRAY_SIZE(folders); i++) {
                        char path[128];

                        if (snprintf(path, sizeof(path), "%s/mount.%.*s", folders[i], (int) lengths[k],
                                     type) >= (int) sizeof(path))
                                return -ENAMETOOLONG;
                        if (access(path, X_OK) == 0) {
                                blkup_mount_copy(ret, cap, path);
                                return 0;
                        }
                }
        }
        return -ENOENT;
}

static int append(char **at, size_t *len, const char *key, const char *value)
{
        size_t n = strlen(key) + (value ? strlen(value) + 1 : 0) + 2;
        char *grown = realloc(*at, *len + n);

        if (!grown)
                return -ENOMEM;
        *at = grown;
        if (*len > 0)
                grown[(*len)++] = ',';
        *len += (size_t) sprintf(grown + *len, "%s%s%s", key, value ? "=" : "", value ? value : "");
        return 0;
}

/* The options for the helper: all but what is for us. */
static int make_options(const struct blkup_mount_attempt *a, char **ret)
{
        static const struct {
                uint64_t bit;
                const char *name;
        } names[] = {
                { BLKUP_MOUNT_ATTR_NOSUID, "nosuid" },
                { BLKUP_MOUNT_ATTR_NODEV, "nodev" },
                { BLKUP_MOUNT_ATTR_NOEXEC, "noexec" },
                { BLKUP_MOUNT_ATTR_NOATIME, "noatime" },
                { BLKUP_MOUNT_ATTR_STRICTATIME, "strictatime" },
                { BLKUP_MOUNT_ATTR_NODIRATIME, "nodiratime" },
        };
        size_t len = 0;
        int r;

        *ret = NULL;
        r = append(ret, &len, a->o.is_read_only ? "ro" : "rw", NULL);
        for (size_t i = 0; r == 0 && i < BLKUP_ARRAY_SIZE(names); i++)
                if (a->o.attr_set & names[i].bit)
                        r = append(ret, &len, names[i].name, NULL);
        for (size_t i = 0; r == 0 && i < a->o.n_fs; i++)
                r = append(ret, &len, a->o.fs[i].key, a->o.fs[i].value);
        return r;
}

int blkup_mount_by_helper(struct blkup_mount_attempt *a, const char *helper)
{
        BLKUP_CLEANUP_FREE char *options = NULL;
        char *environment[] = { NULL };
        const char *argv[] = { helper, a->source.path, a->target, "-o", NULL, NULL, NULL, NULL };
        pid_t pid;
        int status, r = make_options(a, &options);

        if (r < 0)
                return blkup_mount_fail(a, BLKUP_MOUNT_CALL_HELPER, r);
        /* Nobody's option: a source or a mount point that begins with a dash is not passed on. */
        if (a->source.path[0] == '-' || a->target[0] == '-')
                return blkup_mount_fail(a, BLKUP_MOUNT_CALL_HELPER, -EINVAL);
        argv[4] = options;
        if (strchr(a->r->type, '.')) {
                argv[5] = "-t";
                argv[6] = a->r->type;
        }
        blkup_mount_copy(a->r->other, sizeof(a->r->other), helper);
        blkup_mount_step_begin(a->r, "helper");
        r = blkup_program_start(helper, NULL, false, argv, environment, &pid);
        if (r == 0) {
                pid_t got;

                do
                        got = waitpid(pid, &status, 0);
                while (got < 0 && errno == EINTR);
                r = got < 0 ? -errno : 0;
        }
        blkup_mount_step_end(a->r);
        if (r < 0)
                return blkup_mount_fail(a, BLKUP_MOUNT_CALL_HELPER, r);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return 0;
        a->r->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        return blkup_mount_refuse(a, BLKUP_MOUNT_CALL_HELPER, BLKUP_MOUNT_REASON_HELPER_CODE, -ECANCELED);
}
