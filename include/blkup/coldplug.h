/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * blkup/coldplug.h - everything that is attached, from identified to ready: probe, finish, check, mount, in
 * one graph, each device at its own pace.
 *
 * What is asked for are entries: lines of an fstab, places named by the caller, images. Each goes through
 * locate, finish (the inode tables of ext4 that mkfs left open), check (fsck) and mount as soon as its device
 * has answered. A device that does not answer, or has read errors, costs itself alone.
 *
 * A line for swap goes the same way; in the place of the mount it is swapped on, when a swap area is on it,
 * which is never made here.
 *
 * Writes go to what an entry names and nothing else; never to members of RAID or LVM, paths of a multipath
 * device, snapshots, read-only and removable devices (enum blkup_coldplug_bar). An image without `finish` is
 * mounted read-only: not a byte of it changes.
 *
 * Modules that the machine's devices ask for are loaded meanwhile. The kernel's uevents are listened to from
 * before the first look at /sys, so that nothing is lost in between; when they run over, /sys is walked
 * again. What belongs together is assembled by the machine's own tools: arrays (mdadm), volume groups (lvm),
 * what the crypttab names (cryptsetup).
 *
 * A copy of a file system carries the same UUID, and a hibernation image forbids writing: so the first write
 * waits until each device has answered, or has been silent for late_ns and for four times what the slowest
 * answer took.
 *
 * Functions return 0 or a negative errno. Nothing here is global, nothing is printed. All texts are untrusted
 * bytes. A thread that waits for a device which never answers is left behind with the memory that it needs.
 */
#ifndef BLKUP_COLDPLUG_H
#define BLKUP_COLDPLUG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <blkup/lazyinit.h>
#include <blkup/mount.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct blkup_block;    /* blkup/block.h */
struct blkup_crypttab; /* blkup/crypttab.h */
struct blkup_error;
struct blkup_module_backend;
struct blkup_trace;

enum blkup_coldplug_finish {
        BLKUP_COLDPLUG_FINISH_NEVER,
        BLKUP_COLDPLUG_FINISH_AUTO, /* when it is expected to cost less than finish_budget_ns */
        BLKUP_COLDPLUG_FINISH_ALWAYS,
};

/* What does the work, for tests; NULL members: the machine. Called by several threads at once. */
struct blkup_coldplug_ops {
        void *to;
        int (*open)(void *to, const char *path, struct blkup_block **ret, struct blkup_error *err);
        int (*status)(void *to, const char *path, struct blkup_lazyinit_status *ret, struct blkup_error *err);
        int (*finish)(void *to, const char *path, const struct blkup_lazyinit_options *o,
                      struct blkup_lazyinit_result *ret, struct blkup_error *err);
        /* The exit code of fsck.TYPE, with the last line it printed in text; -ENOENT: there is no such
         * program. */
        int (*check)(void *to, const char *type, const char *path, char *text, size_t cap);
        int (*mount)(void *to, const struct blkup_mount_request *q, struct blkup_mount_result *ret);
        /* swapon(2) */
        int (*swap)(void *to, const char *path, int flags);
        /* A tool by its name, argv[0], with an empty environment: its exit code; what it printed in out, the
         * last line of its errors in text. may_ask: it may use the terminal. -ENOENT: there is no such tool.
         */
        int (*tool)(void *to, const char *const *argv, bool may_ask, char *out, size_t out_cap, char *text,
                    size_t cap);
        /* Tells the kernel of a member of a btrfs. 1: all members are known now; 0: not yet. */
        int (*btrfs)(void *to, const char *path);
        const struct blkup_module_backend *modules; /* see blkup/modules.h */
};

/* What happened, for who wants to know at once: blkup_coldplug_settings.tell. Texts live during the call. */
enum blkup_coldplug_event_kind {
        BLKUP_COLDPLUG_EVENT_DEVICE, /* identified, or was not to be read */
        BLKUP_COLDPLUG_EVENT_GONE,
        BLKUP_COLDPLUG_EVENT_READY,  /* an entry */
        BLKUP_COLDPLUG_EVENT_FAILED, /* an entry */
        BLKUP_COLDPLUG_EVENT_SET,    /* assembled */
        BLKUP_COLDPLUG_EVENT_WARNING,
        BLKUP_COLDPLUG_EVENT_SETTLED, /* all that was attached at the start has been through */
};
struct blkup_coldplug_event {
        enum blkup_coldplug_event_kind kind;
        const char *device, *type, *label, *uuid, *target, *text; /* NULL: none */
};
const char *blkup_coldplug_event_name(enum blkup_coldplug_event_kind k);

struct blkup_coldplug_place {
        const char *source; /* a path or a tag */
        const char *target;
};

struct blkup_coldplug_settings {
        const struct blkup_fstab *fstab; /* may be NULL */
        const struct blkup_coldplug_place *places;
        size_t n_places;
        /* With images nothing else is looked at: neither sysfs nor an fstab. */
        const char *const *images;
        size_t n_images;
        const char *image_folder; /* each is mounted at FOLDER/NAME; NULL: not mounted */
        const char *const *only;  /* tags and paths: entries of other devices are left out; n_only 0: all */
        size_t n_only;
        bool no_mount, no_check, dry_run, no_cage, ignore_hibernation;
        enum blkup_coldplug_finish finish;
        uint64_t wait_ns;          /* for devices of entries that are not there yet */
        /* Stay until stop_fd can be read: what comes later is brought up too, and what goes is told. */
        bool is_watch;
        int stop_fd;      /* -1: none; looked at with is_watch alone */
        int uevent_fd;    /* 0: a socket of our own; -1: none; else a socket on which uevents come as
                           * the kernel sends them: for tests */
        int uevent_bytes; /* of our own socket; 0: the usual */
        bool no_modules;  /* load none */
        bool no_assembly; /* no md, LVM and LUKS; btrfs as the kernel has it */
        bool may_ask;     /* passphrases, at the terminal */
        const struct blkup_crypttab *crypttab; /* what may be unlocked; may be NULL */
        uint64_t grace_ns;                     /* an array without all members is started after; 0: 30 s */
        void (*tell)(void *to, const struct blkup_coldplug_event *e); /* from one thread; may be NULL */
        void *tell_to;
        /* A checker begins (false: it may not), and has ended. From several threads; may be NULL. */
        bool (*checks)(void *to, const char *program, const char *device, bool is_begin);
        void *checks_to;
        uint64_t device_ns;        /* how long one stage of one device may take (fsck excepted); 0: 10 s */
        uint64_t late_ns;          /* 0: 100 ms; see above */
        uint64_t finish_budget_ns; /* 0: 50 ms */
        unsigned workers;          /* 0: 64 */
        struct blkup_trace *trace; /* spans of the whole run, a lane a device; NULL: none */
        const char *root;          /* for tests: a folder that stands for / when the machine is asked */
        const struct blkup_coldplug_ops *ops;
};

enum blkup_coldplug_stage {
        BLKUP_COLDPLUG_PROBE,
        BLKUP_COLDPLUG_FINISH,
        BLKUP_COLDPLUG_CHECK,
        BLKUP_COLDPLUG_MOUNT,
        BLKUP_COLDPLUG_STAGES, /* how many there are */
};

enum blkup_coldplug_state {
        BLKUP_COLDPLUG_NOT_ASKED = 0, /* there was nothing to do */
        BLKUP_COLDPLUG_DONE,
        BLKUP_COLDPLUG_ALREADY,   /* it was mounted there */
        BLKUP_COLDPLUG_WOULD,     /* dry run */
        BLKUP_COLDPLUG_LEFT,      /* to the kernel's own thread */
        BLKUP_COLDPLUG_REFUSED,   /* by a rule of safety */
        BLKUP_COLDPLUG_SKIPPED,   /* something before it failed, or nofail */
        BLKUP_COLDPLUG_FAILED,
        BLKUP_COLDPLUG_TIMED_OUT, /* no answer within device_ns */
};
const char *blkup_coldplug_stage_name(enum blkup_coldplug_stage s);
const char *blkup_coldplug_state_name(enum blkup_coldplug_state s);
/* Does a stage in this state stand in nobody's way? */
bool blkup_coldplug_is_good(enum blkup_coldplug_state s);

struct blkup_coldplug_step {
        enum blkup_coldplug_state state;
        int error;                  /* negative errno; 0: none */
        uint64_t start_ns, end_ns;  /* 0: did not start */
        uint64_t bytes, reads;      /* probe */
        /* What it waited for longest of that time, of what is not its own: the load of a module, a prober, a
         * place among those that finish. "": nothing. */
        char wait_for[64];
        uint64_t wait_start_ns, wait_end_ns;
        unsigned worker;            /* thread that did it */
        /* Why; NULL: nothing to say. Of what failed, was refused or timed out there is one, while there is
         * memory. */
        char *text;
};

/* Why a device is never written to. */
enum blkup_coldplug_bar {
        BLKUP_COLDPLUG_FREE = 0,
        BLKUP_COLDPLUG_READ_ONLY,  /* may be mounted, read-only */
        BLKUP_COLDPLUG_REMOVABLE,
        BLKUP_COLDPLUG_HELD,       /* by another block device: a member, a mapping's base */
        BLKUP_COLDPLUG_MULTIPATH,
        BLKUP_COLDPLUG_SNAPSHOT,
        BLKUP_COLDPLUG_MEMBER,     /* by what is on it: RAID, LVM, a locked volume */
        BLKUP_COLDPLUG_TWO_TYPES,
        BLKUP_COLDPLUG_HIBERNATED, /* a hibernated system may use it */
};
const char *blkup_coldplug_bar_name(enum blkup_coldplug_bar b);

struct blkup_coldplug_device {
        const char *path;
        uint64_t size_bytes;
        uint32_t dev_major, dev_minor;   /* 0, 0: an image */
        uint32_t disk_major, disk_minor; /* its whole disk */
        bool is_image;
        enum blkup_coldplug_bar bar;
        const char *type, *usage, *label, *uuid; /* NULL: none */
        uint64_t came_ns;   /* when it was first seen, of what came during the run; 0: it was there */
        const char *module; /* the load that brought it; NULL: none of this run, or not known */
        uint64_t module_start_ns, module_end_ns;
        struct blkup_coldplug_step probe;
};

enum blkup_coldplug_kind {
        BLKUP_COLDPLUG_FSTAB,
        BLKUP_COLDPLUG_PLACE,
        BLKUP_COLDPLUG_IMAGE,
        BLKUP_COLDPLUG_SWAP, /* a line of the fstab, without a target; its stage `mount` is swapon(2) */
};

#define BLKUP_COLDPLUG_NO_DEVICE SIZE_MAX

struct blkup_coldplug_entry {
        enum blkup_coldplug_kind kind;
        unsigned line;        /* of the fstab; 0: none */
        const char *source, *target, *options; /* target NULL: is not to be mounted */
        int passno;
        bool is_optional;     /* nofail */
        bool is_left_out;     /* --only */
        size_t device;        /* index, or BLKUP_COLDPLUG_NO_DEVICE */
        struct blkup_coldplug_step steps[BLKUP_COLDPLUG_STAGES]; /* [PROBE]: finding the device */
        uint32_t groups_left; /* of ext4 at the end, for the kernel's thread */
        struct blkup_mount_result *mount; /* NULL: was not tried */
        bool is_ready;
};

/* What is made of members, or lies behind a lock. */
enum blkup_coldplug_set_kind {
        BLKUP_COLDPLUG_MD,
        BLKUP_COLDPLUG_LVM,
        BLKUP_COLDPLUG_LUKS,
        BLKUP_COLDPLUG_BTRFS
};
const char *blkup_coldplug_set_name(enum blkup_coldplug_set_kind k);

struct blkup_coldplug_set {
        enum blkup_coldplug_set_kind kind;
        const char *uuid;
        const char *name;  /* the array's node, the volume group, the mapping; NULL: not known */
        size_t n_members;  /* that are there */
        size_t n_expected; /* 0: not known */
        bool is_degraded;  /* started without all of them */
        struct blkup_coldplug_step step;
};

struct blkup_coldplug_module {
        const char *name;
        int error;
        const char *text;
};

/* Two devices that carry the same, of which one was in use when the other came. */
struct blkup_coldplug_copy {
        const char *device; /* that came */
        const char *other;  /* that is in use */
        const char *of;     /* what has it: where it is mounted, the array, the group, the mapping */
        const char *text;
};

/* The chain that decided how long it took. */
struct blkup_coldplug_link {
        const char *stage; /* "load", "attach" (the kernel's own probe), "probe", "wait", "mount" ... */
        const char *object;
        uint64_t ns;
};

struct blkup_coldplug_result {
        const struct blkup_coldplug_device *const *devices;
        size_t n_devices;
        const struct blkup_coldplug_entry *entries;
        size_t n_entries;
        const struct blkup_coldplug_link *path;
        size_t n_path;
        const struct blkup_coldplug_set *const *sets;
        size_t n_sets;
        size_t n_modules; /* loaded */
        const struct blkup_coldplug_module *bad_modules;
        size_t n_bad_modules;
        const struct blkup_coldplug_copy *copies; /* some 64 at most */
        size_t n_copies;
        uint64_t n_events, n_overflows; /* of the kernel: taken; how often some were lost */
        uint64_t start_ns, end_ns;
        const char *hibernation; /* the device with a hibernation image; NULL: none was seen */
        size_t n_silent;         /* threads that were left behind */
        size_t n_places;         /* most nodes of the graph at a time */
        bool is_limited;         /* `only` was given: other devices are nobody's concern */
        const char *const *missed; /* those of `only` that no entry is of */
        size_t n_missed;
        uint64_t peak_bytes;     /* memory of this process so far, at its most; 0: not known */
};

struct blkup_coldplug; /* opaque */

/* Runs to the end; with is_watch until it is told to stop. 0 also when devices failed; *ret is to be
 * released. -ENOMEM, -EINVAL, or what reading sysfs returns: nothing was begun. */
int blkup_coldplug_run(const struct blkup_coldplug_settings *s, struct blkup_coldplug **ret,
                       struct blkup_error *err);
const struct blkup_coldplug_result *blkup_coldplug_result(const struct blkup_coldplug *c);
struct blkup_coldplug *blkup_coldplug_unref(struct blkup_coldplug *c); /* NULL-safe, returns NULL */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
