/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is on the disks of a made-up machine: file systems, members of arrays, of volume groups and of a
 * btrfs, locked volumes; as much of each as a prober looks at. Include it after cmocka.h, in one file of a
 * program.
 */
#ifndef BLKUP_TESTS_COLD_DISKS_H
#define BLKUP_TESTS_COLD_DISKS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/crc.h"

#define AREA (65536u + 4096u)
#define SIZE UINT64_C(67108864)

enum content { EXT4, MD, PV, LUKS, BTRFS };

/* set: the array, group or file system it belongs to; member: which of it. */
static const struct disk {
        const char *name;
        enum content content;
        unsigned id;
        char set;
        unsigned member;
        bool is_made; /* by a tool */
} disks[] = {
        { "sda", EXT4, 1, 0, 0, false },     { "sdb", MD, 0, 'A', 0, false },
        { "sdc", MD, 0, 'A', 1, false },     { "sdd", MD, 0, 'B', 0, false }, /* its other half never comes */
        { "sde", PV, 0, 'v', 0, false },     { "sdf", PV, 0, 'v', 1, false },
        { "sdg", PV, 0, 'h', 0, false },                                      /* of two */
        { "sdh", PV, 0, 't', 0, false },     { "sdi", PV, 0, 't', 0, false }, /* a copy */
        { "sdj", LUKS, 0x10, 0, 0, false },  { "sdk", LUKS, 0x11, 0, 0, false },
        { "sdl", BTRFS, 0xb1, 0, 0, false }, { "sdm", BTRFS, 0xb1, 0, 1, false },
        { "sdn", BTRFS, 0xb2, 0, 0, false }, /* of two */
        { "sdo", MD, 0, 'C', 0, false },     { "sdp", MD, 0, 'C', 1, false },
        { "md0", EXT4, 2, 0, 0, true },      { "md1", EXT4, 3, 0, 0, true },
        { "md2", PV, 0, 's', 0, true }, /* a group on an array */
        { "dm-0", EXT4, 4, 0, 0, true },     { "dm-1", EXT4, 5, 0, 0, true },
        { "dm-2", EXT4, 6, 0, 0, true },
};
#define N_DISKS (sizeof(disks) / sizeof(disks[0]))

/* ---- what is on the disks ---- */

static uint8_t areas[N_DISKS][AREA];

static void put(uint8_t *to, uint64_t value, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                to[i] = (uint8_t) (value >> (8 * i));
}

static void make_ext4(uint8_t *a, unsigned id)
{
        uint8_t *s = a + 1024;

        put(s + 0x00, 4096, 4);
        put(s + 0x04, 16384, 4);
        put(s + 0x14, 1, 4);
        put(s + 0x20, 8192, 4);
        put(s + 0x24, 8192, 4);
        put(s + 0x28, 2048, 4);
        put(s + 0x38, 0xef53, 2);
        put(s + 0x3a, 1, 2);
        put(s + 0x4c, 1, 4);
        put(s + 0x54, 11, 4);
        put(s + 0x58, 256, 2);
        put(s + 0x5c, 4, 4);
        put(s + 0x60, 0x42, 4);
        s[0x68 + 6] = 0x40;
        s[0x68 + 8] = 0x80;
        s[0x68 + 15] = (uint8_t) id;
}

static void make_md(uint8_t *a, char set, unsigned member)
{
        uint8_t *s = a + 4096;
        uint64_t sum = 0;

        put(s, 0xa92b4efc, 4);
        put(s + 4, 1, 4);
        memset(s + 16, set, 16);
        put(s + 92, 2, 4);
        put(s + 144, 8, 8);
        memset(s + 168, set, 16);
        s[183] = (uint8_t) member;
        for (unsigned i = 0; i < 256; i += 4)
                sum += (uint32_t) s[i] | (uint32_t) s[i + 1] << 8 | (uint32_t) s[i + 2] << 16 |
                       (uint32_t) s[i + 3] << 24;
        put(s + 216, (sum & 0xffffffff) + (sum >> 32), 4);
}

static void pv_uuid(char set, unsigned member, char *ret, bool dashes)
{
        static const unsigned groups[] = { 6, 4, 4, 4, 4, 4, 6 };

        for (unsigned i = 0; i < 7; i++) {
                for (unsigned k = 0; k < groups[i]; k++)
                        *ret++ = k == 0 && i == 0 ? set : (char) ('0' + member);
                if (i < 6 && dashes)
                        *ret++ = '-';
        }
        *ret = '\0';
}

#define LVM_SEED 0xf597a6cfU

static void make_pv(uint8_t *a, char set, unsigned member)
{
        static const char *const names[] = { ['v'] = "vg", ['h'] = "half", ['t'] = "twin", ['s'] = "stack" };
        unsigned n_pvs = set == 's' || set == 't' ? 1 : 2;
        uint8_t *label = a + 512, *mda = a + 4096;
        char text[1024], uuid[48], bare[48];
        size_t n;

        n = (size_t) snprintf(text, sizeof(text),
                              "%s {\nid = \"%c00000-0000-0000-0000-0000-0000-000000\"\nseqno = 3\n"
                              "status = [\"READ\", \"WRITE\"]\n# a word\nphysical_volumes {\n",
                              names[(unsigned char) set], set);
        for (unsigned i = 0; i < n_pvs; i++) {
                pv_uuid(set, i, uuid, true);
                n += (size_t) snprintf(text + n, sizeof(text) - n,
                                       "pv%u {\nid = \"%s\"\ndevice = \"/dev/\\\"x\"\n}\n", i, uuid);
        }
        n += (size_t) snprintf(text + n, sizeof(text) - n,
                               "}\nlogical_volumes {\nlv {\nid = \"x\"\n}\n}\n}\nversion = 1\n") +
             1;
        assert_true(n <= sizeof(text));
        memcpy(label, "LABELONE", 8);
        put(label + 8, 1, 8);
        put(label + 20, 32, 4);
        memcpy(label + 24, "LVM2 001", 8);
        pv_uuid(set, member, bare, false);
        memcpy(label + 32, bare, 32);
        put(label + 64, SIZE, 8);
        put(label + 72, 1048576, 8); /* data, to the end */
        put(label + 104, 4096, 8);   /* metadata, behind a pair of zeroes */
        put(label + 112, 8192, 8);
        put(label + 16, blkup_crc32(LVM_SEED, label + 20, 492), 4);
        memcpy(mda + 4, " LVM2 x[5A%r0N*>", 16);
        put(mda + 20, 1, 4);
        put(mda + 24, 4096, 8);
        put(mda + 32, 8192, 8);
        /* The ring: the text begins near the end of the area and goes on behind the header. */
        put(mda + 40, 8192 - 100, 8);
        put(mda + 48, n, 8);
        put(mda + 56, blkup_crc32(LVM_SEED, text, n), 4);
        put(mda, blkup_crc32(LVM_SEED, mda + 4, 508), 4);
        memcpy(mda + 8192 - 100, text, 100);
        memcpy(mda + 512, text + 100, n - 100);
}

static void make_btrfs(uint8_t *a, unsigned id, unsigned member)
{
        uint8_t *s = a + 65536;

        memcpy(s + 64, "_BHRfS_M", 8);
        s[32 + 6] = 0x40;
        s[32 + 8] = 0x80;
        s[32 + 15] = (uint8_t) id;
        put(s + 112, SIZE, 8);
        put(s + 144, 4096, 4);
        s[267] = (uint8_t) (member + 1);
        put(s, ~blkup_crc32c(~0U, s + 32, 4096 - 32), 4);
}

static inline void make_area(uint8_t *a, const struct disk *d)
{
        char uuid[40];

        memset(a, 0, AREA);
        switch (d->content) {
        case EXT4:
                make_ext4(a, d->id);
                break;
        case MD:
                make_md(a, d->set, d->member);
                break;
        case PV:
                make_pv(a, d->set, d->member);
                break;
        case LUKS:
                memcpy(a, "LUKS\xba\xbe\0\1", 8);
                (void) snprintf(uuid, sizeof(uuid), "00000000-0000-4000-8000-0000000000%02x", d->id);
                memcpy(a + 168, uuid, 36);
                break;
        case BTRFS:
                make_btrfs(a, d->id, d->member);
                break;
        }
}

#endif
