/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hooks-tell PROGRAM WHAT: tells the program of --exec of events as no device makes them; its errors are
 * ours. WHAT: hostile, one event with names of all kinds; flood, more of them than are kept.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <blkup/coldplug.h>

#include "cli/output.h"
#include "cli/watch-hooks.h"

#define LONG 65536

void blkup_cli_error(const char *command, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        (void) fprintf(stderr, "%s: ", command);
        (void) vfprintf(stderr, fmt, ap);
        (void) fprintf(stderr, "\n");
        va_end(ap);
}

int main(int argc, char **argv)
{
        struct blkup_coldplug_event e = { .kind = BLKUP_COLDPLUG_EVENT_READY, .device = "/dev/sda" };
        const char *programs[1];
        struct blkup_cli_hooks *h = NULL;
        char *label = malloc(LONG + 1), *path = malloc(LONG + 1);

        if (argc != 3 || !label || !path)
                return 2;
        programs[0] = argv[1];
        if (blkup_cli_hooks_new(programs, 1, &h) < 0)
                return 2;
        memset(label, '\n', LONG);
        memset(path, '/', LONG);
        label[LONG] = path[LONG] = '\0';
        if (strcmp(argv[2], "flood") == 0) {
                for (unsigned i = 0; i < 5000; i++)
                        blkup_cli_hooks_tell(h, &e);
        } else {
                e.type = "$(touch /nobody) `x`";
                e.label = label;
                e.uuid = "\"'\\;&|<>*?~#\x1b[31m\x80\xff";
                e.target = path;
                e.text = "-rf /";
                blkup_cli_hooks_tell(h, &e);
                /* As long as a path can be, each byte of it escaped. */
                memset(path, '\t', 4095);
                path[0] = '/';
                path[4095] = '\0';
                blkup_cli_hooks_tell(h, &e);
        }
        (void) blkup_cli_hooks_free(h);
        free(label);
        free(path);
        return 0;
}
