/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "modules/command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "host/program.h"

/* An install command, as modprobe.d has it, with the request's options in place of $CMDLINE_OPTS. */
static char *expand_command(const char *command, const char *options)
{
        static const char word[] = "$CMDLINE_OPTS";
        char *text = NULL;
        size_t n = 0;
        FILE *f = open_memstream(&text, &n);

        if (!f)
                return NULL;
        while (*command) { /* ends: each turn takes characters */
                const char *at = strstr(command, word);
                size_t len = at ? (size_t) (at - command) : strlen(command);

                (void) fwrite(command, 1, len, f);
                if (at)
                        (void) fputs(options, f);
                command += len + (at ? sizeof(word) - 1 : 0);
        }
        if (fclose(f) != 0) {
                free(text);
                return NULL;
        }
        return text;
}

/* Nothing of the caller's environment reaches the command; the name is what modprobe gives it. */
int blkup_module_command(const struct blkup_module_command *c, char *message, size_t cap)
{
        BLKUP_CLEANUP_FREE char *text = expand_command(c->command, c->options);
        char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", name[128];
        const char *argv[] = { "/bin/sh", "-c", text, NULL };
        char *env[] = { path, name, NULL };
        int status = 0, r;
        pid_t pid;

        if (!text)
                return -ENOMEM;
        if (*c->root) {
                (void) snprintf(message, cap, "an install command is not run for another root");
                return -EXDEV;
        }
        (void) snprintf(name, sizeof(name), "MODPROBE_MODULE=%s", c->name);
        r = blkup_program_start(argv[0], NULL, false, argv, env, &pid);
        if (r < 0)
                return r;
        while (waitpid(pid, &status, 0) < 0) /* ends: with the child */
                if (errno != EINTR)
                        return -errno;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return 0;
        (void) snprintf(message, cap, "install command ended with %s %d",
                        WIFEXITED(status) ? "exit code" : "signal",
                        WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        return -ECHILD;
}
