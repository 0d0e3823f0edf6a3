/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Who: the one that holds a device, the twin of a file system, the users of a mount. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "bringup/explain-internal.h"
#include "host/hostfile.h"
#include "host/loopstate.h"

#define MAX_PROCESSES 65536u
#define MAX_FDS 4096u

const struct blkup_mountinfo *blkup_explainer_mounts(struct blkup_explainer *e)
{
        if (!e->mounts_are_read && blkup_mountinfo_load(e->root, &e->mounts, NULL) < 0)
                e->mounts = NULL;
        e->mounts_are_read = true;
        return e->mounts;
}

const struct blkup_sysblocks *blkup_explainer_blocks(struct blkup_explainer *e)
{
        if (!e->blocks_are_read &&
            blkup_sysblocks_load(e->root, BLKUP_SYSFS_LINKS | BLKUP_SYSFS_STACK, &e->blocks, NULL) < 0)
                e->blocks = NULL;
        e->blocks_are_read = true;
        return e->blocks;
}

static const struct blkup_mount *mount_of(struct blkup_explainer *e, const struct blkup_mount_result *r)
{
        const struct blkup_mountinfo *t = blkup_explainer_mounts(e);
        const struct blkup_mount *m = NULL;

        if (r->dev_major || r->dev_minor)
                m = blkup_mountinfo_by_device(t, r->dev_major, r->dev_minor, NULL);
        if (!m && r->device[0] == '/')
                m = blkup_mountinfo_by_source(t, r->device, NULL);
        return m;
}

static bool is_swap(struct blkup_explainer *e, const char *device)
{
        struct blkup_swaps *swaps;
        bool found = false;

        if (blkup_swaps_load(e->root, &swaps, NULL) < 0)
                return false;
        for (size_t i = 0; i < swaps->n; i++)
                found |= strcmp(swaps->swaps[i].path, device) == 0;
        blkup_swaps_free(swaps);
        return found;
}

bool blkup_explain_holder(struct blkup_explainer *e, const struct blkup_mount_result *r,
                          struct blkup_saying *s)
{
        const struct blkup_mount *m = mount_of(e, r);
        const struct blkup_sysblock *b;

        if (m) {
                blkup_say(s, "%s is mounted at %s%s", r->device, m->target,
                          m->is_read_only ? " (read-only)" : " (read-write)");
                return true;
        }
        if (is_swap(e, r->device)) {
                blkup_say(s, "%s is in use as swap: swapoff %s", r->device, r->device);
                return true;
        }
        b = blkup_sysblocks_by_devno(blkup_explainer_blocks(e), r->dev_major, r->dev_minor);
        if (b && b->n_holders > 0) {
                const struct blkup_sysblock *h = blkup_sysblocks_by_name(e->blocks, b->holders[0]);

                blkup_say(s, "%s is held by %s", r->device, b->holders[0]);
                if (h && h->dm_name)
                        blkup_say(s, " (/dev/mapper/%s)", h->dm_name);
                blkup_say(s, ": mount that instead");
                return true;
        }
        if (b && !b->is_partition)
                for (size_t i = 0; i < e->blocks->n; i++) {
                        const struct blkup_sysblock *p = &e->blocks->blocks[i];
                        const struct blkup_mount *on;

                        if (!p->is_partition || strcmp(p->disk_name, b->name) != 0)
                                continue;
                        on = blkup_mountinfo_by_device(blkup_explainer_mounts(e), p->dev_major, p->dev_minor,
                                                       NULL);
                        if (on) {
                                blkup_say(s, "%s is a whole disk, and its partition %s is mounted at %s",
                                          r->device, p->name, on->target);
                                return true;
                        }
                }
        return false;
}

/* xfs keeps its UUID at byte 32 of its super block (xfs_format.h). */
static bool xfs_uuid(const char *path, uint64_t at, unsigned char ret[16])
{
        BLKUP_CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

        return fd >= 0 && at < INT64_MAX - 48 && pread(fd, ret, 16, (off_t) at + 32) == 16;
}

bool blkup_explain_twin(struct blkup_explainer *e, const struct blkup_mount_result *r, struct blkup_saying *s)
{
        const struct blkup_mountinfo *t = blkup_explainer_mounts(e);
        unsigned char ours[16], theirs[16];

        if (!xfs_uuid(blkup_explain_name(r), *r->file ? r->offset_bytes : 0, ours))
                return false;
        for (size_t i = 0; t && i < t->n; i++) {
                const struct blkup_mount *m = &t->mounts[i];

                if (strcmp(m->fs_type, "xfs") != 0 || m->source[0] != '/' ||
                    strcmp(m->source, r->device) == 0 || !xfs_uuid(m->source, 0, theirs) ||
                    memcmp(ours, theirs, 16) != 0)
                        continue;
                blkup_say(s,
                          "duplicate UUID: another mounted xfs has the same one (%s, mounted at %s): use -o "
                          "nouuid "
                          "to mount a clone, or give it a new one with xfs_admin -U generate",
                          m->source, m->target);
                return true;
        }
        return false;
}

/* ---- users of a mount ---- */

static bool leads_to(int proc, const char *name, dev_t dev)
{
        struct stat st;

        return fstatat(proc, name, &st, 0) == 0 && st.st_dev == dev;
}

/* How a process uses the file system; NULL: not. */
static const char *use_of(int proc, dev_t dev)
{
        BLKUP_CLEANUP_CLOSE int fds = -1;
        const char *use = NULL;
        struct dirent *d;
        DIR *dir;
        unsigned n = 0;

        if (leads_to(proc, "cwd", dev))
                return "its working directory is there";
        if (leads_to(proc, "root", dev))
                return "its root is there";
        if (leads_to(proc, "exe", dev))
                return "its program is there";
        fds = openat(proc, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        dir = fds >= 0 ? fdopendir(fds) : NULL;
        if (!dir)
                return NULL;
        fds = -1;
        /* Ends: at most MAX_FDS entries. */
        while (!use && n++ < MAX_FDS && (d = readdir(dir)))
                if (d->d_name[0] != '.' && leads_to(dirfd(dir), d->d_name, dev))
                        use = "it has a file open there";
        (void) closedir(dir);
        return use;
}

static bool say_process(int proc_root, const char *pid, dev_t dev, struct blkup_saying *s)
{
        BLKUP_CLEANUP_CLOSE int proc = openat(proc_root, pid, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        const char *use = proc >= 0 ? use_of(proc, dev) : NULL;
        char name[64];

        if (!use)
                return false;
        if (blkup_host_attribute(proc, "comm", name, sizeof(name)) < 0)
                (void) snprintf(name, sizeof(name), "?");
        blkup_say(s, "process %s (%s): %s", pid, name, use);
        return true;
}

static bool say_processes(dev_t dev, struct blkup_saying *s)
{
        DIR *dir = opendir("/proc");
        struct dirent *d;
        unsigned n = 0, found = 0;

        if (!dir)
                return false;
        /* Ends: at most MAX_PROCESSES entries; three are enough to go on with. */
        while (found < 3 && n++ < MAX_PROCESSES && (d = readdir(dir))) {
                if (!isdigit((unsigned char) d->d_name[0]) || strtol(d->d_name, NULL, 10) == getpid())
                        continue;
                if (found > 0) {
                        size_t len = s->len;

                        blkup_say(s, "; ");
                        if (!say_process(dirfd(dir), d->d_name, dev, s)) {
                                s->len = len;
                                s->text[len] = '\0';
                        } else {
                                found++;
                        }
                } else {
                        found += say_process(dirfd(dir), d->d_name, dev, s);
                }
        }
        (void) closedir(dir);
        return found > 0;
}

bool blkup_explain_users(struct blkup_explainer *e, const char *target, struct blkup_saying *s)
{
        const struct blkup_mountinfo *t = blkup_explainer_mounts(e);
        char canonical[PATH_MAX];
        const struct blkup_mount *m;
        struct blkup_loops *loops = NULL;
        struct blkup_swaps *swaps = NULL;
        struct stat here;
        bool said = false;
        size_t n;

        if (realpath(target, canonical))
                target = canonical;
        n = strlen(target);
        m = blkup_mountinfo_by_target(t, target);
        for (size_t i = 0; t && m && i < t->n && !said; i++)
                if (t->mounts[i].parent_id == m->id && &t->mounts[i] != m) {
                        blkup_say(s, "%s is mounted below it", t->mounts[i].target);
                        said = true;
                }
        if (!said && blkup_loops_load(e->root, &loops, NULL) == 0)
                for (size_t i = 0; i < loops->n && !said; i++)
                        if (loops->loops[i].file && strncmp(loops->loops[i].file, target, n) == 0 &&
                            loops->loops[i].file[n] == '/') {
                                blkup_say(s, "/dev/%s shows its file %s", loops->loops[i].name,
                                          loops->loops[i].file);
                                said = true;
                        }
        blkup_loops_free(loops);
        if (!said && blkup_swaps_load(e->root, &swaps, NULL) == 0)
                for (size_t i = 0; i < swaps->n && !said; i++)
                        if (strncmp(swaps->swaps[i].path, target, n) == 0 && swaps->swaps[i].path[n] == '/') {
                                blkup_say(s, "its file %s is in use as swap", swaps->swaps[i].path);
                                said = true;
                        }
        blkup_swaps_free(swaps);
        if (!said && m)
                said = say_processes(makedev(m->dev_major, m->dev_minor), s);
        /* Last: the shell that started this process is the better answer, where there is one. */
        if (!said && m && stat(".", &here) == 0 && here.st_dev == makedev(m->dev_major, m->dev_minor)) {
                blkup_say(s, "the working directory of this command is there");
                said = true;
        }
        return said;
}
