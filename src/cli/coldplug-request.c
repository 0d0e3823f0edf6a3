/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cli/coldplug-request.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
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
        const char *hint = "; -T names another";
        struct blkup_error err = { 0 };
        int r = blkup_fstab_load(q->fstab_path, &q->fstab, &err);

        /* A machine without an fstab has places, perhaps. */
        if (r == -ENOENT && !q->has_fstab_path)
                r = 0;
        for (size_t i = 0; q->fstab && i < q->fstab->n_bad; i++)
                blkup_cli_error(command, "%s: line %u: %s", q->fstab_path, q->fstab->bad[i].line,
                                q->fstab->bad[i].why);
        if (r == 0 && !q->s.no_assembly) {
                hint = "; --crypttab names another";
                r = blkup_crypttab_load(q->crypttab_path, &q->crypttab, &err);
                if (r == -ENOENT && !q->has_crypttab_path)
                        r = 0;
        }
        for (size_t i = 0; q->crypttab && i < q->crypttab->n_bad; i++)
                blkup_cli_error(command, "%s: line %u: %s", q->crypttab_path, q->crypttab->bad[i].line,
                                q->crypttab->bad[i].why);
        if (r < 0)
                blkup_cli_error(command, "%s%s", err.message, blkup_cli_try_option(r, hint));
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

/* ---- checkers under way, told by the child ---- */

#define MAX_CHECKS  16u
#define SAY_EACH_MS 5000
/* For a check that takes long: of what stays, and while one runs. */
#define LOOK_EACH_MS     5000
#define LOOK_CHECKING_MS 1000
enum { FREE, WRITTEN, USED };

struct checks {
        atomic_bool is_ending; /* none begins any more */
        struct {
                atomic_int state;
                uint64_t began_ns;
                char program[64], device[192];
        } slots[MAX_CHECKS];
};

/* With more of them than there are places some are not named. */
static bool note_check(void *to, const char *program, const char *device, bool is_begin)
{
        struct checks *k = to;

        if (is_begin && atomic_load(&k->is_ending))
                return false;
        for (size_t i = 0; i < MAX_CHECKS; i++) {
                int expected = FREE;

                if (!is_begin) {
                        if (atomic_load(&k->slots[i].state) == USED &&
                            strncmp(k->slots[i].device, device, sizeof(k->slots[i].device) - 1) == 0) {
                                atomic_store(&k->slots[i].state, FREE);
                                break;
                        }
                } else if (atomic_compare_exchange_strong(&k->slots[i].state, &expected, WRITTEN)) {
                        k->slots[i].began_ns = blkup_now_ns();
                        (void) snprintf(k->slots[i].program, sizeof(k->slots[i].program), "%s", program);
                        (void) snprintf(k->slots[i].device, sizeof(k->slots[i].device), "%s", device);
                        atomic_store(&k->slots[i].state, USED);
                        break;
                }
        }
        return true;
}

static bool is_checking(struct checks *k)
{
        bool is = false;

        for (size_t i = 0; k && i < MAX_CHECKS; i++)
                is = is || atomic_load(&k->slots[i].state) != FREE;
        return is;
}

static void say_check(const char *command, const struct checks *k, size_t i, const char *more)
{
        blkup_cli_error(command, "waits for %s of %s, %.0f s so far%s", k->slots[i].program,
                        k->slots[i].device, (double) (blkup_now_ns() - k->slots[i].began_ns) / 1e9, more);
}

static void say_checks(const char *command, struct checks *k, const char *more)
{
        for (size_t i = 0; k && i < MAX_CHECKS; i++)
                if (atomic_load(&k->slots[i].state) == USED)
                        say_check(command, k, i, more);
}

struct waiter {
        const char *command;
        int from, signals, to; /* to: who ends by being told; -1: by being killed */
        pid_t pid;
        struct checks *checks;
        struct {
                uint64_t began_ns, say_ns;
        } said[MAX_CHECKS]; /* of what takes long: when it is said next */
};

/* While nobody asked for the end: at 5, 10, 20, 40 ... seconds. Others may wait for it. */
static void say_long_checks(struct waiter *w)
{
        uint64_t now = blkup_now_ns(), first = UINT64_C(1000000) * SAY_EACH_MS;

        for (size_t i = 0; i < MAX_CHECKS; i++) {
                uint64_t began;

                if (atomic_load(&w->checks->slots[i].state) != USED)
                        continue;
                began = w->checks->slots[i].began_ns;
                if (w->said[i].began_ns != began) {
                        w->said[i].began_ns = began;
                        w->said[i].say_ns = began + first;
                }
                if (now < w->said[i].say_ns)
                        continue;
                say_check(w->command, w->checks, i, "");
                w->said[i].say_ns = now + (now - began);
        }
}

static int patience_ms(const struct waiter *w, bool is_ending)
{
        if (!w->checks)
                return -1;
        if (is_ending)
                return is_checking(w->checks) ? SAY_EACH_MS : 100;
        /* What stays has nothing to check most of the time. */
        return w->to >= 0 && !is_checking(w->checks) ? LOOK_EACH_MS : LOOK_CHECKING_MS;
}

/*
 * Waits for the child's word. The first signal that means the end is handed on, when a checker is under way
 * after that one has ended: half a repair is worse than a late end. The second one ends at once; the checker
 * goes on by itself, as it has neither our group nor a pipe of ours. -2: ended so, which nobody waits for, as
 * a thread of it may wait for a device that does not answer.
 */
static ssize_t wait_for_word(struct waiter *w, unsigned char *ret, int *ret_signal)
{
        struct pollfd fds[2] = { { .fd = w->from, .events = POLLIN },
                                 { .fd = w->signals, .events = POLLIN } };
        struct signalfd_siginfo info;

        /* Ends: with the child's word or its death. */
        for (;;) {
                bool waits = *ret_signal && is_checking(w->checks);
                int n_ready = poll(fds, 2, patience_ms(w, *ret_signal != 0));
                ssize_t n;

                if (n_ready < 0 && errno != EINTR)
                        return -1;
                if (n_ready == 0 && waits)
                        say_checks(w->command, w->checks, "");
                else if (n_ready == 0 && w->checks && !*ret_signal)
                        say_long_checks(w);
                if (n_ready > 0 && fds[1].revents && read(w->signals, &info, sizeof(info)) > 0) {
                        bool is_second = *ret_signal != 0;

                        *ret_signal = (int) info.ssi_signo;
                        if (w->checks)
                                atomic_store(&w->checks->is_ending, true);
                        if (w->to >= 0)
                                (void) !write(w->to, "", 1);
                        if (is_second && is_checking(w->checks)) {
                                blkup_cli_error(w->command, "ends; the checker goes on by itself");
                                (void) kill(w->pid, SIGKILL);
                                return -2;
                        } else {
                                say_checks(w->command, w->checks, "; a second signal leaves it to itself");
                        }
                }
                if (*ret_signal && w->to < 0 && !is_checking(w->checks)) {
                        (void) kill(w->pid, SIGKILL);
                        return -2;
                }
                if (n_ready <= 0 || !fds[0].revents)
                        continue;
                n = read(w->from, ret, 1);
                if (n >= 0 || errno != EINTR)
                        return n;
        }
}

/* What stays takes them all; else one that is ignored (nohup) stays so. */
static int block_signals(sigset_t *ret_old, bool all)
{
        static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };
        struct sigaction a;
        sigset_t set;

        (void) sigemptyset(&set);
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(numbers); i++)
                if (all || sigaction(numbers[i], NULL, &a) < 0 || a.sa_handler != SIG_IGN)
                        (void) sigaddset(&set, numbers[i]);
        if (sigprocmask(SIG_BLOCK, &set, ret_old) < 0)
                return -errno;
        return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int blkup_cli_cold_run_apart(const char *command, struct blkup_cli_cold_request *q,
                             int (*work)(struct blkup_cli_cold_request *q), bool stays)
{
        int fds[2] = { -1, -1 }, stop[2] = { -1, -1 }, signals = -1, code, status, signal = 0;
        struct checks *checks;
        unsigned char byte = 0;
        sigset_t old;
        ssize_t n;
        pid_t pid;

        if (pipe2(fds, O_CLOEXEC) < 0 || (stays && pipe2(stop, O_CLOEXEC | O_NONBLOCK) < 0) ||
            (signals = block_signals(&old, stays)) < 0) {
                blkup_cli_error(command, "cannot take signals: %s%s", blkup_error_text(errno),
                                blkup_cli_try_as_root(-errno));
                return BLKUP_CLI_COLDPLUG_EXIT_NONE;
        }
        q->s.stop_fd = stop[0];
        checks = mmap(NULL, sizeof(*checks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (checks == MAP_FAILED)
                checks = NULL; /* then none is named, or waited for */
        q->s.checks = checks ? note_check : NULL;
        q->s.checks_to = checks;
        (void) fflush(NULL);
        pid = fork();
        if (pid < 0) {
                blkup_cli_error(command, "cannot make a process: %s%s", blkup_error_text(errno),
                                blkup_cli_more_processes(-errno));
                return BLKUP_CLI_COLDPLUG_EXIT_NONE;
        }
        if (pid == 0) {
                (void) close(fds[0]);
                /* With stop_fd the end of the parent is seen there: the pipe has no writer any more. */
                if (stays)
                        (void) close(stop[1]);
                else
                        (void) prctl(PR_SET_PDEATHSIG, SIGKILL); /* SIGTERM is the parent's */
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
        if (stays)
                (void) close(stop[0]);
        n = wait_for_word(&(struct waiter){ .command = command,
                                            .from = fds[0],
                                            .signals = signals,
                                            .to = stop[1],
                                            .pid = pid,
                                            .checks = checks }, &byte, &signal);
        (void) close(fds[0]);
        if (n == 1)
                return byte;
        /* It died. */
        if (n != -2 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status))
                blkup_cli_error(command, "ended by signal %d", WTERMSIG(status));
        /* As who sent it expects; what stays has a code for it. */
        if (signal && !stays) {
                (void) sigprocmask(SIG_SETMASK, &old, NULL);
                (void) raise(signal);
        }
        return BLKUP_CLI_COLDPLUG_EXIT_NONE;
}
