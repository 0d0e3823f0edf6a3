/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * --json: all that is known of one device. Keys are the tags in lower case; docs/schema/probe.json is the
 * contract.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cmd-probe.h"

/* The longest tag is LOGICAL_VOLUME_ID; more room costs nothing. */
#define MAX_TAG 64

/* Tags whose value is a decimal number; JSON says so. All other values are texts, even where they look like
 * numbers. */
static const char *const number_tags[] = {
        "BLOCK_SIZE",      "FSBLOCKSIZE",          "FSSIZE",
        "FSLASTBLOCK",     "PART_ENTRY_NUMBER",    "PART_ENTRY_OFFSET",
        "PART_ENTRY_SIZE", "ALIGNMENT_OFFSET",     "MINIMUM_IO_SIZE",
        "OPTIMAL_IO_SIZE", "PHYSICAL_SECTOR_SIZE", "LOGICAL_SECTOR_SIZE",
        "DISKSEQ",
};

static bool is_number_tag(const char *tag)
{
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(number_tags); i++)
                if (strcmp(number_tags[i], tag) == 0)
                        return true;
        return false;
}

static void put_key(struct blkup_json *j, const char *tag)
{
        char key[MAX_TAG];
        size_t n = 0;

        for (; tag[n] && n < sizeof(key) - 1; n++)
                key[n] = (char) tolower((unsigned char) tag[n]);
        key[n] = '\0';
        blkup_json_key(j, key);
}

static void put_text(struct blkup_json *j, const char *key, const char *value)
{
        blkup_json_key(j, key);
        blkup_json_string(j, value);
}

static void put_number(struct blkup_json *j, const char *key, uint64_t value)
{
        blkup_json_key(j, key);
        blkup_json_u64(j, value);
}

static bool is_repeated(const struct blkup_probe *p, size_t i, const char *tag)
{
        while (i-- > 0)
                if (strcmp(blkup_probe_value(p, i).name, tag) == 0)
                        return true;
        return false;
}

static void put_values(struct blkup_json *j, const struct blkup_probe *p,
                       const struct blkup_cli_probe_show *show)
{
        size_t n = blkup_probe_n_values(p);

        for (size_t i = 0; i < n; i++) {
                struct blkup_value v = blkup_probe_value(p, i);
                size_t len = strnlen(v.value, v.len);
                uint64_t number;

                /* A key may stand once in an object: the first value counts, as for blkid's readers. */
                if (!blkup_cli_probe_is_shown(show, v.name) || is_repeated(p, i, v.name))
                        continue;
                put_key(j, v.name);
                if (is_number_tag(v.name) && blkup_cli_probe_parse_decimal(v.value, len, &number))
                        blkup_json_u64(j, number);
                else
                        blkup_json_string_n(j, v.value, len);
        }
}

static void put_hits(struct blkup_json *j, const struct blkup_probe *p)
{
        size_t n = blkup_probe_n_hits(p);

        blkup_json_key(j, "ambivalent");
        blkup_json_begin_array(j);
        for (size_t i = 0; i < n; i++) {
                struct blkup_hit_info hit = blkup_probe_hit(p, i);
                const char *usage = blkup_usage_name(hit.usage);

                blkup_json_begin_object(j);
                put_text(j, "type", hit.type);
                put_text(j, "usage", usage ? usage : "");
                if (*hit.version)
                        put_text(j, "version", hit.version);
                blkup_json_end_object(j);
        }
        blkup_json_end_array(j);
}

static void put_partitions(struct blkup_json *j, const struct blkup_probe *p)
{
        size_t n = blkup_probe_n_partitions(p);

        blkup_json_key(j, "partitions");
        blkup_json_begin_array(j);
        for (size_t i = 0; i < n; i++) {
                const struct blkup_partition *e = blkup_probe_partition(p, i);
                char flags[2 + 16 + 1];

                blkup_json_begin_object(j);
                put_number(j, "number", e->number);
                put_text(j, "scheme", e->scheme);
                put_number(j, "start_sectors", e->start_sectors);
                put_number(j, "size_sectors", e->size_sectors);
                put_text(j, "type", e->type);
                if (*e->uuid)
                        put_text(j, "uuid", e->uuid);
                if (*e->name)
                        put_text(j, "name", e->name);
                if (e->flags) {
                        /* A text, as PART_ENTRY_FLAGS: GPT uses bits that a JSON reader's double would lose.
                         */
                        snprintf(flags, sizeof(flags), "0x%" PRIx64, e->flags);
                        put_text(j, "flags", flags);
                }
                blkup_json_end_object(j);
        }
        blkup_json_end_array(j);
        if (blkup_probe_partitions_are_cut(p)) {
                blkup_json_key(j, "partitions_cut");
                blkup_json_bool(j, true);
        }
}

void blkup_cli_probe_json_device(struct blkup_json *j, const struct blkup_cli_probe_answer *a,
                                 const struct blkup_cli_probe_show *show, bool partitions, bool explain)
{
        blkup_json_begin_object(j);
        put_text(j, "device", a->device);
        put_text(j, "verdict", blkup_cli_probe_verdict_word(a->verdict));
        if (*a->error)
                put_text(j, "error", a->error);
        if (a->probe) {
                put_number(j, "size", blkup_probe_size(a->probe));
                if (a->verdict != BLKUP_VERDICT_UNKNOWN)
                        put_values(j, a->probe, show);
                if (a->verdict == BLKUP_VERDICT_AMBIVALENT)
                        put_hits(j, a->probe);
                if (partitions)
                        put_partitions(j, a->probe);
                if (explain)
                        blkup_cli_probe_json_candidates(j, a->probe);
        }
        blkup_json_end_object(j);
}
