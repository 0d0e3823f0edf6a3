/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <linux/netlink.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/uevent.h"

#define TEXT(s) (s), sizeof(s) /* with the NUL behind the last pair */

static int parse(struct blkup_uevent *e, const char *bytes, size_t n)
{
        memset(e, 0x5a, sizeof(*e));
        assert_true(n <= BLKUP_UEVENT_MAX_BYTES);
        memcpy(e->bytes, bytes, n);
        e->n = n;
        return blkup_uevent_parse(e);
}

static const char disk[] = "add@/devices/pci0000:00/0000:00:05.0/virtio1/block/vda/vda1\0ACTION=add\0"
                           "DEVPATH=/devices/pci0000:00/0000:00:05.0/virtio1/block/vda/"
                           "vda1\0SUBSYSTEM=block\0MAJOR=254\0MINOR=1\0"
                           "DEVNAME=vda1\0DEVTYPE=partition\0DISKSEQ=7\0PARTN=1\0SEQNUM=1187";

static void what_the_kernel_writes(void **state)
{
        struct blkup_uevent e;

        (void) state;
        assert_int_equal(parse(&e, disk, sizeof(disk)), 0);
        assert_int_equal(e.action, BLKUP_UEVENT_ADD);
        assert_string_equal(e.devpath, "/devices/pci0000:00/0000:00:05.0/virtio1/block/vda/vda1");
        assert_string_equal(e.subsystem, "block");
        assert_string_equal(e.devname, "vda1");
        assert_string_equal(e.devtype, "partition");
        assert_string_equal(e.modalias, "");
        assert_true(e.has_devno);
        assert_int_equal(e.dev_major, 254);
        assert_int_equal(e.dev_minor, 1);
        assert_int_equal(e.seqnum, 1187);
        assert_int_equal(e.diskseq, 7);
        assert_false(e.is_media_change);

        assert_int_equal(parse(&e, TEXT("add@/devices/x\0SUBSYSTEM=pci\0MODALIAS=pci:v1=\0SEQNUM=2")), 0);
        assert_string_equal(e.modalias, "pci:v1=");
        assert_false(e.has_devno);
        assert_int_equal(parse(&e, TEXT("change@/devices/sr0\0SUBSYSTEM=block\0MAJOR=11\0MINOR=0\0"
                                        "DISK_MEDIA_CHANGE=1\0DEVNAME=sr0")),
                         0);
        assert_int_equal(e.action, BLKUP_UEVENT_CHANGE);
        assert_true(e.is_media_change);
        assert_int_equal(parse(&e, TEXT("remove@/d\0SUBSYSTEM=block")), 0);
        assert_int_equal(e.action, BLKUP_UEVENT_REMOVE);
        assert_int_equal(parse(&e, TEXT("bind@/d\0SUBSYSTEM=block")), 0);
        assert_int_equal(e.action, BLKUP_UEVENT_OTHER);
        assert_int_equal(parse(&e, TEXT("add@/d\0SUBSYSTEM=block\0DEVNAME=cciss/c0d0\0FUTURE=x=y")), 0);
        assert_string_equal(e.devname, "cciss/c0d0");
}

static void what_no_kernel_writes(void **state)
{
        static const struct {
                const char *bytes;
                size_t n;
        } bad[] = {
                { TEXT("") },
                { TEXT("libudev\0\xfe\xed\xca\xfe") },
                { TEXT("add/devices/x\0SUBSYSTEM=block") },
                { TEXT("@/devices/x\0SUBSYSTEM=block") },
                { TEXT("add@devices/x\0SUBSYSTEM=block") },
                { TEXT("add@/devices/../x\0SUBSYSTEM=block") },
                { TEXT("add@/..\0SUBSYSTEM=block") },
                { TEXT("add@/x") }, /* no subsystem */
                { TEXT("add@/x\0SUBSYSTEM=") },
                { TEXT("add@/x\0SUBSYSTEM=block\0DEVNAME=/etc/shadow") },
                { TEXT("add@/x\0SUBSYSTEM=block\0DEVNAME=") },
                { TEXT("add@/x\0SUBSYSTEM=block\0DEVNAME=../mem") },
                { TEXT("add@/x\0SUBSYSTEM=block\0DEVNAME=a/../mem") },
                { TEXT("add@/x\0SUBSYSTEM=block\0MAJOR=4294967296") },
                { TEXT("add@/x\0SUBSYSTEM=block\0MAJOR=-1") },
                { TEXT("add@/x\0SUBSYSTEM=block\0MINOR=1x") },
                { TEXT("add@/x\0SUBSYSTEM=block\0SEQNUM=99999999999999999999") },
                { TEXT("add@/x\0SUBSYSTEM=block\0DEVPATH=/y") },
                { TEXT("add@/x\0SUBSYSTEM=block\0no pair") },
                { TEXT("add@/x\0SUBSYSTEM=block\0=v") },
                { TEXT("add@/x\0SUBSYSTEM=block\0\0") },
                { "add@/x\0SUBSYSTEM=block", 22 }, /* the last NUL is not there */
                { disk, 10 },
        };
        struct blkup_uevent e;
        char many[BLKUP_UEVENT_MAX_BYTES];
        size_t n;

        (void) state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                if (parse(&e, bad[i].bytes, bad[i].n) != -EBADMSG)
                        fail_msg("message %zu was taken", i);
        }
        e.n = BLKUP_UEVENT_MAX_BYTES + 1;
        assert_int_equal(blkup_uevent_parse(&e), -EBADMSG);
        /* More pairs than the kernel has room for. */
        n = (size_t) snprintf(many, sizeof(many), "add@/x%cSUBSYSTEM=block", 0) + 1;
        for (unsigned i = 0; i < BLKUP_UEVENT_MAX_KEYS; i++)
                n += (size_t) snprintf(many + n, sizeof(many) - n, "K%u=v", i) + 1;
        assert_int_equal(parse(&e, many, n), -EBADMSG);
        /* Each length of a good one: an answer, and no byte behind it. */
        for (n = 0; n < sizeof(disk); n++)
                (void) !parse(&e, disk, n);
}

static void only_the_kernel(void **state)
{
        struct sockaddr_nl from = { .nl_family = AF_NETLINK, .nl_groups = 1 };
        struct ucred who = { .pid = 0, .uid = 0 };
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(sizeof(struct ucred))];
        } control = { 0 };
        struct msghdr m = {
                .msg_name = &from,
                .msg_namelen = sizeof(from),
                .msg_control = &control,
                .msg_controllen = sizeof(control),
        };
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);

        (void) state;
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_CREDENTIALS;
        c->cmsg_len = CMSG_LEN(sizeof(who));
        memcpy(CMSG_DATA(c), &who, sizeof(who));
        assert_true(blkup_uevent_is_from_kernel(&m));
        from.nl_pid = 1; /* a process */
        assert_false(blkup_uevent_is_from_kernel(&m));
        from.nl_pid = 0;
        from.nl_groups = 2; /* udev's group */
        assert_false(blkup_uevent_is_from_kernel(&m));
        from.nl_groups = 0; /* to us alone */
        assert_false(blkup_uevent_is_from_kernel(&m));
        from.nl_groups = 1;
        who.uid = 1000;
        memcpy(CMSG_DATA(c), &who, sizeof(who));
        assert_false(blkup_uevent_is_from_kernel(&m));
        who = (struct ucred){ .pid = 77 };
        memcpy(CMSG_DATA(c), &who, sizeof(who));
        assert_false(blkup_uevent_is_from_kernel(&m));
        who.pid = 0;
        memcpy(CMSG_DATA(c), &who, sizeof(who));
        assert_true(blkup_uevent_is_from_kernel(&m));
        c->cmsg_len = CMSG_LEN(4); /* cut off */
        assert_false(blkup_uevent_is_from_kernel(&m));
        m.msg_controllen = 0;
        assert_false(blkup_uevent_is_from_kernel(&m));
        m.msg_controllen = sizeof(control);
        c->cmsg_len = CMSG_LEN(sizeof(who));
        m.msg_namelen = 2;
        assert_false(blkup_uevent_is_from_kernel(&m));
}

/* A message that another process sends to our port is dropped, and nothing else happens. */
static void a_stranger(void **state)
{
        struct sockaddr_nl to = { .nl_family = AF_NETLINK };
        socklen_t len = sizeof(to);
        struct blkup_uevent e;
        int fd = -1, other, r;

        (void) state;
        r = blkup_uevent_open(0, &fd, NULL);
        if (r < 0) {
                print_message("no uevents here: %s\n", strerror(-r));
                skip();
        }
        assert_int_equal(getsockname(fd, (struct sockaddr *) &to, &len), 0);
        to.nl_groups = 0;
        other = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT);
        assert_true(other >= 0);
        if (sendto(other, disk, sizeof(disk), 0, (struct sockaddr *) &to, sizeof(to)) == sizeof(disk)) {
                /* What the kernel itself says meanwhile may stand before it. */
                r = 1;
                for (unsigned i = 0; r == 1 && i < 10000; i++)
                        r = blkup_uevent_receive(fd, &e);
                assert_int_equal(r, 0);
        }
        do
                r = blkup_uevent_receive(fd, &e);
        while (r == 1);
        assert_int_equal(r, -EAGAIN);
        (void) close(other);
        (void) close(fd);
}

static void a_pair(void **state)
{
        static char large[BLKUP_UEVENT_MAX_BYTES + 100];
        struct blkup_uevent e;
        int fds[2];

        (void) state;
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
        assert_int_equal(blkup_uevent_receive(fds[0], &e), -EAGAIN);
        assert_int_equal(send(fds[1], disk, sizeof(disk), 0), sizeof(disk));
        assert_int_equal(send(fds[1], "junk", 4, 0), 4);
        assert_int_equal(send(fds[1], large, sizeof(large), 0), sizeof(large));
        assert_int_equal(blkup_uevent_receive(fds[0], &e), 1);
        assert_string_equal(e.devname, "vda1");
        assert_int_equal(blkup_uevent_receive(fds[0], &e), 0);
        assert_int_equal(blkup_uevent_receive(fds[0], &e), -ENOBUFS);
        (void) close(fds[1]);
        assert_int_equal(blkup_uevent_receive(fds[0], &e), -EPIPE);
        (void) close(fds[0]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_the_kernel_writes),
                cmocka_unit_test(what_no_kernel_writes),
                cmocka_unit_test(only_the_kernel),
                cmocka_unit_test(a_stranger),
                cmocka_unit_test(a_pair),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
