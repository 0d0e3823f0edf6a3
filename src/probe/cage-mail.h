/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the cage's two sides share: the words on the socket, and the mailbox. Private to src/probe. */
#ifndef BLKUP_PROBE_CAGE_MAIL_H
#define BLKUP_PROBE_CAGE_MAIL_H

#include "probe/part-entry.h"

/* The words; one byte each, and who gets one has the next turn. */
enum {
        /* to the child */
        BLKUP_CAGE_RUN = 'R',
        BLKUP_CAGE_SEARCH = 'S',
        BLKUP_CAGE_ANSWER = 'A',
        /* from the child */
        BLKUP_CAGE_READY = 'y',
        BLKUP_CAGE_NO_SECCOMP = 'n',
        BLKUP_CAGE_READ = 'r',
        BLKUP_CAGE_SET_DIRECT = 'd',
        BLKUP_CAGE_LINE = 'l',
        BLKUP_CAGE_DONE = 'D',
};

#define BLKUP_CAGE_NAME 28    /* of a tag, with its NUL */
#define BLKUP_CAGE_VERSION 64 /* of a hit, with its NUL */

struct blkup_cage_request {
        uint64_t at, len;
        uint64_t to; /* offset in the child's arena */
        int64_t done_bytes;
        uint64_t ns;
};

struct blkup_cage_found {
        uint32_t n_tags;
        struct {
                char name[BLKUP_CAGE_NAME];
                uint16_t at, len;
        } tags[BLKUP_FOUND_TAGS];
        char text[BLKUP_FOUND_TEXT];
};

struct blkup_cage_hit {
        uint32_t format; /* index into blkup_formats */
        char version[BLKUP_CAGE_VERSION];
};

/* The mailbox. No pointers: what one side has is nothing to the other. */
struct blkup_cage_shared {
        /* from the parent, before RUN and SEARCH; the block's facts also after SET_DIRECT */
        bool excluded[BLKUP_MAX_FORMATS];
        uint32_t usages, flags;
        uint64_t area_at, area_size, session, budget;
        bool may_switch, wants_lines;
        struct blkup_block_info info;
        uint32_t align_bytes;
        bool one_submission;
        struct blkup_part_wanted wanted;

        /* from the child, with READ; the answers from the parent */
        uint32_t n_requests;
        struct blkup_cage_request requests[BLKUP_MAX_REQUESTS];

        /* SET_DIRECT, LINE */
        uint32_t direct;
        int32_t rc;
        char line[512];

        /* from the child, with DONE */
        uint32_t verdict, n_hits, n_partitions, partitions_cut;
        struct blkup_cage_found values, table;
        struct blkup_cage_hit hits[BLKUP_MAX_HITS];
        char trouble[256];
        struct blkup_partition partitions[BLKUP_MAX_PARTITIONS];
        uint32_t n_candidates;
        struct blkup_candidate candidates[BLKUP_MAX_CANDIDATES];
};

/* The child's life; fd is its end of the socket. Never returns. */
_Noreturn void blkup_cage_child(int fd, struct blkup_cage_shared *s, void *memory);

#endif
