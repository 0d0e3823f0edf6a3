/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --io-stats: what an answer cost. On stderr, because stdout is for the answer. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/encode.h"
#include "cli/cmd-probe.h"
#include "cli/output.h"

static const char *plural(uint64_t n)
{
        return n == 1 ? "" : "s";
}

void blkup_cli_probe_print_stats(const char *device, const struct blkup_io_stats *s)
{
        char name[4 * 1024];

        blkup_encode_terminal(device, strlen(device), name, sizeof(name));
        fprintf(stderr,
                "%s: %" PRIu64 " read%s of %" PRIu64 " bytes (%" PRIu64 " sector%s, %" PRIu64
                " page%s) in %" PRIu64 " submission%s and %" PRIu64 " round%s, %" PRIu64 ".%03" PRIu64
                " ms\n",
                name, s->reads, plural(s->reads), s->bytes, s->sectors, plural(s->sectors), s->pages,
                plural(s->pages), s->submissions, plural(s->submissions), s->rounds, plural(s->rounds),
                s->ns / 1000000, s->ns / 1000 % 1000);
}

void blkup_cli_probe_print_stats_json(const char *device, const struct blkup_io_stats *s)
{
        struct blkup_json j;

        blkup_json_init(&j, blkup_cli_file_sink, stderr, false);
        blkup_json_begin_object(&j);
        blkup_json_key(&j, "device");
        blkup_json_string(&j, device);
        blkup_json_key(&j, "submissions");
        blkup_json_u64(&j, s->submissions);
        blkup_json_key(&j, "reads");
        blkup_json_u64(&j, s->reads);
        blkup_json_key(&j, "bytes");
        blkup_json_u64(&j, s->bytes);
        blkup_json_key(&j, "sectors");
        blkup_json_u64(&j, s->sectors);
        blkup_json_key(&j, "pages");
        blkup_json_u64(&j, s->pages);
        blkup_json_key(&j, "rounds");
        blkup_json_u64(&j, s->rounds);
        blkup_json_key(&j, "ns");
        blkup_json_u64(&j, s->ns);
        blkup_json_end_object(&j);
        blkup_json_newline(&j);
        /* Nobody is left to be told when stderr itself cannot be written. */
        (void) !blkup_json_finish(&j);
}
