/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --columns: names and meaning as lsblk has them where it has them; and what only a prober can tell: the
 * cost. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/checked.h"
#include "cli/cmd-probe.h"
#include "cli/size.h"
#include "cli/table.h"

/* A cell's value: a text, a number, or nothing. */
struct cell {
        enum { EMPTY, TEXT, NUMBER } is;
        const char *text;
        size_t len;
        uint64_t number;
        char buffer[32]; /* for texts that are made here */
};

/* How a number is shown in the table; in JSON all are plain integers in the base unit. */
enum shown_as { AS_IS, AS_BYTES, AS_TIME };

struct column {
        const char *name;
        const char *help;
        bool usual;    /* in the table without --columns */
        enum shown_as shown_as;
        bool is_number; /* right-aligned; the tag's value is a decimal number */
        const char *tag;
        void (*of_device)(const struct blkup_cli_probe_answer *a,
                          struct cell *ret); /* where there is no tag */
        void (*of_partition)(const struct blkup_partition *e, struct cell *ret);
};

static void set_text(struct cell *ret, const char *text)
{
        if (text && *text)
                *ret = (struct cell){ .is = TEXT, .text = text, .len = strlen(text) };
}

static void set_number(struct cell *ret, uint64_t number)
{
        *ret = (struct cell){ .is = NUMBER, .number = number };
}

static void device_name(const struct blkup_cli_probe_answer *a, struct cell *ret)
{
        set_text(ret, a->device);
}

static void device_verdict(const struct blkup_cli_probe_answer *a, struct cell *ret)
{
        set_text(ret, blkup_cli_probe_verdict_word(a->verdict));
}

static void device_size(const struct blkup_cli_probe_answer *a, struct cell *ret)
{
        set_number(ret, blkup_probe_size(a->probe));
}

#define DEVICE_STAT(field)                                                                   \
        static void device_##field(const struct blkup_cli_probe_answer *a, struct cell *ret) \
        {                                                                                    \
                struct blkup_io_stats s;                                                     \
                                                                                             \
                blkup_probe_stats(a->probe, &s);                                             \
                set_number(ret, s.field);                                                    \
        }
DEVICE_STAT(submissions)
DEVICE_STAT(reads)
DEVICE_STAT(bytes)
DEVICE_STAT(sectors)
DEVICE_STAT(pages)
DEVICE_STAT(rounds)
DEVICE_STAT(ns)
#undef DEVICE_STAT

static void partition_number(const struct blkup_partition *e, struct cell *ret)
{
        set_number(ret, e->number);
}

static void partition_start(const struct blkup_partition *e, struct cell *ret)
{
        set_number(ret, e->start_sectors);
}

static void partition_size(const struct blkup_partition *e, struct cell *ret)
{
        uint64_t bytes;

        if (blkup_mul(e->size_sectors, 512, &bytes))
                set_number(ret, bytes);
}

static void partition_scheme(const struct blkup_partition *e, struct cell *ret)
{
        set_text(ret, e->scheme);
}

static void partition_type(const struct blkup_partition *e, struct cell *ret)
{
        set_text(ret, e->type);
}

static void partition_uuid(const struct blkup_partition *e, struct cell *ret)
{
        set_text(ret, e->uuid);
}

static void partition_label(const struct blkup_partition *e, struct cell *ret)
{
        set_text(ret, e->name);
}

static void partition_flags(const struct blkup_partition *e, struct cell *ret)
{
        if (!e->flags)
                return;
        snprintf(ret->buffer, sizeof(ret->buffer), "0x%" PRIx64, e->flags);
        ret->is = TEXT;
        ret->text = ret->buffer;
        ret->len = strlen(ret->buffer);
}

static const struct column columns[] = {
        { "NAME", "the device as it was given, a partition with its number", true,
          .of_device = device_name },
        { "SIZE", "size of the device, of the area (-O, -S), of the partition", true, AS_BYTES,
          true, .of_device = device_size, .of_partition = partition_size },
        { "FSTYPE", "type of what is on it", true, .tag = "TYPE" },
        { "FSVER", "its version", true, .tag = "VERSION" },
        { "LABEL", "its label", true, .tag = "LABEL" },
        { "UUID", "its UUID", true, .tag = "UUID" },
        { "UUID_SUB", "UUID of this member of a file system on several devices", .tag = "UUID_SUB" },
        { "USAGE", "filesystem, raid, crypto or other", .tag = "USAGE" },
        { "BLOCK_SIZE", "block size of the file system, in bytes", .is_number = true, .tag = "BLOCK_SIZE" },
        { "FSSIZE", "size of the file system", false, AS_BYTES, true, .tag = "FSSIZE" },
        { "PTTYPE", "type of the partition table", true, .tag = "PTTYPE", .of_partition = partition_scheme },
        { "PTUUID", "UUID of the partition table", .tag = "PTUUID" },
        { "PARTN", "partition number", .is_number = true, .tag = "PART_ENTRY_NUMBER",
          .of_partition = partition_number },
        { "START", "partition start, in 512-byte sectors", .is_number = true, .tag = "PART_ENTRY_OFFSET",
          .of_partition = partition_start },
        { "PARTTYPE", "partition type: code or UUID", .tag = "PART_ENTRY_TYPE",
          .of_partition = partition_type },
        { "PARTLABEL", "partition name", .tag = "PART_ENTRY_NAME", .of_partition = partition_label },
        { "PARTUUID", "partition UUID", .tag = "PART_ENTRY_UUID", .of_partition = partition_uuid },
        { "PARTFLAGS", "partition flags", .tag = "PART_ENTRY_FLAGS", .of_partition = partition_flags },
        { "VERDICT", "found, nothing, ambivalent or unknown", .of_device = device_verdict },
        { "IO", "submissions: times the kernel was asked to read", .is_number = true,
          .of_device = device_submissions },
        { "READS", "read requests", true, .is_number = true, .of_device = device_reads },
        { "BYTES", "bytes asked for", false, AS_BYTES, true, .of_device = device_bytes },
        { "SECTORS", "different 512-byte sectors among them", .is_number = true,
          .of_device = device_sectors },
        { "PAGES", "different 4096-byte pages those lie in", .is_number = true, .of_device = device_pages },
        { "ROUNDS", "times something was waited for", .is_number = true, .of_device = device_rounds },
        { "TIME", "time of the probe (JSON: in ns)", true, AS_TIME, true, .of_device = device_ns },
};

#define N_COLUMNS BLKUP_ARRAY_SIZE(columns)

struct blkup_cli_probe_columns {
        const struct column *chosen[N_COLUMNS]; /* each at most once: in JSON they are keys of one object */
        struct blkup_cli_column heads[N_COLUMNS];
        size_t n;
        struct blkup_cli_table *table; /* made with the first row */
};

static const struct column *find_column(const char *name, size_t len)
{
        for (size_t i = 0; i < N_COLUMNS; i++)
                if (strlen(columns[i].name) == len && strncasecmp(columns[i].name, name, len) == 0)
                        return &columns[i];
        return NULL;
}

static void choose(struct blkup_cli_probe_columns *c, const struct column *column)
{
        for (size_t i = 0; i < c->n; i++)
                if (c->chosen[i] == column)
                        return;
        c->heads[c->n] = (struct blkup_cli_column){
                .name = column->name, .right = column->is_number, .tree = c->n == 0 && column == &columns[0],
        };
        c->chosen[c->n++] = column;
}

int blkup_cli_probe_columns_new(const char *list, struct blkup_cli_probe_columns **ret,
                                const char **ret_unknown, size_t *ret_unknown_len)
{
        struct blkup_cli_probe_columns *c = calloc(1, sizeof(*c));

        if (!c)
                return -ENOMEM;
        if (!list || *list == '+') {
                for (size_t i = 0; i < N_COLUMNS; i++)
                        if (columns[i].usual)
                                choose(c, &columns[i]);
                if (list)
                        list++;
        }
        /* Ends: each turn goes past one name of the list. */
        while (list) {
                size_t len = strcspn(list, ",");
                const struct column *column = find_column(list, len);

                if (!column) {
                        *ret_unknown = list;
                        *ret_unknown_len = len;
                        free(c);
                        return -EINVAL;
                }
                choose(c, column);
                list = list[len] ? list + len + 1 : NULL;
        }
        *ret = c;
        return 0;
}

struct blkup_cli_probe_columns *blkup_cli_probe_columns_free(struct blkup_cli_probe_columns *c)
{
        if (c)
                blkup_cli_table_free(c->table);
        free(c);
        return NULL;
}

const char *blkup_cli_probe_column_names(char *out, size_t cap)
{
        size_t len = 0;

        *out = '\0';
        for (size_t i = 0; i < N_COLUMNS && len < cap; i++)
                len += (size_t) snprintf(out + len, cap - len, "%s%s", i == 0 ? "" : " ", columns[i].name);
        return out;
}

void blkup_cli_probe_print_column_help(void)
{
        printf("\nColumns (* usual):\n");
        for (size_t i = 0; i < N_COLUMNS; i++)
                printf(" %c %-11s %s\n", columns[i].usual ? '*' : ' ', columns[i].name, columns[i].help);
}

static void get_tag(const struct blkup_cli_probe_answer *a, const struct column *column, struct cell *ret)
{
        size_t n = blkup_probe_n_values(a->probe);
        uint64_t number;

        for (size_t i = 0; i < n; i++) {
                struct blkup_value v = blkup_probe_value(a->probe, i);

                if (strcmp(v.name, column->tag) != 0)
                        continue;
                v.len = strnlen(v.value, v.len);
                if (column->is_number && blkup_cli_probe_parse_decimal(v.value, v.len, &number))
                        set_number(ret, number);
                else
                        *ret = (struct cell){ .is = TEXT, .text = v.value, .len = v.len };
                return;
        }
}

static void get_device_cell(const struct blkup_cli_probe_answer *a, const struct column *column,
                            struct cell *ret)
{
        ret->is = EMPTY;
        /* Of a device that could not be opened, only its name and that nothing is known of it. */
        if (!a->probe && column->of_device != device_name && column->of_device != device_verdict)
                return;
        if (column->of_device)
                column->of_device(a, ret);
        else if (a->verdict != BLKUP_VERDICT_UNKNOWN)
                get_tag(a, column, ret);
}

/* "sda" and 1: "sda1"; "nvme0n1" and 1: "nvme0n1p1", as the kernel names them. */
static char *partition_name(const char *device, unsigned number)
{
        size_t n = strlen(device);
        char *name;

        if (asprintf(&name, "%s%s%u", device,
                     n > 0 && device[n - 1] >= '0' && device[n - 1] <= '9' ? "p" : "", number) < 0)
                return NULL;
        return name;
}

static void get_partition_cell(const struct blkup_partition *e, const struct column *column, const char *name,
                               struct cell *ret)
{
        ret->is = EMPTY;
        if (column->of_device == device_name)
                set_text(ret, name);
        else if (column->of_partition)
                column->of_partition(e, ret);
}

static int put_cell(struct blkup_cli_table *t, size_t row, size_t k, const struct column *column,
                    const struct cell *cell, bool bytes)
{
        char text[48];

        switch (cell->is) {
        case EMPTY:
                return 0;
        case TEXT:
                return blkup_cli_table_set(t, row, k, cell->text, cell->len);
        case NUMBER:
                break;
        }
        if (column->shown_as == AS_BYTES && !bytes)
                blkup_cli_format_size(cell->number, text, sizeof(text));
        else if (column->shown_as == AS_TIME)
                snprintf(text, sizeof(text), "%" PRIu64 ".%03" PRIu64 "ms", cell->number / 1000000,
                         cell->number / 1000 % 1000);
        else
                snprintf(text, sizeof(text), "%" PRIu64, cell->number);
        return blkup_cli_table_set(t, row, k, text, strlen(text));
}

static int add_partition(struct blkup_cli_probe_columns *c, const struct blkup_cli_probe_answer *a, size_t i,
                         size_t parent, bool bytes)
{
        const struct blkup_partition *e = blkup_probe_partition(a->probe, i);
        BLKUP_CLEANUP_FREE char *name = partition_name(a->device, e->number);
        size_t row;
        int r;

        if (!name)
                return -ENOMEM;
        r = blkup_cli_table_add_row(c->table, parent, BLKUP_CLI_PLAIN, &row);
        for (size_t k = 0; k < c->n && r == 0; k++) {
                struct cell cell;

                get_partition_cell(e, c->chosen[k], name, &cell);
                r = put_cell(c->table, row, k, c->chosen[k], &cell, bytes);
        }
        return r;
}

int blkup_cli_probe_columns_add(struct blkup_cli_probe_columns *c, const struct blkup_cli_probe_answer *a,
                                bool bytes)
{
        enum blkup_cli_colour colour = a->verdict == BLKUP_VERDICT_AMBIVALENT ? BLKUP_CLI_YELLOW :
                                       a->verdict == BLKUP_VERDICT_UNKNOWN ? BLKUP_CLI_RED : BLKUP_CLI_PLAIN;
        size_t row, n_partitions = a->probe ? blkup_probe_n_partitions(a->probe) : 0;
        int r;

        if (!c->table)
                c->table = blkup_cli_table_new(c->heads, c->n);
        if (!c->table)
                return -ENOMEM;
        r = blkup_cli_table_add_row(c->table, BLKUP_CLI_NO_PARENT, colour, &row);
        for (size_t k = 0; k < c->n && r == 0; k++) {
                struct cell cell;

                get_device_cell(a, c->chosen[k], &cell);
                r = put_cell(c->table, row, k, c->chosen[k], &cell, bytes);
        }
        for (size_t i = 0; i < n_partitions && r == 0; i++)
                r = add_partition(c, a, i, row, bytes);
        return r;
}

int blkup_cli_probe_columns_print(struct blkup_cli_probe_columns *c, bool headings)
{
        return c->table ? blkup_cli_table_print(c->table, headings) : 0;
}

static void json_cell(struct blkup_json *j, const struct column *column, const struct cell *cell)
{
        char key[32];
        size_t n = 0;

        for (; column->name[n] && n < sizeof(key) - 1; n++)
                key[n] = (char) tolower((unsigned char) column->name[n]);
        key[n] = '\0';
        blkup_json_key(j, key);
        switch (cell->is) {
        case EMPTY:
                blkup_json_null(j);
                break;
        case TEXT:
                blkup_json_string_n(j, cell->text, cell->len);
                break;
        case NUMBER:
                blkup_json_u64(j, cell->number);
                break;
        }
}

static int json_partition(const struct blkup_cli_probe_columns *c, struct blkup_json *j,
                          const struct blkup_cli_probe_answer *a, size_t i)
{
        const struct blkup_partition *e = blkup_probe_partition(a->probe, i);
        BLKUP_CLEANUP_FREE char *name = partition_name(a->device, e->number);

        if (!name)
                return -ENOMEM;
        blkup_json_begin_object(j);
        for (size_t k = 0; k < c->n; k++) {
                struct cell cell;

                get_partition_cell(e, c->chosen[k], name, &cell);
                json_cell(j, c->chosen[k], &cell);
        }
        blkup_json_end_object(j);
        return 0;
}

int blkup_cli_probe_columns_json(const struct blkup_cli_probe_columns *c, struct blkup_json *j,
                                 const struct blkup_cli_probe_answer *a)
{
        size_t n_partitions = a->probe ? blkup_probe_n_partitions(a->probe) : 0;
        int r = 0;

        blkup_json_begin_object(j);
        for (size_t k = 0; k < c->n; k++) {
                struct cell cell;

                get_device_cell(a, c->chosen[k], &cell);
                json_cell(j, c->chosen[k], &cell);
        }
        if (n_partitions > 0) {
                blkup_json_key(j, "children");
                blkup_json_begin_array(j);
                for (size_t i = 0; i < n_partitions && r == 0; i++)
                        r = json_partition(c, j, a, i);
                blkup_json_end_array(j);
        }
        blkup_json_end_object(j);
        return r;
}
