/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/encode.h"
#include "base/error.h"
#include "cli/output.h"

void blkup_cli_prepare_streams(void)
{
        /* One call for three; a poll that fails tells nothing, as closed ones would. */
        struct pollfd fds[] = { { .fd = STDIN_FILENO }, { .fd = STDOUT_FILENO }, { .fd = STDERR_FILENO } };
        bool is_known = poll(fds, BLKUP_ARRAY_SIZE(fds), 0) >= 0;

        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
                if (is_known ? fds[fd].revents & POLLNVAL : fcntl(fd, F_GETFD) < 0 && errno == EBADF)
                        /* The lowest free number is fd, as those below are open. O_PATH: reads and writes
                         * still fail with EBADF, as they would on the closed descriptor; "/" exists where
                         * /dev/null may not. */
                        (void) !open("/", O_PATH); /* stays open, also in children: that is its purpose */
        /* Both come back as errors of the write, which are told; a signal would also leave a half-written
         * file behind. */
        (void) signal(SIGPIPE, SIG_IGN);
        (void) signal(SIGXFSZ, SIG_IGN);
        /* A line in one write: lines of several processes on one terminal or log stay whole. */
        (void) setvbuf(stderr, NULL, _IOLBF, 0);
}

void blkup_cli_verror(const char *command, const char *fmt, va_list ap)
{
        char text[2048], line[4 * sizeof(text)];
        int n = vsnprintf(text, sizeof(text), fmt, ap);

        if (n < 0)
                return;
        blkup_encode_terminal(text, strlen(text), line, sizeof(line));
        fprintf(stderr, "blkup: %s%s%s\n", command ? command : "", command ? ": " : "", line);
}

void blkup_cli_error(const char *command, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        blkup_cli_verror(command, fmt, ap);
        va_end(ap);
}

static bool is_behind(const char *text, const char *at, const char *word)
{
        size_t n = strlen(word);

        return (size_t) (at - text) >= n && strncmp(at - n, word, n) == 0;
}

/* Does the text say of which object it speaks? The name as a whole word, marks around it included: "a" is
 * none of "a/b" or "a.img". A name that may be any word ("device") counts where only a name can stand. */
static bool is_about(const char *text, const char *name)
{
        bool is_path = strpbrk(name, "/.") != NULL;
        size_t n = strlen(name);

        if (n == 0)
                return false;
        /* Ends: each turn goes on behind the beginning of a find. */
        for (const char *at = strstr(text, name); at; at = strstr(at + 1, name)) {
                bool begins = at == text || strchr(" '\"(", at[-1]) != NULL;
                bool ends = at[n] == '\0' || strchr(" '\"),;:", at[n]) != NULL;

                if (begins && ends &&
                    (is_path || at == text || is_behind(text, at, " on ") || is_behind(text, at, " point ")))
                        return true;
        }
        return false;
}

const char *blkup_cli_without_name(const char *text, const char *name)
{
        size_t n = strlen(name);

        return strncmp(text, name, n) == 0 && strncmp(text + n, ": ", 2) == 0 ? text + n + 2 : text;
}

void blkup_cli_error_of(const char *command, const char *name, const char *text)
{
        text = blkup_cli_without_name(text, name);
        if (is_about(text, name))
                blkup_cli_error(command, "%s", text);
        else
                blkup_cli_error(command, "%s: %s", name, text);
}

const char *blkup_cli_try_as_root(int error)
{
        const bool is_root = geteuid() == 0;

        if (error == -EPERM && is_root)
                return "; does a rule of this container or service forbid it?";
        return (error == -EACCES || error == -EPERM) && !is_root ? "; try as root" : "";
}

const char *blkup_cli_try_option(int error, const char *hint)
{
        return error == -ENOENT || error == -EISDIR ? hint : blkup_cli_try_as_root(error);
}

const char *blkup_cli_more_processes(int error)
{
        return error == -EAGAIN ? ": raise ulimit -u or -v" : blkup_cli_try_as_root(error);
}

/* The errno of the first write to stdout that failed; 0: none that was noted. */
static int stdout_errno;

void blkup_cli_note_stdout(void)
{
        if (ferror(stdout) && stdout_errno == 0)
                stdout_errno = errno;
}

int blkup_cli_finish_stdout(const char *command, int code, int failed_code)
{
        static bool reported;

        if (reported)
                return failed_code;
        if (fflush(stdout) != 0)
                blkup_cli_note_stdout();
        if (!ferror(stdout))
                return code;
        reported = true;
        blkup_cli_error(command, "standard output: %s",
                        stdout_errno ? blkup_error_text(stdout_errno) : "write error");
        return failed_code;
}

int blkup_cli_file_sink(void *to, const char *s, size_t n)
{
        FILE *f = to;

        if (fwrite(s, 1, n, f) != n)
                return errno ? -errno : -EIO;
        return 0;
}

bool blkup_cli_wants_colour(int fd)
{
        const char *no_color = getenv("NO_COLOR");

        return isatty(fd) && !(no_color && *no_color);
}
