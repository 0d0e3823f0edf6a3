/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The metadata reader of lazyinit under arbitrary bytes. An input is a flags byte (1: the superblock's
 * checksum is made right, 2: those of the descriptors too, 4: read as a live file system), the device's size
 * in KiB (4 bytes, little endian), and what stands on it from byte 1024 on; behind that are zeroes. Checksums
 * are made right because no fuzzer finds them.
 *
 * With libFuzzer (-Dfuzz=true) a target; else a program that changes the metadata of real images at random,
 * as a regression test: fuzz-layout [RUNS [SEED]].
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "block/memory.h"
#include "lazyinit/finish.h"
#include "lazyinit/journal.h"
#include "lazyinit/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define HEADER 5u
#define IMAGE_BYTES (512u << 10)
#define FIX_SUPER 1u
#define FIX_DESCRIPTORS 2u
#define IS_LIVE 4u

static unsigned long believed, refused;

static void put(uint8_t *p, uint32_t v, int n)
{
        for (int i = 0; i < n; i++)
                p[i] = (uint8_t) (v >> (8 * i));
}

/* For metadata_csum only: crc16 follows the same way through the code. */
static void fix_descriptors(uint8_t *image)
{
        uint8_t *sb = image + 1024;
        uint32_t shift = blkup_load_le32(sb + 0x18), incompat = blkup_load_le32(sb + 0x60), seed, desc, block;
        static const uint8_t zero[2];

        if (shift > 6)
                return;
        block = 1024u << shift;
        desc = incompat & 0x80 ? blkup_load_le16(sb + 0xFE) : 32;
        if (desc < 32 || desc > block)
                return;
        seed = incompat & 0x2000 ? blkup_load_le32(sb + 0x270) : blkup_crc32c(~0u, sb + 0x68, 16);
        for (uint32_t g = 0, at = (1024 / block + 1) * block; g < 64 && at + desc <= IMAGE_BYTES;
             g++, at += desc) {
                uint8_t number[4];
                uint32_t c;

                put(number, g, 4);
                c = blkup_crc32c(seed, number, 4);
                c = blkup_crc32c(c, image + at, 0x1E);
                c = blkup_crc32c(c, zero, 2);
                c = blkup_crc32c(c, image + at + 0x20, desc - 0x20);
                put(image + at + 0x1E, c, 2);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
        static uint8_t image[IMAGE_BYTES];
        struct blkup_block_memory m;
        struct blkup_lazy_refusal r = { 0 };
        struct blkup_lazy_layout l;
        int k;

        if (len < HEADER)
                return 0;
        memset(image, 0, sizeof(image));
        memcpy(image + 1024, data + HEADER,
               len - HEADER < IMAGE_BYTES - 1024 ? len - HEADER : IMAGE_BYTES - 1024);
        if (data[0] & FIX_DESCRIPTORS)
                fix_descriptors(image);
        if (data[0] & FIX_SUPER)
                put(image + 1024 + 0x3FC, blkup_crc32c(~0u, image + 1024, 0x3FC), 4);
        blkup_block_memory_init(&m, (uint64_t) blkup_load_le32(data + 1) << 10, 512);
        if (m.block.info.size_bytes > 0)
                (void) !blkup_block_memory_add(&m.block, 0, image,
                                               m.block.info.size_bytes < IMAGE_BYTES ? m.block.info.size_bytes
                                                                                     : IMAGE_BYTES);
        k = blkup_lazy_layout_read(&m.block, data[0] & IS_LIVE, &l, &r, NULL);
        if (k == 0) {
                struct blkup_lazy_todo *todo = NULL;
                struct blkup_lazy_span *body = NULL;
                const char *why;
                size_t n = 0;

                believed++;
                if (!(data[0] & IS_LIVE)) {
                        (void) !blkup_lazy_check_bitmaps(&l, &m.block, true, &r, NULL);
                        if (l.groups > 0 &&
                            blkup_lazy_journal_body(&l, &m.block, &body, &n, &why, &r, NULL) == 0)
                                for (size_t i = 0; i < n; i++)
                                        if (body[i].at + body[i].len > m.block.info.size_bytes)
                                                abort();
                        free(body);
                        if (blkup_lazy_todo(&l, NULL, &todo, &n) == 0)
                                for (size_t i = 0; i < n; i++) {
                                        /* What would be zeroed is inside the device, and a table of its own.
                                         */
                                        if (todo[i].at + todo[i].len > m.block.info.size_bytes ||
                                            todo[i].at < 2048)
                                                abort();
                                        if (i > 0 && todo[i - 1].at + todo[i - 1].len > todo[i].at)
                                                abort();
                                }
                        free(todo);
                }
                blkup_lazy_layout_done(&l);
        } else if (k == 1) {
                refused++;
        }
        (void) blkup_block_close(&m.block);
        return 0;
}

#ifndef BLKUP_FUZZ
#include "../unit/lazy-image.h"

static uint64_t state;

static uint64_t next_random(void)
{
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        return state * UINT64_C(0x2545F4914F6CDD1D);
}

int main(int argc, char **argv)
{
        static uint8_t input[HEADER + IMAGE_BYTES - 1024];
        unsigned long runs = argc > 1               ? strtoul(argv[1], NULL, 0)
                             : getenv("BLKUP_SOAK") ? 400000
                                                    : 4000,
                      images = 0;

        state = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
        if (!lazy_image_has_tools()) {
                printf("SKIP: no e2fsprogs here\n");
                return 77;
        }
        for (size_t i = 0; i < LAZY_GEOMETRIES; i += 3) {
                size_t size = 0, n = sizeof(input) - HEADER;
                uint8_t *bytes = lazy_image_make(&lazy_geometries[i], &size);

                if (!bytes)
                        continue;
                images++;
                for (unsigned long run = 0; run < runs / 8; run++) {
                        memcpy(input + HEADER, bytes + 1024, n);
                        input[0] = (uint8_t) (run % 8);
                        put(input + 1, (uint32_t) (size >> 10), 4);
                        for (uint64_t k = next_random() % 6; k > 0; k--) {
                                /* Mostly the superblock's head and the descriptors. */
                                uint64_t at = next_random() % (next_random() % 4   ? 1024
                                                               : next_random() % 2 ? 4096
                                                                                   : n);

                                if (next_random() % 2)
                                        input[HEADER + at] = (uint8_t) next_random();
                                else
                                        input[HEADER + at] ^= (uint8_t) (1u << next_random() % 8);
                        }
                        (void) LLVMFuzzerTestOneInput(input, sizeof(input));
                }
                free(bytes);
        }
        lazy_image_forget_folder();
        printf("%lu images, %lu believed, %lu refused\n", images, believed, refused);
        /* Both must occur, or nothing was tried. */
        printf("%d passed, %d failed, 0 skipped\n", believed > 100 && refused > 100,
               !(believed > 100 && refused > 100));
        return !(believed > 100 && refused > 100);
}
#endif
