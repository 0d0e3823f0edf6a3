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
#include "bringup/crypttab.h"
#include "bringup/lvm-text.h"
#include "host/mountinfo.h"
#include "host/sysfs.h"
#include "mount/hibernation.h"
#include "sync/pool.h"

struct blkup_modules;

struct blkup_cold_device {
        struct blkup_coldplug_device d; /* first: results point to it */
        struct blkup_coldplug *run;
        size_t index;
        uint32_t probe_node, end_node;
        uint64_t began_ns; /* its probe; 0: not yet */
        uint64_t came_ns;  /* while the graph runs; 0: it was there before */
        size_t bringer;    /* of c->loads, after the run; SIZE_MAX: none */
        uint64_t diskseq;
        bool has_new_medium; /* the kernel has seen one since its probe began */
        unsigned n_users;                 /* atomic: nodes, jobs, steps, news and successors that hold it */
        uint64_t serial;                  /* stays the same when it is looked at again, and is as it was */
        struct blkup_cold_device *before; /* what it was when it was last looked at; held until it is over */
        unsigned n_changes;               /* how often the kernel said that something about it is new */
        unsigned n_late;                  /* how often it has answered after it was given up */
        bool is_due;                      /* to be looked at again */
        /* Gone only since it is looked at again: nobody is told, and it counts until another is known to
         * stand in its place. is_replaced: that one has not been made yet. */
        bool is_aside, is_replaced;
        bool is_over; /* probed, or given up */
        bool is_gone;
        bool is_taken;                        /* assembly has looked at it */
        bool may_be_late;                     /* no `end` node: the watcher gives it up */
        int32_t md_level;                     /* of a member of an array; INT32_MIN: not known */
        struct blkup_lvm_text *lvm;           /* of a member of a volume group; NULL: unreadable, or none */
        const struct blkup_cold_set *lvm_set; /* that it belongs to */
        char *dm_name, *dm_uuid;
        char *file;     /* of an image: its path without links; NULL: not known */
        bool has_owner; /* an entry finishes and checks it */
        size_t owner;
        char *uuid_sub, *part_uuid, *part_label;
        uint32_t last_check; /* node of the last check on this disk; BLKUP_POOL_NONE */
        int last_pass;
};

struct blkup_cold_entry {
        struct blkup_coldplug *run;
        size_t index;
        char *types;
        uint32_t locate_node, order_node, finish_node, check_node, mount_node;
        uint32_t parents_node;  /* BLKUP_POOL_NONE: it needs none of several */
        uint64_t circumstances; /* under which it was decided; see cold-again.c */
        uint64_t others;        /* causes besides, as many as there were when it had ended */
        bool has_others;
        uint64_t decided_ns;
        bool is_broken;      /* its nodes could not be made: try that again */
        bool is_ended;       /* what the pool knows of its end has been taken over */
        bool is_found;       /* somebody has mounted what had failed here */
        bool is_seen;        /* it was mounted at its place the last time that anybody looked */
        bool is_users;       /* somebody has unmounted it: it is left alone */
        bool is_carried_off; /* what it was mounted below has been taken away by us */
        char *place;         /* target as the kernel has it; NULL: the same */
        bool is_tried, is_located, is_pending;
        int locate_error;
        bool is_told;
        /* Entries whose mounts come before, with NEEDS_ORDER where that is all, and with NEEDS_ANY where
         * another for the same place does as well, or where it may be left out. */
        size_t *needs;
        size_t n_needs;
        size_t twin; /* the first entry for the same place; SIZE_MAX: itself */
        bool waits_for_parents;
        bool is_ordered; /* who it waits for beside its own stages is known */
};
#define BLKUP_COLD_NEEDS_ORDER ((size_t) 1 << (sizeof(size_t) * 8 - 1))
#define BLKUP_COLD_NEEDS_ANY   ((size_t) 1 << (sizeof(size_t) * 8 - 2))
#define BLKUP_COLD_NEEDS_INDEX (BLKUP_COLD_NEEDS_ANY - 1)

/* Something made of members. */
struct blkup_cold_set {
        struct blkup_coldplug_set s; /* first: results point to it */
        char *md_name;               /* /dev/md/NAME; NULL: not known */
        bool is_begun, is_started, is_warned;
        bool lacks_key; /* its key file was not there when there were so many causes: */
        uint64_t n_causes;
        uint64_t grace_until_ns; /* 0: nobody is waited for */
};

/* One call of a tool. */
struct blkup_cold_job {
        struct blkup_coldplug *run;
        struct blkup_cold_set *set;
        struct blkup_cold_device *d; /* NULL: the whole set */
        size_t crypt;                /* line of the crypttab, or SIZE_MAX */
        bool is_run;                 /* md: start it as it is */
        bool is_over;
        bool is_dropped;   /* atomic: no thread has it */
        uint64_t until_ns; /* given up then; 0: never */
        struct blkup_cold_job *next;
};

/* What is to be told, in order. */
struct blkup_cold_news {
        enum blkup_coldplug_event_kind kind;
        struct blkup_cold_device *device; /* held; NULL: none */
        size_t entry;                     /* index; SIZE_MAX none */
        char *name, *text;
        struct blkup_cold_news *next;
};

/* A prober that waits for its next device. */
struct blkup_cold_prober {
        struct blkup_probe *p;
        struct blkup_cold_prober *next;
};

/* cold-silent.c */
#define BLKUP_COLD_MAX_ASKED 16u
struct blkup_cold_silent {
        struct blkup_cold_asked {
                char name[64];
                uint64_t done; /* that it has answered */
        } asked[BLKUP_COLD_MAX_ASKED];
        size_t n;
        char names[256]; /* those that have answered nothing since the look before; "" none */
};

/* A node that loads, on its stack. With the lock, but for what is said. */
struct blkup_cold_loader {
        struct blkup_coldplug *run;
        struct blkup_cold_loader *next;
        /* Since then all that it loads is held by devices that do not answer; 0: it is not so. */
        uint64_t held_since_ns;
        char coming[64];                 /* a module that does not end its start; "" none */
        char behind[64];                 /* the last whose other devices were probed; that thread's */
        char names[256];                 /* of what does not answer */
        struct blkup_cold_silent silent; /* of the thread that tells of what is held alone */
        uint64_t looked_ns;
};

/* A module that was loaded, or what came before: finding out what is to be loaded. */
struct blkup_cold_load {
        char *name; /* NULL: finding out */
        uint64_t start_ns, end_ns, span;
        unsigned worker;
        size_t plan;     /* that found it; SIZE_MAX: none */
        uint32_t *needs; /* of these */
        uint32_t n_needs;
};

struct blkup_coldplug {
        unsigned refs; /* atomic: the caller's, and one of each node that has an argument */
        struct blkup_coldplug_settings s; /* after the run only the texts of ours are looked at */
        struct blkup_coldplug_ops ops;
        struct blkup_coldplug_result result;
        struct blkup_mounter *mounter, *careful; /* careful: looks for a hibernation image itself */
        struct blkup_mountinfo *mounts;          /* with the lock */
        uint64_t n_mounts_begun, n_mounts_read;  /* reads of it by stages; one at a time */
        struct blkup_hibernation_places places;  /* of an image in a swap file */
        struct blkup_pool *pool;                 /* while it runs */
        char *root, *image_folder;

        pthread_cond_t changed; /* a device is over, a place for finishing is free */
        pthread_mutex_t lock;   /* of what follows, and of devices and entries while the graph runs */
        struct blkup_cold_device **devices;
        size_t n_devices, device_cap;
        struct blkup_coldplug_entry *entries;
        struct blkup_cold_entry *cold; /* one an entry */
        size_t n_entries;
        struct blkup_cold_prober *free_probers;
        struct blkup_cold_prober *first_prober; /* whose cage others share, while it lives */
        pthread_cond_t prober_is_free;
        bool walk_is_due;           /* one was given up, since devices came and went meanwhile */
        unsigned n_probers;         /* with those in use */
        uint64_t n_given;           /* times one came back */
        unsigned n_doubled;         /* how often there may be twice as many */
        bool has_looker;            /* one of those who wait looks whether there may be more */
        bool no_cage;               /* this kernel has none */
        bool is_settled, is_closed; /* closed: no device will come any more */
        bool is_finished;           /* results are the caller's: late answers are dropped */
        size_t n_open;              /* devices that are not over */
        uint64_t last_gone_ns;      /* when one went */
        unsigned finishing;
        uint64_t longest_ns; /* what the slowest answer so far took */
        uint64_t walked_ns;  /* when the devices were known */
        uint64_t settled_ns; /* when `settled` was; 0: not yet */
        unsigned settled_worker;
        char settled_for[128]; /* what it waited for last; "" nothing */
        uint32_t settled_node;
        char *hibernation;
        const char **missed;              /* of s.only */
        uint64_t deadline_ns;             /* of --wait */
        struct blkup_cold_before *before; /* after the run; see below */
        size_t n_before;

        /* cold-watch.c */
        int uevent_fd, wake_fd, mounts_fd; /* -1: none */
        uint64_t n_serials;                /* of devices */
        uint64_t n_module_events;          /* modules that came, whoever loaded them */
        uint64_t n_causes;                 /* what may let another try end better: mounts, devices */
        uint64_t n_causes_seen;            /* when it was last looked what can be assembled */
        bool is_untidy;                    /* something is gone that may be freed */
        bool has_gone;                     /* since it was last looked what can be assembled */
        bool owns_uevent_fd, is_stopped, is_told_settled;
        size_t n_work;    /* jobs and modules under way: they may bring devices */
        unsigned n_tools; /* that run just now; atomic */
        size_t n_graces;  /* arrays whose last members are waited for */
        struct blkup_cold_news *news, **news_end;

        /* cold-assemble.c */
        struct blkup_cold_set **sets;
        size_t n_sets, set_cap;
        struct blkup_cold_job *jobs;
        pthread_mutex_t terminal; /* one question at a time */

        /* cold-modules.c */
        struct blkup_modules *modules;
        pthread_mutex_t modules_lock;
        /* Who has it takes what the kernel tells, and what that brings is known when he lets go. */
        pthread_mutex_t events_lock;
        struct blkup_cold_alias {
                char *text;
                bool is_due; /* modules of it are to be loaded, if they are not there */
        } * aliases;
        size_t n_aliases, alias_cap, n_due;
        bool is_told_missing; /* that this kernel's modules are not there */
        bool wants_alias_walk;
        unsigned n_loaders; /* nodes that load */
        struct blkup_cold_loader *loaders; /* those that have begun */
        size_t n_held; /* of n_work: loads that are held for so long that only --wait waits for them */
        bool lets_go;  /* nobody waits for loads that are held */
        struct blkup_cold_load *loads;
        size_t n_loads, load_cap;
        struct blkup_coldplug_module *bad_modules;
        size_t n_bad_modules, n_modules, bad_cap;

        /* cold-copies.c */
        struct blkup_coldplug_copy *copies;
        size_t n_copies, copy_cap;
};

/* Who holds a device may read of it what does not change once it is over, without the lock. */
static inline void blkup_cold_hold(struct blkup_cold_device *d)
{
        (void) __atomic_add_fetch(&d->n_users, 1, __ATOMIC_RELAXED);
}

static inline void blkup_cold_let_go(struct blkup_cold_device *d)
{
        (void) __atomic_sub_fetch(&d->n_users, 1, __ATOMIC_RELEASE);
}

/* Is it attached, as far as anybody knows? */
static inline bool blkup_cold_is_here(const struct blkup_cold_device *d)
{
        return !d->is_gone || d->is_aside;
}

static inline bool blkup_cold_is_held(const struct blkup_cold_device *d)
{
        return __atomic_load_n(&d->n_users, __ATOMIC_ACQUIRE) > 0;
}

/* May a device still come that nobody has seen? With the lock. */
static inline bool blkup_cold_may_come(const struct blkup_coldplug *c)
{
        if (c->is_stopped)
                return false;
        return c->n_open > 0 || c->n_work > c->n_held || c->n_graces > 0 || !c->is_closed;
}

static inline uint64_t blkup_cold_device_ns(const struct blkup_coldplug *c)
{
        return c->s.device_ns ? c->s.device_ns : UINT64_C(10000000000);
}

/* One node; ret NULL: nobody will ask of it. drop: arg belongs to the run, of which this takes a share. */
BLKUP_MUST_CHECK int blkup_cold_add_node(struct blkup_coldplug *c, const char *name, uint64_t cost_ns,
                                         uint64_t timeout_ns, blkup_pool_fn *run, void *arg,
                                         void (*drop)(void *arg), const uint32_t *wait_for, uint32_t *ret);
void blkup_cold_drop_run(void *run);
void blkup_cold_drop_entry(void *entry);
/* The nodes of an entry, once more; with the lock. Those before are forgotten. */
BLKUP_MUST_CHECK int blkup_cold_rearm(struct blkup_coldplug *c, size_t entry);
/* Has the chain of an entry ended? Then what only the pool knows of it is taken over. With the lock. */
bool blkup_cold_has_ended(struct blkup_coldplug *c, size_t entry);

/* cold-again.c: what is tried again, in a run that stays. All with the lock but blkup_cold_look_again(). */
/* A device that is looked at again: is it as it was? */
bool blkup_cold_is_same(const struct blkup_cold_device *a, const struct blkup_cold_device *b);
/* Of a new device: whose place it takes. */
void blkup_cold_find_before(struct blkup_coldplug *c, struct blkup_cold_device *d);
/* Devices that were looked at again and have answered take the place of what they were. */
void blkup_cold_settle_again(struct blkup_coldplug *c);
/* What has changed about a device, or about all that are held by others. */
void blkup_cold_set_due(struct blkup_coldplug *c, uint32_t dev_major, uint32_t dev_minor);
void blkup_cold_set_held_due(struct blkup_coldplug *c);
/* Looks at those that are due. Only the watch calls it. */
void blkup_cold_look_again(struct blkup_coldplug *c);
/* Of an entry that is decided now: what it depends on. *ret_is_open: a device of it has not answered. */
uint64_t blkup_cold_circumstances(const struct blkup_coldplug *c, size_t entry, bool *ret_is_open);
/* Entries whose circumstances are others begin anew. */
void blkup_cold_try_again(struct blkup_coldplug *c, uint64_t now, uint64_t *ret_next);
/* The mount table is t now, which belongs to the run then. */
void blkup_cold_take_mounts(struct blkup_coldplug *c, struct blkup_mountinfo *t);
/* Who has unmounted what is not in it any more? After the events that came before it was read. */
void blkup_cold_judge_mounts(struct blkup_coldplug *c);
/* Frees what nobody asks of any more. */
void blkup_cold_tidy(struct blkup_coldplug *c);

/* cold-watch.c: what comes and goes while the graph runs. */
BLKUP_MUST_CHECK int blkup_cold_listen(struct blkup_coldplug *c); /* before the first walk */
void blkup_cold_unlisten(struct blkup_coldplug *c);
blkup_pool_fn blkup_cold_run_watch;
/* What the kernel has told until now is known when this returns: the devices that a module or a tool has
 * brought are there. Where it tells nothing, /sys is walked. */
void blkup_cold_catch_up(struct blkup_coldplug *c);
void blkup_cold_wake(struct blkup_coldplug *c);
/* With the lock. text may be NULL. */
void blkup_cold_tell(struct blkup_coldplug *c, enum blkup_coldplug_event_kind kind, size_t device,
                     size_t entry, const char *name, const char *text);
void blkup_cold_tell_entry(struct blkup_coldplug *c, size_t entry);
/* Something that may bring devices has ended, or was given up. With the lock. */
void blkup_cold_work_over(struct blkup_coldplug *c);

/* cold-assemble.c */
/* What can be assembled now; with the lock. */
void blkup_cold_assemble(struct blkup_coldplug *c);
/* Gives up, and starts what has waited long enough; *ret_next: when to come again. With the lock. */
void blkup_cold_assemble_due(struct blkup_coldplug *c, uint64_t now, uint64_t *ret_next);
/* Reads what only the device knows, in the thread of its probe. */
void blkup_cold_read_member(struct blkup_cold_device *d, bool is_md);
/* The device that lies behind a locked one, or NO_DEVICE; starts unlocking it. With the lock. */
size_t blkup_cold_behind(struct blkup_coldplug *c, size_t device);
/* A btrfs: are all of its members there? With the lock. */
bool blkup_cold_is_whole(struct blkup_coldplug *c, const struct blkup_cold_device *d);
/* Does a mapping or an array stand on d? is_so: where that cannot be seen. */
bool blkup_cold_stands_on(const struct blkup_coldplug *c, const struct blkup_cold_device *mapping,
                          const struct blkup_cold_device *d, bool is_so);
/* Of what has not become ready: why. With the lock. */
void blkup_cold_close_sets(struct blkup_coldplug *c);

/* cold-sets.c; all with the lock. */
struct blkup_cold_set *blkup_cold_find_set(struct blkup_coldplug *c, enum blkup_coldplug_set_kind kind,
                                           const char *uuid);
/* Makes it where there is none. NULL: no memory, or too many. */
struct blkup_cold_set *blkup_cold_get_set(struct blkup_coldplug *c, enum blkup_coldplug_set_kind kind,
                                          const char *uuid);
void blkup_cold_name_set(struct blkup_cold_set *set, const char *name);
/* Tells it, unless it has been told. */
void blkup_cold_fail_set(struct blkup_coldplug *c, struct blkup_cold_set *set,
                         enum blkup_coldplug_state state, int error, const char *text);
/* What was wrong before is not any more. */
void blkup_cold_succeed(struct blkup_cold_set *set);
void blkup_cold_end_grace(struct blkup_coldplug *c, struct blkup_cold_set *set);
/* d comes to a set, all other members of which have gone: what was made of those is nothing to it. */
void blkup_cold_renew_set(struct blkup_coldplug *c, struct blkup_cold_set *set,
                          const struct blkup_cold_device *d);
/* Frees sets of which no member is there, and jobs that are over. */
void blkup_cold_tidy_sets(struct blkup_coldplug *c);
void blkup_cold_free_sets(struct blkup_coldplug *c);

/* cold-modules.c */
/* The first walk over modaliases; a node. */
blkup_pool_fn blkup_cold_run_modules;
/* One more of them, unless there are many. With the lock. */
void blkup_cold_start_loader(struct blkup_coldplug *c);
/* Loads that others have to wait for, but for those that are held; with the lock. */
unsigned blkup_cold_n_loading(const struct blkup_coldplug *c);
/* Finds n_held anew; *next: when it may be another. With the lock. */
void blkup_cold_count_held(struct blkup_coldplug *c, uint64_t now, uint64_t *next);
/* A module that does not end its start, and what it waits for: "" none. With the lock. */
void blkup_cold_explain_held(const struct blkup_coldplug *c, char *text, size_t cap);
/* An alias more, of a device that came; with the lock. */
void blkup_cold_want_alias(struct blkup_coldplug *c, const char *alias);
/* Loads what is not there yet, in this thread, without the lock: "fs-xfs", "dm-mod". */
/* What that took goes to the step as what it waited for, with the lock. */
void blkup_cold_need_module(struct blkup_coldplug *c, const char *alias, struct blkup_coldplug_step *s);
void blkup_cold_need_fs(struct blkup_coldplug *c, const char *type, struct blkup_coldplug_step *s);
void blkup_cold_free_modules(struct blkup_coldplug *c);

/* cold-loads.c; all with the lock. SIZE_MAX: not noted. */
struct blkup_module_plan;
struct blkup_module_load;
size_t blkup_cold_note_plan(struct blkup_coldplug *c, uint64_t start_ns, uint64_t end_ns, unsigned worker);
void blkup_cold_note_loads(struct blkup_coldplug *c, struct blkup_module_plan *p,
                           const struct blkup_module_load *done, size_t plan);
/* After the run: of each device which load brought it. */
void blkup_cold_find_bringers(struct blkup_coldplug *c);
void blkup_cold_free_loads(struct blkup_coldplug *c);

/* cold-behind.c: of a module that does not end its start, the devices that nobody drives. No lock. */
void blkup_cold_probe_behind(struct blkup_coldplug *c, char *module);

/* cold-silent.c: looks once more; the first time nothing is found. */
void blkup_cold_look_for_silent(const char *root, struct blkup_cold_silent *s);

/* cold-tool.c */
struct blkup_cold_tool {
        const char *program; /* absolute */
        const char *const *argv;
        bool has_terminal; /* it keeps our standard input */
        bool is_to_end;    /* whatever becomes of us: it gets no signal of ours, and no pipe that breaks */
        char *out;         /* NULL: what it prints counts as errors */
        size_t out_cap;
        char *text; /* the last line of its errors */
        size_t cap;
};
/* Runs it with an empty environment. The exit code (8 for a signal), or a negative errno. */
BLKUP_MUST_CHECK int blkup_cold_spawn(const struct blkup_cold_tool *t);
/* PREFIX/NAME, the first that may be run. */
BLKUP_MUST_CHECK int blkup_cold_find_tool(const char *name, char *ret, size_t cap);

/* cold-walk.c: devices of this machine, or the images. */
BLKUP_MUST_CHECK int blkup_cold_walk(struct blkup_coldplug *c, struct blkup_error *err);
/* Looks again; adds what is new to the running graph. With `gone` what is not there any more goes, too. */
BLKUP_MUST_CHECK int blkup_cold_walk_again(struct blkup_coldplug *c, bool gone);
/* The same for one device. Partitions have events of their own. */
BLKUP_MUST_CHECK int blkup_cold_look_at(struct blkup_coldplug *c, uint32_t dev_major, uint32_t dev_minor);
/* With the lock. */
void blkup_cold_set_gone(struct blkup_coldplug *c, struct blkup_cold_device *d);
/* By its number, not one that has gone; NULL. With the lock. */
struct blkup_cold_device *blkup_cold_by_devno(const struct blkup_coldplug *c, uint32_t dev_major,
                                              uint32_t dev_minor);
struct blkup_cold_device *blkup_cold_device_free(struct blkup_cold_device *d);
/* A file, or a device by its path; *ret: its index. */
BLKUP_MUST_CHECK int blkup_cold_add_image(struct blkup_coldplug *c, const char *path, size_t *ret);

/* cold-order.c; with the lock while the graph runs. */
/* Before the graph runs. */
BLKUP_MUST_CHECK int blkup_cold_order_mounts(struct blkup_coldplug *c);
/* fs_passno: of those that are there when `settled` ends, all of one number before the next. One point a
 * number keeps the edges few. */
BLKUP_MUST_CHECK int blkup_cold_order_passes(struct blkup_coldplug *c, uint32_t settled);
/* For who needs one of several: a node that waits until one of them is located, or none will be. */
BLKUP_MUST_CHECK int blkup_cold_add_parents(struct blkup_coldplug *c, struct blkup_cold_entry *cold);
/* Those for whom one has been located, with the lock. */
void blkup_cold_let_children_go(struct blkup_coldplug *c);
/* Is none of several mounted that it needs one of? *ret: one of them. With the lock. */
bool blkup_cold_lacks_parent(struct blkup_coldplug *c, const struct blkup_cold_entry *cold, size_t *ret);
/* Has it to wait for one that does? waits_too: one an entry. With the lock. */
bool blkup_cold_has_to_wait(const struct blkup_coldplug *c, const struct blkup_cold_entry *cold,
                            const bool *waits_too);
/* Does --only name the entry by what stands in its line? */
bool blkup_cold_is_named(const struct blkup_coldplug *c, size_t entry);
/* An entry whose device is known: which others that are there come before it. */
void blkup_cold_order(struct blkup_coldplug *c, struct blkup_cold_entry *cold);

/* coldplug.c: the nodes of one device; with the lock while the graph runs. */
BLKUP_MUST_CHECK int blkup_cold_add_probe(struct blkup_coldplug *c, struct blkup_cold_device *d);

/* cold-entries.c: what is asked for. */
BLKUP_MUST_CHECK int blkup_cold_collect(struct blkup_coldplug *c, struct blkup_error *err);
/* Looks for the device of an entry. With the lock. True: decided, in ->is_located and ->locate_error. */
bool blkup_cold_locate(struct blkup_coldplug *c, size_t index);
/* Does an entry still look for a device that may come? With the lock. */
bool blkup_cold_is_waiting(const struct blkup_coldplug *c);
/* Does d carry the tag, or lie at the path? With the lock. */
/* Which of `only` no entry is named by: to c->result. */
int blkup_cold_find_missed(struct blkup_coldplug *c);
bool blkup_cold_carries(const struct blkup_cold_device *d, const char *name, const char *value);
/* Is there a node or a link at the path, and is it d's? */
bool blkup_cold_is_node(const struct blkup_coldplug *c, const struct blkup_cold_device *d, const char *path);
/* Is d meant where another one carries the same tag? One that stands under it is not. */
bool blkup_cold_counts(const struct blkup_cold_device *d);
bool blkup_cold_belong_together(const struct blkup_cold_device *a, const struct blkup_cold_device *b);
/* All that wait for a device, after one has ended. With the lock. */
void blkup_cold_locate_pending(struct blkup_coldplug *c);

/* cold-copies.c; with the lock. */
/* Of one type, and with one UUID: of members the same one. */
/* Is it the loop device over an image? */
bool blkup_cold_is_loop_of(const struct blkup_coldplug *c, uint32_t dev_major, uint32_t dev_minor,
                           const struct blkup_cold_device *image);
bool blkup_cold_is_copy(const struct blkup_cold_device *a, const struct blkup_cold_device *b);
/* d has answered: does another one that is in use carry the same? */
void blkup_cold_note_copies(struct blkup_coldplug *c, const struct blkup_cold_device *d);
void blkup_cold_free_copies(struct blkup_coldplug *c);

/* cold-names.c */
struct blkup_cold_tag {
        const char *name, *value;
        char text[1024];
};
/* UUID=X and /dev/disk/by-uuid/X; false: no tag. The value lies in source or in *ret. */
bool blkup_cold_split_tag(const char *source, struct blkup_cold_tag *ret);
/* By its name, by what else it is called, or by a node or link. With the lock. */
bool blkup_cold_is_path(const struct blkup_coldplug *c, const struct blkup_cold_device *d, const char *path);
/* Is d what a tag or a path means? With the lock. */
bool blkup_cold_may_mean(const struct blkup_coldplug *c, const struct blkup_cold_device *d,
                         const char *source);

/* cold-probe.c: callbacks of the graph. */
blkup_pool_fn blkup_cold_run_probe, blkup_cold_run_end;
/* Nobody waits for d any more; with the lock. */
void blkup_cold_set_over(struct blkup_coldplug *c, struct blkup_cold_device *d);
void blkup_cold_give_up(struct blkup_coldplug *c, struct blkup_cold_device *d, int error, const char *text);

/* cold-probers.c. Taking one may fail for want of memory, a descriptor or a process. What is taken is given
 * back, by the thread that took it. */
int blkup_cold_take_prober(struct blkup_coldplug *c, struct blkup_cold_prober **ret);
void blkup_cold_give_prober(struct blkup_coldplug *c, struct blkup_cold_prober *e);
void blkup_cold_prepare_prober(struct blkup_coldplug *c);
void blkup_cold_free_probers(struct blkup_coldplug *c);
/* What comes after the last device needs the memory, and no children. Not with the lock. */
void blkup_cold_free_probers_if_last(struct blkup_coldplug *c);

/* cold-steps.c */
blkup_pool_fn blkup_cold_run_finish, blkup_cold_run_check, blkup_cold_run_mount;
/* Is a device mounted anywhere, or at the place of the entry (or_below: or under what is there)? Both with
 * the lock. */
bool blkup_cold_is_there(const struct blkup_coldplug *c, const struct blkup_cold_device *d);
bool blkup_cold_is_at_place(const struct blkup_coldplug *c, size_t entry, bool or_below);
/* Is a device mounted, by its number? Without the lock. */
bool blkup_cold_is_mounted(struct blkup_coldplug *c, uint32_t dev_major, uint32_t dev_minor);
/* Was all of it well? */
bool blkup_cold_is_good(const struct blkup_coldplug_entry *e);

/* cold-swap.c: path, which is d or else a file, is used for swap from now on. 0 or a negative errno; the
 * state and the text go to *step. Without the lock. */
BLKUP_MUST_CHECK int blkup_cold_swap_on(struct blkup_coldplug *c, const char *path,
                                        const struct blkup_cold_device *d, const char *options,
                                        struct blkup_coldplug_step *step);
/* Is it in use for swap already? */
bool blkup_cold_is_swapped_on(const struct blkup_coldplug *c, const char *path);
BLKUP_MUST_CHECK int blkup_cold_machine_swap(void *to, const char *path, int flags);

/* cold-machine.c: the ops of the machine itself. */
void blkup_cold_fill_ops(struct blkup_coldplug *c);

/* What had to end before: steps by one number each, the probes of devices first, then `settled` and the
 * search for devices at the start, then the stages of entries, then assemblies, then loads. One list a step,
 * as long as the run's results are. */
struct blkup_cold_before {
        uint32_t *nodes; /* owned */
        uint32_t n;
};
static inline size_t blkup_cold_n_steps(const struct blkup_coldplug *c)
{
        return c->n_devices + 2 + c->n_entries * BLKUP_COLDPLUG_STAGES + c->n_sets + c->n_loads;
}
/* cold-report.c: while the pool is still there, with the lock. */
BLKUP_MUST_CHECK int blkup_cold_collect_edges(struct blkup_coldplug *c);

/* cold-report.c: after the run. */
BLKUP_MUST_CHECK int blkup_cold_report(struct blkup_coldplug *c);

/* Sets a step's text; keeps the old one when memory is exhausted. */
void blkup_cold_say(struct blkup_coldplug_step *s, const char *fmt, ...) BLKUP_PRINTF(2, 3);
/* It waited for that until now; the longest counts, what is too short to be seen does not. */
void blkup_cold_note_wait(struct blkup_coldplug_step *s, uint64_t since_ns, const char *what,
                          const char *name);

#endif
