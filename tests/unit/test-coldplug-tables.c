/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What assembly reads: the crypttab, and the metadata of volume groups. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "block/memory.h"
#include "bringup/crypttab.h"
#include "bringup/lvm-text.h"
#include "cold-disks.h"

static void crypttabs(void **state)
{
        static const char text[] =
                "# a comment\n\n"
                "a /dev/sda none luks\n"
                "b UUID=1 /key luks,noauto,readonly,discard,keyfile-offset=512,keyfile-size=64\n"
                "c LABEL=x - header=/h\n"
                "d/e /dev/sda\n"
                "-f /dev/sda\n"
                "g\n"
                "h /dev/sda key\n"
                "i /dev/sda /dev/urandom swap\n"
                "j /dev/sda none keyscript=/bin/x\n"
                "k /dev/sda none keyfile-size=x\n"
                "l /dev/sda none header=h\n"
                "m -x\n";
        struct blkup_crypttab *t = NULL;

        (void) state;
        assert_int_equal(blkup_crypttab_parse(text, sizeof(text) - 1, &t), 0);
        assert_int_equal(t->n, 3);
        assert_int_equal(t->n_bad, 9);
        assert_string_equal(t->lines[0].name, "a");
        assert_null(t->lines[0].key);
        assert_int_equal(t->lines[0].line, 3);
        assert_string_equal(t->lines[1].key, "/key");
        assert_true(t->lines[1].is_noauto && t->lines[1].is_read_only && t->lines[1].allows_discards);
        assert_int_equal(t->lines[1].key_offset, 512);
        assert_int_equal(t->lines[1].key_size, 64);
        assert_string_equal(t->lines[2].header, "/h");
        assert_int_equal(t->bad[0].line, 6);
        (void) blkup_crypttab_free(t);
}

static void lvm_texts(void **state)
{
        static const struct {
                const char *text;
                int code;
        } cases[] = {
                { "vg { id = \"aaaaaa-aaaa-aaaa-aaaa-aaaa-aaaa-aaaaaa\" seqno = 1 }", 0 },
                { "", -EBADMSG },
                { "vg {", -EBADMSG },
                { "vg { }", -EBADMSG },
                { "}", -EBADMSG },
                { "-vg { id = \"aaaaaa-aaaa-aaaa-aaaa-aaaa-aaaa-aaaaaa\" }", -EBADMSG },
                { "v/g { id = \"aaaaaa-aaaa-aaaa-aaaa-aaaa-aaaa-aaaaaa\" }", -EBADMSG },
                { ".. { id = \"aaaaaa-aaaa-aaaa-aaaa-aaaa-aaaa-aaaaaa\" }", -EBADMSG },
                { "vg { id = \"short\" }", -EBADMSG },
                { "vg { id = \"aaaaaa-aaaa-aaaa-aaaa-aaaa-aaaa-aaaa;a\" }", -EBADMSG },
                { "vg { id = \"aaaaaa-aaaa-aaaa-aaaa-aaaa-aaaa-aaaaaa\" seqno = x }", -EBADMSG },
                { "vg { id = \"aaaaaa-aaaa-aaaa-aaaa-aaaa-aaaa-aaaaaa\" } vh { }", -EBADMSG },
                { "vg { id = \"aaaaaa", -EBADMSG },
                { "vg { x = [ \"a\", ", -EBADMSG },
                { "vg { physical_volumes { pv0 { id = 3 } } }", -EBADMSG },
                { "a { b { c { d { e { f { g { h { i { j { k { l { m { n { o { p { q {", -EBADMSG },
        };
        struct blkup_lvm_text *t = NULL;
        struct blkup_block *b;

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                int r = blkup_lvm_text_parse(cases[i].text, strlen(cases[i].text), &t);

                if (r != cases[i].code)
                        fail_msg("%s: %d", cases[i].text, r);
                if (r == 0)
                        t = blkup_lvm_text_free(t);
        }
        /* A whole volume, and each of its bytes changed: an answer, never a wrong one. */
        make_area(areas[4], &disks[4]);
        b = blkup_block_memory_new(SIZE, 512);
        assert_non_null(b);
        assert_int_equal(blkup_block_memory_add(b, 0, areas[4], AREA), 0);
        assert_int_equal(blkup_lvm_text_read(b, &t), 0);
        assert_string_equal(t->vg_name, "vg");
        assert_int_equal(t->seqno, 3);
        assert_int_equal(t->n_pvs, 2);
        assert_string_equal(t->pv_uuids[1], "v11111-1111-1111-1111-1111-1111-111111");
        (void) blkup_lvm_text_free(t);
        for (size_t i = 0; i < 16384; i++) {
                areas[4][i] ^= 0x41;
                t = NULL;
                if (blkup_lvm_text_read(b, &t) == 0 && t) {
                        assert_string_equal(t->vg_name, "vg");
                        assert_int_equal(t->n_pvs, 2);
                        (void) blkup_lvm_text_free(t);
                }
                areas[4][i] ^= 0x41;
        }
        (void) blkup_block_close(b);
}

/* As the shell's <(program) gives it: the program has not written yet when the file is opened. */
static void a_crypttab_from_a_pipe(void **state)
{
        static const char text[] = "a /dev/sda none luks\n";
        struct blkup_crypttab *t = NULL;
        int fds[2], status;
        char path[64];
        pid_t pid;

        (void) state;
        assert_int_equal(pipe(fds), 0);
        pid = fork();
        if (pid == 0) {
                (void) close(fds[0]);
                (void) usleep(200000);
                _exit(write(fds[1], text, sizeof(text) - 1) == sizeof(text) - 1 ? 0 : 1);
        }
        assert_true(pid > 0);
        (void) close(fds[1]);
        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
        assert_int_equal(blkup_crypttab_load(path, &t, NULL), 0);
        assert_int_equal(t->n, 1);
        (void) blkup_crypttab_free(t);
        (void) close(fds[0]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(crypttabs),
                cmocka_unit_test(a_crypttab_from_a_pipe),
                cmocka_unit_test(lvm_texts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
