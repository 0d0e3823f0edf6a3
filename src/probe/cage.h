/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The cage: bytes of a device are looked at by a child that can read from and write to one socket, and end.
 * Nothing else: seccomp's strict mode kills it at any other system call. A crafted device that takes the
 * parser over gets a process that can open, write and start nothing, and whose answer is text that is checked
 * before it is believed.
 *
 * How the two talk. Memory that both see holds the child's prober, with its arena, and a mailbox; a byte on a
 * socket says whose turn it is. The engine runs in the child as it does anywhere; its block device asks the
 * parent, who reads into the arena. The parent copies each request and each answer before it checks them,
 * because the child can write there at any time, and follows no pointer from there.
 *
 * Private to src/probe; the public face is blkup_probe_set_cage().
 */
#ifndef BLKUP_PROBE_CAGE_H
#define BLKUP_PROBE_CAGE_H

#include "probe/engine.h"
#include "probe/part-entry.h"

struct blkup_cage;

/* Starts the child, and does not wait for it. -ENOSYS: this kernel has no seccomp; -ENOMEM; what fork()
 * returns. */
BLKUP_MUST_CHECK int blkup_cage_new(struct blkup_cage **ret);
/* A cage with the child of another one, which then serves both, one at a time; each may be used by a thread
 * of its own, and ended before the other. Who finds it busy for 5 ms gets a child of its own, or waits for
 * two seconds where none can be made. What is read first of a device is read before the child is waited for.
 * -ENOMEM. */
BLKUP_MUST_CHECK int blkup_cage_share(struct blkup_cage *with, struct blkup_cage **ret);

/* How long the child may take between two messages before it is taken for dead; 20 s unless set. */
void blkup_cage_set_timeout(struct blkup_cage *c, int ms);

/* Ends the child, unless another cage has it. NULL-safe, returns NULL. */
struct blkup_cage *blkup_cage_unref(struct blkup_cage *c);

/*
 * blkup_engine_run() in the child: p's settings and p->block go in, p's result comes out. A child that dies
 * or is stopped is replaced once, and its device read again. When there is no result p's is empty:
 * -EPIPE: two died over this device, or one talked nonsense or took CPU until its time was over;
 * -ECANCELED: two were killed (SIGKILL), stopped or did not get to run: nothing is known of the device;
 * -ENOSYS: it could not be shut in, and has looked at nothing. What fork() returns: there is no child.
 */
BLKUP_MUST_CHECK int blkup_cage_run(struct blkup_cage *c, struct blkup_probe *p);

/* blkup_part_entry_search() in the child. 1: found; 0: not; -EPIPE, -ECANCELED as above. */
BLKUP_MUST_CHECK int blkup_cage_search(struct blkup_cage *c, struct blkup_probe *p,
                                       const struct blkup_part_wanted *w, struct blkup_partition *ret);

#endif
