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
#include "host/cmdline.h"

static struct blkup_cmdline *parse(const char *text)
{
        struct blkup_cmdline *c = NULL;

        assert_int_equal(blkup_cmdline_parse(text, strlen(text), &c), 0);
        return c;
}

/* "key=value|key|..." of what was found, "<" before the words of init. */
static void flatten(const struct blkup_cmdline *c, char *to, size_t cap)
{
        size_t at = 0;

        to[0] = '\0';
        for (size_t i = 0; i < c->n; i++)
                at += (size_t) snprintf(to + at, cap - at, "%s%s[%s]%s%s%s", i ? " " : "",
                                        c->words[i].is_for_init ? "<" : "", c->words[i].key,
                                        c->words[i].value ? "=[" : "",
                                        c->words[i].value ? c->words[i].value : "",
                                        c->words[i].value ? "]" : "");
}

static void words_are_cut_as_the_kernel_does(void **state)
{
        static const struct {
                const char *text, *words;
        } cases[] = {
                { "", "" },
                { " \t\n\v\f\r ", "" },
                { "quiet\n", "[quiet]" },
                { "  a  b=c\td= =e ==f\n", "[a] [b]=[c] [d]=[] [=e] [=]=[f]" },
                { "root=UUID=12-34 x=a=b=c", "[root]=[UUID=12-34] [x]=[a=b=c]" },
                { "root=\"LABEL=my root\" ro", "[root]=[LABEL=my root] [ro]" },
                { "\"root=LABEL=my root\" ro", "[root]=[LABEL=my root] [ro]" },
                { "x=a\" \"b y", "[x]=[a\" \"b] [y]" },
                { "root=UUID=\"ab cd\" y", "[root]=[UUID=\"ab cd\"] [y]" },
                { "\"a b\"c d", "[a b\"c] [d]" },
                { "\"\" x=\"\" \"x=\"", "[] [x]=[] [x]=[]" },
                { "\"", "[]" },
                { "x=\"", "[x]=[]" },
                { "x=\"never closed y=z\n", "[x]=[never closed y=z\n]" },
                { "\"x=never closed", "[x]=[never closed]" },
                { "a -- b c=d -- \"e f\"", "[a] <[b] <[c]=[d] <[--] <[e f]" },
                { "a --b -- ", "[a] [--b]" },
                { "a --=x b", "[a] [--]=[x] [b]" },
                { "mod.dyndbg=\"file drivers/x.c +p; func y\"",
                  "[mod.dyndbg]=[file drivers/x.c +p; func y]" },
                { "caf\xc3\xa9=\xc3\xa0 \x80\xff", "[caf\xc3\xa9]=[\xc3\xa0] [\x80\xff]" },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct blkup_cmdline *c = parse(cases[i].text);
                char words[512];

                flatten(c, words, sizeof(words));
                if (strcmp(words, cases[i].words) != 0)
                        fail_msg("`%s` became %s, not %s", cases[i].text, words, cases[i].words);
                blkup_cmdline_free(c);
        }
        assert_null(blkup_cmdline_free(NULL));
}

static void a_nul_ends_the_text(void **state)
{
        struct blkup_cmdline *c;

        (void) state;
        assert_int_equal(blkup_cmdline_parse("a b\0c d", 7, &c), 0);
        assert_int_equal(c->n, 2);
        blkup_cmdline_free(c);
        assert_int_equal(blkup_cmdline_parse("a bcd", 3, &c), 0);
        assert_string_equal(c->words[1].key, "b");
        blkup_cmdline_free(c);
        assert_int_equal(blkup_cmdline_parse(NULL, 0, &c), 0);
        assert_int_equal(c->n, 0);
        blkup_cmdline_free(c);
}

static void look_ups_know_the_last_and_all(void **state)
{
        struct blkup_cmdline *c = parse("ro rd_x-y=1 rw rd.luks=a root=/dev/a rd.luks=b rd-x_y=2 root=/dev/b "
                                        "flag -- root=/dev/init rd.luks=c only_init");
        const struct blkup_cmdline_word *w;

        (void) state;
        assert_string_equal(blkup_cmdline_last(c, "root")->value, "/dev/b");
        assert_string_equal(blkup_cmdline_last(c, "rd-x-y")->value, "2");
        assert_null(blkup_cmdline_last(c, "flag")->value);
        assert_null(blkup_cmdline_last(c, "only_init"));
        assert_null(blkup_cmdline_last(c, "roo"));
        assert_null(blkup_cmdline_last(c, "rootx"));
        assert_null(blkup_cmdline_last(NULL, "root"));
        w = blkup_cmdline_next(c, "rd.luks", NULL);
        assert_string_equal(w->value, "a");
        w = blkup_cmdline_next(c, "rd.luks", w);
        assert_string_equal(w->value, "b");
        assert_null(blkup_cmdline_next(c, "rd.luks", w));
        assert_null(blkup_cmdline_next(NULL, "rd.luks", NULL));
        assert_true(blkup_cmdline_last(c, "rw") > blkup_cmdline_last(c, "ro")); /* the last one wins */
        blkup_cmdline_free(c);
}

static void limits_are_errors(void **state)
{
        size_t n = BLKUP_CMDLINE_MAX_BYTES + 1;
        char *text = malloc(n);
        struct blkup_cmdline *c = NULL;

        (void) state;
        memset(text, 'x', n);
        assert_int_equal(blkup_cmdline_parse(text, n, &c), -EFBIG);
        assert_null(c);
        assert_int_equal(blkup_cmdline_parse(text, n - 1, &c), 0); /* one long word */
        assert_int_equal(strlen(c->words[0].key), n - 1);
        c = blkup_cmdline_free(c);
        for (size_t i = 0; i < n; i += 2)
                text[i] = ' ';
        assert_int_equal(blkup_cmdline_parse(text, BLKUP_CMDLINE_MAX_WORDS * 2ul, &c), 0);
        assert_int_equal(c->n, BLKUP_CMDLINE_MAX_WORDS);
        c = blkup_cmdline_free(c);
        assert_int_equal(blkup_cmdline_parse(text, BLKUP_CMDLINE_MAX_WORDS * 2ul + 2, &c), -E2BIG);
        assert_null(c);
        free(text);
}

static const char sample[] =
        "BOOT_IMAGE=/vmlinuz root=\"LABEL=my root\" ro \"a b=c d\" x=\"\" -- init \"e=f g\"\n";

static void cut_or_changed_it_stays_sane(void **state)
{
        static const char alphabet[] = "\"\"=  -x\0\t\xff";
        uint64_t seed = 7;

        (void) state;
        for (size_t n = 0; n < sizeof(sample); n++) {
                char *exact = malloc(n ? n : 1); /* so that ASan sees a byte too far */
                struct blkup_cmdline *c;

                memcpy(exact, sample, n);
                assert_int_equal(blkup_cmdline_parse(exact, n, &c), 0);
                free(exact);
                assert_true(c->n <= 7);
                for (size_t i = 0; i < c->n; i++)
                        assert_true(strlen(c->words[i].key) +
                                            strlen(c->words[i].value ? c->words[i].value : "") <=
                                    n);
                blkup_cmdline_free(c);
        }
        for (unsigned round = 0; round < 50000; round++) {
                char text[sizeof(sample) - 1];
                struct blkup_cmdline *c;
                size_t total = 0;

                memcpy(text, sample, sizeof(text));
                for (unsigned i = 0; i < 1 + round % 12; i++) {
                        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
                        text[(seed >> 33) % sizeof(text)] = alphabet[(seed >> 20) % (sizeof(alphabet) - 1)];
                }
                assert_int_equal(blkup_cmdline_parse(text, sizeof(text), &c), 0);
                for (size_t i = 0; i < c->n; i++)
                        total += strlen(c->words[i].key) + strlen(c->words[i].value ? c->words[i].value : "");
                assert_true(total <= sizeof(text));
                blkup_cmdline_free(c);
        }
}

static void a_fake_root_is_read(void **state)
{
        struct fake_root root;
        struct blkup_cmdline *c = NULL;
        struct blkup_error err = { 0 };
        int r;

        (void) state;
        fake_root_make(&root);
        assert_int_equal(blkup_cmdline_load(root.path, &c, &err), -ENOENT);
        assert_null(c);
        assert_non_null(strstr(err.message, "/proc/cmdline"));
        fake_root_file(&root, "proc/cmdline", sample);
        for (long n = 0, failed = 1; failed > 0; n++) {
                fail_alloc_arm(n, false);
                r = blkup_cmdline_load(root.path, &c, &err);
                failed = fail_alloc_disarm();
                assert_int_equal(r, failed ? -ENOMEM : 0);
                assert_true(n > 0 || failed); /* else the wrapper is not linked in */
        }
        assert_int_equal(c->n, 7);
        assert_string_equal(blkup_cmdline_last(c, "root")->value, "LABEL=my root");
        blkup_cmdline_free(c);
        fake_root_remove(&root);
}

static void the_machine_itself_is_read(void **state)
{
        struct blkup_cmdline *c = NULL;
        struct blkup_error err;
        int r;

        (void) state;
        r = blkup_cmdline_load(NULL, &c, &err);
        if (r == -ENOENT) {
                print_message("SKIP: no /proc here\n");
                skip();
        }
        assert_int_equal(r, 0);
        for (size_t i = 0; i < c->n; i++)
                assert_non_null(c->words[i].key);
        blkup_cmdline_free(c);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(words_are_cut_as_the_kernel_does),
                cmocka_unit_test(a_nul_ends_the_text),
                cmocka_unit_test(look_ups_know_the_last_and_all),
                cmocka_unit_test(limits_are_errors),
                cmocka_unit_test(cut_or_changed_it_stays_sane),
                cmocka_unit_test(a_fake_root_is_read),
                cmocka_unit_test(the_machine_itself_is_read),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
