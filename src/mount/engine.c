/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One mount from its request to its result; and the mounter that attempts share. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "mount/mounter.h"
#include "mount/names.h"
#include "trace/trace.h"

/* ---- results ---- */

int blkup_mount_fail(struct blkup_mount_attempt *a, enum blkup_mount_call call, int error)
{
        a->r->outcome = BLKUP_MOUNT_FAILED;
        a->r->call = call;
        a->r->error = error;
        return error;
}

int blkup_mount_refuse(struct blkup_mount_attempt *a, enum blkup_mount_call call,
                       enum blkup_mount_reason reason, int error)
{
        a->r->reason = reason;
        return blkup_mount_fail(a, call, error);
}

void blkup_mount_step_begin(struct blkup_mount_result *r, const char *name)
{
        if (r->n_steps == BLKUP_MOUNT_MAX_STEPS)
                r->n_steps--;
        r->steps[r->n_steps++] = (struct blkup_mount_step){ .name = name, .start_ns = blkup_now_ns() };
}

void blkup_mount_step_end(struct blkup_mount_result *r)
{
        r->steps[r->n_steps - 1].end_ns = blkup_now_ns();
}

void blkup_mount_result_init(struct blkup_mount_result *r, const struct blkup_mount_request *q)
{
        *r = (struct blkup_mount_result){ .outcome = BLKUP_MOUNT_FAILED };
        blkup_mount_copy(r->source, sizeof(r->source), q->source);
        r->target = q->target ? strdup(q->target) : NULL;
}

void blkup_mount_result_free(struct blkup_mount_result *r)
{
        if (r) {
                free(r->target);
                r->target = NULL;
        }
}

void blkup_mount_trace_result(struct blkup_mounter *m, const struct blkup_mount_result *r, uint64_t id,
                              const uint64_t *after, uint32_t n_after)
{
        const char *lane = r->target ? r->target : r->source;

        if (!m->settings.trace)
                return;
        blkup_trace_add(m->settings.trace, &(struct blkup_span){
                                                   .kind = BLKUP_SPAN_MOUNT,
                                                   .lane = lane,
                                                   .name = "mount",
                                                   .detail = *r->device ? r->device : NULL,
                                                   .start_ns = r->start_ns,
                                                   .end_ns = r->end_ns,
                                                   .worker = r->worker,
                                                   .error = r->outcome == BLKUP_MOUNT_FAILED ? r->error : 0,
                                                   .id = id,
                                                   .after = after,
                                                   .n_after = n_after,
                                           });
        for (unsigned i = 0; i < r->n_steps; i++)
                blkup_trace_add(m->settings.trace, &(struct blkup_span){
                        .kind = strcmp(r->steps[i].name, "wait") == 0 ? BLKUP_SPAN_WAIT : BLKUP_SPAN_MOUNT,
                        .lane = lane, .name = r->steps[i].name, .start_ns = r->steps[i].start_ns,
                        .end_ns = r->steps[i].end_ns, .worker = r->worker,
                });
}

/* ---- the mounter ---- */

int blkup_mounter_new(const struct blkup_mount_settings *s, struct blkup_mounter **ret)
{
        struct blkup_mounter *m = calloc(1, sizeof(*m));

        if (!m)
                return -ENOMEM;
        m->settings = *s;
        m->ops = s->ops ? s->ops : &blkup_mount_kernel;
        m->loop_control_fd = -1;
        (void) pthread_mutex_init(&m->lock, NULL);
        (void) pthread_cond_init(&m->changed, NULL);
        blkup_kmsg_init(&m->kmsg, NULL);
        *ret = m;
        return 0;
}

struct blkup_mounter *blkup_mounter_unref(struct blkup_mounter *m)
{
        if (!m)
                return NULL;
        /* Ends: the list gets shorter each turn. */
        while (m->claims) {
                struct blkup_loop_claim *c = m->claims;

                m->claims = c->next;
                free(c);
        }
        m->loop_control_fd = blkup_close(m->loop_control_fd);
        blkup_loops_free(m->loops);
        blkup_mountinfo_free(m->mounts);
        blkup_kmsg_close(&m->kmsg);
        (void) pthread_cond_destroy(&m->changed);
        (void) pthread_mutex_destroy(&m->lock);
        free(m);
        return NULL;
}

const struct blkup_mountinfo *blkup_mounter_mounts(struct blkup_mounter *m)
{
        (void) pthread_mutex_lock(&m->lock);
        if (!m->mounts_are_read) {
                m->mounts_error = blkup_mountinfo_load(m->settings.root, &m->mounts, NULL);
                m->mounts_are_read = true;
        }
        (void) pthread_mutex_unlock(&m->lock);
        return m->mounts;
}

/* ---- one mount ---- */

/* The type: named, or the only one of a list that is on the device. */
static int find_type(struct blkup_mount_attempt *a)
{
        const struct blkup_mount_resolver *resolver = a->m->settings.resolver;
        const char *types = a->q->types;
        bool is_one = types && *types && strcmp(types, "auto") != 0 && !strchr(types, ',') &&
                      strncmp(types, "no", 2) != 0;
        struct blkup_mount_device d = { .path = "" };
        uint64_t limit = a->o.sizelimit_bytes;
        BLKUP_CLEANUP_CLOSE int fd = -1;
        int r;

        /* "nosuchfs" reads as "anything but suchfs": a name alone is a name, whatever it begins with. */
        if (types && !strchr(types, ',') && strncmp(types, "no", 2) == 0 && strcmp(types, "none") != 0)
                is_one = true;
        if (is_one) {
                blkup_mount_copy(a->r->type, sizeof(a->r->type), types);
                if (!blkup_mount_is_type_name(types))
                        return blkup_mount_refuse(a, BLKUP_MOUNT_CALL_OPTIONS, BLKUP_MOUNT_REASON_TYPE_NAME,
                                                  -EINVAL);
                return 0;
        }
        if (a->source.type[0]) {
                blkup_mount_copy(d.type, sizeof(d.type), a->source.type);
        } else if (a->source.kind == BLKUP_SOURCE_NODEV || a->source.kind == BLKUP_SOURCE_OTHER) {
                return blkup_mount_fail(a, BLKUP_MOUNT_CALL_SOURCE, -ENOTBLK);
        } else {
                blkup_mount_step_begin(a->r, "identify");
                /* The loop device will end where its file does, whatever the limit. */
                if (a->file_bytes > 0 && limit > a->file_bytes - a->o.offset_bytes)
                        limit = 0;
                if (a->source.kind == BLKUP_SOURCE_BLOCK)
                        fd = open(a->source.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
                else if (blkup_mount_open_file(a) < 0)
                        return a->r->error;
                else
                        fd = fcntl(a->file_fd, F_DUPFD_CLOEXEC, 3);
                r = fd < 0 ? -errno : 0;
                if (r == 0 && (!resolver || !resolver->identify))
                        r = -EOPNOTSUPP;
                if (r == 0)
                        r = resolver->identify(resolver->to, fd, a->source.path, a->o.offset_bytes, limit, &d,
                                               NULL);
                blkup_mount_step_end(a->r);
                if (d.type[0])
                        blkup_mount_copy(a->r->type, sizeof(a->r->type), d.type);
                if (r < 0)
                        return blkup_mount_fail(a, BLKUP_MOUNT_CALL_IDENTIFY, r);
        }
        blkup_mount_copy(a->r->type, sizeof(a->r->type), d.type);
        if (!blkup_mount_is_type_name(d.type))
                return blkup_mount_refuse(a, BLKUP_MOUNT_CALL_IDENTIFY, BLKUP_MOUNT_REASON_TYPE_NAME,
                                          -EINVAL);
        if (!blkup_mount_is_in_types(types, d.type))
                return blkup_mount_refuse(a, BLKUP_MOUNT_CALL_IDENTIFY, BLKUP_MOUNT_REASON_NOT_LISTED,
                                          -EINVAL);
        return 0;
}

static bool has_fs_word(const struct blkup_mount_options *o, const char *key)
{
        for (size_t i = 0; i < o->n_fs; i++)
                if (strcmp(o->fs[i].key, key) == 0)
                        return true;
        return false;
}

/* No write to what may belong to a hibernated system. */
static int check_hibernation(struct blkup_mount_attempt *a)
{
        char path[256];
        const char *option;

        if (a->m->settings.ignore_hibernation || a->source.kind != BLKUP_SOURCE_BLOCK)
                return 0;
        option = blkup_mount_no_replay_option(a->r->type);
        /* What never writes needs no look. */
        if (a->read_only && option && !*option)
                return 0;
        if (blkup_mount_look_for_hibernation(a->m, a->source.rdev, path, sizeof(path)) !=
            BLKUP_HIBERNATION_FOUND) {
                if (*path) {
                        a->r->notes |= BLKUP_MOUNT_NOTE_SILENT;
                        blkup_mount_copy(a->r->other, sizeof(a->r->other), path);
                }
                return 0;
        }
        if (!a->read_only || !option) {
                blkup_mount_copy(a->r->other, sizeof(a->r->other), path);
                return blkup_mount_refuse(a, BLKUP_MOUNT_CALL_SOURCE, BLKUP_MOUNT_REASON_HIBERNATED, -EBUSY);
        }
        a->r->notes |= BLKUP_MOUNT_NOTE_HIBERNATED;
        if (*option) {
                const char *value = strchr(option, '=');

                /* The array has room for one more than the text has words. */
                if (!value && !has_fs_word(&a->o, option))
                        a->o.fs[a->o.n_fs++] = (struct blkup_mount_option_word){ option, NULL };
                else if (value && !has_fs_word(&a->o, "rescue"))
                        a->o.fs[a->o.n_fs++] = (struct blkup_mount_option_word){ "rescue", value + 1 };
        }
        return 0;
}

static void collect_kernel_log(struct blkup_mount_attempt *a)
{
        const char *slash = strrchr(a->r->device, '/');
        struct blkup_mount_result *r = a->r;

        r->kernel_is_readable = a->m->kmsg.fd >= 0;
        (void) blkup_kmsg_collect(&a->m->kmsg, a->kmsg_mark, slash ? slash + 1 : "", r->type, r->kernel,
                                  sizeof(r->kernel));
        r->kernel_is_shared = __atomic_load_n(&a->m->in_flight, __ATOMIC_RELAXED) > 1;
}

/* The classic way says less, but is there on every kernel. */
static int mount_now(struct blkup_mount_attempt *a)
{
        bool classic = false;
        int r = blkup_mount_by_context(a, &classic);

        if (classic) {
                a->r->notes |= BLKUP_MOUNT_NOTE_CLASSIC;
                a->r->call = BLKUP_MOUNT_CALL_NONE;
                a->r->error = 0;
                r = blkup_mount_by_classic(a);
        }
        return r;
}

/* EBUSY right after an umount is only the kernel's delayed clean-up: worth a short wait. */
static int mount_patiently(struct blkup_mount_attempt *a)
{
        uint64_t start = blkup_now_ns();
        unsigned ms = 1;
        int r;

        /* Ends: after a quarter of a second. */
        for (;;) {
                r = mount_now(a);
                if (r != -EBUSY || strstr(a->r->log, "RO state") ||
                    blkup_now_ns() - start > UINT64_C(250000000))
                        return r;
                if (a->r->call != BLKUP_MOUNT_CALL_CREATE && a->r->call != BLKUP_MOUNT_CALL_CLASSIC)
                        return r;
                /* A mount that this run knows of holds it: waiting would not help. */
                if (a->source.kind == BLKUP_SOURCE_BLOCK && a->m->mounts_are_read &&
                    blkup_mountinfo_by_device(a->m->mounts, a->r->dev_major, a->r->dev_minor, NULL))
                        return r;
                a->r->notes |= BLKUP_MOUNT_NOTE_RETRIED;
                blkup_sleep_until_ns(blkup_now_ns() + ms * UINT64_C(1000000), NULL);
                ms = ms < 16 ? ms * 2 : 16;
        }
}

static int mount_file_system(struct blkup_mount_attempt *a)
{
        char helper[128];
        int r;

        if (a->o.has_verity)
                return blkup_mount_refuse(a, BLKUP_MOUNT_CALL_OPTIONS, BLKUP_MOUNT_REASON_VERITY,
                                          -EOPNOTSUPP);
        a->read_only = a->o.is_read_only;
        r = blkup_mount_find_source(a);
        if (r == 0 && (a->o.has_offset || a->o.sizelimit_bytes > 0) &&
            (a->source.kind == BLKUP_SOURCE_FILE || a->source.kind == BLKUP_SOURCE_BLOCK))
                r = blkup_mount_check_area(a);
        if (r == 0)
                r = find_type(a);
        if (r < 0)
                return r;
        if (!a->m->settings.no_helpers && !blkup_mount_is_plain_type(a->r->type)) {
                r = blkup_mount_find_helper(a->r->type, helper, sizeof(helper));
                if (r == 0 && a->m->settings.dry_run)
                        return 0;
                if (r == 0) {
                        r = check_hibernation(a);
                        return r < 0 ? r : blkup_mount_by_helper(a, helper);
                }
        }
        if (a->source.kind == BLKUP_SOURCE_OTHER && !blkup_mount_is_nodev_type(a->r->type))
                return blkup_mount_fail(a, BLKUP_MOUNT_CALL_SOURCE, -ENOTBLK);
        if (a->m->settings.dry_run)
                return 0;
        r = blkup_mount_open_target(a);
        if (r < 0)
                return r;
        if (a->source.kind == BLKUP_SOURCE_FILE && strcmp(a->r->type, "erofs") == 0 && !a->o.is_loop) {
                /* Since 6.12 straight from the file; read-only, so that two of them do no harm. */
                a->is_direct_file = true;
                r = mount_now(a);
                if (r == 0 || a->r->call == BLKUP_MOUNT_CALL_KEY)
                        return r;
                a->is_direct_file = false;
                a->r->n_steps = 0;
                a->r->log[0] = '\0';
        }
        if (a->source.kind == BLKUP_SOURCE_FILE || a->o.has_offset || a->o.sizelimit_bytes > 0) {
                r = blkup_mount_set_up_loop(a);
                if (r < 0)
                        return r;
        }
        r = check_hibernation(a);
        return r < 0 ? r : mount_patiently(a);
}

static int run_kind(struct blkup_mount_attempt *a)
{
        int r;

        if (a->o.is_remount)
                return blkup_mount_remount(a);
        if (a->o.is_bind)
                return blkup_mount_bind(a);
        if (a->o.is_move)
                return blkup_mount_move(a);
        if (a->o.propagation && (!a->q->source || strcmp(a->q->source, "none") == 0) &&
            (!a->q->types || strcmp(a->q->types, "none") == 0)) {
                r = blkup_mount_open_target(a);
                return r < 0 || a->m->settings.dry_run ? r : blkup_mount_set_propagation(a, a->target_fd);
        }
        if (!a->q->source)
                return blkup_mount_fail(a, BLKUP_MOUNT_CALL_SOURCE, -EINVAL);
        return mount_file_system(a);
}

int blkup_mount_attempt_run(struct blkup_mounter *m, const struct blkup_mount_request *q,
                            struct blkup_mount_result *r)
{
        struct blkup_mount_attempt a = {
                .m = m, .q = q, .r = r, .target = q->target, .target_fd = -1, .file_fd = -1, .loop_fd = -1,
        };
        int e;

        r->start_ns = blkup_now_ns();
        (void) __atomic_fetch_add(&m->in_flight, 1, __ATOMIC_RELAXED);
        a.kmsg_mark = blkup_kmsg_mark(&m->kmsg);
        e = blkup_mount_options_parse(q->options, &a.o, r->key, sizeof(r->key));
        if (e < 0)
                (void) blkup_mount_fail(&a, BLKUP_MOUNT_CALL_OPTIONS, e);
        else
                e = run_kind(&a);
        if (e == 0) {
                r->outcome = BLKUP_MOUNT_DONE;
                r->error = 0;
                r->call = BLKUP_MOUNT_CALL_NONE;
                r->is_read_only = a.read_only;
        } else if (r->outcome == BLKUP_MOUNT_FAILED && r->reason == BLKUP_MOUNT_REASON_NONE) {
                collect_kernel_log(&a);
        }
        if (r->outcome == BLKUP_MOUNT_SKIPPED)
                e = 0;
        (void) __atomic_fetch_sub(&m->in_flight, 1, __ATOMIC_RELAXED);
        blkup_mount_options_free(&a.o);
        (void) blkup_close(a.target_fd);
        (void) blkup_close(a.file_fd);
        (void) blkup_close(a.loop_fd);
        r->end_ns = blkup_now_ns();
        return e;
}

int blkup_mount_one(struct blkup_mounter *m, const struct blkup_mount_request *q,
                    struct blkup_mount_result *ret)
{
        int r;

        blkup_mount_result_init(ret, q);
        r = blkup_mount_attempt_run(m, q, ret);
        blkup_mount_trace_result(m, ret, 0, NULL, 0);
        return r;
}
