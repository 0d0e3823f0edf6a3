/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which devices do not answer the kernel? One that has been asked, and has answered nothing between two
 * looks.
 *
 *   - SCSI: iorequest_cnt and iodone_cnt of /sys/bus/scsi/devices/H:C:T:L, numbers with 0x (drivers/scsi/
 *     scsi_sysfs.c): also what is asked before there is a block device.
 *   - block: inflight and stat of /sys/block/NAME (Documentation/ABI/stable/sysfs-block).
 *   - NVMe: state of /sys/class/nvme/NAME, `live` once its controller has answered all that it is asked
 * first.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bringup/cold.h"
#include "host/hostfile.h"
#include "host/hostpool.h"

#define MAX_DEVICES 65536u

static void note(struct blkup_cold_silent *s, const char *name, uint64_t done)
{
        struct blkup_cold_asked *a;

        if (s->n == BLKUP_COLD_MAX_ASKED || strlen(name) >= sizeof(a->name))
                return;
        a = &s->asked[s->n++];
        (void) snprintf(a->name, sizeof(a->name), "%s", name);
        a->done = done;
}

static bool hex(int fd, const char *name, uint64_t *ret)
{
        char text[32], *end;

        if (blkup_host_attribute(fd, name, text, sizeof(text)) < 0)
                return false;
        *ret = strtoull(text, &end, 16);
        return end > text && *end == '\0';
}

/* /dev/sdX, or what SCSI calls it while it has no node. */
static void note_scsi(struct blkup_cold_silent *s, int fd, const char *name)
{
        BLKUP_CLEANUP_CLOSE int block = openat(fd, "block", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        uint64_t asked, done;
        struct blkup_host_pool pool = { 0 };
        const char *const *names;
        char text[64];
        size_t n = 0;

        if (!hex(fd, "iorequest_cnt", &asked) || !hex(fd, "iodone_cnt", &done) || asked <= done)
                return;
        if (block >= 0 && blkup_host_list(&pool, blkup_take_fd(&block), 16, &names, &n) == 0 && n > 0)
                (void) snprintf(text, sizeof(text), "/dev/%.50s", names[0]);
        else
                (void) snprintf(text, sizeof(text), "SCSI device %.40s", name);
        blkup_host_pool_free(&pool);
        note(s, text, done);
}

static void note_block(struct blkup_cold_silent *s, int fd, const char *name)
{
        uint64_t waiting[2], done[5]; /* done: reads, three others, writes */
        char text[256], path[64];

        if (faccessat(fd, "device", F_OK, 0) < 0 ||
            blkup_host_attribute(fd, "inflight", text, sizeof(text)) < 0 ||
            blkup_host_numbers(text, " ", waiting, 2) != 2 || waiting[0] + waiting[1] == 0 ||
            blkup_host_attribute(fd, "stat", text, sizeof(text)) < 0 ||
            blkup_host_numbers(text, " ", done, 5) != 5)
                return;
        (void) snprintf(path, sizeof(path), "/dev/%.50s", name);
        for (size_t i = 0; i < s->n; i++)
                if (strcmp(s->asked[i].name, path) == 0)
                        return; /* as SCSI has it */
        note(s, path, done[0] + done[4]);
}

static void note_nvme(struct blkup_cold_silent *s, int fd, const char *name)
{
        char state[32], path[64];

        if (blkup_host_attribute(fd, "state", state, sizeof(state)) < 0 || strcmp(state, "live") == 0 ||
            strcmp(state, "dead") == 0)
                return;
        (void) snprintf(path, sizeof(path), "/dev/%.50s", name);
        note(s, path, 0);
}

static void each(struct blkup_cold_silent *s, const char *root, const char *folder,
                 void (*look)(struct blkup_cold_silent *s, int fd, const char *name))
{
        struct blkup_host_pool pool = { 0 };
        const char *const *names;
        int fd = blkup_host_open(root, folder, O_RDONLY | O_DIRECTORY);
        size_t n = 0;

        if (fd >= 0 && blkup_host_list(&pool, fd, MAX_DEVICES, &names, &n) < 0)
                n = 0;
        for (size_t i = 0; i < n; i++) {
                char path[256];
                BLKUP_CLEANUP_CLOSE int device = -1;

                if (snprintf(path, sizeof(path), "%s/%s", folder, names[i]) >= (int) sizeof(path))
                        continue;
                device = blkup_host_open(root, path, O_RDONLY | O_DIRECTORY);
                if (device >= 0)
                        look(s, device, names[i]);
        }
        blkup_host_pool_free(&pool);
}

void blkup_cold_look_for_silent(const char *root, struct blkup_cold_silent *s)
{
        struct blkup_cold_silent before = *s;
        size_t at = 0;

        s->n = 0;
        each(s, root, "sys/bus/scsi/devices", note_scsi);
        each(s, root, "sys/block", note_block);
        each(s, root, "sys/class/nvme", note_nvme);
        *s->names = '\0';
        for (size_t i = 0; i < s->n; i++)
                for (size_t k = 0; k < before.n; k++)
                        if (strcmp(s->asked[i].name, before.asked[k].name) == 0 &&
                            s->asked[i].done == before.asked[k].done && at < sizeof(s->names)) {
                                at += (size_t) snprintf(s->names + at, sizeof(s->names) - at, "%s%s",
                                                        at > 0 ? ", " : "", s->asked[i].name);
                                break;
                        }
}
