/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which physical volumes a volume group has: read from one of them, so that no tool has to look at every
 * device to tell whether all are there. Read-only, nothing is believed before its checksum.
 *
 * Source: lvm2's lib/format_text/layout.h (label, pv_header, mda_header, raw_locn) and lvm.conf's grammar,
 * which the metadata is written in (man lvmsystemid, lvm.conf(5)).
 */
#ifndef BLKUP_BRINGUP_LVM_TEXT_H
#define BLKUP_BRINGUP_LVM_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct blkup_block;

#define BLKUP_LVM_MAX_PVS  1024u
#define BLKUP_LVM_MAX_TEXT (8u << 20)
#define BLKUP_LVM_NAME     128u /* NAME_LEN there */
#define BLKUP_LVM_UUID     39u  /* 32 characters, six dashes, a NUL */

struct blkup_lvm_text {
        char vg_name[BLKUP_LVM_NAME]; /* letters, digits, _ . + and -, the first no - */
        char vg_uuid[BLKUP_LVM_UUID];
        uint64_t seqno;
        size_t n_pvs;
        char (*pv_uuids)[BLKUP_LVM_UUID];
};

/* -EBADMSG: no metadata of a volume group; -E2BIG; -ENOMEM. */
BLKUP_MUST_CHECK int blkup_lvm_text_parse(const char *text, size_t n, struct blkup_lvm_text **ret);

/* From the areas that the label of b tells. 0 and NULL: none of them holds a text (a volume that is in no
 * group, or one that leaves it to others). -EBADMSG: damaged; what reading returns. */
BLKUP_MUST_CHECK int blkup_lvm_text_read(struct blkup_block *b, struct blkup_lvm_text **ret);

struct blkup_lvm_text *blkup_lvm_text_free(struct blkup_lvm_text *t); /* NULL-safe, returns NULL */

#endif
