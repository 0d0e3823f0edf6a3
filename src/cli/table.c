/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "base/encode.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/table.h"

#if BLKUP_HAVE_SMARTCOLS && !defined(BLKUP_STATIC)
#include <dlfcn.h>
#include <libsmartcols/libsmartcols.h>
#endif

struct row {
        size_t parent;
        enum blkup_cli_colour colour;
        char **cells; /* NULL: empty */
};

struct blkup_cli_table {
        const struct blkup_cli_column *columns;
        size_t n_columns;
        struct row *rows;
        size_t n_rows, cap_rows;
};

static const char *colour_sequence(enum blkup_cli_colour c)
{
        return c == BLKUP_CLI_RED ? "\033[31m" : c == BLKUP_CLI_YELLOW ? "\033[33m" : "";
}

struct blkup_cli_table *blkup_cli_table_new(const struct blkup_cli_column *columns, size_t n_columns)
{
        struct blkup_cli_table *t = calloc(1, sizeof(*t));

        if (t) {
                t->columns = columns;
                t->n_columns = n_columns;
        }
        return t;
}

struct blkup_cli_table *blkup_cli_table_free(struct blkup_cli_table *t)
{
        if (!t)
                return NULL;
        for (size_t i = 0; i < t->n_rows; i++) {
                for (size_t k = 0; k < t->n_columns; k++)
                        free(t->rows[i].cells[k]);
                free(t->rows[i].cells);
        }
        free(t->rows);
        free(t);
        return NULL;
}

int blkup_cli_table_add_row(struct blkup_cli_table *t, size_t parent, enum blkup_cli_colour colour,
                            size_t *ret_row)
{
        char **cells;

        if (t->n_rows == t->cap_rows) {
                size_t cap = t->cap_rows ? 2 * t->cap_rows : 16;
                struct row *grown = reallocarray(t->rows, cap, sizeof(*grown));

                if (!grown)
                        return -ENOMEM;
                t->rows = grown;
                t->cap_rows = cap;
        }
        cells = calloc(t->n_columns, sizeof(*cells));
        if (!cells)
                return -ENOMEM;
        *ret_row = t->n_rows;
        t->rows[t->n_rows++] = (struct row){ .parent = parent, .colour = colour, .cells = cells };
        return 0;
}

int blkup_cli_table_set(struct blkup_cli_table *t, size_t row, size_t column, const char *text, size_t n)
{
        size_t cap = 4 * n + 1; /* each byte at most \xNN */
        char *cell = malloc(cap);

        if (!cell)
                return -ENOMEM;
        blkup_encode_terminal(text, n, cell, cap);
        free(t->rows[row].cells[column]);
        t->rows[row].cells[column] = cell;
        return 0;
}

/* Columns that a text takes on the terminal; what is no character of this locale counts its bytes. */
static size_t width_of(const char *s)
{
        mbstate_t state = { 0 };
        size_t width = 0;

        while (*s) {
                wchar_t c;
                size_t k = mbrtowc(&c, s, MB_CUR_MAX, &state);
                int w;

                if (k == 0 || k == (size_t) -1 || k == (size_t) -2) {
                        memset(&state, 0, sizeof(state));
                        k = 1;
                        w = 1;
                } else
                        w = wcwidth(c);
                width += w > 0 ? (size_t) w : 0;
                s += k;
        }
        return width;
}

/* Rows are printed parents first, each followed by its own: depth is at most 1 more than that of the row
 * above. */
static bool is_last_child(const struct blkup_cli_table *t, size_t row)
{
        for (size_t i = row + 1; i < t->n_rows; i++)
                if (t->rows[i].parent == t->rows[row].parent)
                        return false;
        return true;
}

static int plain_tree(struct blkup_cli_table *t)
{
        bool utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;

        for (size_t i = 0; i < t->n_rows; i++) {
                char *cell = t->rows[i].cells[0], *joined;
                const char *branch;

                if (t->rows[i].parent == BLKUP_CLI_NO_PARENT)
                        continue;
                if (is_last_child(t, i))
                        branch = utf8 ? "└─" : "`-";
                else
                        branch = utf8 ? "├─" : "|-";
                if (asprintf(&joined, "%s%s", branch, cell ? cell : "") < 0)
                        return -ENOMEM;
                free(cell);
                t->rows[i].cells[0] = joined;
        }
        return 0;
}

static void print_plain_row(const struct blkup_cli_table *t, char *const *cells, const size_t *widths)
{
        size_t pending = 0; /* blanks before the next text: a line has none at its end */

        for (size_t k = 0; k < t->n_columns; k++) {
                const char *text = cells ? cells[k] : t->columns[k].name;
                size_t width = text ? width_of(text) : 0, fill = widths[k] - width;

                if (t->columns[k].right)
                        pending += fill;
                if (text && *text) {
                        printf("%*s%s", (int) pending, "", text);
                        pending = 0;
                }
                if (!t->columns[k].right)
                        pending += fill;
                pending += 1;
        }
}

static int print_plain(struct blkup_cli_table *t, bool headings)
{
        BLKUP_CLEANUP_FREE size_t *widths = calloc(t->n_columns, sizeof(*widths));
        bool colour = blkup_cli_wants_colour(STDOUT_FILENO);
        int r;

        if (!widths)
                return -ENOMEM;
        if (t->n_columns > 0 && t->columns[0].tree) {
                r = plain_tree(t);
                if (r < 0)
                        return r;
        }
        for (size_t k = 0; k < t->n_columns; k++) {
                /* Also when they are not printed, as libsmartcols does: the columns stand where they would.
                 */
                widths[k] = width_of(t->columns[k].name);
                for (size_t i = 0; i < t->n_rows; i++) {
                        size_t width = t->rows[i].cells[k] ? width_of(t->rows[i].cells[k]) : 0;

                        if (width > widths[k])
                                widths[k] = width;
                }
        }
        if (headings) {
                print_plain_row(t, NULL, widths);
                printf("\n");
        }
        for (size_t i = 0; i < t->n_rows; i++) {
                const char *sequence = colour ? colour_sequence(t->rows[i].colour) : "";

                printf("%s", sequence);
                print_plain_row(t, t->rows[i].cells, widths);
                printf("%s\n", *sequence ? "\033[0m" : "");
        }
        return 0;
}

#if BLKUP_HAVE_SMARTCOLS && !defined(BLKUP_STATIC)

/* The functions of libsmartcols that are used, with their types from its header. */
#define SMARTCOLS_FUNCTIONS(f)                                                                    \
        f(scols_new_table) f(scols_unref_table) f(scols_table_new_column) f(scols_table_new_line) \
                f(scols_line_set_data) f(scols_line_set_color) f(scols_table_enable_colors)       \
                        f(scols_table_enable_noheadings) f(scols_table_enable_noencoding)         \
                                f(scols_print_table)

struct smartcols {
#define DECLARE(name) __typeof__(name) *name;
        SMARTCOLS_FUNCTIONS(DECLARE)
#undef DECLARE
};

static bool load_smartcols(struct smartcols *ret)
{
        /* Stays loaded until the process ends, soon: an unload would only cost time. */
        void *lib = dlopen("libsmartcols.so.1", RTLD_NOW | RTLD_LOCAL);

        if (!lib)
                return false;
#define LOAD(name)                                                                                           \
        ret->name = (__typeof__(name) *) dlsym(lib, #name);                                                  \
        if (!ret->name)                                                                                      \
                return false;
        SMARTCOLS_FUNCTIONS(LOAD)
#undef LOAD
        return true;
}

static int fill_smartcols(const struct blkup_cli_table *t, const struct smartcols *s,
                          struct libscols_table *table)
{
        BLKUP_CLEANUP_FREE struct libscols_line **lines =
                calloc(t->n_rows ? t->n_rows : 1, sizeof(struct libscols_line *));

        if (!lines)
                return -ENOMEM;
        for (size_t k = 0; k < t->n_columns; k++) {
                int flags =
                        (t->columns[k].right ? SCOLS_FL_RIGHT : 0) | (t->columns[k].tree ? SCOLS_FL_TREE : 0);

                if (!s->scols_table_new_column(table, t->columns[k].name, 0, flags))
                        return -ENOMEM;
        }
        for (size_t i = 0; i < t->n_rows; i++) {
                const struct row *row = &t->rows[i];

                lines[i] = s->scols_table_new_line(table, row->parent == BLKUP_CLI_NO_PARENT
                                                                  ? NULL
                                                                  : lines[row->parent]);
                if (!lines[i])
                        return -ENOMEM;
                if (row->colour != BLKUP_CLI_PLAIN &&
                    s->scols_line_set_color(lines[i], colour_sequence(row->colour)) < 0)
                        return -ENOMEM;
                for (size_t k = 0; k < t->n_columns; k++)
                        if (row->cells[k] && s->scols_line_set_data(lines[i], k, row->cells[k]) < 0)
                                return -ENOMEM;
        }
        return 0;
}

static int print_smartcols(const struct blkup_cli_table *t, const struct smartcols *s, bool headings)
{
        struct libscols_table *table = s->scols_new_table();
        int r;

        if (!table)
                return -ENOMEM;
        s->scols_table_enable_noheadings(table, !headings);
        s->scols_table_enable_noencoding(table, 1); /* cells are safe already */
        s->scols_table_enable_colors(table, blkup_cli_wants_colour(STDOUT_FILENO));
        r = fill_smartcols(t, s, table);
        if (r == 0)
                r = s->scols_print_table(table);
        s->scols_unref_table(table);
        return r;
}

#endif

int blkup_cli_table_print(struct blkup_cli_table *t, bool headings)
{
        /* For the width of characters and the branches of the tree; nothing else of the locale is used. */
        (void) setlocale(LC_CTYPE, "");
#if BLKUP_HAVE_SMARTCOLS && !defined(BLKUP_STATIC)
        struct smartcols s;

        if (load_smartcols(&s))
                return print_smartcols(t, &s, headings);
#endif
        return print_plain(t, headings);
}
