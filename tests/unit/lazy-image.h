/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Small ext4 images full of old data (0xA5) whose tables mke2fs left unfinished, in memory. For the tests of
 * src/lazyinit; needs mke2fs, and skips without it.
 */
#ifndef BLKUP_TESTS_LAZY_IMAGE_H
#define BLKUP_TESTS_LAZY_IMAGE_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct lazy_geometry {
        const char *name;
        unsigned mib;
        const char *args;  /* of mke2fs */
        const char *extra; /* further -E options, beginning with a comma, or "" */
        bool has_files;
};

/* All kinds of places for tables and descriptors, both checksums, used and unused tables. */
static const struct lazy_geometry lazy_geometries[] = {
        { "no_flex", 8, "-b 1024 -g 1024 -O ^flex_bg", "", true },
        { "plain_1k", 8, "-b 1024 -g 1024", "", true },
        { "crc16_64bit", 8, "-b 1024 -g 1024 -O ^metadata_csum,uninit_bg,64bit", "", true },
        { "crc16_32bit", 8, "-b 1024 -g 1024 -O ^metadata_csum,^64bit,uninit_bg", "", true },
        { "crc32c_32bit", 8, "-b 1024 -g 1024 -O metadata_csum,^64bit", "", true },
        { "meta_bg", 8, "-b 1024 -g 512 -N 2048 -O meta_bg,^resize_inode", "", true },
        { "meta_bg_32bit", 8, "-b 1024 -g 512 -N 2048 -O meta_bg,^resize_inode,^64bit", "", false },
        { "sparse_super2", 8, "-b 1024 -g 1024 -O sparse_super2", "", true },
        { "no_sparse", 8, "-b 1024 -g 1024 -O ^sparse_super,^resize_inode", "", false },
        { "csum_seed", 8, "-b 1024 -g 1024 -O metadata_csum_seed", "", true },
        { "i128", 8, "-b 1024 -g 1024 -I 128", "", true },
        { "i1024", 8, "-b 1024 -g 1024 -I 1024", "", true },
        { "b2048", 8, "-b 2048 -g 1024", "", true },
        { "b4096", 8, "-b 4096 -g 512", "", true },
        { "b65536", 16, "-b 65536 -N 1024 -O ^has_journal,^resize_inode", "", false },
        { "bigalloc_1k", 16, "-b 1024 -O bigalloc -C 4096 -g 1024", "", true },
        { "bigalloc_4k", 8, "-b 4096 -O bigalloc -C 65536", "", true },
        { "flex64", 8, "-b 1024 -g 512 -G 64", "", true },
        { "flex2", 8, "-b 1024 -g 1024 -G 2", "", true },
        { "no_journal", 8, "-b 1024 -g 1024 -O ^has_journal", "", true },
        { "orphan_file", 8, "-b 4096 -g 512 -O orphan_file", "", true },
        { "many_inodes", 8, "-b 1024 -g 1024 -i 1024", "", true },
        { "packed_meta", 8, "-b 1024 -g 1024", ",packed_meta_blocks=1", false },
        { "partial_last", 7, "-b 1024 -g 2048", "", true },
};
#define LAZY_GEOMETRIES (sizeof(lazy_geometries) / sizeof(lazy_geometries[0]))

static inline bool lazy_image_write(const char *path, const uint8_t *bytes, size_t n)
{
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        ssize_t k = fd < 0 ? -1 : write(fd, bytes, n);

        if (fd >= 0)
                (void) close(fd);
        return k == (ssize_t) n;
}

/* Exit code of a shell command; -1 when it could not be run. */
static inline int lazy_image_run(const char *command)
{
        int status = system(command);

        return status < 0 || !WIFEXITED(status) ? -1 : WEXITSTATUS(status);
}

/* A folder for scratch files; in memory where that is there, as thousands of images are checked. */
static inline const char *lazy_image_folder(void)
{
        static char folder[64];

        if (!*folder) {
                (void) snprintf(folder, sizeof(folder), "%s/blkup-lazy-XXXXXX",
                                access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
                if (!mkdtemp(folder))
                        *folder = '\0';
        }
        return folder;
}

static inline void lazy_image_forget_folder(void)
{
        char command[160];

        if (*lazy_image_folder()) {
                (void) snprintf(command, sizeof(command), "rm -rf '%s'", lazy_image_folder());
                (void) lazy_image_run(command);
        }
}

static inline bool lazy_image_has_tools(void)
{
        (void) setenv("PATH", "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin", 1);
        return lazy_image_run("command -v mke2fs >/dev/null && command -v e2fsck >/dev/null && "
                              "command -v debugfs >/dev/null") == 0;
}

/* malloc'ed; NULL: this mke2fs cannot make it. */
static inline uint8_t *lazy_image_make(const struct lazy_geometry *g, size_t *ret_size)
{
        size_t size = (size_t) g->mib << 20;
        uint8_t *bytes = malloc(size);
        char path[128], command[1024];
        int fd;

        if (!bytes)
                return NULL;
        memset(bytes, 0xA5, size);
        (void) snprintf(path, sizeof(path), "%s/make.img", lazy_image_folder());
        if (!lazy_image_write(path, bytes, size)) {
                free(bytes);
                return NULL;
        }
        (void) snprintf(command, sizeof(command),
                        "mke2fs -F -q -t ext4 %s -E nodiscard,lazy_itable_init=1%s '%s' >/dev/null 2>&1",
                        g->args, g->extra, path);
        if (lazy_image_run(command) != 0) {
                free(bytes);
                return NULL;
        }
        if (g->has_files) {
                (void) snprintf(
                        command, sizeof(command),
                        "for i in 1 2 3 4 5 6 7 8; do echo mkdir d$i; echo write /etc/passwd f$i; echo cd "
                        "d$i; "
                        "echo write /etc/passwd g$i; echo cd ..; done | debugfs -w -f - '%s' >/dev/null 2>&1",
                        path);
                (void) lazy_image_run(command);
        }
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, bytes, size) != (ssize_t) size) {
                free(bytes);
                bytes = NULL;
        }
        if (fd >= 0)
                (void) close(fd);
        (void) unlink(path);
        *ret_size = size;
        return bytes;
}

/* What e2fsck -fn says of these bytes. Of an image of the same size as the last, only what differs is
 * written. */
static inline int lazy_image_fsck(const uint8_t *bytes, size_t size)
{
        static uint8_t *last;
        static size_t last_size;
        char path[128], command[256];
        bool written = true;
        int fd;

        (void) snprintf(path, sizeof(path), "%s/check.img", lazy_image_folder());
        if (size != last_size) {
                free(last);
                last = malloc(size);
                last_size = last ? size : 0;
                if (!last || !lazy_image_write(path, bytes, size))
                        return -1;
        } else {
                fd = open(path, O_WRONLY | O_CLOEXEC);
                for (size_t at = 0; at < size; at += 65536) {
                        size_t n = size - at < 65536 ? size - at : 65536;

                        if (memcmp(last + at, bytes + at, n) != 0)
                                written &= pwrite(fd, bytes + at, n, (off_t) at) == (ssize_t) n;
                }
                (void) close(fd);
        }
        memcpy(last, bytes, size);
        (void) snprintf(command, sizeof(command), "exec e2fsck -fn '%s' >/dev/null 2>&1", path);
        return written ? lazy_image_run(command) : -1;
}

#endif
