/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a lock over all of a module's linking costs, and what preparing threads for an error does, in user
 * space: forty modules are taken through the load check by as many threads as there are CPUs, at least two.
 * The figures of 2009 were whole coldplugs on two cores, so only the ratios can be set beside each other.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <blkup/modules.h>

#include "base/error.h"
#include "cli/bench.h"
#include "cli/output.h"

#define N_MODULES 40u

struct row {
        const char *name, *then; /* s in 2009, as reported */
        enum blkup_module_lock lock;
        enum blkup_module_prep prep;
        struct blkup_bench_samples ms;
        double wait_mean_ms, wait_most_ms, link_most_ms;
};

/* The first kernel in DIR/lib/modules; false: none. */
static bool find_release(const char *root, char *ret, size_t cap)
{
        char path[4096];
        struct dirent *e;
        bool found = false;
        DIR *d;

        (void) snprintf(path, sizeof(path), "%s/lib/modules", root ? root : "");
        d = opendir(path);
        while (d && !found && (e = readdir(d))) { /* ends: with the folder */
                if (e->d_name[0] == '.' || strlen(e->d_name) >= cap)
                        continue;
                (void) snprintf(ret, cap, "%s", e->d_name);
                found = true;
        }
        if (d)
                (void) closedir(d);
        return found;
}

static int measure(const struct blkup_modules *m, struct row *row, char **files, size_t n)
{
        struct blkup_module_check_options o = { .modules = m, .lock = row->lock, .prep = row->prep };
        struct blkup_module_verdict *v = calloc(n, sizeof(*v));
        struct blkup_module_check_stats s = { 0 };
        struct blkup_module_check *c = NULL;
        struct blkup_bench_machine machine;
        struct blkup_error err = { 0 };
        int r;

        blkup_bench_ask_machine(&machine);
        o.workers = machine.cpus < 2 ? 2 : machine.cpus;
        r = v ? blkup_module_check_new(&o, &c, &err) : -ENOMEM;
        if (r == 0)
                r = blkup_module_check_run(c, files, n, true, v, &s, &err);
        if (r == 0)
                r = blkup_bench_add(&row->ms, (double) s.span_ns / 1e6);
        if (r < 0)
                blkup_cli_error("bench", "modules: %s", err.code ? err.message : strerror(-r));
        row->wait_mean_ms += (double) s.lock_wait_ns / (double) n / 1e6;
        if ((double) s.lock_wait_most_ns / 1e6 > row->wait_most_ms)
                row->wait_most_ms = (double) s.lock_wait_most_ns / 1e6;
        if ((double) s.link_most_ns / 1e6 > row->link_most_ms)
                row->link_most_ms = (double) s.link_most_ns / 1e6;
        (void) blkup_module_check_free(c);
        free(v);
        return r;
}

static void print_text(struct row *rows, size_t n, unsigned rounds)
{
        printf("%-18s %10s %10s %6s %14s %14s %14s %10s\n", "lock, prep", "least ms", "median ms", "ratio",
               "wait mean ms", "wait most ms", "link most ms", "in 2009");
        for (size_t i = 0; i < n; i++)
                printf("%-18s %10.3f %10.3f %6.2f %14.4f %14.3f %14.3f %10s\n", rows[i].name,
                       blkup_bench_quantile(&rows[i].ms, 0), blkup_bench_quantile(&rows[i].ms, 0.5),
                       blkup_bench_quantile(&rows[i].ms, 0.5) / blkup_bench_quantile(&rows[0].ms, 0.5),
                       rows[i].wait_mean_ms / rounds, rows[i].wait_most_ms, rows[i].link_most_ms,
                       rows[i].then);
}

static int print_json(struct row *rows, size_t n, unsigned rounds, const struct blkup_bench_machine *m)
{
        struct blkup_json j;

        blkup_json_init(&j, blkup_cli_file_sink, stdout, true);
        blkup_json_begin_object(&j);
        blkup_bench_json_machine(&j, m);
        blkup_json_key(&j, "rounds");
        blkup_json_u64(&j, rounds);
        blkup_json_key(&j, "rows");
        blkup_json_begin_array(&j);
        for (size_t i = 0; i < n; i++) {
                blkup_json_begin_object(&j);
                blkup_json_key(&j, "name");
                blkup_json_string(&j, rows[i].name);
                blkup_bench_json_min_median(&j, "ms", &rows[i].ms);
                blkup_json_key(&j, "lock_wait_mean_ms");
                blkup_json_double(&j, rows[i].wait_mean_ms / rounds, 6);
                blkup_json_key(&j, "lock_wait_most_ms");
                blkup_json_double(&j, rows[i].wait_most_ms, 6);
                blkup_json_key(&j, "link_most_ms");
                blkup_json_double(&j, rows[i].link_most_ms, 6);
                blkup_json_key(&j, "reported_2009");
                blkup_json_string(&j, rows[i].then);
                blkup_json_end_object(&j);
        }
        blkup_json_end_array(&j);
        blkup_json_end_object(&j);
        blkup_json_newline(&j);
        return blkup_json_finish(&j);
}

static int run_rows(const struct blkup_bench_options *o, const struct blkup_modules *m, char **files,
                    size_t n)
{
        struct row rows[] = {
                { .name = "big, always",
                  .then = "1.8 s",
                  .lock = BLKUP_MODULE_LOCK_BIG,
                  .prep = BLKUP_MODULE_PREP_ALWAYS },
                { .name = "short, always",
                  .then = "1.3 s",
                  .lock = BLKUP_MODULE_LOCK_SHORT,
                  .prep = BLKUP_MODULE_PREP_ALWAYS },
                { .name = "short, on-error",
                  .then = "1.1 s",
                  .lock = BLKUP_MODULE_LOCK_SHORT,
                  .prep = BLKUP_MODULE_PREP_ON_ERROR },
                { .name = "big, on-error",
                  .then = "almost 1.1",
                  .lock = BLKUP_MODULE_LOCK_BIG,
                  .prep = BLKUP_MODULE_PREP_ON_ERROR },
        };
        struct blkup_bench_machine machine;
        int r = 0;

        blkup_bench_ask_machine(&machine);
        if (!o->json)
                blkup_bench_print_machine(&machine);
        for (unsigned round = 0; r == 0 && round < o->rounds; round++)
                for (size_t i = 0; r == 0 && i < BLKUP_ARRAY_SIZE(rows); i++)
                        r = measure(m, &rows[i], files, n);
        if (r == 0 && o->json)
                r = print_json(rows, BLKUP_ARRAY_SIZE(rows), o->rounds, &machine);
        else if (r == 0)
                print_text(rows, BLKUP_ARRAY_SIZE(rows), o->rounds);
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(rows); i++)
                blkup_bench_free(&rows[i].ms);
        blkup_cli_note_stdout();
        return r < 0;
}

int blkup_bench_modules(const struct blkup_bench_options *o)
{
        struct blkup_module_check_options plain = { 0 };
        struct blkup_module_check *c = NULL;
        struct blkup_modules *m = NULL;
        struct blkup_error err = { 0 };
        char release[256], *some[N_MODULES], **files = NULL;
        size_t n = 0, n_some = 0;
        int r, code = 1;

        if (!find_release(o->sysroot, release, sizeof(release))) {
                blkup_cli_error(
                        "bench",
                        "modules: no kernel's modules in %s/lib/modules; --sysroot DIR names another place",
                        o->sysroot ? o->sysroot : "");
                return 1;
        }
        r = blkup_modules_new(&(struct blkup_modules_where){ o->sysroot, release }, &m, &err);
        plain.modules = m;
        if (r == 0)
                r = blkup_module_check_new(&plain, &c, &err);
        if (r == 0)
                r = blkup_module_check_all(c, &files, &n);
        if (r < 0 || n == 0) {
                blkup_cli_error("bench", "modules: %s",
                                err.code ? err.message : "no modules; has depmod run?");
        } else {
                /* Spread over the folder. */
                for (size_t i = 0; i < n && n_some < N_MODULES; i += n < N_MODULES ? 1 : n / N_MODULES)
                        some[n_some++] = files[i];
                code = run_rows(o, m, some, n_some);
        }
        for (size_t i = 0; i < n; i++)
                free(files[i]);
        free(files);
        (void) blkup_module_check_free(c);
        (void) blkup_modules_free(m);
        return code;
}
