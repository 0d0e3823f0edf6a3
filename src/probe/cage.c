/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The parent's side of the cage, and how the child is made. What the child does is in cage-child.c. */
#include "probe/cage.h"

#include <errno.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "probe/cage-mail.h"
#include "probe/reader.h"
#include "sync/turn.h"

/* All a child does between two messages is arithmetic on at most the budget of a run. */
#define ANSWER_TIMEOUT_MS 20000
/* The wait has so many parts; at the end of each a child that was stopped is seen. */
#define SLICES 20
/* A child that had less than this part of a CPU while it was waited for was not at work: it is frozen, or
 * others have the CPU. One whose parser does not end takes all that it gets. */
#define HELD_PART 100
/* How long a child that was killed may take to end. A frozen one does not before it is thawed. */
#define BURY_MS 1000

/* How long a child that serves several is waited for; who waits longer gets one of its own. Its turns are
 * short, but for a device that it has to read more of, which may be one that does not answer. */
#define BUSY_NS     UINT64_C(5000000)
/* The same where there can be no other child now: no process, no descriptor, no memory. */
#define NO_OTHER_NS UINT64_C(2000000000)
/* A child that has worked for so long is replaced: with what one turn may take it is still below its limit.
 */
#define MAX_BUSY_NS (BLKUP_CAGE_CPU_S * UINT64_C(500000000))

/* Why a conversation came to no end. */
enum failure {
        NONSENSE, /* it said what no engine says, or took all the time there is */
        ENDED,    /* it died, of what bury() tells */
        HELD,     /* it was stopped, or did not get to run */
};

/* The child, and what its parent and it talk by. Several cages may have the same one. */
struct child {
        struct blkup_turn turn; /* whose it is has the rest */

        struct blkup_cage_shared *shared;
        void *memory; /* of the child's prober; the arena is at its start */
        size_t shared_bytes;
        int fd; /* -1: no child */
        pid_t pid;
        int pidfd;        /* -1: this kernel has none */
        bool is_new;      /* the child has not answered yet */
        bool is_open;     /* it could not be shut in */
        enum failure failure;
        int start_error; /* of the last child that could not be made for a conversation */
        int cpu;          /* that the child was put on; -1: none */
        uint64_t busy_ns; /* since it was started; no more of it was its own */
        int timeout_ms;
};

struct blkup_cage {
        pthread_mutex_t lock; /* for who shares it just when its thread takes another child */
        struct child *child;

        /* What the last result refers to, in memory of our own. */
        char names[2][BLKUP_FOUND_TAGS][BLKUP_CAGE_NAME];
        char versions[BLKUP_MAX_HITS][BLKUP_CAGE_VERSION];
        struct blkup_cage_tag tags[BLKUP_FOUND_TAGS];
};

/* true: the child has ended, and *ret_status is what waitpid() says of that. */
static bool wait_for_end(const struct child *c, int *ret_status)
{
        struct pollfd end = { .fd = c->pidfd, .events = POLLIN };
        const struct timespec moment = { .tv_nsec = 1000000 };
        pid_t got = 0;

        if (c->pidfd >= 0)
                while (poll(&end, 1, BURY_MS) < 0 && errno == EINTR)
                        ; /* ends: the child was killed */
        /* The first turn has it, but without a pidfd, or where a tracer sees the end before its parent. */
        for (unsigned i = 0; i < BURY_MS && (got = waitpid(c->pid, ret_status, __WALL | WNOHANG)) == 0; i++) {
                if (c->pidfd >= 0 && !end.revents)
                        break;
                (void) nanosleep(&moment, NULL);
        }
        return got == c->pid;
}

/* Ends the child. What it had died of before that: a signal, 0 for another end, or SIGKILL where that is not
 * known. One that does not end, because it is frozen, is left to whoever thaws it. */
static int bury(struct child *c)
{
        int status = SIGKILL;

        if (c->fd < 0)
                return SIGKILL;
        c->fd = blkup_close(c->fd);
        (void) kill(c->pid, SIGKILL);
        if (!wait_for_end(c, &status))
                status = SIGKILL;
        c->pidfd = blkup_close(c->pidfd);
        return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* One byte to the child. */
static bool tell(const struct child *c, char word)
{
        ssize_t n;

        do
                n = send(c->fd, &word, 1, MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        return n == 1;
}

/* For each part of a wait: a signal in between begins it anew. */
static int set_patience(int fd, int ms)
{
        const int part = ms > SLICES ? ms / SLICES : 1;
        const struct timeval t = { .tv_sec = part / 1000, .tv_usec = part % 1000 * 1000 };

        return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)) < 0 ? -errno : 0;
}

static bool is_stopped(const struct child *c)
{
        siginfo_t is = { .si_pid = 0 };

        return waitid(P_PID, (id_t) c->pid, &is, WSTOPPED | WNOHANG | WNOWAIT | __WALL) == 0 &&
               is.si_pid != 0;
}

/* Processor time of the child. */
static uint64_t child_cpu_ns(const struct child *c)
{
        struct timespec t;
        clockid_t clock;

        if (clock_getcpuclockid(c->pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
                return 0;
        return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}

/* What hear() answers in the place of a child: it died, was stopped, or takes too long. */
#define DEAD '\0'

/* One byte from the child. */
static char hear(struct child *c)
{
        uint64_t since_ns = 0, cpu_ns = 0;
        char word = DEAD;

        c->failure = ENDED;
        for (unsigned slice = 0; slice < SLICES;) { /* ends: each turn is a part of the wait, or a signal */
                ssize_t n = recv(c->fd, &word, 1, 0);

                if (n == 1)
                        return word;
                if (n < 0 && errno == EINTR)
                        continue;
                if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
                        return DEAD;
                if (is_stopped(c)) {
                        c->failure = HELD;
                        return DEAD;
                }
                if (slice++ == 0) {
                        since_ns = blkup_now_ns();
                        cpu_ns = child_cpu_ns(c);
                }
        }
        c->failure = child_cpu_ns(c) - cpu_ns < (blkup_now_ns() - since_ns) / HELD_PART ? HELD : NONSENSE;
        return DEAD;
}

/*
 * The two take turns, so a second CPU only means that each turn waits for a sleeping one to wake up: on a
 * virtual machine that is most of what the cage costs. The child goes where its parent is; where it may not,
 * it stays.
 */
static void keep_near(struct child *c)
{
        int cpu = sched_getcpu();
        cpu_set_t set;

        if (cpu < 0 || cpu >= CPU_SETSIZE || cpu == c->cpu)
                return;
        c->cpu = cpu;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        (void) sched_setaffinity(c->pid, sizeof(set), &set);
}

/* Of the arena, what most devices need: their sectors, and a superblock or two of 4096 bytes. */
#define USUAL_ARENA_BYTES 16384u

static void populate(uint8_t *from, const uint8_t *to)
{
#ifdef MADV_POPULATE_WRITE
        uint8_t *page = from - (uintptr_t) from % 4096;

        (void) madvise(page, (size_t) (to - page), MADV_POPULATE_WRITE);
#else
        (void) from;
        (void) to;
#endif
}

void blkup_cage_populate(struct blkup_cage_shared *s, void *memory, bool is_child)
{
        uint8_t *prober = blkup_probe_usual_part(memory);

        populate((uint8_t *) s + offsetof(struct blkup_cage_shared, excluded),
                 (uint8_t *) memory + USUAL_ARENA_BYTES);
        if (is_child)
                populate(prober, prober + BLKUP_PROBE_USUAL_BYTES);
}

/*
 * A fork without the handlers of the parent's signals, where the kernel can (5.5). Neither runs the handlers
 * that other libraries have for a fork: those have no business in a child that only does arithmetic. Its end
 * sends no signal, so that neither a parent that ignores SIGCHLD, nor one that waits for any child, takes
 * away what it died of.
 */
static pid_t fork_plain(bool *ret_has_handlers, int *ret_pidfd)
{
        int pidfd = -1;
        struct clone_args args = { .flags = CLONE_CLEAR_SIGHAND | CLONE_PIDFD,
                                   .pidfd = (uint64_t) (uintptr_t) &pidfd };
        pid_t pid = (pid_t) syscall(SYS_clone3, &args, sizeof(args));

        *ret_has_handlers = pid < 0;
        *ret_pidfd = pidfd;
        return pid < 0 ? _Fork() : pid;
}

static int start(struct child *c, bool is_told_apart)
{
        const pid_t parent = getpid();
        bool has_handlers;
        int ends[2], r;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return -errno;
        r = set_patience(ends[0], c->timeout_ms);
        c->pidfd = -1;
        c->pid = r < 0 ? -1 : fork_plain(&has_handlers, &c->pidfd);
        if (c->pid < 0) {
                r = r < 0 ? r : -errno;
                (void) blkup_close(ends[0]);
                (void) blkup_close(ends[1]);
                return r;
        }
        if (c->pid == 0)
                blkup_cage_child(&(struct blkup_cage_birth){ .fd = ends[1],
                                                             .parent = parent,
                                                             .has_handlers = has_handlers,
                                                             .is_told_apart = is_told_apart },
                                 c->shared, c->memory);
        (void) blkup_close(ends[1]);
        c->fd = ends[0];
        /* It gets ready on another CPU, while this one reads what it will want first. */
        c->is_new = true;
        c->is_open = false;
        c->cpu = -1;
        c->busy_ns = 0;
        return 0;
}

static struct child *free_child(struct child *c)
{
        (void) bury(c);
        (void) munmap(c->shared, c->shared_bytes);
        if (!BLKUP_IS_SMALL)
                blkup_turn_destroy(&c->turn);
        free(c);
        return NULL;
}

static int make_child(struct child **ret, int timeout_ms)
{
        const size_t own = (size_t) blkup_align_up(sizeof(struct blkup_cage_shared), 4096);
        struct child *c = calloc(1, sizeof(*c));
        int r;

        if (!c)
                return -ENOMEM;
        if (prctl(PR_GET_SECCOMP) < 0) {
                free(c);
                return -ENOSYS;
        }
        c->fd = c->pidfd = -1;
        c->timeout_ms = timeout_ms;
        c->shared_bytes = own + blkup_probe_bytes();
        c->shared = mmap(NULL, c->shared_bytes, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (c->shared == MAP_FAILED) {
                free(c);
                return -ENOMEM;
        }
        if (!BLKUP_IS_SMALL) /* the small build has one thread, and no use for turns */
                blkup_turn_init(&c->turn);
        c->memory = (uint8_t *) c->shared + own;
        blkup_cage_populate(c->shared, c->memory, false);
        r = start(c, false);
        if (r < 0) {
                (void) free_child(c);
                return r;
        }
        *ret = c;
        return 0;
}

static void leave_child(struct child *c)
{
        if (BLKUP_IS_SMALL || blkup_turn_leave(&c->turn))
                (void) free_child(c);
}

int blkup_cage_new(struct blkup_cage **ret)
{
        struct blkup_cage *c = calloc(1, sizeof(*c));
        int r = c ? make_child(&c->child, ANSWER_TIMEOUT_MS) : -ENOMEM;

        if (r < 0) {
                free(c);
                return r;
        }
        if (!BLKUP_IS_SMALL)
                (void) pthread_mutex_init(&c->lock, NULL);
        *ret = c;
        return 0;
}

int blkup_cage_share(struct blkup_cage *with, struct blkup_cage **ret)
{
        struct blkup_cage *c = calloc(1, sizeof(*c));

        if (!c)
                return -ENOMEM;
        (void) pthread_mutex_init(&c->lock, NULL);
        (void) pthread_mutex_lock(&with->lock);
        c->child = with->child;
        blkup_turn_join(&c->child->turn);
        (void) pthread_mutex_unlock(&with->lock);
        *ret = c;
        return 0;
}

void blkup_cage_set_timeout(struct blkup_cage *c, int ms)
{
        c->child->timeout_ms = ms;
        if (c->child->fd >= 0)
                (void) set_patience(c->child->fd, ms);
}

struct blkup_cage *blkup_cage_unref(struct blkup_cage *c)
{
        if (c) {
                leave_child(c->child);
                if (!BLKUP_IS_SMALL)
                        (void) pthread_mutex_destroy(&c->lock);
                free(c);
        }
        return NULL;
}

static bool is_shared(struct child *c)
{
        return !BLKUP_IS_SMALL && blkup_turn_is_shared(&c->turn);
}

static void put_back(struct child *c)
{
        if (!BLKUP_IS_SMALL)
                blkup_turn_give(&c->turn);
}

/* The child, for this cage alone until put_back(): the one that it shares, or, when that is busy for too
 * long, a new one. One that has died is replaced. */
static int take_child(struct blkup_cage *c)
{
        struct child *own, *shared = c->child;
        int r;

        if (!BLKUP_IS_SMALL && !blkup_turn_take(&shared->turn, BUSY_NS)) {
                r = make_child(&own, shared->timeout_ms);
                if (r < 0 && !blkup_turn_take(&shared->turn, NO_OTHER_NS))
                        return r;
                if (r == 0) {
                        (void) !blkup_turn_take(&own->turn, 0); /* nobody else knows it yet */
                        (void) pthread_mutex_lock(&c->lock);
                        c->child = own;
                        (void) pthread_mutex_unlock(&c->lock);
                        leave_child(shared);
                }
        }
        if (c->child->busy_ns > MAX_BUSY_NS)
                (void) bury(c->child);
        r = c->child->fd >= 0 ? 0 : start(c->child, false);
        if (r < 0)
                put_back(c->child);
        return r;
}

/* The child asks for a batch: copied, checked, read into its arena. false: it asks for what no engine asks.
 */
static bool serve_reads(struct child *c, struct blkup_probe *p)
{
        struct blkup_cage_shared *s = c->shared;
        struct blkup_cage_request wire[BLKUP_MAX_REQUESTS];
        struct blkup_block_request r[BLKUP_MAX_REQUESTS];
        uint32_t n = *(volatile uint32_t *) &s->n_requests;

        if (n == 0 || n > BLKUP_MAX_REQUESTS)
                return false;
        memcpy(wire, s->requests, n * sizeof(wire[0]));
        for (uint32_t i = 0; i < n; i++) {
                if (wire[i].len == 0 || !blkup_inside(wire[i].to, wire[i].len, p->arena_size) ||
                    wire[i].at > INT64_MAX)
                        return false;
                r[i] = (struct blkup_block_request){
                        .at = wire[i].at,
                        .len = (size_t) wire[i].len,
                        .to = (uint8_t *) c->memory + wire[i].to,
                };
        }
        blkup_reader_submit(p, r, n);
        for (uint32_t i = 0; i < n; i++) {
                s->requests[i].done_bytes = r[i].done_bytes;
                s->requests[i].ns = r[i].ns;
        }
        return true;
}

static void tell_block(struct blkup_cage_shared *s, const struct blkup_block *b)
{
        s->info = b->info;
        s->align_bytes = b->align_bytes;
        s->one_submission = b->one_submission;
}

static void pass_line(struct child *c, struct blkup_probe *p)
{
        char line[sizeof(c->shared->line)];

        memcpy(line, c->shared->line, sizeof(line));
        line[sizeof(line) - 1] = '\0';
        if (p->debug)
                p->debug(p->debug_to, line);
}

/* What the engine reads first is known to its plan: read before the child is woken, it saves a turn, and
 * before a child that others use is waited for, the device's time. */
static size_t read_ahead(struct blkup_probe *p, uint8_t *to, struct blkup_block_request *r)
{
        uint8_t *own = p->arena;
        size_t n;

        p->arena = to;
        n = blkup_engine_first_batch(p, r);
        p->arena = own;
        if (n > 0)
                blkup_reader_submit(p, r, n);
        return n;
}

/* The child gets what was read to `from`. */
static void post(struct child *c, const struct blkup_probe *p, const uint8_t *from,
                 const struct blkup_block_request *r, size_t n)
{
        c->shared->n_ahead = (uint32_t) n;
        if (n > 0 && from != c->memory)
                memcpy(c->memory, from, (size_t) p->arena_used);
        for (size_t i = 0; i < n; i++)
                c->shared->requests[i] = (struct blkup_cage_request){
                        .at = r[i].at,
                        .len = r[i].len,
                        .to = (uint64_t) ((const uint8_t *) r[i].to - from),
                        .done_bytes = r[i].done_bytes,
                        .ns = r[i].ns,
                };
}

/* Says what is to be done and serves the child until it is done. w: what to search for; NULL: a run. false:
 * c->failure says why. */
static bool serve(struct child *c, struct blkup_probe *p, const struct blkup_part_wanted *w)
{
        struct blkup_cage_shared *s = c->shared;
        char word = w ? BLKUP_CAGE_SEARCH : BLKUP_CAGE_RUN;

        if (w)
                s->wanted = *w;
        memcpy(s->excluded, p->excluded, sizeof(s->excluded));
        s->usages = p->usages;
        s->flags = p->flags;
        s->area_at = p->area_at;
        s->area_size = p->area_size;
        s->session = p->session;
        s->budget = p->budget;
        s->may_switch = p->may_switch;
        s->wants_lines = p->debug != NULL;
        tell_block(s, p->block);
        for (;;) { /* ends: each turn costs the child bytes, rounds or lines, which its engine has budgets for
                    */
                char heard = DEAD;

                c->failure = ENDED;
                if (tell(c, word))
                        heard = hear(c);
                if (heard == DEAD)
                        return false;
                word = BLKUP_CAGE_ANSWER;
                c->failure = NONSENSE;
                switch (heard) {
                case BLKUP_CAGE_READ:
                        /* A child that goes on reading beyond its budget is no engine any more. */
                        if (p->stats.bytes > 2 * p->budget + (64U << 20) || !serve_reads(c, p))
                                return false;
                        break;
                case BLKUP_CAGE_SET_DIRECT:
                        s->rc = blkup_block_set_direct(p->block, s->direct != 0);
                        tell_block(s, p->block);
                        break;
                case BLKUP_CAGE_LINE:
                        pass_line(c, p);
                        break;
                case BLKUP_CAGE_DONE:
                        c->is_new = false;
                        return true;
                case BLKUP_CAGE_NO_SECCOMP:
                        c->is_open = c->is_new;
                        return false;
                default:
                        return false;
                }
        }
}

/* Another child, behind a door that tells apart what ended it: a call that is none of the three is SIGSYS,
 * and SIGKILL comes from outside. It is asked from the start. */
static bool serve_again(struct child *c, struct blkup_probe *p, const struct blkup_part_wanted *w)
{
        (void) bury(c);
        c->start_error = start(c, true);
        if (c->start_error < 0)
                return false;
        if (!w) {
                blkup_engine_reset(p);
                p->view.size = blkup_engine_area(p, &p->base);
                p->read_ns = 0;
                c->shared->n_ahead = 0;
        }
        return serve(c, p, w);
}

/* A child that died or was stopped says nothing yet: the OOM killer or an operator may have done it, or the
 * one before, whose answer it gave first. What a parser does over a device it does again. */
static bool converse(struct child *c, struct blkup_probe *p, const struct blkup_part_wanted *w)
{
        uint64_t start_ns = blkup_now_ns();
        bool is_good;

        c->is_open = false;
        c->start_error = 0;
        is_good = serve(c, p, w);
        if (!is_good && c->failure != NONSENSE)
                is_good = serve_again(c, p, w);
        c->busy_ns += blkup_now_ns() - start_ns;
        return is_good;
}

/* What a conversation that did not come to its end means. A child that never said a word may have died of the
 * device, or of the door: where other calls are made for it (valgrind), none lives. Another one, with nothing
 * to look at, shows which. */
static int give_up(struct child *c)
{
        const bool is_first = c->is_new;
        const enum failure failure = c->failure;
        int signal;

        if (c->start_error < 0)
                return c->start_error;
        signal = bury(c);
        if (c->is_open)
                return -ENOSYS;
        if (failure == HELD || (failure == ENDED && signal == SIGKILL))
                return -ECANCELED;
        if (!is_first || start(c, true) < 0)
                return -EPIPE;
        if (tell(c, BLKUP_CAGE_HELLO) && hear(c) == BLKUP_CAGE_DONE) {
                c->is_new = false;
                return -EPIPE;
        }
        return bury(c) == SIGKILL ? -ECANCELED : -ENOSYS;
}

static bool is_name(const char *s, size_t cap)
{
        size_t n = strnlen(s, cap);

        if (n == 0 || n == cap)
                return false;
        for (size_t i = 0; i < n; i++)
                if (!(s[i] >= 'A' && s[i] <= 'Z') && !(s[i] >= '0' && s[i] <= '9') && s[i] != '_')
                        return false;
        return true;
}

/* Values from the child: copied, then each checked. */
static bool unpack(struct blkup_cage *c, const struct blkup_cage_found *from, char names[][BLKUP_CAGE_NAME],
                   struct blkup_found *to)
{
        const uint32_t n_tags = *(const volatile uint32_t *) &from->n_tags,
                       used = *(const volatile uint32_t *) &from->used;
        struct blkup_cage_tag *copy = c->tags;

        blkup_found_reset(to);
        if (n_tags > BLKUP_FOUND_TAGS || used > sizeof(to->text))
                return false;
        if (n_tags == 0)
                return true;
        memcpy(copy, from->tags, n_tags * sizeof(copy[0]));
        memcpy(to->text, from->text, used);
        for (uint32_t i = 0; i < n_tags; i++) {
                size_t at = copy[i].at, len = copy[i].len;

                if (!is_name(copy[i].name, BLKUP_CAGE_NAME) || at + len >= used || to->text[at + len] != '\0')
                        return false;
                memcpy(names[i], copy[i].name, BLKUP_CAGE_NAME);
                to->tags[i].name = names[i];
                to->tags[i].at = (uint16_t) at;
                to->tags[i].len = (uint16_t) len;
        }
        to->n_tags = n_tags;
        to->used = used;
        return true;
}

static bool take_hits(struct blkup_cage *c, struct blkup_probe *p, uint32_t n)
{
        if (n > BLKUP_MAX_HITS)
                return false;
        for (uint32_t i = 0; i < n; i++) {
                struct blkup_cage_hit hit = c->child->shared->hits[i];

                if (hit.format >= blkup_n_formats)
                        return false;
                hit.version[sizeof(hit.version) - 1] = '\0';
                memcpy(c->versions[i], hit.version, sizeof(hit.version));
                p->hits[i] = (struct blkup_hit_info){
                        .type = blkup_formats[hit.format]->name,
                        .usage = blkup_formats[hit.format]->usage,
                        .version = c->versions[i],
                };
        }
        p->n_hits = n;
        return true;
}

static void end_texts(struct blkup_partition *part)
{
        part->type[sizeof(part->type) - 1] = part->uuid[sizeof(part->uuid) - 1] = '\0';
        part->name[sizeof(part->name) - 1] = part->scheme[sizeof(part->scheme) - 1] = '\0';
}

static bool is_plain(const char *s, size_t cap)
{
        size_t n = strnlen(s, cap);

        for (size_t i = 0; i < n; i++)
                if (s[i] < ' ' || s[i] > '~')
                        return false;
        return n < cap;
}

static bool take_candidates(struct blkup_cage *c, struct blkup_probe *p)
{
        uint32_t n = *(const volatile uint32_t *) &c->child->shared->n_candidates;

        if (n > BLKUP_MAX_CANDIDATES)
                return false;
        memcpy(p->candidates, c->child->shared->candidates, n * sizeof(p->candidates[0]));
        for (uint32_t i = 0; i < n; i++) {
                const struct blkup_candidate *k = &p->candidates[i];

                if (!is_plain(k->type, sizeof(k->type)) || !is_plain(k->reason, sizeof(k->reason)) ||
                    !is_plain(k->features, sizeof(k->features)) ||
                    (uint32_t) k->state > BLKUP_CANDIDATE_UNREADABLE ||
                    (uint32_t) k->rule > BLKUP_RULE_OTHER_TABLE || (uint32_t) k->usage > BLKUP_USAGE_OTHER)
                        return false;
        }
        p->n_candidates = n;
        return true;
}

static bool take_result(struct blkup_cage *c, struct blkup_probe *p)
{
        const struct blkup_cage_shared *s = c->child->shared;
        uint32_t verdict = *(const volatile uint32_t *) &s->verdict,
                 n = *(const volatile uint32_t *) &s->n_partitions;

        if (verdict > BLKUP_VERDICT_UNKNOWN || n > BLKUP_MAX_PARTITIONS ||
            !take_hits(c, p, *(const volatile uint32_t *) &s->n_hits) ||
            !unpack(c, &s->values, c->names[0], &p->finds[0]) || !unpack(c, &s->table, c->names[1], p->table))
                return false;
        p->verdict = verdict;
        p->values = p->finds[0].n_tags > 0 ? &p->finds[0] : NULL;
        memcpy(p->partitions, s->partitions, n * sizeof(p->partitions[0]));
        for (uint32_t i = 0; i < n; i++)
                end_texts(&p->partitions[i]);
        p->n_partitions = n;
        p->partitions_cut = s->partitions_cut != 0;
        memcpy(p->trouble, s->trouble, sizeof(p->trouble));
        p->trouble[sizeof(p->trouble) - 1] = '\0';
        return take_candidates(c, p);
}

int blkup_cage_run(struct blkup_cage *c, struct blkup_probe *p)
{
        struct blkup_block_request ahead[BLKUP_MAX_REQUESTS];
        const bool before = is_shared(c->child);
        uint8_t *from = p->arena;
        size_t n = 0;
        int r;

        blkup_engine_reset(p);
        p->view.size = blkup_engine_area(p, &p->base);
        p->read_ns = 0;
        if (before)
                n = read_ahead(p, from, ahead);
        r = take_child(c);
        if (r < 0)
                return r;
        keep_near(c->child);
        if (!before) {
                from = c->child->memory;
                n = read_ahead(p, from, ahead);
        }
        post(c->child, p, from, ahead, n);
        if (!converse(c->child, p, NULL) || !take_result(c, p)) {
                p->values = NULL;
                p->n_hits = p->n_partitions = 0;
                blkup_found_reset(p->table);
                r = give_up(c->child);
        }
        put_back(c->child);
        return r;
}

int blkup_cage_search(struct blkup_cage *c, struct blkup_probe *p, const struct blkup_part_wanted *w,
                      struct blkup_partition *ret)
{
        struct child *child;
        int r = take_child(c);

        if (r < 0)
                return r;
        child = c->child;
        p->view.size = blkup_engine_area(p, &p->base);
        if (!converse(child, p, w))
                r = give_up(child);
        else
                r = *(volatile uint32_t *) &child->shared->n_partitions == 1;
        if (r == 1) {
                memcpy(ret, &child->shared->partitions[0], sizeof(*ret));
                end_texts(ret);
        }
        put_back(child);
        return r;
}
