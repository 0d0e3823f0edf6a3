/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What has to be made before it can be mounted: arrays, volume groups, locked volumes, a btrfs of several
 * devices. Each member goes to its tool when it has answered; what the tool makes is a device that is added
 * to the running graph. Nothing waits for anything but its own members.
 *
 *      md     mdadm --incremental, a member at a time. mdadm starts the array when all are there; when one
 *             stays away for grace_ns it is started as it is, once, with a warning.
 *      LVM    vgchange -aay, when each volume that the group's own metadata names is there. Two devices with
 *             the UUID of one volume: refused.
 *      LUKS   cryptsetup open, only what the crypttab or --mount names.
 *      btrfs  the kernel is told of each member, and says when it knows all.
 *
 * Tools begin when all devices have answered or are silent, as every other writer: a copy of a member and a
 * hibernation image forbid them. A device that is removable, read-only, held, or a path of a multipath device
 * is no member.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "block/file.h"
#include "bringup/cold.h"
#include "host/hostfile.h"
#include "mount/names.h"

#define USUAL_GRACE_NS UINT64_C(30000000000)
#define COST_TOOL_NS   UINT64_C(30000000)
/* A key derivation is made to take seconds (cryptsetup's usual target is two, on the machine that made it).
 */
#define LUKS_NS        UINT64_C(60000000000)
#define MAX_ARGUMENTS  (2 * BLKUP_LVM_MAX_PVS + 8)

const char *blkup_coldplug_set_name(enum blkup_coldplug_set_kind k)
{
        static const char *const names[] = { "md", "LVM", "LUKS", "btrfs" };

        return (unsigned) k < BLKUP_ARRAY_SIZE(names) ? names[k] : "?";
}

/* ---- jobs ---- */

static void drop_job(void *arg)
{
        struct blkup_cold_job *j = arg;
        struct blkup_coldplug *c = j->run;

        if (j->d)
                blkup_cold_let_go(j->d);
        /* From here on it may be freed. */
        __atomic_store_n(&j->is_dropped, true, __ATOMIC_RELEASE);
        blkup_cold_drop_run(c);
}

static bool start_job(struct blkup_coldplug *c, const struct blkup_cold_job *model, uint64_t limit_ns,
                      blkup_pool_fn *run)
{
        struct blkup_cold_job *j = malloc(sizeof(*j));
        const char *name = model->d ? model->d->d.path : model->set->s.name;

        if (!j)
                return false;
        *j = *model;
        j->run = c;
        /* A little later than the pool itself gives it up. */
        j->until_ns = limit_ns ? blkup_now_ns() + limit_ns + UINT64_C(50000000) : 0;
        if (j->d)
                blkup_cold_hold(j->d);
        if (blkup_cold_add_node(c, name ? name : "assembly", COST_TOOL_NS, limit_ns, run, j, drop_job, NULL,
                                NULL) < 0) {
                if (j->d)
                        blkup_cold_let_go(j->d);
                free(j);
                return false;
        }
        j->next = c->jobs;
        c->jobs = j;
        c->n_work++;
        if (!j->set->s.step.start_ns)
                j->set->s.step.start_ns = blkup_now_ns();
        return true;
}

/* true: somebody still waits for the answer. With the lock; end_job() follows. */
static bool is_wanted(const struct blkup_cold_job *j)
{
        return !j->is_over && !j->run->is_finished;
}

static void end_job(struct blkup_cold_job *j)
{
        if (is_wanted(j)) {
                j->is_over = true;
                j->set->s.step.end_ns = blkup_now_ns();
                blkup_cold_assemble(j->run);
                blkup_cold_work_over(j->run);
        }
}

/* The value of KEY=VALUE, a line of what a tool printed. */
static bool value_of(const char *out, const char *key, char *ret, size_t cap)
{
        size_t n = strlen(key);

        for (const char *line = out; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
                if (strncmp(line, key, n) == 0 && line[n] == '=') {
                        size_t len = strcspn(line + n + 1, "\n");

                        return snprintf(ret, cap, "%.*s", (int) len, line + n + 1) < (int) cap;
                }
        return false;
}

static int run_tool(struct blkup_coldplug *c, const char *const *argv, bool may_ask, char *out,
                    size_t out_cap, char *text, size_t cap)
{
        int code = -ENOENT;

        *text = '\0';
        if (out)
                *out = '\0';
        (void) __atomic_add_fetch(&c->n_tools, 1, __ATOMIC_RELAXED);
        if (c->ops.tool)
                code = c->ops.tool(c->ops.to, argv, may_ask, out, out_cap, text, cap);
        (void) __atomic_sub_fetch(&c->n_tools, 1, __ATOMIC_RELAXED);
        return code;
}

/* A sentence of what a tool that did not end well said. */
static void say_tool(char *ret, size_t cap, const char *tool, int code, const char *text)
{
        if (code == -ENOENT)
                (void) snprintf(ret, cap, "there is no %s on this machine", tool);
        else if (code < 0)
                (void) snprintf(ret, cap, "%s: %s", tool, blkup_error_text(-code));
        else
                (void) snprintf(ret, cap, "%s answered %d%s%s", tool, code, *text ? ": " : "", text);
}

/* ---- md ---- */

static void take_md(struct blkup_cold_job *j, int code, const char *out, const char *text)
{
        struct blkup_coldplug *c = j->run;
        struct blkup_cold_set *set = j->set;
        char name[128], started[32], why[512];

        if (code != 0) {
                say_tool(why, sizeof(why), "mdadm", code, text);
                if (j->is_run || !set->is_started)
                        blkup_cold_fail_set(c, set, BLKUP_COLDPLUG_FAILED, code < 0 ? code : -EIO, why);
                if (j->is_run)
                        blkup_cold_end_grace(c, set);
                return;
        }
        if (!j->is_run)
                set->s.n_members++;
        if (value_of(out, "MD_DEVICE", name, sizeof(name)))
                blkup_cold_name_set(set, name);
        if (!set->md_name && value_of(out, "MD_DEVNAME", name, sizeof(name)))
                set->md_name = strdup(name);
        if (!j->is_run && !value_of(out, "MD_STARTED", started, sizeof(started)))
                return;
        /* "unsafe": it could run, but not with all (mdadm's Incremental.c) */
        if (!j->is_run && (strcmp(started, "no") == 0 || strcmp(started, "unsafe") == 0)) {
                if (set->is_started || set->grace_until_ns)
                        return;
                set->grace_until_ns = blkup_now_ns() + (c->s.grace_ns ? c->s.grace_ns : USUAL_GRACE_NS);
                c->n_graces++;
                return;
        }
        if (set->is_started)
                return;
        blkup_cold_succeed(set);
        set->s.is_degraded = j->is_run;
        blkup_cold_end_grace(c, set);
        blkup_cold_tell(c, BLKUP_COLDPLUG_EVENT_SET, SIZE_MAX, SIZE_MAX, set->s.name,
                        set->s.is_degraded ? "started without all of its members" : NULL);
}

static int run_md(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg, struct blkup_error *err)
{
        struct blkup_cold_job *j = arg;
        struct blkup_coldplug *c = j->run;
        char out[1024], text[256], device[160];
        const char *argv[] = { "mdadm", "--incremental", "--export", device, NULL };
        int code;

        (void) p;
        (void) node;
        (void) worker;
        (void) err;
        blkup_cold_need_module(c, "md_mod", &j->set->s.step);
        if (j->d && j->d->md_level >= -1 && j->d->md_level <= 10) {
                if (j->d->md_level < 0)
                        (void) snprintf(device, sizeof(device), "md-linear");
                else
                        (void) snprintf(device, sizeof(device), "md-level-%d", j->d->md_level);
                blkup_cold_need_module(c, device, &j->set->s.step);
        }
        (void) pthread_mutex_lock(&c->lock);
        if (j->is_run) {
                argv[1] = "--run";
                argv[2] = device;
                argv[3] = NULL;
                (void) snprintf(device, sizeof(device), "%s%s", j->set->s.name[0] == '/' ? "" : "/dev/",
                                j->set->s.name);
        } else {
                (void) snprintf(device, sizeof(device), "%s", j->d->d.path);
        }
        (void) pthread_mutex_unlock(&c->lock);
        code = run_tool(c, argv, false, out, sizeof(out), text, sizeof(text));
        if (code == 0)
                blkup_cold_catch_up(c);
        (void) pthread_mutex_lock(&c->lock);
        if (is_wanted(j))
                take_md(j, code, out, text);
        end_job(j);
        (void) pthread_mutex_unlock(&c->lock);
        return 0;
}

static bool is_member(const struct blkup_cold_device *d, const char *type)
{
        return d->is_over && blkup_cold_is_here(d) && d->d.probe.state == BLKUP_COLDPLUG_DONE && d->d.type &&
               strcmp(d->d.type, type) == 0 && d->d.bar == BLKUP_COLDPLUG_MEMBER && !d->d.is_image;
}

/* mdadm would take the one that it is given first. One that came later has been told. */
static bool has_copy(struct blkup_coldplug *c, struct blkup_cold_set *set, const struct blkup_cold_device *d)
{
        char why[512];

        for (size_t i = 0; i < c->n_devices; i++) {
                const struct blkup_cold_device *o = c->devices[i];

                if (o == d || o->is_aside || !is_member(o, "linux_raid_member") || !blkup_cold_is_copy(o, d))
                        continue;
                if (!o->is_taken) {
                        (void) snprintf(
                                why, sizeof(why),
                                "%s and %s are the same member %s: refused, one may be a copy of the other",
                                d->index < o->index ? d->d.path : o->d.path,
                                d->index < o->index ? o->d.path : d->d.path, d->uuid_sub);
                        blkup_cold_fail_set(c, set, BLKUP_COLDPLUG_REFUSED, -ENOTUNIQ, why);
                }
                return true;
        }
        return false;
}

static void add_md(struct blkup_coldplug *c, struct blkup_cold_device *d)
{
        struct blkup_cold_set *set = d->d.uuid ? blkup_cold_get_set(c, BLKUP_COLDPLUG_MD, d->d.uuid) : NULL;

        if (set && has_copy(c, set, d))
                return; /* looked at again when something goes */
        d->is_taken = true;
        if (!set)
                return;
        blkup_cold_renew_set(c, set, d);
        if (c->hibernation && !c->s.ignore_hibernation) {
                blkup_cold_fail_set(
                        c, set, BLKUP_COLDPLUG_REFUSED, -EPERM,
                        "a hibernation image is attached: an array that starts may write to its members");
                return;
        }
        (void) start_job(c, &(struct blkup_cold_job){ .set = set, .d = d, .crypt = SIZE_MAX },
                         blkup_cold_device_ns(c), run_md);
}

/* ---- LVM ---- */

/* The level of an array, for its module: the kernel would ask its modprobe for it, which waits for every
 * silent disk. Superblocks 1.1, 1.2 and 1.0, then 0.90 (include/uapi/linux/raid/md_p.h); what they hold is
 * checked by who assembles. INT32_MIN: not to be told. */
static int32_t read_level(struct blkup_block *b)
{
        uint64_t size = b->info.size_bytes;
        const struct {
                uint64_t at;
                size_t level;
        } places[] = {
                { 4096, 72 },
                { 0, 72 },
                { (size & ~UINT64_C(0xfff)) - 8192, 72 },
                { (size & ~UINT64_C(0xffff)) - 65536, 28 },
        };

        for (size_t i = 0; size >= 131072 && i < BLKUP_ARRAY_SIZE(places); i++) {
                uint8_t bytes[512];
                struct blkup_bytes sb = { .data = bytes, .len = sizeof(bytes) };
                struct blkup_block_request q = { .at = places[i].at, .len = sizeof(bytes), .to = bytes };
                uint32_t magic = 0, level = 0;

                if (blkup_block_read(b, &q, 1) >= 0 && q.done_bytes == sizeof(bytes) &&
                    blkup_get_le32(sb, 0, &magic) && magic == 0xa92b4efc &&
                    blkup_get_le32(sb, places[i].level, &level))
                        return (int32_t) level;
        }
        return INT32_MIN;
}

void blkup_cold_read_member(struct blkup_cold_device *d, bool is_md)
{
        struct blkup_coldplug *c = d->run;
        BLKUP_CLEANUP_BLOCK struct blkup_block *b = NULL;
        struct blkup_lvm_text *t = NULL;
        int r = c->ops.open ? c->ops.open(c->ops.to, d->d.path, &b, NULL)
                            : blkup_block_open(d->d.path, NULL, &b, NULL);

        if (r == 0 && is_md) {
                int32_t level = read_level(b);

                (void) pthread_mutex_lock(&c->lock);
                d->md_level = level;
                (void) pthread_mutex_unlock(&c->lock);
                return;
        }
        if (r == 0)
                r = blkup_lvm_text_read(b, &t);
        (void) pthread_mutex_lock(&c->lock);
        if (r == 0 && !d->lvm && !d->is_over)
                d->lvm = t;
        else
                (void) blkup_lvm_text_free(t);
        (void) pthread_mutex_unlock(&c->lock);
}

/* As libudev's udev_queue_get_udev_is_active() asks. */
static bool is_udev_here(const struct blkup_coldplug *c)
{
        char path[4096];

        return snprintf(path, sizeof(path), "%s/run/udev/control", c->root ? c->root : "") <
                       (int) sizeof(path) &&
               access(path, F_OK) == 0;
}

static int run_lvm(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg, struct blkup_error *err)
{
        struct blkup_cold_job *j = arg;
        struct blkup_coldplug *c = j->run;
        BLKUP_CLEANUP_FREE const char **argv = calloc(MAX_ARGUMENTS, sizeof(*argv));
        BLKUP_CLEANUP_FREE struct blkup_cold_device **held =
                calloc(MAX_ARGUMENTS, sizeof(struct blkup_cold_device *));
        char text[256] = "", why[512], name[128] = "";
        bool has_udev = is_udev_here(c);
        size_t n = 0, n_held = 0;
        int code = -ENOMEM;

        (void) p;
        (void) node;
        (void) worker;
        (void) err;
        blkup_cold_need_module(c, "dm_mod", &j->set->s.step);
        (void) pthread_mutex_lock(&c->lock);
        if (argv && held) {
                /* -aay: what lvm.conf allows to be activated by itself. Only the members are looked at, so
                 * that another device's silence is not ours; nobody waits for udev. */
                static const char *const words[] = {
                        "lvm", "vgchange", "-aay", "--noudevsync", "--config",
                        /* LVM makes its nodes itself, which it leaves to udev's rules otherwise */
                        "activation { udev_rules=0 verify_udev_operations=1 }"
                };

                for (size_t i = 0; i < BLKUP_ARRAY_SIZE(words) - (has_udev ? 2 : 0); i++)
                        argv[n++] = words[i];
                for (size_t i = 0; i < c->n_devices && n + 4 < MAX_ARGUMENTS; i++) {
                        const struct blkup_cold_device *d = c->devices[i];

                        if (is_member(d, "LVM2_member") && d->is_taken && d->lvm_set == j->set) {
                                argv[n++] = "--devices";
                                argv[n++] = d->d.path;
                                blkup_cold_hold(held[n_held++] = c->devices[i]);
                        }
                }
                (void) snprintf(name, sizeof(name), "%s", j->set->s.name);
                argv[n] = name;
        }
        (void) pthread_mutex_unlock(&c->lock);
        if (n > 0)
                code = run_tool(c, argv, false, NULL, 0, text, sizeof(text));
        for (size_t i = 0; i < n_held; i++)
                blkup_cold_let_go(held[i]);
        if (code == 0)
                blkup_cold_catch_up(c);
        (void) pthread_mutex_lock(&c->lock);
        if (is_wanted(j)) {
                if (code == 0) {
                        blkup_cold_succeed(j->set);
                        blkup_cold_tell(c, BLKUP_COLDPLUG_EVENT_SET, SIZE_MAX, SIZE_MAX, j->set->s.name,
                                        NULL);
                } else {
                        say_tool(why, sizeof(why), "lvm", code, text);
                        blkup_cold_fail_set(c, j->set, BLKUP_COLDPLUG_FAILED, code < 0 ? code : -EIO, why);
                }
        }
        end_job(j);
        (void) pthread_mutex_unlock(&c->lock);
        return 0;
}

/* The newest metadata of a group: a volume that was away while the group changed has an older one. */
static const struct blkup_lvm_text *newest(const struct blkup_coldplug *c, const char *vg_uuid)
{
        const struct blkup_lvm_text *best = NULL;

        for (size_t i = 0; i < c->n_devices; i++) {
                const struct blkup_cold_device *d = c->devices[i];

                if (d->lvm && is_member(d, "LVM2_member") && strcmp(d->lvm->vg_uuid, vg_uuid) == 0 &&
                    (!best || d->lvm->seqno > best->seqno))
                        best = d->lvm;
        }
        return best;
}

/* How many of the volumes are there; *ret_twin: two devices are the same one. */
static size_t count_pvs(struct blkup_coldplug *c, const struct blkup_lvm_text *t, struct blkup_cold_set *set,
                        const struct blkup_cold_device *ret_twins[2])
{
        size_t found = 0;

        for (size_t i = 0; i < t->n_pvs; i++) {
                struct blkup_cold_device *first = NULL;

                for (size_t k = 0; k < c->n_devices; k++) {
                        struct blkup_cold_device *d = c->devices[k];

                        if (!is_member(d, "LVM2_member") || !d->d.uuid ||
                            strcmp(d->d.uuid, t->pv_uuids[i]) != 0)
                                continue;
                        if (first) {
                                ret_twins[0] = first;
                                ret_twins[1] = d;
                        }
                        d->lvm_set = set;
                        d->is_taken = true;
                        first = d;
                }
                found += first != NULL;
        }
        return found;
}

static void add_lvm(struct blkup_coldplug *c, const struct blkup_cold_device *d)
{
        const struct blkup_lvm_text *t = newest(c, d->lvm->vg_uuid);
        struct blkup_cold_set *set = t ? blkup_cold_get_set(c, BLKUP_COLDPLUG_LVM, t->vg_uuid) : NULL;
        const struct blkup_cold_device *twins[2] = { NULL, NULL };
        char why[512];

        if (!set || set->is_begun)
                return;
        blkup_cold_renew_set(c, set, d);
        if (!set->s.name)
                blkup_cold_name_set(set, t->vg_name);
        set->s.n_expected = t->n_pvs;
        set->s.n_members = count_pvs(c, t, set, twins);
        for (size_t i = 0; i < c->n_devices; i++)
                if (c->devices[i]->is_aside && c->devices[i]->lvm_set == set)
                        return; /* it will be here again, when it is known what is on it */
        if (twins[0]) {
                (void) snprintf(
                        why, sizeof(why),
                        "%s and %s are the same physical volume %s: refused, one may be a copy of the other",
                        twins[0]->d.path, twins[1]->d.path, twins[0]->d.uuid);
                blkup_cold_fail_set(c, set, BLKUP_COLDPLUG_REFUSED, -ENOTUNIQ, why);
                return;
        }
        for (size_t i = 0; i < c->n_sets; i++)
                if (c->sets[i] != set && c->sets[i]->s.kind == BLKUP_COLDPLUG_LVM && c->sets[i]->s.name &&
                    set->s.name && strcmp(c->sets[i]->s.name, set->s.name) == 0) {
                        blkup_cold_fail_set(c, set, BLKUP_COLDPLUG_REFUSED, -ENOTUNIQ,
                                            "two volume groups have this name");
                        return;
                }
        if (set->s.n_members < t->n_pvs || !set->s.name)
                return;
        if (c->hibernation && !c->s.ignore_hibernation) {
                blkup_cold_fail_set(
                        c, set, BLKUP_COLDPLUG_REFUSED, -EPERM,
                        "a hibernation image is attached: nothing is activated before it is resumed");
                return;
        }
        set->is_begun = true;
        (void) start_job(c, &(struct blkup_cold_job){ .set = set, .crypt = SIZE_MAX },
                         3 * blkup_cold_device_ns(c), run_lvm);
}

/* ---- LUKS ---- */

/* Is the mapping there already? A device under that name is whoever's made it first. NULL: no. */
static const struct blkup_cold_device *find_mapping(const struct blkup_coldplug *c, const char *name)
{
        for (size_t i = 0; i < c->n_devices; i++)
                if (blkup_cold_is_here(c->devices[i]) && c->devices[i]->dm_name &&
                    strcmp(c->devices[i]->dm_name, name) == 0)
                        return c->devices[i];
        return NULL;
}

/* One whose disk was pulled stays, and answers each request with an error. */
bool blkup_cold_stands_on(const struct blkup_coldplug *c, const struct blkup_cold_device *mapping,
                          const struct blkup_cold_device *d, bool is_so)
{
        char path[4096];
        struct stat st;
        int n = snprintf(path, sizeof(path), "%s/sys/dev/block/%u:%u/holders", c->root ? c->root : "",
                         d->d.dev_major, d->d.dev_minor);

        if (n >= (int) sizeof(path) - 64 || stat(path, &st) < 0)
                return is_so;
        (void) snprintf(path + n, sizeof(path) - (size_t) n, "/%.48s", mapping->d.path + strlen("/dev/"));
        return stat(path, &st) == 0;
}

/* What the line says that cryptsetup shall read is there; what it asks for otherwise is its own concern. */
static bool has_file(const struct blkup_coldplug *c, const char *file)
{
        char path[4096];

        if (!file || file[0] != '/' ||
            snprintf(path, sizeof(path), "%s%s", c->root ? c->root : "", file) >= (int) sizeof(path))
                return true;
        return access(path, F_OK) == 0 || errno != ENOENT;
}

static int run_luks(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg, struct blkup_error *err)
{
        struct blkup_cold_job *j = arg;
        struct blkup_coldplug *c = j->run;
        const struct blkup_crypttab_line none = { 0 },
                                         *l = j->crypt == SIZE_MAX ? &none : &c->s.crypttab->lines[j->crypt];
        const char *argv[24] = { "cryptsetup", "open", "--type", "luks" };
        char offset[64], size[64], text[256] = "", why[512], name[128];
        const char *lacks = !has_file(c, l->key) ? l->key : !has_file(c, l->header) ? l->header : NULL;
        size_t n = 4;
        int code = -ENOENT;

        (void) p;
        (void) node;
        (void) worker;
        (void) err;
        if (l->is_read_only)
                argv[n++] = "--readonly";
        if (l->allows_discards)
                argv[n++] = "--allow-discards";
        if (l->header) {
                argv[n++] = "--header";
                argv[n++] = l->header;
        }
        if (l->key) {
                argv[n++] = "--batch-mode";
                argv[n++] = "--key-file";
                argv[n++] = l->key;
        }
        if (l->key && l->key_offset) {
                (void) snprintf(offset, sizeof(offset), "--keyfile-offset=%llu",
                                (unsigned long long) l->key_offset);
                argv[n++] = offset;
        }
        if (l->key && l->key_size) {
                (void) snprintf(size, sizeof(size), "--keyfile-size=%llu", (unsigned long long) l->key_size);
                argv[n++] = size;
        }
        (void) pthread_mutex_lock(&c->lock);
        (void) snprintf(name, sizeof(name), "%s", j->set->s.name);
        (void) pthread_mutex_unlock(&c->lock);
        argv[n++] = j->d->d.path;
        argv[n] = name;
        if (lacks)
                goto end;
        blkup_cold_need_module(c, "dm_crypt", &j->set->s.step);
        /* What cryptsetup's usual cipher needs (aes-xts-plain64); for another the kernel asks its modprobe.
         */
        blkup_cold_need_module(c, "crypto-xts", &j->set->s.step);
        blkup_cold_need_module(c, "crypto-ecb", &j->set->s.step);
        blkup_cold_need_module(c, "crypto-aes", &j->set->s.step);
        if (!l->key) {
                uint64_t since = blkup_now_ns();

                (void) pthread_mutex_lock(&c->terminal);
                (void) pthread_mutex_lock(&c->lock);
                blkup_cold_note_wait(&j->set->s.step, since, "the answer to another question", "");
                (void) pthread_mutex_unlock(&c->lock);
        }
        code = run_tool(c, argv, !l->key, NULL, 0, text, sizeof(text));
        if (!l->key)
                (void) pthread_mutex_unlock(&c->terminal);
        if (code == 0)
                blkup_cold_catch_up(c);
end:
        (void) pthread_mutex_lock(&c->lock);
        if (is_wanted(j)) {
                if (lacks) {
                        /* Somebody may still mount what it lies on. */
                        j->set->lacks_key = true;
                        j->set->is_begun = j->d->is_taken = false;
                        (void) snprintf(why, sizeof(why), "%s is not there", lacks);
                        blkup_cold_fail_set(c, j->set, BLKUP_COLDPLUG_FAILED, -ENOENT, why);
                } else if (code == 0) {
                        blkup_cold_succeed(j->set);
                        j->set->s.n_members = 1;
                        blkup_cold_tell(c, BLKUP_COLDPLUG_EVENT_SET, SIZE_MAX, SIZE_MAX, j->set->s.name,
                                        NULL);
                } else {
                        say_tool(why, sizeof(why), "cryptsetup", code, text);
                        blkup_cold_fail_set(c, j->set, BLKUP_COLDPLUG_FAILED, code < 0 ? code : -EIO, why);
                }
        }
        end_job(j);
        (void) pthread_mutex_unlock(&c->lock);
        return 0;
}

static void unlock(struct blkup_coldplug *c, struct blkup_cold_device *d, size_t crypt, const char *name)
{
        struct blkup_cold_set *set = d->d.uuid ? blkup_cold_get_set(c, BLKUP_COLDPLUG_LUKS, d->d.uuid) : NULL;
        const char *key = crypt == SIZE_MAX ? NULL : c->s.crypttab->lines[crypt].key;
        const struct blkup_cold_device *mapping = find_mapping(c, name);
        char why[512];

        if (!set)
                return;
        blkup_cold_renew_set(c, set, d);
        if (set->is_begun || (set->lacks_key && set->n_causes == c->n_causes))
                return;
        blkup_cold_name_set(set, name);
        set->s.n_expected = 1;
        if (mapping && !blkup_cold_stands_on(c, mapping, d, true)) {
                (void) snprintf(
                        why, sizeof(why),
                        "%s is there already, on a device that is gone or another one: close it first",
                        mapping->d.path);
                blkup_cold_fail_set(c, set, BLKUP_COLDPLUG_REFUSED, -EEXIST, why);
                return;
        }
        if (mapping) {
                d->is_taken = set->is_begun = true;
                blkup_cold_succeed(set);
                set->s.n_members = 1;
                set->s.step.state = BLKUP_COLDPLUG_ALREADY;
                return;
        }
        for (size_t i = 0; i < c->n_devices; i++)
                if (c->devices[i] != d && is_member(c->devices[i], "crypto_LUKS") && c->devices[i]->d.uuid &&
                    strcasecmp(c->devices[i]->d.uuid, d->d.uuid) == 0) {
                        (void) snprintf(
                                why, sizeof(why),
                                "%s and %s carry the same UUID: refused, one may be a copy of the other",
                                d->d.path, c->devices[i]->d.path);
                        blkup_cold_fail_set(c, set, BLKUP_COLDPLUG_REFUSED, -ENOTUNIQ, why);
                        return;
                }
        d->is_taken = set->is_begun = true;
        set->lacks_key = false;
        set->n_causes = c->n_causes;
        if (!key && !c->s.may_ask) {
                blkup_cold_fail_set(c, set, BLKUP_COLDPLUG_REFUSED, -ENOKEY,
                                    "no key file, and no terminal to ask at");
                return;
        }
        (void) start_job(c, &(struct blkup_cold_job){ .set = set, .d = d, .crypt = crypt }, key ? LUKS_NS : 0,
                         run_luks);
}

static void add_luks(struct blkup_coldplug *c, struct blkup_cold_device *d)
{
        for (size_t i = 0; c->s.crypttab && i < c->s.crypttab->n; i++) {
                const struct blkup_crypttab_line *l = &c->s.crypttab->lines[i];

                if (!l->is_noauto && blkup_cold_may_mean(c, d, l->source)) {
                        unlock(c, d, i, l->name);
                        return;
                }
        }
}

/* cryptsetup gives its mappings a UUID of CRYPT-LUKSn-, the volume's own without dashes, and the name. */
static bool is_mapping_of(const struct blkup_cold_device *m, const char *uuid)
{
        const char *at = m->dm_uuid;

        if (!at || strncmp(at, "CRYPT-LUKS", 10) != 0 || at[10] == '\0' || at[11] != '-')
                return false;
        at += 12;
        for (; *uuid; uuid++)
                if (*uuid != '-' && strncasecmp(at++, uuid, 1) != 0)
                        return false;
        return *at == '-';
}

size_t blkup_cold_behind(struct blkup_coldplug *c, size_t device)
{
        struct blkup_cold_device *d = c->devices[device];
        char name[128];

        if (!d->d.uuid || c->s.no_assembly)
                return BLKUP_COLDPLUG_NO_DEVICE;
        for (size_t i = 0; i < c->n_devices; i++)
                if (blkup_cold_is_here(c->devices[i]) && is_mapping_of(c->devices[i], d->d.uuid) &&
                    blkup_cold_stands_on(c, c->devices[i], d, true))
                        return i;
        if (!d->is_taken && is_member(d, "crypto_LUKS") && !c->s.dry_run) {
                (void) snprintf(name, sizeof(name), "luks-%s", d->d.uuid);
                unlock(c, d, SIZE_MAX, name);
        }
        return BLKUP_COLDPLUG_NO_DEVICE;
}

/* ---- btrfs ---- */

static int run_btrfs(struct blkup_pool *p, uint32_t node, unsigned worker, void *arg, struct blkup_error *err)
{
        struct blkup_cold_job *j = arg;
        struct blkup_coldplug *c = j->run;
        int r;

        (void) p;
        (void) node;
        (void) worker;
        (void) err;
        blkup_cold_need_fs(c, "btrfs", &j->set->s.step);
        r = c->ops.btrfs ? c->ops.btrfs(c->ops.to, j->d->d.path) : 1;
        (void) pthread_mutex_lock(&c->lock);
        if (is_wanted(j)) {
                j->set->s.n_members++;
                /* A kernel that cannot say so is asked by the mount. */
                if (r != 0 && !j->set->is_started) {
                        blkup_cold_succeed(j->set);
                        if (j->set->s.n_members > 1)
                                blkup_cold_tell(c, BLKUP_COLDPLUG_EVENT_SET, SIZE_MAX, SIZE_MAX,
                                                j->set->s.uuid, NULL);
                }
        }
        end_job(j);
        (void) pthread_mutex_unlock(&c->lock);
        return 0;
}

static void add_btrfs(struct blkup_coldplug *c, struct blkup_cold_device *d)
{
        struct blkup_cold_set *set =
                d->d.uuid ? blkup_cold_get_set(c, BLKUP_COLDPLUG_BTRFS, d->d.uuid) : NULL;

        d->is_taken = true;
        if (set)
                blkup_cold_renew_set(c, set, d);
        if (set)
                (void) start_job(c, &(struct blkup_cold_job){ .set = set, .d = d, .crypt = SIZE_MAX },
                                 blkup_cold_device_ns(c), run_btrfs);
}

bool blkup_cold_is_whole(struct blkup_coldplug *c, const struct blkup_cold_device *d)
{
        const struct blkup_cold_set *set;

        if (d->d.is_image || c->s.dry_run || !d->d.type || strcmp(d->d.type, "btrfs") != 0 || !d->d.uuid)
                return true;
        set = blkup_cold_find_set(c, BLKUP_COLDPLUG_BTRFS, d->d.uuid);
        return !set || set->is_started || set->s.step.state == BLKUP_COLDPLUG_TIMED_OUT;
}

/* ---- when ---- */

void blkup_cold_assemble(struct blkup_coldplug *c)
{
        blkup_cold_settle_again(c);
        if (c->s.n_images > 0 || c->s.dry_run || c->is_stopped || c->is_finished)
                return;
        for (size_t i = 0; i < c->n_devices; i++) {
                struct blkup_cold_device *d = c->devices[i];

                if (!d->is_over || d->is_gone || !d->d.type)
                        continue;
                /* Only told to the kernel, and of what may be mounted: nothing is to be waited for. */
                if (!d->is_taken && d->d.probe.state == BLKUP_COLDPLUG_DONE && !d->d.is_image &&
                    strcmp(d->d.type, "btrfs") == 0 &&
                    (d->d.bar == BLKUP_COLDPLUG_FREE || d->d.bar == BLKUP_COLDPLUG_READ_ONLY))
                        add_btrfs(c, d);
                if (!c->is_settled || c->s.no_assembly)
                        continue;
                if (d->lvm && is_member(d, "LVM2_member"))
                        add_lvm(c, d);
                else if (!d->is_taken && is_member(d, "linux_raid_member"))
                        add_md(c, d);
                else if (!d->is_taken && is_member(d, "crypto_LUKS"))
                        add_luks(c, d);
        }
}

void blkup_cold_assemble_due(struct blkup_coldplug *c, uint64_t now, uint64_t *next)
{
        for (struct blkup_cold_job *j = c->jobs; j; j = j->next) {
                if (j->is_over || j->until_ns == 0)
                        continue;
                if (j->until_ns <= now) {
                        blkup_cold_fail_set(c, j->set, BLKUP_COLDPLUG_TIMED_OUT, -ETIMEDOUT,
                                            "its tool does not end");
                        j->is_over = true;
                        blkup_cold_end_grace(c, j->set);
                        blkup_cold_work_over(c);
                } else if (j->until_ns < *next) {
                        *next = j->until_ns;
                }
        }
        for (size_t i = 0; i < c->n_sets; i++) {
                struct blkup_cold_set *set = c->sets[i];
                char why[256];

                if (!set->grace_until_ns || set->is_begun)
                        continue;
                if (set->s.step.state == BLKUP_COLDPLUG_REFUSED) {
                        blkup_cold_end_grace(c, set);
                        continue;
                }
                if (set->grace_until_ns > now) {
                        if (set->grace_until_ns < *next)
                                *next = set->grace_until_ns;
                        continue;
                }
                set->is_begun = true;
                if (!set->s.name) {
                        blkup_cold_end_grace(c, set);
                        continue;
                }
                (void) snprintf(why, sizeof(why),
                                "a member is still missing after %.1f s: started without it",
                                (double) (c->s.grace_ns ? c->s.grace_ns : USUAL_GRACE_NS) / 1e9);
                blkup_cold_say(&set->s.step, "%s", why);
                blkup_cold_tell(c, BLKUP_COLDPLUG_EVENT_WARNING, SIZE_MAX, SIZE_MAX, set->s.name, why);
                if (!start_job(c, &(struct blkup_cold_job){ .set = set, .crypt = SIZE_MAX, .is_run = true },
                               blkup_cold_device_ns(c), run_md))
                        blkup_cold_end_grace(c, set);
        }
}

void blkup_cold_close_sets(struct blkup_coldplug *c)
{
        for (size_t i = 0; i < c->n_sets; i++) {
                struct blkup_coldplug_set *s = &c->sets[i]->s;

                if (c->sets[i]->is_started || s->step.state != BLKUP_COLDPLUG_NOT_ASKED)
                        continue;
                s->step.state = BLKUP_COLDPLUG_LEFT;
                if (s->n_expected)
                        blkup_cold_say(&s->step, "%zu of %zu members are there", s->n_members, s->n_expected);
                else
                        blkup_cold_say(&s->step, "a member is missing: %zu are there", s->n_members);
        }
}
