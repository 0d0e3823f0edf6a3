/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A folder that stands for "/", filled by a test and removed with all below it. Include it after cmocka.h in
 * one file of a program.
 */
#ifndef BLKUP_TESTS_FAKE_ROOT_H
#define BLKUP_TESTS_FAKE_ROOT_H

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct fake_root {
        char path[64];
};

static inline void fake_root_make(struct fake_root *f)
{
        const char *tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

        (void) snprintf(f->path, sizeof(f->path), "%s/blkup-test-root-XXXXXX", tmp);
        assert_non_null(mkdtemp(f->path));
}

static inline int fake_root_remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
        (void) st;
        (void) kind;
        (void) at;
        return remove(path);
}

static inline void fake_root_remove(struct fake_root *f)
{
        assert_int_equal(nftw(f->path, fake_root_remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* What is at ROOT/path and below it, if there is anything. */
static inline void fake_root_take_away(const struct fake_root *f, const char *path)
{
        char whole[PATH_MAX];

        assert_true(snprintf(whole, sizeof(whole), "%s/%s", f->path, path) < (int) sizeof(whole));
        if (access(whole, F_OK) == 0)
                assert_int_equal(nftw(whole, fake_root_remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* ROOT/path, with the folders above it made; a slash at the end makes the folder itself. */
static inline void fake_root_place(const struct fake_root *f, const char *path, char whole[PATH_MAX])
{
        assert_true(snprintf(whole, PATH_MAX, "%s/%s", f->path, path) < PATH_MAX);
        for (char *slash = strchr(whole + strlen(f->path) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = '\0';
                assert_true(mkdir(whole, 0755) == 0 || errno == EEXIST);
                *slash = '/';
        }
}

static inline void fake_root_write(const struct fake_root *f, const char *path, const void *bytes, size_t n)
{
        char whole[PATH_MAX];
        FILE *file;

        fake_root_place(f, path, whole);
        file = fopen(whole, "w");
        assert_non_null(file);
        assert_int_equal(fwrite(bytes, 1, n, file), n);
        assert_int_equal(fclose(file), 0);
}

static inline void fake_root_file(const struct fake_root *f, const char *path, const char *text)
{
        fake_root_write(f, path, text, strlen(text));
}

static inline void fake_root_link(const struct fake_root *f, const char *path, const char *target)
{
        char whole[PATH_MAX];

        fake_root_place(f, path, whole);
        assert_int_equal(symlink(target, whole), 0);
}

static inline void fake_root_folder(const struct fake_root *f, const char *path)
{
        char whole[PATH_MAX];

        fake_root_place(f, path, whole);
        assert_true(mkdir(whole, 0755) == 0 || errno == EEXIST);
}

#endif
