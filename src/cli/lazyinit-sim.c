/* SPDX-License-Identifier: GPL-2.0-or-later */
/* blkup lazyinit simulate: pacing policies in virtual time. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/cmd-lazyinit.h"
#include "cli/output.h"

#define LOTTERY_RUNS 1000u
/* t(g) = 2.9 ms + Exp(0.95 ms): group times as the runs of the kernel's thread show them. */
#define LOTTERY_BASE_NS UINT64_C(2900000)
#define LOTTERY_MEAN_NS UINT64_C(950000)
#define MULT 10u

/* The message of the change of 2021 ("ext4: fix lazy initialization next schedule time computation in more
 * granular unit") has these: 2 TB are 16384 groups, 3 TB 24576. */
static const struct {
        enum blkup_lazyinit_policy policy;
        unsigned hz;
        uint32_t groups;
        unsigned seconds;
} figures[] = {
        { BLKUP_LAZYINIT_JIFFIES, 100, 16384, 1842 }, { BLKUP_LAZYINIT_JIFFIES, 100, 24576, 2690 },
        { BLKUP_LAZYINIT_JIFFIES, 250, 16384, 743 },  { BLKUP_LAZYINIT_JIFFIES, 250, 24576, 1110 },
        { BLKUP_LAZYINIT_NS, 100, 16384, 660 },       { BLKUP_LAZYINIT_NS, 100, 24576, 1053 },
        { BLKUP_LAZYINIT_NS, 250, 16384, 544 },       { BLKUP_LAZYINIT_NS, 250, 24576, 932 },
};
/* The one number that is not in that message: how long a group took there. Chosen to fit. */
#define TABLE_GROUP_NS UINT64_C(3530000)

static const char *const policies[] = { "jiffies", "ns", "blkup" };

static void json_seconds(struct blkup_json *j, const char *key, uint64_t ns)
{
        blkup_json_key(j, key);
        blkup_json_double(j, (double) ns / 1e9, 6);
}

static int print_table(const struct blkup_cli_lazyinit_request *q)
{
        struct blkup_json j;

        blkup_json_init(&j, blkup_cli_file_sink, stdout, true);
        if (q->json)
                blkup_json_begin_array(&j);
        else
                printf("POLICY    HZ GROUPS MEASURED_S   MODEL_S    OFF  BLKUP_S\n");
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(figures); i++) {
                struct blkup_lazyinit_sim s = { .policy = figures[i].policy, .hz = figures[i].hz,
                                                .groups = figures[i].groups, .wait_mult = MULT,
                                                .group_ns = q->has_time ? q->sim.group_ns : TABLE_GROUP_NS };
                struct blkup_lazyinit_sim_result r = { 0 }, ours = { 0 };
                double off;

                if (blkup_lazyinit_simulate(&s, &r) < 0)
                        return BLKUP_CLI_LAZYINIT_EXIT_OTHER;
                s.policy = BLKUP_LAZYINIT_BLKUP;
                if (blkup_lazyinit_simulate(&s, &ours) < 0)
                        return BLKUP_CLI_LAZYINIT_EXIT_OTHER;
                off = ((double) r.total_ns / 1e9 / figures[i].seconds - 1) * 100;
                if (!q->json) {
                        printf("%-8s %4u %6" PRIu32 " %10u %9.1f %+5.1f%% %8.1f\n",
                               policies[figures[i].policy], figures[i].hz, figures[i].groups,
                               figures[i].seconds, (double) r.total_ns / 1e9, off,
                               (double) ours.total_ns / 1e9);
                        continue;
                }
                blkup_json_begin_object(&j);
                blkup_json_key(&j, "policy");
                blkup_json_string(&j, policies[figures[i].policy]);
                blkup_json_key(&j, "hz");
                blkup_json_u64(&j, figures[i].hz);
                blkup_json_key(&j, "groups");
                blkup_json_u64(&j, figures[i].groups);
                blkup_json_key(&j, "measured_s");
                blkup_json_u64(&j, figures[i].seconds);
                json_seconds(&j, "model_s", r.total_ns);
                blkup_json_key(&j, "off_percent");
                blkup_json_double(&j, off, 2);
                json_seconds(&j, "blkup_s", ours.total_ns);
                blkup_json_end_object(&j);
        }
        if (q->json) {
                blkup_json_end_array(&j);
                blkup_json_newline(&j);
                return blkup_json_finish(&j) < 0 ? BLKUP_CLI_LAZYINIT_EXIT_OTHER : 0;
        }
        return 0;
}

static int compare_u64(const void *a, const void *b)
{
        const uint64_t *x = a, *y = b;

        return *x < *y ? -1 : *x > *y;
}

static int print_lottery(const struct blkup_cli_lazyinit_request *q)
{
        struct blkup_json j;

        blkup_json_init(&j, blkup_cli_file_sink, stdout, true);
        if (q->json)
                blkup_json_begin_array(&j);
        else
                printf("POLICY    HZ GROUPS     MIN_S  MEDIAN_S     MAX_S SPREAD\n");
        for (unsigned i = 0; i < 3; i++) {
                struct blkup_lazyinit_sim s = { .policy = (enum blkup_lazyinit_policy) i,
                                                .hz = q->has_hz ? q->sim.hz : 250,
                                                .groups = q->has_groups ? q->sim.groups : 2048,
                                                .wait_mult = q->sim.wait_mult, .base_ns = LOTTERY_BASE_NS,
                                                .exp_mean_ns = LOTTERY_MEAN_NS };
                struct blkup_lazyinit_sim_result r = { 0 };
                uint64_t total[LOTTERY_RUNS], median;
                double spread;

                for (unsigned k = 0; k < LOTTERY_RUNS; k++) {
                        s.seed = k;
                        if (blkup_lazyinit_simulate(&s, &r) < 0)
                                return BLKUP_CLI_LAZYINIT_EXIT_OTHER;
                        total[k] = r.total_ns;
                }
                qsort(total, LOTTERY_RUNS, sizeof(*total), compare_u64);
                median = (total[LOTTERY_RUNS / 2 - 1] + total[LOTTERY_RUNS / 2]) / 2;
                spread = (double) (total[LOTTERY_RUNS - 1] - total[0]) / (double) median * 100;
                if (!q->json) {
                        printf("%-8s %4u %6" PRIu32 " %9.1f %9.1f %9.1f %5.1f%%\n", policies[i], s.hz,
                               s.groups, (double) total[0] / 1e9, (double) median / 1e9,
                               (double) total[LOTTERY_RUNS - 1] / 1e9, spread);
                        continue;
                }
                blkup_json_begin_object(&j);
                blkup_json_key(&j, "policy");
                blkup_json_string(&j, policies[i]);
                json_seconds(&j, "min_s", total[0]);
                json_seconds(&j, "median_s", median);
                json_seconds(&j, "max_s", total[LOTTERY_RUNS - 1]);
                blkup_json_key(&j, "spread_percent");
                blkup_json_double(&j, spread, 2);
                blkup_json_end_object(&j);
        }
        if (q->json) {
                blkup_json_end_array(&j);
                blkup_json_newline(&j);
                return blkup_json_finish(&j) < 0 ? BLKUP_CLI_LAZYINIT_EXIT_OTHER : 0;
        }
        return 0;
}

int blkup_cli_lazyinit_simulate(const struct blkup_cli_command *self, struct blkup_cli_lazyinit_request *q)
{
        struct blkup_lazyinit_sim_result r;
        struct blkup_json j;
        int code = 0;

        if (q->n_operands > 1)
                return blkup_cli_usage_error(self, "simulate takes no device");
        if (q->table || q->lottery) {
                code = q->table ? print_table(q) : print_lottery(q);
                return blkup_cli_finish_stdout("lazyinit", code, BLKUP_CLI_LAZYINIT_EXIT_OTHER);
        }
        if (!q->has_policy || !q->has_hz || !q->has_groups || !q->has_time)
                return blkup_cli_usage_error(
                        self, "simulate needs --policy, --hz, --groups and --time, or --table or "
                              "--lottery");
        if (blkup_lazyinit_simulate(&q->sim, &r) < 0)
                return blkup_cli_usage_error(self,
                                             "simulate: --hz and --groups start at 1, and the run must end "
                                             "within 70 years");
        if (q->json) {
                blkup_json_init(&j, blkup_cli_file_sink, stdout, false);
                blkup_json_begin_object(&j);
                blkup_json_key(&j, "wait_jiffies");
                blkup_json_u64(&j, r.wait_jiffies);
                json_seconds(&j, "total_s", r.total_ns);
                blkup_json_end_object(&j);
                blkup_json_newline(&j);
                code = blkup_json_finish(&j) < 0 ? BLKUP_CLI_LAZYINIT_EXIT_OTHER : 0;
        } else {
                printf("%s: waits %" PRIu64 " ticks, %.3f s in all, %.1f %% of it at work\n",
                       policies[q->sim.policy], r.wait_jiffies, (double) r.total_ns / 1e9,
                       100.0 * (double) r.busy_ns / (double) r.total_ns);
        }
        return blkup_cli_finish_stdout("lazyinit", code, BLKUP_CLI_LAZYINIT_EXIT_OTHER);
}
