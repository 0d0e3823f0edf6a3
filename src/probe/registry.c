/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The order in which formats are looked for. It is documented knowledge, and the tie-break:
 * - what hides or spans a file system comes before it: RAID members, volume managers, encryption. Their hit
 * ends the search (usage raid and crypto), so a mirror's half is not taken for the file system inside.
 * - crypto_LUKS stands once, behind LVM. util-linux has it at the front a second time, for a drive that says
 * by itself that it is locked (OPAL). That takes the drive's answer to a command, and here formats see bytes
 * and nothing else.
 * - vfat's magics are the weakest of those that a floppy has, so a tiny device's first stage ends with it.
 * - of the ext family the narrowest claim comes first; jbd last, because only a journal device is left for
 * it.
 *
 * To add a format: one file in formats/, one line here. CONTRIBUTING.md shows it with jbd.
 */
#include "probe/format.h"

/* A test can put formats of its own in front (tests/unit/test-probe-cage.c). */
#ifndef BLKUP_REGISTRY
#define BLKUP_REGISTRY "probe/registry.def"
#endif

#define FORMAT(name) extern const struct blkup_format blkup_format_##name;
#define TABLE(name) extern const struct blkup_table blkup_table_##name;
#include BLKUP_REGISTRY
#undef FORMAT
#undef TABLE

const struct blkup_format *const blkup_formats[] = {
#define FORMAT(name) &blkup_format_##name,
#define TABLE(name)
#include BLKUP_REGISTRY
#undef FORMAT
#undef TABLE
};
const unsigned blkup_n_formats = BLKUP_ARRAY_SIZE(blkup_formats);

const struct blkup_table *const blkup_tables[] = {
#define FORMAT(name)
#define TABLE(name) &blkup_table_##name,
#include BLKUP_REGISTRY
#undef FORMAT
#undef TABLE
};
const unsigned blkup_n_tables = BLKUP_ARRAY_SIZE(blkup_tables);
