/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/encode.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/tags.h"
#include "mount/names.h"

/* findfs(8): 1 not found, 2 a wrong use. */
enum { EXIT_NOT_FOUND = 1, EXIT_USAGE = 2 };

static const struct blkup_cli_option options[] = { BLKUP_CLI_STANDARD_OPTIONS };

static int find(const char *name, const char *value, const char *tag)
{
        struct blkup_cli_tags *tags = blkup_cli_tags_new(NULL);
        struct blkup_mount_device d = { .path = "" };
        const struct blkup_mount_resolver *resolver;
        char safe[1024];
        int r;

        if (!tags) {
                blkup_cli_error("findfs", "out of memory");
                return EXIT_NOT_FOUND;
        }
        resolver = blkup_cli_tags_resolver(tags);
        r = resolver->find(resolver->to, name, value, true, &d, NULL);
        blkup_cli_tags_free(tags);
        if (r == 0) {
                blkup_encode_terminal(d.path, strlen(d.path), safe, sizeof(safe));
                printf("%s\n", safe);
                blkup_cli_note_stdout();
                return blkup_cli_finish_stdout("findfs", 0, EXIT_NOT_FOUND);
        }
        if (r == -ENOTUNIQ)
                blkup_cli_error("findfs", "%s: two devices have it: %s and %s", tag, d.path, d.other_path);
        else if (r == -ENOENT && *d.other_path)
                blkup_cli_error("findfs", "%s: %s does not answer, and no other device has it", tag,
                                d.other_path);
        else if (r == -ENOENT)
                blkup_cli_error("findfs", "%s: no device has it", tag);
        else
                blkup_cli_error("findfs", "%s: %s", tag, blkup_error_text(-r));
        return EXIT_NOT_FOUND;
}

static int run_findfs(const struct blkup_cli_command *self, int argc, char **argv)
{
        static const char *const names[] = { "UUID", "LABEL", "PARTUUID", "PARTLABEL", "ID" };
        struct blkup_cli_parser parser;
        const char *value, *tag;

        /* As fstab has them: a shell leaves the inner marks of 'LABEL="a b"'. */
        for (int i = 1; i < argc; i++)
                blkup_mount_unquote_tag(argv[i]);
        blkup_cli_parser_init(&parser, self, argc, argv, false);
        if (blkup_cli_next(&parser, &value) < 0)
                return parser.exit_code;
        if (argc - parser.first != 1)
                return blkup_cli_usage_error(self, "one tag, as UUID=... or LABEL=...");
        tag = argv[parser.first];
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(names); i++) {
                size_t n = strlen(names[i]);

                if (strncmp(tag, names[i], n) == 0 && tag[n] == '=' && tag[n + 1])
                        return find(names[i], tag + n + 1, tag);
        }
        return blkup_cli_usage_error(self,
                                     "'%s' is no tag; known: UUID= LABEL= PARTUUID= PARTLABEL= ID=", tag);
}

const struct blkup_cli_command blkup_cli_command_findfs = {
        .name = "findfs",
        .help = "Prints the device that carries a tag.",
        .synopsis = "NAME=VALUE",
        .called_as = "blkup-findfs",
        .options = options,
        .n_options = BLKUP_ARRAY_SIZE(options),
        .usage_exit = EXIT_USAGE,
        .run = run_findfs,
};
