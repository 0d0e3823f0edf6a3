/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cli/watch-hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/encode.h"
#include "cli/output.h"

#define MAX_QUEUE      4096u
#define MAX_HOOK_MS    30000
#define MAX_END_NS     UINT64_C(5000000000)
#define ARGUMENTS      7 /* EVENT DEVICE TYPE LABEL UUID TARGET TEXT */
#define ARGUMENT_BYTES 1024u

struct call {
        struct call *next;
        char arguments[ARGUMENTS][ARGUMENT_BYTES];
};

struct blkup_cli_hooks {
        const char *const *programs;
        size_t n;
        pthread_t thread;
        pthread_mutex_t lock;
        pthread_cond_t changed;
        struct call *first, **end;
        unsigned n_queued;
        bool is_ending, has_dropped;
        uint64_t end_ns;
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
        posix_spawnattr_t attr;
        sigset_t none, defaults;
        int r;

        for (size_t i = 0; i < ARGUMENTS; i++)
                argv[i + 1] = c->arguments[i];
        (void) posix_spawn_file_actions_init(&files);
        (void) posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
        /* Nothing but our own answer on standard output. */
        (void) posix_spawn_file_actions_adddup2(&files, 2, 1);
        (void) posix_spawnattr_init(&attr);
        (void) sigemptyset(&none);
        (void) sigemptyset(&defaults);
        (void) sigaddset(&defaults, SIGPIPE);
        (void) posix_spawnattr_setsigmask(&attr, &none);
        (void) posix_spawnattr_setsigdefault(&attr, &defaults);
        (void) posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        r = -posix_spawn(ret, program, &files, &attr, (char *const *) argv, environment);
        (void) posix_spawnattr_destroy(&attr);
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

static void run_one(struct blkup_cli_hooks *h, const char *program, struct call *c)
{
        struct pollfd p = { .fd = -1, .events = POLLIN };
        int r, status = 0, left = MAX_HOOK_MS;
        pid_t pid, got;

        r = start(program, c, &pid);
        if (r < 0) {
                blkup_cli_error("watch", "%s: %s", program, strerror(-r));
                return;
        }
        p.fd = (int) syscall(SYS_pidfd_open, pid, 0);
        /* A slice at a time, so that the end of the command shortens it. */
        while (p.fd >= 0 && left > 0 && time_left_ms(h) > 0 && poll(&p, 1, 100) == 0)
                left -= 100;
        if (p.fd >= 0 && poll(&p, 1, 0) == 0) {
                blkup_cli_error("watch", "%s does not end: killed", program);
                (void) kill(pid, SIGKILL);
        }
        do
                got = waitpid(pid, &status, 0);
        while (got < 0 && errno == EINTR);
        if (p.fd >= 0)
                (void) close(p.fd);
        if (got == pid && WIFEXITED(status) && WEXITSTATUS(status) != 0)
                blkup_cli_error("watch", "%s %s: exit %d", program, c->arguments[0], WEXITSTATUS(status));
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

static void encode(const char *s, char *to)
{
        to[0] = '\0';
        if (s)
                (void) blkup_encode_udev(s, strlen(s), to, ARGUMENT_BYTES);
}

void blkup_cli_hooks_tell(struct blkup_cli_hooks *h, const struct blkup_coldplug_event *e)
{
        struct call *c = calloc(1, sizeof(*c));
        bool is_first_drop;

        if (!c)
                return;
        encode(blkup_coldplug_event_name(e->kind), c->arguments[0]);
        (void) blkup_cli_encode_path(e->device ? e->device : "", c->arguments[1], ARGUMENT_BYTES);
        encode(e->type, c->arguments[2]);
        encode(e->label, c->arguments[3]);
        encode(e->uuid, c->arguments[4]);
        (void) blkup_cli_encode_path(e->target ? e->target : "", c->arguments[5], ARGUMENT_BYTES);
        encode(e->text, c->arguments[6]);
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
        is_first_drop = c && !h->has_dropped;
        h->has_dropped = h->has_dropped || c;
        (void) pthread_mutex_unlock(&h->lock);
        if (is_first_drop)
                blkup_cli_error("watch", "%u events wait for the programs of --exec: more are dropped",
                                MAX_QUEUE);
        free(c);
}

struct blkup_cli_hooks *blkup_cli_hooks_free(struct blkup_cli_hooks *h)
{
        if (!h)
                return NULL;
        (void) pthread_mutex_lock(&h->lock);
        h->is_ending = true;
        h->end_ns = blkup_now_ns() + MAX_END_NS;
        (void) pthread_cond_signal(&h->changed);
        (void) pthread_mutex_unlock(&h->lock);
        (void) pthread_join(h->thread, NULL);
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
