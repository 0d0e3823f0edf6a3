/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From the first field of an fstab line to a device, a file, or a text of its own. */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/clock.h"
#include "mount/mounter.h"
#include "mount/names.h"

/* Events tell of most devices; a loop device that gets its file, or a medium, may come without one. */
#define LOOK_AGAIN_MS 50

bool blkup_mount_is_nodev_type(const char *type)
{
        static const char *const types[] = {
                "tmpfs",   "proc",     "sysfs",     "devtmpfs", "devpts",      "overlay",   "cgroup",
                "cgroup2", "ramfs",    "hugetlbfs", "mqueue",   "debugfs",     "tracefs",   "securityfs",
                "pstore",  "bpf",      "configfs",  "fusectl",  "binfmt_misc", "efivarfs",  "autofs",
                "9p",      "virtiofs", "nfs",       "nfs4",     "cifs",        "smb3",      "ceph",
                "afs",     "zfs",      "cpuset",    "nsfs",     "rpc_pipefs",  "selinuxfs", "none",
                "fuse",    "coda",
        };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(types); i++)
                if (types[i][0] == type[0] && strcmp(types[i], type) == 0)
                        return true;
        return strncmp(type, "fuse.", 5) == 0;
}

bool blkup_mount_is_read_only_type(const char *type)
{
        static const char *const types[] = { "iso9660", "squashfs", "erofs", "cramfs", "romfs" };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(types); i++)
                if (strcmp(types[i], type) == 0)
                        return true;
        return false;
}

bool blkup_mount_is_plain_type(const char *type)
{
        static const char *const types[] = {
                "ext4",     "ext3",      "ext2",     "xfs",         "btrfs",    "f2fs",       "squashfs",
                "erofs",    "vfat",      "msdos",    "exfat",       "iso9660",  "udf",        "tmpfs",
                "proc",     "sysfs",     "devtmpfs", "devpts",      "overlay",  "cgroup",     "cgroup2",
                "ramfs",    "hugetlbfs", "mqueue",   "debugfs",     "tracefs",  "securityfs", "pstore",
                "bpf",      "configfs",  "fusectl",  "binfmt_misc", "efivarfs", "9p",         "virtiofs",
                "bcachefs", "jfs",       "nilfs2",   "reiserfs",    "minix",    "cramfs",     "romfs",
                "hfs",      "hfsplus",   "ntfs3",
        };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(types); i++)
                if (types[i][0] == type[0] && strcmp(types[i], type) == 0)
                        return true;
        return false;
}

static bool is_nodev_list(const char *types)
{
        return types && !strchr(types, ',') && blkup_mount_is_nodev_type(types);
}

static int look_up_tag(struct blkup_mounter *m, const char *name, const char *value, bool fresh,
                       struct blkup_mount_source *ret, struct blkup_mount_result *r)
{
        const struct blkup_mount_resolver *resolver = m->settings.resolver;
        struct blkup_mount_device d = { .path = "" };
        struct blkup_error err = { 0 };
        int e;

        if (!resolver || !resolver->find)
                return -EOPNOTSUPP;
        e = resolver->find(resolver->to, name, value, fresh, &d, &err);
        if (r && (e == -ENOTUNIQ || (e == -ENOENT && *d.other_path))) {
                blkup_mount_copy(r->device, sizeof(r->device), d.path);
                blkup_mount_copy(r->other, sizeof(r->other), d.other_path);
        }
        if (e < 0)
                return e;
        blkup_mount_copy(ret->path, sizeof(ret->path), d.path);
        blkup_mount_copy(ret->type, sizeof(ret->type), d.type);
        return 0;
}

int blkup_mount_look_up_source(struct blkup_mounter *m, const char *source, const char *types, bool fresh,
                               struct blkup_mount_source *ret, struct blkup_mount_result *r)
{
        const char *name, *value;
        struct stat st;
        int e;

        /* By field: path alone is 4 KiB. */
        ret->kind = BLKUP_SOURCE_NODEV;
        ret->rdev = 0;
        ret->path[0] = ret->type[0] = '\0';
        if (strlen(source) >= sizeof(ret->path))
                return -ENAMETOOLONG;
        blkup_mount_copy(ret->path, sizeof(ret->path), source);
        if (is_nodev_list(types))
                return 0;
        if (blkup_mount_split_tag(source, &name, &value)) {
                e = look_up_tag(m, name, value, fresh, ret, r);
                if (e < 0)
                        return e;
        }
        if (stat(ret->path, &st) < 0) {
                /* "host:/share", "//server/share": the type's own business */
                if (ret->path[0] != '/' || ret->path[1] == '/')
                        return types && strcmp(types, "auto") != 0 && !blkup_mount_is_plain_type(types)
                                       ? 0
                                       : -errno;
                return -errno;
        }
        ret->rdev = S_ISBLK(st.st_mode) ? st.st_rdev : 0;
        ret->kind = S_ISBLK(st.st_mode)   ? BLKUP_SOURCE_BLOCK
                    : S_ISREG(st.st_mode) ? BLKUP_SOURCE_FILE
                                          : BLKUP_SOURCE_OTHER;
        return 0;
}

static int open_events(void)
{
        struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = 1 };
        int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);

        if (fd >= 0 && bind(fd, (const struct sockaddr *) &address, sizeof(address)) < 0)
                fd = blkup_close(fd);
        return fd;
}

/* Sleeps until something happened to a device, or for a short while. What the events say is not looked at:
 * anybody might send one, and all it does is that we look again. */
static void wait_for_change(int events, uint64_t until_ns)
{
        struct pollfd p = { .fd = events, .events = POLLIN };
        uint64_t now = blkup_now_ns();
        char buf[64];
        int ms = LOOK_AGAIN_MS;

        if (now >= until_ns)
                return;
        if (until_ns - now < LOOK_AGAIN_MS * UINT64_C(1000000))
                ms = (int) ((until_ns - now) / 1000000) + 1;
        (void) poll(&p, 1, ms);
        /* Ends: what has come by now is finite; others may send on, so at most 64 are taken at a time. */
        for (unsigned i = 0; i < 64 && recv(events, buf, sizeof(buf), 0) > 0; i++)
                ;
}

/* A loop device without its file, a drive without a disc: the node is there, and nothing behind it. */
static bool is_empty_device(const struct blkup_mount_source *s)
{
        int fd;
        off_t end;

        if (s->kind != BLKUP_SOURCE_BLOCK)
                return false;
        fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0)
                return errno == ENXIO || errno == ENOMEDIUM;
        end = lseek(fd, 0, SEEK_END);
        (void) blkup_close(fd);
        return end == 0;
}

static uint64_t deadline_of_run(struct blkup_mounter *m)
{
        uint64_t at;

        (void) pthread_mutex_lock(&m->lock);
        if (m->deadline_ns == 0)
                m->deadline_ns = blkup_now_ns() + m->settings.wait_ns;
        at = m->deadline_ns;
        (void) pthread_mutex_unlock(&m->lock);
        return at;
}

int blkup_mount_find_source(struct blkup_mount_attempt *a)
{
        struct blkup_mounter *m = a->m;
        uint64_t until = 0;
        int events = -1, e;
        bool waited = false;

        /* Ends: with the deadline. */
        for (;;) {
                e = blkup_mount_look_up_source(m, a->q->source, a->q->types, waited, &a->source, a->r);
                if (e == 0 && m->settings.wait_ns > 0 && is_empty_device(&a->source))
                        e = -ENXIO;
                if ((e != -ENOENT && e != -ENXIO) || m->settings.wait_ns == 0)
                        break;
                if (!waited) {
                        until = deadline_of_run(m);
                        events = open_events();
                        blkup_mount_step_begin(a->r, "wait");
                        waited = true;
                } else if (blkup_now_ns() >= until) {
                        a->r->reason = BLKUP_MOUNT_REASON_TIMEOUT;
                        break;
                } else {
                        wait_for_change(events, until);
                }
        }
        if (waited)
                blkup_mount_step_end(a->r);
        (void) blkup_close(events);
        if (e == -ENXIO && a->r->reason != BLKUP_MOUNT_REASON_TIMEOUT)
                e = 0; /* the kernel will say so */
        if (e == 0) {
                blkup_mount_copy(a->r->device, sizeof(a->r->device), a->source.path);
                if (a->source.kind == BLKUP_SOURCE_BLOCK) {
                        a->r->dev_major = major(a->source.rdev);
                        a->r->dev_minor = minor(a->source.rdev);
                }
                return 0;
        }
        if (e == -ENOTUNIQ)
                return blkup_mount_refuse(a, BLKUP_MOUNT_CALL_SOURCE, BLKUP_MOUNT_REASON_TWO_DEVICES, e);
        if (a->o.is_nofail && (e == -ENOENT || e == -ENXIO || e == -ENOMEDIUM)) {
                a->r->outcome = BLKUP_MOUNT_SKIPPED;
                a->r->call = BLKUP_MOUNT_CALL_SOURCE;
                a->r->error = e;
                return e;
        }
        if (a->r->reason == BLKUP_MOUNT_REASON_NONE && e == -ENOENT) {
                const char *name, *value;

                if (blkup_mount_split_tag(a->q->source, &name, &value))
                        a->r->reason = BLKUP_MOUNT_REASON_NO_TAG;
        }
        return blkup_mount_fail(a, BLKUP_MOUNT_CALL_SOURCE, e);
}
