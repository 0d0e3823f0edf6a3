/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "modules/ko.h"

#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

int blkup_refuse(struct blkup_refusal *r, int error, const char *stage, const char *fmt, ...)
{
        va_list ap;

        r->error = error;
        r->stage = stage;
        va_start(ap, fmt);
        (void) vsnprintf(r->reason, sizeof(r->reason), fmt, ap);
        va_end(ap);
        return error;
}

static int bad_elf(struct blkup_refusal *r, const char *what)
{
        return blkup_refuse(r, -ENOEXEC, "elf-header", "%s", what);
}

void blkup_ko_close(struct blkup_ko *k)
{
        free(k->sections);
        k->sections = NULL;
        k->n_sections = 0;
}

struct blkup_bytes blkup_ko_contents(const struct blkup_ko *k, uint32_t section)
{
        struct blkup_bytes b = { .data = k->all.data };
        const struct blkup_section *s = &k->sections[section];

        if (section >= k->n_sections || s->type == SHT_NOBITS ||
            !blkup_sub_bytes(k->all, s->offset, s->size, &b))
                return (struct blkup_bytes){ .data = k->all.data };
        return b;
}

const char *blkup_ko_text(struct blkup_bytes b, uint64_t at)
{
        /* Tables of names end with a NUL, and then all texts in them do. */
        if (at >= b.len || (b.data[b.len - 1] != '\0' && !memchr(b.data + at, '\0', b.len - at)))
                return NULL;
        return (const char *) b.data + at;
}

static const char *section_name(const struct blkup_ko *k, uint32_t i)
{
        const char *name = blkup_ko_text(k->names, k->sections[i].name);

        return name ? name : "";
}

uint32_t blkup_ko_find(const struct blkup_ko *k, const char *name)
{
        size_t n = strlen(name) + 1;

        for (uint32_t i = 1; i < k->n_sections; i++)
                if ((k->sections[i].flags & SHF_ALLOC) &&
                    blkup_equal_at(k->names, k->sections[i].name, name, n))
                        return i;
        return 0;
}

const char *blkup_ko_modinfo(const struct blkup_ko *k, const char *key, const char *after)
{
        struct blkup_bytes b;
        size_t n = strlen(key), at = 0;

        if (!k->info)
                return NULL;
        b = blkup_ko_contents(k, k->info);
        if (after)
                at = (size_t) ((const uint8_t *) after - b.data) + strlen(after);
        /* Ends: each turn takes a text of the section. */
        while (at < b.len) {
                const char *text;

                if (b.data[at] == '\0') {
                        at++;
                        continue;
                }
                text = blkup_ko_text(b, at);
                if (!text)
                        break;
                if (strncmp(text, key, n) == 0 && text[n] == '=')
                        return text + n + 1;
                at += strlen(text);
        }
        return NULL;
}

bool blkup_is_gpl_compatible(const char *license)
{
        /* include/linux/license.h */
        static const char *const list[] = { "GPL", "GPL v2", "GPL and additional rights", "Dual BSD/GPL",
                                            "Dual MIT/GPL", "Dual MPL/GPL" };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(list); i++)
                if (strcmp(license, list[i]) == 0)
                        return true;
        return false;
}

uint64_t blkup_ko_n_symbols(const struct blkup_ko *k)
{
        return k->sections[k->sym].size / BLKUP_KO_SYM;
}

struct blkup_symbol blkup_ko_symbol(const struct blkup_ko *k, uint64_t i)
{
        struct blkup_bytes b = blkup_ko_contents(k, k->sym);
        size_t at = (size_t) i * BLKUP_KO_SYM;

        return (struct blkup_symbol){
                .name = blkup_le32_at(b, at),
                .info = blkup_u8_at(b, at + 4),
                .section = blkup_le16_at(b, at + 6),
                .value = blkup_le64_at(b, at + 8),
        };
}

static int read_header(struct blkup_bytes all, uint16_t machine, struct blkup_ko *k, uint64_t *ret_shoff,
                       struct blkup_refusal *r)
{
        uint64_t shoff;

        if (all.len < BLKUP_KO_EHDR)
                return bad_elf(r, "the file is too short for an ELF header");
        if (memcmp(all.data, ELFMAG, SELFMAG) != 0)
                return bad_elf(r, "it is no ELF file (a compressed one without the flag?)");
        /* The class is not looked at: the machine decides. */
        if (blkup_le16_at(all, 16) != ET_REL)
                return blkup_refuse(r, -ENOEXEC, "elf-header", "ELF type %u, not 1 (relocatable)",
                                    blkup_le16_at(all, 16));
        k->machine = blkup_le16_at(all, 18);
        if (machine && k->machine != machine)
                return blkup_refuse(r, -ENOEXEC, "elf-header", "architecture %u, the kernel's is %u",
                                    k->machine, machine);
        if (blkup_le16_at(all, 58) != BLKUP_KO_SHDR)
                return bad_elf(r, "wrong size of section headers");
        shoff = blkup_le64_at(all, 40);
        k->n_sections = blkup_le16_at(all, 60);
        if (shoff >= all.len || (uint64_t) k->n_sections * BLKUP_KO_SHDR > all.len - shoff) {
                k->n_sections = 0;
                return bad_elf(r, "the section headers lie outside the file (truncated?)");
        }
        *ret_shoff = shoff;
        return 0;
}

static int read_sections(struct blkup_ko *k, uint64_t shoff, struct blkup_refusal *r)
{
        uint32_t strndx = blkup_le16_at(k->all, 62);
        const struct blkup_section *s;

        if (strndx == SHN_UNDEF || strndx >= k->n_sections)
                return bad_elf(r, "no section holds the names of sections");
        k->sections = calloc(k->n_sections, sizeof(*k->sections));
        if (!k->sections)
                return -ENOMEM;
        for (uint32_t i = 0; i < k->n_sections; i++) {
                size_t at = (size_t) shoff + (size_t) i * BLKUP_KO_SHDR;

                k->sections[i] = (struct blkup_section){
                        .name = blkup_le32_at(k->all, at), .type = blkup_le32_at(k->all, at + 4),
                        .flags = blkup_le64_at(k->all, at + 8), .offset = blkup_le64_at(k->all, at + 24),
                        .size = blkup_le64_at(k->all, at + 32), .link = blkup_le32_at(k->all, at + 40),
                        .info = blkup_le32_at(k->all, at + 44),
                };
        }
        s = &k->sections[strndx];
        if (!blkup_inside(s->offset, s->size, k->all.len))
                return bad_elf(r, "the names of sections lie outside the file");
        if (s->size == 0)
                return bad_elf(r, "the table of section names is empty");
        if (!blkup_sub_bytes(k->all, s->offset, s->size, &k->names))
                return bad_elf(r, "the names of sections lie outside the file");
        if (k->names.data[k->names.len - 1] != '\0')
                return bad_elf(r, "the table of section names does not end with a NUL");
        if (k->sections[0].type != SHT_NULL || k->sections[0].size != 0 ||
            blkup_le64_at(k->all, (size_t) shoff + 16) != 0)
                return bad_elf(r, "section 0 is not empty");
        for (uint32_t i = 1; i < k->n_sections; i++) {
                s = &k->sections[i];
                if (s->type == SHT_NULL || s->type == SHT_NOBITS)
                        continue;
                if (s->type == SHT_SYMTAB && (s->link == SHN_UNDEF || s->link >= k->n_sections))
                        return blkup_refuse(r, -ENOEXEC, "elf-header",
                                            "symbol table %u has no table of names", i);
                if (!blkup_inside(s->offset, s->size, k->all.len))
                        return blkup_refuse(r, -ENOEXEC, "elf-header",
                                            "section %u (type %u) lies outside the file", i, s->type);
                if ((s->flags & SHF_ALLOC) && s->name >= k->names.len)
                        return blkup_refuse(r, -ENOEXEC, "elf-header",
                                            "section %u (type %u) has its name outside the table of names", i,
                                            s->type);
        }
        return 0;
}

static int find_parts(struct blkup_ko *k, struct blkup_refusal *r)
{
        struct blkup_bytes mod;
        const char *name;

        k->info = blkup_ko_find(k, ".modinfo");
        for (uint32_t i = 1; i < k->n_sections && !k->sym; i++)
                if (k->sections[i].type == SHT_SYMTAB) {
                        k->sym = i;
                        k->str = k->sections[i].link;
                }
        if (!k->sym)
                return blkup_refuse(r, -ENOEXEC, "elf-sections", "no symbol table (stripped?)");
        k->mod = blkup_ko_find(k, ".gnu.linkonce.this_module");
        if (!k->mod)
                return blkup_refuse(r, -ENOEXEC, "elf-sections",
                                    "no section .gnu.linkonce.this_module: no module");
        mod = blkup_ko_contents(k, k->mod);
        name = blkup_ko_text(mod, BLKUP_KO_MOD_NAME);
        (void) snprintf(k->name, sizeof(k->name), "%s", name ? name : "");
        k->vers = blkup_ko_find(k, "__versions");
        k->pcpu = blkup_ko_find(k, ".data..percpu");
        return 0;
}

int blkup_ko_open(struct blkup_bytes all, uint16_t machine, struct blkup_ko *ret, struct blkup_refusal *r)
{
        uint64_t shoff = 0;
        int e;

        *ret = (struct blkup_ko){ .all = all };
        e = read_header(all, machine, ret, &shoff, r);
        if (e == 0)
                e = read_sections(ret, shoff, r);
        return e < 0 ? e : find_parts(ret, r);
}

/* ---- relocations, x86-64 ---- */

struct target {
        const struct blkup_ko *k;
        struct blkup_bytes b; /* what is in the file */
        uint64_t size;
        bool is_zero;         /* takes no place in the file */
        uint8_t *copy; /* made when relocations are not in order: one may then meet what another wrote */
        uint64_t end;         /* of the last one */
        uint32_t section;
};

/* Where the kernel would have put things: modules lie in the last 2 GiB but one. Only ranges depend on it. */
#define MODULE_BASE UINT64_C(0xffffffffc0000000)
#define VMALLOC     UINT64_C(0xffffc90000000000)

static bool is_loaded_section(const struct blkup_ko *k, uint32_t i)
{
        return (k->sections[i].flags & SHF_ALLOC) && i != k->info && i != k->vers && i != k->pcpu;
}

/* *ret_known false: an address that depends on the kernel (imports, per-CPU). */
static bool symbol_value(const struct blkup_ko *k, uint64_t index, uint64_t *ret, bool *ret_known)
{
        struct blkup_symbol s;

        if (index >= blkup_ko_n_symbols(k))
                return false;
        s = blkup_ko_symbol(k, index);
        *ret_known = true;
        if (s.section == SHN_UNDEF || s.section == k->pcpu) {
                *ret_known = false;
                *ret = MODULE_BASE;
        } else if (s.section >= SHN_LORESERVE) {
                *ret = s.value;
        } else if (s.section >= k->n_sections) {
                return false;
        } else {
                *ret = s.value + (is_loaded_section(k, s.section) ? MODULE_BASE : VMALLOC) +
                       k->sections[s.section].offset;
        }
        return true;
}

static int make_copy(struct target *t)
{
        if (t->copy || t->size > (1u << 30))
                return t->copy ? 0 : -ENOMEM;
        t->copy = calloc(1, (size_t) t->size);
        if (!t->copy)
                return -ENOMEM;
        if (!t->is_zero)
                memcpy(t->copy, t->b.data, (size_t) t->size);
        return 0;
}

/* In order until now: what lies before `at` was applied, and has to be before the copy is looked at. */
static int replay(struct target *t, struct blkup_bytes rela, size_t n_before);

static void write_value(struct target *t, uint64_t at, uint64_t value, unsigned width)
{
        for (unsigned i = 0; i < width; i++)
                t->copy[at + i] = (uint8_t) (value >> (8 * i));
}

static unsigned width_of(uint32_t type)
{
        switch (type) {
        case R_X86_64_64:
        case R_X86_64_PC64:
                return 8;
        case R_X86_64_32:
        case R_X86_64_32S:
        case R_X86_64_PC32:
        case R_X86_64_PLT32:
                return 4;
        default:
                return 0;
        }
}

static uint64_t relocated(const struct target *t, uint32_t type, uint64_t at, uint64_t value)
{
        bool relative = type == R_X86_64_PC32 || type == R_X86_64_PLT32 || type == R_X86_64_PC64;

        return relative ? value - (MODULE_BASE + t->k->sections[t->section].offset + at) : value;
}

static int replay(struct target *t, struct blkup_bytes rela, size_t n_before)
{
        int r = make_copy(t);

        for (size_t i = 0; r == 0 && i < n_before; i++) {
                uint64_t at = blkup_le64_at(rela, i * BLKUP_KO_RELA),
                         info = blkup_le64_at(rela, i * BLKUP_KO_RELA + 8);
                uint64_t value = 0;
                bool known;

                if (symbol_value(t->k, info >> 32, &value, &known))
                        write_value(t, at,
                                    relocated(t, (uint32_t) info, at,
                                              value + blkup_le64_at(rela, i * BLKUP_KO_RELA + 16)),
                                    width_of((uint32_t) info));
        }
        return r;
}

static int refuse_relocation(const struct target *t, struct blkup_refusal *r, size_t i, const char *what,
                             uint64_t value)
{
        return blkup_refuse(r, -ENOEXEC, "relocation", "relocation %zu of section %s: %s (%llu)", i,
                            section_name(t->k, t->section), what, (unsigned long long) value);
}

static int check_rela(struct target *t, struct blkup_bytes rela, struct blkup_refusal *r)
{
        size_t n = rela.len / BLKUP_KO_RELA;
        uint64_t n_symbols = blkup_ko_n_symbols(t->k);

        for (size_t i = 0; i < n; i++) {
                const uint8_t *p = rela.data + i * BLKUP_KO_RELA; /* inside: i < n */
                uint64_t at = blkup_load_le64(p), info = blkup_load_le64(p + 8), value = 0;
                uint32_t type = (uint32_t) info;
                unsigned width = width_of(type);
                bool is_zero, known = true;

                if (width == 0) {
                        if (type == R_X86_64_NONE)
                                continue;
                        return refuse_relocation(t, r, i, "unknown type", type);
                }
                if (at > t->size || width > t->size - at)
                        return refuse_relocation(t, r, i, "its place is outside the section", at);
                if (info >> 32 >= n_symbols)
                        return refuse_relocation(t, r, i, "no such symbol", info >> 32);
                if (at < t->end && !t->copy) {
                        int e = replay(t, rela, i);

                        if (e < 0)
                                return e;
                }
                if (t->copy)
                        is_zero = width == 8 ? blkup_load_le64(t->copy + at) == 0
                                             : blkup_load_le32(t->copy + at) == 0;
                else
                        is_zero = t->is_zero || (width == 8 ? blkup_load_le64(t->b.data + at) == 0
                                                            : blkup_load_le32(t->b.data + at) == 0);
                if (!is_zero)
                        return refuse_relocation(t, r, i, "its place is not zero; type", type);
                if (type == R_X86_64_32 || type == R_X86_64_32S || t->copy) {
                        if (!symbol_value(t->k, info >> 32, &value, &known))
                                return refuse_relocation(t, r, i, "its symbol is in no section", info >> 32);
                        value = relocated(t, type, at, value + blkup_load_le64(p + 16));
                        if (known && ((type == R_X86_64_32 && value != (uint32_t) value) ||
                                      (type == R_X86_64_32S && (int64_t) value != (int32_t) value)))
                                return refuse_relocation(t, r, i, "overflow in type", type);
                        if (t->copy)
                                write_value(t, at, value, width);
                }
                if (at + width > t->end)
                        t->end = at + width;
        }
        return 0;
}

int blkup_ko_check_relocations(const struct blkup_ko *k, struct blkup_refusal *r)
{
        int e = 0;

        for (uint32_t i = 1; e == 0 && i < k->n_sections; i++) {
                const struct blkup_section *s = &k->sections[i];
                struct target t = { .k = k, .section = s->info };

                if (s->info >= k->n_sections || !is_loaded_section(k, s->info))
                        continue;
                if (s->type == SHT_REL)
                        return blkup_refuse(r, -ENOEXEC, "relocation", "section %u: relocations of type REL",
                                            i);
                if (s->type != SHT_RELA || k->machine != EM_X86_64)
                        continue;
                t.b = blkup_ko_contents(k, s->info);
                t.is_zero = k->sections[s->info].type == SHT_NOBITS;
                t.size = t.is_zero ? k->sections[s->info].size : t.b.len;
                e = check_rela(&t, blkup_ko_contents(k, i), r);
                free(t.copy);
        }
        return e;
}
