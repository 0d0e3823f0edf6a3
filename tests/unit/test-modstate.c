/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fail-alloc.h"
#include "fake-root.h"
#include "host/modstate.h"

static const char sample[] = "ext4 995328 2 - Live 0xffffffffc0a5b000\n"
                             "mbcache 16384 1 ext4, Live 0x0000000000000000\n"
                             "crc32c_generic 16384 0 - Loading 0x0000000000000000 (+)\n"
                             "libcrc32c 12288 3 xfs,btrfs,nf_tables, Live 0x0000000000000000\n"
                             "vendor 4096 1 [permanent], Live 0x0000000000000000 (POE)\n"
                             "both 4096 2 user,[permanent], Unloading 0x0000000000000000 (-)\n"
                             "old 8192 - - Live 0x0\n"
                             "later 8192 7 - Parked 0x0\n";

static struct blkup_modstates *parse(const char *text)
{
        struct blkup_modstates *t = NULL;

        assert_int_equal(blkup_modstates_parse(text, strlen(text), &t), 0);
        return t;
}

static void every_field_is_read(void **state)
{
        struct blkup_modstates *t = parse(sample);
        const struct blkup_modstate *m;

        (void) state;
        assert_int_equal(t->n, 8);
        assert_int_equal(t->n_bad_lines, 0);
        m = &t->modules[0];
        assert_string_equal(m->name, "ext4");
        assert_int_equal(m->size_bytes, 995328);
        assert_int_equal(m->refcount, 2);
        assert_int_equal(m->n_users, 0);
        assert_null(m->users);
        assert_int_equal(m->state, BLKUP_MODSTATE_LIVE);
        assert_false(m->is_permanent);
        assert_string_equal(m->taints, "");
        m = &t->modules[1];
        assert_int_equal(m->n_users, 1);
        assert_string_equal(m->users[0], "ext4");
        m = &t->modules[2];
        assert_int_equal(m->state, BLKUP_MODSTATE_COMING);
        assert_string_equal(m->taints, "+");
        m = &t->modules[3];
        assert_int_equal(m->n_users, 3);
        assert_string_equal(m->users[0], "xfs");
        assert_string_equal(m->users[1], "btrfs");
        assert_string_equal(m->users[2], "nf_tables");
        m = &t->modules[4];
        assert_true(m->is_permanent);
        assert_int_equal(m->n_users, 0);
        assert_string_equal(m->taints, "POE");
        m = &t->modules[5];
        assert_true(m->is_permanent);
        assert_int_equal(m->n_users, 1);
        assert_string_equal(m->users[0], "user");
        assert_int_equal(m->state, BLKUP_MODSTATE_GOING);
        assert_int_equal(t->modules[6].refcount, -1);
        assert_int_equal(t->modules[7].state, BLKUP_MODSTATE_UNKNOWN);
        assert_ptr_equal(blkup_modstates_by_name(t, "crc32c-generic"), &t->modules[2]);
        assert_ptr_equal(blkup_modstates_by_name(t, "crc32c_generic"), &t->modules[2]);
        assert_null(blkup_modstates_by_name(t, "crc32c"));
        assert_null(blkup_modstates_by_name(NULL, "ext4"));
        blkup_modstates_free(t);
        assert_null(blkup_modstates_free(NULL));
}

static void a_bad_line_costs_that_line_only(void **state)
{
        static const char *const bad[] = {
                "",
                "x",
                "x 1",
                "x 1 2",
                "x 1 2 -",
                "x y 2 - Live 0x0",
                "x -1 2 - Live 0x0",
                "x 1 y - Live 0x0",
                "x 1 2147483648 - Live 0x0",
                "x 18446744073709551616 2 - Live 0x0",
                "   ",
        };

        (void) state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                char text[256];
                struct blkup_modstates *t;

                (void) snprintf(text, sizeof(text), "a 1 1 b, Live 0x0\n%s\nc 1 1 d, Live 0x0", bad[i]);
                t = parse(text);
                if (t->n != 2 || t->n_bad_lines != 1)
                        fail_msg("line \"%s\": %zu modules", bad[i], t->n);
                assert_string_equal(t->modules[1].users[0], "d");
                blkup_modstates_free(t);
        }
        static const char nul[] = "a 1 1 \0b, Live 0x0\nc 1 1 - Live 0x0\n";
        struct blkup_modstates *t;

        assert_int_equal(blkup_modstates_parse(nul, sizeof(nul) - 1, &t), 0);
        assert_int_equal(t->n, 1);
        assert_int_equal(t->n_bad_lines, 1);
        blkup_modstates_free(t);
        assert_int_equal(blkup_modstates_parse(NULL, 0, &t), 0);
        assert_int_equal(t->n, 0);
        blkup_modstates_free(t);
}

static void many_users_stay_with_their_module(void **state)
{
        char *text = malloc(400000);
        size_t at = 0;
        struct blkup_modstates *t;

        (void) state;
        for (unsigned i = 0; i < 200; i++) {
                at += (size_t) sprintf(text + at, "m%u 1 %u ", i, i);
                for (unsigned u = 0; u < i; u++)
                        at += (size_t) sprintf(text + at, "u%u_%u,", i, u);
                at += (size_t) sprintf(text + at, "%s Live 0x0\n", i ? "" : "-");
        }
        t = parse(text);
        assert_int_equal(t->n, 200);
        for (unsigned i = 0; i < 200; i++) {
                assert_int_equal(t->modules[i].n_users, i);
                for (unsigned u = 0; u < i; u++) {
                        char user[32];

                        (void) snprintf(user, sizeof(user), "u%u_%u", i, u);
                        assert_string_equal(t->modules[i].users[u], user);
                }
        }
        blkup_modstates_free(t);
        free(text);
}

static void limits_are_errors(void **state)
{
        size_t n = BLKUP_MODSTATE_MAX_BYTES + 1, each = 16;
        char *text = malloc(n);
        struct blkup_modstates *t = NULL;

        (void) state;
        for (size_t i = 0; i + each <= n; i += each)
                memcpy(text + i, "abc 1 0 - Live \n", each);
        assert_int_equal(blkup_modstates_parse(text, n, &t), -EFBIG);
        assert_int_equal(blkup_modstates_parse(text, (BLKUP_MODSTATE_MAX_MODULES + 1) * each, &t), -E2BIG);
        assert_null(t);
        assert_int_equal(blkup_modstates_parse(text, BLKUP_MODSTATE_MAX_MODULES * each, &t), 0);
        assert_int_equal(t->n, BLKUP_MODSTATE_MAX_MODULES);
        t = blkup_modstates_free(t);
        /* 2^20 users are more than a line may hold; spread over lines they hit their own limit. */
        for (size_t i = 0; i < n; i++)
                text[i] = i % 2 ? ',' : 'u';
        memcpy(text, "abc 1 0 ", 8);
        assert_int_equal(blkup_modstates_parse(text, BLKUP_MODSTATE_MAX_LINE + 1ul, &t), 0);
        assert_int_equal(t->n, 0);
        assert_int_equal(t->n_bad_lines, 1);
        t = blkup_modstates_free(t);
        for (size_t i = 0; i < 4u << 20; i += 1u << 19) {
                memcpy(text + i, "abc 1 0 ", 8);
                memcpy(text + i + (1u << 19) - 8, " Live 0\n", 8);
        }
        assert_int_equal(blkup_modstates_parse(text, 4u << 20, &t), -E2BIG);
        assert_null(t);
        assert_int_equal(blkup_modstates_parse(text, 2u << 20, &t), 0);
        assert_int_equal(t->n, 4);
        blkup_modstates_free(t);
        free(text);
}

static void cut_or_changed_it_stays_sane(void **state)
{
        static const char alphabet[] = "\n  ,,--()[]0x\0\xff";
        uint64_t seed = 5;

        (void) state;
        for (size_t n = 0; n < sizeof(sample); n++) {
                char *exact = malloc(n ? n : 1); /* so that ASan sees a byte too far */
                struct blkup_modstates *t;
                size_t lines = 0;

                memcpy(exact, sample, n);
                for (size_t i = 0; i < n; i++)
                        lines += sample[i] == '\n';
                assert_int_equal(blkup_modstates_parse(exact, n, &t), 0);
                free(exact);
                assert_true(t->n == lines || t->n == lines + 1);
                blkup_modstates_free(t);
        }
        for (unsigned round = 0; round < 20000; round++) {
                char text[sizeof(sample) - 1];
                struct blkup_modstates *t;

                memcpy(text, sample, sizeof(text));
                for (unsigned i = 0; i < 1 + round % 9; i++) {
                        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
                        text[(seed >> 33) % sizeof(text)] = alphabet[(seed >> 20) % (sizeof(alphabet) - 1)];
                }
                assert_int_equal(blkup_modstates_parse(text, sizeof(text), &t), 0);
                for (size_t i = 0; i < t->n; i++) {
                        assert_true(*t->modules[i].name && strlen(t->modules[i].taints) < sizeof(text));
                        for (size_t u = 0; u < t->modules[i].n_users; u++)
                                assert_true(*t->modules[i].users[u]);
                }
                blkup_modstates_free(t);
        }
}

static void a_fake_root_is_read(void **state)
{
        struct fake_root root;
        struct blkup_modstates *t = NULL;
        struct blkup_error err = { 0 };
        int r;

        (void) state;
        fake_root_make(&root);
        assert_int_equal(blkup_modstates_load(root.path, &t, &err), -ENOENT);
        assert_null(t);
        assert_non_null(strstr(err.message, "/proc/modules"));
        fake_root_file(&root, "proc/modules", sample);
        for (long n = 0, failed = 1; failed > 0; n++) {
                fail_alloc_arm(n, false);
                r = blkup_modstates_load(root.path, &t, &err);
                failed = fail_alloc_disarm();
                assert_int_equal(r, failed ? -ENOMEM : 0);
                assert_true(n > 0 || failed); /* else the wrapper is not linked in */
        }
        assert_int_equal(t->n, 8);
        blkup_modstates_free(t);
        fake_root_remove(&root);
}

static void the_machine_itself_is_read(void **state)
{
        struct blkup_modstates *t = NULL;
        struct blkup_error err;
        int r;

        (void) state;
        r = blkup_modstates_load("", &t, &err);
        if (r == -ENOENT) {
                print_message("SKIP: this kernel has no modules\n");
                skip();
        }
        assert_int_equal(r, 0);
        assert_int_equal(t->n_bad_lines, 0);
        blkup_modstates_free(t);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_field_is_read),
                cmocka_unit_test(a_bad_line_costs_that_line_only),
                cmocka_unit_test(many_users_stay_with_their_module),
                cmocka_unit_test(limits_are_errors),
                cmocka_unit_test(cut_or_changed_it_stays_sane),
                cmocka_unit_test(a_fake_root_is_read),
                cmocka_unit_test(the_machine_itself_is_read),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
