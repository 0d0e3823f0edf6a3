/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a kernel and its modules export: name, CRC, licence, namespace, by whom. Filled by one thread, then
 * read-only and shared.
 */
#ifndef BLKUP_MODULES_EXPORTS_H
#define BLKUP_MODULES_EXPORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "host/hostpool.h"
#include "modules/ko.h"

#define BLKUP_EXPORTS_MAX (1u << 20)
#define BLKUP_SYMVERS_MAX_BYTES (64u << 20)
#define BLKUP_OWNER_VMLINUX 0u
#define BLKUP_OWNER_SOME_MODULE UINT32_MAX /* one that Module.symvers names */

struct blkup_export {
        const char *name;
        const char *ns;     /* "" none */
        uint32_t hash, crc;
        uint32_t owner;     /* vmlinux, or a number of whoever fills the table */
        bool has_crc, is_gpl;
        bool is_in_kernel;  /* there before anything is loaded, or loaded */
};

struct blkup_exports {
        struct blkup_export *v;
        size_t n, cap;
        uint32_t *slots;  /* open addressing, a power of two, at most half full; index + 1 */
        size_t n_slots;
        struct blkup_host_pool pool;
};

uint32_t blkup_export_hash(const char *name);

/* Adds one; the texts are kept, not copied. Where a name is there already the first stays, unless the new one
 * is in the kernel and the old one is not. -ENOMEM, -E2BIG. */
BLKUP_MUST_CHECK int blkup_exports_add(struct blkup_exports *e, const struct blkup_export *x);
/* NULL: none. */
const struct blkup_export *blkup_exports_find(const struct blkup_exports *e, const char *name, uint32_t hash);

/* Lines of Module.symvers: CRC, name, "vmlinux" or a path, EXPORT_SYMBOL[_GPL], namespace; parted by tabs.
 * text is copied. */
BLKUP_MUST_CHECK int blkup_exports_add_symvers(struct blkup_exports *e, const char *text, size_t n);
/* __ksymtab_NAME of a System.map or of /proc/kallsyms. *ret_n: how many there were. */
BLKUP_MUST_CHECK int blkup_exports_add_system_map(struct blkup_exports *e, const char *text, size_t n,
                                                  size_t *ret_n);
/* What a module exports; names are copied. */
BLKUP_MUST_CHECK int blkup_exports_add_module(struct blkup_exports *e, const struct blkup_ko *k,
                                              uint32_t owner, bool is_in_kernel);

/* Calls each for what the module exports, in the order of its symbols. with_details: also namespace and CRC.
 */
BLKUP_MUST_CHECK int blkup_ko_each_export(const struct blkup_ko *k, bool with_details,
                                          int (*each)(void *arg, const struct blkup_export *x), void *arg);

void blkup_exports_free(struct blkup_exports *e);

#endif
