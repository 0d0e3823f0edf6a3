/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts of "blkid": cmd-blkid.c has the options and -p, the others what is done without -p. */
#ifndef BLKUP_CLI_BLKID_H
#define BLKUP_CLI_BLKID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/cmd-probe.h"
#include "host/sysfs.h"

/* What "blkid" without -p shows of one device: a copy, because many are looked at before one is printed. */
struct blkup_cli_blkid_device {
        char *name;
        uint32_t dev_major, dev_minor; /* 0, 0: no block device */
        int priority;                  /* of two with the same tag the higher one is meant */
        bool is_scanned;               /* nobody named it: only a find is worth a word */

        enum blkup_verdict verdict;
        struct blkup_cli_probe_said said;
        struct blkup_value *values;
        size_t n_values;
};

/* The value of a tag, or NULL. */
const char *blkup_cli_blkid_value(const struct blkup_cli_blkid_device *d, const char *tag);

struct blkup_cli_blkid_devices {
        struct blkup_cli_blkid_device *devices;
        size_t n, cap;
};

/*
 * blkid-scan.c
 */
/* -ENOMEM. The name is copied. */
BLKUP_MUST_CHECK int blkup_cli_blkid_add(struct blkup_cli_blkid_devices *l, const char *name);
/* Adds what blkid would scan: all block devices with a medium, a disk only when it has no partitions, and no
 * drive whose medium cannot have any. NULL root: this machine. -ENOMEM, or what reading sysfs returned. */
BLKUP_MUST_CHECK int blkup_cli_blkid_add_all(struct blkup_cli_blkid_devices *l, const char *root,
                                             struct blkup_error *err);
typedef bool blkup_cli_blkid_wanted(const void *to, const struct blkup_cli_blkid_device *d);
/* Probes all of them, several at a time; who does not answer within ten seconds is BLKUP_VERDICT_UNKNOWN.
 * is_wanted (may be NULL): when one of them is, the others are waited for a second only, with `to` as its
 * argument. -ENOMEM. */
BLKUP_MUST_CHECK int blkup_cli_blkid_probe(struct blkup_cli_blkid_devices *l,
                                           blkup_cli_blkid_wanted *is_wanted, const void *to);
void blkup_cli_blkid_free(struct blkup_cli_blkid_devices *l);
/* The name people use for a device node: that of device-mapper where it has one. out: PATH_MAX bytes. */
void blkup_cli_blkid_canonical(const char *path, char *out, size_t cap);

/*
 * blkid-topology.c: -i
 */
#define BLKUP_CLI_BLKID_MAX_TOPOLOGY 8
struct blkup_cli_blkid_topology {
        struct blkup_value values[BLKUP_CLI_BLKID_MAX_TOPOLOGY];
        size_t n;
        char text[BLKUP_CLI_BLKID_MAX_TOPOLOGY][24];
};
/* -ENOTBLK: no block device. */
BLKUP_MUST_CHECK int blkup_cli_blkid_topology(const char *path, const char *root,
                                              struct blkup_cli_blkid_topology *ret, struct blkup_error *err);

/*
 * blkid-list.c: -o list
 */
struct blkup_mountinfo;
struct blkup_cli_blkid_list; /* what is mounted, and where */
/* NULL: no memory. Without /proc or /sys nothing is mounted. */
struct blkup_cli_blkid_list *blkup_cli_blkid_list_new(void);
struct blkup_cli_blkid_list *blkup_cli_blkid_list_free(struct blkup_cli_blkid_list *l); /* NULL-safe */
void blkup_cli_blkid_list_heading(void);
void blkup_cli_blkid_list_print(const struct blkup_cli_blkid_list *l, const struct blkup_cli_blkid_device *d);

#endif
