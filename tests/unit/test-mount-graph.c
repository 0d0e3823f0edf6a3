/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fake-root.h"
#include "mount/graph.h"

static struct fake_root root;
static struct blkup_mounter *mounter;

static int set_up(void **state)
{
        static const struct blkup_mount_settings settings = { .dry_run = true };

        (void) state;
        fake_root_make(&root);
        assert_int_equal(blkup_mounter_new(&settings, &mounter), 0);
        return 0;
}

static int tear_down(void **state)
{
        (void) state;
        blkup_mounter_unref(mounter);
        fake_root_remove(&root);
        return 0;
}

static bool needs(const struct blkup_mount_graph *g, size_t i, size_t j)
{
        return blkup_mount_graph_why(g, i, j) != NULL;
}

static void test_parents(void **state)
{
        static const struct blkup_mount_request q[] = {
                { .source = "t", .target = "/blkup-x/a/b/c", .types = "tmpfs" },
                { .source = "t", .target = "/blkup-x/a", .types = "tmpfs" },
                { .source = "t", .target = "/blkup-x/ab", .types = "tmpfs" },
                { .source = "t", .target = "/blkup-x/a//b/../b/", .types = "tmpfs" },
        };
        struct blkup_mount_graph *g;

        (void) state;
        assert_int_equal(blkup_mount_graph_new(mounter, q, 4, &g), 0);
        assert_true(needs(g, 0, 1) && needs(g, 0, 3) && needs(g, 3, 1));
        assert_false(needs(g, 2, 1) || needs(g, 1, 0) || needs(g, 1, 2));
        blkup_mount_graph_free(g);
}

/* /blkup-none/a before it exists: the canonical path keeps what is not there. */
static void test_canonical(void **state)
{
        static const char *const cases[][2] = {
                { "/nope-blkup", "/nope-blkup" }, { "/nope-blkup/x/../y", "/nope-blkup/y" }, { "/", "/" },
                { "//nope-blkup//a/.", "/nope-blkup/a" }, { "/nope-blkup/../..", "/" },
        };
        char path[PATH_MAX], link[PATH_MAX], want[PATH_MAX + 8];

        (void) state;
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(cases); i++) {
                assert_int_equal(blkup_mount_canonical_path(cases[i][0], path), 0);
                assert_string_equal(path, cases[i][1]);
        }
        fake_root_folder(&root, "real/");
        fake_root_link(&root, "link", "real");
        (void) snprintf(link, sizeof(link), "%s/link/new/deep", root.path);
        (void) snprintf(want, sizeof(want), "%s/real/new/deep", root.path);
        assert_int_equal(blkup_mount_canonical_path(link, path), 0);
        assert_string_equal(path, want);
}

static void test_bind_through_a_link(void **state)
{
        char link[PATH_MAX], data[PATH_MAX], to[PATH_MAX];
        struct blkup_mount_request q[2] = {
                { .source = link, .target = to, .options = "bind" },
                { .source = "t", .target = data, .types = "tmpfs" },
        };
        struct blkup_mount_graph *g;

        (void) state;
        fake_root_folder(&root, "data/real/");
        fake_root_link(&root, "link2", "data/real");
        (void) snprintf(link, sizeof(link), "%s/link2", root.path);
        (void) snprintf(data, sizeof(data), "%s/data", root.path);
        (void) snprintf(to, sizeof(to), "%s/to", root.path);
        assert_int_equal(blkup_mount_graph_new(mounter, q, 2, &g), 0);
        assert_true(needs(g, 0, 1));
        assert_false(needs(g, 1, 0));
        blkup_mount_graph_free(g);
}

static void test_file_order(void **state)
{
        static const struct blkup_mount_request q[] = {
                { .source = "/blkup-s", .target = "/blkup-t", .options = "bind" },
                { .source = "t", .target = "/blkup-s/below", .types = "tmpfs" },
                { .source = "u", .target = "/blkup-s/below", .types = "tmpfs" },
                { .source = "/blkup-s", .target = "/blkup-v", .options = "rbind" },
        };
        struct blkup_mount_graph *g;

        (void) state;
        assert_int_equal(blkup_mount_graph_new(mounter, q, 4, &g), 0);
        assert_true(needs(g, 1, 0));  /* later than the bind: after it */
        assert_true(needs(g, 2, 1));  /* the same place: file order */
        assert_true(needs(g, 3, 1) && needs(g, 3, 2)); /* earlier than the second bind: before it */
        assert_false(needs(g, 0, 1) || needs(g, 1, 3));
        blkup_mount_graph_free(g);
}

static void test_asked_for(void **state)
{
        static const struct blkup_mount_request q[] = {
                { .source = "a",
                  .target = "/blkup-a",
                  .types = "tmpfs",
                  .options = "x-systemd.after=/blkup-b" },
                { .source = "b",
                  .target = "/blkup-b",
                  .types = "tmpfs",
                  .options = "x-systemd.after=blkup\\x2dc.mount" },
                { .source = "c",
                  .target = "/blkup-c",
                  .types = "tmpfs",
                  .options = "x-systemd.before=/blkup-d" },
                { .source = "d",
                  .target = "/blkup-d",
                  .types = "tmpfs",
                  .options = "x-systemd.requires-mounts-for=/blkup-a/sub" },
                { .source = "o",
                  .target = "/blkup-o",
                  .types = "overlay",
                  .options = "lowerdir=/blkup-a/l:/blkup-b" },
        };
        struct blkup_mount_graph *g;

        (void) state;
        assert_int_equal(blkup_mount_graph_new(mounter, q, 5, &g), 0);
        assert_true(needs(g, 0, 1) && needs(g, 1, 2) && needs(g, 3, 2) && needs(g, 3, 0));
        assert_true(needs(g, 4, 0) && needs(g, 4, 1));
        /* What is before or after is order: nobody fails with it. */
        assert_false(blkup_mount_graph_is_need(g, 0, 1) || blkup_mount_graph_is_need(g, 3, 2));
        assert_true(blkup_mount_graph_is_need(g, 3, 0) && blkup_mount_graph_is_need(g, 4, 0));
        blkup_mount_graph_free(g);
}

/* A circle: the edge that would close it gives way, parents never do. */
static void test_circles(void **state)
{
        static const struct blkup_mount_request q[] = {
                { .source = "/blkup-x", .target = "/blkup-y/in", .options = "bind" },
                { .source = "/blkup-y", .target = "/blkup-x/in", .options = "bind" },
                { .source = "t",
                  .target = "/blkup-p/q",
                  .types = "tmpfs",
                  .options = "x-systemd.before=/blkup-p" },
                { .source = "t", .target = "/blkup-p", .types = "tmpfs" },
                { .source = "/blkup-z", .target = "/blkup-z", .options = "bind" },
        };
        struct blkup_mount_graph *g;
        size_t i, n = BLKUP_ARRAY_SIZE(q), done = 0;
        bool is_done[BLKUP_ARRAY_SIZE(q)] = { false };

        (void) state;
        assert_int_equal(blkup_mount_graph_new(mounter, q, n, &g), 0);
        assert_true(needs(g, 2, 3));
        assert_false(needs(g, 3, 2));
        assert_true(g->n_dropped > 0);
        /* Taking what is ready gets through all of them. */
        for (size_t round = 0; round < n; round++)
                for (i = 0; i < n; i++) {
                        bool ready = !is_done[i];

                        for (size_t k = 0; k < g->v[i].n_edges; k++)
                                ready &= is_done[g->v[i].edges[k].on];
                        if (ready) {
                                is_done[i] = true;
                                done++;
                        }
                }
        assert_int_equal(done, n);
        blkup_mount_graph_free(g);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_parents), cmocka_unit_test(test_canonical),
                cmocka_unit_test(test_bind_through_a_link), cmocka_unit_test(test_file_order),
                cmocka_unit_test(test_asked_for), cmocka_unit_test(test_circles),
        };

        return cmocka_run_group_tests(tests, set_up, tear_down);
}
