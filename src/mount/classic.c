/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* mount(2), where the kernel lacks the new calls or somebody forbids them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "mount/mounter.h"

#ifndef MS_NOSYMFOLLOW
#define MS_NOSYMFOLLOW 256 /* since 5.10 */
#endif
#ifndef MS_LAZYTIME
#define MS_LAZYTIME (1 << 25)
#endif

unsigned long blkup_mount_classic_flags(uint64_t attr)
{
        static const struct {
                uint64_t bit;
                unsigned long flag;
        } table[] = {
                { BLKUP_MOUNT_ATTR_RDONLY, MS_RDONLY },
                { BLKUP_MOUNT_ATTR_NOSUID, MS_NOSUID },
                { BLKUP_MOUNT_ATTR_NODEV, MS_NODEV },
                { BLKUP_MOUNT_ATTR_NOEXEC, MS_NOEXEC },
                { BLKUP_MOUNT_ATTR_NOATIME, MS_NOATIME },
                { BLKUP_MOUNT_ATTR_STRICTATIME, MS_STRICTATIME },
                { BLKUP_MOUNT_ATTR_NODIRATIME, MS_NODIRATIME },
                { BLKUP_MOUNT_ATTR_NOSYMFOLLOW, MS_NOSYMFOLLOW },
        };
        unsigned long flags = 0;

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(table); i++)
                if (attr & table[i].bit)
                        flags |= table[i].flag;
        return flags;
}

/* Words that mount(2) has flags for; all others are text for the file system. */
static unsigned long flag_of_word(const char *key)
{
        static const struct {
                const char *name;
                unsigned long flag;
        } table[] = {
                { "sync", MS_SYNCHRONOUS }, { "dirsync", MS_DIRSYNC }, { "lazytime", MS_LAZYTIME },
                { "iversion", MS_I_VERSION },
        };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(table); i++)
                if (strcmp(table[i].name, key) == 0)
                        return table[i].flag;
        return 0;
}

static bool is_off_word(const char *key)
{
        return strcmp(key, "async") == 0 || strcmp(key, "nolazytime") == 0 || strcmp(key, "noiversion") == 0;
}

int blkup_mount_by_classic(struct blkup_mount_attempt *a)
{
        const struct blkup_mount_ops *ops = a->m->ops;
        long page = sysconf(_SC_PAGESIZE);
        size_t cap = page > 0 ? (size_t) page : 4096, used = 0;
        BLKUP_CLEANUP_FREE char *data = malloc(cap);
        unsigned long flags = blkup_mount_classic_flags(a->o.attr_set) | (a->read_only ? MS_RDONLY : 0);
        char target[64];
        int r;

        if (!data)
                return blkup_mount_fail(a, BLKUP_MOUNT_CALL_CLASSIC, -ENOMEM);
        data[0] = '\0';
        for (size_t i = 0; i < a->o.n_fs; i++) {
                const struct blkup_mount_option_word *w = &a->o.fs[i];
                size_t n = strlen(w->key) + (w->value ? strlen(w->value) + 1 : 0) + 1;
                bool quote = w->value && strchr(w->value, ',');

                if (!w->value && (flag_of_word(w->key) || is_off_word(w->key))) {
                        flags |= flag_of_word(w->key);
                        continue;
                }
                if (used + n + 3 > cap)
                        return blkup_mount_fail(a, BLKUP_MOUNT_CALL_CLASSIC, -E2BIG);
                used += (size_t) snprintf(data + used, cap - used, "%s%s%s%s%s%s", used ? "," : "", w->key,
                                          w->value ? "=" : "", quote ? "\"" : "", w->value ? w->value : "",
                                          quote ? "\"" : "");
        }
        /* By the descriptor, so that it is the folder that was looked at; without /proc by its name. */
        (void) snprintf(target, sizeof(target), "/proc/self/fd/%d", a->target_fd);
        blkup_mount_step_begin(a->r, "mount");
        r = ops->mount(ops->to, a->source.path, access(target, F_OK) == 0 ? target : a->target, a->r->type,
                       flags, data);
        if ((r == -EACCES || r == -EROFS) && !a->read_only && !a->o.is_read_write &&
            a->source.kind == BLKUP_SOURCE_BLOCK) {
                r = ops->mount(ops->to, a->source.path, access(target, F_OK) == 0 ? target : a->target,
                               a->r->type, flags | MS_RDONLY, data);
                if (r == 0) {
                        a->read_only = true;
                        a->r->notes |= BLKUP_MOUNT_NOTE_READ_ONLY;
                }
        }
        blkup_mount_step_end(a->r);
        if (r < 0)
                return blkup_mount_fail(a, BLKUP_MOUNT_CALL_CLASSIC, r);
        return a->o.propagation ? blkup_mount_set_propagation(a, a->target_fd) : 0;
}
