/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One line a command: main.c lists them, cmd-NAME.c defines them. */
#ifndef BLKUP_CLI_COMMANDS_H
#define BLKUP_CLI_COMMANDS_H

#include "cli/options.h"

extern const struct blkup_cli_command blkup_cli_command_bench;
extern const struct blkup_cli_command blkup_cli_command_blkid;
extern const struct blkup_cli_command blkup_cli_command_coldplug;
extern const struct blkup_cli_command blkup_cli_command_compare;
extern const struct blkup_cli_command blkup_cli_command_findfs;
extern const struct blkup_cli_command blkup_cli_command_help;
extern const struct blkup_cli_command blkup_cli_command_lazyinit;
extern const struct blkup_cli_command blkup_cli_command_mount;
extern const struct blkup_cli_command blkup_cli_command_lsmod;
extern const struct blkup_cli_command blkup_cli_command_modprobe;
extern const struct blkup_cli_command blkup_cli_command_modules;
extern const struct blkup_cli_command blkup_cli_command_probe;
extern const struct blkup_cli_command blkup_cli_command_timeline;
extern const struct blkup_cli_command blkup_cli_command_umount;
extern const struct blkup_cli_command blkup_cli_command_watch;

#endif
