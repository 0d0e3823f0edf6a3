/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which mount waits for which. Parents before children, through resolved links; what a source lies on before
 * what uses it; file order where it matters (the same mount point, the same device, a bind and a mount below
 * its source).
 *
 * An edge that would close a circle is left out: rules are tried in the order of their weight, so that the
 * one that gives way is file order or a source, never "parents before children".
 */
#ifndef BLKUP_MOUNT_GRAPH_H
#define BLKUP_MOUNT_GRAPH_H

#include <limits.h>

#include "mount/mounter.h"

struct blkup_mount_edge {
        size_t on;
        const char *why; /* a constant */
};

struct blkup_mount_vertex {
        char *target;            /* canonical; NULL: none */
        char *places[8];         /* canonical: what it is made from; NULL-terminated */
        char *device;            /* canonical path of its device, or NULL */
        dev_t rdev;
        bool is_bind;
        bool has_resolved_links; /* the paths as written are not the canonical ones */
        struct blkup_mount_edge *edges;
        size_t n_edges, edge_cap;
};

struct blkup_mount_graph {
        struct blkup_mount_vertex *v;
        size_t n;
        size_t n_dropped; /* edges that would have closed a circle */
};

/* Resolves the places of request q again, into *v (its edges stay). */
BLKUP_MUST_CHECK int blkup_mount_vertex_places(struct blkup_mounter *m, const struct blkup_mount_request *q,
                                               bool look_up_device, struct blkup_mount_vertex *v);
void blkup_mount_vertex_forget_places(struct blkup_mount_vertex *v);

/* Why must i come after j, by their places alone? NULL: it need not. */
const char *blkup_mount_why_after(const struct blkup_mount_vertex *i, const struct blkup_mount_vertex *j);

/* i waits for on, unless that would close a circle (-ELOOP). -ENOMEM. */
BLKUP_MUST_CHECK int blkup_mount_graph_add(struct blkup_mount_graph *g, size_t i, size_t on, const char *why);

#endif
