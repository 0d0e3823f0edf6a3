/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the command lines of coldplug and watch share. */
#ifndef BLKUP_CLI_COLDPLUG_REQUEST_H
#define BLKUP_CLI_COLDPLUG_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include <blkup/coldplug.h>

#include "base/cleanup.h"
#include "cli/options.h"

struct blkup_crypttab;

enum {
        BLKUP_CLI_COLD_DRY_RUN = 1,
        BLKUP_CLI_COLD_ONLY,
        BLKUP_CLI_COLD_MOUNT,
        BLKUP_CLI_COLD_FSTAB,
        BLKUP_CLI_COLD_IMAGE,
        BLKUP_CLI_COLD_ROOT,
        BLKUP_CLI_COLD_NO_MOUNT,
        BLKUP_CLI_COLD_FINISH,
        BLKUP_CLI_COLD_FSCK,
        BLKUP_CLI_COLD_WAIT,
        BLKUP_CLI_COLD_TIMEOUT,
        BLKUP_CLI_COLD_JOBS,
        BLKUP_CLI_COLD_JSON,
        BLKUP_CLI_COLD_TIMELINE,
        BLKUP_CLI_COLD_HIBERNATION,
        BLKUP_CLI_COLD_NO_CAGE,
        BLKUP_CLI_COLD_MODULES,
        BLKUP_CLI_COLD_ASSEMBLE,
        BLKUP_CLI_COLD_CRYPTTAB,
        BLKUP_CLI_COLD_GRACE,
        BLKUP_CLI_COLD_BUFFER,
        BLKUP_CLI_COLD_EXEC,
};

/* Options of both commands, for their tables. */
#define BLKUP_CLI_COLD_OPTIONS                                                                              \
        { BLKUP_CLI_COLD_ONLY,                                                                              \
          0,                                                                                                \
          "only",                                                                                           \
          BLKUP_CLI_ARG,                                                                                    \
          "TAG",                                                                                            \
          NULL,                                                                                             \
          "only entries of this device: UUID=..., LABEL=...,\na path; may be given again" },                \
                { BLKUP_CLI_COLD_MOUNT,                                                                     \
                  0,                                                                                        \
                  "mount",                                                                                  \
                  BLKUP_CLI_ARG,                                                                            \
                  "TAG:DIR",                                                                                \
                  NULL,                                                                                     \
                  "mount this too, nosuid and nodev; may be given again" },                                 \
                { BLKUP_CLI_COLD_FSTAB,           'T', "fstab", BLKUP_CLI_ARG, "FILE", NULL,                \
                  "another fstab than /etc/fstab" },                                                        \
                { BLKUP_CLI_COLD_CRYPTTAB,                                                                  \
                  0,                                                                                        \
                  "crypttab",                                                                               \
                  BLKUP_CLI_ARG,                                                                            \
                  "FILE",                                                                                   \
                  NULL,                                                                                     \
                  "another crypttab than /etc/crypttab" },                                                  \
                { BLKUP_CLI_COLD_NO_MOUNT, 0, "no-mount", BLKUP_CLI_NO_ARG, NULL, NULL, "mount nothing" },  \
                { BLKUP_CLI_COLD_MODULES,                                                                   \
                  0,                                                                                        \
                  "modules",                                                                                \
                  BLKUP_CLI_ARG,                                                                            \
                  "WHEN",                                                                                   \
                  "auto never",                                                                             \
                  "auto (usual; what the devices ask for), never" },                                        \
                { BLKUP_CLI_COLD_ASSEMBLE,                                                                  \
                  0,                                                                                        \
                  "assemble",                                                                               \
                  BLKUP_CLI_ARG,                                                                            \
                  "WHEN",                                                                                   \
                  "auto never",                                                                             \
                  "auto (usual; arrays, volume groups, and what the\ncrypttab unlocks), never" },           \
                { BLKUP_CLI_COLD_GRACE,                                                                     \
                  0,                                                                                        \
                  "grace",                                                                                  \
                  BLKUP_CLI_ARG,                                                                            \
                  "SECONDS",                                                                                \
                  NULL,                                                                                     \
                  "start an array that lacks a member after (usual: 30)" },                                 \
                { BLKUP_CLI_COLD_FINISH,                                                                    \
                  0,                                                                                        \
                  "finish",                                                                                 \
                  BLKUP_CLI_ARG,                                                                            \
                  "WHEN",                                                                                   \
                  "auto always never",                                                                      \
                  "ext4 tables that mkfs left open: auto (usual; when\nit takes less than 50 ms), always, " \
                  "never" },                                                                                \
                { BLKUP_CLI_COLD_FSCK,                                                                      \
                  0,                                                                                        \
                  "fsck",                                                                                   \
                  BLKUP_CLI_ARG,                                                                            \
                  "WHEN",                                                                                   \
                  "auto skip",                                                                              \
                  "auto (usual; as fstab's sixth field says), skip" },                                      \
                { BLKUP_CLI_COLD_TIMEOUT,                                                                   \
                  0,                                                                                        \
                  "timeout",                                                                                \
                  BLKUP_CLI_ARG,                                                                            \
                  "SECONDS",                                                                                \
                  NULL,                                                                                     \
                  "give up a device that does not answer (usual: 10)" },                                    \
                { BLKUP_CLI_COLD_JOBS,                                                                      \
                  'j',                                                                                      \
                  "jobs",                                                                                   \
                  BLKUP_CLI_ARG,                                                                            \
                  "N",                                                                                      \
                  NULL,                                                                                     \
                  "at most N at a time (usual: 64)" },                                                      \
                { BLKUP_CLI_COLD_BUFFER,                                                                    \
                  0,                                                                                        \
                  "event-buffer",                                                                           \
                  BLKUP_CLI_ARG,                                                                            \
                  "BYTES",                                                                                  \
                  NULL,                                                                                     \
                  "how much of the kernel's news may wait (usual: 16 MiB)" },                               \
                { BLKUP_CLI_COLD_HIBERNATION,                                                               \
                  0,                                                                                        \
                  "ignore-hibernation",                                                                     \
                  BLKUP_CLI_NO_ARG,                                                                         \
                  NULL,                                                                                     \
                  NULL,                                                                                     \
                  "write although a hibernation image is attached" },                                       \
        {                                                                                                   \
                BLKUP_CLI_COLD_NO_CAGE, 0, "no-cage", BLKUP_CLI_NO_ARG, NULL, NULL,                         \
                        "look at devices in this process"                                                   \
        }

struct blkup_cli_cold_request {
        struct blkup_coldplug_settings s;
        const char *fstab_path, *crypttab_path, *timeline, *root;
        struct blkup_coldplug_place *places;  /* owned, and their sources */
        const char **only, **images, **hooks; /* owned */
        size_t n_hooks;
        struct blkup_fstab *fstab;       /* owned */
        struct blkup_crypttab *crypttab; /* owned */
        bool json, has_finish, has_fsck, has_fstab_path, has_crypttab_path;
};

/* Reads the options of self. 0, or an exit code after it was said; negative: --help and the like, exit with
 * *ret_exit. Operands from *ret_first on. blkup_cli_cold_request_free() in any case. */
BLKUP_MUST_CHECK int blkup_cli_cold_request_parse(const struct blkup_cli_command *self, int argc, char **argv,
                                                  struct blkup_cli_cold_request *q, int *ret_first,
                                                  int *ret_exit);
/* fstab and crypttab. 0, or negative after it was said. */
BLKUP_MUST_CHECK int blkup_cli_cold_request_load(const char *command, struct blkup_cli_cold_request *q);
void blkup_cli_cold_request_free(struct blkup_cli_cold_request *q);

/* Sixty threads that each take a little: two arenas do, and large blocks go back at once. */
void blkup_cli_cold_save_memory(void);

/*
 * A process one of whose threads waits for a device that does not answer cannot end before that answers:
 * neither exit nor a signal helps. So the work is a child's, which tells its exit code when all has been
 * said; the parent, which is what others wait for, ends then. SIGTERM, SIGINT and SIGHUP reach a child that
 * stays by stop_fd, any other one is killed; neither while a checker is under way, unless there are two.
 */
int blkup_cli_cold_run_apart(const char *command, struct blkup_cli_cold_request *q,
                             int (*work)(struct blkup_cli_cold_request *q), bool stays);

#endif
