/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Source for the protocol: io_uring(7), io_uring_setup(2), io_uring_enter(2). */
#include "block/uring.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"

#define ENTRIES_DEFAULT 64u
#define ENTRIES_MAX 1024u
/* An IORING_OP_READ carries its length in 32 bits, and the kernel cuts at this (MAX_RW_COUNT) anyway. */
#define READ_MAX UINT64_C(0x7ffff000)

enum state { NOT_TRIED, USABLE, REFUSED };

struct blkup_uring {
        enum state state;
        unsigned entries;
        int fd;
        void *rings; /* submission and completion ring, one mapping (IORING_FEAT_SINGLE_MMAP, Linux 5.4) */
        size_t rings_bytes;
        struct io_uring_sqe *sqes;
        size_t sqes_bytes;
        /* In the mappings, shared with the kernel. */
        uint32_t *sq_head, *sq_tail, *sq_array, *cq_head, *cq_tail;
        uint32_t sq_mask, cq_mask;
        struct io_uring_cqe *cqes;
};

static int sys_setup(unsigned entries, struct io_uring_params *p)
{
        return (int) syscall(SYS_io_uring_setup, entries, p);
}

static int sys_enter(int fd, unsigned to_submit, unsigned min_complete, unsigned flags)
{
        return (int) syscall(SYS_io_uring_enter, fd, to_submit, min_complete, flags, NULL, 0);
}

struct blkup_uring *blkup_uring_new(unsigned entries)
{
        struct blkup_uring *u;

        u = calloc(1, sizeof(*u));
        if (!u)
                return NULL;
        u->fd = -1;
        u->entries = entries == 0 ? ENTRIES_DEFAULT : (unsigned) blkup_min(entries, ENTRIES_MAX);
        return u;
}

static void tear_down(struct blkup_uring *u)
{
        if (u->sqes)
                (void) munmap(u->sqes, u->sqes_bytes);
        if (u->rings)
                (void) munmap(u->rings, u->rings_bytes);
        u->sqes = NULL;
        u->rings = NULL;
        u->fd = blkup_close(u->fd);
}

struct blkup_uring *blkup_uring_unref(struct blkup_uring *u)
{
        if (u) {
                tear_down(u);
                free(u);
        }
        return NULL;
}

void blkup_uring_refuse(struct blkup_uring *u)
{
        tear_down(u);
        u->state = REFUSED;
}

static void *map(int fd, size_t bytes, uint64_t what)
{
        void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, (off_t) what);

        return p == MAP_FAILED ? NULL : p;
}

static bool set_up(struct blkup_uring *u)
{
        /* COOP_TASKRUN (5.19): no interrupt when a read is done, as we are in the wait by then. SINGLE_ISSUER
         * and what needs it would tie a ring to one thread for good. */
        struct io_uring_params p = { .flags = IORING_SETUP_CLAMP | IORING_SETUP_COOP_TASKRUN };
        char *base;

        u->fd = sys_setup(u->entries, &p);
        if (u->fd < 0 && errno == EINVAL) {
                p = (struct io_uring_params) {};
                u->fd = sys_setup(u->entries, &p);
        }
        if (u->fd < 0 || !(p.features & IORING_FEAT_SINGLE_MMAP))
                return false;
        u->entries = p.sq_entries;
        u->rings_bytes = (size_t) blkup_max(p.sq_off.array + p.sq_entries * sizeof(uint32_t),
                                            p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe));
        u->sqes_bytes = p.sq_entries * sizeof(struct io_uring_sqe);
        u->rings = map(u->fd, u->rings_bytes, IORING_OFF_SQ_RING);
        u->sqes = map(u->fd, u->sqes_bytes, IORING_OFF_SQES);
        if (!u->rings || !u->sqes)
                return false;

        /* Offsets come from the kernel and are aligned for what lies there. */
        base = u->rings;
        u->sq_head = (void *) (base + p.sq_off.head);
        u->sq_tail = (void *) (base + p.sq_off.tail);
        u->sq_array = (void *) (base + p.sq_off.array);
        u->sq_mask = p.sq_entries - 1;
        u->cq_head = (void *) (base + p.cq_off.head);
        u->cq_tail = (void *) (base + p.cq_off.tail);
        u->cq_mask = p.cq_entries - 1;
        u->cqes = (void *) (base + p.cq_off.cqes);
        return true;
}

bool blkup_uring_is_usable(struct blkup_uring *u)
{
        if (u->state == NOT_TRIED) {
                if (set_up(u))
                        u->state = USABLE;
                else
                        blkup_uring_refuse(u);
        }
        return u->state == USABLE;
}

/* Takes what has been completed; returns how many. */
static size_t reap(struct blkup_uring *u, struct blkup_block_request *r, size_t n, uint64_t start)
{
        uint32_t head = *u->cq_head, tail = __atomic_load_n(u->cq_tail, __ATOMIC_ACQUIRE);
        uint64_t ns;
        size_t taken = 0;

        if (head == tail)
                return 0;
        ns = blkup_now_ns() - start;
        for (; head != tail; head++) {
                const struct io_uring_cqe *c = &u->cqes[head & u->cq_mask];

                if (c->user_data < n) {
                        r[c->user_data].done_bytes = c->res;
                        r[c->user_data].ns = ns;
                }
                taken++;
        }
        __atomic_store_n(u->cq_head, head, __ATOMIC_RELEASE);
        return taken;
}

/* n <= entries. The ring is empty before and after. Returns the calls that submitted something. */
static int transfer_some(struct blkup_uring *u, int fd, uint8_t opcode, struct blkup_block_request *r,
                         size_t n)
{
        uint32_t tail = *u->sq_tail;
        size_t in_flight = 0, left = n;
        uint64_t start = blkup_now_ns();
        int submissions = 0;

        for (size_t i = 0; i < n; i++, tail++) {
                uint32_t slot = tail & u->sq_mask;

                u->sqes[slot] = (struct io_uring_sqe) {
                        .opcode = opcode,
                        .fd = fd,
                        .off = r[i].at,
                        .addr = (uint64_t) (uintptr_t) r[i].to,
                        .len = (uint32_t) blkup_min(r[i].len, READ_MAX),
                        .user_data = i,
                };
                u->sq_array[slot] = slot;
                r[i].done_bytes = -EAGAIN;
                r[i].ns = 0;
        }
        __atomic_store_n(u->sq_tail, tail, __ATOMIC_RELEASE);

        /*
         * One turn, as a rule. It takes another when a signal ended the wait or the kernel took only a part.
         * A turn submits, completes, or gives the rest up; a turn that does none of these was ended by a
         * signal.
         */
        while (left > 0 || in_flight > 0) {
                int k = sys_enter(u->fd, (unsigned) left, (unsigned) (left + in_flight),
                                  IORING_ENTER_GETEVENTS);

                if (k > 0 && left > 0) {
                        submissions++;
                        left -= (size_t) k;
                        in_flight += (size_t) k;
                } else if (left > 0 && (k == 0 || errno != EINTR)) {
                        /* Not taken (no memory, a full backlog, a ring that was shut): the caller reads
                         * these. The kernel looks at the tail only in a call, so it can be taken back. */
                        tail -= (uint32_t) left;
                        __atomic_store_n(u->sq_tail, tail, __ATOMIC_RELEASE);
                        left = 0;
                } else if (k < 0 && errno != EINTR) {
                        /* The wait is refused, but the kernel still uses the caller's buffers: stay
                         * until each request is answered. A driver's time-out ends one that its device does
                         * not answer. */
                        blkup_sleep_until_ns(blkup_now_ns() + 1000000, NULL);
                }
                in_flight -= reap(u, r, n, start);
        }
        return submissions;
}

static int transfer(struct blkup_uring *u, int fd, uint8_t opcode, struct blkup_block_request *r, size_t n)
{
        int submissions = 0;

        if (!blkup_uring_is_usable(u))
                return -EOPNOTSUPP;
        for (size_t i = 0; i < n; i += u->entries)
                submissions += transfer_some(u, fd, opcode, r + i, (size_t) blkup_min(n - i, u->entries));
        return submissions;
}

int blkup_uring_read(struct blkup_uring *u, int fd, struct blkup_block_request *r, size_t n)
{
        return transfer(u, fd, IORING_OP_READ, r, n);
}

int blkup_uring_write(struct blkup_uring *u, int fd, struct blkup_block_request *r, size_t n)
{
        return transfer(u, fd, IORING_OP_WRITE, r, n);
}
