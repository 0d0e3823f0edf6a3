/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cli/compare-output.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/output.h"
#include "cli/table.h"

enum column {
        COL_A,
        COL_B,
        COL_CHANGE,
        COL_PERCENT,
        COL_INTERVAL,
        COL_P,
        COL_VERDICT,
        COL_STEP,
        COL_LANE,
        COLUMNS
};

static const struct blkup_cli_column columns[COLUMNS] = {
        [COL_A] = { "A ms", true, false },           [COL_B] = { "B ms", true, false },
        [COL_CHANGE] = { "CHANGE", true, false },    [COL_PERCENT] = { "%", true, false },
        [COL_INTERVAL] = { "BETWEEN", true, false }, [COL_P] = { "P", true, false },
        [COL_VERDICT] = { "VERDICT", false, false }, [COL_STEP] = { "STEP", false, false },
        [COL_LANE] = { "LANE", false, false },
};

static int set(struct blkup_cli_table *t, size_t row, enum column column, const char *text)
{
        return blkup_cli_table_set(t, row, column, text, strlen(text));
}

static int add_row(struct blkup_cli_table *t, const struct blkup_compare_item *i)
{
        enum blkup_cli_colour colour = i->verdict == BLKUP_COMPARE_SLOWER ? BLKUP_CLI_RED : BLKUP_CLI_PLAIN;
        char text[64];
        size_t row;
        int r = blkup_cli_table_add_row(t, BLKUP_CLI_NO_PARENT, colour, &row);

        if (r == 0 && i->n_a > 0) {
                (void) snprintf(text, sizeof(text), "%.3f", i->median_a / 1e6);
                r = set(t, row, COL_A, text);
        }
        if (r == 0 && i->n_b > 0) {
                (void) snprintf(text, sizeof(text), "%.3f", i->median_b / 1e6);
                r = set(t, row, COL_B, text);
        }
        if (r == 0 && i->n_a > 0 && i->n_b > 0) {
                (void) snprintf(text, sizeof(text), "%+.3f", i->shift.shift / 1e6);
                r = set(t, row, COL_CHANGE, text);
                if (r == 0 && i->median_a > 0) {
                        (void) snprintf(text, sizeof(text), "%+.1f", 100 * i->shift.shift / i->median_a);
                        r = set(t, row, COL_PERCENT, text);
                }
                if (r == 0 && i->shift.has_interval) {
                        (void) snprintf(text, sizeof(text), "%+.3f..%+.3f", i->shift.low / 1e6,
                                        i->shift.high / 1e6);
                        r = set(t, row, COL_INTERVAL, text);
                }
                (void) snprintf(text, sizeof(text), i->adjusted_p < 0.001 ? "%.1e" : "%.3f", i->adjusted_p);
                if (r == 0)
                        r = set(t, row, COL_P, text);
        }
        if (r == 0)
                r = set(t, row, COL_VERDICT, blkup_compare_verdict_name(i->verdict));
        if (r == 0)
                r = set(t, row, COL_STEP, i->name);
        return r == 0 ? set(t, row, COL_LANE, i->lane) : r;
}

static void print_count(size_t n, const char *what, bool *has_text)
{
        if (n == 0)
                return;
        printf("%s%zu %s", *has_text ? ", " : "", n, what);
        *has_text = true;
}

static void print_sum(const struct blkup_comparison *c, double alpha)
{
        const struct blkup_compare_item *all = &c->items[0];
        bool has_text = false;

        printf("%zu %s against %zu: ", c->n_a, c->n_a == 1 ? "run" : "runs", c->n_b);
        if (all->verdict == BLKUP_COMPARE_TOO_FEW)
                printf("too few to tell a difference from chance; with %u each a large one could be told (at "
                       "%g)\n",
                       c->runs_needed, alpha);
        else if (all->verdict == BLKUP_COMPARE_SLOWER || all->verdict == BLKUP_COMPARE_FASTER)
                printf("in all %s by %.3f ms\n", blkup_compare_verdict_name(all->verdict),
                       fabs(all->shift.shift) / 1e6);
        else
                printf("in all %s\n",
                       all->verdict == BLKUP_COMPARE_UNCLEAR ? "unclear" : "no difference seen");
        printf("spans: ");
        for (int v = 0; v < BLKUP_COMPARE_VERDICTS; v++)
                print_count(c->counts[v], blkup_compare_verdict_name((enum blkup_compare_verdict) v),
                            &has_text);
        printf("%s\n", has_text ? "" : "none");
}

int blkup_cli_compare_print_table(const struct blkup_comparison *c, double alpha, bool is_all)
{
        struct blkup_cli_table *t = blkup_cli_table_new(columns, COLUMNS);
        int r = t ? 0 : -ENOMEM;

        for (size_t i = 0; r == 0 && i < c->n_items; i++)
                if (i == 0 || is_all ||
                    (c->items[i].verdict != BLKUP_COMPARE_NONE &&
                     c->items[i].verdict != BLKUP_COMPARE_TOO_FEW))
                        r = add_row(t, &c->items[i]);
        if (r == 0)
                r = blkup_cli_table_print(t, true);
        blkup_cli_table_free(t);
        if (r == 0)
                print_sum(c, alpha);
        blkup_cli_note_stdout();
        return r;
}

/* ---- JSON ---- */

static void add_us(struct blkup_json *j, const char *key, double ns)
{
        blkup_json_key(j, key);
        blkup_json_double(j, ns / 1000, 3);
}

static void add_double(struct blkup_json *j, const char *key, double v)
{
        blkup_json_key(j, key);
        blkup_json_double(j, v, 12);
}

static void add_number(struct blkup_json *j, const char *key, uint64_t v)
{
        blkup_json_key(j, key);
        blkup_json_u64(j, v);
}

static void add_string(struct blkup_json *j, const char *key, const char *v)
{
        blkup_json_key(j, key);
        blkup_json_string(j, v);
}

static void add_item(struct blkup_json *j, const struct blkup_compare_item *i, bool is_span)
{
        blkup_json_begin_object(j);
        if (is_span) {
                add_string(j, "lane", i->lane);
                add_string(j, "name", i->name);
        }
        add_string(j, "verdict", blkup_compare_verdict_name(i->verdict));
        add_number(j, "runs_a", i->n_a);
        add_number(j, "runs_b", i->n_b);
        if (i->n_a > 0)
                add_us(j, "median_a_us", i->median_a);
        if (i->n_b > 0)
                add_us(j, "median_b_us", i->median_b);
        if (i->n_a > 0 && i->n_b > 0) {
                add_us(j, "shift_us", i->shift.shift);
                if (i->shift.has_interval) {
                        add_us(j, "shift_low_us", i->shift.low);
                        add_us(j, "shift_high_us", i->shift.high);
                }
                add_double(j, "superiority", i->shift.superiority);
                add_double(j, "p", i->shift.p);
                add_double(j, "adjusted_p", i->adjusted_p);
                add_double(j, "least_p", i->shift.least_p);
                blkup_json_key(j, "exact");
                blkup_json_bool(j, i->shift.is_exact);
        }
        blkup_json_end_object(j);
}

int blkup_cli_compare_print_json(const struct blkup_comparison *c, double alpha, int code)
{
        struct blkup_json j;
        int r;

        blkup_json_init(&j, blkup_cli_file_sink, stdout, true);
        blkup_json_begin_object(&j);
        blkup_json_key(&j, "blkup");
        blkup_json_begin_object(&j);
        add_string(&j, "version", BLKUP_VERSION);
        add_number(&j, "schema", BLKUP_CLI_COMPARE_SCHEMA);
        blkup_json_end_object(&j);
        add_number(&j, "runs_a", c->n_a);
        add_number(&j, "runs_b", c->n_b);
        add_number(&j, "runs_needed", c->runs_needed);
        add_double(&j, "alpha", alpha);
        blkup_json_key(&j, "in_all");
        add_item(&j, &c->items[0], false);
        blkup_json_key(&j, "spans");
        blkup_json_begin_array(&j);
        for (size_t i = 1; i < c->n_items; i++)
                add_item(&j, &c->items[i], true);
        blkup_json_end_array(&j);
        add_number(&j, "exit_code", (uint64_t) code);
        blkup_json_end_object(&j);
        r = blkup_json_finish(&j);
        printf("\n");
        blkup_cli_note_stdout();
        return r;
}
