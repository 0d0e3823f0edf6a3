/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "host/hostfile.h"
#include "mount/kmsg.h"

/* Nothing is said in so short a time that could be mistaken. */
#define JUST_OPENED_NS UINT64_C(1000000)

void blkup_kmsg_init(struct blkup_kmsg *k, const char *path)
{
        *k = (struct blkup_kmsg){ .fd = -1 };
        (void) pthread_mutex_init(&k->lock, NULL);
        k->fd = (int) syscall(SYS_openat, AT_FDCWD, path ? path : "/dev/kmsg",
                              O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (k->fd >= 0 && lseek(k->fd, 0, SEEK_END) < 0)
                k->fd = blkup_close(k->fd);
        k->opened_ns = blkup_now_ns();
}

void blkup_kmsg_close(struct blkup_kmsg *k)
{
        k->fd = blkup_close(k->fd);
        for (size_t i = k->first; i < k->n; i++)
                free(k->lines[i - k->first]);
        free(k->lines);
        k->lines = NULL;
        k->n = k->first = k->cap = 0;
        (void) pthread_mutex_destroy(&k->lock);
}

/* The older half makes room: a run that stays for months goes on to hear. */
static int make_room(struct blkup_kmsg *k)
{
        size_t kept = k->n - k->first, drop = kept / 2;

        if (kept < BLKUP_KMSG_MAX_LINES)
                return blkup_host_reserve((void **) &k->lines, &k->cap, kept, sizeof(*k->lines),
                                          BLKUP_KMSG_MAX_LINES);
        for (size_t i = 0; i < drop; i++)
                free(k->lines[i]);
        memmove(k->lines, k->lines + drop, (kept - drop) * sizeof(*k->lines));
        k->first += drop;
        return 0;
}

/* "6,339,5140900,-;text\n KEY=value\n": keeps the text. */
static void keep_record(struct blkup_kmsg *k, char *record)
{
        char *text = strchr(record, ';'), *copy;
        size_t n;

        if (!text)
                return;
        text++;
        text[strcspn(text, "\n")] = '\0';
        /* A second newline at the end of a message comes as four characters. */
        n = strlen(text);
        if (n >= 4 && strcmp(text + n - 4, "\\x0a") == 0)
                text[n - 4] = '\0';
        if (make_room(k) < 0)
                return;
        copy = strdup(text);
        if (copy)
                k->lines[k->n++ - k->first] = copy;
}

static void read_new(struct blkup_kmsg *k)
{
        char record[8192]; /* the kernel's own limit of a record, with its prefix */

        /* Ends: records since the start are finite, and at most BLKUP_KMSG_MAX_LINES are looked at. */
        for (unsigned i = 0; i < BLKUP_KMSG_MAX_LINES; i++) {
                ssize_t n = read(k->fd, record, sizeof(record) - 1);

                /* EPIPE: the oldest were overwritten meanwhile; the next read goes on behind them. */
                if (n < 0 && (errno == EPIPE || errno == EINTR))
                        continue;
                if (n <= 0)
                        return;
                record[n] = '\0';
                keep_record(k, record);
        }
}

size_t blkup_kmsg_mark(struct blkup_kmsg *k)
{
        size_t n;

        if (k->fd < 0)
                return 0;
        (void) pthread_mutex_lock(&k->lock);
        if (k->is_marked || blkup_now_ns() - k->opened_ns > JUST_OPENED_NS)
                read_new(k);
        k->is_marked = true;
        n = k->n;
        (void) pthread_mutex_unlock(&k->lock);
        return n;
}

static bool is_name_char(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool has_word(const char *line, const char *word)
{
        size_t n = strlen(word);

        if (n == 0)
                return false;
        /* Ends: each turn looks behind the last find. */
        for (const char *at = line; (at = strstr(at, word)); at++)
                if ((at == line || !is_name_char(at[-1])) && !is_name_char(at[n]))
                        return true;
        return false;
}

/* "SQUASHFS error: ...": the name in front and no other device in brackets. */
static bool begins_with_name(const char *line, const char *name)
{
        size_t n = strlen(name);

        return n > 0 && strncasecmp(line, name, n) == 0 && !is_name_char(line[n]) && !strchr(line, '(');
}

bool blkup_kmsg_is_about(const char *line, const char *device, const char *type)
{
        /* The types whose lines begin with another name: pr_fmt and messages in fs/ of the kernel. */
        static const struct {
                const char *type, *name;
        } others[] = {
                { "overlay", "overlayfs" }, { "vfat", "FAT-fs" },  { "msdos", "FAT-fs" },
                { "iso9660", "ISOFS" },     { "ext2", "EXT4-fs" }, { "ext3", "EXT4-fs" },
                { "fuseblk", "fuse" },
        };

        if (has_word(line, device) || begins_with_name(line, type))
                return true;
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(others); i++)
                if (strcmp(others[i].type, type) == 0 && begins_with_name(line, others[i].name))
                        return true;
        return false;
}

/* Lines that tell of no failure: the loop device that was made for the mount, the way back. */
static bool is_routine(const char *line)
{
        static const char *const texts[] = {
                "detected capacity change",
                "unmounting filesystem",
                "Unmounting Filesystem",
                "mounted filesystem",
                "Mounting V",
                "Ending clean mount",
        };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(texts); i++)
                if (strstr(line, texts[i]))
                        return true;
        return false;
}

size_t blkup_kmsg_collect(struct blkup_kmsg *k, size_t mark, const char *device, const char *type, char *ret,
                          size_t cap)
{
        size_t n = 0, used = 0;

        if (cap > 0)
                ret[0] = '\0';
        if (k->fd < 0)
                return 0;
        (void) pthread_mutex_lock(&k->lock);
        read_new(k);
        for (size_t i = mark < k->first ? k->first : mark; i < k->n; i++) {
                const char *line = k->lines[i - k->first];
                size_t len = strlen(line);

                if (!blkup_kmsg_is_about(line, device, type) || is_routine(line))
                        continue;
                n++;
                if (len + 2 > cap)
                        continue;
                /* The last lines tell what ended it: older ones make room. Ends: each turn drops a line. */
                while (used + len + 2 > cap) {
                        char *second = strchr(ret, '\n');
                        size_t drop = second ? (size_t) (second + 1 - ret) : used;

                        memmove(ret, ret + drop, used - drop);
                        used -= drop;
                }
                memcpy(ret + used, line, len);
                used += len;
                ret[used++] = '\n';
                ret[used] = '\0';
        }
        (void) pthread_mutex_unlock(&k->lock);
        if (used > 0)
                ret[used - 1] = '\0';
        return n;
}
