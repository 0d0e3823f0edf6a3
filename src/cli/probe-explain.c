/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --explain: every candidate, its evidence, and the rule that decided; as text and as JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/encode.h"
#include "cli/cmd-probe.h"
#include "cli/size.h"

static const char *state_word(enum blkup_candidate_state state)
{
        switch (state) {
        case BLKUP_CANDIDATE_FOUND:
                return "found";
        case BLKUP_CANDIDATE_REFUSED:
                return "refused";
        case BLKUP_CANDIDATE_DAMAGED:
                return "damaged";
        case BLKUP_CANDIDATE_UNREADABLE:
                return "unreadable";
        }
        return "?";
}

/* Words of JSON; the order is that of enum blkup_rule. */
static const char *rule_word(enum blkup_rule rule)
{
        static const char *const words[] = {
                "own-rules", "reported",   "ambivalent", "tolerated",   "after-raid",
                "tiny",      "tiny-table", "too-small",  "overwritten", "earlier-magic",
                "late",      "left-out",   "sealed",     "other-table",
        };

        return (size_t) rule < BLKUP_ARRAY_SIZE(words) ? words[rule] : "?";
}

static void print_notes(FILE *f, const char *device, const struct blkup_candidate *c, uint64_t device_bytes)
{
        char a[16], b[16];

        if (c->notes & BLKUP_NOTE_LARGER) {
                blkup_cli_format_size(c->fs_bytes, a, sizeof(a));
                blkup_cli_format_size(device_bytes, b, sizeof(b));
                fprintf(f, "    larger than its device: %s (%" PRIu64 " bytes) on %s (%" PRIu64 " bytes)\n",
                        a, c->fs_bytes, b, device_bytes);
        }
        if (c->notes & BLKUP_NOTE_NO_MOUNT)
                fprintf(f, "    this kernel cannot mount it: %s\n", c->features);
        else if (c->notes & BLKUP_NOTE_READ_ONLY)
                fprintf(f, "    this kernel can only mount it read-only: %s\n", c->features);
        if (c->notes & BLKUP_NOTE_TABLE_INSIDE)
                fputs("    lies inside the file system that is reported: one of the two is stale, or the "
                      "medium is "
                      "made for both\n",
                      f);
        if ((c->notes & BLKUP_NOTE_STALE) && c->magic_len > 0)
                fprintf(f, "    if it is stale: wipefs -o 0x%" PRIx64 " %s\n", c->at, device);
}

static void print_candidate(FILE *f, const char *device, const struct blkup_candidate *c,
                            uint64_t device_bytes)
{
        fprintf(f, "  %s%s", c->type, c->usage ? "" : " (partition table)");
        if (c->magic_len > 0)
                fprintf(f, ": magic of %" PRIu32 " byte%s at %" PRIu64 " (0x%" PRIx64 ")", c->magic_len,
                        c->magic_len == 1 ? "" : "s", c->at, c->at);
        if (c->evidence_bits > 0)
                fprintf(f, "%s %" PRIu32 " bits of evidence", c->magic_len > 0 ? "," : ":", c->evidence_bits);
        if (c->evidence_bits > c->magic_bits && c->magic_bits > 0)
                fprintf(f, " (%" PRIu32 " beyond the magic)", c->evidence_bits - c->magic_bits);
        if (c->state == BLKUP_CANDIDATE_FOUND)
                fprintf(f, "\n    %s\n", blkup_rule_text(c->rule));
        else
                fprintf(f, "\n    %s%s%s\n", state_word(c->state), *c->reason ? ": " : "", c->reason);
        print_notes(f, device, c, device_bytes);
}

void blkup_cli_probe_print_explain(FILE *f, const struct blkup_cli_probe_answer *a)
{
        char device[4 * 1024];
        const char *type = a->probe ? blkup_probe_lookup(a->probe, "TYPE") : NULL;
        const char *table = a->probe ? blkup_probe_lookup(a->probe, "PTTYPE") : NULL;
        size_t n = a->probe ? blkup_probe_n_candidates(a->probe) : 0;

        blkup_encode_terminal(a->device, strnlen(a->device, 1023), device, sizeof(device));
        fprintf(f, "%s: %s", device, blkup_cli_probe_verdict_word(a->verdict));
        if (a->verdict == BLKUP_VERDICT_FOUND && (type || table))
                fprintf(f, ": %s%s%s%s", type ? type : "", type && table ? " and " : "",
                        table ? "partition table " : "", table ? table : "");
        if (*a->error)
                fprintf(f, ": %s", a->error);
        fputc('\n', f);
        for (size_t i = 0; i < n; i++)
                print_candidate(f, device, blkup_probe_candidate(a->probe, i), blkup_probe_size(a->probe));
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

static void put_notes(struct blkup_json *j, unsigned notes)
{
        static const char *const words[] = { "larger-than-device", "table-inside", "stale", "no-mount",
                                             "read-only" };

        blkup_json_key(j, "notes");
        blkup_json_begin_array(j);
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(words); i++)
                if (notes & 1u << i)
                        blkup_json_string(j, words[i]);
        blkup_json_end_array(j);
}

void blkup_cli_probe_json_candidates(struct blkup_json *j, const struct blkup_probe *p)
{
        size_t n = blkup_probe_n_candidates(p);

        blkup_json_key(j, "candidates");
        blkup_json_begin_array(j);
        for (size_t i = 0; i < n; i++) {
                const struct blkup_candidate *c = blkup_probe_candidate(p, i);
                const char *usage = blkup_usage_name(c->usage);

                blkup_json_begin_object(j);
                put_text(j, "type", c->type);
                put_text(j, "usage", usage ? usage : "table");
                put_text(j, "state", state_word(c->state));
                put_text(j, "rule", rule_word(c->rule));
                if (*c->reason)
                        put_text(j, "reason", c->reason);
                if (c->magic_len > 0) {
                        put_number(j, "magic_offset", c->at);
                        put_number(j, "magic_length", c->magic_len);
                }
                put_number(j, "magic_bits", c->magic_bits);
                put_number(j, "evidence_bits", c->evidence_bits);
                if (c->fs_bytes)
                        put_number(j, "fssize", c->fs_bytes);
                if (*c->features)
                        put_text(j, "features", c->features);
                put_notes(j, c->notes);
                blkup_json_end_object(j);
        }
        blkup_json_end_array(j);
}
