/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * blkup/modules.h - kernel modules: find, plan, load in parallel, remove, and know beforehand what a kernel
 * will refuse.
 *
 * A `struct blkup_modules` is what one kernel's folder and the machine's configuration say; it is read once
 * and never changes, so threads may share it. A plan and a check belong to one thread at a time; loading and
 * checking make threads of their own and end them before they return, but for a load that hangs (see
 * blkup_module_load()).
 *
 * Names, options and messages may hold bytes that a file's author chose: encode them for the reader they are
 * meant for. Functions return 0 or a negative errno unless they say otherwise; on failure outputs are left
 * alone. `err` may be NULL.
 */
#ifndef BLKUP_MODULES_H
#define BLKUP_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct blkup_error;
struct blkup_trace;
struct blkup_modules;
struct blkup_module_plan;

/* ---- where ---- */

struct blkup_modules_where {
        const char *root; /* folder that stands for "/", also for /proc and /sys; NULL or "": this system */
        const char *release; /* NULL: the running kernel's */
};

/* Reads indexes and configuration. A folder of the kernel that is not there is no error: nothing is then
 * found. -EINVAL: release is no release; -ENOMEM; -EBADMSG: a broken index. */
int blkup_modules_new(const struct blkup_modules_where *where, struct blkup_modules **ret,
                      struct blkup_error *err);
struct blkup_modules *blkup_modules_free(struct blkup_modules *m); /* NULL-safe, returns NULL */

const char *blkup_modules_release(const struct blkup_modules *m);
/* As seen inside root: "/lib/modules/RELEASE". */
const char *blkup_modules_folder(const struct blkup_modules *m);
bool blkup_modules_has_folder(const struct blkup_modules *m);
/* false: depmod has not run for this kernel, and no module is found. */
bool blkup_modules_has_index(const struct blkup_modules *m);

/* The modules that a name or an alias stands for, in the order in which they are loaded. A name with "/" or a
 * control character is refused before anything is looked up: -EINVAL. Nothing found: 0, each is not called.
 * A negative answer of each ends it and is returned. */
int blkup_modules_resolve(const struct blkup_modules *m, const char *request,
                          int (*each)(void *arg, const char *module), void *arg);

/* The configuration as `modprobe -c` prints it, then the aliases of the indexes, line by line. */
int blkup_modules_dump(const struct blkup_modules *m, int (*each)(void *arg, const char *line), void *arg);

/* ---- plan ---- */

enum blkup_module_plan_flags {
        BLKUP_MODULES_IGNORE_COMMANDS = 1, /* install and remove lines of the requested modules */
        BLKUP_MODULES_IGNORE_LOADED = 2,   /* plan as if nothing were loaded */
        BLKUP_MODULES_BLACKLIST = 4,       /* blacklist also what is asked for by name */
        BLKUP_MODULES_LOOK_AGAIN = 16,     /* what is loaded now counts, not what was when m was read */
        BLKUP_MODULES_FIRST_SOFTDEP = 8,   /* only the first softdep line of a module, as kmod up to 30 */
};

enum blkup_module_action {
        BLKUP_MODULE_INSMOD,  /* hand the file to the kernel */
        BLKUP_MODULE_INSTALL, /* run the install command instead */
        BLKUP_MODULE_BUILTIN, /* nothing to do */
        BLKUP_MODULE_MISSING, /* configuration names it, no index knows it */
};

/* One step of what one request does, in order. kmod loads a module again where several paths lead to it; the
 * steps show that, the nodes below are each module once. */
struct blkup_module_step {
        enum blkup_module_action action;
        const char *name, *path; /* path "": no file */
        const char *options;     /* "" none */
        const char *command;     /* INSTALL */
};

/* A module of the plan, once. needs and after are indexes of nodes before it. */
struct blkup_module_node {
        enum blkup_module_action action;
        const char *name, *path, *options, *command;
        bool is_loaded;
        bool is_required;           /* asked for, or a hard dependency of what was asked for */
        bool is_asked;              /* what a request itself stands for */
        const uint32_t *needs;      /* must be live first */
        const uint32_t *after;      /* must have ended first, however: softdep */
        uint32_t n_needs, n_after;
};

int blkup_module_plan_new(const struct blkup_modules *m, unsigned flags, struct blkup_module_plan **ret);
struct blkup_module_plan *blkup_module_plan_free(struct blkup_module_plan *p);

/* Adds a request, a name or an alias. options (may be NULL) are for the module itself. *ret_found (may be
 * NULL): how many modules it stands for, blacklisted ones included; 0 is no error. -EINVAL as
 * blkup_modules_resolve(). */
int blkup_module_plan_add(struct blkup_module_plan *p, const char *request, const char *options,
                          size_t *ret_found);

/* Adds the accelerated sha256 of this CPU, if there is one and the files are large enough for it to pay: the
 * kernel checks signatures with the best one that is loaded. blkup_module_load() puts it first. Last of the
 * requests. */
int blkup_module_plan_add_sha(struct blkup_module_plan *p);

size_t blkup_module_plan_n_steps(const struct blkup_module_plan *p);
const struct blkup_module_step *blkup_module_plan_step(const struct blkup_module_plan *p, size_t i);
/* Nodes are made from the steps at the first call; not after it: blkup_module_plan_add(). */
int blkup_module_plan_nodes(struct blkup_module_plan *p, const struct blkup_module_node **ret, size_t *ret_n);

/* ---- load ---- */

enum blkup_module_outcome {
        BLKUP_MODULE_LOADED,      /* the kernel has taken it now */
        BLKUP_MODULE_WAS_LOADED,  /* it was there already, or came while we were at it (EEXIST) */
        BLKUP_MODULE_RAN,         /* its install command ended well */
        BLKUP_MODULE_NOT_NEEDED,  /* built in, or nothing to do */
        BLKUP_MODULE_NO_HARDWARE, /* its init call says that this machine has nothing for it (ENODEV, ENXIO)
                                   */
        BLKUP_MODULE_FAILED,
        BLKUP_MODULE_SKIPPED, /* needs one that did not load */
        BLKUP_MODULE_HUNG,    /* still in its init call when the time was over; left there */
};

struct blkup_module_result {
        const char *name;
        enum blkup_module_outcome outcome;
        bool is_required;
        int error;              /* negative errno; 0 */
        const char *culprit;    /* SKIPPED: the module that failed; else NULL */
        const char *message;    /* "" none */
        uint64_t size_bytes;    /* of the file, unpacked when it was unpacked here */
        uint64_t prepare_start_ns, prepare_end_ns; /* unpacking; 0: was not */
        uint64_t start_ns, end_ns;                 /* the system call, CLOCK_MONOTONIC */
        /* When the module was first seen live while the call went on: from then on others could use it, and
         * the call waited for the probes of devices. 0: was not. */
        uint64_t live_ns;
        uint64_t span;          /* its id in the trace; 0: none */
        unsigned calls;         /* how often it was handed to the kernel: 0 or 1, 2 after EBUSY */
        unsigned worker;
};

/* Who takes a module; for tests and replays. fd >= 0: the file, flags as for finit_module(2); else an image
 * in memory. Called by several threads. 0 or negative errno. */
struct blkup_module_backend {
        int (*load)(void *arg, const char *name, int fd, const void *image, size_t n, const char *options,
                    int flags);
        void *arg;
        bool needs_no_files; /* load() gets fd -1 and no image */
};

/* Loads that go on for a second or more: a device does not answer the kernel, or is slow. From a thread of
 * the loader; members may be NULL. */
struct blkup_module_holder {
        /* Once a module. is_live: it has started, and the kernel waits for the probes of devices. */
        void (*tell)(void *arg, const char *name, bool is_live);
        /* Nothing else goes on, and the last of them began then; 0: that is over. */
        void (*holds)(void *arg, uint64_t since_ns);
        /* false: what is held is left where it is, and no other load begins. Asked now and then. */
        bool (*goes_on)(void *arg);
        void *arg;
};

struct blkup_module_load_options {
        unsigned workers;        /* 0: four a CPU, at least 8: each init call ends with a wait */
        uint64_t wait_ns;        /* a load that takes longer is left alone; 0: no limit */
        bool no_sha_first;       /* do not load an accelerated sha256 before signed modules */
        bool no_async_wait;     /* do not wait for the probes of drivers: for what drives no device */
        bool only_asked_waits; /* what a request only needs does not wait for them, what it stands for does */
        const char *const *sequential; /* modules while which nothing else is loaded */
        size_t n_sequential;
        struct blkup_module_holder holder;
        struct blkup_trace *trace;     /* may be NULL */
        unsigned first_worker; /* what workers' numbers in the trace begin with: others may use it, too */
        const struct blkup_module_backend *backend; /* NULL: the kernel */
        const uint64_t *costs_ns;      /* of each node, for the order; NULL: by the size of its file */
};

struct blkup_module_load; /* results */

/* Loads what the plan says, each module once, those with the longest remaining path first. What needs a
 * module whose load is held by a device goes on as soon as that module is live. 0 also when modules failed:
 * ask the results. A load that hangs keeps its thread, and what that needs, until it returns. -ENOMEM,
 * -EAGAIN: no thread. */
int blkup_module_load(struct blkup_module_plan *p, const struct blkup_module_load_options *o,
                      struct blkup_module_load **ret, struct blkup_error *err);
struct blkup_module_load *blkup_module_load_free(struct blkup_module_load *l); /* NULL-safe, returns NULL */
size_t blkup_module_load_count(const struct blkup_module_load *l);
const struct blkup_module_result *blkup_module_load_result(const struct blkup_module_load *l, size_t i);

/* What an errno of finit_module(2) means, for people. */
const char *blkup_module_errno_meaning(int error);

/* Removes a module, and, with_unused, what it needed and nobody uses now. *ret_removed: how many. -ENOENT:
 * not loaded; -EBUSY, -EWOULDBLOCK: in use; err says by whom. */
int blkup_module_remove(const struct blkup_modules *m, const char *name, bool with_unused, bool dry_run,
                        void (*each)(void *arg, const char *name), void *arg, struct blkup_error *err);

/* ---- check ---- */

enum blkup_module_lock { BLKUP_MODULE_LOCK_SHORT, BLKUP_MODULE_LOCK_BIG };
enum blkup_module_prep { BLKUP_MODULE_PREP_ON_ERROR, BLKUP_MODULE_PREP_ALWAYS };

struct blkup_module_check_options {
        const struct blkup_modules *modules; /* the kernel's folder; may be NULL */
        const char *vermagic;    /* NULL: from what stands beside symvers, else from the kernel's modules */
        const char *symvers;     /* Module.symvers; NULL: that of the kernel's headers, if they are there */
        const char *system_map;  /* may be NULL */
        const char *const *loaded; /* modules that are in the kernel already, in this order */
        size_t n_loaded;
        const char *params;      /* may be NULL */
        unsigned flags;          /* of finit_module(2) */
        bool sig_enforce;
        const char *keys;        /* certificates or a kernel image; NULL: signatures are not verified */
        enum blkup_module_lock lock; /* for measurements: one lock over each module's whole check, or none */
        enum blkup_module_prep prep; /* for measurements: make the threads that an error needs always */
        unsigned workers;        /* 0: one a CPU */
        struct blkup_trace *trace;
};

/* What a kernel would answer to one file. */
struct blkup_module_verdict {
        const char *file;
        char module[64];     /* "" not known */
        int error;           /* 0: it would load; else the negative errno */
        const char *stage;   /* "" or a word: syscall, signature, elf-header, elf-sections, vermagic,
                                modversions, name,   symbols, relocation, exports, parameters */
        char reason[320];    /* "" or a sentence; also of what the kernel only warns of */
};

struct blkup_module_check_stats {
        uint64_t lock_wait_ns, lock_wait_most_ns, link_ns,
                link_most_ns; /* sums over all modules, and the largest */
        uint64_t span_ns;
        size_t n_files, n_refused;
};

struct blkup_module_check;

/* Reads what is known of the kernel. -ENOENT and so on: a file that was named cannot be read; -EINVAL: a
 * module of loaded is none. */
int blkup_module_check_new(const struct blkup_module_check_options *o, struct blkup_module_check **ret,
                           struct blkup_error *err);
struct blkup_module_check *
blkup_module_check_free(struct blkup_module_check *c); /* NULL-safe, returns NULL */

/* The files of all modules of the kernel's folder, with root before them; each is to be freed. */
int blkup_module_check_all(const struct blkup_module_check *c, char ***ret, size_t *ret_n);

/* Checks the files as one set: what one of them exports the others may use. ret: n verdicts. stats may be
 * NULL. Negative only when nothing could be checked (-ENOMEM). */
int blkup_module_check_run(struct blkup_module_check *c, char *const *files, size_t n, bool is_all,
                           struct blkup_module_verdict *ret, struct blkup_module_check_stats *stats,
                           struct blkup_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
