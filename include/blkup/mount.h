/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * blkup/mount.h - mounting one file system or a whole fstab, each step timed, each failure told as facts.
 *
 * A mounter is made once a run. It holds what a run reads once (mountinfo, the loop devices, the position in
 * the kernel's log) and mounts with the calls fsopen ... move_mount, so that a mount has all its attributes
 * before it is visible; where the kernel lacks or refuses them, with mount(2).
 *
 * What has to be known of a device (which one carries a tag, which type is on it) is asked of the caller.
 * Nothing is printed, and no sentence is made here: a result says which call failed, with which errno, and
 * what the kernel said.
 *
 * Functions return 0 or a negative errno; outputs are left alone on failure. All texts are untrusted bytes.
 */
#ifndef BLKUP_MOUNT_H
#define BLKUP_MOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct blkup_mounter; /* opaque */
struct blkup_trace;
struct blkup_error;

/*
 * fstab.
 */

struct blkup_fstab_entry {
        unsigned line;      /* from 1 */
        const char *source; /* decoded: "/dev/vda1", "UUID=...", "tmpfs"; quotes around a tag's value gone */
        const char *target; /* decoded; "none" for swap */
        const char *types;  /* "ext4", "ext4,xfs", "auto" */
        const char *options; /* escapes are decoded, quotes stay */
        int freq, passno;
};

/* A line that could not be understood: it costs itself alone. */
struct blkup_fstab_bad {
        unsigned line;
        const char *why; /* a constant */
};

struct blkup_fstab {
        const struct blkup_fstab_entry *entries;
        size_t n;
        const struct blkup_fstab_bad *bad;
        size_t n_bad;
};

/* -EFBIG: above 4 MiB; -E2BIG: above 65,536 lines with an entry; -ENOMEM; what open and read return. */
int blkup_fstab_load(const char *path, struct blkup_fstab **ret, struct blkup_error *err);
int blkup_fstab_parse(const char *text, size_t n, struct blkup_fstab **ret);
struct blkup_fstab *blkup_fstab_free(struct blkup_fstab *t); /* NULL-safe, returns NULL */
/* Is NAME among the options (a whole word, or NAME=value)? */
bool blkup_fstab_has_option(const struct blkup_fstab_entry *e, const char *name);

/*
 * What the caller knows.
 */

struct blkup_mount_device {
        char path[256];      /* its node */
        char other_path[256]; /* the other one, when two carry the same tag; or one that did not answer */
        char type[32];       /* "" = not known */
};

struct blkup_mount_resolver {
        void *to;
        /* The device whose NAME (UUID, LABEL, PARTUUID, PARTLABEL, ID) is VALUE. -ENOENT: none, of those
         * that answered; -ENOTUNIQ: two that do not belong together, both in *ret. Called by several threads
         * at once. fresh: something may have appeared since the last call: look again. */
        int (*find)(void *to, const char *name, const char *value, bool fresh, struct blkup_mount_device *ret,
                    struct blkup_error *err);
        /* The type on a device or image: ret->type. fd: open for reading, stays the caller's. -ENOENT:
         * nothing that is known; -ENOTUNIQ: more than one. Called by several threads at once. */
        int (*identify)(void *to, int fd, const char *path, uint64_t offset_bytes, uint64_t size_bytes,
                        struct blkup_mount_device *ret, struct blkup_error *err);
};

/*
 * Results.
 */

enum blkup_mount_outcome {
        BLKUP_MOUNT_FAILED = 0,
        BLKUP_MOUNT_DONE,
        BLKUP_MOUNT_ALREADY, /* it is mounted there */
        BLKUP_MOUNT_SKIPPED, /* nofail, and the device is not there */
};

/* What was being done when it failed. */
enum blkup_mount_call {
        BLKUP_MOUNT_CALL_NONE = 0,
        BLKUP_MOUNT_CALL_OPTIONS,   /* the option text makes no sense: `key` is the option */
        BLKUP_MOUNT_CALL_SOURCE,    /* finding the device */
        BLKUP_MOUNT_CALL_IDENTIFY,  /* finding its type */
        BLKUP_MOUNT_CALL_TARGET,    /* opening the mount point */
        BLKUP_MOUNT_CALL_LOOP,
        BLKUP_MOUNT_CALL_FSOPEN,
        BLKUP_MOUNT_CALL_KEY,       /* an option that the file system refuses: `key`, `value` */
        BLKUP_MOUNT_CALL_CREATE,
        BLKUP_MOUNT_CALL_FSMOUNT,
        BLKUP_MOUNT_CALL_ATTACH,    /* move_mount */
        BLKUP_MOUNT_CALL_CLONE,     /* open_tree: a bind */
        BLKUP_MOUNT_CALL_SETATTR,
        BLKUP_MOUNT_CALL_PICK,      /* fspick: a remount */
        BLKUP_MOUNT_CALL_RECONFIGURE,
        BLKUP_MOUNT_CALL_CLASSIC,   /* mount(2) */
        BLKUP_MOUNT_CALL_UMOUNT,
        BLKUP_MOUNT_CALL_HELPER,    /* mount.TYPE */
};

/* A refusal or failure of our own, which no errno says. */
enum blkup_mount_reason {
        BLKUP_MOUNT_REASON_NONE = 0,
        BLKUP_MOUNT_REASON_NO_TAG,         /* no device carries it */
        BLKUP_MOUNT_REASON_TWO_DEVICES,    /* device and other */
        BLKUP_MOUNT_REASON_HIBERNATED,     /* other: the device with the image */
        BLKUP_MOUNT_REASON_LOOP_IN_USE,    /* other: the loop device that has the file already */
        BLKUP_MOUNT_REASON_LOOP_READ_ONLY, /* rw in words, and the file cannot be written */
        BLKUP_MOUNT_REASON_WRONG_DEVICE,   /* the path led to another device when the kernel opened it */
        BLKUP_MOUNT_REASON_PARENT,         /* other: the mount point that it needs, which failed */
        BLKUP_MOUNT_REASON_TIMEOUT,        /* --wait is over */
        BLKUP_MOUNT_REASON_TYPE_NAME,      /* a type name with characters that none has */
        BLKUP_MOUNT_REASON_NOT_LISTED,     /* another type than the list names: type */
        BLKUP_MOUNT_REASON_NO_HELPER,
        BLKUP_MOUNT_REASON_HELPER_CODE, /* code: its exit code */
        BLKUP_MOUNT_REASON_NOT_MOUNTED, /* umount, remount */
        BLKUP_MOUNT_REASON_VERITY,      /* options that need veritysetup */
        BLKUP_MOUNT_REASON_SAME_PLACE,  /* this very file system is what is mounted there */
        BLKUP_MOUNT_REASON_OFFSET,      /* it lies beyond the end of the image: file, offset_bytes */
        BLKUP_MOUNT_REASON_SEVERAL,     /* umount DEVICE, and it is mounted more than once: code times */
};

/* Things worth saying of a mount that worked. A bit set. */
enum blkup_mount_note {
        BLKUP_MOUNT_NOTE_READ_ONLY = 1,  /* write-protected: mounted read-only, though rw was the default */
        BLKUP_MOUNT_NOTE_LIVE_SUPER = 2, /* the super block was live: the options of the file system are those
                                            of the first mount */
        BLKUP_MOUNT_NOTE_CLASSIC = 4,    /* by mount(2) */
        BLKUP_MOUNT_NOTE_HIBERNATED = 8, /* read-only without replay, because of a hibernation image */
        BLKUP_MOUNT_NOTE_LOOP_REUSED = 16,
        BLKUP_MOUNT_NOTE_RETRIED = 32,        /* busy at first */
        BLKUP_MOUNT_NOTE_LOOP_READ_ONLY = 64, /* the file cannot be written */
        BLKUP_MOUNT_NOTE_SILENT = 128, /* `other` did not answer when it was asked for a hibernation image */
};

#define BLKUP_MOUNT_MAX_STEPS 16

struct blkup_mount_step {
        const char *name; /* a constant: "fsopen", "CREATE", "wait" */
        uint64_t start_ns, end_ns;
};

struct blkup_mount_result {
        enum blkup_mount_outcome outcome;
        enum blkup_mount_call call;
        enum blkup_mount_reason reason;
        int error;      /* negative errno; 0 when it worked */
        int code;
        unsigned notes;
        bool is_read_only;
        uint32_t dev_major, dev_minor; /* of the device; 0, 0: none, or not known */
        uint64_t start_ns, end_ns;
        unsigned worker;
        unsigned n_steps;
        struct blkup_mount_step steps[BLKUP_MOUNT_MAX_STEPS];
        char source[256];  /* as given, cut */
        char device[256];  /* the node that was mounted; "" = none */
        char file[256];    /* the image that was shown by it; "" = none */
        uint64_t offset_bytes, sizelimit_bytes; /* of the image */
        char other[256];
        char type[64];
        char key[64], value[64];
        char log[512];     /* what the context said, lines parted by newlines */
        char kernel[1024]; /* lines of the kernel's log that came meanwhile and name the device or the type */
        bool kernel_is_readable; /* false: the kernel's log may not be read by this process */
        bool kernel_is_shared;   /* others were mounting the same type meanwhile: the lines may be theirs */
        char *target;      /* owned: blkup_mount_result_free() */
};

void blkup_mount_result_free(struct blkup_mount_result *r); /* what r owns, not r; NULL-safe */

/*
 * Mounting.
 */

struct blkup_mount_settings {
        const struct blkup_mount_resolver *resolver; /* NULL: no tags, no type by itself */
        struct blkup_trace *trace;                   /* NULL: none */
        unsigned workers;                            /* 0: 64 */
        uint64_t wait_ns;       /* for a device that is not there yet, each entry and all together; 0: not */
        bool ignore_hibernation;
        bool dry_run;           /* do everything but the calls */
        bool no_helpers;        /* -i */
        bool no_canonicalize;   /* targets are taken as they are */
        const char *root;       /* for tests: a folder that stands for / when the machine is asked; NULL */
        const void *ops;        /* for tests: struct blkup_mount_ops; NULL: the kernel */
};

struct blkup_mount_request {
        unsigned line;       /* of the fstab; 0: none */
        const char *source;  /* "UUID=..." too; NULL: none (propagation, remount) */
        const char *target;
        const char *types;   /* NULL, "auto", a name, a list */
        const char *options; /* NULL: none */
};

int blkup_mounter_new(const struct blkup_mount_settings *s, struct blkup_mounter **ret);
struct blkup_mounter *blkup_mounter_unref(struct blkup_mounter *m); /* NULL-safe, returns NULL */

/* One mount in this thread. 0 when it worked or is skipped; else result->error. *ret is always filled. */
int blkup_mount_one(struct blkup_mounter *m, const struct blkup_mount_request *q,
                    struct blkup_mount_result *ret);

/* All of them, by graph. ret: n results, all filled. 0 also when some failed; -ENOMEM ... when nothing was
 * begun. */
int blkup_mount_all(struct blkup_mounter *m, const struct blkup_mount_request *q, size_t n,
                    struct blkup_mount_result *ret, struct blkup_error *err);

/* Which requests request i waits for, before anything is mounted; as blkup_mount_all() would begin. The
 * indexes go to ret (at most cap), their number is returned. */
struct blkup_mount_graph;
int blkup_mount_graph_new(struct blkup_mounter *m, const struct blkup_mount_request *q, size_t n,
                          struct blkup_mount_graph **ret);
struct blkup_mount_graph *blkup_mount_graph_free(struct blkup_mount_graph *g);
size_t blkup_mount_graph_needs(const struct blkup_mount_graph *g, size_t i, size_t *ret, size_t cap);
/* Why i waits for j: a constant. */
const char *blkup_mount_graph_why(const struct blkup_mount_graph *g, size_t i, size_t j);
/* Is j needed by i, or is it only the order of the two? */
bool blkup_mount_graph_is_need(const struct blkup_mount_graph *g, size_t i, size_t j);
bool blkup_mount_graph_is_same_place(const struct blkup_mount_graph *g, size_t i, size_t j);

/*
 * Unmounting.
 */

enum blkup_umount_flag {
        BLKUP_UMOUNT_LAZY = 1,
        BLKUP_UMOUNT_FORCE = 2,
        BLKUP_UMOUNT_RECURSIVE = 4, /* what is mounted below, too */
        BLKUP_UMOUNT_ALL_OF = 8,    /* names are devices or mount points: all mounts of that file system */
        BLKUP_UMOUNT_ALL = 16,      /* everything but what the system itself needs; names are not looked at */
        BLKUP_UMOUNT_DRY_RUN = 32,
};

/* Unmounts, children before parents, siblings at once. types: NULL, or a list as in mount -t. *ret: n_ret
 * results, to be freed with blkup_umount_results_free(). 0 also when some failed. */
int blkup_umount(struct blkup_mounter *m, const char *const *names, size_t n, const char *types,
                 unsigned flags, struct blkup_mount_result **ret, size_t *n_ret, struct blkup_error *err);
void blkup_umount_results_free(struct blkup_mount_result *r, size_t n);

/* Is type in a list as -t takes it ("ext4,xfs", "noext4,xfs")? NULL list: yes. */
bool blkup_mount_is_in_types(const char *list, const char *type);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
