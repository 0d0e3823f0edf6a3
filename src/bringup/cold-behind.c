/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A driver that probes in its start takes the devices of its bus in their order, and a silent one hides those
 * behind it. The kernel probes a device whose name is written to drivers_probe of its bus
 * (Documentation/ABI/testing/sysfs-bus-usb has the pair with drivers_autoprobe): so those get there.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <blkup/modules.h>

#include "bringup/cold.h"
#include "host/hostfile.h"
#include "host/hostpool.h"

#define MAX_BUSES   256u
#define MAX_DEVICES 65536u
/* Each takes a thread, for as long as its device is silent. */
#define MAX_PROBED  256u
#define STACK_BYTES ((size_t) 64 << 10)

struct probed {
        int fd; /* of drivers_probe */
        char name[];
};

static void *probe(void *arg)
{
        struct probed *p = arg;

        (void) !write(p->fd, p->name, strlen(p->name));
        (void) blkup_close(p->fd);
        free(p);
        return NULL;
}

/* In a thread of its own: who writes waits for the probe, and that may never end. */
static void start_probe(const char *root, const char *bus, const char *name)
{
        struct probed *p = malloc(sizeof(*p) + strlen(name) + 1);
        char path[256];
        pthread_attr_t attr;
        pthread_t thread;
        sigset_t all, before;
        int r = -1;

        if (!p)
                return;
        memcpy(p->name, name, strlen(name) + 1);
        (void) snprintf(path, sizeof(path), "sys/bus/%.100s/drivers_probe", bus);
        p->fd = blkup_host_open(root, path, O_WRONLY);
        if (p->fd >= 0 && pthread_attr_init(&attr) == 0) {
                (void) pthread_attr_setstacksize(&attr, STACK_BYTES);
                (void) pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
                /* The program's signals are for its own threads. */
                (void) sigfillset(&all);
                (void) pthread_sigmask(SIG_SETMASK, &all, &before);
                r = pthread_create(&thread, &attr, probe, p);
                (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
                (void) pthread_attr_destroy(&attr);
        }
        if (r != 0) {
                if (p->fd >= 0)
                        (void) blkup_close(p->fd);
                free(p);
        }
}

static int is_same(void *arg, const char *module)
{
        return blkup_host_is_same_name(module, arg) ? 1 : 0;
}

/* The devices of a bus that the module is meant for, and that have no driver. */
static void look_at_bus(struct blkup_coldplug *c, const char *bus, char *module, unsigned *n_probed)
{
        struct blkup_host_pool pool = { 0 };
        const char *const *names;
        char path[512], text[4096];
        BLKUP_CLEANUP_CLOSE int fd = -1;
        size_t n = 0;

        (void) snprintf(path, sizeof(path), "sys/bus/%.100s", bus);
        fd = blkup_host_open(c->root, path, O_RDONLY | O_DIRECTORY);
        if (fd < 0 || blkup_host_attribute(fd, "drivers_autoprobe", text, sizeof(text)) < 0 || *text != '1')
                return;
        fd = blkup_close(fd);
        (void) snprintf(path, sizeof(path), "sys/bus/%.100s/devices", bus);
        fd = blkup_host_open(c->root, path, O_RDONLY | O_DIRECTORY);
        if (fd < 0 || blkup_host_list(&pool, blkup_take_fd(&fd), MAX_DEVICES, &names, &n) < 0)
                n = 0;
        for (size_t i = 0; i < n && *n_probed < MAX_PROBED; i++) {
                BLKUP_CLEANUP_CLOSE int device = -1;

                (void) snprintf(path, sizeof(path), "sys/bus/%.100s/devices/%.255s", bus, names[i]);
                device = blkup_host_open(c->root, path, O_RDONLY | O_DIRECTORY);
                if (device < 0 || faccessat(device, "driver", F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
                    blkup_host_attribute(device, "modalias", text, sizeof(text)) < 0 ||
                    blkup_modules_resolve(c->modules, text, is_same, module) != 1)
                        continue;
                ++*n_probed;
                start_probe(c->root, bus, names[i]);
        }
        blkup_host_pool_free(&pool);
}

void blkup_cold_probe_behind(struct blkup_coldplug *c, char *module)
{
        struct blkup_host_pool pool = { 0 };
        const char *const *buses;
        int fd = blkup_host_open(c->root, "sys/bus", O_RDONLY | O_DIRECTORY);
        unsigned n_probed = 0;
        size_t n = 0;

        if (fd >= 0 && blkup_host_list(&pool, fd, MAX_BUSES, &buses, &n) < 0)
                n = 0;
        for (size_t i = 0; i < n; i++)
                look_at_bus(c, buses[i], module, &n_probed);
        blkup_host_pool_free(&pool);
}
