/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The semaphore when threads come and go, processes fork, memory ends and the kernel refuses. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "rwsem-other.h"

/* ---- the n-th allocation of slots fails: the linker takes this one before libc's ---- */

static long fail_slots_after = -1;

void *aligned_alloc(size_t alignment, size_t size)
{
        void *p = NULL;

        if (fail_slots_after >= 0 && fail_slots_after-- == 0)
                return NULL;
        return posix_memalign(&p, alignment, size) == 0 ? p : NULL;
}

/* ---- threads come and go ---- */

static void test_more_threads_than_slots(void **state)
{
        enum { N = 150 }; /* chunks of 32, 32, 64 and 128 */
        struct blkup_rwsem *sem = make(BLKUP_RWSEM_AUTO, 1);
        static struct other o[N];
        uint32_t highest = 0, again = 0;

        (void) state;
        for (int i = 0; i < N; i++) {
                other_start(&o[i], sem);
                assert_int_equal(other_do(&o[i], READ), 0);
                for (int j = 0; j < i; j++)
                        assert_int_not_equal(o[i].self, o[j].self);
                if (o[i].self > highest)
                        highest = o[i].self;
        }
        assert_true(highest >= N - 1);
        for (int i = 0; i < N; i++) {
                assert_int_equal(blkup_rwsem_try_write_lock(sem), -EBUSY); /* the last reader is enough */
                assert_int_equal(other_do(&o[i], READ_UNLOCK), 0);
        }
        assert_int_equal(blkup_rwsem_write_lock(sem), 0);
        for (int i = 0; i < N; i++)
                assert_int_equal(other_do(&o[i], TRY_READ), -EBUSY);
        blkup_rwsem_write_unlock(sem);
        for (int i = 0; i < N; i++)
                other_quit(&o[i]);

        /* numbers are given out again: memory does not grow with the threads that ever were */
        for (int i = 0; i < 2 * N; i++) {
                other_start(&o[0], sem);
                assert_int_equal(other_do(&o[0], READ), 0);
                if (o[0].self > again)
                        again = o[0].self;
                assert_int_equal(other_do(&o[0], READ_UNLOCK), 0);
                other_quit(&o[0]);
        }
        assert_true(again < 32);
        sem = blkup_rwsem_unref(sem);
}

static void test_no_memory(void **state)
{
        struct blkup_rwsem *sem = NULL;
        enum { N = 40 };
        static struct other o[N];
        int refused = 0;

        (void) state;
        for (long n = 0; n < 2; n++) {
                fail_slots_after = n;
                assert_int_equal(blkup_rwsem_new(&sem, NULL, NULL), -ENOMEM);
                fail_slots_after = -1;
                assert_null(sem);
        }
        sem = make(BLKUP_RWSEM_AUTO, 0);
        for (int i = 0; i < N; i++) {
                other_start(&o[i], sem);
                fail_slots_after = 0; /* the next chunk */
                if (other_do(&o[i], READ) == -ENOMEM)
                        refused++;
                else
                        assert_int_equal(other_do(&o[i], READ_UNLOCK), 0);
                fail_slots_after = -1;
                /* refused or not, the thread can go on */
                assert_int_equal(other_do(&o[i], READ), 0);
                assert_int_equal(other_do(&o[i], READ_UNLOCK), 0);
        }
        assert_int_equal(refused, 1);
        assert_int_equal(blkup_rwsem_try_write_lock(sem), 0);
        blkup_rwsem_write_unlock(sem);
        for (int i = 0; i < N; i++)
                other_quit(&o[i]);
        sem = blkup_rwsem_unref(sem);
}

static void test_thread_ends_while_reading(void **state)
{
        (void) state;
        for (size_t i = 0; i < N_KINDS; i++) {
                struct blkup_rwsem *sem = make_kind(&kinds[i]);
                struct blkup_rwsem_stats st;
                struct other o, w;
                uint32_t lost;

                if (!sem)
                        continue;
                other_start(&o, sem);
                other_start(&w, sem);
                assert_int_equal(other_do(&o, READ), 0);
                lost = o.self;
                /* one that waits already, one that comes later */
                other_begin(&w, WRITE, 0);
                other_wait_until_asleep(&w);
                other_quit(&o);
                assert_int_equal(other_end(&w), -EOWNERDEAD);
                assert_int_equal(blkup_rwsem_write_lock(sem), -EOWNERDEAD);
                assert_int_equal(blkup_rwsem_write_lock_until(sem, blkup_now_ns() + MS), -EOWNERDEAD);
                assert_int_equal(blkup_rwsem_try_write_lock(sem), -EOWNERDEAD);
                /* its reading harmed nobody: others may read */
                assert_int_equal(blkup_rwsem_read_lock(sem), 0);
                assert_int_equal(blkup_rwsem_try_upgrade(sem), -EOWNERDEAD);
                blkup_rwsem_read_unlock(sem);
                blkup_rwsem_get_stats(sem, &st);
                assert_int_equal(st.lost_readers, 1);
                /* and its number is nobody's again */
                other_start(&o, sem);
                assert_int_equal(other_do(&o, READ), 0);
                assert_int_not_equal(o.self, lost);
                assert_int_equal(other_do(&o, READ_UNLOCK), 0);
                other_quit(&o);
                other_quit(&w);
                sem = blkup_rwsem_unref(sem);
        }
}

static void test_thread_ends_while_writing(void **state)
{
        struct blkup_rwsem *sem = make(BLKUP_RWSEM_AUTO, 0);
        struct blkup_rwsem_stats st;
        struct other o, r, w1, w2;

        (void) state;
        other_start(&o, sem);
        other_start(&r, sem);
        other_start(&w1, sem);
        other_start(&w2, sem);
        assert_int_equal(other_do(&o, WRITE), 0);
        other_begin(&r, READ, 0);
        other_begin(&w1, WRITE, 0);
        other_wait_until_asleep(&w1);
        other_begin(&w2, WRITE, 0);
        other_wait_until_asleep(&r);
        other_wait_until_asleep(&w2);
        other_quit(&o);
        assert_int_equal(other_end(&r), -EOWNERDEAD);
        assert_int_equal(other_end(&w1), -EOWNERDEAD);
        assert_int_equal(other_end(&w2), -EOWNERDEAD);
        assert_int_equal(blkup_rwsem_read_lock(sem), -EOWNERDEAD);
        assert_int_equal(blkup_rwsem_try_read_lock(sem), -EOWNERDEAD);
        assert_int_equal(blkup_rwsem_write_lock(sem), -EOWNERDEAD);
        blkup_rwsem_get_stats(sem, &st);
        assert_int_equal(st.lost_writers, 1);
        other_quit(&r);
        other_quit(&w1);
        other_quit(&w2);
        sem = blkup_rwsem_unref(sem);
}

/* ---- fork ---- */

#define CHECK(what)                                                        \
        do {                                                               \
                if (!(what)) {                                             \
                        fprintf(stderr, "child: line %d: %s\n", __LINE__, #what); \
                        _exit(1);                                          \
                }                                                          \
        } while (0)

static void wait_for_child(pid_t pid)
{
        int status = 0;

        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_fork(void **state)
{
        (void) state;
        for (size_t i = 0; i < N_KINDS; i++) {
                struct blkup_rwsem *reading = make_kind(&kinds[i]), *waited = make_kind(&kinds[i]);
                struct blkup_rwsem *writing = make_kind(&kinds[i]), *mine = make_kind(&kinds[i]);
                struct blkup_rwsem *mine_read = make_kind(&kinds[i]);
                struct other a, b, c, d;
                pid_t pid;

                if (!reading)
                        continue;
                other_start(&a, reading);
                other_start(&b, waited);
                other_start(&c, writing);
                other_start(&d, mine);
                assert_int_equal(other_do(&a, READ), 0);         /* a reader that the child has not */
                assert_int_equal(blkup_rwsem_read_lock(waited), 0);
                other_begin(&b, WRITE, 0);                       /* a writer that waits for this thread */
                other_wait_until_asleep(&b);
                assert_int_equal(other_do(&c, WRITE), 0);        /* a writer half-way */
                assert_int_equal(blkup_rwsem_write_lock(mine), 0);
                other_begin(&d, READ, 0);                        /* sleeps on this thread's write lock */
                other_wait_until_asleep(&d);
                assert_int_equal(blkup_rwsem_read_lock(mine_read), 0);

                fflush(NULL);
                pid = fork();
                if (pid == 0) {
                        struct blkup_rwsem_stats st;

                        CHECK(blkup_rwsem_write_lock(reading) == 0);
                        blkup_rwsem_write_unlock(reading);
                        CHECK(blkup_rwsem_read_lock(waited) == 0); /* nested in the one before the fork */
                        blkup_rwsem_read_unlock(waited);
                        blkup_rwsem_read_unlock(waited);
                        CHECK(blkup_rwsem_write_lock(waited) == 0);
                        blkup_rwsem_write_unlock(waited);
                        CHECK(blkup_rwsem_write_lock(writing) == -EOWNERDEAD);
                        CHECK(blkup_rwsem_read_lock(writing) == -EOWNERDEAD);
                        blkup_rwsem_get_stats(writing, &st);
                        CHECK(st.lost_writers == 1);
                        CHECK(blkup_rwsem_read_lock(mine) == -EDEADLK);
                        blkup_rwsem_write_unlock(mine);
                        CHECK(blkup_rwsem_read_lock(mine) == 0);
                        blkup_rwsem_read_unlock(mine);
                        CHECK(blkup_rwsem_write_lock(mine_read) == -EDEADLK);
                        blkup_rwsem_read_unlock(mine_read);
                        CHECK(blkup_rwsem_write_lock(mine_read) == 0);
                        _exit(0);
                }
                wait_for_child(pid);

                /* nothing of it happened here */
                assert_int_equal(blkup_rwsem_try_write_lock(reading), -EBUSY);
                blkup_rwsem_read_unlock(waited);
                assert_int_equal(other_end(&b), 0);
                assert_int_equal(other_do(&b, WRITE_UNLOCK), 0);
                assert_int_equal(blkup_rwsem_try_read_lock(writing), -EBUSY);
                blkup_rwsem_write_unlock(mine);
                assert_int_equal(other_end(&d), 0);
                assert_int_equal(other_do(&d, READ_UNLOCK), 0);
                assert_int_equal(other_do(&a, READ_UNLOCK), 0);
                assert_int_equal(other_do(&c, WRITE_UNLOCK), 0);
                blkup_rwsem_read_unlock(mine_read);
                other_quit(&a);
                other_quit(&b);
                other_quit(&c);
                other_quit(&d);
                blkup_rwsem_unref(reading);
                blkup_rwsem_unref(waited);
                blkup_rwsem_unref(writing);
                blkup_rwsem_unref(mine);
                blkup_rwsem_unref(mine_read);
        }
}

/* ---- membarrier refused ---- */

static int refuse_membarrier(int with_errno)
{
        struct sock_filter f[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned) with_errno),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog p = { .len = sizeof(f) / sizeof(f[0]), .filter = f };

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p) < 0 ? -errno : 0;
}

/* Run in a process of its own, before anything was set up: `test-rwsem --refused ERRNO`. */
static int refused_main(const char *with_errno)
{
        struct blkup_rwsem_options opt = { .policy = BLKUP_RWSEM_EXPEDITED };
        struct blkup_rwsem *sem = NULL;
        struct blkup_error err = { .code = 0 };

        if (refuse_membarrier(atoi(with_errno)) < 0)
                return 77;
        CHECK(blkup_rwsem_setup(NULL) == 0);
        CHECK(blkup_rwsem_new(&sem, &opt, &err) == -EOPNOTSUPP);
        CHECK(strstr(err.message, "policy expedited") != NULL);
        opt.policy = BLKUP_RWSEM_GLOBAL;
        CHECK(blkup_rwsem_new(&sem, &opt, NULL) == -EOPNOTSUPP);
        CHECK(blkup_rwsem_new(&sem, NULL, NULL) == 0);
        CHECK(blkup_rwsem_get_policy(sem) == BLKUP_RWSEM_FENCE);
        CHECK(blkup_rwsem_write_lock(sem) == 0);
        blkup_rwsem_write_unlock(sem);
        CHECK(blkup_rwsem_read_lock(sem) == 0);
        blkup_rwsem_read_unlock(sem);
        blkup_rwsem_unref(sem);
        return 0;
}

static void test_refused_from_the_start(void **state)
{
        static const char *const errnos[] = { "38",
                                              "1" }; /* ENOSYS: an old kernel; EPERM: a container's filter */

        (void) state;
        for (size_t i = 0; i < 2; i++) {
                int status = 0;
                pid_t pid;

                fflush(NULL);
                pid = fork();
                assert_true(pid >= 0);
                if (pid == 0) {
                        execl("/proc/self/exe", "test-rwsem", "--refused", errnos[i], (char *) NULL);
                        _exit(126);
                }
                assert_int_equal(waitpid(pid, &status, 0), pid);
                assert_true(WIFEXITED(status));
                if (WEXITSTATUS(status) == 77) {
                        printf("SKIP: no seccomp filters here\n");
                        skip();
                }
                assert_int_equal(WEXITSTATUS(status), 0);
        }
}

/* A filter that comes later: the writer must not go in without its barrier, and the lock stays usable to
 * readers. */
static void test_refused_later(void **state)
{
        int status = 0;
        pid_t pid;

        (void) state;
        if (IS_TSAN || !blkup_barrier_query().has_expedited) {
                printf("SKIP: no expedited membarrier here\n");
                skip();
        }
        fflush(NULL);
        pid = fork();
        if (pid == 0) {
                struct blkup_rwsem *sem = make(BLKUP_RWSEM_EXPEDITED, 1);

                if (refuse_membarrier(EPERM) < 0)
                        _exit(77);
                CHECK(blkup_rwsem_read_lock(sem) == 0); /* opens the lock: now a writer needs a barrier */
                blkup_rwsem_read_unlock(sem);
                CHECK(blkup_rwsem_write_lock(sem) == -EPERM);
                CHECK(blkup_rwsem_try_write_lock(sem) == -EPERM);
                CHECK(blkup_rwsem_read_lock(sem) == 0);
                CHECK(blkup_rwsem_try_upgrade(sem) == -EPERM);
                blkup_rwsem_read_unlock(sem);
                CHECK(blkup_rwsem_write_lock(sem) == -EPERM);
                _exit(0);
        }
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77) {
                printf("SKIP: no seccomp filters here\n");
                skip();
        }
        assert_int_equal(WEXITSTATUS(status), 0);
}

int main(int argc, char **argv)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_more_threads_than_slots),
                cmocka_unit_test(test_no_memory),
                cmocka_unit_test(test_thread_ends_while_reading),
                cmocka_unit_test(test_thread_ends_while_writing),
                cmocka_unit_test(test_fork),
                cmocka_unit_test(test_refused_from_the_start),
                cmocka_unit_test(test_refused_later),
        };

        if (argc == 3 && strcmp(argv[1], "--refused") == 0)
                return refused_main(argv[2]);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
