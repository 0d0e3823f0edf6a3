/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `blkup bench rwsem`: read lock + unlock with one thread and with two on their own CPUs, write lock + unlock
 * idle and beside two busy readers; ours, ours with fences, pthread_rwlock, and what the peers implement. The
 * rows take turns, so that a busy moment of the machine hits them all.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <blkup/rwsem.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli/bench.h"
#include "cli/output.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define LOOP_NS (2 * MS)        /* how long one sample of a short operation takes */
#define BUSY_WRITES 200u        /* write locks beside busy readers, per round */
#define BUSY_GAP_NS (100 * US)  /* between them: the readers are back to their usual pass by then */
#define PTHREAD_LIMIT_NS MS     /* a writer of glibc's rwlock may wait for ever beside busy readers */
#define HISTOGRAM_BUCKETS 20    /* powers of two of 1 µs: up to 0.5 s */

enum subject { EXPEDITED, EACH, FENCE, PTHREAD, N_SUBJECTS };

static const char *const subject_names[N_SUBJECTS] = {
        [EXPEDITED] = "blkup", [EACH] = "blkup-barrier-each", [FENCE] = "blkup-fence", [PTHREAD] = "pthread",
};

enum row { READ_1, READ_2, WRITE_IDLE, N_ROWS };

static const char *const row_names[N_ROWS] = { "read_1", "read_2", "write_idle" };

struct peer {
        const char *path;
        char name[32];
        pid_t pid;
        FILE *to, *from;
        struct blkup_bench_samples rows[N_ROWS];
};

struct bench {
        const struct blkup_bench_options *o;
        struct blkup_bench_machine machine;
        struct blkup_rwsem *sems[PTHREAD]; /* NULL: not on this machine */
        pthread_rwlock_t rwlock;
        struct blkup_bench_samples rows[N_SUBJECTS][N_ROWS]; /* ns */
        struct blkup_bench_samples busy[N_SUBJECTS];         /* ns of one write lock + unlock */
        uint64_t gave_up;                                    /* write locks of pthread's that took too long */
        struct peer peers[BLKUP_BENCH_MAX_PEERS];
        size_t n_peers;
};

/* ---- the loops ---- */

static int loop_read(struct blkup_rwsem *sem, uint64_t n, uint64_t *ret_ns)
{
        uint64_t start = blkup_now_ns();

        for (uint64_t i = 0; i < n; i++) {
                int r = blkup_rwsem_read_lock(sem);

                if (r < 0)
                        return r;
                blkup_rwsem_read_unlock(sem);
        }
        *ret_ns = blkup_now_ns() - start;
        return 0;
}

static int loop_write(struct blkup_rwsem *sem, uint64_t n, uint64_t *ret_ns)
{
        uint64_t start = blkup_now_ns();

        for (uint64_t i = 0; i < n; i++) {
                int r = blkup_rwsem_write_lock(sem);

                if (r < 0)
                        return r;
                blkup_rwsem_write_unlock(sem);
        }
        *ret_ns = blkup_now_ns() - start;
        return 0;
}

static int loop_pthread(pthread_rwlock_t *l, bool is_write, uint64_t n, uint64_t *ret_ns)
{
        uint64_t start = blkup_now_ns();
        int r = 0;

        if (is_write) {
                for (uint64_t i = 0; i < n && r == 0; i++) {
                        r = pthread_rwlock_wrlock(l);
                        (void) pthread_rwlock_unlock(l);
                }
        } else {
                for (uint64_t i = 0; i < n && r == 0; i++) {
                        r = pthread_rwlock_rdlock(l);
                        (void) pthread_rwlock_unlock(l);
                }
        }
        *ret_ns = blkup_now_ns() - start;
        return -r;
}

static int loop(struct bench *b, enum subject s, bool is_write, uint64_t n, uint64_t *ret_ns)
{
        if (s == PTHREAD)
                return loop_pthread(&b->rwlock, is_write, n, ret_ns);
        return is_write ? loop_write(b->sems[s], n, ret_ns) : loop_read(b->sems[s], n, ret_ns);
}

/* How often to go round for one sample; the first rounds also bring a lock into its steady state. */
static int calibrate(struct bench *b, enum subject s, bool is_write, uint64_t *ret_n)
{
        uint64_t ns = 0, n = 1000;
        int r = loop(b, s, is_write, n, &ns);

        if (r == 0)
                r = loop(b, s, is_write, n, &ns);
        *ret_n = ns > 0 ? 1 + n * LOOP_NS / ns : n;
        return r;
}

/* ---- two threads, each on its own CPU ---- */

struct reader {
        struct bench *b;
        enum subject s;
        unsigned number;
        uint64_t n, ns;
        int *go, *stop; /* atomic */
        int answer;
};

static void *read_twice(void *arg)
{
        struct reader *r = arg;

        r->answer = blkup_bench_pin(r->number);
        (void) __atomic_add_fetch(r->go, 1, __ATOMIC_SEQ_CST);
        /* Ends: the other one comes too; both only read meanwhile. */
        while (__atomic_load_n(r->go, __ATOMIC_SEQ_CST) < 2)
                ;
        if (r->answer == 0)
                r->answer = loop(r->b, r->s, false, r->n, &r->ns);
        return NULL;
}

static int sample_read_2(struct bench *b, enum subject s, uint64_t n, double *ret)
{
        struct reader r[2];
        pthread_t t[2];
        int go = 0, e = 0;

        for (unsigned i = 0; i < 2; i++) {
                r[i] = (struct reader){ .b = b, .s = s, .number = i, .n = n, .go = &go };
                e = -pthread_create(&t[i], NULL, read_twice, &r[i]);
                if (e < 0) {
                        if (i == 1) {
                                (void) __atomic_add_fetch(&go, 1, __ATOMIC_SEQ_CST);
                                (void) pthread_join(t[0], NULL);
                        }
                        return e;
                }
        }
        for (unsigned i = 0; i < 2; i++)
                (void) pthread_join(t[i], NULL);
        if (r[0].answer < 0 || r[1].answer < 0)
                return r[0].answer < 0 ? r[0].answer : r[1].answer;
        *ret = (double) (r[0].ns + r[1].ns) / 2 / (double) n;
        return 0;
}

/* ---- a writer beside two busy readers ---- */

static void *read_busily(void *arg)
{
        struct reader *r = arg;
        uint64_t ns = 0;

        r->answer = blkup_bench_pin(r->number);
        (void) __atomic_add_fetch(r->go, 1, __ATOMIC_SEQ_CST);
        while (r->answer == 0 && !__atomic_load_n(r->stop, __ATOMIC_RELAXED)) /* ends: the writer is done */
                r->answer = loop(r->b, r->s, false, 100, &ns);
        return NULL;
}

static int write_once(struct bench *b, enum subject s, double *ret)
{
        uint64_t start = blkup_now_ns();
        int r;

        if (s == PTHREAD) {
                struct timespec until;

                (void) clock_gettime(CLOCK_REALTIME, &until);
                until.tv_nsec += (long) PTHREAD_LIMIT_NS;
                if (until.tv_nsec >= 1000000000) {
                        until.tv_nsec -= 1000000000;
                        until.tv_sec++;
                }
                r = -pthread_rwlock_timedwrlock(&b->rwlock, &until);
                if (r == 0)
                        r = -pthread_rwlock_unlock(&b->rwlock);
                if (r == -ETIMEDOUT) {
                        b->gave_up++;
                        r = 0;
                }
        } else {
                r = blkup_rwsem_write_lock(b->sems[s]);
                if (r == 0)
                        blkup_rwsem_write_unlock(b->sems[s]);
        }
        *ret = (double) (blkup_now_ns() - start);
        return r;
}

static int sample_busy(struct bench *b, enum subject s)
{
        struct reader r[2];
        pthread_t t[2];
        unsigned n = 0;
        int go = 0, stop = 0, e = 0;

        for (; n < 2 && e == 0; n += e == 0) {
                r[n] = (struct reader){ .b = b, .s = s, .number = n, .go = &go, .stop = &stop };
                e = -pthread_create(&t[n], NULL, read_busily, &r[n]);
        }
        while (e == 0 && __atomic_load_n(&go, __ATOMIC_SEQ_CST) < 2) /* ends: both begin */
                blkup_sleep_until_ns(blkup_now_ns() + MS, NULL);
        for (unsigned i = 0; i < BUSY_WRITES && e == 0; i++) {
                double ns = 0;

                blkup_sleep_until_ns(blkup_now_ns() + BUSY_GAP_NS, NULL);
                e = write_once(b, s, &ns);
                if (e == 0)
                        e = blkup_bench_add(&b->busy[s], ns);
        }
        __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
        for (unsigned i = 0; i < n; i++) {
                (void) pthread_join(t[i], NULL);
                if (e == 0)
                        e = r[i].answer;
        }
        return e;
}

/* ---- peers: a program that prints its name, and then a number of ns for each line it is sent ---- */

static int start_peer(struct peer *p, const char *path)
{
        int to[2] = { -1, -1 }, from[2] = { -1, -1 };

        *p = (struct peer){ .path = path, .pid = -1 };
        if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
                goto fail;
        p->pid = fork();
        if (p->pid == 0) {
                if (dup2(to[0], 0) < 0 || dup2(from[1], 1) < 0)
                        _exit(127);
                execl(path, path, (char *) NULL);
                _exit(127);
        }
        if (p->pid < 0)
                goto fail;
        to[0] = blkup_close(to[0]);
        from[1] = blkup_close(from[1]);
        p->to = fdopen(to[1], "w");
        p->from = fdopen(from[0], "r");
        if (!p->to || !p->from)
                goto fail;
        if (!fgets(p->name, sizeof(p->name), p->from))
                return -EPROTO;
        p->name[strcspn(p->name, "\n")] = '\0';
        return 0;
fail:
        if (!p->to)
                (void) blkup_close(to[1]);
        if (!p->from)
                (void) blkup_close(from[0]);
        (void) blkup_close(to[0]);
        (void) blkup_close(from[1]);
        return -errno;
}

static int ask_peer(struct peer *p, enum row row)
{
        char line[64], *end = NULL;
        double ns;

        if (fprintf(p->to, "%s\n", row_names[row]) < 0 || fflush(p->to) != 0 ||
            !fgets(line, sizeof(line), p->from))
                return -EPROTO;
        ns = strtod(line, &end);
        if (end == line)
                return 0; /* "-": it has no such row */
        return blkup_bench_add(&p->rows[row], ns);
}

static void stop_peer(struct peer *p)
{
        if (p->to)
                (void) fclose(p->to); /* the peer reads the end of its input, and ends */
        if (p->from)
                (void) fclose(p->from);
        if (p->pid > 0)
                while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR) /* ends: it is our child and ends */
                        ;
        for (size_t row = 0; row < N_ROWS; row++)
                blkup_bench_free(&p->rows[row]);
}

/* ---- the run ---- */

static int measure(struct bench *b)
{
        uint64_t n_read[N_SUBJECTS], n_write[N_SUBJECTS];
        int r = 0;

        for (int s = 0; s < N_SUBJECTS && r == 0; s++) {
                if (s != PTHREAD && !b->sems[s])
                        continue;
                r = calibrate(b, (enum subject) s, false, &n_read[s]);
                if (r == 0)
                        r = calibrate(b, (enum subject) s, true, &n_write[s]);
                /* Back to reading before reads are timed. */
                if (r == 0)
                        r = calibrate(b, (enum subject) s, false, &n_read[s]);
        }
        for (unsigned round = 0; round < b->o->rounds && r == 0; round++) {
                for (int s = 0; s < N_SUBJECTS && r == 0; s++) {
                        uint64_t ns = 0, warm = 0;
                        double two = 0;

                        if (s != PTHREAD && !b->sems[s])
                                continue;
                        r = loop(b, (enum subject) s, false, n_read[s] / 10 + 1, &warm);
                        if (r == 0)
                                r = loop(b, (enum subject) s, false, n_read[s], &ns);
                        if (r == 0)
                                r = blkup_bench_add(&b->rows[s][READ_1], (double) ns / (double) n_read[s]);
                        if (r == 0 && b->machine.cpus >= 2) {
                                r = sample_read_2(b, (enum subject) s, n_read[s], &two);
                                if (r == 0)
                                        r = blkup_bench_add(&b->rows[s][READ_2], two);
                        }
                        if (r == 0)
                                r = loop(b, (enum subject) s, true, n_write[s], &ns);
                        if (r == 0)
                                r = blkup_bench_add(&b->rows[s][WRITE_IDLE],
                                                    (double) ns / (double) n_write[s]);
                        if (r == 0 && b->machine.cpus >= 2)
                                r = sample_busy(b, (enum subject) s);
                }
                for (size_t i = 0; i < b->n_peers && r == 0; i++)
                        for (int row = READ_1; row < N_ROWS && r == 0; row++)
                                if (row != READ_2 || b->machine.cpus >= 2)
                                        r = ask_peer(&b->peers[i], (enum row) row);
        }
        return r;
}

/* ---- what is printed ---- */

static double least(struct bench *b, enum subject s, enum row row)
{
        return blkup_bench_quantile(&b->rows[s][row], 0);
}

static double median(struct bench *b, enum subject s, enum row row)
{
        return blkup_bench_quantile(&b->rows[s][row], 0.5);
}

struct ratio {
        char name[64];
        double value;
};

/* By the least of the rounds: what the machine does when nobody disturbs it. But read_2 against pthread's by
 * the median: the least of a lock that is fought for is a moment without a fight. */
static size_t work_out_ratios(struct bench *b, struct ratio *ratios, size_t room)
{
        enum subject ours = b->sems[EXPEDITED] ? EXPEDITED : FENCE;
        size_t n = 0;

#define RATIO(v, ...)                                                                \
        do {                                                                         \
                if (n < room && isfinite(v)) {                                       \
                        (void) snprintf(ratios[n].name, sizeof(ratios[n].name), __VA_ARGS__); \
                        ratios[n++].value = (v);                                     \
                }                                                                    \
        } while (0)
        RATIO(least(b, PTHREAD, READ_1) / least(b, ours, READ_1), "read_1: pthread/blkup");
        RATIO(median(b, PTHREAD, READ_2) / median(b, ours, READ_2), "read_2: pthread/blkup");
        RATIO(least(b, ours, WRITE_IDLE) / least(b, PTHREAD, WRITE_IDLE), "write_idle: blkup/pthread");
        RATIO(least(b, EACH, WRITE_IDLE) / least(b, PTHREAD, WRITE_IDLE),
              "write_idle: blkup-barrier-each/pthread");
        for (size_t i = 0; i < b->n_peers; i++)
                for (int row = 0; row < N_ROWS; row++)
                        RATIO(least(b, ours, (enum row) row) /
                                      blkup_bench_quantile(&b->peers[i].rows[row], 0),
                              "%s: blkup/%s", row_names[row], b->peers[i].name);
#undef RATIO
        return n;
}

static const struct {
        const char *name;
        double q;
} quantiles[] = { { "min", 0 }, { "median", 0.5 }, { "p99", 0.99 }, { "p999", 0.999 }, { "max", 1 } };

static void count_buckets(struct blkup_bench_samples *s, uint64_t *buckets)
{
        memset(buckets, 0, HISTOGRAM_BUCKETS * sizeof(*buckets));
        for (size_t i = 0; i < s->n; i++) {
                double limit = 1000;
                size_t k = 0;

                for (; k + 1 < HISTOGRAM_BUCKETS && s->v[i] >= limit; k++)
                        limit *= 2;
                buckets[k]++;
        }
}

static void print_histogram(struct bench *b)
{
        uint64_t buckets[N_SUBJECTS][HISTOGRAM_BUCKETS];

        printf("\n%-12s", "up to µs");
        for (size_t s = 0; s < N_SUBJECTS; s++) {
                printf(" %20s", subject_names[s]);
                count_buckets(&b->busy[s], buckets[s]);
        }
        printf("\n");
        for (size_t k = 0; k < HISTOGRAM_BUCKETS; k++) {
                uint64_t any = 0;

                for (size_t s = 0; s < N_SUBJECTS; s++)
                        any += buckets[s][k];
                if (any == 0)
                        continue;
                printf("%-11llu", 1ull << k);
                for (size_t s = 0; s < N_SUBJECTS; s++)
                        printf(" %20llu", (unsigned long long) buckets[s][k]);
                printf("\n");
        }
}

static void print_text(struct bench *b, const struct ratio *ratios, size_t n_ratios)
{
        blkup_bench_print_machine(&b->machine);
        printf("%u rounds; ns, least and median\n\n%-12s", b->o->rounds, "");
        for (size_t s = 0; s < N_SUBJECTS; s++)
                printf(" %21s", subject_names[s]);
        for (size_t i = 0; i < b->n_peers; i++)
                printf(" %21s", b->peers[i].name);
        printf("\n");
        for (size_t row = 0; row < N_ROWS; row++) {
                printf("%-12s", row_names[row]);
                for (size_t s = 0; s < N_SUBJECTS + b->n_peers; s++) {
                        struct blkup_bench_samples *v = s < N_SUBJECTS ? &b->rows[s][row] :
                                                                         &b->peers[s - N_SUBJECTS].rows[row];

                        if (v->n == 0)
                                printf(" %21s", "-");
                        else
                                printf(" %10.2f %10.2f", blkup_bench_quantile(v, 0),
                                       blkup_bench_quantile(v, 0.5));
                }
                printf("\n");
        }
        if (b->machine.cpus < 2) {
                printf("\none CPU: no rows with two threads\n");
        } else {
                printf("\nwrite lock + unlock beside two busy readers, µs\n%-20s %8s %8s %8s %8s %8s\n", "",
                       quantiles[0].name, quantiles[1].name, quantiles[2].name, quantiles[3].name,
                       quantiles[4].name);
                for (size_t s = 0; s < N_SUBJECTS; s++) {
                        if (b->busy[s].n == 0)
                                continue;
                        printf("%-20s", subject_names[s]);
                        for (size_t q = 0; q < BLKUP_ARRAY_SIZE(quantiles); q++)
                                printf(" %8.1f", blkup_bench_quantile(&b->busy[s], quantiles[q].q) / 1e3);
                        printf("\n");
                }
                if (b->gave_up > 0)
                        printf("pthread: %llu of %zu write locks were given up after %llu ms\n",
                               (unsigned long long) b->gave_up, b->busy[PTHREAD].n,
                               (unsigned long long) (PTHREAD_LIMIT_NS / MS));
                print_histogram(b);
        }
        printf("\n");
        for (size_t i = 0; i < n_ratios; i++)
                printf("%-40s %8.2f\n", ratios[i].name, ratios[i].value);
}

static void json_subject(struct blkup_json *j, struct bench *b, const char *name,
                         struct blkup_bench_samples *rows, struct blkup_bench_samples *busy, int subject)
{
        uint64_t buckets[HISTOGRAM_BUCKETS];

        (void) b;
        blkup_json_begin_object(j);
        blkup_json_key(j, "name");
        blkup_json_string(j, name);
        for (size_t row = 0; row < N_ROWS; row++) {
                char key[32];

                (void) snprintf(key, sizeof(key), "%s_ns", row_names[row]);
                blkup_bench_json_min_median(j, key, &rows[row]);
        }
        if (busy && busy->n > 0) {
                blkup_json_key(j, "write_busy2_us");
                blkup_json_begin_object(j);
                for (size_t q = 0; q < BLKUP_ARRAY_SIZE(quantiles); q++) {
                        blkup_json_key(j, quantiles[q].name);
                        blkup_json_double(j, blkup_bench_quantile(busy, quantiles[q].q) / 1e3, 3);
                }
                blkup_json_key(j, "histogram");
                count_buckets(busy, buckets);
                blkup_json_begin_array(j);
                for (size_t k = 0; k < HISTOGRAM_BUCKETS; k++)
                        blkup_json_u64(j, buckets[k]);
                blkup_json_end_array(j);
                if (subject == PTHREAD) {
                        blkup_json_key(j, "given_up");
                        blkup_json_u64(j, b->gave_up);
                }
                blkup_json_end_object(j);
        }
        blkup_json_end_object(j);
}

static int print_json(struct bench *b, const struct ratio *ratios, size_t n_ratios)
{
        struct blkup_json j;

        blkup_json_init(&j, blkup_cli_file_sink, stdout, true);
        blkup_json_begin_object(&j);
        blkup_bench_json_machine(&j, &b->machine);
        blkup_json_key(&j, "rounds");
        blkup_json_u64(&j, b->o->rounds);
        blkup_json_key(&j, "rows");
        blkup_json_begin_array(&j);
        for (int s = 0; s < N_SUBJECTS; s++)
                json_subject(&j, b, subject_names[s], b->rows[s], &b->busy[s], s);
        for (size_t i = 0; i < b->n_peers; i++)
                json_subject(&j, b, b->peers[i].name, b->peers[i].rows, NULL, -1);
        blkup_json_end_array(&j);
        blkup_json_key(&j, "ratios");
        blkup_json_begin_object(&j);
        for (size_t i = 0; i < n_ratios; i++) {
                blkup_json_key(&j, ratios[i].name);
                blkup_json_double(&j, ratios[i].value, 3);
        }
        blkup_json_end_object(&j);
        blkup_json_end_object(&j);
        blkup_json_newline(&j);
        return blkup_json_finish(&j);
}

int blkup_bench_rwsem(const struct blkup_bench_options *o)
{
        static const struct blkup_rwsem_options locks[PTHREAD] = {
                [EXPEDITED] = { .policy = BLKUP_RWSEM_EXPEDITED },
                [EACH] = { .policy = BLKUP_RWSEM_EXPEDITED, .fenced_reads = BLKUP_RWSEM_OPEN_AT_ONCE },
                [FENCE] = { .policy = BLKUP_RWSEM_FENCE },
        };
        struct bench b = { .o = o, .rwlock = PTHREAD_RWLOCK_INITIALIZER };
        struct ratio ratios[4 + BLKUP_BENCH_MAX_PEERS * N_ROWS];
        struct blkup_error err = { .code = 0 };
        size_t n_ratios;
        int r = 0, code = 1;

        blkup_bench_ask_machine(&b.machine);
        for (; b.n_peers < o->n_peers; b.n_peers++) {
                r = start_peer(&b.peers[b.n_peers], o->peers[b.n_peers]);
                if (r < 0) {
                        blkup_cli_error("bench", "%s: %s", o->peers[b.n_peers],
                                        r == -EPROTO ? "is not there, or does not say its name"
                                                     : strerror(-r));
                        b.n_peers++; /* what has been begun is ended */
                        goto out;
                }
        }
        for (size_t i = 0; i < PTHREAD; i++) {
                r = blkup_rwsem_new(&b.sems[i], &locks[i], &err);
                if (r == -EOPNOTSUPP) {
                        blkup_cli_error("bench", "left out: %s: %s", subject_names[i], err.message);
                } else if (r < 0) {
                        blkup_cli_error("bench", "%s", err.message);
                        goto out;
                }
        }
        r = measure(&b);
        if (r < 0) {
                blkup_cli_error("bench", "%s", r == -EPROTO ? "a peer gave no answer" : strerror(-r));
                goto out;
        }
        n_ratios = work_out_ratios(&b, ratios, BLKUP_ARRAY_SIZE(ratios));
        if (o->json)
                code = print_json(&b, ratios, n_ratios) < 0;
        else
                print_text(&b, ratios, n_ratios), code = 0;
out:
        for (size_t i = 0; i < b.n_peers; i++)
                stop_peer(&b.peers[i]);
        for (size_t s = 0; s < N_SUBJECTS; s++) {
                for (size_t row = 0; row < N_ROWS; row++)
                        blkup_bench_free(&b.rows[s][row]);
                blkup_bench_free(&b.busy[s]);
                if (s < PTHREAD)
                        b.sems[s] = blkup_rwsem_unref(b.sems[s]);
        }
        (void) pthread_rwlock_destroy(&b.rwlock);
        return code;
}
