/* SPDX-License-Identifier: GPL-2.0-or-later */
/* blkid -o list: a table for people. Widths as blkid prints them where standard output is no terminal. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/encode.h"
#include "cli/blkid.h"
#include "host/mountinfo.h"

struct blkup_cli_blkid_list {
        struct blkup_mountinfo *mounts;
        struct blkup_swaps *swaps;
        struct blkup_sysblocks *blocks; /* which file is behind which loop device */
};

struct blkup_cli_blkid_list *blkup_cli_blkid_list_new(void)
{
        struct blkup_cli_blkid_list *l = calloc(1, sizeof(*l));

        if (!l)
                return NULL;
        if (blkup_mountinfo_load(NULL, &l->mounts, NULL) < 0)
                l->mounts = NULL;
        if (blkup_swaps_load(NULL, &l->swaps, NULL) < 0)
                l->swaps = NULL;
        if (blkup_sysblocks_load(NULL, BLKUP_SYSFS_STACK, &l->blocks, NULL) < 0)
                l->blocks = NULL;
        return l;
}

struct blkup_cli_blkid_list *blkup_cli_blkid_list_free(struct blkup_cli_blkid_list *l)
{
        if (l) {
                (void) blkup_mountinfo_free(l->mounts);
                (void) blkup_swaps_free(l->swaps);
                (void) blkup_sysblocks_free(l->blocks);
                free(l);
        }
        return NULL;
}

/* Columns: what comes before the last one, each with the blank behind it. */
static const size_t widths[] = { 10, 7, 8, 14 };

/* Returns how many bytes it printed. */
static size_t print_safe(const char *text)
{
        char safe[4 * 256 + 1];
        size_t n = blkup_encode_terminal(text, strnlen(text, 256), safe, sizeof(safe));

        fputs(safe, stdout);
        return n;
}

/* One cell, padded to its column; a text that is too long takes from the next column's room. Returns by how
 * much it does. A device's name that is too long gets a line of its own. */
static size_t print_cell(const char *text, size_t width, size_t behind, bool own_line)
{
        size_t len = print_safe(text) + behind;

        if (own_line && len > width) {
                printf("\n%*s", (int) width + 1, "");
                return 0;
        }
        printf("%*s", (int) (len > width ? 1 : width - len + 1), "");
        return len > width ? len - width : 0;
}

static void print_line(const char *const *cells)
{
        size_t behind = 0;

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(widths); i++)
                behind = print_cell(cells[i], widths[i], behind, i == 0);
        (void) print_safe(cells[BLKUP_ARRAY_SIZE(widths)]);
        printf("\n");
}

void blkup_cli_blkid_list_heading(void)
{
        static const char *const names[] = { "device", "fs_type", "label", "mount point", "UUID" };
        struct winsize size;
        int n = 0;

        print_line(names);
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1)
                n = size.ws_col - 1;
        for (int i = 0; i < n; i++)
                putchar('-');
        putchar('\n');
}

/* Also a mount of which the kernel tells no device, as btrfs: its source names it. */
static const char *mount_of(const struct blkup_cli_blkid_list *l, const char *name, const struct stat *st)
{
        const struct blkup_mount *m = NULL;

        if (!l->mounts)
                return NULL;
        if (S_ISBLK(st->st_mode))
                m = blkup_mountinfo_by_device(l->mounts, major(st->st_rdev), minor(st->st_rdev), NULL);
        if (!m)
                m = blkup_mountinfo_by_source(l->mounts, name, NULL);
        for (size_t i = 0; !m && !S_ISBLK(st->st_mode) && l->blocks && i < l->blocks->n; i++) {
                const struct blkup_sysblock *b = &l->blocks->blocks[i];
                struct stat behind;

                if (b->loop_file && b->loop_offset_bytes == 0 && stat(b->loop_file, &behind) == 0 &&
                    behind.st_dev == st->st_dev && behind.st_ino == st->st_ino)
                        m = blkup_mountinfo_by_device(l->mounts, b->dev_major, b->dev_minor, NULL);
        }
        return m ? m->target : NULL;
}

static bool is_swap(const struct blkup_cli_blkid_list *l, const struct stat *st)
{
        struct stat other;

        for (size_t i = 0; l->swaps && i < l->swaps->n; i++) {
                if (stat(l->swaps->swaps[i].path, &other) < 0)
                        continue;
                if (S_ISBLK(st->st_mode) ? S_ISBLK(other.st_mode) && other.st_rdev == st->st_rdev
                                         : other.st_dev == st->st_dev && other.st_ino == st->st_ino)
                        return true;
        }
        return false;
}

/* Somebody else has it for himself: a RAID, a volume group. Opened for reading, so udev does not look again.
 */
static bool is_busy(const char *name)
{
        int fd = open(name, O_RDONLY | O_EXCL | O_NONBLOCK | O_CLOEXEC | O_NOCTTY), error = errno;

        (void) blkup_close(fd);
        return fd < 0 && error == EBUSY;
}

static const char *use_of(const struct blkup_cli_blkid_list *l, const char *name)
{
        const char *target;
        struct stat st;

        if (stat(name, &st) < 0)
                return "";
        target = mount_of(l, name, &st);
        if (target)
                return target;
        if (is_swap(l, &st))
                return "<swap>";
        return S_ISBLK(st.st_mode) && is_busy(name) ? "(in use)" : "(not mounted)";
}

static const char *or_empty(const char *s)
{
        return s ? s : "";
}

void blkup_cli_blkid_list_print(const struct blkup_cli_blkid_list *l, const struct blkup_cli_blkid_device *d)
{
        print_line((const char *const[]){ d->name, or_empty(blkup_cli_blkid_value(d, "TYPE")),
                                          or_empty(blkup_cli_blkid_value(d, "LABEL")), use_of(l, d->name),
                                          or_empty(blkup_cli_blkid_value(d, "UUID")) });
}
