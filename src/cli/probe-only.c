/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the small builds do without, for the callers that ask for it all the same: no option leads here.
 * blkup-probe has no table and no timeline, and neither it nor the small blkup explains anything.
 */
#include <errno.h>

#include "cli/cmd-probe.h"
#include "cli/timeline.h"

void blkup_cli_probe_print_explain(FILE *f, const struct blkup_cli_probe_answer *a)
{
        (void) f;
        (void) a;
}

void blkup_cli_probe_json_candidates(struct blkup_json *j, const struct blkup_probe *p)
{
        (void) j;
        (void) p;
}

#if BLKUP_ONLY_PROBE
/* In front of the library's: without a timeline there is nothing to add to, and 3 KB of locks and clocks stay
 * away. */
void blkup_trace_add(struct blkup_trace *t, const struct blkup_span *s)
{
        (void) t;
        (void) s;
}

const char blkup_cli_timeline_suffixes[] = "";

bool blkup_cli_timeline_has_suffix(const char *path)
{
        (void) path;
        return false;
}

int blkup_cli_write_timeline(struct blkup_trace *t, const char *title, const char *path,
                             struct blkup_error *err)
{
        (void) t;
        (void) title;
        return blkup_fail(err, -ENOSYS, "%s: no timeline in this build", path);
}

int blkup_cli_probe_columns_new(const char *list, struct blkup_cli_probe_columns **ret,
                                const char **ret_unknown, size_t *ret_unknown_len)
{
        (void) list;
        (void) ret_unknown;
        (void) ret_unknown_len;
        *ret = NULL;
        return 0;
}

struct blkup_cli_probe_columns *blkup_cli_probe_columns_free(struct blkup_cli_probe_columns *c)
{
        (void) c;
        return NULL;
}

const char *blkup_cli_probe_column_names(char *out, size_t cap)
{
        if (cap > 0)
                out[0] = '\0';
        return out;
}

int blkup_cli_probe_columns_add(struct blkup_cli_probe_columns *c, const struct blkup_cli_probe_answer *a,
                                bool bytes)
{
        (void) c;
        (void) a;
        (void) bytes;
        return -ENOSYS;
}

int blkup_cli_probe_columns_print(struct blkup_cli_probe_columns *c, bool headings)
{
        (void) c;
        (void) headings;
        return -ENOSYS;
}

int blkup_cli_probe_columns_json(const struct blkup_cli_probe_columns *c, struct blkup_json *j,
                                 const struct blkup_cli_probe_answer *a)
{
        (void) c;
        (void) j;
        (void) a;
        return -ENOSYS;
}
#endif
