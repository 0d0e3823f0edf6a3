/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The stock of probers. A prober has a ring, and a cage that it shares: together they cost as much as some
 * devices, so a few serve many. A device that hangs keeps its prober, and one that is slow keeps it for long:
 * when all are away while the CPUs have nothing to do, or when none has come back for a while, there may be
 * twice as many.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bringup/cold.h"

#define FEW_PROBERS 4u
#define MAX_DOUBLED 8u /* there are not more workers than that makes probers */
/* The one who looks does so this often. */
#define LOOK_NS     UINT64_C(1000000)
/* When none has come back for so long there may be more, however busy the CPUs are. */
#define PATIENCE_NS UINT64_C(5000000)

/* The first one's; with the lock, so that this one is not ended meanwhile. -ENOENT: there is none.
 */
static int share_cage(struct blkup_coldplug *c, struct blkup_probe *p)
{
        int r = -ENOENT;

        (void) pthread_mutex_lock(&c->lock);
        if (c->first_prober)
                r = blkup_probe_share_cage(p, c->first_prober->p);
        (void) pthread_mutex_unlock(&c->lock);
        return r;
}

static int make_prober(struct blkup_coldplug *c, bool *no_cage, struct blkup_cold_prober **ret)
{
        struct blkup_cold_prober *e = calloc(1, sizeof(*e));
        int r = 0;

        if (e)
                e->p = blkup_probe_new();
        if (!e || !e->p) {
                free(e);
                return -ENOMEM;
        }
        if (!*no_cage && share_cage(c, e->p) < 0)
                r = blkup_probe_set_cage(e->p, true);
        if (r == -ENOSYS)
                *no_cage = true;
        else if (r < 0) {
                blkup_probe_unref(e->p);
                free(e);
                return r;
        }
        *ret = e;
        return 0;
}

/* What the one who looks has seen. */
struct look {
        uint64_t at_ns, cpu_ns;     /* the last look, and what the process had used by then */
        uint64_t n_given, since_ns; /* none has come back since */
};

static void begin_look(const struct blkup_coldplug *c, struct look *l)
{
        l->at_ns = l->since_ns = blkup_now_ns();
        l->cpu_ns = blkup_cpu_ns();
        l->n_given = c->n_given;
}

/* With the lock. */
static bool are_more_wanted(const struct blkup_coldplug *c, struct look *l)
{
        uint64_t now = blkup_now_ns(), cpu = blkup_cpu_ns();
        /* A tool's own use of the CPUs is not seen here. */
        bool is_idle = now - l->at_ns >= LOOK_NS && (cpu - l->cpu_ns) * 4 < now - l->at_ns &&
                       __atomic_load_n(&c->n_tools, __ATOMIC_RELAXED) == 0;
        bool is_stuck;

        if (l->n_given != c->n_given) {
                l->n_given = c->n_given;
                l->since_ns = now;
        }
        is_stuck = now - l->since_ns >= PATIENCE_NS;
        l->at_ns = now;
        l->cpu_ns = cpu;
        if (is_stuck)
                l->since_ns = now;
        return is_idle || is_stuck;
}

/* With the lock. One of those who wait looks, the others sleep until they are called: twenty that looked
 * would take more than the devices do. */
static void wait_for_prober(struct blkup_coldplug *c)
{
        bool is_looking = false;
        struct look l;

        /* Ends: each prober that came back meanwhile did a device, and there are so many of them; and at last
         * there may be as many as wait. */
        while (!c->free_probers && c->n_probers >= FEW_PROBERS << c->n_doubled) {
                struct timespec at;
                uint64_t until;

                if (!is_looking && c->has_looker) {
                        (void) pthread_cond_wait(&c->prober_is_free, &c->lock);
                        continue;
                }
                if (!is_looking)
                        begin_look(c, &l);
                is_looking = c->has_looker = true;
                until = blkup_now_ns() + LOOK_NS;
                at = blkup_to_timespec(until);
                if (pthread_cond_timedwait(&c->prober_is_free, &c->lock, &at) != ETIMEDOUT)
                        continue;
                if (are_more_wanted(c, &l) && c->n_doubled < MAX_DOUBLED) {
                        c->n_doubled++;
                        (void) pthread_cond_broadcast(&c->prober_is_free);
                }
        }
        /* Somebody else shall look. */
        if (is_looking) {
                c->has_looker = false;
                (void) pthread_cond_signal(&c->prober_is_free);
        }
}

int blkup_cold_take_prober(struct blkup_coldplug *c, struct blkup_cold_prober **ret)
{
        struct blkup_cold_prober *e;
        bool no_cage;
        int r;

        (void) pthread_mutex_lock(&c->lock);
        wait_for_prober(c);
        e = c->free_probers;
        if (e)
                c->free_probers = e->next;
        else
                c->n_probers++;
        no_cage = c->no_cage;
        (void) pthread_mutex_unlock(&c->lock);
        if (e) {
                *ret = e;
                return 0;
        }
        r = make_prober(c, &no_cage, ret);
        (void) pthread_mutex_lock(&c->lock);
        c->no_cage = no_cage;
        if (r < 0) {
                c->n_probers--;
                (void) pthread_cond_signal(&c->prober_is_free);
        }
        (void) pthread_mutex_unlock(&c->lock);
        return r;
}

/* Its cage gets ready while /sys is read. Without it the first device makes one. */
void blkup_cold_prepare_prober(struct blkup_coldplug *c)
{
        if (make_prober(c, &c->no_cage, &c->first_prober) < 0)
                return;
        c->free_probers = c->first_prober;
        c->n_probers = 1;
}

void blkup_cold_give_prober(struct blkup_coldplug *c, struct blkup_cold_prober *e)
{
        (void) pthread_mutex_lock(&c->lock);
        e->next = c->free_probers;
        c->free_probers = e;
        c->n_given++;
        (void) pthread_cond_signal(&c->prober_is_free);
        (void) pthread_mutex_unlock(&c->lock);
}

/* Nobody uses one of the list any more. */
static unsigned free_list(struct blkup_cold_prober *list)
{
        unsigned n = 0;

        /* Ends: the list gets shorter each turn. */
        for (; list; n++) {
                struct blkup_cold_prober *e = list;

                list = e->next;
                blkup_probe_unref(e->p);
                free(e);
        }
        return n;
}

void blkup_cold_free_probers(struct blkup_coldplug *c)
{
        c->first_prober = NULL;
        c->n_probers -= free_list(BLKUP_TAKE(c->free_probers));
}

/* Is no device known that will be probed? What assembly and modules bring would need a new child. */
static bool was_last(const struct blkup_coldplug *c)
{
        return c->n_open == 0 && (c->s.n_images > 0 || (c->is_settled && c->n_work == 0));
}

void blkup_cold_free_probers_if_last(struct blkup_coldplug *c)
{
        struct blkup_cold_prober *list = NULL;
        unsigned n;

        (void) pthread_mutex_lock(&c->lock);
        if (was_last(c)) {
                list = BLKUP_TAKE(c->free_probers);
                c->first_prober = NULL;
        }
        (void) pthread_mutex_unlock(&c->lock);
        if (!list)
                return;
        n = free_list(list);
        (void) pthread_mutex_lock(&c->lock);
        c->n_probers -= n;
        (void) pthread_mutex_unlock(&c->lock);
}
