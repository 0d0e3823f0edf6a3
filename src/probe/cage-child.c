/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The child of the cage. Before the door closes it lets go of everything but its socket; behind it there are
 * three system calls: read, write, exit. So nothing here, and nothing in the engine below, may allocate, ask
 * the time or print.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe/cage-mail.h"

/* A filter has to look whose numbers it is given: those of other architectures mean other calls. */
#if defined(__x86_64__)
#define ARCH_HERE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH_HERE AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define ARCH_HERE AUDIT_ARCH_RISCV64
#else
#define ARCH_HERE 0 /* none is that: strict mode or nothing */
#endif

struct cage_block {
        struct blkup_block block;
        struct blkup_cage_shared *shared;
        const uint8_t *arena;
        int fd;
        uint32_t n_ahead; /* answers that came with the question */
};

/* exit_group(), which _exit() makes, is not among the three. */
static _Noreturn void leave(int code)
{
        for (;;)
                (void) syscall(SYS_exit, code);
}

static void say(int fd, char word)
{
        if (write(fd, &word, 1) != 1)
                leave(0);
}

static char hear(int fd)
{
        char word;

        /* The parent closed its end: there is nobody left to work for. */
        if (read(fd, &word, 1) != 1)
                leave(0);
        return word;
}

static uint64_t place_of(const struct cage_block *c, const struct blkup_block_request *r)
{
        return (uint64_t) ((const uint8_t *) r->to - c->arena);
}

/* The parent plans as the engine does, so the first batch is usually there. */
static bool is_there(struct cage_block *c, const struct blkup_block_request *r, size_t n)
{
        bool is_same = n == c->n_ahead;

        for (size_t i = 0; i < n && is_same; i++)
                is_same = c->shared->requests[i].at == r[i].at && c->shared->requests[i].len == r[i].len &&
                          c->shared->requests[i].to == place_of(c, &r[i]);
        c->n_ahead = 0;
        return is_same;
}

static int cage_read(struct blkup_block *b, struct blkup_block_request *r, size_t n)
{
        struct cage_block *c = (struct cage_block *) (void *) b;

        if (n > BLKUP_MAX_REQUESTS)
                return -E2BIG;
        if (!is_there(c, r, n)) {
                for (size_t i = 0; i < n; i++)
                        c->shared->requests[i] = (struct blkup_cage_request){
                                .at = r[i].at,
                                .len = r[i].len,
                                .to = place_of(c, &r[i]),
                        };
                c->shared->n_requests = (uint32_t) n;
                say(c->fd, BLKUP_CAGE_READ);
                (void) hear(c->fd);
        }
        for (size_t i = 0; i < n; i++) {
                r[i].done_bytes = c->shared->requests[i].done_bytes;
                r[i].ns = c->shared->requests[i].ns;
        }
        return 1;
}

static void take_block(struct cage_block *c)
{
        c->block.info = c->shared->info;
        c->block.align_bytes = c->shared->align_bytes;
        c->block.one_submission = c->shared->one_submission;
}

static int cage_set_direct(struct blkup_block *b, bool direct)
{
        struct cage_block *c = (struct cage_block *) (void *) b;

        c->shared->direct = direct;
        say(c->fd, BLKUP_CAGE_SET_DIRECT);
        (void) hear(c->fd);
        take_block(c);
        return c->shared->rc;
}

static const struct blkup_block_ops cage_ops = { .name = "cage",
                                                 .read = cage_read,
                                                 .set_direct = cage_set_direct };

static void cage_line(void *to, const char *text)
{
        struct cage_block *c = to;

        (void) strncpy(c->shared->line, text, sizeof(c->shared->line) - 1);
        c->shared->line[sizeof(c->shared->line) - 1] = '\0';
        say(c->fd, BLKUP_CAGE_LINE);
        (void) hear(c->fd);
}

static void pack(const struct blkup_found *from, struct blkup_cage_found *to)
{
        to->n_tags = from ? from->n_tags : 0;
        to->used = from ? from->used : 0;
        if (!from)
                return;
        for (unsigned i = 0; i < from->n_tags; i++) {
                memset(to->tags[i].name, 0, BLKUP_CAGE_NAME);
                (void) strncpy(to->tags[i].name, from->tags[i].name, BLKUP_CAGE_NAME - 1);
                to->tags[i].at = from->tags[i].at;
                to->tags[i].len = from->tags[i].len;
        }
        memcpy(to->text, from->text, from->used);
}

static void pack_hits(const struct blkup_probe *p, struct blkup_cage_shared *s)
{
        s->n_hits = p->n_hits;
        for (unsigned i = 0; i < p->n_hits; i++) {
                unsigned f = 0;

                while (f + 1 < blkup_n_formats && strcmp(blkup_formats[f]->name, p->hits[i].type) != 0)
                        f++;
                s->hits[i].format = f;
                memset(s->hits[i].version, 0, BLKUP_CAGE_VERSION);
                (void) strncpy(s->hits[i].version, p->hits[i].version, BLKUP_CAGE_VERSION - 1);
        }
}

static void run(struct blkup_probe *p, struct blkup_cage_shared *s)
{
        blkup_engine_run(p);
        s->verdict = p->verdict;
        pack_hits(p, s);
        pack(p->values, &s->values);
        pack(p->table, &s->table);
        memcpy(s->trouble, p->trouble, sizeof(s->trouble));
        memcpy(s->partitions, p->partitions, p->n_partitions * sizeof(s->partitions[0]));
        s->n_partitions = p->n_partitions;
        s->partitions_cut = p->partitions_cut;
        memcpy(s->candidates, p->candidates, p->n_candidates * sizeof(s->candidates[0]));
        s->n_candidates = p->n_candidates;
}

/* Everything that is not needed behind the door. */
static void let_go(const struct blkup_cage_birth *birth)
{
        const int fd = birth->fd;
        struct sigaction usual = { .sa_handler = SIG_DFL };
        /* The first is SIGXCPU, which says what it is. */
        const struct rlimit none = { 0, 0 }, enough = { BLKUP_CAGE_CPU_S, BLKUP_CAGE_CPU_S + 1 };
        static const int deadly[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS, SIGXCPU };
        sigset_t others;
        pid_t parent;

        for (int i = 1; birth->has_handlers && i < NSIG; i++)
                (void) sigaction(i, &usual, NULL);
        /* What ends the parent by its group (a terminal, a service that is stopped) is the parent's to take:
         * a child that died of it would speak against the device. */
        (void) sigfillset(&others);
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(deadly); i++)
                (void) sigdelset(&others, deadly[i]);
        (void) sigprocmask(SIG_SETMASK, &others, NULL);
        /* A child that waits sees the end of its parent by the socket; not one that was stopped, or whose
         * parent's end waits for a device. This signal follows the thread that forked, which may end while
         * others still probe: they take another child then. */
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        parent = getppid(); /* 0: one outside of a new pid namespace */
        if (parent != 0 && parent != birth->parent)
                leave(0);
        (void) setrlimit(RLIMIT_CPU, &enough);
        (void) prctl(PR_SET_DUMPABLE, 0);
        (void) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        (void) setrlimit(RLIMIT_CORE, &none);
        /* Inherited descriptors: strict mode would let the child read and write them. */
#ifdef SYS_close_range
        if ((fd == 0 || syscall(SYS_close_range, 0U, (unsigned) fd - 1, 0U) == 0) &&
            syscall(SYS_close_range, (unsigned) fd + 1, ~0U, 0U) == 0)
                return;
#endif
        for (int i = 0; i < 65536; i++)
                if (i != fd)
                        (void) close(i);
}

/* Strict mode; where the process is behind a filter already (a container's), which forbids that, a filter
 * that says the same: the first call that is none of the three kills. The filter costs more, and kills with
 * a signal of its own. */
static bool shut_door(bool is_told_apart)
{
        struct sock_filter three[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH_HERE, 0, 5),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 2, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
        };
        struct sock_fprog program = { .len = BLKUP_ARRAY_SIZE(three), .filter = three };

        if (is_told_apart && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0)
                return true;
        return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0 ||
               prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

void blkup_cage_child(const struct blkup_cage_birth *birth, struct blkup_cage_shared *s, void *memory)
{
        const int fd = birth->fd;
        struct blkup_probe *p;
        struct cage_block c = { .block = { .ops = &cage_ops }, .shared = s, .arena = memory, .fd = fd };

        blkup_cage_populate(s, memory, true);
        p = blkup_probe_build(memory);
        p->is_caged = true;
        let_go(birth);
        if (!shut_door(birth->is_told_apart)) {
                say(fd, BLKUP_CAGE_NO_SECCOMP);
                leave(1);
        }
        for (;;) { /* ends: hear() leaves when the parent is gone */
                char word = hear(fd);

                if (word == BLKUP_CAGE_HELLO) {
                        say(fd, BLKUP_CAGE_DONE);
                        continue;
                }
                /* What else a plan follows from is in its key. */
                if (memcmp(p->excluded, s->excluded, sizeof(p->excluded)) != 0) {
                        memcpy(p->excluded, s->excluded, sizeof(p->excluded));
                        blkup_plan_forget(p);
                }
                p->usages = s->usages;
                p->flags = s->flags;
                p->area_at = s->area_at;
                p->area_size = s->area_size;
                p->session = s->session;
                p->budget = s->budget;
                p->may_switch = s->may_switch;
                p->debug = s->wants_lines ? cage_line : NULL;
                p->debug_to = &c;
                take_block(&c);
                p->block = &c.block;
                c.n_ahead = word == BLKUP_CAGE_RUN ? s->n_ahead : 0;
                if (word == BLKUP_CAGE_RUN)
                        run(p, s);
                else
                        s->n_partitions = blkup_part_entry_search(p, &s->wanted, &s->partitions[0]);
                say(fd, BLKUP_CAGE_DONE);
        }
}
