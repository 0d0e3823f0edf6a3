/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The picture and the reader of traces: hostile names, sizes, each failed allocation, and there and back. */
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

#include "fail-alloc.h"
#include "trace/svg-private.h"
#include "trace/trace-read.h"

struct text {
        char *s;
        size_t n, cap;
};

static int keep(void *to, const char *s, size_t n)
{
        struct text *t = to;

        if (t->n + n + 1 > t->cap) {
                t->cap = (t->n + n + 1) * 2;
                t->s = __real_realloc(t->s, t->cap);
                assert_non_null(t->s);
        }
        memcpy(t->s + t->n, s, n);
        t->n += n;
        t->s[t->n] = '\0';
        return 0;
}

/* What must hold of every picture, looked at by another XML parser: no script, no link, nothing to load; all
 * on the page; texts of one row that do not meet, by widths of which no common font has more. */
static const char check_py[] =
        "import re, sys\n"
        "import xml.etree.ElementTree as E\n"
        "root = E.parse(sys.argv[1]).getroot()\n"
        "S = '{http://www.w3.org/2000/svg}'\n"
        "assert root.tag == S + 'svg'\n"
        "W, H = float(root.get('width')), float(root.get('height'))\n"
        "known = {'svg','style','defs','pattern','rect','line','text','g','title','path'}\n"
        "for e in root.iter():\n"
        "    assert e.tag[len(S):] in known, e.tag\n"
        "    for k, v in e.attrib.items():\n"
        "        assert not k.lower().startswith('on') and 'href' not in k.lower(), k\n"
        "    t = e.text or ''\n"
        "    assert not any(ord(c) < 32 and c != '\\n' or 127 <= ord(c) < 160 or 0x202a <= ord(c) <= 0x202e "
        "for c in t + ''.join(e.attrib.values())), repr(t)\n"
        "assert not re.search(r'url\\((?!#)', root.find(S + 'style').text)\n"
        "for r in root.iter(S + 'rect'):\n"
        "    if 'x' not in r.attrib: continue\n"
        "    x, y = float(r.get('x')), float(r.get('y'))\n"
        "    assert x >= 0 and y >= 0 and x + float(r.get('width')) <= W + 0.1 and y + "
        "float(r.get('height')) <= H + 0.1\n"
        "rows = {}\n"
        "for t in root.iter(S + 'text'):\n"
        "    c = t.get('class').split()\n"
        "    size = 18 if 'title' in c else 9.5 if 's9' in c else 10 if 's10' in c or 'tick' in c else 11 if "
        "'s11' in c else 12\n"
        "    n = len(t.text or '')\n"
        "    narrow = 0.28 * size * n if 'textLength' not in t.attrib else float(t.get('textLength'))\n"
        "    x = float(t.get('x'))\n"
        "    x = x - narrow if 'label' in c else x - narrow / 2 if 'tick' in c else x\n"
        "    assert x >= 0 and x + narrow <= W, (t.text, x, narrow)\n"
        "    assert 0 < float(t.get('y')) <= H, t.text\n"
        "    rows.setdefault(t.get('y'), []).append((x, x + narrow, t.text))\n"
        "for y, texts in rows.items():\n"
        "    texts.sort()\n"
        "    for a, b in zip(texts, texts[1:]): assert a[1] <= b[0] + 0.1, (y, a, b)\n";

static void check_svg(struct blkup_trace *t, const char *more)
{
        char path[] = "/tmp/blkup-test-svg-XXXXXX";
        struct text svg = { 0 }, script = { 0 };
        int fd, status;
        pid_t pid;

        assert_int_equal(blkup_trace_write_svg(t, keep, &svg), 0);
        fd = mkstemp(path);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, svg.s, svg.n), (ssize_t) svg.n);
        close(fd);
        keep(&script, check_py, strlen(check_py));
        keep(&script, more, strlen(more));
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                execlp("python3", "python3", "-I", "-S", "-c", script.s, path, (char *) NULL);
                _exit(127);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        unlink(path);
        free(svg.s);
        free(script.s);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
                print_message("SKIP: no python3 to read the SVG with\n");
                skip();
        }
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
}

static void add(struct blkup_trace *t, enum blkup_span_kind kind, const char *lane, const char *name,
                uint64_t from_us, uint64_t to_us, unsigned worker)
{
        blkup_trace_add(t,
                        &(struct blkup_span){
                                .kind = kind,
                                .lane = lane,
                                .name = name,
                                .start_ns = 1000000 + from_us * 1000,
                                .end_ns = 1000000 + to_us * 1000,
                                .worker = worker,
                                .bytes = 4096,
                                .reads = 1,
                                .detail = kind == BLKUP_SPAN_WAIT ? "for the other devices' answers" : NULL,
                        });
}

/* As many devices as asked for: probe with reads, wait, mount; a tenth of them fails. */
static struct blkup_trace *many_devices(unsigned n, const char *before, const char *behind)
{
        struct blkup_trace *t = blkup_trace_new(0);

        assert_non_null(t);
        for (unsigned i = 0; i < n; i++) {
                char lane[300];
                unsigned at = i * 37 % 101 * 100, end = at + 1000 + i * 53 % 97 * 60;
                uint64_t id = 2 * i + 1;

                (void) snprintf(lane, sizeof(lane), "%s%03u%s", before, i, behind);
                add(t, BLKUP_SPAN_PROBE, lane, "probe", at, end, i % 7 + 1);
                add(t, BLKUP_SPAN_READ, lane, "read", at + 10, at + 700, i % 7 + 1);
                add(t, BLKUP_SPAN_READ, lane, "read", at + 700, at + 900, i % 7 + 1);
                add(t, BLKUP_SPAN_WAIT, lane, "wait", end, 18000, 0);
                blkup_trace_add(t, &(struct blkup_span){
                                           .kind = (enum blkup_span_kind)(i % BLKUP_SPAN_WAIT),
                                           .lane = lane,
                                           .name = "work",
                                           .start_ns = 19000000 + i * 1000,
                                           .end_ns = 22000000 + i % 13 * 1000000,
                                           .worker = i % 7 + 1,
                                           .error = i % 10 == 9 ? -EIO : 0,
                                           .id = id,
                                           .after = &id,
                                           .n_after = 1,
                                   });
        }
        return t;
}

static void is_legible_for_few_and_for_many(void **state)
{
        static const struct {
                unsigned n;
                const char *before, *behind;
        } cases[] = {
                { 1, "sd", "" },
                { 3, "/dev/sd", "" },
                { 31, "/images/disk-", ".img" },
                { 100, "/dev/disk/by-path/pci-", "" },
                { 400, "",
                  "-a name that is much longer than a column can be, and that differs only in front" },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                struct blkup_trace *t = many_devices(cases[i].n, cases[i].before, cases[i].behind);
                char more[160];

                (void) snprintf(
                        more, sizeof(more),
                        "labels = [t for t in root.iter(S + 'text') if 'label' in t.get('class').split()]\n"
                        "assert len(labels) >= %u, len(labels)\n",
                        cases[i].n);
                check_svg(t, more);
                blkup_trace_unref(t);
        }
}

static void is_there_without_a_span(void **state)
{
        struct blkup_trace *t = blkup_trace_new(0);
        struct text none = { 0 };

        (void) state;
        check_svg(t, "");
        /* And with one of no length. */
        add(t, BLKUP_SPAN_OTHER, "", "", 5, 5, 0);
        check_svg(t, "");
        blkup_trace_unref(t);
        assert_int_equal(blkup_trace_write_svg(NULL, keep, &none), -EINVAL);
        assert_null(none.s);
}

/* ---- hostile names ---- */

static const char *const hostile[] = {
        "</svg>",
        "<script>alert(1)</script>",
        "\"><image href=\"x\" onload=\"y\"/>",
        "]]>",
        "<!--",
        "-->",
        "&amp;&#0;&x;",
        "%s%n%p",
        "a\nb\tc\rd",
        "\x01\x02\x1b[31m",
        "\x7f\xc2\x85",
        "\xff\xfe\xc0\x80",
        "\xed\xa0\x80",
        "\xef\xbf\xbe\xef\xbf\xbf",
        "\xe2\x80\xaegnp.exe",
        "\xef\xb7\xbd\xef\xb7\xbd\xef\xb7\xbd",
        "\xf0\x92\x80\xb1\xf0\x92\x80\xb1",
        "\xe7\xa3\x81\xe7\x9b\xa4\xe7\xa3\x81\xe7\x9b\xa4",
        "\xcc\x81\xcc\x81\xcc\x81",
        "'\"`$(id)",
        "url(http://x)",
        "",
        " ",
        "/",
        "//",
        "../../../..",
        "}</style><style>*{fill:url(http://x)}",
};

static struct blkup_trace *hostile_trace(void)
{
        struct blkup_trace *t = blkup_trace_new(0);
        char *big = __real_malloc(65537);
        size_t n = sizeof(hostile) / sizeof(*hostile);

        assert_non_null(t);
        assert_non_null(big);
        for (size_t i = 0; i < n + 3; i++) {
                const char *name = i < n ? hostile[i] : big;
                uint64_t after[] = { i, 0, UINT64_MAX };

                memset(big, i == n ? 'W' : i == n + 1 ? '<' : 0x80, 65536);
                big[65536] = '\0';
                blkup_trace_set_title(t, name);
                for (unsigned k = 0; k < BLKUP_SPAN_KINDS; k++)
                        blkup_trace_add(t, &(struct blkup_span){
                                                   .kind = (enum blkup_span_kind) k,
                                                   .lane = name,
                                                   .name = name,
                                                   .detail = name,
                                                   .start_ns = 1000 + i * 1000000 + k * 300000,
                                                   .end_ns = 1000 + (i + 3) * 1000000,
                                                   .worker = (unsigned) (i * k),
                                                   .error = k == 3   ? INT32_MIN
                                                            : k == 4 ? -5
                                                                     : 0,
                                                   .bytes = UINT64_MAX,
                                                   .reads = UINT64_MAX,
                                                   .id = k == 0 ? i + 1 : 0,
                                                   .after = after,
                                                   .n_after = 3,
                                           });
        }
        free(big);
        return t;
}

static void hostile_names_are_harmless(void **state)
{
        struct blkup_trace *t = hostile_trace();

        (void) state;
        check_svg(t, "assert any('</svg>' in (e.text or '') for e in root.iter(S + 'title'))\n");
        blkup_trace_unref(t);
}

static void one_name_of_each_byte(void **state)
{
        struct blkup_trace *t = blkup_trace_new(0);

        (void) state;
        for (unsigned c = 1; c < 256; c++) {
                char name[] = { 'x', (char) c, (char) (c ^ 0x55), 'y', 0 };

                add(t, BLKUP_SPAN_PROBE, name, name, c * 10, c * 10 + 500, c);
        }
        check_svg(t, "");
        blkup_trace_unref(t);
}

/* ---- widths ---- */

static void shortening_fits_and_keeps_both_ends(void **state)
{
        char clean[BLKUP_SVG_TEXT_CAP], shown[BLKUP_SVG_TEXT_CAP], small[24];

        (void) state;
        for (size_t i = 0; i < sizeof(hostile) / sizeof(*hostile); i++)
                for (double px = 20; px < 200; px += 7) {
                        (void) blkup_svg_clean(hostile[i], clean, sizeof(clean));
                        blkup_svg_shorten(clean, px, 12, px > 100, shown, sizeof(shown));
                        assert_true(blkup_svg_width(shown, 12, px > 100) <= px);
                        if (blkup_svg_width(clean, 12, px > 100) <= px)
                                assert_string_equal(shown, clean);
                        blkup_svg_shorten(clean, px, 12, false, small, sizeof(small));
                        assert_true(strlen(small) < sizeof(small));
                }
        blkup_svg_shorten("/dev/disk/by-id/nvme-Samsung_SSD_970_EVO_Plus_1TB_S4EWNX0R123456-part1", 200, 12,
                          false, shown, sizeof(shown));
        assert_memory_equal(shown, "/dev/disk/", 10);
        assert_string_equal(shown + strlen(shown) - 6, "-part1");
        assert_non_null(strstr(shown, "\xe2\x80\xa6"));
}

static void durations_have_three_digits(void **state)
{
        static const struct {
                uint64_t ns;
                const char *text;
        } cases[] = {
                { 0, "0 \xc2\xb5s" },
                { 499, "0 \xc2\xb5s" },
                { 500, "1 \xc2\xb5s" },
                { 999499, "999 \xc2\xb5s" },
                { 999500, "1.0 ms" },
                { 12340000, "12.3 ms" },
                { 99950000, "100 ms" },
                { 999499999, "999 ms" },
                { 999500000, "1.0 s" },
                { 12340000000, "12.3 s" },
                { UINT64_MAX, "18446744074 s" },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                char text[32];

                blkup_svg_duration(cases[i].ns, text, sizeof(text));
                assert_string_equal(text, cases[i].text);
        }
}

/* ---- the reader ---- */

static void json_comes_back_as_it_was(void **state)
{
        struct blkup_trace *traces[] = { many_devices(40, "/dev/sd", ""), hostile_trace(),
                                         blkup_trace_new(0) };

        (void) state;
        for (size_t i = 0; i < sizeof(traces) / sizeof(*traces); i++) {
                struct text first = { 0 }, second = { 0 }, svg = { 0 }, again = { 0 };
                struct blkup_trace *back = NULL;

                assert_int_equal(blkup_trace_write_json(traces[i], keep, &first), 0);
                assert_int_equal(blkup_trace_read_json(first.s, first.n, 0, &back, NULL), 0);
                assert_int_equal(blkup_trace_count(back), blkup_trace_count(traces[i]));
                assert_int_equal(blkup_trace_write_json(back, keep, &second), 0);
                /* Names that were no UTF-8 are U+FFFD the first time: then nothing changes any more. */
                if (i != 1) {
                        assert_string_equal(first.s, second.s);
                        assert_int_equal(blkup_trace_write_svg(traces[i], keep, &svg), 0);
                        assert_int_equal(blkup_trace_write_svg(back, keep, &again), 0);
                        assert_string_equal(svg.s, again.s);
                }
                blkup_trace_unref(back);
                blkup_trace_unref(traces[i]);
                free(first.s);
                free(second.s);
                free(svg.s);
                free(again.s);
        }
}

static void refuse(const char *json)
{
        struct blkup_trace *t = NULL;
        struct blkup_error err = { 0 };

        if (blkup_trace_read_json(json, strlen(json), 0, &t, &err) != -EINVAL)
                fail_msg("taken: %s", json);
        assert_null(t);
        assert_non_null(strstr(err.message, "byte "));
}

static void what_is_no_trace_is_refused(void **state)
{
        (void) state;
        refuse("");
        refuse("{}");
        refuse("[]");
        refuse("{\"traceEvents\":{}}");
        refuse("{\"traceEvents\":[1]}");
        refuse("{\"traceEvents\":[]");
        refuse("{\"traceEvents\":[]} {}");
        refuse("{\"traceEvents\":[{\"ph\":\"X\",\"ts\":-1}]}");
        refuse("{\"traceEvents\":[{\"ph\":\"X\",\"ts\":1e300}]}");
        refuse("{\"traceEvents\":[{\"ph\":\"X\",\"ts\":99999999999999999999}]}");
        refuse("{\"traceEvents\":[{\"ph\":\"X\",\"args\":{\"worker\":-1}}]}");
        refuse("{\"traceEvents\":[{\"ph\":\"X\",\"args\":{\"worker\":4294967296}}]}");
        refuse("{\"traceEvents\":[{\"ph\":\"X\",\"args\":{\"after\":[\"x\"]}}]}");
        refuse("{\"otherData\":{\"start_ns\":18446744073709551615},\"traceEvents\":[{\"ph\":\"X\",\"ts\":1,"
               "\"dur\":1}]}");
}

static void others_events_are_passed_over(void **state)
{
        static const char json[] = "{\"x\":[{}],\"traceEvents\":[{\"ph\":\"B\",\"ts\":5},{\"ph\":\"X\","
                                   "\"tid\":9,\"ts\":2.5,\"dur\":1,\"name\":\"n\"},"
                                   "{\"ph\":\"i\",\"s\":\"g\",\"args\":[1,[2]]},{\"ph\":\"M\",\"name\":"
                                   "\"thread_name\",\"tid\":1,\"args\":{}}]}";
        struct blkup_trace *t = NULL;
        struct blkup_span s;

        (void) state;
        assert_int_equal(blkup_trace_read_json(json, sizeof(json) - 1, 0, &t, NULL), 0);
        assert_int_equal(blkup_trace_count(t), 1);
        assert_int_equal(blkup_trace_get(t, 0, &s), 0);
        assert_string_equal(s.lane, "9");
        assert_int_equal(s.start_ns, 2500);
        assert_int_equal(s.end_ns, 3500);
        blkup_trace_unref(t);
}

static void every_cut_of_a_trace_is_refused(void **state)
{
        struct blkup_trace *t = many_devices(2, "sd", ""), *back = NULL;
        struct text json = { 0 };

        (void) state;
        assert_int_equal(blkup_trace_write_json(t, keep, &json), 0);
        for (size_t n = 0; n < json.n; n++) {
                /* Of its own size, so that a sanitizer sees a byte read behind it. */
                char *cut = __real_malloc(n + !n);

                memcpy(cut, json.s, n);
                assert_int_equal(blkup_trace_read_json(cut, n, 0, &back, NULL), -EINVAL);
                free(cut);
        }
        blkup_trace_unref(t);
        free(json.s);
}

static void spans_are_bounded(void **state)
{
        struct blkup_trace *t = many_devices(40, "sd", ""), *back = NULL;
        struct text json = { 0 };

        (void) state;
        assert_int_equal(blkup_trace_write_json(t, keep, &json), 0);
        assert_int_equal(blkup_trace_read_json(json.s, json.n, 10, &back, NULL), 0);
        assert_int_equal(blkup_trace_count(back), 10);
        assert_int_equal(blkup_trace_dropped(back), blkup_trace_count(t) - 10);
        blkup_trace_unref(back);
        blkup_trace_unref(t);
        free(json.s);
}

static void each_allocation_may_fail(void **state)
{
        struct blkup_trace *t = many_devices(20, "sd", "");
        struct text json = { 0 };
        bool is_done = false;

        (void) state;
        assert_int_equal(blkup_trace_write_json(t, keep, &json), 0);
        for (long after = 0; !is_done; after++) {
                struct blkup_trace *back = NULL;
                struct text svg = { 0 };
                int r;

                fail_alloc_arm(after, false);
                r = blkup_trace_read_json(json.s, json.n, 0, &back, NULL);
                if (r == 0)
                        r = blkup_trace_write_svg(back, keep, &svg);
                is_done = fail_alloc_disarm() == 0;
                assert_true(r == 0 || r == -ENOMEM);
                assert_true(!is_done || r == 0);
                blkup_trace_unref(back);
                free(svg.s);
        }
        blkup_trace_unref(t);
        free(json.s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(is_legible_for_few_and_for_many),
                cmocka_unit_test(is_there_without_a_span),
                cmocka_unit_test(hostile_names_are_harmless),
                cmocka_unit_test(one_name_of_each_byte),
                cmocka_unit_test(shortening_fits_and_keeps_both_ends),
                cmocka_unit_test(durations_have_three_digits),
                cmocka_unit_test(json_comes_back_as_it_was),
                cmocka_unit_test(what_is_no_trace_is_refused),
                cmocka_unit_test(others_events_are_passed_over),
                cmocka_unit_test(every_cut_of_a_trace_is_refused),
                cmocka_unit_test(spans_are_bounded),
                cmocka_unit_test(each_allocation_may_fail),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
