/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Plans and loads over a fake kernel folder, whose index is made here; a backend takes the place of the
 * kernel. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <blkup/modules.h>

#include "base/clock.h"
#include "base/error.h"
#include "fail-alloc.h"
#include "fake-index.h"
#include "fake-root.h"
#include "sync/pool.h"
#include "trace/path.h"

#define FOLDER "lib/modules/1.0/"

static void make_kernel(struct fake_root *f)
{
        /* sorted by key */
        static const char *const keys[] = { "bad", "base", "big", "leaf", "mid", "other", "slow", "user" };
        static const char *const values[] = {
                "k/bad.ko:", "k/base.ko:", "k/big.ko: k/mid.ko k/base.ko", "k/leaf.ko: k/bad.ko",
                "k/mid.ko: k/base.ko", "k/other.ko:", "k/slow.ko:", "k/user.ko: k/leaf.ko k/bad.ko",
        };
        static const char *const patterns[] = { "pci:*" };
        static const char *const drivers[] = { "big" };

        fake_root_make(f);
        fake_index_write(f, FOLDER "modules.dep.bin", keys, values, 8);
        fake_index_write(f, FOLDER "modules.alias.bin", patterns, drivers, 1);
        for (size_t i = 0; i < 8; i++) {
                char path[64];

                (void) snprintf(path, sizeof(path), FOLDER "k/%s.ko", keys[i]);
                fake_root_file(f, path, "x");
        }
        fake_root_file(f, "etc/modprobe.d/a.conf", "softdep other pre: user\noptions big size=1\n");
}

struct kernel {
        pthread_mutex_t lock;
        char order[64][32];
        char options[64][64];
        size_t n;
        unsigned at_once, most_at_once;
        uint64_t take_ns;
        const char *alone; /* must never be beside another */
        bool was_not_alone;
        /* The loads that do not end before so many others have; some seconds at most. */
        const char *held[8];
        size_t n_others, ended;
        bool was_held_too_long;
};

static bool is_held(const struct kernel *k, const char *name)
{
        for (size_t i = 0; i < 8 && k->held[i]; i++)
                if (strcmp(k->held[i], name) == 0)
                        return true;
        return false;
}

static int take(void *arg, const char *name, int fd, const void *image, size_t n, const char *options,
                int flags)
{
        struct kernel *k = arg;

        (void) fd;
        (void) image;
        (void) n;
        (void) flags;
        (void) pthread_mutex_lock(&k->lock);
        if (k->n < 64) {
                (void) snprintf(k->order[k->n], sizeof(k->order[0]), "%s", name);
                (void) snprintf(k->options[k->n], sizeof(k->options[0]), "%s", options);
        }
        k->n++;
        k->at_once++;
        if (k->at_once > k->most_at_once)
                k->most_at_once = k->at_once;
        if (k->alone && strcmp(name, k->alone) == 0 && k->at_once > 1)
                k->was_not_alone = true;
        (void) pthread_mutex_unlock(&k->lock);
        for (unsigned i = 0; is_held(k, name); i++) {
                bool is_over;

                (void) pthread_mutex_lock(&k->lock);
                is_over = k->ended >= k->n_others;
                if (!is_over && i == 5000)
                        k->was_held_too_long = is_over = true;
                (void) pthread_mutex_unlock(&k->lock);
                if (is_over)
                        break;
                blkup_sleep_until_ns(blkup_now_ns() + 1000000u, NULL);
        }
        if (strcmp(name, "slow") == 0 && !is_held(k, name))
                blkup_sleep_until_ns(blkup_now_ns() + 400000000u, NULL);
        if (k->take_ns)
                blkup_sleep_until_ns(blkup_now_ns() + k->take_ns, NULL);
        (void) pthread_mutex_lock(&k->lock);
        k->at_once--;
        k->ended += !is_held(k, name);
        (void) pthread_mutex_unlock(&k->lock);
        return strcmp(name, "bad") == 0 ? -ENOEXEC : strcmp(name, "mid") == 0 ? -EEXIST : 0;
}

static size_t position(const struct kernel *k, const char *name)
{
        for (size_t i = 0; i < k->n; i++)
                if (strcmp(k->order[i], name) == 0)
                        return i;
        return SIZE_MAX;
}

static const struct blkup_module_result *result_of(const struct blkup_module_load *l, const char *name)
{
        for (size_t i = 0; i < blkup_module_load_count(l); i++)
                if (strcmp(blkup_module_load_result(l, i)->name, name) == 0)
                        return blkup_module_load_result(l, i);
        return NULL;
}

struct setting {
        struct fake_root f;
        struct blkup_modules *m;
        struct blkup_module_plan *p;
        struct kernel k;
        struct blkup_module_backend backend;
};

static int set_up(void **state)
{
        struct setting *s = calloc(1, sizeof(*s));

        assert_non_null(s);
        make_kernel(&s->f);
        (void) pthread_mutex_init(&s->k.lock, NULL);
        s->backend = (struct blkup_module_backend){ .load = take, .arg = &s->k };
        assert_int_equal(blkup_modules_new(&(struct blkup_modules_where){ s->f.path, "1.0" }, &s->m, NULL),
                         0);
        assert_int_equal(blkup_module_plan_new(s->m, 0, &s->p), 0);
        *state = s;
        return 0;
}

static int tear_down(void **state)
{
        struct setting *s = *state;

        (void) blkup_module_plan_free(s->p);
        (void) blkup_modules_free(s->m);
        fake_root_remove(&s->f);
        free(s);
        return 0;
}

static struct blkup_module_load *load(struct setting *s, struct blkup_module_load_options o)
{
        struct blkup_module_load *l = NULL;

        o.backend = &s->backend;
        assert_int_equal(blkup_module_load(s->p, &o, &l, NULL), 0);
        return l;
}

static void names_that_could_be_paths_are_refused(void **state)
{
        struct setting *s = *state;
        size_t n = 7;

        assert_int_equal(blkup_module_plan_add(s->p, "../../etc/passwd", NULL, &n), -EINVAL);
        assert_int_equal(blkup_module_plan_add(s->p, "a\x1b[31m", NULL, &n), -EINVAL);
        assert_int_equal(n, 7);
        assert_int_equal(blkup_module_plan_add(s->p, "nosuch", NULL, &n), 0);
        assert_int_equal(n, 0);
}

static void each_module_once_and_in_order(void **state)
{
        struct setting *s = *state;
        struct blkup_module_load *l;
        char text[4097];

        memset(text, 'x', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        /* 300 aliases that mean the same, and options of 4 KiB. */
        for (int i = 0; i < 300; i++) {
                char alias[32];

                (void) snprintf(alias, sizeof(alias), "pci:v%04d", i % 7);
                assert_int_equal(blkup_module_plan_add(s->p, alias, NULL, NULL), 0);
        }
        assert_int_equal(blkup_module_plan_add(s->p, "other", text, NULL), 0);
        l = load(s, (struct blkup_module_load_options){ .workers = 8 });
        assert_int_equal(s->k.n, 5); /* base mid big bad other; leaf and user need bad */
        assert_true(position(&s->k, "base") < position(&s->k, "mid"));
        assert_true(position(&s->k, "mid") < position(&s->k, "big"));
        assert_string_equal(s->k.options[position(&s->k, "big")], "size=1");
        assert_int_equal(result_of(l, "mid")->outcome, BLKUP_MODULE_WAS_LOADED);
        assert_int_equal(result_of(l, "bad")->outcome, BLKUP_MODULE_FAILED);
        assert_int_equal(result_of(l, "leaf")->outcome, BLKUP_MODULE_SKIPPED);
        assert_string_equal(result_of(l, "leaf")->culprit, "bad");
        assert_string_equal(result_of(l, "user")->culprit, "bad");
        /* A softdep that failed stops nobody. */
        assert_int_equal(result_of(l, "other")->outcome, BLKUP_MODULE_LOADED);
        assert_false(result_of(l, "user")->is_required);
        assert_true(result_of(l, "other")->is_required);
        for (size_t i = 0; i < blkup_module_load_count(l); i++)
                assert_true(blkup_module_load_result(l, i)->calls <= 1);
        (void) blkup_module_load_free(l);
}

static void once_in_a_hundred_runs(void **state)
{
        struct setting *s = *state;

        for (int run = 0; run < 100; run++) {
                struct blkup_module_load *l;

                s->k.n = 0;
                (void) blkup_module_plan_free(s->p);
                assert_int_equal(blkup_module_plan_new(s->m, 0, &s->p), 0);
                assert_int_equal(blkup_module_plan_add(s->p, "pci:x", NULL, NULL), 0);
                assert_int_equal(blkup_module_plan_add(s->p, "big", NULL, NULL), 0);
                assert_int_equal(blkup_module_plan_add(s->p, "other", NULL, NULL), 0);
                l = load(s, (struct blkup_module_load_options){ .workers = 8 });
                assert_int_equal(s->k.n, 5);
                (void) blkup_module_load_free(l);
        }
}

/* Threads that were left still use the backend of a test. Ends: they sleep for some 100 ms at most. */
static void wait_for_threads(struct setting *s)
{
        unsigned at_once;

        do {
                blkup_sleep_until_ns(blkup_now_ns() + 1000000u, NULL);
                (void) pthread_mutex_lock(&s->k.lock);
                at_once = s->k.at_once;
                (void) pthread_mutex_unlock(&s->k.lock);
        } while (at_once > 0);
}

static void a_load_that_hangs_is_left(void **state)
{
        struct setting *s = *state;
        struct blkup_module_load *l;
        uint64_t start = blkup_now_ns();

        assert_int_equal(blkup_module_plan_add(s->p, "slow", NULL, NULL), 0);
        assert_int_equal(blkup_module_plan_add(s->p, "big", NULL, NULL), 0);
        l = load(s, (struct blkup_module_load_options){ .workers = 2, .wait_ns = 50000000u });
        assert_true(blkup_now_ns() - start < 390000000u);
        assert_int_equal(result_of(l, "slow")->outcome, BLKUP_MODULE_HUNG);
        assert_int_equal(result_of(l, "big")->outcome, BLKUP_MODULE_LOADED);
        (void) blkup_module_load_free(l);
        wait_for_threads(s);
}

static void set_state(const struct setting *s, const char *name, const char *state)
{
        char path[64];

        (void) snprintf(path, sizeof(path), "sys/module/%s/initstate", name);
        fake_root_file(&s->f, path, state);
}

struct told {
        pthread_mutex_t lock;
        unsigned live, coming;
};

static void is_told(void *arg, const char *name, bool is_live)
{
        struct told *t = arg;

        (void) name;
        (void) pthread_mutex_lock(&t->lock);
        t->live += is_live;
        t->coming += !is_live;
        (void) pthread_mutex_unlock(&t->lock);
}

/* The kernel holds the call of a module that is live: what needs it goes on. With a time limit and without,
 * with one worker, which is then the caller, and with more. */
static void what_needs_a_live_module_does_not_wait_for_its_load(void **state)
{
        struct setting *s = *state;

        set_state(s, "base", "live\n");
        for (unsigned i = 0; i < 4; i++) {
                struct blkup_module_load_options o = { .workers = i & 1 ? 8 : 1,
                                                       .wait_ns = i & 2 ? UINT64_C(20000000000) : 0 };
                struct blkup_trace *t = o.trace = blkup_trace_new(0);
                struct blkup_path_step *path = NULL;
                struct blkup_module_load *l;
                struct blkup_span span;
                size_t n = 0;

                assert_non_null(t);
                s->k = (struct kernel){ .held = { "base" }, .n_others = 2 };
                (void) pthread_mutex_init(&s->k.lock, NULL);
                (void) blkup_module_plan_free(s->p);
                assert_int_equal(blkup_module_plan_new(s->m, BLKUP_MODULES_IGNORE_LOADED, &s->p), 0);
                assert_int_equal(blkup_module_plan_add(s->p, "big", NULL, NULL), 0);
                l = load(s, o);
                assert_false(s->k.was_held_too_long);
                assert_int_equal(s->k.n, 3);
                assert_int_equal(result_of(l, "base")->outcome, BLKUP_MODULE_LOADED);
                assert_true(result_of(l, "base")->live_ns > result_of(l, "base")->start_ns);
                assert_true(result_of(l, "base")->end_ns > result_of(l, "big")->end_ns);
                assert_int_equal(result_of(l, "big")->outcome, BLKUP_MODULE_LOADED);
                /* The chain is that of the loads: base until it was live, mid, big. */
                assert_int_equal(blkup_trace_path(t, &path, &n), 0);
                assert_int_equal(n, 3);
                assert_int_equal(blkup_trace_get(t, path[0].node, &span), 0);
                assert_string_equal(span.lane, "base");
                assert_true(span.end_ns == result_of(l, "base")->live_ns);
                free(path);
                (void) blkup_trace_unref(t);
                (void) blkup_module_load_free(l);
        }
}

/* Nobody may use the symbols of a module that is still coming: what needs it is named with it. All others
 * load, also when more loads are held than there are workers. */
static void what_needs_a_module_that_comes_waits(void **state)
{
        struct setting *s = *state;
        struct told t = { .lock = PTHREAD_MUTEX_INITIALIZER };
        struct blkup_module_load *l;

        set_state(s, "base", "coming\n");
        set_state(s, "slow", "live\n");
        s->k.held[0] = "base";
        s->k.held[1] = "slow";
        s->k.held[2] = "bad"; /* nothing is known of it */
        s->k.n_others = 1;
        (void) blkup_module_plan_free(s->p);
        assert_int_equal(blkup_module_plan_new(s->m, BLKUP_MODULES_IGNORE_LOADED, &s->p), 0);
        assert_int_equal(blkup_module_plan_add(s->p, "slow", NULL, NULL), 0);
        assert_int_equal(blkup_module_plan_add(s->p, "base", NULL, NULL), 0);
        assert_int_equal(blkup_module_plan_add(s->p, "mid", NULL, NULL), 0);
        assert_int_equal(blkup_module_plan_add(s->p, "bad", NULL, NULL), 0);
        l = load(s, (struct blkup_module_load_options){ .workers = 1,
                                                        .wait_ns = UINT64_C(1500000000),
                                                        .holder = { .tell = is_told, .arg = &t } });
        assert_int_equal(result_of(l, "slow")->outcome, BLKUP_MODULE_HUNG);
        assert_true(result_of(l, "slow")->live_ns > 0);
        assert_int_equal(result_of(l, "base")->outcome, BLKUP_MODULE_HUNG);
        assert_true(result_of(l, "base")->live_ns == 0);
        assert_int_equal(result_of(l, "mid")->outcome, BLKUP_MODULE_SKIPPED);
        assert_string_equal(result_of(l, "mid")->culprit, "base");
        assert_int_equal(result_of(l, "bad")->outcome, BLKUP_MODULE_HUNG);
        (void) pthread_mutex_lock(&t.lock);
        assert_true(t.live >= 1 && t.coming >= 1);
        (void) pthread_mutex_unlock(&t.lock);
        (void) pthread_mutex_lock(&s->k.lock);
        s->k.n_others = 0;
        (void) pthread_mutex_unlock(&s->k.lock);
        (void) blkup_module_load_free(l);
        wait_for_threads(s);
}

struct patience {
        pthread_mutex_t lock;
        uint64_t since_ns;
        bool is_over;
};

static void holds(void *arg, uint64_t since_ns)
{
        struct patience *p = arg;

        (void) pthread_mutex_lock(&p->lock);
        p->since_ns = since_ns;
        p->is_over = p->is_over || since_ns > 0;
        (void) pthread_mutex_unlock(&p->lock);
}

static bool goes_on(void *arg)
{
        struct patience *p = arg;
        bool is_over;

        (void) pthread_mutex_lock(&p->lock);
        is_over = p->is_over;
        (void) pthread_mutex_unlock(&p->lock);
        return !is_over;
}

/* Whoever waits may stop at any time: what is held is left, what waits for it does not begin. */
static void what_is_held_is_left_when_nobody_waits(void **state)
{
        struct setting *s = *state;
        struct patience p = { .lock = PTHREAD_MUTEX_INITIALIZER };
        struct blkup_module_load *l;

        s->k.held[0] = "base";
        s->k.held[1] = "slow";
        s->k.n_others = 100;
        assert_int_equal(blkup_module_plan_add(s->p, "slow", NULL, NULL), 0);
        assert_int_equal(blkup_module_plan_add(s->p, "big", NULL, NULL), 0);
        l = load(s, (struct blkup_module_load_options){
                            .wait_ns = UINT64_C(100000000000),
                            .holder = { .holds = holds, .goes_on = goes_on, .arg = &p } });
        assert_true(p.since_ns > 0);
        assert_int_equal(result_of(l, "slow")->outcome, BLKUP_MODULE_HUNG);
        assert_int_equal(result_of(l, "base")->outcome, BLKUP_MODULE_HUNG);
        assert_int_equal(result_of(l, "mid")->outcome, BLKUP_MODULE_SKIPPED);
        assert_int_equal(result_of(l, "big")->outcome, BLKUP_MODULE_SKIPPED);
        assert_string_equal(result_of(l, "big")->culprit, "base");
        (void) pthread_mutex_lock(&s->k.lock);
        s->k.n_others = 0;
        (void) pthread_mutex_unlock(&s->k.lock);
        (void) blkup_module_load_free(l);
        wait_for_threads(s);
}

/* Only the driver itself waits for the probes of others: what it needs, and softdeps, come at once. */
static void only_what_is_asked_for_waits(void **state)
{
        struct setting *s = *state;
        struct blkup_module_load *l;

        assert_int_equal(blkup_module_plan_add(s->p, "pci:x", NULL, NULL), 0);
        assert_int_equal(blkup_module_plan_add(s->p, "other", NULL, NULL), 0);
        l = load(s, (struct blkup_module_load_options){ .workers = 8, .only_asked_waits = true });
        assert_string_equal(s->k.options[position(&s->k, "base")], "async_probe");
        assert_string_equal(s->k.options[position(&s->k, "mid")], "async_probe");
        assert_string_equal(s->k.options[position(&s->k, "bad")], "async_probe");
        assert_string_equal(s->k.options[position(&s->k, "big")], "size=1");
        assert_string_equal(s->k.options[position(&s->k, "other")], "");
        (void) blkup_module_load_free(l);
        /* What is needed by one request may be what another one stands for. */
        s->k.n = 0;
        (void) blkup_module_plan_free(s->p);
        assert_int_equal(blkup_module_plan_new(s->m, 0, &s->p), 0);
        assert_int_equal(blkup_module_plan_add(s->p, "big", NULL, NULL), 0);
        assert_int_equal(blkup_module_plan_add(s->p, "mid", NULL, NULL), 0);
        l = load(s, (struct blkup_module_load_options){ .workers = 8, .only_asked_waits = true });
        assert_string_equal(s->k.options[position(&s->k, "base")], "async_probe");
        assert_string_equal(s->k.options[position(&s->k, "mid")], "");
        (void) blkup_module_load_free(l);
}

static void sequential_is_alone(void **state)
{
        struct setting *s = *state;
        const char *const names[] = { "mid" };
        struct blkup_module_load *l;

        s->k.take_ns = 5000000u;
        s->k.alone = "mid";
        assert_int_equal(blkup_module_plan_add(s->p, "big", NULL, NULL), 0);
        assert_int_equal(blkup_module_plan_add(s->p, "other", NULL, NULL), 0);
        l = load(s,
                 (struct blkup_module_load_options){ .workers = 8, .sequential = names, .n_sequential = 1 });
        assert_false(s->k.was_not_alone);
        (void) blkup_module_load_free(l);
}

/* big needs mid, and mid base: that chain decided, and the trace says so. */
static void the_trace_knows_what_waited_for_what(void **state)
{
        static const char *const chain[] = { "base", "mid", "big" };
        struct setting *s = *state;
        struct blkup_trace *t = blkup_trace_new(0);
        struct blkup_path_step *path = NULL;
        struct blkup_module_load *l;
        size_t n = 0;

        assert_non_null(t);
        s->k.take_ns = 20000000u;
        assert_int_equal(blkup_module_plan_add(s->p, "big", NULL, NULL), 0);
        assert_int_equal(blkup_module_plan_add(s->p, "other", NULL, NULL), 0);
        l = load(s, (struct blkup_module_load_options){ .workers = 8, .trace = t, .first_worker = 256 });
        assert_int_equal(blkup_trace_path(t, &path, &n), 0);
        assert_int_equal(n, 3);
        for (size_t i = 0; i < n; i++) {
                struct blkup_span span;

                assert_int_equal(blkup_trace_get(t, path[i].node, &span), 0);
                assert_string_equal(span.lane, chain[i]);
                assert_int_equal(path[i].why, i > 0 ? BLKUP_PATH_AFTER : BLKUP_PATH_FIRST);
                assert_true(span.worker >= 256);
        }
        free(path);
        (void) blkup_trace_unref(t);
        (void) blkup_module_load_free(l);
}

static void blacklist_drops_aliases_only(void **state)
{
        struct setting *s = *state;
        struct blkup_modules *m = NULL;
        struct blkup_module_plan *p = NULL;
        size_t n = 0;

        fake_root_file(&s->f, "etc/modprobe.d/b.conf", "blacklist big\n");
        assert_int_equal(blkup_modules_new(&(struct blkup_modules_where){ s->f.path, "1.0" }, &m, NULL), 0);
        assert_int_equal(blkup_module_plan_new(m, 0, &p), 0);
        assert_int_equal(blkup_module_plan_add(p, "pci:x", NULL, &n), 0);
        assert_int_equal(n, 1);
        assert_int_equal(blkup_module_plan_n_steps(p), 0);
        assert_int_equal(blkup_module_plan_add(p, "big", NULL, &n), 0);
        assert_int_equal(blkup_module_plan_n_steps(p), 3);
        (void) blkup_module_plan_free(p);
        (void) blkup_modules_free(m);
}

/* Costs as measured of 40 modules in a virtual machine, in ms; a graph of three layers over them. */
static void schedules_near_the_bound(void **state)
{
        static const uint16_t costs[] = { 656,  865, 81,   149, 3333, 239,  620, 129, 556, 169,
                                          1323, 58,  494,  105, 181,  74,   418, 225, 847, 345,
                                          277,  472, 972,  117, 175,  1853, 158, 344, 960, 826,
                                          279,  188, 2294, 889, 283,  224,  339, 291, 141, 375 };
        static const unsigned cpus[] = { 2, 4, 8 };

        (void) state;
        for (size_t c = 0; c < BLKUP_ARRAY_SIZE(cpus); c++) {
                struct blkup_pool_summary sum = { 0 };
                struct blkup_pool *p = NULL;
                uint64_t bound;
                uint32_t node;

                assert_int_equal(blkup_pool_new(&p, 0), 0);
                for (uint32_t i = 0; i < BLKUP_ARRAY_SIZE(costs); i++) {
                        assert_int_equal(blkup_pool_add(p, &(struct blkup_pool_node){ .cost_ns = costs[i] },
                                                        NULL, 0, &node),
                                         0);
                        if (i >= 13)
                                assert_int_equal(blkup_pool_depend(p, i, i - 13, BLKUP_POOL_NEEDS), 0);
                }
                assert_int_equal(blkup_pool_replay(p, cpus[c], NULL, &sum, NULL), 0);
                bound = sum.work_ns / cpus[c] > sum.critical_ns ? sum.work_ns / cpus[c] : sum.critical_ns;
                print_message("%u CPUs: makespan %llu, bound %llu\n", cpus[c],
                              (unsigned long long) sum.span_ns, (unsigned long long) bound);
                assert_true(sum.span_ns * 10 <= bound * 11);
                (void) blkup_pool_unref(p);
        }
}

/* From the index to the last load with the n-th allocation failing, and with all from there on. */
static int go_through(const struct fake_root *f, struct kernel *k, size_t *ret_loaded)
{
        struct blkup_module_backend backend = { .load = take, .arg = k };
        struct blkup_module_load_options o = { .workers = 1, .backend = &backend };
        struct blkup_module_load *l = NULL;
        struct blkup_module_plan *p = NULL;
        struct blkup_modules *m = NULL;
        struct blkup_error err = { 0 };
        int r = blkup_modules_new(&(struct blkup_modules_where){ f->path, "1.0" }, &m, &err);

        if (r == 0)
                r = blkup_module_plan_new(m, 0, &p);
        if (r == 0)
                r = blkup_module_plan_add(p, "big", NULL, NULL);
        if (r == 0)
                r = blkup_module_plan_add(p, "pci:v1", "speed=9", NULL);
        if (r == 0)
                r = blkup_module_plan_add(p, "other", NULL, NULL);
        if (r == 0)
                r = blkup_module_load(p, &o, &l, &err);
        *ret_loaded = 0;
        for (size_t i = 0; r == 0 && i < blkup_module_load_count(l); i++)
                *ret_loaded += blkup_module_load_result(l, i)->outcome == BLKUP_MODULE_LOADED ||
                               blkup_module_load_result(l, i)->outcome == BLKUP_MODULE_WAS_LOADED;
        (void) blkup_module_load_free(l);
        (void) blkup_module_plan_free(p);
        (void) blkup_modules_free(m);
        return r;
}

static void without_memory(void **state)
{
        struct kernel *k = calloc(1, sizeof(*k));
        size_t loaded, expected;
        struct fake_root f;

        (void) state;
        assert_non_null(k);
        (void) pthread_mutex_init(&k->lock, NULL);
        make_kernel(&f);
        assert_int_equal(go_through(&f, k, &expected), 0);
        assert_int_equal(expected, 4); /* base mid big other; bad and what needs it not */
        for (int for_good = 0; for_good < 2; for_good++) {
                long n = 0, failed;

                /* Ends: at the first n beyond the allocations that there are. */
                do {
                        int r;

                        k->n = 0;
                        fail_alloc_arm(n++, for_good);
                        r = go_through(&f, k, &loaded);
                        failed = fail_alloc_disarm();
                        /* Told, or made up for: never a result that leaves something out. */
                        if (r != 0)
                                assert_int_equal(r, -ENOMEM);
                        else
                                assert_int_equal(loaded, expected);
                } while (failed > 0);
                print_message("%ld allocations\n", n - 1);
                assert_true(n > 20);
        }
        fake_root_remove(&f);
        free(k);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(names_that_could_be_paths_are_refused, set_up, tear_down),
                cmocka_unit_test_setup_teardown(each_module_once_and_in_order, set_up, tear_down),
                cmocka_unit_test_setup_teardown(once_in_a_hundred_runs, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_load_that_hangs_is_left, set_up, tear_down),
                cmocka_unit_test_setup_teardown(what_needs_a_live_module_does_not_wait_for_its_load, set_up,
                                                tear_down),
                cmocka_unit_test_setup_teardown(what_needs_a_module_that_comes_waits, set_up, tear_down),
                cmocka_unit_test_setup_teardown(what_is_held_is_left_when_nobody_waits, set_up, tear_down),
                cmocka_unit_test_setup_teardown(only_what_is_asked_for_waits, set_up, tear_down),
                cmocka_unit_test_setup_teardown(sequential_is_alone, set_up, tear_down),
                cmocka_unit_test_setup_teardown(the_trace_knows_what_waited_for_what, set_up, tear_down),
                cmocka_unit_test_setup_teardown(blacklist_drops_aliases_only, set_up, tear_down),
                cmocka_unit_test(schedules_near_the_bound),
                cmocka_unit_test(without_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
