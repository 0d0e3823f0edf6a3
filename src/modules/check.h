/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The inside of the load check: the kernel it is for, and one file's way through it. */
#ifndef BLKUP_MODULES_CHECK_H
#define BLKUP_MODULES_CHECK_H

#include <pthread.h>

#include <blkup/modules.h>

#include "modules/exports.h"
#include "modules/ko.h"
#include "modules/sign.h"
#include "modules/tree.h"

/* What is known of the kernel. Defaults are those of Debian's. */
struct blkup_check_kernel {
        char vermagic[256];      /* "": not known, not compared */
        uint16_t machine;        /* ELF's e_machine; 0: not known */
        bool has_modversions;
        bool has_force_load;     /* CONFIG_MODULE_FORCE_LOAD: missing metadata only taints */
        bool allows_missing_ns;  /* CONFIG_MODULE_ALLOW_MISSING_NAMESPACE_IMPORTS */
        bool has_livepatch;
        bool has_decompress;     /* CONFIG_MODULE_DECOMPRESS */
        bool knows_vmlinux;      /* exports of vmlinux are in the table: what is not there is missing */
};

struct blkup_check_loaded {
        char name[64];
        bool is_proprietary;
};

struct blkup_module_check {
        struct blkup_module_check_options o;
        struct blkup_check_kernel kernel;
        struct blkup_exports exports;
        struct blkup_check_loaded *loaded; /* owner i + 1 in exports */
        size_t n_loaded;
        struct blkup_keys *keys;
};

/* A file in memory, as it is or unpacked by its suffix. */
struct blkup_check_file {
        struct blkup_bytes bytes;
        void *map, *unpacked;
        size_t map_len;
};
BLKUP_MUST_CHECK int blkup_check_read(const char *path, bool unpack, struct blkup_check_file *ret);
void blkup_check_close(struct blkup_check_file *f);

/* Fills kernel, and exports with what the kernel has and Module.symvers tells. */
BLKUP_MUST_CHECK int blkup_check_learn_kernel(struct blkup_module_check *c, struct blkup_error *err);

/* Everything load_module() would say of the file; *ret_owners (may be NULL): modules of the set it takes
 * symbols of. -ENOMEM, else 0 with r->error. */
struct blkup_check_uses {
        uint32_t *v; /* owners in exports of the set */
        size_t n, cap;
};
BLKUP_MUST_CHECK int blkup_check_bytes(const struct blkup_module_check *c, struct blkup_bytes file,
                                       const char *params, struct blkup_refusal *r, char module[64],
                                       struct blkup_check_uses *uses);

/* Owners from here on are files of the set: index + this. */
#define BLKUP_OWNER_SET 0x40000000u

#endif
