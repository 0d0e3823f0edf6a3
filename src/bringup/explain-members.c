/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which devices carry a UUID, without waiting for one that does not answer. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bringup/explain-internal.h"
#include "sync/late.h"

/* That many at a time; and when so many are silent, the rest is not looked at. */
#define MAX_THREADS 4u
#define PATIENCE_NS UINT64_C(1000000000)

struct search {
        char uuid[64];
        char (*paths)[64];
        size_t n;
        size_t hits, first; /* the lowest that carries it */
};

static void free_search(void *to)
{
        struct search *s = to;

        free(s->paths);
        free(s);
}

static void *begin(void *to)
{
        struct blkup_probe *p = blkup_probe_new();

        (void) to;
        /* Without a cage (no seccomp) the devices are looked at here. */
        if (p)
                (void) !blkup_probe_set_cage(p, true);
        return p;
}

static void end(void *own)
{
        blkup_probe_unref(own);
}

/* The answer is the path of a device that carries it, or NULL. */
static void *look(void *to, void *own, size_t i)
{
        struct search *s = to;
        enum blkup_verdict verdict;
        const char *found = NULL;

        if (blkup_probe_path(own, s->paths[i], NULL, &verdict, NULL) == 0 && verdict == BLKUP_VERDICT_FOUND)
                found = blkup_probe_lookup(own, "UUID");
        return found && strcmp(found, s->uuid) == 0 ? s->paths[i] : NULL;
}

static void take(void *to, size_t i, void *path)
{
        struct search *s = to;

        (void) path;
        if (s->hits++ == 0 || i < s->first)
                s->first = i;
}

static struct search *new_search(const struct blkup_sysblocks *t, const char *uuid)
{
        struct search *s = calloc(1, sizeof(*s));

        if (!s)
                return NULL;
        (void) snprintf(s->uuid, sizeof(s->uuid), "%s", uuid);
        s->paths = calloc(t->n + 1, sizeof(*s->paths));
        for (size_t i = 0; s->paths && i < t->n; i++)
                if (t->blocks[i].size_sectors > 0 && !t->blocks[i].is_hidden && !t->blocks[i].dm_is_suspended)
                        (void) snprintf(s->paths[s->n++], sizeof(s->paths[0]), "/dev/%s",
                                        t->blocks[i].dev_name);
        return s;
}

size_t blkup_explain_count_members(struct blkup_explainer *e, const char *uuid, char *ret_first, size_t cap)
{
        static const struct blkup_late_ops ops = { .begin = begin, .end = end, .look = look, .take = take,
                                                   .free = free_search };
        const struct blkup_sysblocks *t = blkup_explainer_blocks(e);
        struct search *s = t ? new_search(t, uuid) : NULL;
        struct blkup_late *l = s ? blkup_late_start(s->n, MAX_THREADS, &ops, s) : NULL;
        size_t n;

        if (!l) {
                if (s)
                        free_search(s);
                return 0;
        }
        blkup_late_lock(l);
        while (blkup_late_wait(l, PATIENCE_NS, PATIENCE_NS))
                ; /* ends: with the last answer, or the time of those that give none */
        n = s->hits;
        if (n > 0 && ret_first)
                (void) snprintf(ret_first, cap, "%s", s->paths[s->first]);
        blkup_late_unlock(l);
        (void) blkup_late_free(l);
        return n;
}
