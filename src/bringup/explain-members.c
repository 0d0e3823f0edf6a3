/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which devices carry a UUID, without waiting for one that does not answer: a thread looks at one after the
 * other, and is left behind, with what it needs, where it hangs; another goes on with the next device.
 */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bringup/explain-internal.h"

#define PATIENCE_S 1
/* That many silent devices, and the rest is not looked at. */
#define MAX_SILENT 4

struct look {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        unsigned refs;
        bool is_done, is_left;
        size_t at, n; /* the device that is being looked at */
        char (*paths)[64];
        char uuid[64], first[64];
        size_t hits;
};

static void drop(struct look *l)
{
        bool is_last;

        (void) pthread_mutex_lock(&l->lock);
        is_last = --l->refs == 0;
        (void) pthread_mutex_unlock(&l->lock);
        if (!is_last)
                return;
        (void) pthread_cond_destroy(&l->changed);
        (void) pthread_mutex_destroy(&l->lock);
        free(l->paths);
        free(l);
}

static bool carries(struct blkup_probe *p, const char *path, const char *uuid)
{
        enum blkup_verdict verdict;
        const char *found = NULL;

        if (blkup_probe_path(p, path, NULL, &verdict, NULL) == 0 && verdict == BLKUP_VERDICT_FOUND)
                found = blkup_probe_lookup(p, "UUID");
        return found && strcmp(found, uuid) == 0;
}

static void *walk(void *arg)
{
        struct look *l = arg;
        struct blkup_probe *p = blkup_probe_new();
        bool go_on = p != NULL;

        /* Without a cage (no seccomp) the devices are looked at here. */
        if (p)
                (void) !blkup_probe_set_cage(p, true);
        /* Ends: `at` grows up to n. */
        while (go_on) {
                bool hit = l->at < l->n && carries(p, l->paths[l->at], l->uuid);

                (void) pthread_mutex_lock(&l->lock);
                if (hit && !l->is_left && l->hits++ == 0)
                        (void) snprintf(l->first, sizeof(l->first), "%s", l->paths[l->at]);
                go_on = !l->is_left && l->at < l->n && ++l->at < l->n;
                (void) pthread_cond_signal(&l->changed);
                (void) pthread_mutex_unlock(&l->lock);
        }
        blkup_probe_unref(p);
        (void) pthread_mutex_lock(&l->lock);
        l->is_done = true;
        (void) pthread_cond_signal(&l->changed);
        (void) pthread_mutex_unlock(&l->lock);
        drop(l);
        return NULL;
}

/* The devices from `from` on; *ret_next: behind the last one that was looked at. */
static size_t look_from(const struct blkup_sysblocks *t, size_t from, const char *uuid, char *ret_first,
                        size_t cap, size_t *ret_next)
{
        struct look *l = calloc(1, sizeof(*l));
        pthread_t thread;
        size_t hits = 0;

        *ret_next = t->n;
        if (!l)
                return 0;
        l->paths = calloc(t->n - from + 1, sizeof(*l->paths));
        (void) pthread_mutex_init(&l->lock, NULL);
        (void) pthread_cond_init(&l->changed, NULL);
        l->refs = 2;
        (void) snprintf(l->uuid, sizeof(l->uuid), "%s", uuid);
        for (size_t i = from; l->paths && i < t->n; i++, l->n++)
                if (t->blocks[i].size_sectors > 0 && !t->blocks[i].is_hidden && !t->blocks[i].dm_is_suspended)
                        (void) snprintf(l->paths[l->n], sizeof(l->paths[0]), "/dev/%s",
                                        t->blocks[i].dev_name);
        if (!l->paths || pthread_create(&thread, NULL, walk, l) != 0) {
                l->refs = 1;
                drop(l);
                return 0;
        }
        (void) pthread_detach(thread);
        (void) pthread_mutex_lock(&l->lock);
        /* Ends: with the last device, or with one that does not answer. */
        while (!l->is_done && !l->is_left) {
                struct timespec until;
                size_t before = l->at;
                int r = 0;

                (void) clock_gettime(CLOCK_REALTIME, &until);
                until.tv_sec += PATIENCE_S;
                while (r == 0 && !l->is_done && l->at == before)
                        r = pthread_cond_timedwait(&l->changed, &l->lock, &until);
                if (!l->is_done && l->at == before) {
                        l->is_left = true;
                        *ret_next = from + l->at + 1;
                }
        }
        hits = l->hits;
        if (hits > 0 && ret_first)
                (void) snprintf(ret_first, cap, "%s", l->first);
        (void) pthread_mutex_unlock(&l->lock);
        drop(l);
        return hits;
}

size_t blkup_explain_count_members(struct blkup_explainer *e, const char *uuid, char *ret_first, size_t cap)
{
        const struct blkup_sysblocks *t = blkup_explainer_blocks(e);
        size_t n = 0, at = 0;

        for (unsigned silent = 0; t && at < t->n && silent < MAX_SILENT; silent++)
                n += look_from(t, at, uuid, n == 0 ? ret_first : NULL, cap, &at);
        return n;
}
