/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cli/watch-hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/encode.h"
#include "base/error.h"
#include "cli/output.h"
#include "host/program.h"

#define MAX_QUEUE      4096u
#define MAX_HOOK_MS    30000
#define MAX_END_NS     UINT64_C(5000000000)
#define SLICE_MS       100
/* What is killed ends at once, unless it waits for a device that does not answer. */
#define MAX_KILLED_MS  1000
#define MAX_LEFT       64u
#define ARGUMENTS      7 /* EVENT DEVICE TYPE LABEL UUID TARGET TEXT */
/* An argument may have 128 KiB for the kernel (MAX_ARG_STRLEN of linux/binfmts.h), all of them some MiB. A
 * text is cut; a path that does not fit is left out, as a part of it would name something else. */
#define TEXT_BYTES     4096u
#define PATH_BYTES     (4u * PATH_MAX + 8)

struct call {
        struct call *next;
        char *arguments[ARGUMENTS]; /* in `text` */
        char text[];
};

struct blkup_cli_hooks {
        const char *const *programs;
        size_t n;
        pthread_t thread;
        pthread_mutex_t lock;
        pthread_cond_t changed;
        struct call *first, **end;
        unsigned n_queued;
        bool is_ending, has_dropped, has_told_drop;
        uint64_t end_ns;
        /* The thread's own: killed, and not over yet. */
        pid_t left[MAX_LEFT];
        size_t n_left;
};

size_t blkup_cli_encode_path(const char *path, char *out, size_t cap)
{
        size_t n = 0;

        out[0] = '\0';
        /* Ends: each turn goes behind a part. */
        while (*path && n + 8 < cap) {
                size_t len = strcspn(path, "/");

                n += blkup_encode_udev(path, len, out + n, cap - n);
                path += len;
                if (*path == '/' && n + 1 < cap) {
                        out[n++] = '/';
                        out[n] = '\0';
                        path++;
                }
        }
        return n;
}

static int start(const char *program, struct call *c, pid_t *ret)
{
        static char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin", locale[] = "LC_ALL=C";
        char *environment[] = { path, locale, NULL };
        const char *argv[ARGUMENTS + 2] = { program };
        posix_spawn_file_actions_t files;
        int r;

        for (size_t i = 0; i < ARGUMENTS; i++)
                argv[i + 1] = c->arguments[i];
        (void) posix_spawn_file_actions_init(&files);
        (void) posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
        /* Nothing but our own answer on standard output. */
        (void) posix_spawn_file_actions_adddup2(&files, 2, 1);
        /* A group of its own: what it has started is killed with it. */
        r = blkup_program_start(program, &files, true, argv, environment, ret);
        (void) posix_spawn_file_actions_destroy(&files);
        return r;
}

static int time_left_ms(struct blkup_cli_hooks *h)
{
        uint64_t now = blkup_now_ns();
        int ms = MAX_HOOK_MS;

        (void) pthread_mutex_lock(&h->lock);
        if (h->is_ending)
                ms = now >= h->end_ns ? 0 : (int) ((h->end_ns - now) / 1000000);
        (void) pthread_mutex_unlock(&h->lock);
        return ms;
}

/* true: pid has ended, within ms. It is not reaped. */
static bool has_ended(int process, pid_t pid, int ms)
{
        struct pollfd p = { .fd = process, .events = POLLIN };
        siginfo_t info = { 0 };

        if (process >= 0)
                return poll(&p, 1, ms) > 0;
        /* Before Linux 5.3, or without descriptors. */
        if (waitid(P_PID, (id_t) pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == pid)
                return true;
        blkup_sleep_until_ns(blkup_now_ns() + (uint64_t) ms * 1000000, NULL);
        return false;
}

static void reap_left(struct blkup_cli_hooks *h)
{
        size_t n = 0;

        for (size_t i = 0; i < h->n_left; i++)
                if (waitpid(h->left[i], NULL, WNOHANG) == 0)
                        h->left[n++] = h->left[i];
        h->n_left = n;
}

/* Whom not even SIGKILL ends is left: nobody is to wait for a device that does not answer, and it ends when
 * the device does. */
static void leave(struct blkup_cli_hooks *h, const char *program, pid_t pid)
{
        if (h->n_left < MAX_LEFT)
                h->left[h->n_left++] = pid;
        blkup_cli_error("watch", "%s (process %d) does not end although it was killed: it is left", program,
                        (int) pid);
}

static void say_end(const char *program, const struct call *c, int status)
{
        if (WIFSIGNALED(status))
                blkup_cli_error("watch", "%s %s: ended by signal %d", program, c->arguments[0],
                                WTERMSIG(status));
        else if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
                blkup_cli_error("watch", "%s %s: exit %d", program, c->arguments[0], WEXITSTATUS(status));
}

static void run_one(struct blkup_cli_hooks *h, const char *program, struct call *c)
{
        int process, r, status = 0, left = MAX_HOOK_MS;
        bool is_over, is_killed = false;
        pid_t pid, got;

        reap_left(h);
        r = start(program, c, &pid);
        if (r < 0) {
                blkup_cli_error("watch", "%s %s: %s", program, c->arguments[0], blkup_error_text(-r));
                return;
        }
        process = (int) syscall(SYS_pidfd_open, pid, 0);
        /* A slice at a time, so that the end of the command shortens it. Ends: with its time. */
        while (!(is_over = has_ended(process, pid, SLICE_MS)) && left > 0 && time_left_ms(h) > 0)
                left -= SLICE_MS;
        if (!is_over) {
                blkup_cli_error("watch", "%s %s does not end: killed", program, c->arguments[0]);
                is_killed = true;
                (void) kill(-pid, SIGKILL);
                for (int ms = 0; ms < MAX_KILLED_MS && !is_over; ms += SLICE_MS)
                        is_over = has_ended(process, pid, SLICE_MS);
        }
        if (process >= 0)
                (void) close(process);
        if (!is_over) {
                leave(h, program, pid);
                return;
        }
        do
                got = waitpid(pid, &status, 0);
        while (got < 0 && errno == EINTR);
        if (got == pid && !is_killed)
                say_end(program, c, status);
}

/* Not by who tells of events: standard error may be a pipe that nobody reads. */
static void say_dropped(struct blkup_cli_hooks *h)
{
        bool is_new;

        (void) pthread_mutex_lock(&h->lock);
        is_new = h->has_dropped && !h->has_told_drop;
        h->has_told_drop = h->has_dropped;
        (void) pthread_mutex_unlock(&h->lock);
        if (is_new)
                blkup_cli_error("watch", "%u events wait for the programs of --exec: more are dropped",
                                MAX_QUEUE);
}

static void *run(void *arg)
{
        struct blkup_cli_hooks *h = arg;

        (void) pthread_mutex_lock(&h->lock);
        /* Ends: when it is told to and the queue is empty, or its time is over. */
        for (;;) {
                struct call *c;

                while (!h->first && !h->is_ending)
                        (void) pthread_cond_wait(&h->changed, &h->lock);
                c = h->first;
                if (!c || (h->is_ending && blkup_now_ns() >= h->end_ns))
                        break;
                h->first = c->next;
                h->n_queued--;
                (void) pthread_mutex_unlock(&h->lock);
                say_dropped(h);
                for (size_t i = 0; i < h->n; i++)
                        run_one(h, h->programs[i], c);
                free(c);
                (void) pthread_mutex_lock(&h->lock);
        }
        (void) pthread_mutex_unlock(&h->lock);
        return NULL;
}

int blkup_cli_hooks_new(const char *const *programs, size_t n, struct blkup_cli_hooks **ret)
{
        struct blkup_cli_hooks *h = calloc(1, sizeof(*h));
        int r;

        if (!h)
                return -ENOMEM;
        h->programs = programs;
        h->n = n;
        (void) pthread_mutex_init(&h->lock, NULL);
        (void) pthread_cond_init(&h->changed, NULL);
        r = -pthread_create(&h->thread, NULL, run, h);
        if (r < 0) {
                free(h);
                return r;
        }
        *ret = h;
        return 0;
}

/* Bytes for an argument: each byte may become four, and the encoder begins no character in the last ones. */
static size_t room_for(const char *s, size_t most)
{
        size_t n = s ? 4 * strnlen(s, most) + 8 : 1;

        return n < most ? n : most;
}

static struct call *make_call(const struct blkup_coldplug_event *e)
{
        const struct {
                const char *value;
                bool is_path;
        } values[ARGUMENTS] = {
                { blkup_coldplug_event_name(e->kind), false },
                { e->device, true },
                { e->type, false },
                { e->label, false },
                { e->uuid, false },
                { e->target, true },
                { e->text, false },
        };
        size_t at = 0;
        struct call *c;

        for (size_t i = 0; i < ARGUMENTS; i++)
                at += room_for(values[i].value, values[i].is_path ? PATH_BYTES : TEXT_BYTES);
        c = calloc(1, sizeof(*c) + at);
        if (!c)
                return NULL;
        at = 0;
        for (size_t i = 0; i < ARGUMENTS; i++) {
                const char *value = values[i].value;
                size_t room = room_for(value, values[i].is_path ? PATH_BYTES : TEXT_BYTES);

                c->arguments[i] = c->text + at;
                if (value && values[i].is_path && strlen(value) < PATH_MAX)
                        (void) blkup_cli_encode_path(value, c->arguments[i], room);
                else if (value && !values[i].is_path)
                        (void) blkup_encode_udev(value, strlen(value), c->arguments[i], room);
                at += room;
        }
        return c;
}

void blkup_cli_hooks_tell(struct blkup_cli_hooks *h, const struct blkup_coldplug_event *e)
{
        struct call *c = make_call(e);

        if (!c)
                return;
        (void) pthread_mutex_lock(&h->lock);
        if (h->n_queued < MAX_QUEUE) {
                if (!h->first)
                        h->end = &h->first;
                *h->end = c;
                h->end = &c->next;
                h->n_queued++;
                c = NULL;
                (void) pthread_cond_signal(&h->changed);
        }
        h->has_dropped = h->has_dropped || c;
        (void) pthread_mutex_unlock(&h->lock);
        free(c);
}

struct blkup_cli_hooks *blkup_cli_hooks_free(struct blkup_cli_hooks *h)
{
        struct timespec until;

        if (!h)
                return NULL;
        (void) pthread_mutex_lock(&h->lock);
        h->is_ending = true;
        h->end_ns = blkup_now_ns() + MAX_END_NS;
        (void) pthread_cond_signal(&h->changed);
        (void) pthread_mutex_unlock(&h->lock);
        /* It may be held by a standard error that nobody reads: then it keeps what it needs. */
        (void) clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += (MAX_END_NS + UINT64_C(3000000000)) / UINT64_C(1000000000);
        if (pthread_timedjoin_np(h->thread, NULL, &until) != 0) {
                (void) pthread_detach(h->thread);
                return NULL;
        }
        /* Ends: the list gets shorter each turn. */
        while (h->first) {
                struct call *c = h->first;

                h->first = c->next;
                free(c);
        }
        (void) pthread_cond_destroy(&h->changed);
        (void) pthread_mutex_destroy(&h->lock);
        free(h);
        return NULL;
}
