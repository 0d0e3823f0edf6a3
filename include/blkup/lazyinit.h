/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * blkup/lazyinit.h - finish what mkfs postponed: the inode tables of an ext4 file system.
 *
 * For every block group whose descriptor lacks INODE_ZEROED: the part of its inode table that was never used
 * is zeroed, that is made durable, then the flag and the descriptor's checksum are set, and that is made
 * durable. Nothing else on the device changes: no superblock, no backup, no bitmap. There is no state file:
 * the flags are the state, so a run may be cut off anywhere and the next one goes on.
 *
 * A file system is finished offline only. What is refused, and why, is enum blkup_lazyinit_refusal; after a
 * refusal the device is byte-identical.
 *
 * Functions return 0 or a negative errno unless they say otherwise. Nothing here is global: runs on different
 * devices may go on at once in different threads. Nothing is printed and no signal handler is installed.
 *
 * Source of the rules: the kernel's fs/ext4/super.c (ext4_check_descriptors, ext4_run_lazyinit_thread),
 * fs/ext4/ialloc.c (ext4_init_inode_table), fs/ext4/mmp.c, Documentation/filesystems/ext4/.
 */
#ifndef BLKUP_LAZYINIT_H
#define BLKUP_LAZYINIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct blkup_error;
struct blkup_trace;

/* Why a device is left alone. The words are blkup_lazyinit_refusal_name()'s. */
enum blkup_lazyinit_refusal {
        BLKUP_LAZYINIT_NOT_REFUSED = 0,
        /* what is on it */
        BLKUP_LAZYINIT_NOT_EXT4,
        BLKUP_LAZYINIT_JOURNAL_DEVICE,
        BLKUP_LAZYINIT_BAD_SUPERBLOCK,
        BLKUP_LAZYINIT_SUPERBLOCK_CHECKSUM,
        BLKUP_LAZYINIT_UNKNOWN_INCOMPAT,
        BLKUP_LAZYINIT_UNKNOWN_RO_COMPAT,
        BLKUP_LAZYINIT_BOTH_CHECKSUMS,
        BLKUP_LAZYINIT_TRUNCATED,
        BLKUP_LAZYINIT_LARGE_SECTORS, /* the device's are larger than the blocks: no kernel mounts it there */
        BLKUP_LAZYINIT_NEEDS_RECOVERY,
        BLKUP_LAZYINIT_ERRORS_RECORDED,
        BLKUP_LAZYINIT_NOT_CLEAN,
        BLKUP_LAZYINIT_ORPHANS,
        BLKUP_LAZYINIT_MMP_BAD,
        BLKUP_LAZYINIT_MMP_IN_USE,
        BLKUP_LAZYINIT_DESCRIPTOR_CHECKSUM,
        BLKUP_LAZYINIT_TABLE_OUT_OF_RANGE,
        BLKUP_LAZYINIT_UNUSED_COUNT,
        BLKUP_LAZYINIT_GROUP0_UNINIT,
        BLKUP_LAZYINIT_UNINIT_IN_USE,
        BLKUP_LAZYINIT_OVERLAP,
        BLKUP_LAZYINIT_INODE_IN_USE,
        BLKUP_LAZYINIT_LIBRARY_DISAGREES, /* libext2fs sees another geometry or checksum than we do */
        /* who else uses it, and where it stands */
        BLKUP_LAZYINIT_BUSY,        /* mounted, or held by another driver */
        BLKUP_LAZYINIT_LOOP,        /* a loop device shows this file, or the file behind this loop device */
        BLKUP_LAZYINIT_LOCKED,      /* another program holds a lock on it (qemu, udev) */
        BLKUP_LAZYINIT_OPEN_WRITER, /* another process has it open for writing */
        BLKUP_LAZYINIT_HIBERNATION, /* a hibernated system may have it mounted */
        BLKUP_LAZYINIT_NO_SPACE,    /* the file is sparse and what has to be allocated does not fit */
        BLKUP_LAZYINIT_READ_ONLY,
        BLKUP_LAZYINIT_REFUSALS, /* how many there are */
};

/* "needs-recovery" ...; NULL: no such refusal. */
const char *blkup_lazyinit_refusal_name(enum blkup_lazyinit_refusal r);
/* What its user can do: one line. */
const char *blkup_lazyinit_refusal_advice(enum blkup_lazyinit_refusal r);

/* How a range that holds something is made zero. */
enum blkup_lazyinit_strategy {
        BLKUP_LAZYINIT_AUTO,       /* offload where there is one, else writes */
        BLKUP_LAZYINIT_ZERO_RANGE, /* fallocate(ZERO_RANGE), BLKZEROOUT; writes where that is refused */
        BLKUP_LAZYINIT_PUNCH,      /* holes, unmap; needs thin */
        BLKUP_LAZYINIT_WRITE,      /* zeroes by direct I/O */
};

/* What becomes of the space. */
enum blkup_lazyinit_allocation {
        BLKUP_LAZYINIT_KEEP,  /* neither grows nor shrinks */
        BLKUP_LAZYINIT_THIN,  /* what is zeroed is given back where that is possible */
        BLKUP_LAZYINIT_THICK, /* holes are allocated */
};

struct blkup_lazyinit_progress {
        const char *device;
        uint32_t groups, groups_todo, groups_done; /* groups of the file system; to do and done of this run */
        uint64_t bytes_todo, bytes_done;           /* of the tables, whether they had to be written or not */
        uint64_t ns;                               /* since the first group was begun */
        uint64_t eta_ns; /* until the end at the rate so far; UINT64_MAX: not known yet */
};

/* What the caller lends a run. All optional (zero). */
struct blkup_lazyinit_options {
        enum blkup_lazyinit_strategy strategy;
        enum blkup_lazyinit_allocation allocation;
        bool only_check;  /* look, change nothing */
        bool verify;      /* read flagged tables too and zero stale ones; read back what was zeroed */
        bool journal;     /* zero the body of an empty journal too */
        bool background;  /* politely: see wait_mult */
        unsigned wait_mult; /* background: wait this many times as long as one unit of work took */
        bool ignore_hibernation;
        bool no_library;  /* do not ask libext2fs for a second opinion */
        bool no_uring;
        unsigned in_flight; /* direct writes in flight; 0: 8; at most 32 */
        const volatile int *stop; /* non-zero: finish the unit at hand and return */
        struct blkup_trace *trace;

        void (*progress)(void *to, const struct blkup_lazyinit_progress *p);
        void *progress_to;
        /* Is there a hibernation image on any swap area of this machine? 1: yes, and its name went to `name`;
         * 0: no; negative errno: not known, which does not refuse. */
        int (*find_hibernation)(void *to, char *name, size_t cap);
        void *find_hibernation_to;
        /* Called when an MMP block has been taken, and with is_held false when it was given back. The caller
         * may keep a process ready that writes the `len` bytes to `at` of `fd` should this one be killed. */
        void (*mmp_guard)(void *to, bool is_held, int fd, uint64_t at, const void *clean, size_t len);
        void *mmp_guard_to;
        const char *root; /* stands for "/" where /proc and /sys are looked at; NULL: the machine itself */
};

enum blkup_lazyinit_outcome {
        BLKUP_LAZYINIT_DONE,    /* nothing is left to do */
        BLKUP_LAZYINIT_LEFT,    /* work is left: only_check, or stopped */
        BLKUP_LAZYINIT_REFUSED, /* left alone; see refusal */
};

struct blkup_lazyinit_result {
        enum blkup_lazyinit_outcome outcome;
        enum blkup_lazyinit_refusal refusal;
        char reason[256]; /* of a refusal: what was seen, where. Of DONE without work: perhaps why */
        bool has_group_checksums; /* without them the flags mean nothing, and there is nothing to do */
        bool was_stopped;

        uint32_t groups, groups_left_before, groups_left;
        uint32_t groups_stale; /* verify: flagged, but the table held something */
        uint64_t bytes_todo;   /* of tables that were not flagged, and with verify of stale ones */
        uint64_t bytes_already_zero, bytes_written, bytes_offloaded, bytes_punched, bytes_journal;
        uint64_t requests, flushes, batches, offload_refusals;
        uint64_t ns;           /* of the run without opening and checking */
        uint64_t plan_ns;      /* of opening and checking */
        uint64_t busy_ns, wait_ns, yield_ns; /* background: at work, waiting, waiting for others */
        uint64_t last_unit_ns;               /* of busy_ns: the last unit, which no wait follows */
        uint32_t units, largest_unit_groups; /* background */
        int64_t allocated_change_bytes;      /* regular files: how st_blocks changed */
        bool library_asked;    /* libext2fs was there and agreed */
        bool is_offloaded;     /* offload was used at least once */
};

/*
 * Finishes (or checks) the file system on PATH: a block device or a regular file.
 *
 * Opens it exclusively (O_EXCL, flock on the whole disk as udev respects it; a file: a lock of the open file
 * description, a look for loop devices on it and for processes that have it open for writing), checks
 * everything that the kernel would, and some more, and only then writes.
 *
 * 0: *ret tells what happened; a refusal is no error. Negative errno: could not be opened, a read or write
 * failed (the flags of the groups concerned stay clear), -ENOMEM; err has the message, and *ret is filled as
 * far as it came.
 */
int blkup_lazyinit_run(const char *path, const struct blkup_lazyinit_options *o,
                       struct blkup_lazyinit_result *ret, struct blkup_error *err);

/* How far a file system is, mounted or not: reads flags only, without checks and without locks. */
struct blkup_lazyinit_status {
        uint32_t groups, groups_left;
        uint64_t bytes_left;
        bool has_group_checksums;
};
int blkup_lazyinit_status(const char *device, struct blkup_lazyinit_status *ret, struct blkup_error *err);

/*
 * Pacing in virtual time: what the policies of the kernel and of this library make of the same work.
 */
enum blkup_lazyinit_policy {
        BLKUP_LAZYINIT_JIFFIES, /* the kernel before 5.13: the wait is a multiple of the ticks one group took
                                 */
        BLKUP_LAZYINIT_NS,      /* the kernel since: of its ns, rounded down to ticks, and frozen */
        BLKUP_LAZYINIT_BLKUP,   /* ours: of the median of recent units, absolute deadlines, no ticks */
};
struct blkup_lazyinit_sim {
        enum blkup_lazyinit_policy policy;
        unsigned hz;
        uint32_t groups;
        uint64_t group_ns;      /* time of every group; 0: exponential, see below */
        uint64_t base_ns, exp_mean_ns, seed; /* with group_ns 0: base + Exp(mean), from this seed */
        unsigned wait_mult;
};
struct blkup_lazyinit_sim_result {
        uint64_t wait_jiffies; /* the frozen wait; of our policy: the last wait, rounded down to ticks */
        uint64_t total_ns;     /* start of the first group to the end of the last */
        uint64_t busy_ns;      /* of that, work */
};
/* -EINVAL: hz 0 or above 100000, no groups, a time or multiplier that overflows. */
int blkup_lazyinit_simulate(const struct blkup_lazyinit_sim *s, struct blkup_lazyinit_sim_result *ret);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
