/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/commands.h"
#include "cli/output.h"

#define DEFAULT_ROUNDS 15
#define MAX_ROUNDS 10000

enum { OPT_JSON = 1, OPT_ROUNDS, OPT_PEER, OPT_SYSROOT };

static const struct blkup_cli_option options[] = {
        { OPT_JSON, 0, "json", BLKUP_CLI_NO_ARG, NULL, NULL, "JSON instead of text" },
        { OPT_ROUNDS, 0, "rounds", BLKUP_CLI_ARG, "N", NULL,
          "measure each row N times, in turns (usual: 15)" },
        { OPT_PEER, 0, "peer", BLKUP_CLI_ARG, "PROGRAM", NULL,
          "rwsem: also measure what PROGRAM implements, see\nblkup-bench(8); may be repeated" },
        { OPT_SYSROOT, 0, "sysroot", BLKUP_CLI_ARG, "DIR", NULL, "modules: a folder that holds lib/modules" },
        BLKUP_CLI_STANDARD_OPTIONS,
};

/* A new benchmark is one line here and one function. */
static const struct bench {
        const char *name, *help;
        int (*run)(const struct blkup_bench_options *o);
} benches[] = {
        { "rwsem", "the semaphore beside pthread_rwlock: read and write, idle and busy", blkup_bench_rwsem },
        { "blocksize", "a block-size change under the algorithms of 2012 and ours", blkup_bench_blocksize },
        { "mount", "mount; sync; sync; umount by step, and many file systems at once", blkup_bench_mount },
        { "probe", "the slow stick of 2010 under that year's reading policies and ours", blkup_bench_probe },
        { "modules", "one lock over each module's linking, or none; error threads made always",
          blkup_bench_modules },
};

static void print_benches(void)
{
        printf("\nBenchmarks:\n");
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(benches); i++)
                printf(" %-12s %s\n", benches[i].name, benches[i].help);
}

static int run_bench(const struct blkup_cli_command *self, int argc, char **argv)
{
        struct blkup_bench_options o = { .rounds = DEFAULT_ROUNDS };
        struct blkup_cli_parser p;
        const char *value = NULL;
        int id;

        blkup_cli_parser_init(&p, self, argc, argv, false);
        while ((id = blkup_cli_next(&p, &value)) > 0) { /* ends: with the arguments */
                char *end = NULL;
                unsigned long n;

                switch (id) {
                case OPT_JSON:
                        o.json = true;
                        break;
                case OPT_ROUNDS:
                        errno = 0;
                        n = strtoul(value, &end, 10);
                        if (errno != 0 || *value < '0' || *value > '9' || *end != '\0' || n < 1 ||
                            n > MAX_ROUNDS)
                                return blkup_cli_usage_error(self, "--rounds: 1 to %d, not '%s'", MAX_ROUNDS,
                                                             value);
                        o.rounds = (unsigned) n;
                        break;
                case OPT_PEER:
                        if (o.n_peers == BLKUP_BENCH_MAX_PEERS)
                                return blkup_cli_usage_error(self, "--peer: at most %d",
                                                             BLKUP_BENCH_MAX_PEERS);
                        o.peers[o.n_peers++] = value;
                        break;
                case OPT_SYSROOT:
                        o.sysroot = value;
                        break;
                default:
                        return self->usage_exit;
                }
        }
        if (id < 0)
                return p.exit_code;
        if (argc - p.first != 1)
                return blkup_cli_usage_error(self, argc == p.first ? "which benchmark?"
                                                                   : "one benchmark at a time");
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(benches); i++)
                if (strcmp(benches[i].name, argv[p.first]) == 0)
                        return benches[i].run(&o);
        return blkup_cli_usage_error(self, "unknown benchmark '%s'", argv[p.first]);
}

const struct blkup_cli_command blkup_cli_command_bench = {
        .name = "bench",
        .help = "Measures what is claimed, on this machine.",
        .synopsis = "[options] NAME",
        .options = options,
        .n_options = BLKUP_ARRAY_SIZE(options),
        .usage_exit = 1,
        .print_more = print_benches,
        .run = run_bench,
};
