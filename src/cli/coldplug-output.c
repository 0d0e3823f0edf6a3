/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cli/coldplug-output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/encode.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/output.h"
#include "cli/size.h"
#include "cli/table.h"

/* ---- the exit code ---- */

/* A device that could not be read counts, whether somebody asked for it or not: it is attached and not ready.
 */
static bool has_failed(const struct blkup_coldplug_device *d)
{
        return d->probe.state == BLKUP_COLDPLUG_FAILED || d->probe.state == BLKUP_COLDPLUG_TIMED_OUT;
}

static bool is_asked_for(const struct blkup_coldplug_result *r, size_t device)
{
        for (size_t i = 0; i < r->n_entries; i++)
                if (r->entries[i].device == device)
                        return true;
        return false;
}

int blkup_cli_coldplug_exit_code(const struct blkup_coldplug_result *r)
{
        size_t good = 0, bad = 0;

        for (size_t i = 0; i < r->n_entries; i++) {
                const struct blkup_coldplug_entry *e = &r->entries[i];

                if (e->is_left_out || (e->is_optional && e->steps[BLKUP_COLDPLUG_PROBE].error == -ENOENT))
                        continue;
                if (e->is_ready)
                        good++;
                else
                        bad++;
        }
        for (size_t i = 0; i < r->n_devices; i++)
                if (has_failed(r->devices[i]) && !is_asked_for(r, i) && !r->is_limited)
                        bad++;
                else if (r->n_entries == 0 && !r->is_limited)
                        good++;
        bad += r->n_missed + r->n_copies;
        return bad == 0 ? 0 : good > 0 ? BLKUP_CLI_COLDPLUG_EXIT_SOME : BLKUP_CLI_COLDPLUG_EXIT_NONE;
}

/* ---- messages ---- */

static const char *name_of(const struct blkup_coldplug_entry *e)
{
        return e->target ? e->target : e->source;
}

static void print_step(const char *object, const struct blkup_coldplug_step *s, const char *stage)
{
        /* Without memory for a sentence there is still the errno. */
        const char *text = s->text && *s->text ? s->text : s->error < 0 ? blkup_error_text(-s->error) : NULL;

        if (text)
                blkup_cli_error("coldplug", "%s: %s: %s: %s%s", object, stage,
                                blkup_coldplug_state_name(s->state), blkup_cli_without_name(text, object),
                                s->state == BLKUP_COLDPLUG_REFUSED ? "" : blkup_cli_try_as_root(s->error));
        else
                blkup_cli_error("coldplug", "%s: %s: %s", object, stage,
                                blkup_coldplug_state_name(s->state));
}

static const char *stage_name(const struct blkup_coldplug_entry *e, enum blkup_coldplug_stage stage)
{
        return e->kind == BLKUP_COLDPLUG_SWAP && stage == BLKUP_COLDPLUG_MOUNT
                       ? "swapon"
                       : blkup_coldplug_stage_name(stage);
}

/* A stage that was skipped because of the one before needs no line of its own; of swap that is in use there
 * is one when it should not be as it is. */
static bool is_worth_a_line(const struct blkup_coldplug_entry *e, enum blkup_coldplug_stage stage)
{
        const struct blkup_coldplug_step *s = &e->steps[stage];

        if (e->kind == BLKUP_COLDPLUG_SWAP && s->state == BLKUP_COLDPLUG_DONE &&
            stage == BLKUP_COLDPLUG_MOUNT)
                return s->text != NULL;
        if (s->state == BLKUP_COLDPLUG_SKIPPED)
                return s->text != NULL;
        return !blkup_coldplug_is_good(s->state) || s->state == BLKUP_COLDPLUG_LEFT;
}

void blkup_cli_coldplug_print_messages(const struct blkup_coldplug_result *r)
{
        for (size_t i = 0; i < r->n_devices; i++) {
                const struct blkup_coldplug_device *d = r->devices[i];

                if (has_failed(d) || (d->probe.reads > 0 && d->probe.text && strstr(d->probe.text, "error")))
                        print_step(d->path, &d->probe, blkup_coldplug_stage_name(BLKUP_COLDPLUG_PROBE));
        }
        for (size_t i = 0; i < r->n_entries; i++) {
                const struct blkup_coldplug_entry *e = &r->entries[i];

                for (size_t k = 0; k < BLKUP_COLDPLUG_STAGES && !e->is_left_out; k++) {
                        /* The device's own line has said it. */
                        if (k == BLKUP_COLDPLUG_PROBE && e->device != BLKUP_COLDPLUG_NO_DEVICE &&
                            has_failed(r->devices[e->device]))
                                continue;
                        if (is_worth_a_line(e, (enum blkup_coldplug_stage) k))
                                print_step(name_of(e), &e->steps[k],
                                           stage_name(e, (enum blkup_coldplug_stage) k));
                }
        }
        for (size_t i = 0; i < r->n_sets; i++) {
                const struct blkup_coldplug_set *s = r->sets[i];

                /* A btrfs that is one device, and what is as it should be, has nothing to say. */
                if ((blkup_coldplug_is_good(s->step.state) && s->step.state != BLKUP_COLDPLUG_LEFT &&
                     !s->is_degraded) ||
                    !s->step.text)
                        continue;
                blkup_cli_error("coldplug", "%s %s: %s", blkup_coldplug_set_name(s->kind),
                                s->name ? s->name : s->uuid, s->step.text);
        }
        for (size_t i = 0; i < r->n_bad_modules; i++)
                blkup_cli_error("coldplug", "module %s: %s", r->bad_modules[i].name, r->bad_modules[i].text);
        for (size_t i = 0; i < r->n_copies; i++)
                blkup_cli_error("coldplug", "%s", r->copies[i].text);
        for (size_t i = 0; i < r->n_missed; i++)
                blkup_cli_error("coldplug", "--only %s: no entry of the fstab and no --mount is of it",
                                r->missed[i]);
        if (r->hibernation)
                blkup_cli_error("coldplug",
                                "%s holds a hibernation image: nothing is written before it is resumed",
                                r->hibernation);
        if (r->n_silent > 0)
                blkup_cli_error("coldplug", "%zu of the calls to devices have not returned yet", r->n_silent);
}

/* ---- the table ---- */

enum column {
        COL_DEVICE,
        COL_SIZE,
        COL_TYPE,
        COL_LABEL,
        COL_TARGET,
        COL_PROBE,
        COL_FINISH,
        COL_CHECK,
        COL_MOUNT,
        COL_END,
        COL_STATE,
        COLUMNS,
};

static const struct blkup_cli_column columns[COLUMNS] = {
        [COL_DEVICE] = { "DEVICE", false, false }, [COL_SIZE] = { "SIZE", true, false },
        [COL_TYPE] = { "TYPE", false, false }, [COL_LABEL] = { "LABEL", false, false },
        [COL_TARGET] = { "MOUNTPOINT", false, false }, [COL_PROBE] = { "PROBE", true, false },
        [COL_FINISH] = { "FINISH", true, false }, [COL_CHECK] = { "CHECK", true, false },
        [COL_MOUNT] = { "MOUNT", true, false }, [COL_END] = { "AT", true, false },
        [COL_STATE] = { "STATE", false, false },
};

static int set_text(struct blkup_cli_table *t, size_t row, size_t column, const char *text)
{
        return text ? blkup_cli_table_set(t, row, column, text, strlen(text)) : 0;
}

static int set_ms(struct blkup_cli_table *t, size_t row, size_t column, uint64_t ns)
{
        char text[32];

        (void) snprintf(text, sizeof(text), "%.1f", (double) ns / 1e6);
        return set_text(t, row, column, text);
}

static int set_step(struct blkup_cli_table *t, size_t row, size_t column, const struct blkup_coldplug_step *s)
{
        return s->start_ns ? set_ms(t, row, column, s->end_ns - s->start_ns) : 0;
}

static const char *word_of_device(const struct blkup_coldplug_device *d)
{
        if (has_failed(d))
                return d->probe.state == BLKUP_COLDPLUG_TIMED_OUT ? "silent" : "unreadable";
        if (d->bar == BLKUP_COLDPLUG_TWO_TYPES)
                return "ambivalent";
        return d->type ? "identified" : "unknown";
}

static const char *word_of_entry(const struct blkup_coldplug_result *r, const struct blkup_coldplug_entry *e)
{
        const struct blkup_coldplug_step *m = &e->steps[BLKUP_COLDPLUG_MOUNT];

        if (e->is_left_out)
                return "left out";
        if (e->steps[BLKUP_COLDPLUG_PROBE].state != BLKUP_COLDPLUG_DONE)
                return e->device != BLKUP_COLDPLUG_NO_DEVICE ? word_of_device(r->devices[e->device])
                       : e->steps[BLKUP_COLDPLUG_PROBE].error == -ENOENT ? "not there"
                                                                         : "failed";
        switch (m->state) {
        case BLKUP_COLDPLUG_DONE:
                if (e->kind == BLKUP_COLDPLUG_SWAP)
                        return "active";
                return e->mount && e->mount->is_read_only ? "mounted ro" : "mounted";
        case BLKUP_COLDPLUG_ALREADY:
                return e->kind == BLKUP_COLDPLUG_SWAP ? "already active" : "already mounted";
        case BLKUP_COLDPLUG_WOULD:
                return e->kind == BLKUP_COLDPLUG_SWAP ? "would activate" : "would mount";
        case BLKUP_COLDPLUG_NOT_ASKED:
                return e->device != BLKUP_COLDPLUG_NO_DEVICE ? word_of_device(r->devices[e->device])
                                                             : "ready";
        case BLKUP_COLDPLUG_SKIPPED:
                if (!blkup_coldplug_is_good(e->steps[BLKUP_COLDPLUG_CHECK].state))
                        return "check failed";
                return "skipped";
        case BLKUP_COLDPLUG_LEFT:
        case BLKUP_COLDPLUG_REFUSED:
        case BLKUP_COLDPLUG_FAILED:
        case BLKUP_COLDPLUG_TIMED_OUT:
                break;
        }
        return blkup_coldplug_state_name(m->state);
}

static uint64_t end_of(const struct blkup_coldplug_result *r, const struct blkup_coldplug_entry *e,
                       const struct blkup_coldplug_device *d)
{
        uint64_t end = d ? d->probe.end_ns : 0;

        for (size_t k = BLKUP_COLDPLUG_FINISH; e && k < BLKUP_COLDPLUG_STAGES; k++)
                if (e->steps[k].end_ns > end && e->steps[k].start_ns)
                        end = e->steps[k].end_ns;
        return end > r->start_ns ? end - r->start_ns : 0;
}

/* One row; either may be NULL. */
static int add_row(struct blkup_cli_table *t, const struct blkup_coldplug_result *r,
                   const struct blkup_coldplug_entry *e, const struct blkup_coldplug_device *d)
{
        const char *word = e ? word_of_entry(r, e) : word_of_device(d);
        const char *slash = d ? strrchr(d->path, '/') : NULL;
        bool is_bad = e ? !e->is_ready && !e->is_left_out : has_failed(d);
        char size[32];
        size_t row;
        int k = blkup_cli_table_add_row(t, BLKUP_CLI_NO_PARENT, is_bad ? BLKUP_CLI_RED : BLKUP_CLI_PLAIN,
                                        &row);

        if (k == 0 && d) {
                blkup_cli_format_size(d->size_bytes, size, sizeof(size));
                k = set_text(t, row, COL_DEVICE, slash ? slash + 1 : d->path);
                if (k == 0)
                        k = set_text(t, row, COL_SIZE, size);
                if (k == 0)
                        k = set_text(t, row, COL_TYPE, d->type);
                if (k == 0)
                        k = set_text(t, row, COL_LABEL, d->label);
                if (k == 0)
                        k = set_step(t, row, COL_PROBE, &d->probe);
        } else if (k == 0) {
                k = set_text(t, row, COL_DEVICE, e->source);
        }
        if (k == 0 && e) {
                /* Where nothing is to be mounted there is no mount point to tell. */
                k = e->steps[BLKUP_COLDPLUG_MOUNT].state == BLKUP_COLDPLUG_NOT_ASKED
                            ? 0
                            : set_text(t, row, COL_TARGET,
                                       e->kind == BLKUP_COLDPLUG_SWAP ? "[SWAP]" : e->target);
                if (k == 0)
                        k = set_step(t, row, COL_FINISH, &e->steps[BLKUP_COLDPLUG_FINISH]);
                if (k == 0)
                        k = set_step(t, row, COL_CHECK, &e->steps[BLKUP_COLDPLUG_CHECK]);
                if (k == 0)
                        k = set_step(t, row, COL_MOUNT, &e->steps[BLKUP_COLDPLUG_MOUNT]);
        }
        if (k == 0 && end_of(r, e, d))
                k = set_ms(t, row, COL_END, end_of(r, e, d));
        return k == 0 ? set_text(t, row, COL_STATE, word) : k;
}

/* The stages of all devices, each device's time counted by itself: what one after another would have taken.
 */
static int add_sums(struct blkup_cli_table *t, const struct blkup_coldplug_result *r)
{
        uint64_t sums[BLKUP_COLDPLUG_STAGES] = { 0 };
        size_t row;
        int k;

        for (size_t i = 0; i < r->n_devices; i++)
                sums[0] += r->devices[i]->probe.end_ns - r->devices[i]->probe.start_ns;
        for (size_t i = 0; i < r->n_entries; i++)
                for (size_t s = BLKUP_COLDPLUG_FINISH; s < BLKUP_COLDPLUG_STAGES; s++)
                        if (r->entries[i].steps[s].start_ns)
                                sums[s] += r->entries[i].steps[s].end_ns - r->entries[i].steps[s].start_ns;
        k = blkup_cli_table_add_row(t, BLKUP_CLI_NO_PARENT, BLKUP_CLI_PLAIN, &row);
        if (k == 0)
                k = set_text(t, row, COL_DEVICE, "sum of all");
        for (size_t s = 0; k == 0 && s < BLKUP_COLDPLUG_STAGES; s++)
                k = set_ms(t, row, COL_PROBE + s, sums[s]);
        return k == 0 ? set_ms(t, row, COL_END, r->end_ns - r->start_ns) : k;
}

static void print_path(const struct blkup_coldplug_result *r)
{
        uint64_t ns = 0;

        for (size_t i = 0; i < r->n_path; i++)
                ns += r->path[i].ns;
        printf("critical path: %.1f ms", (double) ns / 1e6);
        for (size_t i = 0; i < r->n_path; i++) {
                const char *slash = strrchr(r->path[i].object, '/');
                char safe[512];

                blkup_encode_terminal(slash ? slash + 1 : r->path[i].object,
                                      strnlen(slash ? slash + 1 : r->path[i].object, 120), safe,
                                      sizeof(safe));
                printf(" %s %s %s %.1f", i == 0 ? "=" : "+", r->path[i].stage, safe,
                       (double) r->path[i].ns / 1e6);
        }
        printf("\n");
}

int blkup_cli_coldplug_print_table(const struct blkup_coldplug_result *r)
{
        struct blkup_cli_table *t = blkup_cli_table_new(columns, COLUMNS);
        int k = t ? 0 : -ENOMEM;

        for (size_t i = 0; k == 0 && i < r->n_entries; i++) {
                size_t d = r->entries[i].device;

                k = add_row(t, r, &r->entries[i], d == BLKUP_COLDPLUG_NO_DEVICE ? NULL : r->devices[d]);
        }
        for (size_t i = 0; k == 0 && i < r->n_devices; i++)
                if (!is_asked_for(r, i))
                        k = add_row(t, r, NULL, r->devices[i]);
        if (k == 0)
                k = add_sums(t, r);
        if (k == 0)
                k = blkup_cli_table_print(t, true);
        blkup_cli_table_free(t);
        if (k == 0)
                print_path(r);
        blkup_cli_note_stdout();
        return k;
}

/* ---- JSON ---- */

static void add_string(struct blkup_json *j, const char *key, const char *value)
{
        if (value) {
                blkup_json_key(j, key);
                blkup_json_string(j, value);
        }
}

static void add_number(struct blkup_json *j, const char *key, uint64_t value)
{
        blkup_json_key(j, key);
        blkup_json_u64(j, value);
}

static void add_us(struct blkup_json *j, const char *key, uint64_t ns)
{
        blkup_json_key(j, key);
        blkup_json_double(j, (double) ns / 1000, 3);
}

static void add_step(struct blkup_json *j, const char *key, const struct blkup_coldplug_result *r,
                     const struct blkup_coldplug_step *s)
{
        blkup_json_key(j, key);
        blkup_json_begin_object(j);
        add_string(j, "state", blkup_coldplug_state_name(s->state));
        add_string(j, "text", s->text);
        if (s->error < 0)
                add_number(j, "errno", (uint64_t) -s->error);
        if (s->start_ns) {
                add_us(j, "start_us", s->start_ns > r->start_ns ? s->start_ns - r->start_ns : 0);
                add_us(j, "us", s->end_ns - s->start_ns);
        }
        if (*s->wait_for) {
                add_string(j, "waited_for", s->wait_for);
                add_us(j, "waited_us", s->wait_end_ns - s->wait_start_ns);
        }
        if (s->bytes)
                add_number(j, "bytes", s->bytes);
        if (s->reads)
                add_number(j, "reads", s->reads);
        blkup_json_end_object(j);
}

static void add_device(struct blkup_json *j, const struct blkup_coldplug_result *r,
                       const struct blkup_coldplug_device *d)
{
        blkup_json_begin_object(j);
        add_string(j, "path", d->path);
        add_number(j, "size", d->size_bytes);
        add_string(j, "type", d->type);
        add_string(j, "usage", d->usage);
        add_string(j, "label", d->label);
        add_string(j, "uuid", d->uuid);
        if (d->bar)
                add_string(j, "never_written", blkup_coldplug_bar_name(d->bar));
        if (d->came_ns > r->start_ns)
                add_us(j, "came_us", d->came_ns - r->start_ns);
        if (d->module) {
                blkup_json_key(j, "brought_by");
                blkup_json_begin_object(j);
                add_string(j, "module", d->module);
                add_us(j, "start_us",
                       d->module_start_ns > r->start_ns ? d->module_start_ns - r->start_ns : 0);
                add_us(j, "us", d->module_end_ns - d->module_start_ns);
                blkup_json_end_object(j);
        }
        add_step(j, "probe", r, &d->probe);
        blkup_json_end_object(j);
}

static void add_entry(struct blkup_json *j, const struct blkup_coldplug_result *r,
                      const struct blkup_coldplug_entry *e)
{
        static const char *const kinds[] = { "fstab", "place", "image", "swap" };

        blkup_json_begin_object(j);
        add_string(j, "kind", kinds[e->kind]);
        if (e->line)
                add_number(j, "line", e->line);
        add_string(j, "source", e->source);
        add_string(j, "target", e->target);
        if (e->device != BLKUP_COLDPLUG_NO_DEVICE)
                add_string(j, "device", r->devices[e->device]->path);
        blkup_json_key(j, "ready");
        blkup_json_bool(j, e->is_ready);
        add_string(j, "state", word_of_entry(r, e));
        if (e->groups_left)
                add_number(j, "groups_left", e->groups_left);
        add_step(j, "locate", r, &e->steps[BLKUP_COLDPLUG_PROBE]);
        add_step(j, "finish", r, &e->steps[BLKUP_COLDPLUG_FINISH]);
        add_step(j, "check", r, &e->steps[BLKUP_COLDPLUG_CHECK]);
        add_step(j, "mount", r, &e->steps[BLKUP_COLDPLUG_MOUNT]);
        blkup_json_end_object(j);
}

static void add_set(struct blkup_json *j, const struct blkup_coldplug_result *r,
                    const struct blkup_coldplug_set *s)
{
        blkup_json_begin_object(j);
        add_string(j, "kind", blkup_coldplug_set_name(s->kind));
        add_string(j, "uuid", s->uuid);
        add_string(j, "name", s->name);
        add_number(j, "members", s->n_members);
        if (s->n_expected)
                add_number(j, "expected", s->n_expected);
        if (s->is_degraded) {
                blkup_json_key(j, "degraded");
                blkup_json_bool(j, true);
        }
        add_step(j, "step", r, &s->step);
        blkup_json_end_object(j);
}

static void add_modules(struct blkup_json *j, const struct blkup_coldplug_result *r)
{
        blkup_json_key(j, "modules");
        blkup_json_begin_object(j);
        add_number(j, "loaded", r->n_modules);
        blkup_json_key(j, "failed");
        blkup_json_begin_array(j);
        for (size_t i = 0; i < r->n_bad_modules; i++) {
                blkup_json_begin_object(j);
                add_string(j, "name", r->bad_modules[i].name);
                add_string(j, "text", r->bad_modules[i].text);
                blkup_json_end_object(j);
        }
        blkup_json_end_array(j);
        blkup_json_end_object(j);
}

int blkup_cli_coldplug_print_json(const struct blkup_coldplug_result *r, int code)
{
        struct blkup_json j;
        int k;

        blkup_json_init(&j, blkup_cli_file_sink, stdout, true);
        blkup_json_begin_object(&j);
        blkup_json_key(&j, "blkup");
        blkup_json_begin_object(&j);
        add_string(&j, "version", BLKUP_VERSION);
        add_number(&j, "schema", BLKUP_CLI_COLDPLUG_SCHEMA);
        blkup_json_end_object(&j);
        blkup_json_key(&j, "devices");
        blkup_json_begin_array(&j);
        for (size_t i = 0; i < r->n_devices; i++)
                add_device(&j, r, r->devices[i]);
        blkup_json_end_array(&j);
        blkup_json_key(&j, "entries");
        blkup_json_begin_array(&j);
        for (size_t i = 0; i < r->n_entries; i++)
                if (!r->entries[i].is_left_out)
                        add_entry(&j, r, &r->entries[i]);
        blkup_json_end_array(&j);
        blkup_json_key(&j, "sets");
        blkup_json_begin_array(&j);
        for (size_t i = 0; i < r->n_sets; i++)
                add_set(&j, r, r->sets[i]);
        blkup_json_end_array(&j);
        blkup_json_key(&j, "copies");
        blkup_json_begin_array(&j);
        for (size_t i = 0; i < r->n_copies; i++) {
                blkup_json_begin_object(&j);
                add_string(&j, "device", r->copies[i].device);
                add_string(&j, "other", r->copies[i].other);
                add_string(&j, "of", r->copies[i].of);
                add_string(&j, "text", r->copies[i].text);
                blkup_json_end_object(&j);
        }
        blkup_json_end_array(&j);
        add_modules(&j, r);
        blkup_json_key(&j, "events");
        blkup_json_begin_object(&j);
        add_number(&j, "taken", r->n_events);
        add_number(&j, "overflows", r->n_overflows);
        blkup_json_end_object(&j);
        blkup_json_key(&j, "critical_path");
        blkup_json_begin_array(&j);
        for (size_t i = 0; i < r->n_path; i++) {
                blkup_json_begin_object(&j);
                add_string(&j, "stage", r->path[i].stage);
                add_string(&j, "object", r->path[i].object);
                add_us(&j, "us", r->path[i].ns);
                blkup_json_end_object(&j);
        }
        blkup_json_end_array(&j);
        add_string(&j, "hibernation", r->hibernation);
        add_number(&j, "silent", r->n_silent);
        add_us(&j, "us", r->end_ns - r->start_ns);
        add_number(&j, "peak_bytes", r->peak_bytes);
        add_number(&j, "exit_code", (uint64_t) code);
        blkup_json_end_object(&j);
        k = blkup_json_finish(&j);
        printf("\n");
        blkup_cli_note_stdout();
        return k;
}
