/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Mirrors src/lazyinit/layout.h: what is believed, and what is not. Every truncation of the metadata, and
 * every single bit of the superblock and the descriptors flipped: nothing may be read outside, and under
 * checksums nothing changed may be believed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc.h"
#include "block/writer-model.h"
#include "lazyinit/journal.h"
#include "lazyinit/layout.h"

#include "lazy-image.h"

static uint8_t *image;
static size_t size;

static int make(void **state)
{
        (void) state;
        if (!lazy_image_has_tools()) {
                print_message("SKIP: no e2fsprogs here\n");
                return 0;
        }
        image = lazy_image_make(&lazy_geometries[1], &size);
        return image ? 0 : -1;
}

static int forget(void **state)
{
        (void) state;
        free(image);
        lazy_image_forget_folder();
        return 0;
}

/* Without group checksums the flags mean nothing: not refused, and not touched either. */
#define NOTHING_TO_DO BLKUP_LAZYINIT_REFUSALS

/* What is made of the image as if it had this size. */
static enum blkup_lazyinit_refusal look(uint64_t as_size)
{
        struct blkup_writer *w = blkup_writer_memory_new(image, as_size, 512);
        struct blkup_lazy_refusal r = { 0 };
        struct blkup_lazy_layout l;
        int k = blkup_lazy_layout_read(&w->block, false, &l, &r, NULL);

        assert_true(k == 0 || k == 1);
        assert_true((k == 1) == (r.what != BLKUP_LAZYINIT_NOT_REFUSED));
        if (k == 0 && l.checksum == BLKUP_LAZY_CHECKSUM_NONE) {
                r.what = NOTHING_TO_DO;
        } else if (k == 0) {
                k = blkup_lazy_check_bitmaps(&l, &w->block, true, &r, NULL);
                assert_true(k >= 0);
                blkup_lazy_layout_done(&l);
        } else {
                assert_true(r.reason[0]);
        }
        (void) blkup_writer_close(w);
        return r.what;
}

static void need_image(void)
{
        if (!image)
                skip();
}

static void test_a_good_one(void **state)
{
        struct blkup_lazy_refusal r = { 0 };
        struct blkup_lazy_layout l;
        struct blkup_writer *w;

        (void) state;
        need_image();
        assert_int_equal(look(size), BLKUP_LAZYINIT_NOT_REFUSED);
        w = blkup_writer_memory_new(image, size, 512);
        assert_int_equal(blkup_lazy_layout_read(&w->block, false, &l, &r, NULL), 0);
        assert_int_equal(l.groups, 8);
        assert_int_equal(l.block_bytes, 1024);
        assert_int_equal(l.checksum, BLKUP_LAZY_CRC32C);
        assert_int_equal(l.groups_per_flex, 16);
        assert_true(blkup_lazy_desc_at(&l, 1) == 2048 + l.desc_bytes);
        assert_true(blkup_lazy_is_metadata(&l, 1, 1));
        assert_true(blkup_lazy_is_metadata(&l, l.group[3].table, l.table_blocks));
        assert_true(blkup_lazy_is_metadata(&l, l.group[3].table - 1, 2));
        assert_false(blkup_lazy_is_metadata(&l, l.blocks - 1, 1));
        /* Group 0 has used inodes, the last has none. */
        assert_true(l.group[0].used_blocks > 0);
        assert_true(blkup_lazy_zero_len(&l, 7) == (uint64_t) l.table_blocks * 1024);
        for (uint32_t g = 0; g < 40; g++) {
                bool has = g <= 1 || g == 3 || g == 5 || g == 7 || g == 9 || g == 25 || g == 27;

                assert_true(blkup_lazy_has_super(&l, g) == has);
        }
        blkup_lazy_layout_done(&l);
        (void) blkup_writer_close(w);
}

static void test_every_truncation(void **state)
{
        (void) state;
        need_image();
        for (uint64_t n = 0; n < 4096; n++)
                assert_int_not_equal(look(n), BLKUP_LAZYINIT_NOT_REFUSED);
        for (uint64_t n = 4096; n < size; n += 10007)
                assert_int_equal(look(n), BLKUP_LAZYINIT_TRUNCATED);
}

static void test_every_bit_under_checksums(void **state)
{
        (void) state;
        need_image();
        for (size_t bit = 0; bit < 8 * 1024; bit++) {
                image[1024 + bit / 8] ^= (uint8_t) (1 << bit % 8);
                /* metadata_csum and the revision say whether there is a checksum at all. */
                if ((bit / 8 == 0x65 && bit % 8 == 2) || bit == 8 * 0x4C)
                        assert_int_equal(look(size), NOTHING_TO_DO);
                else
                        assert_int_not_equal(look(size), BLKUP_LAZYINIT_NOT_REFUSED);
                image[1024 + bit / 8] ^= (uint8_t) (1 << bit % 8);
        }
        for (size_t bit = 0; bit < (size_t) 8 * 8 * 64; bit++) {
                image[2048 + bit / 8] ^= (uint8_t) (1 << bit % 8);
                assert_int_equal(look(size), BLKUP_LAZYINIT_DESCRIPTOR_CHECKSUM);
                image[2048 + bit / 8] ^= (uint8_t) (1 << bit % 8);
        }
        assert_int_equal(look(size), BLKUP_LAZYINIT_NOT_REFUSED);
}

static void put_checksum(void)
{
        uint32_t c = blkup_crc32c(~0u, image + 1024, 0x3FC);

        for (int i = 0; i < 4; i++)
                image[1024 + 0x3FC + i] = (uint8_t) (c >> (8 * i));
}

/* The same with the superblock's checksum made right again, as an attacker would: it may be believed, but
 * nothing may go wrong. */
static void test_every_bit_with_a_right_checksum(void **state)
{
        unsigned believed = 0;

        (void) state;
        need_image();
        for (size_t bit = 0; bit < 8 * 0x3FC; bit++) {
                image[1024 + bit / 8] ^= (uint8_t) (1 << bit % 8);
                put_checksum();
                believed += look(size) == BLKUP_LAZYINIT_NOT_REFUSED;
                image[1024 + bit / 8] ^= (uint8_t) (1 << bit % 8);
        }
        put_checksum();
        assert_int_equal(look(size), BLKUP_LAZYINIT_NOT_REFUSED);
        /* Labels, counters and times are believed; there are many of those. */
        assert_true(believed > 1000 && believed < 8 * 0x3FC);
}

/* Fields that mean something, set to what must be refused. */
static void test_refusals(void **state)
{
        static const struct {
                unsigned at;
                uint32_t v;
                enum blkup_lazyinit_refusal want;
        } cases[] = {
                { 0x18, 7, BLKUP_LAZYINIT_BAD_SUPERBLOCK },
                { 0x18, 0xFFFFFFFF, BLKUP_LAZYINIT_BAD_SUPERBLOCK },
                { 0x20, 0, BLKUP_LAZYINIT_BAD_SUPERBLOCK },
                { 0x28, 0, BLKUP_LAZYINIT_BAD_SUPERBLOCK },
                { 0x28, 8193, BLKUP_LAZYINIT_BAD_SUPERBLOCK },
                { 0x00, 1, BLKUP_LAZYINIT_BAD_SUPERBLOCK },
                { 0x04, 1, BLKUP_LAZYINIT_BAD_SUPERBLOCK },
                { 0x04, 0xFFFFFFFF, BLKUP_LAZYINIT_TRUNCATED },
                { 0x150, 0xFFFFFFFF, BLKUP_LAZYINIT_BAD_SUPERBLOCK },
                { 0x14, 5, BLKUP_LAZYINIT_BAD_SUPERBLOCK },
                { 0xE8, 12, BLKUP_LAZYINIT_ORPHANS },
                { 0x60, 0x8, BLKUP_LAZYINIT_JOURNAL_DEVICE },
                { 0x60, 0x2C6, BLKUP_LAZYINIT_NEEDS_RECOVERY },
                { 0x60, 0x1, BLKUP_LAZYINIT_UNKNOWN_INCOMPAT },
                { 0x64, 0x1410, BLKUP_LAZYINIT_UNKNOWN_RO_COMPAT },
                { 0x64, 0x410, BLKUP_LAZYINIT_BOTH_CHECKSUMS },
                { 0x64, 0x10400, BLKUP_LAZYINIT_ORPHANS },
        };

        (void) state;
        need_image();
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                uint8_t old[4];
                enum blkup_lazyinit_refusal got;

                memcpy(old, image + 1024 + cases[i].at, 4);
                for (int j = 0; j < 4; j++)
                        image[1024 + cases[i].at + j] = (uint8_t) (cases[i].v >> (8 * j));
                put_checksum();
                got = look(size);
                memcpy(image + 1024 + cases[i].at, old, 4);
                put_checksum();
                if (got != cases[i].want)
                        fail_msg("0x%x = 0x%x: %s, not %s", cases[i].at, cases[i].v,
                                 got ? blkup_lazyinit_refusal_name(got) : "none",
                                 blkup_lazyinit_refusal_name(cases[i].want));
        }
}

static void test_names(void **state)
{
        (void) state;
        for (int i = 1; i < BLKUP_LAZYINIT_REFUSALS; i++) {
                assert_non_null(blkup_lazyinit_refusal_name((enum blkup_lazyinit_refusal) i));
                assert_non_null(blkup_lazyinit_refusal_advice((enum blkup_lazyinit_refusal) i));
        }
        assert_null(blkup_lazyinit_refusal_name(BLKUP_LAZYINIT_REFUSALS));
}

static void test_journal_body(void **state)
{
        struct blkup_lazy_refusal r = { 0 };
        struct blkup_lazy_layout l;
        struct blkup_lazy_span *body = NULL;
        struct blkup_writer *w;
        const char *why = "";
        uint64_t sum = 0;
        size_t n = 0;

        (void) state;
        need_image();
        w = blkup_writer_memory_new(image, size, 512);
        assert_int_equal(blkup_lazy_layout_read(&w->block, false, &l, &r, NULL), 0);
        assert_int_equal(blkup_lazy_journal_body(&l, &w->block, &body, &n, &why, &r, NULL), 0);
        assert_null(why);
        assert_true(n >= 1);
        for (size_t i = 0; i < n; i++)
                sum += body[i].len;
        /* mke2fs gives a file system of this size a journal of 1024 blocks. */
        assert_true(sum == 1023 * 1024);
        free(body);
        blkup_lazy_layout_done(&l);
        (void) blkup_writer_close(w);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_good_one),
                cmocka_unit_test(test_every_truncation),
                cmocka_unit_test(test_every_bit_under_checksums),
                cmocka_unit_test(test_every_bit_with_a_right_checksum),
                cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_journal_body),
        };

        return cmocka_run_group_tests(tests, make, forget);
}
