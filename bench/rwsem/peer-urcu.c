/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The read side of liburcu's memb flavour, as `blkup bench rwsem --peer` asks for it: prints its name, then
 * for each line read_1, read_2 the ns of one rcu_read_lock + rcu_read_unlock, "-" for anything else. Inlined
 * (_LGPL_SOURCE), as ours is. Two threads: one on each of the first two CPUs.
 */
#define _GNU_SOURCE
#define _LGPL_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <urcu/urcu-memb.h>

static uint64_t now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

static double loop(uint64_t n)
{
        uint64_t start = now_ns();

        for (uint64_t i = 0; i < n; i++) {
                urcu_memb_read_lock();
                urcu_memb_read_unlock();
        }
        return (double) (now_ns() - start) / (double) n;
}

static void pin(unsigned n)
{
        cpu_set_t all, one;

        CPU_ZERO(&one);
        if (sched_getaffinity(0, sizeof(all), &all) != 0)
                return;
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
                if (CPU_ISSET(cpu, &all) && n-- == 0) {
                        CPU_SET(cpu, &one);
                        sched_setaffinity(0, sizeof(one), &one);
                        return;
                }
}

struct reader {
        unsigned number;
        double ns;
};

static int ready;

static void *reader_main(void *arg)
{
        struct reader *r = arg;

        urcu_memb_register_thread();
        pin(r->number);
        __atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) < 2) /* ends: the other one comes too */
                ;
        r->ns = loop(1000000);
        urcu_memb_unregister_thread();
        return NULL;
}

int main(void)
{
        char line[64];

        urcu_memb_register_thread();
        printf("urcu-memb\n");
        fflush(stdout);
        loop(100000);
        while (fgets(line, sizeof(line), stdin)) { /* ends: with the input */
                if (strcmp(line, "read_1\n") == 0) {
                        loop(100000);
                        printf("%.4f\n", loop(1000000));
                } else if (strcmp(line, "read_2\n") == 0) {
                        struct reader r[2] = { { .number = 0 }, { .number = 1 } };
                        pthread_t t[2];

                        ready = 0;
                        for (int i = 0; i < 2; i++)
                                if (pthread_create(&t[i], NULL, reader_main, &r[i]) != 0)
                                        return 1;
                        for (int i = 0; i < 2; i++)
                                pthread_join(t[i], NULL);
                        printf("%.4f\n", (r[0].ns + r[1].ns) / 2);
                } else {
                        printf("-\n");
                }
                fflush(stdout);
        }
        urcu_memb_unregister_thread();
        return 0;
}
