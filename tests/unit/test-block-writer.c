/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Mirrors src/block/writer.h, writer-file.h and writer-model.h. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "block/writer-file.h"
#include "block/writer-model.h"

#define MIB (1u << 20)

static void fill(uint8_t *p, size_t n, uint8_t with)
{
        memset(p, with, n);
}

static void test_memory_writes_and_reads(void **state)
{
        static uint8_t bytes[8192], from[4096], to[4096];
        struct blkup_writer *w = blkup_writer_memory_new(bytes, sizeof(bytes), 512);
        struct blkup_block_request r = { .at = 1000, .len = 3000, .to = from };
        uint64_t at, len;

        (void) state;
        assert_non_null(w);
        fill(from, sizeof(from), 0x5A);
        assert_int_equal(blkup_writer_write(w, &r, 1, NULL), 0);
        assert_int_equal(bytes[999], 0);
        assert_int_equal(bytes[1000], 0x5A);
        assert_int_equal(bytes[3999], 0x5A);
        assert_int_equal(bytes[4000], 0);
        assert_int_equal(blkup_block_read_exact(&w->block, 1000, to, 3000), 0);
        assert_memory_equal(to, from, 3000);
        assert_int_equal(blkup_writer_zero(w, 2000, 100, BLKUP_ZERO_KEEP), 0);
        assert_int_equal(bytes[2000] | bytes[2099], 0);
        assert_int_equal(bytes[2100], 0x5A);
        /* Nobody can tell: all of it, cut at the end that was asked for. */
        assert_int_equal(blkup_writer_next_data(w, 10, 500, &at, &len), 0);
        assert_true(at == 10 && len == 490);
        assert_int_equal(blkup_writer_flush(w), 0);
        assert_true(w->counts.writes == 1 && w->counts.written_bytes == 3000 && w->counts.flushes == 1 &&
                    w->counts.zeroes == 1);
        (void) blkup_writer_close(w);
}

static void test_outside_is_refused_whole(void **state)
{
        static uint8_t bytes[4096], from[4096];
        struct blkup_writer *w = blkup_writer_memory_new(bytes, sizeof(bytes), 512);
        struct blkup_block_request r[2] = { { .at = 0, .len = 512, .to = from },
                                            { .at = 4000, .len = 97, .to = from } };
        size_t failed = 9;

        (void) state;
        fill(from, sizeof(from), 1);
        assert_int_equal(blkup_writer_write(w, r, 2, &failed), -ERANGE);
        assert_int_equal(failed, 1);
        assert_int_equal(bytes[0], 0);
        assert_int_equal(blkup_writer_zero(w, UINT64_MAX, 2, BLKUP_ZERO_KEEP), -ERANGE);
        assert_int_equal(blkup_block_read_exact(&w->block, 4000, from, 97), -EIO);
        (void) blkup_writer_close(w);
}

static void test_recorder_tells_what_and_when(void **state)
{
        static uint8_t bytes[4096], image[4096], from[1024];
        struct blkup_writer *w =
                blkup_writer_recorder_new(blkup_writer_memory_new(bytes, sizeof(bytes), 512));
        struct blkup_block_request r = { .at = 512, .len = 1024, .to = from };
        const struct blkup_write_event *e;
        size_t n;

        (void) state;
        fill(from, sizeof(from), 7);
        fill(bytes, sizeof(bytes), 1);
        fill(image, sizeof(image), 1);
        assert_int_equal(blkup_writer_write(w, &r, 1, NULL), 0);
        assert_int_equal(blkup_writer_flush(w), 0);
        assert_int_equal(blkup_writer_zero(w, 700, 1000, BLKUP_ZERO_PUNCH), 0);
        fill(from, sizeof(from), 9);
        e = blkup_writer_recorder_events(w, &n);
        assert_int_equal(n, 3);
        assert_true(e[0].kind == BLKUP_EVENT_WRITE && e[0].at == 512 && e[0].len == 1024 &&
                    e[0].bytes[0] == 7);
        assert_true(e[1].kind == BLKUP_EVENT_FLUSH);
        assert_true(e[2].kind == BLKUP_EVENT_ZERO && e[2].at == 700 && e[2].len == 1000);
        /* 700 to 1700 touches the sectors 1, 2 and 3. */
        assert_int_equal(blkup_write_event_sectors(&e[2]), 3);
        blkup_write_event_apply(&e[0], image, 0, UINT64_MAX / 1024);
        blkup_write_event_apply(&e[2], image, 1, 1);
        assert_true(image[1023] == 7 && image[1024] == 0 && image[1535] == 0 && image[1536] == 1);
        for (uint64_t s = 0; s < 3; s++)
                blkup_write_event_apply(&e[2], image, s, 1);
        assert_memory_equal(image, bytes, sizeof(bytes));
        (void) blkup_writer_close(w);
}

static void test_faults_hit_the_nth(void **state)
{
        static uint8_t bytes[8192], from[4096];
        static const struct {
                enum blkup_write_fault what;
                int result;
                uint8_t first, last; /* bytes of the second request afterwards */
        } cases[] = {
                { BLKUP_WRITE_FAULT_ERROR, -EIO, 0, 0 },
                { BLKUP_WRITE_FAULT_TORN, -EIO, 3, 0 },
                { BLKUP_WRITE_FAULT_SHORT, 0, 3, 3 }, /* gone on with */
                { BLKUP_WRITE_FAULT_LOST, 0, 0, 0 },
        };

        (void) state;
        fill(from, sizeof(from), 3);
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                struct blkup_write_fault_rule rule = { .what = cases[i].what,
                                                       .on = BLKUP_EVENT_WRITE,
                                                       .nth = 2 };
                struct blkup_writer *w;
                struct blkup_block_request r[2] = { { .at = 0, .len = 4096, .to = from },
                                                    { .at = 4096, .len = 4096, .to = from } };
                size_t failed = 9;

                fill(bytes, sizeof(bytes), 0);
                w = blkup_writer_fault_new(blkup_writer_memory_new(bytes, sizeof(bytes), 512), &rule);
                assert_int_equal(blkup_writer_write(w, r, 2, &failed), cases[i].result);
                if (cases[i].result < 0)
                        assert_int_equal(failed, 1);
                assert_int_equal(bytes[0], 3);
                assert_int_equal(bytes[4096], cases[i].first);
                assert_int_equal(bytes[8191], cases[i].last);
                assert_int_equal(blkup_writer_fault_hits(w), 1);
                (void) blkup_writer_close(w);
        }
}

static void test_faults_of_zero_and_flush(void **state)
{
        static uint8_t bytes[4096];
        struct blkup_write_fault_rule rule = { .what = BLKUP_WRITE_FAULT_ERROR, .on = BLKUP_EVENT_ZERO,
                                               .is_for_good = true, .nth = 2, .error = EOPNOTSUPP };
        struct blkup_writer *w;

        (void) state;
        fill(bytes, sizeof(bytes), 1);
        w = blkup_writer_fault_new(blkup_writer_memory_new(bytes, sizeof(bytes), 512), &rule);
        assert_int_equal(blkup_writer_zero(w, 0, 512, BLKUP_ZERO_KEEP), 0);
        assert_int_equal(blkup_writer_zero(w, 512, 512, BLKUP_ZERO_KEEP), -EOPNOTSUPP);
        assert_int_equal(blkup_writer_zero(w, 512, 512, BLKUP_ZERO_KEEP), -EOPNOTSUPP);
        assert_int_equal(w->counts.zero_refusals, 2);
        assert_int_equal(bytes[512], 1);
        (void) blkup_writer_close(w);

        rule = (struct blkup_write_fault_rule){ .what = BLKUP_WRITE_FAULT_ERROR, .on = BLKUP_EVENT_FLUSH };
        w = blkup_writer_fault_new(blkup_writer_memory_new(bytes, sizeof(bytes), 512), &rule);
        assert_int_equal(blkup_writer_flush(w), -EIO);
        assert_int_equal(blkup_writer_flush(w), 0);
        (void) blkup_writer_close(w);
}

/* ---- files ---- */

static struct blkup_writer *open_file(char *path, uint64_t size, const struct blkup_writer_open *o)
{
        struct blkup_writer *w = NULL;
        int fd = mkstemp(path);

        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, (off_t) size), 0);
        assert_int_equal(blkup_writer_open_fd(fd, path, o, &w, NULL), 0);
        return w;
}

/* Aligned or not, by the ring or by calls, through the cache or past it: what is read is what was written. */
static void test_file_writes_are_seen(void **state)
{
        static const struct blkup_writer_open ways[] = { { .no_direct = true }, { .no_uring = true },
                                                         { .no_direct = false } };
        uint8_t *from = NULL, *to = NULL;

        (void) state;
        assert_int_equal(posix_memalign((void **) &from, 4096, 4 * MIB), 0);
        assert_int_equal(posix_memalign((void **) &to, 4096, 4 * MIB), 0);
        for (size_t i = 0; i < 4 * MIB; i++)
                from[i] = (uint8_t) (i * 31 + i / 4096);
        for (size_t way = 0; way < sizeof(ways) / sizeof(*ways); way++) {
                char path[] = "test-writer-XXXXXX";
                struct blkup_writer *w = open_file(path, 8 * MIB + 100, &ways[way]);
                struct blkup_block_request r[5] = {
                        { .at = 0, .len = MIB, .to = from },
                        { .at = MIB, .len = MIB, .to = from + MIB },
                        { .at = 3 * MIB, .len = MIB / 2, .to = from + 2 * MIB },
                        { .at = 5 * MIB + 13, .len = 1000, .to = from + 3 * MIB },
                        { .at = 8 * MIB, .len = 100, .to = from },
                };

                assert_int_equal(w->block.info.kind, BLKUP_BLOCK_FILE);
                assert_int_equal(blkup_writer_write(w, r, 3, NULL), 0);
                assert_int_equal(blkup_writer_write(w, r + 3, 2, NULL), 0);
                for (size_t i = 0; i < 5; i++) {
                        assert_int_equal(r[i].done_bytes, r[i].len);
                        assert_int_equal(blkup_block_read_exact(&w->block, r[i].at, to, r[i].len), 0);
                        assert_memory_equal(to, r[i].to, r[i].len);
                }
                assert_int_equal(blkup_writer_flush(w), 0);
                assert_int_equal(blkup_block_read_exact(&w->block, 8 * MIB, to, 101), -EIO);
                (void) blkup_writer_close(w);
                (void) unlink(path);
        }
        free(from);
        free(to);
}

static void test_file_holes_are_no_data(void **state)
{
        char path[] = "test-writer-XXXXXX";
        struct blkup_writer *w = open_file(path, 8 * MIB, NULL);
        static uint8_t from[4096] __attribute__((aligned(4096)));
        struct blkup_block_request r = { .at = 4 * MIB, .len = 4096, .to = from };
        uint64_t at, len;
        uint8_t byte;
        int k;

        (void) state;
        fill(from, sizeof(from), 1);
        assert_int_equal(blkup_writer_write(w, &r, 1, NULL), 0);
        assert_int_equal(blkup_writer_flush(w), 0);
        assert_int_equal(blkup_writer_next_data(w, 0, 8 * MIB, &at, &len), 0);
        if (at == 0 && len == 8 * MIB) {
                print_message("SKIP: the file system here tells of no holes\n");
                (void) blkup_writer_close(w);
                (void) unlink(path);
                skip();
        }
        assert_true(at == 4 * MIB && len == 4096);
        assert_int_equal(blkup_writer_next_data(w, 4 * MIB + 10, 4 * MIB + 20, &at, &len), 0);
        assert_true(at == 4 * MIB + 10 && len == 10);
        assert_int_equal(blkup_writer_next_data(w, 0, MIB, &at, &len), 0);
        assert_true(len == 0);
        assert_int_equal(blkup_writer_next_data(w, 5 * MIB, 8 * MIB, &at, &len), 0);
        assert_true(len == 0);
        k = blkup_writer_zero(w, 4 * MIB, 4096, BLKUP_ZERO_KEEP);
        if (k != -EOPNOTSUPP) {
                assert_int_equal(k, 0);
                assert_int_equal(blkup_block_read_exact(&w->block, 4 * MIB, &byte, 1), 0);
                assert_int_equal(byte, 0);
        }
        (void) blkup_writer_close(w);
        (void) unlink(path);
}

static void test_read_only_refuses(void **state)
{
        char path[] = "test-writer-XXXXXX";
        struct blkup_writer_open o = { .is_read_only = true };
        static uint8_t from[512];
        struct blkup_block_request r = { .at = 0, .len = 512, .to = from };
        struct blkup_writer *w = NULL;
        int fd = mkstemp(path), ro = open(path, O_RDONLY | O_CLOEXEC);

        (void) state;
        assert_int_equal(ftruncate(fd, 4096), 0);
        (void) close(fd);
        assert_int_equal(blkup_writer_open_fd(ro, path, &o, &w, NULL), 0);
        assert_int_equal(blkup_writer_write(w, &r, 1, NULL), -EBADF);
        (void) blkup_writer_close(w);
        assert_int_equal(blkup_writer_open_fd(open("/dev/null", O_RDWR | O_CLOEXEC), "null", NULL, &w, NULL),
                         -ENOTBLK);
        (void) unlink(path);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_memory_writes_and_reads),
                cmocka_unit_test(test_outside_is_refused_whole),
                cmocka_unit_test(test_recorder_tells_what_and_when),
                cmocka_unit_test(test_faults_hit_the_nth),
                cmocka_unit_test(test_faults_of_zero_and_flush),
                cmocka_unit_test(test_file_writes_are_seen),
                cmocka_unit_test(test_file_holes_are_no_data),
                cmocka_unit_test(test_read_only_refuses),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
