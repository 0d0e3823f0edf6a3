/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cli/coldplug-request.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "bringup/crypttab.h"
#include "cli/coldplug-output.h"
#include "cli/output.h"
#include "cli/timeline.h"
#include "mount/names.h"

static int out_of_memory(const struct blkup_cli_command *self)
{
        blkup_cli_error(self->name, "out of memory");
        return BLKUP_CLI_COLDPLUG_EXIT_NONE;
}

static int parse_seconds(const struct blkup_cli_command *self, const char *what, const char *value,
                         uint64_t *ret)
{
        char *end;
        double v;

        errno = 0;
        v = strtod(value, &end);
        if (*end || end == value || errno || !(v >= 0) || v > 86400)
                return blkup_cli_usage_error(self, "%s: '%s' is no time in seconds, up to 86400", what,
                                             value);
        *ret = (uint64_t) (v * 1e9);
        return 0;
}

/* The folder is absolute and a tag may hold colons: the last ":/" parts them. */
static int add_place(const struct blkup_cli_command *self, struct blkup_cli_cold_request *q,
                     const char *value)
{
        const char *at = NULL;
        char *source;

        for (const char *s = strstr(value, ":/"); s; s = strstr(s + 1, ":/"))
                at = s;
        if (!at || at == value || (value[0] != '/' && !memchr(value, '=', (size_t) (at - value))))
                return blkup_cli_usage_error(self, "--mount: '%s' is not TAG:DIR, as UUID=...:/srv", value);
        source = strndup(value, (size_t) (at - value));
        if (!source)
                return out_of_memory(self);
        blkup_mount_unquote_tag(source);
        q->places[q->s.n_places++] = (struct blkup_coldplug_place){ source, at + 1 };
        return 0;
}

static int set_option(const struct blkup_cli_command *self, struct blkup_cli_cold_request *q, int id,
                      const char *value)
{
        uint64_t ns = 0;
        char *end;
        int word, code;

        switch (id) {
        case BLKUP_CLI_COLD_DRY_RUN:
                q->s.dry_run = true;
                break;
        case BLKUP_CLI_COLD_ONLY:
                if (!strchr(value, '/') && !strchr(value, '='))
                        return blkup_cli_usage_error(self,
                                                     "--only: '%s' is neither a tag, as UUID=..., nor a path",
                                                     value);
                q->only[q->s.n_only++] = value;
                break;
        case BLKUP_CLI_COLD_MOUNT:
                return add_place(self, q, value);
        case BLKUP_CLI_COLD_FSTAB:
                q->fstab_path = value;
                q->has_fstab_path = true;
                break;
        case BLKUP_CLI_COLD_IMAGE:
                q->images[q->s.n_images++] = value;
                break;
        case BLKUP_CLI_COLD_ROOT:
                q->root = value;
                break;
        case BLKUP_CLI_COLD_NO_MOUNT:
                q->s.no_mount = true;
                break;
        case BLKUP_CLI_COLD_FINISH:
                word = blkup_cli_word(self, id, value);
                if (word < 0)
                        return self->usage_exit;
                q->s.finish = word == 0   ? BLKUP_COLDPLUG_FINISH_AUTO
                              : word == 1 ? BLKUP_COLDPLUG_FINISH_ALWAYS
                                          : BLKUP_COLDPLUG_FINISH_NEVER;
                q->has_finish = true;
                break;
        case BLKUP_CLI_COLD_FSCK:
                word = blkup_cli_word(self, id, value);
                if (word < 0)
                        return self->usage_exit;
                q->s.no_check = word == 1;
                q->has_fsck = true;
                break;
        case BLKUP_CLI_COLD_WAIT:
                return parse_seconds(self, "--wait", value, &q->s.wait_ns);
        case BLKUP_CLI_COLD_TIMEOUT:
                code = parse_seconds(self, "--timeout", value, &ns);
                q->s.device_ns = ns > 0 ? ns : 1;
                return code;
        case BLKUP_CLI_COLD_JOBS:
                errno = 0;
                ns = strtoull(value, &end, 10);
                if (errno || *end || *value < '0' || *value > '9' || ns < 1 || ns > 256)
                        return blkup_cli_usage_error(self, "-j: '%s' is no number from 1 to 256", value);
                q->s.workers = (unsigned) ns;
                break;
        case BLKUP_CLI_COLD_JSON:
                q->json = true;
                break;
        case BLKUP_CLI_COLD_TIMELINE:
                if (!blkup_cli_timeline_has_suffix(value))
                        return blkup_cli_usage_error(self, "--timeline: '%s' has no known suffix; known: %s",
                                                     value, blkup_cli_timeline_suffixes);
                q->timeline = value;
                break;
        case BLKUP_CLI_COLD_HIBERNATION:
                q->s.ignore_hibernation = true;
                break;
        case BLKUP_CLI_COLD_CRYPTTAB:
                q->crypttab_path = value;
                q->has_crypttab_path = true;
                break;
        case BLKUP_CLI_COLD_MODULES:
        case BLKUP_CLI_COLD_ASSEMBLE:
                word = blkup_cli_word(self, id, value);
                if (word < 0)
                        return self->usage_exit;
                *(id == BLKUP_CLI_COLD_MODULES ? &q->s.no_modules : &q->s.no_assembly) = word == 1;
                break;
        case BLKUP_CLI_COLD_GRACE:
                code = parse_seconds(self, "--grace", value, &ns);
                q->s.grace_ns = ns > 0 ? ns : 1;
                return code;
        case BLKUP_CLI_COLD_BUFFER:
                errno = 0;
                ns = strtoull(value, &end, 10);
                if (errno || *end || *value < '0' || *value > '9' || ns < 1 || ns > 1u << 30)
                        return blkup_cli_usage_error(
                                self, "--event-buffer: '%s' is no number of bytes, up to 1 GiB", value);
                q->s.uevent_bytes = (int) ns;
                break;
        case BLKUP_CLI_COLD_EXEC:
                if (*value != '/')
                        return blkup_cli_usage_error(self, "--exec: '%s' is no absolute path", value);
                q->hooks[q->n_hooks++] = value;
                break;
        case BLKUP_CLI_COLD_NO_CAGE:
                q->s.no_cage = true;
                break;
        }
        return 0;
}

int blkup_cli_cold_request_parse(const struct blkup_cli_command *self, int argc, char **argv,
                                 struct blkup_cli_cold_request *q, int *ret_first, int *ret_exit)
{
        struct blkup_cli_parser parser;
        size_t room = (size_t) argc + 1;
        const char *value;
        int id = 0, code = 0;

        q->fstab_path = "/etc/fstab";
        q->crypttab_path = "/etc/crypttab";
        q->s.stop_fd = -1;
        q->places = calloc(room, sizeof(*q->places));
        q->only = calloc(room, sizeof(*q->only));
        q->images = calloc(room, sizeof(*q->images));
        q->hooks = calloc(room, sizeof(*q->hooks));
        if (!q->places || !q->only || !q->images || !q->hooks)
                return out_of_memory(self);
        blkup_cli_parser_init(&parser, self, argc, argv, false);
        while (code == 0 && (id = blkup_cli_next(&parser, &value)) > 0)
                code = set_option(self, q, id, value);
        if (code == 0 && id < 0) {
                *ret_exit = parser.exit_code;
                return -1;
        }
        q->s.places = q->places;
        q->s.only = q->only;
        q->s.images = q->images;
        *ret_first = parser.first;
        return code;
}

void blkup_cli_cold_request_free(struct blkup_cli_cold_request *q)
{
        for (size_t i = 0; q->places && i < q->s.n_places; i++)
                free((char *) q->places[i].source);
        free(q->places);
        free(q->only);
        free(q->images);
        free(q->hooks);
        blkup_fstab_free(q->fstab);
        (void) blkup_crypttab_free(q->crypttab);
}

int blkup_cli_cold_request_load(const char *command, struct blkup_cli_cold_request *q)
{
        struct blkup_error err = { 0 };
        int r = blkup_fstab_load(q->fstab_path, &q->fstab, &err);

        /* A machine without an fstab has places, perhaps. */
        if (r == -ENOENT && !q->has_fstab_path)
                r = 0;
        for (size_t i = 0; q->fstab && i < q->fstab->n_bad; i++)
                blkup_cli_error(command, "%s: line %u: %s", q->fstab_path, q->fstab->bad[i].line,
                                q->fstab->bad[i].why);
        if (r == 0 && !q->s.no_assembly) {
                r = blkup_crypttab_load(q->crypttab_path, &q->crypttab, &err);
                if (r == -ENOENT && !q->has_crypttab_path)
                        r = 0;
        }
        for (size_t i = 0; q->crypttab && i < q->crypttab->n_bad; i++)
                blkup_cli_error(command, "%s: line %u: %s", q->crypttab_path, q->crypttab->bad[i].line,
                                q->crypttab->bad[i].why);
        if (r < 0)
                blkup_cli_error(command, "%s", err.message);
        q->s.fstab = q->fstab;
        q->s.crypttab = q->crypttab;
        /* cryptsetup asks on the terminal that we have. */
        q->s.may_ask = isatty(0) && isatty(2);
        return r;
}

void blkup_cli_cold_save_memory(void)
{
#ifdef M_ARENA_MAX
        (void) mallopt(M_ARENA_MAX, 2);
        (void) mallopt(M_MMAP_THRESHOLD, 128 << 10);
#endif
}

/* Waits for the child's word, and hands on the signals that mean the end. */
static ssize_t wait_for_word(int from, int signals, int to, unsigned char *ret)
{
        struct pollfd fds[2] = { { .fd = from, .events = POLLIN }, { .fd = signals, .events = POLLIN } };
        struct signalfd_siginfo info;

        /* Ends: with the child's word or its death. */
        for (;;) {
                ssize_t n;

                if (poll(fds, 2, -1) < 0 && errno != EINTR)
                        return -1;
                if (fds[1].revents && read(signals, &info, sizeof(info)) > 0)
                        (void) !write(to, "", 1);
                if (!fds[0].revents)
                        continue;
                n = read(from, ret, 1);
                if (n >= 0 || errno != EINTR)
                        return n;
        }
}

static int block_signals(sigset_t *ret_old)
{
        sigset_t set;

        (void) sigemptyset(&set);
        (void) sigaddset(&set, SIGTERM);
        (void) sigaddset(&set, SIGINT);
        (void) sigaddset(&set, SIGHUP);
        if (sigprocmask(SIG_BLOCK, &set, ret_old) < 0)
                return -errno;
        return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int blkup_cli_cold_run_apart(const char *command, struct blkup_cli_cold_request *q,
                             int (*work)(struct blkup_cli_cold_request *q), bool takes_signals)
{
        int fds[2] = { -1, -1 }, stop[2] = { -1, -1 }, signals = -1, code, status;
        unsigned char byte = 0;
        sigset_t old;
        ssize_t n;
        pid_t pid;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return work(q);
        if (takes_signals) {
                if (pipe2(stop, O_CLOEXEC | O_NONBLOCK) < 0 || (signals = block_signals(&old)) < 0) {
                        blkup_cli_error(command, "cannot take signals: %s", strerror(errno));
                        return BLKUP_CLI_COLDPLUG_EXIT_NONE;
                }
                q->s.stop_fd = stop[0];
        }
        (void) fflush(NULL);
        pid = fork();
        if (pid < 0) {
                (void) close(fds[0]);
                (void) close(fds[1]);
                if (!takes_signals)
                        return work(q);
                blkup_cli_error(command, "fork: %s", strerror(errno));
                return BLKUP_CLI_COLDPLUG_EXIT_NONE;
        }
        if (pid == 0) {
                (void) close(fds[0]);
                /* With stop_fd the end of the parent is seen there: the pipe has no writer any more. */
                if (takes_signals)
                        (void) close(stop[1]);
                else
                        (void) prctl(PR_SET_PDEATHSIG, SIGTERM);
                code = work(q);
                byte = (unsigned char) code;
                (void) fflush(NULL);
                /* Who reads what we print must see its end. */
                for (int i = 0; i <= 2; i++)
                        (void) close(i);
                (void) prctl(PR_SET_PDEATHSIG, 0);
                (void) !write(fds[1], &byte, 1);
                _exit(code);
        }
        (void) close(fds[1]);
        if (takes_signals)
                (void) close(stop[0]);
        n = wait_for_word(fds[0], signals, stop[1], &byte);
        (void) close(fds[0]);
        if (n == 1)
                return byte;
        /* It died. */
        if (waitpid(pid, &status, 0) == pid && WIFSIGNALED(status))
                blkup_cli_error(command, "ended by signal %d", WTERMSIG(status));
        return BLKUP_CLI_COLDPLUG_EXIT_NONE;
}
