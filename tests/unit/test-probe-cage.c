/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The cage against a parser that was taken over: a format of this test's own tries what a byte of the device
 * tells it to. Each attempt must end the child, change nothing outside and be said of that device alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/checked.h"
#include "block/memory.h"
#include "probe/cage-mail.h"
#include "probe/cage.h"

#define SIZE 65536u

enum attempt {
        OPEN = 1, WRITE_FILE, EXEC, FORK, SOCKET, KILL_PARENT, MAP, UNLINK, PTRACE_CALL,
        CRASH, HANG, BIG_VALUE, MANY_TAGS, FALSE_NAME, NO_REASON, LAST_ATTEMPT,
};

static char victim[] = "/tmp/blkup-cage-victim.XXXXXX";

/* A value that no honest adder makes. */
static void forge(struct blkup_found *ret, unsigned n_tags, const char *name, uint16_t at, uint16_t len)
{
        ret->n_tags = n_tags;
        for (unsigned i = 0; i < n_tags && i < BLKUP_FOUND_TAGS; i++) {
                ret->tags[i].name = name;
                ret->tags[i].at = at;
                ret->tags[i].len = len;
        }
}

/* Answers in the place of the child that nothing is known, without a word why. */
static void answer_without_a_reason(struct blkup_view *v)
{
        struct blkup_probe *p =
                (struct blkup_probe *) (void *) ((uint8_t *) v - offsetof(struct blkup_probe, view));
        const size_t before = (size_t) blkup_align_up(sizeof(struct blkup_cage_shared), 4096);
        struct blkup_cage_shared *s = (struct blkup_cage_shared *) (void *) (p->arena - before);
        const char done = BLKUP_CAGE_DONE;

        s->verdict = BLKUP_VERDICT_UNKNOWN;
        s->n_hits = s->n_partitions = s->n_candidates = 0;
        s->values.n_tags = s->table.n_tags = 0;
        s->trouble[0] = '\0';
        for (int fd = 0; fd < 1024; fd++) /* one of them is its own */
                (void) !write(fd, &done, 1);
        (void) syscall(SYS_exit, 0);
}

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_bytes b;
        char *const argv[] = { (char *) "/bin/true", NULL };

        (void) hit;
        BLKUP_FETCH(v, 0, 8, &b);
        switch (b.data[4]) {
        case OPEN:
                (void) !open("/etc/passwd", O_RDONLY);
                break;
        case WRITE_FILE:
                (void) !open(victim, O_WRONLY | O_TRUNC);
                break;
        case EXEC:
                (void) execve("/bin/true", argv, argv + 1);
                break;
        case FORK:
                (void) fork();
                break;
        case SOCKET:
                (void) socket(AF_INET, SOCK_STREAM, 0);
                break;
        case KILL_PARENT:
                (void) kill(getppid(), SIGTERM);
                break;
        case MAP:
                (void) !mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                break;
        case UNLINK:
                (void) unlink(victim);
                break;
        case PTRACE_CALL:
                (void) syscall(SYS_ptrace, 16, getppid(), 0, 0);
                break;
        case CRASH:
                __builtin_trap();
        case HANG:
                for (volatile int i = 1; i;)
                        ;
                break;
        case BIG_VALUE:
                forge(ret, 1, "LABEL", 6000, 6000);
                return BLKUP_FOUND;
        case MANY_TAGS:
                forge(ret, 4000, "LABEL", 0, 1);
                return BLKUP_FOUND;
        case FALSE_NAME:
                forge(ret, 1, "a\nb=$(x)", 0, 1);
                return BLKUP_FOUND;
        case NO_REASON:
                answer_without_a_reason(v);
                break;
        default:
                return BLKUP_NOT_THIS;
        }
        /* Still here: the cage does not hold. The answer tells. */
        blkup_found_string(ret, "LABEL", "escaped");
        return BLKUP_FOUND;
}

static const struct blkup_magic magics[] = { { .len = 4, .bytes = "EVIL" } };
extern const struct blkup_format blkup_format_evil;
const struct blkup_format blkup_format_evil = {
        .name = "evil", .usage = BLKUP_USAGE_FILESYSTEM, .magics = magics, .n_magics = 1, .check = check,
};

static uint8_t evil[SIZE], swap[SIZE];

static enum blkup_verdict probe(struct blkup_probe *p, const uint8_t *bytes)
{
        enum blkup_verdict verdict = BLKUP_VERDICT_NOTHING;
        struct blkup_block_memory m;

        blkup_block_memory_init(&m, SIZE, 512);
        assert_int_equal(blkup_block_memory_add(&m.block, 0, bytes, SIZE), 0);
        assert_int_equal(blkup_probe_block(p, &m.block, &verdict, NULL), 0);
        (void) blkup_block_close(&m.block);
        return verdict;
}

static struct blkup_probe *caged(void)
{
        struct blkup_probe *p = blkup_probe_new();
        int r;

        assert_non_null(p);
        r = blkup_probe_set_cage(p, true);
        if (r == -ENOSYS) {
                (void) blkup_probe_unref(p);
                print_message("SKIP: no seccomp on this kernel\n");
                skip();
        }
        assert_int_equal(r, 0);
        blkup_cage_set_timeout(p->cage, 1000);
        return p;
}

static void every_attempt_ends_the_child_and_nothing_else(void **state)
{
        struct blkup_probe *p = caged();
        struct stat st;

        (void) state;
        for (int i = OPEN; i < LAST_ATTEMPT; i++) {
                evil[4] = (uint8_t) i;
                assert_int_equal(probe(p, evil), BLKUP_VERDICT_UNKNOWN);
                assert_int_equal(blkup_probe_n_values(p), 0);
                assert_non_null(strstr(blkup_probe_trouble(p), "damaged"));
                /* The next device has a new child and its right answer. */
                assert_int_equal(probe(p, swap), BLKUP_VERDICT_FOUND);
                assert_string_equal(blkup_probe_lookup(p, "TYPE"), "swap");
                assert_string_equal(blkup_probe_lookup(p, "LABEL"), "a swap");
        }
        assert_int_equal(stat(victim, &st), 0);
        assert_int_equal(st.st_size, 5);
        (void) blkup_probe_unref(p);
}

/* In a container all runs behind a filter, which rules strict mode out: the door is as shut as ever. */
static int attempts_behind_a_filter(void)
{
        struct sock_filter all[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
        struct sock_fprog program = { .len = 1, .filter = all };
        struct blkup_probe *p = blkup_probe_new();
        int result = 0;

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
                return 77;
        if (!p || blkup_probe_set_cage(p, true) < 0)
                return 99;
        blkup_cage_set_timeout(p->cage, 1000);
        for (int i = OPEN; i < LAST_ATTEMPT && result == 0; i++) {
                evil[4] = (uint8_t) i;
                if (probe(p, evil) != BLKUP_VERDICT_UNKNOWN || !strstr(blkup_probe_trouble(p), "damaged") ||
                    probe(p, swap) != BLKUP_VERDICT_FOUND)
                        result = i;
        }
        (void) blkup_probe_unref(p);
        return result;
}

static void a_filter_before_it_opens_nothing(void **state)
{
        struct stat st;
        int status = -1;
        pid_t pid = fork();

        (void) state;
        assert_true(pid >= 0);
        if (pid == 0)
                _exit(attempts_behind_a_filter());
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77) {
                print_message("no seccomp filters here\n");
                skip();
        }
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_int_equal(stat(victim, &st), 0);
        assert_int_equal(st.st_size, 5);
}

/* The same format without a cage gets away with it: the attempts above were real ones. */
static void without_a_cage_it_escapes(void **state)
{
        struct blkup_probe *p = blkup_probe_new();

        (void) state;
        assert_non_null(p);
        evil[4] = OPEN;
        assert_int_equal(probe(p, evil), BLKUP_VERDICT_FOUND);
        assert_string_equal(blkup_probe_lookup(p, "LABEL"), "escaped");
        (void) blkup_probe_unref(p);
}

static void a_run_in_the_cage_answers_like_one_outside(void **state)
{
        struct blkup_probe *in = caged(), *out = blkup_probe_new();
        struct blkup_io_stats a, b;

        (void) state;
        for (unsigned i = 0; i < 300; i++) {
                uint8_t bytes[SIZE];

                memcpy(bytes, swap, SIZE);
                bytes[1024 + i % 64] ^= (uint8_t) (i + 1);
                bytes[4086 + i % 10] ^= (uint8_t) (i % 3);
                assert_int_equal(probe(in, bytes), probe(out, bytes));
                assert_int_equal(blkup_probe_n_values(in), blkup_probe_n_values(out));
                for (size_t k = 0; k < blkup_probe_n_values(in); k++) {
                        assert_string_equal(blkup_probe_value(in, k).name, blkup_probe_value(out, k).name);
                        assert_string_equal(blkup_probe_value(in, k).value, blkup_probe_value(out, k).value);
                }
                blkup_probe_stats(in, &a);
                blkup_probe_stats(out, &b);
                assert_int_equal(a.bytes, b.bytes);
                assert_int_equal(a.sectors, b.sectors);
                assert_int_equal(a.rounds, b.rounds);
        }
        (void) blkup_probe_unref(in);
        (void) blkup_probe_unref(out);
}

/* cmocka's checks belong to one thread: a thread counts what is wrong. */
struct sharer {
        struct blkup_probe *p;
        unsigned number, wrong;
};

static enum blkup_verdict probe_quietly(struct blkup_probe *p, const uint8_t *bytes)
{
        enum blkup_verdict verdict = BLKUP_VERDICT_NOTHING;
        struct blkup_block_memory m;

        blkup_block_memory_init(&m, SIZE, 512);
        if (blkup_block_memory_add(&m.block, 0, bytes, SIZE) < 0 ||
            blkup_probe_block(p, &m.block, &verdict, NULL) < 0)
                verdict = BLKUP_VERDICT_AMBIVALENT;
        (void) blkup_block_close(&m.block);
        return verdict;
}

static void *share(void *arg)
{
        struct sharer *t = arg;
        uint8_t own[SIZE], bad[8] = "EVIL";
        char label[16];

        memcpy(own, swap, SIZE);
        (void) snprintf(label, sizeof(label), "swap %u", t->number);
        memcpy(own + 1024 + 28, label, sizeof(label));
        bad[4] = CRASH;
        for (unsigned i = 0; i < 100; i++) {
                const char *is;

                if (probe_quietly(t->p, own) != BLKUP_VERDICT_FOUND) {
                        t->wrong++;
                        continue;
                }
                is = blkup_probe_lookup(t->p, "LABEL");
                t->wrong += !is || strcmp(is, label) != 0;
                if (i % 25 == 5 * t->number) {
                        memcpy(own, bad, sizeof(bad));
                        t->wrong += probe_quietly(t->p, own) != BLKUP_VERDICT_UNKNOWN;
                        memset(own, 0, sizeof(bad));
                }
        }
        return NULL;
}

static void one_child_serves_several(void **state)
{
        struct sharer t[4] = { { .p = caged() } };
        pthread_t id[4];

        (void) state;
        for (unsigned i = 1; i < 4; i++) {
                t[i] = (struct sharer){ .p = blkup_probe_new(), .number = i };
                assert_non_null(t[i].p);
                assert_int_equal(blkup_probe_share_cage(t[i].p, t[i - 1].p), 0);
        }
        for (unsigned i = 0; i < 4; i++)
                assert_int_equal(pthread_create(&id[i], NULL, share, &t[i]), 0);
        for (unsigned i = 0; i < 4; i++) {
                assert_int_equal(pthread_join(id[i], NULL), 0);
                assert_int_equal(t[i].wrong, 0);
        }
        /* Who made it may go first. */
        (void) blkup_probe_unref(t[0].p);
        assert_int_equal(probe(t[1].p, swap), BLKUP_VERDICT_FOUND);
        for (unsigned i = 1; i < 4; i++)
                (void) blkup_probe_unref(t[i].p);
        /* No child is left. */
        assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
        assert_int_equal(errno, ECHILD);
}

static void *hang(void *arg)
{
        uint8_t bytes[SIZE] = "EVIL";

        bytes[4] = HANG;
        ((struct sharer *) arg)->wrong =
                probe_quietly(((struct sharer *) arg)->p, bytes) != BLKUP_VERDICT_UNKNOWN;
        return NULL;
}

/* Whose child it is may change meanwhile. */
static void *share_again(void *with)
{
        for (unsigned i = 0; i < 40; i++) {
                struct blkup_probe *p = blkup_probe_new();
                const struct timespec moment = { .tv_nsec = 500000 };

                if (p && blkup_probe_share_cage(p, with) == 0)
                        (void) nanosleep(&moment, NULL);
                (void) blkup_probe_unref(p);
        }
        return NULL;
}

/* A child that is busy for long, here over a parser that does not end, is nobody else's delay. */
static void a_busy_child_is_not_waited_for(void **state)
{
        struct sharer bad = { .p = caged() };
        struct blkup_probe *p = blkup_probe_new();
        const struct timespec while_it_hangs = { .tv_nsec = 50000000 };
        struct timespec a, b;
        pthread_t id, other;

        (void) state;
        assert_non_null(p);
        blkup_cage_set_timeout(bad.p->cage, 6000);
        assert_int_equal(blkup_probe_share_cage(p, bad.p), 0);
        assert_int_equal(pthread_create(&id, NULL, hang, &bad), 0);
        (void) nanosleep(&while_it_hangs, NULL);
        assert_int_equal(pthread_create(&other, NULL, share_again, p), 0);
        (void) clock_gettime(CLOCK_MONOTONIC, &a);
        assert_int_equal(probe(p, swap), BLKUP_VERDICT_FOUND);
        (void) clock_gettime(CLOCK_MONOTONIC, &b);
        assert_true(b.tv_sec - a.tv_sec < 5);
        assert_int_equal(pthread_join(other, NULL), 0);
        assert_string_equal(blkup_probe_lookup(p, "LABEL"), "a swap");
        (void) blkup_probe_unref(p);
        assert_int_equal(pthread_join(id, NULL), 0);
        assert_int_equal(bad.wrong, 0);
        (void) blkup_probe_unref(bad.p);
}

static void *give_descriptors_back(void *limit)
{
        const struct timespec moment = { .tv_nsec = 150000000 };

        (void) nanosleep(&moment, NULL);
        return setrlimit(RLIMIT_NOFILE, limit) == 0 ? NULL : limit;
}

/* But where there can be no other now it is. */
static void a_busy_child_is_all_there_is(void **state)
{
        struct sharer bad = { .p = caged() };
        struct blkup_probe *p = blkup_probe_new();
        const struct timespec while_it_hangs = { .tv_nsec = 50000000 };
        struct rlimit before, none;
        enum blkup_verdict verdict;
        pthread_t id, other;

        (void) state;
        assert_non_null(p);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        none = (struct rlimit){ .rlim_cur = 3, .rlim_max = before.rlim_max };
        blkup_cage_set_timeout(bad.p->cage, 400);
        assert_int_equal(blkup_probe_share_cage(p, bad.p), 0);
        assert_int_equal(pthread_create(&id, NULL, hang, &bad), 0);
        (void) nanosleep(&while_it_hangs, NULL);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        assert_int_equal(pthread_create(&other, NULL, give_descriptors_back, &before), 0);
        verdict = probe_quietly(p, swap);
        assert_int_equal(pthread_join(other, NULL), 0);
        assert_int_equal(verdict, BLKUP_VERDICT_FOUND);
        assert_string_equal(blkup_probe_lookup(p, "LABEL"), "a swap");
        (void) blkup_probe_unref(p);
        assert_int_equal(pthread_join(id, NULL), 0);
        assert_int_equal(bad.wrong, 0);
        (void) blkup_probe_unref(bad.p);
}

/* The number of a process's newest child; 0: none. */
static pid_t child_of(pid_t pid)
{
        char path[64];
        int child = 0;
        FILE *f;

        (void) snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int) pid, (int) pid);
        f = fopen(path, "re");
        if (f) {
                while (fscanf(f, "%d", &child) == 1)
                        ; /* ends: with the list */
                fclose(f);
        }
        return child;
}

/* A signal to the whole group is no word about a device. */
static void a_signal_to_all_ends_no_child(void **state)
{
        static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGALRM };
        struct blkup_probe *p = caged();
        pid_t child;

        (void) state;
        assert_int_equal(probe(p, swap), BLKUP_VERDICT_FOUND);
        child = child_of(getpid());
        if (child == 0) {
                (void) blkup_probe_unref(p);
                print_message("SKIP: this kernel does not list children\n");
                skip();
        }
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(signals); i++) {
                assert_int_equal(kill(child, signals[i]), 0);
                assert_int_equal(probe(p, swap), BLKUP_VERDICT_FOUND);
                assert_int_equal(child_of(getpid()), child);
        }
        (void) blkup_probe_unref(p);
}

/* A device during whose reads the child is sent a signal. */
struct struck {
        struct blkup_block block;
        struct blkup_block *under;
        const char *freezer; /* the child goes there instead; NULL: no */
        int signal;
        unsigned n_left; /* so many reads more */
};

static bool write_number(const char *dir, const char *name, const char *value)
{
        char path[128];
        bool good;
        int fd;

        (void) snprintf(path, sizeof(path), "%s/%s", dir, name);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        good = fd >= 0 && write(fd, value, strlen(value)) == (ssize_t) strlen(value);
        (void) blkup_close(fd);
        return good;
}

static int struck_read(struct blkup_block *b, struct blkup_block_request *r, size_t n)
{
        struct struck *s = (struct struck *) (void *) b;
        const struct timespec moment = { .tv_nsec = 2000000 };
        const pid_t child = child_of(getpid());

        if (s->n_left > 0 && child > 0) {
                char number[16];

                s->n_left--;
                (void) snprintf(number, sizeof(number), "%d", (int) child);
                if (s->freezer)
                        (void) write_number(s->freezer, "cgroup.procs", number);
                else
                        (void) kill(child, s->signal);
                (void) nanosleep(&moment, NULL); /* a slow read: the child has ended before it is asked */
        }
        return s->under->ops->read(s->under, r, n);
}

static const struct blkup_block_ops struck_ops = { .name = "struck", .read = struck_read };

static enum blkup_verdict probe_struck(struct blkup_probe *p, int signal, unsigned n, const char *freezer,
                                       const uint8_t *bytes)
{
        enum blkup_verdict verdict = BLKUP_VERDICT_NOTHING;
        struct blkup_block_memory m;
        struct struck s = { .block = { .ops = &struck_ops }, .under = &m.block, .freezer = freezer,
                            .signal = signal, .n_left = n };

        blkup_block_memory_init(&m, SIZE, 512);
        assert_int_equal(blkup_block_memory_add(&m.block, 0, bytes, SIZE), 0);
        s.block.info = m.block.info;
        s.block.align_bytes = m.block.align_bytes;
        assert_int_equal(blkup_probe_block(p, &s.block, &verdict, NULL), 0);
        (void) blkup_block_close(&m.block);
        return verdict;
}

static void is_no_word_about_the_device(const struct blkup_probe *p)
{
        assert_null(strstr(blkup_probe_trouble(p), "damaged"));
        assert_non_null(strstr(blkup_probe_trouble(p), "from outside"));
        assert_true(blkup_probe_try_again(p));
}

static bool lists_children(struct blkup_probe *p)
{
        assert_int_equal(probe(p, swap), BLKUP_VERDICT_FOUND);
        return child_of(getpid()) != 0;
}

static void strike_all(struct blkup_probe *p)
{
        static const int signals[] = { SIGKILL, SIGSTOP };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(signals); i++) {
                /* Once: another child answers, whether the first one had served others or not. */
                for (unsigned k = 0; k < 2; k++) {
                        assert_int_equal(probe_struck(p, signals[i], 1, NULL, swap), BLKUP_VERDICT_FOUND);
                        assert_string_equal(blkup_probe_lookup(p, "LABEL"), "a swap");
                        assert_false(blkup_probe_try_again(p));
                }
                /* Always: nothing is known. */
                assert_int_equal(probe_struck(p, signals[i], 1000, NULL, swap), BLKUP_VERDICT_UNKNOWN);
                is_no_word_about_the_device(p);
                /* What is the device's fault stays that, though a strike came first. */
                evil[4] = CRASH;
                assert_int_equal(probe_struck(p, signals[i], 1, NULL, evil), BLKUP_VERDICT_UNKNOWN);
                assert_non_null(strstr(blkup_probe_trouble(p), "damaged"));
                assert_false(blkup_probe_try_again(p));
                assert_int_equal(probe(p, swap), BLKUP_VERDICT_FOUND);
        }
}

/* The OOM killer, or a kill -9. */
static void who_kills_a_child_damages_no_device(void **state)
{
        struct blkup_probe *p = caged();

        (void) state;
        if (!lists_children(p)) {
                (void) blkup_probe_unref(p);
                print_message("SKIP: this kernel does not list children\n");
                skip();
        }
        strike_all(p);
        p = blkup_probe_unref(p);
        assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
        assert_int_equal(errno, ECHILD);
}

/* A parent whose children are not to be waited for is told what ended its child all the same. */
static void nor_where_children_are_not_waited_for(void **state)
{
        struct blkup_probe *p = caged();

        (void) state;
        if (!lists_children(p)) {
                (void) blkup_probe_unref(p);
                print_message("SKIP: this kernel does not list children\n");
                skip();
        }
        assert_true(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
        strike_all(p);
        for (unsigned i = OPEN; i <= CRASH; i++) {
                evil[4] = (uint8_t) i;
                assert_int_equal(probe(p, evil), BLKUP_VERDICT_UNKNOWN);
                assert_non_null(strstr(blkup_probe_trouble(p), "damaged"));
        }
        (void) blkup_probe_unref(p);
        assert_true(signal(SIGCHLD, SIG_DFL) != SIG_ERR);
}

/* Frozen, a child is not even killed before it is thawed: nobody waits for that. */
static void nor_who_freezes_it(void **state)
{
        struct blkup_probe *p = caged();
        enum blkup_verdict once, always;
        struct timespec a, b;
        char dir[64];
        bool is_thawed;

        (void) state;
        (void) snprintf(dir, sizeof(dir), "/sys/fs/cgroup/freezer/blkup-test-%d", (int) getpid());
        if (!lists_children(p) || mkdir(dir, 0755) < 0) {
                (void) blkup_probe_unref(p);
                print_message("SKIP: no freezer of the first kind here\n");
                skip();
        }
        assert_true(write_number(dir, "freezer.state", "FROZEN"));
        (void) clock_gettime(CLOCK_MONOTONIC, &a);
        once = probe_struck(p, 0, 1, dir, swap);
        always = probe_struck(p, 0, 1000, dir, swap);
        (void) clock_gettime(CLOCK_MONOTONIC, &b);
        is_thawed = write_number(dir, "freezer.state", "THAWED");
        assert_true(is_thawed);
        assert_int_equal(once, BLKUP_VERDICT_FOUND);
        assert_int_equal(always, BLKUP_VERDICT_UNKNOWN);
        is_no_word_about_the_device(p);
        assert_int_equal(probe(p, swap), BLKUP_VERDICT_FOUND);
        p = blkup_probe_unref(p);
        while (waitpid(-1, NULL, __WALL) > 0)
                ; /* ends: they were killed, and now end */
        for (unsigned i = 0; i < 500 && rmdir(dir) < 0; i++)
                (void) nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
        assert_true(b.tv_sec - a.tv_sec < 20); /* three times a second for the answer, and one for the end */
}

/* An orphan stays a zombie until process 1 looks for it, which in some containers it never does. */
static bool is_over(pid_t pid)
{
        char path[64], line[256];
        bool is = true;
        FILE *f;

        assert_true(snprintf(path, sizeof(path), "/proc/%d/status", (int) pid) < (int) sizeof(path));
        f = fopen(path, "re");
        if (!f)
                return true;
        while (fgets(line, sizeof(line), f))
                if (strncmp(line, "State:\t", 7) == 0)
                        is = line[7] == 'Z' || line[7] == 'X';
        (void) fclose(f);
        return is;
}

static void a_child_ends_with_its_parent(void **state, int before)
{
        const struct timespec moment = { .tv_nsec = 10000000 };
        pid_t pid, child = 0;

        (void) state;
        (void) blkup_probe_unref(caged()); /* or it is skipped */
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                struct blkup_probe *p = blkup_probe_new();

                if (!p || blkup_probe_set_cage(p, true) < 0 || probe_quietly(p, swap) != BLKUP_VERDICT_FOUND)
                        _exit(1);
                for (;;)
                        (void) pause();
        }
        for (unsigned i = 0; i < 500 && child == 0; i++) {
                (void) nanosleep(&moment, NULL);
                child = child_of(pid);
        }
        (void) nanosleep(&moment, NULL);
        if (child != 0 && before != 0)
                assert_int_equal(kill(child, before), 0);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        if (child == 0) {
                print_message("SKIP: this kernel does not list children\n");
                skip();
        }
        for (unsigned i = 0; i < 1000 && !is_over(child); i++)
                (void) nanosleep(&moment, NULL);
        assert_true(is_over(child));
}

static void a_child_that_waits_ends_with_its_parent(void **state)
{
        a_child_ends_with_its_parent(state, 0);
}

static void a_child_that_is_stopped_ends_with_its_parent(void **state)
{
        a_child_ends_with_its_parent(state, SIGSTOP);
}

static int compare_u64(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

        return (x > y) - (x < y);
}

static void a_child_answers_soon(void **state)
{
        uint64_t ns[101];

        (void) state;
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(ns); i++) {
                struct timespec a, b;
                struct blkup_probe *p = blkup_probe_new();
                int r;

                (void) clock_gettime(CLOCK_MONOTONIC, &a);
                r = blkup_probe_set_cage(p, true);
                if (r == -ENOSYS) {
                        (void) blkup_probe_unref(p);
                        print_message("SKIP: no seccomp on this kernel\n");
                        skip();
                }
                assert_int_equal(r, 0);
                assert_int_equal(probe(p, swap), BLKUP_VERDICT_FOUND);
                (void) clock_gettime(CLOCK_MONOTONIC, &b);
                ns[i] = (uint64_t) (b.tv_sec - a.tv_sec) * 1000000000 + (uint64_t) b.tv_nsec -
                        (uint64_t) a.tv_nsec;
                (void) blkup_probe_unref(p);
        }
        qsort(ns, BLKUP_ARRAY_SIZE(ns), sizeof(ns[0]), compare_u64);
        /* Printed, and bounded only so that a hang is seen: sanitizers and a busy machine make forks slow. */
        print_message("fork to first answer, median of 101: %u us\n", (unsigned) (ns[50] / 1000));
        assert_true(ns[50] < 200000000);
}

static int make(void **state)
{
        int fd = mkstemp(victim);

        (void) state;
        if (fd < 0 || write(fd, "alive", 5) != 5)
                return -1;
        (void) close(fd);
        memcpy(evil, "EVIL", 4);
        swap[1024] = 1;
        swap[1028] = 15;
        memcpy(swap + 1024 + 28, "a swap", 6);
        memcpy(swap + 4086, "SWAPSPACE2", 10);
        return 0;
}

static int clean(void **state)
{
        (void) state;
        return unlink(victim);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_attempt_ends_the_child_and_nothing_else),
                cmocka_unit_test(a_filter_before_it_opens_nothing),
                cmocka_unit_test(without_a_cage_it_escapes),
                cmocka_unit_test(a_run_in_the_cage_answers_like_one_outside),
                cmocka_unit_test(one_child_serves_several),
                cmocka_unit_test(a_busy_child_is_not_waited_for),
                cmocka_unit_test(a_busy_child_is_all_there_is),
                cmocka_unit_test(a_signal_to_all_ends_no_child),
                cmocka_unit_test(who_kills_a_child_damages_no_device),
                cmocka_unit_test(nor_where_children_are_not_waited_for),
                cmocka_unit_test(nor_who_freezes_it),
                cmocka_unit_test(a_child_that_waits_ends_with_its_parent),
                cmocka_unit_test(a_child_that_is_stopped_ends_with_its_parent),
                cmocka_unit_test(a_child_answers_soon),
        };

        return cmocka_run_group_tests(tests, make, clean);
}
