/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * "blkid": the command line of util-linux on this engine. With -p or -i it looks at what is named; without,
 * it shows what is named or all there is, and finds devices by a tag. What differs from blkid, and why,
 * stands in blkup-blkid(8).
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/encode.h"
#include "base/error.h"
#include "cli/blkid.h"
#include "cli/commands.h"
#include "cli/output.h"

/* What util-linux's getopt loop answers to an option that it does not know. */
#define EXIT_UNKNOWN_OPTION 1

enum {
        OPT_CACHE = 1,
        OPT_NO_ENCODING,
        OPT_NO_PART_ENTRY,
        OPT_GARBAGE,
        OPT_HINT,
        OPT_INFO,
        OPT_LIST_TYPES,
        OPT_LIST_ONE,
        OPT_LABEL,
        OPT_TYPES,
        OPT_OUTPUT,
        OPT_OFFSET,
        OPT_PROBE,
        OPT_SHOW,
        OPT_SIZE,
        OPT_TOKEN,
        OPT_UUID,
        OPT_USAGES,
        OPT_OLD_VERSION,
        OPT_WRITE,
};

static const struct blkup_cli_option options[] = {
        /* id, letter, name, argument, its name, its words, help */
        { OPT_LABEL, 'L', "label", BLKUP_CLI_ARG, "LABEL", NULL, "the device with this label" },
        { OPT_UUID, 'U', "uuid", BLKUP_CLI_ARG, "UUID", NULL, "the device with this UUID" },
        { OPT_TOKEN, 't', "match-token", BLKUP_CLI_ARG, "TAG=VALUE", NULL,
          "only devices of which this is true" },
        { OPT_LIST_ONE, 'l', "list-one", BLKUP_CLI_NO_ARG, NULL, NULL, "with -t: only the best of them" },
        { OPT_OUTPUT, 'o', "output", BLKUP_CLI_ARG, "MODE", "full value list device udev export",
          "full, value, list, device, udev or export" },
        { OPT_SHOW, 's', "match-tag", BLKUP_CLI_ARG, "TAG", NULL, "print only this tag (may be repeated)" },
        { OPT_NO_ENCODING, 'd', "no-encoding", BLKUP_CLI_NO_ARG, NULL, NULL,
          "full and export: values as they are" },
        { OPT_LIST_TYPES, 'k', "list-filesystems", BLKUP_CLI_NO_ARG, NULL, NULL, "print all known types" },
        { OPT_CACHE, 'c', "cache-file", BLKUP_CLI_ARG, "FILE", NULL,
          "accepted: there is no cache, devices are read" },
        { OPT_GARBAGE, 'g', "garbage-collect", BLKUP_CLI_NO_ARG, NULL, NULL,
          "accepted: without a cache nothing to clean" },
        { OPT_WRITE, 'w', NULL, BLKUP_CLI_ARG, "FILE", NULL, "accepted: no cache is written" },
        { OPT_PROBE, 'p', "probe", BLKUP_CLI_NO_ARG, NULL, NULL, "look at the named devices, tell all tags" },
        { OPT_INFO, 'i', "info", BLKUP_CLI_NO_ARG, NULL, NULL, "tell a device's block sizes" },
        { OPT_TYPES, 'n', "match-types", BLKUP_CLI_ARG, "LIST", NULL,
          "-p: look only for these types, as vfat,ext4;\nwith no before the first: for all others" },
        { OPT_USAGES, 'u', "usages", BLKUP_CLI_ARG, "LIST", NULL,
          "-p: the same by usage:\nfilesystem,raid,crypto,other" },
        { OPT_OFFSET, 'O', "offset", BLKUP_CLI_ARG, "BYTES", NULL, "-p: begin here" },
        { OPT_SIZE, 'S', "size", BLKUP_CLI_ARG, "BYTES", NULL, "-p: look at this much" },
        { OPT_HINT, 'H', "hint", BLKUP_CLI_ARG, "NAME=VALUE", NULL, "-p: session_offset=BYTES" },
        { OPT_NO_PART_ENTRY, 'D', "no-part-details", BLKUP_CLI_NO_ARG, NULL, NULL,
          "-p: nothing of the table a partition stands in" },
        { OPT_OLD_VERSION, 'v', NULL, BLKUP_CLI_NO_ARG, NULL, NULL, "the same as -V" },
        BLKUP_CLI_STANDARD_OPTIONS,
};

struct request {
        enum blkup_cli_probe_mode mode;
        struct blkup_cli_probe_show show;
        const char *types, *usages;
        const char *find_tag, *find_value; /* -L, -U: answered with a name alone */
        char *token, *token_value;         /* -t */
        uint64_t offset_bytes, size_bytes, session_bytes;
        bool has_session, no_part_entry, no_encoding;
        bool probe, info, garbage, list_one, list_types;
        char **devices;
        size_t n_devices;
};

/* TAG=VALUE, the value perhaps in quotation marks; both are copied. */
static int parse_token(const struct blkup_cli_command *self, struct request *q, const char *text)
{
        const char *equal = strchr(text, '='), *value = equal ? equal + 1 : "";
        size_t n = strlen(value);

        if (equal && n >= 2 && (*value == '"' || *value == '\'')) {
                if (value[n - 1] != *value)
                        return blkup_cli_usage_error(self, "-t: the quotation mark in '%s' has no end", text);
                value++;
                n -= 2;
        }
        if (!equal || n == 0)
                return blkup_cli_usage_error(self, "-t: '%s' is no TAG=VALUE", text);
        free(q->token);
        free(q->token_value);
        q->token = strndup(text, (size_t) (equal - text));
        q->token_value = strndup(value, n);
        if (!q->token || !q->token_value) {
                blkup_cli_error(self->name, "out of memory");
                return BLKUP_CLI_PROBE_EXIT_OTHER;
        }
        return 0;
}

/* A hint of another name is for a newer blkid: taken, and left alone. A wrong number is its exit code 2. */
static int parse_hint(struct request *q, const char *text)
{
        const char *equal = strchr(text, '=');
        uint64_t bytes = 0;

        if (equal && !blkup_cli_probe_parse_decimal(equal + 1, strlen(equal + 1), &bytes)) {
                blkup_cli_error("blkid", "-H: '%s' is no number of bytes", equal + 1);
                return BLKUP_CLI_PROBE_EXIT_NOTHING;
        }
        if (equal && strncmp(text, "session_offset=", 15) == 0) {
                q->session_bytes = bytes;
                q->has_session = true;
        }
        return 0;
}

static int set_option(const struct blkup_cli_command *self, struct request *q, int id, const char *value)
{
        int word;

        switch (id) {
        case OPT_OUTPUT:
                word = blkup_cli_word(self, id, value);
                if (word < 0)
                        return self->usage_exit;
                q->mode = (enum blkup_cli_probe_mode) word;
                break;
        case OPT_SHOW:
                if (q->show.n == BLKUP_CLI_PROBE_MAX_SHOW)
                        return blkup_cli_usage_error(self, "-s: at most %d tags", BLKUP_CLI_PROBE_MAX_SHOW);
                q->show.tags[q->show.n++] = value;
                break;
        case OPT_LABEL:
        case OPT_UUID:
                q->find_tag = id == OPT_LABEL ? "LABEL" : "UUID";
                q->find_value = value;
                break;
        case OPT_TOKEN:
                return parse_token(self, q, value);
        case OPT_LIST_ONE:
                q->list_one = true;
                break;
        case OPT_NO_ENCODING:
                q->no_encoding = true;
                break;
        case OPT_NO_PART_ENTRY:
                q->no_part_entry = true;
                break;
        case OPT_LIST_TYPES:
                q->list_types = true;
                break;
        case OPT_GARBAGE:
                q->garbage = true;
                break;
        case OPT_PROBE:
                q->probe = true;
                break;
        case OPT_INFO:
                q->info = true;
                break;
        case OPT_TYPES:
                q->types = value;
                break;
        case OPT_USAGES:
                q->usages = value;
                break;
        case OPT_OFFSET:
                return blkup_cli_probe_parse_size(self, "-O", value, &q->offset_bytes);
        case OPT_SIZE:
                return blkup_cli_probe_parse_size(self, "-S", value, &q->size_bytes);
        case OPT_HINT:
                return parse_hint(q, value);
        default: /* -c, -w: there is no cache */
                break;
        }
        return 0;
}

static int check_request(const struct blkup_cli_command *self, const struct request *q)
{
        if (q->types && q->usages)
                return blkup_cli_usage_error(self, "-u and -n exclude each other");
        if ((q->probe || q->info) && q->mode == BLKUP_CLI_PROBE_MODE_LIST)
                return blkup_cli_usage_error(self, "-o list does not go with -p and -i");
        if ((q->probe || q->info) && q->n_devices == 0)
                return blkup_cli_usage_error(self, "-p and -i need a device");
        if (q->list_one && !q->token)
                return blkup_cli_usage_error(self, "-l needs -t TAG=VALUE");
        return 0;
}

/*
 * -p and -i
 */

/* The block sizes come between what is on the device and its partition table. */
static size_t join_values(const struct blkup_probe *p, const struct blkup_cli_blkid_topology *t,
                          struct blkup_value *to, size_t cap)
{
        size_t n_probe = p ? blkup_probe_n_values(p) : 0, n = 0;
        bool placed = t->n == 0;

        for (size_t i = 0; i <= n_probe && n < cap; i++) {
                struct blkup_value v = { .name = "PT" };

                if (i < n_probe)
                        v = blkup_probe_value(p, i);
                if (!placed && (strncmp(v.name, "PT", 2) == 0 || strncmp(v.name, "PART_ENTRY_", 11) == 0)) {
                        for (size_t k = 0; k < t->n && n < cap; k++)
                                to[n++] = t->values[k];
                        placed = true;
                }
                if (i < n_probe && n < cap)
                        to[n++] = v;
        }
        return n;
}

static int look_at(const struct request *q, struct blkup_probe *p, const char *device,
                   struct blkup_cli_probe_text *text, bool *ret_is_dropped)
{
        struct blkup_value values[128];
        struct blkup_cli_blkid_topology topology = { .n = 0 };
        struct blkup_cli_probe_answer a = { .device = device, .verdict = BLKUP_VERDICT_NOTHING, .error = "" };
        struct blkup_cli_probe_said said = { .text = "" };
        struct blkup_error err = { 0 };
        int r = 0;

        *ret_is_dropped = false;
        if (q->info)
                r = blkup_cli_blkid_topology(device, NULL, &topology, &err);
        if (r == 0 && q->probe)
                r = blkup_probe_path(p, device, NULL, &a.verdict, &err);
        if (r < 0) {
                blkup_cli_probe_say_failure(device, r, &err, &said);
                blkup_cli_error("blkid", "%s", said.line);
                /* A file has no block sizes: that ends the run, where a name that is nothing at all does not.
                 */
                *ret_is_dropped = said.is_dropped && !(q->info && r == -ENOTBLK);
                return said.code ? said.code : BLKUP_CLI_PROBE_EXIT_NOTHING;
        }
        a.probe = p;
        a.values = values;
        a.n_values = join_values(q->probe ? p : NULL, &topology, values, BLKUP_ARRAY_SIZE(values));
        if (a.verdict == BLKUP_VERDICT_NOTHING && topology.n > 0)
                a.verdict = BLKUP_VERDICT_FOUND;
        if (q->probe)
                blkup_cli_probe_say_verdict(device, p, a.verdict, q->mode == BLKUP_CLI_PROBE_MODE_UDEV,
                                            &said);
        else
                said.code = a.verdict == BLKUP_VERDICT_FOUND ? BLKUP_CLI_PROBE_EXIT_FOUND
                                                             : BLKUP_CLI_PROBE_EXIT_NOTHING;
        if (*said.line)
                blkup_cli_error("blkid", "%s", said.line);
        blkup_cli_probe_print_text(text, &a);
        blkup_cli_note_stdout();
        return said.code;
}

/* In order; the first whose result is not 0 ends the run. */
static int run_low(const struct blkup_cli_command *self, const struct request *q)
{
        struct blkup_cli_probe_text text = {
                .mode = q->mode,
                .show = &q->show,
                .no_encoding = q->no_encoding,
        };
        struct blkup_probe *p = blkup_probe_new();
        size_t n_looked_at = 0;
        int code = 0;

        if (!p) {
                blkup_cli_error(self->name, "out of memory");
                return BLKUP_CLI_PROBE_EXIT_OTHER;
        }
        if (q->types)
                code = blkup_cli_probe_set_types(self, p, q->types);
        else if (q->usages)
                code = blkup_cli_probe_set_usages(self, p, q->usages);
        blkup_probe_set_area(p, q->offset_bytes, q->size_bytes);
        if (q->has_session)
                blkup_probe_set_session(p, q->session_bytes);
        blkup_probe_set_flags(p, q->no_part_entry ? BLKUP_PROBE_NO_PART_ENTRY : 0u);
        (void) blkup_cli_probe_start_cage(self->name, p, false);
        for (size_t i = 0; i < q->n_devices && code == 0; i++) {
                bool is_dropped;
                int c = look_at(q, p, q->devices[i], &text, &is_dropped);

                if (is_dropped)
                        continue;
                n_looked_at++;
                code = c;
        }
        (void) blkup_probe_unref(p);
        return code || n_looked_at > 0 ? code : BLKUP_CLI_PROBE_EXIT_NOTHING;
}

/*
 * Without them
 */

static bool is_wanted(const void *to, const struct blkup_cli_blkid_device *d)
{
        const struct request *q = to;
        const char *value;

        if (d->verdict != BLKUP_VERDICT_FOUND || d->n_values == 0)
                return false;
        if (!q->token)
                return true;
        value = blkup_cli_blkid_value(d, q->token);
        return value && strcmp(value, q->token_value) == 0;
}

/* Of those that fit the one with the highest priority, the first of several; NULL: none. */
static const struct blkup_cli_blkid_device *best_of(const struct request *q,
                                                    const struct blkup_cli_blkid_devices *l)
{
        const struct blkup_cli_blkid_device *best = NULL;

        for (size_t i = 0; i < l->n; i++)
                if (is_wanted(q, &l->devices[i]) && (!best || l->devices[i].priority > best->priority))
                        best = &l->devices[i];
        return best;
}

/* What went wrong, on stderr: of a device that nobody named only when it could not be read. The code: 4 when
 * that was so, else 2. */
static int say_all(const struct blkup_cli_blkid_devices *l)
{
        int code = BLKUP_CLI_PROBE_EXIT_NOTHING;

        for (size_t i = 0; i < l->n; i++) {
                const struct blkup_cli_blkid_device *d = &l->devices[i];

                if (d->said.code == BLKUP_CLI_PROBE_EXIT_OTHER)
                        code = BLKUP_CLI_PROBE_EXIT_OTHER;
                else if (d->is_scanned)
                        continue;
                if (*d->said.line)
                        blkup_cli_error("blkid", "%s", d->said.line);
        }
        return code;
}

/* None of them could be opened for want of permission: without a word that would look like an empty machine.
 */
static void say_denied(const struct blkup_cli_blkid_devices *l)
{
        size_t n = 0;

        for (size_t i = 0; i < l->n; i++)
                n += l->devices[i].is_scanned && l->devices[i].said.is_denied;
        if (n > 0)
                blkup_cli_error("blkid", "%zu of %zu devices may not be opened%s", n, l->n,
                                blkup_cli_try_as_root(-EPERM));
}

static int no_memory(int r)
{
        blkup_cli_error("blkid", "%s", blkup_error_text(-r));
        return BLKUP_CLI_PROBE_EXIT_OTHER;
}

/* The link that udev made for this tag, when its device really has it. *ret holds that device alone. */
static bool find_by_link(const struct request *q, struct blkup_cli_blkid_devices *ret)
{
        static const struct {
                const char *tag, *folder;
        } links[] = {
                { "LABEL", "by-label" },
                { "UUID", "by-uuid" },
                { "PARTLABEL", "by-partlabel" },
                { "PARTUUID", "by-partuuid" },
        };
        char name[BLKUP_UDEV_ENC_CAP], path[PATH_MAX], real[PATH_MAX];
        struct stat st;

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(links); i++) {
                if (strcmp(links[i].tag, q->token) != 0)
                        continue;
                blkup_encode_udev(q->token_value, strlen(q->token_value), name, sizeof(name));
                (void) snprintf(path, sizeof(path), "/dev/disk/%s/%s", links[i].folder, name);
                if (stat(path, &st) < 0 || !S_ISBLK(st.st_mode))
                        return false;
                blkup_cli_blkid_canonical(path, real, sizeof(real));
                if (blkup_cli_blkid_add(ret, real) == 0 && blkup_cli_blkid_probe(ret, NULL, NULL) == 0 &&
                    is_wanted(q, &ret->devices[0]))
                        return true;
                blkup_cli_blkid_free(ret);
                return false;
        }
        return false;
}

/* Probes all that is attached. 0, or an exit code after a line. */
static int scan_all(const struct request *q, struct blkup_cli_blkid_devices *l)
{
        struct blkup_error err = { 0 };
        int r = blkup_cli_blkid_add_all(l, NULL, &err);

        if (r == -ENOMEM)
                return no_memory(r);
        if (r < 0) {
                blkup_cli_error("blkid", "cannot list the devices: %s",
                                *err.message ? err.message : blkup_error_text(-r));
                return BLKUP_CLI_PROBE_EXIT_OTHER;
        }
        /* Of all that is attached one is looked for, or everything is shown. */
        r = q->list_one || q->find_tag ? blkup_cli_blkid_probe(l, is_wanted, q)
                                       : blkup_cli_blkid_probe(l, NULL, NULL);
        return r < 0 ? no_memory(r) : 0;
}

/* -L, -U, -l: the one device that the token means, among those that are named first, then among all. */
static int find_one(const struct request *q, struct blkup_cli_blkid_devices *l,
                    const struct blkup_cli_blkid_device **ret)
{
        int code, r;

        for (size_t i = 0; i < q->n_devices && !q->find_tag; i++) {
                r = blkup_cli_blkid_add(l, q->devices[i]);
                if (r < 0)
                        return no_memory(r);
        }
        r = blkup_cli_blkid_probe(l, is_wanted, q);
        if (r < 0)
                return no_memory(r);
        *ret = best_of(q, l);
        if (*ret)
                return 0;
        (void) say_all(l);
        blkup_cli_blkid_free(l);
        if (find_by_link(q, l)) {
                *ret = &l->devices[0];
                return 0;
        }
        code = scan_all(q, l);
        if (code)
                return code;
        *ret = best_of(q, l);
        if (*ret)
                return 0;
        code = say_all(l);
        say_denied(l);
        return code;
}

/* Prints as many as there are; 0 when one was. */
static int print_devices(const struct request *q, const struct blkup_cli_blkid_device *d, size_t n)
{
        struct blkup_cli_probe_text text = {
                .mode = q->mode,
                .show = &q->show,
                .no_encoding = q->no_encoding,
                .skip_empty = true,
        };
        struct blkup_cli_blkid_list *list = NULL;
        int code = BLKUP_CLI_PROBE_EXIT_NOTHING;

        if (q->mode == BLKUP_CLI_PROBE_MODE_LIST) {
                list = blkup_cli_blkid_list_new();
                if (!list)
                        return no_memory(-ENOMEM);
                blkup_cli_blkid_list_heading();
        }
        for (size_t i = 0; i < n; i++) {
                const struct blkup_cli_probe_answer a = {
                        .device = d[i].name,
                        .verdict = d[i].verdict,
                        .error = "",
                        .values = d[i].values,
                        .n_values = d[i].n_values,
                };

                if (!is_wanted(q, &d[i]))
                        continue;
                code = 0;
                if (list)
                        blkup_cli_blkid_list_print(list, &d[i]);
                else
                        blkup_cli_probe_print_text(&text, &a);
                blkup_cli_note_stdout();
        }
        (void) blkup_cli_blkid_list_free(list);
        return code;
}

static int run_high(const struct request *q, struct blkup_cli_blkid_devices *l)
{
        const struct blkup_cli_blkid_device *one = NULL;
        int code, r = 0, said;

        if (q->list_one || q->find_tag) {
                code = find_one(q, l, &one);
                if (code)
                        return code;
                if (!q->find_tag)
                        return print_devices(q, one, 1);
                printf("%s\n", one->name);
                return 0;
        }
        if (q->n_devices == 0) {
                code = scan_all(q, l);
                if (code)
                        return code;
        }
        for (size_t i = 0; i < q->n_devices && r == 0; i++)
                r = blkup_cli_blkid_add(l, q->devices[i]);
        if (r == 0 && q->n_devices > 0)
                r = blkup_cli_blkid_probe(l, NULL, NULL);
        if (r < 0)
                return no_memory(r);
        code = print_devices(q, l->devices, l->n);
        said = say_all(l);
        if (code == BLKUP_CLI_PROBE_EXIT_NOTHING) {
                say_denied(l);
                code = said;
        }
        return code;
}

static int run_request(const struct blkup_cli_command *self, struct request *q)
{
        struct blkup_cli_blkid_devices devices = { 0 };
        int code;

        if (q->list_types) {
                for (size_t i = 0; blkup_probe_type_name(i); i++)
                        printf("%s\n", blkup_probe_type_name(i));
                return 0;
        }
        code = check_request(self, q);
        if (code)
                return code;
        if (q->garbage)
                return 0;
        if (q->probe || q->info)
                return run_low(self, q);
        if (q->find_tag) {
                /* "-L x" is "-t LABEL=x" with a name for an answer. */
                free(q->token);
                free(q->token_value);
                q->token = strdup(q->find_tag);
                q->token_value = strdup(q->find_value);
                if (!q->token || !q->token_value)
                        return no_memory(-ENOMEM);
        }
        code = run_high(q, &devices);
        blkup_cli_blkid_free(&devices);
        return code;
}

static int run_blkid(const struct blkup_cli_command *self, int argc, char **argv)
{
        struct blkup_cli_parser parser;
        struct request q = { .mode = BLKUP_CLI_PROBE_MODE_FULL };
        const char *value;
        int id, code = 0;

        blkup_cli_parser_init(&parser, self, argc, argv, false);
        while (code == 0 && (id = blkup_cli_next(&parser, &value)) != 0) {
                if (id == OPT_OLD_VERSION) {
                        printf("blkup %s\n", BLKUP_VERSION);
                        goto out;
                }
                if (id < 0) {
                        code = parser.exit_code ? EXIT_UNKNOWN_OPTION : 0;
                        goto out;
                }
                code = set_option(self, &q, id, value);
        }
        q.devices = argv + parser.first;
        q.n_devices = (size_t) (argc - parser.first);
        if (code == 0)
                code = run_request(self, &q);
out:
        free(q.token);
        free(q.token_value);
        return blkup_cli_finish_stdout(self->name, code, BLKUP_CLI_PROBE_EXIT_OTHER);
}

static void print_more(void)
{
        printf("\nWithout -p and -i: what is on the named devices, or on all that are attached.\n"
               "With one of them: that, told in all detail, of the named devices.\n");
}

const struct blkup_cli_command blkup_cli_command_blkid = {
        .name = "blkid",
        .help = "Stands in for blkid(8), also when called by that name.",
        .synopsis = "[options] [DEVICE...]",
        .called_as = "blkid",
        .options = options,
        .n_options = BLKUP_ARRAY_SIZE(options),
        .usage_exit = BLKUP_CLI_PROBE_EXIT_OTHER,
        .print_more = print_more,
        .run = run_blkid,
};
