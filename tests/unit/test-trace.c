/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
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
#include "trace/trace.h"

/* ---- a sink that keeps everything ---- */

struct text {
        char *s;
        size_t n, cap;
        size_t fail_at; /* 0: never; else -EIO as soon as this many bytes were taken */
};

static int keep(void *to, const char *s, size_t n)
{
        struct text *t = to;

        if (t->fail_at && t->n + n > t->fail_at)
                return -EIO;
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

/* ---- what a reader of the JSON must find, checked by another JSON parser ---- */

static const char check_py[] =
        "import json, sys\n"
        "d = json.load(open(sys.argv[1], encoding='utf-8'))\n"
        "ev = d['traceEvents']\n"
        "x = [e for e in ev if e['ph'] == 'X']\n"
        "assert all(e['ph'] in 'XMsf' for e in ev)\n"
        "assert len(x) == d['otherData']['spans'] == int(sys.argv[2]), len(x)\n"
        "names, order = {}, {}\n"
        "for e in ev:\n"
        "    if e['name'] == 'thread_name' and e['ph'] == 'M': names[e['tid']] = e['args']\n"
        "    if e['name'] == 'thread_sort_index' and e['ph'] == 'M': order[e['tid']] = "
        "e['args']['sort_index']\n"
        "assert [e for e in ev if e['name'] == 'process_name'][0]['args']['name'] == 'blkup'\n"
        "assert set(names) == set(order) == {e['tid'] for e in x}\n"
        "assert sorted(order.values()) == list(range(len(order)))\n"
        "assert all(isinstance(e['pid'], int) and e['ts'] >= 0 and e['dur'] >= 0 for e in x)\n"
        /* Slices of one thread nest: a viewer draws anything else wrong. In whole ns, to compare exactly. */
        "for tid in names:\n"
        "    open_ = []\n"
        "    for e in [e for e in x if e['tid'] == tid]:\n"
        "        s, t = round(e['ts'] * 1000), round(e['ts'] * 1000) + round(e['dur'] * 1000)\n"
        "        while open_ and open_[-1] <= s: open_.pop()\n"
        "        assert not open_ or t <= open_[-1], (tid, e)\n"
        "        open_.append(t)\n";

static void run_python(const struct text *json, uint64_t n_spans, const char *more)
{
        char path[] = "/tmp/blkup-test-trace-XXXXXX", count[32];
        struct text script = { 0 };
        int fd, status;
        pid_t pid;

        fd = mkstemp(path);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, json->s, json->n), (ssize_t) json->n);
        close(fd);
        (void) snprintf(count, sizeof(count), "%" PRIu64, n_spans);
        keep(&script, check_py, strlen(check_py));
        keep(&script, more, strlen(more));
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                execlp("python3", "python3", "-I", "-S", "-c", script.s, path, count, (char *) NULL);
                _exit(127);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        unlink(path);
        free(script.s);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
                print_message("SKIP: no python3 to read the JSON with\n");
                skip();
        }
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
}

static void check_json(struct blkup_trace *t, const char *more)
{
        struct text json = { 0 };

        assert_int_equal(blkup_trace_write_json(t, keep, &json), 0);
        run_python(&json, blkup_trace_count(t), more);
        free(json.s);
}

static void add(struct blkup_trace *t, enum blkup_span_kind kind, const char *lane, uint64_t from,
                uint64_t to)
{
        struct blkup_span s = { .kind = kind, .lane = lane, .name = "step", .start_ns = from, .end_ns = to };

        blkup_trace_add(t, &s);
}

/* ---- the store ---- */

static void no_trace_is_no_work(void **state)
{
        struct blkup_span s = { .lane = "sda", .name = "read" }, got = { .bytes = 7 };
        struct text text = { 0 };

        (void) state;
        blkup_trace_add(NULL, &s);
        assert_int_equal(blkup_trace_count(NULL), 0);
        assert_int_equal(blkup_trace_dropped(NULL), 0);
        assert_int_equal(blkup_trace_get(NULL, 0, &got), -ENOENT);
        assert_int_equal(got.bytes, 7);
        assert_int_equal(blkup_trace_write_json(NULL, keep, &text), -EINVAL);
        assert_int_equal(blkup_trace_write_table(NULL, keep, &text), -EINVAL);
        assert_null(blkup_trace_unref(NULL));
}

static void spans_come_back_in_order_of_start(void **state)
{
        struct blkup_trace *t = blkup_trace_new(0);
        char lane[] = "sda", name[] = "read", detail[] = "why";
        struct blkup_span s = { .kind = BLKUP_SPAN_READ,
                                .lane = lane,
                                .name = name,
                                .detail = detail,
                                .start_ns = 30,
                                .end_ns = 45,
                                .bytes = 4096,
                                .reads = 2,
                                .worker = 3,
                                .error = -EIO };
        struct blkup_span got;

        (void) state;
        assert_non_null(t);
        blkup_trace_add(t, &s);
        memset(lane, 'x', 3); /* texts were copied */
        memset(name, 'x', 4);
        memset(detail, 'x', 3);
        add(t, BLKUP_SPAN_MOUNT, "first", 10, 20);
        assert_int_equal(blkup_trace_get(t, 1, &got), 0);
        assert_int_equal(got.kind, BLKUP_SPAN_READ);
        assert_string_equal(got.lane, "sda");
        assert_string_equal(got.name, "read");
        assert_string_equal(got.detail, "why");
        assert_int_equal(got.start_ns, 30);
        assert_int_equal(got.end_ns, 45);
        assert_int_equal(got.bytes, 4096);
        assert_int_equal(got.reads, 2);
        assert_int_equal(got.worker, 3);
        assert_int_equal(got.error, -EIO);
        /* Equal starts keep the order they were added in, also across a sort that was done before. */
        add(t, BLKUP_SPAN_WAIT, "second", 10, 11);
        add(t, BLKUP_SPAN_WAIT, "third", 10, 12);
        assert_int_equal(blkup_trace_get(t, 0, &got), 0);
        assert_string_equal(got.lane, "first");
        assert_null(got.detail);
        assert_int_equal(blkup_trace_get(t, 1, &got), 0);
        assert_string_equal(got.lane, "second");
        assert_int_equal(blkup_trace_get(t, 2, &got), 0);
        assert_string_equal(got.lane, "third");
        got.bytes = 7;
        assert_int_equal(blkup_trace_get(t, 4, &got), -ENOENT);
        assert_int_equal(blkup_trace_get(t, UINT64_MAX, &got), -ENOENT);
        assert_int_equal(got.bytes, 7);
        assert_int_equal(blkup_trace_count(t), 4);
        assert_null(blkup_trace_unref(t));
}

static void a_full_trace_counts_what_it_drops(void **state)
{
        struct blkup_trace *t = blkup_trace_new(600); /* more than one chunk */
        struct blkup_span got;

        (void) state;
        for (unsigned i = 0; i < 700; i++)
                add(t, BLKUP_SPAN_READ, "sda", 1000 - i, 2000);
        assert_int_equal(blkup_trace_count(t), 600);
        assert_int_equal(blkup_trace_dropped(t), 100);
        for (unsigned i = 0; i < 600; i++) {
                assert_int_equal(blkup_trace_get(t, i, &got), 0);
                assert_int_equal(got.start_ns, 401 + i);
        }
        assert_int_equal(blkup_trace_get(t, 600, &got), -ENOENT);
        blkup_trace_unref(t);
}

static void long_texts_are_cut_between_characters(void **state)
{
        struct blkup_trace *t = blkup_trace_new(0);
        struct blkup_span s = { 0 }, got;
        char *big = malloc(65537), edge[300];

        (void) state;
        memset(big, 'a', 65536);
        big[65536] = '\0';
        s.lane = s.name = s.detail = big;
        blkup_trace_add(t, &s);
        free(big);
        assert_int_equal(blkup_trace_get(t, 0, &got), 0);
        assert_int_equal(strlen(got.lane), 255);
        assert_int_equal(strlen(got.name), 255);
        assert_int_equal(strlen(got.detail), 255);

        /* A character of 1 to 4 bytes that ends at byte 255 stays, one that would end later goes whole. */
        static const char *const characters[] = { "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x92\xbe" };
        for (size_t c = 0; c < 4; c++) {
                size_t len = strlen(characters[c]);

                for (size_t before = 250; before < 256; before++) {
                        memset(edge, 'b', sizeof(edge));
                        memcpy(edge + before, characters[c], len);
                        edge[290] = '\0';
                        s = (struct blkup_span){ .lane = edge, .name = "n", .start_ns = 1 + c * 10 + before };
                        blkup_trace_add(t, &s);
                        assert_int_equal(blkup_trace_get(t, blkup_trace_count(t) - 1, &got), 0);
                        assert_int_equal(strlen(got.lane),
                                         before + len <= 255 || before == 255 || len == 1 ? 255 : before);
                }
        }
        /* Exactly 255 bytes are not cut. */
        memset(edge, 'c', sizeof(edge));
        edge[255] = '\0';
        s = (struct blkup_span){ .lane = edge, .name = "n", .start_ns = 9999 };
        blkup_trace_add(t, &s);
        assert_int_equal(blkup_trace_get(t, blkup_trace_count(t) - 1, &got), 0);
        assert_string_equal(got.lane, edge);
        blkup_trace_unref(t);
}

static void odd_spans_are_made_sane(void **state)
{
        struct blkup_trace *t = blkup_trace_new(0);
        struct blkup_span s = { .kind = (enum blkup_span_kind) 77, .start_ns = 100, .end_ns = 50 }, got;

        (void) state;
        blkup_trace_add(t, &s);
        s = (struct blkup_span){ .lane = "x",
                                 .name = "all",
                                 .start_ns = 100,
                                 .end_ns = UINT64_MAX,
                                 .bytes = UINT64_MAX,
                                 .reads = UINT64_MAX,
                                 .worker = ~0u,
                                 .error = INT32_MIN };
        blkup_trace_add(t, &s);
        blkup_trace_add(t, &s);
        assert_int_equal(blkup_trace_get(t, 0, &got), 0);
        assert_int_equal(got.kind, BLKUP_SPAN_OTHER);
        assert_string_equal(got.lane, "");
        assert_string_equal(got.name, "");
        assert_int_equal(got.end_ns, 100);
        check_json(t, "assert x[0]['args']['error'] == -2**31 and x[0]['args']['bytes'] == 2**64 - 1\n"
                      "assert x[2]['args'] == {'worker': 0}\n");
        blkup_trace_unref(t);
}

/* ---- threads ---- */

#define THREADS        8
#define SPANS_A_THREAD 3000

struct writer {
        struct blkup_trace *trace;
        unsigned number;
};

static void *write_many(void *arg)
{
        const struct writer *w = arg;

        for (unsigned i = 0; i < SPANS_A_THREAD; i++) {
                char lane[32], detail[32];
                struct blkup_span s = { .kind = (enum blkup_span_kind)(i % 9),
                                        .lane = lane,
                                        .name = "step",
                                        .detail = detail,
                                        .start_ns = i * 8 + w->number,
                                        .end_ns = i * 8 + 100,
                                        .bytes = 1,
                                        .worker = w->number };

                (void) snprintf(lane, sizeof(lane), "lane%u", i % 50);
                (void) snprintf(detail, sizeof(detail), "%u/%u", w->number, i);
                blkup_trace_add(w->trace, &s);
        }
        return NULL;
}

static void many_threads_add_to_one_trace(void **state)
{
        struct blkup_trace *t = blkup_trace_new(0);
        pthread_t threads[THREADS];
        struct writer writers[THREADS];
        uint64_t seen = 0, last = 0, by_worker[THREADS] = { 0 };
        struct blkup_span got;

        (void) state;
        for (unsigned i = 0; i < THREADS; i++) {
                writers[i] = (struct writer){ .trace = t, .number = i };
                assert_int_equal(pthread_create(&threads[i], NULL, write_many, &writers[i]), 0);
        }
        /* Reading while they write is allowed and sees whole spans; the counters only grow. */
        for (unsigned i = 0; i < 50; i++) {
                uint64_t n = blkup_trace_count(t);
                char lane[32], detail[32];

                assert_true(n >= seen);
                seen = n;
                if (n == 0)
                        continue;
                assert_int_equal(blkup_trace_get(t, n - 1, &got), 0);
                (void) snprintf(lane, sizeof(lane), "lane%" PRIu64, (got.start_ns - got.worker) / 8 % 50);
                (void) snprintf(detail, sizeof(detail), "%u/%" PRIu64, got.worker,
                                (got.start_ns - got.worker) / 8);
                assert_string_equal(got.lane, lane);
                assert_string_equal(got.detail, detail);
        }
        for (unsigned i = 0; i < THREADS; i++)
                assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(blkup_trace_count(t), THREADS * SPANS_A_THREAD);
        assert_int_equal(blkup_trace_dropped(t), 0);
        for (uint64_t i = 0; i < THREADS * SPANS_A_THREAD; i++) {
                assert_int_equal(blkup_trace_get(t, i, &got), 0);
                assert_true(got.start_ns >= last);
                last = got.start_ns;
                by_worker[got.worker]++;
        }
        for (unsigned i = 0; i < THREADS; i++)
                assert_int_equal(by_worker[i], SPANS_A_THREAD);
        check_json(t, "assert len({a['lane'] for a in names.values()}) == 50\n");
        blkup_trace_unref(t);
}

/* ---- memory ---- */

static long store_and_write(long after, bool for_good)
{
        struct text json = { 0 }, table = { 0 };
        struct blkup_trace *t;
        long failed;
        int r;

        fail_alloc_arm(after, for_good);
        t = blkup_trace_new(0);
        for (unsigned i = 0; t && i < 300; i++) {
                char lane[300];
                struct blkup_span s = {
                        .lane = lane, .name = "n", .detail = lane, .start_ns = i, .end_ns = i + 9
                };

                (void) snprintf(lane, sizeof(lane), "%0200u", i % 100);
                errno = EXDEV;
                blkup_trace_add(t, &s);
                assert_int_equal(errno, EXDEV);
                assert_int_equal(blkup_trace_count(t) + blkup_trace_dropped(t), i + 1);
        }
        r = t ? blkup_trace_write_json(t, keep, &json) : -ENOMEM;
        assert_true(r == 0 || r == -ENOMEM);
        r = t ? blkup_trace_write_table(t, keep, &table) : -ENOMEM;
        assert_true(r == 0 || r == -ENOMEM);
        failed = fail_alloc_disarm();
        if (t && failed) { /* what was kept is still whole */
                struct text again = { 0 };
                struct blkup_span got;

                for (uint64_t i = 0; i < blkup_trace_count(t); i++) {
                        assert_int_equal(blkup_trace_get(t, i, &got), 0);
                        assert_int_equal(strlen(got.lane), 200);
                }
                assert_int_equal(blkup_trace_write_json(t, keep, &again), 0);
                free(again.s);
        }
        free(json.s);
        free(table.s);
        blkup_trace_unref(t);
        return failed;
}

static void each_allocation_may_fail(void **state)
{
        long n = 0;

        (void) state;
        assert_true(store_and_write(0, true) > 0); /* else the wrapper is not linked in */
        while (store_and_write(n, false) > 0) {
                if (n % 4 == 0)
                        assert_true(store_and_write(n, true) > 0);
                n++;
                assert_true(n < 1000);
        }
        assert_true(n > 10);
}

/* ---- the JSON writer ---- */

static void times_are_exact_to_the_nanosecond(void **state)
{
        struct blkup_trace *t = blkup_trace_new(0);
        /* A machine that is up for a year; spans over a day of it. */
        uint64_t zero = UINT64_C(31536000000000123);

        (void) state;
        add(t, BLKUP_SPAN_PROBE, "sda", zero, zero + 1);
        add(t, BLKUP_SPAN_READ, "sdb", zero + 1, zero + 1000);
        add(t, BLKUP_SPAN_MOUNT, "sda", zero + UINT64_C(86399999999999), zero + UINT64_C(86400000000001));
        check_json(t, "assert d['otherData']['start_ns'] == 31536000000000123\n"
                      "assert d['displayTimeUnit'] == 'ns'\n"
                      "raw = open(sys.argv[1]).read()\n"
                      "assert '\"ts\":0.000,\"dur\":0.001' in raw, raw\n"
                      "assert '\"ts\":0.001,\"dur\":0.999' in raw\n"
                      "assert '\"ts\":86399999999.999,\"dur\":0.002' in raw\n"
                      "assert [e['cat'] for e in x] == ['probe', 'read', 'mount']\n"
                      "assert [names[e['tid']]['name'] for e in x] == ['sda', 'sdb', 'sda']\n"
                      "assert x[0]['tid'] == x[2]['tid']\n");
        blkup_trace_unref(t);
}

static void overlapping_spans_get_tracks_of_their_own(void **state)
{
        struct blkup_trace *t = blkup_trace_new(0);

        (void) state;
        add(t, BLKUP_SPAN_READ, "sda", 0, 4); /* starts with the longer one: nests under it */
        add(t, BLKUP_SPAN_PROBE, "sda", 0, 10);
        add(t, BLKUP_SPAN_READ, "sda", 5, 12);  /* hangs out of the probe: another track */
        add(t, BLKUP_SPAN_READ, "sda", 8, 11);  /* nests in that one */
        add(t, BLKUP_SPAN_READ, "sda", 12, 13); /* fits on the first again */
        add(t, BLKUP_SPAN_READ, "sdb", 0, 1);
        check_json(t, "got = sorted((names[e['tid']]['name'], e['ts'], e['dur']) for e in x)\n"
                      "assert got == [('sda', 0, 0.004), ('sda', 0, 0.01), ('sda', 0.012, 0.001),\n"
                      "    ('sda (2)', 0.005, 0.007), ('sda (2)', 0.008, 0.003), ('sdb', 0, 0.001)], got\n"
                      "assert {a['lane'] for a in names.values()} == {'sda', 'sdb'}\n"
                      /* the tracks of one lane stand together whatever their tid */
                      "byorder = [names[t]['name'] for t in sorted(order, key=order.get)]\n"
                      "assert byorder == ['sda', 'sda (2)', 'sdb'], byorder\n");
        blkup_trace_unref(t);
}

static unsigned count_of(const struct text *t, const char *what)
{
        unsigned n = 0;

        for (const char *at = t->s; (at = strstr(at, what)); at++)
                n++;
        return n;
}

static void a_lane_has_a_bounded_number_of_tracks(void **state)
{
        struct blkup_trace *t = blkup_trace_new(0);
        struct text json = { 0 };

        (void) state;
        for (unsigned i = 0; i < 80; i++) /* each overlaps all others, none nests */
                add(t, BLKUP_SPAN_READ, "sda", i, 1000 + i);
        assert_int_equal(blkup_trace_write_json(t, keep, &json), 0);
        assert_int_equal(count_of(&json, "\"ph\":\"X\""), 80);
        assert_int_equal(count_of(&json, "\"thread_name\""), 64);
        free(json.s);
        blkup_trace_unref(t);

        /* Deeper than a track remembers: still nested, on the next track. */
        t = blkup_trace_new(0);
        for (unsigned i = 0; i < 40; i++)
                add(t, BLKUP_SPAN_PROBE, "sda", i, 1000 - i);
        check_json(t, "assert len(names) == 3\n");
        blkup_trace_unref(t);
}

static void random_spans_always_nest(void **state)
{
        uint64_t seed = 12345;

        (void) state;
        for (unsigned round = 0; round < 4; round++) {
                struct blkup_trace *t = blkup_trace_new(0);

                for (unsigned i = 0; i < 800; i++) {
                        char lane[16];
                        uint64_t from, len;

                        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
                        from = (seed >> 33) % (round & 1 ? 50 : 5000);
                        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
                        len = (seed >> 33) % (round & 2 ? 8 : 300);
                        /* few enough at once on one lane that none has to share the last track */
                        (void) snprintf(lane, sizeof(lane), "l%u", i % 40);
                        add(t, (enum blkup_span_kind)(i % 9), lane, from, from + len);
                }
                check_json(t, "");
                blkup_trace_unref(t);
        }
}

static void hostile_texts_stay_data(void **state)
{
        static const char *const texts[] = {
                "\"},{\"ph\":\"X\"",
                "</svg><script>alert(1)</script>",
                "a\\b\"c'd`$(id)",
                "\x1b[31mred\x1b[0m\a",
                "new\nline\r\ttab",
                "\xff\xfe\xc0\xaf\xed\xa0\x80",
                "\xe2\x80\xa8\xe2\x80\xae",
                "%s%n%d",
                "",
                "\x7f\xc2\x9b[31m",
                "NaN",
                "\xf0\x9f\x92\xbe",
        };
        struct blkup_trace *t = blkup_trace_new(0);
        struct text json = { 0 }, table = { 0 };

        (void) state;
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                struct blkup_span s = {
                        .lane = texts[i], .name = texts[i], .detail = texts[i], .start_ns = i, .end_ns = i + 5
                };

                blkup_trace_add(t, &s);
        }
        assert_int_equal(blkup_trace_write_json(t, keep, &json), 0);
        for (size_t i = 0; i < json.n; i++) {
                assert_true((unsigned char) json.s[i] >= 0x20 && json.s[i] != 0x7f);
                assert_true(json.s[i] != '<' && json.s[i] != '>');
        }
        run_python(&json, sizeof(texts) / sizeof(texts[0]),
                   "assert x[0]['name'] == '\"},{\"ph\":\"X\"' and x[3]['args']['detail'] == "
                   "'\\x1b[31mred\\x1b[0m\\a'\n"
                   "assert x[7]['name'] == '%s%n%d' and x[11]['name'] == '\\U0001f4be'\n"
                   "assert len({a['lane'] for a in names.values()}) == 12\n");
        /* A terminal gets no control character but the ends of lines: heading, 12 lanes, sum. */
        assert_int_equal(blkup_trace_write_table(t, keep, &table), 0);
        size_t lines = 0;
        for (size_t i = 0; i < table.n; i++) {
                lines += table.s[i] == '\n';
                assert_true(table.s[i] == '\n' || ((unsigned char) table.s[i] >= 0x20 && table.s[i] != 0x7f));
        }
        assert_int_equal(lines, 14);
        assert_null(strstr(table.s, "\xc2\x9b"));
        assert_null(strstr(table.s, "\xff"));
        assert_non_null(strstr(table.s, "%s%n%d"));
        free(json.s);
        free(table.s);
        blkup_trace_unref(t);
}

static void an_empty_trace_is_well_formed(void **state)
{
        struct blkup_trace *t = blkup_trace_new(0);
        struct text table = { 0 };

        (void) state;
        check_json(t, "assert x == []\n");
        assert_int_equal(blkup_trace_write_table(t, keep, &table), 0);
        assert_string_equal(table.s, "    TOTAL ms  LANE\n"
                                     "       0.000  (all lanes together)\n");
        free(table.s);
        blkup_trace_unref(t);
}

static void the_error_of_the_sink_comes_back(void **state)
{
        struct blkup_trace *t = blkup_trace_new(0);
        struct text whole = { 0 };

        (void) state;
        add(t, BLKUP_SPAN_READ, "sda", 1, 5);
        add(t, BLKUP_SPAN_READ, "sda", 2, 9);
        assert_int_equal(blkup_trace_write_json(t, keep, &whole), 0);
        for (size_t at = 1; at < whole.n; at += 7) {
                struct text part = { .fail_at = at };

                assert_int_equal(blkup_trace_write_json(t, keep, &part), -EIO);
                free(part.s);
        }
        free(whole.s);
        whole = (struct text){ 0 };
        assert_int_equal(blkup_trace_write_table(t, keep, &whole), 0);
        for (size_t at = 1; at < whole.n; at += 7) {
                struct text part = { .fail_at = at };

                assert_int_equal(blkup_trace_write_table(t, keep, &part), -EIO);
                free(part.s);
        }
        free(whole.s);
        blkup_trace_unref(t);
}

/* ---- the table ---- */

static void the_table_counts_no_time_twice(void **state)
{
        struct blkup_trace *t = blkup_trace_new(0);
        struct text table = { 0 };
        struct blkup_span s = { .kind = BLKUP_SPAN_READ,
                                .lane = "sda",
                                .name = "read",
                                .start_ns = 2000000,
                                .end_ns = 6000000,
                                .bytes = 4096,
                                .reads = 1 };

        (void) state;
        add(t, BLKUP_SPAN_PROBE, "sda", 1000000, 9000000);
        blkup_trace_add(t, &s); /* inside the probe */
        s.start_ns = 4000000;   /* two reads at once */
        s.end_ns = 7000000;
        s.error = -EIO;
        blkup_trace_add(t, &s);
        add(t, BLKUP_SPAN_MOUNT, "/srv\n", 8000000, 12000500);
        add(t, BLKUP_SPAN_MOUNT, "/srv\n", 20000000, 20000499);
        assert_int_equal(blkup_trace_write_table(t, keep, &table), 0);
        assert_string_equal(
                table.s,
                "    TOTAL ms       PROBE        READ       MOUNT         BYTES     READS  ERRORS  LANE\n"
                "       8.000       8.000       5.000           -          8192         2       1  sda\n"
                "       4.001           -           -       4.001             0         0       0  "
                "/srv\\x0a\n"
                "      11.001       8.000       5.000       4.001          8192         2       1  "
                "(all lanes together)\n");
        free(table.s);
        blkup_trace_unref(t);

        t = blkup_trace_new(1);
        table = (struct text){ 0 };
        add(t, BLKUP_SPAN_FSCK, "a", 0, UINT64_MAX);
        add(t, BLKUP_SPAN_FSCK, "a", 0, 1);
        assert_int_equal(blkup_trace_write_table(t, keep, &table), 0);
        assert_non_null(strstr(table.s, "18446744073709.552"));
        assert_non_null(strstr(table.s, "\n1 spans were dropped"));
        free(table.s);
        blkup_trace_unref(t);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(no_trace_is_no_work),
                cmocka_unit_test(spans_come_back_in_order_of_start),
                cmocka_unit_test(a_full_trace_counts_what_it_drops),
                cmocka_unit_test(long_texts_are_cut_between_characters),
                cmocka_unit_test(odd_spans_are_made_sane),
                cmocka_unit_test(many_threads_add_to_one_trace),
                cmocka_unit_test(each_allocation_may_fail),
                cmocka_unit_test(times_are_exact_to_the_nanosecond),
                cmocka_unit_test(overlapping_spans_get_tracks_of_their_own),
                cmocka_unit_test(a_lane_has_a_bounded_number_of_tracks),
                cmocka_unit_test(random_spans_always_nest),
                cmocka_unit_test(hostile_texts_stay_data),
                cmocka_unit_test(an_empty_trace_is_well_formed),
                cmocka_unit_test(the_error_of_the_sink_comes_back),
                cmocka_unit_test(the_table_counts_no_time_twice),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
