/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kit/kit.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checked.h"

static void store(uint8_t *to, uint64_t v, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                to[i] = (uint8_t) (v >> (8 * i));
}

bool kit_sample_lay(const uint8_t *s, size_t len, struct blkup_block_memory *m, struct blkup_probe *p)
{
        uint64_t size, session = 0;
        unsigned flags;
        size_t at = KIT_SAMPLE_HEADER;

        if (len < KIT_SAMPLE_HEADER)
                return false;
        flags = s[0];
        size = blkup_load_le64(s + 1);
        if (flags & KIT_SAMPLE_SESSION) {
                if (len - at < 4)
                        return false;
                session = (uint64_t) blkup_load_le32(s + at) * 2048;
                at += 4;
        }
        blkup_block_memory_reset(&m->block, size);
        m->block.info.logical_sector_bytes = flags & KIT_SAMPLE_SECTOR_4096 ? 4096 : 512;
        m->block.info.kind = flags & KIT_SAMPLE_PARTITION ? BLKUP_BLOCK_PARTITION :
                             flags & KIT_SAMPLE_DISK      ? BLKUP_BLOCK_DISK :
                                                            BLKUP_BLOCK_FILE;
        m->block.info.is_cdrom = (flags & KIT_SAMPLE_CDROM) != 0;
        m->block.align_bytes = flags & KIT_SAMPLE_ALIGN_4096 ? 4096 : 1;
        blkup_probe_set_session(p, session);
        blkup_probe_set_flags(p, (flags & KIT_SAMPLE_STRICT ? BLKUP_PROBE_STRICT : 0u) |
                                         (flags & KIT_SAMPLE_LIST ? BLKUP_PROBE_PARTITIONS : 0u));
        while (len - at >= KIT_RECORD_HEADER) { /* ends: at grows */
                unsigned from = s[at] % KIT_FROMS;
                uint64_t where = blkup_load_le64(s + at + 1), n = s[at + 9] | (unsigned) s[at + 10] << 8;

                at += KIT_RECORD_HEADER;
                n = blkup_min(n, len - at);
                if (from != KIT_FROM_START) {
                        uint64_t end = from == KIT_FROM_END_4K    ? blkup_align_down(size, 4096) :
                                       from == KIT_FROM_END_64K ? blkup_align_down(size, 65536) :
                                                                  size;

                        if (!blkup_sub(end, where, &where))
                                where = UINT64_MAX;
                }
                if (where < size &&
                    blkup_block_memory_add(&m->block, where, s + at, (size_t) blkup_min(n, size - where)) < 0)
                        kit_die("memory exhausted");
                at += (size_t) n;
        }
        return true;
}

/* Zeroes that are worth a new record: more than its header has. */
#define ZEROES_MIN 24

/* Adds [at, at + len) of the image without its longer runs of zeroes. false: no room. */
static bool add_range(uint8_t *out, size_t cap, size_t *used, const struct kit_image *i, uint64_t at,
                      uint64_t len)
{
        uint64_t end = at + len;

        while (at < end) { /* ends: at grows */
                uint64_t to, zeroes = 0, n, behind = i->size - at;

                if (i->bytes[at] == 0) {
                        at++;
                        continue;
                }
                for (to = at; to < end && zeroes < ZEROES_MIN && to - at < 65535; to++)
                        zeroes = i->bytes[to] == 0 ? zeroes + 1 : 0;
                n = to - at - zeroes;
                if (cap - *used < KIT_RECORD_HEADER + n)
                        return false;
                /* What stands near the end belongs to the end, whatever a mutation makes of the size. */
                out[*used] = at > behind && behind < 1 << 20 ? KIT_FROM_END : KIT_FROM_START;
                store(out + *used + 1, out[*used] == KIT_FROM_END ? behind : at, 8);
                store(out + *used + 9, n, 2);
                memcpy(out + *used + KIT_RECORD_HEADER, i->bytes + at, (size_t) n);
                *used += KIT_RECORD_HEADER + (size_t) n;
                at = to;
        }
        return true;
}

size_t kit_sample_make(uint8_t *out, size_t cap, uint8_t flags, const struct kit_image *i,
                       const struct kit_range *ranges, unsigned n_ranges)
{
        size_t used = KIT_SAMPLE_HEADER;

        if (cap < used)
                return 0;
        out[0] = flags & (uint8_t) ~KIT_SAMPLE_SESSION;
        store(out + 1, i->size, 8);
        for (unsigned k = 0; k < n_ranges; k++)
                if (!add_range(out, cap, &used, i, ranges[k].at, ranges[k].len))
                        return 0;
        return used;
}

unsigned kit_ranges_merge(struct kit_range *r, unsigned n)
{
        unsigned kept = 0;

        for (unsigned i = 1; i < n; i++)
                for (unsigned k = i; k > 0 && r[k - 1].at > r[k].at; k--) {
                        struct kit_range t = r[k];

                        r[k] = r[k - 1];
                        r[k - 1] = t;
                }
        for (unsigned i = 0; i < n; i++) {
                if (kept > 0 && r[i].at <= r[kept - 1].at + r[kept - 1].len) {
                        uint64_t end = blkup_max(r[kept - 1].at + r[kept - 1].len, r[i].at + r[i].len);

                        r[kept - 1].len = end - r[kept - 1].at;
                } else {
                        r[kept++] = r[i];
                }
        }
        return kept;
}

static void add_magics(const struct blkup_probe *p, const struct blkup_magic *m, unsigned n_magics,
                       struct kit_range *r, unsigned *n, unsigned cap)
{
        uint64_t base, at;

        for (unsigned i = 0; i < n_magics && *n < cap; i++)
                if (blkup_view_anchor(&p->view, m[i].anchor, m[i].at, &base) &&
                    blkup_add(base, m[i].within, &at) && blkup_inside(at, m[i].len, p->view.size))
                        r[(*n)++] = (struct kit_range){ .at = at, .len = m[i].len };
}

void kit_magic_ranges(const struct blkup_probe *p, struct kit_range *r, unsigned *n, unsigned cap)
{
        for (unsigned i = 0; i < blkup_n_formats; i++)
                if (!p->excluded[i])
                        add_magics(p, blkup_formats[i]->magics, blkup_formats[i]->n_magics, r, n, cap);
        for (unsigned i = 0; i < blkup_n_tables; i++)
                if (!p->excluded_tables[i])
                        add_magics(p, blkup_tables[i]->magics, blkup_tables[i]->n_magics, r, n, cap);
}
