/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "host/uevent.h"

#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <unistd.h>

#include "host/hostfile.h"

/* What udevd asks for as well is 128 MiB; 16 hold some twenty thousand events of block devices. */
#define USUAL_BYTES  (16 << 20)
#define KERNEL_GROUP 1u

static bool is_path(const char *s)
{
        /* Ends: at the NUL of s. */
        for (const char *part = s; part; part = strchr(part, '/')) {
                part += *part == '/';
                if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
                        return false;
        }
        return true;
}

static bool take_number(const char *value, uint64_t *ret)
{
        return blkup_host_number(value, strlen(value), ret);
}

/* One KEY=VALUE; what is not ours is passed over. false: a value that no kernel writes. */
static bool take_key(struct blkup_uevent *e, const char *key, const char *value, bool *has_major,
                     bool *has_minor)
{
        if (strcmp(key, "SUBSYSTEM") == 0) {
                e->subsystem = value;
        } else if (strcmp(key, "DEVNAME") == 0) {
                e->devname = value;
                return *value && *value != '/' && is_path(value);
        } else if (strcmp(key, "DEVTYPE") == 0) {
                e->devtype = value;
        } else if (strcmp(key, "MODALIAS") == 0) {
                e->modalias = value;
        } else if (strcmp(key, "MAJOR") == 0) {
                *has_major = true;
                return blkup_host_number32(value, strlen(value), &e->dev_major);
        } else if (strcmp(key, "MINOR") == 0) {
                *has_minor = true;
                return blkup_host_number32(value, strlen(value), &e->dev_minor);
        } else if (strcmp(key, "SEQNUM") == 0) {
                return take_number(value, &e->seqnum);
        } else if (strcmp(key, "DISKSEQ") == 0) {
                return take_number(value, &e->diskseq);
        } else if (strcmp(key, "DISK_MEDIA_CHANGE") == 0) {
                e->is_media_change = strcmp(value, "1") == 0;
        } else if (strcmp(key, "DEVPATH") == 0) {
                return strcmp(value, e->devpath) == 0;
        }
        return true;
}

int blkup_uevent_parse(struct blkup_uevent *e)
{
        static const char *const actions[] = { NULL, "add", "change", "remove" };
        char *at = e->bytes, *end = e->bytes + e->n, *sign;
        bool has_major = false, has_minor = false;
        unsigned keys = 0;

        if (e->n == 0 || e->n > BLKUP_UEVENT_MAX_BYTES || end[-1] != '\0')
                return -EBADMSG;
        e->action = BLKUP_UEVENT_OTHER;
        e->subsystem = e->devname = e->devtype = e->modalias = "";
        e->has_devno = e->is_media_change = false;
        e->dev_major = e->dev_minor = 0;
        e->seqnum = e->diskseq = 0;
        /* udev's own messages begin with "libudev" and a NUL. */
        sign = strchr(at, '@');
        if (!sign || sign == at || sign[1] != '/' || !is_path(sign + 1))
                return -EBADMSG;
        *sign = '\0';
        e->devpath = sign + 1;
        for (size_t i = 1; i < BLKUP_ARRAY_SIZE(actions); i++)
                if (strcmp(at, actions[i]) == 0)
                        e->action = (enum blkup_uevent_action) i;
        at = sign + 1 + strlen(sign + 1) + 1;
        /* Ends: each turn goes behind a NUL, and the last byte is one. */
        while (at < end) {
                char *value = strchr(at, '='), *next = at + strlen(at) + 1;

                if (!value || value == at || keys++ == BLKUP_UEVENT_MAX_KEYS)
                        return -EBADMSG;
                *value = '\0';
                if (!take_key(e, at, value + 1, &has_major, &has_minor))
                        return -EBADMSG;
                at = next;
        }
        e->has_devno = has_major && has_minor;
        return *e->subsystem ? 0 : -EBADMSG;
}

bool blkup_uevent_is_from_kernel(const struct msghdr *m)
{
        struct sockaddr_nl from = { 0 };
        struct ucred who = { .pid = -1, .uid = (uid_t) -1 };
        bool has = false;

        if (!m->msg_name || m->msg_namelen < sizeof(from))
                return false;
        memcpy(&from, m->msg_name, sizeof(from));
        if (from.nl_family != AF_NETLINK || from.nl_pid != 0 || from.nl_groups != KERNEL_GROUP)
                return false;
        /* Ends: CMSG_NXTHDR goes forward inside msg_controllen. */
        for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR((struct msghdr *) m, c)) {
                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS ||
                    c->cmsg_len < CMSG_LEN(sizeof(who)))
                        continue;
                memcpy(&who, CMSG_DATA(c), sizeof(who));
                has = true;
        }
        return has && who.pid == 0 && who.uid == 0;
}

int blkup_uevent_open(int receive_bytes, int *ret, struct blkup_error *err)
{
        struct sockaddr_nl here = { .nl_family = AF_NETLINK, .nl_groups = KERNEL_GROUP };
        int bytes = receive_bytes > 0 ? receive_bytes : USUAL_BYTES, on = 1, r;
        BLKUP_CLEANUP_CLOSE int fd =
                socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);

        if (fd < 0)
                return blkup_fail_errno(err, -errno, "uevents: no socket");
        if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0)
                /* Without the right to it as much as there is. */
                (void) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
        if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
            bind(fd, (struct sockaddr *) &here, sizeof(here)) < 0) {
                r = -errno;
                return blkup_fail_errno(err, r, "uevents: cannot listen");
        }
        *ret = fd;
        fd = -1;
        return 0;
}

static bool is_pair(int fd)
{
        int domain = 0;
        socklen_t len = sizeof(domain);

        return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX;
}

int blkup_uevent_receive(int fd, struct blkup_uevent *e)
{
        struct sockaddr_nl from = { 0 };
        union {
                struct cmsghdr align;
                char bytes[256];
        } control;
        struct iovec to = { .iov_base = e->bytes, .iov_len = BLKUP_UEVENT_MAX_BYTES };
        struct msghdr m = {
                .msg_name = &from,
                .msg_namelen = sizeof(from),
                .msg_iov = &to,
                .msg_iovlen = 1,
                .msg_control = &control,
                .msg_controllen = sizeof(control),
        };
        ssize_t n;

        do
                n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        if (n == 0 && is_pair(fd))
                return -EPIPE;
        if (!blkup_uevent_is_from_kernel(&m) && !(m.msg_namelen == 0 && is_pair(fd)))
                return 0;
        /* One of the kernel's that is longer than any of its should be: something has happened there. */
        if (m.msg_flags & MSG_TRUNC)
                return -ENOBUFS;
        e->n = (size_t) n;
        e->bytes[n] = '\0';
        return blkup_uevent_parse(e) == 0;
}
