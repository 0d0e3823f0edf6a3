/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kit/kit.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Read beyond the budget by at most what one round adds to it. */
#define BYTES_MAX (BLKUP_DEFAULT_BUDGET + 65536)

static bool is_line(const char *s)
{
        for (; *s; s++)
                if ((unsigned char) *s < ' ' || *s == 0x7f)
                        return false;
        return true;
}

const char *kit_answer_fault(const struct blkup_probe *p, enum blkup_verdict verdict)
{
        size_t n = blkup_probe_n_values(p), n_hits = blkup_probe_n_hits(p);
        const char *type = blkup_probe_lookup(p, "TYPE"), *table = blkup_probe_lookup(p, "PTTYPE");
        const char *trouble = blkup_probe_trouble(p);

        if (!is_line(trouble))
                return "the trouble is not one printable line";
        switch (verdict) {
        case BLKUP_VERDICT_NOTHING:
                if (n > 0 || n_hits > 0)
                        return "nothing, and yet there are values or hits";
                if (*trouble)
                        return "nothing, and yet not everything was looked at";
                break;
        case BLKUP_VERDICT_UNKNOWN:
                if (n > 0)
                        return "unknown, and yet there are values";
                if (!*trouble)
                        return "unknown, and no word why";
                break;
        case BLKUP_VERDICT_FOUND:
                if (!type && !table && !blkup_probe_lookup(p, "PART_ENTRY_NUMBER"))
                        return "found, and yet neither TYPE nor PTTYPE";
                if (!type != (n_hits == 0))
                        return "hits without TYPE, or TYPE without hits";
                if (!type != !blkup_probe_lookup(p, "USAGE"))
                        return "TYPE and USAGE come together";
                break;
        case BLKUP_VERDICT_AMBIVALENT:
                if (n_hits < 2)
                        return "ambivalent with less than two hits";
                if (type || table)
                        return "ambivalent, and yet there are values";
                break;
        default:
                return "no such verdict";
        }
        for (size_t i = 0; i < n; i++) {
                struct blkup_value v = blkup_probe_value(p, i);

                if (!v.name || !*v.name || !v.value || v.len == 0 || v.value[v.len] != '\0')
                        return "a value without name, text or end";
        }
        for (size_t i = 0; i < n_hits; i++) {
                struct blkup_hit_info h = blkup_probe_hit(p, i);

                if (!h.type || !*h.type || !blkup_usage_name(h.usage) || !h.version)
                        return "a hit without type, usage or version";
        }
        if (!table && blkup_probe_n_partitions(p) > 0)
                return "partitions without a table";
        for (size_t i = 0; i < blkup_probe_n_partitions(p); i++) {
                const struct blkup_partition *part = blkup_probe_partition(p, i);

                if (part->number == 0 || !memchr(part->type, 0, sizeof(part->type)) ||
                    !memchr(part->uuid, 0, sizeof(part->uuid)) ||
                    !memchr(part->name, 0, sizeof(part->name)) ||
                    !memchr(part->scheme, 0, sizeof(part->scheme)) || !part->scheme[0])
                        return "a partition without number or scheme, or a text without end";
        }
        if (p->stats.bytes > BYTES_MAX)
                return "more bytes read than the budget allows";
        return NULL;
}

struct text {
        char *out;
        size_t cap, used;
};

static void put(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(struct text *t, const char *fmt, ...)
{
        va_list ap;
        int n;

        va_start(ap, fmt);
        n = vsnprintf(t->out + t->used, t->cap - t->used, fmt, ap);
        va_end(ap);
        if (n < 0 || (size_t) n >= t->cap - t->used)
                kit_die("an answer that is longer than any");
        t->used += (size_t) n;
}

void kit_answer_text(const struct blkup_probe *p, enum blkup_verdict verdict, char *out, size_t cap)
{
        static const char *const words[] = { "nothing", "found", "ambivalent", "unknown" };
        struct text t = { .out = out, .cap = cap };

        put(&t, "%s\n", words[verdict]);
        for (size_t i = 0; i < blkup_probe_n_values(p); i++) {
                struct blkup_value v = blkup_probe_value(p, i);

                put(&t, "%s=%s\n", v.name, v.value);
        }
        for (size_t i = 0; i < blkup_probe_n_hits(p); i++) {
                struct blkup_hit_info h = blkup_probe_hit(p, i);

                put(&t, "hit %s %s\n", h.type, h.version);
        }
        for (size_t i = 0; i < blkup_probe_n_partitions(p); i++) {
                const struct blkup_partition *part = blkup_probe_partition(p, i);

                put(&t, "part %u %" PRIu64 " %" PRIu64 " %s %s %s\n", part->number, part->start_sectors,
                    part->size_sectors, part->type, part->uuid, part->name);
        }
}

/* DM-style names have a minus sign that a C name cannot have. */
static bool same_name(const char *a, const char *b)
{
        for (; *a && *b; a++, b++) {
                char x = *a == '-' ? '_' : (char) tolower((unsigned char) *a),
                     y = *b == '-' ? '_' : (char) tolower((unsigned char) *b);

                if (x != y)
                        return false;
        }
        return *a == *b;
}

/* What the registry calls them: where a TYPE stands twice, or no C name could be it. */
static const char *const format_names[] = {
#define FORMAT(name) #name,
#define TABLE(name)
#include "probe/registry.def"
#undef FORMAT
#undef TABLE
};
static const char *const table_names[] = {
#define FORMAT(name)
#define TABLE(name) #name,
#include "probe/registry.def"
#undef FORMAT
#undef TABLE
};

bool kit_only(struct blkup_probe *p, const char *name)
{
        bool found = !name;

        for (unsigned i = 0; i < blkup_n_formats; i++) {
                p->excluded[i] =
                        name && !same_name(blkup_formats[i]->name, name) && !same_name(format_names[i], name);
                found |= !p->excluded[i];
        }
        for (unsigned i = 0; i < blkup_n_tables; i++) {
                p->excluded_tables[i] =
                        name && !same_name(blkup_tables[i]->name, name) && !same_name(table_names[i], name);
                found |= !p->excluded_tables[i];
        }
        blkup_plan_forget(p);
        return found;
}
