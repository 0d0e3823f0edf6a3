/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The -o modes of blkid. What they print was compared byte for byte with util-linux 2.38.1
 * (tests/cli/probe-blkid.sh).
 *
 * A value stops at its first NUL in every mode, as there.
 */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/encode.h"
#include "cli/cmd-probe.h"

/* Values are encoded by pieces of this size: each byte's encoding depends on that byte alone. */
#define PIECE 256

const char *blkup_cli_probe_verdict_word(enum blkup_verdict verdict)
{
        static const char *const words[] = {
                [BLKUP_VERDICT_NOTHING] = "nothing",
                [BLKUP_VERDICT_FOUND] = "found",
                [BLKUP_VERDICT_AMBIVALENT] = "ambivalent",
                [BLKUP_VERDICT_UNKNOWN] = "unknown",
        };

        return words[verdict];
}

bool blkup_cli_probe_parse_decimal(const char *s, size_t n, uint64_t *ret)
{
        uint64_t v = 0;

        if (n == 0)
                return false;
        for (size_t i = 0; i < n; i++)
                if (s[i] < '0' || s[i] > '9' || !blkup_mul(v, 10, &v) ||
                    !blkup_add(v, (uint64_t) (s[i] - '0'), &v))
                        return false;
        *ret = v;
        return true;
}

bool blkup_cli_probe_is_shown(const struct blkup_cli_probe_show *show, const char *tag)
{
        if (show->n == 0)
                return true;
        for (size_t i = 0; i < show->n; i++)
                if (strcmp(show->tags[i], tag) == 0)
                        return true;
        return false;
}

static void print_encoded(FILE *f, size_t (*encode)(const char *in, size_t n, char *out, size_t cap),
                          const char *s, size_t n)
{
        char out[5 * PIECE + 1];

        while (n > 0) {
                size_t k = n < PIECE ? n : PIECE;

                (void) fwrite(out, 1, encode(s, k, out, sizeof(out)), f);
                s += k;
                n -= k;
        }
}

static void print_raw(FILE *f, const char *s, size_t n)
{
        (void) fwrite(s, 1, n, f);
}

static bool has_suffix(const char *s, const char *suffix)
{
        size_t n = strlen(s), k = strlen(suffix);

        return n >= k && strcmp(s + n - k, suffix) == 0;
}

static bool has_prefix(const char *s, const char *prefix)
{
        return strncmp(s, prefix, strlen(prefix)) == 0;
}

static void print_udev_encoded(FILE *f, const char *key, const char *tag, const char *suffix, const char *s,
                               size_t n)
{
        char out[BLKUP_UDEV_ENC_CAP];

        blkup_encode_udev(s, n, out, sizeof(out));
        fprintf(f, "%s%s%s=%s\n", key, tag, suffix, out);
}

static void print_udev_safe(FILE *f, const char *key, const char *tag, const char *s, size_t n)
{
        char out[BLKUP_UDEV_SAFE_CAP];

        blkup_encode_udev_safe(s, n, out, sizeof(out));
        fprintf(f, "%s%s=%s\n", key, tag, out);
}

static bool has_control(const char *s, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if ((unsigned char) s[i] < 0x20 || s[i] == 0x7f)
                        return true;
        return false;
}

/* blkid prints these as they are. They are numbers and words, but for a few texts of rare formats (MOUNT of
 * ocfs): a line break in one of those would be a further property for udev, so such a value is encoded. */
static void print_udev_plain(FILE *f, const char *key, const char *tag, const char *s, size_t n)
{
        if (has_control(s, n))
                print_udev_encoded(f, key, tag, "", s, n);
        else
                fprintf(f, "%s%s=%.*s\n", key, tag, (int) n, s);
}

static void print_udev(FILE *f, const char *tag, const char *s, size_t n)
{
        if (strcmp(tag, "TYPE") == 0 || strcmp(tag, "VERSION") == 0 || has_suffix(tag, "_ID"))
                print_udev_encoded(f, "ID_FS_", tag, "", s, n);
        else if (strcmp(tag, "UUID") == 0 || strcmp(tag, "UUID_SUB") == 0 || has_prefix(tag, "LABEL")) {
                print_udev_safe(f, "ID_FS_", tag, s, n);
                print_udev_encoded(f, "ID_FS_", tag, "_ENC", s, n);
        } else if (strcmp(tag, "PTUUID") == 0)
                print_udev_plain(f, "ID_PART_TABLE_UUID", "", s, n);
        else if (strcmp(tag, "PTTYPE") == 0)
                print_udev_plain(f, "ID_PART_TABLE_TYPE", "", s, n);
        else if (strcmp(tag, "PART_ENTRY_NAME") == 0 || strcmp(tag, "PART_ENTRY_TYPE") == 0)
                print_udev_encoded(f, "ID_", tag, "", s, n);
        else if (has_prefix(tag, "PART_ENTRY_"))
                print_udev_plain(f, "ID_", tag, s, n);
        else if (strcmp(tag, "ALIGNMENT_OFFSET") == 0 ||
                 (strlen(tag) >= 15 && (has_suffix(tag, "_SECTOR_SIZE") || has_suffix(tag, "_IO_SIZE"))))
                print_udev_plain(f, "ID_IOLIMIT_", tag, s, n);
        else
                print_udev_plain(f, "ID_FS_", tag, s, n);
}

/* The one line that udev gets for a device with more than one type. */
static void print_udev_ambivalent(FILE *f, const struct blkup_probe *p)
{
        char usage[BLKUP_UDEV_ENC_CAP], type[BLKUP_UDEV_ENC_CAP], version[BLKUP_UDEV_ENC_CAP];
        size_t n = blkup_probe_n_hits(p);

        for (size_t i = 0; i < n; i++) {
                struct blkup_hit_info hit = blkup_probe_hit(p, i);
                const char *word = blkup_usage_name(hit.usage);

                blkup_encode_udev(word ? word : "", word ? strlen(word) : 0, usage, sizeof(usage));
                blkup_encode_udev(hit.type, strlen(hit.type), type, sizeof(type));
                blkup_encode_udev(hit.version, strlen(hit.version), version, sizeof(version));
                fprintf(f, "%s%s:%s%s%s", i == 0 ? "ID_FS_AMBIVALENT=" : " ", usage, type,
                        *version ? ":" : "", version);
        }
        if (n > 0)
                fprintf(f, "\n");
}

static void print_value(FILE *f, const struct blkup_cli_probe_text *t, const char *device, const char *tag,
                        const char *s, size_t n, bool first)
{
        switch (t->mode) {
        case BLKUP_CLI_PROBE_MODE_VALUE:
                print_raw(f, s, n);
                fprintf(f, "\n");
                break;
        case BLKUP_CLI_PROBE_MODE_UDEV:
                print_udev(f, tag, s, n);
                break;
        case BLKUP_CLI_PROBE_MODE_EXPORT:
                if (first)
                        fprintf(f, "DEVNAME=%s\n", device);
                fprintf(f, "%s=", tag);
                if (t->no_encoding)
                        print_raw(f, s, n);
                else
                        print_encoded(f, blkup_encode_export, s, n);
                fprintf(f, "\n");
                break;
        default:
                if (first)
                        fprintf(f, "%s:", device);
                fprintf(f, " %s=\"", tag);
                if (t->no_encoding)
                        print_raw(f, s, n);
                else
                        print_encoded(f, blkup_encode_full, s, n);
                fprintf(f, "\"");
                break;
        }
}

void blkup_cli_probe_print_text(struct blkup_cli_probe_text *t, const struct blkup_cli_probe_answer *a)
{
        bool is_block = t->mode == BLKUP_CLI_PROBE_MODE_UDEV || t->mode == BLKUP_CLI_PROBE_MODE_EXPORT;
        size_t n = a->values ? a->n_values : a->probe ? blkup_probe_n_values(a->probe) : 0;
        FILE *f = t->out ? t->out : stdout;
        bool first = true;

        if (a->verdict == BLKUP_VERDICT_AMBIVALENT) {
                if (t->mode == BLKUP_CLI_PROBE_MODE_UDEV)
                        print_udev_ambivalent(f, a->probe);
                return;
        }
        if (a->verdict != BLKUP_VERDICT_FOUND || n == 0)
                return;
        if (t->mode == BLKUP_CLI_PROBE_MODE_DEVICE) {
                fprintf(f, "%s\n", a->device);
                return;
        }
        if (is_block && t->had_device && !t->skip_empty)
                fprintf(f, "\n");
        t->had_device |= !t->skip_empty;
        for (size_t i = 0; i < n; i++) {
                struct blkup_value v = a->values ? a->values[i] : blkup_probe_value(a->probe, i);

                if (!blkup_cli_probe_is_shown(t->show, v.name))
                        continue;
                if (first && is_block && t->skip_empty && t->had_device)
                        fprintf(f, "\n");
                t->had_device = true;
                print_value(f, t, a->device, v.name, v.value, strnlen(v.value, v.len), first);
                first = false;
        }
        /* Also when -s left nothing to show: blkid ends the line that it did not begin. */
        if (t->mode == BLKUP_CLI_PROBE_MODE_FULL && !(first && t->skip_empty))
                fprintf(f, "\n");
}
