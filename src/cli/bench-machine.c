/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "cli/bench.h"
#include "sync/barrier.h"

int blkup_bench_add(struct blkup_bench_samples *s, double v)
{
        if (s->n == s->room) {
                size_t room = s->room ? 2 * s->room : 64;
                double *grown = realloc(s->v, room * sizeof(*grown));

                if (!grown)
                        return -ENOMEM;
                s->v = grown;
                s->room = room;
        }
        s->v[s->n++] = v;
        s->is_sorted = false;
        return 0;
}

static int compare(const void *a, const void *b)
{
        double x = *(const double *) a, y = *(const double *) b;

        return (x > y) - (x < y);
}

double blkup_bench_quantile(struct blkup_bench_samples *s, double q)
{
        size_t at;

        if (s->n == 0)
                return (double) NAN;
        if (!s->is_sorted) {
                qsort(s->v, s->n, sizeof(*s->v), compare);
                s->is_sorted = true;
        }
        at = (size_t) (q * (double) s->n);
        return s->v[at < s->n ? at : s->n - 1];
}

void blkup_bench_free(struct blkup_bench_samples *s)
{
        free(s->v);
        *s = (struct blkup_bench_samples){ .v = NULL };
}

static bool read_line(const char *path, char *to, size_t cap)
{
        BLKUP_CLEANUP_FCLOSE FILE *f = fopen(path, "re");

        if (!f || !fgets(to, (int) cap, f))
                return false;
        to[strcspn(to, "\n")] = '\0';
        return true;
}

void blkup_bench_ask_machine(struct blkup_bench_machine *m)
{
        struct blkup_barrier_support s = blkup_barrier_query();
        struct utsname u;
        struct timespec tick = { .tv_nsec = 0 };
        char line[64];
        cpu_set_t set;

        *m = (struct blkup_bench_machine){ .cpus = 1, .rcu_expedited = -1 };
        CPU_ZERO(&set);
        if (sched_getaffinity(0, sizeof(set), &set) == 0)
                m->cpus = (unsigned) CPU_COUNT(&set);
        if (clock_getres(CLOCK_MONOTONIC_COARSE, &tick) == 0 && tick.tv_nsec > 0)
                m->hz = (unsigned) (1000000000 / tick.tv_nsec);
        if (getloadavg(m->load, 3) != 3)
                m->load[0] = m->load[1] = m->load[2] = (double) NAN;
        /* The file is there only when the kernel was built with nohz_full. */
        if (read_line("/sys/devices/system/cpu/nohz_full", m->nohz_full, sizeof(m->nohz_full))) {
                if (strcmp(m->nohz_full, "(null)") == 0 || strcmp(m->nohz_full, " (null)") == 0)
                        m->nohz_full[0] = '\0';
        }
        if (read_line("/sys/kernel/rcu_expedited", line, sizeof(line)))
                m->rcu_expedited = atoi(line);
        m->has_expedited = s.has_expedited;
        m->has_global = s.has_global;
        if (uname(&u) == 0)
                (void) snprintf(m->kernel, sizeof(m->kernel), "%.64s", u.release);
}

void blkup_bench_print_machine(const struct blkup_bench_machine *m)
{
        printf("Linux %s, %u CPUs, HZ %u, load %.2f %.2f %.2f, nohz_full %s, rcu_expedited %d, "
               "membarrier:%s%s%s\n",
               m->kernel, m->cpus, m->hz, m->load[0], m->load[1], m->load[2],
               m->nohz_full[0] ? m->nohz_full : "none", m->rcu_expedited,
               m->has_expedited ? " expedited" : "", m->has_global ? " global" : "",
               m->has_expedited || m->has_global ? "" : " none");
}

void blkup_bench_json_machine(struct blkup_json *j, const struct blkup_bench_machine *m)
{
        blkup_json_key(j, "machine");
        blkup_json_begin_object(j);
        blkup_json_key(j, "kernel");
        blkup_json_string(j, m->kernel);
        blkup_json_key(j, "cpus");
        blkup_json_u64(j, m->cpus);
        blkup_json_key(j, "hz");
        blkup_json_u64(j, m->hz);
        blkup_json_key(j, "load");
        blkup_json_begin_array(j);
        for (size_t i = 0; i < 3; i++)
                blkup_json_double(j, m->load[i], 2);
        blkup_json_end_array(j);
        blkup_json_key(j, "nohz_full");
        blkup_json_string(j, m->nohz_full);
        blkup_json_key(j, "rcu_expedited");
        blkup_json_i64(j, m->rcu_expedited);
        blkup_json_key(j, "membarrier_expedited");
        blkup_json_bool(j, m->has_expedited);
        blkup_json_key(j, "membarrier_global");
        blkup_json_bool(j, m->has_global);
        blkup_json_end_object(j);
}

int blkup_bench_pin(unsigned n)
{
        cpu_set_t all, one;

        CPU_ZERO(&all);
        if (sched_getaffinity(0, sizeof(all), &all) < 0)
                return -errno;
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
                if (CPU_ISSET(cpu, &all) && n-- == 0) {
                        CPU_ZERO(&one);
                        CPU_SET(cpu, &one);
                        return sched_setaffinity(0, sizeof(one), &one) < 0 ? -errno : 0;
                }
        return -ENODEV;
}

void blkup_bench_json_min_median(struct blkup_json *j, const char *key, struct blkup_bench_samples *s)
{
        blkup_json_key(j, key);
        if (!s || s->n == 0) {
                blkup_json_null(j);
                return;
        }
        blkup_json_begin_object(j);
        blkup_json_key(j, "min");
        blkup_json_double(j, blkup_bench_quantile(s, 0), 3);
        blkup_json_key(j, "median");
        blkup_json_double(j, blkup_bench_quantile(s, 0.5), 3);
        blkup_json_end_object(j);
}
