/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <blkup/coldplug.h>

#include "base/error.h"
#include "cli/coldplug-output.h"
#include "cli/coldplug-request.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/timeline.h"
#include "mount/names.h"

static const struct blkup_cli_option options[] = {
        { BLKUP_CLI_COLD_DRY_RUN, 0, "dry-run", BLKUP_CLI_NO_ARG, NULL, NULL,
          "identify, and say what would be done" },
        BLKUP_CLI_COLD_OPTIONS,
        { BLKUP_CLI_COLD_IMAGE, 0, "image", BLKUP_CLI_ARG, "FILE", NULL,
          "this file and those that follow, and nothing else\nof the machine" },
        { BLKUP_CLI_COLD_ROOT, 0, "root", BLKUP_CLI_ARG, "DIR", NULL, "mount each image at DIR/NAME" },
        { BLKUP_CLI_COLD_WAIT, 0, "wait", BLKUP_CLI_ARG, "SECONDS", NULL,
          "for devices that are not there yet" },
        { BLKUP_CLI_COLD_JSON, 0, "json", BLKUP_CLI_NO_ARG, NULL, NULL, "JSON instead of the table" },
        { BLKUP_CLI_COLD_TIMELINE, 0, "timeline", BLKUP_CLI_ARG, "FILE", NULL, BLKUP_CLI_TIMELINE_HELP },
        BLKUP_CLI_STANDARD_OPTIONS,
};

static int check_request(const struct blkup_cli_command *self, struct blkup_cli_cold_request *q, int n,
                         char **operands)
{
        if (n > 0 && q->s.n_images == 0)
                return blkup_cli_usage_error(self, "'%s': no operands but behind --image", operands[0]);
        for (int i = 0; i < n; i++)
                q->images[q->s.n_images++] = operands[i];
        if (q->root && q->s.n_images == 0)
                return blkup_cli_usage_error(self, "--root goes with --image");
        if (q->s.n_images > 0 &&
            (q->s.n_places > 0 || q->has_fstab_path || q->has_fsck || q->s.n_only > 0 || q->s.wait_ns > 0))
                return blkup_cli_usage_error(
                        self, "--image goes without --mount, --fstab, --fsck, --only and --wait");
        if (!q->has_finish)
                q->s.finish = q->s.n_images > 0 ? BLKUP_COLDPLUG_FINISH_NEVER : BLKUP_COLDPLUG_FINISH_AUTO;
        /* A loop device takes root; without it the images are identified, and finished when that is asked
         * for. */
        if (q->s.n_images > 0 && q->root && !q->s.no_mount && geteuid() == 0)
                q->s.image_folder = q->root;
        return 0;
}

static int print_answer(const struct blkup_cli_cold_request *q, const struct blkup_coldplug_result *r)
{
        int code = blkup_cli_coldplug_exit_code(r), k;

        blkup_cli_coldplug_print_messages(r);
        k = q->json ? blkup_cli_coldplug_print_json(r, code) : blkup_cli_coldplug_print_table(r);
        if (k < 0 && !ferror(stdout)) {
                blkup_cli_error("coldplug", "cannot print: %s", blkup_error_text(-k));
                code = BLKUP_CLI_COLDPLUG_EXIT_NONE;
        }
        /* What is mounted is mounted, whoever reads of it. */
        return blkup_cli_finish_stdout("coldplug", code,
                                       code == BLKUP_CLI_COLDPLUG_EXIT_NONE ? code
                                                                            : BLKUP_CLI_COLDPLUG_EXIT_SOME);
}

static int bring_up(struct blkup_cli_cold_request *q)
{
        struct blkup_coldplug *c = NULL;
        struct blkup_error err = { 0 };
        int code = BLKUP_CLI_COLDPLUG_EXIT_NONE, r = 0;

        blkup_cli_cold_save_memory();
        if (q->timeline) {
                q->s.trace = blkup_trace_new(0);
                if (!q->s.trace) {
                        blkup_cli_error("coldplug", "out of memory");
                        return BLKUP_CLI_COLDPLUG_EXIT_NONE;
                }
        }
        if (q->s.n_images == 0)
                r = blkup_cli_cold_request_load("coldplug", q);
        if (r == 0) {
                r = blkup_coldplug_run(&q->s, &c, &err);
                if (r < 0)
                        blkup_cli_error("coldplug", "%s%s", err.message, blkup_cli_more_processes(r));
                else
                        code = print_answer(q, blkup_coldplug_result(c));
        }
        if (r == 0 && q->timeline &&
            blkup_cli_write_timeline(q->s.trace, "blkup coldplug", q->timeline, &err) < 0) {
                blkup_cli_error("coldplug", "%s", err.message);
                code = code ? code : BLKUP_CLI_COLDPLUG_EXIT_SOME;
        }
        blkup_coldplug_unref(c);
        blkup_trace_unref(q->s.trace);
        return code;
}

static int run_coldplug(const struct blkup_cli_command *self, int argc, char **argv)
{
        struct blkup_cli_cold_request q = { 0 };
        int first = 0, code_of_help = 0, code;

        /* As fstab has them: a shell leaves the inner marks of 'LABEL="a b"'. */
        for (int i = 1; i < argc; i++)
                blkup_mount_unquote_tag(argv[i]);
        code = blkup_cli_cold_request_parse(self, argc, argv, &q, &first, &code_of_help);
        if (code == 0)
                code = check_request(self, &q, argc - first, argv + first);
        if (code == 0)
                code = blkup_cli_cold_run_apart("coldplug", &q, bring_up, false);
        else if (code < 0)
                code = code_of_help;
        blkup_cli_cold_request_free(&q);
        return code;
}

const struct blkup_cli_command blkup_cli_command_coldplug = {
        .name = "coldplug",
        .help = "Brings everything that is attached from identified to mounted.",
        .synopsis = "[options] [--image FILE...]",
        .called_as = "blkup-coldplug",
        .options = options,
        .n_options = BLKUP_ARRAY_SIZE(options),
        .usage_exit = BLKUP_CLI_COLDPLUG_EXIT_USAGE,
        .run = run_coldplug,
};
