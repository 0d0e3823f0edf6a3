/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The reader: planned units and asked-for ranges become pieces of the view. Private to src/probe. */
#ifndef BLKUP_PROBE_READER_H
#define BLKUP_PROBE_READER_H

#include "probe/engine.h"

/* Reads the units of u (may be NULL) and the view's needs, together, in one submission; empties the needs.
 * What cannot be read goes into the view's bad list and p->trouble. */
void blkup_reader_load(struct blkup_probe *p, const struct blkup_units *u);

/* The requests for the units of u, without sending them: what blkup_reader_load() would send for an empty
 * view. ret has room for BLKUP_MAX_REQUESTS. */
size_t blkup_reader_batch(struct blkup_probe *p, const struct blkup_units *u,
                          struct blkup_block_request *ret);

/* One submission to p->block, counted, logged and traced. Requests are relative to the device; each is
 * answered. */
void blkup_reader_submit(struct blkup_probe *p, struct blkup_block_request *r, size_t n);

void blkup_reader_note_bad(struct blkup_probe *p, uint64_t at, uint64_t len);

#endif
