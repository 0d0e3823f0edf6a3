/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/many.h"

#define IDLE        UINT32_MAX
/* Answers that are ready wait for others, to be sent together: until there are so many bytes of them, or so
 * much time has gone by. */
#define BATCH_BYTES 16384u
#define BATCH_NS    5000000u
#define PROGRESS_NS 200000000u

/* Told by a process in memory that both see. */
struct slot {
        _Atomic uint32_t index; /* what it is at */
        _Atomic uint64_t since_ns;
};

struct shared {
        _Atomic uint32_t next; /* first thing that nobody has taken */
        struct slot slots[BLKUP_CLI_MANY_MAX_JOBS];
        _Atomic uint8_t owner[]; /* of each thing, 1 + the slot of who took it */
};

struct worker {
        pid_t pid; /* 0: none */
        int fd;
        char *in; /* what came and is no whole answer yet */
        size_t n_in, cap_in;
};

/* Before each answer on its way; said.line and the text follow. */
struct frame {
        uint32_t index, line_len, text_len;
        int32_t code, has_stats;
        struct blkup_io_stats stats;
};

struct item {
        char *text;
        size_t len;
        struct blkup_cli_many_said *said;
        bool is_done;
};

struct run {
        const struct blkup_cli_many *m;
        struct shared *shared;
        size_t shared_bytes;
        struct worker workers[BLKUP_CLI_MANY_MAX_JOBS];
        unsigned jobs;
        struct item *items;
        size_t n_done, emitted, n_started;
        pid_t *gone; /* ended or killed, and not waited for yet */
        size_t n_gone;
        uint64_t progress_ns;
        bool has_progress, is_shown, is_enough;
};

/* ---- the process that answers ---- */

struct sender {
        int fd;
        char *buf;
        size_t n, cap;
        uint64_t flushed_ns;
};

static int flush_answers(struct sender *s)
{
        size_t at = 0;

        while (at < s->n) {
                ssize_t k = write(s->fd, s->buf + at, s->n - at);

                if (k < 0 && errno != EINTR)
                        return -errno;
                at += k > 0 ? (size_t) k : 0;
        }
        s->n = 0;
        return 0;
}

static int append(char **buf, size_t *n, size_t *cap, const void *what, size_t len)
{
        if (*cap - *n < len) {
                size_t more = 2 * *cap + len + 4096;
                char *grown = realloc(*buf, more);

                if (!grown)
                        return -ENOMEM;
                *buf = grown;
                *cap = more;
        }
        if (len > 0)
                memcpy(*buf + *n, what, len);
        *n += len;
        return 0;
}

static int answer_one(const struct run *run, struct sender *s, FILE *mem, char **text, size_t *len,
                      uint32_t i)
{
        struct blkup_cli_many_said said = { .code = 0 };
        struct frame f;
        int r;

        rewind(mem);
        r = run->m->one(run->m->arg, i, mem, &said);
        if (r < 0)
                return r;
        if (fflush(mem) != 0)
                return -ENOMEM;
        f = (struct frame){ .index = i,
                            .line_len = (uint32_t) strlen(said.line),
                            .text_len = (uint32_t) *len,
                            .code = said.code,
                            .has_stats = said.has_stats,
                            .stats = said.stats };
        r = append(&s->buf, &s->n, &s->cap, &f, sizeof(f));
        if (r == 0)
                r = append(&s->buf, &s->n, &s->cap, said.line, f.line_len);
        if (r == 0)
                r = append(&s->buf, &s->n, &s->cap, *text, f.text_len);
        return r;
}

/* Takes one thing after another, first those that a process before this one left behind. Does not return. */
static void work(const struct run *run, unsigned slot_no, int fd, const uint32_t *left, size_t n_left)
{
        struct slot *slot = &run->shared->slots[slot_no];
        struct sender s = { .fd = fd, .flushed_ns = blkup_now_ns() };
        char *text = NULL;
        size_t len = 0;
        FILE *mem = open_memstream(&text, &len);
        int r = mem ? 0 : -ENOMEM;

        run->m->begin(run->m->arg);
        for (size_t k = 0; r == 0; k++) {
                uint32_t i = k < n_left ? left[k] : atomic_fetch_add(&run->shared->next, 1);
                uint64_t now = blkup_now_ns();

                if (i >= run->m->n)
                        break;
                atomic_store(&run->shared->owner[i], (uint8_t) (slot_no + 1));
                atomic_store(&slot->since_ns, now);
                atomic_store(&slot->index, i);
                r = answer_one(run, &s, mem, &text, &len, i);
                if (r == 0 && (run->m->timeout_ns || s.n >= BATCH_BYTES || now - s.flushed_ns >= BATCH_NS)) {
                        r = flush_answers(&s);
                        s.flushed_ns = now;
                }
        }
        if (r == 0)
                r = flush_answers(&s);
        if (r == 0)
                atomic_store(&slot->index, IDLE);
        _exit(r < 0);
}

/* A process that is given up may live on for as long as its device is dead: nobody may wait for the end of
 * our output because it still holds it. */
static void leave_streams(const struct run *run)
{
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
                if (fd == STDERR_FILENO && run->m->keep_stderr)
                        continue;
                if (null < 0 || dup2(null, fd) < 0)
                        (void) close(fd);
        }
}

static int start(struct run *run, unsigned slot_no, const uint32_t *left, size_t n_left)
{
        struct worker *w = &run->workers[slot_no];
        int fds[2];
        pid_t pid, parent = getpid();

        /* Each process but the first ones takes the place of one that was at something, or had taken it. More
         * die without having come so far: there is no memory, or worse. */
        if (run->n_started++ > 2 * run->m->n + run->jobs)
                return -ECHILD;
        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        atomic_store(&run->shared->slots[slot_no].index, IDLE);
        (void) fflush(NULL);
        pid = fork();
        if (pid == 0) {
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (getppid() != parent)
                        _exit(1);
                (void) close(fds[0]);
                for (unsigned k = 0; k < run->jobs; k++)
                        if (run->workers[k].pid)
                                (void) close(run->workers[k].fd);
                leave_streams(run);
                work(run, slot_no, fds[1], left, n_left);
        }
        (void) blkup_close(fds[1]);
        if (pid < 0) {
                int r = -errno;

                (void) blkup_close(fds[0]);
                return r;
        }
        (void) fcntl(fds[0], F_SETFL, O_NONBLOCK);
        w->pid = pid;
        w->fd = fds[0];
        w->n_in = 0;
        return 0;
}

/* ---- this process ---- */

static void hide_progress(struct run *run)
{
        if (run->is_shown)
                fputs("\r\033[K", stderr);
        run->is_shown = false;
}

static void show_progress(struct run *run)
{
        uint64_t now;

        if (!run->has_progress)
                return;
        now = blkup_now_ns();
        if (now - run->progress_ns < PROGRESS_NS)
                return;
        run->progress_ns = now;
        run->is_shown = true;
        fprintf(stderr, "\r%zu of %zu", run->n_done, run->m->n);
        (void) fflush(stderr);
}

/* All answers that are next in order. */
static int emit_ready(struct run *run)
{
        while (run->emitted < run->m->n && run->items[run->emitted].is_done && !run->is_enough) {
                struct item *it = &run->items[run->emitted];

                if (*it->said->line)
                        hide_progress(run);
                run->is_enough = !run->m->emit(run->m->arg, run->emitted, it->text, it->len, it->said);
                free(it->text);
                free(it->said);
                it->text = NULL;
                it->said = NULL;
                run->emitted++;
        }
        return 0;
}

static int keep(struct run *run, uint32_t i, const struct frame *f, const char *line, const char *text)
{
        struct item *it = &run->items[i];

        /* What was left behind is asked again, and the first answer may have been on its way. */
        if (it->is_done)
                return 0;
        it->text = malloc(f->text_len + 1u);
        it->said = calloc(1, sizeof(*it->said));
        if (!it->text || !it->said)
                return -ENOMEM;
        memcpy(it->text, text, f->text_len);
        it->len = f->text_len;
        memcpy(it->said->line, line, f->line_len);
        it->said->code = f->code;
        it->said->has_stats = f->has_stats;
        it->said->stats = f->stats;
        it->is_done = true;
        run->n_done++;
        return 0;
}

static int take_answers(struct run *run, struct worker *w)
{
        size_t at = 0;
        struct frame f;
        int r;

        while (w->n_in - at >= sizeof(f)) {
                size_t len;

                memcpy(&f, w->in + at, sizeof(f));
                if (f.index >= run->m->n || f.line_len >= sizeof(run->items[0].said->line))
                        return -EPROTO;
                len = sizeof(f) + f.line_len + (size_t) f.text_len;
                if (w->n_in - at < len)
                        break;
                r = keep(run, f.index, &f, w->in + at + sizeof(f), w->in + at + sizeof(f) + f.line_len);
                if (r < 0)
                        return r;
                at += len;
        }
        if (at > 0)
                memmove(w->in, w->in + at, w->n_in - at);
        w->n_in -= at;
        return 0;
}

/* Whatever has come. *ret_eof: it has ended. */
static int read_answers(struct run *run, struct worker *w, bool *ret_eof)
{
        *ret_eof = false;
        /* Ends: a process has a whole pipe to say at most before it is looked at again. */
        for (unsigned turn = 0; turn < 64; turn++) {
                ssize_t k;
                int r;

                if (w->cap_in - w->n_in < 65536) {
                        char *grown = realloc(w->in, w->cap_in + 2u * 65536);

                        if (!grown)
                                return -ENOMEM;
                        w->in = grown;
                        w->cap_in += 2u * 65536;
                }
                k = read(w->fd, w->in + w->n_in, w->cap_in - w->n_in);
                if (k < 0)
                        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
                if (k == 0) {
                        *ret_eof = true;
                        return 0;
                }
                w->n_in += (size_t) k;
                r = take_answers(run, w);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int give_up_on(struct run *run, uint32_t i, const char *why)
{
        struct blkup_cli_many_said said = { .code = 0 };
        char *text = NULL;
        size_t len = 0;
        FILE *mem = open_memstream(&text, &len);
        struct frame f;
        int r;

        if (!mem)
                return -ENOMEM;
        r = run->m->failed(run->m->arg, i, why, mem, &said);
        if (fclose(mem) != 0)
                r = -ENOMEM;
        f = (struct frame){ .line_len = (uint32_t) strlen(said.line),
                            .text_len = (uint32_t) len,
                            .code = said.code };
        if (r == 0)
                r = keep(run, i, &f, said.line, text);
        free(text);
        return r;
}

/* The process ends, or has ended; reap() sees to it. Without memory init does. */
static void let_go(struct run *run, struct worker *w)
{
        pid_t *grown = reallocarray(run->gone, run->n_gone + 1, sizeof(*grown));

        w->fd = blkup_close(w->fd);
        if (grown) {
                grown[run->n_gone++] = w->pid;
                run->gone = grown;
        }
        w->pid = 0;
}

/* Those that end within a few milliseconds leave nothing behind. One that hangs in the kernel is init's. */
static void reap(struct run *run)
{
        for (unsigned turn = 0; run->n_gone > 0 && turn < 20; turn++) {
                size_t left = 0;

                for (size_t i = 0; i < run->n_gone; i++)
                        if (waitpid(run->gone[i], NULL, WNOHANG) == 0)
                                run->gone[left++] = run->gone[i];
                run->n_gone = left;
                if (left > 0)
                        (void) poll(NULL, 0, 1);
        }
        free(run->gone);
        run->gone = NULL;
}

/* Of processes or what they need: not a reason to give no answer. */
static bool is_shortage(int error)
{
        return error == -EAGAIN || error == -ENOMEM || error == -EMFILE || error == -ENFILE;
}

/* A process has ended or was ended for what it was at, which gets no other try. What it had answered and not
 * sent yet is asked again. */
static int replace(struct run *run, unsigned slot_no, uint32_t at, const char *why)
{
        struct worker *w = &run->workers[slot_no];
        BLKUP_CLEANUP_FREE uint32_t *left = NULL;
        uint32_t taken = atomic_load(&run->shared->next);
        size_t n_left = 0;
        int r;

        let_go(run, w);
        if (at < run->m->n && !run->items[at].is_done) {
                r = give_up_on(run, at, why);
                if (r < 0)
                        return r;
        }
        left = calloc(run->m->n, sizeof(*left));
        if (!left)
                return -ENOMEM;
        for (uint32_t i = 0; i < run->m->n && i < taken; i++)
                if (!run->items[i].is_done && atomic_load(&run->shared->owner[i]) == slot_no + 1)
                        left[n_left++] = i;
        if (n_left == 0 && taken >= run->m->n)
                return 0;
        r = start(run, slot_no, left, n_left);
        /* What it would have done is left over, for a process that starts when there is no other. */
        return is_shortage(r) ? 0 : r;
}

/* How long to wait at most, in milliseconds: until the first time limit, or to tell how far things are. */
static int patience(const struct run *run)
{
        uint64_t now = blkup_now_ns(), wait = run->has_progress ? PROGRESS_NS : UINT64_MAX;

        for (unsigned k = 0; run->m->timeout_ns && k < run->jobs; k++) {
                uint64_t end = atomic_load(&run->shared->slots[k].since_ns) + run->m->timeout_ns;

                if (run->workers[k].pid == 0)
                        continue;
                /* Between two things there is no limit to wait for, but soon there may be. */
                if (atomic_load(&run->shared->slots[k].index) == IDLE)
                        end = now + run->m->timeout_ns;
                wait = end <= now ? 0 : end - now < wait ? end - now : wait;
        }
        return wait == UINT64_MAX ? -1 : (int) (wait / 1000000 < 60000 ? wait / 1000000 + 1 : 60000);
}

static bool is_late(const struct run *run, unsigned slot_no, uint32_t at)
{
        uint64_t since = atomic_load(&run->shared->slots[slot_no].since_ns), now = blkup_now_ns();

        return run->m->timeout_ns && at < run->m->n && !run->items[at].is_done && now > since &&
               now - since >= run->m->timeout_ns;
}

static int look_at_worker(struct run *run, unsigned slot_no)
{
        struct worker *w = &run->workers[slot_no];
        uint32_t at = atomic_load(&run->shared->slots[slot_no].index);
        bool eof;
        int r = read_answers(run, w, &eof);

        if (r < 0)
                return r;
        if (eof)
                at = atomic_load(&run->shared->slots[slot_no].index);
        if (eof)
                return replace(run, slot_no, at, "the process that looked at it died");
        if (is_late(run, slot_no, at)) {
                (void) kill(w->pid, SIGKILL);
                /* It may have answered at the last moment. */
                r = read_answers(run, w, &eof);
                return r < 0 ? r : replace(run, slot_no, at, "no answer in time");
        }
        return 0;
}

static int start_for_rest(struct run *run)
{
        BLKUP_CLEANUP_FREE uint32_t *left = calloc(run->m->n, sizeof(*left));
        size_t n = 0;

        if (!left)
                return -ENOMEM;
        for (uint32_t i = 0; i < run->m->n; i++)
                if (!run->items[i].is_done)
                        left[n++] = i;
        return start(run, 0, left, n);
}

static int run_workers(struct run *run)
{
        struct pollfd fds[BLKUP_CLI_MANY_MAX_JOBS];
        int r = 0;

        for (unsigned k = 0; k < run->jobs && r == 0; k++) {
                r = start(run, k, NULL, 0);
                /* Fewer, then. */
                if (k > 0 && is_shortage(r)) {
                        run->jobs = k;
                        r = 0;
                }
        }
        while (r == 0 && run->emitted < run->m->n && !run->is_enough) {
                bool any = false;

                for (unsigned k = 0; k < run->jobs; k++) {
                        fds[k] = (struct pollfd){ .fd = run->workers[k].pid ? run->workers[k].fd : -1,
                                                  .events = POLLIN };
                        any |= run->workers[k].pid != 0;
                }
                if (!any) {
                        /* One was killed between taking a thing and saying so, or had no successor: its
                         * things are nobody's. */
                        r = start_for_rest(run);
                        continue;
                }
                if (poll(fds, run->jobs, patience(run)) < 0 && errno != EINTR)
                        return -errno;
                for (unsigned k = 0; k < run->jobs && r == 0; k++)
                        if (run->workers[k].pid)
                                r = look_at_worker(run, k);
                if (r == 0)
                        r = emit_ready(run);
                show_progress(run);
        }
        return r;
}

/* All that nobody has answered, in this process. */
static int run_here(struct run *run)
{
        char *text = NULL;
        size_t len = 0;
        FILE *mem = open_memstream(&text, &len);
        int r = mem ? 0 : -ENOMEM;

        run->m->begin(run->m->arg);
        while (r == 0 && run->emitted < run->m->n && !run->is_enough) {
                struct blkup_cli_many_said said = { .code = 0 };

                if (run->items && run->items[run->emitted].is_done) {
                        r = emit_ready(run);
                        continue;
                }
                rewind(mem);
                r = run->m->one(run->m->arg, run->emitted, mem, &said);
                if (r == 0 && fflush(mem) != 0)
                        r = -ENOMEM;
                if (r < 0)
                        break;
                if (*said.line)
                        hide_progress(run);
                run->is_enough = !run->m->emit(run->m->arg, run->emitted, text, len, &said);
                run->emitted++;
                run->n_done++;
                show_progress(run);
        }
        if (mem)
                (void) fclose(mem);
        free(text);
        return r;
}

static unsigned n_cpus(void)
{
        cpu_set_t set;
        int n;

        if (sched_getaffinity(0, sizeof(set), &set) < 0)
                return 1;
        n = CPU_COUNT(&set);
        return n < 1 ? 1u : n < BLKUP_CLI_MANY_MAX_JOBS ? (unsigned) n : BLKUP_CLI_MANY_MAX_JOBS;
}

static void end_workers(struct run *run)
{
        for (unsigned k = 0; k < run->jobs; k++) {
                struct worker *w = &run->workers[k];

                if (w->pid) {
                        (void) kill(w->pid, SIGKILL);
                        let_go(run, w);
                }
                free(w->in);
        }
        reap(run);
}

static int run_apart(struct run *run)
{
        int r;

        run->shared_bytes = sizeof(*run->shared) + run->m->n;
        run->shared =
                mmap(NULL, run->shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (run->shared == MAP_FAILED)
                return -ENOMEM;
        run->items = calloc(run->m->n, sizeof(*run->items));
        r = run->items ? run_workers(run) : -ENOMEM;
        end_workers(run);
        /* A time limit needs a process that can be given up. */
        if (run->items && is_shortage(r) && !run->m->timeout_ns)
                r = run_here(run);
        for (size_t i = 0; run->items && i < run->m->n; i++) {
                free(run->items[i].text);
                free(run->items[i].said);
        }
        free(run->items);
        (void) munmap(run->shared, run->shared_bytes);
        return r;
}

int blkup_cli_many_run(const struct blkup_cli_many *m)
{
        /* Where stdout is a terminal too, the answers themselves show how far things are. */
        struct run run = { .m = m, .has_progress = isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO) };
        int r;

        if (m->n >= IDLE)
                return -E2BIG;
        if (m->n == 0)
                return 0;
        run.jobs = m->jobs ? m->jobs : n_cpus();
        if (run.jobs > m->n)
                run.jobs = (unsigned) m->n;
        run.progress_ns = blkup_now_ns();
        r = run.jobs == 1 && !m->timeout_ns ? run_here(&run) : run_apart(&run);
        hide_progress(&run);
        return r;
}

int blkup_cli_many_add_name(const char *name, char ***names, size_t *n)
{
        char **grown;

        /* A power of two is the end of what there is room for. */
        if ((*n & (*n - 1)) == 0) {
                grown = reallocarray(*names, *n ? 2 * *n : 1, sizeof(**names));
                if (!grown)
                        return -ENOMEM;
                *names = grown;
        }
        (*names)[*n] = strdup(name);
        if (!(*names)[*n])
                return -ENOMEM;
        (*n)++;
        return 0;
}

int blkup_cli_many_read_names(const char *path, int separator, char ***names, size_t *n)
{
        bool is_stdin = strcmp(path, "-") == 0;
        FILE *f = is_stdin ? stdin : fopen(path, "re");
        BLKUP_CLEANUP_FREE char *line = NULL;
        size_t cap = 0;
        ssize_t len;
        int r = 0;

        if (!f)
                return -errno;
        errno = 0;
        while (r == 0 && (len = getdelim(&line, &cap, separator, f)) >= 0) {
                if (len > 0 && line[len - 1] == (char) separator)
                        line[--len] = '\0';
                if (len > 0)
                        r = blkup_cli_many_add_name(line, names, n);
        }
        if (r == 0 && ferror(f))
                r = errno ? -errno : -EIO;
        if (!is_stdin)
                (void) fclose(f);
        return r;
}
