/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `modules load`, `modules remove`, and the same of modprobe. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/modules.h"
#include "cli/output.h"
#include "cli/timeline.h"
#include "trace/trace.h"

static const char *const outcomes[] = {
        [BLKUP_MODULE_LOADED] = "loaded",           [BLKUP_MODULE_WAS_LOADED] = "was-loaded",
        [BLKUP_MODULE_RAN] = "ran",                 [BLKUP_MODULE_NOT_NEEDED] = "not-needed",
        [BLKUP_MODULE_NO_HARDWARE] = "no-hardware", [BLKUP_MODULE_FAILED] = "failed",
        [BLKUP_MODULE_SKIPPED] = "skipped",         [BLKUP_MODULE_HUNG] = "hung",
};

static bool is_bad(const struct blkup_cli_modules_load *o, const struct blkup_module_result *r)
{
        switch (r->outcome) {
        case BLKUP_MODULE_FAILED:
        case BLKUP_MODULE_SKIPPED:
                /* What needs absent hardware is absent too. */
                if (o->lenient && (r->error == -ENODEV || r->error == -ENXIO))
                        return false;
                return r->is_required;
        case BLKUP_MODULE_NO_HARDWARE:
                return r->is_required && !o->lenient;
        case BLKUP_MODULE_HUNG:
                return true;
        case BLKUP_MODULE_WAS_LOADED:
                return o->first_time && r->is_required;
        default:
                return false;
        }
}

static void say(const struct blkup_cli_modules_load *o, const struct blkup_module_result *r)
{
        if (r->outcome == BLKUP_MODULE_SKIPPED)
                blkup_cli_error(o->command, "%s: skipped: needs %s", r->name,
                                r->culprit ? r->culprit : "a module that failed");
        else if (r->outcome == BLKUP_MODULE_WAS_LOADED)
                blkup_cli_error(o->command, "%s: it is loaded already", r->name);
        else
                blkup_cli_error(o->command, "%s: %s%s%s", r->name,
                                r->error < 0 ? blkup_error_text(-r->error) : "failed",
                                *r->message ? ": " : "", r->message);
}

static void print_verbose(const struct blkup_module_result *r)
{
        printf("%-11s %s", outcomes[r->outcome], r->name);
        if (r->end_ns > r->start_ns)
                printf(" %.1f ms", (double) (r->end_ns - r->start_ns) / 1e6);
        printf("\n");
}

static int print_json(const struct blkup_module_load *l, uint64_t span_ns)
{
        struct blkup_json j;

        blkup_json_init(&j, blkup_cli_file_sink, stdout, true);
        blkup_json_begin_object(&j);
        blkup_json_key(&j, "span_ms");
        blkup_json_double(&j, (double) span_ns / 1e6, 3);
        blkup_json_key(&j, "modules");
        blkup_json_begin_array(&j);
        for (size_t i = 0; i < blkup_module_load_count(l); i++) {
                const struct blkup_module_result *r = blkup_module_load_result(l, i);

                blkup_json_begin_object(&j);
                blkup_json_key(&j, "name");
                blkup_json_string(&j, r->name);
                blkup_json_key(&j, "outcome");
                blkup_json_string(&j, outcomes[r->outcome]);
                blkup_json_key(&j, "required");
                blkup_json_bool(&j, r->is_required);
                blkup_json_key(&j, "calls");
                blkup_json_u64(&j, r->calls);
                blkup_json_key(&j, "bytes");
                blkup_json_u64(&j, r->size_bytes);
                blkup_json_key(&j, "unpack_ms");
                blkup_json_double(&j, (double) (r->prepare_end_ns - r->prepare_start_ns) / 1e6, 3);
                blkup_json_key(&j, "load_ms");
                blkup_json_double(&j, (double) (r->end_ns - r->start_ns) / 1e6, 3);
                blkup_json_key(&j, "error");
                if (r->error < 0)
                        blkup_json_i64(&j, r->error);
                else
                        blkup_json_null(&j);
                if (r->culprit) {
                        blkup_json_key(&j, "needs");
                        blkup_json_string(&j, r->culprit);
                }
                if (r->error < 0) {
                        blkup_json_key(&j, "message");
                        blkup_json_string(&j, r->message);
                }
                blkup_json_end_object(&j);
        }
        blkup_json_end_array(&j);
        blkup_json_end_object(&j);
        blkup_json_newline(&j);
        return blkup_json_finish(&j);
}

static int tell(const struct blkup_cli_modules_load *o, const struct blkup_module_load *l, int code)
{
        uint64_t first = UINT64_MAX, last = 0;

        for (size_t i = 0; i < blkup_module_load_count(l); i++) {
                const struct blkup_module_result *r = blkup_module_load_result(l, i);

                if (r->start_ns && r->start_ns < first)
                        first = r->start_ns;
                if (r->end_ns > last)
                        last = r->end_ns;
                if (o->verbose && !o->json)
                        print_verbose(r);
                if (is_bad(o, r)) {
                        code = BLKUP_CLI_MODULES_FAILED;
                        if (!o->quiet)
                                say(o, r);
                }
        }
        if (o->json && print_json(l, last > first ? last - first : 0) < 0 && !ferror(stdout))
                code = BLKUP_CLI_MODULES_FAILED;
        blkup_cli_note_stdout();
        return code;
}

static int load_plan(const struct blkup_cli_modules_load *o, struct blkup_module_plan *p, int code)
{
        struct blkup_module_load_options load = o->load;
        struct blkup_module_load *l = NULL;
        struct blkup_error err = { 0 };
        int r;

        if (o->timeline) {
                load.trace = blkup_trace_new(0);
                if (!load.trace) {
                        blkup_cli_error(o->command, "out of memory");
                        return BLKUP_CLI_MODULES_FAILED;
                }
        }
        r = blkup_module_load(p, &load, &l, &err);
        if (r < 0) {
                blkup_cli_error(o->command, "%s", err.message);
                code = BLKUP_CLI_MODULES_FAILED;
        } else {
                code = tell(o, l, code);
                (void) blkup_module_load_free(l);
        }
        if (r == 0 && o->timeline &&
            blkup_cli_write_timeline(load.trace, "blkup modules load", o->timeline, &err) < 0) {
                blkup_cli_error(o->command, "%s", err.message);
                code = BLKUP_CLI_MODULES_FAILED;
        }
        (void) blkup_trace_unref(load.trace);
        return code;
}

int blkup_cli_modules_load(const struct blkup_modules *m, const struct blkup_cli_modules_load *o,
                           const struct blkup_cli_requests *q)
{
        struct blkup_module_plan *p = NULL;
        int code = BLKUP_CLI_MODULES_OK, r = blkup_module_plan_new(m, o->flags, &p);

        for (size_t i = 0; r == 0 && i < q->n; i++) {
                size_t n_found = 0, before = blkup_module_plan_n_steps(p);

                r = blkup_module_plan_add(p, q->v[i], o->options, &n_found);
                if (r == -EINVAL) {
                        blkup_cli_error(o->command, "'%s' is no name of a module", q->v[i]);
                        code = BLKUP_CLI_MODULES_FAILED;
                        r = 0;
                } else if (r == 0 && n_found == 0 && !o->lenient) {
                        if (!o->quiet)
                                blkup_cli_modules_explain_missing(o->command, m, q->v[i]);
                        code = BLKUP_CLI_MODULES_FAILED;
                } else if (r == 0 && o->first_time && before == blkup_module_plan_n_steps(p)) {
                        blkup_cli_error(o->command, "%s: it is loaded already", q->v[i]);
                        code = BLKUP_CLI_MODULES_FAILED;
                }
        }
        if (r == 0 && !o->load.no_sha_first)
                r = blkup_module_plan_add_sha(p);
        if (r < 0) {
                blkup_cli_error(o->command, "%s: %s", blkup_modules_folder(m), blkup_error_text(-r));
                code = BLKUP_CLI_MODULES_FAILED;
        } else {
                code = load_plan(o, p, code);
        }
        (void) blkup_module_plan_free(p);
        return code;
}

static void print_removed(void *arg, const char *name)
{
        if (arg)
                printf("rmmod %s\n", name);
}

int blkup_cli_modules_remove(const struct blkup_modules *m, const char *command, bool verbose, bool dry_run,
                             bool quiet, const struct blkup_cli_requests *q)
{
        int code = BLKUP_CLI_MODULES_OK;

        for (size_t i = 0; i < q->n; i++) {
                struct blkup_error err = { 0 };

                if (blkup_module_remove(m, q->v[i], true, dry_run, print_removed, verbose ? &verbose : NULL,
                                        &err) < 0) {
                        if (!quiet)
                                blkup_cli_error(command, "%s", err.message);
                        code = BLKUP_CLI_MODULES_FAILED;
                }
        }
        blkup_cli_note_stdout();
        return code;
}
