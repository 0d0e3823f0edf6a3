/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "modules/ahead.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "host/hostfile.h"

/* Read and not yet needed: more would drive each other out of a small machine's cache. */
#define HELD_BYTES   ((uint64_t) 64 << 20)
/* On its way from the device and not yet there: as much as a module whose turn has come may have to wait for.
 * A device of 5 ms a request delivers 100 MB/s so. */
#define WINDOW_BYTES ((uint64_t) 512 << 10)
#define CHUNK_BYTES  ((uint64_t) 256 << 10)
#define WINDOW_PARTS 8u
#define STACK_BYTES  ((size_t) 128 << 10)

struct file {
        struct blkup_ahead_file is;
        size_t index;
        bool is_taken, is_held; /* under lock */
};

struct blkup_ahead {
        const char *root;
        void (*drop)(void *);
        void *arg;
        pthread_mutex_t lock;
        pthread_cond_t changed;
        bool is_stopped;       /* under lock, as all below */
        uint64_t taking_bytes; /* files whose turn has come, and which are not there yet */
        uint64_t held_bytes;   /* read ahead, and not done */
        bool has_thread;
        pthread_t thread;
        size_t n;
        size_t *order; /* indexes of files */
        struct file files[];
};

/* A part of a file that was asked for. */
struct asked {
        int fd; /* a copy of its own */
        uint64_t end, bytes;
};

struct window {
        struct asked asked[WINDOW_PARTS];
        unsigned first, n;
        uint64_t bytes;
};

/* The device delivers in about the order in which it was asked: when the last page is there, all are. */
static void wait_for(int fd, uint64_t end)
{
        char byte;

        (void) !pread(fd, &byte, 1, (off_t) end - 1);
}

static void wait_for_oldest(struct window *w)
{
        struct asked *a = &w->asked[w->first];

        wait_for(a->fd, a->end);
        a->fd = blkup_close(a->fd);
        w->bytes -= a->bytes;
        w->first = (w->first + 1) % WINDOW_PARTS;
        w->n--;
}

/* The window is for all that is on its way: a slow device is left to those whose turn has come, and one that
 * is only late has room for both. */
static bool is_crowded(const struct blkup_ahead *a, uint64_t bytes)
{
        return a->taking_bytes && a->taking_bytes + bytes > WINDOW_BYTES;
}

/* Is the file, or what is left of it, still to be read? Waits until there is room for n bytes of it, and
 * before a file also while as much as may lie there does. */
static bool may_go_on(struct blkup_ahead *a, const struct file *f, struct window *w, uint64_t n,
                      bool is_start)
{
        bool is_wanted, drains;

        (void) pthread_mutex_lock(&a->lock);
        drains = is_crowded(a, w->bytes + n);
        (void) pthread_mutex_unlock(&a->lock);
        /* Ends: each turn takes one away. What has come meanwhile is only known afterwards. */
        while (w->n && (drains || w->n == WINDOW_PARTS || w->bytes + n > WINDOW_BYTES))
                wait_for_oldest(w);
        (void) pthread_mutex_lock(&a->lock);
        while (!a->is_stopped && !f->is_taken &&
               (is_crowded(a, w->bytes + n) || (is_start && a->held_bytes >= HELD_BYTES)))
                (void) pthread_cond_wait(&a->changed, &a->lock);
        is_wanted = !a->is_stopped && !f->is_taken;
        (void) pthread_mutex_unlock(&a->lock);
        return is_wanted;
}

static void read_file(struct blkup_ahead *a, struct file *f, struct window *w)
{
        BLKUP_CLEANUP_CLOSE int fd = -1;

        if (!may_go_on(a, f, w, 0, true))
                return;
        fd = blkup_host_open(a->root, f->is.path + 1, O_RDONLY);
        if (fd < 0)
                return; /* whoever needs it will say so */
        (void) pthread_mutex_lock(&a->lock);
        f->is_held = true;
        a->held_bytes += f->is.bytes;
        (void) pthread_mutex_unlock(&a->lock);
        /* Ends: at grows. What is in the cache already is not read again: the kernel looks. */
        for (uint64_t at = 0, n; at < f->is.bytes; at += n) {
                n = f->is.bytes - at < CHUNK_BYTES ? f->is.bytes - at : CHUNK_BYTES;
                if (!may_go_on(a, f, w, n, false))
                        return;
                (void) posix_fadvise(fd, (off_t) at, (off_t) n, POSIX_FADV_WILLNEED);
                w->asked[(w->first + w->n++) % WINDOW_PARTS] =
                        (struct asked){ fcntl(fd, F_DUPFD_CLOEXEC, 3), at + n, n };
                w->bytes += n;
        }
}

static void *read_all(void *arg)
{
        struct blkup_ahead *a = arg;
        struct window w = { 0 };

        for (size_t i = 0; i < a->n; i++)
                read_file(a, &a->files[a->order[i]], &w);
        while (w.n) /* ends: each turn takes one away */
                wait_for_oldest(&w);
        a->drop(a->arg);
        return NULL;
}

static int by_rank(const void *x, const void *y, void *arg)
{
        const struct file *files = arg, *a = &files[*(const size_t *) x], *b = &files[*(const size_t *) y];

        if (a->is.rank != b->is.rank)
                return a->is.rank > b->is.rank ? -1 : 1;
        return a->index < b->index ? -1 : 1;
}

int blkup_ahead_new(const char *root, const struct blkup_ahead_file *files, size_t n, void (*drop)(void *),
                    void *arg, struct blkup_ahead **ret)
{
        struct blkup_ahead *a = calloc(1, sizeof(*a) + n * sizeof(a->files[0]));

        if (a)
                a->order = calloc(n + 1, sizeof(*a->order));
        if (!a || !a->order) {
                free(a);
                return -ENOMEM;
        }
        a->root = root;
        a->drop = drop;
        a->arg = arg;
        (void) pthread_mutex_init(&a->lock, NULL);
        (void) pthread_cond_init(&a->changed, NULL);
        for (size_t i = 0; i < n; i++) {
                a->files[i] = (struct file){ .is = files[i], .index = i };
                if (files[i].bytes)
                        a->order[a->n++] = i;
        }
        qsort_r(a->order, a->n, sizeof(*a->order), by_rank, a->files);
        *ret = a;
        return 0;
}

void blkup_ahead_start(struct blkup_ahead *a)
{
        pthread_attr_t attr;

        if (a->n > 1 && pthread_attr_init(&attr) == 0) {
                (void) pthread_attr_setstacksize(&attr, STACK_BYTES);
                a->has_thread = pthread_create(&a->thread, &attr, read_all, a) == 0;
                (void) pthread_attr_destroy(&attr);
        }
        if (!a->has_thread)
                a->drop(a->arg);
}

void blkup_ahead_take(struct blkup_ahead *a, size_t file, int fd)
{
        struct file *f = &a->files[file];

        (void) pthread_mutex_lock(&a->lock);
        f->is_taken = true;
        a->taking_bytes += f->is.bytes;
        (void) pthread_mutex_unlock(&a->lock);
        (void) posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
        wait_for(fd, f->is.bytes);
        (void) pthread_mutex_lock(&a->lock);
        a->taking_bytes -= f->is.bytes;
        (void) pthread_cond_signal(&a->changed);
        (void) pthread_mutex_unlock(&a->lock);
}

void blkup_ahead_done(struct blkup_ahead *a, size_t file)
{
        struct file *f = &a->files[file];

        (void) pthread_mutex_lock(&a->lock);
        f->is_taken = true;
        if (f->is_held)
                a->held_bytes -= f->is.bytes;
        f->is_held = false;
        (void) pthread_cond_signal(&a->changed);
        (void) pthread_mutex_unlock(&a->lock);
}

void blkup_ahead_stop(struct blkup_ahead *a)
{
        struct timespec until;

        (void) pthread_mutex_lock(&a->lock);
        a->is_stopped = true;
        (void) pthread_cond_signal(&a->changed);
        (void) pthread_mutex_unlock(&a->lock);
        if (!a->has_thread)
                return;
        (void) clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        if (pthread_timedjoin_np(a->thread, NULL, &until) != 0)
                (void) pthread_detach(a->thread);
}

struct blkup_ahead *blkup_ahead_free(struct blkup_ahead *a)
{
        if (a) {
                (void) pthread_mutex_destroy(&a->lock);
                (void) pthread_cond_destroy(&a->changed);
                free(a->order);
                free(a);
        }
        return NULL;
}
