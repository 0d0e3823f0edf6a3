/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "lazyinit/mmp.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/crc.h"
#include "block/writer-file.h"

#define SB_MMP_INTERVAL 0x166
#define SB_MMP_BLOCK 0x168

#define MMP_MAGIC 0x004D4D50u
#define MMP_CLEAN 0xFF4D4D50u
#define MMP_FSCK 0xE24D4D50u
#define MMP_SEQ_MAX 0xE24D4D4Fu
#define AT_SEQ 4
#define AT_TIME 8
#define AT_NODE 16
#define LEN_NODE 64
#define AT_DEVICE 80
#define LEN_DEVICE 32
#define AT_INTERVAL 112
#define AT_CHECKSUM 0x3FC
#define INTERVAL_MIN 5u
/* The kernel's EXT4_MMP_MAX_CHECK_INTERVAL: no block is believed to ask for more. */
#define INTERVAL_MAX 300u
#define NS_PER_S UINT64_C(1000000000)
/* While working, the block is looked at this often. */
#define LOOK_NS (5 * NS_PER_S)

static void put_le32(uint8_t *p, uint32_t v)
{
        for (int i = 0; i < 4; i++)
                p[i] = (uint8_t) (v >> (8 * i));
}

static uint64_t mmp_block(const struct blkup_lazy_layout *l)
{
        struct blkup_bytes sb = { .data = l->super, .at = BLKUP_EXT4_SUPER_AT, .len = sizeof(l->super) };

        return blkup_le64_at(sb, SB_MMP_BLOCK);
}

/* The block's content makes sense, or it is refused. */
static int examine(const struct blkup_lazy_layout *l, const uint8_t *p, struct blkup_lazy_refusal *r)
{
        struct blkup_bytes m = { .data = p, .len = BLKUP_MMP_LEN };
        uint64_t at = mmp_block(l);

        if (blkup_le32_at(m, 0) != MMP_MAGIC)
                return blkup_lazy_refuse(r, BLKUP_LAZYINIT_MMP_BAD, "no MMP magic in block %" PRIu64, at);
        if (l->checksum == BLKUP_LAZY_CRC32C &&
            blkup_crc32c(l->seed, p, AT_CHECKSUM) != blkup_le32_at(m, AT_CHECKSUM))
                return blkup_lazy_refuse(r, BLKUP_LAZYINIT_MMP_BAD,
                                         "MMP checksum in block %" PRIu64 " is wrong", at);
        return 0;
}

static int in_use(const uint8_t *p, struct blkup_lazy_refusal *r)
{
        uint32_t seq = blkup_load_le32(p + AT_SEQ);

        if (seq == MMP_FSCK)
                return blkup_lazy_refuse(r, BLKUP_LAZYINIT_MMP_IN_USE,
                                         "MMP: e2fsck (or a run of this program that "
                                         "was killed) on %.64s",
                                         (const char *) p + AT_NODE);
        if (seq > MMP_SEQ_MAX)
                return blkup_lazy_refuse(r, BLKUP_LAZYINIT_MMP_BAD, "MMP sequence 0x%" PRIx32 " is not known",
                                         seq);
        return blkup_lazy_refuse(r, BLKUP_LAZYINIT_MMP_IN_USE, "MMP: in use on %.64s",
                                 (const char *) p + AT_NODE);
}

static int check_place(const struct blkup_lazy_layout *l, struct blkup_lazy_refusal *r)
{
        uint64_t at = mmp_block(l);

        if (at <= l->first_block || at >= l->blocks || blkup_lazy_is_metadata(l, at, 1))
                return blkup_lazy_refuse(r, BLKUP_LAZYINIT_MMP_BAD, "MMP block %" PRIu64 " cannot be there",
                                         at);
        return 0;
}

int blkup_lazy_mmp_check(const struct blkup_lazy_layout *l, struct blkup_block *b,
                         struct blkup_lazy_refusal *r, struct blkup_error *err)
{
        uint8_t m[BLKUP_MMP_LEN] __attribute__((aligned(4096)));
        int k = check_place(l, r);

        if (k != 0)
                return k;
        k = blkup_block_read_exact(b, mmp_block(l) * l->block_bytes, m, sizeof(m));
        if (k < 0)
                return blkup_fail_errno(err, k, "MMP block");
        k = examine(l, m, r);
        if (k == 0 && blkup_load_le32(m + AT_SEQ) != MMP_CLEAN)
                k = in_use(m, r);
        return k;
}

static int read_unit(struct blkup_lazy_mmp *m, uint8_t *to, struct blkup_error *err)
{
        int k = blkup_block_read_exact(&m->writer->block, m->at, to, m->unit_bytes);

        return k < 0 ? blkup_fail_errno(err, k, "MMP block") : 0;
}

static void set_seq(struct blkup_lazy_mmp *m, uint8_t *p, uint32_t seq)
{
        struct utsname u;
        uint64_t now = (uint64_t) time(NULL);

        put_le32(p + AT_SEQ, seq);
        put_le32(p + AT_TIME, (uint32_t) now);
        put_le32(p + AT_TIME + 4, (uint32_t) (now >> 32));
        memset(p + AT_NODE, 0, LEN_NODE);
        if (uname(&u) == 0)
                memcpy(p + AT_NODE, u.nodename, blkup_min(strlen(u.nodename), LEN_NODE));
        memset(p + AT_DEVICE, 0, LEN_DEVICE);
        memcpy(p + AT_DEVICE, "blkup", 5);
        if (m->has_checksum)
                put_le32(p + AT_CHECKSUM, blkup_crc32c(m->seed, p, AT_CHECKSUM));
}

static int write_seq(struct blkup_lazy_mmp *m, uint32_t seq, struct blkup_error *err)
{
        struct blkup_block_request r = { .at = m->at, .len = m->unit_bytes, .to = m->block };
        int k;

        set_seq(m, m->block, seq);
        k = blkup_writer_write(m->writer, &r, 1, NULL);
        if (k == 0)
                k = blkup_writer_flush(m->writer);
        return k < 0 ? blkup_fail_errno(err, k, "MMP block") : 0;
}

/* -EINTR: told to stop. In steps, as the signal may have gone to another thread. */
static int wait_s(const struct blkup_lazy_mmp *m, unsigned s)
{
        uint64_t until = blkup_now_ns() + s * NS_PER_S;
        const volatile int *stop = m->options->stop;

        while (blkup_now_ns() < until && !(stop && *stop != 0))
                blkup_sleep_until_ns(blkup_min(until, blkup_now_ns() + NS_PER_S / 10), stop);
        return stop && *stop != 0 ? -EINTR : 0;
}

static unsigned wait_of(const struct blkup_lazy_layout *l, const uint8_t *p)
{
        struct blkup_bytes sb = { .data = l->super, .at = BLKUP_EXT4_SUPER_AT, .len = sizeof(l->super) };
        unsigned i = (unsigned) blkup_max(INTERVAL_MIN, blkup_max(blkup_le16_at(sb, SB_MMP_INTERVAL),
                                                                 blkup_load_le16(p + AT_INTERVAL)));

        i = (unsigned) blkup_min(i, INTERVAL_MAX);
        return (unsigned) blkup_min(2 * i + 1, i + 60);
}

static void tell_guard(struct blkup_lazy_mmp *m, bool is_held)
{
        BLKUP_CLEANUP_FREE uint8_t *clean = NULL;

        if (!m->options->mmp_guard)
                return;
        if (posix_memalign((void **) &clean, 4096, m->unit_bytes) != 0) {
                clean = NULL;
                return;
        }
        memcpy(clean, m->block, m->unit_bytes);
        set_seq(m, clean, MMP_CLEAN);
        m->options->mmp_guard(m->options->mmp_guard_to, is_held, blkup_writer_fd(m->writer), m->at, clean,
                              m->unit_bytes);
}

static int take(const struct blkup_lazy_layout *l, struct blkup_lazy_mmp *m, struct blkup_lazy_refusal *r,
                struct blkup_error *err)
{
        BLKUP_CLEANUP_FREE uint8_t *again = NULL;
        uint32_t seq = 0;
        int k;

        if (posix_memalign((void **) &again, 4096, m->unit_bytes) != 0)
                return blkup_fail_errno(err, -ENOMEM, "MMP block");
        k = read_unit(m, m->block, err);
        if (k == 0)
                k = examine(l, m->block, r);
        if (k != 0)
                return k;
        m->wait_s = wait_of(l, m->block);
        if (blkup_load_le32(m->block + AT_SEQ) != MMP_CLEAN) {
                /* Alive or dead? A living one changes the block. */
                if (blkup_load_le32(m->block + AT_SEQ) > MMP_SEQ_MAX)
                        return in_use(m->block, r);
                k = wait_s(m, m->wait_s);
                if (k < 0)
                        return blkup_fail_errno(err, k, "waiting for MMP");
                k = read_unit(m, again, err);
                if (k != 0)
                        return k;
                if (memcmp(again, m->block, BLKUP_MMP_LEN) != 0)
                        return in_use(again, r);
        }
        /* Ends: three of four numbers are in range. */
        do {
                if (getrandom(&seq, sizeof(seq), 0) != (ssize_t) sizeof(seq))
                        seq = (uint32_t) blkup_now_ns();
        } while (seq > MMP_SEQ_MAX);
        k = write_seq(m, seq, err);
        if (k < 0)
                return k;
        m->is_held = true;
        tell_guard(m, true);
        k = wait_s(m, m->wait_s);
        if (k < 0)
                return blkup_fail_errno(err, k, "waiting for MMP");
        k = read_unit(m, again, err);
        if (k != 0)
                return k;
        if (memcmp(again, m->block, BLKUP_MMP_LEN) != 0) {
                /* Another one took it in the meantime: it is not ours to give back. */
                m->is_held = false;
                tell_guard(m, false);
                return in_use(again, r);
        }
        k = write_seq(m, MMP_FSCK, err);
        m->looked_ns = blkup_now_ns();
        return k;
}

int blkup_lazy_mmp_take(const struct blkup_lazy_layout *l, struct blkup_writer *w,
                        const struct blkup_lazyinit_options *o, struct blkup_lazy_mmp *ret,
                        struct blkup_lazy_refusal *r, struct blkup_error *err)
{
        struct blkup_lazy_mmp m = {
                .writer = w, .options = o, .seed = l->seed, .has_checksum = l->checksum == BLKUP_LAZY_CRC32C,
                .at = mmp_block(l) * l->block_bytes,
        };
        int k = check_place(l, r);

        if (k != 0)
                return k;
        m.unit_bytes = (uint32_t) blkup_min(l->block_bytes, 4096);
        m.unit_bytes = (uint32_t) blkup_max(m.unit_bytes, BLKUP_MMP_LEN);
        if (posix_memalign((void **) &m.block, 4096, m.unit_bytes) != 0)
                return blkup_fail_errno(err, -ENOMEM, "MMP block");
        k = take(l, &m, r, err);
        if (k == 0) {
                *ret = m;
                return 0;
        }
        /* On a failure half-way it is given back; what went wrong first is what is told. */
        (void) !blkup_lazy_mmp_release(&m, NULL);
        return k;
}

int blkup_lazy_mmp_still_held(void *mmp, struct blkup_error *err)
{
        struct blkup_lazy_mmp *m = mmp;
        BLKUP_CLEANUP_FREE uint8_t *now = NULL;
        int k;

        if (!m->is_held || blkup_now_ns() - m->looked_ns < LOOK_NS)
                return 0;
        if (posix_memalign((void **) &now, 4096, m->unit_bytes) != 0)
                return blkup_fail_errno(err, -ENOMEM, "MMP block");
        k = read_unit(m, now, err);
        if (k < 0)
                return k;
        if (memcmp(now, m->block, BLKUP_MMP_LEN) != 0) {
                m->is_held = false;
                tell_guard(m, false);
                return blkup_fail(err, -ESTALE, "MMP: %.64s has taken the file system",
                                  (const char *) now + AT_NODE);
        }
        m->looked_ns = blkup_now_ns();
        return 0;
}

int blkup_lazy_mmp_release(struct blkup_lazy_mmp *m, struct blkup_error *err)
{
        int k = 0;

        if (m->is_held) {
                k = write_seq(m, MMP_CLEAN, err);
                tell_guard(m, false);
        }
        m->is_held = false;
        free(m->block);
        m->block = NULL;
        return k;
}
