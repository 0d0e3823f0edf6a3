/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The inside of struct blkup_modules, for the files of this room. */
#ifndef BLKUP_MODULES_TREE_H
#define BLKUP_MODULES_TREE_H

#include <blkup/modules.h>

#include "host/modstate.h"
#include "modules/config.h"
#include "modules/index.h"

struct blkup_modules {
        char *root;    /* "" for this system */
        char *release;
        char *folder;  /* "/lib/modules/RELEASE" */
        bool has_folder, has_index;
        struct blkup_index dep, alias, symbols, builtin, builtin_alias;
        struct blkup_modconf config;
        struct blkup_modstates *loaded; /* NULL: not told */
};

/* What a lookup found: the module, by which alias (NULL: by its name). Both as long as the arguments and m
 * live. */
typedef int blkup_modules_found_fn(void *arg, const char *module, size_t len);

/* request must be normalised. *ret_by_name: it is the module's own name. */
BLKUP_MUST_CHECK int blkup_modules_lookup(const struct blkup_modules *m, const char *request,
                                          blkup_modules_found_fn *found, void *arg, bool *ret_by_name);

/* The line of modules.dep of the module: "PATH: DEP DEP"; NULL: not known. */
BLKUP_MUST_CHECK int blkup_modules_dep_line(const struct blkup_modules *m, const char *name,
                                            const char **ret);
BLKUP_MUST_CHECK int blkup_modules_is_builtin(const struct blkup_modules *m, const char *name, bool *ret);
const struct blkup_modules *blkup_module_plan_modules(const struct blkup_module_plan *p);
bool blkup_modules_is_live(const struct blkup_modules *m, const char *name);
/* The same, as it is now: the other one knows what was loaded when m was read. */
bool blkup_modules_is_live_now(const struct blkup_modules *m, const char *name);

#endif
