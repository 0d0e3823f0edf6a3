/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is read ahead, seen by mincore(2): files that were dropped from the page cache are there again. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "modules/ahead.h"

#define FILES      5u
#define FILE_BYTES ((size_t) 600 << 10)  /* three parts, more than a window */
#define HELD_BYTES ((uint64_t) 64 << 20) /* as in ahead.c */

struct fixture {
        char folder[64], names[FILES][8], paths[FILES][80];
        struct blkup_ahead_file files[FILES];
        atomic_uint drops;
};

static void drop(void *arg)
{
        atomic_fetch_add(&((struct fixture *) arg)->drops, 1);
}

static unsigned resident(const char *path)
{
        unsigned char pages[FILE_BYTES / 4096];
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        unsigned n = 0;
        void *map;

        assert_true(fd >= 0);
        map = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
        assert_true(map != MAP_FAILED);
        assert_int_equal(mincore(map, FILE_BYTES, pages), 0);
        for (size_t i = 0; i < sizeof(pages); i++)
                n += pages[i] & 1;
        (void) munmap(map, FILE_BYTES);
        (void) close(fd);
        return n;
}

static void nap(void)
{
        (void) nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
}

/* Ends: after ten seconds. */
static bool becomes_resident(const char *path)
{
        for (unsigned i = 0; i < 5000 && resident(path) < FILE_BYTES / 4096; i++)
                nap();
        return resident(path) == FILE_BYTES / 4096;
}

static int make_files(void **state)
{
        static char zeroes[FILE_BYTES];
        struct fixture *f = calloc(1, sizeof(*f));

        /* Not in /tmp's own right: that may be a file system in memory. */
        (void) snprintf(f->folder, sizeof(f->folder), "/var/tmp/blkup-ahead-XXXXXX");
        if (!mkdtemp(f->folder)) {
                free(f);
                return -1;
        }
        for (unsigned i = 0; i < FILES; i++) {
                int fd;

                (void) snprintf(f->names[i], sizeof(f->names[i]), "/%u.ko", i);
                (void) snprintf(f->paths[i], sizeof(f->paths[i]), "%s%s", f->folder, f->names[i]);
                fd = open(f->paths[i], O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
                if (fd < 0 || write(fd, zeroes, FILE_BYTES) != FILE_BYTES || fsync(fd) < 0)
                        return -1;
                (void) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
                (void) close(fd);
                f->files[i] = (struct blkup_ahead_file){ f->names[i], FILE_BYTES, i };
        }
        *state = f;
        return 0;
}

static int remove_files(void **state)
{
        struct fixture *f = *state;

        for (unsigned i = 0; i < FILES; i++)
                (void) unlink(f->paths[i]);
        (void) rmdir(f->folder);
        free(f);
        return 0;
}

static void need_a_cache_to_drop(const struct fixture *f)
{
        if (resident(f->paths[0]) != 0) {
                print_message("SKIP: nothing here leaves the page cache when it is told to\n");
                skip();
        }
}

/* A turn that costs the device nothing. */
static void take_nothing(struct blkup_ahead *a, size_t file)
{
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        blkup_ahead_take(a, file, fd);
        (void) close(fd);
}

static void everything_is_read(void **state)
{
        struct fixture *f = *state;
        struct blkup_ahead *a = NULL;

        need_a_cache_to_drop(f);
        f->files[3].bytes = 0;
        assert_int_equal(blkup_ahead_new(f->folder, f->files, FILES, drop, f, &a), 0);
        blkup_ahead_start(a);
        for (unsigned i = 0; i < FILES; i++)
                if (i != 3)
                        assert_true(becomes_resident(f->paths[i]));
        assert_int_equal(resident(f->paths[3]), 0);
        blkup_ahead_stop(a);
        assert_int_equal(f->drops, 1);
        assert_null(blkup_ahead_free(a));
}

/* The first, by rank the last file, is said to be all that may lie there; the next waits for its end. */
static void what_is_held_is_bounded(void **state)
{
        struct fixture *f = *state;
        struct blkup_ahead *a = NULL;

        need_a_cache_to_drop(f);
        f->files[FILES - 1].bytes = HELD_BYTES;
        assert_int_equal(blkup_ahead_new(f->folder, f->files, FILES, drop, f, &a), 0);
        blkup_ahead_start(a);
        assert_true(becomes_resident(f->paths[FILES - 1]));
        for (unsigned i = 0; i < 10; i++)
                nap();
        assert_int_equal(resident(f->paths[FILES - 2]), 0);
        blkup_ahead_done(a, FILES - 1);
        assert_true(becomes_resident(f->paths[FILES - 2]));
        blkup_ahead_stop(a);
        assert_int_equal(f->drops, 1);
        (void) blkup_ahead_free(a);
}

static void who_is_taken_is_asked_for_and_not_read_ahead(void **state)
{
        struct fixture *f = *state;
        struct blkup_ahead *a = NULL;
        int fd = open(f->paths[1], O_RDONLY | O_CLOEXEC);

        need_a_cache_to_drop(f);
        assert_int_equal(blkup_ahead_new(f->folder, f->files, FILES, drop, f, &a), 0);
        take_nothing(a, 2);
        blkup_ahead_take(a, 1, fd);
        assert_true(becomes_resident(f->paths[1]));
        blkup_ahead_start(a);
        assert_true(becomes_resident(f->paths[0])); /* the last by rank */
        assert_int_equal(resident(f->paths[2]), 0);
        blkup_ahead_stop(a);
        (void) blkup_ahead_free(a);
        (void) close(fd);
}

static void it_stops_while_it_waits_and_without_a_thread(void **state)
{
        struct fixture *f = *state;
        struct blkup_ahead *a = NULL;

        f->files[FILES - 1].bytes = HELD_BYTES;
        assert_int_equal(blkup_ahead_new(f->folder, f->files, FILES, drop, f, &a), 0);
        blkup_ahead_start(a);
        blkup_ahead_stop(a);
        assert_int_equal(f->drops, 1);
        (void) blkup_ahead_free(a);
        /* One file is read by its loader. */
        assert_int_equal(blkup_ahead_new(f->folder, f->files, 1, drop, f, &a), 0);
        blkup_ahead_start(a);
        assert_int_equal(f->drops, 2);
        blkup_ahead_stop(a);
        (void) blkup_ahead_free(a);
        /* Files that are gone. */
        (void) unlink(f->paths[0]);
        (void) unlink(f->paths[1]);
        assert_int_equal(blkup_ahead_new(f->folder, f->files, 2, drop, f, &a), 0);
        blkup_ahead_start(a);
        blkup_ahead_stop(a);
        assert_int_equal(f->drops, 3);
        (void) blkup_ahead_free(a);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(everything_is_read, make_files, remove_files),
                cmocka_unit_test_setup_teardown(what_is_held_is_bounded, make_files, remove_files),
                cmocka_unit_test_setup_teardown(who_is_taken_is_asked_for_and_not_read_ahead, make_files,
                                                remove_files),
                cmocka_unit_test_setup_teardown(it_stops_while_it_waits_and_without_a_thread, make_files,
                                                remove_files),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
