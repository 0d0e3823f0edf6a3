/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the cage's two sides share: the words on the socket, and the mailbox. Private to src/probe. */
#ifndef BLKUP_PROBE_CAGE_MAIL_H
#define BLKUP_PROBE_CAGE_MAIL_H

#include <sys/types.h>

#include "probe/part-entry.h"

/* The words; one byte each, and who gets one has the next turn. */
enum {
        /* to the child */
        BLKUP_CAGE_RUN = 'R',
        BLKUP_CAGE_SEARCH = 'S',
        BLKUP_CAGE_HELLO = 'H', /* answered with DONE, and nothing else */
        BLKUP_CAGE_ANSWER = 'A',
        /* from the child */
        BLKUP_CAGE_NO_SECCOMP = 'n',
        BLKUP_CAGE_READ = 'r',
        BLKUP_CAGE_SET_DIRECT = 'd',
        BLKUP_CAGE_LINE = 'l',
        BLKUP_CAGE_DONE = 'D',
};

/* Seconds of processor time after which the kernel ends a child, in case its parent is gone and it does not
 * end its work; the parent takes a new one long before. */
#define BLKUP_CAGE_CPU_S 60

#define BLKUP_CAGE_NAME 28    /* of a tag, with its NUL */
#define BLKUP_CAGE_VERSION 64 /* of a hit, with its NUL */

struct blkup_cage_request {
        uint64_t at, len;
        uint64_t to; /* offset in the child's arena */
        int64_t done_bytes;
        uint64_t ns;
};

struct blkup_cage_tag {
        char name[BLKUP_CAGE_NAME];
        uint16_t at, len;
};

struct blkup_cage_found {
        uint32_t n_tags, used; /* of text */
        struct blkup_cage_tag tags[BLKUP_FOUND_TAGS];
        char text[BLKUP_FOUND_TEXT];
};

struct blkup_cage_hit {
        uint32_t format; /* index into blkup_formats */
        char version[BLKUP_CAGE_VERSION];
};

/* The mailbox. No pointers: what one side has is nothing to the other. What each run uses is at its end, and
 * so beside the arena. */
struct blkup_cage_shared {
        /* from the child, with DONE: as many as n_partitions and n_candidates say */
        struct blkup_partition partitions[BLKUP_MAX_PARTITIONS];
        struct blkup_candidate candidates[BLKUP_MAX_CANDIDATES];

        /* from the parent, before RUN and SEARCH; the block's facts also after SET_DIRECT */
        bool excluded[BLKUP_MAX_FORMATS];
        uint32_t usages, flags;
        uint64_t area_at, area_size, session, budget;
        bool may_switch, wants_lines;
        struct blkup_block_info info;
        uint32_t align_bytes;
        bool one_submission;
        struct blkup_part_wanted wanted;
        uint32_t
                n_ahead; /* with RUN: so many of the requests below were answered before they are asked for */

        /* from the child, with READ; the answers from the parent */
        uint32_t n_requests;
        struct blkup_cage_request requests[BLKUP_MAX_REQUESTS];

        /* SET_DIRECT, LINE */
        uint32_t direct;
        int32_t rc;
        char line[512];

        /* from the child, with DONE */
        uint32_t verdict, n_hits, n_partitions, partitions_cut, n_candidates;
        struct blkup_cage_found values, table;
        struct blkup_cage_hit hits[BLKUP_MAX_HITS];
        char trouble[256];
};

/* Maps what a run on a usual device touches in the parent, or in the child: a page fault each costs several
 * times as much. Where the kernel cannot (before 5.14), faults do it. */
void blkup_cage_populate(struct blkup_cage_shared *s, void *memory, bool is_child);

struct blkup_cage_birth {
        int fd; /* its end of the socket */
        pid_t parent;
        bool has_handlers;  /* signals may have handlers of the parent's */
        bool is_told_apart; /* a forbidden call is SIGSYS, where the kernel can; SIGKILL is from outside */
};

/* The child's life. It says nothing until it is asked, but that it cannot be shut in. Never returns. */
_Noreturn void blkup_cage_child(const struct blkup_cage_birth *birth, struct blkup_cage_shared *s,
                                void *memory);

#endif
