/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The device as a check sees it: ranges that are in memory, and a note of those that are missing. */
#include "probe/format.h"

static bool overlaps(uint64_t at, uint64_t len, const struct blkup_range *r)
{
        return at < r->at + r->len && r->at < at + len;
}

static void note_need(struct blkup_view *v, uint64_t at, uint64_t len)
{
        for (unsigned i = 0; i < v->n_needs; i++)
                if (at >= v->needs[i].at && at + len <= v->needs[i].at + v->needs[i].len)
                        return;
        if (v->n_needs < BLKUP_VIEW_NEEDS)
                v->needs[v->n_needs++] = (struct blkup_range){ .at = at, .len = len };
}

static const uint8_t *find(const struct blkup_view *v, uint64_t at, uint64_t len)
{
        uint64_t unit = at >> v->unit_shift, mask = ((uint64_t) 1 << v->unit_shift) - 1;

        if (unit < BLKUP_VIEW_LOW && v->low[unit] && (at & mask) + len <= mask + 1)
                return v->low[unit] + (at & mask);
        for (unsigned i = v->n_pieces; i-- > 0;) {
                const struct blkup_piece *p = &v->pieces[i];

                if (at >= p->at && len <= p->len && at - p->at <= p->len - len)
                        return p->data + (at - p->at);
        }
        return NULL;
}

enum blkup_outcome blkup_view_get(struct blkup_view *v, uint64_t at, uint64_t len, struct blkup_bytes *ret)
{
        const uint8_t *data;

        if (!blkup_inside(at, len, v->size))
                return blkup_refuse(v, "reaches beyond the end of the device");
        for (unsigned i = 0; i < v->n_bad; i++)
                if (overlaps(at, len, &v->bad[i])) {
                        v->reason = "lies where the device could not be read";
                        return BLKUP_UNREADABLE;
                }
        data = find(v, at, len);
        if (!data) {
                note_need(v, at, len);
                return BLKUP_NEED;
        }
        *ret = (struct blkup_bytes){ .data = data, .at = at, .len = (size_t) len };
        return BLKUP_FOUND;
}

void blkup_view_want(struct blkup_view *v, uint64_t at, uint64_t len)
{
        if (blkup_inside(at, len, v->size) && !find(v, at, len))
                note_need(v, at, len);
}

bool blkup_view_work(struct blkup_view *v, uint32_t n)
{
        if (v->work_left < n) {
                v->work_left = 0;
                return false;
        }
        v->work_left -= n;
        return true;
}

bool blkup_view_anchor(const struct blkup_view *v, enum blkup_anchor anchor, uint64_t at, uint64_t *ret)
{
        uint64_t end = v->size;

        switch (anchor) {
        case BLKUP_FROM_START:
                *ret = at;
                return true;
        case BLKUP_FROM_SESSION:
                return blkup_add(v->session, at, ret);
        case BLKUP_FROM_SECTOR:
                return blkup_mul(v->sector_bytes, at, ret);
        case BLKUP_FROM_END:
                return blkup_sub(end, at, ret);
        case BLKUP_FROM_END_512:
                return blkup_sub(blkup_align_down(end, 512), at, ret);
        case BLKUP_FROM_END_4K:
                return blkup_sub(blkup_align_down(end, 4096), at, ret);
        case BLKUP_FROM_END_64K:
                return blkup_sub(blkup_align_down(end, 65536), at, ret);
        case BLKUP_FROM_END_256K:
                return blkup_sub(blkup_align_down(end, 262144), at, ret);
        case BLKUP_FROM_END_SECTOR:
                return blkup_mul(at, v->sector_bytes, &at) &&
                       blkup_sub(blkup_align_down(end, v->sector_bytes), at, ret);
        }
        return false;
}

/* The common case without calls: a magic that counts from the start, inside one low unit, on a device without
 * a bad spot. Most of the rows of the registry are looked at here, for every device. NULL: go the long way.
 */
static inline const uint8_t *find_low(const struct blkup_view *v, const struct blkup_magic *m)
{
        uint64_t at = m->at + m->within, unit = at >> v->unit_shift, end = at + m->len;

        if (m->anchor != BLKUP_FROM_START || unit >= BLKUP_VIEW_LOW || v->n_bad > 0 || !v->low[unit] ||
            end > v->size || (end - 1) >> v->unit_shift != unit)
                return NULL;
        return v->low[unit] + (at & (((uint64_t) 1 << v->unit_shift) - 1));
}

enum blkup_outcome blkup_match_magics(struct blkup_view *v, const struct blkup_magic *magics, unsigned n,
                                      unsigned from, struct blkup_hit *ret)
{
        enum blkup_outcome answer = BLKUP_NOT_THIS;

        for (unsigned i = from; i < n; i++) {
                const struct blkup_magic *m = &magics[i];
                const uint8_t *low = find_low(v, m);
                struct blkup_bytes b;
                uint64_t base, at;
                enum blkup_outcome o;

                if (low && (low[0] != (uint8_t) m->bytes[0] || memcmp(low, m->bytes, m->len) != 0))
                        continue;
                if (!blkup_view_anchor(v, m->anchor, m->at, &base) || !blkup_add(base, m->within, &at))
                        continue;
                o = blkup_view_get(v, at, m->len, &b);
                if (o == BLKUP_FOUND && b.data[0] == (uint8_t) m->bytes[0] &&
                    memcmp(b.data, m->bytes, m->len) == 0) {
                        *ret = (struct blkup_hit){ .row = i, .at = at, .base = base };
                        return BLKUP_FOUND;
                }
                /* A row that could not be looked at leaves the answer open; a later row may still match. */
                if (o == BLKUP_NEED)
                        return BLKUP_NEED;
                if (o == BLKUP_UNREADABLE)
                        answer = BLKUP_UNREADABLE;
        }
        return answer;
}
