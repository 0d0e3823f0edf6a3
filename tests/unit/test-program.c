/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/program.h"

static char *no_environment[] = { NULL };

static int run(const char *text, bool has_group)
{
        const char *argv[] = { "/bin/sh", "-c", text, NULL };
        int status = -1;
        pid_t pid;

        assert_int_equal(blkup_program_start("/bin/sh", NULL, has_group, argv, no_environment, &pid), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* A process that blocks signals and ignores SIGPIPE, as the commands do. */
static void signals_are_as_usual(void **state)
{
        sigset_t all, before;

        (void) state;
        assert_int_equal(sigfillset(&all), 0);
        assert_int_equal(sigprocmask(SIG_BLOCK, &all, &before), 0);
        assert_true(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
        assert_int_equal(run("kill -PIPE $$; exit 3", false), -SIGPIPE);
        assert_int_equal(run("kill -TERM $$; exit 3", false), -SIGTERM);
        assert_int_equal(run("exit 3", false), 3);
        assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
        assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
}

static void a_group_of_its_own(void **state)
{
        /* The fifth word of /proc/PID/stat is the group; the name in it has no blanks here. */
        static const char is_leader[] = "read -r a b c d e f </proc/$$/stat && [ \"$e\" = $$ ]";

        (void) state;
        assert_int_equal(run(is_leader, true), 0);
        assert_int_equal(run(is_leader, false), 1);
}

static void what_is_not_there(void **state)
{
        const char *argv[] = { "/nonexistent", NULL };
        pid_t pid = 0;

        (void) state;
        assert_int_equal(blkup_program_start("/nonexistent", NULL, false, argv, no_environment, &pid),
                         -ENOENT);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(signals_are_as_usual),
                cmocka_unit_test(a_group_of_its_own),
                cmocka_unit_test(what_is_not_there),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
