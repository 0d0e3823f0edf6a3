/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "block/fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"

/* What a failed read leaves in a buffer is anything; zeroes would hide a reader that looks at it. */
#define RUBBISH 0xa5

struct counted {
        struct blkup_fault_rule rule;
        uint64_t seen; /* requests (batches) that it has counted */
};

struct blkup_block_fault {
        struct blkup_block block;
        struct blkup_block *inner;
        uint64_t hits;
        size_t n;
        struct counted rules[];
};

static bool is_hit(struct counted *c)
{
        uint64_t nth = c->rule.nth ? c->rule.nth : 1;

        c->seen++;
        return c->rule.is_for_good ? c->seen >= nth : c->seen == nth;
}

/* The part of the rule's range that the request covers. False: none. */
static bool common(const struct blkup_fault_rule *rule, const struct blkup_block_request *r,
                   uint64_t *ret_from, uint64_t *ret_to)
{
        uint64_t end = UINT64_MAX, from, to;

        if (rule->len > 0 && !blkup_add(rule->at, rule->len, &end))
                end = UINT64_MAX;
        from = blkup_max(rule->at, r->at);
        to = blkup_min(end, r->at + r->len);
        if (from >= to)
                return false;
        *ret_from = from;
        *ret_to = to;
        return true;
}

static void apply(const struct blkup_fault_rule *rule, struct blkup_block_request *r, uint64_t from,
                  uint64_t to)
{
        uint8_t *bytes = r->to;

        switch (rule->what) {
        case BLKUP_FAULT_ERROR:
                memset(bytes, RUBBISH, r->len);
                r->done_bytes = rule->error ? -rule->error : -EIO;
                break;
        case BLKUP_FAULT_SHORT:
                if (rule->short_bytes < r->len)
                        memset(bytes + rule->short_bytes, RUBBISH, r->len - rule->short_bytes);
                if (r->done_bytes > 0 && (uint64_t) r->done_bytes > rule->short_bytes)
                        r->done_bytes = (int64_t) rule->short_bytes;
                break;
        case BLKUP_FAULT_LATE:
                if (rule->is_real)
                        blkup_sleep_until_ns(blkup_now_ns() + rule->late_ns, NULL);
                r->ns += rule->late_ns;
                break;
        case BLKUP_FAULT_CHANGED:
                for (uint64_t i = from - r->at; i < to - r->at; i++)
                        bytes[i] = (uint8_t) ~bytes[i];
                break;
        case BLKUP_FAULT_REFUSED:
                break;
        }
}

static int fault_read(struct blkup_block *b, struct blkup_block_request *r, size_t n)
{
        struct blkup_block_fault *f = (struct blkup_block_fault *) b;
        int submissions;

        for (size_t k = 0; k < f->n; k++) {
                struct counted *c = &f->rules[k];

                if (c->rule.what == BLKUP_FAULT_REFUSED && is_hit(c)) {
                        f->hits++;
                        for (size_t i = 0; i < n; i++)
                                memset(r[i].to, RUBBISH, r[i].len);
                        return c->rule.error ? -c->rule.error : -EIO;
                }
        }
        submissions = blkup_block_read(f->inner, r, n);
        if (submissions < 0)
                return submissions;
        for (size_t i = 0; i < n; i++) {
                for (size_t k = 0; k < f->n; k++) {
                        struct counted *c = &f->rules[k];
                        uint64_t from, to;

                        if (c->rule.what == BLKUP_FAULT_REFUSED || !common(&c->rule, &r[i], &from, &to) ||
                            !is_hit(c))
                                continue;
                        f->hits++;
                        apply(&c->rule, &r[i], from, to);
                }
        }
        return submissions;
}

static void fault_close(struct blkup_block *b)
{
        struct blkup_block_fault *f = (struct blkup_block_fault *) b;

        f->inner = blkup_block_close(f->inner);
        free(f);
}

static int fault_set_direct(struct blkup_block *b, bool direct)
{
        struct blkup_block_fault *f = (struct blkup_block_fault *) b;
        int r;

        r = blkup_block_set_direct(f->inner, direct);
        b->info = f->inner->info;
        b->align_bytes = f->inner->align_bytes;
        return r;
}

static const struct blkup_block_ops fault_ops = {
        .name = "fault",
        .read = fault_read,
        .close = fault_close,
        .set_direct = fault_set_direct,
};

struct blkup_block *blkup_block_fault_new(struct blkup_block *inner, const struct blkup_fault_rule *rules,
                                          size_t n_rules)
{
        struct blkup_block_fault *f;

        f = calloc(1, sizeof(*f) + n_rules * sizeof(f->rules[0]));
        if (!f)
                return NULL;
        f->block = *inner;
        f->block.ops = &fault_ops;
        f->inner = inner;
        f->n = n_rules;
        for (size_t i = 0; i < n_rules; i++)
                f->rules[i].rule = rules[i];
        return &f->block;
}

uint64_t blkup_block_fault_hits(const struct blkup_block *b)
{
        return ((const struct blkup_block_fault *) b)->hits;
}
