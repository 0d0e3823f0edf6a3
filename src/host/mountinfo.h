/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What is mounted (/proc/self/mountinfo) and what is swap (/proc/swaps).
 *
 * Reading costs the kernel time that grows with the number of mounts, so: one load a run, the caller holds
 * the table and asks it. A table is a picture of one moment; it is never refreshed.
 *
 * Source of the formats: proc(5); the kernel's fs/proc_namespace.c (show_mountinfo) and mm/swapfile.c
 * (swap_show).
 *
 * All texts belong to the table and live as long as it does. They come from whoever mounted: not UTF-8 by
 * promise, may hold any byte but NUL; encode before printing. Tables are read-only after loading, so
 * several threads may ask one. `root`: see host/hostfile.h.
 */
#ifndef BLKUP_HOST_MOUNTINFO_H
#define BLKUP_HOST_MOUNTINFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"

/* Limits: the kernel's own is fs.mount-max, 100,000 by default; a line is at most a few pages. */
#define BLKUP_MOUNTINFO_MAX_BYTES (64u << 20)
#define BLKUP_MOUNTINFO_MAX_MOUNTS (1u << 18)
#define BLKUP_MOUNTINFO_MAX_LINE (128u << 10)
#define BLKUP_SWAPS_MAX_BYTES (1u << 20)
#define BLKUP_SWAPS_MAX_ENTRIES 256u

/* One mount. Octal escapes are decoded in root, target, fs_type and source; the two option lists keep them,
 * because a decoded comma would cut an option in two: blkup_mount_option() decodes a value. */
struct blkup_mount {
        uint32_t id;
        uint32_t parent_id; /* the top of what this process sees may have a parent that is not listed */
        /* st_dev of the files on it; where no device is behind it (btrfs too) an anonymous one, major 0 */
        uint32_t dev_major, dev_minor;
        const char *root;          /* the part of the file system that is mounted; "mnt:[N]" for a namespace;
                                      that of a removed folder ends in "//deleted" */
        const char *target;        /* mount point, absolute, as seen from this process's root */
        const char *options;       /* per mount: "rw,nosuid" */
        const char *fs_type;       /* "ext4", "fuse.sshfs" */
        const char *source;        /* as given to mount: a device, "none", "", or a text of its own */
        const char *super_options; /* per file system: "rw,errors=remount-ro" */
        uint32_t shared, master, propagate_from; /* peer group of each optional field; 0: not there */
        bool is_unbindable;
        bool is_read_only; /* "ro" stands in options or in super_options */
};

struct blkup_mountinfo {
        const struct blkup_mount *mounts; /* in the kernel's order: later ones cover earlier ones */
        size_t n;
        size_t n_bad_lines; /* lines that were no mount: skipped */
        unsigned n_reads;   /* how often the file was read: more than once when mounts changed meanwhile */
        bool is_moving;     /* it still changed during the last permitted read */
};

/* Reads ROOT/proc/self/mountinfo. Mounts that come or go while the file is read can drop out of it or stand
 * twice; the kernel then says so (poll(2)), and the file is read again, at most 8 times in all. -ENOENT:
 * /proc is not mounted; -EFBIG, -E2BIG: a limit; -ENOMEM; what open and read return. err may be NULL. */
BLKUP_MUST_CHECK int blkup_mountinfo_load(const char *root, struct blkup_mountinfo **ret,
                                          struct blkup_error *err);

/* The same from an open fd of a mountinfo file, from its start; the fd stays open and the caller's. For who
 * waits for changes: poll(2) with POLLPRI on that fd tells of those that come after this call. */
BLKUP_MUST_CHECK int blkup_mountinfo_load_fd(int fd, struct blkup_mountinfo **ret, struct blkup_error *err);

/* The same from text in memory, which is copied. */
BLKUP_MUST_CHECK int blkup_mountinfo_parse(const char *text, size_t n, struct blkup_mountinfo **ret);

struct blkup_mountinfo *blkup_mountinfo_free(struct blkup_mountinfo *t); /* NULL-safe, returns NULL */

/* The mount that is seen at this mount point: the topmost where several are stacked. Slashes at the end of
 * target are ignored; it is compared as text, so resolve links first. NULL: nothing is mounted there (or t
 * is NULL). Whether a mount on a folder above hides it, blkup_mountinfo_is_covered() tells. */
const struct blkup_mount *blkup_mountinfo_by_target(const struct blkup_mountinfo *t, const char *target);

/* Is m out of reach by its path: under another mount on the same mount point or on a folder above it?
 * m must be of this table. Cost: mounts times depth. */
bool blkup_mountinfo_is_covered(const struct blkup_mountinfo *t, const struct blkup_mount *m);

/* The next mount of this device, after `after` (NULL: the first), NULL at the end. Not for btrfs, whose
 * mounts carry an anonymous number: ask by source. */
const struct blkup_mount *blkup_mountinfo_by_device(const struct blkup_mountinfo *t, uint32_t dev_major,
                                                    uint32_t dev_minor, const struct blkup_mount *after);

/* The next mount whose source is exactly this text. */
const struct blkup_mount *blkup_mountinfo_by_source(const struct blkup_mountinfo *t, const char *source,
                                                    const struct blkup_mount *after);

/* The mount with this id, NULL: not listed. */
const struct blkup_mount *blkup_mountinfo_by_id(const struct blkup_mountinfo *t, uint32_t id);

/* Looks for an option in a list of a mount. Its value, decoded, goes to ret ("" when it has none; ret may be
 * NULL with cap 0 to ask only whether it is there). 0, -ENOENT, -ENAMETOOLONG (ret untouched). */
BLKUP_MUST_CHECK int blkup_mount_option(const char *options, const char *name, char *ret, size_t cap);

enum blkup_swap_kind { BLKUP_SWAP_PARTITION, BLKUP_SWAP_FILE, BLKUP_SWAP_OTHER };

struct blkup_swap {
        const char *path; /* decoded; a removed file ends in " (deleted)" */
        enum blkup_swap_kind kind;
        uint64_t size_bytes, used_bytes; /* the kernel tells KiB; without the header page */
        int32_t priority;
};

struct blkup_swaps {
        const struct blkup_swap *swaps;
        size_t n;
        size_t n_bad_lines;
};

/* Reads ROOT/proc/swaps. -ENOENT: a kernel without swap, or /proc is not mounted. Otherwise as
 * blkup_mountinfo_load(). */
BLKUP_MUST_CHECK int blkup_swaps_load(const char *root, struct blkup_swaps **ret, struct blkup_error *err);
BLKUP_MUST_CHECK int blkup_swaps_parse(const char *text, size_t n, struct blkup_swaps **ret);
struct blkup_swaps *blkup_swaps_free(struct blkup_swaps *t); /* NULL-safe, returns NULL */

#endif
