/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * mac: the Apple partition map, big-endian. Source: "Inside Macintosh: Devices", chapter 3. A driver
 * descriptor in block 0 says how long a block is; each partition, the map itself among them, has its entry in
 * a block from 1 on.
 */
#include "probe/formats/fields.h"

enum { DDM_BLOCK_BYTES = 2 };
enum {
        ENT_SIGNATURE = 0,
        ENT_COUNT = 4,
        ENT_START = 8,
        ENT_BLOCKS = 12,
        ENT_NAME = 16,
        ENT_TYPE = 48,
        ENT_LEN = 136
};
enum { TEXT_LEN = 32 };

#define MAX_PARTITIONS 256u
#define WANT_AT_ONCE 8u

static const struct blkup_magic magics[] = { { .len = 2, .bytes = "\x45\x52" } };

static bool is_entry(struct blkup_bytes p)
{
        uint16_t signature = blkup_be16_at(p, ENT_SIGNATURE);

        return signature == 0x504d || signature == 0x5453; /* "PM", and the "TS" of the first Macintosh II */
}

static enum blkup_outcome list(struct blkup_view *v, uint32_t block, uint32_t count, struct blkup_entries *e)
{
        uint64_t scale = block / 512;

        for (uint32_t i = 1; i <= count; i++) { /* ends: the count is at most MAX_PARTITIONS */
                struct blkup_entry entry = { .number = i };
                struct blkup_bytes p;
                enum blkup_outcome o;

                for (uint32_t k = i; i % WANT_AT_ONCE == 1 && k <= count && k < i + WANT_AT_ONCE; k++)
                        blkup_view_want(v, (uint64_t) k * block, ENT_LEN);
                o = blkup_view_get(v, (uint64_t) i * block, ENT_LEN, &p);
                if (o == BLKUP_NOT_THIS)
                        return BLKUP_FOUND; /* the map leaves the device: what was listed stands */
                if (o != BLKUP_FOUND)
                        return o;
                if (!is_entry(p))
                        return BLKUP_FOUND;
                entry.start_sectors = blkup_be32_at(p, ENT_START) * scale;
                entry.size_sectors = blkup_be32_at(p, ENT_BLOCKS) * scale;
                entry.name = blkup_slice_at(p, ENT_NAME, TEXT_LEN);
                entry.type_text = blkup_slice_at(p, ENT_TYPE, TEXT_LEN);
                if (!e->entry(e, &entry))
                        return BLKUP_FOUND;
        }
        return BLKUP_FOUND;
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret,
                                struct blkup_entries *e)
{
        struct blkup_bytes descriptor, first;
        uint32_t block, count;

        (void) hit;
        BLKUP_FETCH(v, 0, 4, &descriptor);
        block = blkup_be16_at(descriptor, DDM_BLOCK_BYTES);
        if (block < ENT_LEN)
                return blkup_refuse(v, "block is shorter than an entry");
        BLKUP_FETCH(v, block, ENT_LEN, &first);
        if (!is_entry(first))
                return blkup_refuse(v, "no partition entry in block 1");
        blkup_found_evidence(ret, 16 + 16);
        count = blkup_be32_at(first, ENT_COUNT);
        if (!v->wants_partitions)
                return BLKUP_FOUND;
        return list(v, block, (uint32_t) blkup_min(count, MAX_PARTITIONS), e);
}

extern const struct blkup_table blkup_table_mac;
const struct blkup_table blkup_table_mac = {
        .name = "mac", .magics = magics, .n_magics = BLKUP_ARRAY_SIZE(magics), .check = check,
};
