/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the library leaves to its caller: looking for hibernated systems, which the prober does, and a process
 * that outlives this one. */
#include <errno.h>
#include <fcntl.h>
#include <linux/major.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <blkup/probe.h>

#include "cli/cmd-lazyinit.h"
#include "host/mountinfo.h"
#include "host/sysfs.h"
#include "mount/hibernation.h"

/* CD-ROM drives and floppies hold no swap, and may take seconds to say so. */
static bool may_hold_swap(const struct blkup_sysblock *b)
{
        return b->has_devno && b->size_sectors > 0 && !b->is_hidden && !b->dm_is_suspended &&
               b->dev_major != FLOPPY_MAJOR && b->dev_major != SCSI_CDROM_MAJOR &&
               b->dev_major != RAMDISK_MAJOR;
}

static bool is_hibernated(struct blkup_probe *p, const char *path)
{
        static const struct blkup_open_options how = { .direct = 0 };
        enum blkup_verdict verdict;

        return blkup_probe_path(p, path, &how, &verdict, NULL) == 0 && verdict == BLKUP_VERDICT_FOUND;
}

/* In a swap file on that device, at the place that the kernel or systemd tell. */
static bool has_image_in_file(const struct blkup_hibernation_places *places, const char *path)
{
        BLKUP_CLEANUP_CLOSE int fd = -1;

        if (!blkup_hibernation_places_any(places))
                return false;
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        return fd >= 0 && blkup_hibernation_is_at(places, fd);
}

static int find(char *name, size_t cap)
{
        struct blkup_probe *p = blkup_probe_new();
        struct blkup_sysblocks *blocks = NULL;
        struct blkup_mountinfo *mounts = NULL;
        struct blkup_hibernation_places places;
        struct blkup_swaps *swaps = NULL;
        int found = 0;

        if (!p || blkup_probe_set_types(p, "swsuspend", false, NULL) < 0) {
                blkup_probe_unref(p);
                return -ENOMEM;
        }
        blkup_probe_set_flags(p, BLKUP_PROBE_NO_TABLES | BLKUP_PROBE_NO_PART_ENTRY);
        blkup_hibernation_places_load(NULL, &places);
        /* Without it nothing is left out below: only slower. */
        (void) !blkup_mountinfo_load(NULL, &mounts, NULL);
        if (blkup_sysblocks_load(NULL, BLKUP_SYSFS_STACK, &blocks, NULL) == 0) {
                for (size_t i = 0; i < blocks->n && !found; i++) {
                        const struct blkup_sysblock *b = &blocks->blocks[i];
                        char path[300];

                        (void) snprintf(path, sizeof(path), "/dev/%.280s", b->dev_name);
                        /* What is mounted is no swap area. */
                        if (may_hold_swap(b) &&
                            !blkup_mountinfo_by_device(mounts, b->dev_major, b->dev_minor, NULL) &&
                            (is_hibernated(p, path) || has_image_in_file(&places, path))) {
                                (void) snprintf(name, cap, "%.255s", path);
                                found = 1;
                        }
                }
                blkup_sysblocks_free(blocks);
        }
        blkup_mountinfo_free(mounts);
        if (!found && blkup_swaps_load(NULL, &swaps, NULL) == 0) {
                for (size_t i = 0; i < swaps->n && !found; i++)
                        if (swaps->swaps[i].kind == BLKUP_SWAP_FILE &&
                            is_hibernated(p, swaps->swaps[i].path)) {
                                (void) snprintf(name, cap, "%.255s", swaps->swaps[i].path);
                                found = 1;
                        }
                blkup_swaps_free(swaps);
        }
        blkup_probe_unref(p);
        return found;
}

int blkup_cli_lazyinit_find_hibernation(void *unused, char *name, size_t cap)
{
        /* Once a run: swap areas do not change, and several devices ask. */
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        static char found_name[256];
        static int found = -1;
        int r;

        (void) unused;
        (void) pthread_mutex_lock(&lock);
        if (found < 0)
                found = find(found_name, sizeof(found_name));
        r = found;
        (void) snprintf(name, cap, "%.255s", found_name);
        (void) pthread_mutex_unlock(&lock);
        return r;
}

/*
 * The child: waits until the parent says that all is well, or is gone. It shares the descriptor, and with it
 * the locks, so nobody can step in between. Only async-signal-safe calls: other threads existed at the fork.
 */
static void watch(int pipe_fd, int fd, uint64_t at, const void *clean, size_t len)
{
        char byte;
        ssize_t n;

        (void) signal(SIGINT, SIG_IGN);
        (void) signal(SIGTERM, SIG_IGN);
        (void) signal(SIGHUP, SIG_IGN);
        (void) setsid();
        do
                n = read(pipe_fd, &byte, 1);
        while (n < 0 && errno == EINTR);
        if (n == 0 && pwrite(fd, clean, len, (off_t) at) == (ssize_t) len)
                (void) fdatasync(fd);
        _exit(0);
}

void blkup_cli_lazyinit_mmp_guard(void *watchman, bool is_held, int fd, uint64_t at, const void *clean,
                                  size_t len)
{
        struct blkup_cli_lazyinit_watchman *w = watchman;
        int ends[2];

        if (is_held) {
                if (w->pipe_fd >= 0 || pipe2(ends, O_CLOEXEC) < 0)
                        return;
                w->pid = fork();
                if (w->pid == 0) {
                        (void) close(ends[1]);
                        watch(ends[0], fd, at, clean, len);
                }
                (void) close(ends[0]);
                w->pipe_fd = ends[1];
                if (w->pid < 0)
                        w->pipe_fd = blkup_close(w->pipe_fd);
        } else if (w->pipe_fd >= 0) {
                (void) !write(w->pipe_fd, "", 1);
                w->pipe_fd = blkup_close(w->pipe_fd);
                (void) waitpid(w->pid, NULL, 0);
        }
}
