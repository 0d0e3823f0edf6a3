/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "block/block.h"

#include <errno.h>

#include "base/checked.h"

/* Requests that go to the backend together when some of a batch have to be left out or cut. A plan has some
 * fifty. */
#define CUT_MAX 64

/* A UBI volume does not always say how long it is; its driver then checks the end. */
static uint64_t end_of(const struct blkup_block *b)
{
        return b->info.kind == BLKUP_BLOCK_CHAR ? (uint64_t) INT64_MAX : b->info.size_bytes;
}

static int submit(struct blkup_block *b, struct blkup_block_request *r, size_t n)
{
        int submissions;

        submissions = b->ops->read(b, r, n);
        if (submissions < 0)
                for (size_t i = 0; i < n; i++)
                        r[i].done_bytes = submissions;
        return submissions;
}

/*
 * The slow path. The backend gets copies, because the caller's at and len stay the caller's. A cut request
 * still ends at a multiple of the alignment (direct reads of a file whose end is not aligned are answered
 * short by the kernel), so it may reach past the end: the answer is cut again.
 */
static int read_cut(struct blkup_block *b, struct blkup_block_request *r, size_t n)
{
        struct blkup_block_request cut[CUT_MAX];
        size_t from[CUT_MAX], n_cut = 0;
        uint64_t end = end_of(b), aligned_end = blkup_align_up(end, b->align_bytes);
        int submissions = 0, result = 0;
        bool is_any = false;

        for (size_t i = 0; i <= n; i++) {
                if (i < n) {
                        if (r[i].len == 0 || r[i].at >= end) {
                                r[i].done_bytes = 0;
                                r[i].ns = 0;
                        } else {
                                cut[n_cut] = r[i];
                                cut[n_cut].len = (size_t) blkup_min(r[i].len, aligned_end - r[i].at);
                                from[n_cut++] = i;
                        }
                }
                if (n_cut == CUT_MAX || (i == n && n_cut > 0)) {
                        int k = submit(b, cut, n_cut);

                        if (k < 0) {
                                result = k;
                        } else {
                                submissions += k;
                                is_any = true;
                        }
                        for (size_t j = 0; j < n_cut; j++) {
                                struct blkup_block_request *to = &r[from[j]];
                                uint64_t inside = blkup_min(to->len, end - to->at);

                                to->ns = cut[j].ns;
                                to->done_bytes = cut[j].done_bytes;
                                if (to->done_bytes > 0 && (uint64_t) to->done_bytes > inside)
                                        to->done_bytes = (int64_t) inside;
                        }
                        n_cut = 0;
                }
        }
        return is_any ? submissions : result;
}

int blkup_block_read(struct blkup_block *b, struct blkup_block_request *r, size_t n)
{
        uint64_t end = end_of(b);

        if (n == 0)
                return 0;
        for (size_t i = 0; i < n; i++)
                if (r[i].len == 0 || !blkup_inside(r[i].at, r[i].len, end))
                        return read_cut(b, r, n);
        return submit(b, r, n);
}

int blkup_block_set_direct(struct blkup_block *b, bool direct)
{
        if (b->info.direct == direct)
                return 0;
        return b->ops->set_direct ? b->ops->set_direct(b, direct) : -EOPNOTSUPP;
}

struct blkup_block *blkup_block_close(struct blkup_block *b)
{
        if (b && b->ops->close)
                b->ops->close(b);
        return NULL;
}
