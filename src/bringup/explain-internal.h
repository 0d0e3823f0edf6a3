/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef BLKUP_BRINGUP_EXPLAIN_INTERNAL_H
#define BLKUP_BRINGUP_EXPLAIN_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include <blkup/probe.h>

#include "bringup/explain.h"
#include "host/mountinfo.h"
#include "host/sysfs.h"

struct blkup_explainer {
        const char *root;
        struct blkup_probe *probe;
        struct blkup_mountinfo *mounts;
        bool mounts_are_read;
        struct blkup_sysblocks *blocks;
        bool blocks_are_read;
};

/* Text that grows in a buffer of the caller; what does not fit is cut. */
struct blkup_saying {
        char *text;
        size_t cap, len;
};
void blkup_say(struct blkup_saying *s, const char *fmt, ...) BLKUP_PRINTF(2, 3);

/* Makes e->probe, with its cage; it stays NULL without memory. */
void blkup_explainer_need_probe(struct blkup_explainer *e);
const struct blkup_mountinfo *blkup_explainer_mounts(struct blkup_explainer *e);
const struct blkup_sysblocks *blkup_explainer_blocks(struct blkup_explainer *e);

/* explain-device.c: says what on the device explains that it is not mounted as `type`; false: nothing does.
 */
bool blkup_explain_content(struct blkup_explainer *e, const struct blkup_mount_result *r,
                           struct blkup_saying *s);
/* What else there is to say of a device on which nothing was found. */
void blkup_explain_nothing(struct blkup_explainer *e, const struct blkup_mount_result *r,
                           struct blkup_saying *s);
/* The image or the device of a mount: a loop device is gone by the time that it is explained. */
const char *blkup_explain_name(const struct blkup_mount_result *r);
const char *blkup_explain_tool_of(const char *type);
bool blkup_explain_is_no_file_system(const char *type, const char **ret_hint);

/* explain-tree.c: why a bind, a move, a change of propagation was refused (-EINVAL); false: not known. */
bool blkup_explain_bind(struct blkup_explainer *e, const char *source, struct blkup_saying *s);
bool blkup_explain_move(struct blkup_explainer *e, const char *source, const char *target,
                        struct blkup_saying *s);
bool blkup_explain_no_mount_point(struct blkup_explainer *e, const char *target, struct blkup_saying *s);
bool blkup_explain_is_mounted(struct blkup_explainer *e, const char *target);

/* explain-who.c: who holds a device; false: nobody was found. */
bool blkup_explain_holder(struct blkup_explainer *e, const struct blkup_mount_result *r,
                          struct blkup_saying *s);
/* The mounted file system with the same UUID as this device's. */
bool blkup_explain_twin(struct blkup_explainer *e, const struct blkup_mount_result *r,
                        struct blkup_saying *s);
/* Who uses what is mounted at target; false: nobody was found. */
bool blkup_explain_users(struct blkup_explainer *e, const char *target, struct blkup_saying *s);
/* explain-members.c: how many devices that answer carry this UUID; the first goes to ret_first (cap bytes),
 * which may be NULL. */
size_t blkup_explain_count_members(struct blkup_explainer *e, const char *uuid, char *ret_first, size_t cap);

#endif
