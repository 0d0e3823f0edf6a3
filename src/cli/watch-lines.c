/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cli/watch-lines.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "cli/output.h"
#include "sync/cond.h"

/* Some ten thousand events: more than come while a reader is busy. */
#define MAX_BYTES  (4u << 20)
#define MAX_END_NS UINT64_C(2000000000)

struct line {
        struct line *next;
        char *text;
        size_t n;
};

struct blkup_cli_lines {
        const char *command;
        int fd;
        pthread_t thread;
        pthread_mutex_t lock;
        pthread_cond_t changed;
        struct line *first, **end;
        size_t n_bytes; /* of all that is not written yet, the line that is being written with it */
        bool is_ending, is_over, has_dropped;
        int error;
};

static void free_line(struct line *x)
{
        if (x) {
                free(x->text);
                free(x);
        }
}

static int write_all(int fd, const char *text, size_t n)
{
        /* Ends: each turn writes something, or fails. */
        while (n > 0) {
                ssize_t k = write(fd, text, n);

                if (k < 0 && errno == EINTR)
                        continue;
                if (k < 0)
                        return -errno;
                text += k;
                n -= (size_t) k;
        }
        return 0;
}

static void *run(void *arg)
{
        struct blkup_cli_lines *l = arg;

        (void) pthread_mutex_lock(&l->lock);
        /* Ends: when it is told to, and nothing is left. */
        for (;;) {
                struct line *x;
                int error, r = 0;

                while (!l->first && !l->is_ending)
                        (void) pthread_cond_wait(&l->changed, &l->lock);
                x = l->first;
                if (!x)
                        break;
                l->first = x->next;
                error = l->error;
                (void) pthread_mutex_unlock(&l->lock);
                if (error == 0)
                        r = write_all(l->fd, x->text, x->n);
                if (r < 0)
                        blkup_cli_error(l->command, "standard output: %s: goes on without it",
                                        blkup_error_text(-r));
                (void) pthread_mutex_lock(&l->lock);
                l->error = r < 0 ? r : l->error;
                l->n_bytes -= x->n;
                free_line(x);
        }
        l->fd = blkup_close(l->fd);
        l->is_over = true;
        (void) pthread_cond_broadcast(&l->changed);
        (void) pthread_mutex_unlock(&l->lock);
        return NULL;
}

int blkup_cli_lines_new(const char *command, int fd, struct blkup_cli_lines **ret)
{
        struct blkup_cli_lines *l = calloc(1, sizeof(*l));
        int r;

        if (!l)
                return -ENOMEM;
        l->command = command;
        /* Its own: a thread that is left behind in a write keeps it, whatever the caller closes. */
        l->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        if (l->fd < 0 && errno != EBADF) { /* closed: the first write says so */
                r = -errno;
                free(l);
                return r;
        }
        (void) pthread_mutex_init(&l->lock, NULL);
        (void) blkup_cond_init(&l->changed);
        r = -pthread_create(&l->thread, NULL, run, l);
        if (r < 0) {
                (void) blkup_close(l->fd);
                free(l);
                return r;
        }
        *ret = l;
        return 0;
}

void blkup_cli_lines_put(struct blkup_cli_lines *l, char *text, size_t n)
{
        struct line *x = calloc(1, sizeof(*x));
        bool is_first_drop;

        if (!x) {
                free(text);
                return;
        }
        *x = (struct line){ .text = text, .n = n };
        (void) pthread_mutex_lock(&l->lock);
        if (l->error == 0 && l->n_bytes + n <= MAX_BYTES) {
                if (!l->first)
                        l->end = &l->first;
                *l->end = x;
                l->end = &x->next;
                l->n_bytes += n;
                x = NULL;
                (void) pthread_cond_broadcast(&l->changed);
        }
        is_first_drop = x && l->error == 0 && !l->has_dropped;
        l->has_dropped = l->has_dropped || is_first_drop;
        (void) pthread_mutex_unlock(&l->lock);
        if (is_first_drop)
                blkup_cli_error(l->command, "standard output is not read: more events are dropped");
        free_line(x);
}

int blkup_cli_lines_end(struct blkup_cli_lines *l)
{
        uint64_t until = blkup_now_ns() + MAX_END_NS;
        struct timespec at = blkup_to_timespec(until);
        bool is_over;
        int r = 0;

        (void) pthread_mutex_lock(&l->lock);
        l->is_ending = true;
        (void) pthread_cond_broadcast(&l->changed);
        /* Ends: with the time, at the latest. */
        while (!l->is_over && r == 0)
                r = -pthread_cond_timedwait(&l->changed, &l->lock, &at);
        is_over = l->is_over;
        r = l->error ? l->error : is_over && !l->has_dropped ? 0 : -ETIMEDOUT;
        (void) pthread_mutex_unlock(&l->lock);
        if (!is_over) {
                blkup_cli_error(l->command, "standard output is not read: what was left is lost");
                (void) pthread_detach(l->thread);
                return r;
        }
        (void) pthread_join(l->thread, NULL);
        (void) pthread_cond_destroy(&l->changed);
        (void) pthread_mutex_destroy(&l->lock);
        free(l);
        return r;
}
