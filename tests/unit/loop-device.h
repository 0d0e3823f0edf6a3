/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A loop device over a file of the test's own, gone when its descriptor is closed (autoclear). Needs root and
 * /dev/loop-control; a test that has neither says so and is skipped.
 */
#ifndef BLKUP_TESTS_LOOP_DEVICE_H
#define BLKUP_TESTS_LOOP_DEVICE_H

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct loop_device {
        int fd;
        char path[32];
};

/* 0, or a negative errno. */
static int loop_device_attach(const char *file, uint32_t sector_bytes, struct loop_device *ret)
{
        struct loop_config config = { .block_size = sector_bytes,
                                      .info = { .lo_flags = LO_FLAGS_AUTOCLEAR } };
        int control, backing, result = -EBUSY;

        control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
        if (control < 0)
                return -errno;
        backing = open(file, O_RDWR | O_CLOEXEC);
        if (backing < 0) {
                result = -errno;
                (void) close(control);
                return result;
        }
        config.fd = (uint32_t) backing;
        /* Somebody else may take the free one first. */
        for (int i = 0; i < 50 && result == -EBUSY; i++) {
                int n = ioctl(control, LOOP_CTL_GET_FREE);

                if (n < 0) {
                        result = -errno;
                        break;
                }
                (void) snprintf(ret->path, sizeof(ret->path), "/dev/loop%d", n);
                ret->fd = open(ret->path, O_RDWR | O_CLOEXEC);
                if (ret->fd < 0) {
                        result = -errno;
                        break;
                }
                if (ioctl(ret->fd, LOOP_CONFIGURE, &config) == 0) {
                        result = 0;
                } else {
                        result = -errno;
                        (void) close(ret->fd);
                }
        }
        (void) close(backing);
        (void) close(control);
        return result;
}

static void loop_device_detach(struct loop_device *d)
{
        (void) close(d->fd);
        d->fd = -1;
}

#endif
