/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Loads a plan's graph with the thread pool. A module that must be unpacked has a node of its own for that,
 * which waits for nothing: so it lies in memory when its turn comes.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/error.h"
#include "host/hostfile.h"
#include "modules/command.h"
#include "modules/held.h"
#include "modules/kernel.h"
#include "modules/name.h"
#include "modules/tree.h"
#include "modules/unpack.h"
#include "sync/cond.h"
#include "sync/pool.h"
#include "trace/trace.h"

/* Images unpacked and not yet loaded. */
#define AHEAD_BYTES ((uint64_t) 64 << 20)
/* A signed module costs its sha256, some 165 ns a byte in generic code, and an RSA signature: 5 ms. Only the
 * order depends on it. Source: measured with the instruction clock, ext4 (2.0 MB) 350 ms, the small ones 5
 * to 15. */
#define COST_BASE_NS     5000000u
#define COST_BYTE_NS     165u
#define COST_UNPACK_NS   40u /* a packed byte */
#define PACKED_RATIO     4u  /* unpacked to packed size */
#define SIGNATURE_MARK   "~Module signature appended~\n" /* include/linux/module_signature.h */
#define MAX_WORKERS      256u

struct job {
        struct context *context;
        char *name, *path, *options, *command;
        enum blkup_module_action action;
        uint64_t file_bytes;
        bool may_unpack;
        uint32_t prepare_node;
        unsigned prepare_worker;
        /* What the preparing node leaves; the loading node waits for that one. */
        uint8_t *image;
        size_t image_bytes;
        uint64_t held_bytes; /* of ahead_bytes */
        int prepare_error;
        struct blkup_module_result result; /* texts: the job's; culprit: filled when all is over */
        char message[512];
        uint32_t load_node;
        /* With the context's lock: the graph has gone on without it; its call has returned. */
        bool is_left, is_back;
        uint64_t live_ns; /* when its module was seen live while the call went on; 0: was not */
};

/* Shared with threads that hang: lives until the last of them lets go. */
struct context {
        atomic_uint refs;
        pthread_mutex_t lock;
        bool is_over;             /* under lock: results are taken, the trace is the caller's again */
        struct blkup_trace *trace;
        struct blkup_module_backend backend;
        char *root;
        int compression;          /* enum blkup_packing that the kernel unpacks, or BLKUP_NOT_PACKED */
        atomic_uint_least64_t ahead_bytes;
        struct blkup_held *held;   /* NULL: nobody looks whether a load is held */
        struct blkup_pool *pool;   /* while the graph runs */
        pthread_cond_t is_back;    /* a call that was left */
        bool is_given_up;          /* with the lock: nobody waits for what is held */
        struct blkup_module_holder holder;
        unsigned first_worker;
        uint64_t first_id; /* of the trace's spans: that of node i is first_id + i; 0: no trace */
        struct job *jobs;
        size_t n_jobs;
};

struct blkup_module_load {
        struct context *context;
        struct blkup_module_result *results;
        size_t n;
};

static void unref_context(struct context *c)
{
        if (!c || atomic_fetch_sub(&c->refs, 1) != 1)
                return;
        for (size_t i = 0; i < c->n_jobs; i++) {
                free(c->jobs[i].name);
                free(c->jobs[i].path);
                free(c->jobs[i].options);
                free(c->jobs[i].command);
                free(c->jobs[i].image);
        }
        free(c->jobs);
        free(c->root);
        (void) blkup_held_free(c->held);
        (void) pthread_cond_destroy(&c->is_back);
        (void) pthread_mutex_destroy(&c->lock);
        free(c);
}

static void drop_job(void *arg)
{
        unref_context(((struct job *) arg)->context);
}

/* ---- preparing ---- */

static int map_file(struct job *j, int *ret_fd, void **ret_map, size_t *ret_n)
{
        BLKUP_CLEANUP_CLOSE int fd = blkup_host_open(j->context->root, j->path + 1, O_RDONLY);
        struct stat st;
        void *map;

        if (fd < 0)
                return fd;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -EINVAL;
        if (st.st_size == 0)
                return -ENODATA;
        map = mmap(NULL, (size_t) st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED)
                return -errno;
        *ret_fd = blkup_take_fd(&fd);
        *ret_map = map;
        *ret_n = (size_t) st.st_size;
        return 0;
}

static void unpack_job(struct job *j)
{
        BLKUP_CLEANUP_CLOSE int fd = -1;
        enum blkup_packing k;
        void *map = NULL;
        size_t n = 0;
        int r;

        j->result.prepare_start_ns = blkup_now_ns();
        r = map_file(j, &fd, &map, &n);
        if (r == 0) {
                k = blkup_packing_of(map, n);
                r = k == BLKUP_NOT_PACKED ? -ENOEXEC : blkup_unpack(k, map, n, &j->image, &j->image_bytes);
                (void) munmap(map, n);
        }
        j->prepare_error = r;
        j->result.prepare_end_ns = blkup_now_ns();
        if (r == 0)
                j->result.size_bytes = j->image_bytes;
}

/* The node before a packed module's: unpacks, unless too much lies unpacked already. */
static int run_prepare(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg,
                       struct blkup_error *err)
{
        struct job *j = arg;
        uint64_t want = j->file_bytes * PACKED_RATIO;

        (void) p;
        (void) err;
        j->prepare_node = node;
        j->prepare_worker = worker;
        if (atomic_fetch_add(&j->context->ahead_bytes, want) + want <= AHEAD_BYTES || want > AHEAD_BYTES / 2)
                unpack_job(j);
        if (j->image)
                j->held_bytes = want;
        else
                atomic_fetch_sub(&j->context->ahead_bytes, want);
        return 0;
}

/* ---- loading ---- */

static int call_backend(struct job *j, int fd, int flags)
{
        const struct blkup_module_backend *b = &j->context->backend;

        j->result.calls++;
        return b->load(b->arg, j->name, fd, j->image, j->image_bytes, j->options, flags);
}

static int hand_over(struct job *j)
{
        BLKUP_CLEANUP_CLOSE int fd = -1;
        struct context *c = j->context;
        int flags = 0, r;

        if (c->backend.needs_no_files)
                return call_backend(j, -1, 0);
        if (j->may_unpack && !j->image && j->prepare_error == 0 && c->compression == BLKUP_NOT_PACKED)
                unpack_job(j); /* its turn came before there was room */
        if (j->prepare_error < 0)
                return j->prepare_error;
        if (!j->image) {
                fd = blkup_host_open(c->root, j->path + 1, O_RDONLY);
                if (fd < 0) {
                        (void) snprintf(j->message, sizeof(j->message), "%s: %s", j->path,
                                        blkup_error_text(-fd));
                        return fd;
                }
                        flags = j->may_unpack ? MODULE_INIT_COMPRESSED_FILE : 0;
        }
        r = call_backend(j, fd, flags);
        if (r == -EOPNOTSUPP && flags) { /* the kernel promised, and does not */
                unpack_job(j);
                fd = blkup_close(fd);
                r = j->prepare_error < 0 ? j->prepare_error : call_backend(j, -1, 0);
        }
        for (unsigned i = 0; i < 2 && (r == -EBUSY || r == -EAGAIN); i++) {
                if (i == 1 && r == -EBUSY)
                        break; /* once: what it waits for will not come */
                r = call_backend(j, fd, flags);
        }
        return r;
}

/* As many edges as a picture needs: of a module that all others wait for, the last few decide. */
#define MAX_AFTER 512u

/* A load whose module has long been live is told in two parts: what it took, and what the kernel waited for.
 */
static void add_spans(struct context *c, struct blkup_pool *p, uint32_t node, const struct job *j,
                      const struct blkup_module_result *r, const char *detail)
{
        uint64_t live_ns = j->live_ns && j->live_ns < r->end_ns ? j->live_ns : r->end_ns;
        uint32_t before[MAX_AFTER], n = 0;
        uint64_t after[MAX_AFTER];

        if (!c->trace)
                return;
        if (blkup_pool_before(p, node, NULL, before, MAX_AFTER, &n) < 0)
                n = 0;
        n = n < MAX_AFTER ? n : MAX_AFTER;
        for (uint32_t i = 0; i < n; i++)
                after[i] = c->first_id + before[i];
        if (r->prepare_end_ns)
                blkup_trace_add(c->trace, &(struct blkup_span){
                                                  .kind = BLKUP_SPAN_READ,
                                                  .lane = j->name,
                                                  .name = "unpack",
                                                  .start_ns = r->prepare_start_ns,
                                                  .end_ns = r->prepare_end_ns,
                                                  .bytes = j->file_bytes,
                                                  .worker = c->first_worker + j->prepare_worker,
                                                  .error = j->prepare_error,
                                                  .id = c->first_id + j->prepare_node,
                                          });
        blkup_trace_add(c->trace, &(struct blkup_span){
                                          .kind = BLKUP_SPAN_MODULE,
                                          .lane = j->name,
                                          .name = j->action == BLKUP_MODULE_INSTALL ? "install" : "load",
                                          .detail = detail,
                                          .start_ns = r->start_ns,
                                          .end_ns = live_ns,
                                          .bytes = r->size_bytes,
                                          .worker = c->first_worker + r->worker,
                                          .error = r->error,
                                          .id = c->first_id + node,
                                          .after = after,
                                          .n_after = n,
                                  });
        if (live_ns < r->end_ns)
                blkup_trace_add(c->trace,
                                &(struct blkup_span){
                                        .kind = BLKUP_SPAN_WAIT,
                                        .lane = j->name,
                                        .name = "wait",
                                        .detail = "it is live; its call waits for the probes of devices",
                                        .start_ns = live_ns,
                                        .end_ns = r->end_ns,
                                        .worker = c->first_worker + r->worker,
                                });
}

static int run_load(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg, struct blkup_error *err)
{
        struct job *j = arg;
        struct context *c = j->context;
        int r = 0;

        j->result.worker = worker;
        j->result.start_ns = blkup_now_ns();
        if (c->held && j->action == BLKUP_MODULE_INSMOD)
                blkup_held_begin(c->held, (size_t) (j - c->jobs));
        if (j->action == BLKUP_MODULE_INSTALL) {
                r = blkup_module_command(&(struct blkup_module_command){ c->root, j->name, j->command,
                                                                         j->options },
                                         j->message, sizeof(j->message));
        } else if (j->action == BLKUP_MODULE_INSMOD) {
                r = hand_over(j);
                free(j->image);
                j->image = NULL;
                atomic_fetch_sub(&c->ahead_bytes, j->held_bytes);
        } else if (j->action == BLKUP_MODULE_MISSING) {
                r = -ENOENT;
                (void) snprintf(j->message, sizeof(j->message),
                                "configuration names it, and no index knows it");
        }
        j->result.end_ns = blkup_now_ns();
        if (c->held)
                blkup_held_end(c->held, (size_t) (j - c->jobs));
        if (r == -EEXIST)
                j->result.outcome = BLKUP_MODULE_WAS_LOADED;
        else if (r == 0)
                j->result.outcome =
                        j->action == BLKUP_MODULE_INSTALL ? BLKUP_MODULE_RAN : BLKUP_MODULE_LOADED;
        else
                j->result.outcome =
                        r == -ENODEV || r == -ENXIO ? BLKUP_MODULE_NO_HARDWARE : BLKUP_MODULE_FAILED;
        r = r == -EEXIST ? 0 : r;
        if (r < 0 && !*j->message)
                (void) snprintf(j->message, sizeof(j->message), "%s", blkup_module_errno_meaning(r));
        (void) pthread_mutex_lock(&c->lock);
        j->result.error = r;
        j->is_back = true;
        if (!c->is_over)
                add_spans(c, p, node, j, &j->result, r < 0 ? blkup_module_errno_meaning(r) : NULL);
        (void) pthread_cond_broadcast(&c->is_back);
        (void) pthread_mutex_unlock(&c->lock);
        return r < 0 ? blkup_fail(err, r, "%s", j->message) : 0;
}

/* ---- the graph ---- */

/* The kernel's own word for each module (async_probe in its kernel-parameters.txt): with it do_init_module()
 * does not wait for the probes of others (kernel/module/main.c). */
static char *options_of(const struct blkup_module_node *n, bool no_async_wait)
{
        char *text = NULL;

        if (!no_async_wait)
                return strdup(n->options);
        return asprintf(&text, "%s%sasync_probe", n->options, *n->options ? " " : "") < 0 ? NULL : text;
}

static int fill_job(struct context *c, const struct blkup_module_node *n, bool no_async_wait, struct job *j)
{
        struct stat st;
        int fd;

        j->context = c;
        j->action = n->action;
        j->name = strdup(n->name);
        j->path = strdup(n->path);
        j->options = options_of(n, no_async_wait);
        if (n->command)
                j->command = strdup(n->command);
        if (!j->name || !j->path || !j->options || (n->command && !j->command))
                return -ENOMEM;
        j->result =
                (struct blkup_module_result){ .name = j->name, .is_required = n->is_required, .message = "" };
        if (n->action != BLKUP_MODULE_INSMOD || c->backend.needs_no_files)
                return 0;
        fd = blkup_host_open(c->root, j->path + 1, O_PATH);
        if (fd >= 0 && fstat(fd, &st) == 0)
                j->file_bytes = (uint64_t) st.st_size;
        (void) blkup_close(fd);
        j->result.size_bytes = j->file_bytes;
        j->may_unpack = blkup_packing_of_path(j->path) != BLKUP_NOT_PACKED;
        return 0;
}

static bool is_signed(const char *root, const char *path)
{
        BLKUP_CLEANUP_CLOSE int fd = blkup_host_open(root, path + 1, O_RDONLY);
        char end[sizeof(SIGNATURE_MARK) - 1];
        struct stat st;

        return fd >= 0 && fstat(fd, &st) == 0 && st.st_size > (off_t) sizeof(end) &&
               pread(fd, end, sizeof(end), st.st_size - (off_t) sizeof(end)) == sizeof(end) &&
               memcmp(end, SIGNATURE_MARK, sizeof(end)) == 0;
}

/* The kernel checks each signature with the best sha256 it has: the accelerated one pays for itself when it
 * comes first. Packed modules are signed inside; the first plain one, or any packed one, answers for all. */
static bool wants_sha(const struct context *c)
{
        for (size_t i = 0; i < c->n_jobs; i++)
                if (c->jobs[i].action == BLKUP_MODULE_INSMOD)
                        return c->jobs[i].may_unpack || is_signed(c->root, c->jobs[i].path);
        return false;
}

static bool is_sha(const char *name)
{
        /* crypto/ and arch/.../crypto/ of the kernel, x86 and arm64 */
        static const char *const names[] = { "sha256_ssse3", "sha256_ce", "sha256_arm64", "sha2_ce" };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(names); i++)
                if (strcmp(name, names[i]) == 0)
                        return true;
        return false;
}

struct graph {
        struct blkup_pool *pool;
        uint32_t *load; /* node of each job */
        uint64_t *cost;
        const struct blkup_module_node *nodes;
        size_t n;
};

static int add_node(struct graph *g, struct job *j, const char *name, uint64_t cost, uint64_t timeout_ns,
                    blkup_pool_fn *run, uint32_t *ret)
{
        int r;

        atomic_fetch_add(&j->context->refs, 1);
        r = blkup_pool_add(g->pool,
                           &(struct blkup_pool_node){
                                   .name = name,
                                   .cost_ns = cost,
                                   .timeout_ns = timeout_ns,
                                   .run = run,
                                   .arg = j,
                                   .drop = drop_job,
                           },
                           NULL, 0, ret);
        if (r < 0)
                unref_context(j->context);
        return r;
}

static int add_job(struct graph *g, struct context *c, size_t i, const struct blkup_module_load_options *o)
{
        struct job *j = &c->jobs[i];
        bool unpacks = j->may_unpack && c->compression != blkup_packing_of_path(j->path);
        uint64_t bytes = j->file_bytes * (j->may_unpack ? PACKED_RATIO : 1);
        uint64_t cost = o->costs_ns ? o->costs_ns[i] : COST_BASE_NS + bytes * COST_BYTE_NS;
        uint32_t prepare;
        int r;

        g->cost[i] = cost;
        r = add_node(g, j, j->name, cost, o->wait_ns, run_load, &g->load[i]);

        if (r == 0 && unpacks)
                r = add_node(g, j, j->name, j->file_bytes * COST_UNPACK_NS, 0, run_prepare, &prepare);
        if (r == 0 && unpacks)
                r = blkup_pool_depend(g->pool, g->load[i], prepare, BLKUP_POOL_NEEDS);
        for (uint32_t k = 0; r == 0 && k < g->nodes[i].n_needs; k++)
                r = blkup_pool_depend(g->pool, g->load[i], g->load[g->nodes[i].needs[k]], BLKUP_POOL_NEEDS);
        for (uint32_t k = 0; r == 0 && k < g->nodes[i].n_after; k++)
                r = blkup_pool_depend(g->pool, g->load[i], g->load[g->nodes[i].after[k]], BLKUP_POOL_AFTER);
        return r;
}

/* Everything but what sha itself waits for waits for it. Those have smaller indexes, or it would be a circle.
 */
static int put_first(struct graph *g, const struct context *c)
{
        bool *before;
        size_t sha = g->n;
        int r = 0;

        for (size_t i = 0; i < g->n && sha == g->n; i++)
                if (is_sha(g->nodes[i].name))
                        sha = i;
        if (sha == g->n || !wants_sha(c))
                return 0;
        before = calloc(g->n, sizeof(*before));
        if (!before)
                return -ENOMEM;
        before[sha] = true;
        for (size_t i = sha + 1; i-- > 0;)
                for (uint32_t k = 0; before[i] && k < g->nodes[i].n_needs + g->nodes[i].n_after; k++)
                        before[k < g->nodes[i].n_needs ? g->nodes[i].needs[k]
                                                       : g->nodes[i].after[k - g->nodes[i].n_needs]] = true;
        for (size_t i = 0; r == 0 && i < g->n; i++)
                if (!before[i])
                        r = blkup_pool_depend(g->pool, g->load[i], g->load[sha], BLKUP_POOL_AFTER);
        free(before);
        return r;
}

/* While a module of the list is loaded, nothing else is: all before it in the plan's order come first, all
 * others after. */
static int put_alone(struct graph *g, const struct blkup_module_load_options *o)
{
        int r = 0;

        for (size_t s = 0; s < o->n_sequential; s++) {
                char name[BLKUP_MODULE_ALIAS_CAP];
                size_t at = 0;

                if (blkup_module_alias(o->sequential[s], strlen(o->sequential[s]), name, sizeof(name)) < 0)
                        return -EINVAL;
                while (at < g->n && strcmp(g->nodes[at].name, name) != 0)
                        at++;
                for (size_t i = 0; r == 0 && at < g->n && i < g->n; i++)
                        if (i != at)
                                r = blkup_pool_depend(g->pool, g->load[i < at ? at : i],
                                                      g->load[i < at ? i : at], BLKUP_POOL_AFTER);
        }
        return r;
}

static unsigned usual_workers(void)
{
        cpu_set_t set;
        unsigned n = 1;

        if (sched_getaffinity(0, sizeof(set), &set) == 0)
                n = (unsigned) CPU_COUNT(&set);
        n *= 4;
        return n < 8 ? 8 : n > MAX_WORKERS ? MAX_WORKERS : n;
}

/* ---- what the kernel holds ---- */

/* What waits for it goes on; the load itself is waited for in the end, by wait_for_left(). */
static void leave(void *arg, size_t load, uint64_t live_ns)
{
        struct context *c = arg;
        struct job *j = &c->jobs[load];

        (void) pthread_mutex_lock(&c->lock);
        j->live_ns = live_ns;
        if (!j->is_back)
                j->is_left = blkup_pool_leave(c->pool, j->load_node, 0, NULL) == 0;
        (void) pthread_mutex_unlock(&c->lock);
}

static void tell(void *arg, size_t load, uint64_t live_ns)
{
        struct context *c = arg;
        struct job *j = &c->jobs[load];

        (void) pthread_mutex_lock(&c->lock);
        j->live_ns = live_ns;
        (void) pthread_mutex_unlock(&c->lock);
        if (c->holder.tell)
                c->holder.tell(c->holder.arg, j->name, live_ns != 0);
}

static void give_up(void *arg)
{
        struct context *c = arg;

        blkup_pool_cancel(c->pool);
        (void) pthread_mutex_lock(&c->lock);
        c->is_given_up = true;
        (void) pthread_cond_broadcast(&c->is_back);
        (void) pthread_mutex_unlock(&c->lock);
}

/* Where memory is short all are waited for: no error. */
static void watch_held(const struct graph *g, struct context *c, unsigned workers, uint64_t wait_ns)
{
        BLKUP_CLEANUP_FREE struct blkup_held_load *loads = calloc(g->n + 1, sizeof(*loads));
        const struct blkup_held_calls calls = { .leave = leave,
                                                .tell = tell,
                                                .holder = &c->holder,
                                                .give_up = give_up,
                                                .arg = c,
                                                .after_ns = wait_ns / 3 };
        bool is_wanted = c->holder.tell || c->holder.goes_on || g->n > workers;

        for (size_t i = 0; loads && i < g->n; i++) {
                const struct blkup_module_node *n = &g->nodes[i];

                loads[i].name = c->jobs[i].name;
                c->jobs[i].load_node = g->load[i];
                for (uint32_t k = 0; k < n->n_needs; k++)
                        loads[n->needs[k]].is_needed = true;
                for (uint32_t k = 0; k < n->n_after; k++)
                        loads[n->after[k]].has_after = true;
                is_wanted = is_wanted || n->n_needs + n->n_after > 0;
        }
        if (!loads || !is_wanted || blkup_held_new(c->root, loads, g->n, &calls, &c->held) < 0)
                return;
        c->pool = g->pool;
        blkup_held_start(c->held);
}

/* Until those that the graph went on without are back, or have taken too long. */
static void wait_for_left(struct context *c, uint64_t wait_ns)
{
        (void) pthread_mutex_lock(&c->lock);
        for (size_t i = 0; i < c->n_jobs; i++) {
                const struct job *j = &c->jobs[i];
                /* Of another one the thread that has it may just write that. */
                struct timespec until = blkup_to_timespec(j->is_left ? j->result.start_ns + wait_ns : 0);
                int r = 0;

                /* Ends: with the call, with the time, or when nobody wants to wait. */
                while (j->is_left && !j->is_back && !c->is_given_up && r != ETIMEDOUT)
                        r = wait_ns ? pthread_cond_timedwait(&c->is_back, &c->lock, &until)
                                    : pthread_cond_wait(&c->is_back, &c->lock);
        }
        (void) pthread_mutex_unlock(&c->lock);
}

static int run_graph(struct graph *g, struct context *c, const struct blkup_module_load_options *o,
                     struct blkup_error *err)
{
        struct blkup_pool_options pool = {
                .workers = o->workers ? o->workers : usual_workers(),
        };
        int r = blkup_pool_new(&g->pool, (uint32_t) (2 * g->n + 1));

        for (size_t i = 0; r == 0 && i < g->n; i++)
                r = add_job(g, c, i, o);
        if (r == 0 && !o->no_sha_first)
                r = put_first(g, c);
        if (r == 0)
                r = put_alone(g, o);
        if (r < 0)
                return blkup_fail_errno(err, r, "graph of %zu modules", g->n);
        if (o->n_sequential == 0)
                watch_held(g, c, pool.workers, o->wait_ns);
        r = blkup_pool_run(g->pool, &pool, NULL, err);
        wait_for_left(c, o->wait_ns);
        if (c->held)
                blkup_held_stop(c->held);
        /* Nobody else cancels it. */
        return r == -ECANCELED ? 0 : r;
}

/* Of what did not begin since nobody waits any more: for which load it would have waited. */
static void name_held(const struct graph *g, const struct context *c, size_t i,
                      struct blkup_module_result *results)
{
        for (uint32_t k = 0; !results[i].culprit && k < g->nodes[i].n_needs; k++) {
                uint32_t on = g->nodes[i].needs[k]; /* comes before it */

                if (results[on].outcome == BLKUP_MODULE_HUNG)
                        results[i].culprit = c->jobs[on].name;
                else if (results[on].outcome == BLKUP_MODULE_SKIPPED)
                        results[i].culprit = results[on].culprit;
                if (results[i].culprit)
                        results[i].error = -ETIMEDOUT;
        }
}

/* Results become the caller's: a thread that hangs may still write to its job. */
static int take_results(struct graph *g, struct context *c, struct blkup_module_load *l)
{
        l->results = calloc(g->n + 1, sizeof(*l->results));
        if (!l->results)
                return -ENOMEM;
        (void) pthread_mutex_lock(&c->lock);
        c->is_over = true;
        for (size_t i = 0; i < g->n; i++) {
                struct blkup_module_result *to = &l->results[i];
                struct blkup_pool_result p = { 0 };

                if (blkup_pool_get(g->pool, g->load[i], &p) < 0)
                        continue;
                *to = (struct blkup_module_result){ .name = c->jobs[i].name,
                                                    .is_required = c->jobs[i].result.is_required,
                                                    .message = "" };
                if (c->jobs[i].is_back && (c->jobs[i].is_left || p.state != BLKUP_POOL_TIMED_OUT)) {
                        *to = c->jobs[i].result;
                        to->message = c->jobs[i].message;
                        to->live_ns = c->jobs[i].live_ns;
                } else if (p.state == BLKUP_POOL_TIMED_OUT || c->jobs[i].is_left) {
                        to->outcome = BLKUP_MODULE_HUNG;
                        to->error = -ETIMEDOUT;
                        to->live_ns = c->jobs[i].live_ns;
                        to->message = to->live_ns
                                              ? "it has started, but the kernel waits for a device that does "
                                                "not answer; the load is left alone"
                                              : "its init call has not returned; the load is left alone";
                        to->start_ns = p.start_ns;
                        to->end_ns = blkup_now_ns();
                        to->calls = 1;
                        to->worker = p.worker;
                        add_spans(c, g->pool, g->load[i], &c->jobs[i], to, to->message);
                } else {
                        to->outcome = BLKUP_MODULE_SKIPPED;
                        to->error = p.code;
                        for (size_t k = 0; k < g->n; k++)
                                if (g->load[k] == p.culprit)
                                        to->culprit = c->jobs[k].name;
                        name_held(g, c, i, l->results);
                        to->message = "needs a module that did not load";
                }
                if (c->jobs[i].action == BLKUP_MODULE_BUILTIN)
                        to->outcome = BLKUP_MODULE_NOT_NEEDED;
        }
        c->trace = NULL;
        (void) pthread_mutex_unlock(&c->lock);
        l->n = g->n;
        for (size_t i = 0; c->first_id && i < g->n; i++)
                l->results[i].span = c->first_id + g->load[i];
        return 0;
}

static int make_context(struct blkup_module_plan *p, const struct blkup_module_load_options *o,
                        struct context **ret);

int blkup_module_load(struct blkup_module_plan *p, const struct blkup_module_load_options *o,
                      struct blkup_module_load **ret, struct blkup_error *err)
{
        BLKUP_CLEANUP_FREE uint32_t *load = NULL;
        BLKUP_CLEANUP_FREE uint64_t *cost = NULL;
        struct blkup_module_load *l = NULL;
        struct context *c = NULL;
        struct graph g = { 0 };
        int r = make_context(p, o, &c);

        if (r == 0)
                r = blkup_module_plan_nodes(p, &g.nodes, &g.n);
        if (r == 0) {
                g.load = load = calloc(g.n + 1, sizeof(*load));
                g.cost = cost = calloc(g.n + 1, sizeof(*cost));
                l = calloc(1, sizeof(*l));
                r = load && cost && l ? 0 : -ENOMEM;
        }
        if (r == 0)
                r = run_graph(&g, c, o, err);
        if (r == 0)
                r = take_results(&g, c, l);
        if (g.pool)
                (void) blkup_pool_unref(g.pool);
        if (r < 0) {
                free(l);
                unref_context(c);
                return err && err->code ? r : blkup_fail_errno(err, r, "load");
        }
        l->context = c;
        *ret = l;
        return 0;
}

struct blkup_module_load *blkup_module_load_free(struct blkup_module_load *l)
{
        if (l) {
                unref_context(l->context);
                free(l->results);
                free(l);
        }
        return NULL;
}

size_t blkup_module_load_count(const struct blkup_module_load *l)
{
        return l->n;
}

const struct blkup_module_result *blkup_module_load_result(const struct blkup_module_load *l, size_t i)
{
        return i < l->n ? &l->results[i] : NULL;
}

static int make_context(struct blkup_module_plan *p, const struct blkup_module_load_options *o,
                        struct context **ret)
{
        const struct blkup_modules *m = blkup_module_plan_modules(p);
        const struct blkup_module_node *nodes = NULL;
        struct context *c;
        size_t n = 0;
        int r;

        r = blkup_module_plan_nodes(p, &nodes, &n);
        if (r < 0)
                return r;
        c = calloc(1, sizeof(*c));
        if (!c)
                return -ENOMEM;
        atomic_init(&c->refs, 1);
        (void) pthread_mutex_init(&c->lock, NULL);
        (void) blkup_cond_init(&c->is_back);
        c->holder = o->holder;
        c->trace = o->trace;
        c->first_worker = o->first_worker;
        c->first_id = blkup_trace_ids(o->trace, 2 * (uint64_t) n + 1);
        c->backend = o->backend ? *o->backend : (struct blkup_module_backend){ .load = blkup_kernel_load };
        c->root = strdup(m->root);
        c->jobs = calloc(n + 1, sizeof(*c->jobs));
        r = c->root && c->jobs ? 0 : -ENOMEM;
        if (r == 0)
                c->compression = blkup_kernel_compression(c->root);
        for (size_t i = 0; r == 0 && i < n; i++) {
                c->n_jobs = i + 1;
                r = fill_job(c, &nodes[i], o->no_async_wait || (o->only_asked_waits && !nodes[i].is_asked),
                             &c->jobs[i]);
        }
        if (r < 0) {
                unref_context(c);
                return r;
        }
        *ret = c;
        return 0;
}
