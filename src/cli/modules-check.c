/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `modules check`: what a kernel would answer to a file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/encode.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/modules.h"
#include "cli/output.h"

/* Those that a load can answer; strerrorname_np(3) is glibc's alone. */
static const char *errno_name(int error)
{
        static const struct { int code; const char *name;
        } names[] = {
                { EPERM, "EPERM" },
                { ENOENT, "ENOENT" },
                { EIO, "EIO" },
                { ENOEXEC, "ENOEXEC" },
                { ENOMEM, "ENOMEM" },
                { EACCES, "EACCES" },
                { EBUSY, "EBUSY" },
                { EEXIST, "EEXIST" },
                { ENODEV, "ENODEV" },
                { EISDIR, "EISDIR" },
                { EINVAL, "EINVAL" },
                { EFBIG, "EFBIG" },
                { ENOSPC, "ENOSPC" },
                { ERANGE, "ERANGE" },
                { ENOTDIR, "ENOTDIR" },
                { ELOOP, "ELOOP" },
                { ENODATA, "ENODATA" },
                { EBADMSG, "EBADMSG" },
                { EOPNOTSUPP, "EOPNOTSUPP" },
                { ENOKEY, "ENOKEY" },
                { ENOPKG, "ENOPKG" },
                { EKEYREJECTED, "EKEYREJECTED" },
        };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(names); i++)
                if (names[i].code == -error)
                        return names[i].name;
        return "EUNKNOWN";
}

static void json_verdict(struct blkup_json *j, const struct blkup_module_verdict *v)
{
        blkup_json_begin_object(j);
        blkup_json_key(j, "file");
        blkup_json_string(j, v->file);
        blkup_json_key(j, "module");
        if (*v->module)
                blkup_json_string(j, v->module);
        else
                blkup_json_null(j);
        blkup_json_key(j, "verdict");
        blkup_json_string(j, v->error < 0 ? "refuse" : "load");
        blkup_json_key(j, "errno");
        if (v->error < 0)
                blkup_json_string(j, errno_name(v->error));
        else
                blkup_json_null(j);
        blkup_json_key(j, "stage");
        if (*v->stage)
                blkup_json_string(j, v->stage);
        else
                blkup_json_null(j);
        blkup_json_key(j, "reason");
        if (*v->reason)
                blkup_json_string(j, v->reason);
        else
                blkup_json_null(j);
        blkup_json_end_object(j);
}

static int print_json(const struct blkup_cli_modules_check *o, const struct blkup_module_verdict *v, size_t n)
{
        struct blkup_json j;

        blkup_json_init(&j, blkup_cli_file_sink, stdout, !o->json_lines);
        if (!o->json_lines) {
                blkup_json_begin_object(&j);
                blkup_json_key(&j, "modules");
                blkup_json_begin_array(&j);
        }
        for (size_t i = 0; i < n; i++) {
                json_verdict(&j, &v[i]);
                if (o->json_lines)
                        blkup_json_newline(&j);
        }
        if (!o->json_lines) {
                blkup_json_end_array(&j);
                blkup_json_end_object(&j);
                blkup_json_newline(&j);
        }
        return blkup_json_finish(&j);
}

static void print_text(const struct blkup_cli_modules_check *o, const struct blkup_module_verdict *v,
                       size_t n, size_t n_refused)
{
        char file[4 * 1024], reason[4 * sizeof(v->reason)];

        for (size_t i = 0; i < n; i++) {
                if (o->all && v[i].error == 0 && !o->verbose)
                        continue;
                (void) blkup_encode_terminal(v[i].file, strlen(v[i].file), file, sizeof(file));
                (void) blkup_encode_terminal(v[i].reason, strlen(v[i].reason), reason, sizeof(reason));
                if (v[i].error < 0)
                        printf("%s: refuse: %s: %s: %s\n", file, errno_name(v[i].error), v[i].stage,
                               reason);
                else
                        printf("%s: load%s%s\n", file, *reason ? ": " : "", reason);
        }
        if (o->all)
                printf("%zu modules, %zu refused\n", n, n_refused);
}

static void print_stats(const struct blkup_module_check_stats *s)
{
        double n = s->n_files ? (double) s->n_files : 1;

        (void) fprintf(
                stderr,
                "%zu files in %.3f ms; lock wait mean %.4f ms, largest %.3f ms; link mean %.4f ms, largest "
                "%.3f ms\n",
                s->n_files, (double) s->span_ns / 1e6, (double) s->lock_wait_ns / n / 1e6,
                (double) s->lock_wait_most_ns / 1e6, (double) s->link_ns / n / 1e6,
                (double) s->link_most_ns / 1e6);
}

static int run(const struct blkup_cli_modules_check *o, struct blkup_module_check *c, char **files, size_t n)
{
        struct blkup_module_verdict *v = calloc(n + 1, sizeof(*v));
        struct blkup_module_check_stats stats = { 0 };
        struct blkup_error err = { 0 };
        int r = v ? blkup_module_check_run(c, files, n, o->all, v, &stats, &err) : -ENOMEM;

        if (r < 0) {
                blkup_cli_error("modules", "%s", err.code ? err.message : blkup_error_text(-r));
                free(v);
                return BLKUP_CLI_MODULES_USAGE;
        }
        if (o->json)
                r = print_json(o, v, n);
        else
                print_text(o, v, n, stats.n_refused);
        blkup_cli_note_stdout();
        if (o->stats)
                print_stats(&stats);
        free(v);
        return r < 0             ? BLKUP_CLI_MODULES_USAGE
               : stats.n_refused ? BLKUP_CLI_MODULES_FAILED
                                 : BLKUP_CLI_MODULES_OK;
}

int blkup_cli_modules_check(const struct blkup_cli_modules_check *o, char **files, size_t n)
{
        struct blkup_module_check *c = NULL;
        struct blkup_error err = { 0 };
        char **all = NULL;
        size_t n_all = 0;
        int code, r;

        if (blkup_module_check_new(&o->check, &c, &err) < 0) {
                blkup_cli_error("modules", "%s", err.message);
                return BLKUP_CLI_MODULES_USAGE;
        }
        if (o->all) {
                if (!blkup_modules_has_index(o->check.modules)) {
                        blkup_cli_modules_explain_missing("modules", o->check.modules, "--all");
                        (void) blkup_module_check_free(c);
                        return BLKUP_CLI_MODULES_USAGE;
                }
                r = blkup_module_check_all(c, &all, &n_all);
                if (r < 0)
                        blkup_cli_error("modules", "%s", blkup_error_text(-r));
                code = r < 0 ? BLKUP_CLI_MODULES_USAGE : run(o, c, all, n_all);
                for (size_t i = 0; i < n_all; i++)
                        free(all[i]);
                free(all);
        } else {
                code = run(o, c, files, n);
        }
        (void) blkup_module_check_free(c);
        return code;
}
