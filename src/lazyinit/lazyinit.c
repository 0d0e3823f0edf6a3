/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <blkup/lazyinit.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "block/file.h"
#include "block/writer-file.h"
#include "lazyinit/finish.h"
#include "lazyinit/guard.h"
#include "lazyinit/journal.h"
#include "lazyinit/layout.h"
#include "lazyinit/mmp.h"
#include "lazyinit/second.h"
#include "trace/trace.h"

static const struct {
        const char *name, *advice;
} refusals[BLKUP_LAZYINIT_REFUSALS] = {
        [BLKUP_LAZYINIT_NOT_EXT4] = { "not-ext4", "see blkup probe" },
        [BLKUP_LAZYINIT_JOURNAL_DEVICE] = { "journal-device", "give the device of the file system itself" },
        [BLKUP_LAZYINIT_BAD_SUPERBLOCK] = { "bad-superblock", "run e2fsck -f" },
        [BLKUP_LAZYINIT_SUPERBLOCK_CHECKSUM] = { "superblock-checksum", "run e2fsck -f" },
        [BLKUP_LAZYINIT_UNKNOWN_INCOMPAT] = { "unknown-incompat", "a newer version may know them" },
        [BLKUP_LAZYINIT_UNKNOWN_RO_COMPAT] = { "unknown-ro-compat", "a newer version may know them" },
        [BLKUP_LAZYINIT_BOTH_CHECKSUMS] = { "both-checksum-features", "tune2fs -O ^uninit_bg" },
        [BLKUP_LAZYINIT_TRUNCATED] = { "truncated", "make the device as large as its file system was" },
        [BLKUP_LAZYINIT_LARGE_SECTORS] = { "large-sectors", "it was made for another device" },
        [BLKUP_LAZYINIT_NEEDS_RECOVERY] = { "needs-recovery", "run e2fsck -p, or mount and unmount it" },
        [BLKUP_LAZYINIT_ERRORS_RECORDED] = { "errors-recorded", "run e2fsck -f" },
        [BLKUP_LAZYINIT_NOT_CLEAN] = { "not-cleanly-unmounted", "run e2fsck -f" },
        [BLKUP_LAZYINIT_ORPHANS] = { "orphans", "run e2fsck -f, or mount and unmount it" },
        [BLKUP_LAZYINIT_MMP_BAD] = { "mmp-bad", "run e2fsck -f" },
        [BLKUP_LAZYINIT_MMP_IN_USE] = { "mmp-in-use",
                                        "when nobody uses it on any machine: tune2fs -f -E clear_mmp" },
        [BLKUP_LAZYINIT_DESCRIPTOR_CHECKSUM] = { "descriptor-checksum", "run e2fsck -f" },
        [BLKUP_LAZYINIT_TABLE_OUT_OF_RANGE] = { "table-out-of-range", "run e2fsck -f" },
        [BLKUP_LAZYINIT_UNUSED_COUNT] = { "unused-count", "run e2fsck -f" },
        [BLKUP_LAZYINIT_GROUP0_UNINIT] = { "group0-uninit", "run e2fsck -f" },
        [BLKUP_LAZYINIT_UNINIT_IN_USE] = { "uninit-group-in-use", "run e2fsck -f" },
        [BLKUP_LAZYINIT_OVERLAP] = { "overlap", "run e2fsck -f" },
        [BLKUP_LAZYINIT_INODE_IN_USE] = { "inode-in-use-past-unused", "run e2fsck -f" },
        [BLKUP_LAZYINIT_LIBRARY_DISAGREES] = { "library-disagrees", "run e2fsck -f, and report this" },
        [BLKUP_LAZYINIT_BUSY] = { "busy", "unmount it, or let its holder go (lsblk shows it)" },
        [BLKUP_LAZYINIT_LOOP] = { "loop", "detach the loop device (losetup -d), or give that device" },
        [BLKUP_LAZYINIT_LOCKED] = { "locked", "stop the program that uses it (a virtual machine?)" },
        [BLKUP_LAZYINIT_OPEN_WRITER] = { "open-writer", "stop that process" },
        [BLKUP_LAZYINIT_HIBERNATION] = { "hibernation", "resume that system, or use --ignore-hibernation" },
        [BLKUP_LAZYINIT_NO_SPACE] = { "no-space", "make room, or use --keep or --thin" },
        [BLKUP_LAZYINIT_READ_ONLY] = { "read-only",
                                       "make it writable (blockdev --setrw, mount -o remount,rw)" },
};

const char *blkup_lazyinit_refusal_name(enum blkup_lazyinit_refusal r)
{
        return (unsigned) r < BLKUP_LAZYINIT_REFUSALS ? refusals[r].name : NULL;
}

const char *blkup_lazyinit_refusal_advice(enum blkup_lazyinit_refusal r)
{
        return (unsigned) r < BLKUP_LAZYINIT_REFUSALS ? refusals[r].advice : NULL;
}

/* One run: all that has to be given back at its end. */
struct one_run {
        const char *path;
        const struct blkup_lazyinit_options *o;
        struct blkup_lazyinit_result *result;
        struct blkup_lazy_guard guard;
        struct blkup_writer *writer;
        struct blkup_lazy_layout layout;
        struct blkup_lazy_finish finish;
        struct blkup_lazy_mmp mmp;
        struct blkup_lazy_span *body;
        bool *is_stale;
        struct blkup_lazy_refusal refusal;
};

static uint64_t allocated_bytes(const struct one_run *run)
{
        struct stat st;

        return run->guard.is_file && fstat(blkup_writer_fd(run->writer), &st) == 0
                       ? (uint64_t) st.st_blocks * 512
                       : 0;
}

/* --verify: which flagged groups hold something all the same. */
static int find_stale(struct one_run *run, struct blkup_error *err)
{
        const struct blkup_lazy_layout *l = &run->layout;

        run->is_stale = calloc(l->groups, sizeof(*run->is_stale));
        if (!run->is_stale)
                return blkup_fail_errno(err, -ENOMEM, "%s", run->path);
        for (uint32_t g = 0; g < l->groups; g++) {
                bool is_zero = true;
                int k;

                if (!(l->group[g].flags & BLKUP_EXT4_BG_INODE_ZEROED))
                        continue;
                if (run->o->stop && *run->o->stop)
                        return blkup_fail_errno(err, -EINTR, "%s: reading tables", run->path);
                k = blkup_lazy_is_zero(&run->finish.zero, blkup_lazy_zero_at(l, g), blkup_lazy_zero_len(l, g),
                                       &is_zero);
                if (k < 0)
                        return blkup_fail_errno(err, k, "%s: group %" PRIu32 ": inode table", run->path, g);
                run->is_stale[g] = !is_zero;
                run->result->groups_stale += !is_zero;
        }
        return 0;
}

/* A full file system would be noticed half-way: count what has to be allocated before. */
static int check_space(struct one_run *run, struct blkup_error *err)
{
        struct blkup_writer *w = run->writer;
        uint64_t need = 0, have;
        struct statvfs v;

        if (!run->guard.is_file)
                return 0;
        for (size_t i = 0; i < run->finish.n_todo; i++) {
                const struct blkup_lazy_todo *t = &run->finish.todo[i];
                uint64_t at = blkup_lazy_desc_at(&run->layout, t->group) / 512 * 512, allocated;
                int k;

                if (t->needs_flag) {
                        k = blkup_lazy_allocated(w, at, 512, &allocated);
                        if (k < 0)
                                return blkup_fail_errno(err, k, "%s", run->path);
                        need += allocated < 512 ? 4096 : 0;
                }
                if (run->o->allocation == BLKUP_LAZYINIT_THICK) {
                        k = blkup_lazy_allocated(w, t->at, t->len, &allocated);
                        if (k < 0)
                                return blkup_fail_errno(err, k, "%s", run->path);
                        need += t->len - blkup_min(t->len, allocated);
                }
        }
        if (need == 0 || fstatvfs(blkup_writer_fd(w), &v) < 0)
                return 0;
        have = (uint64_t) v.f_bavail * v.f_frsize;
        if (need > have)
                return blkup_lazy_refuse(&run->refusal, BLKUP_LAZYINIT_NO_SPACE,
                                         "%" PRIu64 " bytes have to be allocated, %" PRIu64 " are free", need,
                                         have);
        return 0;
}

static bool is_device_busy(void *to)
{
        const struct one_run *run = to;

        return blkup_lazy_guard_has_foreign_io(&run->guard, run->o->root);
}

/* Opens, and looks at everything that can refuse. 0, 1 or a negative errno. */
static int prepare(struct one_run *run, struct blkup_error *err)
{
        const struct blkup_lazyinit_options *o = run->o;
        struct blkup_writer_open how = { .no_uring = o->no_uring, .is_read_only = o->only_check };
        int k;

        k = blkup_lazy_guard_open(run->path, o, !o->only_check, &run->guard, &run->refusal, err);
        if (k != 0)
                return k < 0 ? blkup_wrap(err, k, "%s", run->path) : k;
        k = blkup_writer_open_fd(run->guard.fd, run->path, &how, &run->writer, err);
        if (k < 0)
                return k;
        run->guard.fd = -1;
        k = blkup_lazy_layout_read(&run->writer->block, false, &run->layout, &run->refusal, err);
        if (k != 0)
                return k < 0 ? blkup_wrap(err, k, "%s", run->path) : k;
        run->result->groups = run->layout.groups;
        run->result->has_group_checksums = run->layout.checksum != BLKUP_LAZY_CHECKSUM_NONE;
        if (!run->result->has_group_checksums) {
                (void) snprintf(run->result->reason, sizeof(run->result->reason),
                                "it has no group checksums");
                return 0;
        }
        if (run->writer->block.info.logical_sector_bytes > run->layout.block_bytes)
                return blkup_lazy_refuse(&run->refusal, BLKUP_LAZYINIT_LARGE_SECTORS,
                                         "its blocks of %" PRIu32
                                         " bytes are smaller than the device's sectors of %" PRIu32,
                                         run->layout.block_bytes,
                                         run->writer->block.info.logical_sector_bytes);
        k = blkup_lazy_check_bitmaps(&run->layout, &run->writer->block, o->verify, &run->refusal, err);
        if (k != 0)
                return k < 0 ? blkup_wrap(err, k, "%s", run->path) : k;
        if (run->layout.incompat & BLKUP_EXT4_INCOMPAT_MMP) {
                /* When something is to be written, a block that is in use is waited for later. */
                k = blkup_lazy_mmp_check(&run->layout, &run->writer->block, &run->refusal, err);
                if (k == 1 && run->refusal.what == BLKUP_LAZYINIT_MMP_IN_USE && !o->only_check)
                        k = 0;
                if (k != 0)
                        return k < 0 ? blkup_wrap(err, k, "%s", run->path) : k;
        }
        return 0;
}

static int make_list(struct one_run *run, struct blkup_error *err)
{
        struct blkup_lazy_finish *f = &run->finish;
        const char *why = NULL;
        int k;

        f->layout = &run->layout;
        f->writer = run->writer;
        f->options = run->o;
        f->result = run->result;
        f->device = run->path;
        f->zero = (struct blkup_lazy_zero){
                .writer = run->writer,
                .strategy = run->o->strategy,
                .allocation = run->o->allocation,
                .in_flight = run->o->in_flight,
                .stop = run->o->stop,
                .one_at_a_time = run->o->background,
                .may_be_thin = blkup_lazy_guard_may_be_thin(&run->guard, run->o->root),
        };
        if (run->o->background) {
                f->is_busy = is_device_busy;
                f->is_busy_to = run;
        }
        k = blkup_lazy_zero_init(&f->zero);
        if (k < 0)
                return blkup_fail_errno(err, k, "%s", run->path);
        if (run->o->verify) {
                k = find_stale(run, err);
                if (k < 0)
                        return k;
        }
        k = blkup_lazy_todo(&run->layout, run->is_stale, &f->todo, &f->n_todo);
        if (k < 0)
                return blkup_fail_errno(err, k, "%s", run->path);
        for (size_t i = 0; i < f->n_todo; i++) {
                run->result->groups_left += f->todo[i].needs_flag;
                run->result->bytes_todo += f->todo[i].len;
        }
        run->result->groups_left_before = run->result->groups_left;
        if (run->o->journal && !run->o->only_check) {
                k = blkup_lazy_journal_body(&run->layout, &run->writer->block, &run->body, &f->n_body, &why,
                                            &run->refusal, err);
                if (k != 0)
                        return k < 0 ? blkup_wrap(err, k, "%s", run->path) : k;
                f->body = run->body;
                if (why)
                        (void) snprintf(run->result->reason, sizeof(run->result->reason), "%s", why);
        }
        return 0;
}

/* The writing part. 0, 1 (refused before the first write) or a negative errno. */
static int work(struct one_run *run, struct blkup_error *err)
{
        struct blkup_lazy_finish *f = &run->finish;
        uint64_t before;
        int k, released;

        k = check_space(run, err);
        if (k == 0 && !run->o->no_library)
                k = blkup_lazy_second_opinion(&run->layout, &run->writer->block, &run->result->library_asked,
                                              &run->refusal);
        if (k != 0)
                return k;
        if (run->guard.is_file) {
                /* A dirty page cache can hide data from SEEK_DATA, and what reads as zero has to be durable.
                 */
                k = blkup_writer_flush(run->writer);
                run->result->flushes++;
                if (k < 0)
                        return blkup_fail_errno(err, k, "%s: flush", run->path);
        }
        before = allocated_bytes(run);
        if (run->layout.incompat & BLKUP_EXT4_INCOMPAT_MMP) {
                k = blkup_lazy_mmp_take(&run->layout, run->writer, run->o, &run->mmp, &run->refusal, err);
                if (k == -EINTR) {
                        run->result->was_stopped = true;
                        return 0;
                }
                if (k != 0)
                        return k < 0 ? blkup_wrap(err, k, "%s", run->path) : k;
                f->still_ours = blkup_lazy_mmp_still_held;
                f->still_ours_to = &run->mmp;
        }
        k = blkup_lazy_finish(f, err);
        if (k < 0)
                (void) blkup_wrap(err, k, "%s", run->path);
        released = blkup_lazy_mmp_release(&run->mmp, k < 0 ? NULL : err);
        run->result->allocated_change_bytes = (int64_t) (allocated_bytes(run) - before);
        return k < 0 ? k : released;
}

static int run_all(struct one_run *run, struct blkup_error *err)
{
        struct blkup_lazyinit_result *result = run->result;
        uint64_t start = blkup_now_ns();
        int k;

        k = prepare(run, err);
        if (k == 0 && result->has_group_checksums)
                k = make_list(run, err);
        result->plan_ns = blkup_now_ns() - start;
        blkup_trace_add(run->o->trace,
                        &(struct blkup_span){
                                .kind = BLKUP_SPAN_PROBE,
                                .lane = run->path,
                                .name = "plan",
                                .start_ns = start,
                                .end_ns = blkup_now_ns(),
                                .error = k < 0 ? k : 0,
                                .detail = k == 1 ? blkup_lazyinit_refusal_name(run->refusal.what) : NULL,
                        });
        if (k != 0)
                return k;
        if (!run->o->only_check && (run->finish.n_todo > 0 || run->finish.n_body > 0))
                k = work(run, err);
        if (k != 0)
                return k;
        result->outcome = result->groups_left > 0 || result->was_stopped ||
                                          (run->o->only_check && run->finish.n_todo > 0)
                                  ? BLKUP_LAZYINIT_LEFT
                                  : BLKUP_LAZYINIT_DONE;
        return 0;
}

int blkup_lazyinit_run(const char *path, const struct blkup_lazyinit_options *o,
                       struct blkup_lazyinit_result *ret, struct blkup_error *err)
{
        static const struct blkup_lazyinit_options defaults;
        struct one_run run = {
                .path = path,
                .o = o ? o : &defaults,
                .result = ret,
                .guard = { .fd = -1, .disk_fd = -1 },
        };
        int k;

        *ret = (struct blkup_lazyinit_result){ .outcome = BLKUP_LAZYINIT_LEFT };
        k = run_all(&run, err);
        if (k == 1) {
                ret->outcome = BLKUP_LAZYINIT_REFUSED;
                ret->refusal = run.refusal.what;
                (void) snprintf(ret->reason, sizeof(ret->reason), "%s", run.refusal.reason);
                k = 0;
        }
        blkup_lazy_zero_done(&run.finish.zero);
        free(run.finish.todo);
        free(run.body);
        free(run.is_stale);
        blkup_lazy_layout_done(&run.layout);
        (void) blkup_writer_close(run.writer);
        blkup_lazy_guard_done(&run.guard);
        return k;
}

int blkup_lazyinit_status(const char *device, struct blkup_lazyinit_status *ret, struct blkup_error *err)
{
        /* Through the page cache of the device: that is where a mounted ext4 keeps its descriptors. */
        const struct blkup_block_open how = { .direct = BLKUP_DIRECT_NEVER };
        BLKUP_CLEANUP_BLOCK struct blkup_block *b = NULL;
        struct blkup_lazyinit_status status = { 0 };
        struct blkup_lazy_refusal r = { 0 };
        struct blkup_lazy_layout l;
        int k;

        k = blkup_block_open(device, &how, &b, err);
        if (k < 0)
                return k;
        k = blkup_lazy_layout_read(b, true, &l, &r, err);
        if (k < 0)
                return blkup_wrap(err, k, "%s", device);
        if (k == 1)
                return blkup_fail(err, -EINVAL, "%s: %s", device, r.reason);
        status.groups = l.groups;
        status.has_group_checksums = l.checksum != BLKUP_LAZY_CHECKSUM_NONE;
        for (uint32_t g = 0; status.has_group_checksums && g < l.groups; g++) {
                if (l.group[g].flags & BLKUP_EXT4_BG_INODE_ZEROED)
                        continue;
                status.groups_left++;
                if (l.group[g].used_blocks <= l.table_blocks)
                        status.bytes_left += blkup_lazy_zero_len(&l, g);
        }
        blkup_lazy_layout_done(&l);
        *ret = status;
        return 0;
}
