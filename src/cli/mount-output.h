/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What mount and umount print of their results. */
#ifndef BLKUP_CLI_MOUNT_OUTPUT_H
#define BLKUP_CLI_MOUNT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include <blkup/mount.h>

#include "base/cleanup.h"
#include "bringup/explain.h"

/* The version of docs/schema/mount.json. */
#define BLKUP_CLI_MOUNT_SCHEMA 1

/* Exit codes of mount(8), umount(8). */
enum {
        BLKUP_CLI_MOUNT_EXIT_USAGE = 1,
        BLKUP_CLI_MOUNT_EXIT_SYSTEM = 2,
        BLKUP_CLI_MOUNT_EXIT_FAILED = 32,
        BLKUP_CLI_MOUNT_EXIT_SOME = 64,
};

struct blkup_cli_mount_report {
        const char *command;                   /* "mount", "umount" */
        const struct blkup_mount_request *requests; /* NULL: umount */
        struct blkup_mount_result *results;
        size_t n;
        const struct blkup_fstab *fstab;       /* for its bad lines; may be NULL */
        const struct blkup_mount_graph *graph; /* dry run; may be NULL */
        char **causes;                         /* n texts, "" where nothing is to be said */
        bool dry_run, verbose, many;
};

/* Explains what failed; fills report->causes. -ENOMEM. */
BLKUP_MUST_CHECK int blkup_cli_mount_explain(struct blkup_cli_mount_report *r);
void blkup_cli_mount_free_causes(struct blkup_cli_mount_report *r);

/* Lines on stderr: failures, bad lines of the fstab, and with verbose all others. */
void blkup_cli_mount_print_messages(const struct blkup_cli_mount_report *r);
/* The step table (--time) on stdout. */
BLKUP_MUST_CHECK int blkup_cli_mount_print_times(const struct blkup_cli_mount_report *r);
/* Which waits for which (--dry-run) on stdout. */
void blkup_cli_mount_print_graph(const struct blkup_cli_mount_report *r);
/* Everything as JSON on stdout. */
int blkup_cli_mount_print_json(const struct blkup_cli_mount_report *r, int code);

int blkup_cli_mount_exit_code(const struct blkup_cli_mount_report *r);

#endif
