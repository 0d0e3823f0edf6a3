/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "modules/exports.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/hostfile.h"

uint32_t blkup_export_hash(const char *name)
{
        uint32_t h = 2166136261u; /* FNV-1a, 32 bits: RFC 9923 */

        for (; *name; name++)
                h = (h ^ (unsigned char) *name) * 16777619u;
        return h ^ h >> 15;
}

/* The slot of a name, or the free one where it belongs. Ends: the table is at most half full. */
static uint32_t *find_slot(const struct blkup_exports *e, const char *name, uint32_t hash)
{
        size_t at = hash & (e->n_slots - 1);

        while (e->slots[at] &&
               !(e->v[e->slots[at] - 1].hash == hash && strcmp(e->v[e->slots[at] - 1].name, name) == 0))
                at = (at + 1) & (e->n_slots - 1);
        return &e->slots[at];
}

static int grow_slots(struct blkup_exports *e)
{
        size_t n = e->n_slots ? e->n_slots * 2 : 4096;
        uint32_t *old = e->slots;

        e->slots = calloc(n, sizeof(*e->slots));
        if (!e->slots) {
                e->slots = old;
                return -ENOMEM;
        }
        e->n_slots = n;
        for (size_t i = 0; i < e->n; i++)
                *find_slot(e, e->v[i].name, e->v[i].hash) = (uint32_t) i + 1;
        free(old);
        return 0;
}

int blkup_exports_add(struct blkup_exports *e, const struct blkup_export *x)
{
        uint32_t *slot;
        int r;

        if ((e->n + 1) * 2 > e->n_slots) {
                r = grow_slots(e);
                if (r < 0)
                        return r;
        }
        slot = find_slot(e, x->name, x->hash);
        if (*slot) {
                if (x->is_in_kernel && !e->v[*slot - 1].is_in_kernel)
                        e->v[*slot - 1] = *x;
                return 0;
        }
        r = blkup_host_reserve((void **) &e->v, &e->cap, e->n, sizeof(*e->v), BLKUP_EXPORTS_MAX);
        if (r < 0)
                return r;
        e->v[e->n] = *x;
        *slot = (uint32_t) ++e->n;
        return 0;
}

const struct blkup_export *blkup_exports_find(const struct blkup_exports *e, const char *name, uint32_t hash)
{
        uint32_t at = e->n_slots ? *find_slot(e, name, hash) : 0;

        return at ? &e->v[at - 1] : NULL;
}

void blkup_exports_free(struct blkup_exports *e)
{
        free(e->v);
        free(e->slots);
        blkup_host_pool_free(&e->pool);
        *e = (struct blkup_exports){ 0 };
}

/* Cuts the next column, parted by tabs; "" at the end. */
static char *column(char **at)
{
        char *word = *at, *tab = strpbrk(word, "\t");

        if (tab) {
                *tab = '\0';
                *at = tab + 1;
        } else {
                *at = word + strlen(word);
        }
        return word;
}

int blkup_exports_add_symvers(struct blkup_exports *e, const char *text, size_t n)
{
        char *copy = blkup_host_pool_text(&e->pool, text, n), *at = copy, *line;
        bool good;

        if (!copy)
                return -ENOMEM;
        /* Ends: each turn takes a line. */
        while ((line = blkup_host_next_line(&at, copy + n, 65536, &good))) {
                struct blkup_export x = { .has_crc = true };
                char *crc, *owner, *end;
                int r;

                if (!good)
                        continue;
                crc = column(&line);
                x.name = column(&line);
                owner = column(&line);
                x.is_gpl = strncmp(column(&line), "EXPORT_SYMBOL_GPL", 17) == 0;
                x.ns = column(&line);
                x.crc = (uint32_t) strtoul(crc, &end, 16);
                if (!*crc || *end || !*x.name || !*owner)
                        continue;
                x.hash = blkup_export_hash(x.name);
                x.is_in_kernel = strcmp(owner, "vmlinux") == 0;
                x.owner = x.is_in_kernel ? BLKUP_OWNER_VMLINUX : BLKUP_OWNER_SOME_MODULE;
                r = blkup_exports_add(e, &x);
                if (r < 0)
                        return r;
        }
        return 0;
}

int blkup_exports_add_system_map(struct blkup_exports *e, const char *text, size_t n, size_t *ret_n)
{
        char *copy = blkup_host_pool_text(&e->pool, text, n), *at = copy, *line;
        bool good;

        *ret_n = 0;
        if (!copy)
                return -ENOMEM;
        /* Ends: each turn takes a line. "ADDRESS TYPE NAME", in kallsyms of a module "\t[MODULE]" behind it.
         */
        while ((line = blkup_host_next_line(&at, copy + n, 65536, &good))) {
                struct blkup_export x = { .ns = "", .is_in_kernel = true };
                char *name;
                int r;

                if (!good)
                        continue;
                (void) blkup_host_next_column(&line);
                (void) blkup_host_next_column(&line);
                name = blkup_host_next_column(&line);
                if (strncmp(name, "__ksymtab_", 10) != 0 || !name[10])
                        continue;
                x.name = name + 10;
                x.hash = blkup_export_hash(x.name);
                r = blkup_exports_add(e, &x);
                if (r < 0)
                        return r;
                ++*ret_n;
        }
        return 0;
}

/* ---- of a module ---- */

struct tables {
        uint32_t section[2], crcs[2]; /* plain, GPL */
};

/* The text of the symbol that modpost makes for the namespace of an export. */
static const char *find_namespace(const struct blkup_ko *k, struct blkup_bytes names, const char *name)
{
        static const char prefix[] = "__kstrtabns_";
        uint64_t n = blkup_ko_n_symbols(k);

        for (uint64_t i = 1; i < n; i++) {
                struct blkup_symbol s = blkup_ko_symbol(k, i);
                const char *text = blkup_ko_text(names, s.name);

                if (text && strncmp(text, prefix, sizeof(prefix) - 1) == 0 &&
                    strcmp(text + sizeof(prefix) - 1, name) == 0 && s.section < k->n_sections) {
                        const char *ns = blkup_ko_text(blkup_ko_contents(k, s.section), s.value);

                        return ns ? ns : "";
                }
        }
        return "";
}

int blkup_ko_each_export(const struct blkup_ko *k, bool with_details,
                         int (*each)(void *arg, const struct blkup_export *x), void *arg)
{
        struct tables t = {
                .section = { blkup_ko_find(k, "__ksymtab"), blkup_ko_find(k, "__ksymtab_gpl") },
                .crcs = { blkup_ko_find(k, "__kcrctab"), blkup_ko_find(k, "__kcrctab_gpl") },
        };
        struct blkup_bytes names, table;
        uint64_t n = blkup_ko_contents(k, k->sym).len / BLKUP_KO_SYM;
        int r = 0;

        if (!t.section[0] && !t.section[1])
                return 0;
        names = blkup_ko_contents(k, k->str);
        table = blkup_ko_contents(k, k->sym);
        for (uint64_t i = 1; r == 0 && i < n; i++) {
                const uint8_t *p = table.data + i * BLKUP_KO_SYM; /* inside: i < n */
                uint16_t section = blkup_load_le16(p + 6);
                unsigned gpl = section == t.section[1];
                struct blkup_export x = { .is_gpl = gpl, .ns = "" };
                const char *text;

                if (section == 0 || section != t.section[gpl])
                        continue;
                text = blkup_ko_text(names, blkup_load_le32(p));
                if (!text || strncmp(text, "__ksymtab_", 10) != 0 || !text[10])
                        continue;
                x.name = text + 10;
                x.hash = blkup_export_hash(x.name);
                if (with_details) {
                        x.ns = find_namespace(k, names, x.name);
                        x.has_crc = t.crcs[gpl] &&
                                    blkup_get_le32(blkup_ko_contents(k, t.crcs[gpl]),
                                                   (size_t) (blkup_load_le64(p + 8) / BLKUP_KO_KSYMTAB * 4),
                                                   &x.crc);
                }
                r = each(arg, &x);
        }
        return r;
}

struct adding {
        struct blkup_exports *e;
        uint32_t owner;
        bool is_in_kernel;
};

static int add_one(void *arg, const struct blkup_export *x)
{
        struct adding *a = arg;
        struct blkup_export copy = *x;

        copy.name = blkup_host_pool_text(&a->e->pool, x->name, strlen(x->name));
        copy.ns = blkup_host_pool_text(&a->e->pool, x->ns, strlen(x->ns));
        copy.owner = a->owner;
        copy.is_in_kernel = a->is_in_kernel;
        return copy.name && copy.ns ? blkup_exports_add(a->e, &copy) : -ENOMEM;
}

int blkup_exports_add_module(struct blkup_exports *e, const struct blkup_ko *k, uint32_t owner,
                             bool is_in_kernel)
{
        return blkup_ko_each_export(k, true, add_one, &(struct adding){ e, owner, is_in_kernel });
}
