/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What does the work outside of tests. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "bringup/cold.h"

static int machine_status(void *to, const char *path, struct blkup_lazyinit_status *ret,
                          struct blkup_error *err)
{
        (void) to;
        return blkup_lazyinit_status(path, ret, err);
}

static int machine_finish(void *to, const char *path, const struct blkup_lazyinit_options *o,
                          struct blkup_lazyinit_result *ret, struct blkup_error *err)
{
        (void) to;
        return blkup_lazyinit_run(path, o, ret, err);
}

/* By absolute path: nothing of what the caller's environment says counts. */
static int machine_check(void *to, const char *type, const char *path, char *text, size_t cap)
{
        char program[128], name[64];
        /* -a: repair what is safe to repair, ask nothing; every fsck.TYPE takes it (fsck(8)). */
        const char *argv[] = { program, "-a", path, NULL };
        int r = snprintf(name, sizeof(name), "fsck.%s", type) < (int) sizeof(name)
                        ? blkup_cold_find_tool(name, program, sizeof(program))
                        : -ENAMETOOLONG;

        (void) to;
        if (r < 0)
                return r;
        if (path[0] == '-')
                return -EINVAL; /* nobody's option */
        return blkup_cold_spawn(&(struct blkup_cold_tool){
                .program = program,
                .argv = argv,
                .is_to_end = true,
                .text = text,
                .cap = cap,
        });
}

static int machine_tool(void *to, const char *const *argv, bool may_ask, char *out, size_t out_cap,
                        char *text, size_t cap)
{
        char program[128];
        int r = blkup_cold_find_tool(argv[0], program, sizeof(program));

        (void) to;
        if (r < 0)
                return r;
        return blkup_cold_spawn(&(struct blkup_cold_tool){
                .program = program,
                .argv = argv,
                .has_terminal = may_ask,
                .out = out,
                .out_cap = out_cap,
                .text = text,
                .cap = cap,
        });
}

/* BTRFS_IOC_DEVICES_READY of linux/btrfs.h, which not every C library's folder has. */
struct btrfs_args {
        int64_t fd;
        char name[4088];
};
#define BTRFS_DEVICES_READY _IOR(0x94, 39, struct btrfs_args)

/* The kernel notes the member and says whether it knows all of them (fs/btrfs/super.c,
 * btrfs_control_ioctl()). */
static int machine_btrfs(void *to, const char *path)
{
        struct btrfs_args args = { 0 };
        BLKUP_CLEANUP_CLOSE int fd = open("/dev/btrfs-control", O_RDWR | O_CLOEXEC);
        int r;

        (void) to;
        if (fd < 0)
                return -errno;
        if (snprintf(args.name, sizeof(args.name), "%s", path) >= (int) sizeof(args.name))
                return -ENAMETOOLONG;
        r = ioctl(fd, (unsigned long) BTRFS_DEVICES_READY, &args);
        return r < 0 ? -errno : r == 0;
}

void blkup_cold_fill_ops(struct blkup_coldplug *c)
{
        if (c->s.ops)
                c->ops = *c->s.ops;
        if (!c->ops.status)
                c->ops.status = machine_status;
        if (!c->ops.finish)
                c->ops.finish = machine_finish;
        if (!c->ops.check)
                c->ops.check = machine_check;
        if (!c->ops.swap)
                c->ops.swap = blkup_cold_machine_swap;
        /* A machine made of files has neither tools nor a kernel. */
        if (!c->ops.tool && !c->s.root)
                c->ops.tool = machine_tool;
        if (!c->ops.btrfs && !c->s.root)
                c->ops.btrfs = machine_btrfs;
}
