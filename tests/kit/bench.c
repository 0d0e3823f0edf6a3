/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kit/kit.h"

#include <string.h>

#include "base/encode.h"

void kit_bench_init(struct kit_bench *b)
{
        *b = (struct kit_bench){ .p = blkup_probe_new(), .q = blkup_probe_new(), .again_every = 8 };
        if (!b->p || !b->q)
                kit_die("memory exhausted");
        blkup_block_memory_init(&b->memory, 0, 512);
        kit_guard_init(&b->guard, &b->memory.block);
}

void kit_bench_free(struct kit_bench *b)
{
        b->p = blkup_probe_unref(b->p);
        b->q = blkup_probe_unref(b->q);
        (void) blkup_block_close(&b->memory.block);
}

bool kit_bench_only(struct kit_bench *b, const char *name)
{
        return kit_only(b->p, name) && kit_only(b->q, name);
}

/* What a value becomes on its way out is part of the attack surface too. */
static void encode(const struct blkup_probe *p)
{
        char out[4096];

        for (size_t i = 0; i < blkup_probe_n_values(p); i++) {
                struct blkup_value v = blkup_probe_value(p, i);

                (void) blkup_encode_udev(v.value, v.len, out, 265);
                (void) blkup_encode_udev_safe(v.value, v.len, out, 256);
                (void) blkup_encode_export(v.value, v.len, out, sizeof(out));
                (void) blkup_encode_full(v.value, v.len, out, sizeof(out));
        }
}

static enum blkup_verdict run(struct kit_bench *b, struct blkup_probe *p)
{
        enum blkup_verdict verdict;
        const char *fault;

        kit_guard_reset(&b->guard);
        if (blkup_probe_block(p, &b->guard.block, &verdict, NULL) < 0)
                kit_die("a run in memory cannot fail");
        kit_view_release();
        fault = kit_answer_fault(p, verdict);
        if (fault)
                kit_die("%s", fault);
        return verdict;
}

enum blkup_verdict kit_bench_look(struct kit_bench *b)
{
        static char one[KIT_ANSWER_MAX], other[KIT_ANSWER_MAX];
        enum blkup_verdict verdict = run(b, b->p);

        encode(b->p);
        if (b->again_every > 0 && ++b->runs % b->again_every == 0) {
                blkup_probe_set_flags(b->q, b->p->flags);
                blkup_probe_set_session(b->q, b->p->session);
                kit_view_guard(false);
                kit_answer_text(b->q, run(b, b->q), other, sizeof(other));
                kit_view_guard(true);
                kit_answer_text(b->p, verdict, one, sizeof(one));
                if (strcmp(one, other) != 0)
                        kit_die("two ways to look, two answers:\n%s--- and\n%s", one, other);
        }
        return verdict;
}

bool kit_bench_run(struct kit_bench *b, const uint8_t *sample, size_t len, enum blkup_verdict *ret_verdict)
{
        if (!kit_sample_lay(sample, len, &b->memory, b->p))
                return false;
        *ret_verdict = kit_bench_look(b);
        return true;
}
