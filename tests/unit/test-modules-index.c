/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "modules/config.h"
#include "modules/index.h"
#include "modules/name.h"

/* An index, written by hand: root with children 'a' and 'p'; "ab" exact; "pci:*d?" a pattern. */
struct image {
        uint8_t p[512];
        size_t n;
};

static void put32(struct image *i, uint32_t v)
{
        for (int k = 3; k >= 0; k--)
                i->p[i->n++] = (uint8_t) (v >> (8 * k));
}

static void put(struct image *i, const char *text)
{
        memcpy(i->p + i->n, text, strlen(text) + 1);
        i->n += strlen(text) + 1;
}

static void set32(struct image *i, size_t at, uint32_t v)
{
        size_t n = i->n;

        i->n = at;
        put32(i, v);
        i->n = n;
}

static struct image make(void)
{
        struct image i = { .n = 0 };
        uint32_t leaf_a, leaf_p;

        put32(&i, 0xB007F457);
        put32(&i, 0x00020001);
        put32(&i, 0);
        leaf_a = (uint32_t) i.n | 0xC0000000u;
        put(&i, "b");
        put32(&i, 2);
        put32(&i, 7);
        put(&i, "late");
        put32(&i, 3);
        put(&i, "early");
        leaf_p = (uint32_t) i.n | 0xC0000000u;
        put(&i, "ci:*d?");
        put32(&i, 1);
        put32(&i, 1);
        put(&i, "driver");
        set32(&i, 8, (uint32_t) i.n | 0x20000000u);
        i.p[i.n++] = 'a';
        i.p[i.n++] = 'p';
        for (char c = 'a'; c <= 'p'; c++)
                put32(&i, c == 'a' ? leaf_a : c == 'p' ? leaf_p : 0);
        return i;
}

static void finds_and_matches(void **state)
{
        struct image i = make();
        struct blkup_index x = { 0 };
        struct blkup_index_values v = { 0 };
        const char *value = "before";

        (void) state;
        assert_int_equal(blkup_index_from_bytes(i.p, i.n, &x), 0);
        assert_int_equal(blkup_index_find(&x, "ab", &value), 0);
        assert_string_equal(value, "late");
        assert_int_equal(blkup_index_find(&x, "a", &value), 0);
        assert_null(value);
        assert_int_equal(blkup_index_find(&x, "abc", &value), 0);
        assert_null(value);
        assert_int_equal(blkup_index_find(&x, "pci:*d?", &value), 0);
        assert_string_equal(value, "driver");
        assert_int_equal(blkup_index_match(&x, "ab", &v), 0);
        assert_int_equal(v.n, 2);
        assert_string_equal(v.v[0].text, "early");
        v.n = 0;
        assert_int_equal(blkup_index_match(&x, "pci:v8086dX", &v), 0);
        assert_int_equal(v.n, 1);
        assert_string_equal(v.v[0].text, "driver");
        v.n = 0;
        assert_int_equal(blkup_index_match(&x, "pci:v8086d", &v), 0);
        assert_int_equal(v.n, 0);
        blkup_index_values_free(&v);
}

static int count(void *arg, const char *key, const char *value)
{
        (void) key;
        (void) value;
        ++*(int *) arg;
        return 0;
}

static void search_all(const struct blkup_index *x)
{
        struct blkup_index_values v = { 0 };
        const char *value = NULL;
        int n = 0, r;

        r = blkup_index_find(x, "ab", &value);
        assert_true(r == 0 || r == -EBADMSG);
        r = blkup_index_match(x, "pci:v8086dX", &v);
        assert_true(r == 0 || r == -EBADMSG);
        r = blkup_index_each(x, count, &n);
        assert_true(r == 0 || r == -EBADMSG);
        blkup_index_values_free(&v);
}

/* Bytes in memory of their exact size, so that a read beyond them is seen. */
static void every_cut_and_every_bit_ends_well(void **state)
{
        struct image i = make();

        (void) state;
        for (size_t n = 0; n <= i.n; n++) {
                uint8_t *p = malloc(n ? n : 1);
                struct blkup_index x;

                assert_non_null(p);
                memcpy(p, i.p, n);
                if (blkup_index_from_bytes(p, n, &x) == 0)
                        search_all(&x);
                else
                        assert_true(n < 12);
                free(p);
        }
        for (size_t bit = 0; bit < i.n * 8; bit++) {
                struct blkup_index x;

                i.p[bit / 8] ^= (uint8_t) (1u << (bit % 8));
                if (blkup_index_from_bytes(i.p, i.n, &x) == 0)
                        search_all(&x);
                i.p[bit / 8] ^= (uint8_t) (1u << (bit % 8));
        }
}

/* A node that is its own child, with many branches: the budget and the cap of the key end it. */
static void circles_end(void **state)
{
        struct image i = { .n = 0 };
        struct blkup_index x;
        struct blkup_index_values v = { 0 };
        int n = 0;

        (void) state;
        put32(&i, 0xB007F457);
        put32(&i, 0x00020001);
        put32(&i, 12 | 0x20000000u);
        i.p[i.n++] = '*';
        i.p[i.n++] = '+';
        put32(&i, 12 | 0x20000000u);
        put32(&i, 12 | 0x20000000u);
        assert_int_equal(blkup_index_from_bytes(i.p, i.n, &x), 0);
        assert_int_equal(blkup_index_match(&x, "anything", &v), -EBADMSG);
        assert_int_equal(blkup_index_each(&x, count, &n), -EBADMSG);
        blkup_index_values_free(&v);
}

static void names_are_normalised_and_checked(void **state)
{
        char out[64];

        (void) state;
        assert_int_equal(blkup_module_alias("snd-pcm", 7, out, sizeof(out)), 0);
        assert_string_equal(out, "snd_pcm");
        assert_int_equal(blkup_module_alias("a-[a-z]-b", 9, out, sizeof(out)), 0);
        assert_string_equal(out, "a_[a-z]_b");
        assert_int_equal(blkup_module_alias("a[b", 3, out, sizeof(out)), -EINVAL);
        assert_int_equal(blkup_module_alias("a]b", 3, out, sizeof(out)), -EINVAL);
        assert_int_equal(blkup_module_alias("../a", 4, out, sizeof(out)), -EINVAL);
        assert_int_equal(blkup_module_alias("a\nb", 3, out, sizeof(out)), -EINVAL);
        assert_int_equal(blkup_module_alias("abcd", 4, out, 4), -ENAMETOOLONG);
}

static const struct blkup_modconf_line *line_of(const struct blkup_modconf *c, enum blkup_modconf_kind k,
                                                size_t n)
{
        for (size_t i = 0; i < c->n; i++)
                if (c->lines[i].kind == k && n-- == 0)
                        return &c->lines[i];
        return NULL;
}

static void configuration_is_read(void **state)
{
        static const char text[] = "# options a b\n"
                                   "options snd-a  x=1 \\\n y=2\n"
                                   " blacklist\tfoo-bar\n"
                                   "install b-c /bin/false $CMDLINE_OPTS\n"
                                   "softdep m early pre: a b post: c\n"
                                   "weakdep m d e\n"
                                   "alias pci:v0000-[a-f]* drv-x\n"
                                   "nonsense here\n"
                                   "options lonely\n"
                                   "alias a/b c\n"
                                   "softdep last post: z";
        struct blkup_modconf c = { 0 };

        (void) state;
        assert_int_equal(blkup_modconf_parse(&c, text, sizeof(text) - 1), 0);
        assert_string_equal(line_of(&c, BLKUP_MODCONF_OPTIONS, 0)->name, "snd_a");
        assert_string_equal(line_of(&c, BLKUP_MODCONF_OPTIONS, 0)->text, " x=1  y=2");
        assert_true(blkup_modconf_is_blacklisted(&c, "foo_bar"));
        assert_string_equal(blkup_modconf_command(&c, BLKUP_MODCONF_INSTALL, "b_c"),
                            "/bin/false $CMDLINE_OPTS");
        assert_int_equal(line_of(&c, BLKUP_MODCONF_SOFTDEP, 0)->n_pre, 2);
        assert_string_equal(line_of(&c, BLKUP_MODCONF_SOFTDEP, 0)->post[0], "c");
        assert_int_equal(line_of(&c, BLKUP_MODCONF_WEAKDEP, 0)->n_pre, 2);
        assert_string_equal(line_of(&c, BLKUP_MODCONF_ALIAS, 0)->name, "pci:v0000_[a-f]*");
        assert_string_equal(line_of(&c, BLKUP_MODCONF_ALIAS, 0)->text, "drv_x");
        assert_string_equal(line_of(&c, BLKUP_MODCONF_SOFTDEP, 1)->name, "last");
        assert_int_equal(c.n_bad_lines, 3);
        blkup_modconf_free(&c);
}

static void the_command_line_is_read(void **state)
{
        static const char text[] =
                "quiet a-b.x=1 \"c.d=e f\" modprobe.blacklist=p-q,r x[1:2.3]=y .z= k. -- u.v=1";
        struct blkup_modconf c = { 0 };

        (void) state;
        assert_int_equal(blkup_modconf_parse_cmdline(&c, text, sizeof(text) - 1), 0);
        assert_int_equal(c.by_kind[BLKUP_MODCONF_OPTIONS], 2);
        assert_string_equal(line_of(&c, BLKUP_MODCONF_OPTIONS, 0)->name, "a_b");
        assert_string_equal(line_of(&c, BLKUP_MODCONF_OPTIONS, 1)->text, "d=\"e f\"");
        assert_true(blkup_modconf_is_blacklisted(&c, "p_q"));
        assert_true(blkup_modconf_is_blacklisted(&c, "r"));
        blkup_modconf_free(&c);
}

/* What kmod 30 answers to such lines, compared by hand. */
static void backslashes_and_tabs(void **state)
{
        static const char text[] = "options a x=\\ty\tz=\\\\b \\\n c\n"
                                   "install b echo a\\;b\tc\\\\\n"
                                   "options d last\n";
        struct blkup_modconf c = { 0 };

        (void) state;
        assert_int_equal(blkup_modconf_parse(&c, text, sizeof(text) - 1), 0);
        assert_string_equal(line_of(&c, BLKUP_MODCONF_OPTIONS, 0)->text, "x=ty z=\\b  c");
        assert_string_equal(blkup_modconf_command(&c, BLKUP_MODCONF_INSTALL, "b"), "echo a;b\tc\\");
        assert_string_equal(line_of(&c, BLKUP_MODCONF_OPTIONS, 1)->name, "d");
        assert_int_equal(c.n_bad_lines, 0);
        blkup_modconf_free(&c);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(finds_and_matches),
                cmocka_unit_test(every_cut_and_every_bit_ends_well),
                cmocka_unit_test(backslashes_and_tabs),
                cmocka_unit_test(circles_end),
                cmocka_unit_test(names_are_normalised_and_checked),
                cmocka_unit_test(configuration_is_read),
                cmocka_unit_test(the_command_line_is_read),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
