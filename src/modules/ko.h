/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A module's file, looked at in the order in which the kernel looks at it, and complaining where it
 * complains. Sources: the kernel's kernel/module/main.c and arch/x86/kernel/module.c of 6.1; elf(5). What
 * later kernels check as well stands beside the version that began it.
 *
 * Pure: bytes in, answer out. Offsets are checked at each use; loops are over sections, symbols and
 * relocations of a file of a known size.
 */
#ifndef BLKUP_MODULES_KO_H
#define BLKUP_MODULES_KO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/cleanup.h"

/* ELF64, little-endian: elf.h has the same as structs, which are not laid over the bytes here. */
enum {
        BLKUP_KO_EHDR = 64, BLKUP_KO_SHDR = 64, BLKUP_KO_SYM = 24, BLKUP_KO_RELA = 24,
        BLKUP_KO_VERSION = 64,  /* struct modversion_info, 64 bits: unsigned long crc, char name[56] */
        BLKUP_KO_KSYMTAB = 12,  /* struct kernel_symbol with relative references: value, name, namespace */
        BLKUP_KO_MOD_NAME = 24, /* offset of name in struct module: state, list */
};

/* Why a kernel refuses. stage: a word of a fixed list. */
struct blkup_refusal {
        int error; /* negative errno; 0: it does not */
        const char *stage;
        char reason[320];
};

int blkup_refuse(struct blkup_refusal *r, int error, const char *stage, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));

struct blkup_section {
        uint32_t name, type, link, info;
        uint64_t flags, offset, size;
};

struct blkup_ko {
        struct blkup_bytes all; /* without its signature */
        uint32_t n_sections;
        struct blkup_section *sections;
        struct blkup_bytes names;
        uint32_t sym, str, mod, vers, info, pcpu; /* indexes of sections; 0: none */
        char name[64];          /* from struct module, what the kernel goes by */
        bool is_proprietary;
        uint16_t machine;
};

/* The checks from the ELF header to the sections. *ret is filled as far as it goes and must be freed either
 * way. Negative: refused, or -ENOMEM with r->error 0. */
BLKUP_MUST_CHECK int blkup_ko_open(struct blkup_bytes all, uint16_t machine, struct blkup_ko *ret,
                                   struct blkup_refusal *r);
void blkup_ko_close(struct blkup_ko *k);

/* Contents; empty for a section that is outside the file or takes none of it. */
struct blkup_bytes blkup_ko_contents(const struct blkup_ko *k, uint32_t section);
/* The first allocated section of that name; 0: none. */
uint32_t blkup_ko_find(const struct blkup_ko *k, const char *name);
/* The text at an offset of some bytes; NULL: it does not end inside. */
const char *blkup_ko_text(struct blkup_bytes b, uint64_t at);

/* KEY=VALUE of .modinfo, the next after `after` (NULL: the first); the value. */
const char *blkup_ko_modinfo(const struct blkup_ko *k, const char *key, const char *after);

bool blkup_is_gpl_compatible(const char *license);

struct blkup_symbol {
        uint32_t name;
        uint8_t info;
        uint16_t section;
        uint64_t value;
};
uint64_t blkup_ko_n_symbols(const struct blkup_ko *k);
struct blkup_symbol blkup_ko_symbol(const struct blkup_ko *k, uint64_t i);

/* Types, targets and ranges of all relocations. Negative: refused, or -ENOMEM with r->error 0. */
BLKUP_MUST_CHECK int blkup_ko_check_relocations(const struct blkup_ko *k, struct blkup_refusal *r);

/* What parse_args() says of a load's parameters. unknown: names that the module does not have, which the
 * kernel only warns of. */
BLKUP_MUST_CHECK int blkup_ko_check_parameters(const struct blkup_ko *k, const char *text,
                                               struct blkup_refusal *r, char *unknown, size_t unknown_cap);

#endif
