/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of coldplug share. */
#ifndef BLKUP_BRINGUP_COLD_H
#define BLKUP_BRINGUP_COLD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <blkup/coldplug.h>
#include <blkup/probe.h>

#include "base/error.h"
#include "host/mountinfo.h"
#include "host/sysfs.h"
#include "mount/hibernation.h"
#include "sync/pool.h"

struct blkup_cold_device {
        struct blkup_coldplug_device d; /* first: results point to it */
        struct blkup_coldplug *run;
        size_t index;
        uint32_t probe_node, end_node;
        uint64_t began_ns;   /* its probe; 0: not yet */
        bool is_over;        /* probed, or given up */
        bool has_owner;      /* an entry finishes and checks it */
        size_t owner;
        char *uuid_sub, *part_uuid, *part_label;
        uint32_t last_check; /* node of the last check on this disk; BLKUP_POOL_NONE */
        int last_pass;
};

struct blkup_cold_entry {
        struct blkup_coldplug *run;
        size_t index;
        char *types;
        uint32_t locate_node, finish_node, check_node, mount_node;
        bool is_tried, is_located, is_pending;
        bool is_mount_over;
        int locate_error;
};

/* A prober that waits for its next device. */
struct blkup_cold_prober {
        struct blkup_probe *p;
        struct blkup_cold_prober *next;
};

struct blkup_coldplug {
        unsigned refs; /* atomic: the caller's, and one of each node that has an argument */
        struct blkup_coldplug_settings s; /* after the run only the texts of ours are looked at */
        struct blkup_coldplug_ops ops;
        struct blkup_coldplug_result result;
        struct blkup_mounter *mounter, *careful; /* careful: looks for a hibernation image itself */
        struct blkup_mountinfo *mounts;
        struct blkup_hibernation_places places; /* of an image in a swap file */
        struct blkup_pool *pool; /* while it runs */
        char *root, *image_folder;

        pthread_cond_t changed; /* a device is over, a place for finishing is free */
        pthread_mutex_t lock; /* of what follows, and of devices and entries while the graph runs */
        struct blkup_cold_device **devices;
        size_t n_devices, device_cap;
        struct blkup_coldplug_entry *entries;
        struct blkup_cold_entry *cold; /* one an entry */
        size_t n_entries;
        struct blkup_cold_prober *free_probers;
        bool no_cage; /* this kernel has none */
        bool is_settled, is_closed; /* closed: no device will come any more */
        bool is_finished;           /* results are the caller's: late answers are dropped */
        size_t n_open;              /* devices that are not over */
        unsigned finishing;
        uint64_t longest_ns;        /* what the slowest answer so far took */
        uint64_t walked_ns;         /* when the devices were known */
        uint64_t settled_ns;        /* when `settled` was; 0: not yet */
        unsigned settled_worker;
        uint32_t settled_node;
        char *hibernation;
        uint64_t deadline_ns;       /* of --wait */
        struct blkup_cold_before *before; /* after the run; see below */
        size_t n_before;
};

static inline uint64_t blkup_cold_device_ns(const struct blkup_coldplug *c)
{
        return c->s.device_ns ? c->s.device_ns : UINT64_C(10000000000);
}

/* cold-walk.c: devices of this machine, or the images. */
BLKUP_MUST_CHECK int blkup_cold_walk(struct blkup_coldplug *c, struct blkup_error *err);
/* Looks again; adds what is new to the running graph. */
BLKUP_MUST_CHECK int blkup_cold_walk_again(struct blkup_coldplug *c);
struct blkup_cold_device *blkup_cold_device_free(struct blkup_cold_device *d);
/* A file, or a device by its path; *ret: its index. */
BLKUP_MUST_CHECK int blkup_cold_add_image(struct blkup_coldplug *c, const char *path, size_t *ret);

/* coldplug.c: the nodes of one device; with the lock while the graph runs. */
BLKUP_MUST_CHECK int blkup_cold_add_probe(struct blkup_coldplug *c, struct blkup_cold_device *d);

/* cold-entries.c: what is asked for. */
BLKUP_MUST_CHECK int blkup_cold_collect(struct blkup_coldplug *c, struct blkup_error *err);
/* Looks for the device of an entry. With the lock. True: decided, in ->is_located and ->locate_error. */
bool blkup_cold_locate(struct blkup_coldplug *c, size_t index);
/* All that wait for a device, after one has ended. With the lock. */
void blkup_cold_locate_pending(struct blkup_coldplug *c);

/* cold-probe.c: callbacks of the graph. */
blkup_pool_fn blkup_cold_run_probe, blkup_cold_run_end;
void blkup_cold_free_probers(struct blkup_coldplug *c);

/* cold-steps.c */
blkup_pool_fn blkup_cold_run_finish, blkup_cold_run_check, blkup_cold_run_mount;

/* cold-machine.c: the ops of the machine itself. */
void blkup_cold_fill_ops(struct blkup_coldplug *c);

/* What had to end before: steps by one number each, the probes of devices first, then `settled` and the
 * search for devices at the start, then the stages of entries. One list a step, as long as the run's results
 * are. */
struct blkup_cold_before {
        uint32_t *nodes; /* owned */
        uint32_t n;
};
static inline size_t blkup_cold_n_steps(const struct blkup_coldplug *c)
{
        return c->n_devices + 2 + c->n_entries * BLKUP_COLDPLUG_STAGES;
}
/* cold-report.c: while the pool is still there, with the lock. */
BLKUP_MUST_CHECK int blkup_cold_collect_edges(struct blkup_coldplug *c);

/* cold-report.c: after the run. */
BLKUP_MUST_CHECK int blkup_cold_report(struct blkup_coldplug *c);

/* Sets a step's text; keeps the old one when memory is exhausted. */
void blkup_cold_say(struct blkup_coldplug_step *s, const char *fmt, ...) BLKUP_PRINTF(2, 3);

#endif
